"""The table on the device against the CPU: second gradients, writing forms, forward mode, vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_table import RANDOM, close, drawn, gradients, seeds_for, unique_parts

import tapegrad
from table import APIS, PURE, SAMPLED, call, draw, tensors_in
from tapegrad import autograd
from tapegrad.autograd import forward_ad
from tapegrad.core import devices
from tapegrad.core.base import wrap

pytestmark = pytest.mark.filterwarnings("ignore")
# These keep statistics of half precision in single, as PyTorch does on a GPU and not on the CPU.
STATISTICS = ("native_layer_norm", "native_batch_norm")
REFUSALS = (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError, AttributeError)


def is_random(name: str) -> bool:
    return name.rpartition(".")[2] in RANDOM


def both(name: str, index: int, run: Callable[[Any, Any, list[Any]], Any]) -> Any:
    """What `run(args, kwargs, tensors)` gives on the CPU and on the device; None if it refuses."""
    try:
        want = run(*drawn(name, index, False))
    except REFUSALS:
        return None
    args, kwargs, tensors = drawn(name, index, True)
    return (want, run(args, kwargs, tensors)) if tensors else None


def compare(found: Any, what: str) -> None:
    if found is None:
        return
    want, got = found
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
    if kind == "bfloat16":
        pytest.importorskip("ml_dtypes")
    dtype = getattr(tapegrad, kind)

    def run(index: int, move: bool) -> Any:
        def make(array: Any) -> Any:
            t: Any = wrap(array.astype(dtype.np) if array.dtype.kind == "f" else array)
            return t.cuda() if move else t

        args, kwargs, made = draw(name, index, make)
        return tensors_in(call(name, args, kwargs)) if made else None

    for index in samples(name):
        try:
            want = run(index, False)
        except REFUSALS:
            continue
        got = run(index, True)
        for g, w in zip(got or (), want or (), strict=True):
            assert g.shape == w.shape
            assert g.dtype == w.dtype or (name in STATISTICS and g.dtype == tapegrad.float32)
            if w.dtype == dtype:
                a, b = g.float().cpu().array, w.float().array
                np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-2, err_msg=name)
