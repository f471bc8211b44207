"""Public functions with a fast path in C (c/runtime/public_call.c) against their Python functions.

Both take every call: results, gradients, errors and what they tell about themselves are the same.
"""

import copy
import inspect
import pickle
import sys
import types
import warnings

import numpy as np
import pytest

import table
import tapegrad
from tapegrad.core.late_bound import HOST_KERNELS

native = pytest.mark.skipif(HOST_KERNELS.public_function is None, reason="no kernels in C")
ODD = (
    ((), {}),
    (("a",), {}),
    ((3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14), {}),
    ((None, None), {}),
    (([1.0], object()), {}),
)


def runs_general(function, call):
    """Whether a call runs the Python function of a public one."""
    found = []

    def watch(frame, event, _):
        if event == "call" and frame.f_code is function.general.__code__:
            found.append(frame)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return bool(found)


def outcome(function, args, kwargs):
    """What a call returns or raises, as values that can be compared."""
    tapegrad.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            return type(error), str(error), type(error.__context__), type(error.__cause__)
    given = [t for value in args for t in table.tensors_in(value)]
    made = table.tensors_in(result)
    numbers = [] if made else [repr(result)]
    state = [
        (t.dtype, t.stride(), t._version, type(t.grad_fn).__name__, t.requires_grad)
        for t in (*made, *given)
    ]
    arrays = [np.asarray(t.detach().resolve_conj().resolve_neg()._array) for t in (*made, *given)]
    return state, [a.tobytes() for a in arrays], [a.shape for a in arrays], numbers


def has_values(name):
    return not name.startswith(("empty", "new_empty", "_empty")) and "sparse" not in name


@native
@pytest.mark.parametrize("name", [n for n in table.SAMPLED if has_values(n)])
@pytest.mark.parametrize("form", ["function", "method", "in place"])
def test_fast_path_does_what_the_function_does(name, form):
    api = table.APIS[name]
    if form == "function":
        function = table.find(tapegrad, api)
    else:
        function = getattr(tapegrad.Tensor, name + "_" * (form == "in place"), None)
    if not isinstance(function, HOST_KERNELS.public_function):
        return
    for index in range(len(api.samples)):
        for make in (table.plain, table.leaf):
            both = []
            for each in (function, function.general):
                args, kwargs, _ = table.draw(name, index, make)
                both.append(outcome(each, args, kwargs))
            assert both[0] == both[1], index


@native
@pytest.mark.parametrize("name", table.SAMPLED)
def test_odd_arguments_are_refused_alike(name):
    api = table.APIS[name]
    for function in (
        table.find(tapegrad, api),
        getattr(tapegrad.Tensor, name, None),
        getattr(tapegrad.Tensor, name + "_", None),
    ):
        if isinstance(function, HOST_KERNELS.public_function):
            x = tapegrad.ones(2, 2)
            odd = [*ODD, ((x, "a"), {}), ((x,), {"nothing": 1}), ((x, x, x, x, x, x, x, x, x), {})]
            for args, kwargs in odd:
                found, expected = [
                    outcome(each, copy.deepcopy(args) if args != ODD[4][0] else args, kwargs)
                    for each in (function, function.general)
                ]
                if isinstance(found[0], type):
                    assert found == expected, (args, kwargs)


@native
def test_which_calls_are_short(fresh_process):
    x = tapegrad.randn(3, 3)
    short = {
        "exp": (tapegrad.exp, lambda: tapegrad.exp(x)),
        "add": (tapegrad.add, lambda: tapegrad.add(x, 1, alpha=2)),
        "sum": (tapegrad.sum, lambda: tapegrad.sum(x, dim=1, keepdim=True)),
        "x.sum": (tapegrad.Tensor.sum, lambda: x.sum(1)),
        "relu_": (tapegrad.Tensor.relu_, x.relu_),
        "clamp_": (tapegrad.Tensor.clamp_, lambda: x.clamp_(0, 1)),
        "zeros": (tapegrad.zeros, lambda: tapegrad.zeros(2, 2)),
        "out": (tapegrad.exp, lambda: tapegrad.exp(x, out=x)),
    }
    for name, (function, call) in short.items():
        assert not runs_general(function, call), name
    wide = tapegrad.zeros(3, 3, 2)[..., 0]
    general = {
        "another spelling": (tapegrad.sum, lambda: tapegrad.sum(x, axis=1)),
        "another out": (tapegrad.exp, lambda: tapegrad.exp(x, out=wide)),
        "a device": (tapegrad.zeros, lambda: tapegrad.zeros(2, device="cpu")),
        "too many": (tapegrad.exp, lambda: pytest.raises(TypeError, tapegrad.exp, x, x)),
    }
    for name, (function, call) in general.items():
        assert runs_general(function, call), name
    with tapegrad.autocast("cpu"):
        assert runs_general(tapegrad.matmul, lambda: tapegrad.matmul(x, x))
    assert not runs_general(tapegrad.matmul, lambda: tapegrad.matmul(x, x))


@native
def test_modes_are_asked():
    asked = []

    class Mode(tapegrad.overrides.TorchFunctionMode):
        def __torch_function__(self, function, kinds, args=(), kwargs=None):
            asked.append(function)
            return function(*args, **(kwargs or {}))

    x = tapegrad.ones(2)
    with Mode():
        tapegrad.exp(x)
        x.add(x)
        x.relu_()
    assert asked == [tapegrad.exp, tapegrad.Tensor.add, tapegrad.Tensor.relu_]


def test_they_look_like_functions():
    for function in (tapegrad.add, tapegrad.Tensor.add, tapegrad.Tensor.add_, tapegrad.exp):
        assert isinstance(function, types.FunctionType)
        assert inspect.isroutine(function)
        assert function.__doc__
        assert function.__module__ == "tapegrad"
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function
    assert list(inspect.signature(tapegrad.add).parameters) == ["input", "other", "alpha"]
    bound = tapegrad.ones(2).add
    assert bound.__name__ == "add"
    assert bound.__func__ is tapegrad.Tensor.add
    assert tapegrad.Tensor.add_.__qualname__ == "Tensor.add_"
    assert bound(1).tolist() == [2.0, 2.0]
