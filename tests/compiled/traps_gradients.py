"""Traps: gradients that are summed up from several contributions, views and writes."""

# ruff: noqa: N801, N805, N806

from __future__ import annotations

from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn
from tapegrad.nn import functional as F


def layer(name, function, *shape):
    """A function in four forms: its gradients outside, inside, by autograd.grad, and in a step."""

    def made(kind, build):
        build.__name__ = f"{name}_{kind}"
        trap(build)

    def outside(compile):
        @compile
        def f(x):
            return function(x.tanh().sin()).cos()

        return Trap(f, args=lambda i: (numbers(i, *shape),))

    def inside(compile):
        @compile
        def f(x):
            x = x.detach().requires_grad_()
            out = function(x.tanh().sin()).cos()
            (out * out).sum().backward()
            return out.detach(), x.grad

        return Trap(f, args=lambda i: (numbers(i, *shape),))

    def asked(compile):
        @compile
        def f(x):
            x = x.detach().requires_grad_()
            out = function(x.tanh().sin()).cos()
            (grad,) = T.autograd.grad((out * out).sum(), x)
            return out.detach(), grad

        return Trap(f, args=lambda i: (numbers(i, *shape),))

    def step(compile):
        w = nn.Parameter(numbers(50, *shape))
        opt = T.optim.SGD([w], lr=0.1, momentum=0.9)

        @compile
        def f(x):
            opt.zero_grad()
            loss = function((x * w).tanh()).cos().sum()
            loss.backward()
            opt.step()
            return loss

        return Trap(f, args=lambda i: (numbers(i, *shape),), state=lambda: w)

    for kind, build in (("outside", outside), ("inside", inside), ("asked", asked), ("step", step)):
        made(kind, build)


layer("pad_reflect", lambda x: F.pad(x, (1, 1), mode="reflect"), 1, 4)
layer("pad_replicate", lambda x: F.pad(x, (2, 1), mode="replicate"), 1, 4)
layer("pad_circular", lambda x: F.pad(x, (1, 2), mode="circular"), 1, 4)
layer("interpolate_linear", lambda x: F.interpolate(x, size=7, mode="linear"), 1, 2, 4)
layer("interpolate_nearest", lambda x: F.interpolate(x, size=7), 1, 2, 4)
layer("adaptive_avg_pool", lambda x: F.adaptive_avg_pool1d(x, 4), 1, 10)
layer("adaptive_max_pool", lambda x: F.adaptive_max_pool1d(x, 4), 1, 10)
layer("avg_pool_overlapping", lambda x: F.avg_pool1d(x, 3, 1), 1, 6)
layer("lp_pool", lambda x: F.lp_pool1d(x + 2, 2, 3, 1), 1, 6)
layer("unfold_overlapping", lambda x: x.unfold(1, 3, 1), 2, 6)
layer("unfold_images", lambda x: F.unfold(x, 3, padding=1), 1, 2, 4, 4)
layer("fold", lambda x: F.fold(x, (4, 4), 3, padding=1), 1, 18, 16)
layer("as_strided", lambda x: x.as_strided((3, 3), (1, 1)), 6)
layer("local_response_norm", lambda x: F.local_response_norm(x, 2), 1, 4, 5)
layer("grid_sample", lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1)), 1, 2, 4, 4)
layer("expand", lambda x: x.expand(3, 4) * T.arange(12.0, dtype=T.float64).view(3, 4), 1, 4)
layer("gather_repeated", lambda x: x.gather(1, T.tensor([[0, 0, 1, 1, 0]])), 1, 4)
layer("index_repeated", lambda x: x[:, [0, 0, 1]], 2, 4)
layer("embedding_repeated", lambda x: F.embedding(T.tensor([0, 0, 1, 0]), x), 3, 4)
layer("repeat_interleave", lambda x: x.repeat_interleave(3, 1), 2, 3)
layer("cumprod", lambda x: (x + 2).cumprod(1), 2, 4)
layer("logcumsumexp", lambda x: x.logcumsumexp(1), 2, 4)
layer("cat_twice", lambda x: T.cat([x, x * 2, x]), 2, 3)
layer("split_and_stack", lambda x: T.stack([p * k for k, p in enumerate(x.split(1, 1))]), 2, 4)
layer("diagonal", lambda x: x.diagonal() + x.sum(), 3, 3)
layer("conv_transpose", lambda x: F.conv_transpose1d(x, x[:, :, :2].repeat(2, 1, 1)), 1, 2, 4)
layer("median", lambda x: x.median(1).values + x.mean(1), 2, 5)
layer("amax_ties", lambda x: x.round(decimals=0).amax(1) * x.sum(1), 2, 5)
layer("sort", lambda x: x.sort(1).values * T.arange(5.0, dtype=T.float64), 2, 5)
layer("rfft", lambda x: T.fft.rfft(x).abs(), 2, 6)
layer("irfft", lambda x: T.fft.irfft(T.fft.rfft(x) * 2), 2, 6)
layer("complex_product", lambda x: (T.complex(x, x + 1) * 2j).abs(), 2, 3)
layer("index_put_accumulate", lambda x: x.index_put((T.tensor([0, 0]),), x[:2], True), 3, 3)
layer("masked_fill", lambda x: x.masked_fill(x > 0, 0.5), 2, 3)
layer("masked_scatter", lambda x: x.masked_scatter(x > 0, x * 2), 2, 3)
layer("where_of_both", lambda x: T.where(x > 0, x.exp(), x * x), 2, 3)
layer("norm_of_zero", lambda x: (x - x.detach()).norm() + x, 2, 3)
layer("cdist", lambda x: T.cdist(x, x * 2 + 1), 3, 2)
layer("softmax_twice", lambda x: x.softmax(0) + x.softmax(1), 2, 3)
layer("max_pool_overlapping", lambda x: F.max_pool1d(x, 3, 1), 1, 6)


