"""What the engine must survive: very deep graphs, very long loops, several threads, errors."""

import gc
import subprocess
import sys
import threading
import time
import weakref

import pytest

import tapegrad as torch
from tapegrad.core.base import STATE


def blocks_left_by(step, rounds, warm_up):
    """How many blocks of memory `rounds` steps leave behind: a leaked object is at least one."""
    gc.collect()
    for _ in range(warm_up):  # also fills the free lists, which a collection empties
        step()
    before = sys.getallocatedblocks()
    for _ in range(rounds):
        step()
    return sys.getallocatedblocks() - before


@pytest.mark.slow
def test_million_node_chain_is_built_differentiated_and_freed():
    x = torch.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y * 1.0
    first = weakref.ref(y)
    y.backward()
    assert x.grad.item() == 1.0
    del y
    assert first() is None


def test_long_chain_is_freed_without_backward():
    x = torch.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(200_000):
        y = -y
    del y
    assert x.grad is None


def test_create_graph_loop_with_the_collector_off_keeps_flat_memory():
    x = torch.tensor([1.0, 2.0], requires_grad=True)

    def step():
        y = (x * x * x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        g.sum().backward()
        x.grad = None

    gc.disable()
    try:
        growth = blocks_left_by(step, 1000, 1000)
    finally:
        gc.enable()
    assert growth < 100


def test_leaves_made_in_a_loop_are_freed_with_the_collector_off():
    def step():
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x.exp() + 1
        y *= x
        y[0] = 3.0
        y.sum().backward()

    gc.disable()
    try:
        growth = blocks_left_by(step, 500, 1000)
    finally:
        gc.enable()
    assert growth < 100


@pytest.mark.slow
def test_hundred_thousand_training_steps_keep_flat_memory():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, y = torch.randn(4, 3), torch.randn(4, 2)
    losses = []

    def step():
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses[:] = [loss.item()]

    gc.disable()
    try:
        growth = blocks_left_by(step, 100_000, 1000)
    finally:
        gc.enable()
    assert growth < 100


def in_threads(count, work):
    """Run `work` in several threads at once; what they raise is raised here."""
    start, failures = threading.Barrier(count), []

    def run():
        try:
            start.wait()
            work()
        except BaseException as error:
            failures.append(error)

    pool = [threading.Thread(target=run) for _ in range(count)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    for failure in failures:
        raise failure


SHORT = {
    "one tensor": lambda w: w.tanh(),
    "two tensors": lambda w: w * w,
    "a number": lambda w: 2 * w,
    "a sum": lambda w: w.sum(),
    "a product": lambda w: w @ w,
}


@pytest.mark.parametrize("name", SHORT)
def test_ops_without_recording_say_what_cut_them_off(name):
    w = torch.ones(2, 2, requires_grad=True)
    with torch.no_grad():
        y = SHORT[name](w)
        z = SHORT[name](y) if y.ndim else y * 2
    assert torch.equal(y, SHORT[name](w)) and not y.requires_grad and y.grad_fn is None
    for each in (y, z):
        with pytest.raises(RuntimeError, match="does not require grad") as found:
            each.sum().backward()
        assert found.value.diagnosis["cut_by"] == "no_grad"


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("mode", ["no_grad", "inference_mode", "hooks"])
def test_modes_of_one_thread_are_not_those_of_another(mode, name):
    """All that differs somewhere may be that nothing is recorded, but not here; and the reverse."""
    w = torch.ones(2, 2, requires_grad=True)
    inside, over = threading.Event(), threading.Event()
    seen = []

    def work():
        with torch.no_grad():
            inside.set()
            over.wait()
            seen.append(SHORT[name](w).requires_grad)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    packed = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t)
    with hooks if mode == "hooks" else getattr(torch, mode)():
        here = SHORT[name](w)
    assert SHORT[name](w).requires_grad
    over.set()
    thread.join()
    assert seen == [False]
    assert here.requires_grad is (mode == "hooks")
    assert here.is_inference() is (mode == "inference_mode")
    assert bool(packed) is (mode == "hooks" and name not in ("a number", "a sum"))


def test_backward_in_threads_adds_up():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    threads, rounds = 8, 50

    def work():
        for _ in range(rounds):
            (w * w).sum().backward()
            (g,) = torch.autograd.grad((w * w).sum(), w)
            assert g.tolist() == [2.0, 4.0]

    (w * w).sum().backward()
    in_threads(threads, work)
    passes = threads * rounds + 1
    assert w.grad.tolist() == [2.0 * passes, 4.0 * passes]


def test_backward_in_threads_adds_up_in_large_leaves():
    """NumPy lets other threads run while it adds long arrays; and the first gradient is a race."""
    w = torch.ones(1_000_000, requires_grad=True)
    threads, rounds = 4, 10

    def work():
        for _ in range(rounds):
            (w * w).sum().backward()

    in_threads(threads, work)
    assert (w.grad == 2.0 * threads * rounds).all()


def test_kernels_in_threads_give_no_numpy_warnings():
    def work():
        x = torch.full((20_000,), 1e38) * 10  # inf, without NumPy's RuntimeWarning
        assert (x / x).isnan().all()

    in_threads(8, work)  # warnings are errors here


def test_engine_is_usable_after_an_exception_in_a_hook():
    x = torch.tensor([1.0], requires_grad=True)
    y = x * 2

    def fail(grad):
        raise ValueError("no")

    handle = y.register_hook(fail)
    with pytest.raises(ValueError, match="no"):
        y.backward(retain_graph=True)
    assert torch.is_grad_enabled()
    handle.remove()
    y.backward()
    assert x.grad.item() == 2.0


def test_gradients_of_one_backward_do_not_share_memory():
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor([1.0, 2.0], requires_grad=True)
    seed = torch.tensor([1.0, 1.0])
    (a + b).backward(seed)
    a.grad.add_(5)
    assert b.grad.tolist() == [1.0, 1.0]
    assert seed.tolist() == [1.0, 1.0]


def test_import_is_quick_and_quiet():
    code = (
        "import sys, threading, tapegrad; print(threading.active_count(), 'torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["1", "False"]
    assert out.stderr == ""


def test_wide_graph_is_not_quadratic():
    def run(width):
        x = torch.tensor([1.0], requires_grad=True)
        parts = [x * float(i) for i in range(width)]
        total = parts[0]
        for p in parts[1:]:
            total = total + p
        # The time of this thread: on a busy machine the clock stretches long runs most.
        start = time.thread_time()
        total.backward()
        return time.thread_time() - start

    # Eight times the width: 8 times the time if linear, 64 if quadratic. Noise only adds time.
    run(100)
    ratios = [min(run(8000) for _ in range(3)) / min(run(1000) for _ in range(3)) for _ in range(4)]
    assert min(ratios) < 24


class Countdown(torch.autograd.Function):
    """Its backward runs a backward pass of its own, down to zero."""

    at_the_bottom = staticmethod(lambda: None)

    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.y = ctx.x - 1
        return ctx.y.detach()

    @staticmethod
    def backward(ctx, grad):
        if ctx.x < 0:
            Countdown.at_the_bottom()
            return grad * 0
        with torch.enable_grad():
            Countdown.apply(ctx.y).sum().backward()
        return ctx.x


def test_passes_inside_passes_do_not_use_up_the_stack(monkeypatch):
    """PyTorch's own test goes 2,000 deep; the switches of the thread are the same down there."""
    seen = []

    def look():
        seen.append((torch.is_autocast_enabled("cpu"), torch.ones(1).dtype, len(packed)))

    packed = []
    monkeypatch.setattr(Countdown, "at_the_bottom", staticmethod(look))
    v = torch.tensor(2000.0, requires_grad=True)
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t)
    with torch.autocast("cpu"), hooks:
        Countdown.apply(v).sum().backward()
        (v * v).sum()  # these hooks are still on
    assert v.grad == 2000.0
    assert seen == [(True, torch.float32, 0)] and len(packed) == 2
    assert not torch.is_autocast_enabled("cpu")


def test_errors_come_up_from_deep_inside(monkeypatch):
    def fail():
        raise ValueError("at the bottom")

    monkeypatch.setattr(Countdown, "at_the_bottom", staticmethod(fail))
    v = torch.tensor(150.0, requires_grad=True)
    with pytest.raises(ValueError, match="at the bottom"):
        Countdown.apply(v).sum().backward()
    x = torch.ones(2, requires_grad=True)
    (x * x).sum().backward()  # the engine goes on
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_wrapper_is_a_parameter_before_torch_ops_was_looked_at():
    """What shows an op to a class loads the names of ops by itself."""
    script = """
import tapegrad as torch

class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        print(func)
        return args[0]

torch.nn.Parameter(Wrapper(torch.ones(2)))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "aten.detach.default" in found.stdout, found.stderr


def line_in(node):
    """The function and the line there that a node was recorded at."""
    code = node._code
    lines = [n for start, end, n in code.co_lines() if start <= node._lasti < end]
    return code.co_name, lines[0] - code.co_firstlineno


def test_nodes_of_a_recorded_pass_have_the_line_that_asked_for_it():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    def hook(grad):
        return grad + 1

    def user(y, x):
        return torch.autograd.grad(y, x, create_graph=True)[0]

    x = torch.tensor(2.0, requires_grad=True)
    y = (x * x).exp()
    assert line_in(user(y, x).grad_fn) == ("user", 1)
    z = x * x
    z.register_hook(hook)
    names = {}
    stack = [user(Twice.apply(z.sin()), x).grad_fn]
    while stack:
        node = stack.pop()
        if not node._is_leaf:
            names.setdefault(node.name(), set()).add(line_in(node))
            stack.extend([edge for edge in node._edges if edge is not None])
    assert ("hook", 1) in names["AddBackward0"]  # and not that of the pass
    assert ("user", 1) in names["MulBackward0"]
    assert line_in((x * 3).grad_fn)[0].startswith("test_nodes")


def test_lines_of_another_thread_are_not_put_back():
    code = line_in.__code__
    STATE.maker = (threading.get_ident() + 1, code, 0)  # of a thread that is about to end
    try:
        x = torch.tensor(2.0, requires_grad=True)
        (slope,) = torch.autograd.grad(x.exp(), x, create_graph=True)
        assert slope.grad_fn._code is not code
        assert STATE.maker is None
    finally:
        STATE.maker = None


FOREIGN = {"allocate", "allocates", "allocator", "cast", "casts", "cuda", "cupy", "device", "gpu"}


def test_the_engine_names_no_device_no_dtype_conversion_and_no_op():
    """What is peculiar to a device or an op is in a subclass of the pass, or in the op's block."""
    import ast
    import pathlib

    from tapegrad.autograd import starts
    from tapegrad.core.op import REGISTRY

    path = pathlib.Path(starts.__file__).with_name("engine.py")  # also where the core is compiled
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                names.update(value.split("."))
    assert "visit" in names
    words = {word.lower() for name in names for word in name.split("_")}
    assert not words & FOREIGN
    assert not names & set(REGISTRY)
