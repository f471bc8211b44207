"""Traps: the common ways of training, in which state, modes and memory change hands."""

# ruff: noqa: N801

from __future__ import annotations

import copy

import numpy as np
from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn
from tapegrad.nn import functional as F


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def rows(i):
    return (numbers(i, 5, 3),)


@trap
def train_and_eval_inside(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).double()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x):
        net.train()
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        opt.step()
        net.eval()
        with T.no_grad():
            return loss.detach(), net(x)

    return Trap(f, args=rows, state=lambda: (net.state_dict(), net.training))


@trap
def train_inside_eval_outside(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).double()

    @compile
    def f(x):
        net.train()
        return net(x).detach()

    def before(i):
        net.eval()

    return Trap(f, before, args=rows, state=lambda: (net.state_dict(), net.training))


@trap
def eval_between_calls(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).double()

    def before(i):
        net.train(i % 3 != 2)

    return Trap(compile(net), before, args=rows, state=net.state_dict)


@trap
def dropout_rate_changes(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1), nn.Tanh(), nn.Linear(4, 4)).double()

    def before(i):
        net[1].p = 0.1 + 0.2 * phase(i)

    return Trap(compile(net), before, args=rows)


@trap
def batch_norm_momentum_changes(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh()).double()

    def before(i):
        net[1].momentum = (0.1, 0.5, None)[phase(i)]

    return Trap(compile(net), before, args=rows, state=net.state_dict)


@trap
def sam(compile):
    """Sharpness-aware minimization with `p.data =`."""
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        net(x).pow(2).sum().backward()
        olds = [p.data for p in net.parameters()]
        for p in net.parameters():
            p.data = p.data + 0.05 * p.grad / (p.grad.norm() + 1e-12)
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        for p, old in zip(net.parameters(), olds, strict=True):
            p.data = old
        opt.step()
        return loss.detach()

    return Trap(f, args=rows, state=net.state_dict)


@trap
def moving_average_of_weights(compile):
    net = network()
    average = copy.deepcopy(net)
    opt = T.optim.Adam(net.parameters(), lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        opt.step()
        with T.no_grad():
            for a, p in zip(average.parameters(), net.parameters(), strict=True):
                a.lerp_(p, 0.1)
        return loss.detach()

    return Trap(f, args=rows, state=lambda: (net.state_dict(), average.state_dict()))


@trap
def average_by_data(compile):
    net = network()
    average = copy.deepcopy(net)

    @compile
    def f(x):
        for a, p in zip(average.parameters(), net.parameters(), strict=True):
            a.data.mul_(0.9).add_(p.data, alpha=0.1)
        return average(x).detach()

    return Trap(f, args=rows, state=average.state_dict)


@trap
def target_network_now_and_then(compile):
    net, target = network(), network()
    opt = T.optim.SGD(net.parameters(), lr=0.05)
    calls = [0]

    @compile
    def f(x):
        with T.no_grad():
            wanted = target(x)
        opt.zero_grad()
        loss = F.mse_loss(net(x), wanted + 1)
        loss.backward()
        opt.step()
        calls[0] += 1
        if calls[0] % 3 == 0:
            target.load_state_dict(net.state_dict())
        return loss.detach()

    return Trap(f, args=rows, state=lambda: (net.state_dict(), target.state_dict(), calls))


@trap
def load_state_dict_between_calls(compile):
    net = network()
    kept = copy.deepcopy(net.state_dict())
    opt = T.optim.Adam(net.parameters(), lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        opt.step()
        return loss.detach()

    def before(i):
        if i in (5, 8):
            net.load_state_dict(kept)

    return Trap(f, before, args=rows, state=net.state_dict)


@trap
def load_state_dict_assign(compile):
    net = network()
    kept = copy.deepcopy(net.state_dict())

    @compile
    def f(x):
        return net(x).sin().exp()

    def before(i):
        if i in (5, 8):
            net.load_state_dict({k: v * i for k, v in kept.items()}, assign=True)

    return Trap(f, before, args=rows, state=net.state_dict)


@trap
def optimizer_state_loaded(compile):
    net = network()
    opt = T.optim.Adam(net.parameters(), lr=0.1)
    kept = []

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        opt.step()
        return loss.detach()

    def before(i):
        if i == 3:
            kept.append(copy.deepcopy(opt.state_dict()))
        if i in (6, 8):
            opt.load_state_dict(kept[0])

    return Trap(f, before, args=rows, state=lambda: opt.state_dict())


@trap
def clipping(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.5)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        opt.step()
        return loss.detach(), norm

    return Trap(f, args=rows, state=net.state_dict)


@trap
def clipping_that_changes(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.5)
    box = [0.1]

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), box[0])
        opt.step()
        return loss.detach()

    def before(i):
        box[0] = 0.1 * (1 + phase(i))

    return Trap(f, before, args=rows, state=net.state_dict)


