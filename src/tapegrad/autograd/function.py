"""autograd.Function: the user's own forward and backward as one node of the graph.

The `ctx` that forward and backward see is the node itself, as in PyTorch: `y.grad_fn` shows the
attributes that forward put on it.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .. import errors
from ..core.base import (
    STATE,
    Node,
    TensorBase,
    View,
    as_array,
    next_seq,
    user_frame,
    wrap,
)
from ..core.lazy_conj import plain
from ..core.modes import MODES, grad_set_to
from ..core.node import (
    Packed,
    accumulate_node,
    fit,
    history_now,
    unpack_checked,
    wanted_dtype,
    zeros_beside,
)
from ..core.python_dispatch import dispatches
from ..core.rule_functions import RAW, RECORDED
from ..core.subclass import asked_types, bare_twin
from ..core.swapped_data import SWAPS, newest
from ..core.transforms.batched import above, grounded
from ..core.transforms.dual import dual_of, with_tangent
from ..core.transforms.levels import STACK, TANGENTS
from ..core.transforms.opening import forward_set_to
from ..core.warned import warn
from . import dispatched, inplace, view_history
from .api import recorded_in_mode
from .grad_mode import no_grad
from .saved import SavedTensor
from .starts import edge_of


class Kept:
    """One tensor of `save_for_backward`: its memory, version and edge, never the tensor itself."""

    def __init__(
        self, tensor: Any, node: Node, slot: int, is_output: bool, batches: Any = ()
    ) -> None:
        self.batches = batches  # the levels at which the user sees it batched
        self.dual = dual_of(tensor) if tensor._special else None
        # Of a class with `__torch_dispatch__`: the tensor, without its history.
        self.wrapper = bare_twin(tensor) if tensor._special and dispatches(tensor) else None
        # A sparse tensor has no array that could be kept in its place.
        self.whole = tensor if tensor._special and hasattr(tensor, "_entries") else None
        # Users get the tensor that they saved, while somebody else keeps it alive.
        self.alive = None if is_output or tensor._special else weakref.ref(tensor)
        self.array = tensor._array
        self.cell = tensor._version_cell()
        self.version = self.cell.n
        self.wants_grad = tensor.requires_grad
        self.node: Node | None = None
        self.slot = slot
        self.is_output = is_output
        self.packed: Packed | None = None
        if is_output:
            return
        edge = edge_of(tensor) if self.wants_grad else None
        if edge is not None:
            self.node, self.slot = edge

    def tensor(self, owner: Any) -> Any:
        """The tensor as the user saved it."""
        made = self.physical(owner)
        if self.dual is not None:
            with_tangent(made, self.dual)
        return above(made, owner._reopened(self.batches)) if self.batches else made

    def pack(self, owner: Node, pack: Any, unpack: Any) -> None:
        """Put the tensor through a pair of hooks."""
        tensor = self.physical(owner)
        with no_grad():
            self.packed = Packed(pack(tensor), unpack)
        self.array = None

    def describes(self, t: Any, array: Any) -> bool:
        """Whether a tensor is still what it was when it was saved."""
        if t._array is not array or t._cell is not self.cell:
            return False
        if t._special or t._view_of is not None:
            return False
        wants: bool = t.requires_grad
        edge = edge_of(t) if wants else None
        own = None if self.node is None else (self.node, self.slot)
        return wants == self.wants_grad and edge == own

    def physical(self, owner: Node) -> Any:
        if self.packed is not None:
            t = unpack_checked(self.packed)
            if not self.wants_grad and not t.requires_grad:  # type: ignore[attr-defined]
                return t
            array, cell = t._array, t._version_cell()
        else:
            if self.node is not None and self.slot in (self.node._detached or ()):
                raise errors.saved_detached()
            if self.cell.n != self.version:
                made_by = owner.name()
                if not self.is_output:
                    made_by = history_now(self.node, self.cell, self.array)
                raise errors.modified_in_place(
                    owner,
                    self.array,
                    made_by,
                    self.slot,
                    "a tensor of save_for_backward",
                    owner.name(),
                    self.cell,
                    self.version,
                )
            if self.whole is not None:
                return self.whole
            array, cell = self.array, self.cell
            if SWAPS and not self.is_output:
                array = newest(array, cell, self.node, self.slot)
            alive = None if self.alive is None else self.alive()
            if alive is not None and self.describes(alive, array):
                return alive
        node = owner if self.is_output else self.node
        if node is not None and node._is_leaf:
            leaf: Any = node
            made = leaf.saved_alias(array)
        else:
            made = wrap(array) if self.wrapper is None else bare_twin(self.wrapper)
            made._wants_grad = self.wants_grad
            made._node = node
            made._slot = self.slot
        made._cell = cell
        return made


class FunctionCtx:
    """The methods and attributes of `ctx` in forward and backward."""

    saved_for_forward: tuple[Any, ...] | None

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward, with the checks that protect against later writes."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`."""
        for t in tensors:
            if not (t is None or isinstance(t, TensorBase)):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save "
                    "non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs forward wrote to."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether outputs that received no gradient show up as zeros (the default) or as None."""
        self.materialize_grads = value


class BackwardFunction(Node, FunctionCtx):
    """The node of one application; for each Function there is a subclass with its name."""

    _forward_cls: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.to_save: tuple[Any, ...] = ()
        self.saved_for_forward = None
        self.dirty_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True
        self._materialize_non_diff_grads = True
        self._plain_slots: frozenset[int] = frozenset()  # outputs that are not differentiable
        self.needs_input_grad: tuple[bool, ...] = ()
        self._saved: tuple[Kept | None, ...] = ()
        self._input_metas: tuple[Any, ...] = ()  # per argument (shape, dtype); None if no tensor
        self._released = False
        self._read = False  # saved_tensors was asked for, which a Function may allow once
        self._places: Any = None  # function_transforms.Places, where arguments are batched

    def __repr__(self) -> str:
        return f"<torch.autograd.function.{self.name()} object at {id(self):#x}>"

    def apply(self, *grads: Any) -> Any:
        """The gradients that the user's backward returns."""
        return call_backward(self._forward_cls, self, grads)

    def name(self) -> str:
        return type(self).__name__

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        if self.saved_for_forward is not None:
            return self.saved_for_forward  # until the application is finished: `jvp` asks
        if self._read:
            raise RuntimeError(
                "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True "
                "is set on the autograd.Function. Either access saved_tensors only once, or set "
                "clear_saved_tensors_on_access=False."
            )
        if self._released:
            raise errors.freed_graph(self)
        found = tuple(None if s is None else s.tensor(self) for s in self._saved)
        if self._forward_cls is not None and self._forward_cls.clear_saved_tensors_on_access:
            self._read = True
            self._saved = ()
        return found

    @property
    def saved_variables(self) -> Any:
        """The former name of `saved_tensors`."""
        warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """The saved tensors before unpacking: hooks can be put on them."""
        if self._released:
            raise errors.freed_graph(self)
        return tuple(self._raw(s) for s in self._saved)

    def _raw(self, kept: Kept | None) -> SavedTensor:
        def look() -> Any:
            if kept is None:
                return None
            return kept.packed if kept.packed is not None else kept.tensor(self)

        def replace(pack: Any, unpack: Any) -> None:
            if kept is not None:
                kept.pack(self, pack, unpack)

        return SavedTensor(look, replace, lambda: self._released)

    def _release(self) -> None:
        if self._saved:
            self._released = True
            self._saved = ()

    def _reopened(self, levels: Any) -> Any:
        """Open levels again, in place of those that were open when the node was made."""
        return self._places.reopened(levels)

    def _pull(self, grad: Any, record: bool) -> Any:
        """Call the user's backward on the gradients of the outputs, and check what it returns."""
        if self._places is not None:
            return self._places.pull(self, grad, record)
        grads: list[Any] = []
        for g, meta in zip(grad, self._outputs or (), strict=True):
            if g is None:
                zeros = self.materialize_grads and meta is not None
                if len(grads) in self._plain_slots and not self._materialize_non_diff_grads:
                    zeros = False
                grads.append(wrap(zeros_beside(grad, *meta)) if zeros else None)
            else:
                grads.append(g if isinstance(g, TensorBase) else wrap(as_array(g)))
        # A pass on tensors need not be recorded: it may carry tangents or batches along.
        with grad_set_to(record and MODES.grad):
            found = self.apply(*grads)
        return self._checked(found, record)

    def _checked(self, found: Any, record: bool) -> list[Any]:
        if not isinstance(found, tuple):
            found = (found,)
        metas = self._input_metas
        if len(found) > len(metas) and all(g is None for g in found[len(metas) :]):
            found = found[: len(metas)]
        if len(found) != len(metas):
            raise errors.wrong_gradient_count(self, len(metas), found)
        result: list[Any] = []
        F = RECORDED if record else RAW
        for i, (g, meta) in enumerate(zip(found, metas, strict=True)):
            if meta is None:
                if g is not None:
                    raise errors.wrong_gradient(
                        self,
                        f"function {self.name()} returned a gradient different than None at "
                        f"position {i + 1}, but the corresponding forward input was not a Variable",
                        i,
                        found,
                    )
                continue
            if g is None:
                result.append(None)
                continue
            if not isinstance(g, TensorBase):
                raise RuntimeError(f"expected Variable or None (got {type(g).__name__})")
            shape, dtype = meta
            if g._array.shape != shape and not sums_to(g._array.shape, shape):
                raise errors.wrong_gradient(
                    self,
                    f"Function {self.name()} returned an invalid gradient at index {len(result)} - "
                    f"got {list(g._array.shape)} but expected shape compatible with {list(shape)}",
                    i,
                    found,
                )
            dtype = wanted_dtype(self._edges[len(result)], g, dtype)
            result.append(fit(F, g if record else bare(g, self._edges[len(result)]), shape, dtype))
        return result


