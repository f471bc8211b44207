"""autograd.forward_ad: levels, dual tensors, writes, the tape, modules."""

from programs.duals import dual, module, parts, value, way
from programs.harness import program

# --- levels ----------------------------------------------------------------------------------


@program
def levels_open_and_close(torch, log):
    fw = module(torch)
    log(fw.enter_dual_level())
    d = dual(torch, 2)
    log(tuple(fw.unpack_dual(d)))
    fw.exit_dual_level()
    log(tuple(fw.unpack_dual(d)))
    with fw.dual_level() as level:
        log(level, tuple(fw.unpack_dual(d)))
        log(tuple(fw.unpack_dual(d * 2)))


@program
def nested_levels(torch, log):
    fw = module(torch)
    with fw.dual_level():
        log.raises(fw.enter_dual_level)

        def nested():
            with fw.dual_level():
                pass

        log.raises(nested)
        log(parts(torch, dual(torch, 2)))


@program
def closing_without_a_level(torch, log):
    fw = module(torch)
    log.raises(fw.exit_dual_level)
    with fw.dual_level():
        log.raises(lambda: fw.exit_dual_level(level=1))
        log.raises(lambda: fw.exit_dual_level(level=-1))
        log(parts(torch, dual(torch, 2)))
    fw.enter_dual_level()
    fw.exit_dual_level(level=0)
    log.raises(lambda: fw.exit_dual_level(level=0))


@program
def an_exception_closes_the_level(torch, log):
    fw = module(torch)

    def fails():
        with fw.dual_level():
            raise ValueError("inside")

    log.raises(fails)
    with fw.dual_level():
        log(parts(torch, dual(torch, 2)))


@program
def level_arguments(torch, log):
    fw = module(torch)
    v, t = value(torch, 2), way(torch, 2)
    log.raises(lambda: fw.make_dual(v, t))
    log.raises(lambda: fw.make_dual(v, t, level=0))
    log.raises(lambda: fw.make_dual(v, t, level=-1))
    log.raises(lambda: tuple(fw.unpack_dual(v)))
    log.raises(lambda: tuple(fw.unpack_dual(v, level=-1)))
    log.raises(lambda: fw.unpack_dual(v).primal is v)
    with fw.dual_level():
        d = fw.make_dual(v, t, level=0)
        log(tuple(fw.unpack_dual(d, level=0)))
        log.raises(lambda: fw.make_dual(v, t, level=-1))
        log.raises(lambda: tuple(fw.unpack_dual(d, level=-1)))


@program
def a_level_as_a_decorator(torch, log):
    fw = module(torch)

    @fw.dual_level()
    def derivative(v, t):
        return fw.unpack_dual(fw.make_dual(v, t).sin()).tangent

    log(derivative(value(torch, 2), way(torch, 2)))
    log(derivative(value(torch, 2), way(torch, 2)))


# --- make_dual -------------------------------------------------------------------------------


@program
def arguments_of_make_dual(torch, log):
    fw = module(torch)
    v, t = value(torch, 2), way(torch, 2)
    with fw.dual_level():
        log.raises(lambda: fw.make_dual(v.long(), t))
        log.raises(lambda: fw.make_dual(v, t.long()))
        log.raises(lambda: fw.make_dual(v > 0, t))
        log.raises(lambda: fw.make_dual(v, t[:1]))
        log.raises(lambda: fw.make_dual(v, t[0]))
        log.raises(lambda: fw.make_dual(v, t.expand(2, 2)))
        log.raises(lambda: fw.make_dual(v, t.float()))
        log.raises(lambda: fw.make_dual(v, torch.complex(t, t)))
        log.raises(lambda: fw.make_dual(torch.complex(v, v), t))
        log.raises(lambda: parts(torch, fw.make_dual(torch.complex(v, v), torch.complex(t, t))))
        log.raises(lambda: parts(torch, fw.make_dual(v.half(), t.half())))
        log.raises(lambda: parts(torch, fw.make_dual(v[:0], t[:0])))


@program
def dual_of_a_dual(torch, log):
    fw = module(torch)
    with fw.dual_level():
        d = dual(torch, 2)
        log.raises(lambda: fw.make_dual(d, way(torch, 2)))
        log.raises(lambda: parts(torch, fw.make_dual(d.detach(), way(torch, 2))))
        log.raises(lambda: parts(torch, fw.make_dual(value(torch, 2), d)))
        log.raises(lambda: fw.make_dual(d * 2, way(torch, 2)))


