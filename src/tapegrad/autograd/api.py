"""`backward` and `grad`: from what the user passes to one run of the engine."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import dtypes, errors
from ..core.base import (
    TensorBase,
    wrap,
)
from ..core.function_modes import WATCHED, is_watched
from ..core.late_bound import ON_DEMAND, RECORDING
from ..core.modes import ANOMALY, MODES
from ..core.node import OpNode, accumulate_node
from ..core.per_thread import instead
from ..core.python_dispatch import same_always
from ..core.strides import is_dense
from ..core.transforms.batched import batched, has_batched, lift
from ..core.transforms.levels import BACKWARD_INSIDE, TANGENTS, refuse_inside
from ..core.transforms.opening import level_of
from ..core.warned import warn
from . import dispatched
from .anomaly_mode import remember
from .engine import Pass
from .hooks import hooks_of
from .starts import (
    Start,
    as_result,
    implicit_seed,
    is_root,
    pass_from,
    prepare_starts,
    root_facts,
    runs_on_tensors,
    targets,
)

CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter "
    "and its gradient which can cause a memory leak. We recommend using autograd.grad when "
    "creating the graph to avoid this. If you have to use this function, make sure to reset the "
    ".grad fields of your parameters to None after use to break the cycle and avoid the leak."
)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves that they came from.

    >>> x = tensor([2.0, 3.0], requires_grad=True)
    >>> autograd.backward((x ** 2).sum())
    >>> x.grad
    tensor([4., 6.])
    """
    if grad_variables is not None:
        warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    refuse_inside(BACKWARD_INSIDE)
    wanted = None if inputs is None else as_inputs(inputs, "backward")
    roots = as_tuple(tensors)
    if WATCHED:
        asked = tensors_among(roots, wanted or ())
        if is_watched(asked, {}):
            ON_DEMAND.handle_torch_function(
                backward,
                asked,
                tensors,
                grad_tensors=grad_tensors,
                retain_graph=retain_graph,
                create_graph=create_graph,
                inputs=inputs,
            )
            return
    keep = create_graph if retain_graph is None else retain_graph
    seeds = as_grads(grad_tensors, len(roots))
    if len(seeds) == len(roots) and any([hasattr(t, "_entries") for t in roots]):
        roots, seeds = dispatched.on_entries(roots, seeds)
    on_tensors = create_graph or bool(TANGENTS) or runs_on_tensors(roots)
    on_tensors = on_tensors or dispatched.has_sparse(*seeds)
    starts = prepare_starts(roots, seeds, on_tensors)
    run = pass_from(starts, keep, on_tensors)
    if wanted is not None:
        for t in wanted:
            if isinstance(t, TensorBase):
                t.retain_grad()  # type: ignore[attr-defined]
        run.only_for = targets(wanted)
    if create_graph:
        from ..core.warned import warn_once

        warn_once(CYCLE)
    launch(run, starts, create_graph)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of `outputs` with respect to `inputs`; no `.grad` is touched.

    For inputs in a dict they come in one with the same keys.

    >>> x = tensor(3.0, requires_grad=True)
    >>> autograd.grad(x ** 2, x)
    (tensor(6.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, "
            "but got: allow_unused=False."
        )
    if not only_inputs:
        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use "
            "torch.autograd.backward.",
            FutureWarning,
        )
    roots = as_tuple(outputs)
    wanted = as_inputs(inputs, "grad")
    if WATCHED:
        asked = tensors_among(roots, wanted)
        if is_watched(asked, {}):
            return ON_DEMAND.handle_torch_function(
                grad,
                asked,
                outputs,
                inputs,
                grad_outputs=grad_outputs,
                retain_graph=retain_graph,
                create_graph=create_graph,
                only_inputs=only_inputs,
                allow_unused=allow_unused,
                is_grads_batched=is_grads_batched,
                materialize_grads=materialize_grads,
            )
    given = as_grads(grad_outputs, len(roots))
    if len(given) == len(roots) and any([hasattr(t, "_entries") for t in roots]):
        roots, given = dispatched.on_entries(roots, given)
    whole = wanted  # a sparse tensor has its history on its values
    if any([hasattr(t, "_entries") for t in wanted]):
        wanted = tuple([getattr(t, "_entries", t) for t in wanted])
    if is_grads_batched:
        if whole is not wanted:
            raise NotImplementedError("gradients of sparse tensors cannot be computed in a batch")
        batch = batch_of_passes(
            roots,
            wanted,
            given,
            retain_graph,
            create_graph,
            allow_unused,
            materialize_grads,
        )
        return as_given(inputs, batch)
    # On tensors: to be recorded itself, or to carry tangents along.
    tensors = create_graph or bool(TANGENTS) or (grad_outputs is not None and has_batched(given))
    tensors = tensors or runs_on_tensors(roots) or dispatched.has_sparse(*given)
    starts = prepare_starts(roots, given, tensors)
    keep = create_graph if retain_graph is None else retain_graph
    run = pass_from(starts, keep, tensors, targets(wanted))
    found = gradients(run, starts, create_graph, len(wanted))
    for i, (t, g) in enumerate(zip(wanted, found, strict=True)):
        if g is None:
            if materialize_grads:
                found[i] = zeros_in_place_of(t, create_graph)
            elif not allow_unused:
                raise errors.unused_input(t, i, roots)
    if whole is not wanted:
        found = [like_input(t, g) for t, g in zip(whole, found, strict=True)]
    return as_given(inputs, tuple(found))


