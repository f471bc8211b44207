"""Learning rate schedulers: their sequences to the last bit, state, resuming, warnings, errors."""

import copy

from programs.harness import program


def sgd(torch, lr=0.1, **options):
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=lr, momentum=0.9, **options)


def two_groups(torch, name="SGD", **options):
    groups = [{"params": [torch.ones(1)]}, {"params": [torch.ones(1)], "lr": 0.4}]
    return getattr(torch.optim, name)(groups, lr=0.1, **options)


def exact(values):
    return [[repr(v) for v in row] for row in values]


def sequence(optimizer, scheduler, steps=15):
    """The learning rates of all groups, step by step, as exact text."""
    rates = [scheduler.get_last_lr()]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        rates.append(scheduler.get_last_lr())
        assert rates[-1] == [g["lr"] for g in optimizer.param_groups]
    return exact(rates)


def schedulers(torch):
    """Every scheduler that steps without arguments, by name: a function of the optimizer."""
    s = torch.optim.lr_scheduler
    return {
        "lambda": lambda o, **k: s.LambdaLR(o, lambda e: 0.95**e, **k),
        "multiplicative": lambda o, **k: s.MultiplicativeLR(o, lambda e: 0.9 + 0.01 * e, **k),
        "step": lambda o, **k: s.StepLR(o, 3, **k),
        "step, gamma": lambda o, **k: s.StepLR(o, step_size=4, gamma=0.7, **k),
        "multi step": lambda o, **k: s.MultiStepLR(o, [2, 5, 5, 9], gamma=0.3, **k),
        "constant": lambda o, **k: s.ConstantLR(o, **k),
        "constant, factor": lambda o, **k: s.ConstantLR(o, factor=0.3, total_iters=4, **k),
        "linear": lambda o, **k: s.LinearLR(o, **k),
        "linear, down": lambda o, **k: s.LinearLR(o, 1.0, 0.1, total_iters=7, **k),
        "exponential": lambda o, **k: s.ExponentialLR(o, 0.83, **k),
        "polynomial": lambda o, **k: s.PolynomialLR(o, **k),
        "polynomial, power": lambda o, **k: s.PolynomialLR(o, total_iters=8, power=2.5, **k),
        "cosine": lambda o, **k: s.CosineAnnealingLR(o, 6, **k),
        "cosine, least": lambda o, **k: s.CosineAnnealingLR(o, T_max=4, eta_min=0.01, **k),
        "cyclic": lambda o, **k: s.CyclicLR(o, 0.01, 0.1, step_size_up=3, **k),
        "cyclic, uneven": lambda o, **k: s.CyclicLR(
            o, 0.01, 0.1, step_size_up=2, step_size_down=3, mode="triangular2", **k
        ),
        "cyclic, exponential": lambda o, **k: s.CyclicLR(
            o, 0.01, 0.1, step_size_up=3, mode="exp_range", gamma=0.9, **k
        ),
        "cyclic, own scale": lambda o, **k: s.CyclicLR(
            o, 0.01, 0.1, step_size_up=2, scale_fn=lambda x: 1 / (1 + x), scale_mode="cycle", **k
        ),
        "cyclic, own scale by iteration": lambda o, **k: s.CyclicLR(
            o, 0.01, 0.1, step_size_up=2, scale_fn=lambda x: 0.9**x, scale_mode="iterations", **k
        ),
        "restarts": lambda o, **k: s.CosineAnnealingWarmRestarts(o, 4, **k),
        "restarts, longer": lambda o, **k: s.CosineAnnealingWarmRestarts(
            o, T_0=2, T_mult=2, eta_min=0.005, **k
        ),
        "one cycle": lambda o, **k: s.OneCycleLR(o, 0.5, total_steps=20, **k),
        "one cycle, linear": lambda o, **k: s.OneCycleLR(
            o, 0.5, epochs=4, steps_per_epoch=5, anneal_strategy="linear", pct_start=0.5, **k
        ),
        "one cycle, three phases": lambda o, **k: s.OneCycleLR(
            o, 0.5, total_steps=17, three_phase=True, div_factor=10.0, final_div_factor=50.0, **k
        ),
    }


