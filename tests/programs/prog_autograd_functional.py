"""torch.autograd.functional: jacobian, hessian and the products with them."""

from importlib import import_module

from programs.harness import program


def functional(torch):
    return import_module(torch.__name__ + ".autograd.functional")


def plain(value):
    """Shape, dtype, numbers, requires_grad: the rest is how the result was put together."""
    if isinstance(value, (tuple, list)):
        return type(value)(plain(v) for v in value)
    if value is None or isinstance(value, (bool, str)):
        return value
    numbers = (value.detach() + 0).tolist()  # no negative zeros
    return list(value.shape), str(value.dtype), numbers, value.requires_grad


class Shown:
    """torch.autograd.functional with `plain` results."""

    def __init__(self, torch):
        self.module = functional(torch)

    def __getattr__(self, name):
        function = getattr(self.module, name)
        return lambda *args, **options: plain(function(*args, **options))


def doubles(torch, *values):
    return torch.tensor(values, dtype=torch.float64)


def pair(torch):
    return doubles(torch, 1.0, 2.0), doubles(torch, 3.0, 4.0)


def two_in(x, y):
    return (x * x * y).sum()


def two_out(x, y):
    return x * y, (x + y * y).sum()


def cubes(x):
    return (x * x * x).sum()


# --- jacobian --------------------------------------------------------------------------------