@program
def what_make_dual_shares(torch, log):
    fw = module(torch)
    v, t = value(torch, 2), way(torch, 2)
    with fw.dual_level():
        d = fw.make_dual(v, t)
        log(d is v, d._is_view(), d.data_ptr() == v.data_ptr(), d.requires_grad)
        log(tuple(fw.unpack_dual(v)))
        primal, tangent = fw.unpack_dual(d)
        log(primal is d, primal._is_view(), primal.data_ptr() == v.data_ptr())
        log(tangent is t, tangent.data_ptr() == t.data_ptr())
        v.mul_(2)
        t.add_(1)
        log(parts(torch, d), d._version)


@program
def layout_of_the_tangent(torch, log):
    """A tangent lies in memory as its primal does."""
    fw = module(torch)
    v = value(torch, 2, 3)
    with fw.dual_level():
        for t in (way(torch, 2, 3), way(torch, 3, 2).t(), way(torch, 3).expand(2, 3)):
            d = fw.make_dual(v, t)
            tangent = fw.unpack_dual(d).tangent
            log(tangent is t, tangent.stride(), tangent.clone())
        transposed = value(torch, 3, 2).t()
        t = way(torch, 2, 3)
        tangent = fw.unpack_dual(fw.make_dual(transposed, t)).tangent
        log(tangent is t, tangent.stride(), tangent.clone())


@program
def with_gradients(torch, log):
    fw = module(torch)
    v, t = value(torch, 2).requires_grad_(), way(torch, 2)
    with fw.dual_level():
        d = fw.make_dual(v, t)
        log(d.requires_grad, d.is_leaf, d.grad_fn)
        primal, tangent = fw.unpack_dual(d)
        log(primal.requires_grad, primal.grad_fn, tangent.requires_grad)
        d = fw.make_dual(value(torch, 2), t.clone().requires_grad_())
        log(d.requires_grad, fw.unpack_dual(d).tangent.requires_grad)
        log((d * d).requires_grad, fw.unpack_dual(d * d).tangent.grad_fn)


@program
def printing(torch, log):
    fw = module(torch)
    with fw.dual_level():
        d = fw.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        log(repr(d), repr(d * 2), str(fw.unpack_dual(d)))
        g = fw.make_dual(torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0]))
        log(repr(g))
        log(repr(fw.make_dual(torch.tensor(1.0), torch.tensor(2.0))))
    log(repr(d))


# --- writing ---------------------------------------------------------------------------------


@program
def writing_to_a_dual(torch, log):
    fw = module(torch)
    for f in (
        lambda d: d.mul_(3),
        lambda d: d.sin_(),
        lambda d: d.add_(d.clone(), alpha=2),
        lambda d: d.zero_(),
        lambda d: d.fill_(2.0),
        lambda d: d.copy_(d * 5),
        lambda d: d.copy_(torch.ones(3)),
        lambda d: d.clamp_(1.1, 1.8),
        lambda d: d.masked_fill_(d > 1.4, 7.0),
        lambda d: d.index_fill_(0, torch.tensor([1]), 7.0),
        lambda d: d.exp_().log_(),
    ):
        with fw.dual_level():
            v, t = value(torch, 3), way(torch, 3)
            d = fw.make_dual(v, t)
            out = f(d)
            log(out is d, parts(torch, d), v, t)


@program
def writing_a_dual_into_a_tensor(torch, log):
    fw = module(torch)
    with fw.dual_level():
        d = dual(torch, 3)
        x = value(torch, 3)
        x.mul_(d)
        log(parts(torch, x))
        x = value(torch, 3)
        x[1] = d[2] * 2
        log(parts(torch, x))
        x = value(torch, 2, 3)
        x[0] = d
        x[1, 1:] *= d[:2]
        log(parts(torch, x))
        x = value(torch, 2, 3)
        row = x[1]
        row.copy_(d)
        log(parts(torch, row), parts(torch, x), parts(torch, x[0]))
        x = torch.zeros(3, dtype=torch.float64)
        x.index_put_((torch.tensor([0, 0, 2]),), d, accumulate=True)
        log(parts(torch, x))
        x = torch.zeros(4, dtype=torch.float64)
        x.scatter_(0, torch.tensor([3, 1, 0]), d)
        log(parts(torch, x))


