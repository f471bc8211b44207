"""Optimizers: small trainings with every option, their state, closures, groups, errors, reprs."""

import copy
import importlib

from programs.harness import program


def parameters(torch, dtype, shapes=((2, 3), (3,), ())):
    """Parameters with values given by hand: no two elements alike."""
    found = []
    for i, shape in enumerate(shapes):
        count = 1
        for size in shape:
            count *= size
        values = [0.37 * (k + 1) * (-1) ** (k + i) + 0.11 * (i % 4) for k in range(count)]
        found.append(torch.nn.Parameter(torch.tensor(values, dtype=dtype).reshape(shape)))
    return found


def loss_of(params):
    """Not convex, with a curvature of its own for every parameter."""
    total = 0
    for i, p in enumerate(params):
        size = (p * p.conj()).real if p.is_complex() else p * p
        total = total + ((i % 3 + 1) * size + 0.3 * (size * size) - 0.05 * p.sum().abs()).sum()
    return total


def train(torch, name, options, dtype=None, steps=6, shapes=((2, 3), (3,), ())):
    params = parameters(torch, dtype or torch.float64, shapes)
    optimizer = getattr(torch.optim, name)(params, **options)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(params).backward()
        optimizer.step()
    return params, optimizer


def state_of(params, optimizer):
    return [dict(optimizer.state[p]) if p in optimizer.state else None for p in params]


def trainings(torch, log, name, *cases, shapes=((2, 3), (3,), ())):
    """Parameters and state, with versions, after some steps with each set of options."""
    for options in cases:
        params, optimizer = train(torch, name, options, shapes=shapes)
        log(*params)
        log(state_of(params, optimizer))
    for dtype in (torch.float32, torch.float16):
        params, optimizer = train(torch, name, cases[-1], dtype, 3, shapes)
        log([p.dtype for p in params], [list(optimizer.state[p]) for p in params])
        if dtype is torch.float32:
            log(*params)


def other_roads(torch, log, name, options, fused=False):
    """`foreach`, `fused`, a tensor for the learning rate, `differentiable`: the same values."""
    ways = [{"foreach": True}, {"foreach": False}, {"differentiable": True}]
    ways += [{"fused": True}] if fused else []
    for way in ways:
        params = parameters(torch, torch.float64)
        if "differentiable" in way:
            params = [p.detach().clone() for p in params]
        optimizer = getattr(torch.optim, name)(params, **options, **way)
        for step in range(4):
            for i, p in enumerate(params):
                p.grad = p.detach() * (i + 1) + 0.1 * step
            optimizer.step()
        # Step counts are float32 tensors here, and what follows from them good to a unit of that.
        rounded = True in (way.get("differentiable"), way.get("foreach"))
        log(list(way), [p.tolist() if rounded else p.detach().clone() for p in params])
    for lr in (torch.tensor(0.05), torch.tensor([0.05], dtype=torch.float64)):
        params, optimizer = train(torch, name, {**options, "lr": lr})
        exact = lr.dtype is torch.float64
        log([p if exact else p.tolist() for p in params], optimizer.param_groups[0]["lr"])


