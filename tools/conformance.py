"""Runs PyTorch's own tests, from a checkout of its source, with tapegrad in PyTorch's place.

    make conformance PYTORCH=~/src/pytorch                     the files in FILES
    python tools/conformance.py ~/src/pytorch test_view_ops.py -k reshape --show 20

For each file it prints how many tests pass, fail, need what tapegrad does not have, end the
process, fail in the PyTorch that is installed too (mostly because the checkout is of another
version), are skipped by PyTorch itself, or are excluded here (EXCLUDED says why). `--show N` adds
the N most frequent errors, `--json FILE` writes the outcome of each test, `--record` adds a record
for each file to the evidence (docs/evidence/conformance.toml, which `make evidence-page` prints).
Nothing of PyTorch's is copied: the tests and the helpers in torch/testing/_internal are read from
the checkout. What these helpers import and tapegrad lacks is replaced by an object that raises
`Lacking` when it is used.
"""

from __future__ import annotations

import argparse
import builtins
import collections
import contextlib
import faulthandler
import functools
import importlib
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator, Sequence
from typing import Any

FILES = """
test_autograd.py test_optim.py test_nn.py nn/test_convolution.py nn/test_dropout.py
nn/test_embedding.py nn/test_init.py nn/test_lazy_modules.py nn/test_load_state_dict.py
nn/test_module_hooks.py nn/test_multihead_attention.py nn/test_packed_sequence.py
nn/test_parametrization.py nn/test_pooling.py nn/test_pruning.py optim/test_lrscheduler.py
optim/test_swa_utils.py autograd/test_complex.py autograd/test_functional.py
autograd/test_logging.py
test_view_ops.py test_indexing.py test_type_promotion.py test_type_info.py test_reductions.py
test_shape_ops.py test_sort_and_select.py test_tensor_creation_ops.py test_scatter_gather_ops.py
test_segment_reductions.py test_complex.py test_dlpack.py test_stateless.py test_pytree.py
test_numpy_interop.py test_spectral_ops.py test_legacy_vmap.py test_autocast.py test_masked.py
test_dataloader.py test_serialization.py test_overrides.py test_python_dispatch.py test_subclass.py
test_namedtuple_return_api.py  test_utils.py test_weak.py test_module_tracker.py
functorch/test_vmap.py functorch/test_eager_transforms.py functorch/test_logging.py
""".split()

# Test (regular expression on file::Class::test) -> why it says nothing about this library.
EXCLUDED = {
    r"cuda|xpu|LAZY|_mps\b|_mkldnn|cudnn|multigpu|_cxx": "another device or library",
    r"(?i)quantiz|_quint|_qint|named_?tensor|nested_?tensor|_nt_|torchscript|_jit\b|_jit_|script": (
        "quantised, named or nested tensors, TorchScript"
    ),
    r"(?i)dynamo|inductor|_export|make_fx|_fake|functionaliz": "PyTorch's compiler",
    r"MultipleDispatch|test_warning_in_backward|test_check_tensor_internal|_lazy_clone|vitals": (
        "private functions that only PyTorch's own tests call"
    ),
    r"test_conv_backend": "which of PyTorch's own kernels computes a convolution",
    r"test_multi_grad_all_hooks": "compiles C++ against PyTorch's headers",
    r"test_view_func_replay$|grad_fn_input_metadata|test_calculate_shape_util": (
        "nested tensors are among what the test needs"
    ),
    r"complex32": "there is no complex32 here",
    r"test_large|large_tensor|_64bit|large_memory|out_of_memory": "takes too much memory",
}
# What functions of PyTorch's return, without which its helpers cannot be imported or do not work.
ANSWERS: dict[str, Any] = {
    "_C._DisableFuncTorch": contextlib.nullcontext,
    "_C._get_privateuse1_backend_name": "privateuseone",
    "_C._debug_only_are_vmap_fallback_warnings_enabled": False,
    "_C._debug_only_display_vmap_fallback_warnings": None,
    "_lazy.metrics.reset": None,
    "_lazy.ts_backend.init": None,
    "_logging.scribe.open_source_signpost": None,
    "_utils_internal.get_file_path_2": os.path.join,
    "_utils_internal.get_writable_path": str,
}
# Modules of which tests and helpers use private parts: those of the checkout.
WHOLE = (
    "torch.testing._comparison",
    "torch.testing._utils",
    "torch.utils._import_utils",
    "torch.utils._mode_utils",
)
LACKING = re.compile(
    r"\bLacking\b|^AttributeError: (module 'torch|type object 'Tensor').* has no attribute"
    r"|No module named '(torch|functorch)|cannot import name|is not available in tapegrad"
)
MARK = "CONFORMANCE"
FAILURES = ("failed", "lacking", "died")
SECONDS = 30  # that a single test may take


