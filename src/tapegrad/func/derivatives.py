"""Functions of functions: gradients, vector-Jacobian and Jacobian-vector products.

`grad` and `vjp` use the ordinary tape. Inside a vmap the tensors that the tape sees have the batch
in front: an input is given all open batches first, so that every entry has a gradient of its own,
and one backward pass finds them all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tapegrad as tg

from ..autograd import dispatched
from ..autograd.api import launch
from ..autograd.engine import Pass
from ..autograd.starts import (
    as_result,
    check_seed,
    edge_of,
    is_valueless,
    leads_elsewhere,
    ones_at,
    targets,
)
from ..core.base import TensorBase, Version
from ..core.modes import MODES, grad_set_to
from ..core.python_dispatch import is_asked
from ..core.transforms.batched import (
    above,
    batch_of,
    below,
    grounded,
    has_batched,
    is_batched,
    mirrored,
)
from ..core.transforms.dual import (
    alive,
    attach,
    bare,
    dual_of,
    made_dual,
    same_tensor,
    set_dual,
    tangent_of,
)
from ..core.transforms.levels import STACK, TANGENTS, Level
from ..core.transforms.opening import level_of
from ..utils import _pytree as pytree

Function = Callable[..., Any]


# ---------------------------------------------------------------------- one pass over a graph


class Tracked:
    """The inputs of a function whose gradients are wanted, and the levels outside of it."""

    def __init__(self, values: Sequence[Any]) -> None:
        for value in values:
            if not isinstance(value, TensorBase):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
        # Batches of directions are those of tangents, which may be values of further derivatives.
        batches = [level for value in values for level in grounded(value)[1]]
        self.levels = [v for v in STACK.batches() if not v.directions or v in batches]
        # What is computed here is itself differentiated further out, where that is switched on.
        self.outer_grad = MODES.records
        self.linked = False
        for value in values:
            own = grounded(value)[1]
            for level in self.levels:
                level.lifted = level.lifted or level not in own
        self.inputs = [self.track(below(value, self.levels)) for value in values]
        self.seen = [above(t, self.levels) for t in self.inputs]

    def track(self, t: Any) -> Any:
        """A tensor on the tape that stands for `t` in this function alone."""
        if t._array.dtype.kind not in "fcV":
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if t.requires_grad and self.outer_grad:
            self.linked = True
            with grad_set_to(True):
                return t.view_as(t)
        leaf = same_tensor(t)
        leaf._wants_grad = True
        leaf._node = None
        leaf._slot = 0
        leaf._view_of = None
        if leaf._cell is not None and leaf._cell.inference:
            leaf._cell = Version()  # inside, it is a tensor like any other
        set_dual(leaf, dual_of(t))
        return leaf

    def gradients(
        self, outputs: Sequence[Any], seeds: Sequence[Any], keep: bool, graph: bool | None = None
    ) -> list[Any]:
        """One backward pass; zeros for inputs that the outputs do not depend on."""
        starts = []
        pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
        if graph is None:
            graph = self.is_recorded([o for o, _ in pairs])
        on_tensors = graph or bool(TANGENTS) or has_batched(seeds) or any(map(is_valueless, seeds))
        on_tensors = on_tensors or dispatched.on_tensors(outputs)
        for out, seed in pairs:
            node, slot = edge_of(out)  # type: ignore[misc]
            starts.append((node, slot, seed if on_tensors else seed._array, 0))
        # An input may have been cut off by `detach_` since.
        wanted = [t for t in self.inputs if t._wants_grad]
        run = Pass(keep or graph, on_tensors, targets(tuple(wanted)), None)
        if starts:
            launch(run, starts, graph)
        got = {id(wanted[i]): as_result(g) for i, g in run.found.items()}
        found = [got[id(t)] if id(t) in got else tg.zeros_like(t.detach()) for t in self.inputs]
        return [above(g, self.levels) for g in found]

    def is_recorded(self, outputs: Sequence[Any]) -> bool:
        """Whether somebody outside may differentiate the gradients again."""
        if not self.outer_grad:
            return False
        return self.linked or leads_elsewhere([o._node for o in outputs], self.inputs)

    def released(self, t: Any) -> Any:
        """A result as the outside sees it: without the history that only leads to our inputs."""
        if not isinstance(t, TensorBase):
            return t
        inner = below(t, self.levels) if self.levels else t
        physical, _ = grounded(inner)  # a batch of directions, say, is around it
        if not physical.requires_grad or self.is_recorded([physical]):
            return t
        return above(self.cut_off(inner), self.levels)

    def cut_off(self, t: Any) -> Any:
        """A copy with the values and tangents of `t`, without the history of this transform."""
        if not isinstance(t, TensorBase) or not (t._special or t.requires_grad):
            return t
        if is_batched(t):
            batch = batch_of(t)
            return mirrored(self.cut_off(batch.physical), batch)
        if t.requires_grad and self.is_recorded([t]):
            return t
        made = same_tensor(t)
        made._wants_grad = False
        made._node = made._view_of = made._cut = None
        made._slot = 0
        found = dual_of(t)
        while found is not None:
            attach(made, self.cut_off(found.tangent), found.level)
            found = alive(found.below)
        return made


# ---------------------------------------------------------------------- arguments


def checked_argnums(argnums: Any, count: int) -> Any:
    """One number or a tuple of them, counted from the front."""
    if isinstance(argnums, int):
        return one_argnum(argnums, count)
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    for each in argnums:
        if not isinstance(each, int):
            raise RuntimeError(f"argnum must be int, got: {type(each)}")
    if len(set(argnums)) != len(argnums):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return tuple([one_argnum(each, count) for each in argnums])


def one_argnum(number: int, count: int) -> int:
    if not -count <= number < count:
        raise RuntimeError(f"Got argnum={number}, but only {count} positional inputs")
    return number % count


def picked(args: tuple[Any, ...], argnums: Any) -> Any:
    return args[argnums] if isinstance(argnums, int) else tuple([args[i] for i in argnums])


def replaced(args: tuple[Any, ...], argnums: Any, values: Any) -> tuple[Any, ...]:
    """The arguments with new values for those that `argnums` names."""
    made = list(args)
    for i, value in [(argnums, values)] if isinstance(argnums, int) else zip(argnums, values):  # noqa: B905
        made[i] = value
    return tuple(made)


def parted(out: Any, has_aux: bool, head: str) -> tuple[Any, Any]:
    """(output, auxiliary output) of a function."""
    if not has_aux:
        return out, None
    if not (isinstance(out, tuple) and len(out) == 2):
        raise RuntimeError(
            f"{head}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return out


def released_aux(aux: Any, tracked: Tracked) -> Any:
    for leaf in pytree.tree_leaves(aux):
        if not isinstance(leaf, TensorBase):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return pytree.tree_map(tracked.released, aux)


# ---------------------------------------------------------------------- grad


def grad(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """The gradient of a function with one number as its result.

    >>> torch.func.grad(lambda x: x.sin())(tensor(0.0))
    tensor(1.)
    """

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found = differentiate(func, argnums, has_aux, args, kwargs)
        return (found[0], found[1][1]) if has_aux else found[0]

    return gradient


def grad_and_value(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """The gradient of a function, and its value.

    >>> torch.func.grad_and_value(lambda x: x * x)(tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        return differentiate(func, argnums, has_aux, args, kwargs)

    return both


def differentiate(
    func: Function, argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """(gradients, value), or (gradients, (value, aux))."""
    head = "grad_and_value(f)(*args)"
    numbers = checked_argnums(argnums, len(args))
    flat, spec = pytree.tree_flatten(picked(args, numbers))
    tracked = Tracked(flat)
    with level_of("grad"), grad_set_to(True):
        inside = replaced(args, numbers, pytree.tree_unflatten(tracked.seen, spec))
        out, aux = parted(func(*inside, **kwargs), has_aux, head)
    if not isinstance(out, TensorBase):
        raise RuntimeError(f"{head}: Expected f(*args) to return a Tensor, got {type(out)}")
    if out._array.ndim:
        raise RuntimeError(
            f"{head}: Expected f(*args) to return a scalar Tensor, got tensor with "
            f"{out._array.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )
    inner = below(out, tracked.levels) if tracked.levels else out
    seed = dispatched.ones_like(inner) if is_asked(inner) else ones_at(inner._array)
    grads = tracked.gradients([inner], [seed], keep=False)
    gradient = pytree.tree_unflatten(grads, spec)
    value = tracked.released(out)
    return (gradient, (value, released_aux(aux, tracked))) if has_aux else (gradient, value)


# ---------------------------------------------------------------------- vjp


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function and the product of a vector with its Jacobian, as a function.

    >>> out, pull = torch.func.vjp(lambda x: x * x, tensor([1.0, 2.0]))
    >>> pull(tensor([1.0, 1.0]))
    (tensor([2., 4.]),)
    """
    numbers = tuple(range(len(primals)))
    return pull_back(func, primals, numbers, has_aux)


def pull_back(func: Function, primals: tuple[Any, ...], argnums: Any, has_aux: bool) -> Any:
    head = "vjp(f, *primals)"
    flat, spec = pytree.tree_flatten(picked(primals, argnums))
    tracked = Tracked(flat)
    with level_of("grad"), grad_set_to(True):
        inside = replaced(primals, argnums, pytree.tree_unflatten(tracked.seen, spec))
        out, aux = parted(func(*inside), has_aux, head)
    outputs, out_spec = pytree.tree_flatten(out)
    check_outputs(outputs, head)
    for each in outputs:
        if each._array.dtype.kind not in "fcV":
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                f"Tensor with dtype {each.dtype}"
            )
    inner = [below(each, tracked.levels) for each in outputs]

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds, seed_spec = pytree.tree_flatten(cotangents)
        if seed_spec != out_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {structure(seed_spec)}, primal output: "
                f"{structure(out_spec)}"
            )
        for i, (each, seed) in enumerate(zip(outputs, seeds, strict=True)):
            if not isinstance(seed, TensorBase):
                raise TypeError(
                    f"gradients can be either Tensors or None, but got {type(seed).__name__}"
                )
            check_seed(each, seed, i)
        lowered = [below(seed, tracked.levels) for seed in seeds]
        graph = create_graph
        if graph is None and MODES.records and any([s.requires_grad for s in lowered]):
            graph = True
        found = tracked.gradients(inner, lowered, keep=retain_graph, graph=graph)
        return pytree.tree_unflatten(found, spec)

    pull.released = tracked.released  # type: ignore[attr-defined]
    value = pytree.tree_map(tracked.released, out)
    return (value, pull, released_aux(aux, tracked)) if has_aux else (value, pull)


def structure(spec: Any) -> str:
    """A tree's structure with a star for every leaf."""
    return str(pytree.tree_unflatten(["*"] * spec.num_leaves, spec)).replace("'*'", "*")


def check_outputs(outputs: Sequence[Any], head: str) -> None:
    for out in outputs:
        if not isinstance(out, TensorBase):
            raise RuntimeError(
                f"{head}: expected f(*{'args' if head.startswith('grad') else 'primals'}) to "
                f"return only tensors, got unsupported type {type(out)}"
            )


# ---------------------------------------------------------------------- jvp


def jvp(
    func: Function,
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """The value of a function and its derivative along a direction, in one pass.

    >>> torch.func.jvp(lambda x: x * x, (tensor(3.0),), (tensor(1.0),))
    (tensor(9.), tensor(6.))
    """
    head = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{head}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    flat, spec = pytree.tree_flatten(primals)
    directions, direction_spec = pytree.tree_flatten(tangents)
    if spec != direction_spec:
        raise RuntimeError(
            f"{head}: Expected primals and tangents to have the same python structure. For "
            "example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with "
            f"structure {spec} and tangents with structure {direction_spec}"
        )
    check_tensors(flat, head, "primals")
    check_tensors(directions, head, "tangents")
    if any([level.kind == "dual" for level in STACK.levels]):
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    with level_of("jvp") as level:
        inside = [moving(p, t, level) for p, t in zip(flat, directions, strict=True)]
        out, aux = parted(func(*pytree.tree_unflatten(inside, spec)), has_aux, head)
        outputs, out_spec = pytree.tree_flatten(out)
        check_outputs(outputs, head)
        values = [bare(each, level) for each in outputs]
        moved = [tangent_or_zero(each, level, strict) for each in outputs]
        if has_aux:
            aux = pytree.tree_map(lambda t: bare(t, level), aux)
    value = pytree.tree_unflatten(values, out_spec)
    tangent = pytree.tree_unflatten(moved, out_spec)
    return (value, tangent, aux) if has_aux else (value, tangent)


def check_tensors(values: Sequence[Any], head: str, name: str) -> None:
    if not values:
        raise RuntimeError(f"{head}: Expected {name} to contain at least one Tensor.")
    for value in values:
        if not isinstance(value, TensorBase):
            raise RuntimeError(
                f"{head}: Expected {name} to only contain Tensors, got {type(value)}"
            )


def moving(primal: Any, tangent: Any, level: Level) -> Any:
    """A dual tensor at a level of a transform."""
    for name, value in (("primal", primal), ("tangent", tangent)):
        if value._array.dtype.kind not in "fcV":
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {value.dtype}"
            )
    if primal._array.shape != tangent._array.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(primal.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )
    return made_dual(primal, tangent, level)


def tangent_or_zero(out: Any, level: Level, strict: bool) -> Any:
    found = tangent_of(out, level)
    if found is not None:
        return found
    if strict:
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the "
            "inputs. This is not allowed with strict=True."
        )
    return tg.zeros_like(bare(out, level).detach())


# ---------------------------------------------------------------------- linearize


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """The value of a function at a point, and its derivative there as a function of directions.

    `func` runs once. Every direction then costs one pass over the recorded graph.

    >>> out, push = torch.func.linearize(lambda x: x * x, tensor(3.0))
    >>> push(tensor(2.0))
    tensor(12.)
    """
    flat, spec = pytree.tree_flatten(primals)
    tracked = Tracked(flat)
    with level_of("grad"), grad_set_to(True):
        out = func(*pytree.tree_unflatten(tracked.seen, spec))
        outputs, out_spec = pytree.tree_flatten(out)
        check_outputs(outputs, "linearize(f, *primals)")
        inner = [below(each, tracked.levels) for each in outputs]
        # The pull-back is linear in its cotangents: pulling that back again pushes forward.
        seeds = [leaf_like(each) for each in inner]
        pulled = tracked.gradients(inner, seeds, keep=True, graph=True)
        lowered = [below(g, tracked.levels) for g in pulled]

    def push(*tangents: Any) -> Any:
        directions, direction_spec = pytree.tree_flatten(tangents)
        if direction_spec != spec:
            raise RuntimeError(
                f"Expected the tangents {direction_spec} to have the same argspec as the primals "
                f"{spec}"
            )
        for i, (t, p) in enumerate(zip(directions, flat, strict=True)):
            check_direction(i, t, p)
        placed = [below(t, tracked.levels) for t in directions]
        graph = MODES.records and (
            tracked.linked
            or any([t.requires_grad for t in placed])
            or leads_elsewhere([t._node for t in lowered], [*tracked.inputs, *seeds])
        )
        moved = pulled_again(lowered, seeds, placed, graph)
        return pytree.tree_unflatten([above(t, tracked.levels) for t in moved], out_spec)

    return pytree.tree_map(tracked.released, out), push


def leaf_like(t: Any) -> Any:
    leaf = tg.zeros_like(t.detach())
    leaf.requires_grad = True
    return leaf


def check_direction(index: int, tangent: Any, primal: Any) -> None:
    head = f"tangent:{index} with "
    if tangent.shape != primal.shape:
        raise RuntimeError(
            f"{head}shape {tangent.shape} in flattened pytree doesn't match the shape "
            f"{primal.shape} of the corresponding primal."
        )
    if tangent.dtype != primal.dtype:
        raise RuntimeError(
            f"{head}dtype {tangent.dtype} in flattened pytree doesn't match the dtype "
            f"{primal.dtype} of the corresponding primal."
        )


def pulled_again(
    outputs: Sequence[Any], inputs: Sequence[Any], seeds: Sequence[Any], graph: bool
) -> list[Any]:
    """One pass over the graph of a pull-back."""
    on_tensors = graph or bool(TANGENTS) or has_batched(seeds) or any(map(is_valueless, seeds))
    on_tensors = on_tensors or dispatched.on_tensors(outputs)
    starts = []
    for out, seed in zip(outputs, seeds, strict=True):
        if out.requires_grad:
            node, slot = edge_of(out)  # type: ignore[misc]
            starts.append((node, slot, seed if on_tensors else seed._array, 0))
    run = Pass(True, on_tensors, targets(tuple(inputs)), None)
    if starts:
        launch(run, starts, graph)
    return [
        as_result(run.found[i]) if i in run.found else tg.zeros_like(t.detach())
        for i, t in enumerate(inputs)
    ]