@program
def sgd(torch, log):
    trainings(
        torch,
        log,
        "SGD",
        {},
        {"lr": 0.05},
        {"lr": 0.05, "weight_decay": 0.1},
        {"lr": 0.05, "maximize": True, "weight_decay": 0.1},
        {"lr": 0.05, "momentum": 0.9},
        {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01},
        {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.01},
    )
    other_roads(torch, log, "SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}, fused=True)


@program
def adam(torch, log):
    trainings(
        torch,
        log,
        "Adam",
        {},
        {"lr": 0.1, "betas": (0.5, 0.7), "eps": 1e-3},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
        {"lr": 0.1, "amsgrad": True, "betas": (0.3, 0.2)},
        {"lr": 0.1, "maximize": True, "amsgrad": True},
    )
    other_roads(torch, log, "Adam", {"weight_decay": 0.1, "amsgrad": True}, fused=True)


@program
def adam_with_tensors_for_betas(torch, log):
    for dtype in (torch.float32, torch.float64):
        betas = (torch.tensor(0.8, dtype=dtype), torch.tensor(0.95, dtype=dtype))
        params, optimizer = train(torch, "Adam", {"lr": 0.1, "betas": betas})
        exact = dtype is torch.float64
        log([p if exact else p.tolist() for p in params], optimizer.defaults["betas"])


@program
def adamw(torch, log):
    trainings(
        torch,
        log,
        "AdamW",
        {},
        {"lr": 0.1, "weight_decay": 0.2},
        {"lr": 0.1, "amsgrad": True, "maximize": True},
    )
    other_roads(torch, log, "AdamW", {"weight_decay": 0.1}, fused=True)


@program
def adamax(torch, log):
    trainings(
        torch,
        log,
        "Adamax",
        {},
        {"lr": 0.1, "betas": (0.5, 0.7), "eps": 1e-3},
        {"lr": 0.1, "weight_decay": 0.1, "maximize": True},
    )
    other_roads(torch, log, "Adamax", {"weight_decay": 0.1})


@program
def nadam(torch, log):
    trainings(
        torch,
        log,
        "NAdam",
        {},
        {"lr": 0.1, "betas": (0.5, 0.7), "momentum_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
        {"lr": 0.1, "maximize": True},
    )
    other_roads(torch, log, "NAdam", {"weight_decay": 0.1})


@program
def radam(torch, log):
    trainings(
        torch,
        log,
        "RAdam",
        {},
        {"lr": 0.1, "betas": (0.5, 0.7)},
        {"lr": 0.1, "betas": (0.5, 0.9), "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
        {"lr": 0.1, "maximize": True},
    )
    other_roads(torch, log, "RAdam", {"weight_decay": 0.1, "betas": (0.6, 0.8)})
    params, _ = train(torch, "RAdam", {"lr": 0.05}, steps=14)
    log(*params)


@program
def rmsprop(torch, log):
    trainings(
        torch,
        log,
        "RMSprop",
        {},
        {"lr": 0.05, "alpha": 0.5, "eps": 1e-3},
        {"lr": 0.05, "weight_decay": 0.1, "momentum": 0.5},
        {"lr": 0.05, "centered": True},
        {"lr": 0.05, "centered": True, "momentum": 0.5, "maximize": True},
    )
    other_roads(torch, log, "RMSprop", {"momentum": 0.5, "centered": True})


@program
def adagrad(torch, log):
    trainings(
        torch,
        log,
        "Adagrad",
        {},
        {"lr": 0.3, "lr_decay": 0.1, "eps": 1e-3},
        {"lr": 0.3, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
        {"lr": 0.3, "maximize": True},
    )
    other_roads(torch, log, "Adagrad", {"lr_decay": 0.1}, fused=True)
    optimizer = torch.optim.Adagrad(parameters(torch, torch.float32))
    log(optimizer.state_dict(), optimizer.share_memory())


@program
def adadelta(torch, log):
    trainings(
        torch,
        log,
        "Adadelta",
        {},
        {"lr": 2.0, "rho": 0.5, "eps": 1e-3},
        {"weight_decay": 0.1, "eps": 1e-2},
        {"maximize": True, "eps": 1e-2},
    )
    other_roads(torch, log, "Adadelta", {"eps": 1e-2})


@program
def rprop(torch, log):
    trainings(
        torch,
        log,
        "Rprop",
        {},
        {"lr": 0.3, "etas": (0.4, 1.7)},
        {"lr": 0.3, "step_sizes": (0.1, 0.35)},
        {"lr": 0.3, "maximize": True},
    )
    other_roads(torch, log, "Rprop", {})


@program
def asgd(torch, log):
    trainings(
        torch,
        log,
        "ASGD",
        {},
        {"lr": 0.05, "lambd": 0.1, "alpha": 0.5},
        {"lr": 0.05, "t0": 2, "weight_decay": 0.1},
        {"lr": 0.05, "maximize": True, "t0": 0},
    )
    other_roads(torch, log, "ASGD", {"t0": 2})


@program
def adafactor(torch, log):
    trainings(
        torch,
        log,
        "Adafactor",
        {},
        {"lr": 0.1, "beta2_decay": -0.5, "eps": (1e-6, 0.5)},
        {"lr": 0.1, "weight_decay": 0.1, "d": 2.0},
        {"lr": 0.1, "maximize": True},
        shapes=((2, 3), (3,), (), (2, 2, 3)),
    )
    for options in ({"foreach": True}, {"lr": torch.tensor(0.1)}):
        params, _ = train(torch, "Adafactor", options)
        log([p.tolist() for p in params])


@program
def muon(torch, log):
    cases = (
        {},
        {"lr": 0.1, "momentum": 0.5, "nesterov": False},
        {"lr": 0.1, "weight_decay": 0.0, "ns_steps": 3},
        {"lr": 0.1, "adjust_lr_fn": "match_rms_adamw"},
        {"lr": 0.1, "adjust_lr_fn": "original", "ns_coefficients": (2.0, -1.5, 0.5)},
    )
    for options in cases:
        params, optimizer = train(torch, "Muon", options, steps=3, shapes=((2, 3), (4, 2)))
        log(*params)
        log(state_of(params, optimizer))


@program
def complex_parameters(torch, log):
    cases = {
        "SGD": {"momentum": 0.9},
        "Adam": {"amsgrad": True},
        "AdamW": {},
        "Adamax": {},
        "NAdam": {},
        "RAdam": {},
        "RMSprop": {"centered": True, "momentum": 0.5},
        "Adagrad": {"initial_accumulator_value": 0.1},
        "Adadelta": {},
        "Rprop": {},
        "ASGD": {"t0": 1},
    }
    for name, options in cases.items():
        p = torch.nn.Parameter(torch.tensor([1.0 + 2j, -0.5 + 0.25j], dtype=torch.complex128))
        optimizer = getattr(torch.optim, name)([p], lr=0.1, **options)
        for _ in range(3):
            optimizer.zero_grad()
            (p * p.conj()).real.square().sum().backward()
            optimizer.step()
        log(name, p, list(optimizer.state[p].values()))


@program
def many_small_tensors(torch, log):
    """Enough of them that both libraries may take them together."""
    shapes = [(2, 3), (5,), (), (1, 1, 2), (4, 1)] * 5
    cases = {
        "SGD": [{}, {"momentum": 0.9, "nesterov": True}],
        "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1}],
        "AdamW": [{}],
        "Adamax": [{}],
        "NAdam": [{}],
        "RAdam": [{"betas": (0.5, 0.7)}],
        "RMSprop": [{"centered": True, "momentum": 0.5}],
        "Adagrad": [{"lr_decay": 0.1}],
        "Adadelta": [{}],
        "Rprop": [{}],
        "ASGD": [{"t0": 1}],
    }
    for name, options in cases.items():
        for chosen in options:
            params, optimizer = train(torch, name, {"lr": 0.05, **chosen}, steps=4, shapes=shapes)
            log(name, *params[:5], *params[-3:])
            log(state_of(params[:5], optimizer))


@program
def gradients_that_come_and_go(torch, log):
    params = parameters(torch, torch.float64, ((2,),) * 6)
    optimizer = torch.optim.Adam(params, lr=0.1)
    for step in range(5):
        for i, p in enumerate(params):
            p.grad = None if (i + step) % 3 == 0 else p.detach() + step
        optimizer.step()
        log(*params, [optimizer.state[p].get("step") for p in params])


@program
def layouts_and_shared_memory(torch, log):
    base = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    params = [torch.nn.Parameter(base.t())] + [
        torch.nn.Parameter(torch.ones(2, dtype=torch.float64) * i) for i in range(5)
    ]
    tied = torch.nn.Parameter(params[1].data)
    optimizer = torch.optim.Adam([*params, tied], lr=0.5, weight_decay=0.1)
    for _ in range(3):
        for p in [*params, tied]:
            p.grad = p.detach().clone()
        optimizer.step()
    log(*params, tied, base, optimizer.state[params[0]]["exp_avg"].stride())


@program
def parameters_replaced_between_steps(torch, log):
    params = parameters(torch, torch.float64, ((2,),) * 5)
    optimizer = torch.optim.Adam(params, lr=0.1)
    for step in range(4):
        for p in params:
            p.grad = p.detach().clone()
        optimizer.step()
        params[step].data = torch.full((2,), float(step), dtype=torch.float64)
        optimizer.state[params[0]]["exp_avg"].zero_()
        log(*params)


@program
def default_dtype_decides_on_the_step_count(torch, log):
    torch.set_default_dtype(torch.float64)
    try:
        for name in ("Adam", "NAdam", "ASGD", "Adagrad", "Adafactor"):
            params, optimizer = train(torch, name, {}, torch.float32, 2)
            log(state_of(params, optimizer))
    finally:
        torch.set_default_dtype(torch.float32)


@program
def param_groups(torch, log):
    a, b, c = parameters(torch, torch.float64)
    optimizer = torch.optim.SGD(
        [{"params": [a], "lr": 0.1}, {"params": b, "momentum": 0.5}], lr=0.01, weight_decay=0.1
    )
    optimizer.add_param_group({"params": (c,), "nesterov": False, "own": "option"})
    for _ in range(3):
        optimizer.zero_grad()
        loss_of([a, b, c]).backward()
        optimizer.step()
    log(a, b, c, repr(optimizer))
    log([{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups])
    log.raises(lambda: optimizer.add_param_group({"params": [a]}))
    log.raises(lambda: optimizer.add_param_group({"params": {a}}))
    log.raises(lambda: optimizer.add_param_group({"params": [3]}))
    log.raises(lambda: optimizer.add_param_group({"params": [a * 2]}))
    log.raises(lambda: optimizer.add_param_group([a]))
    log.raises(lambda: torch.optim.SGD([]))
    log.raises(lambda: torch.optim.SGD(a))
    log.raises(lambda: torch.optim.SGD([{"params": []}]).step())
    log.warns(lambda: len(torch.optim.SGD([a, a]).param_groups[0]["params"]))


@program
def named_parameters(torch, log):
    model = torch.nn.Linear(2, 1, dtype=torch.float64)
    optimizer = torch.optim.Adam(model.named_parameters())
    log(optimizer.param_groups[0]["param_names"], repr(optimizer))
    log(list(optimizer.state_dict()["param_groups"][0]))
    log.raises(lambda: optimizer.add_param_group({"params": [torch.ones(1)]}))
    log.raises(lambda: torch.optim.SGD([("a", torch.ones(1)), torch.ones(2)]))


ALL = (
    "SGD Adam AdamW Adamax NAdam RAdam RMSprop Adagrad Adadelta Rprop ASGD Adafactor LBFGS".split()
)


@program
def reprs_and_defaults(torch, log):
    for name in [*ALL, "Muon"]:
        optimizer = getattr(torch.optim, name)([torch.nn.Parameter(torch.ones(2, 2))])
        log(repr(optimizer), optimizer.defaults, type(optimizer).__name__)
        log(optimizer.state_dict())


@program
def state_dicts_continue(torch, log):
    more = {"SGD": {"momentum": 0.9}, "RMSprop": {"centered": True}, "Adam": {"amsgrad": True}}
    for name in ALL[:-1]:
        options = {"lr": 0.1, **more.get(name, {})}
        params, optimizer = train(torch, name, options, torch.float32, 3)
        log(name, optimizer.state_dict())
        saved = copy.deepcopy(optimizer.state_dict())
        twins = [torch.nn.Parameter(p.detach().double()) for p in params]
        other = getattr(torch.optim, name)(twins, lr=0.7)
        other.load_state_dict(saved)
        for _ in range(2):
            other.zero_grad()
            loss_of(twins).backward()
            other.step()
        log([p.tolist() for p in twins], other.param_groups[0]["lr"])
        log([{k: v.dtype for k, v in other.state[p].items()} for p in twins])


@program
def old_state_dicts_hold_plain_numbers(torch, log):
    p = torch.nn.Parameter(torch.ones(1))
    for name, own in (
        ("Adam", {"step": 3, "exp_avg": torch.ones(1), "exp_avg_sq": torch.ones(1)}),
        ("ASGD", {"step": 3, "eta": 0.1, "mu": 1, "ax": torch.ones(1)}),
        ("Adagrad", {"step": 3, "sum": torch.ones(1)}),
    ):
        optimizer = getattr(torch.optim, name)([p], lr=0.1)
        saved = optimizer.state_dict()
        group = {k: saved["param_groups"][0][k] for k in ("lr", "weight_decay", "params")}
        group.update({k: v for k, v in optimizer.defaults.items() if k in ("betas", "eps")})
        group.update({k: v for k, v in optimizer.defaults.items() if k in ("lambd", "alpha", "t0")})
        group.update({k: v for k, v in optimizer.defaults.items() if k == "lr_decay"})
        optimizer.load_state_dict({"state": {0: own}, "param_groups": [group]})
        log(dict(optimizer.state[p]), sorted(optimizer.param_groups[0]))


@program
def load_state_dict_errors(torch, log):
    one = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
    two = torch.optim.SGD([torch.nn.Parameter(torch.ones(1)) for _ in range(2)])
    groups = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.ones(1))]} for _ in range(2)])
    log.raises(lambda: one.load_state_dict(two.state_dict()))
    log.raises(lambda: one.load_state_dict(groups.state_dict()))
    log.raises(lambda: one.load_state_dict({}))


