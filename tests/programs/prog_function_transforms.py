"""autograd.Function in grad, vjp and jvp: what it must have, and what is made of it."""

from programs.functions import cube, numbers, product, square, with_rule
from programs.harness import program

# --- transforms: what a Function must have ----------------------------------------------------


@program
def transforms_want_setup_context(torch, log):
    func = torch.func
    own = square(torch, style="ctx")
    x = numbers(torch, 3)
    log.raises(lambda: func.grad(lambda a: own.apply(a).sum())(x))
    log.raises(lambda: func.vmap(own.apply)(x))
    log.raises(lambda: func.jvp(own.apply, (x,), (x,)))
    log.raises(lambda: func.vjp(own.apply, x))
    log.raises(lambda: func.jacrev(own.apply)(x))
    log.raises(lambda: func.jacfwd(own.apply)(x))
    # Even where no tensor of a transform is involved.
    log.raises(lambda: func.grad(lambda a: (a * own.apply(x)).sum())(x))
    log(own.apply(x))


@program
def vmap_wants_a_rule(torch, log):
    func = torch.func
    x = numbers(torch, 3)
    none = square(torch)
    log.raises(lambda: func.vmap(none.apply)(x))
    log.raises(lambda: func.vmap(lambda a: a * none.apply(x[0]))(x))
    log.raises(lambda: func.grad(lambda a: func.vmap(none.apply)(a).sum())(x))
    log.raises(lambda: func.vmap(func.grad(none.apply))(x))
    log.raises(lambda: func.jacrev(none.apply)(x))
    log.raises(lambda: func.jacfwd(none.apply)(x))
    both = with_rule(torch)
    both.generate_vmap_rule = True
    log.raises(lambda: func.vmap(both.apply)(x))
    log.raises(lambda: func.vmap(lambda a: a * both.apply(x[0]))(x))
    log(func.grad(lambda a: both.apply(a).sum())(x))


