"""torch.utils.checkpoint among other things: contexts, hooks, autocast, random state, groups."""

import contextlib
from importlib import import_module

from programs.harness import program


def module(torch):
    return import_module(torch.__name__ + ".utils.checkpoint")


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def numbers(*tensors):
    return [None if t is None else t.tolist() for t in tensors]


def deep(x):
    return (x.sin() * x.cos()).exp()


# --- contexts and hooks ----------------------------------------------------------------------


@program
def context_functions(torch, log):
    entered = []

    @contextlib.contextmanager
    def noting(name):
        entered.append("enter " + name)
        yield
        entered.append("leave " + name)

    x = leaf(torch, 1.0, 2.0)
    y = module(torch).checkpoint(
        lambda t: t.sin().exp(),
        x,
        use_reentrant=False,
        context_fn=lambda: (noting("forward"), noting("recompute")),
    )
    log(list(entered))
    y.sum().backward()
    log(list(entered), numbers(x.grad))


@program
def context_that_suppresses(torch, log):
    def fail(x):
        raise KeyError("inside")

    def contexts():
        return contextlib.suppress(KeyError), contextlib.nullcontext()

    x = leaf(torch, 1.0)
    log.raises(lambda: module(torch).checkpoint(fail, x, use_reentrant=False, context_fn=contexts))


@program
def autocast_is_restored(torch, log):
    seen = []

    def function(a, b):
        y = a @ b
        seen.append(str(y.dtype))
        return y.sin().float()

    for reentrant in (False, True):
        a, b = torch.ones(2, 2, requires_grad=True), torch.eye(2)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = module(torch).checkpoint(function, a, b, use_reentrant=reentrant)
        y.sum().backward()
        log(list(seen), str(a.grad.dtype), torch.is_autocast_enabled("cpu"))


@program
def gradient_inside_the_function(torch, log):
    def function(x):
        y = (x * x).sin()
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return (g * y).exp()

    x = leaf(torch, 1.0, 2.0)
    module(torch).checkpoint(function, x, use_reentrant=False).sum().backward()
    plain = leaf(torch, 1.0, 2.0)
    function(plain).sum().backward()
    log(numbers(x.grad), torch.equal(x.grad, plain.grad))


@program
def noop_context_fn(torch, log):
    first, second = module(torch).noop_context_fn()
    with first, second:
        log("inside")


@program
def with_saved_tensors_hooks_around(torch, log):
    packed, unpacked = [], []

    def pack(t):
        packed.append(t.tolist())
        return t

    def unpack(t):
        unpacked.append(t.tolist())
        return t

    x = leaf(torch, 0.25, 0.5)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = module(torch).checkpoint(lambda t: t.exp().exp(), x * 2, use_reentrant=False)
    log(packed)
    y.sum().backward()
    log(unpacked, numbers(x.grad))


@program
def with_saved_tensors_hooks_inside(torch, log):
    packed, unpacked = [], []

    def pack(t):
        packed.append(t.tolist())
        return t * 2

    def unpack(t):
        unpacked.append(t.tolist())
        return t / 2

    def function(x):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x.exp()
        return y.exp()

    x = leaf(torch, 1.0, 2.0)
    y = module(torch).checkpoint(function, x, use_reentrant=False)
    y.sum().backward()
    log(packed, unpacked, numbers(x.grad))


@program
def hooks_and_module_calls(torch, log):
    seen = []
    net = torch.nn.Linear(2, 2)
    net.register_forward_hook(lambda m, i, o: seen.append("forward"))
    x = torch.ones(1, 2, requires_grad=True)
    module(torch).checkpoint(net, x, use_reentrant=False).sum().backward()
    log(seen)


@program
def in_place_changes(torch, log):
    def function(x):
        y = x * 2
        y.mul_(3)
        return y.exp()

    x = leaf(torch, 1.0, 2.0)
    module(torch).checkpoint(function, x, use_reentrant=False).sum().backward()
    log(numbers(x.grad))
    h = leaf(torch, 1.0, 2.0) * 1
    y = module(torch).checkpoint(lambda t: t.exp(), h, use_reentrant=False)
    h.mul_(2)
    log.raises(lambda: y.sum().backward())


