"""autograd.Function in forward mode and in the transforms of `func`.

An application goes down the open levels, innermost first. A vmap level asks for the Function's own
`vmap`, or makes a Function of whole batches from it (function_batches.py). Any other level asks the
level below for the values, and then is one step of the tape and of forward mode: the Function's own
`backward` and `jvp` are what is differentiated there, whatever computed the values.

The tape lives on physical tensors. So the node of a Function that saw batched ones knows, for every
argument and output, at which levels (`Places`), and shows its backward batched ones again.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, NamedTuple

import numpy as np

from ..core.base import TensorBase, as_array, next_seq, user_frame, wrap
from ..core.devices import xp_of
from ..core.lazy_conj import plain
from ..core.modes import MODES, grad_set_to
from ..core.transforms.batched import (
    above,
    batched,
    grounded,
    has_batched,
    lift,
    physical_array,
    physical_at,
)
from ..core.transforms.dual import attach, begin, current, stripped, tangent_of, unshared
from ..core.transforms.levels import STACK, Level
from ..core.transforms.opening import forward_set_to, level_of, shown
from ..core.transforms.series import restore, strip
from ..utils import _pytree as pytree
from . import view_history
from .function import (
    BackwardFunction,
    Function,
    alias,
    apply_function,
    bound,
    call_backward,
    check_dirty,
    finished,
    run_forward,
    set_history,
    write_back,
)
from .grad_mode import no_grad
from .starts import edge_of

NOTES = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
TWO_RETURNS = (
    "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree "
    "structure compatible with the output. "
)


class VmapInfo(NamedTuple):
    """The batch size and randomness that a `vmap` staticmethod is told."""

    batch_size: int
    randomness: str


# ---------------------------------------------------------------------- down the levels


def apply_in_levels(cls: Any, args: tuple[Any, ...]) -> Any:
    """`Function.apply` while transforms are running."""
    if not STACK.transforms():
        if not has_batched(args):
            return apply_function(cls, args)
        level = current()
        if level is not None and not any([moves_at(a, level) for a in args]):
            level = None
        return one_step(cls._backward_cls(), cls, args, level, forward_on_batches(cls, args))
    return at_levels(cls, args, STACK.levels)


def forward_on_batches(cls: Any, args: tuple[Any, ...]) -> Any:
    """Run `forward` on batched tensors themselves, as for is_grads_batched=True."""

    def values(ctx: Any) -> Any:
        with no_grad(), forward_set_to(False):
            return run_forward(ctx, cls, args)

    return values


def at_levels(cls: Any, args: tuple[Any, ...], levels: list[Level]) -> Any:
    """Apply a Function with only these levels open."""
    with shown(levels):
        if not levels:
            return apply_function(cls, bound(cls.forward, args, {})[0], in_levels=True)
        level, rest = levels[-1], levels[:-1]
        if level.kind == "vmap":
            return over_batch(cls, args, level, rest)
        return at_one_level(cls, args, level, rest)


# ---------------------------------------------------------------------- vmap


def over_batch(cls: Any, args: tuple[Any, ...], level: Level, rest: list[Level]) -> Any:
    has_rule = cls.vmap is not Function.vmap
    if cls.generate_vmap_rule and has_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and "
            "an overridden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
            f"overridden vmap staticmethod to avoid ambiguity. {NOTES}"
        )
    if not cls.generate_vmap_rule and not has_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please "
            "override and implement the vmap staticmethod or set generate_vmap_rule=True. "
            f"{NOTES}"
        )
    physical, dims = taken_out(args, level)
    if all([dim is None for dim in pytree.tree_leaves(dims)]):
        return at_levels(cls, args, rest)
    if cls.generate_vmap_rule:
        from .function_batches import Batches

        batches = Batches(cls, dims, level.size, level.randomness)
        out = at_levels(batches.function(), physical, rest)
        return put_in(out, batches.out_dims, level)
    with shown(rest):
        found = cls.vmap(VmapInfo(level.size, level.randomness), dims, *physical)
    if not isinstance(found, tuple):
        raise RuntimeError(f"{TWO_RETURNS}Got a {type(found)} instead")
    if len(found) != 2:
        raise RuntimeError(f"{TWO_RETURNS}Got {len(found)} returns instead")
    return same_inputs(put_in(*found, level), found[0], physical, args)


def taken_out(tree: Any, level: Level) -> tuple[Any, Any]:
    """Physical tensors, and per leaf the dimension of the batch (0) or None."""
    flat, spec = pytree.tree_flatten(tree)
    pairs = [physical_at(x, level) for x in flat]
    dims = [0 if found else None for _, found in pairs]
    return pytree.tree_unflatten([p for p, _ in pairs], spec), pytree.tree_unflatten(dims, spec)


def put_in(tree: Any, dims: Any, level: Level) -> Any:
    """Physical tensors as batched ones, where there is a dimension of the batch."""
    flat, spec = pytree.tree_flatten(tree)
    flat_dims = pytree._broadcast_to_and_flatten(dims, spec)
    if flat_dims is None:
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, "
            f"out_dims) tuple. Expected out_dims={dims} to be compatible with the structure of "
            f"`output`. out_dims has structure {pytree.tree_flatten(dims)[1]} but output has "
            f"structure {spec}. {NOTES}"
        )
    placed = [entry(x, dim, level) for x, dim in zip(flat, flat_dims, strict=True)]
    return pytree.tree_unflatten(placed, spec)


def entry(x: Any, dim: Any, level: Level) -> Any:
    if dim is None or not isinstance(x, TensorBase):
        return x
    return batched(x if dim == 0 else x.movedim(dim, 0), level)  # type: ignore[attr-defined]


def same_inputs(tree: Any, physical_out: Any, physical: Any, args: Any) -> Any:
    """The outputs, with the very argument where a rule returned that."""
    known = {
        id(p): a
        for p, a in zip(pytree.tree_leaves(physical), pytree.tree_leaves(args), strict=True)
        if isinstance(p, TensorBase)
    }
    flat, spec = pytree.tree_flatten(tree)
    outs = pytree.tree_leaves(physical_out)
    return pytree.tree_unflatten(
        [known.get(id(p), x) for x, p in zip(flat, outs, strict=True)], spec
    )


# ---------------------------------------------------------------------- grad and jvp


def at_one_level(cls: Any, args: tuple[Any, ...], level: Level, rest: list[Level]) -> Any:
    """The result of the levels below, with this Function's own backward and jvp."""
    moves = level.kind != "grad" and any([moves_at(a, level) for a in args])
    expansion = level.expansion
    if expansion is not None:
        rest = [each for each in rest if each.expansion is not expansion]
        if any([moves_at(a, each) for a in args for each in expansion.levels]):
            return in_expansion(cls, args, expansion, rest)
    if not moves and not recorded(args):
        return at_levels(cls, args, rest)
    values = functools.partial(values_below, cls, args, rest)
    return one_step(generated(cls)(), cls, args, level if moves else None, values)


