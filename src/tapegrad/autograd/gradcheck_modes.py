"""The comparisons of gradcheck, and their order: element by element, or in one combination."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg

from .. import dtypes
from ..core.base import TensorBase, as_array
from ..core.transforms.batched import batched, lift
from ..core.transforms.batched_random import NOT_ALLOWED
from ..core.transforms.opening import level_of
from ..core.warned import warn
from .api import grad
from .finite_differences import (
    as_tuple,
    central_difference,
    differ_by_more,
    directions,
    double_values,
    imaginary_part,
    is_inexact,
    is_varied,
    pulled_back,
    pushed_forward,
    real_part,
    rows_of,
    slopes,
    tangents,
    values_of,
    wirtinger,
    with_others_still,
)
from .gradcheck import GradcheckError
from .gradcheck_report import Finding, mismatch

NOT_REENTRANT = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
    "times gives different values, although analytical gradient matches numerical gradient."
    "The tolerance for nondeterminism was {}.\n"
    "  likely cause: backward draws random numbers, or changes something that it reads"
)
FAILED_BATCHED = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation.\n"
    "  likely cause: backward does something that cannot be mapped over a batch of gradients\n"
    "  or: pass check_batched_grad=False if nobody will"
)
FAILED_BATCHED_FORWARD = (
    "gradcheck failed while testing batched gradient computation with forward-mode AD.\n"
    "  likely cause: jvp does something that cannot be mapped over a batch of tangents\n"
    "  or: pass check_batched_forward_grad=False if nobody will"
)
NO_RANDOM = (
    "vmap: We do not yet support calling random operations inside of vmap. Please perform random "
    "operations outside of vmap as a workaround"
)
BATCH = 2  # gradients, or tangents, in a batch
SPARSE_OUTPUT = (
    "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the "
    "output of fn for gradcheck."
)
SEE_NOTES = (
    'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
)


@dataclasses.dataclass
class Options:
    """The arguments of gradcheck."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    undefined: bool
    dtypes: bool
    batched: bool
    batched_forward: bool
    forward: bool
    backward: bool
    fast: bool
    masked: bool


class Trial:
    """A function at one point: inputs that are varied, outputs, finite differences."""

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], options: Options) -> None:
        self.func = func
        self.args = args
        self.options = options
        self.inputs = [a for a in args if is_varied(a)]
        self.everything = as_tuple(func(*args))
        if any(isinstance(o, TensorBase) and is_sparse(o) for o in self.everything):
            raise ValueError(SPARSE_OUTPUT)
        # What finite differences move: all elements of a sparse input, unless it is a masked one.
        whole = not options.masked and not options.fast
        self.moved_args = tuple([with_all_elements(a) if whole else a for a in args])
        self.moved = [a for a in self.moved_args if is_varied(a)]
        self.places = [i for i, o in enumerate(self.everything) if o.requires_grad]
        self.outputs = [self.everything[i] for i in self.places]
        self._slopes: dict[tuple[int, complex], list[Any]] = {}

    def call(self) -> Any:
        return self.func(*self.moved_args)

    def chosen(self, values: list[Any]) -> list[Any]:
        """The values of the differentiable outputs, from one value per output."""
        return [values[i] for i in self.places]

    def slopes(self, index: int, direction: complex) -> list[Any]:
        """The finite differences of all outputs in one input, computed once."""
        key = (index, direction)
        if key not in self._slopes:
            t = self.moved[index]
            self._slopes[key] = slopes(self.call, self.everything, t, direction, self.options.eps)
        return self._slopes[key]

    def numeric(self, output: int, index: int, part: Callable[[Any], Any]) -> Any:
        """The gradient that backward should find for the real or imaginary part of an output."""
        axes = directions(self.inputs[index])
        return wirtinger([self.slopes(index, d)[self.places[output]] for d in axes], part)


def is_sparse(t: Any) -> bool:
    return t.layout is not tg.strided


def with_all_elements(a: Any) -> Any:
    """A sparse tensor that stores its zeros too; anything else as it is."""
    if not is_varied(a) or not is_sparse(a):
        return a
    ones = tg.ones(a.shape, dtype=a.dtype).to_sparse(a.sparse_dim() if a.is_sparse else None)
    full = a.detach().to_dense().sparse_mask(ones.coalesce())
    return (full if a.is_sparse else full.to_sparse(layout=a.layout)).requires_grad_()


def compared_parts(tensors: Any) -> tuple[str, ...]:
    """The parts of complex numbers are compared one after the other."""
    return ("imaginary", "real") if any(t.is_complex() for t in tensors) else ("",)


