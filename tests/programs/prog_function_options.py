"""autograd.Function: arguments by name, gradients in a box, saved tensors read once or raw."""

from programs.harness import program
from programs.prog_backward import bare


def scaled(torch, box=False, once=False):
    class Scaled(torch.autograd.Function):
        boxed_grads_call = box
        clear_saved_tensors_on_access = once

        @staticmethod
        def forward(ctx, x, y=None, scale=2.0):
            ctx.save_for_backward(x, y)
            ctx.scale = scale
            return x * scale if y is None else x * scale + y

        @staticmethod
        def backward(ctx, *grads):
            kind, grads = (type(grads[0]).__name__, grads[0]) if box else ("plain", grads)
            ctx.seen = kind, len(ctx.saved_tensors)
            return tuple([grads[0] * 2 if n else None for n in ctx.needs_input_grad])

    return Scaled


@program
def arguments_by_name(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor([3.0, 4.0], requires_grad=True)
    f = scaled(torch).apply
    for out in (f(a, y=b), f(x=a, y=b, scale=3.0), f(y=b, x=a), f(x=a)):
        log(out, out.grad_fn.needs_input_grad)
        log(torch.autograd.grad(out.sum(), (a, b), allow_unused=True))
    log.raises(lambda: f(a, scale=3.0))
    log.raises(lambda: f(y=b))
    log.raises(lambda: f(a, x=a))
    log.raises(lambda: f(a, other=1))
    log.raises(lambda: f(a, ctx=1))


@program
def only_by_name(torch, log):
    class Odd(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, *, scale=2.0, **more):
            return x * scale

        @staticmethod
        def backward(ctx, grad):
            return grad

    class Separate(torch.autograd.Function):
        @staticmethod
        def forward(x, *, scale):
            return x * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    a = torch.tensor([1.0, 2.0], requires_grad=True)
    log(Odd.apply(a), Odd.apply(x=a))
    log.raises(lambda: Odd.apply(a, scale=1.0))
    log.raises(lambda: Odd.apply(a, other=1.0))
    log.raises(lambda: Separate.apply(a, scale=1.0))
    log.raises(lambda: Separate.apply(a))


@program
def setup_by_name(torch, log):
    class Separate(torch.autograd.Function):
        @staticmethod
        def forward(x, y=2.0, z=3.0):
            return x * y * z

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1] * inputs[2]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None, None

    a = torch.tensor([1.0, 2.0], requires_grad=True)
    for out in (Separate.apply(a, z=5.0), Separate.apply(z=5.0, x=a), Separate.apply(a)):
        log(out, torch.autograd.grad(out.sum(), a))
    log(torch.func.grad(lambda x: Separate.apply(x=x, z=5.0).sum())(a.detach()))
    log.raises(lambda: Separate.apply(a, w=1.0))
    log.raises(lambda: Separate.apply())


@program
def gradients_in_a_box(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    out = scaled(torch, box=True).apply(a)
    log(torch.autograd.grad(out.sum(), a, retain_graph=True), out.grad_fn.seen)
    log(out.grad_fn.apply(torch.ones(2)))
    log(torch.autograd.grad(out, a, torch.eye(2), is_grads_batched=True))
    log(torch.autograd.Function.boxed_grads_call)


@program
def saved_tensors_once(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    f = scaled(torch, once=True).apply
    out = f(a)
    log(torch.autograd.grad(out.sum(), a, retain_graph=True))
    log.raises(lambda: torch.autograd.grad(out.sum(), a))
    out = f(a)
    log(out.grad_fn.saved_tensors)
    log.raises(lambda: out.grad_fn.saved_tensors)
    log(torch.autograd.Function.clear_saved_tensors_on_access)


@program
def saved_tensors_as_they_are(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    out = scaled(torch).apply(a, None)
    first, second = out.grad_fn._raw_saved_tensors
    log(type(first).__name__, first.data, second.data, first.unpack_hook)
    log.raises(lambda: second.register_hooks(lambda t: t, lambda t: t))
    first.register_hooks(lambda t: "kept", lambda kept: torch.zeros(2) if kept == "kept" else None)
    log(out.grad_fn._raw_saved_tensors[0].data, out.grad_fn.saved_tensors)
    log.raises(lambda: first.register_hooks(lambda t: t, lambda t: t))
    out.sum().backward()
    log.raises(lambda: out.grad_fn._raw_saved_tensors)
    log(bare(a.grad))


@program
def an_op_s_as_they_are(torch, log):
    a = torch.tensor([0.0, 0.0], requires_grad=True)
    out = a.exp()
    raw = out.grad_fn._raw_saved_result
    log(type(raw).__name__, raw.data, raw.unpack_hook)
    raw.register_hooks(lambda t: t * 2, lambda t: t)
    log(raw.data, out.grad_fn._saved_result)
    out.sum().backward()
    log(bare(a.grad))
    out = a.exp()
    raw = out.grad_fn._raw_saved_result
    out.sum().backward()
    log.raises(lambda: raw.register_hooks(lambda t: t, lambda t: t))
