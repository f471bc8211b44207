"""The engine: re-entry, threads, shapes of graphs, order, failures, dtypes, small trainings."""

import threading

from programs.harness import program
from programs.prog_backward import bare, leaf

# --- shapes of graphs ------------------------------------------------------------------------


@program
def diamond(torch, log):
    x = leaf(torch, 2.0)
    a = x * x
    b, c = a * 3, a.exp()
    (b * c + a).backward()
    log(bare(x.grad))


@program
def ladder_of_diamonds(torch, log):
    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    y = x
    for _ in range(40):
        y = y * 0.5 + y * 0.5
    y.backward()
    log(bare(x.grad))


@program
def node_runs_once_in_a_diamond(torch, log):
    x = leaf(torch, 2.0)
    a = x * x
    a.register_hook(lambda g: log("a", bare(g)))
    y = a
    for _ in range(5):
        y = y + a
    y.backward()
    log(bare(x.grad))


@program
def deep_chain(torch, log):
    x = torch.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(10_000):
        y = y + 1
    y.backward()
    log(y, bare(x.grad))


@program
def deep_chain_with_saved_values(torch, log):
    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    y = x
    for _ in range(10_000):
        y = y * 1.0001
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    log(y.item(), g.item())
    del y, g


@program
def deep_chain_of_views(torch, log):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * 1
    for _ in range(1001):
        y = y.t()
    y[0].sum().backward()
    log(bare(x.grad))


@program
def wide_graph(torch, log):
    x = torch.tensor(1.0, requires_grad=True)
    total = x * 0
    for i in range(200):
        total = total + x * i
    total.backward()
    log(bare(x.grad))


@program
def branches_of_different_depth(torch, log):
    x = torch.tensor(2.0, requires_grad=True)
    short = x * 3
    long = x
    for _ in range(10):
        long = long * 1.5
    (short + long + x).backward()
    log(bare(x.grad))


@program
def disconnected_part_is_not_run(torch, log):
    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    unused = b * 3
    unused.register_hook(lambda g: log("never"))
    (a * 2).backward()
    log(bare(a.grad), b.grad)


@program
def only_the_path_to_the_inputs_is_run(torch, log):
    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    left, right = a * 2, b * 3
    left.register_hook(lambda g: log("left"))
    right.register_hook(lambda g: log("right"))
    y = left * right
    log(bare(torch.autograd.grad(y, a, retain_graph=True)))
    log(bare(torch.autograd.grad(y, [b], retain_graph=True)))
    log(bare(torch.autograd.grad(y, [a, b])))


# --- order of execution ----------------------------------------------------------------------


@program
def later_nodes_run_first(torch, log):
    x = leaf(torch, 1.0)
    parts = []
    for name in "abcde":
        part = x * 2
        part.register_hook(lambda g, name=name: log(name))
        parts.append(part)
    y = parts[2] + parts[0] + parts[4] + parts[1] + parts[3]
    y.backward()


@program
def order_in_a_mixed_graph(torch, log):
    x = leaf(torch, 1.0)

    def watch(name, t):
        t.register_hook(lambda g: log(name, bare(g)))
        return t

    a = watch("a", x * 2)
    b = watch("b", a * 3)
    c = watch("c", x * 5)
    d = watch("d", b * c)
    e = watch("e", a + d)
    watch("x", x)
    (e * c).backward()


@program
def order_of_leaves(torch, log):
    a, b, c = leaf(torch, 1.0), leaf(torch, 2.0), leaf(torch, 3.0)
    for name, t in (("a", a), ("b", b), ("c", c)):
        t.register_post_accumulate_grad_hook(lambda t, name=name: log(name, bare(t.grad)))
    ((a * b).exp() * c).backward()


