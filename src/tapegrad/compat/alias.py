"""``import torch`` answered by tapegrad.

After :func:`install`, ``torch`` and ``torch.a.b`` are the module objects ``tapegrad`` and
``tapegrad.a.b`` themselves, not copies: classes, isinstance checks and pickles are shared.
Only this process is affected, and forked children; ``python -m tapegrad run`` also carries the
alias into children that multiprocessing spawns (see ``run.py``).
"""

from __future__ import annotations
import __future__

import copyreg
import importlib
import io
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType, ModuleType
from typing import Any

from _tapegrad_as_torch import Scope

from ..core.locks import new_rlock

MISSING = (
    "No module named {name!r}\n"
    "tapegrad answers for torch here and does not have this module. "
    "'python -m tapegrad check FILE' lists every torch name that a program uses and tapegrad lacks."
)


def real_name(name: str) -> str | None:
    """'torch.nn' -> 'tapegrad.nn'; None for a name outside torch.

    PyTorch installs the package functorch beside itself.
    """
    head, dot, rest = name.partition(".")
    if head == "functorch":
        return f"tapegrad.functorch{dot}{rest}"
    return f"tapegrad{dot}{rest}" if head == "torch" else None


class _AliasLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        real = real_name(spec.name)
        assert real is not None
        parent, _, child = real.rpartition(".")
        if parent:
            public = vars(importlib.import_module(parent)).get(child)
            # (`annotations` may be there from `from __future__ import annotations`.)
            if public is not None and not isinstance(public, (ModuleType, __future__._Feature)):
                # The public name is a function or a class, and importing a private module of
                # that name would overwrite it.
                raise ModuleNotFoundError(MISSING.format(name=spec.name), name=spec.name)
        module = importlib.import_module(real)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just put the alias's spec on the module. Its own goes back:
        # importlib.reload and relative imports go by it.
        spec = module.__spec__
        if spec is not None and spec.loader is self:
            module.__spec__ = spec.loader_state
        _mirror_loaded()


def _distribution() -> Any:
    """`importlib.metadata.version("torch")` is asked by libraries before they import it."""
    import email.message
    from importlib.metadata import Distribution

    import tapegrad

    class Torch(Distribution):
        @property
        def metadata(self) -> Any:
            made = email.message.Message()
            made["Metadata-Version"] = "2.1"
            made["Name"] = "torch"
            made["Version"] = str(tapegrad.__version__)
            return made

        def read_text(self, filename: str) -> str | None:
            return self.metadata.as_string() if filename == "METADATA" else None

        def locate_file(self, path: Any) -> Any:
            return None

    return Torch()


def distributions(context: Any) -> list[Any]:
    """torch's distribution, asked by name only: a listing of installed packages does not have it
    twice.
    """
    return [_distribution()] if getattr(context, "name", None) == "torch" else []


# Where classes live whose names a program never sees: they keep the names of their files.
INTERNAL = frozenset(
    "api backends compat compiler core datasets diagnose errors expressions kernels ops".split()
)
TOP = ("tapegrad.api.tensor.tensor", "tapegrad.core.size", "tapegrad.device", "tapegrad.dtypes")
_RENAMED: list[tuple[Any, str]] = []  # what has PyTorch's module name now, and its own


def public_home(module: str) -> str | None:
    """The module that PyTorch's users know a class or function of `module` by."""
    if module in TOP:
        return "torch"
    head, dot, rest = module.partition(".")
    if head != "tapegrad" or rest.partition(".")[0] in INTERNAL:
        return None
    return f"torch{dot}{rest}"


def _rename(module: ModuleType) -> None:
    """Let the classes and functions of a module say that they are PyTorch's.

    Packages decide by `type(x).__module__`, and pickle writes it: what a program pickles here can
    be read by PyTorch.
    """
    package = sys.modules["tapegrad"]
    for value in list(vars(module).values()):
        if not isinstance(value, (type, FunctionType)) or value.__name__.startswith("__"):
            continue
        own = value.__module__
        home = public_home(own) if isinstance(own, str) else None
        # What PyTorch's users cannot find at the top of the package stays where it is.
        if home == "torch" and getattr(package, value.__name__, None) is not value:
            continue
        if home is not None:
            try:
                value.__module__ = home
            except TypeError:  # a class in C
                continue
            _RENAMED.append((value, own))


def _reduce_tensor(t: Any) -> Any:
    from tapegrad._serialization.pickling import reduce_tensor

    return reduce_tensor(t)


def _reduce_storage(storage: Any) -> Any:
    """Pickle the memory of a tensor as PyTorch's plain pickles do: a file inside the pickle."""
    from tapegrad import serialization
    from tapegrad.storage import _load_from_bytes

    file = io.BytesIO()
    serialization.save(storage, file, _use_new_zipfile_serialization=False)
    return _load_from_bytes, (file.getvalue(),)


