"""How variables vary together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core.arguments import is_index
from ...core.array_kind import refuse_meta
from ...core.base import TensorBase
from ...core.devices import to_host
from ...core.transforms.batched import physical_array
from ...core.warned import warn
from ..block import APIS, Case, api, looks_at_values
from ..block.checks import as_int, kind_of
from ..block.samples import Draw, Index
from ..linalg.matrices import tensor_array


@looks_at_values
def has_negative(weights: Any) -> bool:
    return bool((physical_array(weights) < 0).any())


@looks_at_values
def has_zero(total: Any) -> bool:
    return bool((physical_array(total) == 0).any())


@looks_at_values
def is_used_up(freedom: Any) -> bool:
    """Whether no degree of freedom is left."""
    left = physical_array(freedom) <= 0 if isinstance(freedom, TensorBase) else freedom <= 0
    return bool(np.any(to_host(left)))


def check_weights(name: str, weights: Any, floating: bool, observations: int) -> None:
    array = weights._array
    if array.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{array.ndim} dimensions"
        )
    kind = dtypes.of(array.dtype)
    wanted = dtypes.FLOATING if floating else dtypes.INTEGRAL
    if kind.category != wanted:
        raise RuntimeError(
            f"cov(): expected {name} to have {'floating point' if floating else 'integral'} dtype "
            f"but got {name} with {kind.scalar_type} dtype"
        )
    if array.size != observations:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the "
            f"input but got {array.size} != {observations}"
        )
    refuse_meta("equal", weights)
    if observations and has_negative(weights):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@api(
    samples=[
        Case(Draw(3, 4)),
        Case(Draw(4), correction=0),
        Case(Draw(2, 3), fweights=Index([1, 2, 1])),
        Case(Draw(2, 3), aweights=Index([0.5, 0.25, 1.0])),
        Case(Draw(2, 3), fweights=Index([1, 2, 1]), aweights=Index([0.5, 0.25, 1.0])),
    ]
)
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """cov(input, *, correction=1, fweights=None, aweights=None) -> Tensor: the matrix of
    covariances.

    Rows are variables, columns are observations, which may have weights: how often each was seen
    (`fweights`) and how much it counts (`aweights`).

    >>> cov(tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    array = tensor_array("cov", "input", 1, input)
    if not is_index(correction):
        kind = kind_of(correction)
        raise TypeError(f"cov(): argument 'correction' must be int, not {kind}")
    correction = as_int("cov", "correction", 2, correction)
    if array.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{array.ndim} dimensions"
        )
    if array.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = input.view(1, -1) if array.ndim < 2 else input
    observations = rows._array.shape[1]
    weights = None
    for name, given, floating in (("fweights", fweights, False), ("aweights", aweights, True)):
        if given is not None:
            check_weights(name, given, floating, observations)
            weights = given if weights is None else weights * given
    refuse_meta("equal", input)
    total: Any = observations
    if weights is not None:
        total = weights.sum()
        if observations and has_zero(total):
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    weighted = rows if weights is None else rows * weights
    mean = weighted.sum(1) / total
    freedom = total - correction
    if aweights is not None and correction != 0:
        freedom = total - correction * (weights * aweights).sum() / total
    if is_used_up(freedom):
        warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number "
            "of observations.",
            UserWarning,
        )
        freedom = freedom.clamp(min=0) if isinstance(freedom, TensorBase) else 0
    centred = rows - mean.unsqueeze(1)
    weighted = centred if weights is None else centred * weights
    return (centred.mm(weighted.t().conj()) / freedom).squeeze()


@api(samples=[Case(Draw(3, 4)), Case(Draw(2, 5, layout="T"))])
def corrcoef(input: Any) -> Any:
    """corrcoef(input) -> Tensor: correlation coefficients of variables, the rows of `input`.

    >>> corrcoef(tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    array = tensor_array("corrcoef", "input", 1, input)
    if array.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{array.ndim} dimensions"
        )
    found = cov(input)
    if not found._array.ndim:
        return found / found
    variance = found.diag()
    deviation = (variance.real if variance.is_complex() else variance).sqrt()
    found = found / deviation.view(-1, 1) / deviation.view(1, -1)
    if not found.is_complex():
        return found.clip(-1, 1)
    return APIS["complex"].call(found.real.clip(-1, 1), found.imag.clip(-1, 1))