def written(name, function):
    """A function that writes into a value which it made of its argument."""

    def build(compile):
        @compile
        def f(x):
            y = work(x)
            function(y)
            return y.cos()

        return Trap(f, args=lambda i: (numbers(i, 3, 4),))

    def inside(compile):
        @compile
        def f(x):
            x = x.detach().requires_grad_()
            y = work(x)
            function(y)
            (y.cos() * y).sum().backward()
            return y.detach(), x.grad

        return Trap(f, args=lambda i: (numbers(i, 3, 4),))

    build.__name__, inside.__name__ = f"write_{name}", f"write_{name}_inside"
    trap(build)
    trap(inside)


def add_to_a_row(y):
    y[0] += 1


def multiply_a_column(y):
    y[:, 1] *= 2.5


def set_a_row(y):
    y[1] = y[0].sin()


def write_through_a_mask(y):
    y[y > 0] = 0.5


def scale_through_a_mask(y):
    y[y > 0] *= 2


def write_through_indices(y):
    y[[0, 2], [1, 1]] = y[0, 0] * 2


def write_through_a_transpose(y):
    y.t()[0].mul_(2)


def write_through_a_diagonal(y):
    y.diagonal().add_(1)


def add_by_an_index(y):
    y.index_add_(0, T.tensor([0, 0, 1]), y.detach() * 2)


def scatter_into(y):
    y.scatter_(1, T.tensor([[0], [1], [2]]), y[:, :1] * 3)


def write_through_a_view_of_a_view(y):
    y[1:][0][::2].sub_(1)


def write_through_unbind(y):
    for k, row in enumerate(y.unbind(1)):
        row.data.add_(k)


def copy_into_a_slice(y):
    y[1:].copy_(y[:2].clone() * 2)


def fill_and_masked_fill(y):
    y.masked_fill_(y < 0, 0.1)
    y[0, 0] = 3


for name, function in list(vars().items()):
    if callable(function) and getattr(function, "__code__", None) is not None:
        if function.__code__.co_varnames[:1] == ("y",):
            written(name, function)


# --- autograd


@trap
def second_derivative(compile):
    @compile
    def f(x):
        x = x.detach().requires_grad_()
        (grad,) = T.autograd.grad(work(x).sum(), x, create_graph=True)
        (second,) = T.autograd.grad((grad * grad).sum(), x)
        return grad.detach(), second

    return Trap(f)


@trap
def second_derivative_of_a_pad(compile):
    @compile
    def f(x):
        x = x.detach().requires_grad_()
        out = F.pad(x.exp(), (1, 1), mode="reflect").pow(3).sum()
        (grad,) = T.autograd.grad(out, x, create_graph=True)
        (second,) = T.autograd.grad((grad * grad).sum(), x)
        return grad.detach(), second

    return Trap(f)


@trap
def create_graph_outside(compile):
    @compile
    def f(x):
        return work(x).exp()

    def called(x):
        x = x.detach().requires_grad_()
        (grad,) = T.autograd.grad(f(x).sum(), x, create_graph=True)
        (second,) = T.autograd.grad((grad * grad).sum(), x)
        return grad.detach(), second

    return Trap(called)