@program
def sequences(torch, log):
    for name, make in schedulers(torch).items():
        optimizer = sgd(torch)
        log(name, sequence(optimizer, make(optimizer)))


@program
def sequences_of_two_groups(torch, log):
    for name, make in schedulers(torch).items():
        optimizer = two_groups(torch, momentum=0.9)
        log(name, sequence(optimizer, make(optimizer)))
    s = torch.optim.lr_scheduler
    for make in (
        lambda o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)]),
        lambda o: s.MultiplicativeLR(o, [lambda e: 0.9, lambda e: 0.5]),
        lambda o: s.CyclicLR(o, [0.01, 0.1], [0.2, 0.3], step_size_up=3),
        lambda o: s.OneCycleLR(o, [0.3, 0.6], total_steps=16, base_momentum=[0.8, 0.7]),
    ):
        optimizer = two_groups(torch, momentum=0.9)
        log(sequence(optimizer, make(optimizer)))


@program
def sequences_with_a_tensor_for_the_rate(torch, log):
    for name, make in schedulers(torch).items():
        rate = torch.tensor(0.1)
        optimizer = sgd(torch, lr=rate)
        scheduler = make(optimizer)
        rates = [scheduler.get_last_lr()[0].item()]
        for _ in range(8):
            optimizer.step()
            scheduler.step()
            rates.append(scheduler.get_last_lr()[0].item())
        log(name, rates, optimizer.param_groups[0]["lr"] is rate)


@program
def momentum_goes_the_other_way(torch, log):
    s = torch.optim.lr_scheduler
    for name in ("SGD", "Adam", "RMSprop"):
        for make in (
            lambda o: s.CyclicLR(o, 0.01, 0.1, step_size_up=3, base_momentum=0.7),
            lambda o: s.OneCycleLR(o, 0.5, total_steps=8, max_momentum=0.9),
            lambda o: s.OneCycleLR(o, 0.5, total_steps=9, three_phase=True, cycle_momentum=False),
        ):
            optimizer = two_groups(torch, name)
            scheduler = make(optimizer)
            seen = []
            for _ in range(7):
                optimizer.step()
                scheduler.step()
                group = optimizer.param_groups[1]
                seen.append(repr(group.get("betas", group.get("momentum"))))
            log(name, seen, sorted(group))


@program
def states(torch, log):
    for name, make in schedulers(torch).items():
        optimizer = sgd(torch)
        scheduler = make(optimizer)
        for _ in range(4):
            optimizer.step()
            scheduler.step()
        state = scheduler.state_dict()
        log(name, {k: dict(v) if k == "milestones" else v for k, v in state.items()})
        group = optimizer.param_groups[0]
        log({k: v for k, v in group.items() if k != "params"})


@program
def states_go_on(torch, log):
    for name, make in schedulers(torch).items():
        optimizer = sgd(torch)
        scheduler = make(optimizer)
        for _ in range(4):
            optimizer.step()
            scheduler.step()
        saved = copy.deepcopy(scheduler.state_dict()), copy.deepcopy(optimizer.state_dict())
        expected = sequence(optimizer, scheduler, 6)
        other = sgd(torch, lr=0.7)
        resumed = make(other)
        other.load_state_dict(saved[1])
        resumed.load_state_dict(saved[0])
        log(name, sequence(other, resumed, 6) == expected, expected)


@program
def resumed_at_an_epoch(torch, log):
    for name, make in schedulers(torch).items():
        for last_epoch in (0, 1, 3, 4, 5):
            optimizer = sgd(torch, lr=0.07)
            group = optimizer.param_groups[0]
            group.update(initial_lr=0.1, max_lr=0.5, min_lr=0.001)
            group.update(max_momentum=0.9, base_momentum=0.8)
            scheduler = make(optimizer, last_epoch=last_epoch)
            log(name, sequence(optimizer, scheduler, 4), exact([scheduler.base_lrs]))
    log.raises(lambda: torch.optim.lr_scheduler.StepLR(sgd(torch), 2, last_epoch=3))