def like_input(t: Any, g: Any) -> Any:
    """The gradient of a sparse tensor, from that of its values."""
    return g if g is None or not hasattr(t, "_entries") else t._with(g)


def tensors_among(*groups: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors that modes and classes may be asked about: a gradient edge has no class."""
    return tuple([t for group in groups for t in group if isinstance(t, TensorBase)])


def as_inputs(inputs: Any, function: str) -> tuple[Any, ...]:
    """The tensors to differentiate with respect to; the values of a dict."""
    if type(inputs) is dict:
        inputs = inputs.values()
    elif isinstance(inputs, Mapping):
        raise TypeError(
            f"`inputs` argument to `{function}()` must be a dict, not {type(inputs).__name__}. "
            "Other Mapping types are not supported."
        )
    wanted = as_tuple(inputs)
    if not wanted:
        raise RuntimeError(f"`inputs` argument to `{function}()` cannot be empty.")
    return wanted


def as_given(inputs: Any, found: tuple[Any, ...]) -> Any:
    """Gradients in a dict if the inputs came as one, else in a tuple."""
    return dict(zip(inputs, found, strict=True)) if type(inputs) is dict else found


def batch_of_passes(
    roots: tuple[Any, ...],
    wanted: tuple[Any, ...],
    given: tuple[Any, ...],
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Any, ...]:
    """`grad` for a batch of gradients of the outputs, in one pass."""
    if len(given) < len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(given)} gradients")
    pairs = zip(roots, given, strict=False)
    seeds = tuple([batched_seed(root, g, i) for i, (root, g) in enumerate(pairs)])
    if any([seed._array.ndim == 0 for seed in seeds]):
        raise ValueError(
            "vmap(vjp, in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but that input is a "
            "Tensor of dimensionality 0 so expected in_dim to satisfy 0 <= in_dim < 0."
        )
    size = ON_DEMAND.mapped_arguments("vjp", 0, seeds)[0]
    with level_of("vmap", size) as level:
        level.inside = True
        found = grad(
            roots,
            wanted,
            tuple([batched(seed, level) for seed in seeds]),
            retain_graph,
            create_graph,
            True,
            allow_unused or materialize_grads,
        )
        stacked = [None if g is None else lift(g, level) for g in found]
    if not materialize_grads:
        return tuple(stacked)
    # As PyTorch has it: zeros without a batch.
    pairs = zip(stacked, wanted, strict=True)
    return tuple([zeros_in_place_of(t, create_graph) if g is None else g for g, t in pairs])


def zeros_in_place_of(t: Any, wants_grad: bool) -> Any:
    """Zeros for an input that was not used, for materialize_grads=True."""
    if not isinstance(t, TensorBase):
        raise RuntimeError(
            "materialize_grads cannot be used when the given input is a GradientEdge"
        )
    made = same_always(wrap(np.zeros_like(t._array)))
    made._wants_grad = wants_grad
    return made


def as_tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if is_root(value) else tuple(value)


def as_grads(grads: Any, count: int) -> tuple[Any, ...]:
    if grads is None:
        return (None,) * count
    return (grads,) if isinstance(grads, TensorBase) else tuple(grads)


def batched_seed(root: Any, g: Any, index: int) -> Any:
    if g is None:
        seed = implicit_seed(root)
        if seed is None:
            raise errors.no_history(root, index)
        return seed
    if not isinstance(g, TensorBase):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if g._array.ndim == 0:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` "
            "in C++ to convert a 0-dim tensor to a number"
        )
    facts = root_facts(root)
    if facts is not None and g._array.shape[1:] != facts[0]:
        raise RuntimeError(
            "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as "
            "the batch dimension. The sizes of the remaining dimensions are expected to match the "
            "shape of corresponding output, but a mismatch was detected: "
            f"grad_output[{index}] has a shape of {g.shape[2:]} and output[{index}] has a shape of "  # type: ignore[attr-defined]
            f"torch.Size({list(facts[0])}). If you only want some tensors in `grad_output` to be "
            "considered batched, consider using vmap."
        )
    return g


MOST_NESTED = 60  # passes inside of each other in one thread; Python's stack holds about 120


def launch(run: Pass, starts: list[Start], graph: bool = False) -> None:
    """Run the engine, in this thread or, deep inside other passes, in a new one."""
    outer = MODES.run
    if outer is not None and run.depth == 0:
        run.depth = outer.depth + 1
        if run.depth % MOST_NESTED == 0:
            instead(launch, run, starts, graph)
            return
    run.graph = graph
    run.go(starts)


def gradients(run: Pass, starts: list[Start], graph: bool, count: int) -> list[Any]:
    """Run one backward pass for `count` inputs; None for those that no gradient reached."""
    launch(run, starts, graph)
    return [None if i not in run.found else as_result(run.found[i]) for i in range(count)]


def recorded_copy(g: Any, leaf: Any) -> Any:
    """A copy of a gradient that stays differentiable, laid out like the leaf."""
    if dispatched.has_sparse(g):
        return g.clone()
    layout = leaf._array
    dense = is_dense(layout)
    fresh: Any = wrap(np.empty_like(layout, g._array.dtype, order="K" if dense else "C"))
    return fresh.copy_(g)


def retain(t: Any) -> None:
    """Make backward store the gradient of a non-leaf tensor in its `.grad`."""
    hooks_of(t._node).retained[t._slot] = weakref.ref(t)
    t._retained = True


def grad_dtype(t: Any) -> Any:
    """NumPy's dtype for the gradient of a tensor; None: any."""
    node = t._node
    if node is not None and node._converts:
        return node.grad_dtype
    return t._array.dtype


def set_grad_dtype(t: Any, dtype: Any) -> None:
    """Set the dtype in which backward stores the gradient of a leaf; None: any."""
    if t._gradient is not None and dtype is not None and t._gradient._array.dtype != dtype:
        raise RuntimeError(
            f"Cannot set grad_dtype to '{dtypes.of(dtype).scalar_type}' because there is already a "
            f"gradient with dtype '{dtypes.cpp_name(t._gradient._array.dtype)}'. Please clear the "
            "gradient (.grad = None) before changing grad_dtype, or ensure the new grad_dtype "
            "matches the existing gradient's dtype."
        )
    node = t._node if t._node is not None else accumulate_node(t)
    node._converts = True
    node.grad_dtype = dtype


def check_assigned_grad(t: Any, value: Any) -> None:
    """PyTorch's checks on `t.grad = value`."""
    if value is None:
        return
    if not isinstance(value, TensorBase):
        sentence = (
            f"assigned grad expected to be a Tensor or None but got grad of type "
            f"{type(value).__name__}"
        )
        raise errors.slips.no_gradient(sentence, t, value)
    if value is t:
        raise RuntimeError("can't assign Variable as its own grad")
    wanted = grad_dtype(t)
    if wanted is not None and value._array.dtype != wanted:
        spelled = dtypes.cpp_name(value._array.dtype)
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{spelled}' to a tensor with grad_dtype "
            f"'{dtypes.of(wanted).scalar_type}'. The gradient must match the tensor's "
            "grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype "
            "attribute with a specific dtype, or None to allow any dtype. Set grad_dtype with "
            "caution. Diverging the dtypes of a tensor and its gradient may break downstream "
            "systems that assume they match."
        )
    if type(value._array) is not type(t._array) and value.device.type != t.device.type:  # type: ignore[attr-defined]
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{value.device.type}' to a tensor "  # type: ignore[attr-defined]
            f"with device type '{t.device.type}'. Please ensure that the gradient and the tensor "
            "are on the same device"
        )
    if value._array.shape != t._array.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(value._array.shape)}' to a tensor of "
            f"size '{list(t._array.shape)}'. Please ensure that the gradient and the tensor are "
            "the same size"
        )


def recorded_in_mode(node: Any) -> None:
    """Called for nodes recorded while a mode is on: anomaly traces and saved-tensor hooks."""
    if ANOMALY.enabled:
        remember(node)
    if MODES.saved_hooks and isinstance(node, OpNode):
        pack_saved(node, inputs=True)


def pack_outputs(node: Any) -> None:
    """Run the saved-tensor hooks on outputs that were just saved."""
    pack_saved(node, inputs=False)


def pack_saved(node: OpNode, inputs: bool) -> None:
    from .inspect import pack_place, unpacking_order

    pack, unpack = MODES.saved_hooks[-1]
    width = node._op.width
    places = [p for p in node._cells[::3] if type(p) is int and (p < width) is inputs]
    for place in unpacking_order(node):
        if place in places:
            pack_place(node, place, pack, unpack)


RECORDING.in_mode = recorded_in_mode
RECORDING.pack_outputs = pack_outputs
RECORDING.copy_of_gradient = recorded_copy
