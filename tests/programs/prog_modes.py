"""Grad modes: context managers, decorators, generators, coroutines, threads, inference tensors."""

import asyncio
import threading

from programs.harness import program
from programs.prog_backward import bare, caught, leaf

# The first warning would make this name while the harness walks over the module.
__warningregistry__ = {}


@program
def no_grad_block(torch, log):
    x = leaf(torch, 1.0, 2.0)
    log(torch.is_grad_enabled())
    with torch.no_grad():
        log(torch.is_grad_enabled(), x * 2, x.view(2, 1))
    log(torch.is_grad_enabled(), x * 2)


@program
def no_grad_does_not_stop_new_leaves(torch, log):
    with torch.no_grad():
        x = torch.tensor([1.0], requires_grad=True)
        y = torch.zeros(1).requires_grad_()
        log(x, y)
    (x * y).backward()
    log(bare(x.grad), bare(y.grad))


@program
def enable_grad_inside_no_grad(torch, log):
    x = leaf(torch, 1.0)
    with torch.no_grad():
        with torch.enable_grad():
            y = x * 2
            log(torch.is_grad_enabled(), y)
        log(torch.is_grad_enabled())
    y.backward()
    log(bare(x.grad))


@program
def set_grad_enabled_as_context(torch, log):
    x = leaf(torch, 1.0)
    for flag in (True, False):
        with torch.set_grad_enabled(flag):
            log(torch.is_grad_enabled(), (x * 2).requires_grad)
        log(torch.is_grad_enabled())


@program
def set_grad_enabled_as_function(torch, log):
    torch.set_grad_enabled(False)
    try:
        log(torch.is_grad_enabled(), (leaf(torch, 1.0) * 2).requires_grad)
    finally:
        torch.set_grad_enabled(True)
    log(torch.is_grad_enabled())


@program
def set_grad_enabled_acts_at_construction(torch, log):
    mode = torch.set_grad_enabled(False)
    log(torch.is_grad_enabled())
    with mode:
        log(torch.is_grad_enabled())
    log(torch.is_grad_enabled())
    torch.set_grad_enabled(True)


@program
def no_grad_acts_on_entry(torch, log):
    mode = torch.no_grad()
    log(torch.is_grad_enabled())
    with mode:
        log(torch.is_grad_enabled())
    with mode:
        with torch.enable_grad():
            log(torch.is_grad_enabled())
        log(torch.is_grad_enabled())
    log(torch.is_grad_enabled())


@program
def modes_restored_after_an_exception(torch, log):
    def fail():
        with torch.no_grad():
            raise ValueError("inside")

    log.raises(fail)
    log(torch.is_grad_enabled())

    @torch.no_grad()
    def failing():
        raise KeyError("decorated")

    log.raises(failing)
    log(torch.is_grad_enabled())


@program
def decorator_with_parentheses(torch, log):
    @torch.no_grad()
    def double(x, scale=2):
        """Doc."""
        return x * scale, torch.is_grad_enabled()

    log(double(leaf(torch, 1.0), scale=3))
    log(double.__name__, double.__doc__, torch.is_grad_enabled())


@program
def decorator_without_parentheses(torch, log):
    @torch.no_grad
    def double(x):
        return x * 2, torch.is_grad_enabled()

    log(double(leaf(torch, 1.0)), double.__name__)

    @torch.enable_grad
    def on():
        return torch.is_grad_enabled()

    with torch.no_grad():
        log(on())


@program
def decorator_enable_and_set_grad_enabled(torch, log):
    @torch.enable_grad()
    def on():
        return torch.is_grad_enabled()

    with torch.no_grad():
        log(on())

    @torch.set_grad_enabled(False)
    def off():
        return torch.is_grad_enabled()

    log(torch.is_grad_enabled(), off(), torch.is_grad_enabled())


@program
def decorator_on_a_method_and_recursion(torch, log):
    class Thing:
        @torch.no_grad()
        def down(self, n):
            return [torch.is_grad_enabled()] + (self.down(n - 1) if n else [])

    log(Thing().down(3), torch.is_grad_enabled())