def values_below(cls: Any, args: tuple[Any, ...], rest: list[Level], ctx: Any) -> Any:
    """The outputs of the levels below, and what the Function keeps of them."""
    # Only the tangents at outer levels need a history there: the values get this node's.
    quiet = not any([below.kind in ("jvp", "dual") for below in rest])
    with no_grad() if quiet else contextlib.nullcontext():
        output = at_levels(cls, args, rest)
    with no_grad():
        cls.setup_context(ctx, args, output)
    return output


def in_expansion(cls: Any, args: tuple[Any, ...], expansion: Any, rest: list[Level]) -> Any:
    """One step in Taylor mode: the Function's `jvp`, run on tensors that carry derivatives."""
    recording = recorded(args)
    ctx = generated(cls)()
    prepare(ctx, args, recording)
    order = expansion.order
    paths = [
        expansion.derivatives(a, order) if isinstance(a, TensorBase) else [None] * order
        for a in args
    ]
    taken = strip(args, expansion)
    try:
        output = values_below(cls, args, rest, ctx)
        if ctx.dirty_tensors:
            raise NotImplementedError(
                f"Trying to use Taylor mode with {cls.__name__}, which writes into its arguments."
            )
        outputs = output if isinstance(output, tuple) else (output,)
        made = outputs_with_history(ctx, args, outputs, recording)

        def rule(F: Any, tensors: Any, tangents: Any, outs: Any, attrs: Any) -> tuple[Any, ...]:
            moved = generated(cls)()
            moved.needs_input_grad = ctx.needs_input_grad
            cls.setup_context(moved, tuple(tensors), outs if type(output) is tuple else outs[0])
            return asked_jvp(cls, moved, args, tangents, len(outs))

        derivatives = expansion.of_function(rule, args, paths, tuple(made))
    finally:
        restore(taken)
    plain = {id(t) for t in ctx.non_differentiable}
    for k, (level, pushed) in enumerate(zip(expansion.levels, derivatives, strict=False)):
        given = [path[k] for path in paths]
        for raw, out, tangent in zip(outputs, made, pushed, strict=True):
            if tangent is not None and id(raw) not in plain and isinstance(out, TensorBase):
                check_tangent(out, tangent)
                put_tangent(out, unshared(tangent, given), level, False)
    return finished(ctx, made, output, recording)


