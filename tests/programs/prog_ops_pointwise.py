"""Elementwise operations: values, dtypes, in-place forms, gradients of both orders, errors."""

from programs.gradients import orders
from programs.harness import program

DTYPES = ("bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex64")
X = [-2.0, -0.5, 0.25, 1.5]
Y = [1.5, -0.75, 2.0, -3.0]
POSITIVE = [0.25, 0.5, 1.5, 3.0]


def pair(torch, a, b):
    one = torch.tensor([1, 0, 1], dtype=getattr(torch, a))
    two = torch.tensor([1, 1, 0], dtype=getattr(torch, b))
    return one, two


@program
def add_promotes_all_pairs(torch, log):
    for a in DTYPES:
        for b in DTYPES:
            x, y = pair(torch, a, b)
            log(x + y)


@program
def mul_promotes_all_pairs(torch, log):
    for a in DTYPES:
        for b in DTYPES:
            x, y = pair(torch, a, b)
            log(x * y)


@program
def sub_promotes_all_pairs(torch, log):
    for a in DTYPES[1:]:
        for b in DTYPES[1:]:
            x, y = pair(torch, a, b)
            log((x - y).dtype)


@program
def div_promotes_all_pairs(torch, log):
    for a in DTYPES:
        for b in DTYPES:
            x, y = pair(torch, a, b)
            log((x / (y + 1)).dtype)


@program
def python_scalars_promote_by_category(torch, log):
    for a in DTYPES:
        x = torch.tensor([1, 0, 1], dtype=getattr(torch, a))
        for s in (True, 2, 2.5, 1j):
            if (a, s) != ("float16", 1j):  # complex32, which NumPy does not have
                log(x + s, s * x)


@program
def zero_dim_tensors_promote_by_category(torch, log):
    for a in DTYPES:
        x = torch.tensor([1, 0], dtype=getattr(torch, a))
        for b in ("bool", "int64", "float64", "complex64"):
            if (a, b) == ("float16", "complex64"):
                continue  # complex32, which NumPy does not have
            log((x + torch.tensor(1, dtype=getattr(torch, b))).dtype)


@program
def bool_subtraction_is_refused(torch, log):
    a = torch.tensor([True, False])
    log.raises(lambda: a - a)
    log.raises(lambda: a - True)
    log.raises(lambda: 1 - a)
    log.raises(lambda: -a)
    log.raises(lambda: a - 1)
    log(a + a, a * a)


@program
def integers_wrap(torch, log):
    a = torch.tensor([250, 255], dtype=torch.uint8)
    log(a + 10, a * 2, -a, a - 255, torch.tensor([127], dtype=torch.int8) + 1)


@program
def add_alpha(torch, log):
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    log(torch.add(a, b, alpha=2), a.add(b, alpha=0.5), torch.sub(a, b, alpha=3), a.add(1, alpha=2))
    log(torch.rsub(a, b, alpha=2), torch.rsub(a, 1))
    i = torch.tensor([1, 2])
    log(i.add(i, alpha=2))
    log.raises(lambda: i.add(i, alpha=0.5))
    log.raises(lambda: torch.tensor([True]).add(torch.tensor([True]), alpha=2))


@program
def add_alpha_gradients(torch, log):
    orders(torch, log, lambda x, y: torch.add(x, y, alpha=3), X, Y)
    orders(torch, log, lambda x, y: torch.sub(x, y, alpha=3) * x, X, Y)
    orders(torch, log, lambda x, y: torch.rsub(x, y, alpha=2) * y, X, Y)


@program
def arithmetic_gradients(torch, log):
    orders(torch, log, lambda x, y: x + y, X, Y)
    orders(torch, log, lambda x, y: x - y, X, Y)
    orders(torch, log, lambda x, y: x * y, X, Y)
    orders(torch, log, lambda x, y: x / y, X, Y)


@program
def scalar_arithmetic_gradients(torch, log):
    for f in (
        lambda x: x + 2,
        lambda x: 2 - x,
        lambda x: x * 3,
        lambda x: 3 / x,
        lambda x: x / 4,
        lambda x: -x,
        lambda x: +x,
        lambda x: x - 1.5,
    ):
        orders(torch, log, f, X)