@program
def decorator_on_a_class(torch, log):
    def decorate():
        @torch.no_grad()
        class Thing:
            def __init__(self):
                self.on = torch.is_grad_enabled()

            def later(self):
                return torch.is_grad_enabled()

        thing = Thing()
        log(thing.on, thing.later())

    log(caught(decorate))


@program
def generator_under_no_grad(torch, log):
    @torch.no_grad()
    def numbers():
        for i in range(3):
            log("inside", torch.is_grad_enabled())
            got = yield i
            log("sent", got)
        return "done"

    g = numbers()
    log(next(g), torch.is_grad_enabled())
    log(g.send("hello"), torch.is_grad_enabled())
    log(next(g), torch.is_grad_enabled())
    try:
        next(g)
    except StopIteration as stop:
        log(stop.value)


@program
def generator_keeps_the_callers_mode(torch, log):
    @torch.enable_grad()
    def numbers():
        try:
            while True:
                yield torch.is_grad_enabled()
        finally:
            log("closing", torch.is_grad_enabled())

    with torch.no_grad():
        g = numbers()
        log(next(g), torch.is_grad_enabled())
    log(next(g), torch.is_grad_enabled())
    g.close()
    log(torch.is_grad_enabled())


@program
def generator_with_exceptions(torch, log):
    @torch.no_grad()
    def numbers():
        try:
            yield 1
        except ValueError as error:
            log(str(error), torch.is_grad_enabled())
            yield 2
        raise KeyError("end")

    g = numbers()
    log(next(g))
    log(g.throw(ValueError("thrown")), torch.is_grad_enabled())
    log.raises(lambda: next(g))
    log(torch.is_grad_enabled())


@program
def plain_generator_leaks_no_grad(torch, log):
    def numbers():
        with torch.no_grad():
            yield 1
            yield 2

    g = numbers()
    next(g)
    log(torch.is_grad_enabled())
    g.close()
    log(torch.is_grad_enabled())


@program
def coroutine_under_no_grad(torch, log):
    @torch.no_grad()
    async def work():
        seen = torch.is_grad_enabled()
        await asyncio.sleep(0)
        return seen, torch.is_grad_enabled()

    log(asyncio.run(work()), torch.is_grad_enabled())


@program
def modes_are_per_thread(torch, log):
    found = {}

    def look():
        found["start"] = torch.is_grad_enabled()
        with torch.no_grad():
            found["inside"] = torch.is_grad_enabled()
        torch.set_grad_enabled(False)

    with torch.no_grad():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        log(found, torch.is_grad_enabled())
    log(torch.is_grad_enabled())


@program
def inference_mode_is_per_thread(torch, log):
    found = []
    with torch.inference_mode():
        thread = threading.Thread(target=lambda: found.append(torch.is_inference_mode_enabled()))
        thread.start()
        thread.join()
        log(found, torch.is_inference_mode_enabled())


@program
def backward_inside_no_grad(torch, log):
    x = leaf(torch, 2.0)
    y = x * x
    with torch.no_grad():
        y.backward()
        log(bare(x.grad))
        z = x * x
        log.raises(lambda: z.backward())


@program
def create_graph_inside_no_grad(torch, log):
    x = leaf(torch, 2.0)
    y = x * x
    with torch.no_grad():
        (g,) = torch.autograd.grad(y, x, create_graph=True)
    log(g)


@program
def in_place_on_a_leaf_inside_no_grad(torch, log):
    x = leaf(torch, 1.0, 2.0)
    with torch.no_grad():
        x.mul_(2)
        x[0] = 9.0
        x += 1
    log(x)


