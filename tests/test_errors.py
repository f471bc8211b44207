"""The error catalogue (docs/errors): PyTorch's sentence, the lines that caused it, names, cures."""

from __future__ import annotations

import builtins
import contextlib
import copy
import io
import json
import linecache
import pathlib
import pickle
import re
import textwrap
import warnings
from typing import Any

import pytest

import error_cases
import error_cases_kinds
import error_cases_nan
import error_cases_ranges
import error_cases_shapes
import error_cases_writes
import tapegrad
from error_cases import E07, Case
from tapegrad.errors import tracebacks

DOCS = pathlib.Path(__file__).parent.parent / "docs" / "errors"
PACKAGE = str(pathlib.Path(tapegrad.__file__).parent)
IDS = sorted(page.stem for page in DOCS.glob("E*.md"))
CASES: list[Case] = [
    *error_cases_writes.CASES,
    *error_cases.CASES,
    *error_cases_nan.CASES,
    *error_cases_shapes.CASES,
    *error_cases_ranges.CASES,
    *error_cases_kinds.CASES,
]


def write_source(folder: pathlib.Path, source: str) -> tuple[pathlib.Path, dict[str, list[int]]]:
    """The case as a file; the lines of each label."""
    text = "import tapegrad as torch\n" + textwrap.dedent(source)
    path = folder / "user_code.py"
    path.write_text(text)
    linecache.checkcache(str(path))
    labels: dict[str, list[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for label in line.partition("#:")[2].split():
            labels.setdefault(label, []).append(number)
    return path, labels


def execute(path: pathlib.Path) -> None:
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": "user_code"})


def fail(path: pathlib.Path, raises: str) -> Any:
    """The exception that a case ends with; its class is exactly the one that is expected."""
    with warnings.catch_warnings(), pytest.raises(Exception) as caught:
        warnings.simplefilter("ignore", UserWarning)  # PyTorch's own: not the subject here
        execute(path)
    assert type(caught.value).__name__ == raises
    tracebacks.explained(caught.value)  # as where nobody catches it: E17
    return caught.value


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.id} {c.about}")
def test_case(case: Case, tmp_path: pathlib.Path) -> None:
    path, labels = write_source(tmp_path, case.source)
    error = fail(path, case.raises)
    text = str(error)
    lines = text.splitlines()
    diagnosis = error.diagnosis

    assert lines[0] == case.sentence == diagnosis["message"]
    assert len(lines) <= 12
    assert lines[-1].strip() == f"[{case.id}] python -m tapegrad explain {case.id}"
    assert diagnosis["id"] == case.id and diagnosis["page"] == f"docs/errors/{case.id}.md"
    assert PACKAGE not in text

    named: dict[str, list[int]] = {}
    for cause in diagnosis["causes"]:
        assert cause["file"] == str(path)
        assert cause["text"] == path.read_text().splitlines()[cause["line"] - 1].strip()
        assert f"{path}:{cause['line']}:  {cause['text']}" in text
        named.setdefault(cause["label"], []).append(cause["line"])
    assert named == labels
    assert diagnosis["noticed"]["line"] == labels["noticed"][-1]

    assert case.cure in diagnosis["fixes"][0]
    assert 1 <= len(diagnosis["fixes"]) <= 3
    assert all(fix in text for fix in diagnosis["fixes"])
    assert diagnosis["what"] and diagnosis["what"] in text
    if case.tensor is not None:
        assert diagnosis["tensor"]["name"] == case.tensor
        assert "shape" in diagnosis["tensor"] and "dtype" in diagnosis["tensor"]
        assert case.tensor in text
    else:
        assert not (diagnosis["tensor"] or {}).get("name")
    for key, value in case.facts.items():
        assert diagnosis[key] == value, key
    json.dumps(diagnosis)


def test_order_of_facts(tmp_path: pathlib.Path) -> None:
    """What, where it was caused, where it was noticed, the tensor, the ways out, the id."""
    order = ["what", "caused", "noticed", "tensor", "fix", "or", "id"]
    for case in CASES:
        path, _ = write_source(tmp_path, case.source)
        found = []
        for line in str(fail(path, case.raises)).splitlines()[1:]:
            label = "id" if line.startswith("  [") else line.split(":")[0].strip()
            found.append(order.index(label if label in order else "caused"))
        assert found == sorted(found), case.about


def test_every_id_has_cases() -> None:
    counts = {i: sum(case.id == i for case in CASES) for i in IDS}
    assert counts.pop("E07") == 0  # a warning, below
    assert counts.pop("E14") == 0  # of several processes: tests/distributed
    assert counts["E01"] >= 24 and min(counts.values()) >= 2


# ---------------------------------------------------------------------- E06 before the write


def test_nothing_is_written_before_a_refusal() -> None:
    w = tapegrad.tensor([1.0, 2.0], requires_grad=True)
    for write in (lambda: w.add_(1), lambda: w[:1].zero_(), lambda: w.__setitem__(0, 5.0)):
        with pytest.raises(RuntimeError, match="in-place operation"):
            write()
        assert w.tolist() == [1.0, 2.0] and w._version == 0


# ---------------------------------------------------------------------- E07


def warnings_of(path: pathlib.Path) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        execute(path)
    return caught


def test_e07_names_how_it_became_a_non_leaf(tmp_path: pathlib.Path) -> None:
    path, labels = write_source(
        tmp_path,
        """
        x = torch.randn(3, requires_grad=True) * 0.1  #: made
        x.sum().backward()
        for _ in range(3):
            x.grad  #: noticed
        """,
    )
    (warning,) = warnings_of(path)
    lines = str(warning.message).splitlines()
    assert warning.category is UserWarning
    assert (warning.filename, warning.lineno) == (str(path), labels["noticed"][0])
    assert lines[0] == E07
    assert lines[1].strip() == "what:    it is the result of Mul; only leaves keep their gradient"
    assert f"made:    by Mul at {path}:{labels['made'][0]}:  x = torch.randn" in lines[2]
    assert lines[3].strip() == f"noticed: at {path}:{labels['noticed'][0]}:  x.grad  #: noticed"
    assert lines[4].strip() == "tensor:  `x`, shape (3,), torch.float32"
    assert ".requires_grad_() last" in lines[5]
    assert warning.message.diagnosis["made"]["line"] == labels["made"][0]
    json.dumps(warning.message.diagnosis)
    assert lines[-1].strip() == "[E07] python -m tapegrad explain E07"
    assert PACKAGE not in str(warning.message) and len(lines) <= 12


def test_e07_of_a_conversion(tmp_path: pathlib.Path) -> None:
    path, labels = write_source(
        tmp_path,
        """
        def gradient(t):
            return t.grad  #: noticed

        x = torch.ones(3, requires_grad=True)
        y = x.to(torch.float64)  #: made
        y.sum().backward()
        gradient(y)
        """,
    )
    (warning,) = warnings_of(path)
    assert (warning.filename, warning.lineno) == (str(path), labels["noticed"][0])
    assert f"{path}:{labels['made'][0]}:  y = x.to(torch.float64)" in str(warning.message)
    assert "t.retain_grad()" in str(warning.message)


def test_e07_is_silent_for_probes(tmp_path: pathlib.Path) -> None:
    path, _ = write_source(
        tmp_path,
        """
        import copy
        import string

        x = torch.ones(3, 3, requires_grad=True)
        y = x * 2
        assert hasattr(y, "grad")
        copy.copy(y)
        string.Formatter().get_field("0.grad", [y], {})
        leaf = x.grad
        kept = x * 3
        kept.retain_grad()
        kept.grad
        """,
    )
    assert warnings_of(path) == []


def test_e07_copies_and_pickles_ask_nothing() -> None:
    x = tapegrad.ones(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy.deepcopy(x)
        pickle.loads(pickle.dumps(x))
        repr(x * 2)
        dir(x * 2)


# ---------------------------------------------------------------------- E09, E10, E15


def test_e09_marks_the_axis(tmp_path: pathlib.Path) -> None:
    path, _ = write_source(
        tmp_path,
        """
        a, matrix = torch.ones(8, 784), torch.ones(768, 320)
        a @ matrix
        """,
    )
    lines = str(fail(path, "RuntimeError")).splitlines()
    assert lines[2:5] == [
        "  shapes:  left `a`        (8, 784)",
        "           right `matrix`     (768, 320)",
        "                               ^^^",
    ]


def test_errors_of_the_users_own_are_left_alone(tmp_path: pathlib.Path) -> None:
    """A sentence of ours, raised by the user's code inside a module or a Function."""
    path, _ = write_source(
        tmp_path,
        """
        class Net(torch.nn.Module):
            def forward(self, x):
                raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (1x2 and 3x4)")

        Net()(torch.ones(2))
        """,
    )
    error = fail(path, "RuntimeError")
    assert str(error) == "mat1 and mat2 shapes cannot be multiplied (1x2 and 3x4)"
    assert not hasattr(error, "diagnosis")


def test_an_explanation_that_fails_hides_nothing(monkeypatch: Any) -> None:
    from tapegrad.errors import calls

    def broken(*args: Any) -> Any:
        raise KeyError("a mistake in the explanation")

    monkeypatch.setattr(calls, "call_of", broken)
    with pytest.raises(RuntimeError) as caught:
        tapegrad.ones(2, 3) @ tapegrad.ones(2, 3)
    assert str(caught.value) == "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"


def test_e10_devices() -> None:
    """What a backend with another device will say; the tensors here only pretend."""
    from tapegrad.errors import explain_call

    class Elsewhere(tapegrad.Tensor):
        @property
        def device(self) -> Any:
            return tapegrad.device("cuda", 0)

    x, w = tapegrad.ones(2, 2), tapegrad.ones(2, 2).as_subclass(Elsewhere)
    sentence = (
        "Expected all tensors to be on the same device, but found at least two devices, cpu and "
        "cuda:0!"
    )
    error: Any = RuntimeError(sentence)
    explain_call(error, "matmul", ("left", "right"), (x, w))
    assert str(error).splitlines()[0] == sentence
    assert error.diagnosis["id"] == "E10"
    assert error.diagnosis["devices"] == {"left": "cpu", "right": "cuda:0"}
    assert error.diagnosis["tensor"]["name"] == "x"
    assert error.diagnosis["what"] == "`x` is on cpu, the others on cuda:0"
    assert error.diagnosis["fixes"][0] == 'move it: x = x.to("cuda:0")'


def test_e15_a_probe_gets_the_sentence_alone() -> None:
    assert not hasattr(tapegrad, "no_such_thing")
    assert getattr(tapegrad.nn, "no_such_thing", None) is None
    with pytest.raises(AttributeError) as caught:
        getattr(tapegrad, "cross_entropy")  # noqa: B009
    assert str(caught.value) == "module 'torch' has no attribute 'cross_entropy'"
    with pytest.raises(AttributeError) as caught:
        tapegrad.cross_entropy  # noqa: B018
    assert "torch.nn.functional.cross_entropy has this name" in str(caught.value)
    with pytest.raises(ImportError):
        from tapegrad.nn import NoSuchLayer  # noqa: F401


# ---------------------------------------------------------------------- whose line, and no files


def test_library_code_is_never_named(tmp_path: pathlib.Path) -> None:
    path, labels = write_source(
        tmp_path,
        """
        layer = torch.nn.Linear(3, 2)
        x = torch.ones(1, 3)
        y = layer(x)  #: saved
        with torch.no_grad():
            layer.weight.zero_()  #: written
        x.requires_grad_()
        z = layer(x).sum()
        with torch.no_grad():
            layer.weight.fill_(1.0)  #: written
        z.backward()  #: noticed
        """,
    )
    with pytest.raises(RuntimeError) as caught:
        execute(path)
    text = str(caught.value)
    assert PACKAGE not in text
    assert f"{path}:{labels['written'][1]}:  layer.weight.fill_(1.0)" in text
    assert f"{path}:{labels['noticed'][0]}:  z.backward()" in text
    assert "a view of `layer.weight`" in text


def test_unusual_objects_in_scope_do_no_harm(tmp_path: pathlib.Path) -> None:
    path, labels = write_source(
        tmp_path,
        """
        class Odd:
            def __getattribute__(self, name):
                raise RuntimeError("not today")

        class Half(torch.nn.Module):
            def __init__(self):
                x = torch.ones(2, requires_grad=True)
                y = x.exp()
                y += 1  #: written
                y.sum().backward()

        odd = Odd()
        Half()
        """,
    )
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        execute(path)
    assert caught.value.diagnosis["causes"][0]["line"] == labels["written"][0]
    assert caught.value.diagnosis["tensor"]["name"] == "y"


def test_no_file_is_read_while_recording(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    path, _ = write_source(
        tmp_path,
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        with torch.no_grad():
            cut = x * 2
        y = x.exp().detach().sin()
        a = x * 1
        a[0] = 3.0
        a.view(3, 1).mul_(2)
        loss = (a * a).sum() + cut.sum() + y.sum() + x.argmax()
        loss.backward()
        """,
    )
    code = compile(path.read_text(), str(path), "exec")
    exec(code, {})  # whatever is imported on first use is imported now

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"a file was opened: {args}")

    for module, name in ((builtins, "open"), (io, "open"), (linecache, "getline")):
        monkeypatch.setattr(module, name, refuse)
    exec(code, {})


def test_errors_leave_no_reference_to_the_graph() -> None:
    """Cuts refer to what they cut off weakly: detach() frees the history."""
    import gc
    import weakref

    gc.disable()
    try:
        x = tapegrad.ones(3, requires_grad=True)
        y = x * 2
        gone = weakref.ref(y)
        z = y.detach() + x
        del y
        assert gone() is None and z.requires_grad
    finally:
        gc.enable()


# ---------------------------------------------------------------------- the pages


def blocks(page: str) -> tuple[str, str]:
    """The example of a page and the output that it promises."""
    text = (DOCS / f"{page}.md").read_text()
    example = re.search(r"```python\n(.*?)```", text, re.S)
    output = re.search(r"```text\n(.*?)```", text, re.S)
    assert example and output
    return example.group(1), output.group(1)


def printed(example: str, folder: pathlib.Path) -> str:
    """What Python shows for a script: its output, warnings, and the last lines of a traceback."""
    path = folder / "example.py"
    path.write_text(example)
    linecache.checkcache(str(path))
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", "Error detected in")  # its traceback leads to this file
        try:
            execute(path)
        except Exception as error:
            tracebacks.explained(error)
            print(f"{type(error).__name__}: {error}")
    for warning in caught:
        out.write(f"example.py:{warning.lineno}: {warning.category.__name__}: {warning.message}\n")
    return out.getvalue().replace(str(path), "example.py")


# E14 needs several processes: tests/distributed runs its example.
@pytest.mark.parametrize("page", [page for page in IDS if page != "E14"])
def test_page(page: str, tmp_path: pathlib.Path) -> None:
    example, output = blocks(page)
    assert printed(example, tmp_path) == output


def test_every_id_has_a_page() -> None:
    sources = pathlib.Path(PACKAGE).rglob("*.py")
    used = {i for path in sources for i in re.findall(r'"(E\d\d)"', path.read_text())}
    assert used == set(IDS)


def test_index_lists_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    for page in IDS:
        assert f"[{page}]({page}.md)" in index


def test_e07_where_somebody_is_asked_about_fields(tmp_path: pathlib.Path) -> None:
    """A mode puts other getters in place; the warning is about the user's line all the same."""
    path, labels = write_source(
        tmp_path,
        """
        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        with Mode():
            pass
        x = torch.randn(3, requires_grad=True) * 0.1
        x.grad  #: noticed
        """,
    )
    (warning,) = warnings_of(path)
    assert (warning.filename, [warning.lineno]) == (str(path), labels["noticed"])


def test_e07_in_code_without_a_module() -> None:
    x = tapegrad.ones(3, requires_grad=True) * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        exec("x.grad", {"x": x, "__builtins__": {}})
