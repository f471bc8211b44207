"""The Kullback-Leibler divergence: a formula for each pair of families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ..core.warned import warn
from .distribution import Distribution

__all__ = ["register_kl", "kl_divergence"]

Formula = Callable[[Any, Any], Any]

_KL_REGISTRY: dict[tuple[type, type], Formula] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """A decorator: the function is the formula for KL(p || q) with p and q of these classes.

    A formula for base classes serves their subclasses too; the nearest one is taken.

    >>> class Standard(distributions.Normal): ...
    >>> @distributions.register_kl(Standard, Standard)
    ... def _kl_standard_standard(p, q):
    ...     return zeros(())
    >>> distributions.kl_divergence(Standard(0.0, 1.0), Standard(0.0, 1.0))
    tensor(0.)
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError("issubclass() arg 1 must be a class")

    def decorator(function: Formula) -> Formula:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()  # what was found before may no longer be the nearest
        return function

    return decorator


def distance(kind: type, ancestor: type) -> int:
    """How far up the ancestor is."""
    return kind.__mro__.index(ancestor)


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The nearest formula for the two classes, or NotImplemented."""
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    by_p = min(matches, key=lambda m: (distance(type_p, m[0]), distance(type_q, m[1])))
    by_q = min(matches, key=lambda m: (distance(type_q, m[1]), distance(type_p, m[0])))
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        wanted = f"{type_p.__name__}, {type_q.__name__}"
        warn(
            f"Ambiguous kl_divergence({wanted}). Please register_kl({by_p[0].__name__}, "
            f"{by_q[1].__name__})",
            RuntimeWarning,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """KL(p || q): the mean under p of log p - log q.

    >>> normal = distributions.Normal
    >>> distributions.kl_divergence(normal(0.0, 1.0), normal(1.0, 1.0))
    tensor(0.5000)
    """
    kinds = (type(p), type(q))
    if kinds not in _KL_MEMOIZE:
        _KL_MEMOIZE[kinds] = _dispatch_kl(*kinds)
    formula = _KL_MEMOIZE[kinds]
    if formula is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type "
            f"{q.__class__.__name__}"
        )
    return formula(p, q)


def _infinite_like(tensor: Any) -> Any:
    return tg.full_like(tensor, tg.inf)


def _x_log_x(tensor: Any) -> Any:
    return tg.special.xlogy(tensor, tensor)


def infinite_where(result: Any, mask: Any) -> Any:
    """`result`, with infinity written over it where p has what q cannot have."""
    result[mask] = tg.inf
    return result


# They register themselves with the functions above.
from . import _kl_across, _kl_within  # noqa: E402, F401
