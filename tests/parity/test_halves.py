"""All 65,536 values of bfloat16 and float16 through functions of one element, and back.

The bits are PyTorch's but for up to 32 values, where the last bit of a function in single
precision decides between two neighbours. What differs more is in `KNOWN`, with the reason.
"""

from __future__ import annotations

import pytest
import torch

import tapegrad

PLAIN = """abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp
    exp2 expm1 floor frac i0 lgamma log log10 log1p log2 logit nan_to_num neg positive rad2deg
    reciprocal relu round rsqrt sigmoid sign sin sinc sinh sqrt square tan tanh trunc""".split()
SPECIAL = "entr i0e i1 i1e log_ndtr ndtr".split()
ACTIVATIONS = """celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish
    relu6 selu silu softplus softshrink softsign tanhshrink""".split()
TWO = """add sub mul div floor_divide remainder fmod atan2 hypot copysign xlogy logaddexp logaddexp2
    ldexp nextafter maximum fmax""".split()


def functions(lib):
    found = {name: getattr(lib, name) for name in PLAIN}
    found |= {name: getattr(lib.special, name) for name in SPECIAL}
    found |= {name: getattr(lib.nn.functional, name) for name in ACTIVATIONS}
    found["gelu tanh"] = lambda x: lib.nn.functional.gelu(x, approximate="tanh")
    found["logit 0.1"] = lambda x: lib.logit(x, 0.1)
    for n in (0.5, 1.5, 2, 3, -0.5, -1, -2):
        found[f"x ** {n}"] = lambda x, n=n: x**n
    found["2 ** x"] = lambda x: 2**x
    found["x + 0.7"] = lambda x: x + 0.7
    found["x * 0.7"] = lambda x: x * 0.7
    found["x / 0.7"] = lambda x: x / 0.7
    found["0.7 / x"] = lambda x: 0.7 / x
    found["clamp"] = lambda x: x.clamp(-0.7, 0.7)
    found["lerp"] = lambda x: lib.lerp(x, x.flip(0), 0.7)
    found["addcmul"] = lambda x: lib.addcmul(x, x.flip(0), x, value=0.7)
    for name in TWO:
        found[name] = lambda x, name=name: getattr(lib, name)(x, lib.full_like(x, 0.7))
    return found


OURS, THEIRS = functions(tapegrad), functions(torch)
EDGE = "the gradient at NaN: ours is that of PyTorch's plain loop, its vectors have another"
NEAR = "PyTorch's vectors have an error function that is 1e-7 off"
EARLY = "PyTorch's overflows or underflows before the result does"
STEPS = "PyTorch's vectors and its plain loop round other steps; ours rounds as the plain loop"
ZERO = "PyTorch's vectors make zero of -0.0, its plain loop leaves it; so does ours"
KNOWN = {
    **{
        f"{name}, {dtype}, gradient": (2048, EDGE)
        for name in "celu elu hardshrink hardswish hardtanh relu6 selu softshrink".split()
        for dtype in ("bfloat16", "float16")
    },
    "erf, bfloat16, value": (29000, NEAR),
    "erf, float16, value": (6600, NEAR),
    "gelu, bfloat16, value": (1000, NEAR),
    "gelu, bfloat16, gradient": (340, NEAR),
    "gelu, float16, value": (740, NEAR),
    "gelu, float16, gradient": (1500, NEAR),
    "gelu tanh, float16, value": (260, EARLY),
    "gelu tanh, float16, gradient": (280, EARLY),
    "i0, float16, gradient": (1106, EARLY),
    "i1, float16, value": (1106, EARLY),
    "softshrink, bfloat16, value": (16200, ZERO),
    "softshrink, float16, value": (14400, ZERO),
    "floor_divide, bfloat16, value": (200, STEPS),
    "floor_divide, float16, value": (1440, STEPS),
    "remainder, bfloat16, value": (152, "PyTorch's vectors have no remainder of huge numbers"),
    "fmod, bfloat16, value": (152, "PyTorch's vectors have no remainder of huge numbers"),
    "fmax, bfloat16, value": (126, "NaN that signal win in PyTorch"),
}


def seen(lib, function, dtype, gradient):
    x = lib.arange(-32768, 32768, dtype=lib.int32).to(lib.int16).view(getattr(lib, dtype))
    x = x.requires_grad_(gradient)
    out = function(x)
    if gradient:
        (out,) = lib.autograd.grad(out, x, lib.ones_like(out))
    return torch.from_numpy(out.detach().view(lib.int16).numpy()).view(getattr(torch, dtype))


@pytest.mark.parametrize("what", ["value", "gradient"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", OURS)
def test_halves(name, dtype, what):
    try:
        wanted = seen(torch, THEIRS[name], dtype, what == "gradient")
    except (NotImplementedError, RuntimeError) as error:
        pytest.skip(f"PyTorch: {error}")
    got = seen(tapegrad, OURS[name], dtype, what == "gradient")
    differ = (got.view(torch.int16) != wanted.view(torch.int16)) & ~(got.isnan() & wanted.isnan())
    most, _ = KNOWN.get(f"{name}, {dtype}, {what}", (32, ""))
    assert differ.sum() <= most, (int(differ.sum()), got[differ][:5], wanted[differ][:5])
