"""The Tensor that users hold: the compiled base plus everything that is not on the hot path.

Operators live in core/operators.py, the ops' methods come from their blocks (api/publish.py),
conversions from conversion.py. What stands here is identity: autograd's attributes, shape, copies,
pickling.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ... import dtypes, errors
from ...autograd import api, copies, view_history
from ...autograd.hooks import HookDict, RemovableHandle, add_hook, hooks_of
from ...autograd.starts import pass_from, plain_start
from ...core import array_kind, lazy_conj, python_dispatch, subclass, wrappers
from ...core.arguments import wrap_dim
from ...core.base import (
    INTERPRETED,
    STATE,
    Cut,
    Node,
    TensorBase,
    Version,
    blank,
    note_birth,
    shown,
    wrap,
)
from ...core.function_modes import WATCHED, ask_watchers, is_watched
from ...core.late_bound import TENSOR
from ...core.modes import MODES
from ...core.node import accumulate_node
from ...core.operators import Operators
from ...core.references import references
from ...core.size import Size
from ...core.strides import address, strides_of
from ...core.thread_modes import Unrepeated
from ...core.transforms import batched, dual, looping
from ...core.transforms.levels import FLAGGED_INSIDE, STACK, refuse_inside
from ...device import CPU, META, channels_last, channels_last_3d, contiguous_format, strided
from ...device import device as device_type
from ...device import layout as layout_type
from ...errors import of_tensors
from ...errors.slips import flag_of_a_result, hook_without_history, kept_without_history
from ...kernels.cpu import KERNELS
from ...ops.index import subscripts
from . import printing

# What is nobody's business: dir() leaves it out.
FIELDS = frozenset([name for name in vars(TensorBase) if not name.startswith("__")])


def own_counter(cell: Version) -> Version:
    """The counter of a detached tensor: outside of inference mode all of them have one."""
    if not cell.inference or MODES.inference:
        return cell
    made = Version()
    made.inference = made.counts = True
    return made


class Tensor(Operators):
    """A multi-dimensional array of one dtype that can remember how it came about.

    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __array_priority__ = 1000

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        from ...ops.creation.sized import legacy_tensor

        return legacy_tensor(cls, *args, **kwargs)

    # Ops on a subclass give that subclass; Parameter and the like opt out by setting this to False.
    _takes_part = True

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """How ops treat a subclass: compute as usual, then convert the results to it."""
        return subclass.default_torch_function(cls, func, types, args, kwargs)

    # What a class that wants to see ops puts in its place: core/python_dispatch.py.
    __torch_dispatch__ = staticmethod(python_dispatch.disabled_torch_dispatch)

    @staticmethod
    def _make_wrapper_subclass(
        cls: type,
        size: Any,
        strides: Any = None,
        storage_offset: int | None = None,
        memory_format: Any = None,
        dtype: Any = None,
        layout: Any = strided,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        dispatch_sizes_strides_policy: str | None = None,
        dispatch_device: bool = False,
        dispatch_layout: bool = False,
        _extra_dispatch_keys: Any = None,
        storage_size: int | None = None,
    ) -> Any:
        """A tensor of a class with `__torch_dispatch__`: it has a shape and no memory."""
        kind = dtypes.default_np() if dtype is None else dtype.np
        place = None if device is None else device_type(device)
        return wrappers.make_wrapper(
            cls, size, strides, storage_offset, kind, place, bool(requires_grad)
        )

    @staticmethod
    def _make_subclass(
        cls: type,
        data: Any,
        require_grad: bool = False,
        dispatch_sizes_strides_policy: str | None = None,
        dispatch_device: bool = False,
        dispatch_layout: bool = False,
        device_for_backend_keys: Any = None,
    ) -> Any:
        with python_dispatch.modes_set_to(()), python_dispatch.below_classes():
            made = subclass.as_subclass(data.detach(), cls)
        made._cell = None
        made._cut = None
        made._wants_grad = require_grad
        return made

    @of_tensors
    def as_subclass(self, cls: type) -> Any:
        """A tensor of a subclass with this memory and history.

        >>> class Metres(Tensor):
        ...     pass
        >>> x = tensor([1.0, 2.0]).as_subclass(Metres)
        >>> type(x).__name__, type(x * 2).__name__
        ('Metres', 'Metres')
        """
        return subclass.as_subclass(self, cls)

    # ------------------------------------------------------------------ autograd

    @property
    def requires_grad(self) -> bool:
        """Whether operations on it are recorded, so that backward reaches it."""
        if self._special and batched.is_batched(self):
            return batched.requires_grad(self)
        view = self._view_of
        return self._wants_grad or (view is not None and view.base._wants_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError("requires_grad must be a bool")
        if self._special and batched.is_batched(self):
            return  # PyTorch flags the entry, which nothing looks at
        if value and not self.is_leaf:
            sentence = "you can only change requires_grad flags of leaf variables."
            raise flag_of_a_result(sentence, self, value)
        if value and self._array.dtype.kind not in "fcV":
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients"
            )
        self._flag(value)

    @of_tensors
    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Say whether gradients for this leaf should be recorded; returns self.

        >>> tensor([1.0]).requires_grad_()
        tensor([1.], requires_grad=True)
        """
        if not isinstance(requires_grad, bool):
            raise TypeError(
                "requires_grad_(): argument 'requires_grad' (position 1) must be bool, "
                f"not {type(requires_grad).__name__}"
            )
        if STACK.levels:
            because = "(or perhaps using torch.autograd.functional.* APIs) "
            refuse_inside(FLAGGED_INSIDE, "requires_grad_", because)
        return self._flag(requires_grad)

    def _flag(self, requires_grad: bool) -> Tensor:
        # As it was last known: unlike `is_leaf`, this does not notice writes to a view's base.
        if self._node is not None and not self._node._is_leaf and not requires_grad:
            raise flag_of_a_result(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach().",
                self,
                requires_grad,
            )
        if requires_grad and self._array.dtype.kind not in "fcV":
            refusal = RuntimeError("only Tensors of floating point dtype can require gradients")
            errors.explain_call(refusal, "requires_grad_", ("input",), (self,))
            raise refusal
        if (
            self._cell is not None
            and self._cell.inference
            and requires_grad
            and not MODES.inference
        ):
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                "allowed."
            )
        # The AccumulateGrad stays: a graph may lead there, and gradients may be wanted again.
        self._wants_grad = requires_grad
        if requires_grad and self._node is None:
            note_birth(self)
        view = self._view_of
        if view is not None:
            view.asked = requires_grad
            self._wants_grad = requires_grad or view.base._wants_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made it; backward fills `grad` of leaves."""
        Unrepeated.count += 1  # no signature has it
        if STATE.modes_on:
            self = python_dispatch.asked_about(self, "history")
        if self._special and batched.is_batched(self):
            return batched.is_leaf(self)
        if self._view_of is not None:
            view_history.look_again(self)
        node = self._node
        return node is None or node._is_leaf

    @property
    def grad_fn(self) -> Node | None:
        """The node that made it; None for a leaf."""
        Unrepeated.count += 1  # no signature has it
        if STATE.modes_on:
            self = python_dispatch.asked_about(self, "history")
        if self._special and batched.is_batched(self):
            return batched.grad_fn(self)
        if self._view_of is not None:
            view_history.look_again(self)
        node = self._node
        if node is None or node._is_leaf:
            return None
        node._made = self._array.shape, self._array.dtype
        return shown(node)

    @property
    def grad(self) -> Any:
        """The gradient that backward accumulated here; None before.

        >>> w = tensor([1.0, 2.0], requires_grad=True)
        >>> print(w.grad)
        None
        >>> (w * w).sum().backward()
        >>> w.grad
        tensor([2., 4.])
        """
        Unrepeated.count += 1  # no signature has it
        if STATE.modes_on:
            self = python_dispatch.asked_about(self, "history")
        node = self._node
        if self._gradient is None and node is not None and not (node._is_leaf or self._retained):
            errors.warn_non_leaf_grad(self)
        return self._gradient

    @grad.setter
    def grad(self, value: Any) -> None:
        api.check_assigned_grad(self, value)
        self._gradient = value

    @grad.deleter
    def grad(self) -> None:
        self._gradient = None

    @property
    def grad_dtype(self) -> Any:
        """The dtype that `.grad` of a leaf will have; None: any.

        >>> w = tensor([1.0], requires_grad=True)
        >>> w.grad_dtype
        torch.float32
        """
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
        found = api.grad_dtype(self)
        return None if found is None else dtypes.of(found)

    @grad_dtype.setter
    def grad_dtype(self, value: Any) -> None:
        if value is not None and not isinstance(value, dtypes.dtype):
            raise RuntimeError(
                f"grad_dtype must be a torch.dtype or None, but got {type(value).__name__}"
            )
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be set on leaf tensors.")
        api.set_grad_dtype(self, None if value is None else value.np)

    @property
    def data(self) -> Tensor:
        """A tensor with this memory, no history, and a version counter of its own.

        >>> w = tensor([1.0, 2.0], requires_grad=True)
        >>> w.data -= 0.5
        >>> w
        tensor([0.5000, 1.5000], requires_grad=True)
        """
        if self._special and batched.is_batched(self):
            raise RuntimeError("accessing `data` under vmap transform is not allowed")
        if (self._special or STATE.modes_on) and python_dispatch.is_asked(self):
            found: Tensor = self.detach()
            if found._cell is self._cell and found._cell is not None:
                found._cell = own_counter(found._cell) if found._cell.inference else None
            return found
        t: Tensor = same_class(self, self._array)
        if self._cell is not None and self._cell.inference:
            t._cell = own_counter(self._cell)
        if self.requires_grad:
            t._cut = Cut("data", self)
        return t

    @data.setter
    def data(self, value: Any) -> None:
        if STATE.modes_on and getattr(value, "_array", None) is not self._array:
            python_dispatch.asked_about(self, "data")
        copies.assign_data(self, value)

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    @property
    def _version(self) -> int:
        Unrepeated.count += 1  # no signature has it
        if STATE.modes_on:
            self = python_dispatch.asked_about(self, "place")
        cell = self._cell
        if cell is None:
            return 0
        if cell.inference and not cell.counts:
            raise RuntimeError("Inference tensors do not track version counter.")
        return cell.n

    @property
    def _base(self) -> Tensor | None:
        Unrepeated.count += 1  # no signature has it
        if STATE.modes_on:
            self = python_dispatch.asked_about(self, "place")
        return None if self._view_of is None else self._view_of.base  # type: ignore[return-value]

    def _use_count(self) -> int:
        """How many hold this tensor: the program, and a graph that leads to it as a leaf."""
        node = self._node
        # The tensor's own reference and this one are always there.
        held = node is not None and node._is_leaf and references(node) > 2
        return 2 if held else 1

    def module_load(self, other: Any, assign: bool = False) -> Any:
        """The tensor that load_state_dict puts in the place of this one, from `other`, where it
        swaps tensors.
        """
        if assign:
            return other.detach()
        return self.copy_(other).detach()  # type: ignore[attr-defined]

    @property
    def output_nr(self) -> int:
        """Which result of its node it is."""
        return self._slot

    def _is_view(self) -> bool:
        Unrepeated.count += 1  # no signature has it
        if STATE.modes_on:
            self = python_dispatch.asked_about(self, "place")
        return self._view_of is not None

    @property
    def retains_grad(self) -> bool:
        """Whether backward keeps its gradient though it is no leaf."""
        return self._retained

    @of_tensors
    def retain_grad(self) -> None:
        """Keep `.grad` for a tensor that is not a leaf.

        >>> x = tensor([1.0, 2.0], requires_grad=True)
        >>> y = x * 3
        >>> y.retain_grad()
        >>> y.sum().backward()
        >>> y.grad
        tensor([1., 1.])
        """
        if not self.requires_grad:
            raise kept_without_history(self)
        refuse_inside(FLAGGED_INSIDE, "retain_grad", "")
        if self.is_leaf or self._retained:
            return
        api.retain(self)

    @of_tensors
    def is_inference(self) -> bool:
        """Whether it was made in inference mode."""
        return self._cell is not None and self._cell.inference

    def detach(self) -> Tensor:
        """A tensor with this memory and no history; it shares this one's version counter.

        >>> x = tensor([1.0], requires_grad=True)
        >>> x.detach().requires_grad
        False
        """
        if WATCHED and is_watched((self,), {}):
            return ask_watchers(Tensor.detach, (self,), {})  # type: ignore[no-any-return]
        try:
            special = self._special
        except AttributeError as error:
            raise errors.unbound_call(error, "detach", self) from None
        if special and not isinstance(self, TensorBase):  # `Tensor.detach(Tensor)`: a descriptor
            raise errors.no_method("detach", self)
        if special and batched.is_batched(self):
            return batched.through(Tensor.detach, self)
        if (special or STATE.modes_on) and python_dispatch.is_asked(self):
            return subclass.detached(self)
        t: Tensor = same_class(self, self._array)
        t._cell = own_counter(self._version_cell())
        if self.requires_grad:
            t._cut = Cut("detach", self)
        else:
            t._cut = self._cut
        return t

    @of_tensors
    def detach_(self) -> Tensor:
        """Forget the history in place.

        >>> x = tensor([2.0], requires_grad=True) * 3
        >>> x.detach_()
        tensor([6.])
        >>> x.requires_grad
        False
        """
        if MODES.inference:
            return self  # what would do it does not run there
        if self._view_of is not None or (self._special and batched.is_batched(self)):
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using "
                "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
                "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
                "these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
                "function in torch/optim/optimizer.py as the solution."
            )
        if self._special:
            dual.forget(self)
        if self._wants_grad:
            self._cut = Cut("detach_")
        if self._node is not None and not self._node._is_leaf:
            STATE.detached = True
            self._node._detached = {self._slot, *(self._node._detached or ())}
            self._node = None
        self._wants_grad = False
        self._slot = 0
        self._retained = False
        return self

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
        retain_variables: bool | None = None,
    ) -> None:
        """Add the gradients of this tensor to the `.grad` of the leaves that it came from.

        >>> x = tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        """
        if retain_graph is None:
            retain_graph = retain_variables  # the spelling of PyTorch before 0.3
        if WATCHED and is_watched((self,), {}):
            from ...overrides import handle_torch_function

            handle_torch_function(
                Tensor.backward,
                (self,),
                self,
                gradient=gradient,
                retain_graph=retain_graph,
                create_graph=create_graph,
                inputs=inputs,
            )
            return
        if gradient is None and inputs is None and not create_graph:
            start = plain_start(self)
            if start is not None:
                run = pass_from([start], bool(retain_graph), False)
                run.go([start])
                return
        api.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(grad)` whenever the gradient of this tensor has been computed.

        >>> x = tensor([1.0], requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 10)
        >>> x.sum().backward()
        >>> x.grad
        tensor([10.])
        """
        if not self.requires_grad:
            raise hook_without_history(self)
        if self._special and batched.is_batched(self):
            return batched.register_hook(self, hook)
        node = self.grad_fn or self._node or accumulate_node(self)
        hooks = hooks_of(node).tensor.setdefault(self._slot, HookDict())
        return add_hook(hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(tensor)` after a leaf's `.grad` has been added to.

        >>> x = tensor([1.0], requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda t: print(t.grad))
        >>> x.sum().backward()
        tensor([1.])
        """
        if not self.requires_grad:
            raise hook_without_history(self)
        if self.grad_fn is not None:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        return add_hook(hooks_of(self._node or accumulate_node(self)).accumulated_hooks, hook)

    @property
    def _backward_hooks(self) -> Any:
        node = self._node
        if node is None:
            return self.__dict__.get("_hooks_without_history")
        return None if node._hooks is None else node._hooks.tensor.get(self._slot)

    @_backward_hooks.setter
    def _backward_hooks(self, hooks: Any) -> None:
        if not self.requires_grad:  # nothing calls them
            self.__dict__["_hooks_without_history"] = hooks
            return
        own = hooks_of(self._node or accumulate_node(self)).tensor
        own.pop(self._slot, None)
        if hooks is not None:
            own[self._slot] = hooks

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError("Deletion of _backwards_hooks not allowed!")

    @property
    def _grad_fn(self) -> Any:
        return self.grad_fn

    @_grad_fn.setter
    def _grad_fn(self, value: Any) -> None:
        if value is not None:
            raise RuntimeError("_grad_fn can be only set to None")
        self.detach_()

    @_grad_fn.deleter
    def _grad_fn(self) -> None:
        raise RuntimeError("Deletion of _grad_fn not allowed. Detach tensor instead!")

    # ------------------------------------------------------------------ shape and kind

    @property
    def shape(self) -> Size:
        """The length of each dimension."""
        return tuple.__new__(Size, self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one of its sizes.

        >>> zeros(2, 3).size(), zeros(2, 3).size(0)
        (torch.Size([2, 3]), 2)
        """
        try:
            if dim is None:
                return tuple.__new__(Size, self._array.shape)
            if not self._array.ndim and isinstance(dim, int):
                raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
            return self._array.shape[wrap_dim(dim, self._array.ndim)]
        except AttributeError as error:
            raise errors.unbound_call(error, "size", self) from None

    def stride(self, dim: int | None = None) -> Any:
        """How many elements lie between neighbours, per dimension.

        >>> zeros(2, 3).stride()
        (3, 1)
        """
        try:
            if STATE.modes_on:
                self = python_dispatch.asked_about(self, "layout")
            strides = element_strides(self._array)
            return strides if dim is None else strides[wrap_dim(dim, len(strides))]
        except AttributeError as error:
            raise errors.unbound_call(error, "stride", self) from None

    @of_tensors
    def storage_offset(self) -> int:
        """Where it begins in its memory, in elements.

        >>> arange(5)[2:].storage_offset()
        2
        """
        if STATE.modes_on:
            self = python_dispatch.asked_about(self, "place")
        if self._special and batched.is_batched(self):
            return batched.batch_of(self).physical.storage_offset()  # type: ignore[no-any-return]
        if self._view_of is None and type(self._array) is np.ndarray and self._array.base is None:
            return 0
        Unrepeated.count += 1  # no signature has it
        base = owner(self._array)
        if self._view_of is not None:
            whole = owner(self._view_of.base._array)
            if 0 <= address(self._array) - address(whole) <= whole.nbytes:
                base = whole  # not so if `.data` was assigned since
        return (address(self._array) - address(base)) // self._array.itemsize

    def dim(self) -> int:
        """How many dimensions it has.

        >>> zeros(2, 3).dim()
        2
        """
        try:
            return self._array.ndim  # type: ignore[no-any-return]
        except AttributeError as error:
            raise errors.unbound_call(error, "dim", self) from None

    ndimension = dim

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return self._array.ndim  # type: ignore[no-any-return]

    def numel(self) -> int:
        """How many elements it has.

        >>> zeros(2, 3).numel()
        6
        """
        try:
            return self._array.size  # type: ignore[no-any-return]
        except AttributeError as error:
            raise errors.unbound_call(error, "numel", self) from None

    nelement = numel

    @property
    def dtype(self) -> dtypes.dtype:
        """The type of the elements."""
        return dtypes.of(self._array.dtype)

    @property
    def device(self) -> device_type:
        """Where its elements are."""
        if self._special:
            claimed: device_type | None = self.__dict__.get("_claimed_device")
            if claimed is not None:
                return claimed
            if STATE.elsewhere:
                return elsewhere(self)
        return CPU

    @property
    def layout(self) -> layout_type:
        """How its elements are kept: strided, or by coordinates."""
        return strided

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self._array.itemsize  # type: ignore[no-any-return]

    @of_tensors
    def element_size(self) -> int:
        """The bytes of one element.

        >>> zeros(2).element_size()
        4
        """
        return self._array.itemsize  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """The bytes of all its elements."""
        return self._array.nbytes  # type: ignore[no-any-return]

    @of_tensors
    def data_ptr(self) -> int:
        """The address of its first element."""
        Unrepeated.count += 1  # no signature has it
        if STATE.modes_on:
            self = python_dispatch.asked_about(self, "place")
        if self._special and batched.is_batched(self):
            raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
        if type(self._array) is STATE.meta_type:
            return self.storage_offset() * self._array.itemsize  # type: ignore[attr-defined, no-any-return]
        return address(self._array) if self._array.size else 0

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        """Whether its elements lie in memory in the order of its indices.

        >>> zeros(2, 3).T.is_contiguous()
        False
        """
        try:
            if STATE.modes_on:
                self = python_dispatch.asked_about(self, "layout")
            if memory_format is not contiguous_format:
                return is_channels_last(self._array, memory_format)
            return self._array.flags.c_contiguous  # type: ignore[no-any-return]
        except AttributeError as error:
            raise errors.unbound_call(error, "is_contiguous", self) from None

    @of_tensors
    def is_floating_point(self) -> bool:
        """Whether its dtype is one of floating point numbers.

        >>> tensor([1]).is_floating_point(), tensor([1.0]).is_floating_point()
        (False, True)
        """
        return self.dtype.is_floating_point

    @of_tensors
    def is_complex(self) -> bool:
        """Whether its elements are complex numbers."""
        return self.dtype.is_complex

    @of_tensors
    def is_signed(self) -> bool:
        """Whether its dtype has negative numbers."""
        return self.dtype.is_signed

    @of_tensors
    def is_conj(self) -> bool:
        """Whether this is a view that shows conjugates of what is in memory.

        >>> x = tensor([1 + 2j])
        >>> x.is_conj(), x.conj().is_conj()
        (False, True)
        """
        return bool(self._special) and lazy_conj.is_conjugated(batched.physical_array(self))

    @of_tensors
    def is_neg(self) -> bool:
        """Whether this is a view that shows negatives of what is in memory.

        >>> tensor([1 + 2j]).conj().imag.is_neg()
        True
        """
        return bool(self._special) and lazy_conj.is_negated(batched.physical_array(self))

    @of_tensors
    def get_device(self) -> int:
        """The number of its GPU; -1 on the CPU."""
        place = self.device.index
        return -1 if place is None else place

    @property
    def is_cuda(self) -> bool:
        """Whether its elements are on a GPU."""
        return bool(self._special) and self.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether its elements are in the memory of the processor."""
        return not self._special or self.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        """Whether it has a shape and a dtype and no elements."""
        return bool(self._special) and self.device.type == "meta"

    is_sparse = is_mps = is_quantized = is_nested = is_mkldnn = is_xpu = False
    is_sparse_csr = is_ipu = is_xla = is_vulkan = is_mtia = is_maia = False

    # ------------------------------------------------------------------ protocols

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        if WATCHED and is_watched((self,), {}):
            options = {"tensor_contents": tensor_contents}
            return str(ask_watchers(Tensor.__repr__, (self,), options))
        if self._special and batched.is_batched(self):
            return batched.spell(self)
        tangent = dual.tangent_of(self)
        if tangent is not None:
            return printing.tensor_repr(dual.bare(self), tensor_contents, tangent)
        return printing.tensor_repr(self, tensor_contents)

    def __format__(self, spec: str) -> str:
        return printing.format_item(self, spec)

    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Tensor]:
        if self._array.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))  # type: ignore[attr-defined]

    def __reversed__(self) -> Tensor:
        return self.flip(0) if self._array.ndim else self  # type: ignore[attr-defined,no-any-return]

    def __getitem__(self, index: Any) -> Any:
        if WATCHED and is_watched((self,), {}):
            return ask_watchers(Tensor.__getitem__, (self, index), {})
        try:
            return subscripts.get(self, index)
        except (IndexError, RuntimeError) as error:
            if hasattr(error, "unbatched"):
                return looping.looped(error, "index", Tensor.__getitem__, (self, index), {})
            answer = answered_by_parts(Tensor.__getitem__, self, index)
            if answer is not NotImplemented:
                return answer
            errors.explain_call(error, "getitem", ("input", "index"), (self, index))
            raise

    def __setitem__(self, index: Any, value: Any) -> None:
        if WATCHED and is_watched((self, value), {}):
            ask_watchers(Tensor.__setitem__, (self, index, value), {})
            return
        try:
            subscripts.put(self, index, value)
        except (IndexError, RuntimeError, TypeError) as error:
            if hasattr(error, "unbatched"):
                looping.looped(error, "index_put", Tensor.__setitem__, (self, index, value), {})
                return
            if answered_by_parts(Tensor.__setitem__, self, index, value) is not NotImplemented:
                return
            names = ("input", "index", "value")
            errors.explain_call(error, "setitem", names, (self, index, value))
            raise

    def __delitem__(self, index: Any) -> None:
        raise TypeError("Tensor does not support deleting items")

    def __contains__(self, element: Any) -> bool:
        if isinstance(element, (Tensor, int, float, complex, bool)):
            return bool((element == self).any().item())  # type: ignore[union-attr]
        raise RuntimeError(
            "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
            f"{type(element)}."
        )

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) - FIELDS - {"volatile", "__cuda_array_interface__"})

    def __copy__(self) -> Tensor:
        return copies.shallow_copy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return copies.deep_copy(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return copies.reduce(self)


TENSOR.cls = Tensor
TENSOR.new = Operators.__new__
TENSOR.plain = (
    KERNELS.maker(Operators, Tensor) if KERNELS else functools.partial(Operators.__new__, Tensor)
)


def elsewhere(t: Any) -> device_type:
    """The device of a tensor, when others than the CPU are in use."""
    array = batched.physical_array(t)
    if type(array) is STATE.meta_type:
        return META
    if STATE.device_type is None:
        return CPU
    from ...cuda.runtime import device_of

    return device_of(t if array is t._array else wrap(array))


def same_class(source: TensorBase, array: Any) -> Any:
    """A tensor around `array`; subclasses that are special stay what they are."""
    if not source._special or not subclass.takes_part(type(source)):
        return wrap(array)
    t = blank(type(source))
    t._array = array
    t._special = INTERPRETED
    return t


def answered_by_parts(method: Any, *args: Any) -> Any:
    """The answer of a part of an index, or of a value, that has `__torch_function__` and is no
    tensor.
    """
    from ...overrides import ask_foreign

    return ask_foreign(method, args, {})


def element_strides(array: Any) -> tuple[int, ...]:
    """Strides in elements; PyTorch's convention where NumPy's says nothing (sizes 0 and 1)."""
    item = array.itemsize
    return tuple([s // item for s in strides_of(array)])


def owner(array: Any) -> Any:
    """The array whose memory this one looks at."""
    if type(array) is STATE.device_type:
        return array_kind.root_of(array)
    return array if not isinstance(array.base, np.ndarray) else array.base


def is_channels_last(array: Any, memory_format: Any) -> bool:
    """Whether the channels (dimension 1) vary fastest in memory."""
    want = {channels_last: 4, channels_last_3d: 5}.get(memory_format)
    if want != array.ndim:
        return False
    order = (0, *range(2, array.ndim), 1)
    return array.transpose(order).flags.c_contiguous  # type: ignore[no-any-return]