@program
def views_of_a_dual_share_its_tangent(torch, log):
    fw = module(torch)
    with fw.dual_level():
        d = dual(torch, 2, 3)
        first, column = d[0], d[:, 1]
        first.mul_(10)
        log(parts(torch, d), parts(torch, column))
        column.zero_()
        log(parts(torch, d), parts(torch, first))
        d.add_(1)
        log(parts(torch, first), parts(torch, column))
        tangent = fw.unpack_dual(d).tangent
        part = fw.unpack_dual(d[1]).tangent
        part.fill_(7)
        log(tangent.clone(), part._is_view())


@program
def views_made_before_the_base_moves(torch, log):
    fw = module(torch)
    with fw.dual_level():
        base = value(torch, 4)
        early, other = base[1:3], base.view(2, 2)
        log(parts(torch, early))
        base.mul_(dual(torch, 4))
        log(parts(torch, early), parts(torch, early * 2), parts(torch, other.t()))
        base = value(torch, 4)
        early, late = base[:2], base[2:]
        late.add_(dual(torch, 2))
        log(parts(torch, base), parts(torch, early + 1), parts(torch, late))
        early.sub_(late)
        log(parts(torch, base))


@program
def tangents_and_versions(torch, log):
    fw = module(torch)
    with fw.dual_level():
        v, t = value(torch, 3), way(torch, 3)
        d = fw.make_dual(v, t)
        d.mul_(2)
        log(d._version, v._version, t._version)
        d.zero_()
        log(d._version, t._version)


@program
def metadata_changes(torch, log):
    fw = module(torch)
    with fw.dual_level():
        d = dual(torch, 2, 3) * 1
        d.t_()
        log(parts(torch, d))
        d.unsqueeze_(0)
        log(parts(torch, d))
        d.squeeze_()
        log(parts(torch, d), parts(torch, d.sum(0)))


@program
def out_arguments(torch, log):
    fw = module(torch)
    with fw.dual_level():
        d = dual(torch, 3)
        log.raises(lambda: torch.mul(d, d, out=torch.zeros(3, dtype=torch.float64)))
        log.raises(lambda: torch.mul(value(torch, 3), 2, out=d))


# --- modes -----------------------------------------------------------------------------------


@program
def under_no_grad(torch, log):
    fw = module(torch)
    x = value(torch, 2).requires_grad_()
    with fw.dual_level():
        d = fw.make_dual(x, way(torch, 2))
        with torch.no_grad():
            out = d * d
            log(parts(torch, out), out.requires_grad)
            e = fw.make_dual(value(torch, 2), way(torch, 2))
            log(parts(torch, e.sin()))
        log(parts(torch, e.sin()))


@program
def under_inference_mode(torch, log):
    fw = module(torch)
    with torch.inference_mode(), fw.dual_level():
        d = dual(torch, 2)
        log.raises(lambda: parts(torch, d * d))
        log.raises(lambda: (d * d).is_inference())


@program
def forward_mode_switched_off(torch, log):
    fw = module(torch)
    log(fw._is_fwd_grad_enabled())
    with fw.dual_level():
        d = dual(torch, 3)
        with fw._set_fwd_grad_enabled(False):
            log(fw._is_fwd_grad_enabled())
            out = d * d
            log(fw.unpack_dual(d).tangent, fw.unpack_dual(out).tangent)
            with fw._set_fwd_grad_enabled(True):
                log(parts(torch, d * d))
            log(fw._is_fwd_grad_enabled())
        log(parts(torch, d), parts(torch, out), parts(torch, d * d))
        with fw._set_fwd_grad_enabled(False):
            d.mul_(2)
        log(parts(torch, d))


@program
def in_another_thread(torch, log):
    import threading

    fw = module(torch)
    with fw.dual_level():
        d = dual(torch, 2)
        found = []
        thread = threading.Thread(target=lambda: found.append((d * 2).tolist()))
        thread.start()
        thread.join()
        log(found)
        log(parts(torch, d * 2))


# --- with the tape ---------------------------------------------------------------------------