@program
def order_with_several_roots(torch, log):
    x = leaf(torch, 1.0)
    a, b = x * 2, x * 3
    a.register_hook(lambda g: log("a"))
    b.register_hook(lambda g: log("b"))
    torch.autograd.backward([a, b], [torch.tensor([1.0]), torch.tensor([1.0])], retain_graph=True)
    torch.autograd.backward([b, a], [torch.tensor([1.0]), torch.tensor([1.0])])


@program
def leaf_accumulates_as_soon_as_it_can(torch, log):
    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    b.register_post_accumulate_grad_hook(lambda t: log("b done"))
    a.register_post_accumulate_grad_hook(lambda t: log("a done"))
    m = a * 2
    m.register_hook(lambda g: log("m", b.grad is None))
    (m * b).backward()


# --- re-entry --------------------------------------------------------------------------------


@program
def backward_inside_a_hook(torch, log):
    x, z = leaf(torch, 2.0), leaf(torch, 3.0)
    y = x * x

    def hook(g):
        with torch.enable_grad():
            inner = z * z
        inner.backward()
        log("inner", bare(z.grad))

    y.register_hook(hook)
    (y * 2).backward()
    log(bare(x.grad), bare(z.grad))


@program
def backward_on_the_same_leaf_inside_a_hook(torch, log):
    x = leaf(torch, 2.0)
    y, other = x * x, x * 10
    y.register_hook(lambda g: other.backward())
    y.backward()
    log(bare(x.grad))


@program
def recording_inside_a_hook_is_off(torch, log):
    x = leaf(torch, 2.0)
    y = x * x
    y.register_hook(lambda g: (x * 10).backward())
    log.raises(lambda: y.backward())
    log(x.grad)


@program
def backward_on_the_running_graph_inside_a_hook(torch, log):
    x = leaf(torch, 2.0)
    a = x.exp()
    y = a * 3
    state = {"first": True}

    def hook(g):
        if state["first"]:
            state["first"] = False
            a.backward(retain_graph=True)
            log("inner", bare(x.grad))

    y.register_hook(hook)
    y.backward()
    log(bare(x.grad))


@program
def autograd_grad_inside_a_hook(torch, log):
    x = leaf(torch, 2.0)
    y = x * x

    def hook(g):
        with torch.enable_grad():
            t = g.detach().requires_grad_()
            (inner,) = torch.autograd.grad((t**3).sum(), t)
        return inner

    y.register_hook(hook)
    (y * 2).backward()
    log(bare(x.grad))


@program
def backward_inside_a_function(torch, log):
    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, run, x):
            ctx.run = run
            ctx.save_for_backward(x)
            return run(x)

        @staticmethod
        def backward(ctx, grad):
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                y = ctx.run(x)
            y.backward(grad)
            return None, x.grad

    w = leaf(torch, 3.0)
    x = leaf(torch, 2.0)
    y = Checkpoint.apply(lambda t: t.sin() * t * w, x)
    (y * 2).backward()
    log(bare(x.grad), bare(w.grad))


@program
def deep_reentry(torch, log):
    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                level = int(ctx.x.item())
                ctx.y = Nested.apply(ctx.x - 1) if level > 0 else ctx.x * 2
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, grad):
            ctx.y.backward(grad)
            return ctx.x.grad

    x = torch.tensor(20.0, requires_grad=True)
    y = Nested.apply(x)
    y.backward()
    log(y, bare(x.grad))


@program
def exception_inside_a_reentrant_backward(torch, log):
    def fail(g):
        raise ValueError("inner hook")

    x = leaf(torch, 2.0)
    z = leaf(torch, 3.0)
    handle = z.register_hook(fail)
    y, other = x * x, z * z
    y.register_hook(lambda g: other.backward())
    log.raises(lambda: y.backward())
    log(x.grad, z.grad)
    handle.remove()
    (x * z).backward()
    log(bare(x.grad), bare(z.grad))


# --- failures --------------------------------------------------------------------------------


