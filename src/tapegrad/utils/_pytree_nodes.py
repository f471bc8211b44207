"""The containers that count as nodes of a tree, and how they are taken apart. See _pytree.py."""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..core.named_results import ReturnType
from ..core.size import Size

FlattenFunc = Callable[[Any], tuple[list[Any], Any]]
UnflattenFunc = Callable[[Iterable[Any], Any], Any]
IsLeaf = Callable[[Any], bool] | None


# --- keys ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The place of a child in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """The key of a child in a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The name of a child that is an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


KeyEntry = SequenceKey | MappingKey | GetAttrKey
KeyPath = tuple[Any, ...]


def keystr(kp: KeyPath) -> str:
    """The way to a leaf, as one would write it."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """The value at the end of a path of keys."""
    for key in kp:
        obj = key.get(obj)
    return obj


# --- kinds of nodes --------------------------------------------------------------------------


class NodeDef(NamedTuple):
    """How a class is taken apart and put together."""

    type: Any
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    flatten_with_keys_fn: Callable[[Any], Any] | None = None


SUPPORTED_NODES: dict[Any, NodeDef] = {}


class Serialized(NamedTuple):
    """How the class of a node and its context are written as JSON."""

    name: str
    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


SERIALIZED: dict[Any, Serialized] = {}


def register_pytree_node(
    cls: Any,
    flatten_fn: FlattenFunc,
    unflatten_fn: UnflattenFunc,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], Any] | None = None,
) -> None:
    """Let objects of `cls` be nodes: `flatten_fn(obj)` gives (children, context)."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            "registered."
        )
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    if serialized_type_name is None and isinstance(cls, type):
        serialized_type_name = f"{cls.__module__}.{cls.__qualname__}"
    if serialized_type_name is not None:
        SERIALIZED[cls] = Serialized(
            serialized_type_name,
            to_dumpable_context or _dump_context,
            from_dumpable_context or _load_context,
        )


def _dump_context(context: Any) -> str:
    try:
        return json.dumps(context, cls=EnumEncoder)
    except TypeError as error:
        raise TypeError(
            "Unable to serialize context. Please make the context json dump-able, or register a "
            "custom serializer using _register_pytree_node."
        ) from error


def _load_context(text: str) -> Any:
    try:
        return json.loads(text, object_hook=enum_object_hook)
    except TypeError as error:
        raise TypeError(
            "Unable to deserialize context. Please make the context json load-able, or register a "
            "custom serializer using _register_pytree_node."
        ) from error


class EnumEncoder(json.JSONEncoder):
    """Writes a member of an enum as the names of its class and its own."""

    def default(self, obj: object) -> Any:
        if not isinstance(obj, enum.Enum):
            return super().default(obj)
        fqn = f"{type(obj).__module__}:{type(obj).__qualname__}"
        return {"__enum__": True, "fqn": fqn, "name": obj.name}


def enum_object_hook(obj: dict[str, Any]) -> Any:
    """The member of an enum that `EnumEncoder` wrote; imports nothing that a text names."""
    if "__enum__" not in obj:
        return obj
    module, _, path = obj["fqn"].partition(":")
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    if not (isinstance(found, type) and issubclass(found, enum.Enum)):
        raise TypeError(f"{obj['fqn']} is no enum of a module that is imported")
    return found[obj["name"]]


NAMEDTUPLES: dict[str, Any] = {}  # by the names that `_register_namedtuple` got


def _register_namedtuple(cls: Any, *, serialized_type_name: str) -> None:
    """Let the shapes of trees with this namedtuple be written as JSON, under a name."""
    NAMEDTUPLES[serialized_type_name] = cls


def _namedtuple_serialize(cls: Any) -> str:
    for name, registered in NAMEDTUPLES.items():
        if registered is cls:
            return name
    raise NotImplementedError(
        f"Can't serialize TreeSpec of namedtuple class {cls} because we didn't register a "
        "serializated_type_name. Please register using `_register_namedtuple`."
    )