@program
def steps_to_an_epoch(torch, log):
    for name, make in schedulers(torch).items():
        optimizer = sgd(torch)
        scheduler = make(optimizer)
        optimizer.step()
        log(name)
        for epoch in (3, 0, 7, 1):
            log.warns(lambda s=scheduler, e=epoch: s.step(e))
            log(exact([scheduler.get_last_lr()]), scheduler.last_epoch)


@program
def fractions_of_epochs(torch, log):
    for t_mult in (1, 2, 3):
        optimizer = sgd(torch)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2, t_mult)
        for epoch in (0, 0.25, 1.5, 2, 3.75, 8, 11.5, 1):
            scheduler.step(epoch)
            log(exact([scheduler.get_last_lr()]), scheduler.T_cur, scheduler.T_i)
        scheduler.step()
        log(exact([scheduler.get_last_lr()]), scheduler.last_epoch)
    log.raises(lambda: scheduler.step(-1))


@program
def plateau(torch, log):
    values = [5.0, 4.0, 4.0, 3.9999, 3.9, 3.9, 3.9, 3.9, 3.8, 4.0, 4.0, 4.0, 4.0, 1.0, 1.0]
    for options in (
        {"patience": 1},
        {"patience": 0, "factor": 0.5},
        {"patience": 1, "cooldown": 2, "factor": 0.5},
        {"mode": "max", "patience": 2},
        {"mode": "max", "patience": 1, "threshold_mode": "abs", "threshold": 0.5},
        {"patience": 1, "threshold_mode": "abs", "threshold": 0.05},
        {"patience": 0, "min_lr": 0.02},
        {"patience": 0, "min_lr": [0.01, 0.3], "factor": 0.3},
        {"patience": 0, "eps": 0.05},
    ):
        optimizer = two_groups(torch)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        rates = [scheduler.get_last_lr()]
        for value in values:
            scheduler.step(torch.tensor(value))
            rates.append(scheduler.get_last_lr())
        log(exact(rates), scheduler.state_dict(), scheduler.in_cooldown)
        twin = torch.optim.lr_scheduler.ReduceLROnPlateau(two_groups(torch))
        twin.load_state_dict(scheduler.state_dict())
        twin.step(0.5)
        log(twin.state_dict())
    log.warns(lambda: scheduler.step(1.0, epoch=3))
    log(scheduler.last_epoch)


@program
def plateau_errors(torch, log):
    make = torch.optim.lr_scheduler.ReduceLROnPlateau
    for options in (
        {"factor": 1.0},
        {"mode": "x"},
        {"threshold_mode": "x"},
        {"min_lr": [0.1, 0.2]},
        {"verbose": True},
    ):
        log.raises(lambda o=options: make(sgd(torch), **o))
    log.raises(lambda: make(3))
    log.raises(lambda: make(sgd(torch)).step())
    for least in (0.0, [0.01]):
        optimizer = sgd(torch)
        scheduler = make(optimizer, patience=0, min_lr=least)
        optimizer.add_param_group({"params": [torch.ones(1)]})
        scheduler.step(1.0)
        log.raises(lambda s=scheduler: s.step(2.0))
        log(scheduler.min_lrs)


@program
def one_after_the_other(torch, log):
    s = torch.optim.lr_scheduler
    for make in (
        lambda o: s.SequentialLR(o, [s.ConstantLR(o, 0.1), s.ExponentialLR(o, 0.9)], [3]),
        lambda o: s.SequentialLR(
            o,
            [s.LinearLR(o, 0.1, total_iters=4), s.CosineAnnealingLR(o, 5), s.StepLR(o, 2)],
            [4, 9],
        ),
        lambda o: s.SequentialLR(
            o, [s.SequentialLR(o, [s.ConstantLR(o), s.StepLR(o, 2)], [2]), s.LinearLR(o)], [6]
        ),
        lambda o: s.SequentialLR(
            o, [s.ChainedScheduler([s.ConstantLR(o), s.StepLR(o, 2)]), s.ExponentialLR(o, 0.9)], [6]
        ),
        lambda o: s.SequentialLR(o, [s.MultiplicativeLR(o, lambda e: 0.9), s.StepLR(o, 2)], [5]),
    ):
        optimizer = sgd(torch)
        scheduler = make(optimizer)
        log(sequence(optimizer, scheduler), scheduler.state_dict())
        other = sgd(torch)
        resumed = make(other)
        resumed.load_state_dict(copy.deepcopy(scheduler.state_dict()))
        other.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"]
        log(sequence(other, resumed, 3) == sequence(optimizer, scheduler, 3))