@program
def exception_leaves_finished_gradients(torch, log):
    def fail(g):
        raise ValueError("stop")

    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    early = a * 2
    early.register_hook(fail)
    y = early + b * 3
    log.raises(lambda: y.backward())
    log(a.grad, bare(b.grad))


@program
def exception_then_backward_again(torch, log):
    x = leaf(torch, 2.0)
    y = x.exp()
    state = {"fail": True}

    def hook(g):
        if state["fail"]:
            raise ValueError("first time")

    x.register_hook(hook)
    log.raises(lambda: y.backward(retain_graph=True))
    state["fail"] = False
    y.backward()
    log(bare(x.grad))


@program
def keyboard_interrupt_passes_through(torch, log):
    def interrupt(g):
        raise KeyboardInterrupt

    x = leaf(torch, 2.0)
    x.register_hook(interrupt)
    try:
        (x * 2).backward()
    except KeyboardInterrupt as error:
        log(type(error).__name__)
    log(x.grad)


# --- threads ---------------------------------------------------------------------------------


@program
def backward_in_threads_sharing_a_parameter(torch, log):
    w = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)

    def work(scale):
        for _ in range(10):
            (w * scale).sum().backward()

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(1, 4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    log(w.grad.tolist())


@program
def autograd_grad_in_concurrent_threads(torch, log):
    w = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    results = [None] * 4

    def work(i):
        total = torch.zeros(2, dtype=torch.float64)
        for k in range(20):
            (g,) = torch.autograd.grad((w * w * i + w * k).sum(), w)
            total += g
        results[i] = total.tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    log(results, w.grad)


@program
def graph_built_in_one_thread_and_run_in_another(torch, log):
    x = leaf(torch, 3.0)
    y = x * x
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    log(bare(x.grad))


@program
def exception_in_a_thread_stays_there(torch, log):
    x = leaf(torch, 3.0)
    errors = []

    def fail(g):
        raise ValueError("in thread")

    y = x * x
    y.register_hook(fail)

    def work():
        try:
            y.backward()
        except ValueError as error:
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    log(errors)
    (x * 2).backward()
    log(bare(x.grad))


# --- dtypes ----------------------------------------------------------------------------------


@program
def float32_and_float64_mixed(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    y = a * b
    log(y)
    y.sum().backward()
    log(bare(a.grad), bare(b.grad))


@program
def casts_carry_gradients(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    d = a.double()
    log(d)
    d.register_hook(lambda g: log(bare(g)))
    (d * d).float().sum().backward()
    log(bare(a.grad))
    a.half().sum().backward()
    log(bare(a.grad))


@program
def scalar_tensor_does_not_promote(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    s = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    y = a * s
    log(y)
    y.sum().backward()
    log(bare(a.grad), bare(s.grad))


@program
def integer_operand(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    i = torch.tensor([3, 4])
    y = a * i + i
    log(y)
    y.sum().backward()
    log(bare(a.grad))


@program
def complex_gradient_of_abs_and_product(torch, log):
    z = torch.tensor([3.0 + 4.0j, 1.0 - 1.0j], requires_grad=True)
    z.abs().sum().backward()
    log(bare(z.grad))
    z.grad = None
    w = torch.tensor([1.0j, 2.0], requires_grad=True)
    (z * w).real.sum().backward()
    log(bare(z.grad), bare(w.grad))


@program
def complex_root_needs_a_gradient(torch, log):
    z = torch.tensor(1.0 + 2.0j, requires_grad=True)
    log.raises(lambda: (z * z).backward())
    (z * z).backward(torch.tensor(1.0 + 0.0j))
    log(bare(z.grad))


@program
def complex_real_imag(torch, log):
    z = torch.tensor([1.0 + 2.0j, 3.0 - 1.0j], requires_grad=True)
    (z.real**2 + z.imag * 5).sum().backward()
    log(bare(z.grad))
    z.grad = None
    (torch.view_as_real(z) ** 2).sum().backward()
    log(bare(z.grad))


@program
def real_times_complex(torch, log):
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    z = torch.tensor([1.0 + 2.0j, 3.0 - 1.0j], requires_grad=True)
    y = (a * z).abs() ** 2
    y.sum().backward()
    log(bare(a.grad), bare(z.grad))


@program
def complex_exp_and_conj(torch, log):
    z = torch.tensor([0.5 + 1.0j], requires_grad=True)
    z.exp().imag.sum().backward()
    log(bare(z.grad))
    z.grad = None
    (z * z.conj()).real.sum().backward()
    log(bare(z.grad))


# --- broadcasting ----------------------------------------------------------------------------


@program
def broadcasting_gradients(torch, log):
    a = torch.tensor([[1.0], [2.0]], requires_grad=True)
    b = torch.tensor([3.0, 4.0, 5.0], requires_grad=True)
    c = torch.tensor(2.0, requires_grad=True)
    (a * b + c).sum().backward()
    log(bare((a.grad, b.grad, c.grad)))


@program
def broadcasting_leading_dimensions(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.ones(3, 2, 2, requires_grad=True)
    (a / b - a).sum().backward()
    log(bare(a.grad), b.grad.shape, b.grad.sum())


@program
def broadcasting_in_double_backward(torch, log):
    a = torch.tensor([[1.0], [2.0]], requires_grad=True)
    b = torch.tensor([3.0, 4.0], requires_grad=True)
    ga, gb = torch.autograd.grad((a * a * b * b).sum(), [a, b], create_graph=True)
    log(ga.detach(), gb.detach())
    log(bare(torch.autograd.grad((ga * ga).sum() + gb.sum(), [a, b])))


@program
def expand_and_where_broadcast(torch, log):
    a = torch.tensor([[1.0], [2.0]], requires_grad=True)
    b = torch.tensor(5.0, requires_grad=True)
    mask = torch.tensor([[True, False], [False, False]])
    (torch.where(mask, a, b) + a.expand(2, 3)[:, :2]).sum().backward()
    log(bare(a.grad), bare(b.grad))


@program
def gradient_of_a_zero_sized_tensor(torch, log):
    x = torch.zeros(0, 3, requires_grad=True)
    y = (x * 2).sum()
    y.backward()
    log(y, bare(x.grad))


@program
def gradient_layout_follows_the_leaf(torch, log):
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).t().requires_grad_()
    (x * 2).sum().backward()
    log(x.stride(), x.grad.stride())
    y = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    (y.t() @ torch.ones(2, 1)).sum().backward()
    log(y.stride(), y.grad.stride(), bare(y.grad))


# --- small trainings -------------------------------------------------------------------------


def fixed_model(torch):
    """A 2-3-1 network with literal weights, so that no random stream is involved."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[0.5, -0.3], [0.2, 0.8], [-0.6, 0.1]]))
        model[0].bias.copy_(torch.tensor([0.1, 0.0, 0.2]))
        model[2].weight.copy_(torch.tensor([[0.7, -0.4, 0.3]]))
        model[2].bias.fill_(0.05)
    inputs = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    targets = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    return model, inputs, targets


def train(torch, log, steps=4, **options):
    model, inputs, targets = fixed_model(torch)
    optimizer = torch.optim.SGD(model.parameters(), **options)
    loss_of = torch.nn.MSELoss()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
        log(loss.item())
    log([p.detach().tolist() for p in model.parameters()])


@program
def train_plain_sgd(torch, log):
    train(torch, log, lr=0.1)


@program
def train_momentum(torch, log):
    train(torch, log, lr=0.05, momentum=0.9)


@program
def train_nesterov_and_weight_decay(torch, log):
    train(torch, log, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)


@program
def train_dampening(torch, log):
    train(torch, log, lr=0.05, momentum=0.5, dampening=0.3)


@program
def train_maximize(torch, log):
    train(torch, log, steps=2, lr=0.01, maximize=True)


@program
def sgd_argument_checks(torch, log):
    x = leaf(torch, 1.0)
    log.raises(lambda: torch.optim.SGD([x], lr=-1.0))
    log.raises(lambda: torch.optim.SGD([x], lr=0.1, momentum=-0.5))
    log.raises(lambda: torch.optim.SGD([x], lr=0.1, weight_decay=-0.5))
    log.raises(lambda: torch.optim.SGD([x], lr=0.1, nesterov=True))
    log.raises(lambda: torch.optim.SGD([], lr=0.1))
    log.raises(lambda: torch.optim.SGD([x * 2], lr=0.1))
    log.raises(lambda: torch.optim.SGD([3.0], lr=0.1))
    log.raises(lambda: torch.optim.SGD(x, lr=0.1))


@program
def zero_grad_sets_to_none_or_zero(torch, log):
    x = leaf(torch, 1.0)
    optimizer = torch.optim.SGD([x], lr=0.1)
    (x * 2).backward()
    optimizer.zero_grad(set_to_none=False)
    log(bare(x.grad))
    optimizer.zero_grad()
    log(x.grad)
    optimizer.step()
    log(x.detach().tolist())


@program
def step_with_closure_and_groups(torch, log):
    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    optimizer = torch.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (a * b).sum()
        loss.backward()
        return loss

    log(optimizer.step(closure).item())
    log(a.detach().tolist(), b.detach().tolist())
    log([g["lr"] for g in optimizer.param_groups])


@program
def step_between_two_backwards_is_noticed(torch, log):
    model, inputs, targets = fixed_model(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.nn.MSELoss()(model(inputs), targets)
    loss.backward(retain_graph=True)
    optimizer.step()
    try:
        loss.backward()
    except RuntimeError as error:
        log(str(error).split(":")[0])


@program
def gradient_accumulation_over_batches(torch, log):
    model, inputs, targets = fixed_model(torch)
    for i in range(4):
        (torch.nn.MSELoss()(model(inputs[i : i + 1]), targets[i : i + 1]) / 4).backward()
    accumulated = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    torch.nn.MSELoss()(model(inputs), targets).backward()
    whole = [p.grad for p in model.parameters()]
    log([bool((a - g).abs().max() < 1e-6) for a, g in zip(accumulated, whole, strict=True)])
    log([g.tolist() for g in whole])


@program
def frozen_layer(torch, log):
    model, inputs, targets = fixed_model(torch)
    model[0].requires_grad_(False)
    loss = torch.nn.MSELoss()(model(inputs), targets)
    log.graph(loss)
    loss.backward()
    log([p.grad is None for p in model.parameters()])
    log(bare(model[2].weight.grad))


@program
def graph_of_a_network(torch, log):
    model, inputs, targets = fixed_model(torch)
    log.graph(torch.nn.MSELoss()(model(inputs), targets))


@program
def gradient_descent_by_hand(torch, log):
    w = leaf(torch, 5.0)
    for _ in range(5):
        loss = ((w - 2) ** 2).sum()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad.zero_()
        log(w.item(), loss.item())
    log(w)


@program
def newton_by_second_derivative(torch, log):
    x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    for _ in range(5):
        (g,) = torch.autograd.grad(x**4 - 2 * x**2, x, create_graph=True)
        (h,) = torch.autograd.grad(g, x)
        with torch.no_grad():
            x -= g / h
        log(x.item())


@program
def differentiating_through_an_update(torch, log):
    lr = torch.tensor(0.1, requires_grad=True)
    w = torch.tensor([1.0, -2.0], requires_grad=True)
    fast = w
    for _ in range(3):
        (g,) = torch.autograd.grad((fast**2).sum(), fast, create_graph=True)
        fast = fast - lr * g
    (fast**2).sum().backward()
    log(bare(lr.grad), bare(w.grad))
