"""`assert_close`: two values, or two equal structures of values, are nearly equal.

The structures are walked first, so that a wrong key or length is reported before any number; then
the pairs of values are compared in order, and the first that differs is the error.
"""

from __future__ import annotations

import cmath
import math
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tapegrad as tg

from ..core.warned import warn

# (rtol, atol) per dtype; other dtypes have to be equal.
TOLERANCES = {
    tg.float16: (1e-3, 1e-5),
    tg.bfloat16: (1.6e-2, 1e-5),
    tg.float32: (1.3e-6, 1e-5),
    tg.float64: (1e-7, 1e-7),
    tg.complex64: (1.3e-6, 1e-5),
    tg.complex128: (1e-7, 1e-7),
}
NUMBER_DTYPES = {int: tg.int64, float: tg.float64, complex: tg.complex128}


@dataclass(frozen=True)
class Options:
    """The options of a call of `assert_close`."""

    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def tolerances(self, *dtypes: Any) -> tuple[float, float]:
        """The tolerances given, or the larger ones of the dtypes."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        pairs = [TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes]
        return max(r for r, _ in pairs), max(a for _, a in pairs)


class Mismatch(Exception):
    """A difference, and where in the structure it is."""

    def __init__(self, error: type[Exception], text: str, at: tuple[Any, ...]) -> None:
        if at:
            text += f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in at)}"
        super().__init__(text)
        self.error = error
        self.text = text


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise an AssertionError unless `actual` and `expected` are nearly equal.

    Numbers, tensors, and sequences and mappings of them are compared. Without `rtol` and `atol` the
    dtype decides how near is near enough.

    >>> torch.testing.assert_close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
    """
    options = Options(
        allow_subclasses,
        rtol,
        atol,
        equal_nan,
        check_device,
        check_dtype,
        check_layout,
        check_stride,
    )
    compared = False  # `msg` is about values, not about structures that do not match
    try:
        found = list(pairs(actual, expected, options, ()))
        compared = True
        for a, b, at in found:
            compare(a, b, options, at)
    except Mismatch as mismatch:
        error, text = mismatch.error, mismatch.text
    else:
        return
    if compared and msg is not None:
        text = msg(text) if callable(msg) else msg
    raise error(text)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """`assert_close` for whatever can become tensors, with wider tolerances (deprecated).

    >>> torch.testing.assert_allclose(tensor([1.0]), tensor([1.0 + 1e-7]))
    """
    warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a "
        "future release. Please use `torch.testing.assert_close()` instead. You can find detailed "
        "upgrade instructions in https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning,
    )
    if not isinstance(actual, tg.Tensor):
        actual = tg.tensor(actual)
    if not isinstance(expected, tg.Tensor):
        expected = tg.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        wide = {tg.float16: (1e-3, 1e-3), tg.float32: (1e-4, 1e-5), tg.float64: (1e-5, 1e-8)}
        found = [wide.get(t.dtype, (0.0, 0.0)) for t in (actual, expected)]
        rtol, atol = max(r for r, _ in found), max(a for _, a in found)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


# --- structures ------------------------------------------------------------------------------


def pairs(
    actual: Any, expected: Any, options: Options, at: tuple[Any, ...]
) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """The pairs of values of two structures, each with the keys that lead to it."""
    if is_sequence(actual) and is_sequence(expected):
        if len(actual) != len(expected):
            raise Mismatch(
                AssertionError,
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}",
                at,
            )
        for i in range(len(actual)):
            yield from pairs(actual[i], expected[i], options, (*at, i))
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        missing, additional = expected.keys() - actual.keys(), actual.keys() - expected.keys()
        if missing or additional:
            raise Mismatch(
                AssertionError,
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing)}\n"
                f"Additional keys in the actual mapping: {sorted(additional)}",
                at,
            )
        for key in ordered(actual):
            yield from pairs(actual[key], expected[key], options, (*at, key))
    else:
        check_pair(actual, expected, options, at)
        yield actual, expected, at


def check_pair(actual: Any, expected: Any, options: Options, at: tuple[Any, ...]) -> None:
    """Refuse arguments before any values are compared: other kinds, and half of the tolerances."""
    if actual is None or expected is None or (is_boolean(actual) and is_boolean(expected)):
        return
    if not (is_number(actual) and is_number(expected)):
        as_tensors(actual, expected, options, at)
    if (options.rtol is None) != (options.atol is None):
        raise Mismatch(
            ValueError,
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if options.rtol is None else 'atol'}.",
            at,
        )


def ordered(mapping: Mapping[Any, Any]) -> Any:
    try:
        return sorted(mapping)
    except TypeError:  # keys of several types
        return list(mapping)


def is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


# --- values ----------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    return isinstance(value, (numbers.Number, np.number)) and not is_boolean(value)


