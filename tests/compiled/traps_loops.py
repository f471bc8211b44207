"""Traps: batches, state between calls, hooks and several compiled functions."""

# ruff: noqa: N801

from __future__ import annotations

import copy

import numpy as np
from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def rows(i):
    return (numbers(i, 5, 3),)


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