@program
def broadcast_gradients(torch, log):
    m, row, column = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [0.5, -1.0, 2.0], [[2.0], [-3.0]]
    orders(torch, log, lambda x, y: x * y, m, row)
    orders(torch, log, lambda x, y: x / y, m, column)
    orders(torch, log, lambda x, y: x * y, row, column)
    orders(torch, log, lambda x, y: x * y, 2.5, m)


@program
def same_tensor_twice(torch, log):
    orders(torch, log, lambda x: x * x, X)
    orders(torch, log, lambda x: x + x, X)
    orders(torch, log, lambda x: x / x, X)
    orders(torch, log, lambda x: x - x, X)


@program
def broadcast_errors(torch, log):
    log.raises(lambda: torch.ones(2) + torch.ones(3))
    log.raises(lambda: torch.ones(2, 3) * torch.ones(3, 2))
    log.raises(lambda: torch.ones(2, 1, 4) / torch.ones(3, 5))
    log.raises(lambda: torch.ones(2).add_(torch.ones(2, 2)))
    log.raises(lambda: torch.ones(0) + torch.ones(2))
    log(torch.ones(0) + torch.ones(1), torch.ones(2, 0) * torch.ones(1, 1))


@program
def operand_type_errors(torch, log):
    a = torch.ones(2)
    log.raises(lambda: a + "x")
    log.raises(lambda: a + None)
    log.raises(lambda: a * [1, 2])
    log.raises(lambda: a / {})
    log.raises(lambda: "x" - a)


@program
def in_place_arithmetic(torch, log):
    a = torch.tensor([1.0, 2.0])
    log(a.add_(1), a.mul_(2), a.sub_(0.5), a.div_(2), a._version)
    a += 1
    a -= torch.tensor([1.0, 0.0])
    a *= 3
    a /= 2
    log(a, a.neg_(), a.add_(a, alpha=2), a._version)
    i = torch.tensor([5, 6])
    i //= 2
    i %= 2
    i **= 3
    log(i, i._version)


@program
def in_place_result_dtype(torch, log):
    i = torch.tensor([1, 2])
    log(i.add_(torch.tensor([1], dtype=torch.int8)), i.mul_(True))
    log.raises(lambda: i.add_(1.5))
    log.raises(lambda: i.mul_(torch.tensor([1.5])))
    log.raises(lambda: i.div_(2))
    log.raises(lambda: torch.ones(1).add_(1j))
    log.raises(lambda: torch.tensor([True]).add_(1))
    log(torch.ones(1).add_(torch.ones(1, dtype=torch.float64)), i)


@program
def in_place_gradients(torch, log):
    for f in (
        lambda t, y: t.add_(y),
        lambda t, y: t.sub_(y, alpha=2),
        lambda t, y: t.mul_(y),
        lambda t, y: t.div_(y),
        lambda t, y: t.pow_(2),
        lambda t, y: t.exp_(),
        lambda t, y: t.tanh_(),
        lambda t, y: t.sigmoid_(),
        lambda t, y: t.neg_().abs_(),
        lambda t, y: t.sin_(),
        lambda t, y: t.cos_(),
        lambda t, y: t.clamp_(-1, 1),
        lambda t, y: t.copy_(y),
        lambda t, y: t.fill_(2),
        lambda t, y: t.zero_(),
    ):
        orders(torch, log, lambda x, y, f=f: f(x * 1, y) * 1.0 + 0 * y, X, Y)


@program
def div_rounding_mode(torch, log):
    a, b = torch.tensor([7.0, -7.0, 7.0, -7.0]), torch.tensor([2.0, 2.0, -2.0, -2.0])
    for mode in (None, "trunc", "floor"):
        log(torch.div(a, b, rounding_mode=mode), torch.div(a.long(), b.long(), rounding_mode=mode))
        log(a.div(2, rounding_mode=mode), a.clone().div_(b, rounding_mode=mode))
    log.raises(lambda: torch.div(a, b, rounding_mode="up"))


