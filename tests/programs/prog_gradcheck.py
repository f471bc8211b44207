"""gradcheck and gradgradcheck: what passes, what fails, and with which sentence."""

import warnings

from programs.harness import program

# The first warning would make this name while the harness walks over the module.
__warningregistry__ = {}


def doubles(torch, *values, **options):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True, **options)


def complexes(torch, *values):
    return torch.tensor(values, dtype=torch.complex128, requires_grad=True)


def check(torch, log, function, inputs, **options):
    """Log the verdict or the error of gradcheck in both modes."""
    for fast in (False, True):
        log.raises(
            lambda fast=fast: torch.autograd.gradcheck(function, inputs, fast_mode=fast, **options)
        )


def check_twice(torch, log, function, inputs, *more, **options):
    for fast in (False, True):
        log.raises(
            lambda fast=fast: torch.autograd.gradgradcheck(
                function, inputs, *more, fast_mode=fast, **options
            )
        )


def lines_of(torch, function, inputs, count, **options):
    """The first lines of the message: PyTorch's jacobians."""
    try:
        torch.autograd.gradcheck(function, inputs, **options)
    except torch.autograd.gradcheck.__globals__["GradcheckError"] as error:
        return str(error).splitlines()[:count]
    return []


def product(torch, first=1.0, second=1.0):
    """x * y and x + y with gradients that are off by factors."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y, x + y

        @staticmethod
        def backward(ctx, a, b):
            x, y = ctx.saved_tensors
            return a * y + first * b, second * a * x + b

    return Product.apply


def square(torch, derivative):
    """x * x with the user's derivative(grad, x)."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return derivative(grad, x)

    return Square.apply


# --- what passes -----------------------------------------------------------------------------


@program
def ordinary_functions_pass(torch, log):
    x = doubles(torch, 1.0, 2.0, 3.0)
    check(torch, log, torch.sin, x)
    check(torch, log, torch.sin, (x,))
    check(torch, log, torch.sin, [x])
    check(torch, log, lambda t: (t.exp(), t * t), (x,))
    check(torch, log, lambda t: [t.exp(), t * t], (x,))
    check(torch, log, lambda t: t.sum(), (x,))
    check(torch, log, lambda t: t.reshape(3, 1) @ t.reshape(1, 3), (x,))
    log(x)


@program
def matrices_and_layers_pass(torch, log):
    a = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    b = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    check(torch, log, torch.mm, (a, b))
    layer = torch.nn.Linear(4, 2).double()
    check(torch, log, layer, (a,))
    check(torch, log, torch.nn.functional.linear, (a, layer.weight, layer.bias))
    check(torch, log, lambda t: torch.softmax(t, 1), (a,))
    check(torch, log, lambda t: torch.logsumexp(t, 0), (a,))


@program
def other_arguments_are_left_alone(torch, log):
    x = doubles(torch, 1.0, 2.0)
    c = torch.tensor([3.0, 4.0])
    i = torch.tensor([1, 0])
    check(torch, log, lambda c, x, i, n: (c * x)[i] * n, (c, x, i, 2.0))
    check(torch, log, lambda x, text, none: x * 2, (x, "text", None))


@program
def layouts(torch, log):
    x = torch.randn(3, 4, dtype=torch.float64)
    check(torch, log, torch.sin, (x.t().requires_grad_(),))
    check(torch, log, torch.sin, (x[:, ::2].requires_grad_(),))
    check(torch, log, torch.sin, (x[:, :0].requires_grad_(),))
    check(torch, log, torch.sin, (x[1, 1].clone().requires_grad_(),))
    check(torch, log, lambda t: t.sin()[:0], (x.clone().requires_grad_(),))


@program
def inputs_that_are_not_leaves(torch, log):
    x = doubles(torch, 1.0, 2.0)
    check(torch, log, lambda t: t * t, (x * 3,))
    check(torch, log, lambda t: t * t, (x[:1],))
    log(x)


@program
def one_tensor_as_two_inputs(torch, log):
    x = doubles(torch, 1.0, 2.0)
    check(torch, log, lambda a, b: a * b, (x, x))


@program
def unused_inputs(torch, log):
    x, y = doubles(torch, 1.0, 2.0), doubles(torch, 3.0)
    check(torch, log, lambda a, b: a * 2, (x, y))
    check(torch, log, lambda a, b: (a * 2, b * 3), (x, y))


