"""Traps: state of optimizers, tensors and modules that is read and changes."""

# ruff: noqa: N801, N805, N806  (small classes and constants of one trap)

from __future__ import annotations

from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn

# --- optimizers and schedulers read by hand


def weighted():
    w = nn.Parameter(numbers(0))
    return w, T.optim.SGD([w], lr=0.1, momentum=0.5)


@trap
def lr_of_param_groups(compile):
    _, opt = weighted()

    @compile
    def f(x):
        return work(x) * opt.param_groups[0]["lr"]

    def before(i):
        opt.param_groups[0]["lr"] = 0.1 * (1 + phase(i))

    return Trap(f, before)


@trap
def lr_of_every_group(compile):
    _, opt = weighted()

    @compile
    def f(x):
        for group in opt.param_groups:
            x = work(x) * group["lr"]
        return x

    def before(i):
        opt.param_groups[0]["lr"] = 0.1 * (1 + phase(i))

    return Trap(f, before)


@trap
def get_last_lr(compile):
    _, opt = weighted()
    sch = T.optim.lr_scheduler.ExponentialLR(opt, 0.5)

    @compile
    def f(x):
        return work(x) * sch.get_last_lr()[0]

    def before(i):
        if i:
            opt.step()
            sch.step()

    return Trap(f, before)


@trap
def last_epoch(compile):
    _, opt = weighted()
    sch = T.optim.lr_scheduler.StepLR(opt, 2)

    @compile
    def f(x):
        return work(x) * (sch.last_epoch + 1)

    def before(i):
        if i:
            opt.step()
            sch.step()

    return Trap(f, before)


@trap
def weight_decay_by_hand(compile):
    _, opt = weighted()

    @compile
    def f(x):
        return work(x) + opt.param_groups[0]["weight_decay"]

    def before(i):
        opt.param_groups[0]["weight_decay"] = float(phase(i))

    return Trap(f, before)


@trap
def number_of_groups(compile):
    _, opt = weighted()

    @compile
    def f(x):
        return work(x) * len(opt.param_groups)

    def before(i):
        if i in (5, 7):
            opt.add_param_group({"params": [nn.Parameter(numbers(i))]})

    return Trap(f, before)


@trap
def state_of_optimizer(compile):
    w, opt = weighted()

    @compile
    def f(x):
        return work(x) * (2.0 if w in opt.state else 1.0)

    def before(i):
        if i == 5:
            w.grad = numbers(0)
            opt.step()
        if i == 8:
            opt.state.clear()

    return Trap(f, before)


@trap
def defaults_of_optimizer(compile):
    _, opt = weighted()

    @compile
    def f(x):
        return work(x) * opt.defaults["lr"]

    def before(i):
        opt.defaults["lr"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def lr_in_step_by_hand(compile):
    """A whole step without an optimizer, whose rate a scheduler sets."""
    w = nn.Parameter(numbers(0))
    opt = T.optim.SGD([w], lr=0.1)
    sch = T.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 0.7**epoch)

    @compile
    def f(x):
        w.grad = None
        loss = (work(x) * w).pow(2).sum()
        loss.backward()
        with T.no_grad():
            w.sub_(opt.param_groups[0]["lr"] * w.grad)
        return loss.detach()

    def before(i):
        if i:
            sch.step()

    return Trap(f, before, state=lambda: w)


# --- attributes of tensors, parameters, modules


@trap
def attribute_of_tensor(compile):
    t = numbers(1)

    @compile
    def f(x):
        return work(x) * t.scale

    def before(i):
        t.scale = 1.0 + phase(i)

    return Trap(f, before)


@trap
def attribute_of_parameter(compile):
    p = nn.Parameter(numbers(1))

    @compile
    def f(x):
        return work(x) * p.scale + p.detach()

    def before(i):
        p.scale = 1.0 + phase(i)

    return Trap(f, before)


@trap
def attribute_of_parameter_by_getattr(compile):
    p = nn.Parameter(numbers(1))

    @compile
    def f(x):
        return work(x) * getattr(p, "sca" + "le", 5.0)

    def before(i):
        if phase(i):
            p.scale = 1.0 + phase(i)
        elif hasattr(p, "scale"):
            del p.scale

    return Trap(f, before)


@trap
def flag_on_parameters_of_module(compile):
    net = nn.Linear(3, 3).double()

    @compile
    def f(x):
        for p in net.parameters():
            if not getattr(p, "frozen", False):
                x = work(x) + p.detach().sum()
        return x

    def before(i):
        net.weight.frozen = phase(i) == 1

    return Trap(f, before)


@trap
def requires_grad_of_parameter(compile):
    p = nn.Parameter(numbers(1))

    @compile
    def f(x):
        return work(x) * (2.0 if p.requires_grad else 3.0)

    def before(i):
        p.requires_grad_(phase(i) != 1)

    return Trap(f, before)


@trap
def attribute_of_module(compile):
    class Net(nn.Module):
        scale = 1.0

        def forward(self, x):
            return work(x) * self.scale

    net = Net()

    def before(i):
        net.scale = 1.0 + phase(i)

    return Trap(compile(net), before)


@trap
def attribute_of_class_of_module(compile):
    class Net(nn.Module):
        scale = 1.0

        def forward(self, x):
            return work(x) * self.scale

    def before(i):
        Net.scale = 1.0 + phase(i)

    return Trap(compile(Net()), before)


@trap
def dict_of_module(compile):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.options = {"deep": {"scale": 1.0}}

        def forward(self, x):
            return work(x) * self.options["deep"]["scale"]

    net = Net()

    def before(i):
        net.options["deep"]["scale"] = 1.0 + phase(i)

    return Trap(compile(net), before)


@trap
def training_of_a_module_elsewhere(compile):
    other = nn.Module()

    @compile
    def f(x):
        return work(x) * (1.0 if other.training else 2.0)

    def before(i):
        other.train(phase(i) != 1)

    return Trap(f, before)


@trap
def submodule_replaced(compile):
    net = nn.Sequential(nn.Tanh(), nn.Softplus(), nn.Sigmoid())

    def before(i):
        net[1] = (nn.Softplus, nn.ReLU, nn.Hardtanh)[phase(i)]()

    return Trap(compile(net), before)


@trap
def buffer_replaced(compile):
    net = nn.Module()
    net.register_buffer("b", numbers(1))

    @compile
    def f(x):
        return work(x) * net.b

    def before(i):
        if i in (5, 7):
            net.b = numbers(i)

    return Trap(f, before)


@trap
def buffer_gone(compile):
    net = nn.Module()
    net.register_buffer("b", numbers(1))

    @compile
    def f(x):
        return work(x) * (1.0 if net.b is None else net.b)

    def before(i):
        net.b = None if phase(i) == 1 else numbers(1)

    return Trap(f, before)


@trap
def module_list_grows(compile):
    layers = nn.ModuleList([nn.Tanh()])

    @compile
    def f(x):
        for layer in layers:
            x = work(layer(x))
        return x

    def before(i):
        if i in (5, 7):
            layers.append(nn.Sigmoid())

    return Trap(f, before)
