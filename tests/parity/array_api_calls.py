"""Functions of the array API standard by array-api-compat, called in many ways: JSON lines.

Not here: empty, searchsorted, take_along_axis, linalg.svd, qr and eigh, whose answers to calls like
these are undefined or differ by signs.

Run with PyTorch and under `python -m tapegrad run`; test_array_api.py compares.
"""

import json
import warnings

import array_api_compat
import torch
from array_api_compat import torch as xp

warnings.simplefilter("ignore")
ELEMENTS = """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift
    bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp
    expm1 floor floor_divide greater greater_equal hypot imag isfinite isin isinf isnan less
    less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor maximum
    minimum multiply negative nextafter not_equal positive pow real reciprocal remainder round sign
    signbit sin sinh sqrt square subtract tan tanh trunc
""".split()
REST = """
    all any arange argmax argmin argsort asarray astype broadcast_arrays broadcast_to can_cast
    concat count_nonzero cumulative_prod cumulative_sum diff expand_dims eye finfo flip from_dlpack
    full full_like iinfo isdtype linspace matmul matrix_transpose max mean meshgrid min moveaxis
    nonzero ones ones_like permute_dims prod repeat reshape result_type roll sort squeeze stack std
    sum take tensordot tile trapezoid tril triu unique_all unique_counts unique_inverse
    unique_values unstack var vecdot where zeros zeros_like
""".split()
LINALG = """
    cholesky cross det diagonal eigvalsh inv matmul matrix_norm matrix_power matrix_rank
    matrix_transpose outer pinv slogdet solve svdvals tensordot trace vecdot vector_norm
""".split()
FFT = "fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq rfftn"
ARRAYS = {
    "floats": torch.tensor([[1.5, -2.25, 3.0], [0.5, 4.0, -1.0]]),
    "others": torch.tensor([[2.0, 1.0, -3.0], [0.5, 2.0, 5.0]]),
    "ints": torch.tensor([[1, 2, 3], [4, 5, 6]]),
    "small": torch.tensor([[2, 2, 1], [3, 1, 4]], dtype=torch.int32),
    "bools": torch.tensor([[True, False, True], [False, False, True]]),
    "complex": torch.tensor([1 + 2j, 3 - 1j]),
    "bytes": torch.tensor([3, 1, 2], dtype=torch.uint8),
    "empty": torch.zeros(0),
    "doubles": torch.tensor([[0.25, -1.0, 2.0]], dtype=torch.float64),
    "one": torch.tensor(2.0),
}
SQUARE = torch.tensor([[4.0, 1.0], [1.0, 3.0]])


def shown(value):
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            return ["complex", str(value.dtype), shown(torch.view_as_real(value))]
        return [str(value.dtype), list(value.shape), value.reshape(-1).tolist()]
    if isinstance(value, (tuple, list)):
        return [shown(v) for v in value]
    return str(value)


def say(label, function, *args, **options):
    try:
        answer = shown(function(*args, **options))
    except Exception:
        answer = "error"
    print(json.dumps([label, answer]))


def every_way(home, names):
    for name in names:
        function = getattr(home, name, None)
        if function is None:
            print(json.dumps([name, "absent"]))
            continue
        for first, a in ARRAYS.items():
            label = f"{name}({first}"
            say(f"{label})", function, a)
            say(f"{label}, axis=0)", function, a, axis=0)
            say(f"{label}, axis=-1, keepdims=True)", function, a, axis=-1, keepdims=True)
            say(f"{label}, 2)", function, a, 2)
            say(f"{label}, (1, 0))", function, a, (1, 0))
            say(f"{label}, dtype)", function, a, torch.float64)
            say(f"{label}, descending=True)", function, a, descending=True)
            say(f"{label}, correction=1.0)", function, a, correction=1.0)
            say(f"({label}, {first}))", function, (a, a))
            say(f"{label}, where)", function, ARRAYS["bools"], a, ARRAYS["others"])
            for second, b in ARRAYS.items():
                say(f"{label}, {second})", function, a, b)
        for args in ((3,), (1, 5, 2), (0.0, 1.0, 5), ((2, 3),), ((2,), 7)):
            say(f"{name}{args}", function, *args)


t = ARRAYS["floats"]
say("namespace", lambda: array_api_compat.array_namespace(t) is xp)
say("is torch", lambda: [array_api_compat.is_torch_array(t), array_api_compat.device(t)])
say("info", lambda: sorted(xp.__array_namespace_info__().dtypes()))
every_way(xp, ELEMENTS + REST)
for name in LINALG:
    function = getattr(xp.linalg, name)
    for label, a in {
        "square": SQUARE,
        "wide": t,
        "row": t[0],
        "many": torch.stack([SQUARE] * 2),
    }.items():
        say(f"linalg.{name}({label})", function, a)
        say(f"linalg.{name}({label}, square)", function, a, SQUARE)
        say(f"linalg.{name}({label}, 2)", function, a, 2)
        say(f"linalg.{name}({label}, {label})", function, a, a)
        say(f"linalg.{name}({label}, keepdims=True)", function, a, keepdims=True)
for name in FFT.split():
    function = getattr(xp.fft, name)
    for label in ("floats", "complex", "doubles"):
        say(f"fft.{name}({label})", function, ARRAYS[label])
        say(f"fft.{name}({label}, n=4)", function, ARRAYS[label], n=4)
        say(f"fft.{name}({label}, ortho)", function, ARRAYS[label], norm="ortho")
    say(f"fft.{name}(4)", function, 4)