def _namedtuple_deserialize(name: str) -> Any:
    if name not in NAMEDTUPLES:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {name} because we couldn't find a "
            "serializated name."
        )
    return NAMEDTUPLES[name]


class ConstantNode(NamedTuple):
    """The context of a constant in a pytree: the object itself."""

    value: Any


CONSTANTS: set[type] = set()


def register_constant(cls: Any) -> None:
    """Let objects of `cls` be nodes without leaves: they belong to the shape of a tree."""
    if cls.__eq__ is object.__eq__:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__eq__` implementation."
        )
    if cls.__hash__ is None:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__hash__` implementation."
        )
    register_pytree_node(
        cls,
        lambda constant: ([], ConstantNode(constant)),
        lambda children, context: context.value,
        flatten_with_keys_fn=lambda constant: ([], ConstantNode(constant)),
    )
    SERIALIZED.pop(cls, None)
    CONSTANTS.add(cls)


def is_constant_class(cls: Any) -> bool:
    """Whether `register_constant` got this class."""
    return cls in CONSTANTS


_private_register_pytree_node = register_pytree_node


def _register_pytree_node(
    cls: Any, flatten_fn: FlattenFunc, unflatten_fn: UnflattenFunc, **options: Any
) -> None:
    """The older name of `register_pytree_node`."""
    warnings.warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. Please use "
        "`torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if cls in SUPPORTED_NODES:
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.",
            stacklevel=2,
        )
        del SUPPORTED_NODES[cls]
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def register_dataclass(
    cls: Any,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Let objects of a dataclass be nodes with a child per field that is not None."""
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"register_dataclass() can only register dataclasses, but got {cls}")
    dropped = set(drop_field_names or ())
    names = field_names or [f.name for f in dataclasses.fields(cls) if f.init]
    names = [name for name in names if name not in dropped]

    def taken_apart(obj: Any) -> tuple[list[Any], Any]:
        present = [n for n in names if getattr(obj, n) is not None]
        absent = [n for n in names if getattr(obj, n) is None]
        return [getattr(obj, n) for n in present], [present, absent]

    def with_keys(obj: Any) -> Any:
        values, context = taken_apart(obj)
        keys = [GetAttrKey(n) for n in context[0]]
        return list(zip(keys, values, strict=True)), context

    def made(values: Iterable[Any], context: Any) -> Any:
        present, absent = context
        return cls(**dict(zip(present, values, strict=True)), **dict.fromkeys(absent))

    register_pytree_node(
        cls,
        taken_apart,
        made,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=with_keys,
    )


def is_namedtuple_class(cls: Any) -> bool:
    """Whether a class was made by `namedtuple`."""
    if not isinstance(cls, type) or not issubclass(cls, tuple) or issubclass(cls, ReturnType):
        return False
    fields = getattr(cls, "_fields", None)
    return isinstance(fields, tuple) and all(type(f) is str for f in fields)


def is_namedtuple_instance(obj: Any) -> bool:
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Whether this is a namedtuple, class or object."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether a class is a result with named parts, `torch.return_types.max` say."""
    return isinstance(cls, type) and issubclass(cls, ReturnType)


def is_structseq_instance(obj: Any) -> bool:
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """Whether this is a result with named parts, class or object."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _indexed(values: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(SequenceKey(i), v) for i, v in enumerate(values)]


def _keyed(mapping: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    return [(MappingKey(k), v) for k, v in mapping.items()]


# PyTorch's names of these functions, which libraries import: `_<kind>_flatten`, `_<kind>_unflatten`
# and `_<kind>_flatten_with_keys`.


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Any]:
    return list(d), None


def _tuple_flatten_with_keys(d: tuple[Any, ...]) -> Any:
    return _indexed(d), None


def _tuple_unflatten(values: Iterable[Any], context: Any) -> tuple[Any, ...]:
    return tuple(values)


def _list_flatten(d: list[Any]) -> tuple[list[Any], Any]:
    return d, None


def _list_flatten_with_keys(d: list[Any]) -> Any:
    return _indexed(d), None


def _list_unflatten(values: Iterable[Any], context: Any) -> list[Any]:
    return list(values)


def _dict_flatten(d: Mapping[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), list(d.keys())


def _dict_flatten_with_keys(d: Mapping[Any, Any]) -> Any:
    return _keyed(d), list(d.keys())


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d: Any) -> Any:
    return [(GetAttrKey(n), v) for n, v in zip(d._fields, d, strict=True)], type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Any) -> Any:
    return context(*values)


_ordereddict_flatten = _dict_flatten
_ordereddict_flatten_with_keys = _dict_flatten_with_keys


def _ordereddict_unflatten(values: Iterable[Any], context: Any) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(context, values, strict=True))


def _defaultdict_flatten(d: defaultdict[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), [d.default_factory, list(d.keys())]


def _defaultdict_flatten_with_keys(d: defaultdict[Any, Any]) -> Any:
    return _keyed(d), [d.default_factory, list(d.keys())]


def _defaultdict_unflatten(values: Iterable[Any], context: Any) -> defaultdict[Any, Any]:
    return defaultdict(context[0], _dict_unflatten(values, context[1]))


def _deque_flatten(d: deque[Any]) -> tuple[list[Any], Any]:
    return list(d), d.maxlen


def _deque_flatten_with_keys(d: deque[Any]) -> Any:
    return _indexed(d), d.maxlen


def _deque_unflatten(values: Iterable[Any], context: Any) -> deque[Any]:
    return deque(values, maxlen=context)


register_pytree_node(
    tuple,
    _tuple_flatten,
    _tuple_unflatten,
    serialized_type_name="builtins.tuple",
    flatten_with_keys_fn=_tuple_flatten_with_keys,
)
register_pytree_node(
    list,
    _list_flatten,
    _list_unflatten,
    serialized_type_name="builtins.list",
    flatten_with_keys_fn=_list_flatten_with_keys,
)
register_pytree_node(
    dict,
    _dict_flatten,
    _dict_unflatten,
    serialized_type_name="builtins.dict",
    flatten_with_keys_fn=_dict_flatten_with_keys,
)
register_pytree_node(
    namedtuple,
    _namedtuple_flatten,
    _namedtuple_unflatten,
    serialized_type_name="collections.namedtuple",
    to_dumpable_context=_namedtuple_serialize,
    from_dumpable_context=_namedtuple_deserialize,
    flatten_with_keys_fn=_namedtuple_flatten_with_keys,
)
register_pytree_node(
    OrderedDict,
    _ordereddict_flatten,
    _ordereddict_unflatten,
    serialized_type_name="collections.OrderedDict",
    flatten_with_keys_fn=_ordereddict_flatten_with_keys,
)
register_pytree_node(
    defaultdict,
    _defaultdict_flatten,
    _defaultdict_unflatten,
    flatten_with_keys_fn=_defaultdict_flatten_with_keys,
)
register_pytree_node(
    deque,
    _deque_flatten,
    _deque_unflatten,
    serialized_type_name="collections.deque",
    flatten_with_keys_fn=_deque_flatten_with_keys,
)
register_pytree_node(
    Size,
    _tuple_flatten,
    _tuple_unflatten,
    serialized_type_name="torch.Size",
    flatten_with_keys_fn=_tuple_flatten_with_keys,
)

BUILTIN_TYPES = frozenset([tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque])
STANDARD_DICT_TYPES = frozenset([dict, OrderedDict, defaultdict])


def _get_node_type(tree: Any) -> Any:
    """The key of a node in SUPPORTED_NODES."""
    cls = type(tree)
    if cls not in SUPPORTED_NODES:
        if is_namedtuple_class(cls):
            return namedtuple
        if issubclass(cls, ReturnType):
            register_pytree_node(
                cls,
                lambda t: (list(t), None),
                lambda values, _: cls._make(values),
                flatten_with_keys_fn=lambda t: (_indexed(t), None),
            )
    return cls


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether nothing can be taken apart here."""
    if is_leaf is not None and is_leaf(tree):
        return True
    return _get_node_type(tree) not in SUPPORTED_NODES
