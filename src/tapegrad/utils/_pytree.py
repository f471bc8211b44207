"""Trees of Python containers: flatten them to their leaves, map over the leaves, put them back.

A node is a tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque, a result with named
parts, or an object of a class that was registered; everything else is a leaf, None too.
"""

from __future__ import annotations

import functools
import json
import types
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ._pytree_nodes import (  # noqa: F401  libraries import PyTorch's private names from here
    BUILTIN_TYPES,
    SERIALIZED,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    EnumEncoder,
    FlattenFunc,
    GetAttrKey,
    IsLeaf,
    KeyEntry,
    KeyPath,
    MappingKey,
    NodeDef,
    SequenceKey,
    Serialized,
    UnflattenFunc,
    _defaultdict_flatten,
    _defaultdict_flatten_with_keys,
    _defaultdict_unflatten,
    _deque_flatten,
    _deque_flatten_with_keys,
    _deque_unflatten,
    _dict_flatten,
    _dict_flatten_with_keys,
    _dict_unflatten,
    _get_node_type,
    _list_flatten,
    _list_flatten_with_keys,
    _list_unflatten,
    _namedtuple_flatten,
    _namedtuple_flatten_with_keys,
    _namedtuple_unflatten,
    _ordereddict_flatten,
    _ordereddict_flatten_with_keys,
    _ordereddict_unflatten,
    _private_register_pytree_node,
    _register_namedtuple,
    _register_pytree_node,
    _tuple_flatten,
    _tuple_flatten_with_keys,
    _tuple_unflatten,
    enum_object_hook,
    is_constant_class,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    key_get,
    keystr,
    register_constant,
    register_dataclass,
    register_pytree_node,
    tree_is_leaf,
)

__all__ = [
    "BUILTIN_TYPES",
    "Context",
    "FlattenFunc",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "PyTreeSpec",
    "SUPPORTED_NODES",
    "SequenceKey",
    "TreeSpec",
    "UnflattenFunc",
    "_private_register_pytree_node",
    "_register_pytree_node",
    "arg_tree_leaves",
    "is_constant_class",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "map_only",
    "register_constant",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dict",
    "treespec_dumps",
    "treespec_leaf",
    "treespec_loads",
    "treespec_tuple",
]

PyTree = Any
Context = Any


# --- the shape of a tree ---------------------------------------------------------------------


class TreeSpec:
    """The shape of a tree: classes, keys and the places of the leaves, without their values."""

    __slots__ = ("_children", "context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self._children = children_specs
        self.num_nodes = 1 + sum(c.num_nodes for c in children_specs)
        self.num_leaves = 1 if type is None else sum(c.num_leaves for c in children_specs)
        self.num_children = len(children_specs)

    def is_leaf(self) -> bool:
        return self.type is None

    def children(self) -> list[TreeSpec]:
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        return self._children[index]

    @property
    def children_specs(self) -> list[TreeSpec]:
        warnings.warn(
            "`treespec.children_specs` is deprecated. Use `treespec.child(index)` to access a "
            "single child, or `treespec.children()` to get all children.",
            FutureWarning,
            stacklevel=2,
        )
        return self._children

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type == other.type
            and self.context == other.context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self._children)))

    def __repr__(self) -> str:
        return self._shown(0)

    def _shown(self, indent: int) -> str:
        if self.is_leaf():
            return "*"
        gap = ",\n" + " " * (indent + 2)
        children = gap.join(c._shown(indent + 2) for c in self._children)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this shape with these leaves."""
        if not isinstance(leaves, (list, tuple)):
            leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.is_leaf():
            return next(leaves)
        values = [child._build(leaves) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(values, self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of `tree` where this shape has leaves."""
        found: list[Any] = []
        self._collect(tree, found)
        return found

    def _collect(self, tree: Any, found: list[Any]) -> None:
        if self.is_leaf():
            found.append(tree)
            return
        kind = _get_node_type(tree)
        values = self._matching(tree, kind)
        for child, value in zip(self._children, values, strict=True):
            child._collect(value, found)

    def _matching(self, tree: Any, kind: Any) -> list[Any]:
        """The children of a node that has to be as the one here."""
        if kind in STANDARD_DICT_TYPES and self.type in STANDARD_DICT_TYPES:
            # Any kind of dict will do, in any order.
            keys = self.context[1] if self.type is defaultdict else self.context
            missing, extra = set(keys) - tree.keys(), tree.keys() - set(keys)
            if missing or extra:
                parts = [f"missing key(s): {missing}"] if missing else []
                parts += [f"extra key(s): {extra}"] if extra else []
                raise ValueError(f"Node keys mismatch; {'; '.join(parts)}.")
            return [tree[key] for key in keys]
        if kind != self.type:
            raise ValueError(f"Node type mismatch; expected {self.type}, but got {type(tree)}.")
        values, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(values) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got {len(values)}."
            )
        # The length of a deque is no part of its shape.
        if kind is not deque and context != self.context:
            raise ValueError(
                f"Node context mismatch for custom node type {self.type!r}; expected "
                f"{self.context!r}, but got {context!r}."
            )
        return list(values)

    def __getstate__(self) -> Any:
        return (self.type, self.context, self._children)

    def __setstate__(self, state: Any) -> None:
        self.__init__(*state)  # type: ignore[misc]


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The shape of a leaf."""

    __slots__ = ()

    def __init__(self, *state: Any) -> None:
        super().__init__(None, None, [])


_LEAF_SPEC = LeafSpec()


def treespec_leaf() -> TreeSpec:
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The shape of a tuple of trees."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The shape of a dict of trees."""
    children = dict(mapping, **kwargs)
    return TreeSpec(dict, list(children), list(children.values()))