def check_gradients(func: Callable[..., Any], inputs: Any, options: Options) -> None:
    """Run all comparisons of gradcheck; raises at the first that fails."""
    args = as_tuple(inputs)
    check_inputs(args)
    trial = Trial(func, args, options)
    if not trial.outputs:
        check_no_slope(trial)
        return
    compare_backward = fast_backward if options.fast else slow_backward
    compare_forward = fast_forward if options.fast else slow_forward
    if options.backward:
        for part in compared_parts(trial.outputs):
            compare_backward(trial, part)
    if options.forward:
        for part in compared_parts(trial.inputs):
            compare_forward(trial, part)
        if options.undefined:
            check_undefined_tangents(trial)
    if options.batched_forward:
        check_batched_forward(trial)
    if not options.backward:
        return
    for i, output in enumerate(trial.outputs):
        if options.batched:
            check_batched_backward(trial.inputs, output, i)
    check_zero_gradient(trial)
    if options.undefined:
        check_undefined_gradients(trial)


def check_inputs(args: tuple[Any, ...]) -> None:
    found = False
    for i, t in enumerate(args):
        if not (isinstance(t, TensorBase) and t.requires_grad):  # type: ignore[attr-defined]
            continue
        found = True
        if t._array.dtype not in (np.float64, np.complex128):
            warn(
                f"Input #{i} requires gradient and is not a double precision floating point or "
                "complex. This check will likely fail if all the inputs are not of double "
                "precision floating point or complex. ",
            )
        if is_sparse(t):
            continue
        if any(s == 0 and n > 1 for s, n in zip(t._array.strides, t._array.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs "
                "that are non-overlapping to be able to compute the numerical gradients "
                "correctly. You should call .contiguous on the input before passing it to "
                "gradcheck."
            )
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )


def check_no_slope(trial: Trial) -> None:
    """Outputs that claim to be constant must not move."""
    for index, t in enumerate(trial.inputs):
        for d in directions(t):
            if any(bool((double_values(m) != 0).any()) for m in trial.slopes(index, d)):
                raise GradcheckError("Numerical gradient for function expected to be zero")


# ---------------------------------------------------------------------- element by element


def parts_of(trial: Trial, part: str) -> tuple[list[int], Callable[[Any], Any], complex]:
    """The outputs to look at, which part of them, and the gradient that picks that part."""
    if part == "imaginary":
        chosen = [i for i, o in enumerate(trial.outputs) if o.is_complex()]
        return chosen, imaginary_part, 1j
    return list(range(len(trial.outputs))), real_part, 1.0


def slow_backward(trial: Trial, part: str) -> None:
    chosen, take, seed = parts_of(trial, part)
    for i in chosen:
        analytic = checked_pullback(trial, trial.outputs[i], seed)
        for j in range(len(trial.inputs)):
            numeric = trial.numeric(i, j, take)
            compare(Finding(trial, i, j, part, False), numeric, analytic[j])


def checked_pullback(trial: Trial, output: Any, seed: complex) -> list[Any]:
    """The Jacobians of one output by backward, computed twice to see whether it is reentrant."""
    options = trial.options
    first, sizes, dtypes = pulled_back(output, trial.inputs, seed)
    second, _, _ = pulled_back(output, trial.inputs, seed)
    if options.dtypes and not dtypes:
        raise GradcheckError("Gradient has dtype mismatch")
    if not sizes:
        raise GradcheckError("Analytical gradient has incorrect size")
    if differ_by_more(first, second, options.nondet_tol):
        raise GradcheckError(NOT_REENTRANT.format(options.nondet_tol))
    return first


def slow_forward(trial: Trial, part: str) -> None:
    for j, t in enumerate(trial.inputs):
        if part == "imaginary" and not t.is_complex():
            continue
        direction = 1j if part == "imaginary" else 1.0
        found, dtypes = pushed_forward(trial.func, trial.args, trial.everything, t, direction)
        if trial.options.dtypes and not dtypes:
            raise GradcheckError("Forward AD gradient has dtype mismatch.")
        numeric = trial.chosen(trial.slopes(j, direction))
        for i, analytic in enumerate(trial.chosen(found)):
            compare(Finding(trial, i, j, part, True), numeric[i], analytic)


def compare(finding: Finding, numeric: Any, analytic: Any) -> None:
    options = finding.trial.options
    if not close(double_values(analytic), double_values(numeric), options.rtol, options.atol).all():
        raise mismatch(finding, numeric, analytic, None)