@trap
def scheduler_inside(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.5)
    sch = T.optim.lr_scheduler.OneCycleLR(opt, 0.5, total_steps=20)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        sch.step()
        return loss.detach()

    def state():
        return net.state_dict(), sch.last_epoch, sch.get_last_lr(), opt.param_groups[0]["momentum"]

    return Trap(f, args=rows, state=state)


@trap
def scheduler_on_a_plateau(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.5)
    sch = T.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0, factor=0.5)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        sch.step(loss.detach())
        return loss.detach()

    def state():
        return net.state_dict(), opt.param_groups[0]["lr"], sch.num_bad_epochs, float(sch.best)

    return Trap(f, args=rows, state=state)


@trap
def warm_up_by_hand(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.0)

    @compile
    def f(x, i):
        for group in opt.param_groups:
            group["lr"] = 0.01 * min(i + 1, 5)
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return Trap(
        f,
        args=lambda i: (numbers(i, 5, 3), i),
        state=lambda: (net.state_dict(), opt.param_groups[0]["lr"]),
    )


@trap
def lbfgs(compile):
    w = nn.Parameter(numbers(1, 3))
    opt = T.optim.LBFGS([w], lr=0.1, max_iter=3)

    @compile
    def f(x):
        def closure():
            opt.zero_grad()
            loss = (x @ w).sin().pow(2).sum() + w.pow(2).sum()
            loss.backward()
            return loss

        return opt.step(closure).detach()

    return Trap(f, args=rows, state=lambda: w)


@trap
def closure_given_to_sgd(compile):
    w = nn.Parameter(numbers(1, 3))
    opt = T.optim.SGD([w], lr=0.1)
    calls = [0]

    @compile
    def f(x):
        def closure():
            calls[0] += 1
            opt.zero_grad()
            loss = (x @ w).sin().pow(2).sum()
            loss.backward()
            return loss

        return opt.step(closure).detach()

    return Trap(f, args=rows, state=lambda: (w, calls))


@trap
def accumulation(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x, i):
        loss = net(x).pow(2).mean() / 2
        loss.backward()
        if i % 2:
            opt.step()
            opt.zero_grad()
        return loss.detach()

    return Trap(f, args=lambda i: (numbers(i, 5, 3), i), state=lambda: list(net.parameters()))


