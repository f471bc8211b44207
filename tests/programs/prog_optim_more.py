"""L-BFGS and its line search, the functional forms of the optimizers, averages of models."""

import importlib

from programs.harness import program


def module(torch, name):
    """`torch.optim.adam` and the like: PyTorch has them to import, not as attributes."""
    return importlib.import_module(f"{torch.__name__}.optim.{name}")


def rosenbrock(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


def quartic(p):
    return ((p - 1) ** 4).sum() + (p[0] * p[1]).square()


def minimise(torch, log, options, function=rosenbrock, steps=3):
    p = torch.nn.Parameter(torch.tensor([-0.8, 1.1], dtype=torch.float64))
    optimizer = torch.optim.LBFGS([p], **options)
    calls = []

    def closure():
        optimizer.zero_grad()
        loss = function(p)
        loss.backward()
        calls.append(loss.item())
        return loss

    for _ in range(steps):
        log(optimizer.step(closure).item(), p.tolist(), p._version, len(calls))
    state = optimizer.state[p]
    log(list(state), state["func_evals"], state["n_iter"], len(state["old_dirs"]))
    log(calls)


@program
def lbfgs_without_line_search(torch, log):
    minimise(torch, log, {"lr": 0.1, "max_iter": 4}, quartic)
    minimise(torch, log, {"lr": 0.5, "max_iter": 8, "history_size": 2}, quartic)
    minimise(torch, log, {"lr": torch.tensor(0.1), "max_iter": 3}, quartic)
    minimise(torch, log, {"lr": 0.1, "max_iter": 10, "max_eval": 3}, quartic)
    minimise(torch, log, {"lr": 0.1, "tolerance_grad": 100.0}, quartic, 1)
    minimise(torch, log, {"lr": 0.1, "tolerance_change": 0.1}, quartic, 1)


@program
def lbfgs_with_strong_wolfe(torch, log):
    chosen = {"line_search_fn": "strong_wolfe"}
    minimise(torch, log, {"max_iter": 5, **chosen})
    minimise(torch, log, {"max_iter": 5, "max_eval": 3, **chosen})
    minimise(torch, log, {"max_iter": 5, "max_eval": 40, **chosen})
    minimise(torch, log, {"lr": 0.3, "max_iter": 4, "history_size": 3, **chosen}, quartic)
    minimise(torch, log, {"lr": 5.0, "max_iter": 3, **chosen}, quartic)
    minimise(torch, log, {"max_iter": 3, **chosen}, lambda p: p.abs().sum() + p[0].exp())


@program
def lbfgs_on_several_parameters(torch, log):
    for options in ({"lr": 0.2}, {"line_search_fn": "strong_wolfe"}):
        a = torch.nn.Parameter(torch.tensor([[1.0, -2.0]], dtype=torch.float64))
        b = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
        unused = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
        z = torch.nn.Parameter(torch.tensor([1 + 1j], dtype=torch.complex128))
        optimizer = torch.optim.LBFGS([a, unused, b, z], max_iter=3, **options)

        def closure(optimizer=optimizer, a=a, b=b, z=z):
            optimizer.zero_grad()
            loss = (a * b - 1).square().sum() + b**2 + (z * z.conj() - 1).real.square().sum()
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)
        log(a.tolist(), b.tolist(), unused, z.tolist())


@program
def lbfgs_state_goes_on(torch, log):
    results = []
    for interrupted in (False, True):
        p = torch.nn.Parameter(torch.tensor([-0.8, 1.1], dtype=torch.float64))
        optimizer = torch.optim.LBFGS([p], lr=0.1, max_iter=2)

        def closure(p=p):
            p.grad = None
            loss = quartic(p)
            loss.backward()
            return loss

        optimizer.step(closure)
        if interrupted:
            saved = optimizer.state_dict()
            optimizer = torch.optim.LBFGS([p], lr=0.7)
            optimizer.load_state_dict(saved)
        optimizer.step(closure)
        results.append(p.tolist())
    log(results)


