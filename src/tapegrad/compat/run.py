"""``python -m tapegrad run``: an unmodified PyTorch script or module, on tapegrad.

The program sees what it would see under plain ``python``: sys.argv, sys.path[0], ``__main__``,
exit codes, and tracebacks that begin at its own first line.

Children that multiprocessing *spawns* import the main script again, and need the alias before
they do. The first thing such a child does is to unpickle the parent's sys.argv, so ours is a list
that installs the alias when it is unpickled: no environment variable, no file in site-packages.
Children started in other ways (subprocess, pytest-xdist) are programs of their own and need
``python -m tapegrad run`` themselves.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any, NoReturn, TypeVar

from tapegrad.compat import alias

T = TypeVar("T")

# Files as code objects name them: they stay true where a build moved the sources.
_FINDER_FILE = alias.install.__code__.co_filename
_MACHINERY = ((lambda: None).__code__.co_filename, "<frozen importlib", "<frozen runpy")

# What to run: its code (made late, so that a SyntaxError is reported as the program's own)
# and the attributes its __main__ module begins with.
Program = tuple[Callable[[], CodeType], dict[str, Any]]


class Argv(list[str]):
    """sys.argv of a program that runs under the alias; carries the alias to spawned children."""

    def __reduce__(self) -> tuple[Callable[[list[str]], Argv], tuple[list[str]]]:
        return _argv_with_alias, (list(self),)


def _argv_with_alias(values: list[str]) -> Argv:
    alias.install()
    return Argv(values)


def run_script(path: str, args: Sequence[str] = ()) -> None:
    """Run a script file, a folder or zip archive with a ``__main__.py``, or ``-`` for stdin."""
    alias.install()
    if path == "-":
        program = _stdin_program()
    elif os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        program = _container_program(os.path.abspath(path))
    else:
        program = _file_program(os.path.abspath(path))
    _execute(program, [path, *args])


def run_module(name: str, args: Sequence[str] = ()) -> None:
    """Run a module or package by name, like ``python -m``."""
    alias.install()
    # While it is being looked for (parent packages are imported for that), argv[0] is "-m".
    sys.argv = Argv(["-m", *args])
    spec = _guarded(lambda: _module_spec(name))
    _execute(_spec_program(spec), [spec.origin or name, *args])


def _stdin_program() -> Program:
    _set_first_path("")
    source = sys.stdin.read()
    return lambda: compile(source, "<stdin>", "exec", dont_inherit=True), {"__file__": "<stdin>"}


def _file_program(path: str) -> Program:
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        _fail(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}", 2)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    if path.endswith(".pyc"):
        compiled = SourcelessFileLoader("__main__", path)
        return lambda: _code_of(compiled, "__main__"), {"__file__": path, "__loader__": compiled}
    loader = SourceFileLoader("__main__", path)
    # dont_inherit: this file's own __future__ imports are not the program's.
    return (
        lambda: compile(source, path, "exec", dont_inherit=True),
        {"__file__": path, "__loader__": loader},
    )


def _container_program(path: str) -> Program:
    if not os.path.exists(path):
        _fail(f"can't open file {path!r}: [Errno 2] No such file or directory", 2)
    spec = PathFinder.find_spec("__main__", [path])
    if spec is None:
        _fail(f"can't find '__main__' module in {path!r}", 1)
    _set_first_path(path)
    return _spec_program(spec)


def _module_spec(name: str) -> ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        kind = type(error).__name__
        _fail(f"Error while finding module specification for {name!r} ({kind}: {error})", 1)
    if spec is None:
        _fail(f"No module named {name}", 1)
    if spec.submodule_search_locations is None:
        return spec
    inner = importlib.util.find_spec(f"{name}.__main__")
    if inner is None:
        _fail(
            f"No module named {name}.__main__; {name!r} is a package and cannot be directly "
            "executed",
            1,
        )
    return inner


def _spec_program(spec: ModuleSpec) -> Program:
    attributes = {
        "__file__": spec.origin,
        "__cached__": spec.cached,
        "__loader__": spec.loader,
        "__package__": spec.parent,
        "__spec__": spec,
    }
    return lambda: _code_of(spec.loader, spec.name), attributes


def _code_of(loader: Any, name: str) -> CodeType:
    get_code = getattr(loader, "get_code", None)
    code = get_code(name) if get_code is not None else None
    if code is None:
        _fail(f"No code object available for {name}", 1)
    assert isinstance(code, CodeType)
    return code


def _set_first_path(entry: str) -> None:
    # `python -m tapegrad` put the working directory first, unless safe_path (-P) forbids it.
    if not sys.flags.safe_path:
        sys.path[0] = entry


def _execute(program: Program, argv: list[str]) -> None:
    make_code, attributes = program
    main = ModuleType("__main__")
    main.__dict__.update(
        {"__annotations__": {}, "__builtins__": builtins, "__cached__": None}, **attributes
    )
    sys.argv = Argv(argv)
    # For good, as under plain python: threads and atexit handlers may outlive the last line.
    sys.modules["__main__"] = main
    _guarded(lambda: exec(make_code(), main.__dict__))


def _guarded(call: Callable[[], T]) -> T:
    """Call it; an exception that nobody catches will be shown without the runner's frames.

    The exception goes all the way up, so exit codes, ``python -i`` and the way a
    KeyboardInterrupt ends the process are the interpreter's own.
    """
    try:
        return call()
    except SystemExit:
        raise
    except BaseException as error:
        users_hook = sys.excepthook
        trace = _without_runner(error.__traceback__)

        def show(kind: type[BaseException], value: BaseException, _: object) -> None:
            sys.excepthook = users_hook
            sys.last_traceback = trace
            users_hook(kind, value.with_traceback(trace), trace)

        sys.excepthook = show
        raise


def _without_runner(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_MACHINERY):
        trace = trace.tb_next
    # A torch module that tapegrad lacks is reported from inside the finder; end at the import.
    last = trace
    while last is not None and last.tb_next is not None:
        if last.tb_next.tb_frame.f_code.co_filename == _FINDER_FILE:
            last.tb_next = None
        last = last.tb_next
    return trace


def _fail(message: str, status: int) -> NoReturn:
    print(f"{sys.executable}: {message}", file=sys.stderr)
    raise SystemExit(status)
