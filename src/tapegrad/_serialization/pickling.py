"""From objects to pickles with PyTorch's names in them, and back without restrictions.

The way back that runs nothing is in weights_only.py.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType
from typing import Any

import tapegrad as tg

from .. import _utils, dtypes
from ..api.tensor.conversion import TypedStorage, UntypedStorage
from ..api.tensor.tensor import element_strides
from ..autograd.copies import warn_of_hooks
from ..core.array_kind import host, owner_of, root_of
from ..core.base import wrap
from ..core.devices import xp_of
from ..core.named_results import ReturnType
from ..core.strides import address, as_bytes
from ..device import layout, memory_format
from .names import is_torch, public_name, resolve
from .storage_bytes import TYPE_OF, UNTYPED, typed, untyped

# Further parts of a persistent id, after the number of elements: the old format has one.
Extra = tuple[Any, ...]


class Storages:
    """The memories that a pickle refers to, each under a key and as one dtype."""

    def __init__(self, locate: Callable[[Any], str], extra: Extra = ()) -> None:
        self.locate = locate
        self.extra = extra
        self.keys: dict[int, str] = {}
        self.arrays: dict[str, Any] = {}  # flat bytes
        self.sizes: dict[str, int] = {}  # in elements
        self.kept: list[Any] = []  # ids are only good while the arrays live
        self.dtypes: dict[str, dtypes.dtype] = {}

    def persistent_id(self, storage: UntypedStorage) -> tuple[Any, ...]:
        root = root_of(storage.owner)
        kind = TYPE_OF[storage.dtype] if isinstance(storage, TypedStorage) else UNTYPED
        owner, _ = owner_of(root)
        key = self.keys.get(id(owner))
        if key is None:
            key = self.keys[id(owner)] = str(len(self.keys))
            self.kept.append(root)
            self.arrays[key] = host(as_bytes(xp_of(root), root))
            self.dtypes[key] = kind.dtype
            self.sizes[key] = self.arrays[key].size // kind.dtype.itemsize
        elif self.dtypes[key] is not kind.dtype and root.size:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                "types"
            )
        return ("storage", kind, key, self.locate(storage), self.sizes[key], *self.extra)


def reduce_tensor(t: Any) -> tuple[Any, ...]:
    """How PyTorch's pickles describe a tensor."""
    if isinstance(t, tg.nn.Parameter) and issubclass(type(t), tg.nn.Parameter):
        return reduce_parameter(t)
    warn_of_hooks(t)
    function, args = reduce_plain(t)
    if type(t) is tg.Tensor and not set(t.__dict__) - {"_dual"}:
        return function, args
    return _utils._rebuild_from_type_v2, (function, type(t), args, _utils.get_state(t))


def reduce_parameter(t: Any) -> tuple[Any, ...]:
    args = (wrap(t._array), t.requires_grad, OrderedDict())
    state = _utils.get_state(t)
    if not state:
        return _utils._rebuild_parameter, args
    return _utils._rebuild_parameter_with_state, (*args, state)


def reduce_plain(t: Any) -> tuple[Any, tuple[Any, ...]]:
    array = t._array
    dtype = dtypes.of(array.dtype)
    if t.is_meta:
        facts = (dtype, tuple(array.shape), element_strides(array), t.requires_grad)
        return _utils._rebuild_meta_tensor_no_storage, facts
    root = root_of(array)
    memory = as_bytes(xp_of(root), root)
    start = address(array) - address(memory)
    if not 0 <= start <= memory.size:  # an empty view may point anywhere
        start = 0
    args = (start // array.itemsize, tuple(array.shape), element_strides(array), t.requires_grad)
    noted = {"conj": t.is_conj(), "neg": t.is_neg()}
    bits = {name: True for name, is_set in noted.items() if is_set}
    more = (bits,) if bits else ()
    if dtype in TYPE_OF:
        return _utils._rebuild_tensor_v2, (typed(root, dtype), *args, OrderedDict(), *more)
    return _utils._rebuild_tensor_v3, (untyped(root), *args, OrderedDict(), dtype, *more)


def own_reduction(cls: type) -> bool:
    """Whether a subclass of Tensor says itself how it is pickled."""
    return (
        cls.__reduce_ex__ not in (tg.Tensor.__reduce_ex__, tg.nn.Parameter.__reduce_ex__)
        or cls.__reduce__ is not object.__reduce__
    )


class Reducing:
    """Base of all picklers: tensors as PyTorch describes them, memory by reference."""

    storages: Storages

    def persistent_id(self, obj: Any) -> Any:
        return self.storages.persistent_id(obj) if isinstance(obj, UntypedStorage) else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, tg.Tensor):
            if not own_reduction(type(obj)):
                return reduce_tensor(obj)
        elif isinstance(obj, layout):
            return tg.serialization._get_layout, (repr(obj),)
        elif isinstance(obj, ReturnType):
            return type(obj), (tuple(obj), {})
        following = getattr(super(), "reducer_override", None)
        return NotImplemented if following is None else following(obj)


class TorchPickler(Reducing, pickle._Pickler):
    """Python's own pickler with PyTorch's names for our classes.

    The one written in Python, because the compiled one looks names up by importing them.
    """

    def __init__(self, file: Any, protocol: int, storages: Storages) -> None:
        super().__init__(file, protocol=protocol)
        self.storages = storages

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (dtypes.dtype, memory_format)) or type(obj) is type(UNTYPED):
            return obj.name
        return super().reducer_override(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        found = public_name(obj, name)
        if found is None:
            super().save_global(obj, name)
            return
        module, public = found
        if self.proto >= 4:
            self.save(module)
            self.save(public)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{public}\n".encode())
        self.memoize(obj)

    # The table holds functions, not names of methods: an override has to be entered.
    dispatch = {**pickle._Pickler.dispatch, FunctionType: save_global}


def make_pickler(module: Any, file: Any, protocol: int, storages: Storages) -> Any:
    """A pickler of `module`. Other modules than `pickle` write tapegrad's names of classes."""
    if module is pickle:
        return TorchPickler(file, protocol, storages)

    class Pickler(Reducing, module.Pickler):  # type: ignore[misc]
        pass

    pickler = Pickler(file, protocol=protocol)
    pickler.storages = storages
    return pickler


def make_unpickler(
    module: Any, file: Any, persistent_load: Callable[[Any], Any], arguments: dict[str, Any]
) -> Any:
    """An unpickler of `module` that knows PyTorch's names and runs whatever the pickle says."""

    class Unpickler(module.Unpickler):  # type: ignore[misc]
        def find_class(self, home: str, name: str) -> Any:
            return resolve(home, name) if is_torch(home) else super().find_class(home, name)

    unpickler = Unpickler(file, **arguments)
    unpickler.persistent_load = persistent_load
    return unpickler