@program
def forward_over_reverse(torch, log):
    fw = module(torch)
    x, t = value(torch, 3).requires_grad_(), way(torch, 3)
    for f in (
        lambda d: (d**3).sum(),
        lambda d: d.sin().prod(),
        lambda d: (d * d.flip(0)).sum(),
        lambda d: torch.logsumexp(d * d, 0),
        lambda d: (d[0] * d[1:]).sum(),
        lambda d: d.cumsum(0).softmax(0)[1],
        lambda d: torch.nn.functional.layer_norm(d, (3,)).pow(3).sum(),
    ):
        with fw.dual_level():
            d = fw.make_dual(x, t)
            (g,) = torch.autograd.grad(f(d), d)
            log(parts(torch, g))
            (g,) = torch.autograd.grad(f(d), x, create_graph=True)
            log(parts(torch, g), g.requires_grad)


@program
def forward_over_reverse_with_writes(torch, log):
    fw = module(torch)
    x, t = value(torch, 3).requires_grad_(), way(torch, 3)

    def scaled(d):
        y = d * d
        y.mul_(d)
        return y.sum()

    def partly(d):
        y = d * 2
        y[1:].mul_(d[:2])
        return (y * d).sum()

    def filled(d):
        y = torch.zeros(3, dtype=torch.float64)
        y[0] = d[0] * d[1]
        y[1:] = d[1:] ** 2
        return (y * y).sum()

    def chain(d):
        return d.clone().sin_().add_(d).sum()

    for f in (scaled, partly, filled, chain):
        with fw.dual_level():
            d = fw.make_dual(x, t)
            (g,) = torch.autograd.grad(f(d), d)
            log(parts(torch, g))


@program
def reverse_over_forward(torch, log):
    fw = module(torch)
    x, t = value(torch, 3).requires_grad_(), way(torch, 3).requires_grad_()
    for f in (
        lambda d: (d**3).sum(),
        lambda d: d.sin().prod(),
        lambda d: d.clone().mul_(d).sum(),
        lambda d: (d.cumsum(0) * d).norm(),
    ):
        with fw.dual_level():
            tangent = fw.unpack_dual(f(fw.make_dual(x, t))).tangent
            log(tangent.detach().clone(), [g.clone() for g in torch.autograd.grad(tangent, (x, t))])
    with fw.dual_level():
        tangent = fw.unpack_dual((fw.make_dual(x, t) ** 2).sum()).tangent
    tangent.backward()
    log(x.grad, t.grad)


@program
def backward_inside_a_level(torch, log):
    fw = module(torch)
    x = value(torch, 3).requires_grad_()
    with fw.dual_level():
        d = fw.make_dual(x, way(torch, 3))
        (d**3).sum().backward()
        log(x.grad.clone(), fw.unpack_dual(x.grad).tangent)
        kept = d * 2
        kept.retain_grad()
        (kept * kept).sum().backward()
        log(parts(torch, kept.grad))
        seen = []
        hooked = d * 2
        hooked.register_hook(lambda g: seen.append(fw.unpack_dual(g).tangent is not None))
        torch.autograd.grad((hooked**3).sum(), d)
        log(seen)
    log(x.grad.clone())


@program
def dual_gradients(torch, log):
    """A dual as the gradient of the outputs."""
    fw = module(torch)
    x = value(torch, 3).requires_grad_()
    with fw.dual_level():
        g = fw.make_dual(torch.ones(3, dtype=torch.float64), way(torch, 3))
        (found,) = torch.autograd.grad(x**2, x, g)
        log(parts(torch, found))
        d = fw.make_dual(x, way(torch, 3))
        (found,) = torch.autograd.grad(d**2, d, g)
        log(parts(torch, found))


@program
def detached_inside(torch, log):
    fw = module(torch)
    x = value(torch, 3).requires_grad_()
    with fw.dual_level():
        d = fw.make_dual(x, way(torch, 3))
        log(parts(torch, d.detach() * d))
        twice = d * 2
        alone = fw.unpack_dual(twice).primal
        log(parts(torch, alone), parts(torch, alone[1:]), parts(torch, twice.detach()[1:]))
        log(torch.autograd.grad((alone * alone).sum(), x))
        primal = fw.unpack_dual(d).primal
        log(parts(torch, primal * primal), primal.requires_grad)
        log(torch.autograd.grad((primal * d).sum(), x)[0].detach().clone())
        d.detach_()
        log.raises(lambda: parts(torch, d))


# --- modules and optimizers ------------------------------------------------------------------


