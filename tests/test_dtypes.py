"""dtypes, promotion, devices and sizes on their own, below the tensors."""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest

from tapegrad import dtypes as D
from tapegrad._tensor.size import Size
from tapegrad.core import promote as P
from tapegrad.device import CPU, channels_last, device, entered, strided

WIDE_UNSIGNED = (D.uint16, D.uint32, D.uint64)


@pytest.mark.parametrize("d", D.ALL, ids=str)
def test_singleton_survives_copies(d):
    for again in (copy.copy(d), copy.deepcopy([d])[0], pickle.loads(pickle.dumps(d))):
        assert again is d
    assert D.NAMES[d.name] is d
    assert D.ALL[d.index] is d


@pytest.mark.parametrize("d", [d for d in D.ALL if d is not D.bfloat16], ids=str)
def test_numpy_round_trip(d):
    assert D.of(d.np) is d
    assert d.np.itemsize == d.itemsize


def test_both_64_bit_c_integers_are_int64():
    assert D.of(np.dtype("q")) is D.of(np.dtype("int64")) is D.int64


def test_bfloat16_array():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert D.of(np.dtype(ml_dtypes.bfloat16)) is D.bfloat16
    assert D.bfloat16.np.itemsize == 2


def test_bfloat16_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert D.finfo(D.bfloat16).bits == 16
    with pytest.raises(RuntimeError, match="pip install ml_dtypes"):
        D._load_bfloat16()


@pytest.mark.parametrize("bad", [object, "U3", "M8[D]", np.longdouble])
def test_unsupported_numpy_dtype(bad):
    with pytest.raises(TypeError, match=r"can't convert np.ndarray of type numpy\."):
        D.of(np.dtype(bad))


def test_as_dtype():
    assert D.as_dtype(D.int8) is D.int8
    with pytest.raises(
        TypeError, match=r"zeros\(\): argument 'dtype' must be torch.dtype, not str"
    ):
        D.as_dtype("int8", "zeros")


def test_dtype_is_sealed():
    with pytest.raises(AttributeError, match="not writable"):
        D.float32.itemsize = 8
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Mine", (D.dtype,), {})


def test_finfo_is_numpys():
    for d in (D.float16, D.float32, D.float64):
        ours, theirs = D.finfo(d), np.finfo(d.np)
        for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal"):
            assert getattr(ours, field) == getattr(theirs, field)
        assert ours.resolution == pytest.approx(float(theirs.resolution), rel=1e-3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(D.finfo())


def test_promotion_is_symmetric_and_never_lowers():
    for a in D.ALL:
        for b in D.ALL:
            if a is not b and {a, b} & set(WIDE_UNSIGNED):
                continue
            both = P.promote_types(a, b)
            assert both is P.promote_types(b, a)
            assert both.category == max(a.category, b.category)
            assert P.can_cast(a, both) and P.can_cast(b, both)


def test_wide_unsigned_promote_only_with_floats():
    for a in WIDE_UNSIGNED:
        assert P.promote_types(a, D.float16) is D.float16
        for b in (D.bool_, D.int64, D.complex64):
            with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64"):
                P.promote_types(a, b)


def test_array_results_agree_with_the_general_rule():
    plain = [d for d in D.ALL if d not in (*WIDE_UNSIGNED, D.bfloat16)]
    for a in plain:
        for b in plain:
            for m in ((), (2,)):
                for n in ((), (2,)):
                    x, y = np.ones(m, a.np), np.ones(n, b.np)
                    assert P.binary_result(x, y) == P.result_dtype([x, y]).np
        for value in (True, 3, 2.5, 1j, np.float32(1), np.int8(1)):
            x = np.ones(2, a.np)
            assert P.scalar_result(x, value) == P.result_dtype([value, x]).np


def test_three_priorities():
    both = P.promote_arrays([D.int32], [D.float64], [1j])
    assert both is D.complex128
    assert P.promote_arrays([D.float32], [D.float64], [2]) is D.float32
    assert P.promote_arrays([], [D.int8], [2.0]) is D.float32


def test_default_dtype_moves_scalars():
    D.set_default_dtype(D.float64)
    try:
        assert P.scalar_result(np.ones(1, np.int32), 1.0) == np.float64
        assert P.scalar_result(np.ones(1, np.int32), 1j) == np.complex128
        assert D.default_np() == np.float64
    finally:
        D.set_default_dtype(D.float32)


@pytest.mark.parametrize(
    "value, error",
    [(2**64, OverflowError), (-(2**63) - 1, OverflowError), ("a", TypeError), (None, TypeError)],
)
def test_no_operand(value, error):
    with pytest.raises(error):
        P.scalar_result(np.ones(1, np.float32), value)


def test_entered_device_nests():
    assert entered() is None
    with device("meta"), device("cpu") as inner:
        assert entered() is inner
    assert entered() is None
    assert device("cpu") == CPU


@pytest.mark.parametrize("value", [strided, channels_last], ids=str)
def test_layout_singletons(value):
    assert copy.deepcopy(value) is value
    assert pickle.loads(pickle.dumps(value)) is value


def test_size_with_arrays():
    assert (Size([2, 3]) + np.array([1, 1])).tolist() == [3, 4]
    assert type(copy.deepcopy(Size([2]))) is Size
    assert type(pickle.loads(pickle.dumps(Size([2])))) is Size


# As PyTorch 2.13 says it when a complex number is to fill such a tensor.
SPELLED = {
    "uint8": "uint8_t",
    "int32": "int",
    "int64": "int64_t",
    "uint16": "uint16_t",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
}


@pytest.mark.parametrize("name", SPELLED)
def test_sentence_about_numbers_that_do_not_fit(name):
    import tapegrad as tg

    sentence = f"value cannot be converted to type {SPELLED[name]} without overflow"
    with pytest.raises(RuntimeError, match=f"^{sentence}"):
        tg.zeros(2, dtype=D.named(name)).fill_(1j)