@program
def div_rounding_mode_gradients(torch, log):
    orders(torch, log, lambda x, y: torch.div(x, y, rounding_mode="trunc") + x * y, X, Y)
    orders(torch, log, lambda x, y: torch.div(x, y, rounding_mode="floor") + x * y, X, Y)


@program
def division_by_zero(torch, log):
    a, z = torch.tensor([1.0, -1.0, 0.0]), torch.zeros(3)
    log(a / z, a // z, torch.remainder(a, z), torch.fmod(a, z), torch.tensor([1, 0]) / 0)
    i = torch.tensor([1])
    log.raises(lambda: i // 0)
    log.raises(lambda: i % 0)
    log.raises(lambda: torch.fmod(i, 0))


@program
def floor_divide(torch, log):
    a = torch.tensor([7, -7, 3])
    log(a // 2, a // -2, a // torch.tensor([2, 2, -2]), a.float() // 2, 7 // torch.tensor([2, -2]))
    log(torch.floor_divide(a, 2.0), a.floor_divide(3), a.clone().floor_divide_(2))
    log(torch.tensor([7], dtype=torch.uint8) // 2, torch.tensor([1.0]) // 0.1)


@program
def remainder_and_fmod(torch, log):
    a = torch.tensor([7.0, -7.0, 5.5, -5.5])
    for b in (3, -3, 2.5, torch.tensor([3.0, 3.0, -2.0, -2.0])):
        log(a % b, torch.remainder(a, b), torch.fmod(a, b))
    i = torch.tensor([7, -7])
    log(i % 3, i % -3, torch.fmod(i, 3), torch.fmod(i, -3), 7 % torch.tensor([3, -3]), i % 2.5)
    log(a.clone().remainder_(3), a.clone().fmod_(3))


@program
def remainder_and_fmod_gradients(torch, log):
    orders(torch, log, lambda x, y: torch.remainder(x, y) * x, X, Y)
    orders(torch, log, lambda x, y: torch.fmod(x, y) * x, X, Y)
    orders(torch, log, lambda x: (x % 2) * x, X)


@program
def pow_tensor_scalar(torch, log):
    a = torch.tensor([-2.0, 0.0, 3.0])
    for e in (0, 1, 2, 3, -1, 0.5, 2.5, True):
        log(a**e, a.pow(e))
    i = torch.tensor([-2, 0, 3])
    log(i**2, i**0, i**2.0, i.pow(3), torch.tensor([True, False]) ** 2, i.clone().pow_(2))
    log.raises(lambda: i**-1)
    log.raises(lambda: torch.tensor([1, 2]).pow_(0.5))


@program
def pow_scalar_tensor(torch, log):
    log(2 ** torch.tensor([1.0, -1.0, 0.5]), 2 ** torch.tensor([1, 2]), 2.5 ** torch.tensor([1, 2]))
    log(torch.pow(3, torch.tensor([2])), 0 ** torch.tensor([0.0, 1.0]), 1 ** torch.tensor([5]))


@program
def pow_tensor_tensor(torch, log):
    two = torch.tensor([2])
    log(torch.tensor([2.0, 3.0]) ** torch.tensor([2.0, -1.0]), two ** torch.tensor([3]))
    log(two ** torch.tensor([0.5]), torch.pow(torch.tensor(2.0), torch.tensor([1, 2])))
    log(torch.tensor([4.0]).pow_(torch.tensor([0.5])))


@program
def pow_scalar_exponent_gradients(torch, log):
    for e in (0, 1, 2, 3, -1, 0.5, 2.5):
        orders(torch, log, lambda x, e=e: x**e + 0 * x, POSITIVE)


@program
def pow_scalar_base_gradients(torch, log):
    for base in (2, 0.5, 1):
        orders(torch, log, lambda x, base=base: base**x, X)


@program
def pow_tensor_gradients(torch, log):
    orders(torch, log, lambda x, y: x**y, POSITIVE, Y)
    orders(torch, log, lambda x, y: torch.pow(x, y), 2.0, Y)


@program
def pow_gradients_at_zero(torch, log):
    for e in (0, 1, 2, 0.5, 3):
        x = torch.tensor([0.0], requires_grad=True)
        (x**e).backward()
        log(x.grad)
    x = torch.tensor([0.0, 0.0], requires_grad=True)
    e = torch.tensor([0.0, 2.0], requires_grad=True)
    (x**e).sum().backward()
    log(x.grad, e.grad)
    e = torch.tensor([0.0, 1.0], requires_grad=True)
    (0**e).sum().backward()
    log(e.grad)


@program
def unary_float_values(torch, log):
    a = torch.tensor([0.25, 0.5, 1.0, 2.0])
    for name in ("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "relu"):
        log(name, getattr(torch, name)(a), getattr(a, name)())
    for name in ("log1p", "expm1", "square", "reciprocal"):
        log(name, getattr(torch, name)(a))


@program
def unary_gradients_first_half(torch, log):
    for name in ("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "square"):
        log(name)
        orders(torch, log, lambda x, name=name: getattr(x, name)(), POSITIVE)


@program
def unary_gradients_second_half(torch, log):
    for name in ("log1p", "expm1", "reciprocal", "abs", "relu", "neg"):
        log(name)
        orders(torch, log, lambda x, name=name: getattr(x, name)(), POSITIVE)


@program
def unary_of_integers(torch, log):
    i = torch.tensor([1, 4])
    for name in ("exp", "log", "sqrt", "sin", "tanh", "sigmoid", "reciprocal"):
        log(getattr(torch, name)(i).dtype)
    log(torch.sqrt(i), i.abs(), i.sign(), i.neg(), i.square(), i.relu())
    log(torch.tensor([True]).sqrt())
    log.raises(lambda: i.sqrt_())
    log.raises(lambda: i.exp_())


@program
def unary_special_values(torch, log):
    a = torch.tensor([0.0, -1.0, float("inf"), float("-inf"), float("nan")])
    for name in ("exp", "log", "sqrt", "tanh", "sigmoid", "abs", "sign", "relu", "reciprocal"):
        log(name, getattr(torch, name)(a))


@program
def unary_gradients_at_zero(torch, log):
    for name in ("sqrt", "log", "abs", "sign", "relu", "square", "rsqrt", "reciprocal"):
        x = torch.tensor([0.0, -0.0], requires_grad=True)
        getattr(x, name)().sum().backward()
        log(name, x.grad)


@program
def unary_in_place(torch, log):
    for name in ("exp_", "log_", "sqrt_", "rsqrt_", "sin_", "cos_", "tanh_", "sigmoid_", "abs_"):
        a = torch.tensor([0.25, 0.5])
        log(name, getattr(a, name)() is a, a)
    for name in ("neg_", "relu_", "sign_", "reciprocal_", "square_", "floor_", "ceil_", "round_"):
        a = torch.tensor([-1.5, 2.5])
        log(name, getattr(a, name)() is a, a)


@program
def abs_gradients(torch, log):
    orders(torch, log, lambda x: x.abs() * x, [-2.0, 0.0, 3.0])
    orders(torch, log, lambda x: abs(x), [-2.0, 0.0, 3.0])
    log(torch.tensor([3 + 4j]).abs())
    log.raises(lambda: torch.tensor([True]).abs())


@program
def sign_values(torch, log):
    log(torch.sign(torch.tensor([-2.0, 0.0, 3.0])), torch.tensor([True, False]).sign())
    orders(torch, log, lambda x: x.sign() * x, [-2.0, 0.0, 3.0])
    log.raises(lambda: torch.tensor([1j]).sign())


@program
def rounding_functions(torch, log):
    a = torch.tensor([-1.5, -0.5, 0.5, 1.5, 2.5, 1.25])
    log(a.floor(), a.ceil(), a.round(), a.trunc())
    log(torch.tensor([1]).floor())
    orders(torch, log, lambda x: x.floor() * x + x.round() * x + x.trunc() + x.ceil(), X)


@program
def clamp_values(torch, log):
    a = torch.tensor([-2.0, 0.0, 3.0, float("nan")])
    log(a.clamp(-1, 1), a.clamp(min=0), a.clamp(max=0), torch.clamp(a, None, 2), a.clamp(1, -1))
    log(a.clamp(torch.tensor([0.0, 1.0, 1.0, 1.0]), torch.tensor(2.0)), a.clamp_min(1))
    log(a.clamp_max(1), a.clip(0, 1), a.clone().clamp_(0, 1), a.clone().clamp_min_(0.5))
    log(torch.tensor([1, 5]).clamp(2, 3), torch.tensor([1, 5]).clamp(min=2.5))
    log(a.clamp(min=torch.tensor([[0.0], [1.0]])).shape)
    log.raises(lambda: a.clamp())
    log.raises(lambda: a.clamp(None, None))


@program
def clamp_gradients(torch, log):
    for low, high in ((-1, 1), (None, 1), (-1, None), (-2, 1.5), (0, 0)):
        orders(torch, log, lambda x, a=low, b=high: x.clamp(a, b) * x, [-2.0, -0.5, 0.0, 1.5])


@program
def clamp_tensor_bound_gradients(torch, log):
    orders(torch, log, lambda x, a, b: x.clamp(a, b) * x, X, [-1.0] * 4, [0.25] * 4)
    orders(torch, log, lambda x, a: x.clamp(min=a) * x, X, [-2.0, 0.0, 0.25, 2.0])


@program
def where_values(torch, log):
    c = torch.tensor([True, False, True])
    a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10, 20, 30])
    log(torch.where(c, a, b), torch.where(c, a, 0), torch.where(c, 1, 2), torch.where(c, 1.0, b))
    log(a.where(c, torch.zeros(3)))
    log(torch.where(c, torch.tensor(5.0), torch.tensor(6, dtype=torch.int8)))
    log(torch.where(c, True, 2.5), torch.where(c[:, None], a, -a).shape)
    log(torch.where(torch.tensor([1, 0], dtype=torch.uint8), 1.0, 2.0))
    log(torch.where(c))
    log.raises(lambda: torch.where(torch.tensor([1.0, 0.0]), 1.0, 2.0))
    log.raises(lambda: torch.where(c, torch.ones(2), torch.ones(3)))


@program
def where_gradients(torch, log):
    c = torch.tensor([True, False, True, False])
    orders(torch, log, lambda x, y: torch.where(c, x * x, y), X, Y)
    orders(torch, log, lambda x: torch.where(c, x, 0.0) * x, X)
    orders(torch, log, lambda x, y: torch.where(x > y, x, y), X, -0.25)


@program
def where_does_not_stop_nan(torch, log):
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    torch.where(x > 0, x.log() / 0 * 0, torch.zeros(2)).sum().backward()
    log(x.grad)
    y = torch.tensor([0.0, 4.0], requires_grad=True)
    torch.where(y > 0, y.sqrt(), y).sum().backward()
    log(y.grad)


@program
def maximum_and_minimum(torch, log):
    a = torch.tensor([1.0, 5.0, float("nan")])
    b = torch.tensor([3.0, 2.0, 1.0])
    log(torch.maximum(a, b), torch.minimum(a, b), a.maximum(torch.tensor(2)), torch.max(a, b))
    log(torch.min(a, b), torch.maximum(torch.tensor([1]), torch.tensor([1.5])))
    log(torch.maximum(torch.tensor([True]), torch.tensor([False])))
    log.raises(lambda: torch.maximum(a, 1.0))
    log.raises(lambda: torch.maximum(torch.tensor([1j]), a))


@program
def maximum_tie_gradients(torch, log):
    for f in ("maximum", "minimum"):
        orders(torch, log, lambda x, y, f=f: getattr(torch, f)(x, y) * x, X, [-2.0, 1.0, 0.25, 1.0])


@program
def comparisons(torch, log):
    a, b = torch.tensor([1.0, 2.0, float("nan")]), torch.tensor([1, 3, 0])
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        log(getattr(torch, name)(a, b), getattr(a, name)(2), getattr(b, name)(1.5))
    log(a == b, a != b, a < b, a <= b, a > b, a >= b)
    log(2 > a, 1 == b)  # noqa: SIM300
    log(torch.tensor([True]) == 1, torch.tensor([True]) < 2.5, torch.tensor([1j]) == 1j)


@program
def comparison_corner_cases(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    log(a > 1, (a == a).requires_grad, a == None, a != "x")  # noqa: E711
    log(torch.tensor([16777217]) == torch.tensor([16777216.0]))
    log(torch.tensor([200], dtype=torch.uint8) > 300, torch.tensor([0.1]) == 0.1)
    log(torch.tensor([1.0]).eq_(1.0), torch.tensor([1, 2]).gt_(1))
    log.raises(lambda: a < "x")
    log.raises(lambda: torch.tensor([1j]) < 1)
    log.raises(lambda: torch.ones(2) < torch.ones(3))


@program
def logical_ops(torch, log):
    a, b = torch.tensor([True, False, True]), torch.tensor([0, 2, 3])
    log(torch.logical_and(a, b), torch.logical_or(a, b), torch.logical_xor(a, b), b.logical_not())
    log(torch.logical_not(torch.tensor([0.0, 0.5])), a.clone().logical_and_(b))
    log(b.clone().logical_not_(), torch.tensor([1.0, 0.0]).logical_or(torch.tensor([0, 0])))


@program
def bitwise_ops(torch, log):
    a, b = torch.tensor([5, -3, 0]), torch.tensor([3, 6, 1])
    t, f = torch.tensor([True, False]), torch.tensor([True, True])
    log(a & b, a | b, a ^ b, ~a, t & f, t | f, t ^ f, ~t, a & 1, 2 | a, a ^ True, t & 1)
    log(torch.bitwise_and(a, b), torch.bitwise_or(a, b), torch.bitwise_xor(a, b))
    log(torch.bitwise_not(a), a << 1, a >> 1, torch.tensor([1], dtype=torch.uint8) & a[0])
    c = a.clone()
    c &= b
    c |= 8
    c ^= 1
    log(c, c._version)
    log.raises(lambda: torch.ones(1) & torch.ones(1))
    log.raises(lambda: ~torch.ones(1))
    log.raises(lambda: a & 1.5)


@program
def float_checks(torch, log):
    a = torch.tensor([1.0, float("inf"), float("-inf"), float("nan")])
    log(a.isnan(), a.isinf(), a.isfinite(), torch.isnan(torch.tensor([1])), torch.isfinite(a))


@program
def out_arguments(torch, log):
    a, b, out = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.zeros(2)
    log(torch.add(a, b, out=out) is out, out, torch.mul(a, b, out=out), torch.exp(a, out=out))
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    log.raises(lambda: torch.add(x, b, out=out))
    log.raises(lambda: torch.add(a, b, out=torch.zeros(2, dtype=torch.int64)))


@program
def complex_arithmetic(torch, log):
    a, b = torch.tensor([1 + 2j, -1j]), torch.tensor([2 - 1j, 3 + 0j])
    log(a + b, a * b, a - b, a / b, -a, a.conj().resolve_conj(), a.abs(), a.real, a.imag, a * 2)
    log(a * torch.tensor([1.5, 2.5], dtype=torch.float64), a**2, torch.exp(b), 1j * torch.ones(2))


@program
def complex_gradients(torch, log):
    a = torch.tensor([1 + 2j, -1j], requires_grad=True)
    (a * a.conj()).real.sum().backward()
    log(a.grad)
    b = torch.tensor([1 + 2j, 0.5 - 1j], requires_grad=True)
    (b * b * (2 - 1j)).abs().sum().backward()
    log(b.grad)
    r = torch.tensor([2.0, 3.0], requires_grad=True)
    (r * torch.tensor([1 + 1j, 2j])).abs().sum().backward()
    log(r.grad.clone())
    log.raises(lambda: (a * 2).sum().backward())


@program
def mixed_dtype_gradients(torch, log):
    a = torch.tensor([1.5, 2.5], requires_grad=True)
    b = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    h = torch.tensor([0.5, 2.0], dtype=torch.float16, requires_grad=True)
    (a * b * h * torch.tensor([2, 3])).sum().backward()
    log(a.grad, b.grad, h.grad)


@program
def zero_dim_gradients(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    c = a * b
    c.sum().backward()
    log(c, a.grad, b.grad)