@program
def outputs_that_are_not_differentiable(torch, log):
    x = doubles(torch, 1.0, 2.0)
    log.raises(lambda: torch.autograd.gradcheck(lambda t: (t * 2, t > 0), (x,)))
    log.raises(lambda: torch.autograd.gradcheck(lambda t: (t.detach().round(), t * 2), (x,)))
    log.raises(lambda: torch.autograd.gradcheck(lambda t: t.argmax(), (x,)))
    log.raises(lambda: torch.autograd.gradcheck(lambda t: t > 0, (x,)))
    check(torch, log, lambda t: torch.ones(2, dtype=torch.float64), (x,))
    check(torch, log, lambda t: t.detach() * 2, (x,))
    check(torch, log, lambda t: 3, (x,))
    check(torch, log, lambda t: (t, 3), (x,))


@program
def in_place_functions(torch, log):
    x = doubles(torch, 1.0, 2.0)

    def written(t):
        u = t.clone()
        u[0].mul_(3)
        return u.exp_()

    check(torch, log, written, (x,))


@program
def views_and_the_input_itself(torch, log):
    x = doubles(torch, 1.0, 2.0)
    check(torch, log, lambda t: t, (x,))
    check(torch, log, lambda t: t[0], (x,))
    check(torch, log, lambda t: t.view(2, 1), (x,))


@program
def grad_attributes_stay_empty(torch, log):
    x = doubles(torch, 1.0, 2.0)
    torch.autograd.gradcheck(lambda t: t * t, (x,))
    log(x.grad, x)
    x.grad = torch.ones(2, dtype=torch.float64)
    torch.autograd.gradcheck(lambda t: t * t, (x,))
    log(x.grad)


# --- what fails ------------------------------------------------------------------------------


@program
def wrong_gradients(torch, log):
    x, y = doubles(torch, 1.0, 2.0), doubles(torch, 3.0, 4.0)
    c = torch.tensor([5.0, 6.0], dtype=torch.float64)
    check(torch, log, product(torch), (x, y))
    check(torch, log, product(torch, first=2.0), (x, y))
    check(torch, log, product(torch, second=2.0), (x, y))
    check(torch, log, product(torch, first=2.0, second=2.0), (x, y))
    wrong = product(torch, first=2.0)
    check(torch, log, lambda c, x, y: wrong(x, y), (c, x, y))
    log.raises(lambda: torch.autograd.gradcheck(lambda x, y: (c, *wrong(x, y)), (x, y)))


@program
def raise_exception(torch, log):
    x, y = doubles(torch, 1.0, 2.0), doubles(torch, 3.0, 4.0)
    check(torch, log, product(torch, first=2.0), (x, y), raise_exception=False)
    check(torch, log, product(torch), (x, y), raise_exception=False)
    log.raises(lambda: torch.autograd.gradcheck(lambda t: t.detach(), (x,), raise_exception=False))
    log.raises(lambda: torch.autograd.gradcheck(lambda t: 1 / 0, (x,), raise_exception=False))
    log.raises(lambda: torch.autograd.gradcheck(torch.sin, (x.detach(),), raise_exception=False))
    log.raises(
        lambda: torch.autograd.gradgradcheck(
            product(torch, first=2.0), (x, y), raise_exception=False
        )
    )


@program
def the_jacobians_of_the_message(torch, log):
    x, y = doubles(torch, 1.0, 2.0), doubles(torch, 3.0, 4.0)
    log(lines_of(torch, product(torch, second=3.0), (x, y), 5))
    log(lines_of(torch, square(torch, lambda g, x: g * x), (complexes(torch, 2 + 4j),), 3))


@program
def gradcheck_error_class(torch, log):
    from importlib import import_module

    module = import_module(torch.__name__ + ".autograd.gradcheck")
    log([c.__name__ for c in module.GradcheckError.__mro__])
    log(callable(torch.autograd.gradcheck), callable(torch.autograd.gradgradcheck))
    log(module.gradcheck is torch.autograd.gradcheck)
    log(module.gradgradcheck is torch.autograd.gradgradcheck)


@program
def tolerances(torch, log):
    x = doubles(torch, 1.0, 2.0)
    off = square(torch, lambda g, x: g * 2 * x * 1.01)
    check(torch, log, off, (x,))
    check(torch, log, off, (x,), rtol=0.05)
    check(torch, log, off, (x,), atol=0.2)
    check(torch, log, off, (x,), rtol=0.0, atol=0.05)
    check(torch, log, torch.exp, (x,), eps=1.0)
    check(torch, log, torch.exp, (x,), eps=0.01)


@program
def nan_gradients(torch, log):
    x = doubles(torch, 1.0, 2.0)
    check(torch, log, square(torch, lambda g, x: g * x / 0), (x,))
    check(torch, log, square(torch, lambda g, x: g * x / 0 * 0), (x,))
    check(torch, log, lambda t: t * float("nan"), (x,))
    check(torch, log, lambda t: (t - 1).sqrt(), (x,))


