"""Many gradients in one pass: is_grads_batched, vectorize, and gradcheck's checks of them."""

from importlib import import_module

from programs.harness import program


def functional(torch):
    return import_module(torch.__name__ + ".autograd.functional")


def leaf(torch, *shape, start=0.5):
    count = 1
    for n in shape:
        count *= n
    values = (torch.arange(count, dtype=torch.float64) / 4 + start).reshape(shape).clone()
    return values.requires_grad_()


def rows(torch, count, *shape):
    return leaf(torch, count, *shape, start=-1.0).detach()


def scale(torch, style):
    """x * 3, without any word about batches."""

    class Scale(torch.autograd.Function):
        if style == "ctx":

            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x * 3

        else:

            @staticmethod
            def forward(x):
                return x * x * 3

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return Product.apply(x, grad)

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, grad):
            ctx.save_for_backward(x, grad)
            return 6 * x * grad

        @staticmethod
        def backward(ctx, g):
            x, grad = ctx.saved_tensors
            return 6 * grad * g, 6 * x * g

    return Scale


# --- autograd.grad(is_grads_batched=True) ------------------------------------------------------


@program
def batches_of_gradients(torch, log):
    grad = torch.autograd.grad
    x, y = leaf(torch, 3), leaf(torch, 3, start=2.0)
    log(grad(x * y, x, rows(torch, 4, 3), is_grads_batched=True))
    log(grad(x * y, (x, y), rows(torch, 4, 3), is_grads_batched=True))
    log(grad((x * y, x + y), (x, y), (rows(torch, 2, 3), rows(torch, 2, 3)), is_grads_batched=True))
    log(grad((x * y).sum(), x, rows(torch, 4), is_grads_batched=True))
    log(grad((x * y).sum(), x, torch.eye(1, dtype=torch.float64)[0], is_grads_batched=True))


@program
def batches_of_gradients_along_the_graph(torch, log):
    grad = torch.autograd.grad
    x = leaf(torch, 2, 3)
    for f in (
        lambda t: t.sin().sum(0),
        lambda t: t.softmax(1)[0],
        lambda t: t.cumsum(1)[1],
        lambda t: (t @ t.t())[0],
        lambda t: t.max(1).values,
        lambda t: t[:, [2, 0]].reshape(-1)[:3],
        lambda t: torch.nn.functional.layer_norm(t, (3,))[1],
        lambda t: t.norm(dim=0),
        lambda t: torch.where(t > 0.8, t * 2, t * 3)[0],
        lambda t: torch.cat([t, t * 2])[1],
        lambda t: t.t().reshape(2, 3).prod(1),
    ):
        out = f(x)
        count = out.numel()
        seeds = torch.eye(count, dtype=torch.float64).reshape(count, *out.shape)
        log([g.contiguous() for g in grad(out, x, seeds, is_grads_batched=True)])


@program
def batches_through_writes(torch, log):
    grad = torch.autograd.grad
    x = leaf(torch, 4)

    def written(t):
        y = t * t
        y[1:3].mul_(t[:2])
        y[0] = t[3]
        z = torch.zeros(4, dtype=torch.float64)
        z[::2] = y[:2]
        z.add_(y)
        return z

    log(grad(written(x), x, torch.eye(4, dtype=torch.float64), is_grads_batched=True))


@program
def batches_with_a_graph(torch, log):
    grad = torch.autograd.grad
    x = leaf(torch, 3)
    (g,) = grad(
        x**3, x, torch.eye(3, dtype=torch.float64), is_grads_batched=True, create_graph=True
    )
    log(g.requires_grad, g.detach())
    log(grad(g.sum(), x))
    seeds = rows(torch, 2, 3).requires_grad_()
    (g,) = grad(x**3, x, seeds, is_grads_batched=True, create_graph=True)
    log(grad((g * g).sum(), (x, seeds)))
    out = x**2
    grad(out, x, rows(torch, 2, 3), is_grads_batched=True)
    log.raises(lambda: grad(out, x, rows(torch, 2, 3), is_grads_batched=True))
    out = x**2
    grad(out, x, rows(torch, 2, 3), is_grads_batched=True, retain_graph=True)
    log(grad(out, x, rows(torch, 2, 3), is_grads_batched=True))