@program
def jacobian_shapes(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    log(f.jacobian(lambda t: t * t, x))
    log(f.jacobian(lambda t: t.sum(), x))
    log(f.jacobian(lambda t: t * 2, torch.tensor(3.0)))
    log(f.jacobian(lambda t: t.view(2, 1) * t, x))
    log(f.jacobian(lambda t: (t * t,), x))
    log(f.jacobian(lambda t: (t * t, t.sum()), x))
    log(f.jacobian(lambda t: t * t, (x,)))
    log(f.jacobian(two_in, (x, y)))
    log(f.jacobian(two_out, (x, y)))
    log.raises(lambda: f.jacobian(two_out, [x, y]))


@program
def jacobian_leaves_the_inputs_alone(torch, log):
    f = Shown(torch)
    x = doubles(torch, 1.0, 2.0).requires_grad_()
    log(f.jacobian(lambda t: t * t, x))
    log(x, x.grad)
    y = x * 2
    log(f.jacobian(lambda t: t * t, y), y)


@program
def jacobian_runs_with_gradients_switched_off(torch, log):
    f = Shown(torch)
    x = doubles(torch, 1.0, 2.0)
    with torch.no_grad():
        log(f.jacobian(lambda t: t * t, x))
        log(torch.is_grad_enabled())


@program
def jacobian_create_graph(torch, log):
    f = functional(torch)
    x = doubles(torch, 1.0, 2.0).requires_grad_()
    j = f.jacobian(lambda t: t * t * t, x, create_graph=True)
    log(plain(j), j.requires_grad)
    log(plain(torch.autograd.grad(j.sum(), x)))
    y = doubles(torch, 1.0, 2.0)
    j = f.jacobian(lambda t: t * t * t, y, create_graph=True)
    log(plain(j), j.requires_grad)
    a, b = f.jacobian(two_in, (x, y), create_graph=True)
    log(plain(a), plain(b), a.requires_grad, b.requires_grad)


@program
def jacobian_of_what_does_not_depend(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    log(f.jacobian(lambda a, b: a * 2, (x, y)))
    log(f.jacobian(lambda a: torch.ones(2), x))
    log(f.jacobian(lambda a: a.detach() * 2, x))
    log(f.jacobian(lambda a: torch.ones(2), x, create_graph=True))


@program
def jacobian_strict(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    log(f.jacobian(lambda a: a * a, x, strict=True))
    log.raises(lambda: f.jacobian(lambda a, b: a * 2, (x, y), strict=True))
    log.raises(lambda: f.jacobian(lambda a: torch.ones(2), x, strict=True))
    log.raises(lambda: f.jacobian(lambda a: a.detach(), x, strict=True))
    log.raises(lambda: f.jacobian(lambda a: a * 2, x, strict=True, create_graph=True))
    log.raises(lambda: f.jacobian(lambda a: (a * 2, torch.ones(1)), x, strict=True))
    log.raises(lambda: f.jacobian(lambda a, b: (a * a, b * b), (x, y), strict=True))
    log.raises(
        lambda: plain(
            f.jacobian(lambda a: a * a * a, x.requires_grad_(), strict=True, create_graph=True)
        )
    )


@program
def jacobian_bad_inputs(torch, log):
    f = Shown(torch)
    x = doubles(torch, 1.0, 2.0)
    log.raises(lambda: f.jacobian(lambda t: t, 3.0))
    log.raises(lambda: f.jacobian(lambda t: t, (x, 3.0)))
    log.raises(lambda: f.jacobian(lambda t: t, [[x]]))
    log.raises(lambda: f.jacobian(lambda t: 3.0, x))
    log.raises(lambda: f.jacobian(lambda t: (t, 3.0), x))
    log.raises(lambda: f.jacobian(lambda t: None, x))
    log.raises(lambda: f.jacobian(lambda t: t.long(), x))
    log.raises(lambda: f.jacobian(lambda t: t * 2, torch.arange(2)))
    log.raises(lambda: f.jacobian(lambda t: t, x, strategy="sideways"))


@program
def jacobian_vectorized(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    log(f.jacobian(lambda t: t * t, x, vectorize=True))
    log(f.jacobian(lambda t: t.sum(), x, vectorize=True))
    log(f.jacobian(lambda t: (t * t, t.sum()), x, vectorize=True))
    log(f.jacobian(two_out, (x, y), vectorize=True))
    log(f.jacobian(lambda t: t.view(2, 1) * t, x, vectorize=True))
    log(f.jacobian(lambda a, b: a * 2, (x, y), vectorize=True))
    log(f.jacobian(lambda a: torch.ones(2), x, vectorize=True))
    log.raises(lambda: f.jacobian(lambda t: t * t, x, vectorize=True, strict=True))


@program
def jacobian_vectorized_create_graph(torch, log):
    f = functional(torch)
    x = doubles(torch, 1.0, 2.0).requires_grad_()
    j = f.jacobian(lambda t: t * t * t, x, create_graph=True, vectorize=True)
    log(plain(j), j.requires_grad)
    log(plain(torch.autograd.grad(j.sum(), x)))


@program
def jacobian_forward_mode(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    mode = {"vectorize": True, "strategy": "forward-mode"}
    log(f.jacobian(lambda t: t * t, x, **mode))
    log(f.jacobian(lambda t: t.sum(), x, **mode))
    log(f.jacobian(lambda t: (t * t, t.sum()), x, **mode))
    log(f.jacobian(lambda t: (t * t,), x, **mode))
    log(f.jacobian(two_out, (x, y), **mode))
    log(f.jacobian(two_in, (x, y), **mode))
    log(f.jacobian(lambda a, b: a * 2, (x, y), **mode))
    log(f.jacobian(lambda t: t.view(2, 1) * t, x, **mode))
    log.raises(lambda: f.jacobian(lambda a: torch.ones(2), x, **mode))
    log.raises(lambda: f.jacobian(lambda t: t * t, (x,), **mode))
    log.raises(lambda: f.jacobian(lambda t: (t * t, t), (x,), **mode))
    log.raises(lambda: f.jacobian(lambda t: t.long(), x, **mode))
    log.raises(lambda: f.jacobian(lambda t: 3.0, x, **mode))
    log.raises(lambda: f.jacobian(lambda t: t, 3.0, **mode))
    log.raises(lambda: f.jacobian(lambda t: t[:0], x, **mode))
    log.raises(lambda: f.jacobian(lambda t: t * 2, x[:0], **mode))
    log.raises(lambda: f.jacobian(lambda t: t, x, strategy="forward-mode"))
    log.raises(lambda: f.jacobian(lambda t: t, x, strict=True, **mode))
    log.raises(lambda: f.jacobian(lambda t: t, x, create_graph=True, **mode))


@program
def jacobian_of_a_layer(torch, log):
    f = Shown(torch)
    layer = torch.nn.Linear(3, 2)
    x = torch.randn(2, 3)
    log(f.jacobian(layer, x))
    log(f.jacobian(lambda w, b: torch.nn.functional.linear(x, w, b), (layer.weight, layer.bias)))


@program
def jacobian_complex(torch, log):
    f = Shown(torch)
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128)
    log.raises(lambda: f.jacobian(lambda t: t * t, z))
    log(f.jacobian(lambda t: t.abs(), z))
    log(f.jacobian(lambda t: t * t, z, vectorize=True))


@program
def complex_products(torch, log):
    f = Shown(torch)
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128)
    log(f.vjp(lambda t: t * t, z, z))
    log(f.jvp(lambda t: t * t, z, z))
    log(f.jacobian(lambda t: t * t, z, vectorize=True, strategy="forward-mode"))


@program
def jacobian_without_elements(torch, log):
    f = Shown(torch)
    x = doubles(torch, 1.0, 2.0)
    log.raises(lambda: f.jacobian(lambda t: t[:0], x))
    log.raises(lambda: f.jacobian(lambda t: t * 2, x[:0]))
    log.raises(lambda: f.jacobian(lambda t: t.sum(), x[:0]))


@program
def jacobian_mixed_dtypes(torch, log):
    f = Shown(torch)
    x, y = doubles(torch, 1.0, 2.0), torch.tensor([3.0, 4.0])
    log(f.jacobian(lambda a, b: a * b, (x, y)))
    log(f.jacobian(lambda a, b: (a * a, b * b), (x, y)))
    log(f.jacobian(lambda a, b: (a * a, b * b), (x, y), vectorize=True))


@program
def jacobian_nested(torch, log):
    f = functional(torch)
    x = doubles(torch, 1.0, 2.0)
    log(plain(f.jacobian(lambda t: f.jacobian(lambda u: u**3, t, create_graph=True), x)))


# --- hessian ---------------------------------------------------------------------------------


@program
def hessian_shapes(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    log(f.hessian(cubes, x))
    log(f.hessian(cubes, (x,)))
    log(f.hessian(two_in, (x, y)))
    log(f.hessian(lambda t: (t**3).sum().view(1), x))
    log(f.hessian(lambda t: t**3, torch.tensor(2.0)))
    log(f.hessian(lambda t: t.sin() @ t.cos(), doubles(torch, 1.0, 2.0, 3.0)))


@program
def hessian_of_what_is_linear(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    log(f.hessian(lambda t: t.sum(), x))
    log(f.hessian(lambda a, b: (a * a).sum(), (x, y)))
    log(f.hessian(lambda t: torch.ones(()), x))


@program
def hessian_strict(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    log.raises(lambda: f.hessian(cubes, x, strict=True))
    log.raises(lambda: f.hessian(lambda t: t.sum(), x, strict=True))
    log.raises(lambda: f.hessian(lambda a, b: (a**3).sum(), (x, y), strict=True))
    log.raises(lambda: f.hessian(lambda a, b: (a**3).sum() + (b**3).sum(), (x, y), strict=True))
    log.raises(lambda: f.hessian(lambda t: (t * t).sum(), x, strict=True, create_graph=True))


@program
def hessian_create_graph(torch, log):
    f = functional(torch)
    x = doubles(torch, 1.0, 2.0).requires_grad_()
    h = f.hessian(cubes, x, create_graph=True)
    log(plain(h), h.requires_grad)
    log(plain(torch.autograd.grad(h.sum(), x)))


@program
def hessian_bad_inputs(torch, log):
    f = Shown(torch)
    x = doubles(torch, 1.0, 2.0)
    log.raises(lambda: f.hessian(lambda t: t * 2, x))
    log.raises(lambda: f.hessian(lambda t: (t.sum(), t.sum()), x))
    log.raises(lambda: f.hessian(lambda t: 3.0, x))
    log.raises(lambda: f.hessian(cubes, 3.0))
    log.raises(lambda: f.hessian(cubes, x, outer_jacobian_strategy="sideways"))


@program
def hessian_vectorized(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    log(f.hessian(cubes, x, vectorize=True))
    log(f.hessian(two_in, (x, y), vectorize=True))
    forward = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}
    log(functional(torch).hessian(cubes, x, **forward).tolist())
    for row in functional(torch).hessian(two_in, (x, y), **forward):
        log([block.tolist() for block in row])
    log.raises(lambda: f.hessian(cubes, x, outer_jacobian_strategy="forward-mode"))
    log.raises(
        lambda: f.hessian(
            cubes, x, vectorize=True, strict=True, outer_jacobian_strategy="forward-mode"
        )
    )
    log.raises(
        lambda: f.hessian(
            cubes, x, vectorize=True, create_graph=True, outer_jacobian_strategy="forward-mode"
        )
    )
    log.raises(lambda: f.hessian(cubes, x, vectorize=True, strict=True))


# --- vjp -------------------------------------------------------------------------------------


@program
def vjp_values(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    v = doubles(torch, 1.0, 10.0)
    log(f.vjp(lambda t: t * t, x, v))
    log(f.vjp(lambda t: t * t, (x,), (v,)))
    log(f.vjp(lambda t: t.sum(), x))
    log(f.vjp(lambda t: t.sum().view(1), x))
    log(f.vjp(two_out, (x, y), (v, torch.tensor(2.0, dtype=torch.float64))))
    log(f.vjp(two_in, (x, y)))
    log(f.vjp(lambda a, b: a * 2, (x, y), v))
    log(f.vjp(lambda t: torch.ones(2), x, v))


@program
def vjp_create_graph(torch, log):
    f = functional(torch)
    x = doubles(torch, 1.0, 2.0).requires_grad_()
    v = doubles(torch, 1.0, 10.0).requires_grad_()
    out, g = f.vjp(lambda t: t**3, x, v, create_graph=True)
    log(plain(out), plain(g), out.requires_grad, g.requires_grad)
    log(plain(torch.autograd.grad(g.sum(), (x, v))))
    out, g = f.vjp(lambda t: t**3, x, v)
    log(out.requires_grad, g.requires_grad)


@program
def vjp_strict(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    v = doubles(torch, 1.0, 10.0)
    log.raises(lambda: f.vjp(lambda t: t * t, x, v, strict=True))
    log.raises(lambda: f.vjp(lambda t: torch.ones(2), x, v, strict=True))
    log.raises(lambda: f.vjp(lambda a, b: a * 2, (x, y), v, strict=True))
    log.raises(lambda: f.vjp(lambda a: a * 2, x, v, strict=True, create_graph=True))


@program
def vjp_bad_vectors(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    v = doubles(torch, 1.0, 10.0)
    log.raises(lambda: f.vjp(lambda t: t * t, x))
    log.raises(lambda: f.vjp(lambda t: (t.sum(), t.sum()), x))
    log.raises(lambda: f.vjp(lambda t: t * t, x, doubles(torch, 1.0)))
    log.raises(lambda: f.vjp(lambda t: t * t, x, (v, v)))
    log.raises(lambda: f.vjp(lambda t: (t, t), x, v))
    log.raises(lambda: f.vjp(lambda t: (t, t), x, (v,)))
    log.raises(lambda: f.vjp(lambda t: t, x, 3.0))
    log.raises(lambda: f.vjp(lambda t: t, 3.0, v))
    log.raises(lambda: f.vjp(lambda t: 3.0, x, v))
    log.raises(lambda: f.vjp(lambda t: t, x, (v, 3.0)))


# --- jvp -------------------------------------------------------------------------------------


@program
def jvp_values(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    v = doubles(torch, 1.0, 10.0)
    log(f.jvp(lambda t: t * t, x, v))
    log(f.jvp(lambda t: t * t, (x,), (v,)))
    log(f.jvp(lambda t: t * t, torch.tensor(3.0)))
    log(f.jvp(lambda t: t * t, torch.tensor([3.0])))
    log(f.jvp(two_out, (x, y), (v, v)))
    log(f.jvp(two_in, (x, y), (v, v)))
    log(f.jvp(lambda a, b: a * 2, (x, y), (v, v)))
    log(f.jvp(lambda t: torch.ones(2), x, v))
    log(f.jvp(lambda t: (t * 2, torch.ones(1)), x, v))


@program
def jvp_create_graph(torch, log):
    f = functional(torch)
    x = doubles(torch, 1.0, 2.0).requires_grad_()
    v = doubles(torch, 1.0, 10.0).requires_grad_()
    out, g = f.jvp(lambda t: t**3, x, v, create_graph=True)
    log(plain(out), plain(g), out.requires_grad, g.requires_grad)
    log(plain(torch.autograd.grad(g.sum(), (x, v))))


@program
def jvp_strict(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    v = doubles(torch, 1.0, 10.0)
    log.raises(lambda: f.jvp(lambda t: t * t, x, v, strict=True))
    log.raises(lambda: f.jvp(lambda t: torch.ones(2), x, v, strict=True))
    log.raises(lambda: f.jvp(lambda a, b: a * 2, (x, y), (v, v), strict=True))
    log.raises(lambda: f.jvp(lambda a: a * 2, x, v, strict=True, create_graph=True))


@program
def jvp_bad_vectors(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    v = doubles(torch, 1.0, 10.0)
    log.raises(lambda: f.jvp(lambda t: t * t, x))
    log.raises(lambda: f.jvp(two_in, (x, y)))
    log.raises(lambda: f.jvp(lambda t: t * t, x, doubles(torch, 1.0)))
    log.raises(lambda: f.jvp(lambda t: t * t, x, (v, v)))
    log.raises(lambda: f.jvp(lambda t: 3.0, x, v))
    log.raises(lambda: f.jvp(lambda t: t, 3.0, v))


# --- vhp and hvp -----------------------------------------------------------------------------


@program
def vhp_and_hvp_values(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    v = doubles(torch, 1.0, 10.0)
    for product in (f.vhp, f.hvp):
        log(product(cubes, x, v))
        log(product(cubes, (x,), (v,)))
        log(product(two_in, (x, y), (v, v)))
        log(product(lambda t: t**3, torch.tensor(2.0)))
        log(product(lambda t: t.sum(), x, v))
        log(product(lambda a, b: (a**3).sum(), (x, y), (v, v)))
        log(product(lambda t: torch.ones(()), x, v))


@program
def vhp_and_hvp_create_graph(torch, log):
    f = functional(torch)
    for product in (f.vhp, f.hvp):
        x = doubles(torch, 1.0, 2.0).requires_grad_()
        v = doubles(torch, 1.0, 10.0).requires_grad_()
        out, g = product(cubes, x, v, create_graph=True)
        log(plain(out), plain(g), out.requires_grad, g.requires_grad)
        log(plain(torch.autograd.grad(g.sum(), (x, v))))


@program
def vhp_and_hvp_strict(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    v = doubles(torch, 1.0, 10.0)
    for product in (f.vhp, f.hvp):
        log.raises(lambda: product(cubes, x, v, strict=True))  # noqa: B023
        log.raises(lambda: product(lambda t: t.sum(), x, v, strict=True))  # noqa: B023
        log.raises(lambda: product(lambda t: torch.ones(()), x, v, strict=True))  # noqa: B023
        log.raises(
            lambda: product(  # noqa: B023
                lambda a, b: (a**3).sum(), (x, y), (v, v), strict=True
            )
        )
        log.raises(
            lambda: product(  # noqa: B023
                lambda t: (t * t).sum(), x, v, strict=True, create_graph=True
            )
        )


@program
def vhp_and_hvp_bad_arguments(torch, log):
    f = Shown(torch)
    x, y = pair(torch)
    v = doubles(torch, 1.0, 10.0)
    for product in (f.vhp, f.hvp):
        for attempt in (
            (cubes, x),
            (two_in, (x, y)),
            (lambda t: t * 2, x, v),
            (lambda t: (t.sum(), t.sum()), x, v),
            (cubes, x, doubles(torch, 1.0)),
            (cubes, x, (v, v)),
            (cubes, 3.0, v),
            (lambda t: 3.0, x, v),
        ):
            log.raises(lambda: product(*attempt))  # noqa: B023


# --- helpers that programs import ------------------------------------------------------------


@program
def helpers(torch, log):
    f = functional(torch)
    x, y = pair(torch)
    log(f._as_tuple(x, "inputs", "f"), f._as_tuple((x, y), "inputs", "f"))
    log.raises(lambda: f._as_tuple(3, "inputs", "f"))
    log.raises(lambda: f._as_tuple([x, 3], "inputs", "f"))
    log.raises(lambda: f._as_tuple((x, None)))
    log(f._tuple_postprocess((x, y), False), f._tuple_postprocess((x, y), True))
    log(f._tuple_postprocess(((x,), (y,)), (False, True)))
    log(f._construct_standard_basis_for((x, y), (2, 2)))
    log(f._construct_standard_basis_for((torch.ones(1), torch.ones(2, 1)), (1, 2)))
    w = x.clone().requires_grad_()
    log(f._grad_postprocess((w * 2, y), False))
    log(plain(f._grad_postprocess((w * 2, w), True)))
    log(f._grad_postprocess(w * 2, False))
    log(sorted(f.__all__))
