"""The torch alias, ``python -m tapegrad run`` and ``python -m tapegrad check``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tapegrad
from tapegrad.compat import check, remarks

SOURCE = str(Path(tapegrad.__file__).parent.parent)


def python(*args: str, cwd: Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [SOURCE, env.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env=env,
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


def run(*args: str, cwd: Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return python("-m", "tapegrad", "run", *args, cwd=cwd, text=text)


def write(folder: Path, name: str, source: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return path


def succeeds(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


# The alias


def test_training_script_runs_unmodified(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        """
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        from torch import optim
        from torch.autograd import Variable

        torch.manual_seed(0)
        x = Variable(torch.tensor([[1.0], [2.0], [3.0]]))
        y = 2 * x
        model = nn.Linear(1, 1)
        optimizer = optim.SGD(model.parameters(), lr=0.05)
        first = None
        for _ in range(200):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            first = loss.item() if first is None else first
        assert loss.item() < first / 10, (first, loss.item())
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        (w * w).sum().backward()
        print(w.grad)
        """,
    )
    assert succeeds(run("train.py", cwd=tmp_path)) == "tensor([2., 4.])\n"


def test_modules_are_the_same_objects(tmp_path: Path) -> None:
    write(
        tmp_path,
        "same.py",
        """
        import importlib, importlib.util, pickle, sys

        assert importlib.util.find_spec("torch") is not None
        assert importlib.util.find_spec("torch.nn") is not None
        assert importlib.util.find_spec("torch.no_such_module") is None
        import tapegrad, torch
        import torch.nn.functional as F
        import torch.autograd.function
        from torch.nn import Linear

        assert torch is tapegrad
        assert sys.modules["torch.nn"] is tapegrad.nn
        assert F is tapegrad.nn.functional
        assert sys.modules["torch.autograd.function"] is tapegrad.autograd.function
        assert torch.nn.__spec__.name == torch.nn.__name__ == "tapegrad.nn"
        assert pickle.loads(pickle.dumps(Linear)) is tapegrad.nn.Linear
        by_torch_name = b"ctorch.nn\\nLinear\\n."
        assert pickle.loads(by_torch_name) is Linear
        functional = importlib.reload(F)
        assert functional is F is sys.modules["torch.nn.functional"]
        assert callable(torch.tensor)
        """,
    )
    succeeds(run("same.py", cwd=tmp_path))


def test_install_and_uninstall(tmp_path: Path) -> None:
    code = """
    import sys
    from tapegrad import compat

    for _ in range(2):
        compat.install()
        compat.install()
        assert compat.is_installed()
        import torch.nn
        assert torch.__spec__.name == "tapegrad" and torch.__name__ == "torch"
        assert torch.torch is torch
        assert type(torch.ones(1)).__module__ == torch.device.__module__ == "torch"
        import functorch, importlib.metadata
        assert functorch.vmap is torch.vmap
        assert importlib.metadata.version("torch") == torch.__version__
        compat.uninstall()
        assert sys.modules["tapegrad"].__name__ == "tapegrad"
        assert torch.Tensor.__module__ == "tapegrad.api.tensor.tensor"
        compat.uninstall()
        assert not compat.is_installed()
        assert not [name for name in sys.modules if name.partition(".")[0] == "torch"]
    import types
    sys.modules["torch"] = types.ModuleType("torch")
    try:
        compat.install()
    except RuntimeError as error:
        print(error)
    """
    out = succeeds(python("-c", textwrap.dedent(code), cwd=tmp_path))
    assert "after the real torch had been imported" in out


def test_classes_and_pickles_have_the_names_of_pytorch(tmp_path: Path) -> None:
    """Packages decide by `type(x).__module__`; after `uninstall` all is as it was."""
    code = """
    import copy, pickle, pickletools
    import tapegrad
    from tapegrad import compat

    def homes(torch):
        things = [torch.ones(2), torch.nn.Parameter(torch.ones(1)), torch.nn.Linear(1, 1),
                  torch.optim.Adam([torch.nn.Parameter(torch.ones(1))]), torch.float32,
                  torch.distributions.Normal(0.0, 1.0)]
        return [type(thing).__module__ for thing in things]

    before = homes(tapegrad)
    compat.install()
    import torch
    print(homes(torch))
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    whole = {"model": model, "dtype": torch.bfloat16, "half": torch.ones(2).bfloat16(),
             "rows": torch.arange(6.0).view(2, 3).t(), "device": torch.device("cpu")}
    text = pickle.dumps(whole)
    named = [arg for op, arg, _ in pickletools.genops(text) if isinstance(arg, str)]
    assert not [arg for arg in named if arg.startswith("tapegrad")]
    again = pickle.loads(text)
    assert torch.equal(again["rows"], whole["rows"]) and again["rows"].stride() == (1, 3)
    assert again["dtype"] is torch.bfloat16
    x = torch.randn(4, 2)
    assert torch.equal(again["model"](x), model(x))
    assert torch.equal(copy.deepcopy(model)(x), model(x))
    compat.uninstall()
    assert homes(tapegrad) == before and not before[0].startswith("torch")
    assert torch.equal(pickle.loads(pickle.dumps(x)), x)
    """
    out = succeeds(python("-c", textwrap.dedent(code), cwd=tmp_path))
    assert out.split() == [
        "['torch',",
        "'torch.nn.parameter',",
        "'torch.nn.modules.linear',",
        "'torch.optim.adam',",
        "'torch',",
        "'torch.distributions.normal']",
    ]


def test_import_from_many_threads(tmp_path: Path) -> None:
    write(
        tmp_path,
        "threads.py",
        """
        import importlib, sys, threading
        from tapegrad import compat

        names = ["torch.nn.functional", "torch.optim", "torch.autograd.function", "torch.nn"]
        start, failures = threading.Barrier(8), []

        def work(i):
            start.wait()
            compat.install()
            for name in names[i % 4 :] + names[: i % 4]:
                module = importlib.import_module(name)
                if module is not sys.modules["tapegrad" + name[5:]]:
                    failures.append(name)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not failures, failures
        """,
    )
    succeeds(run("threads.py", cwd=tmp_path))


def test_missing_submodule(tmp_path: Path) -> None:
    path = write(tmp_path, "gone.py", "import torch\nimport torch.no_such_module\n")
    result = run("gone.py", cwd=tmp_path)
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[:3] == [
        "Traceback (most recent call last):",
        f'  File "{path}", line 2, in <module>',
        "    import torch.no_such_module",
    ]
    assert "ModuleNotFoundError: No module named 'torch.no_such_module'" in lines
    assert "python -m tapegrad check" in lines[-1]
    assert "alias.py" not in result.stderr


# The runner


def test_script_sees_what_python_shows(tmp_path: Path) -> None:
    write(tmp_path, "sub/helper.py", "value = 7\n")
    source = """
    '''The doc.'''
    import sys, helper
    print(sys.argv, sys.path[0], __file__, __name__, __package__, __spec__, __doc__)
    print(type(__loader__).__name__, sys.modules["__main__"].__dict__ is globals(), helper.value)
    """
    write(tmp_path, "sub/show.py", source)
    args = ("sub/show.py", "a", "-m", "--help")
    assert succeeds(run(*args, cwd=tmp_path)) == succeeds(python(*args, cwd=tmp_path))


def test_future_imports_of_the_runner_do_not_leak(tmp_path: Path) -> None:
    write(tmp_path, "annotations.py", "def f(x: int): pass\nprint(f.__annotations__)\n")
    assert succeeds(run("annotations.py", cwd=tmp_path)) == "{'x': <class 'int'>}\n"


def test_module(tmp_path: Path) -> None:
    source = """
    import sys
    print(sys.argv, sys.path[0], __name__, __package__, __spec__.name, __file__)
    """
    write(tmp_path, "pkg/__init__.py", "")
    write(tmp_path, "pkg/__main__.py", source)
    write(tmp_path, "pkg/tool.py", source)
    for name in ("pkg", "pkg.tool"):
        found = succeeds(run("-m", name, "x", "-y", cwd=tmp_path))
        assert found == succeeds(python("-m", name, "x", "-y", cwd=tmp_path))


def test_folder_and_stdin(tmp_path: Path) -> None:
    write(tmp_path, "app/__main__.py", "import sys, torch; print(sys.argv, torch.__spec__.name)\n")
    assert succeeds(run("app", "1", cwd=tmp_path)) == "['app', '1'] tapegrad\n"
    script = "import sys, torch; print(sys.argv, torch.__spec__.name)\n"
    assert succeeds(run("-", "1", cwd=tmp_path, text=script)) == "['-', '1'] tapegrad\n"


def test_pytest_as_module(tmp_path: Path) -> None:
    write(
        tmp_path,
        "test_it.py",
        """
        import pytest
        torch = pytest.importorskip("torch")

        def test_name():
            assert torch.__spec__.name == "tapegrad"

        def test_fails():
            assert torch.tensor(1.0).item() == 2.0
        """,
    )
    result = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py", cwd=tmp_path)
    assert result.returncode == 1
    assert "1 failed, 1 passed" in result.stdout


@pytest.mark.parametrize(
    "source, status",
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('a message')", 1),
        ("raise SystemExit", 0),
        ("1 / 0", 1),
        ("x = = 1", 1),
        ("raise KeyboardInterrupt", None),
        ("def f():\n    g()\ndef g():\n    raise ValueError('no') from KeyError(1)\nf()", 1),
        ("import sys\nsys.excepthook = lambda *a: print('mine', len(a))\n1 / 0", 1),
        ("import atexit; atexit.register(print, 'bye')\n1 / 0", 1),
    ],
)
def test_ends_as_under_python(tmp_path: Path, source: str, status: int | None) -> None:
    write(tmp_path, "end.py", source + "\n")
    found, expected = run("end.py", cwd=tmp_path), python("end.py", cwd=tmp_path)
    if status is None:
        # A shell reports a process that died of SIGINT as 130; Python itself as -2.
        assert found.returncode in (-signal.SIGINT, 130)
    else:
        assert found.returncode == status
    assert found.returncode == expected.returncode
    assert found.stdout == expected.stdout
    assert found.stderr == expected.stderr


@pytest.mark.parametrize("args", [("nope.py",), ("-m", "nope"), ("-m", "pkg"), ("-m", "a.b")])
def test_what_cannot_be_run(tmp_path: Path, args: tuple[str, ...]) -> None:
    write(tmp_path, "pkg/__init__.py", "")
    found, expected = run(*args, cwd=tmp_path), python(*args, cwd=tmp_path)
    assert found.returncode == expected.returncode == (2 if args == ("nope.py",) else 1)
    assert found.stderr == expected.stderr


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_multiprocessing_children_get_the_alias(tmp_path: Path, how: str) -> None:
    if sys.platform == "win32" and how == "forkserver":
        how = "spawn"
    write(
        tmp_path,
        "workers.py",
        f"""
        import multiprocessing, sys
        import torch

        def work(i):
            return torch.__spec__.name, sys.argv[1:], i

        if __name__ == "__main__":
            with multiprocessing.get_context({how!r}).Pool(1) as pool:
                print(pool.map(work, [1, 2]))
        """,
    )
    out = succeeds(run("workers.py", "arg", cwd=tmp_path))
    assert out == "[('tapegrad', ['arg'], 1), ('tapegrad', ['arg'], 2)]\n"


# The command line


def test_help_and_unknown_commands(tmp_path: Path) -> None:
    out = succeeds(python("-m", "tapegrad", "--help", cwd=tmp_path))
    assert all(word in out for word in ("demo", "run", "check", "info"))
    assert succeeds(python("-m", "tapegrad", cwd=tmp_path)) == out
    assert "SCRIPT" in succeeds(run("--help", cwd=tmp_path))
    unknown = python("-m", "tapegrad", "dance", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "unknown command 'dance'" in unknown.stderr
    assert "usage:" in unknown.stderr


def test_info(tmp_path: Path) -> None:
    from tapegrad import __config__

    out = succeeds(python("-m", "tapegrad", "info", cwd=tmp_path))
    assert out.splitlines()[0] == __config__.show().splitlines()[0]


# The checker


def missing(source: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for use in check.scan(textwrap.dedent(source), "x.py"):
        name = check.missing_part(use.name)
        if name is not None and not use.guarded:
            found.setdefault(name, []).append(use.line)
    return found


def test_names_through_imports_and_aliases() -> None:
    assert missing(
        """
        import torch, torch.nn as nn
        import torch.nn.functional as F
        from torch import optim as o, no_such_name
        import torch.no_such_module as gone
        G = torch.nn.functional
        torch.tensor([1.0]); nn.Linear(1, 1); F.relu; o.SGD
        nn.NoLayer(3).anything; F.no_f; G.no_g; o.NoOptimizer
        gone.deep.name()
        torch.Tensor.backward; torch.Tensor.no_method
        getattr(torch, "no_getattr")
        """
    ) == {
        "torch.no_such_name": [4],
        "torch.no_such_module": [5, 9],
        "torch.nn.NoLayer": [8],
        "torch.nn.functional.no_f": [8],
        "torch.nn.functional.no_g": [8],
        "torch.optim.NoOptimizer": [8],
        "torch.Tensor.no_method": [10],
        "torch.no_getattr": [11],
    }


def test_scopes() -> None:
    assert missing(
        """
        from torch import nn
        def shadowed(nn): return nn.nothing
        def local():
            nn = object()
            return nn.nothing
        class Net(nn.Module):
            nn = 3
            def method(self): return nn.NoneSuch
        [nn.nothing for nn in ()]
        lambda nn: nn.nothing
        def later(): return torch.no_late
        import torch
        def lazily():
            import torch.optim as only_here
            return only_here.NoHere
        only_here.nothing
        """
    ) == {"torch.nn.NoneSuch": [9], "torch.no_late": [12], "torch.optim.NoHere": [16]}


def test_guarded_names_and_assignments_do_not_count() -> None:
    assert not missing(
        """
        import torch
        try:
            import torch.no_such_module
            from torch import no_such_name
        except (ImportError, RuntimeError):
            no_such_name = None
        try:
            torch.no_attribute
        except AttributeError:
            pass
        if hasattr(torch, "no_feature"):
            torch.no_feature.use()
        getattr(torch, "no_default", None)
        torch.my_own_flag = True
        if TYPE_CHECKING:
            from torch.no_types import Thing
        """
    )


def test_star_import() -> None:
    assert missing("from torch.nn import *\nLinear(1, 1); NoLayer(); print(len(''))\n") == {
        "torch.nn.NoLayer": [2]
    }
    assert not missing("from torch.nn import *\nfrom numpy import *\nNoLayer()\n")


def test_check_command(tmp_path: Path) -> None:
    write(tmp_path, "good.py", "import torch\nx = torch.tensor([1.0])\n")
    write(tmp_path, "pkg/bad.py", "import torch\ntorch.no_a\ntorch.no_a\ntorch.no_b.c\n1 / 0\n")
    write(tmp_path, "pkg/.hidden/skip.py", "import torch\ntorch.no_hidden\n")
    write(tmp_path, "broken.py", "x = = 1\n")
    command = ("-m", "tapegrad", "check")

    good = python(*command, "good.py", cwd=tmp_path)
    assert (good.returncode, good.stdout) == (0, "1 file, 2 torch names, 0 missing\n")

    bad = python(*command, "pkg", "good.py", cwd=tmp_path)
    assert bad.returncode == 1
    place = os.path.join("pkg", "bad.py")
    assert bad.stdout.splitlines() == [
        "Missing in tapegrad:",
        "",
        "torch.no_a",
        f"    {place}:2, {place}:3",
        "torch.no_b",
        f"    {place}:4  (torch.no_b.c)",
        "",
        "2 files, 4 torch names, 2 missing",
    ]

    later = (
        "import torch\nfrom torch.distributed.fsdp import fully_shard\n"
        "def f():\n    return torch.no_c, torch.torch.ones, torch.ops.others.op\n"
    )
    write(tmp_path, "later.py", later)
    assert python(*command, "later.py", cwd=tmp_path).stdout.splitlines() == [
        "Missing, but asked for in functions only:",
        "",
        "torch.no_c",
        "    later.py:4",
        "",
        "There to be imported, but raise when they are used:",
        "",
        "torch.distributed.fsdp.fully_shard: instead, FullyShardedDataParallel(module)",
        "    later.py:2",
        "",
        "1 file, 5 torch names, 1 missing (1 in functions)",
    ]

    report = json.loads(python(*command, "--json", "pkg", cwd=tmp_path).stdout)
    assert [entry["name"] for entry in report["missing"]] == ["torch.no_a", "torch.no_b"]
    assert report["missing"][1]["uses"] == [{"file": place, "line": 4, "name": "torch.no_b.c"}]

    broken = python(*command, "broken.py", "nope.py", cwd=tmp_path)
    assert broken.returncode == 2
    assert "broken.py:1: not checked" in broken.stderr
    assert "nope.py: not checked: No such file" in broken.stderr


def test_check_remarks(tmp_path: Path) -> None:
    """On what is accepted and does nothing, on what only can be imported, on companions."""
    lines = [
        "import torch",
        "import flash_attn, numpy",
        "torch.backends.cudnn.benchmark = True",
        "model = torch.jit.script(torch.nn.Linear(1, 1))",
        "torch.jit.save(model, 'model.pt')",
        "try:",
        "    from torch_scatter import scatter_add",
        "except ImportError:",
        "    pass",
    ]
    write(tmp_path, "train.py", "\n".join(lines) + "\n")
    found = check.check_files([str(tmp_path / "train.py")])
    assert [*found.idle] == ["torch.backends.cudnn.benchmark", "torch.jit.script"]
    assert [use.line for use in found.idle["torch.backends.cudnn.benchmark"]] == [3]
    assert [*found.refusing] == ["torch.jit.save"] and not found.missing
    assert [*found.companions] == ["flash_attn", "torch_scatter"]
    assert found.companions["torch_scatter"][0].guarded
    text = check.to_text(found)
    assert "flash_attn: instead, nn.functional.scaled_dot_product_attention" in text
    assert text.endswith("1 file, 5 torch names, 0 missing")
    data = json.loads(check.to_json(found))
    assert [entry["name"] for entry in data["idle"]] == [*found.idle]
    assert data["companions"][0]["uses"][0]["line"] == 2


def test_check_notices_methods_of_tensors_that_are_missing() -> None:
    source = """\
        import torch
        x = torch.ones(2)
        x.int_repr().sum()
        x.sum().to_mkldnn()
        x.index
        try:
            x.dequantize()
        except AttributeError:
            pass
        """
    uses = [u for u in check.scan(textwrap.dedent(source), "x.py") if check.missing_part(u.name)]
    assert [(use.name.rpartition(".")[2], use.line, use.guarded) for use in uses] == [
        ("int_repr", 3, False),
        ("to_mkldnn", 4, False),
        ("dequantize", 7, True),
    ]
    assert not [name for name in check.absent_methods() if hasattr(tapegrad.Tensor, name)]


def test_check_names_what_a_script_imports_and_is_not_installed(tmp_path: Path) -> None:
    write(tmp_path, "helper.py", "")
    source = """
    import os, numpy, torch, helper
    import no_such_package.part
    try:
        import no_such_option
    except ImportError:
        pass
    def plot():
        import no_such_plotter
    """
    write(tmp_path, "train.py", textwrap.dedent(source))
    found = check.check_files([str(tmp_path / "train.py")])
    assert [*found.uninstalled] == ["no_such_package"] and not found.missing


def test_check_names_packages_that_are_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "tapegrad.utils.tensorboard", raising=False)
    check._look_up.cache_clear()
    write(tmp_path, "train.py", "from torch.utils.tensorboard import SummaryWriter\n")
    found = check.check_files([str(tmp_path / "train.py")])
    check._look_up.cache_clear()
    assert [*found.uninstalled] == ["tensorboard"] and not found.missing
    assert "tensorboard: pip install tensorboard" in check.to_text(found)
    assert json.loads(check.to_json(found))["uninstalled"][0]["uses"][0]["line"] == 1


def test_packages_that_would_bring_pytorch_are_installed_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remarks, "is_not_installed", lambda module, file: module != "torch")
    write(tmp_path, "train.py", "import torch, torchvision, einops\n")
    text = check.to_text(check.check_files([str(tmp_path / "train.py")]))
    assert "torchvision: pip install --no-deps torchvision==0.28.0" in text
    assert "einops: pip install einops" in text


def test_what_is_remarked_on_is_there() -> None:
    assert [name for name in remarks.IDLE if check.missing_part(name) is not None] == []
    assert "torchvision" not in remarks.NEED_PYTORCH  # whose ops are answered


def test_check_of_an_installed_package(tmp_path: Path) -> None:
    write(tmp_path, "site/toy_package/__init__.py", "import torch\ntorch.relu\ntorch.no_such_op\n")
    write(tmp_path, "site/toy_package-1.0.dist-info/METADATA", "Name: toy-package\nVersion: 1.0\n")
    code = (
        "import sys; sys.path.insert(0, 'site')\n"
        "from tapegrad.compat.check import check_files\n"
        "print([*check_files(['toy-package']).missing], 'toy_package' in sys.modules)\n"
    )
    assert succeeds(python("-c", code, cwd=tmp_path)) == "['torch.no_such_op'] False\n"
