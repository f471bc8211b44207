"""The base of all distributions: shapes, checks, and what follows from the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tapegrad as tg

from ..core.python_dispatch import is_recorded
from ..core.transforms.batched import physical_array
from ..core.warned import warn
from ..utils.naming import typename
from . import constraints
from .utils import EMPTY, lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution over events, one for each entry of its batch.

    A sample has the shape `sample_shape + batch_shape + event_shape`.

    >>> normal = distributions.Normal(zeros(2), ones(2))
    >>> normal.batch_shape, normal.event_shape, normal.sample((3,)).shape
    (torch.Size([2]), torch.Size([]), torch.Size([3, 2]))
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check parameters and values when nobody says otherwise."""
        if value not in [True, False]:
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = EMPTY,
        event_shape: Any = EMPTY,
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            declared = self.arg_constraints
        except NotImplementedError:
            declared = {}
            warn(
                f"<class '{typename(self)}'> does not define `arg_constraints`. Please set "
                "`arg_constraints = {}` or initialize the distribution with `validate_args=False` "
                "to turn off validation.",
            )
        for name, constraint in declared.items():
            if constraints.is_dependent(constraint):
                continue
            # What follows from another parameter is not worked out only to be checked.
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue
            value = getattr(self, name)
            if not all_true(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """A copy of the distribution over a larger batch, without copying parameters."""
        raise NotImplementedError

    def _expanded(
        self,
        cls: type,
        batch_shape: Any,
        instance: Any,
        names: Iterable[str],
        event_shape: Any = (),
    ) -> Any:
        """`expand` for a class whose parameters are its attributes `names`, if they are set.

        Parameters have the event's dimensions behind those of the batch.
        """
        new = self._get_checked_instance(cls, instance)
        batch_shape = tg.Size(batch_shape)
        for name in names:
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name].expand(batch_shape + tuple(event_shape))
        return self._finish_expanded(cls, new, batch_shape, tg.Size(event_shape))

    def _finish_expanded(self, cls: type, new: Any, batch_shape: Any, event_shape: Any) -> Any:
        """The shapes of an expanded instance; its parameters have been checked before."""
        super(cls, new).__init__(batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def batch_shape(self) -> Any:
        """How many distributions this is: the shape over which parameters vary."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one event."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The sets in which the parameters lie, by name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The set in which the samples lie."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        raise NotImplementedError(f"<class '{typename(self)}'> does not implement mode")

    @property
    def variance(self) -> Any:
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        """Random events, through which no gradient goes."""
        with tg.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        """Random events as a differentiable function of the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """`sample((n,))`."""
        warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
        )
        return self.sample(tg.Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at `value`."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of everything up to `value`."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All events of a discrete distribution, along dimension 0."""
        raise NotImplementedError

    def entropy(self) -> Any:
        raise NotImplementedError

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return tg.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = EMPTY) -> Any:
        """The shape of samples."""
        return tg.Size(sample_shape) + self._batch_shape + self._event_shape

    def _validate_sample(self, value: Any) -> None:
        """Refuse a value that cannot be a sample, by its shape or by the support."""
        if not isinstance(value, tg.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = len(value.size()) - len(self._event_shape)
        if value.size()[start:] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.size()} vs {self._event_shape}."
            )
        actual = value.size()
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(actual), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{actual} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warn(
                f"<class '{typename(self)}'> does not define `support` to enable sample "
                "validation. Please initialize the distribution with `validate_args=False` to turn "
                "off validation.",
            )
            return
        assert support is not None
        if not all_true(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An instance without attributes for `expand` to fill."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                shown.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{self.__class__.__name__}({', '.join(shown)})"


def all_true(valid: Any) -> bool:
    if not isinstance(valid, tg.Tensor):
        raise TypeError(
            "_is_all_true(): argument 'input' (position 1) must be Tensor, not "
            f"{type(valid).__name__}"
        )
    if is_recorded():
        return bool(valid.all())  # an op, and a truth that replays compare
    return bool(physical_array(valid).all())