@program
def jvp_and_backward_missing(torch, log):
    func = torch.func

    class Own(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    x = numbers(torch, 3)
    log.raises(lambda: func.jvp(Own.apply, (x,), (x,)))
    log.raises(lambda: func.grad(lambda a: Own.apply(a).sum())(x))
    log.raises(lambda: func.vmap(func.grad(Own.apply))(x))
    log.raises(lambda: func.vmap(lambda a: func.jvp(Own.apply, (a,), (a,)))(x))
    log(func.vmap(Own.apply)(x))
    log.raises(lambda: torch.autograd.Function.vmap(None, (0,), x))


# --- grad, vjp, jvp ------------------------------------------------------------------------------


@program
def derivatives(torch, log):
    func = torch.func
    x, v = numbers(torch, 3), numbers(torch, 3) + 1
    for make in (square, cube):
        own = make(torch)
        f = lambda a, own=own: own.apply(a).sum()  # noqa: E731
        log(func.grad(f)(x))
        log(func.grad_and_value(f)(x))
        log(func.vjp(own.apply, x)[1](v))
        log(func.jvp(own.apply, (x,), (v,)))
        log(func.grad(lambda a, f=f: func.grad(f)(a).sum())(x))
        log(func.jvp(func.grad(f), (x,), (v,)))
        log(func.grad(lambda a, f=f: func.jvp(f, (a,), (v,))[1])(x))


@program
def seen_by_a_function_in_grad(torch, log):
    seen = []
    own = square(torch, seen=seen)
    x = numbers(torch, 3)
    torch.func.grad(lambda a: own.apply(a).sum())(x)
    log([what for what in seen if what[0] != "setup"])  # called once per level
    seen.clear()
    torch.func.jvp(own.apply, (x,), (x,))
    log([what for what in seen if what[0] != "setup"])


@program
def several_inputs(torch, log):
    func = torch.func
    own = product(torch)
    x, y = numbers(torch, 3), numbers(torch, 3) + 1
    f = lambda a, b: own.apply(a, b, 3).sum()  # noqa: E731
    log(func.grad(f)(x, y), func.grad(f, argnums=1)(x, y), func.grad(f, argnums=(0, 1))(x, y))
    log(func.jvp(f, (x, y), (y, x)))
    log(func.jvp(lambda a: f(a, y), (x,), (y,)))
    log(func.vjp(lambda a: own.apply(a, a, 2), x)[1](y))
    leaf = numbers(torch, 3).requires_grad_()
    got = func.grad(lambda a: own.apply(a, leaf, 3).sum())(x)
    log(got.requires_grad, got.detach(), torch.autograd.grad(got.sum(), leaf))


@program
def several_outputs_in_transforms(torch, log):
    func = torch.func

    class Own(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            flags = x > 0.6
            return x * 2, flags, x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(output[1])
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx, a, flags, b):
            (x,) = ctx.saved_tensors
            return 2 * a + 3 * x * x * b

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return 2 * t, None, 3 * x * x * t

    x, v = numbers(torch, 4), numbers(torch, 4) + 1
    log(Own.apply(x))
    log(func.vmap(Own.apply)(x))
    log(func.grad(lambda a: Own.apply(a)[0].sum())(x))
    log(func.grad(lambda a: (Own.apply(a)[0] * Own.apply(a)[2]).sum())(x))
    log(func.jvp(lambda a: Own.apply(a)[::2], (x,), (v,)))
    log(func.vmap(func.grad(lambda a: Own.apply(a)[2]))(x))
    log(func.grad(lambda a: func.vmap(Own.apply)(a)[2].sum())(x))
    log(func.jvp(lambda a: func.vmap(Own.apply)(a)[::2], (x,), (v,)))
    log(func.jacrev(lambda a: Own.apply(a)[2])(x))
    log(func.jacfwd(lambda a: Own.apply(a)[2])(x))


@program
def dirty_in_transforms(torch, log):
    func = torch.func

    class Own(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            x.mul_(2)
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

        @staticmethod
        def jvp(ctx, t):
            t.mul_(2)
            return t

    x, v = numbers(torch, 3), numbers(torch, 3) + 1
    log(func.grad(lambda a: (Own.apply(a.clone()) * a).sum())(x))
    log(func.jvp(lambda a: Own.apply(a.clone()) * a, (x,), (v,)))

    def same(a):
        b = a * 1
        out = Own.apply(b)
        log(out is b)
        return (out * b).sum()

    log(func.grad(same)(x))
    log.raises(lambda: func.vmap(lambda a: Own.apply(a * 1))(x))


@program
def input_returned_in_transforms(torch, log):
    func = torch.func

    class Own(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            return grad * 5

        @staticmethod
        def jvp(ctx, t):
            return t.view_as(t)

    x, v = numbers(torch, 3), numbers(torch, 3) + 1
    log.raises(lambda: func.grad(lambda a: Own.apply(a).sum())(x))
    log.raises(lambda: func.jvp(Own.apply, (x,), (v,)))
    log.raises(lambda: func.vmap(Own.apply)(x))
    log.raises(lambda: func.vmap(func.grad(Own.apply))(x))
    log.raises(lambda: func.grad(lambda a: func.vmap(Own.apply)(a).sum())(x))


@program
def gradient_checks_in_transforms(torch, log):
    func = torch.func
    x = numbers(torch, 3)

    def run(answer, generate=True):
        class Own(torch.autograd.Function):
            generate_vmap_rule = generate

            @staticmethod
            def forward(x):
                return x * 2

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, grad):
                return answer(grad)

            @staticmethod
            def jvp(ctx, grad):
                return answer(grad)

        log.raises(lambda: func.grad(lambda a: Own.apply(a).sum())(x))
        log.raises(lambda: func.jvp(Own.apply, (x,), (x,)))

    run(lambda g: g)
    run(lambda g: (g, g))
    run(lambda g: (g, None))
    run(lambda g: 3.0)
    run(lambda g: g[:2])
    run(lambda g: g.expand(2, 3))


@program
def attributes_of_ctx(torch, log):
    func = torch.func

    class Own(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, n):
            return x * n

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.n = inputs[1]
            ctx.note = "kept"

        @staticmethod
        def backward(ctx, grad):
            log(ctx.note, ctx.n, ctx.needs_input_grad)
            return grad * ctx.n, None

        @staticmethod
        def jvp(ctx, t, _):
            log(ctx.note, ctx.n)
            return t * ctx.n

    x = numbers(torch, 3)
    log(func.grad(lambda a: Own.apply(a, 3).sum())(x))
    log(func.vmap(func.grad(lambda a: Own.apply(a, 3)))(x))
    log(func.grad(lambda a: func.vmap(lambda b: Own.apply(b, 3))(a).sum())(x))
    log(func.vmap(lambda a: func.jvp(lambda b: Own.apply(b, 3), (a,), (a,)))(x))
