"""Lists and dicts that cannot be written: the arguments of nodes."""

from __future__ import annotations

from typing import Any, NoReturn

from ..utils._pytree import Context, register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]


def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation. If you are attempting to "
        "modify the kwargs or args of a torch.fx.Node object,\ninstead create a new copy of it "
        "and assign the copy to the node:\n\n    new_args = ...  # copy and mutate args\n"
        "    node.args = new_args"
    )


class immutable_list(list[Any]):
    """A list that stays as it is.

    >>> torch.fx.immutable_collections.immutable_list([1, 2])
    [1, 2]
    """

    __delitem__ = __iadd__ = __imul__ = __setitem__ = append = clear = extend = insert = refuse  # type: ignore[assignment]
    pop = remove = reverse = sort = refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[Any, Any]):
    """A dict that stays as it is.

    >>> torch.fx.immutable_collections.immutable_dict(a=1)["a"]
    1
    """

    __delitem__ = __ior__ = __setitem__ = clear = pop = popitem = refuse  # type: ignore[assignment]
    setdefault = update = refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (dict(self),)


def _list_flatten(value: immutable_list) -> tuple[list[Any], Context]:
    return list(value), None


def _dict_flatten(value: immutable_dict) -> tuple[list[Any], Context]:
    return list(value.values()), list(value)


register_pytree_node(immutable_list, _list_flatten, lambda values, _: immutable_list(values))
register_pytree_node(
    immutable_dict,
    _dict_flatten,
    lambda values, keys: immutable_dict(zip(keys, values, strict=True)),
)
