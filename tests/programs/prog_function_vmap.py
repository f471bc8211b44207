"""autograd.Function in vmap: rules of its own and generated ones, in any nesting."""

import contextlib

from programs.functions import batchable, cube, numbers, product, square, with_rule
from programs.harness import program

# --- vmap: a rule of the Function's own -------------------------------------------------------


@program
def vmap_rule(torch, log):
    func = torch.func
    seen = []
    own = with_rule(torch, seen)
    x = numbers(torch, 3, 2)
    log(func.vmap(own.apply)(x))
    log(func.vmap(own.apply, randomness="different")(x))
    log(func.vmap(func.vmap(own.apply))(x))
    log(func.vmap(lambda a: a * own.apply(x[0]))(x))
    log(seen)
    log(func.vmap(own.apply, in_dims=1)(x), func.vmap(func.vmap(own.apply), in_dims=1)(x))
    log(func.vmap(own.apply, in_dims=-1, out_dims=-1)(x))


@program
def vmap_rule_with_derivatives(torch, log):
    func = torch.func
    own = with_rule(torch)
    x, v = numbers(torch, 3, 2), numbers(torch, 3, 2) + 1
    f = lambda a: own.apply(a).sum()  # noqa: E731
    log(func.vmap(func.grad(f))(x))
    log(func.grad(lambda a: func.vmap(own.apply)(a).prod())(x))
    log(func.vmap(lambda a, t: func.jvp(own.apply, (a,), (t,)))(x, v))
    log(func.jvp(func.vmap(own.apply), (x,), (v,)))
    log(func.jacrev(own.apply)(x[0]), func.jacfwd(own.apply)(x[0]))
    log(func.hessian(f)(x[0]))
    log(func.vmap(func.hessian(f))(x).contiguous())
    log(func.vmap(func.grad(lambda a: func.grad(f)(a).sum()))(x))
    leaf = numbers(torch, 3, 2).requires_grad_()
    log(torch.autograd.grad(func.vmap(own.apply)(leaf).sum(), leaf))


@program
def vmap_rule_is_not_differentiated_inside(torch, log):
    """vmap(grad(f)): backward is the Function's own, so a rule may compute as it likes."""
    func = torch.func
    own = square(torch, "Detached")

    def rule(info, in_dims, x):
        return (x * x).detach(), in_dims[0]

    own.vmap = staticmethod(rule)
    x, v = numbers(torch, 3), numbers(torch, 3) + 1
    log(func.vmap(own.apply)(x))
    log(func.vmap(func.grad(own.apply))(x))
    log(func.vmap(lambda a, t: func.jvp(own.apply, (a,), (t,)))(x, v))
    log(func.grad(lambda a: func.vmap(own.apply)(a).sum())(x))


@program
def vmap_rule_returns(torch, log):
    func = torch.func
    x = numbers(torch, 3, 2)

    def run(answer, out_dims=0):
        own = square(torch, "Own")
        own.vmap = staticmethod(lambda info, in_dims, x: answer(x, in_dims))
        log.raises(lambda: func.vmap(own.apply, out_dims=out_dims)(x))

    run(lambda x, d: (x * x, 0))
    run(lambda x, d: (x.t(), 1))
    run(lambda x, d: (x.t(), -1))
    run(lambda x, d: (x.sum(0), None))
    run(lambda x, d: (x, 0))
    run(lambda x, d: (x,))
    run(lambda x, d: (x, 0, 0))
    run(lambda x, d: [x, 0])
    run(lambda x, d: (x, (0, 0)))
    run(lambda x, d: (x, (0,)))
    run(lambda x, d: ((x, x), (0,)))
    run(lambda x, d: ((x * 1, x * 2), (0, 0)))
    run(lambda x, d: ((x * 1, x.sum(0)), (0, None)))
    run(lambda x, d: ((x * 1, x * 2), 0))
    run(lambda x, d: ([x * 1, x * 2], [0, 0]))
    run(lambda x, d: ({"a": x * 1}, {"a": 0}))
    run(lambda x, d: ({"a": x * 1}, {"b": 0}))
    run(lambda x, d: ((x * 1, 3), (0, None)), out_dims=(0, None))