def close(a: Any, b: Any, rtol: float, atol: float) -> Any:
    """Elementwise: as near as torch.allclose wants it."""
    with np.errstate(all="ignore"):
        return (a == b) | (np.isfinite(b) & (np.abs(a - b) <= atol + rtol * np.abs(b)))


# ---------------------------------------------------------------------- one combination


def random_like(t: Any, generator: np.random.Generator) -> Any:
    """A random tensor of length 1, with positive parts, in the shape and dtype of `t`."""
    values = generator.random(t.shape)
    if t.is_complex():
        values = values + 1j * generator.random(t.shape)
    length = np.sqrt((np.abs(values) ** 2).sum())
    return tg.as_tensor(values / (length if length else 1.0), dtype=t.dtype, device=t.device)


def where_stored(u: Any, t: Any) -> Any:
    """`u` with zeros where the sparse tensor `t` has no elements."""
    if not is_sparse(t):
        return u
    kept = tg.zeros(t.numel(), dtype=u.dtype)
    rows = tg.tensor(rows_of(t), dtype=tg.int64)
    kept[rows] = u.reshape(-1)[rows]
    return kept.reshape(t.shape)


def moved_along(trial: Trial, t: Any, u: Any) -> list[Any]:
    """The finite differences of the differentiable outputs along `u`."""
    step = u._array if t.layout is tg.strided else u._array.reshape(-1)[rows_of(t)]
    array = values_of(t)
    step = step.reshape(array.shape) * trial.options.eps
    return trial.chosen(central_difference(trial.call, array, ..., step, trial.options.eps))


def looser(atol: float, *vectors: Any) -> float:
    """The tolerance of a sum of elements weighted by `vectors` that may each be off by `atol`."""
    for v in vectors:
        atol *= float(np.abs(double_values(v)).sum())
    return atol


def fast_backward(trial: Trial, part: str) -> None:
    """Compare v J u for random u and v: the slope of a combination of outputs along one line."""
    options = trial.options
    generator = np.random.default_rng(0)
    us = [where_stored(random_like(t, generator), t) for t in trial.inputs]
    along = [moved_along(trial, t, u) for t, u in zip(trial.inputs, us, strict=True)]
    chosen, take, seed = parts_of(trial, part)
    vs = [random_like(take(trial.outputs[i].detach()), generator) for i in chosen]
    pulled = [vjp_checked(trial, i, v * seed) for i, v in zip(chosen, vs, strict=True)]
    for j, u in enumerate(us):
        for i, v, grads in zip(chosen, vs, pulled, strict=True):
            g = grads[j]
            numeric = float((double_values(take(along[j][i])) * double_values(v)).sum())
            analytic = (
                0.0 if g is None else float((double_values(g) * double_values(u).conj()).sum().real)
            )
            atol = looser(options.atol, u, v)
            if not close(np.float64(analytic), np.float64(numeric), options.rtol, atol):
                full, _, _ = pulled_back(trial.outputs[i], trial.inputs, seed)
                slow = trial.numeric(i, j, take), full[j]
                raise mismatch(Finding(trial, i, j, part, False), numeric, analytic, slow)


def vjp_checked(trial: Trial, index: int, v: Any) -> tuple[Any, ...]:
    """The gradients of an output with `v` coming in, computed twice as in `checked_pullback`."""
    output = trial.outputs[index]
    v = v.to(output.dtype)
    tolerance = trial.options.nondet_tol
    first: tuple[Any, ...] = grad(output, trial.inputs, v, retain_graph=True, allow_unused=True)
    second = grad(output, trial.inputs, v, retain_graph=True, allow_unused=True)
    if differ_by_more(known(first), known(second), tolerance):
        raise GradcheckError(NOT_REENTRANT.format(tolerance))
    return first


def known(grads: tuple[Any, ...]) -> list[Any]:
    return [g for g in grads if g is not None]


def fast_forward(trial: Trial, part: str) -> None:
    """Compare J u for a random u."""
    options = trial.options
    generator = np.random.default_rng(0)
    for j, t in enumerate(trial.inputs):
        if part == "imaginary" and not t.is_complex():
            continue
        direction = 1j if part == "imaginary" else 1.0
        weights = random_like(real_part(t.detach()), generator)
        u = (weights * direction).to(t.dtype)
        numeric = moved_along(trial, t, u)
        analytic = trial.chosen(
            tangents(trial.func, trial.args, with_others_still(trial.args, t, u))
        )
        atol = looser(options.atol, u)
        for i, (n, a) in enumerate(zip(numeric, analytic, strict=True)):
            a = tg.zeros_like(n) if a is None else a
            if not close(double_values(a), double_values(n), options.rtol, atol).all():
                found, _ = pushed_forward(trial.func, trial.args, trial.everything, t, direction)
                slow = trial.chosen(trial.slopes(j, direction))[i], trial.chosen(found)[i]
                raise mismatch(Finding(trial, i, j, part, True), n, a, slow)