@trap
def autocast(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        with T.autocast("cpu", dtype=T.bfloat16):
            out = net(x)
        loss = out.float().pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    # Sums of other orders are other bfloat16 numbers: the state would drift apart.
    return Trap(f, args=lambda i: (numbers(i, 5, 3).float(),))


@trap
def grad_scaler(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    opt = T.optim.SGD(net.parameters(), lr=0.1)
    scaler = T.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss.detach()

    def args(i):
        return (numbers(i, 5, 3) * (1.0, float("inf"), 1.0)[phase(i)],)

    return Trap(
        f,
        args=args,
        state=lambda: (net.state_dict(), scaler.get_scale(), scaler.state_dict()),
    )


@trap
def frozen_layers_change(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def before(i):
        net[0].requires_grad_(phase(i) != 1)

    return Trap(f, before, args=rows, state=lambda: list(net.parameters()))


@trap
def requires_grad_inside(compile):
    net, critic = network(), network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x):
        critic.requires_grad_(False)
        opt.zero_grad()
        loss = (net(x) * critic(x)).sum()
        loss.backward()
        opt.step()
        critic.requires_grad_(True)
        return loss.detach()

    def state():
        parameters = [*net.parameters(), *critic.parameters()]
        return parameters, [p.requires_grad for p in parameters]

    return Trap(f, args=rows, state=state)


@trap
def parameter_added_to_an_optimizer(compile):
    net = network()
    opt = T.optim.SGD(net[0].parameters(), lr=0.1, momentum=0.9)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def before(i):
        if i == 5:
            opt.add_param_group({"params": list(net[2].parameters()), "lr": 0.3})

    return Trap(f, before, args=rows, state=net.state_dict)


@trap
def gan(compile):
    g, d = network(), nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    opt_g = T.optim.Adam(g.parameters(), lr=0.01)
    opt_d = T.optim.Adam(d.parameters(), lr=0.01)

    @compile
    def f(x):
        fake = g(x)
        opt_d.zero_grad()
        loss_d = F.softplus(d(fake.detach())).mean() + F.softplus(-d(x[:, :2])).mean()
        loss_d.backward()
        opt_d.step()
        opt_g.zero_grad()
        loss_g = F.softplus(-d(fake)).mean()
        loss_g.backward()
        opt_g.step()
        return loss_d.detach(), loss_g.detach()

    return Trap(f, args=rows, state=lambda: (g.state_dict(), d.state_dict()))


@trap
def numpy_indices_of_a_batch(compile):
    data = numbers(0, 20, 3)
    net = network()
    rng = np.random.default_rng(0)

    @compile
    def f(index):
        return net(data[index]).sin()

    return Trap(f, args=lambda i: (rng.integers(0, 20, 5),))


@trap
def random_batch_inside(compile):
    data = numbers(0, 20, 3)
    net = network()

    @compile
    def f():
        index = T.randint(0, 20, (5,))
        return net(data[index]).sin()

    return Trap(f, args=lambda i: ())


@trap
def batch_by_a_slice(compile):
    data = numbers(0, 20, 3)
    net = network()

    @compile
    def f(i):
        return net(data[i : i + 5]).sin()

    return Trap(f, args=lambda i: (i,))


@trap
def loop_over_a_loader_inside(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)
    data = T.utils.data.TensorDataset(numbers(0, 12, 3))
    loader = T.utils.data.DataLoader(data, batch_size=4, shuffle=True)

    @compile
    def f():
        total = 0.0
        for (x,) in loader:
            opt.zero_grad()
            loss = net(x).pow(2).mean()
            loss.backward()
            opt.step()
            total += loss.item()
        return total

    return Trap(f, args=lambda i: (), state=net.state_dict)


@trap
def early_stopping(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)
    best = {"loss": float("inf"), "bad": 0, "state": None}

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        value = loss.item()
        if value < best["loss"]:
            best["loss"], best["bad"] = value, 0
            best["state"] = copy.deepcopy(net.state_dict())
        else:
            best["bad"] += 1
        return best["bad"] > 2

    return Trap(f, args=rows, state=lambda: (net.state_dict(), best))


@trap
def learning_rate_as_a_tensor(compile):
    net = network()
    rate = T.tensor(0.1, dtype=T.float64)
    opt = T.optim.Adam(net.parameters(), lr=rate)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def before(i):
        rate.fill_(0.1 * (1 + phase(i)))

    return Trap(f, before, args=rows, state=net.state_dict)


@trap
def hidden_state_kept_between_calls(compile):
    cell = nn.GRUCell(3, 4).double()
    box = [T.zeros(5, 4, dtype=T.float64)]

    @compile
    def f(x):
        box[0] = cell(x, box[0]).detach()
        return box[0].sin().cos().exp()

    return Trap(f, args=rows, state=lambda: box)


@trap
def hidden_state_given_back(compile):
    cell = nn.LSTMCell(3, 4).double()
    box = [(T.zeros(5, 4, dtype=T.float64), T.zeros(5, 4, dtype=T.float64))]

    @compile
    def f(x, state):
        return cell(x, state)

    def called(x):
        h, c = f(x, box[0])
        box[0] = h.detach(), c.detach()
        return h

    return Trap(called, args=rows, state=lambda: box)


@trap
def replay_buffer(compile):
    net = network()
    buffer = []

    @compile
    def f(x):
        with T.no_grad():
            out = work(net(x))
        buffer.append(out)
        if len(buffer) > 3:
            buffer.pop(0)
        return sum(buffer) / len(buffer)

    return Trap(f, args=rows, state=lambda: buffer)


@trap
def weight_norm_and_spectral_norm(compile):
    net = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)),
        nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2)),
    ).double()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return Trap(f, args=rows, state=net.state_dict)


