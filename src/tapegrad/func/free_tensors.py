"""Functions whose every tensor is an argument: those that a function reads from outside are found.

A rule for derivatives has to know all tensors that a function depends on. `Lifted` runs the
function once, notes the tensors that reach an operation and are no argument (parameters of a
module, variables of the surrounding code), and afterwards runs it with others in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.base import TensorBase
from ..core.modes import MODES, grad_set_to
from ..core.transforms.batched import has_batched
from ..core.transforms.levels import STACK
from ..overrides import TorchFunctionMode
from ..utils import _pytree as pytree

Function = Callable[..., Any]


class Noting(TorchFunctionMode):
    """Notes each tensor that an operation gets and that no operation before it returned."""

    def __init__(self, known: Sequence[Any]) -> None:
        super().__init__()
        self.made = {id(t): t for t in known}  # kept alive: an id is not used again
        self.found: dict[int, Any] = {}

    def __torch_function__(
        self, function: Function, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        for t in pytree.tree_leaves((args, kwargs or {})):
            if isinstance(t, TensorBase) and id(t) not in self.made:
                self.found[id(t)] = t
        out = function(*args, **(kwargs or {}))
        for t in pytree.tree_leaves(out):
            self.made.setdefault(id(t), t)
        return out


class Replacing(TorchFunctionMode):
    """Gives operations other tensors in the place of some, by identity."""

    def __init__(self, by_id: dict[int, Any]) -> None:
        super().__init__()
        self.by_id = by_id

    def other(self, t: Any) -> Any:
        return self.by_id.get(id(t), t)

    def __torch_function__(
        self, function: Function, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        args, kwargs = pytree.tree_map(self.other, (tuple(args), kwargs or {}))
        return function(*args, **kwargs)


class Lifted:
    """A function of x and of `tensors`: those in its further arguments, then those read outside."""

    def __init__(self, name: str, function: Function, x: Any, args: tuple[Any, ...]) -> None:
        self.name = name
        self.function = function
        self.leaves, self.spec = pytree.tree_flatten(args)
        self.places = [i for i, t in enumerate(self.leaves) if isinstance(t, TensorBase)]
        self.tensors = [self.leaves[i] for i in self.places]
        self.outside: list[Any] = []
        if MODES.records or STACK.levels:
            self.find(x)

    def find(self, x: Any) -> None:
        """Run the function once and keep what it reads and a derivative or a batch may reach."""
        with Noting([x, *self.tensors]) as noting:
            self.function(x, *pytree.tree_unflatten(self.leaves, self.spec))
        self.outside = [t for t in noting.found.values() if STACK.levels or t.requires_grad]
        self.tensors += self.outside
        with grad_set_to(True):
            out = self(x.detach(), *[t.detach() for t in self.tensors])
        if isinstance(out, TensorBase) and out.requires_grad:  # type: ignore[attr-defined]
            raise RuntimeError(
                f"{self.name}: the function reads a tensor that requires grad in a way that cannot "
                "be followed (as an argument of an autograd.Function, for instance). Give it as a "
                f"further argument: {self.name}(f, x0, tensor), where f takes (x, tensor)."
            )

    def __call__(self, x: Any, *tensors: Any) -> Any:
        leaves = list(self.leaves)
        for i, t in zip(self.places, tensors, strict=False):
            leaves[i] = t
        args = pytree.tree_unflatten(leaves, self.spec)
        given = tensors[len(self.places) :]
        if all([a is b for a, b in zip(self.outside, given, strict=True)]):
            return self.checked(self.function(x, *args))
        by_id = {id(old): new for old, new in zip(self.outside, given, strict=True)}
        with Replacing(by_id):
            return self.checked(self.function(x, *args))

    def checked(self, out: Any) -> Any:
        """A result that is no tensor of a vmap that is not open here."""
        if not STACK.levels and has_batched((out,)):
            raise RuntimeError(
                f"{self.name}: the function reads a tensor of a surrounding vmap that it did not "
                "read at the first guess. Give it as a further argument."
            )
        return out