class Lacking(NotImplementedError):
    """A test used something of PyTorch's that tapegrad does not have."""


class Lack(types.ModuleType):
    """A module, class or function that tapegrad lacks: has every attribute, cannot be called."""

    __path__: list[str] = []
    __all__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Lack(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType):
            return args[0]  # used as a decorator
        if Helpers.depth or os.environ.get(f"{MARK}_TORCH") == "1":  # it may give a decorator
            return Lack(f"{self.__name__}()")
        raise Lacking(self.__name__)

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        return Lack, (self.__name__,)

    def __enter__(self) -> Any:
        raise Lacking(self.__name__)

    def __exit__(self, *error: object) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (object,)

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __subclasscheck__(self, subclass: Any) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lack) and other.__name__ == self.__name__

    def __hash__(self) -> int:
        return hash(self.__name__)


class Helpers:
    """Finds torch.testing._internal in the checkout; a missing module of torch is a `Lack`."""

    depth = 0  # of imports of files of the checkout that are running

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.watched: set[int] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        head = name.partition(".")[0]
        if name.startswith("torch.testing._internal"):
            at = self.root.joinpath(*name.split("."))
            file = at / "__init__.py" if at.is_dir() else at.with_suffix(".py")
            if file.exists():
                return self.noting(importlib.util.spec_from_file_location(name, file))
        elif head == "torchgen" and importlib.util.find_spec("torch.testing._internal"):
            at = self.root.joinpath(*name.split("."))
            file = at / "__init__.py" if at.is_dir() else at.with_suffix(".py")
            if file.exists():
                return importlib.util.spec_from_file_location(name, file)
        elif head in ("torch", "functorch") and self.depth and not self.answered(name, path):
            return importlib.util.spec_from_loader(name, self)
        return None

    def answered(self, name: str, path: Any) -> bool:
        for finder in sys.meta_path:
            if finder is not self:
                try:
                    if finder.find_spec(name, path) is not None:
                        return not isinstance(sys.modules.get(name.rpartition(".")[0]), Lack)
                except ImportError:
                    return False
        return False

    def create_module(self, spec: Any) -> Any:
        return Lack(spec.name)

    def exec_module(self, module: Any) -> None:
        pass

    @contextlib.contextmanager
    def lenient(self) -> Iterator[None]:
        """Names that modules of tapegrad lack are `Lack` meanwhile."""
        imports = builtins.__import__

        def noticed(*args: Any, **kwargs: Any) -> Any:
            module = imports(*args, **kwargs)
            self.watch_all()
            return module

        Helpers.depth += 1
        builtins.__import__ = noticed
        self.watch_all()
        try:
            yield
        finally:
            Helpers.depth -= 1
            builtins.__import__ = imports

    def noting(self, spec: Any) -> Any:
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            module.getattr, module.hasattr = self.getattr, self.hasattr
            with self.lenient():
                run(module)

        spec.loader.exec_module = exec_module
        return spec

    def getattr(self, value: Any, *name_and_default: Any) -> Any:
        """For helpers that ask whether a name exists: then it does not."""
        if len(name_and_default) == 1:
            return getattr(value, *name_and_default)
        found = getattr(value, *name_and_default)
        return name_and_default[1] if isinstance(found, Lack) else found

    def hasattr(self, value: Any, name: str) -> bool:
        return hasattr(value, name) and not isinstance(getattr(value, name), Lack)

    def watch_all(self) -> None:
        for name, module in sys.modules.copy().items():
            if id(module) not in self.watched and name.partition(".")[0] in ("torch", "tapegrad"):
                if getattr(getattr(module, "__spec__", None), "_initializing", False):
                    continue
                self.watched.add(id(module))
                if not isinstance(module, Lack):
                    self.watch(module)

    def watch(self, module: Any) -> None:
        """While a helper or a test file is imported, no name of a module or class is missing."""
        own = vars(module).get("__getattr__")

        def missing(*self_and_name: Any) -> Any:
            name = self_and_name[-1]
            frame = sys._getframe(1)
            if frame.f_code is Helpers.getattr.__code__ and frame.f_back is not None:
                frame = frame.f_back
            asker = frame.f_globals.get("__file__") or ""
            strict = not (self.depth and asker.startswith(str(self.root))) or name[:2] == "__"
            if own is not None:
                try:
                    return own(*self_and_name)
                except AttributeError:
                    if strict:
                        raise
            elif strict:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            return Lack(f"{module.__name__}.{name}")

        module.__getattr__ = missing