@program
def input_without_the_autograd_graph(torch, log):
    x = leaf(torch, 1.0, 2.0)
    w = leaf(torch, 3.0, 4.0)
    y = module(torch).checkpoint(lambda t: (t * w).sin(), x.detach(), use_reentrant=False)
    y.sum().backward()
    log(numbers(x.grad, w.grad))


@program
def group_of_backward_passes(torch, log):
    utils = module(torch)
    calls = []

    def function(x):
        calls.append(1)
        y = x.sin().exp()
        return y, (x * 2).cos().exp()

    x = leaf(torch, 0.25, 2.5)
    a, b = utils.checkpoint(function, x, use_reentrant=False)
    with utils.GraphExecGroup():
        a.sum().backward()
        b.sum().backward()
    log(numbers(x.grad), len(calls))
    try:
        with utils.GraphExecGroup(), utils.GraphExecGroup():
            log("nested")
    except RuntimeError as error:
        log(str(error).partition("<")[0])


@program
def overlapping_group(torch, log):
    utils = module(torch)
    x = leaf(torch, 1.0, 2.0)
    y = utils.checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False).sum()

    def run():
        with utils.GraphExecGroup():
            y.backward(retain_graph=True)
            y.backward()

    log.raises(run)


@program
def contexts_are_not_entered_without_grad(torch, log):
    entered = []

    @contextlib.contextmanager
    def noting(name):
        entered.append(name)
        yield

    def contexts():
        entered.append("made")
        return noting("forward"), noting("recompute")

    options = {"use_reentrant": False, "context_fn": contexts}
    with torch.no_grad():
        y = module(torch).checkpoint(deep, leaf(torch, 1.0), **options)
    log(entered, y.requires_grad)
    module(torch).checkpoint(deep, torch.ones(1), **options)
    log(entered)


@program
def tensors_saved_on_the_cpu(torch, log):
    save_on_cpu = torch.autograd.graph.save_on_cpu
    checkpoint = module(torch).checkpoint

    def inside(t):
        with save_on_cpu():
            return deep(t)

    x = leaf(torch, 1.0, 2.0)
    checkpoint(inside, x, use_reentrant=False).sum().backward()
    y = leaf(torch, 1.0, 2.0)
    with save_on_cpu():
        checkpoint(deep, y * 1, use_reentrant=False).sum().backward()
    z = leaf(torch, 1.0, 2.0)
    deep(z).sum().backward()
    log(torch.equal(x.grad, z.grad), torch.equal(y.grad, z.grad))


@program
def hooks_around_and_inside(torch, log):
    hooks = torch.autograd.graph.saved_tensors_hooks
    order = []

    def noting(name):
        def pack(t):
            order.append(f"pack {name} {t.tolist()}")
            return t

        def unpack(t):
            order.append(f"unpack {name}")
            return t

        return hooks(pack, unpack)

    def function(t):
        with noting("inside"):
            y = t.exp()
        return y.exp()

    x = leaf(torch, 0.0)
    with noting("outside"):
        y = module(torch).checkpoint(function, x * 1, use_reentrant=False) * 2
    order.append("backward")
    y.sum().backward()
    log(order, numbers(x.grad))


@program
def hooks_are_refused(torch, log):
    graph = torch.autograd.graph
    x = leaf(torch, 1.0)

    def run():
        with graph.disable_saved_tensors_hooks("no hooks here"):
            return module(torch).checkpoint(deep, x, use_reentrant=False)

    log.raises(run)


@program
def three_levels(torch, log):
    checkpoint = module(torch).checkpoint
    calls = []

    def level(depth):
        def function(t):
            calls.append(depth)
            if depth == 0:
                return t.sin().exp()
            inner = checkpoint(level(depth - 1), t.cos(), use_reentrant=False)
            return inner.tanh() * t

        return function

    x = leaf(torch, 1.0, 2.0)
    y = checkpoint(level(2), x, use_reentrant=False)
    log(list(calls))
    y.sum().backward()
    log(calls, numbers(x.grad))


