"""Places in the cells of a notebook, by IPython's own table of them."""

import sys
import types

import pytest

import tapegrad as torch
from tapegrad import diagnose

CELL = """
x = torch.ones(3, requires_grad=True)
y = x.exp()
y.add_(1)
"""


@pytest.fixture
def cells(monkeypatch):
    """A shell that has run CELL as its fourth input."""
    file = "/tmp/ipykernel_7/123.py"
    shell = types.SimpleNamespace(compile=types.SimpleNamespace(_filename_map={file: 4}))
    module = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)
    space = {"torch": torch, "__name__": "__main__"}
    exec(compile(CELL, file, "exec"), space)
    return space


def test_errors_name_the_cell(cells):
    with pytest.raises(RuntimeError) as caught:
        cells["y"].sum().backward()
    said = str(caught.value)
    assert "at In [4], line 4" in said and "ipykernel" not in said
    assert caught.value.diagnosis["noticed"]["file"] == __file__


def test_tools_name_the_cell(cells):
    y = cells["x"].exp()
    assert f"at test_notebook_places.py:{line_of('y = cells')}" in repr(diagnose.summary(y))
    found = diagnose.summary(cells["y"])
    assert "In [4], line 4" in repr(found)
    graph = diagnose.graph(cells["y"])
    assert "In [4], line 3" in graph.text() and "In [4], line 3" in graph.svg()
    assert '"file":"In [4]","line":3' in graph.html() and "ipykernel" not in graph.html()
    exec(compile("\nz = (x * 3).sum()", "/tmp/ipykernel_7/123.py", "exec"), cells)
    assert '"file":"In [4]","line":2' in diagnose.trace_backward(cells["z"]).html()


def test_explanations_name_the_cell(cells):
    with pytest.raises(RuntimeError) as caught:
        cells["y"].sum().backward()
    said = str(diagnose.explain(caught.value))
    assert "\n  In [4]\n" in said and "\n  /tmp" not in said


def test_what_a_cell_showed_has_its_own_name(cells):
    cells["_"] = cells["__"] = cells["_4"] = cells["y"]
    cells.update({name: cells.pop(name) for name in ("x", "y")})  # IPython's names come first
    with pytest.raises(RuntimeError, match="tensor:  `y`"):
        exec("y.sum().backward()", cells)


def line_of(text):
    with open(__file__) as lines:
        return next(i for i, line in enumerate(lines, 1) if line.strip().startswith(text))