@program
def lbfgs_refusals(torch, log):
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.LBFGS([p], line_search_fn="other")

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    log.raises(lambda: optimizer.step(closure))
    log.warns(lambda: torch.optim.LBFGS([p]).step(closure).detach())


@program
def cubic_interpolation(torch, log):
    interpolate = module(torch, "lbfgs")._cubic_interpolate
    slope = lambda x: torch.tensor(x, dtype=torch.float64)  # noqa: E731
    log(interpolate(0.0, 1.0, slope(-2.0), 3.0, 4.0, slope(4.0)))
    log(interpolate(3.0, 4.0, slope(4.0), 0.0, 1.0, slope(-2.0)))
    log(interpolate(0.0, 1.0, slope(-2.0), 3.0, 4.0, slope(4.0), bounds=(0.0, 0.5)))
    log(interpolate(0.0, 0.0, slope(1.0), 1.0, 1.0, slope(1.0)))
    log(interpolate(0.0, 0.0, slope(1.0), 1.0, 10.0, slope(12.0)))


@program
def strong_wolfe_search(torch, log):
    search = module(torch, "lbfgs")._strong_wolfe
    functions = (
        lambda x: ((x - 3) ** 2).sum(),
        lambda x: (x**4 - 3 * x**2 + x).sum(),
        lambda x: (-x).sum(),
        lambda x: (x.abs() ** 1.5 - x * 0.1).sum(),
    )
    for f in functions:
        for t in (0.01, 1.0, 20.0):
            seen = []

            def at(x, t, d, f=f, seen=seen):
                place = (x + t * d).detach().requires_grad_()
                loss = f(place)
                (grad,) = torch.autograd.grad(loss, place)
                seen.append(loss.item())
                return loss.item(), grad

            x = torch.tensor([0.5, -0.25], dtype=torch.float64)
            loss, grad = at(x, 0.0, torch.zeros_like(x))
            d = -grad
            f_new, g_new, step, calls = search(at, x, t, d, loss, grad, grad.dot(d), max_ls=12)
            log(f_new, g_new.tolist(), float(step), calls, seen)


