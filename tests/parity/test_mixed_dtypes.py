"""Two arguments of any two dtypes, of size one or more, and numbers: results, writes, refusals."""

from __future__ import annotations

import itertools
import warnings

import pytest
import torch

import tapegrad

DTYPES = """bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64
    complex128""".split()
OPS = """add sub mul div floor_divide remainder fmod atan2 hypot maximum minimum fmax fmin eq lt ge
    logical_and logical_xor bitwise_and bitwise_left_shift copysign nextafter logaddexp gcd lcm
    heaviside xlogy igamma lerp addcmul addcdiv isclose where dot outer equal pow float_power rsub
    bitwise_or bitwise_right_shift logical_or ne igammac logaddexp2 inner kron polar
    complex""".split()
THREE = ("lerp", "addcmul", "addcdiv")
NUMBERS = (True, 2, -3, 2.5, 1 + 2j, 300)


def argument(lib, dtype, single):
    return lib.tensor(2 if single else [1, 0, 3]).to(getattr(lib, dtype))


def called(lib, name, a, b, in_place=False):
    if name == "where":
        return lib.where(lib.tensor([True, False, True]), a, b)
    first = (a.clone(),) if name in THREE else ()
    return getattr(a if in_place else lib, name + "_" * in_place)(
        *(() if in_place else (a,)), *first, b
    )


def seen(lib, call):
    try:
        out = call(lib)
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0]
    return out if isinstance(out, bool) else (str(out.dtype), out.tolist())


def agree(ours, theirs):
    if "ComplexHalf" in str(theirs) or "complex32" in str(theirs):
        return True  # NumPy has no such dtype
    if isinstance(theirs, (tuple, list)):
        return len(ours) == len(theirs) and all(map(agree, ours, theirs))
    if isinstance(theirs, complex):
        return agree([ours.real, ours.imag], [theirs.real, theirs.imag])
    if isinstance(theirs, float):
        return ours == pytest.approx(theirs, rel=1e-2, nan_ok=True)  # half precision among them
    return type(ours) is type(theirs) and ours == theirs


@pytest.mark.parametrize("name", OPS)
def test_mixed_dtypes(name):
    writes = hasattr(torch.Tensor, name + "_")
    sizes = list(itertools.product((False, True), repeat=2))
    calls = []
    for (first, second), (x, y) in itertools.product(itertools.product(DTYPES, DTYPES), sizes):
        for in_place in (False, True)[: 1 + writes]:

            def call(lib, first=first, second=second, x=x, y=y, in_place=in_place):
                a, b = argument(lib, first, x), argument(lib, second, y)
                return called(lib, name, a, b, in_place)

            calls.append(((first, x, second, y, in_place), call))
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        if name not in ("lerp", "where"):

            def call(lib, dtype=dtype, number=number):
                return called(lib, name, argument(lib, dtype, False), number)

            calls.append(((dtype, number), call))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for what, call in calls:
            ours, theirs = seen(tapegrad, call), seen(torch, call)
            assert agree(ours, theirs), (name, what, ours, theirs)
