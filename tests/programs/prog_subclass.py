"""Subclasses of Tensor: what ops give back, and `__torch_function__`."""

from programs.harness import program


def make(torch):
    class Mine(torch.Tensor):
        pass

    return Mine


def names(*values):
    return [type(v).__name__ for v in values]


@program
def ops_keep_the_subclass(torch, log):
    t = make(torch)([1.0, 2.0])
    log(names(t, t * 2, 2 * t, t + torch.ones(2), torch.ones(2) + t, t.sum(), t[0], t.view(2, 1)))
    log(names(torch.cat([t, t]), torch.exp(t), t.detach(), t.clone(), t.data, t.split(1)[0]))
    log(names(t.max(0), t.max(0)[0]), t.tolist(), t.shape)


@program
def printing_and_gradients(torch, log):
    t = make(torch)([1.0, 2.0]).requires_grad_()
    y = t * t
    log(repr(t), repr(y))
    y.sum().backward()
    log(names(t.grad), t.grad)


@program
def conversion_of_plain_tensors(torch, log):
    cls = make(torch)
    x = torch.ones(2, requires_grad=True)
    y = x.as_subclass(cls)
    log(names(y, y * 2), y.requires_grad, y.grad_fn)
    (y * 3).sum().backward()
    log(x.grad.tolist())


@program
def parameters_stay_out(torch, log):
    p = torch.nn.Parameter(torch.ones(2))
    log(names(p, p * 2, p.data, p.detach()))


@program
def torch_function_is_asked(torch, log):
    calls = []

    class Watching(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(getattr(func, "__name__", "?"))
            return super().__torch_function__(func, types, args, kwargs or {})

    t = Watching([1.0, 2.0])
    results = [t * 2, torch.exp(t), torch.add(torch.ones(2), t)]
    log(names(*results), [c for c in calls if c in ("mul", "exp", "add")])
