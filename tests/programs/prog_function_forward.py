"""autograd.Function in forward mode: what jvp gets, and what it may return."""

from importlib import import_module

from programs.functions import cube, numbers, square
from programs.harness import program


def forward_ad(torch):
    return import_module(torch.__name__ + ".autograd.forward_ad")


def pushed(torch, function, *pairs):
    """The primal and tangent of every output, for (value, tangent or None) pairs."""
    fw = forward_ad(torch)
    with fw.dual_level():
        args = [v if t is None else fw.make_dual(v, t) for v, t in pairs]
        out = function(*args)
        outs = out if isinstance(out, tuple) else (out,)
        return [tuple(fw.unpack_dual(o)) if isinstance(o, torch.Tensor) else o for o in outs]


def forward_only(torch, forward, jvp, backward=None, setup=None):
    """A Function with forward(ctx, …) and the jvp given."""
    members = {"forward": staticmethod(forward), "jvp": staticmethod(jvp)}
    if backward is not None:
        members["backward"] = staticmethod(backward)
    if setup is not None:
        members["setup_context"] = staticmethod(setup)
    return type("Own", (torch.autograd.Function,), members)


@program
def dual_in_both_styles(torch, log):
    x, v = numbers(torch, 3), numbers(torch, 3) * 2
    for style in ("setup", "ctx"):
        seen = []
        log(pushed(torch, square(torch, seen=seen, style=style).apply, (x, v)))
        log(seen)
        seen.clear()
        log(square(torch, seen=seen, style=style).apply(x), seen)


@program
def dual_without_jvp(torch, log):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    log.raises(lambda: pushed(torch, Own.apply, (numbers(torch, 2), numbers(torch, 2))))
    log.raises(lambda: pushed(torch, Own.apply, (numbers(torch, 2), None)))


@program
def dual_is_off_inside(torch, log):
    fw = forward_ad(torch)

    def forward(ctx, x):
        log(fw.unpack_dual(x).tangent, fw.unpack_dual(x * 2).tangent, x.requires_grad)
        log(torch.is_grad_enabled(), fw._is_fwd_grad_enabled())
        ctx.save_for_forward(x)
        return x * 2

    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        log(fw.unpack_dual(x).tangent, fw.unpack_dual(x * 2).tangent, x.requires_grad, t)
        log(torch.is_grad_enabled(), fw._is_fwd_grad_enabled())
        return t * 2

    own = forward_only(torch, forward, jvp)
    log(pushed(torch, own.apply, (numbers(torch, 2), numbers(torch, 2))))
    log(pushed(torch, own.apply, (numbers(torch, 2).requires_grad_(), numbers(torch, 2))))


@program
def dual_saved_tensors_in_jvp(torch, log):
    def run(save):
        def forward(ctx, x):
            save(ctx, x)
            return x * 2

        def jvp(ctx, t):
            log(len(ctx.saved_tensors), [s is None for s in ctx.saved_tensors])
            return t * 2

        own = forward_only(torch, forward, jvp)
        log.raises(lambda: pushed(torch, own.apply, (numbers(torch, 2), numbers(torch, 2))))

    run(lambda ctx, x: ctx.save_for_forward(x, x + 1))
    run(lambda ctx, x: ctx.save_for_backward(x, x + 1))
    run(lambda ctx, x: (ctx.save_for_backward(x), ctx.save_for_forward(x, x)))
    run(lambda ctx, x: None)
    run(lambda ctx, x: ctx.save_for_forward(x, None))
    run(lambda ctx, x: ctx.save_for_forward(x, 3))


@program
def dual_saved_for_forward_and_backward(torch, log):
    def forward(ctx, x):
        ctx.save_for_forward(x, x * 3)
        ctx.save_for_backward(x)
        return x * x

    def jvp(ctx, t):
        log(len(ctx.saved_tensors))
        return t

    def backward(ctx, g):
        log(len(ctx.saved_tensors))
        return g

    own = forward_only(torch, forward, jvp, backward)
    x = numbers(torch, 2).requires_grad_()
    fw = forward_ad(torch)
    with fw.dual_level():
        out = own.apply(fw.make_dual(x, numbers(torch, 2)))
        log(torch.autograd.grad(out.sum(), x))
    log(torch.autograd.grad(own.apply(x).sum(), x))