@trap
def retain_graph_outside(compile):
    @compile
    def f(x):
        return work(x).exp()

    def called(x):
        x = x.detach().requires_grad_()
        out = f(x)
        out.sum().backward(retain_graph=True)
        (out * 2).sum().backward()
        return x.grad

    return Trap(called)


@trap
def part_of_the_results_differentiated(compile):
    @compile
    def f(x):
        return work(x), work(x * 2), x.exp().detach()

    def called(x, k):
        x = x.detach().requires_grad_()
        f(x)[k].sum().backward()
        return x.grad

    return Trap(called, args=lambda i: (numbers(i), phase(i) % 2))


@trap
def backward_passes_in_another_order(compile):
    @compile
    def f(x):
        return work(x).exp()

    def called(x):
        xs = [(x * k).detach().requires_grad_() for k in range(3)]
        outs = [f(x) for x in xs]
        for out in reversed(outs):
            out.sum().backward()
        return [x.grad for x in xs]

    return Trap(called)


@trap
def gradients_accumulate(compile):
    w = nn.Parameter(numbers(1))

    @compile
    def f(x):
        (work(x) * w).sum().backward()

    def before(i):
        if i % 4 == 0:
            w.grad = None

    return Trap(f, before, state=lambda: w)


@trap
def gradients_accumulate_outside(compile):
    w = nn.Parameter(numbers(1))

    @compile
    def f(x):
        return work(x) * w

    def before(i):
        if i % 4 == 0:
            w.grad = None

    return Trap(f, before, state=lambda: w)


@trap
def gradient_set_by_hand(compile):
    w = nn.Parameter(numbers(1))
    opt = T.optim.SGD([w], lr=0.1)

    @compile
    def f(x):
        w.grad = work(x)
        opt.step()

    return Trap(f, state=lambda: w)


@trap
def gradient_scaled_in_place(compile):
    w = nn.Parameter(numbers(1))

    @compile
    def f(x):
        w.grad = None
        (work(x) * w).sum().backward()
        w.grad.mul_(0.5)
        w.grad[0] += 1
        return w.grad.norm()

    return Trap(f, state=lambda: w)