def _pickled_for_pytorch() -> dict[type, Any]:
    """How pickle and copy take tensors apart while this library answers for torch."""
    import tapegrad as tg
    from tapegrad.api.tensor.conversion import TypedStorage, UntypedStorage

    return {
        tg.Tensor: _reduce_tensor,
        tg.nn.Parameter: _reduce_tensor,
        TypedStorage: _reduce_storage,
        UntypedStorage: _reduce_storage,
    }


class _RenamingLoader(Loader):
    """Loads a module of tapegrad as its own loader does, and renames what is in it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self.loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        _rename(module)


class _TorchFinder(MetaPathFinder):
    def __init__(self) -> None:
        self.scope = Scope()
        self.missing: set[str] = set()  # modules that were imported in vain

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        return distributions(context) if self.scope.admits() else []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        real = real_name(fullname)
        if real is None:
            return _renaming_spec(fullname, path) if fullname.startswith("tapegrad.") else None
        if not self.scope.admits():
            return None
        # Finders run under the global import lock: importing here, even a parent package, could
        # wait for a thread that waits for us. So only look; the loader imports.
        spec = ModuleSpec(fullname, LOADER)
        loaded = sys.modules.get(real)
        if fullname == "functorch":
            path = sys.modules["tapegrad"].__path__
        found = loaded.__spec__ if loaded is not None else PathFinder.find_spec(real, path)
        if found is not None:
            spec.origin = found.origin
            spec.submodule_search_locations = found.submodule_search_locations
        elif loaded is None:
            if _asked_by_import() and fullname.startswith("torch"):
                self.missing.add(fullname)
                raise ModuleNotFoundError(MISSING.format(name=fullname), name=fullname)
            return None
        return spec


def _renaming_spec(fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
    found = PathFinder.find_spec(fullname, path)
    if found is not None and found.loader is not None:
        found.loader = _RenamingLoader(found.loader)
    return found


LOADER = _AliasLoader()
FINDER = _TorchFinder()
_LOCK = new_rlock()


def _asked_by_import() -> bool:
    """True under an import, False when ``importlib.util.find_spec`` only asks whether it exists.

    The question must be answered with None, the import deserves the longer message, and the
    finder protocol does not tell them apart.
    """
    caller = sys._getframe(3)
    return caller.f_code.co_name == "_find_and_load_unlocked"


def _mirror_loaded() -> None:
    """Give every tapegrad module that is already loaded its torch name.

    An import that finds its name in sys.modules does not touch the parent's attributes, so a
    public function that shares its name with a private module stays what it is.
    """
    for name, module in sys.modules.copy().items():
        head, dot, rest = name.partition(".")
        if head != "tapegrad" or module is None:
            continue
        # Another thread may be in the middle of importing it; the finder waits for that, we skip.
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            continue
        sys.modules.setdefault(f"torch{dot}{rest}", module)


def _is_ours(module: ModuleType | None) -> bool:
    spec = getattr(module, "__spec__", None)
    return getattr(spec, "name", "").partition(".")[0] == "tapegrad"


def install(scope: Scope | None = None) -> None:
    """Let ``torch`` and all its submodules be answered by tapegrad. Calling it again is harmless.

    `scope` leaves packages out that would behave differently if they found torch. The call has to
    come before the first ``import torch``: with the real PyTorch already loaded, half of a program
    would hold one library and half the other, so that is refused.
    """
    with _LOCK:
        loaded = sys.modules.get("torch")
        if loaded is not None and not _is_ours(loaded):
            raise RuntimeError(
                "tapegrad.compat.install() was called after the real torch had been imported "
                f"(from {getattr(loaded, '__file__', None)}); call it before the first import."
            )
        if FINDER not in sys.meta_path:
            sys.meta_path.insert(0, FINDER)
            FINDER.missing.clear()
        FINDER.scope.lift()
        FINDER.scope = scope or Scope()
        FINDER.scope.enforce()
        package = importlib.import_module("tapegrad")
        # Programs compare `torch.__name__`, and old ones say `torch.torch`.
        package.__name__ = "torch"
        package.torch = package  # type: ignore[attr-defined]
        _mirror_loaded()
        for name, module in sys.modules.copy().items():
            if name.partition(".")[0] == "tapegrad" and public_home(name) is not None:
                _rename(module)
        copyreg.dispatch_table.update(_pickled_for_pytorch())


def uninstall() -> None:
    """Take the alias away again. Names that a program has already imported keep working."""
    with _LOCK:
        if FINDER in sys.meta_path:
            sys.meta_path.remove(FINDER)
        FINDER.scope.lift()
        package = importlib.import_module("tapegrad")
        package.__name__ = "tapegrad"
        vars(package).pop("torch", None)
        for kind in _pickled_for_pytorch():
            copyreg.dispatch_table.pop(kind, None)
        while _RENAMED:
            value, own = _RENAMED.pop()
            value.__module__ = own
        for name, module in sys.modules.copy().items():
            if name.partition(".")[0] in ("torch", "functorch") and _is_ours(module):
                sys.modules.pop(name, None)


def is_installed() -> bool:
    """Whether ``import torch`` is answered by tapegrad at the moment."""
    return FINDER in sys.meta_path
