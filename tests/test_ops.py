"""The whole table of functions: gradients of both orders, forward mode, in-place, memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad
from table import APIS, PURE, SAMPLED, call, draw, leaf, plain, seed_of, tensors_in, watched
from tapegrad.autograd import forward_ad
from tapegrad.core.base import wrap
from tapegrad.diagnose._graph.values import by_rule

STEP = 1e-6
# Recorded, but backward raises; or the derivative is that of Hermitian changes and of losses that
# do not see the phases of eigenvectors: see test_spectral.py; or it is that of quantiles, which
# rejection sampling does not show: see test_distributions.py.
WITHOUT_DERIVATIVE = {
    "_dirichlet_grad",
    "_sample_dirichlet",
    "_standard_gamma",
    "_standard_gamma_grad",
    "floor_divide",
    "geqrf",
    "histogram",
    "histogramdd",
    "histogramdd_counts",
    "linalg.eig",
    "linalg.eigh",
    "linalg.eigvalsh",
    "linalg.ldl_factor",
    "linalg.ldl_factor_ex",
    "linalg.ldl_solve",
    "linalg_ldl_solve",
}
WITHOUT_DERIVATIVE_IN_PLACE = {"acosh", "arccosh", "asinh", "arcsinh", "atanh", "arctanh"}
WITHOUT_OUT = {"histogramdd"}
ALWAYS_DOUBLE = {"float_power"}
pytestmark = pytest.mark.filterwarnings("ignore")


def samples(name: str) -> range:
    return range(len(APIS[name].samples))


def weights(name: str, outs: list[Any]) -> list[Any]:
    """Fixed random arrays in the shapes of `outs`."""
    rng = np.random.default_rng(seed_of(name, -1))
    made = []
    for t in outs:
        w = rng.uniform(0.5, 1.5, t.shape)
        if t._array.dtype.kind == "c":
            w = w + 1j * rng.uniform(0.5, 1.5, t.shape)
        made.append(w.astype(t._array.dtype))
    return made


def float_outs(result: Any) -> list[Any]:
    return [t for t in tensors_in(result) if t._array.dtype.kind in "fc"]


def dot(ws: list[Any], xs: list[Any]) -> float:
    """The real inner product, summed over pairs of arrays."""
    return sum(float(np.sum(np.real(np.conj(w) * x))) for w, x in zip(ws, xs, strict=True))


def moved(name: str, index: int, ways: list[Any], by: float) -> tuple[Any, Any, Any]:
    """The arguments of a sample, its float tensors moved along `ways`."""
    queue = list(ways)

    def make(array: Any) -> Any:
        if array.dtype.kind not in "fc":
            return wrap(array)
        placed = np.empty_like(array)
        placed[...] = array + by * queue.pop(0)
        return leaf(placed)

    return draw(name, index, make)


def directions(name: str, made: list[Any]) -> list[Any]:
    rng = np.random.default_rng(seed_of(name, -2))
    floats = [t._array for t in made if t._array.dtype.kind in "fc"]
    return [rng.uniform(-1, 1, x.shape).astype(x.dtype) for x in floats]


def differentiable(name: str, index: int) -> tuple[list[Any], list[Any]] | None:
    """The leaves and float outputs of a sample, if a gradient connects them."""
    args, kwargs, made = draw(name, index, leaf)
    outs = [t for t in float_outs(call(name, args, kwargs)) if t.requires_grad]
    leaves = [t for t in made if t.requires_grad]
    return (leaves, outs) if outs and name not in WITHOUT_DERIVATIVE else None


def gradients(outs: list[Any], leaves: list[Any], seeds: list[Any], **options: Any) -> list[Any]:
    found = tapegrad.autograd.grad(outs, leaves, seeds, allow_unused=True, **options)
    return [wrap(np.zeros(t.shape)) if g is None else g for g, t in zip(found, leaves, strict=True)]


@pytest.mark.parametrize("name", PURE)
def test_first_gradients(name):
    for index in samples(name):
        found = differentiable(name, index)
        if found is None:
            continue
        leaves, outs = found
        seeds = weights(name, outs)
        got = gradients(outs, leaves, [wrap(w) for w in seeds])
        for g, t in zip(got, leaves, strict=True):
            assert g.shape == t.shape and g.dtype == t.dtype
        ways = directions(name, leaves)

        def value(by, index=index, ways=ways, seeds=seeds):
            args, kwargs, _ = moved(name, index, ways, by)
            outs = [t for t in float_outs(call(name, args, kwargs)) if t.requires_grad]
            return dot(seeds, [t._array for t in outs])

        expected = (value(STEP) - value(-STEP)) / (2 * STEP)
        if not np.isfinite(expected):
            continue  # an infinite value, such as the logsumexp of nothing, has no slope
        slope = dot(ways, [g._array for g in got])
        assert slope == pytest.approx(expected, rel=1e-4, abs=1e-6), f"sample {index}"


@pytest.mark.parametrize("name", PURE)
def test_second_gradients(name):
    for index in samples(name):
        found = differentiable(name, index)
        if found is None:
            continue
        leaves, outs = found
        seeds = [leaf(w) for w in weights(name, outs)]
        first = gradients(outs, leaves, seeds, create_graph=True)
        project = weights(name, first)
        ways, seed_ways = directions(name, leaves), directions(name, seeds)
        rooted = [(g, wrap(p)) for g, p in zip(first, project, strict=True) if g.requires_grad]
        slope = 0.0
        if rooted:
            second = gradients([g for g, _ in rooted], [*leaves, *seeds], [p for _, p in rooted])
            slope = dot([*ways, *seed_ways], [g._array for g in second])

        def value(by, index=index, ways=ways, seed_ways=seed_ways, seeds=seeds, project=project):
            args, kwargs, made = moved(name, index, ways, by)
            outs = [t for t in float_outs(call(name, args, kwargs)) if t.requires_grad]
            pulled = [wrap(s._array + by * w) for s, w in zip(seeds, seed_ways, strict=True)]
            got = gradients(outs, [t for t in made if t.requires_grad], pulled)
            return dot(project, [g._array for g in got])

        expected = (value(STEP) - value(-STEP)) / (2 * STEP)
        assert slope == pytest.approx(expected, rel=1e-4, abs=1e-6), f"sample {index}"


@pytest.mark.parametrize("name", PURE)
def test_forward_mode_is_the_transpose(name):
    """<u, J v> = <Jᵀ u, v>, for ops and composites alike."""
    for index in samples(name):
        found = differentiable(name, index)
        if found is None:
            continue
        leaves, outs = found
        seeds = weights(name, outs)
        ways = directions(name, leaves)
        got = gradients(outs, leaves, [wrap(w) for w in seeds])
        pulled = dot(ways, [g._array for g in got])
        assert pushed_forward(name, index, seeds, ways) == pytest.approx(
            pulled, rel=1e-9, abs=1e-9
        ), f"sample {index}"


def pushed_forward(name: str, index: int, seeds: list[Any], ways: list[Any]) -> float:
    """<u, J v> by forward mode."""
    queue = list(ways)
    with forward_ad.dual_level():

        def make(array: Any) -> Any:
            if array.dtype.kind not in "fc":
                return wrap(array)
            return forward_ad.make_dual(leaf(array), wrap(queue.pop(0)))

        args, kwargs, _ = draw(name, index, make)
        total = 0.0
        outs = [t for t in float_outs(call(name, args, kwargs)) if t.requires_grad]
        for out, seed in zip(outs, seeds, strict=True):
            tangent = forward_ad.unpack_dual(out).tangent
            if tangent is not None:
                assert tangent.shape == out.shape and tangent.dtype == out.dtype
                total += dot([seed], [tangent._array])
        return total


@pytest.mark.parametrize("name", [n for n in SAMPLED if APIS[n].inplace])
def test_in_place_form(name):
    for index in samples(name):
        args, kwargs, made = draw(name, index, plain)
        expected = call(name, args, kwargs)
        if not made or args[0] is not made[0] or expected.shape != made[0].shape:
            continue
        if expected.dtype != made[0].dtype:
            continue
        args, kwargs, made = draw(name, index, plain)
        tapegrad.manual_seed(0)
        result = getattr(args[0], name + "_")(*args[1:], **kwargs)
        assert result is made[0]
        np.testing.assert_array_equal(result._array, expected._array)
        assert result._version == 1
        if made[0]._array.dtype.kind == "f" and name not in WITHOUT_DERIVATIVE_IN_PLACE:
            same_gradient_in_place(name, index)


def same_gradient_in_place(name: str, index: int) -> None:
    found = differentiable(name, index)
    if found is None:
        return
    leaves, outs = found
    seeds = [wrap(w) for w in weights(name, outs)]
    expected = gradients(outs, leaves, seeds)
    args, kwargs, made = draw(name, index, leaf)
    tapegrad.manual_seed(0)
    result = getattr(args[0].clone(), name + "_")(*args[1:], **kwargs)
    got = gradients([result], [t for t in made if t.requires_grad], seeds)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g._array, e._array, rtol=1e-12)


WITH_OUT = [n for n in PURE if APIS[n].function and not n.startswith("nn.functional.")]


@pytest.mark.parametrize("name", WITH_OUT)
def test_out_argument(name):
    for index in samples(name):
        args, kwargs, _ = draw(name, index, plain)
        with watched() as runs:
            expected = call(name, args, kwargs)
        parts = tensors_in(expected)
        returned = [p for p in parts if any(p is a for a in args)]
        if not parts or returned or name in WITHOUT_OUT or any(run.op.view for run in runs):
            continue  # views and no-ops have no `out=`
        targets = [wrap(np.full(t.shape, 7).astype(t._array.dtype)) for t in parts]
        args, kwargs, _ = draw(name, index, plain)
        out = targets[0] if isinstance(expected, tapegrad.Tensor) else tuple(targets)
        call(name, args, {**kwargs, "out": out})
        for target, part in zip(targets, parts, strict=True):
            np.testing.assert_array_equal(target._array, part._array)


@pytest.mark.parametrize("name", [n for n in PURE if n not in ALWAYS_DOUBLE])
def test_precision_is_kept(name):
    narrow = {"float64": "float32", "complex128": "complex64"}
    for index in samples(name):
        if "dtype" in APIS[name].samples[index].kwargs:
            continue
        args, kwargs, _ = draw(name, index, plain)
        double = tensors_in(call(name, args, kwargs))
        args, kwargs, _ = draw(
            name, index, lambda a: wrap(a.astype(narrow.get(a.dtype.name, a.dtype)))
        )
        single = tensors_in(call(name, args, kwargs))
        for d, s in zip(double, single, strict=True):
            wide = d._array.dtype.name
            assert s._array.dtype.name == narrow.get(wide, wide), f"sample {index}"


@pytest.mark.parametrize("name", PURE)
def test_memory(name):
    """Inputs stay as they are, results are new, and gradients never alias what was saved."""
    for index in samples(name):
        args, kwargs, made = draw(name, index, leaf)
        before = [t._array.copy() for t in made]
        with watched() as runs:
            result = call(name, args, kwargs)
        for t, b in zip(made, before, strict=True):
            np.testing.assert_array_equal(t._array, b)
        looks = any(run.op.view for run in runs)
        for out in tensors_in(result):
            if not looks and not any(out is t for t in made):
                for t in made:
                    assert not np.shares_memory(out._array, t._array), f"sample {index}"
        check_saved(result)


def check_saved(result: Any) -> None:
    for out in tensors_in(result):
        node = out.grad_fn
        if node is None or node._op is None or node._kept is None or node._outputs is not None:
            continue
        if node._op.name in WITHOUT_DERIVATIVE:
            continue
        kept = [k for k in node._kept if type(k) is np.ndarray]
        before = [k.copy() for k in kept]
        seed = np.ones(out.shape, out._array.dtype)
        for g in node._pull(seed, False):
            if type(g) is np.ndarray:
                assert not any(np.shares_memory(g, k) for k in kept), "a saved value leaked"
        for k, b in zip(kept, before, strict=True):
            np.testing.assert_array_equal(k, b)
        assert (seed == 1).all(), "a rule wrote into its gradient"


@pytest.mark.parametrize("name", PURE)
def test_shape_rules(name):
    """What a block says about shapes, to diagnostics, is what its kernel makes of them."""
    for index in samples(name):
        args, kwargs, _ = draw(name, index, plain)
        with watched() as runs:
            call(name, args, kwargs)
        for run in runs:
            shapes = [getattr(x, "shape", None) for x in run.inputs]
            kept = (*run.inputs, *run.outs, *run.attrs)
            if run.op.variadic:
                kept = (*run.outs, *run.attrs)
            for about in run.op.shape_rules or ():
                found = by_rule(run.op, about, kept, shapes, run.outs[0].shape)
                place = None if about == "out" else run.op.tensors.index(about)
                assert found == (run.outs[0].shape if place is None else shapes[place])


class Watching(tapegrad.Tensor):
    """A subclass that is asked about every function, and does nothing else about it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        assert callable(func) and func.__name__
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("name", PURE)
def test_torch_function_of_a_subclass(name):
    for index in samples(name):
        args, kwargs, _ = draw(name, index, leaf)
        expected = tensors_in(call(name, args, kwargs))
        args, kwargs, _ = draw(name, index, lambda a: leaf(a).as_subclass(Watching))
        found = tensors_in(call(name, args, kwargs))
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_array_equal(f._array, e._array)
            assert (f.dtype, f.requires_grad) == (e.dtype, e.requires_grad)
