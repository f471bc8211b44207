"""A pytest plugin: where PyTorch is absent, tapegrad answers ``import torch`` for the test run.

    pytest -p tapegrad.stand_in

or, for good, in ``pyproject.toml``::

    [tool.pytest.ini_options]
    addopts = ["-p", "tapegrad.stand_in"]
    stand_in_only = ["mylibrary"]
    stand_in_not_for = ["scipy"]

Where PyTorch is installed nothing changes. The summary at the end of the run names what tests asked
torch for and tapegrad lacks. Python processes that tests start get the same answer, through
TAPEGRAD_AS_TORCH.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from _tapegrad_as_torch import NAMES, VARIABLE, Scope, Waiting
from tapegrad.compat import alias

# Where a report keeps what its test missed: pytest-xdist sends such attributes to the main process.
MISSED = "missing_in_tapegrad"


class StandIn:
    """The switches that this run has changed, to be undone at its end."""

    def __init__(self) -> None:
        self.installed: str | None = None  # the version of PyTorch that is here
        self.answers = False
        self.variable: str | None = None
        self.elsewhere: set[str] = set()  # names that imports in processes of pytest-xdist missed

    def start(self, config: Any) -> None:
        if self.answers or self.installed is not None:
            return
        if not alias.is_installed():
            found = importlib.util.find_spec("torch")
            # In an installed package, TAPEGRAD_AS_TORCH of the main process has made a process of
            # pytest-xdist wait for `import torch`: that is no PyTorch.
            if found is not None and not isinstance(found.loader, Waiting):
                self.installed = _version()
                return
        only, not_for = config.getini("stand_in_only"), config.getini("stand_in_not_for")
        scope = Scope(only, not_for, str(config.rootpath))
        alias.install(scope)
        self.answers, self.variable = True, os.environ.get(VARIABLE)
        os.environ[VARIABLE] = str(scope)

    def stop(self) -> None:
        if not self.answers:
            return
        alias.uninstall()
        self.answers = False
        if self.variable is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = self.variable


_RUN = StandIn()


def _version() -> str:
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def pytest_addoption(parser: Any) -> None:
    parser.addini(
        "stand_in_only",
        "packages for which tapegrad answers `import torch`, besides the tests (default: all)",
        type="args",
    )
    parser.addini(
        "stand_in_not_for", "packages that are to find no torch, and their modules", type="args"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    _RUN.start(early_config)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: Any) -> None:
    _RUN.start(config)  # the plugin may be named in a conftest.py


def pytest_unconfigure() -> None:
    _RUN.stop()


def pytest_report_header() -> str:
    import tapegrad

    if _RUN.answers:
        return f"torch: answered by tapegrad {tapegrad.__version__}"
    return f"torch: PyTorch {_RUN.installed} itself; tapegrad.stand_in does nothing"


def pytest_sessionfinish(session: Any) -> None:
    """In a process of pytest-xdist: what imports asked for and did without goes to the main one."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None and _RUN.answers:
        output[MISSED] = sorted(alias.FINDER.missing)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _RUN.elsewhere.update(getattr(node, "workeroutput", {}).get(MISSED, ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: Any) -> Generator[None, Any, Any]:
    return _with_missed((yield), call)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    report = yield
    return _with_missed(report, getattr(report, "call", None))


def _with_missed(report: Any, call: Any) -> Any:
    if _RUN.answers and report.failed and call is not None and call.excinfo is not None:
        names = sorted(set(missing(call.excinfo.value)))
        if names:
            setattr(report, MISSED, names)
    return report


def missing(error: BaseException | None) -> Iterator[str]:
    """The names of torch that an error, or what it was raised from, says tapegrad lacks."""
    met = set()
    while error is not None and id(error) not in met:
        met.add(id(error))
        name = _missing_name(error)
        if name:
            yield name
        error = error.__cause__ or error.__context__


def _missing_name(error: BaseException) -> str | None:
    if isinstance(error, ImportError):
        module = str(error.name or "")
        if module.partition(".")[0] not in (*NAMES, "tapegrad"):
            return None
        module = re.sub("^tapegrad", "torch", module)
        taken = re.match(r"cannot import name '(\w+)'", str(error))
        return f"{module}.{taken[1]}" if taken else module
    if isinstance(error, AttributeError):
        said = re.match(
            r"module '((?:torch|functorch)[\w.]*)' has no attribute '(\w+)'", str(error)
        )
        if said:
            return f"{said[1]}.{said[2]}"
        owner = error.obj if isinstance(error.obj, type) else type(error.obj)
        if owner.__module__.partition(".")[0] in ("torch", "tapegrad"):
            return f"{owner.__name__}.{error.name}"
    if isinstance(error, NotImplementedError) and _raised_by_us(error):
        return str(error).partition("\n")[0]
    return None


def _raised_by_us(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = str(trace.tb_frame.f_globals.get("__name__")) if trace is not None else ""
    return name.partition(".")[0] in ("torch", "tapegrad")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _RUN.answers:
        return
    asked: dict[str, list[str]] = {}
    for kind in ("failed", "error"):
        for report in terminalreporter.stats.get(kind, ()):
            for name in getattr(report, MISSED, ()):
                asked.setdefault(name, []).append(report.nodeid)
    for name in {*alias.FINDER.missing, *_RUN.elsewhere}:
        asked.setdefault(name, [])
    terminalreporter.section("tapegrad in place of PyTorch")
    if not asked:
        terminalreporter.line("nothing that the tests asked torch for was missing")
    for name, tests in sorted(asked.items(), key=lambda item: (-len(item[1]), item[0])):
        others = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
        where = f"{tests[0]}{others}" if tests else "imported, and done without"
        terminalreporter.line(f"missing: {name} ({where})")
