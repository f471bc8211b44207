"""What grows while a varied program goes on: run as `growth.py ROUNDS`.

Every round trains, defines new functions, classes and "notebook cells", compiles, saves, and drops
everything again. Afterwards every container that a module of the library holds (dicts, lists and
sets, weak ones too, caches of functions, containers of single objects) is compared with its size
before, and the classes that the rounds made must be gone. Prints what grew, as JSON.
"""

from __future__ import annotations

import collections
import functools
import gc
import io
import json
import sys
import types
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import tapegrad as torch
from tapegrad import nn
from tapegrad.utils._python_dispatch import TorchDispatchMode

CONTAINERS = (dict, list, set, collections.deque, weakref.WeakSet)
CONTAINERS += (weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
CELL = """
import tapegrad as torch
def loss(w, x):
    return ((w * x).sin() * {number}).sum()
w = torch.ones(3, requires_grad=True)
loss(w, torch.ones(3)).backward()
compiled = torch.compile(loss)
for _ in range(4):
    compiled(w, torch.full((3,), 2.0)).backward()
"""


# ---------------------------------------------------------------------- the program


def cell(number: int) -> None:
    """A notebook's cell: code with a file name of its own."""
    space: dict[str, Any] = {}
    code = compile(CELL.format(number=number), f"/tmp/ipykernel_1/{number}.py", "exec")
    exec(code, space)


def own_classes() -> list[Any]:
    """A Function, a subclass of Tensor, a module and modes, used once; weak references to them."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * g

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return Square.apply(x), 0

    class Cube(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    class Plain(torch.Tensor):
        pass

    class Asking(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return super().__torch_function__(func, types, args, kwargs or {})

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.inner(x).relu()

    x = torch.ones(3, requires_grad=True)
    Square.apply(x).sum().backward()
    torch.func.grad(lambda t: Cube.apply(t).sum())(x.detach())
    torch.func.vmap(Cube.apply)(x.detach())
    with torch.no_grad():
        (x.as_subclass(Plain) * 2 + 1).sum().exp()
    (x.as_subclass(Asking) * 2).sum()
    with Counting():
        x * 2
    net = Net()
    net(torch.ones(2, 3)).sum().backward()
    copied = io.BytesIO()
    torch.save(net.state_dict(), copied)
    copied.seek(0)
    net.load_state_dict(torch.load(copied))
    made = (Square, Cube, Plain, Asking, Counting, Net)
    return [weakref.ref(cls) for cls in made]


def training(number: int) -> None:
    torch.manual_seed(number)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = (torch.optim.SGD, torch.optim.Adam)[number % 2](model.parameters(), lr=0.01)
    x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    handle = model[0].register_forward_hook(lambda *given: None)
    model(x)
    handle.remove()
    if number % 4 == 1:
        step = torch.compile(lambda t: model(t).sum())
        for _ in range(4):
            step(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    torch.func.vmap(torch.func.grad(lambda t: (t * t).sum()))(x)
    torch.autograd.forward_ad.enter_dual_level()
    torch.autograd.forward_ad.exit_dual_level()
    torch.einsum("ij,kj->ik", x, x)
    torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum().backward()


def a_round(number: int) -> list[Any]:
    training(number)
    if number % 4 == 0:
        cell(number)
    return own_classes()


# ---------------------------------------------------------------------- what it leaves


def library_modules() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "tapegrad" and isinstance(module, types.ModuleType):
            yield module


def size_of(value: Any) -> int | None:
    """How much a container or a function's cache holds; None: it is neither."""
    if isinstance(value, CONTAINERS):
        return len(value)
    if isinstance(value, functools._lru_cache_wrapper):
        return value.cache_info().currsize
    return None


def bound_of(value: Any) -> int | None:
    """The most that a cache will ever hold, if it has a bound."""
    if isinstance(value, functools._lru_cache_wrapper):
        return value.cache_info().maxsize
    return getattr(value, "most", None)


def containers() -> dict[str, Any]:
    """All of them, by name: of modules, of classes and of single objects in modules."""
    found: dict[str, Any] = {}
    for module in library_modules():
        for name, value in list(vars(module).items()):
            path = f"{module.__name__}.{name}"
            if size_of(value) is not None:
                found.setdefault(path, value)
                continue
            if isinstance(value, types.ModuleType) or name.startswith("__"):
                continue
            is_class = isinstance(value, type) and value.__module__ == module.__name__
            kind = value if is_class else type(value)
            if not getattr(kind, "__module__", "").startswith("tapegrad"):
                continue
            for field, inner in list(getattr(value, "__dict__", {}).items()):
                if size_of(inner) is not None:
                    found.setdefault(f"{path}.{field}", inner)
    unique: dict[int, str] = {}
    for path, value in found.items():
        unique.setdefault(id(value), path)
    return {path: found[path] for path in unique.values()}


def settled() -> None:
    for _ in range(3):
        gc.collect()


def main(rounds: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    for number in range(8):
        a_round(number)
    settled()
    known = containers()
    before = {path: size_of(value) for path, value in known.items()}
    references = [a_round(8 + number) for number in range(rounds)]
    settled()
    names = ("Square", "Cube", "Plain", "Asking", "Counting", "Net")
    alive = {
        name: sum(each[i]() is not None for each in references) for i, name in enumerate(names)
    }
    grown = {}
    for path, value in known.items():
        now, most = size_of(value), bound_of(value)
        if now is not None and now - (before[path] or 0) > 2 and (most is None or now > most):
            grown[path] = [before[path], now]
    alive = {name: count for name, count in alive.items() if count > 1}
    return {"rounds": rounds, "containers": len(known), "grown": grown, "alive": alive}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
