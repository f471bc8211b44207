"""Traps: a kernel refuses a value in the middle of a replay, after and before writes of all kinds.

The state after the exception is compared as well: memory, versions, `.grad`, random numbers,
optimizers.
"""

from __future__ import annotations

from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn
from tapegrad.nn import functional as F


def rows(i):
    """Indices of five rows, of which one is out of range in between."""
    return T.tensor([0, 1, 4 + phase(i)])


def rows_and_numbers(i):
    return numbers(i, 3, 4), rows(i)


def known(*tensors):
    """Values, versions and gradients."""
    grads = [None if t.grad is None else t.grad.clone() for t in tensors]
    return [(t.detach().clone(), t._version, g) for t, g in zip(tensors, grads, strict=True)]


@trap
def index_after_a_write(compile):
    buffer, table = numbers(1, 3, 4), numbers(2, 5, 4)

    @compile
    def f(x, k):
        buffer.add_(x.sum())
        out = work(x) * table[k]
        buffer.mul_(0.5)
        return out + buffer

    return Trap(f, args=rows_and_numbers, state=lambda: known(buffer, table))


@trap
def index_between_draws(compile):
    table = numbers(2, 5, 4)
    other = T.Generator().manual_seed(3)

    @compile
    def f(x, k):
        noise = F.dropout(work(x), 0.5) + T.rand(3, 4, generator=other)
        return noise * table[k] + T.randn(3, 4)

    return Trap(f, args=rows_and_numbers, state=other.get_state)


@trap
def index_after_normal_numbers(compile):
    """The second of a pair of normal numbers is kept for the next draw."""
    table = numbers(2, 5, 4)

    @compile
    def f(x, k):
        return work(x) * T.randn(3, dtype=T.float64).sum() * table[k] + T.randn(1)

    return Trap(f, args=rows_and_numbers)


@trap
def class_after_running_statistics(compile):
    net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 5)).double()
    opt = T.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @compile
    def f(x, k):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), k)
        loss.backward()
        opt.step()
        return loss.detach()

    state = lambda: (known(*net.parameters(), *net.buffers()), opt.state_dict())  # noqa: E731
    return Trap(f, args=rows_and_numbers, state=state)


@trap
def class_before_gradients_are_forgotten(compile):
    """The gradients of the call before are still there when the loss refuses."""
    w = nn.Parameter(numbers(1, 4, 5))

    @compile
    def f(x, k):
        loss = F.cross_entropy((work(x) @ w).tanh(), k)
        w.grad = None
        loss.backward()
        return loss.detach()

    return Trap(f, args=rows_and_numbers, state=lambda: known(w))


@trap
def class_with_gradients_that_an_optimizer_forgets_later(compile):
    w = nn.Parameter(numbers(1, 3, 4))
    opt = T.optim.Adam([w], lr=0.1)
    table = numbers(2, 5, 4)

    @compile
    def f(x, k):
        loss = (work(x) * w.tanh() * 3).sum()
        opt.zero_grad()
        loss.backward()
        extra = table[k].sum()
        opt.step()
        return loss.detach() + extra

    return Trap(f, args=rows_and_numbers, state=lambda: (known(w), opt.state_dict()))


@trap
def index_before_gradients_are_forgotten_and_after_what_joins(compile):
    """What the backward pass computes may join the pass over the forward pass's elements."""
    w = nn.Parameter(numbers(1, 3, 4))
    opt = T.optim.SGD([w], lr=0.1)
    table = numbers(2, 5, 4)

    @compile
    def f(x, k):
        loss = (x.tanh() * w).sum() + table[k].sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return Trap(f, args=rows_and_numbers, state=lambda: known(w))


@trap
def gradients_that_add_up(compile):
    w = nn.Parameter(numbers(1, 3, 4))
    table = numbers(2, 5, 4)

    @compile
    def f(x, k):
        (work(x) * w).sum().backward()
        out = table[k] * 2
        (out * w).sum().backward()
        return out

    w.grad = numbers(3, 3, 4)
    return Trap(f, args=rows_and_numbers, state=lambda: known(w))


@trap
def second_optimizer_after_a_refusal(compile):
    a, b = nn.Parameter(numbers(1, 3, 4)), nn.Parameter(numbers(2, 5, 4))
    first, second = T.optim.Adam([a], lr=0.1), T.optim.RMSprop([b], lr=0.1)
    schedule = T.optim.lr_scheduler.ExponentialLR(first, 0.9)

    @compile
    def f(x, k):
        first.zero_grad()
        (work(x) * a).sum().backward()
        first.step()
        schedule.step()
        second.zero_grad()
        loss = (F.embedding(k, b) * a.detach()).sum()
        loss.backward()
        second.step()
        return loss.detach()

    def state():
        numbers = schedule.last_epoch, schedule.get_last_lr()
        return known(a, b), first.state_dict(), second.state_dict(), numbers

    return Trap(f, args=rows_and_numbers, state=state)


@trap
def matrix_after_an_optimizer(compile):
    w = nn.Parameter(T.eye(3, dtype=T.float64))
    opt = T.optim.AdamW([w], lr=0.1)
    seen = T.zeros(3, dtype=T.float64)

    @compile
    def f(x):
        opt.zero_grad()
        work(x * w).sum().backward()
        opt.step()
        seen.add_(1)
        return T.linalg.inv(x * 1.0).sin().cos()

    def args(i):
        return ((T.eye(3, dtype=T.float64) + 0.1 * numbers(i, 3, 3)) * (1.0, 0.0, 1.0)[phase(i)],)

    return Trap(f, args=args, state=lambda: (known(w, seen), opt.state_dict()))


@trap
def chances_after_writes(compile):
    buffer = numbers(1)

    @compile
    def f(x):
        buffer.add_(x)
        out = work(x) * T.bernoulli(x.abs())
        buffer.mul_(2)
        return out

    args = lambda i: (numbers(i) * (1 + 5 * phase(i)),)  # noqa: E731
    return Trap(f, args=args, state=lambda: known(buffer))


@trap
def statements_with_a_refusal(compile):
    """In pieces: a value is read between the forward pass and the backward pass."""
    net, table = nn.Linear(4, 4).double(), nn.Embedding(5, 4).double()
    params = [*net.parameters(), *table.parameters()]
    opt = T.optim.Adam(params, lr=0.1)
    seen = []

    @compile
    def f(x, k):
        opt.zero_grad()
        loss = (net(x).tanh() - 0.5).pow(2).mean() + net(x).sin().sum()
        seen.append(loss.item())
        loss.backward()
        extra = (table(k) * work(x)).sum()
        extra.backward()
        opt.step()
        return extra.detach()

    state = lambda: (known(*params), opt.state_dict(), seen)  # noqa: E731
    return Trap(f, args=rows_and_numbers, state=state)


@trap
def refusal_that_is_caught_by_the_caller_and_repeated(compile):
    """Many refusals in a row, and good calls after them."""
    buffer, table = numbers(1, 3, 4), numbers(2, 5, 4)

    @compile
    def f(x, k):
        buffer.add_(1)
        return work(x) * table[k] + buffer

    def args(i):
        return numbers(i, 3, 4), T.tensor([0, 1, 4 + (4 <= i < 9)])

    return Trap(f, args=args, state=lambda: known(buffer))