@program
def in_place_inside_no_grad_is_noticed(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = (x * x).sum()
    with torch.no_grad():
        x.add_(1)
    log.raises(lambda: y.backward())


@program
def view_made_inside_no_grad(torch, log):
    x = leaf(torch, 1.0, 2.0)
    m = x * 1
    with torch.no_grad():
        v = m[:1]
    log(v, v._is_view())
    log.raises(lambda: v.mul_(2))
    log.raises(lambda: v.mul_(leaf(torch, 2.0)))


@program
def in_place_on_a_non_leaf_inside_no_grad(torch, log):
    x = leaf(torch, 1.0, 2.0)
    m = x * 2
    with torch.no_grad():
        m.mul_(10)
    log(m)
    m.sum().backward()
    log(bare(x.grad))


@program
def result_made_a_leaf_inside_no_grad(torch, log):
    x = leaf(torch, 1.0)
    with torch.no_grad():
        y = x * 2
        y.requires_grad_()
    z = y * 3
    z.backward()
    log(y.is_leaf, bare(y.grad), x.grad)


# --- inference mode --------------------------------------------------------------------------


@program
def inference_mode_block(torch, log):
    x = leaf(torch, 1.0, 2.0)
    log(torch.is_inference_mode_enabled())
    with torch.inference_mode():
        y = x * 2
        log(torch.is_inference_mode_enabled(), torch.is_grad_enabled())
        log(y, y.is_inference(), x.is_inference(), x.view(2, 1).is_inference())
    log(y.is_inference(), torch.is_inference_mode_enabled(), torch.is_grad_enabled())


@program
def inference_mode_off_inside_on(torch, log):
    x = leaf(torch, 1.0)
    with torch.inference_mode():
        with torch.inference_mode(False):
            y = x * 2
            log(torch.is_inference_mode_enabled(), torch.is_grad_enabled(), y, y.is_inference())
        log(torch.is_inference_mode_enabled())


@program
def enable_grad_inside_inference_mode(torch, log):
    x = leaf(torch, 1.0)
    with torch.inference_mode():
        with torch.enable_grad():
            y = x * 2
            log(torch.is_grad_enabled(), y, y.is_inference())


@program
def inference_tensor_version(torch, log):
    with torch.inference_mode():
        y = torch.tensor([1.0])
        y.add_(1)
    log(y)
    log.raises(lambda: y._version)


@program
def inference_tensor_saved_for_backward(torch, log):
    x = leaf(torch, 1.0)
    with torch.inference_mode():
        c = torch.tensor([2.0])
    log.raises(lambda: x * c)
    log.raises(lambda: x + c)
    log.raises(lambda: (x * c.clone()).backward())
    log(bare(x.grad))


@program
def inference_tensor_written_outside(torch, log):
    with torch.inference_mode():
        c = torch.tensor([2.0])
    log.raises(lambda: c.add_(1))
    log.raises(lambda: c.__setitem__(0, 5.0))
    with torch.inference_mode():
        c.add_(1)
    with torch.no_grad():
        log.raises(lambda: c.add_(1))


@program
def inference_tensor_requires_grad(torch, log):
    with torch.inference_mode():
        c = torch.tensor([2.0])
        log.raises(lambda: torch.tensor([1.0], requires_grad=True))
        log.raises(lambda: torch.tensor([1.0]).requires_grad_())
    log.raises(lambda: c.requires_grad_())


@program
def inference_tensor_operations_outside(torch, log):
    with torch.inference_mode():
        c = torch.tensor([2.0, 3.0])
    y = c * 2
    log(y, y.is_inference())
    v = c[:1]
    log(v, v.is_inference())
    d = c.detach()
    log(d.is_inference(), c.clone().is_inference())


@program
def normal_tensor_written_in_inference_mode(torch, log):
    a = torch.tensor([1.0])
    x = leaf(torch, 1.0)
    with torch.inference_mode():
        a.add_(1)
        log(a, a.is_inference())
        x.add_(1)
        log(x, x.is_inference())
    y = x * x
    with torch.inference_mode():
        x.add_(1)
    log.raises(lambda: y.backward())


@program
def view_made_in_inference_mode(torch, log):
    x = leaf(torch, 1.0, 2.0)
    m = x * 1
    with torch.inference_mode():
        v = m[:1]
        log(v, v.is_inference())
    log.raises(lambda: v.mul_(2))


@program
def backward_in_inference_mode(torch, log):
    x = leaf(torch, 2.0)
    y = x * x
    with torch.inference_mode():
        log.raises(lambda: y.backward())
    log(x.grad is None)


@program
def inference_mode_as_decorator(torch, log):
    @torch.inference_mode()
    def with_parentheses(x):
        return (x * 2).is_inference()

    @torch.inference_mode
    def without(x):
        return (x * 2).is_inference()

    @torch.inference_mode(mode=False)
    def off(x):
        return (x * 2).requires_grad

    x = leaf(torch, 1.0)
    log(with_parentheses(x), without(x), off(x), torch.is_inference_mode_enabled())


@program
def inference_mode_after_an_exception(torch, log):
    def fail():
        with torch.inference_mode():
            raise ValueError("inside")

    log.raises(fail)
    log(torch.is_inference_mode_enabled(), torch.is_grad_enabled())


@program
def inference_tensor_in_a_function(torch, log):
    class Mul(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, c):
            ctx.save_for_backward(c)
            return x * c

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0], None

    x = leaf(torch, 2.0)
    with torch.inference_mode():
        c = torch.tensor([2.0])
    log.raises(lambda: Mul.apply(x, c))