# ---------------------------------------------------------------------- zero and missing gradients


def check_zero_gradient(trial: Trial) -> None:
    """Backward is linear: nothing in, nothing out."""
    zeros = [tg.zeros_like(o) for o in trial.outputs]
    grads = grad(trial.outputs, trial.inputs, zeros, retain_graph=True, allow_unused=True)
    for g, t in zip(grads, trial.inputs, strict=True):
        if g is None:
            continue
        if is_sparse(g) and g.layout is not t.layout:
            raise GradcheckError(f"grad is incorrect layout ({g.layout} is not {t.layout})")
        if g.is_sparse:
            for what, found, wanted in (
                ("sparse_dim", g.sparse_dim(), t.sparse_dim()),
                ("dense_dim", g.dense_dim(), t.dense_dim()),
            ):
                if found != wanted:
                    raise GradcheckError(
                        f"grad is sparse tensor, but has incorrect {what} {found}, expected "
                        f"{wanted}"
                    )
        if bool((double_values(g) != 0).any()):
            raise GradcheckError("backward not multiplied by grad_output")


def check_undefined_gradients(trial: Trial) -> None:
    """A Function must cope with outputs that no gradient comes back to.

    Only custom Functions and hooks of tensors are ever asked to; the rules of ops are not called.
    """
    ends = {o.grad_fn for o in trial.outputs if o.grad_fn is not None}
    for node in nodes_behind(ends):
        for hooks in node._hooks.tensor.values() if node._hooks is not None else ():
            for hook in hooks.values():
                undefined(hook)
    for node in functions_behind(ends):
        everything = frozenset(range(len(node._outputs)))
        choices = {everything}
        if node in ends:
            choices |= {frozenset({i}) for i in everything}
        for missing in choices:
            grads = [zeros_unless(i in missing, meta) for i, meta in enumerate(node._outputs)]
            check_answer(node, grads)


def nodes_behind(ends: set[Any]) -> list[Any]:
    """All nodes that backward gets to."""
    stack, seen = list(ends), set(ends)
    found = []
    while stack:
        node = stack.pop()
        found.append(node)
        behind = [n for n in node._edges if n is not None and n not in seen]
        seen.update(behind)
        stack += behind
    return found


def functions_behind(ends: set[Any]) -> list[Any]:
    """The nodes of custom Functions that backward gets to."""
    return [n for n in nodes_behind(ends) if n._op is None and n._outputs is not None]


def zeros_unless(missing: bool, meta: Any) -> Any:
    if missing or meta is None:
        return None
    shape, dtype = meta
    return tg.zeros(shape, dtype=dtypes.of(dtype))


def undefined(call: Callable[[Any], Any], missing: Any = None) -> Any:
    """Call a rule with gradients that are None; a RuntimeError becomes a GradcheckError."""
    try:
        return call(missing)
    except RuntimeError as error:
        warn_undefined()
        raise GradcheckError(
            "Expected backward function to handle undefined output grads. " + SEE_NOTES
        ) from error


def check_answer(node: Any, grads: list[Any]) -> None:
    found = undefined(lambda given: node._pull(given, False), grads)
    if any(g is not None and bool((as_array(g) != 0).any()) for g in found):
        warn_undefined()
        raise GradcheckError(
            "Expected all input grads to be undefined or zero when all output grads are undefined "
            "or zero. " + SEE_NOTES
        )


def warn_undefined() -> None:
    warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by "
        "default, but it may break existing callers of this function. If this is true for you, "
        'you can call this function with "check_undefined_grad=False" to disable the feature',
    )


def check_undefined_tangents(trial: Trial) -> None:
    """An input without tangent must count as one whose tangent is zero."""
    generator = np.random.default_rng(0)
    moving = {id(t): random_like(t, generator) for t in trial.inputs}
    for j, t in enumerate(trial.inputs):
        others = {key: u for key, u in moving.items() if key != id(t)}
        zeros = {**others, id(t): tg.zeros_like(t.detach())}
        with_zeros = trial.chosen(tangents(trial.func, trial.args, zeros))
        if not others:
            return
        without = trial.chosen(tangents(trial.func, trial.args, others))
        for i, (a, b) in enumerate(zip(without, with_zeros, strict=True)):
            a, b = [tg.zeros_like(trial.outputs[i]) if v is None else v for v in (a, b)]
            if not np.allclose(double_values(a), double_values(b), equal_nan=True):
                raise GradcheckError(
                    f"Mismatch in tangent values for output with index: {i} when input: {j} has an "
                    f"undefined tangent value.  Got: {a} but expected: {b}"
                )