@trap
def functional_call(compile):
    net = network()
    box = [{k: v.detach() for k, v in net.named_parameters()}]

    @compile
    def f(x):
        return T.func.functional_call(net, box[0], (x,)).sin()

    def before(i):
        box[0] = {k: v * (1 + phase(i)) for k, v in box[0].items()}

    return Trap(f, before, args=rows)


@trap
def hooks_added_and_removed(compile):
    net = network()
    handles = []

    def before(i):
        if i == 5:
            handles.append(net[1].register_forward_hook(lambda module, args, out: out * 2))
        if i == 8:
            handles.pop().remove()

    return Trap(compile(net), before, args=rows)


@trap
def pre_hook_that_changes_inputs(compile):
    net = network()
    box = [1.0]
    net[2].register_forward_pre_hook(lambda module, args: (args[0] * box[0],))

    def before(i):
        box[0] = 1.0 + phase(i)

    return Trap(compile(net), before, args=rows)


@trap
def backward_hook_of_a_module(compile):
    net = network()
    box = [1.0]
    net[1].register_full_backward_hook(lambda module, gi, go: (gi[0] * box[0],))

    def before(i):
        box[0] = 1.0 + phase(i)
        net.zero_grad()

    return Trap(compile(net), before, args=rows, state=lambda: list(net.parameters()))


@trap
def optimizer_hook(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)
    log = []
    opt.register_step_post_hook(lambda opt, args, options: log.append(opt.param_groups[0]["lr"]))

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return Trap(f, args=rows, state=lambda: (net.state_dict(), log))


@trap
def saved_tensor_hooks(compile):
    log = []

    @compile
    def f(x):
        x = x.detach().requires_grad_()

        def pack(t):
            log.append("pack")
            return t

        with T.autograd.graph.saved_tensors_hooks(pack, lambda t: t * 1):
            out = work(x).sum()
        out.backward()
        return x.grad

    return Trap(f, args=rows, state=lambda: len(log))


@trap
def two_threads(compile):
    import threading

    net = network()

    @compile
    def f(x):
        return net(x).sin().cos()

    def called(x):
        found = [None] * 3

        def run(k):
            with T.no_grad():
                found[k] = f(x * k)

        threads = [threading.Thread(target=run, args=(k,)) for k in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return found

    return Trap(called, args=rows)


@trap
def recursive_call_of_itself(compile):
    @compile
    def f(x, n):
        return work(x) if n == 0 else f(work(x), n - 1) * 2

    return Trap(f, args=lambda i: (numbers(i), 2 + phase(i)))


@trap
def compiled_inside_compiled(compile):
    box = [1.0]

    @compile
    def inner(x):
        return work(x) * box[0]

    @compile
    def f(x):
        return inner(work(x)).sin()

    def before(i):
        box[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def two_compiled_functions_of_one_model(compile):
    net = network()
    opt = T.optim.Adam(net.parameters(), lr=0.1)

    @compile
    def train(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    @compile
    def test(x):
        with T.no_grad():
            return net(x).sin().cos()

    def called(x):
        return train(x), test(x), train(x * 2), test(x)

    return Trap(called, args=rows, state=net.state_dict)


@trap
def deepcopied_model(compile):
    net = compile(network())

    def called(x):
        return net(x).sin(), copy.deepcopy(net)(x * 2)

    return Trap(called, args=rows)


@trap
def moved_to_another_dtype(compile):
    net = network()
    made = compile(net)

    def called(x, i):
        net.to((T.float64, T.float32, T.float64)[phase(i)])
        return made(x.to(net[0].weight.dtype)).double()

    # Weights that went through float32 are the same in both runs.
    return Trap(called, args=lambda i: (numbers(i, 5, 3), i))