@program
def modules(torch, log):
    fw = module(torch)
    nn = torch.nn
    torch.manual_seed(0)
    x = value(torch, 2, 3)
    for layer in (
        nn.Linear(3, 2),
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)),
        nn.LayerNorm(3),
        nn.BatchNorm1d(3),
        nn.Softplus(),
        nn.Flatten(),
    ):
        layer.double()
        with fw.dual_level():
            out = layer(fw.make_dual(x, way(torch, 2, 3)))
            primal, tangent = parts(torch, out)
            log(list(primal.shape), list(tangent.shape), out.requires_grad)


@program
def parameters_as_duals(torch, log):
    fw = module(torch)
    layer = torch.nn.Linear(3, 2).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(value(torch, *p.shape))
    x = value(torch, 2, 3)
    names = dict(layer.named_parameters())
    with fw.dual_level():
        moving = {n: fw.make_dual(p, torch.ones_like(p)) for n, p in names.items()}
        out = torch.func.functional_call(layer, moving, (x,))
        log(parts(torch, out), out.requires_grad)
    # The other way: attributes instead of parameters.
    with fw.dual_level():
        for name, p in names.items():
            delattr(layer, name)
            setattr(layer, name, fw.make_dual(p, torch.ones_like(p)))
        log(parts(torch, layer(x)))


@program
def parameters_of_a_dual(torch, log):
    fw = module(torch)
    with fw.dual_level():
        d = dual(torch, 2)
        log.raises(lambda: parts(torch, torch.nn.Parameter(d)))
        p = torch.nn.Parameter(value(torch, 2))
        log.raises(lambda: type(fw.make_dual(p, way(torch, 2))).__name__)
        log.raises(lambda: type(fw.unpack_dual(fw.make_dual(p, way(torch, 2))).primal).__name__)


@program
def steps_of_an_optimizer(torch, log):
    """Hypergradients by hand: a step written out of place moves along the learning rate."""
    fw = module(torch)
    p = value(torch, 2).requires_grad_()
    with fw.dual_level():
        rate = fw.make_dual(
            torch.tensor(0.1, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
        )
        now = p
        for _ in range(3):
            (g,) = torch.autograd.grad((now**2).sum(), now, create_graph=True)
            now = now - rate * g
        log(parts(torch, now))


@program
def an_optimizer_in_a_level(torch, log):
    fw = module(torch)
    p = torch.nn.Parameter(value(torch, 2))
    sgd = torch.optim.SGD([p], lr=0.1)
    with fw.dual_level():
        d = fw.make_dual(p, way(torch, 2))
        (d**2).sum().backward()
        sgd.step()
        log(p.detach().clone(), fw.unpack_dual(p).tangent)
        log(parts(torch, d))


# --- together with func ----------------------------------------------------------------------


@program
def transforms_inside_a_level(torch, log):
    fw = module(torch)
    func = torch.func
    x, t = value(torch, 3), way(torch, 3)

    def f(a):
        return (a**3).sum()

    with fw.dual_level():
        d = fw.make_dual(x, t)
        log.raises(lambda: parts(torch, func.grad(f)(d)))
        log.raises(lambda: func.jvp(f, (d,), (t,)))
        log.raises(lambda: func.jvp(f, (x,), (t,)))
        log.raises(lambda: func.jacfwd(f)(x))
        log.raises(lambda: [p.detach() for p in parts(torch, func.vjp(f, d)[0])])


@program
def a_level_inside_transforms(torch, log):
    fw = module(torch)
    func = torch.func
    x, t = value(torch, 3), way(torch, 3)

    def inner(a):
        with fw.dual_level():
            return fw.unpack_dual(fw.make_dual(a, t) ** 3).tangent

    log.raises(lambda: func.grad(lambda a: inner(a).sum())(x))
    log.raises(lambda: func.jvp(inner, (x,), (t,)))
    log.raises(lambda: func.jacrev(inner)(x))


@program
def unpack_takes_tensors(torch, log):
    fw = module(torch)
    with fw.dual_level():
        log.raises(lambda: fw.unpack_dual(3.0))
        log.raises(lambda: fw.unpack_dual(None))
        found = fw.unpack_dual(dual(torch, 2))
        log(type(found).__name__, found._fields, found.primal, found.tangent)
        log(tuple(fw.unpack_dual(torch.tensor([1, 2]))))