def is_boolean(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


def is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def compare(actual: Any, expected: Any, options: Options, at: tuple[Any, ...]) -> None:
    if actual is None or expected is None:
        if actual is not expected:
            raise Mismatch(AssertionError, f"None mismatch: {actual} is not {expected}", at)
    elif is_boolean(actual) and is_boolean(expected):
        if bool(actual) is not bool(expected):
            # PyTorch does not say where.
            raise Mismatch(
                AssertionError, f"Booleans mismatch: {bool(actual)} is not {bool(expected)}", ()
            )
    elif is_number(actual) and is_number(expected):
        compare_numbers(actual, expected, options, at)
    else:
        compare_tensors(*as_tensors(actual, expected, options, at), options, at)


def as_tensors(
    actual: Any, expected: Any, options: Options, at: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Two tensors, or two arrays as tensors; anything else cannot be compared."""
    if isinstance(actual, tg.Tensor) and isinstance(expected, tg.Tensor):
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if related and (options.allow_subclasses or type(actual) is type(expected)):
            return actual, expected
    elif is_array(actual) and is_array(expected):
        return tg.as_tensor(actual), tg.as_tensor(expected)
    raise Mismatch(
        TypeError,
        "No comparison pair was able to handle inputs of type "
        f"{class_text(type(actual))} and {class_text(type(expected))}.",
        at,
    )


def class_text(cls: type) -> str:
    return "<class 'torch.Tensor'>" if cls is tg.Tensor else str(cls)


def compare_numbers(actual: Any, expected: Any, options: Options, at: tuple[Any, ...]) -> None:
    a, b = plain_number(actual), plain_number(expected)
    if options.check_dtype and type(a) is not type(b):
        raise Mismatch(AssertionError, f"The (d)types do not match: {type(a)} != {type(b)}.", at)
    rtol, atol = options.tolerances(NUMBER_DTYPES[type(a)], NUMBER_DTYPES[type(b)])
    check_scalars(a, b, rtol, atol, options.equal_nan, at)


def plain_number(value: Any) -> Any:
    found = value.item() if isinstance(value, np.generic) else value
    for kind in (int, float, complex):
        if isinstance(found, kind):
            return kind(found)
    return float(found)


def check_scalars(
    actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool, at: tuple[Any, ...]
) -> None:
    difference = abs(actual - expected)
    tolerance = atol + rtol * abs(expected)
    if actual == expected or (equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return
    if cmath.isfinite(difference) and difference <= tolerance:
        return
    relative = math.inf if expected == 0 else difference / abs(expected)
    exact = rtol == 0 and atol == 0
    lines = [
        f"Scalars are not {'equal' if exact else 'close'}!",
        "",
        f"Expected {expected} but got {actual}.",
        f"Absolute difference: {difference}" + allowed(atol, exact),
        f"Relative difference: {relative}" + allowed(rtol, exact),
    ]
    raise Mismatch(AssertionError, "\n".join(lines), at)


def allowed(tolerance: float, exact: bool) -> str:
    return "" if exact else f" (up to {tolerance} allowed)"


def compare_tensors(actual: Any, expected: Any, options: Options, at: tuple[Any, ...]) -> None:
    def same(name: str, a: Any, b: Any) -> None:
        if a != b:
            raise Mismatch(
                AssertionError, f"The values for attribute '{name}' do not match: {a} != {b}.", at
            )

    same("shape", actual.shape, expected.shape)
    if options.check_layout:
        same("layout", actual.layout, expected.layout)
    if options.check_stride:
        same("stride()", actual.stride(), expected.stride())
    if options.check_device:
        same("device", actual.device, expected.device)
    if options.check_dtype:
        same("dtype", actual.dtype, expected.dtype)
    rtol, atol = options.tolerances(actual.dtype, expected.dtype)
    with tg.no_grad():
        common = tg.promote_types(actual.dtype, expected.dtype)
        check_elements(
            actual.detach().to(common),
            expected.detach().to(common),
            rtol,
            atol,
            options.equal_nan,
            at,
        )


def check_elements(
    actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool, at: tuple[Any, ...]
) -> None:
    close = tg.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(close.all()):
        return
    if actual.dim() == 0:
        check_scalars(actual.item(), expected.item(), rtol, atol, equal_nan, at)
        return
    if not actual.is_floating_point() and not actual.is_complex():
        # So that differences of small integers do not overflow.
        actual, expected = actual.to(tg.int64), expected.to(tg.int64)
    flat = close.flatten()
    difference = (actual - expected).abs().flatten()
    difference[flat] = 0
    relative = difference / expected.abs().flatten()
    relative[flat] = 0
    exact = rtol == 0 and atol == 0
    count, wrong = close.numel(), int((~flat).sum())
    lines = [
        f"Tensor-likes are not {'equal' if exact else 'close'}!",
        "",
        f"Mismatched elements: {wrong} / {count} ({wrong / count:.1%})",
        greatest("absolute", difference, close.shape) + allowed(atol, exact),
        greatest("relative", relative, close.shape) + allowed(rtol, exact),
    ]
    raise Mismatch(AssertionError, "\n".join(lines), at)


def greatest(kind: str, values: Any, shape: Any) -> str:
    largest, place = tg.max(values, 0)
    index = tuple(int(i) for i in np.unravel_index(int(place), tuple(shape)))
    return f"Greatest {kind} difference: {largest.item()} at index {index}"