@program
def closures(torch, log):
    for name in ALL:
        params = parameters(torch, torch.float64)
        optimizer = getattr(torch.optim, name)(params)

        def closure(optimizer=optimizer, params=params):
            optimizer.zero_grad()
            loss = loss_of(params)
            loss.backward()
            return loss

        with torch.no_grad():
            log(name, optimizer.step(closure).detach(), torch.is_grad_enabled())


@program
def hooks(torch, log):
    p = torch.nn.Parameter(torch.ones(1))
    p.grad = torch.ones(1)
    optimizer, seen = torch.optim.Adam([p]), []
    # PyTorch has this module to import, not as an attribute of torch.optim.
    base = importlib.import_module(f"{torch.__name__}.optim.optimizer")
    globally = [
        base.register_optimizer_step_pre_hook(lambda *a: seen.append("pre all")),
        base.register_optimizer_step_post_hook(lambda *a: seen.append("post all")),
    ]
    optimizer.register_step_pre_hook(lambda o, a, k: seen.append(("pre", len(a), dict(k))))
    handle = optimizer.register_step_post_hook(lambda o, a, k: seen.append(("post", len(a))))
    optimizer.step()
    optimizer.step(closure=None)
    handle.remove()
    optimizer.step()
    for one in globally:
        one.remove()
    optimizer.step()
    log(seen)
    optimizer.register_step_pre_hook(lambda o, a, k: (a, {"closure": lambda: 7}))
    log(optimizer.step())
    optimizer.register_state_dict_post_hook(lambda o, s: {"only": "this"})
    log(optimizer.state_dict())
    optimizer.register_load_state_dict_pre_hook(lambda o, s: {"state": {}, "param_groups": []})
    log.raises(lambda: optimizer.load_state_dict({}))
    log(repr(base.required))