def one_step(ctx: Any, cls: Any, args: tuple[Any, ...], level: Level | None, values: Any) -> Any:
    """One step of the tape and, with a level, of forward mode; `values(ctx)` gives the outputs."""
    recording = recorded(args)
    prepare(ctx, args, recording)
    with stripped(args, level):
        output = values(ctx)
    outputs = output if isinstance(output, tuple) else (output,)
    made = outputs_with_history(ctx, args, outputs, recording)
    if level is not None:
        push_forward(ctx, cls, args, outputs, made, level)
    return finished(ctx, made, output, recording)


def recorded(args: tuple[Any, ...]) -> bool:
    """Whether one of the arguments needs a gradient."""
    return MODES.records and any(
        [isinstance(a, TensorBase) and grounded(a)[0].requires_grad for a in args]
    )


def generated(cls: Any) -> Any:
    """The node class for applications inside of transforms: PyTorch names them differently.

    The Function keeps it, so that both can be collected together.
    """
    found = cls.__dict__.get("_generated_cls")
    if found is None:
        name = f"{cls.__name__}GeneratedBackward"
        found = cls._generated_cls = type(name, (BackwardFunction,), {"_forward_cls": cls})
    return found


def moves_at(a: Any, level: Level) -> bool:
    return isinstance(a, TensorBase) and tangent_of(a, level) is not None


def prepare(ctx: Any, args: tuple[Any, ...], recording: bool) -> None:
    """Edges, flags and shapes, as far as they follow from the arguments."""
    grounds = [grounded(a) if isinstance(a, TensorBase) else None for a in args]
    tensors = [g[0] for g in grounds if g is not None]
    for t in tensors:
        if t._view_of is not None:
            view_history.refresh(t)
    ctx.needs_input_grad = tuple(
        [recording and g is not None and bool(g[0].requires_grad) for g in grounds]
    )
    edges = [edge_of(t) if t.requires_grad else None for t in tensors]
    ctx._edges = tuple([None if e is None else e[0] for e in edges])
    ctx._edge_slots = tuple([0 if e is None else e[1] for e in edges])
    ctx._input_metas = tuple(
        [(a._array.shape, a._array.dtype) if isinstance(a, TensorBase) else None for a in args]
    )
    ctx._seq = next_seq()
    frame = user_frame(1)
    if frame is not None:
        ctx._code, ctx._lasti = frame.f_code, frame.f_lasti
    ctx._places = Places([g[1] for g in grounds if g is not None])


def outputs_with_history(
    ctx: Any, args: tuple[Any, ...], outputs: tuple[Any, ...], recording: bool
) -> list[Any]:
    """The outputs, whose tensors one level down get this node as their history."""
    check_dirty(ctx, outputs)
    plain = {id(t) for t in ctx.non_differentiable}
    dirty = {id(t) for t in ctx.dirty_tensors}
    inputs = {id(a) for a in args if isinstance(a, TensorBase)}
    cells = {id(grounded(a)[0]._version_cell()) for a in args if isinstance(a, TensorBase)}
    several = sum([isinstance(o, TensorBase) for o in outputs]) > 1
    metas: list[Any] = []
    made: list[Any] = []
    for slot, out in enumerate(outputs):
        if not isinstance(out, TensorBase):
            made.append(out)
            metas.append(None)
            ctx._places.outputs.append([])
            continue
        physical, levels = grounded(out)
        metas.append((physical._array.shape, physical._array.dtype))
        ctx._places.outputs.append(levels)
        differentiable = recording and id(out) not in plain and out._array.dtype.kind in "fcV"
        if id(out) in dirty:
            if differentiable:
                write_back(ctx, physical, slot, True)
        else:
            if id(out) in inputs:
                physical = alias(physical, "custom")
                out = above(physical, levels)
            elif physical._view_of is not None and differentiable:
                if id(physical._version_cell()) in cells:
                    physical._view_of.kind = "multi" if several else "custom"
                else:
                    physical._view_of = None  # how a rule arranged its result is nobody's business
            if recording:
                set_history(ctx, physical, slot, differentiable)
        made.append(out)
    ctx._outputs = tuple(metas)
    return made


