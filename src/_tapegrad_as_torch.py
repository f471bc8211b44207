"""``import torch`` answered by tapegrad where PyTorch is absent: which modules get an answer.

``tapegrad_as_torch.pth`` beside this file imports it when Python starts with TAPEGRAD_AS_TORCH in
its environment. It is not in the package and imports next to nothing, since many such processes
never ask for torch: NumPy and tapegrad are imported by the first ``import torch``.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is not loaded otherwise
    from collections.abc import Callable, Iterable
    from types import FrameType
    from typing import Any

NAMES = ("torch", "functorch")
VARIABLE = "TAPEGRAD_AS_TORCH"

# Their frames only pass a question on; the module that asks is further out.
PASSES_ON = {
    *("importlib", "_frozen_importlib", "_frozen_importlib_external", "zipimport"),
    *("pytest", "_pytest", "pluggy", "tapegrad", __name__, *NAMES),
}


class Scope:
    """Which modules tapegrad answers: all, those of some packages, or all but those of some.

    Many packages try ``import torch`` and behave differently where it succeeds. With `only`, the
    program itself and what lies under the folder `root` outside site-packages are answered too.
    """

    def __init__(
        self, only: Iterable[str] = (), not_for: Iterable[str] = (), root: str = ""
    ) -> None:
        self.only, self.not_for = tuple(only), tuple(not_for)
        self.root = root and os.path.join(root, "")
        self.replaced: list[tuple[Any, str, Any]] = []

    @classmethod
    def parse(cls, text: str) -> Scope:
        """What the variable says: ``1``, or ``only=a,b;not_for=c``."""
        given: dict[str, list[str]] = {}
        for part in text.replace(";", " ").split() if text != "1" else ():
            key, equals, names = part.partition("=")
            if not equals or key not in ("only", "not_for"):
                raise ValueError(
                    f"{VARIABLE} must be 0, 1 or like 'only=a,b;not_for=c', not {text!r}"
                )
            given[key] = names.split(",")
        return cls(**given)

    def __str__(self) -> str:
        parts = {"only": self.only, "not_for": self.not_for}
        return (
            ";".join([f"{key}={','.join(names)}" for key, names in parts.items() if names]) or "1"
        )

    def admits(self) -> bool:
        """Whether the module that asks for torch, found on the stack, is one that gets it."""
        if not (self.only or self.not_for):
            return True
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = str(frame.f_globals.get("__name__", ""))
            if name.partition(".")[0] not in PASSES_ON:
                return self.is_for(name, frame.f_code.co_filename)
            frame = frame.f_back
        return True

    def is_for(self, name: str, path: str) -> bool:
        if _is_within(name, self.not_for):
            return False
        if not self.only or name == "__main__" or _is_within(name, self.only):
            return True
        rest = path[len(self.root) :] if self.root and path.startswith(self.root) else ""
        return bool(rest) and "site-packages" not in rest.split(os.sep)

    def enforce(self) -> None:
        """Refuse the other modules also when an earlier import has left torch in sys.modules."""
        if self.replaced or not (self.only or self.not_for):
            return
        import builtins
        import importlib
        import importlib.util

        def refused(name: object) -> bool:
            is_torch = isinstance(name, str) and name.partition(".")[0] in NAMES
            return is_torch and not self.admits()

        def guarded(call: Callable[..., Any], probes: bool = False) -> Callable[..., Any]:
            def ask(name: Any, *args: Any, **kwargs: Any) -> Any:
                if not refused(name):
                    return call(name, *args, **kwargs)
                if probes:
                    return None
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

            return ask

        for owner, name, probes in (
            (builtins, "__import__", False),
            (importlib, "import_module", False),
            (importlib.util, "find_spec", True),
        ):
            before = getattr(owner, name)
            self.replaced.append((owner, name, before))
            setattr(owner, name, guarded(before, probes))

    def lift(self) -> None:
        """Undo `enforce`."""
        while self.replaced:
            owner, name, before = self.replaced.pop()
            setattr(owner, name, before)


def _is_within(name: str, packages: tuple[str, ...]) -> bool:
    return any([name == each or name.startswith(f"{each}.") for each in packages])


class Waiting:
    """The last finder: asked for torch only when no PyTorch was found."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        # Finders run under the global import lock, so the loader imports tapegrad, not this.
        return ModuleSpec(name, self) if name in NAMES and self.scope.admits() else None  # type: ignore[arg-type]

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        if getattr(context, "name", None) != "torch" or not self.scope.admits():
            return []
        from tapegrad.compat import alias

        return alias.distributions(context)

    def create_module(self, spec: ModuleSpec) -> Any:
        from tapegrad.compat import alias

        alias.install(self.scope)
        if self in sys.meta_path:
            sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec.loader = alias.LOADER
        return alias.LOADER.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """The import system asks the loader that `create_module` has put into the spec."""


def wait() -> None:
    """Called when Python starts: answer the first ``import torch`` if the environment says so."""
    text = os.environ.get(VARIABLE, "0")
    if text in ("", "0"):
        return
    try:
        sys.meta_path.append(Waiting(Scope.parse(text)))  # type: ignore[arg-type]
    except ValueError as error:
        print(f"{error}; torch is not answered", file=sys.stderr)
