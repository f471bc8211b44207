"""Functions of their own that the programs about transforms share."""


def numbers(torch, *shape):
    count = 1
    for n in shape:
        count *= n
    return (torch.arange(count, dtype=torch.float64) / 4 + 0.5).reshape(shape).clone()


def square(torch, name="Square", seen=None, style="setup", **more):
    """x * x with everything written out, in both styles of forward."""
    note = (lambda *what: None) if seen is None else (lambda *what: seen.append(what))

    class Square(torch.autograd.Function):
        if style == "setup":

            @staticmethod
            def forward(x):
                note("forward", tuple(x.shape))
                return x * x

            @staticmethod
            def setup_context(ctx, inputs, output):
                note("setup", tuple(inputs[0].shape))
                ctx.save_for_backward(inputs[0])
                ctx.save_for_forward(inputs[0])

        else:

            @staticmethod
            def forward(ctx, x):
                note("forward", tuple(x.shape))
                ctx.save_for_backward(x)
                ctx.save_for_forward(x)
                return x * x

        @staticmethod
        def backward(ctx, grad):
            note("backward", tuple(grad.shape))
            (x,) = ctx.saved_tensors
            return 2 * x * grad

        @staticmethod
        def jvp(ctx, tangent):
            note("jvp", tuple(tangent.shape))
            (x,) = ctx.saved_tensors
            return 2 * x * tangent

    Square.__name__ = Square.__qualname__ = name
    for key, value in more.items():
        setattr(Square, key, value)
    return Square


def batchable(torch, **more):
    return square(torch, "Batchable", generate_vmap_rule=True, **more)


def with_rule(torch, seen=None):
    """x * x with a vmap of its own."""
    cls = square(torch, "WithRule")

    def rule(info, in_dims, x):
        if seen is not None:
            seen.append((tuple(info), in_dims, tuple(x.shape)))
        return cls.apply(x), in_dims[0]

    cls.vmap = staticmethod(rule)
    return cls


def product(torch, **more):
    """x * y, gradients only where they are asked for, and a constant."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(x, y, scale):
            return x * y * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, y, ctx.scale = inputs
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(x, y)

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            dx = grad * y * ctx.scale if ctx.needs_input_grad[0] else None
            dy = grad * x * ctx.scale if ctx.needs_input_grad[1] else None
            return dx, dy, None

        @staticmethod
        def jvp(ctx, dx, dy, _):
            x, y = ctx.saved_tensors
            return (dx * y + x * dy) * ctx.scale

    for key, value in more.items():
        setattr(Product, key, value)
    return Product


def cube(torch, **more):
    """x ** 3 whose backward is a Function too, whose backward is one again."""

    class Third(torch.autograd.Function):
        @staticmethod
        def forward(x, grad):
            return 6 * x * grad

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            x, g = ctx.saved_tensors
            return 6 * g * grad, 6 * x * grad

        @staticmethod
        def jvp(ctx, dx, dg):
            x, g = ctx.saved_tensors
            return 6 * (x * dg + dx * g)

    class Second(torch.autograd.Function):
        @staticmethod
        def forward(x, grad):
            return 3 * x * x * grad

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            x, g = ctx.saved_tensors
            return Third.apply(x, g) * grad, 3 * x * x * grad

        @staticmethod
        def jvp(ctx, dx, dg):
            x, g = ctx.saved_tensors
            return 3 * x * x * dg + Third.apply(x, g) * dx

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return Second.apply(x, grad)

        @staticmethod
        def jvp(ctx, dx):
            (x,) = ctx.saved_tensors
            return Second.apply(x, dx)

    for cls in (Third, Second, Cube):
        for key, value in more.items():
            setattr(cls, key, value)
    return Cube
