"""The table on the device against the CPU: second gradients, writing forms, forward mode, vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_table import RANDOM, close, drawn, gradients, seeds_for, unique_parts

import tapegrad
from table import APIS, PURE, SAMPLED, call, draw, tensors_in, watched
from tapegrad import autograd
from tapegrad.autograd import forward_ad
from tapegrad.core import devices
from tapegrad.core.base import wrap

pytestmark = pytest.mark.filterwarnings("ignore")
# These keep statistics of half precision in single, as PyTorch does on a GPU and not on the CPU.
STATISTICS = ("native_layer_norm", "native_batch_norm")
# PyTorch has these in half precision on a GPU alone.
HALF_ON_GPU = ("_standard_gamma_grad",)
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def is_random(name: str) -> bool:
    return name.rpartition(".")[2] in RANDOM


def outcome(run: Callable[..., Any], *args: Any) -> Any:
    """What a function gives, or what it raises."""
    try:
        return run(*args)
    except Exception as error:
        return error


def both(name: str, index: int, run: Callable[[Any, Any, list[Any]], Any]) -> Any:
    """What `run(args, kwargs, tensors)` gives, or raises, on the CPU and on the device."""
    want = outcome(run, *drawn(name, index, False))
    args, kwargs, tensors = drawn(name, index, True)
    return (want, outcome(run, args, kwargs, tensors)) if tensors else None


def same_refusal(got: Any, want: Any, what: str) -> bool:
    """Whether both devices refused, and in the same words; one of them alone may not."""
    if not isinstance(want, Exception):
        if isinstance(got, Exception):
            raise AssertionError(f"{what}: only the device refuses") from got
        return False
    assert type(got) is type(want), f"{what}: {want!r} on the CPU, {got!r} on the device"
    assert sentence(got).replace("_cuda", "_cpu") == sentence(want), what  # a kernel's name
    return True


def sentence(error: Exception) -> str:
    return str(error).partition("\n")[0]


def compare(found: Any, what: str) -> None:
    if found is None:
        return
    want, got = found
    if same_refusal(got, want, what):
        return
    assert len(got) == len(want), what
    for g, w in zip(got, want, strict=True):
        assert (g is None) == (w is None), what
        if g is not None:
            assert devices.is_device(g), f"{what} left the device"
            close(g, w, what)


def samples(name: str) -> range:
    return range(0 if is_random(name) else len(APIS[name].samples))


@pytest.mark.parametrize("name", PURE)
def test_second_gradients(name: str) -> None:
    def run(args: Any, kwargs: Any, tensors: list[Any]) -> list[Any]:
        leaves = [t for t in tensors if t.requires_grad]
        results = unique_parts(name, tensors_in(call(name, args, kwargs)))
        outs = [t for t in results if t.requires_grad]
        if not leaves or not outs:
            return []
        first = autograd.grad(outs, leaves, seeds_for(outs), create_graph=True, allow_unused=True)
        again = [g for g in first if g is not None and g.requires_grad]
        return [*first, *(gradients(again, leaves) if again else ())]

    for index in samples(name):
        compare(both(name, index, run), f"second gradients of {name}, sample {index}")


@pytest.mark.parametrize("name", [n for n in SAMPLED if APIS[n].inplace])
def test_in_place(name: str) -> None:
    def run(args: Any, kwargs: Any, tensors: list[Any]) -> list[Any]:
        leaves = [t for t in tensors if t.requires_grad]
        if not args or args[0] is not tensors[0]:
            return []
        first = args[0].clone()
        result = getattr(first, name + "_")(*args[1:], **kwargs)
        assert result is first and result._version == 1
        found = gradients([result], leaves) if result.requires_grad and leaves else ()
        return [result, *found]

    for index in samples(name):
        compare(both(name, index, run), f"{name}_, sample {index}")


@pytest.mark.parametrize("name", [n for n in PURE if APIS[n].function])
def test_out(name: str) -> None:
    def run(args: Any, kwargs: Any, tensors: list[Any]) -> list[Any]:
        with tapegrad.no_grad():
            parts = call(name, args, kwargs)
            each = tensors_in(parts)
            targets = [t.new_full((0,), 7) for t in each]
            out = targets[0] if isinstance(parts, tapegrad.Tensor) else tuple(targets)
            call(name, args, {**kwargs, "out": out})
            return unique_parts(name, targets)

    for index in samples(name):
        if "out" not in APIS[name].parameters:
            compare(both(name, index, run), f"{name}(out=), sample {index}")


@pytest.mark.parametrize("name", PURE)
def test_forward_mode(name: str) -> None:
    def run(args: Any, kwargs: Any, tensors: list[Any]) -> list[Any]:
        with forward_ad.dual_level():
            duals = {id(t): dual(t) for t in tensors}
            args = [swapped(a, duals) for a in args]
            kwargs = {k: swapped(v, duals) for k, v in kwargs.items()}
            outs = unique_parts(name, tensors_in(call(name, args, kwargs)))
            return [forward_ad.unpack_dual(out).tangent for out in outs]

    for index in samples(name):
        compare(both(name, index, run), f"forward mode of {name}, sample {index}")


def dual(t: Any) -> Any:
    if not (t.is_floating_point() or t.is_complex()):
        return t
    return forward_ad.make_dual(t.detach(), seeds_for([t])[0])


def swapped(value: Any, instead: dict[int, Any]) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)([swapped(v, instead) for v in value])
    return instead.get(id(value), value)


@pytest.mark.parametrize("name", PURE)
def test_vmap(name: str) -> None:
    def run(args: Any, kwargs: Any, tensors: list[Any]) -> list[Any]:
        floats = [t.detach() for t in tensors if t.is_floating_point() or t.is_complex()]
        stacks = [tapegrad.stack([t, t * 0.97, t * 1.02]) for t in floats]

        def each(*parts: Any) -> Any:
            queue = list(parts)
            instead = {
                id(t): queue.pop(0) for t in tensors if t.is_floating_point() or t.is_complex()
            }
            own = [swapped(a, instead) for a in args]
            named = {k: swapped(v, instead) for k, v in kwargs.items()}
            return tuple(unique_parts(name, tensors_in(call(name, own, named))))

        return list(tapegrad.func.vmap(each)(*stacks)) if stacks else []

    for index in samples(name):
        compare(both(name, index, run), f"vmap of {name}, sample {index}")


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", PURE)
def test_half(name: str, kind: str) -> None:
    dtype = getattr(tapegrad, kind)
    ops = 0  # that the last call ran on the CPU

    def run(index: int, move: bool) -> Any:
        nonlocal ops

        def make(array: Any) -> Any:
            t: Any = wrap(array.astype(dtype.np) if array.dtype.kind == "f" else array)
            return t.cuda() if move else t

        args, kwargs, made = draw(name, index, make)
        if not made:
            return None
        with watched() as runs:
            found = tensors_in(call(name, args, kwargs))
        ops = ops if move else len(runs)
        return found

    for index in samples(name):
        want, got = outcome(run, index, False), outcome(run, index, True)
        if name in HALF_ON_GPU and isinstance(want, NotImplementedError):
            assert all(g.dtype == dtype for g in got)
            continue
        if got is None or same_refusal(got, want, f"{name} in {kind}, sample {index}"):
            continue
        for g, w in zip(got, want, strict=True):
            assert g.shape == w.shape
            assert g.dtype == w.dtype or (name in STATISTICS and g.dtype == tapegrad.float32)
            wide = tapegrad.complex128 if w.is_complex() else tapegrad.float64
            a, b = g.cpu().to(wide)._array, w.to(wide)._array
            # Both compute in single precision and round once in each op: after one op they are a
            # unit in the last place apart, of the largest number where terms cancel; after several
            # as many units.
            largest = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
            inexact = w.is_floating_point() or w.is_complex()
            limit = max(ops, 1) * EPSILON[kind] * largest if inexact else 0.0
            np.testing.assert_allclose(a, b, rtol=0, atol=limit, err_msg=name)