# ---------------------------------------------------------------------- batches of gradients


def said(error: Exception) -> str:
    return NO_RANDOM if str(error) == NOT_ALLOWED else str(error)


def check_batched_backward(inputs: list[Any], output: Any, index: int) -> None:
    """Compare backward on a batch of gradients, run by vmap, with one pass per gradient."""
    generator = np.random.default_rng(0)
    vectors = [random_like(output.detach(), generator) for _ in range(BATCH)]
    rows = [grad(output, inputs, v, retain_graph=True, allow_unused=True) for v in vectors]
    try:
        found = grad(
            output,
            inputs,
            tg.stack(vectors),
            retain_graph=True,
            allow_unused=True,
            is_grads_batched=True,
        )
    except (RuntimeError, ValueError) as error:
        raise GradcheckError(
            f"While computing batched gradients, got: {said(error)}\n\n{FAILED_BATCHED}"
        ) from error
    for j, got in enumerate(found):
        check_batch(got, [row[j] for row in rows], index, j, FAILED_BATCHED)


def check_batched_forward(trial: Trial) -> None:
    """Compare forward mode on a batch of tangents, run by vmap, with one run per tangent."""
    generator = np.random.default_rng(0)
    for j, t in enumerate(trial.inputs):
        vectors = [random_like(t, generator) for _ in range(BATCH)]
        rows = [moved_outputs(trial, t, u) for u in vectors]
        try:
            with level_of("vmap", len(vectors)) as level:
                level.inside = True
                found = moved_outputs(trial, t, batched(tg.stack(vectors), level))
                stacked = [lift(g, level) for g in found]
        except (RuntimeError, ValueError) as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {said(error)}\n\n{FAILED_BATCHED_FORWARD}"
            ) from error
        for i, got in enumerate(stacked):
            check_batch(got, [row[i] for row in rows], i, j, FAILED_BATCHED_FORWARD)


def moved_outputs(trial: Trial, t: Any, direction: Any) -> list[Any]:
    """The tangents of the outputs as one input moves; zeros where there are none."""
    moving = with_others_still(trial.args, t, direction)
    found = trial.chosen(tangents(trial.func, trial.args, moving))
    pairs = zip(found, trial.outputs, strict=True)
    return [tg.zeros_like(o.detach()) if a is None else a for a, o in pairs]


def check_batch(got: Any, expected: list[Any], output: int, index: int, advice: str) -> None:
    if got is None and all(e is None for e in expected):
        return
    wanted = tg.stack([tg.zeros_like(got[0]) if e is None else e for e in expected])
    if not np.allclose(double_values(got), double_values(wanted), equal_nan=True):
        raise GradcheckError(
            f"\nFor output {output} and input {index}:\n\n{advice}\n\nGot:\n{got}\n\nExpected:\n"
            f"{wanted}"
        )


# ---------------------------------------------------------------------- gradgradcheck


def gradient_function(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any, scattered: bool
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The gradient of `func` as a function of its inputs and of the output gradients."""
    args = as_tuple(inputs)
    if grad_outputs is None:
        outputs = [o for o in as_tuple(func(*args)) if o.requires_grad]
        seeds = tuple([random_gradient(o, scattered) for o in outputs])
    else:
        seeds = as_tuple(grad_outputs)
    count = len(seeds)

    def gradient(*values: Any) -> tuple[Any, ...]:
        own, vectors = values[: len(values) - count], values[len(values) - count :]
        for given, value in zip(args, own, strict=True):
            if is_varied(given) and not value.requires_grad:  # forward mode asks without
                value.requires_grad_()
        outputs = [o for o in as_tuple(func(*own)) if o.requires_grad]
        varied = [a for a in own if is_varied(a)]
        found = grad(outputs, varied, vectors, create_graph=True, allow_unused=True)
        return tuple([g for g in found if g is not None])

    return gradient, args + seeds


def random_gradient(output: Any, scattered: bool) -> Any:
    dtype = output.dtype if is_inexact(output) else tg.float64
    return tg.testing.make_tensor(
        output.shape,
        dtype=dtype,
        device=output.device,
        low=-1,
        high=1,
        requires_grad=True,
        noncontiguous=scattered,
    )