@program
def zero_grad(torch, log):
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p])
    (p * 2).sum().backward()
    kept = p.grad
    optimizer.zero_grad(set_to_none=False)
    log(p.grad, p.grad is kept)
    optimizer.zero_grad()
    log(p.grad, kept)


@program
def through_a_step(torch, log):
    """`differentiable=True`: gradients with respect to where the training began."""
    for name in ALL[:-2]:
        start = torch.tensor([0.7, -1.3], dtype=torch.float64, requires_grad=True)
        p = start.clone()
        optimizer = getattr(torch.optim, name)([p], lr=0.1, differentiable=True)
        p.grad = (start * start).detach()
        optimizer.step()
        p.square().sum().backward()
        log(name, p.tolist(), start.grad.tolist())
    lr = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    p = torch.tensor([1.0, 2.0], dtype=torch.float64)
    p.grad = torch.tensor([0.5, -0.5], dtype=torch.float64)
    torch.optim.SGD([p], lr=lr, differentiable=True).step()
    p.square().sum().backward()
    log(lr.grad)


@program
def swapping_the_optimizer_after_saving_for_backward(torch, log):
    p = torch.nn.Parameter(torch.ones(2))
    loss = (p * p).sum()
    loss.backward(retain_graph=True)
    torch.optim.Adam([p]).step()
    log.raises(loss.backward)