@program
def not_multiplied_by_the_gradient(torch, log):
    x = doubles(torch, 1.0, 2.0)
    check(torch, log, square(torch, lambda g, x: 2 * x), (x,))

    class Constant(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum() * 2

        @staticmethod
        def backward(ctx, grad):
            return torch.full((2,), 2.0, dtype=torch.float64)

    check(torch, log, Constant.apply, (x,))


@program
def non_deterministic_backward(torch, log):
    x = doubles(torch, 1.0, 2.0)
    jitter = square(torch, lambda g, x: g * 2 * x * (1 + torch.rand_like(x) * 1e-6))
    check(torch, log, jitter, (x,))
    check(torch, log, jitter, (x,), nondet_tol=1e-4)
    log.raises(lambda: torch.autograd.gradcheck(jitter, (x,), check_backward_ad=False))


@program
def non_deterministic_and_wrong(torch, log):
    x = doubles(torch, 1.0, 2.0)
    jitter = square(torch, lambda g, x: g * 3 * x * (1 + torch.rand_like(x)))
    check(torch, log, jitter, (x,))


@program
def shape_or_dtype_that_changes(torch, log):
    x = doubles(torch, 1.0, 2.0)
    log.raises(lambda: torch.autograd.gradcheck(lambda t: t[t >= 1.0] * 2, (x,)))
    log.raises(
        lambda: torch.autograd.gradcheck(
            lambda t: t * 2 if float(t[0]) == 1.0 else (t * 2).float(), (x,)
        )
    )


@program
def single_precision_warns(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = doubles(torch, 1.0, 2.0)
    log.warns(lambda: torch.autograd.gradcheck(lambda t: t * 2, (x,)))
    log.warns(lambda: torch.autograd.gradcheck(lambda y, t: y * 2, (y, x)))
    log.warns(
        lambda: torch.autograd.gradcheck(lambda t: t * 2, (x,), eps=1e-3, atol=1e-2, rtol=1e-2)
    )
    log.warns(lambda: torch.autograd.gradcheck(lambda t: t * 2, (x,), raise_exception=False))


@program
def overlapping_inputs_are_refused(torch, log):
    x = doubles(torch, 1.0)
    check(torch, log, torch.sin, (x.expand(3),))
    check(torch, log, torch.sin, (x.expand(1),))
    y = torch.ones(2, 1, dtype=torch.float64).expand(2, 3).requires_grad_()
    check(torch, log, torch.add, (x, y))
    log.raises(lambda: torch.autograd.gradcheck(torch.sin, (x.expand(3),), raise_exception=False))
    check(torch, log, lambda a, b: a.sum() * b, (y.detach(), x))


@program
def nothing_requires_grad(torch, log):
    x = torch.ones(2, dtype=torch.float64)
    check(torch, log, torch.sin, (x,))
    check(torch, log, torch.sin, ())
    check(torch, log, torch.sin, (torch.arange(3),))


@program
def options_that_do_not_fit(torch, log):
    x = doubles(torch, 1.0)
    grad = torch.autograd.gradcheck
    log.raises(lambda: grad(torch.sin, (x,), check_backward_ad=False))
    log.raises(lambda: grad(torch.sin, (x,), check_batched_forward_grad=True))
    log.raises(
        lambda: grad(
            torch.sin, (x,), check_backward_ad=False, check_forward_ad=True, check_batched_grad=True
        )
    )
    log.raises(lambda: grad(torch.sin, (x,), 1e-6))
    again = torch.autograd.gradgradcheck
    log.raises(lambda: again(torch.sin, (x,), check_rev_over_rev=False))
    log.raises(lambda: again(torch.sin, (x,), check_rev_over_rev=False, check_fwd_over_rev=True))
    log.raises(
        lambda: again(
            torch.sin,
            (x,),
            check_rev_over_rev=False,
            check_fwd_over_rev=True,
            check_undefined_grad=False,
            check_batched_grad=True,
        )
    )


# --- undefined gradients ---------------------------------------------------------------------


@program
def undefined_gradients_are_handled(torch, log):
    class Plain(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            if a is None and b is None:
                return None
            if a is None:
                return b * 3
            return a * 2 if b is None else a * 2 + b * 3

    x = doubles(torch, 1.0, 2.0)
    check(torch, log, Plain.apply, (x,))


@program
def undefined_gradients_are_not_handled(torch, log):
    class Careless(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            return a * 2 + b * 3

    x = doubles(torch, 1.0, 2.0)
    check(torch, log, lambda t: sum(Careless.apply(t)), (x,), check_undefined_grad=False)
    log.warns(lambda: torch.autograd.gradcheck(lambda t: sum(Careless.apply(t)), (x,)))
    log.raises(lambda: torch.autograd.gradcheck(Careless.apply, (x,)))


@program
def undefined_gradients_that_raise(torch, log):
    class Refusing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, a):
            if a is None:
                raise RuntimeError("no gradient")
            return a * 2

    x = doubles(torch, 1.0, 2.0)
    log.warns(lambda: torch.autograd.gradcheck(Refusing.apply, (x,)))
    log.raises(lambda: torch.autograd.gradcheck(Refusing.apply, (x,), raise_exception=False))


@program
def undefined_gradients_with_a_constant_answer(torch, log):
    class Stubborn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, a):
            return torch.ones(2, dtype=torch.float64) if a is None else a * 2

    x = doubles(torch, 1.0, 2.0)
    log.warns(lambda: torch.autograd.gradcheck(Stubborn.apply, (x,)))
    log.warns(lambda: torch.autograd.gradcheck(Stubborn.apply, (x,), check_undefined_grad=False))


@program
def materialized_gradients_pass_the_undefined_check(torch, log):
    x, y = doubles(torch, 1.0, 2.0), doubles(torch, 3.0, 4.0)
    log.warns(lambda: torch.autograd.gradcheck(product(torch), (x, y)))


# --- complex ---------------------------------------------------------------------------------


@program
def complex_functions_pass(torch, log):
    z = complexes(torch, 1 + 2j, 3 - 1j)
    x = doubles(torch, 1.0, 2.0)
    check(torch, log, lambda t: t * t, (z,))
    check(torch, log, lambda t: t.abs(), (z,))
    check(torch, log, lambda t: t.conj() * t, (z,))
    check(torch, log, lambda t: t.real * t.imag, (z,))
    check(torch, log, lambda a, b: torch.complex(a, a) * b, (x, z))
    check(torch, log, lambda a: torch.complex(a, a * a), (x,))
    check(torch, log, lambda a, b: (a * b, a * 2), (x, z))
    check(torch, log, lambda t: torch.view_as_real(t), (z,))


@program
def complex_functions_fail(torch, log):
    z = complexes(torch, 1 + 2j, 3 - 1j)
    check(torch, log, square(torch, lambda g, z: g * 2 * z), (z,))
    check(torch, log, square(torch, lambda g, z: g * z.conj()), (z,))
    real = complexes(torch, 1 + 0j, 3 + 0j)
    check(torch, log, square(torch, lambda g, z: g * z), (real,))

    class Real(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z.real * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    check(torch, log, Real.apply, (z,))


@program
def complex_single_precision_warns(torch, log):
    z = torch.tensor([1 + 2j], requires_grad=True)
    log.warns(
        lambda: torch.autograd.gradcheck(lambda t: t * t, (z,), eps=1e-3, atol=1e-2, rtol=1e-2)
    )


# --- forward mode ----------------------------------------------------------------------------


@program
def forward_mode_passes(torch, log):
    x, y = doubles(torch, 1.0, 2.0), doubles(torch, 3.0, 4.0)
    z = complexes(torch, 1 + 2j, 3 - 1j)
    for options in ({}, {"check_backward_ad": False}):
        check(torch, log, torch.sin, (x,), check_forward_ad=True, **options)
        check(torch, log, lambda a, b: (a * b, a + 2), (x, y), check_forward_ad=True, **options)
        check(torch, log, lambda t: t * t, (z,), check_forward_ad=True, **options)
        check(torch, log, lambda t: t.abs(), (z,), check_forward_ad=True, **options)
        check(torch, log, lambda t: torch.complex(t, t * t), (x,), check_forward_ad=True, **options)
        check(torch, log, lambda a, b: a * 2, (x, y), check_forward_ad=True, **options)


def square_with_tangent(torch, factor):
    """t * t whose tangent is `factor` times t times its tangent."""
    from importlib import import_module

    forward = import_module(torch.__name__ + ".autograd.forward_ad")

    def function(t):
        primal, tangent = forward.unpack_dual(t)
        value = primal * primal
        return value if tangent is None else forward.make_dual(value, factor * primal * tangent)

    return function


@program
def forward_mode_fails(torch, log):
    x = doubles(torch, 1.0, 2.0)
    z = complexes(torch, 1 + 2j, 3 - 1j)
    only = {"check_forward_ad": True, "check_backward_ad": False}
    check(torch, log, square_with_tangent(torch, 2), (x,), **only)
    check(torch, log, square_with_tangent(torch, 3), (x,), **only)
    check(torch, log, square_with_tangent(torch, 3), (z,), **only)
    check(torch, log, square_with_tangent(torch, 2j), (z,), **only)
    check(torch, log, lambda a, b: square_with_tangent(torch, 3)(b), (x, x * 2), **only)
    check(torch, log, square_with_tangent(torch, 3), (x,), raise_exception=False, **only)


@program
def forward_mode_of_a_detached_output(torch, log):
    x = doubles(torch, 1.0, 2.0)
    log.raises(
        lambda: torch.autograd.gradcheck(
            lambda t: t.detach() * 2, (x,), check_forward_ad=True, check_backward_ad=False
        )
    )
    check(torch, log, lambda t: t.round().detach(), (x,), check_forward_ad=True)


# --- gradgradcheck ---------------------------------------------------------------------------


@program
def second_derivatives_pass(torch, log):
    x, y = doubles(torch, 1.0, 2.0), doubles(torch, 3.0, 4.0)
    z = complexes(torch, 1 + 2j, 3 - 1j)
    check_twice(torch, log, torch.exp, (x,))
    check_twice(torch, log, torch.exp, x)
    check_twice(torch, log, lambda a, b: (a * b, a.sin()), (x, y))
    check_twice(torch, log, lambda t: t * t * t, (z,))
    check_twice(torch, log, lambda a, n: a * a * n, (x, 3.0))
    check_twice(torch, log, lambda a, b: a * a, (x, y))
    check_twice(torch, log, lambda a: a * 2, (x,))
    check_twice(torch, log, torch.exp, (x,), gen_non_contig_grad_outputs=True)


@program
def second_derivatives_with_given_grad_outputs(torch, log):
    x = doubles(torch, 1.0, 2.0)
    v = doubles(torch, 0.5, -0.5)
    check_twice(torch, log, torch.exp, (x,), (v,))
    check_twice(torch, log, torch.exp, (x,), v)
    check_twice(torch, log, torch.exp, (x,), v.detach())
    check_twice(torch, log, lambda t: (t.exp(), t.sin()), (x,), [v, v])


@program
def second_derivatives_fail(torch, log):
    x = doubles(torch, 1.0, 2.0)

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x.detach() ** 2

    check(torch, log, Once.apply, (x,))
    check_twice(torch, log, Once.apply, (x,))
    check_twice(torch, log, torch.sin, (x.detach(),))


@program
def second_derivatives_draw_from_the_generator(torch, log):
    x = doubles(torch, 1.0, 2.0)
    torch.manual_seed(3)
    torch.autograd.gradgradcheck(torch.exp, (x,))
    log(torch.rand(2))
    torch.manual_seed(3)
    torch.autograd.gradcheck(torch.exp, (x,))
    log(torch.rand(2))
    torch.autograd.gradcheck(torch.exp, (x,), fast_mode=True)
    log(torch.rand(2))


# --- the jacobians by themselves -------------------------------------------------------------


def jacobian_functions(torch):
    from importlib import import_module

    return import_module(torch.__name__ + ".autograd.gradcheck")


@program
def numerical_jacobian(torch, log):
    module = jacobian_functions(torch)
    x, y = doubles(torch, 1.0, 2.0), doubles(torch, 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for jacobian in module.get_numerical_jacobian(lambda t: t[0] * t[1], (x, y)):
            log(jacobian.round(decimals=6).tolist(), str(jacobian.dtype), jacobian.shape)


@program
def numerical_jacobian_warns_and_refuses(torch, log):
    module = jacobian_functions(torch)
    x = doubles(torch, 1.0, 2.0)
    log.warns(lambda: len(module.get_numerical_jacobian(lambda t: t[0] * 2, (x,))))
    log.raises(lambda: module.get_numerical_jacobian(lambda t: t[0] * 2, (x,), grad_out=2.0))
    log.raises(lambda: module.get_numerical_jacobian(lambda t: t[0] * 2j, (x,)))


@program
def analytical_jacobian(torch, log):
    module = jacobian_functions(torch)
    x, y = doubles(torch, 1.0, 2.0), doubles(torch, 3.0, 4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jacobians, *facts = module.get_analytical_jacobian((x, y), x * x * 2)
        log([j.tolist() for j in jacobians], facts)
        log.raises(lambda: module.get_analytical_jacobian((x,), x * 2, grad_out=3.0))
        log.raises(lambda: module.get_analytical_jacobian((x,), x * 2j))
    log.warns(lambda: module.get_analytical_jacobian((x,), x * 2)[1:])