class Plugin:
    """Leaves excluded tests out, limits the time of the others and writes down how they end."""

    def pytest_collection_modifyitems(self, items: list[Any], config: Any) -> None:
        with open(os.environ[MARK]) as file:  # of processes before this one, which died in a test
            done = {json.loads(line)[0] for line in file}
        kept = []
        for item in items:
            if item.nodeid in done:
                continue
            why = next((w for p, w in EXCLUDED.items() if re.search(p, item.nodeid)), None)
            if why is None:
                kept.append(item)
            else:
                say(item.nodeid, "excluded", why)
        items[:] = kept

    def pytest_runtest_setup(self, item: Any) -> None:
        def late(*_: Any) -> None:
            raise TimeoutError(f"more than {SECONDS} seconds")

        signal.signal(signal.SIGALRM, late)
        signal.alarm(SECONDS)
        faulthandler.dump_traceback_later(SECONDS + 10, exit=True)  # for what no signal stops

    def pytest_runtest_teardown(self, item: Any) -> None:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        say(nodeid, "died", "the process ended in this test")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            error = ""
            if report.outcome != "passed":
                crash = getattr(report.longrepr, "reprcrash", None)
                error = crash.message if crash else str(report.longrepr)
            outcome = report.outcome
            if hasattr(report, "wasxfail"):
                outcome = "passed" if outcome == "skipped" else "failed"
            elif outcome == "failed" and LACKING.search(error):
                outcome = "lacking"
            say(report.nodeid, outcome, error)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            say(report.nodeid, "failed", f"not imported: {str(report.longrepr)[-1200:]}")


def say(test: str, outcome: str, error: str) -> None:
    with open(os.environ[MARK], "a") as file:
        print(json.dumps([test, outcome, error[:1500]]), file=file)


def take_pytorchs_place(root: pathlib.Path) -> None:
    """Let tapegrad answer `import torch`, and the checkout what its tests need besides."""
    from _pytest import python

    from tapegrad.compat import alias

    helpers = Helpers(root)
    alias.install()
    sys.meta_path.insert(0, helpers)
    import torch

    helpers.watch(type(torch.ops.aten))
    with helpers.lenient():
        for name, answer in ANSWERS.items():
            module, _, function = f"torch.{name}".rpartition(".")
            returns = functools.partial(lambda answer, *_, **__: answer, answer)
            found = answer if callable(answer) else returns
            setattr(importlib.import_module(module), function, found)
    for name in WHOLE:
        file = root.joinpath(*name.split(".")).with_suffix(".py")
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
        parent, _, own = name.rpartition(".")
        setattr(importlib.import_module(parent), own, sys.modules[name])
    original = python.importtestmodule

    def importtestmodule(*args: Any, **kwargs: Any) -> Any:
        with helpers.lenient():
            return original(*args, **kwargs)

    python.importtestmodule = importtestmodule


def accept_other_version() -> None:
    """What the checkout's tests import from PyTorch's helpers, and the installed ones lack."""
    imports = builtins.__import__

    def patient(name: str, *rest: Any, **named: Any) -> Any:
        module = imports(name, *rest, **named)
        for wanted in (rest[2] if len(rest) > 2 else None) or ():
            if module.__name__.startswith("torch.testing.") and not hasattr(module, wanted):
                setattr(module, wanted, Lack(f"{module.__name__}.{wanted}"))
        return module

    builtins.__import__ = patient


def child(root: pathlib.Path, file: str, rest: Sequence[str]) -> int:
    """Run one file, or the tests of it that are named in `rest`, with pytest in this process."""
    import pytest

    if os.environ.get(MARK + "_TORCH") != "1":
        take_pytorchs_place(root)
    else:
        accept_other_version()
    os.chdir(root / "test")
    sys.path[:0] = [str((root / "test" / file).parent), str(root / "test")]
    sys.argv = [file]
    options = ["-q", "--noconftest", "-p", "no:cacheprovider", "-p", "no:warnings", "--tb=short"]
    options += ["-c", os.devnull, "--rootdir", str(root / "test"), "--import-mode=importlib"]
    chosen = rest if any("::" in r for r in rest) else [file, *rest]
    return int(pytest.main([*options, *chosen], plugins=[Plugin()]))