@program
def all_at_once(torch, log):
    s = torch.optim.lr_scheduler
    for make in (
        lambda o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.9)]),
        lambda o: s.ChainedScheduler([s.ConstantLR(o), s.StepLR(o, 2, 0.5)], o),
        lambda o: s.ChainedScheduler((s.LinearLR(o), s.MultiStepLR(o, [3, 4]), s.StepLR(o, 5))),
    ):
        optimizer = two_groups(torch)
        scheduler = make(optimizer)
        log(sequence(optimizer, scheduler))
        log(scheduler.state_dict()["_last_lr"], len(scheduler.state_dict()["_schedulers"]))
        other = two_groups(torch)
        resumed = make(other)
        resumed.load_state_dict(copy.deepcopy(scheduler.state_dict()))
        log(resumed.get_last_lr())


@program
def combinations_refused(torch, log):
    s = torch.optim.lr_scheduler
    o, other = sgd(torch), sgd(torch)
    constant, plateau = s.ConstantLR(o), s.ReduceLROnPlateau(o)
    log.raises(lambda: s.SequentialLR(o, [], []))
    log.raises(lambda: s.SequentialLR(o, [constant, constant], [1, 2]))
    log.raises(lambda: s.SequentialLR(o, [constant, s.ConstantLR(other)], [1]))
    log.raises(lambda: s.SequentialLR(other, [constant, constant], [1]))
    log.raises(lambda: s.SequentialLR(o, [constant, plateau], [1]))
    log.raises(lambda: s.SequentialLR(o, [constant, 3], [1]))
    log.raises(lambda: s.ChainedScheduler([]))
    log.raises(lambda: s.ChainedScheduler([constant, s.ConstantLR(other)]))
    log.raises(lambda: s.ChainedScheduler([constant], other))
    log.raises(lambda: s.ChainedScheduler([constant, plateau]))


@program
def order_of_calls(torch, log):
    s = torch.optim.lr_scheduler

    def too_early():
        scheduler = s.StepLR(sgd(torch), 2)
        scheduler.step()
        scheduler.step()

    def replaced():
        optimizer = sgd(torch)
        scheduler = s.StepLR(optimizer, 2)
        optimizer.step = lambda: None
        scheduler.step()

    def right():
        optimizer = sgd(torch)
        first, second = s.StepLR(optimizer, 2), s.ExponentialLR(optimizer, 0.9)
        optimizer.step()
        first.step()
        second.step()
        return optimizer.param_groups[0]["lr"]

    for action in (too_early, replaced, right):
        log.warns(action)


@program
def asked_in_the_wrong_way(torch, log):
    for name, make in schedulers(torch).items():
        log(name)
        log.warns(lambda m=make: exact([m(sgd(torch)).get_lr()]))


