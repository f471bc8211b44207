"""What programs ask of the engine under private names: callbacks, the pass and node at work."""

import importlib
import threading
import warnings

from programs.harness import program


def leaf(torch):
    return torch.tensor([1.0, 2.0], requires_grad=True)


@program
def callbacks(torch, log):
    engine = torch.autograd.Variable._execution_engine
    log.raises(lambda: engine.queue_callback(lambda: None))
    x = leaf(torch)
    order = []

    def finished():
        order.append(x.grad is not None)
        engine.queue_callback(lambda: order.append("after that"))

    def hook(grad):
        order.append("hook")
        engine.queue_callback(finished)

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    log(order)

    def fails():
        raise ValueError("from the callback")

    y = x * 2
    y.register_hook(lambda g: engine.queue_callback(fails))
    log.raises(lambda: y.sum().backward())
    log(engine.is_checkpoint_valid())


@program
def where_the_pass_is(torch, log):
    names = torch._C
    log(names._current_graph_task_id(), names._current_autograd_node())
    x = leaf(torch)
    y = x * 2
    y.register_hook(lambda g: log(names._current_graph_task_id() >= 0))
    y.register_hook(lambda g: log(names._current_autograd_node()))
    y.grad_fn.register_hook(lambda a, b: log(names._current_autograd_node()))
    x.register_hook(lambda g: log(names._current_autograd_node()))
    y.sum().backward()
    log(names._current_graph_task_id())


@program
def switches(torch, log):
    names = torch._C
    log(names._is_multithreading_enabled(), names.is_grad_enabled())
    with torch.autograd.set_multithreading_enabled(False):
        log(names._is_multithreading_enabled())
        seen = []
        t = threading.Thread(target=lambda: seen.append(names._is_multithreading_enabled()))
        t.start()
        t.join()
        log(seen)
    log(names._is_multithreading_enabled())
    decorated = torch.autograd.set_multithreading_enabled(False)(names._is_multithreading_enabled)
    log(decorated())
    names._set_multithreading_enabled(True)
    names._set_grad_enabled(False)
    log(torch.is_grad_enabled())
    names._set_grad_enabled(True)
    forward = torch.autograd.forward_ad
    log(names._is_fwd_grad_enabled(), forward._current_level)
    with forward.dual_level():
        log(forward._current_level)
    log(names._are_functorch_transforms_active())
    log(torch.func.vmap(lambda x: x * names._are_functorch_transforms_active())(torch.ones(2)))


@program
def uncounted_writes(torch, log):
    y = leaf(torch) * 1
    with torch.autograd._unsafe_preserve_version_counter(y):
        y.detach().mul_(2)
    log(y)


@program
def functions_without_gradients(torch, log):
    functions = torch._C._functions
    x = leaf(torch)
    y = functions.UndefinedGrad()(x)
    log(y, torch.autograd.grad(y.sum(), x, allow_unused=True))
    late = functions.DelayedError("too late", 1)(x)
    log(late)
    log.raises(lambda: late.sum().backward())
    two = functions.DelayedError("too late", 2)(x, x * 2)
    log(two)


@program
def classes_of_nodes(torch, log):
    functions = torch._C._functions
    x = leaf(torch)
    log(type(x.exp().grad_fn) is functions.ExpBackward0)
    log(isinstance((x * 2).grad_fn, functions.MulBackward0))
    log(isinstance(torch.autograd.graph.get_gradient_edge(x).node, functions.AccumulateGrad))
    log(hasattr(functions, "NoSuchBackward0"))
    log(isinstance(x.exp().grad_fn._raw_saved_result, torch._C._autograd.SavedTensor))


@program
def saved_tensor_hooks(torch, log):
    names = torch._C._autograd
    log(names._saved_tensors_hooks_is_enabled(), names._top_saved_tensors_default_hooks(False))
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        log(names._saved_tensors_hooks_is_enabled())
        log(names._saved_tensors_hooks_get_disabled_error_message())
    names._push_saved_tensors_default_hooks(lambda t: t * 2, lambda t: t)
    log(len(names._top_saved_tensors_default_hooks(False)))
    x = leaf(torch)
    y = x * x
    names._pop_saved_tensors_default_hooks()
    log(torch.autograd.grad(y.sum(), x)[0].clone())


@program
def old_functions(torch, log):
    class Plus(torch.autograd.function.InplaceFunction):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.add_(1)

        @staticmethod
        def backward(ctx, grad):
            return grad

    log(Plus.apply(leaf(torch) * 1))
    resize = importlib.import_module(f"{torch.__name__}.autograd._functions").Resize
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    y = resize.apply(x, (2, 2))
    log(y, torch.autograd.grad((y * y).sum(), x)[0].clone())
    log.raises(lambda: resize.apply(x, (2, 3)))


@program
def old_vmap(torch, log):
    names = importlib.import_module(f"{torch.__name__}._vmap_internals")
    x = torch.ones(2, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log(names.vmap(lambda t: t * 2)(x))
    log([(w.category.__name__, str(w.message)) for w in caught])
    log(names._vmap(lambda t: t.sum(), 0, 0, allow_none_pass_through=True)(x))
    log(names._vmap(lambda t: (t.sum(), None), 1, 0, allow_none_pass_through=True)(x))


@program
def handles(torch, log):
    x = leaf(torch)
    handle = x.register_hook(lambda g: g)
    log(list(handle.hooks_dict_ref()) == [handle.id], handle.extra_dict_ref)
    handle.remove()
    log(len(handle.hooks_dict_ref()))


@program
def unique_values(torch, log):
    x = torch.tensor([3, 1, 3, 2])
    log(torch._unique(x), torch._unique(x, sorted=True, return_inverse=True))
    log(torch._unique2(x, True, True, True), torch._unique2(x))


@program
def eigenpairs(torch, log):
    generator = torch.Generator().manual_seed(0)
    half = torch.randn(9, 9, dtype=torch.float64, generator=generator)
    a = half @ half.T
    b = torch.eye(9, dtype=torch.float64) * 2 + 0.1
    for options in ({}, {"k": 3}, {"k": 3, "largest": False}, {"k": 2, "B": b}):
        values, vectors = torch.lobpcg(a, **options)
        right = options.get("B", torch.eye(9, dtype=torch.float64))
        apart = (a @ vectors - right @ vectors * values).abs().max()
        log([round(v, 5) for v in values.tolist()], list(vectors.shape), bool(apart < 1e-4))
    log.raises(lambda: torch.lobpcg(a[:5, :5], k=2))
    log.raises(lambda: torch.lobpcg(a[:5], k=1))