BAD = {
    "SGD": ["lr=-1", "momentum=-1", "weight_decay=-1", "nesterov=True", "fused=True,foreach=True"],
    "Adam": ["lr=-1", "eps=-1", "betas=(1.0,0.9)", "betas=(0.9,-1)", "weight_decay=-1"],
    "AdamW": ["lr=-1.5", "fused=True,foreach=True", "fused=True,differentiable=True"],
    "Adamax": ["lr=-1", "eps=-1", "betas=(1.0,0.9)", "betas=(0.9,-1)", "weight_decay=-1"],
    "NAdam": ["lr=-1", "eps=-1", "betas=(0.9,1)", "weight_decay=-1", "momentum_decay=-1"],
    "RAdam": ["lr=-1", "eps=-1", "betas=(0.9,1)", "weight_decay=-1"],
    "RMSprop": ["lr=-1", "eps=-1", "momentum=-1", "weight_decay=-1", "alpha=-1"],
    "Adagrad": ["lr=-1", "lr_decay=-1", "weight_decay=-1", "initial_accumulator_value=-1"],
    "Adadelta": ["lr=-1", "rho=2", "eps=-1", "weight_decay=-1"],
    "Rprop": ["lr=-1", "etas=(2,3)", "etas=(0.5,0.6)"],
    "ASGD": ["lr=-1", "weight_decay=-1"],
    "LBFGS": ["lr=-1"],
    "Adafactor": ["lr=-1", "beta2_decay=1", "eps=(-1,1)", "eps=(None,-1)", "d=0.5"],
    "Muon": ["lr=-1", "momentum=-1", "weight_decay=-1", "adjust_lr_fn='x'"],
}