@trap
def hook_that_changes_gradients(compile):
    w = nn.Parameter(numbers(1))
    box = [1.0]
    w.register_hook(lambda grad: grad * box[0])

    @compile
    def f(x):
        w.grad = None
        (work(x) * w).sum().backward()
        return w.grad.clone()

    def before(i):
        box[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def hook_on_a_value_inside(compile):
    @compile
    def f(x):
        h = work(x)
        if h.requires_grad:
            h.register_hook(lambda grad: grad * 3 + 1)
        return h.exp()

    return Trap(f)


@trap
def retain_grad_inside(compile):
    w = nn.Parameter(numbers(1))

    @compile
    def f(x):
        h = work(x) * w
        h.retain_grad()
        h.exp().sum().backward()
        return h.grad

    return Trap(f, state=lambda: w)


@trap
def custom_function(compile):
    class Doubled(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x

    @compile
    def f(x):
        return Doubled.apply(work(x)).cos()

    return Trap(f)


@trap
def custom_function_with_numpy(compile):
    class Sine(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            import numpy as np

            ctx.save_for_backward(x)
            return T.from_numpy(np.sin(x.numpy()))

        @staticmethod
        def backward(ctx, grad):
            import numpy as np

            (x,) = ctx.saved_tensors
            return grad * T.from_numpy(np.cos(x.numpy()))

    @compile
    def f(x):
        return Sine.apply(work(x)).cos()

    return Trap(f)


@trap
def custom_function_with_state(compile):
    log = []

    class Counted(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            log.append(1)
            return grad * 2

    @compile
    def f(x):
        return Counted.apply(work(x)).cos()

    return Trap(f, state=lambda: log)


@trap
def checkpointed(compile):
    from tapegrad.utils.checkpoint import checkpoint

    w = nn.Parameter(numbers(1))

    @compile
    def f(x):
        w.grad = None
        out = checkpoint(lambda v: work(v * w).exp(), x, use_reentrant=False)
        out.sum().backward()
        return out.detach()

    return Trap(f, state=lambda: w)


@trap
def checkpointed_with_dropout(compile):
    from tapegrad.utils.checkpoint import checkpoint

    w = nn.Parameter(numbers(1))

    @compile
    def f(x):
        w.grad = None
        out = checkpoint(lambda v: F.dropout(work(v * w), 0.5), x, use_reentrant=False)
        out.sum().backward()
        return out.detach()

    return Trap(f, state=lambda: w)


@trap
def vmap_and_grad(compile):
    @compile
    def f(x):
        return T.func.vmap(T.func.grad(lambda row: work(row).sum()))(x)

    return Trap(f)


@trap
def jacobian(compile):
    @compile
    def f(x):
        return T.autograd.functional.jacobian(lambda v: work(v).cumsum(0), x[0])

    return Trap(f)


@trap
def forward_mode(compile):
    from tapegrad.autograd import forward_ad

    @compile
    def f(x):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, x * 2)
            return forward_ad.unpack_dual(work(dual)).tangent * 1

    return Trap(f)


@trap
def no_grad_inside(compile):
    @compile
    def f(x):
        with T.no_grad():
            scale = work(x).sum()
        return work(x) * scale

    return Trap(f)


@trap
def inference_mode_inside(compile):
    @compile
    def f(x):
        with T.inference_mode():
            out = work(x)
        return out, out.is_inference()

    return Trap(f)


@trap
def detach_in_the_middle(compile):
    @compile
    def f(x):
        h = work(x)
        return h * h.detach() + h.data.sum()

    return Trap(f)


@trap
def sparse_gradient(compile):
    table = nn.Embedding(5, 3, sparse=True).double()

    @compile
    def f(k):
        table.weight.grad = None
        out = work(table(k)).sum()
        out.backward()
        return out.detach()

    def args(i):
        return (T.tensor([0, 1 + phase(i), 0, 3]),)

    return Trap(f, args=args, state=lambda: table.weight)


@trap
def sparse_gradient_with_an_optimizer(compile):
    table = nn.Embedding(5, 3, sparse=True).double()
    opt = T.optim.SparseAdam(table.parameters(), lr=0.1)

    @compile
    def f(k):
        opt.zero_grad()
        out = work(table(k)).sum()
        out.backward()
        opt.step()
        return out.detach()

    def args(i):
        return (T.tensor([0, 1 + phase(i), 0, 3]),)

    return Trap(f, args=args, state=lambda: table.weight)


@trap
def sum_of_a_mask(compile):
    @compile
    def f(x):
        mask = x > 0
        return work(x) * mask.sum() + sum([mask[0], mask[1]]) + mask.sum(0) + (mask + mask)

    return Trap(f)


@trap
def accuracy_of_a_batch(compile):
    @compile
    def f(x, y):
        hits = work(x).argmax(1) == y
        return hits.sum(), hits.float().mean(), hits.sum() / len(y)

    return Trap(f, args=lambda i: (numbers(i, 4, 3), T.tensor([0, 1, 2, 0])))


@trap
def weight_given_twice(compile):
    w = nn.Parameter(numbers(1, 3, 3))
    opt = T.optim.SGD([w], lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        loss = ((work(x) @ w).tanh() @ w.t()).pow(2).sum()
        loss.backward()
        opt.step()
        return loss

    return Trap(f, state=lambda: w)


def argument_written_before_its_gradients(compile, layers):
    """A layer keeps its input for the gradient of its weight: a write in between is an error."""
    net = nn.Sequential(*layers).double()
    f = compile(lambda x: net(x).exp())

    def g(i):
        x = numbers(i, 5, 3)
        y = f(x)
        if i % 3:
            with T.no_grad():
                x.add_(1)
        try:
            y.sum().backward()
        except RuntimeError as error:
            net.zero_grad()  # eager calls have found the gradients of the last layers by then
            return str(error).partition("\n")[0]
        return y.detach()

    return Trap(g, args=lambda i: (i,), state=lambda: list(net.parameters()))


@trap
def argument_written_before_its_gradients_of_a_net(compile):
    layers = [nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 2)]
    return argument_written_before_its_gradients(compile, layers)


@trap
def argument_written_before_its_gradients_of_one_layer(compile):
    return argument_written_before_its_gradients(compile, [nn.Linear(3, 4)])


class Squared(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


@trap
def argument_written_before_its_gradients_of_a_function(compile):
    w = nn.Parameter(numbers(1, 3))
    f = compile(lambda x, which: Squared.apply(x * w) * x if which else print(end="") or x * w)

    def g(i):
        x = numbers(i, 5, 3)
        y = f(x, i % 2)
        if i % 3:
            with T.no_grad():
                x.mul_(2)
        y.sum().backward()
        return y.detach()

    return Trap(g, args=lambda i: (i,), state=lambda: w)