@program
def vmap_rule_of_several_arguments(torch, log):
    func = torch.func
    own = product(torch)
    seen = []

    def rule(info, in_dims, x, y, scale):
        seen.append((in_dims, tuple(x.shape), tuple(y.shape), scale))
        xb, yb, _ = in_dims
        x = x.movedim(xb, 0) if xb is not None else x
        y = y.movedim(yb, 0) if yb is not None else y
        return own.apply(x, y, scale), 0

    own.vmap = staticmethod(rule)
    x, y = numbers(torch, 3, 2), numbers(torch, 2) + 1
    log(func.vmap(lambda a: own.apply(a, y, 2))(x))
    log(func.vmap(lambda a: own.apply(y, a, 2))(x))
    log(func.vmap(lambda a, b: own.apply(a, b, 2), in_dims=(0, 1))(x, x.t()))
    log(seen[:2])
    log(func.grad(lambda b: func.vmap(lambda a: own.apply(a, b, 2))(x).sum())(y))
    log(func.vmap(func.grad(lambda b, a: own.apply(a, b, 2).sum()), in_dims=(None, 0))(y, x))


# --- vmap: the generated rule ------------------------------------------------------------------


@program
def generated_rule(torch, log):
    func = torch.func
    x, v = numbers(torch, 3, 2), numbers(torch, 3, 2) + 1
    for own in (batchable(torch), cube(torch, generate_vmap_rule=True)):
        f = lambda a, own=own: own.apply(a).sum()  # noqa: E731
        log(func.vmap(own.apply)(x), func.vmap(own.apply, in_dims=1, out_dims=1)(x))
        log(func.vmap(func.vmap(own.apply))(x))
        log(func.vmap(func.grad(f))(x))
        log(func.vmap(func.vmap(func.grad(own.apply)))(x))
        log(func.grad(lambda a, own=own: func.vmap(own.apply)(a).prod())(x))
        log(func.vmap(lambda a, t, own=own: func.jvp(own.apply, (a,), (t,)))(x, v))
        log(func.jvp(func.vmap(own.apply), (x,), (v,)))
        log(func.jacrev(own.apply)(x[0]), func.jacfwd(own.apply)(x[0]))
        log(func.jacrev(func.jacrev(own.apply))(x[0]))
        log(func.hessian(f)(x[0]), func.vmap(func.hessian(f))(x).contiguous())
        log(func.vmap(func.grad(lambda a, f=f: func.grad(f)(a).sum()))(x))
        log(func.grad(lambda a, f=f: func.vmap(func.grad(f))(a).sum())(x))
        log(func.vmap(lambda a, t, f=f: func.jvp(func.grad(f), (a,), (t,)))(x, v))
        leaf = numbers(torch, 3, 2).requires_grad_()
        out = func.vmap(own.apply)(leaf)
        log(torch.autograd.grad(out.sum(), leaf))


@program
def generated_rule_sums_for_unbatched(torch, log):
    func = torch.func
    own = product(torch, generate_vmap_rule=True)
    x, y = numbers(torch, 3, 2), numbers(torch, 2) + 1
    f = lambda a, b: own.apply(a, b, 2)  # noqa: E731
    log(func.vmap(f, in_dims=(0, None))(x, y))
    log(func.grad(lambda b: func.vmap(f, in_dims=(0, None))(x, b).sum())(y))
    log(func.grad(lambda b: func.vmap(f, in_dims=(None, 0))(b, x).sum())(y))
    log(func.grad(lambda a, b: func.vmap(f)(a, b).sum(), argnums=(0, 1))(x, x + 1))
    log(func.vmap(func.grad(lambda b, a: f(a, b).sum()), in_dims=(None, 0))(y, x))
    log(func.jvp(lambda b: func.vmap(f, in_dims=(0, None))(x, b), (y,), (y,)))
    log(func.jvp(lambda a, b: func.vmap(f, in_dims=(0, None))(a, b), (x, y), (x, y)))
    log(func.jacrev(lambda b: func.vmap(f, in_dims=(0, None))(x, b))(y))
    leaf = (numbers(torch, 2) + 1).requires_grad_()
    log(torch.autograd.grad(func.vmap(lambda a: f(a, leaf))(x).sum(), leaf))
    log(func.vmap(func.grad(lambda a: f(a, leaf).sum()))(x).detach())


