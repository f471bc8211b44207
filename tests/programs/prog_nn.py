"""Modules, losses and SGD: registration, state, reprs, updates step by step, errors."""

from programs.harness import program


def linear(torch, weight, bias=None):
    """A Linear with weights given by hand."""
    layer = torch.nn.Linear(len(weight[0]), len(weight), bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
        if bias is not None:
            layer.bias.copy_(torch.tensor(bias))
    return layer


def two_layers(torch):
    return torch.nn.Sequential(
        linear(torch, [[0.5, -1.0], [1.5, 0.25], [-0.5, 2.0]], [0.1, -0.2, 0.3]),
        torch.nn.ReLU(),
        linear(torch, [[1.0, -0.5, 0.75]], [0.05]),
    )


def nested(torch):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(2, 2)
            self.scale = torch.nn.Parameter(torch.tensor([2.0]))
            self.register_buffer("count", torch.tensor(3))
            self.register_buffer("scratch", torch.zeros(1), persistent=False)

        def forward(self, x):
            return self.fc(x) * self.scale

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Block()
            self.act = torch.nn.ReLU()
            self.layers = torch.nn.Sequential(Block(), torch.nn.Linear(2, 1, bias=False))

        def forward(self, x):
            return self.layers(self.act(self.first(x)))

    return Net()


@program
def parameters_are_registered(torch, log):
    net = nested(torch)
    log([n for n, _ in net.named_parameters()], [p.shape for p in net.parameters()])
    log([n for n, _ in net.first.named_parameters(prefix="p")])
    log([n for n, _ in net.first.named_parameters(recurse=False)])


@program
def modules_and_children(torch, log):
    net = nested(torch)
    log([n for n, _ in net.named_modules()], [type(m).__name__ for m in net.modules()])
    log([n for n, _ in net.named_children()], [type(m).__name__ for m in net.children()])


@program
def buffers(torch, log):
    net = nested(torch)
    log([n for n, _ in net.named_buffers()], list(net.buffers()), net.first.count)
    log(list(net.state_dict()))


@program
def state_dict_keys_and_values(torch, log):
    net = two_layers(torch)
    state = net.state_dict()
    log(list(state), list(state.values()), type(state).__name__)


@program
def load_state_dict(torch, log):
    a, b = two_layers(torch), two_layers(torch)
    with torch.no_grad():
        for p in a.parameters():
            p.add_(1)
    log(repr(b.load_state_dict(a.state_dict())))
    log(list(b.parameters()))


@program
def load_state_dict_errors(torch, log):
    net = linear(torch, [[1.0, 2.0]], [0.0])
    log.raises(lambda: net.load_state_dict({}))
    log.raises(lambda: net.load_state_dict({"weight": torch.ones(1, 2), "bias": torch.ones(2)}))
    log.raises(lambda: net.load_state_dict({**net.state_dict(), "extra": torch.ones(1)}))
    log(repr(net.load_state_dict({"weight": torch.ones(1, 2), "x": torch.ones(1)}, strict=False)))
    log.raises(lambda: net.load_state_dict([1]))


@program
def train_and_eval(torch, log):
    net = nested(torch)
    log([m.training for m in net.modules()], net.eval() is net, [m.training for m in net.modules()])
    net.first.train()
    log([m.training for m in net.modules()], net.train().training, net.train(False).training)
    log.raises(lambda: net.train("yes"))


@program
def repr_of_modules(torch, log):
    log(repr(nested(torch)), repr(torch.nn.ReLU()), repr(torch.nn.ReLU(inplace=True)))
    log(repr(torch.nn.Linear(2, 3)), repr(torch.nn.Linear(2, 3, bias=False)))
    log(repr(torch.nn.MSELoss()))
    log(repr(torch.nn.Sequential()), repr(two_layers(torch)))


@program
def repr_of_an_empty_module(torch, log):
    class Nothing(torch.nn.Module):
        def extra_repr(self):
            return "a=1, b=2"

    log(repr(Nothing()), repr(torch.nn.Module()), str(torch.nn.Sequential(Nothing())))


@program
def zero_grad_of_a_module(torch, log):
    net = two_layers(torch)
    net(torch.tensor([[1.0, 2.0]])).sum().backward()
    log([p.grad for p in net.parameters()])
    net.zero_grad(set_to_none=False)
    log([p.grad for p in net.parameters()])
    net.zero_grad()
    log([p.grad for p in net.parameters()])


@program
def sequential_indexing(torch, log):
    net = two_layers(torch)
    log(len(net), type(net[0]).__name__, type(net[-2]).__name__, repr(net[:2]), repr(net[1:]))
    log([type(m).__name__ for m in net], list(net.state_dict()))
    net[1] = torch.nn.ReLU(inplace=True)
    net.append(torch.nn.Linear(1, 1))
    log(repr(net))
    del net[0]
    log(repr(net))
    log.raises(lambda: net[7])
    log.raises(lambda: net[-8])


@program
def sequential_from_a_dict(torch, log):
    from collections import OrderedDict

    net = torch.nn.Sequential(OrderedDict([("a", torch.nn.ReLU()), ("b", torch.nn.Linear(1, 1))]))
    log(repr(net), list(net.state_dict()), type(net.b).__name__)
    net.add_module("c", torch.nn.ReLU())
    log([n for n, _ in net.named_children()])


@program
def attribute_rules(torch, log):
    m = torch.nn.Module()
    m.w = torch.nn.Parameter(torch.ones(1))
    log.raises(lambda: setattr(m, "w", torch.ones(1)))
    m.w = None
    log(m.w, list(m.parameters()))
    log.raises(lambda: m.missing)
    log.raises(lambda: m.register_parameter("v", torch.ones(1)))
    log.raises(lambda: m.register_parameter("v", torch.ones(1, requires_grad=True) * 2))
    log.raises(lambda: m.register_parameter("a.b", None))
    log.raises(lambda: m.register_buffer("b", 3))
    log.raises(lambda: m.add_module("x", 3))
    m.b = torch.ones(1)
    log(list(m.state_dict()))
    del m.b
    log(hasattr(m, "b"))


@program
def assignment_before_init(torch, log):
    class Forgot(torch.nn.Module):
        def __init__(self):
            self.layer = torch.nn.Linear(1, 1)

    class ForgotParameter(torch.nn.Module):
        def __init__(self):
            self.w = torch.nn.Parameter(torch.ones(1))

    log.raises(Forgot)
    log.raises(ForgotParameter)


@program
def forward_not_implemented(torch, log):
    log.raises(lambda: torch.nn.Module()(1))


@program
def shared_parameters_are_listed_once(torch, log):
    m = torch.nn.Module()
    m.a = torch.nn.Linear(1, 1, bias=False)
    m.b = m.a
    log([n for n, _ in m.named_parameters()], list(m.state_dict()), len(list(m.modules())))
    log([n for n, _ in m.named_parameters(remove_duplicate=False)])


@program
def apply_and_requires_grad(torch, log):
    net = nested(torch)
    seen = []
    log(net.apply(lambda m: seen.append(type(m).__name__)) is net, seen)
    net.requires_grad_(False)
    log([p.requires_grad for p in net.parameters()])
    log(net(torch.ones(1, 2)).requires_grad)


@program
def module_conversions(torch, log):
    net = linear(torch, [[1.0, 2.0]], [0.5])
    p = net.weight
    log(net.double() is net, net.weight, net.weight is p, net.float().bias, net.half().bias.dtype)
    log(net.to(torch.float64).weight.dtype, net.to("cpu").bias.dtype)
    log.raises(lambda: net.to(torch.int64))


@program
def forward_hooks(torch, log):
    net = linear(torch, [[1.0, 2.0]], [0.5])
    seen = []
    h = net.register_forward_hook(lambda m, args, out: seen.append((args, out)))
    g = net.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    log(net(torch.tensor([1.0, 1.0])), seen)
    h.remove()
    g.remove()
    log(net(torch.tensor([1.0, 1.0])), len(seen))


@program
def linear_layer(torch, log):
    net = linear(torch, [[1.0, -2.0], [0.5, 3.0]], [0.5, -0.5])
    x = torch.tensor([[1.0, 2.0], [-1.0, 0.5]], requires_grad=True)
    y = net(x)
    log(y, net.in_features, net.out_features)
    y.backward(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    log(x.grad, net.weight.grad, net.bias.grad)
    log.raises(lambda: net(torch.ones(1, 3)))
    log.raises(lambda: net(torch.ones(1, 2, dtype=torch.float64)))
    log.raises(lambda: net([1.0, 2.0]))
    log(torch.nn.Linear(2, 2, bias=False).bias)


@program
def linear_default_shapes_and_bounds(torch, log):
    net = torch.nn.Linear(4, 3)
    log(net.weight.shape, net.bias.shape, bool((net.weight.abs() <= 0.5).all()))
    log(torch.nn.Linear(2, 1, dtype=torch.float64).weight.dtype)


@program
def relu_layer(torch, log):
    x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    y = torch.nn.ReLU()(x)
    y.sum().backward()
    log(y, x.grad)
    t = torch.tensor([-1.0, 2.0])
    log(torch.nn.ReLU(inplace=True)(t) is t, t, torch.nn.functional.relu(torch.tensor([-1, 1])))
    log.raises(lambda: torch.nn.ReLU(inplace=True)(x))


@program
def mse_loss_reductions(torch, log):
    a, b = torch.tensor([1.0, 2.0, 4.0], requires_grad=True), torch.tensor([0.5, 2.0, 1.0])
    for reduction in ("mean", "sum", "none"):
        loss = torch.nn.MSELoss(reduction=reduction)(a, b)
        a.grad = None
        loss.sum().backward()
        log(loss, a.grad)
    log.raises(lambda: torch.nn.MSELoss(reduction="median")(a, b))
    log(torch.nn.functional.mse_loss(a, b))


@program
def mse_loss_gradients_of_both(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor([3.0, -1.0], requires_grad=True)
    loss = torch.nn.MSELoss()(a, b)
    (g,) = torch.autograd.grad(loss, a, create_graph=True)
    log(g.tolist(), [t.tolist() for t in torch.autograd.grad(g.sum(), [a, b])])
    torch.nn.MSELoss()(a, b).backward()
    log(a.grad, b.grad)


@program
def mse_loss_warns_about_broadcasting(torch, log):
    loss = torch.nn.MSELoss()
    log.warns(lambda: loss(torch.ones(2, 1), torch.zeros(2)))
    log.raises(lambda: loss(torch.ones(2), torch.ones(3)))


def train(torch, log, steps=5, **options):
    """Five steps on a quadratic, logging parameter and buffer after each."""
    p = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))
    target = torch.tensor([0.25, 0.5, -1.0])
    optimizer = torch.optim.SGD([p], **options)
    for _ in range(steps):
        optimizer.zero_grad()
        ((p - target) ** 2).sum().backward()
        optimizer.step()
        log(p.tolist(), optimizer.state[p].get("momentum_buffer"))


@program
def sgd_plain(torch, log):
    train(torch, log, lr=0.1)


@program
def sgd_default_lr(torch, log):
    train(torch, log)


@program
def sgd_momentum(torch, log):
    train(torch, log, lr=0.1, momentum=0.9)


@program
def sgd_dampening(torch, log):
    train(torch, log, lr=0.1, momentum=0.9, dampening=0.5)


@program
def sgd_weight_decay(torch, log):
    train(torch, log, lr=0.1, weight_decay=0.25)


@program
def sgd_nesterov(torch, log):
    train(torch, log, lr=0.1, momentum=0.9, nesterov=True)


@program
def sgd_maximize(torch, log):
    train(torch, log, lr=0.01, momentum=0.5, maximize=True)


@program
def sgd_everything(torch, log):
    train(torch, log, lr=0.05, momentum=0.8, weight_decay=0.1, nesterov=True)
    train(torch, log, lr=0.05, momentum=0.8, weight_decay=0.1, dampening=0.3, maximize=True)


@program
def sgd_trains_a_network(torch, log):
    net = two_layers(torch)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    x = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.25, -0.75]])
    y = torch.tensor([[1.0], [0.0], [-1.0]])
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.MSELoss()(net(x), y)
        loss.backward()
        optimizer.step()
        log(loss.item())
    log([p.tolist() for p in net.parameters()], [p._version for p in net.parameters()])