def outcomes(
    root: pathlib.Path, file: str, rest: Sequence[str], seconds: float, torch: bool = False
) -> dict[str, Any]:
    """test -> (outcome, error) of a file, in a process; another one goes on after a death."""
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as log:
        env = os.environ | {MARK: log.name, MARK + "_TORCH": "1" if torch else "0"}
        env["PYTHONPATH"] = os.pathsep.join(sys.path)
        command = [sys.executable, __file__, "--child", str(root), file, *rest]
        end = time.monotonic() + seconds
        found: dict[str, Any] = {}
        died = True
        while died and time.monotonic() < end:
            process = subprocess.Popen(
                command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            try:
                error = process.communicate(timeout=end - time.monotonic())[1]
            except subprocess.TimeoutExpired:
                process.kill()
                error = process.communicate()[1]
            new = {test: (outcome, why) for test, outcome, why in map(json.loads, log)}
            found |= new
            died = "died" in [outcome for outcome, _ in new.values()]
    if not found:
        found[file] = ("failed", f"no tests: {error[-600:]}")
    return found


def without_theirs(root: pathlib.Path, file: str, found: dict[str, Any], seconds: float) -> None:
    """Say "theirs" of tests that the PyTorch that is installed, of another version, fails too."""
    failed = [t for t, (outcome, _) in found.items() if outcome in FAILURES and "::" in t]
    if failed:
        for test, (outcome, error) in outcomes(root, file, failed, seconds, True).items():
            if test in found and outcome in FAILURES:
                found[test] = ("theirs", error)


def likeness(error: str) -> str:
    """Equal for errors that probably have one cause."""
    first = next((line for line in error.splitlines() if line.strip()), "")
    return re.sub(r"0x[0-9a-f]+|[-\d.e+]*\d[-\d.e+]*", "#", first)[:160]


def record(root: pathlib.Path, file: str, chosen: str, counts: dict[str, int]) -> None:
    """Add the counts of a file to the evidence, with the version of the checkout."""
    import evidence

    version = (root / "version.txt").read_text().strip()[:6].rstrip("a")
    command = f"make conformance PYTORCH=path CONFORMANCE_FILES={file}"
    what = file.removesuffix(".py")
    if chosen:
        command = f"python tools/conformance.py path {file} -k '{chosen}'"
        what += f", tests with `{chosen}`"
    evidence.add("conformance", what, counts, command=command, note=f"tests of PyTorch {version}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pytorch", type=pathlib.Path, help="a checkout of PyTorch's source")
    parser.add_argument("files", nargs="*", default=FILES, help="files in its folder test/")
    parser.add_argument("-k", default="", help="as pytest's")
    parser.add_argument("--seconds", type=float, default=1800, help="for each file")
    parser.add_argument("--show", type=int, default=0, help="errors to print for each file")
    parser.add_argument("--json", type=pathlib.Path, help="a file for all outcomes")
    parser.add_argument(
        "--record", action="store_true", help="add the numbers of each file to docs/evidence"
    )
    given = parser.parse_intermixed_args()
    root = given.pytorch.resolve()
    if not (root / "torch" / "testing" / "_internal").is_dir():
        parser.error(f"{root} is no checkout of PyTorch: it has no torch/testing/_internal")
    compares = importlib.util.find_spec("torch") is not None
    words = "passed failed lacking died theirs skipped excluded".split()
    print(f"{'':32}", *[f"{w:>8}" for w in words], f"{'seconds':>8}")
    total: collections.Counter[str] = collections.Counter()
    everything = {}
    for file in given.files:
        begin = time.monotonic()
        found = outcomes(root, file, ["-k", given.k] if given.k else [], given.seconds)
        if compares:
            without_theirs(root, file, found, given.seconds)
        counts = collections.Counter(outcome for outcome, _ in found.values())
        total += counts
        everything[file] = found
        took = time.monotonic() - begin
        if given.record:
            record(root, file, given.k, {w: counts[w] for w in words})
        print(f"{file:32}", *[f"{counts[w]:8}" for w in words], f"{took:8.0f}", flush=True)
        errors = collections.Counter(
            f"{o}: {likeness(e)}" for o, e in found.values() if o in FAILURES
        )
        for error, count in errors.most_common(given.show):
            print(f"    {count:4} {error}")
        if given.json:
            given.json.write_text(json.dumps(everything, indent=0))
    print(f"{'all':32}", *[f"{total[w]:8}" for w in words])
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4:]))
    sys.exit(main())