@program
def bad_arguments(torch, log):
    s = torch.optim.lr_scheduler
    adagrad = torch.optim.Adagrad([torch.ones(1)])
    for action in (
        lambda: s.StepLR(3, 2),
        lambda: s.CyclicLR(3, 0.1, 0.2),
        lambda: s.OneCycleLR(3, 0.1, 10),
        lambda: s.StepLR(sgd(torch), 2, verbose=True),
        lambda: s.LambdaLR(sgd(torch), [lambda e: 1, lambda e: 1]),
        lambda: s.MultiplicativeLR(two_groups(torch), (lambda e: 1,)),
        lambda: s.ConstantLR(sgd(torch), factor=2),
        lambda: s.ConstantLR(sgd(torch), factor=-1),
        lambda: s.LinearLR(sgd(torch), start_factor=0),
        lambda: s.LinearLR(sgd(torch), start_factor=1.2),
        lambda: s.LinearLR(sgd(torch), end_factor=-1),
        lambda: s.CyclicLR(sgd(torch), 0.1, 0.2, mode="x"),
        lambda: s.CyclicLR(adagrad, 0.1, 0.2),
        lambda: s.CyclicLR(adagrad, 0.1, 0.2, cycle_momentum=False).get_last_lr(),
        lambda: s.CyclicLR(sgd(torch), [0.1, 0.1], 0.2),
        lambda: s.CyclicLR(sgd(torch), 0.1, [0.2, 0.3]),
        lambda: s.CosineAnnealingWarmRestarts(sgd(torch), 0),
        lambda: s.CosineAnnealingWarmRestarts(sgd(torch), 1.5),
        lambda: s.CosineAnnealingWarmRestarts(sgd(torch), 1, 0),
        lambda: s.CosineAnnealingWarmRestarts(sgd(torch), 1, eta_min="a"),
        lambda: s.OneCycleLR(sgd(torch), 0.1),
        lambda: s.OneCycleLR(sgd(torch), 0.1, total_steps=0),
        lambda: s.OneCycleLR(sgd(torch), 0.1, total_steps=1.5),
        lambda: s.OneCycleLR(sgd(torch), 0.1, epochs=0, steps_per_epoch=2),
        lambda: s.OneCycleLR(sgd(torch), 0.1, epochs=1, steps_per_epoch=0),
        lambda: s.OneCycleLR(sgd(torch), 0.1, total_steps=3, pct_start=2),
        lambda: s.OneCycleLR(sgd(torch), 0.1, total_steps=3, anneal_strategy="x"),
        lambda: s.OneCycleLR(adagrad, 0.1, 3),
        lambda: s.OneCycleLR(sgd(torch), [0.1, 0.2], 3),
        lambda: s.LRScheduler(sgd(torch)),
        lambda: s.ReduceLROnPlateau(sgd(torch)).get_lr(),
    ):
        log.raises(action)
    optimizer = sgd(torch)
    scheduler = s.OneCycleLR(optimizer, 0.1, total_steps=3)
    for _ in range(5):
        optimizer.step()
        log.raises(scheduler.step)


@program
def a_scheduler_of_ones_own(torch, log):
    s = torch.optim.lr_scheduler

    class Root(s._LRScheduler):
        def get_lr(self):
            return [lr / (1 + self.last_epoch) ** 0.5 for lr in self.base_lrs]

    optimizer = two_groups(torch)
    scheduler = Root(optimizer)
    log(sequence(optimizer, scheduler, 5), isinstance(scheduler, s.LRScheduler))
    log(scheduler.state_dict(), issubclass(s.StepLR, s._LRScheduler))
    log(issubclass(s.ReduceLROnPlateau, s.LRScheduler))


@program
def functions_with_a_state(torch, log):
    class Factor:
        def __init__(self, by):
            self.by = by

        def __call__(self, epoch):
            return self.by**epoch

    for make in (torch.optim.lr_scheduler.LambdaLR, torch.optim.lr_scheduler.MultiplicativeLR):
        scheduler = make(two_groups(torch), [Factor(0.5), lambda e: 1.0])
        log(scheduler.state_dict())
        other = make(two_groups(torch), [Factor(0.9), lambda e: 2.0])
        other.load_state_dict(scheduler.state_dict())
        log(other.lr_lambdas[0].by, other.state_dict())
    cyclic = torch.optim.lr_scheduler.CyclicLR(sgd(torch), 0.1, 0.2, scale_fn=Factor(0.5))
    log(cyclic.state_dict()["_scale_fn_custom"])


@program
def the_optimizer_keeps_its_ways(torch, log):
    optimizer = sgd(torch)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    seen = []
    optimizer.register_step_post_hook(lambda o, a, k: seen.append(o is optimizer))
    log(optimizer.step(lambda: 7), seen, optimizer.step.__name__)
    scheduler.step()
    twin = copy.deepcopy(optimizer)
    log(repr(twin), twin.step(), scheduler.optimizer is optimizer)
    log(list(optimizer.state_dict()["param_groups"][0]))