@program
def module_in_inference_mode(torch, log):
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 2.0]]))
        model.bias.fill_(0.5)
    x = torch.tensor([[3.0, 4.0]])
    with torch.inference_mode():
        y = model(x)
    log(y, y.is_inference())
    with torch.no_grad():
        log(model(x))
    log(model(x))


@program
def detached_inference_tensors(torch, log):
    """Outside of inference mode `detach()` and `.data` count writes; views and `out=` do not."""

    def state(t):
        found = [t.tolist(), t.is_inference(), t._is_view(), t.requires_grad, t.is_leaf]
        try:
            return [*found, t._version]
        except RuntimeError as error:
            return [*found, str(error)]

    w = torch.ones(3, requires_grad=True)
    for cut in (lambda t: t.detach(), lambda t: t.data, lambda t: t.detach().detach()):
        with torch.inference_mode():
            x = torch.ones(3)
            log(state(cut(x)))
        d = cut(x)
        log(state(d), state(d.add_(1)), state(d.mul_(2)), state(x))
        with torch.inference_mode():
            log(state(d.add_(1)))
        log(state(d.view(3)), state(d[:2]))
        log.raises(lambda d=d: d.view(3).add_(1))
        log.raises(lambda d=d: d.requires_grad_())
        log.raises(lambda d=d: w * d)
    for write in (
        lambda: x.add_(1),
        lambda: x.resize_(4),
        lambda: x.resize_as_(torch.ones(5)),
        lambda: x.set_(torch.ones(2)),
        lambda: torch.exp(torch.ones(3), out=x),
        lambda: torch.sort(torch.ones(3), out=(x, torch.empty(3, dtype=torch.int64))),
    ):
        log.raises(write)
    with torch.no_grad():
        log.raises(lambda: torch.add(w, 1, out=x))
    with torch.inference_mode():
        x = torch.ones(3)
    y = torch.zeros(3).add_(1)
    y.data = x.detach()
    log(state(y))


@program
def other_memory_with_history(torch, log):
    """`set_` has no derivative, and `resize_` is refused outside of inference mode only."""

    def plain():
        return torch.tensor([1.0, 2.0])

    def leaf():
        return torch.tensor([3.0, 4.0], requires_grad=True)

    for first, second in (
        (plain(), plain()),
        (plain(), leaf()),
        (plain(), leaf() * 1),
        (leaf() * 1, plain()),
        (leaf() * 1, leaf()),
    ):
        log(first.set_(second), second)
        if first.requires_grad:
            log.raises(lambda first=first: first.sum().backward())
    log.raises(lambda: leaf().set_(plain()))
    with torch.no_grad():
        log(leaf().set_(plain()), (leaf() * 1).set_(leaf()))
    for make in (plain, leaf, lambda: leaf() * 1):
        t = make()
        with torch.inference_mode():
            t.resize_(1)
        log(t)
        if t.requires_grad:
            log.raises(lambda t=t: t.resize_(2))
            with torch.no_grad():
                log.raises(lambda t=t: t.resize_as_(plain()))