@program
def generated_rule_with_broadcasting(torch, log):
    """backward may return a gradient that only broadcasts to the input's shape."""
    func = torch.func

    class Own(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    x, y = numbers(torch, 3, 2), numbers(torch, 3, 1)
    log.raises(lambda: func.grad(lambda b: (func.vmap(Own.apply)(x, b) * x).sum())(y))
    log.raises(lambda: func.grad(lambda b: (Own.apply(x, b) * x).sum())(y))
    log.raises(lambda: func.vmap(func.grad(lambda b, a: (Own.apply(a, b) * a).sum()))(y, x))


@program
def generated_rule_saves(torch, log):
    """Saved: inputs, outputs, things in between, things without a batch, None."""
    func = torch.func
    weight = numbers(torch, 2) + 2

    class Own(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            y = x.exp()
            return y * weight, y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], output[1], weight, None)
            ctx.save_for_forward(inputs[0], output[1], weight, None)

        @staticmethod
        def backward(ctx, a, b):
            x, y, w, none = ctx.saved_tensors
            return a * y * w + b * y

        @staticmethod
        def jvp(ctx, t):
            x, y, w, none = ctx.saved_tensors
            return t * y * w, t * y

    x, v = numbers(torch, 3, 2) / 4, numbers(torch, 3, 2) + 1
    f = lambda a: Own.apply(a)[0].sum()  # noqa: E731
    log.raises(lambda: func.vmap(Own.apply)(x))
    log.raises(lambda: func.vmap(func.grad(f))(x))
    log.raises(lambda: func.grad(lambda a: func.vmap(Own.apply)(a)[0].sum())(x))
    log.raises(lambda: func.vmap(lambda a, t: func.jvp(Own.apply, (a,), (t,)))(x, v))
    log.raises(lambda: func.jvp(func.vmap(Own.apply), (x,), (v,)))
    log.raises(lambda: func.vmap(func.hessian(f))(x).contiguous())