@program
def functional_forms(torch, log):
    def lists(count, value=0.0):
        return [torch.full((2,), value, dtype=torch.float64) for _ in range(count)]

    def start():
        params = [torch.tensor([1.0, -2.0], dtype=torch.float64) + i for i in range(2)]
        return params, [p * 0.5 for p in params], [torch.tensor(0.0) for _ in range(2)]

    betas = {"beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-8}
    for name in ("adam", "adamw"):
        params, grads, steps = start()
        run = getattr(module(torch, name), name)
        state = lists(2), lists(2), lists(2)
        run(params, grads, *state, steps, amsgrad=True, maximize=False, **betas)
        log(name, params, grads, state, steps)
    params, grads, steps = start()
    buffers = [None, None]
    for _ in range(2):
        module(torch, "sgd").sgd(
            params,
            grads,
            buffers,
            weight_decay=0.1,
            momentum=0.9,
            lr=0.1,
            dampening=0.2,
            nesterov=False,
            maximize=True,
        )
    log("sgd", params, buffers)
    params, grads, steps = start()
    state = lists(2), lists(2)
    module(torch, "adamax").adamax(params, grads, *state, steps, **betas)
    log("adamax", params, state, steps)
    params, grads, steps = start()
    products = [torch.tensor(1.0) for _ in range(2)]
    module(torch, "nadam").nadam(
        params, grads, *state, products, steps, momentum_decay=0.004, **betas
    )
    log("nadam", params, state, products, steps)
    params, grads, steps = start()
    module(torch, "radam").radam(params, grads, lists(2), lists(2), steps, **betas)
    log("radam", params, steps)
    params, grads, steps = start()
    state = lists(2), lists(2), lists(2)
    module(torch, "rmsprop").rmsprop(
        params,
        grads,
        *state,
        steps,
        lr=0.1,
        alpha=0.9,
        eps=1e-8,
        weight_decay=0.0,
        momentum=0.5,
        centered=True,
    )
    log("rmsprop", params, state, steps)
    params, grads, steps = start()
    state = lists(2)
    module(torch, "adagrad").adagrad(
        params, grads, state, steps, lr=0.1, weight_decay=0.0, lr_decay=0.1, eps=1e-8, maximize=True
    )
    log("adagrad", params, state, steps)
    params, grads, steps = start()
    state = lists(2), lists(2)
    module(torch, "adadelta").adadelta(
        params, grads, *state, steps, lr=0.1, rho=0.9, eps=1e-2, weight_decay=0.0, maximize=False
    )
    log("adadelta", params, state, steps)
    params, grads, steps = start()
    state = lists(2), lists(2, 0.1)
    module(torch, "rprop").rprop(
        params,
        grads,
        *state,
        steps,
        step_size_min=1e-3,
        step_size_max=1.0,
        etaminus=0.5,
        etaplus=1.2,
    )
    log("rprop", params, state, steps)
    params, grads, steps = start()
    axs = lists(2)
    mus, etas = ([torch.tensor(v) for _ in range(2)] for v in (1.0, 0.1))
    module(torch, "asgd").asgd(
        params, grads, axs, mus, etas, steps, lambd=1e-4, lr=0.1, t0=1, alpha=0.75, weight_decay=0.1
    )
    log("asgd", params, axs, mus, etas, steps)


@program
def functional_forms_refuse_numbers_for_steps(torch, log):
    p = [torch.ones(1)]
    options = {"lr": 0.1, "weight_decay": 0.0, "lr_decay": 0.0, "eps": 1e-8, "maximize": False}
    log.raises(lambda: module(torch, "adagrad").adagrad(p, p, p, [0], **options))


# ------------------------------------------------------------------ averages of models


def small_net(torch):
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).double()
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.arange(p.numel(), dtype=torch.float64).reshape(p.shape) * 0.1 + i)
    return net


def change(torch, net, by):
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(0.5).add_(by)
        for buffer in net.buffers():
            buffer.add_(1)


@program
def averaged_model(torch, log):
    from_utils = torch.optim.swa_utils
    ways = (
        {},
        {"use_buffers": True},
        {"avg_fn": from_utils.get_ema_avg_fn(0.7)},
        {"avg_fn": from_utils.get_swa_avg_fn(), "use_buffers": True},
        {"multi_avg_fn": from_utils.get_ema_multi_avg_fn(0.7)},
        {"multi_avg_fn": from_utils.get_swa_multi_avg_fn()},
        {"multi_avg_fn": from_utils.get_ema_multi_avg_fn(0.7), "use_buffers": True},
        {"avg_fn": lambda mean, current, n: mean * 0.25 + current * 0.75},
    )
    for way in ways:
        net = small_net(torch)
        averaged = from_utils.AveragedModel(net, **way)
        for i in range(3):
            change(torch, net, i)
            averaged.update_parameters(net)
        log(averaged.n_averaged, [t.clone() for t in averaged.state_dict().values()])
    log(list(averaged.state_dict()), repr(averaged), averaged.module is net)
    log(averaged.eval()(torch.ones(1, 2, dtype=torch.float64)))
    copy = from_utils.AveragedModel(small_net(torch))
    log(repr(copy.load_state_dict(averaged.state_dict())), copy.n_averaged)