@program
def batches_and_unused_inputs(torch, log):
    grad = torch.autograd.grad
    x, y = leaf(torch, 3), leaf(torch, 2)
    seeds = rows(torch, 2, 3)
    log.raises(lambda: grad(x * 2, (x, y), seeds, is_grads_batched=True))
    log.raises(lambda: grad(x * 2, (x, y), seeds, is_grads_batched=True, allow_unused=True))
    log.raises(lambda: grad(x * 2, (x, y), seeds, is_grads_batched=True, materialize_grads=True))
    log.raises(lambda: grad(x * 2, y, seeds, is_grads_batched=True, allow_unused=True))


@program
def batches_that_do_not_fit(torch, log):
    grad = torch.autograd.grad
    x = leaf(torch, 3)
    log.raises(lambda: grad(x * 2, x, rows(torch, 3), is_grads_batched=True))
    log.raises(lambda: grad(x * 2, x, rows(torch, 2, 2), is_grads_batched=True))
    log.raises(lambda: grad(x * 2, x, torch.tensor(1.0), is_grads_batched=True))
    log.raises(lambda: grad(x * 2, x, is_grads_batched=True))
    log.raises(lambda: grad(x.sum(), x, is_grads_batched=True))
    log.raises(lambda: grad(x * 2, x, 3.0, is_grads_batched=True))
    log.raises(lambda: grad(x * 2, x, (rows(torch, 2, 3),) * 2, is_grads_batched=True))
    log.raises(lambda: grad((x * 2, x * 3), x, (rows(torch, 2, 3),), is_grads_batched=True))
    seeds = (rows(torch, 2, 3), rows(torch, 4, 3))
    log.raises(lambda: grad((x * 2, x * 3), x, seeds, is_grads_batched=True))
    log.raises(lambda: grad(x.detach(), x, rows(torch, 2, 3), is_grads_batched=True))
    log.raises(lambda: grad(x * 2, x, rows(torch, 2, 3).float(), is_grads_batched=True))


@program
def batches_and_functions(torch, log):
    grad = torch.autograd.grad
    seeds = torch.eye(3, dtype=torch.float64)
    for style in ("ctx", "setup"):
        own = scale(torch, style)
        x = leaf(torch, 3)
        log.raises(lambda own=own, x=x: grad(own.apply(x), x, seeds, is_grads_batched=True))


@program
def batches_and_hooks(torch, log):
    grad = torch.autograd.grad
    x = leaf(torch, 3)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    log(grad(y.sin(), x, torch.eye(3, dtype=torch.float64), is_grads_batched=True))


# --- autograd.functional: vectorize ------------------------------------------------------------


@program
def vectorized_jacobians(torch, log):
    f = functional(torch)
    x, y = leaf(torch, 3).detach(), leaf(torch, 3, start=2.0).detach()
    layer = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    layer.double()
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(leaf(torch, *p.shape) / 4)

    def filled(t):
        out = torch.zeros(2, 3, dtype=torch.float64)
        out[0] = t * t
        out[1, :2] = t[1:].sin()
        return out

    for options in ({}, {"strategy": "forward-mode"}):
        for function, inputs in (
            (lambda t: t.exp().cumsum(0), x),
            (lambda t: torch.outer(t, t).tril(), x),
            (lambda a, b: (a * b, a @ b), (x, y)),
            (lambda a, b: torch.atan2(a, b), (x, y)),
            (layer, x),
            (filled, x),
            (lambda t: t.sort(descending=True).values[1:], x),
        ):
            got = f.jacobian(function, inputs, vectorize=True, **options)
            want = f.jacobian(function, inputs)
            log(close(torch, got, want), shapes(torch, got))


def shapes(torch, value):
    if isinstance(value, torch.Tensor):
        return list(value.shape)
    return [shapes(torch, v) for v in value]


def close(torch, a, b):
    if isinstance(a, torch.Tensor):
        return torch.allclose(a, b)
    return all(close(torch, x, y) for x, y in zip(a, b, strict=True))