class Places:
    """At which levels the arguments and outputs of a node are batched, for its backward."""

    def __init__(self, arguments: list[list[Level]]) -> None:
        self.arguments = arguments
        self.outputs: list[list[Level]] = []
        self.instead: dict[Level, Level] = {}  # for levels that are closed by now

    def reopened(self, levels: list[Level]) -> list[Level]:
        return [self.instead.get(level, level) for level in levels]

    def all_levels(self) -> list[Level]:
        """Outermost first."""
        found = {level for levels in (*self.arguments, *self.outputs) for level in levels}
        return sorted(found, key=lambda level: level.number)

    def pull(self, ctx: Any, grad: Any, record: bool) -> Any:
        """The user's backward on batched tensors, and the gradients of the physical ones."""
        levels = self.all_levels()
        with contextlib.ExitStack() as stack:
            stack.enter_context(grad_set_to(record and MODES.grad))
            for level in levels:
                if not level.open:
                    again = level_of("vmap", level.size, level.randomness)
                    self.instead[level] = stack.enter_context(again)
            try:
                grads = [self.shown_gradient(ctx, i, g) for i, g in enumerate(grad)]
                found = call_backward(ctx._forward_cls, ctx, grads)
                checked = ctx._checked(found, True)
                return [
                    self.lowered(g, levels, own, record)
                    for g, own in zip(checked, self.arguments, strict=True)
                ]
            finally:
                self.instead = {}

    def shown_gradient(self, ctx: Any, index: int, g: Any) -> Any:
        if g is None:
            meta = ctx._outputs[index]
            if meta is None or not ctx.materialize_grads:
                return None
            g = np.zeros(*meta)
        t = g if isinstance(g, TensorBase) else wrap(as_array(g))
        return above(t, self.reopened(self.outputs[index]))

    def lowered(self, g: Any, levels: list[Level], own: list[Level], record: bool) -> Any:
        """A gradient without its batches, summed over those that the argument does not have."""
        if g is None:
            return None
        for level in reversed(levels):
            now = self.instead.get(level, level)
            if level in own:
                g = lift(g, now)
            else:
                g, found = physical_at(g, now)
                g = g.sum(0) if found else g
        return g if record else plain(g._array)


# ---------------------------------------------------------------------- tangents


def push_plain(
    ctx: Any, cls: Any, args: tuple[Any, ...], outputs: tuple[Any, ...], made: list[Any]
) -> None:
    """Forward mode outside of transforms."""
    level = current()
    if level is not None and any([moves_at(a, level) for a in args]):
        push_forward(ctx, cls, args, outputs, made, level)


def push_forward(
    ctx: Any,
    cls: Any,
    args: tuple[Any, ...],
    outputs: tuple[Any, ...],
    made: list[Any],
    level: Level,
) -> None:
    """Ask the Function's `jvp` for the tangents of the outputs, and check them."""
    given = [tangent_of(a, level) if isinstance(a, TensorBase) else None for a in args]
    versions = [None if t is None else t._version for t in given]
    # At a level of a transform, those further out go on.
    with stripped(args, level), forward_set_to(level.kind != "dual"):
        tangents = asked_jvp(cls, ctx, args, given, len(outputs))
    plain = {id(t) for t in ctx.non_differentiable}
    dirty = {id(t) for t in ctx.dirty_tensors}
    for i, (raw, out, tangent) in enumerate(zip(outputs, made, tangents, strict=True)):
        if not isinstance(out, TensorBase):
            continue
        if id(raw) in plain or out._array.dtype.kind not in "fcV":
            if tangent is not None:
                raise RuntimeError(
                    f"Function's jvp returned a gradient at position {i}, but  the corresponding "
                    "forward output is not a differentiable Tensor.You should return None at that "
                    "position instead."
                )
        elif id(raw) in dirty:
            where = next(k for k, a in enumerate(args) if a is raw)
            if given[where] is None:
                check_tangent(out, tangent)
                put_tangent(out, tangent, level, True)
            else:
                check_written(tangent, given[where], versions[where])
        else:
            source = viewed(out, args)
            if source is not None and given[source] is not None:
                check_view(tangent, given[source])
            check_tangent(out, tangent)
            put_tangent(out, tangent, level, source is not None and given[source] is None)


