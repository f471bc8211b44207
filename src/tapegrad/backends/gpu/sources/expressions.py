"""What elementwise kernels compute, in CUDA C, by the names of the ops.

`a`, `b` and `c` are the elements of the arrays, `s`, `t` and `u` the numbers that come with them;
elementwise.py has the functions. Half precision is computed in single and rounded once. In the
tables of gradients `a` is the gradient of the result.
"""

from __future__ import annotations

# Of one array.
UNARY = {
    "relu": "a < 0 ? (A)0 : a",
    "neg": "-a",
    "abs": "fabs(a)",
    "sign": "sign(a)",
    "sgn": "sign(a)",
    "reciprocal": "1 / a",
    "sqrt": "sqrt(a)",
    "rsqrt": "1 / sqrt(a)",
    "exp": "exp(a)",
    "exp2": "exp2(a)",
    "expm1": "expm1(a)",
    "log": "log(a)",
    "log2": "log2(a)",
    "log10": "log10(a)",
    "log1p": "log1p(a)",
    "sin": "sin(a)",
    "cos": "cos(a)",
    "tan": "tan(a)",
    "asin": "asin(a)",
    "acos": "acos(a)",
    "atan": "atan(a)",
    "sinh": "sinh(a)",
    "cosh": "cosh(a)",
    "tanh": "tanh(a)",
    "asinh": "asinh(a)",
    "acosh": "acosh(a)",
    "atanh": "atanh(a)",
    "erf": "erf(a)",
    "erfc": "erfc(a)",
    "sigmoid": "logistic(a)",
    "silu": "a / (1 + exp(-a))",
    "mish": "a * gate(a)",
    "log_sigmoid": "(a < 0 ? a : (A)0) - log1p(exp(-fabs(a)))",
    "hardsigmoid": "bounded(a + 3, 0, 6) / 6",
    "hardswish": "a * bounded(a + 3, 0, 6) / 6",
}
LEAKY = "a > 0 ? a : a * s"
ELU = "a > 0 ? a * t : expm1(a * u) * (s * t)"
SMALL = "b >= -s && b <= s"
# Of one array and all attributes of the op.
WITH_NUMBERS = {
    "mul_number": "a * s",
    "add_number": "a + s",
    "sub_number": "a - s",
    "div_number": "a / s",
    "leaky_relu": LEAKY,
    "leaky_relu_write": LEAKY,
    "rrelu_on_average": LEAKY,
    "rrelu_on_average_write": LEAKY,
    "elu": ELU,
    "elu_write": ELU,
    "celu": ELU,
    "celu_write": ELU,
    "softplus": "a * s > t ? a : log1p(exp(a * s)) / s",
    "hardtanh": "bounded(a, s, t)",
    "hardshrink": "a >= -s && a <= s ? (A)0 : a",
    "softshrink": "a > s ? a - s : a < -s ? a + s : a * 0",
    "threshold": "a <= s ? t : a",
    "threshold_write": "a <= s ? t : a",
}
# Of two arrays; of one and a number; of a number and one.
ARITHMETIC = {
    "add": ("a + b", "a + s", "s + a"),
    "sub": ("a - b", "a - s", "s - a"),
    "mul": ("a * b", "a * s", "s * a"),
    "div": ("a / b", "a / s", "s / a"),
}
# Of arrays that may have to be broadcast.
PAIRS = {
    "maximum": "a > b || a != a ? a : b",
    "minimum": "a < b || a != a ? a : b",
    "xlogy": "a == 0 && b == b ? (A)0 : a * log(b)",
    "prelu_kernel": "a > 0 ? a : a * b",
    "rrelu_with_noise": "a * b",
    "rrelu_with_noise_write": "a * b",
    "rrelu_with_noise_backward": "a * b",
}
# Of arrays of one shape and the attributes of the op.
LERP = "a + {0} * (b - a) : b - (b - a) * (1 - {0})"
SEVERAL = {
    "add_alpha": (2, "a + s * b"),
    "sub_alpha": (2, "a - s * b"),
    "rsub": (2, "b - s * a"),
    "lerp_scalar": (2, f"fabs(s) < (A)0.5 ? {LERP.format('s')}"),
    "lerp": (3, f"fabs(c) < (A)0.5 ? {LERP.format('c')}"),
    "addcmul": (3, "a + s * b * c"),
    "addcdiv": (3, "a + s * b / c"),
}
# Ops that are gradients: of a gradient, an array and the attributes of the op.
PULLS = {
    "tanh_backward": "a * (1 - b * b)",
    "sigmoid_backward": "a * (1 - b) * b",
    "silu_backward": "a * (1 + b * (1 - logistic(b))) * logistic(b)",
    "mish_backward": "a * (gate(b) + b * logistic(b) * (1 - gate(b) * gate(b)))",
    "log_sigmoid_backward": "a * logistic(-b)",
    "softplus_backward": "b * s > t ? a : a * logistic(b * s)",
    "leaky_relu_backward": "b > 0 ? a : a * s",
    # PyTorch has the sixth in single precision, for doubles too.
    "hardsigmoid_backward": "b > -3 && b < 3 ? a * (A)(1.0f / 6.0f) : (A)0",
    "hardswish_backward": "b <= -3 ? (A)0 : b < 3 ? a * (b / 3 + (A)0.5) : a",
    "hardtanh_backward": "b <= s || b >= t ? (A)0 : a",
    "shrink_backward": f"{SMALL} ? (A)0 : a",
    "softshrink_backward": f"{SMALL} ? (A)0 : a",
    "threshold_backward": "b <= s ? (A)0 : a",  # a NaN lets its gradient pass
    "masked_by": "b <= 0 ? (A)0 : a",
}
ELU_PULL = {
    False: "b <= 0 ? a * u * (s * t) * exp(b * u) : a * t",
    True: "b <= 0 ? a * u * (b + s * t) : a * t",  # from the result
}
ROOT = "(A)0.70710678118654752440"
SLOPE = "(A)0.79788456080286535588"  # the root of 2 / pi
CUBE = "(A)0.044715"
INNER = f"({SLOPE} * (b + {CUBE} * b * b * b))"
GELU = {
    "none": f"(A)0.5 * a * (1 + erf(a * {ROOT}))",
    "tanh": f"(A)0.5 * a * (1 + tanh({SLOPE} * (a + {CUBE} * a * a * a)))",
}
GELU_PULL = {
    "none": f"a * ((A)0.5 * (1 + erf(b * {ROOT})) "
    "+ b * exp(-(A)0.5 * b * b) * (A)0.39894228040143267794)",
    "tanh": f"a * ((A)0.5 * (1 + tanh{INNER}) + (A)0.5 * b * (1 - tanh{INNER} * tanh{INNER}) "
    f"* {SLOPE} * (1 + 3 * {CUBE} * b * b))",
}
LN2, LN10 = "(A)0.69314718055994530942", "(A)2.30258509299404568402"
ERF_SLOPE = "(A)1.12837916709551257390"  # 2 over the root of pi
# Gradients of ops whose rules take several steps. Per tensor argument: the expression, and the
# names of what it reads besides the gradient, of arrays and then of numbers; None: the gradient.
Formula = tuple[str, str] | None
GRADIENTS: dict[str, tuple[Formula, ...]] = {
    "mul": (("a * b", "other"), ("a * b", "input")),
    "div": (("a / b", "other"), ("-a * ((b / c) / c)", "input other")),
    "mul_number": (("a * s", "number"),),
    "div_number": (("a / s", "number"),),
    "reciprocal": (("-a * b * b", "out"),),
    "sqrt": (("a / (2 * b)", "out"),),
    "rsqrt": (("(A)-0.5 * a * b * b * b", "out"),),
    "exp": (("a * b", "out"),),
    "exp2": ((f"a * b * {LN2}", "out"),),
    "expm1": (("a * (b + 1)", "out"),),
    "log": (("a / b", "input"),),
    "log2": ((f"a / (b * {LN2})", "input"),),
    "log10": ((f"a / (b * {LN10})", "input"),),
    "log1p": (("a / (b + 1)", "input"),),
    "sin": (("a * cos(b)", "input"),),
    "cos": (("a * -sin(b)", "input"),),
    "tan": (("a * (1 + b * b)", "out"),),
    "asin": (("a / sqrt(1 - b * b)", "input"),),
    "acos": (("-a / sqrt(1 - b * b)", "input"),),
    "atan": (("a / (b * b + 1)", "input"),),
    "sinh": (("a * cosh(b)", "input"),),
    "cosh": (("a * sinh(b)", "input"),),
    "erf": ((f"a * {ERF_SLOPE} * exp(-b * b)", "input"),),
    "erfc": ((f"-a * {ERF_SLOPE} * exp(-b * b)", "input"),),
    "abs": (("a * sign(b)", "input"),),
    "maximum": (
        ("b < c ? (A)0 : b == c ? a / 2 : a", "input other"),
        ("b > c ? (A)0 : b == c ? a / 2 : a", "input other"),
    ),
    "minimum": (
        ("b > c ? (A)0 : b == c ? a / 2 : a", "input other"),
        ("b < c ? (A)0 : b == c ? a / 2 : a", "input other"),
    ),
    "logaddexp": (
        ("a / (1 + exp(c - b))", "input other"),
        ("a / (1 + exp(b - c))", "input other"),
    ),
    "addcmul": (None, ("a * (b * s)", "tensor2 value"), ("a * (b * s)", "tensor1 value")),
    "addcdiv": (
        None,
        ("a * (s / b)", "tensor2 value"),
        ("-a * ((s * b) / (c * c))", "tensor1 tensor2 value"),
    ),
}
# Powers that have their own kernels, and their gradients with the exponent as `s`.
POWERS = {
    2: "a * a",
    3: "a * a * a",
    0.5: "sqrt(a)",
    -0.5: "1 / sqrt(a)",
    -1: "1 / a",
    -2: "1 / (a * a)",
}
POWER_PULLS = {
    2: "a * (s * b)",
    3: "a * (s * (b * b))",
    0.5: "a * (s / sqrt(b))",
    1.5: "a * (s * sqrt(b))",
    -1: "a * (s / (b * b))",
}
# Ops that compare with their numbers as the array's dtype has them, not as single precision does.
ROUNDS_NUMBERS = frozenset(
    """
    hardshrink hardtanh shrink_backward softshrink softshrink_backward threshold threshold_backward
    threshold_write
    """.split()
)
APART = "fabs(a - b)"
# Losses of `a`, the input, and `b`, the target, with a number `s`; the gradients of both, where
# `b` and `c` are those, `s` is an element's share of the loss and `t` the number.
LOSSES: dict[str, tuple[str, Formula, Formula]] = {
    "mse_loss": (
        "(a - b) * (a - b)",
        ("a * s * 2 * (b - c)", "input target"),
        ("a * s * 2 * (c - b)", "input target"),
    ),
    "smooth_l1_loss": (
        f"{APART} < s ? (A)0.5 * {APART} * {APART} / s : {APART} - (A)0.5 * s",
        ("a * s * bounded((b - c) / t, -1, 1)", "input target"),
        ("a * s * bounded((c - b) / t, -1, 1)", "input target"),
    ),
    "huber_loss": (
        f"{APART} < s ? (A)0.5 * {APART} * {APART} : s * ({APART} - (A)0.5 * s)",
        ("a * s * bounded(b - c, -t, t)", "input target"),
        ("a * s * bounded(c - b, -t, t)", "input target"),
    ),
    "soft_margin_loss": (
        "log1p(exp(-a * b))",
        ("a * s * -c * exp(-b * c) / (exp(-b * c) + 1)", "input target"),
        None,
    ),
    "binary_cross_entropy": (
        "(b - 1) * at_least(log1p(-a), -100) - b * at_least(log(a), -100)",
        ("a * s * (b - c) / at_least((1 - b) * b, (A)1e-12)", "input target"),
        ("a * s * (log1p(-b) - log(b))", "input"),
    ),
    "binary_cross_entropy_with_logits": (
        "(1 - b) * a + (a < 0 ? -a : (A)0) + log1p(exp(-fabs(a)))",
        ("a * s * (logistic(b) - c)", "input target"),
        ("a * s * -b", "input"),
    ),
}
LOSSES["mse_loss_mixed"] = LOSSES["mse_loss"]