@program
def dual_missing_tangents(torch, log):
    for on in (True, False):

        def forward(ctx, x, y, n, on=on):
            ctx.set_materialize_grads(on)
            return x * y * n

        def jvp(ctx, dx, dy, dn):
            log(dx, dy, dn)
            return dx if dx is not None else dy

        own = forward_only(torch, forward, jvp)
        x, v = numbers(torch, 2), numbers(torch, 2) + 1
        log(pushed(torch, lambda a, b, own=own: own.apply(a, b, 3), (x, v), (x, None)))
        log(pushed(torch, lambda a, b, own=own: own.apply(a, b, 3), (x, None), (x, v)))
        log(pushed(torch, lambda a, b, own=own: own.apply(a, b, 3), (x, None), (x, None)))


@program
def dual_several_outputs(torch, log):
    def forward(ctx, x):
        flags = x > 0.6
        ctx.mark_non_differentiable(flags)
        return x * 2, flags, x * 3, "text"

    x, v = numbers(torch, 3), numbers(torch, 3) + 1

    def run(answer):
        own = forward_only(torch, forward, lambda ctx, t: answer(t))
        log.raises(lambda: pushed(torch, own.apply, (x, v)))

    run(lambda t: (t * 2, None, t * 3, None))
    run(lambda t: (t * 2, t, t * 3, None))
    run(lambda t: (t * 2, None, t * 3))
    run(lambda t: (t * 2, None, t * 3, None, None))
    run(lambda t: (t * 2, None, t * 3, t))
    run(lambda t: t)
    run(lambda t: None)
    run(lambda t: [t * 2, None, t * 3, None])
    run(lambda t: (t * 2, None, 3.0, None))


@program
def dual_what_jvp_returns(torch, log):
    x, v = numbers(torch, 3), numbers(torch, 3) + 1

    def run(answer):
        own = forward_only(torch, lambda ctx, x: x * 2, lambda ctx, t: answer(t))
        log.raises(lambda: pushed(torch, own.apply, (x, v)))

    run(lambda t: t * 2)
    run(lambda t: (t * 2,))
    run(lambda t: t)
    run(lambda t: (t, t))
    run(lambda t: ())
    run(lambda t: 3.0)
    run(lambda t: "text")
    run(lambda t: t[0])
    run(lambda t: t[:2])
    run(lambda t: t.float())
    run(lambda t: torch.complex(t, t))
    run(lambda t: t.expand(2, 3))


@program
def dual_non_differentiable_output(torch, log):
    def forward(ctx, x):
        out = x * 2
        ctx.mark_non_differentiable(out)
        return out

    x, v = numbers(torch, 3), numbers(torch, 3) + 1
    for answer in (lambda t: t, lambda t: None):
        own = forward_only(torch, forward, lambda ctx, t, answer=answer: answer(t))
        log.raises(lambda own=own: pushed(torch, own.apply, (x, v)))
    own = forward_only(torch, lambda ctx, x: (x * 2).long(), lambda ctx, t: t)
    log.raises(lambda: pushed(torch, own.apply, (x, v)))
    own = forward_only(torch, lambda ctx, x: (x * 2).long(), lambda ctx, t: None)
    log.raises(lambda: pushed(torch, own.apply, (x, v)))


@program
def dual_dirty_input(torch, log):
    fw = forward_ad(torch)

    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    def run(jvp, with_tangent=True):
        own = forward_only(torch, forward, lambda ctx, t: jvp(t))

        def attempt():
            with fw.dual_level():
                x, v = numbers(torch, 3), numbers(torch, 3) + 1
                dual = fw.make_dual(x, v) if with_tangent else x
                out = own.apply(dual)
                log(out is dual, out._version, v, v._version)
                return tuple(fw.unpack_dual(out)), tuple(fw.unpack_dual(dual))

        log.raises(attempt)

    run(lambda t: t.mul_(2))
    run(lambda t: t * 2)
    run(lambda t: t)
    run(lambda t: t.mul_(2).clone())
    run(lambda t: None)
    run(lambda t: t.mul_(2), with_tangent=False)


@program
def dual_dirty_input_without_tangent(torch, log):
    fw = forward_ad(torch)

    def forward(ctx, x, y):
        x.mul_(y)
        ctx.mark_dirty(x)
        return x

    own = forward_only(torch, forward, lambda ctx, dx, dy: dy * 10)
    with fw.dual_level():
        x, y = numbers(torch, 4), fw.make_dual(numbers(torch, 4), numbers(torch, 4))
        out = own.apply(x, y)
        log(out is x, tuple(fw.unpack_dual(out)), tuple(fw.unpack_dual(x)))
        base = numbers(torch, 2, 4)
        view = base[1]
        out = own.apply(view, y)
        log(out is view, tuple(fw.unpack_dual(out)), tuple(fw.unpack_dual(base)))


