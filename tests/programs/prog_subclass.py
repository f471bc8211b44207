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


@program
def a_subclass_makes_the_result_its_own(torch, log):
    """Also where the function writes, makes a tensor, or reads memory as another dtype."""
    cls = make(torch)
    t = cls([1.0, 2.0])
    x = torch.ones(2)
    made = [torch.zeros_like(t), torch.empty_like(t), torch.full_like(t, 3.0), torch.rand_like(t)]
    log(names(*made, t.new_zeros(2), torch.nn.functional.dropout(t), t.view(torch.int32)))
    written = x.add_(t)
    log(names(written, x.mul_(t), x.copy_(t), x.addcmul_(t, t), x.clamp_(t, t + 1), x.eq_(t)))
    log(names(x.expand_as(t), x.view_as(t), x.type_as(t), x.to(t)), x, written is x)
    log(names(torch.add(t, 1, out=torch.empty(2)), torch.add(x, 1, out=torch.empty(2))))
    log(names(x), written.data_ptr() == x.data_ptr(), written._version)
    y = torch.ones(2, requires_grad=True) * 2
    z = y.mul_(t)
    log(names(y, z), type(y.grad_fn).__name__, type(z.grad_fn).__name__)


@program
def objects_with_torch_function_are_asked_by_functions_of_layers(torch, log):
    class Asked:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, [t.__name__ for t in types], len(args), sorted(kwargs or {})

    o, x = Asked(), torch.ones(2, 2)
    F = torch.nn.functional
    log(
        F.relu(o),
        F.relu(o, inplace=True),
        F.softmax(o, 0),
        F.softmin(o, 0),
        F.log_softmax(o, dim=1),
    )
    log(F.linear(o, x), F.linear(x, o)[0], F.linear(x, x, o)[0], F.linear(o, x, x)[1])

    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, len(args)

    log(torch.ones(2).as_subclass(Loud).view(torch.int32))
