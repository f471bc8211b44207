"""Nodes as objects: their classes, and what they answer when they are called."""

from programs.harness import program
from programs.prog_backward import bare


@program
def classes(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = (x * 2 + x.exp()).sum()
    seen = []
    node = y.grad_fn
    while node is not None:
        seen.append((type(node).__name__, type(node).__qualname__, type(node).__module__))
        edges = node.next_functions
        node = edges[0][0] if edges else None
    log(seen)
    log(type((x * 2).grad_fn) is type((x * 3).grad_fn))
    log(isinstance(x.exp().grad_fn, type(x.exp().grad_fn)))
    log(isinstance(x.exp().grad_fn, torch.autograd.graph.Node))
    log(y.grad_fn is y.grad_fn, y.grad_fn.next_functions[0][0] is y.grad_fn.next_functions[0][0])


@program
def reprs(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    for node in (y.grad_fn, y.grad_fn.next_functions[0][0]):
        log(repr(node).split(" at ")[0], node.name())


@program
def writes_and_views(torch, log):
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    part = y[:2]
    part.mul_(3)
    log([type(n).__name__ for n in (part.grad_fn, y.grad_fn)])
    log([None if g is None else bare(g) for g in y.grad_fn(torch.ones(3))])
    log([None if n is None else type(n).__name__ for n, _ in y.grad_fn.next_functions])


@program
def called(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    one = torch.ones(2)
    log((x + x).grad_fn(one))
    log((x * x).grad_fn(one))
    log(x.sum().grad_fn(torch.ones(())))
    log(x.exp().grad_fn(one))
    with torch.no_grad():
        log((x * x).grad_fn(one))
    log(x.unbind()[0].grad_fn(torch.ones(()), None))
    log.raises(lambda: (x * x).grad_fn(1.0))
    log.raises(lambda: (x * x).grad_fn())
    log.raises(lambda: (x * x).grad_fn(one, one))


@program
def called_hooks_are_not_asked(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.grad_fn.register_hook(lambda *_: log("hook"))
    y.grad_fn.register_prehook(lambda *_: log("before"))
    log(y.grad_fn(torch.ones(2)))


@program
def called_after_backward(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    node = y.grad_fn
    y.sum().backward()
    log.raises(lambda: node(torch.ones(2)))


@program
def called_leaf(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    leaf = (x * 2).grad_fn.next_functions[0][0]
    log(leaf(torch.ones(2)), x.grad)
    log(leaf(torch.ones(2)), x.grad)


@program
def called_function(torch, log):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * 2 + b

        @staticmethod
        def backward(ctx, grad):
            return grad * 2, grad

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = Double.apply(x, x * 1)
    log(type(y.grad_fn).__name__)
