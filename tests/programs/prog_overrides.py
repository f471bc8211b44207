"""`torch.overrides`: modes and classes that see public functions."""

from programs.harness import program


def naming(torch, seen, prefix=""):
    class Naming(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(prefix + str(torch.overrides.resolve_name(func)))
            return func(*args, **(kwargs or {}))

    return Naming()


@program
def modes_see_functions(torch, log):
    seen = []
    x = torch.ones(2)
    calls = [
        lambda: (x + 1, 1 + x, x * x, x @ x, -x, abs(x), x - 1, x / 2, x > 0, x < x),
        lambda: (x**2, 2 - x, 1 / x, 2**x, x // 2, x % 2),
        lambda: (torch.add(x, 1), x.add(1), x.sum(), torch.sum(x), x.clone().add_(1), x[0]),
        lambda: (torch.zeros(2), torch.tensor([1.0]), torch.ones_like(x), torch.arange(3)),
        lambda: (torch.cat([x, x]), torch.where(x > 0, x, x), torch.linalg.norm(x), x.detach()),
        lambda: (torch.nn.functional.relu(x), torch.nn.functional.linear(x, torch.ones(1, 2))),
        lambda: (torch.nn.functional.softmax(x, dim=0), torch.softmax(x, 0), x.unsqueeze(0)),
        lambda: (torch.is_tensor(x), torch.manual_seed(0), torch.get_default_dtype(), repr(x)),
        lambda: torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.ones(2, 3)),
    ]
    with naming(torch, seen):
        for call in calls:
            seen.clear()
            call()
            log(list(seen))


@program
def modes_see_what_a_transformed_function_calls(torch, log):
    """The operands that the user wrote, not the operations of a transform's rules."""
    seen = []

    def f(x):
        with naming(torch, seen):
            return ((x * x).sin() / 2 - x).sum()

    x = torch.ones(2)
    for g in (torch.func.grad(f), torch.func.hessian(f), lambda x: torch.func.jvp(f, (x,), (x,))):
        for call in (g, torch.func.vmap(g)):
            seen.clear()
            call(torch.ones(3, 2) if call is not g else x)
            log(list(seen))


@program
def function_modes_nest(torch, log):
    overrides = torch.overrides
    seen = []
    x = torch.ones(2)
    log(overrides._get_current_function_mode())
    with naming(torch, seen, "outer ") as outer, naming(torch, seen, "inner ") as inner:
        torch.add(x, 1)
        log(list(seen), overrides._get_current_function_mode() is inner)
        log(overrides._get_current_function_mode_stack() == [outer, inner])
        log(overrides._len_torch_function_stack(), overrides.has_torch_function((x,)))
        seen.clear()
        with torch._C.DisableTorchFunction():
            torch.add(x, 1)
        log(list(seen))
        with overrides._pop_mode_temporarily() as mode:
            log(mode is inner)
            torch.add(x, 1)
        log(list(seen))
    log(overrides.has_torch_function((x,)))


@program
def function_modes_answer(torch, log):
    class Replacing(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.add or func is torch.Tensor.mul:
                return "replaced"
            return func(*args, **(kwargs or {}))

    class Refusing(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    class Wider(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if func in (torch.zeros, torch.ones):
                kwargs.setdefault("dtype", torch.float64)
            return func(*args, **kwargs)

    x = torch.ones(2)
    with Replacing():
        log(torch.add(x, 1), x * 2, torch.sub(x, 1))
    with Wider():
        log(torch.zeros(2), torch.ones(1), torch.full((1,), 2.0))
    with Refusing():
        log.raises(lambda: torch.add(x, 1))
    with torch.overrides.BaseTorchFunctionMode():
        log(torch.add(x, 1))


@program
def classes_see_functions(torch, log):
    seen = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(torch.overrides.resolve_name(func))
            return super().__torch_function__(func, types, args, kwargs or {})

    s = Asked([1.0, 2.0])
    weight = torch.ones(1, 2)
    calls = [
        lambda: (s + 1, s * s, torch.add(s, 1), s.add(1), s.sum(), s[0]),
        lambda: (torch.nn.functional.linear(s, weight), torch.nn.functional.relu(s)),
        lambda: (torch.cat([s, s]), torch.stack([s, torch.ones(2)]), s.unsqueeze(0)),
    ]
    for call in calls:
        seen.clear()
        log([type(r).__name__ for r in call()], list(seen))
    seen.clear()
    with naming(torch, seen, "mode "):
        torch.add(s, 1)
    log(seen)


@program
def questions(torch, log):
    overrides = torch.overrides

    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "mine"

    x, s = torch.ones(1), Mine([1.0])
    log(overrides.has_torch_function((x,)), overrides.has_torch_function((s,)))
    log(overrides.has_torch_function_unary(s), overrides.has_torch_function_variadic(x, s))
    log(overrides.is_tensor_like(s), overrides.is_tensor_like(3))
    log(overrides.is_tensor_method_or_property(torch.Tensor.add))
    log(overrides.is_tensor_method_or_property(torch.add))
    functions = [torch.add, torch.Tensor.add, torch.nn.functional.relu, torch.linalg.norm]
    functions += [torch.fft.fft, torch.special.erf, torch.Tensor.__getitem__, len]
    log([overrides.resolve_name(f) for f in functions])
    log(
        torch.add in overrides.get_testing_overrides(),
        torch.is_tensor in overrides.get_ignored_functions(),
    )
    log([type(v).__name__ for v in overrides._get_overloaded_args((x, s, s))])
    log.raises(lambda: overrides.enable_reentrant_dispatch().__enter__())

    @overrides.wrap_torch_function(lambda a: (a,))
    def function(a):
        return "plain"

    log(function(x), function(s))


@program
def modes_see_fields_and_methods(torch, log):
    seen = []
    x = torch.ones(2, 2)[0].detach()
    y = torch.ones(2, 2)
    with naming(torch, seen):
        log(x.shape, y.mT, x.device.type)
        found = (x.size(), len(x), x.dim(), x.stride(), bool(x[0]), float(x[1]))
        x.requires_grad_()
        x.sum().backward()
        x.grad = None
    log(found, seen)


@program
def classes_see_fields_and_methods(torch, log):
    seen = []

    class Seeing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Shaped(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.Tensor.size or func == torch.Tensor.shape.__get__:
                return torch.Size([7])
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Seeing)
    found = (x.shape, x.grad, x.requires_grad, x.is_leaf, x.dtype, x.ndim, x.grad_fn, x._version)
    found += (x.size(), len(x), x.dim(), x.numel(), x.stride(), x.is_contiguous())
    log(found, seen)
    x.requires_grad_()
    x.sum().backward()
    names = [type(t).__name__ for t in (x.grad, x.data, x.real, x.detach())]
    log(names, seen)
    shaped = torch.ones(2).as_subclass(Shaped)
    log(shaped.shape, shaped.size(), shaped.dim(), (shaped + 1).shape)


class Answers:
    """No tensor, but asked by functions that it is an argument of."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, len(args)


@program
def objects_as_index_value_and_argument_of_writes(torch, log):
    a, t = Answers(), torch.arange(4.0)
    log(t[a], t[0, a], t[..., a])
    log(t.masked_fill_(a, 1.0), t.add_(a), t.copy_(a))
    t[a] = 1.0
    t[0] = a
    t[:2] = a
    log(t, torch.overrides.is_tensor_like(a))
    log.raises(lambda: t["a"])
    log.raises(lambda: t.__setitem__(0, "a"))


@program
def asking_is_switched_on_again(torch, log):
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    C = torch._C
    mine = torch.ones(1).as_subclass(Mine)
    log(C._is_torch_function_enabled(), C._is_torch_function_all_disabled())
    with C.DisableTorchFunctionSubclass():
        log(C._is_torch_function_enabled(), C._is_torch_function_all_disabled())
        log(type(torch.add(mine, 1)).__name__)
        with C._EnableTorchFunction():
            log(torch.add(mine, 1), C._is_torch_function_enabled())
    with C.DisableTorchFunction():
        log(C._is_torch_function_enabled(), C._is_torch_function_all_disabled())
        log(type(torch.add(mine, 1)).__name__)


@program
def devices_for_a_block(torch, log):
    import importlib

    place = importlib.import_module(torch.__name__ + ".utils._device")
    log(place.CURRENT_DEVICE)
    context = place.DeviceContext("meta")
    with context:
        log(str(context.device), str(torch.zeros(2).device))
    log(str(place.set_device("meta")(lambda: torch.zeros(2).device)()), str(torch.zeros(2).device))