@program
def vectorized_hessians(torch, log):
    f = functional(torch)
    x, y = leaf(torch, 3).detach(), leaf(torch, 3, start=2.0).detach()
    for options in ({}, {"outer_jacobian_strategy": "forward-mode"}):
        for function, inputs in (
            (lambda t: (t.exp() * t.flip(0)).sum(), x),
            (lambda t: torch.logsumexp(t * t, 0), x),
            (lambda a, b: (a * b).sin().sum() + a @ b, (x, y)),
            (lambda t: torch.outer(t, t).norm(), x),
        ):
            got = f.hessian(function, inputs, vectorize=True, **options)
            want = f.hessian(function, inputs)
            log(close(torch, got, want), shapes(torch, got))


@program
def vectorized_with_requires_grad(torch, log):
    f = functional(torch)
    x = leaf(torch, 3)
    j = f.jacobian(lambda t: t**3, x, vectorize=True)
    log(j.requires_grad, j)
    j = f.jacobian(lambda t: t**3, x, vectorize=True, create_graph=True)
    log(j.requires_grad, torch.autograd.grad(j.sum(), x))
    h = f.hessian(lambda t: (t**3).sum(), x, vectorize=True, create_graph=True)
    log(h.requires_grad, torch.autograd.grad(h.sum(), x))
    log.raises(lambda: f.jacobian(lambda t: t**2, x, vectorize=True, strict=True))
    log.raises(
        lambda: f.jacobian(lambda t: t.detach(), x.detach(), vectorize=True, create_graph=True)
    )


@program
def vectorized_inside_of_levels(torch, log):
    f = functional(torch)
    fw = import_module(torch.__name__ + ".autograd.forward_ad")
    x = leaf(torch, 3).detach()
    with fw.dual_level():
        log.raises(lambda: f.jacobian(torch.sin, x, vectorize=True, strategy="forward-mode"))
        log.raises(lambda: f.jacobian(torch.sin, x, vectorize=True))


# --- gradcheck ---------------------------------------------------------------------------------


@program
def gradcheck_of_batches(torch, log):
    check, twice = torch.autograd.gradcheck, torch.autograd.gradgradcheck
    x, y = leaf(torch, 3), leaf(torch, 3, start=2.0)
    for f, inputs in (
        (torch.sin, (x,)),
        (lambda a, b: (a * b, a @ b), (x, y)),
        (lambda a: a.cumsum(0).softmax(0), (x,)),
        (lambda a: a.clone().mul_(a), (x,)),
    ):
        log.raises(lambda f=f, inputs=inputs: check(f, inputs, check_batched_grad=True))
        log.raises(
            lambda f=f, inputs=inputs: check(
                f, inputs, check_forward_ad=True, check_batched_forward_grad=True
            )
        )
        log.raises(lambda f=f, inputs=inputs: twice(f, inputs, check_batched_grad=True))
        log.raises(
            lambda f=f, inputs=inputs: check(f, inputs, check_batched_grad=True, fast_mode=True)
        )


@program
def gradcheck_of_batches_arguments(torch, log):
    check, twice = torch.autograd.gradcheck, torch.autograd.gradgradcheck
    x = leaf(torch, 3)
    log.raises(
        lambda: check(
            torch.sin, (x,), check_batched_grad=True, check_backward_ad=False, check_forward_ad=True
        )
    )
    log.raises(lambda: check(torch.sin, (x,), check_batched_forward_grad=True))
    log.raises(
        lambda: twice(
            torch.sin,
            (x,),
            check_batched_grad=True,
            check_rev_over_rev=False,
            check_fwd_over_rev=True,
            check_undefined_grad=False,
        )
    )


@program
def gradcheck_finds_bad_batches(torch, log):
    """A backward that is right for one gradient and wrong for many."""
    check = torch.autograd.gradcheck

    class Peeks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 if grad.sum().item() > -1e9 else grad

    x = leaf(torch, 3)
    log.raises(lambda: check(Peeks.apply, (x,)))
    log.raises(lambda: check(Peeks.apply, (x,), check_batched_grad=True, raise_exception=False))
    try:
        check(Peeks.apply, (x,), check_batched_grad=True)
    except Exception as error:
        log(type(error).__name__, str(error)[:40])