def bare(g: Any, edge: Any) -> Any:
    """The array of a gradient; a sparse one stays what it is on its way to a leaf."""
    if not dispatched.has_sparse(g):
        return plain(g._array)
    return g if edge is not None and edge._is_leaf else g.to_dense()._array


def sums_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether `target` broadcasts to `shape`, so that a gradient can be summed down."""
    if len(target) > len(shape):
        return False
    tail = shape[len(shape) - len(target) :]
    return all(t in (1, s) for s, t in zip(tail, target, strict=True))


def user_backward(cls: Any) -> Callable[..., Any]:
    has_backward = cls.backward is not Function.backward
    if has_backward and cls.vjp is not Function.vjp:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
            "should only implement one of them."
        )
    return cls.backward if has_backward else cls.vjp  # type: ignore[no-any-return]


def call_backward(cls: Any, ctx: Any, grads: Sequence[Any]) -> Any:
    function = user_backward(cls)
    return function(ctx, list(grads)) if cls.boxed_grads_call else function(ctx, *grads)


BackwardCFunction = BackwardFunction  # PyTorch's name for it


class Function:
    """Base class of custom operations: subclass it and give it static `forward` and `backward`.

    >>> class Double(autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = tensor(3.0, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad
    tensor(2.)
    """

    generate_vmap_rule = False
    clear_saved_tensors_on_access = False  # True: they are released when backward reads them
    boxed_grads_call = False  # backward gets its gradients in one list, from which it may drop them
    _backward_cls: Any = BackwardFunction

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._backward_cls = type(
            cls.__name__ + "Backward", (BackwardFunction,), {"_forward_cls": cls}
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            f"{self.__class__} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        sentence = (
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )
        raise errors.slips.called_function(sentence, self)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """forward(ctx, *args), or forward(*args) with a `setup_context`: compute the outputs."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """With forward(*args): keep here what backward needs."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """One gradient per argument of forward (None where there is none)."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function "
            "to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The forward-mode derivative."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """All entries of a batch: (outputs, their dimensions of the batch)."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record the node."""
        if cls.setup_context is not Function.setup_context:
            args, kwargs = bound(cls.forward, args, kwargs)
        elif STACK.transforms():
            raise RuntimeError(
                "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, "
                "jacrev, ...), it must override the setup_context staticmethod. For more details, "
                "please see https://pytorch.org/docs/main/notes/extending.func.html"
            )
        if kwargs:
            args = by_position(cls, args, kwargs)
        if STACK.levels:
            from .function_transforms import apply_in_levels

            return apply_in_levels(cls, args)
        return apply_function(cls, args)


class InplaceFunction(Function):
    """An old name of PyTorch's for a Function."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def bound(
    forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of forward, defaults filled in."""
    code = getattr(forward, "__code__", None)
    if (
        code is not None
        and not kwargs
        and code.co_argcount == len(args)
        and not code.co_kwonlyargcount
    ):
        return args, kwargs
    found = inspect.signature(forward).bind(*args, **kwargs)
    found.apply_defaults()
    return found.args, found.kwargs


def by_position(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments given by name, at their places: backward returns one gradient for each place."""
    names = [
        p.name
        for p in inspect.signature(cls.forward).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if cls.setup_context is Function.setup_context:
        del names[0]  # ctx
    for name in kwargs:
        if name not in names:
            raise TypeError(f"forward() got an unexpected keyword argument '{name}'")
        if name in names[: len(args)]:
            raise TypeError(f"forward() got multiple values for argument '{name}'")
    last = max(names.index(name) for name in kwargs)
    made = list(args)
    for i in range(len(args), last + 1):
        if names[i] not in kwargs:
            raise TypeError(f"forward() missing required argument: '{names[i]}' (position {i})")
        made.append(kwargs[names[i]])
    return tuple(made)


def apply_function(cls: Any, args: tuple[Any, ...], in_levels: bool = False) -> Any:
    """Apply a Function once; `in_levels`: on behalf of a transform (function_transforms.py)."""
    ctx: BackwardFunction = cls._backward_cls()
    tensors = [a for a in args if isinstance(a, TensorBase)]
    for t in tensors:
        if t._view_of is not None:
            view_history.refresh(t)
    recording = MODES.records and any(t.requires_grad for t in tensors)  # type: ignore[attr-defined]
    ctx.needs_input_grad = tuple(isinstance(a, TensorBase) and a.requires_grad for a in args)  # type: ignore[attr-defined]
    edges = [edge_of(t) if t.requires_grad else None for t in tensors]  # type: ignore[attr-defined]
    ctx._edges = tuple(None if e is None else e[0] for e in edges)
    ctx._edge_slots = tuple(0 if e is None else e[1] for e in edges)
    ctx._input_metas = tuple(
        (a._array.shape, a._array.dtype) if isinstance(a, TensorBase) else None for a in args
    )
    with no_grad():
        if TANGENTS:
            with forward_set_to(False):
                output = run_forward(ctx, cls, args)
        else:
            output = run_forward(ctx, cls, args)
    ctx._seq = next_seq()
    frame = user_frame(1)
    if frame is not None:
        ctx._code, ctx._lasti = frame.f_code, frame.f_lasti
    outputs = output if isinstance(output, tuple) else (output,)
    made = wrap_outputs(ctx, outputs, args, recording, in_levels)
    if recording:
        dispatched.note(ctx, (*args, *made))
    if TANGENTS and STACK.forward:
        from .function_transforms import push_plain

        push_plain(ctx, cls, args, outputs, made)
    return finished(ctx, made, output, recording)


def finished(ctx: Any, made: list[Any], output: Any, recording: bool) -> Any:
    """Finish an application: store what the context keeps, return the outputs."""
    ctx.saved_for_forward = None
    if recording:
        save(ctx, made)
        if STATE.modes_on:
            recorded_in_mode(ctx)
    ctx.to_save = ctx.dirty_tensors = ctx.non_differentiable = ()
    return tuple(made) if isinstance(output, tuple) else made[0]


def run_forward(ctx: Any, cls: Any, args: tuple[Any, ...]) -> Any:
    if cls.setup_context is Function.setup_context:
        return cls.forward(ctx, *args)
    output = cls.forward(*args)
    cls.setup_context(ctx, args, output)
    return output


def wrap_outputs(
    ctx: Any, outputs: tuple[Any, ...], args: tuple[Any, ...], recording: bool, in_levels: bool
) -> list[Any]:
    """Give the outputs of forward a history: new ones, dirty inputs, views, inputs as they are."""
    check_dirty(ctx, outputs)
    plain = {id(t) for t in ctx.non_differentiable}
    ctx._plain_slots = frozenset([i for i, out in enumerate(outputs) if id(out) in plain])
    dirty = {id(t) for t in ctx.dirty_tensors}
    inputs = {id(a) for a in args if isinstance(a, TensorBase)}
    several = sum(isinstance(o, TensorBase) for o in outputs) > 1
    ctx._outputs = tuple(
        (o._array.shape, o._array.dtype) if isinstance(o, TensorBase) else None for o in outputs
    )
    if any([i not in inputs for i in dirty]):
        warn(
            "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that "
            "have been mutated should be passed to ctx.mark_dirty().",
        )
    made: list[Any] = []
    for slot, out in enumerate(outputs):
        if not isinstance(out, TensorBase):
            made.append(out)
            continue
        differentiable = recording and id(out) not in plain and out._array.dtype.kind in "fcV"
        if id(out) in dirty:
            write_back(ctx, out, slot, differentiable)
        returned: Any = out
        if id(out) in inputs and not (differentiable or in_levels) and returned.requires_grad:
            out = returned.detach()
        elif id(out) not in dirty:
            if id(out) in inputs:
                out = as_returned(out)
            elif out._view_of is not None:
                out._view_of.kind = "multi" if several and recording else "custom"
            if recording or out._view_of is None:
                set_history(ctx, out, slot, differentiable)
        made.append(out)
    return made


def set_history(ctx: Any, out: Any, slot: int, differentiable: bool) -> None:
    if not differentiable:
        out._node = None
        out._wants_grad = False
        out._slot = 0
        return
    out._node = ctx
    out._slot = slot
    out._wants_grad = True
    out._cut = None


def as_returned(source: Any) -> Any:
    """A view of an input that forward returns; of a subclass, what its own `view_as` gives."""
    if not source._special or MODES.subclasses_off or not asked_types((source,)):
        return alias(source, "custom")
    with no_grad():
        out = source.view_as(source)
    if isinstance(out, TensorBase) and out._view_of is not None:
        out._view_of.kind = "custom"
    return out


def alias(source: Any, kind: str) -> Any:
    """A view of all of `source`: how a Function returns an input as it is."""
    out = wrap(source._array)
    out._cell = source._version_cell()
    if out._cell.inference:
        return out
    base = source if source._view_of is None else source._view_of.base
    steps = () if source._view_of is None else source._view_of.steps
    out._view_of = View(base, kind, out._cell.n, steps)
    frame = user_frame(1)
    if frame is not None:
        out._view_of._code, out._view_of._lasti = frame.f_code, frame.f_lasti
    return out


def check_dirty(ctx: Any, outputs: tuple[Any, ...]) -> None:
    for i, t in enumerate(ctx.dirty_tensors):
        if not isinstance(t, TensorBase):
            raise RuntimeError(
                f"mark_dirty can only accept variables, but argument\n{i} is of type "
                f"{type(t).__name__}"
            )
        if not any(o is t for o in outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )
    for i, t in enumerate(ctx.non_differentiable):
        if not isinstance(t, TensorBase):
            raise TypeError(
                "mark_non_differentiable can only accept variables, but argument "
                f"{i} is of type {type(t).__name__}"
            )


VIEW_AND_MORE = (
    "If your Function modifies inplace an input that is a view of another Tensor, your Function "
    "cannot return more than one Tensor. This is not supported by the current autograd engine. You "
    "should either make sure the input is not a view (using .clone() for example) or make your "
    "Function only return one Tensor (potentially splitting it into two Functions: one doing the "
    "inplace that returns a single Tensor and a second one that does the other operations). You "
    "can ask on the forum https://discuss.pytorch.org/ if you need help to do this change."
)


def write_back(ctx: Any, out: Any, slot: int, differentiable: bool) -> None:
    """An input that forward wrote to and returns: its history continues with this node."""
    out._version_cell().bump(ctx.name())
    if not differentiable:
        return
    if out.is_leaf and out.requires_grad:
        raise RuntimeError(
            "a leaf Variable that requires grad has been used in an in-place operation."
        )
    out._gradient = None
    if out._view_of is not None and len(ctx._outputs) > 1:
        raise RuntimeError(VIEW_AND_MORE)
    inplace.refuse(out, True)
    if out._view_of is not None:
        view_history.rebase(out, ctx)
    else:
        set_history(ctx, out, slot, True)
        out._cell.rebased, out._cell.rebased_array = ctx.name(), id(out._array)


def save(ctx: Any, made: list[Any]) -> None:
    """Turn the tensors of save_for_backward into Kept ones, now that outputs have a history."""
    saved: list[Kept | None] = []
    to_save = ctx.to_save if isinstance(ctx.to_save, tuple) else (ctx.to_save,)
    for i, t in enumerate(to_save):
        if t is None:
            saved.append(None)
            continue
        if not isinstance(t, TensorBase):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {i} is of type "
                f"{type(t).__name__}"
            )
        if t._cell is not None and t._cell.inference:
            raise errors.inference_saved()
        physical, batches = grounded(t) if t._special else (t, ())
        is_output = physical._node is ctx
        slot = physical._slot if is_output else 0
        saved.append(Kept(physical, ctx, slot, is_output, batches))
    ctx._saved = tuple(saved)
    ctx._frees = bool(saved)
    if MODES.saved_hooks:
        pack, unpack = MODES.saved_hooks[-1]
        for s in saved:
            if s is not None:
                s.pack(ctx, pack, unpack)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """For a `backward` that must not be differentiated again: doing so raises."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = function(ctx, *args)
        if not MODES.grad:
            return outputs
        if not any(isinstance(a, TensorBase) and a.requires_grad for a in args):  # type: ignore[attr-defined]
            return outputs
        found = outputs if isinstance(outputs, tuple) else (outputs,)
        refused = refuse_twice(found)
        return refused if isinstance(outputs, tuple) else refused[0]

    return wrapper


class ErrorNode(Node):
    """Raises when backward reaches it."""

    def __init__(self, message: str) -> None:
        super().__init__()
        self.message = message

    def name(self) -> str:
        return "torch::autograd::Error"

    def _pull(self, grad: Any, record: bool) -> Any:
        raise RuntimeError(self.message)


ErrorNode.__name__ = "Error"  # as PyTorch shows it


def refuse_twice(grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Gradients as results of a node that raises when backward reaches it."""
    node = ErrorNode(
        "trying to differentiate twice a function that was marked with @once_differentiable"
    )
    node._seq = next_seq()
    grounds = [None if g is None else grounded(g) for g in grads]
    arrays = [None if found is None else found[0]._array for found in grounds]
    node._outputs = tuple([None if a is None else (a.shape, a.dtype) for a in arrays])
    # PyTorch's node leads to leaves, one for each gradient.
    leaves = [None if a is None else wrap(a) for a in arrays]
    for leaf in leaves:
        if leaf is not None:
            leaf._wants_grad = True
    node._edges = tuple([None if leaf is None else accumulate_node(leaf) for leaf in leaves])
    node._edge_slots = (0,) * len(leaves)
    made: list[Any] = []
    for i, (array, found) in enumerate(zip(arrays, grounds, strict=True)):
        if found is None:
            made.append(None)
            continue
        t = wrap(array)
        t._node, t._slot, t._wants_grad = node, i, True
        made.append(above(t, found[1]))
    return tuple(made)