@program
def averages_by_function(torch, log):
    utils = torch.optim.swa_utils
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    log(utils.get_ema_avg_fn()(a, b, 3), utils.get_swa_avg_fn()(a, b, torch.tensor(3)))
    for function in (utils.get_ema_multi_avg_fn(0.25), utils.get_swa_multi_avg_fn()):
        means = [a.clone(), b.clone()]
        log(function(means, [b, a], torch.tensor(1)), means)
    log.raises(lambda: utils.get_ema_avg_fn(1.5))
    log.raises(lambda: utils.get_ema_multi_avg_fn(-0.5))
    both = {"avg_fn": utils.get_swa_avg_fn(), "multi_avg_fn": utils.get_swa_multi_avg_fn()}
    log.raises(lambda: utils.AveragedModel(torch.nn.Linear(1, 1), **both))


@program
def batch_norm_statistics_anew(torch, log):
    data = [torch.arange(6, dtype=torch.float64).reshape(3, 2) * k for k in (1, 2, 4)]
    for loader in (data, [(x, "label") for x in data], [[x] for x in data]):
        net = small_net(torch).eval()
        net[1].momentum = 0.3
        torch.optim.swa_utils.update_bn(loader, net)
        log(list(net.buffers()), net.training, net[1].momentum)
    plain = torch.nn.Linear(2, 1).double()
    log(torch.optim.swa_utils.update_bn(data, plain))


@program
def swa_learning_rates(torch, log):
    for options in (
        {"swa_lr": 0.05},
        {"swa_lr": 0.05, "anneal_epochs": 4, "anneal_strategy": "linear"},
        {"swa_lr": [0.05, 0.5], "anneal_epochs": 3},
        {"swa_lr": 0.05, "anneal_epochs": 0},
    ):
        groups = [{"params": [torch.ones(1)]}, {"params": [torch.ones(1)], "lr": 0.3}]
        optimizer = torch.optim.SGD(groups, lr=0.1)
        scheduler = torch.optim.swa_utils.SWALR(optimizer, **options)
        rates = [scheduler.get_last_lr()]
        for _ in range(12):
            optimizer.step()
            scheduler.step()
            rates.append(scheduler.get_last_lr())
        log([[repr(lr) for lr in row] for row in rates], scheduler.state_dict())
    optimizer = torch.optim.SGD([torch.ones(1)], lr=0.1)
    for options in (
        {"swa_lr": [0.1, 0.2]},
        {"swa_lr": 0.1, "anneal_strategy": "x"},
        {"swa_lr": 0.1, "anneal_epochs": -1},
        {"swa_lr": 0.1, "anneal_epochs": 1.5},
    ):
        log.raises(lambda o=options: torch.optim.swa_utils.SWALR(optimizer, **o))
    log.raises(lambda: torch.optim.swa_utils.SWALR(3, 0.1))


OPTIONS = {"lr": 0.1, "weight_decay": 0.01, "betas": (0.9, 0.99), "eps": 1e-8}
TAKEN = {
    "SGD": ("lr",),
    "Adam": ("lr", "betas", "weight_decay", "eps"),
    "AdamW": ("lr", "betas", "weight_decay"),
    "Adamax": ("lr",),
}


@program
def options_that_are_tensors_with_gradients(torch, log):
    """`differentiable=True`: derivatives of the parameters after three steps by every option."""

    def tensor(value):
        return torch.tensor(value, dtype=torch.float64, requires_grad=True)

    for name, taken in TAKEN.items():
        for names in [taken, *[("lr", n) for n in taken if n != "lr"]]:
            options, leaves = {}, [tensor([[1.0, -2.0], [0.5, 3.0]])]
            for key in names:
                value = OPTIONS[key]
                options[key] = tuple(map(tensor, value)) if key == "betas" else tensor(value)
                leaves += options[key] if key == "betas" else [options[key]]
            p = leaves[0].clone()
            optimizer = getattr(torch.optim, name)([p], differentiable=True, **options)
            for n in range(1, 4):
                p.grad = leaves[0] * leaves[0] * n / 2 + 0.1
                optimizer.step()
            grads = torch.autograd.grad(p.sum(), leaves, allow_unused=True)
            log(name, names, [None if g is None else torch.round(g, decimals=9) for g in grads])
            log(torch.round(p, decimals=9))