@program
def sgd_param_groups(torch, log):
    a, b = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1, momentum=0.9)
    log([{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups])
    (a + b).sum().backward()
    optimizer.step()
    log(a, b)
    c = torch.nn.Parameter(torch.ones(2))
    optimizer.add_param_group({"params": [c], "weight_decay": 0.1})
    log(len(optimizer.param_groups), [len(g["params"]) for g in optimizer.param_groups])
    optimizer.param_groups[0]["lr"] = 0.0
    optimizer.step()
    log(a, b, c)


@program
def sgd_named_parameters(torch, log):
    net = linear(torch, [[1.0, 2.0]], [0.5])
    optimizer = torch.optim.SGD(net.named_parameters(), lr=0.1)
    log(optimizer.param_groups[0]["param_names"], list(optimizer.state_dict()["param_groups"][0]))


@program
def sgd_errors(torch, log):
    p = torch.nn.Parameter(torch.ones(1))
    sgd = torch.optim.SGD
    log.raises(lambda: sgd([], lr=0.1))
    log.raises(lambda: sgd(p, lr=0.1))
    log.raises(lambda: sgd([p], lr=-1))
    log.raises(lambda: sgd([p], lr=0.1, momentum=-1))
    log.raises(lambda: sgd([p], lr=0.1, weight_decay=-1))
    log.raises(lambda: sgd([p], lr=0.1, nesterov=True))
    log.raises(lambda: sgd([p], lr=0.1, momentum=0.9, dampening=0.1, nesterov=True))
    log.raises(lambda: sgd([1.0], lr=0.1))
    log.raises(lambda: sgd([p * 2], lr=0.1))
    log.raises(lambda: sgd([{"params": {p}}], lr=0.1))
    log.raises(lambda: sgd([{"params": [p]}, {"params": [p]}], lr=0.1))
    log.warns(lambda: len(sgd([p, p], lr=0.1).param_groups[0]["params"]))


@program
def sgd_repr(torch, log):
    p = torch.nn.Parameter(torch.ones(1))
    log(repr(torch.optim.SGD([p], lr=0.1)))
    log(repr(torch.optim.SGD([{"params": [p]}], lr=0.5, momentum=0.9, nesterov=True)))


@program
def sgd_state_dict(torch, log):
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    log(optimizer.state_dict())
    (p * p).sum().backward()
    optimizer.step()
    log(optimizer.state_dict(), optimizer.defaults)


@program
def sgd_load_state_dict(torch, log):
    p, q = (torch.nn.Parameter(torch.tensor([1.0, 2.0])) for _ in range(2))
    first = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    (p * p).sum().backward()
    first.step()
    second = torch.optim.SGD([q], lr=0.7)
    second.load_state_dict(first.state_dict())
    q.grad = torch.ones(2)
    second.step()
    log(q, second.param_groups[0]["lr"], second.state[q]["momentum_buffer"])
    other = torch.optim.SGD([p, q], lr=0.1)
    log.raises(lambda: other.load_state_dict(first.state_dict()))
    log.raises(lambda: other.load_state_dict({"state": {}, "param_groups": []}))


@program
def sgd_skips_parameters_without_grad(torch, log):
    a, b = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([a, b], lr=0.1, momentum=0.9)
    a.sum().backward()
    optimizer.step()
    log(a, b, len(optimizer.state), a._version, b._version)


@program
def sgd_closure(torch, log):
    p = torch.nn.Parameter(torch.tensor([2.0]))
    optimizer = torch.optim.SGD([p], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    log(optimizer.step(closure), p, optimizer.step(closure), p, optimizer.step())


@program
def optimizer_zero_grad(torch, log):
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=0.1)
    p.sum().backward()
    held = p.grad
    optimizer.zero_grad(set_to_none=False)
    log(held, p.grad is held)
    optimizer.zero_grad()
    log(p.grad)


@program
def parameters_update_under_no_grad(torch, log):
    net = linear(torch, [[1.0, 2.0]], [0.5])
    net(torch.ones(1, 2)).sum().backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
    log(list(net.parameters()))