@program
def bad_options(torch, log):
    for name, cases in BAD.items():
        shape = (2, 2) if name == "Muon" else (2,)
        make = getattr(torch.optim, name)
        for case in [*cases, "lr=torch.tensor([1.0, 2.0])", "no_such=1"]:
            options = eval(f"dict({case})", {"torch": torch})
            log.raises(lambda m=make, s=shape, o=options: m([torch.ones(s)], **o))
    for options in ({"lr": torch.tensor(0.1)}, {"betas": (torch.tensor(0.9), torch.tensor(0.9))}):
        log.raises(lambda o=options: torch.optim.Adam([torch.ones(1)], foreach=True, **o))
    log.raises(lambda: torch.optim.Adam([torch.ones(1)], betas=(torch.tensor(0.9), 0.9)))
    log.raises(lambda: torch.optim.Adam([torch.ones(1)], lr=torch.tensor(-0.5)))
    log.raises(lambda: torch.optim.Muon([torch.ones(1)]))
    log.raises(lambda: torch.optim.LBFGS([{"params": [torch.ones(1)]} for _ in range(2)]))


@program
def options_refused_by_step(torch, log):
    for name in "Adam Adamax NAdam RAdam RMSprop Adadelta Rprop ASGD".split():
        for options in ({}, {"foreach": True}, {"foreach": True, "differentiable": True}):
            p = torch.nn.Parameter(torch.ones(2))
            p.grad = torch.ones(2)
            chosen = {"capturable": "differentiable" not in options, **options}
            log.raises(getattr(torch.optim, name)([p], **chosen).step)
    for name in ("Adam", "SGD", "Adagrad"):
        p = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
        p.grad = torch.ones(2, dtype=torch.complex64)
        log.raises(getattr(torch.optim, name)([p], fused=True).step)
    for name in ("Adafactor", "Muon"):
        p = torch.nn.Parameter(torch.ones(2, 2, dtype=torch.complex64))
        p.grad = torch.ones(2, 2, dtype=torch.complex64)
        log.raises(getattr(torch.optim, name)([p]).step)
    p = torch.nn.Parameter(torch.ones(2, 2))
    p.grad = torch.ones(2, 2)
    log.raises(torch.optim.Muon([p], ns_steps=100).step)
    log.raises(torch.optim.Muon([p], ns_coefficients=(1.0, 2.0)).step)
    log.raises(torch.optim.LBFGS([p]).step)
    log.raises(lambda: torch.optim.Optimizer([p], {"lr": 0.1}).step())
