"""Graphs whose saved tensors are changed behind them: `.data = …`, hooks made while unpacking."""

from programs.harness import program
from programs.prog_backward import bare

FUNCTIONS = ("exp", "sin", "sigmoid", "relu", "prod", "sqrt")


@program
def data_is_set_after_it_was_saved(torch, log):
    F = torch.nn.functional
    for f in (
        *[getattr(torch, name) for name in FUNCTIONS],
        F.elu,
        F.gelu,
        F.softplus,
        lambda t: t * t,
        lambda t: torch.mm(t[None], t[:, None]),
        lambda t: F.layer_norm(t, (2,)) * t,
    ):
        for leaf in (True, False):
            a = torch.tensor([0.5, 0.7], dtype=torch.float64, requires_grad=True)
            b = a if leaf else a * 1
            y = f(b)
            b.data = torch.tensor([2.0, 3.0], dtype=torch.float64)
            log(bare(torch.autograd.grad(y.sum(), a)[0]))


@program
def data_is_set_twice_and_back(torch, log):
    w, x = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0], requires_grad=True)
    y = w * x
    first = w.data
    w.data = torch.tensor([7.0, 8.0])
    z = w * x
    w.data = torch.tensor([5.0, 6.0])
    log(*[bare(torch.autograd.grad(t.sum(), x, retain_graph=True)[0]) for t in (y, z)])
    w.data = first
    log(*[bare(torch.autograd.grad(t.sum(), x, retain_graph=True)[0]) for t in (y, z)])
    w.data = torch.ones(3)
    log.raises(lambda: torch.autograd.grad(y.sum(), x))


@program
def data_of_another_tensor_on_the_same_memory(torch, log):
    a = torch.tensor([0.5, 0.7], requires_grad=True)
    b = a * 1
    y = b.detach() * a
    b.data = torch.tensor([2.0, 3.0])
    log(bare(torch.autograd.grad(y.sum(), a)[0]))
    y = a.exp()
    y.data = torch.tensor([2.0, 3.0])
    log(bare(torch.autograd.grad(y.sum(), a)[0]))


@program
def data_that_a_function_saved(torch, log):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    for leaf in (True, False):
        a = torch.tensor([0.5, -0.7], requires_grad=True)
        b = a if leaf else a * 1
        y = Square.apply(b)
        b.data = torch.tensor([2.0, 3.0])
        log(bare(torch.autograd.grad(y.sum(), a)[0]))


@program
def hooks_made_while_a_value_is_unpacked(torch, log):
    def registering(register):
        seen = []

        def unpack(t):
            seen.append("unpack")
            getattr(y.grad_fn, register)(lambda *_: seen.append("hook"))
            return t

        x = torch.ones(2, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            y = x.exp()
        y.sum().backward()
        log(seen)

    registering("register_hook")
    registering("register_prehook")


@program
def second_derivatives_of_writes_through_views(torch, log):
    def through(write):
        x = torch.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=torch.float64, requires_grad=True)
        y = x * 1
        v = y.view(-1)[1:3]
        write(v, x)
        z = (v**2).sum() + (y**3).sum()
        (first,) = torch.autograd.grad(z, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        log(bare(first), bare(second), bare(torch.autograd.grad((second * first).sum(), x)[0]))

    through(lambda v, x: v.tanh_())
    through(lambda v, x: v.exp_())
    through(lambda v, x: v.mul_(v.clone()))
    through(lambda v, x: v.mul_(x[0]))


@program
def a_write_to_what_an_extremum_saved(torch, log):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for f in (torch.cummax, torch.cummin):
        b = x * 1
        y = f(b, 0)[0]
        with torch.no_grad():
            b.mul_(2)
        log.raises(lambda: y.sum().backward())  # noqa: B023