def asked_jvp(cls: Any, ctx: Any, args: tuple[Any, ...], given: Any, count: int) -> tuple[Any, ...]:
    """Call the `jvp` of a Function, and check that it gives a tangent or None for each output."""
    shown_tangents = [
        zeros_for(a) if t is None and ctx.materialize_grads else t
        for a, t in zip(args, given, strict=True)
    ]
    found = cls.jvp(ctx, *shown_tangents)
    tangents = found if isinstance(found, tuple) else (found,)
    for i, t in enumerate(tangents):
        if not (t is None or isinstance(t, TensorBase)):
            raise RuntimeError(
                f"expected Variable or None (got {type(t).__name__}) for grad output {i}."
            )
    if len(tangents) != count:
        raise RuntimeError(
            "Function's jvp returned an invalid number of forward gradients (expected "
            f"{count} but got {len(tangents)})"
        )
    return tangents


def zeros_for(a: Any) -> Any:
    """A tangent for an argument that has none; numbers and integers never have."""
    if not isinstance(a, TensorBase) or a._array.dtype.kind not in "fcV":
        return None
    return wrap(xp_of(physical_array(a)).zeros(a._array.shape, a._array.dtype))


def check_tangent(out: Any, tangent: Any) -> None:
    if tangent is None or tangent._array.dtype.kind not in "fcV":
        raise RuntimeError(
            "Expected both tensor and its forward grad to be floating point or complex"
        )
    if tangent._array.shape != out._array.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(out.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )


def check_written(tangent: Any, given: Any, version: Any) -> None:
    """The tangent of an input that forward wrote to has to be written to as well."""
    if tangent is None or tangent._version == version:
        raise RuntimeError(
            "An inplace custom Function is not modifying the forward mode gradients inplace. If "
            "the forward is modifying an input inplace, then the jvp function must modify the "
            "corresponding gradient inplace."
        )
    if grounded(tangent)[0] is not grounded(given)[0]:
        raise RuntimeError(
            "An inplace custom Function is not returning the forward mode gradients as-is. If the "
            "forward is modifying an input inplace, then the jvp function must modify the gradient "
            "inplace and return it as-is."
        )


def viewed(out: Any, args: tuple[Any, ...]) -> int | None:
    """The argument that an output is a view of, or None."""
    physical, _ = grounded(out)
    if physical._view_of is None:
        return None
    for i, a in enumerate(args):
        if isinstance(a, TensorBase) and grounded(a)[0]._version_cell() is physical._cell:
            return i
    return None


def check_view(tangent: Any, given: Any) -> None:
    """A view must come with a view of the input's tangent."""
    source, _ = grounded(given)
    found = None if tangent is None else grounded(tangent)[0]
    if found is None or found._view_of is None:
        raise RuntimeError(
            "A custom Function's forward is returning a view (or an input as-is) but the jvp is "
            "not returning a view."
        )
    if found._version_cell() is not source._version_cell():
        whose = "the given grad input" if source._view_of is None else "the same base as the given"
        raise RuntimeError(
            f"A custom Function is returning a view but the jvp is not returning a view of {whose}"
            + ("." if source._view_of is None else " grad input.")
        )


def put_tangent(out: Any, tangent: Any, level: Level, into_base: bool) -> None:
    """Give an output its tangent; a view of what has none moves all of that."""
    physical, levels = grounded(out)
    for batch in reversed(levels):
        tangent = lift(tangent, batch)
    if into_base and physical._view_of is not None:
        begin(physical, level, tangent)
    else:
        attach(physical, tangent, level)


__all__ = ["VmapInfo", "apply_in_levels", "push_plain"]