@program
def nested_without_early_stop(torch, log):
    utils = module(torch)
    for early in (True, False):
        calls = []

        def inner(t, calls=calls):
            calls.append("inner")
            y = t.sin()
            calls.append("inner end")
            return y

        def outer(t, calls=calls, inner=inner):
            calls.append("outer")
            y = utils.checkpoint(inner, t, use_reentrant=False).exp()
            calls.append("outer end")
            return y * 2

        x = leaf(torch, 1.0, 2.0)
        with utils.set_checkpoint_early_stop(early):
            y = utils.checkpoint(outer, x, use_reentrant=False)
        y.sum().backward()
        log(calls, numbers(x.grad))


@program
def second_derivatives(torch, log):
    checkpoint = module(torch).checkpoint

    def cubic(t):
        return (t * t * t).sin()

    def nested(t):
        return checkpoint(lambda s: (s * s).exp(), t.sin(), use_reentrant=False) * t

    for function in (cubic, nested):
        x = leaf(torch, 0.5, 0.25)
        y = checkpoint(function, x, use_reentrant=False).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
        (k,) = torch.autograd.grad(h.sum(), x)
        log(numbers(g, h, k))


@program
def penalty_on_the_gradient(torch, log):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    x = torch.randn(2, 3, requires_grad=True)
    y = module(torch).checkpoint(net, x, use_reentrant=False).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (y + g.pow(2).sum()).backward()
    log(numbers(*[p.grad for p in net.parameters()]))


@program
def jacobians(torch, log):
    functional = torch.autograd.functional

    def function(t):
        return module(torch).checkpoint(deep, t, use_reentrant=False)

    x = torch.tensor([0.5, 0.25])
    log(numbers(functional.jacobian(function, x)))
    log(numbers(functional.hessian(lambda t: function(t).sum(), x)))


@program
def keyword_tensors(torch, log):
    def function(a, *rest, scale=None, **options):
        return (a * rest[0] * scale).sin() + options["shift"]

    checkpoint = module(torch).checkpoint
    tensors = [leaf(torch, 1.0 + i) for i in range(4)]
    a, b, s, t = tensors
    checkpoint(function, a, b, scale=s, shift=t, use_reentrant=False).sum().backward()
    log(numbers(*[t.grad for t in tensors]))
    for preserve in (True, False):
        y = checkpoint(
            function, a, b, scale=s, shift=2, preserve_rng_state=preserve, use_reentrant=False
        )
        log(numbers(y))


@program
def random_state_of_the_caller(torch, log):
    for reentrant in (False, True):
        for preserve in (True, False):
            torch.manual_seed(7)
            x = leaf(torch, 1.0, 2.0)
            y = module(torch).checkpoint(
                lambda t: t * torch.randn(2),
                x,
                preserve_rng_state=preserve,
                use_reentrant=reentrant,
            )
            log(torch.rand(1).tolist())
            y.sum().backward()
            log(torch.equal(x.grad, y.detach() / x.detach()), torch.rand(1).tolist())


@program
def autocast_in_and_around(torch, log):
    checkpoint = module(torch).checkpoint
    dtypes = []

    def function(a, b):
        y = a @ b
        with torch.autocast("cpu", enabled=False):
            z = a.float() @ b
        dtypes.append([str(y.dtype), str(z.dtype)])
        return y.float() * z

    a, b = torch.ones(2, 2, requires_grad=True), torch.eye(2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = checkpoint(function, a, b, use_reentrant=False)
    y.sum().backward()
    y = checkpoint(function, a, b, use_reentrant=False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y.sum().backward()
    log(dtypes, numbers(a.grad))


@program
def modules_that_count(torch, log):
    norm = torch.nn.BatchNorm1d(2)
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
    module(torch).checkpoint(lambda t: norm(t).sin(), x, use_reentrant=False).sum().backward()
    log(norm.num_batches_tracked.item(), numbers(norm.running_mean))