@program
def dual_views(torch, log):
    fw = forward_ad(torch)

    def run(forward, jvp, view=False):
        own = forward_only(torch, forward, lambda ctx, t: jvp(t))

        def attempt():
            with fw.dual_level():
                x, v = numbers(torch, 4), numbers(torch, 4) + 1
                dual = fw.make_dual(x, v)
                if view:
                    dual = dual[1:]
                out = own.apply(dual)
                log(out is dual, out._is_view(), out._version)
                return tuple(fw.unpack_dual(out))

        log.raises(attempt)

    half = lambda ctx, x: x.view(-1)[:2]  # noqa: E731
    run(half, lambda t: t[:2])
    run(half, lambda t: t[:2].clone())
    run(half, lambda t: t[:2] * 1)
    run(half, lambda t: torch.zeros(3, dtype=torch.float64)[:2])
    run(half, lambda t: t[:2], view=True)
    run(half, lambda t: torch.zeros(3, dtype=torch.float64)[:2], view=True)
    same = lambda ctx, x: x  # noqa: E731
    run(same, lambda t: t)
    run(same, lambda t: t.view_as(t))
    run(same, lambda t: t * 2)
    run(lambda ctx, x: x.detach(), lambda t: t * 5)


@program
def dual_input_among_several_outputs(torch, log):
    fw = forward_ad(torch)
    own = forward_only(
        torch, lambda ctx, x, y: (x, x * y, y), lambda ctx, dx, dy: (dx.view_as(dx), dx + dy, dy)
    )
    x, v = numbers(torch, 2), numbers(torch, 2) + 1
    log.raises(lambda: pushed(torch, own.apply, (x, v), (x * 2, None)))
    own = forward_only(
        torch,
        lambda ctx, x, y: (x, x * y, y),
        lambda ctx, dx, dy: (dx.view_as(dx), dx + dy, dy.view_as(dy)),
    )
    log.raises(lambda: pushed(torch, own.apply, (x, v), (x * 2, None)))
    log.raises(lambda: pushed(torch, own.apply, (x, v), (x * 2, v)))
    with fw.dual_level():
        dual = fw.make_dual(x, v)
        log.raises(lambda: [o is dual for o in own.apply(dual, dual)])


@program
def dual_forward_over_reverse(torch, log):
    fw = forward_ad(torch)
    for make in (square, lambda t: square(t, style="ctx"), cube):
        own = make(torch)
        x, v = numbers(torch, 3).requires_grad_(), numbers(torch, 3) + 1
        with fw.dual_level():
            dual = fw.make_dual(x, v)
            out = own.apply(dual)
            log(out.grad_fn, tuple(fw.unpack_dual(out)))
            (g,) = torch.autograd.grad(out.sum(), dual, create_graph=True)
            log([p.detach().clone() for p in fw.unpack_dual(g)])
            (g,) = torch.autograd.grad(own.apply(dual).sum(), x)
            log([p.detach().clone() for p in fw.unpack_dual(g)])
            (g,) = torch.autograd.grad((own.apply(dual) * dual).sum(), dual)
            log([p.detach().clone() for p in fw.unpack_dual(g)])


@program
def dual_reverse_over_forward(torch, log):
    fw = forward_ad(torch)
    for make in (square, lambda t: square(t, style="ctx"), cube):
        own = make(torch)
        x = numbers(torch, 3).requires_grad_()
        v = (numbers(torch, 3) + 1).requires_grad_()
        with fw.dual_level():
            tangent = fw.unpack_dual(own.apply(fw.make_dual(x, v))).tangent
            log(tangent.requires_grad)
            log(torch.autograd.grad(tangent.sum(), (x, v)))


@program
def dual_keyword_defaults(torch, log):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(x, scale=2.0, shift=1.0):
            return x * scale + shift

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.inputs = inputs[1:]
            ctx.scale = inputs[1]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.scale, None, None

        @staticmethod
        def jvp(ctx, t, *rest):
            log(ctx.inputs, rest)
            return t * ctx.scale

        generate_vmap_rule = True

    x, v = numbers(torch, 2), numbers(torch, 2) + 1
    log(Own.apply(x), Own.apply(x, 5.0))
    log.raises(lambda: Own.apply(x, shift=3.0))
    log.raises(lambda: Own.apply(x, wrong=3.0))
    log(pushed(torch, Own.apply, (x, v)))
    log(torch.func.grad(lambda a: Own.apply(a).sum())(x))
    log.raises(lambda: torch.func.grad(lambda a: Own.apply(a, shift=3.0).sum())(x))
    log(torch.func.vmap(Own.apply)(x))
    log.raises(lambda: torch.func.vmap(lambda a: Own.apply(a, scale=4.0))(x))
    leaf = numbers(torch, 2).requires_grad_()
    log(torch.autograd.grad(Own.apply(leaf).sum(), leaf))