@program
def generated_rule_and_constants(torch, log):
    """Outputs and gradients that do not depend on the batch."""
    func = torch.func

    class Own(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return y * 2, x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.shape = tuple(inputs[0].shape)

        @staticmethod
        def backward(ctx, a, b):
            return torch.ones(ctx.shape, dtype=torch.float64), a * 2

        @staticmethod
        def jvp(ctx, dx, dy):
            return dy * 2, dx * 1

    x, y = numbers(torch, 3, 2), numbers(torch, 2)
    log.raises(lambda: func.vmap(Own.apply, in_dims=(0, None))(x, y))
    log.raises(
        lambda: func.grad(lambda a: func.vmap(Own.apply, in_dims=(0, None))(a, y)[1].sum())(x)
    )
    log.raises(
        lambda: func.grad(lambda b: func.vmap(Own.apply, in_dims=(0, None))(x, b)[0].sum())(y)
    )
    log.raises(lambda: func.vmap(func.grad(lambda a: Own.apply(a, y)[1].sum()))(x))
    log.raises(
        lambda: func.jvp(lambda a: func.vmap(Own.apply, in_dims=(0, None))(a, y), (x,), (x,))
    )


@program
def generated_rule_and_randomness(torch, log):
    func = torch.func

    class Own(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x + torch.rand(2, dtype=x.dtype)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = numbers(torch, 3, 2)
    log.raises(lambda: func.vmap(Own.apply)(x))
    same = func.vmap(Own.apply, randomness="same")(x) - x
    log(torch.allclose(same[0], same[1]))
    different = func.vmap(Own.apply, randomness="different")(x) - x
    log(torch.allclose(different[0], different[1]))


@program
def functions_called_by_functions(torch, log):
    """forward and backward that call other Functions."""
    func = torch.func
    inner = batchable(torch)

    class Outer(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return inner.apply(x).sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return inner.apply(x).cos() * 2 * x * grad

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return inner.apply(x).cos() * 2 * x * t

    x, v = numbers(torch, 3), numbers(torch, 3) + 1
    f = lambda a: Outer.apply(a).sum()  # noqa: E731
    log(func.grad(f)(x), func.vmap(func.grad(Outer.apply))(x))
    log(func.hessian(f)(x))
    log(func.jvp(func.grad(f), (x,), (v,)))
    log(func.grad(lambda a: func.grad(f)(a).sum())(x))
    log(func.grad(lambda a: func.vmap(func.grad(Outer.apply))(a).sum())(x))


@program
def three_deep(torch, log):
    func = torch.func
    own = cube(torch, generate_vmap_rule=True)
    x = numbers(torch, 2)
    f = lambda a: own.apply(a).sum() + (own.apply(a[0]) * a[1])  # noqa: E731
    log(func.jacrev(func.jacrev(func.jacrev(f)))(x))
    log(func.jacfwd(func.jacrev(func.jacrev(f)))(x))
    log(func.jacrev(func.jacfwd(func.jacrev(f)))(x))
    log(func.vmap(func.jacfwd(func.grad(f)))(torch.stack([x, x + 1])).contiguous())
    log(func.grad(lambda a: func.vmap(func.grad(f))(a).sum())(torch.stack([x, x + 1])))


@program
def ordinary_tape_around_transforms(torch, log):
    """A leaf outside, a transform in the middle, a Function inside."""
    func = torch.func
    own = product(torch, generate_vmap_rule=True)
    w = (numbers(torch, 2) + 1).requires_grad_()
    x = numbers(torch, 3, 2)
    got = func.vmap(func.grad(lambda a: (own.apply(a, w, 2) ** 2).sum()))(x)
    log(got.requires_grad, got.detach())
    log(torch.autograd.grad(got.sum(), w))
    both = func.vmap(func.grad_and_value(lambda a: (own.apply(a, w, 2) ** 2).sum()))(x)
    log(torch.autograd.grad(both[1].sum(), w))
    out = func.jvp(lambda a: own.apply(a, w, 2), (x[0],), (x[1],))
    log(torch.autograd.grad(out[1].sum(), w))


@program
def materialize_in_transforms(torch, log):
    func = torch.func
    seen = []

    class Own(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * 2, y * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a is None, b is None))
            return None if a is None else a * 2, None if b is None else b * 3

    x = numbers(torch, 3)
    log(func.grad(lambda a: Own.apply(a, x)[0].sum())(x))
    log.raises(lambda: func.vmap(func.grad(lambda a: Own.apply(a, x[0])[0]))(x))
    log.raises(lambda: func.grad(lambda a: func.vmap(Own.apply)(a, x)[0].sum())(x))
    log(seen)


@program
def numpy_functions(torch, log):
    """The way of the tutorials: leave PyTorch in forward, and say how to batch it."""
    func = torch.func

    class Sort(torch.autograd.Function):
        @staticmethod
        def forward(x, dim):
            places = torch.tensor(x.detach().numpy().argsort(dim))
            back = torch.tensor(places.numpy().argsort(dim))
            return torch.gather(x, dim, places), places, back

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, dim = inputs
            _, places, back = output
            ctx.mark_non_differentiable(places, back)
            ctx.save_for_backward(places, back)
            ctx.save_for_forward(places, back)
            ctx.dim = dim

        @staticmethod
        def backward(ctx, grad, _0, _1):
            places, back = ctx.saved_tensors
            return Take.apply(grad, back, places, ctx.dim), None

        @staticmethod
        def jvp(ctx, t, _):
            places, back = ctx.saved_tensors
            return Take.apply(t, places, back, ctx.dim), None, None

        @staticmethod
        def vmap(info, in_dims, x, dim):
            x = x.movedim(in_dims[0], 0)
            return Sort.apply(x, dim if dim < 0 else dim + 1), (0, 0, 0)

    class Take(torch.autograd.Function):
        @staticmethod
        def forward(x, places, back, dim):
            return torch.tensor(x.detach().numpy()).gather(dim, places)

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, places, back, ctx.dim = inputs
            ctx.save_for_backward(places, back)
            ctx.save_for_forward(places, back)

        @staticmethod
        def backward(ctx, grad):
            places, back = ctx.saved_tensors
            return Take.apply(grad, back, places, ctx.dim), None, None, None

        @staticmethod
        def jvp(ctx, t, _0, _1, _2):
            places, back = ctx.saved_tensors
            return Take.apply(t, places, back, ctx.dim)

        @staticmethod
        def vmap(info, in_dims, x, places, back, dim):
            front = [
                t.movedim(d, 0) if d is not None else t.expand(info.batch_size, *t.shape)
                for t, d in zip((x, places, back), in_dims[:3], strict=True)
            ]
            return Take.apply(*front, dim if dim < 0 else dim + 1), 0

    x = torch.tensor([[3.0, 1.0, 2.0], [5.0, 9.0, 4.0]], dtype=torch.float64)
    w = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
    f = lambda a: (Sort.apply(a, 0)[0] ** 2 * w).sum()  # noqa: E731
    log(Sort.apply(x, 1), func.vmap(lambda a: Sort.apply(a, 0))(x))
    log(func.grad(f)(x[0]), func.vmap(func.grad(f))(x))
    log(func.jvp(f, (x[0],), (x[1],)))
    log(func.jacrev(lambda a: Sort.apply(a, 0)[0])(x[0]))
    log(func.jacfwd(lambda a: Sort.apply(a, 0)[0])(x[0]))
    log(func.hessian(f)(x[0]), func.vmap(func.hessian(f))(x).contiguous())


@program
def no_grad_inside_transforms(torch, log):
    func = torch.func
    own = batchable(torch)
    x = numbers(torch, 3)

    def stopped(a):
        with torch.no_grad():
            b = own.apply(a)
        return (a * b).sum()

    log(func.grad(stopped)(x))
    log(func.vmap(func.grad(stopped))(x))
    with torch.no_grad():
        log(func.grad(lambda a: own.apply(a).sum())(x))
        log(func.jvp(own.apply, (x,), (x,)))
    log(func.jvp(stopped, (x,), (x,)))


@program
def once_differentiable_in_transforms(torch, log):
    func = torch.func

    class Own(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    x = numbers(torch, 3)
    log(func.grad(lambda a: Own.apply(a).sum())(x))
    log.raises(lambda: func.vmap(func.grad(Own.apply))(x))
    log.raises(lambda: func.hessian(lambda a: Own.apply(a).sum())(x))


@program
def errors_raised_by_the_user(torch, log):
    func = torch.func

    def run(where):
        class Own(torch.autograd.Function):
            generate_vmap_rule = True

            @staticmethod
            def forward(x):
                if where == "forward":
                    raise ValueError("in forward")
                return x * 2

            @staticmethod
            def setup_context(ctx, inputs, output):
                if where == "setup":
                    raise ValueError("in setup_context")

            @staticmethod
            def backward(ctx, grad):
                raise ValueError("in backward")

            @staticmethod
            def jvp(ctx, grad):
                raise ValueError("in jvp")

        x = numbers(torch, 2)
        log.raises(lambda: func.vmap(Own.apply)(x))
        log.raises(lambda: func.grad(lambda a: Own.apply(a).sum())(x))
        log.raises(lambda: func.jvp(Own.apply, (x,), (x,)))
        log.raises(lambda: func.vmap(func.grad(Own.apply))(x))
        # Nothing is left behind.
        with contextlib.suppress(ValueError):
            func.vmap(func.grad(Own.apply))(x)
        log(func.vmap(lambda a: a * 2)(x))

    for where in ("forward", "setup", "backward"):
        run(where)