# --- flattening ------------------------------------------------------------------------------


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, in order, and its shape.

    >>> from tapegrad.utils import _pytree as pytree
    >>> leaves, spec = pytree.tree_flatten({"a": 1, "b": [2, 3]})
    >>> leaves, pytree.tree_unflatten([x * 10 for x in leaves], spec)
    ([1, 2, 3], {'a': 10, 'b': [20, 30]})
    """
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF_SPEC
    kind = _get_node_type(tree)
    values, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten_into(v, leaves, is_leaf) for v in values])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a shape with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of "
            f"PyTreeSpec but got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of a tree, one after the other."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree, in order."""
    return list(tree_iter(tree, is_leaf))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of all arguments."""
    return [leaf for value in (*args, *kwargs.values()) for leaf in tree_iter(value)]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The shape of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """The leaves of `tree` repeated so that it has the shape `treespec`; None if it cannot."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or _get_node_type(tree) != treespec.type:
        return None
    values, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(values) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for value, child in zip(values, treespec.children(), strict=True):
        part = _broadcast_to_and_flatten(value, child, is_leaf)
        if part is None:
            return None
        found += part
    return found


# --- mapping ---------------------------------------------------------------------------------


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree of the same shape with `func` applied to each leaf (and those of the other trees).

    >>> from tapegrad.utils._pytree import tree_map
    >>> tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*values) for values in zip(leaves, *others, strict=True)])


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call `func` on each leaf and give the tree back as it was."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    for values in zip(leaves, *others, strict=True):
        func(*values)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Any]:
    """A decorator: the function is called for values of some types, others stay as they are."""
    pred = _chooser(type_or_types_or_pred)

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(func)
        def wrapped(x: Any) -> Any:
            return func(x) if pred(x) else x

        return wrapped

    return decorate


def _chooser(wanted: Any) -> Callable[[Any], bool]:
    if isinstance(wanted, (type, tuple, types.UnionType)):
        return lambda x: isinstance(x, wanted)
    if callable(wanted):
        return wanted  # type: ignore[no-any-return]
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """`tree_map` over the leaves of some types; the others stay."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """`tree_map_` over the leaves of some types."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether something holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether something holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether something holds for every leaf of some types."""
    chosen = _chooser(type_or_types)
    return all(pred(x) for x in tree_iter(tree, is_leaf) if chosen(x))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether something holds for some leaf of some types."""
    chosen = _chooser(type_or_types)
    return any(pred(x) for x in tree_iter(tree, is_leaf) if chosen(x))


# --- ways to the leaves ----------------------------------------------------------------------


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves with the keys that lead to each, and the shape."""
    return list(_with_paths((), tree, is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves with the keys that lead to each."""
    return list(_with_paths((), tree, is_leaf))


def _with_paths(way: KeyPath, tree: Any, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield way, tree
        return
    keyed = SUPPORTED_NODES[_get_node_type(tree)].flatten_with_keys_fn
    if keyed is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in keyed(tree)[0]:
        yield from _with_paths((*way, key), child, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None
) -> Any:
    """`tree_map` where `func` gets the keys that lead to the leaf first."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    rows = zip(found, *others, strict=True)
    return spec.unflatten([func(way, leaf, *more) for (way, leaf), *more in rows])


# --- shapes as text --------------------------------------------------------------------------

PROTOCOL = 1


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A shape as JSON."""
    if protocol not in (None, PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{PROTOCOL}]")
    return json.dumps([PROTOCOL, _to_json(treespec)])


def _to_json(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    how = SERIALIZED.get(spec.type)
    if how is None:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    children = [_to_json(child) for child in spec.children()]
    return {"type": how.name, "context": how.dump(spec.context), "children_spec": children}


def treespec_loads(serialized: str) -> TreeSpec:
    """The shape that `treespec_dumps` wrote."""
    protocol, schema = json.loads(serialized)
    if protocol != PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{PROTOCOL}]")
    kinds = {how.name: (cls, how) for cls, how in SERIALIZED.items()}
    return _from_json(schema, kinds)


def _from_json(schema: Any, kinds: dict[str, tuple[Any, Serialized]]) -> TreeSpec:
    if schema["type"] is None:
        return _LEAF_SPEC
    if schema["type"] not in kinds:
        raise NotImplementedError(f"Deserializing {schema['type']} in pytree is not registered.")
    cls, how = kinds[schema["type"]]
    children = [_from_json(child, kinds) for child in schema["children_spec"]]
    return TreeSpec(cls, how.load(schema["context"]), children)
