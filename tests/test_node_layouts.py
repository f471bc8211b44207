"""The short ways of recording make the nodes of the general one: `lay_out` in core/record.py."""

from __future__ import annotations

import itertools
import json
import math
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import tapegrad as torch
from tapegrad.core.late_bound import HOST_KERNELS


@pytest.mark.slow  # 14,000 nodes, in a process of its own
def test_every_op_is_recorded_as_the_general_way_does() -> None:
    script = pathlib.Path(__file__).with_name("node_layouts.py")
    answer = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "TAPEGRAD_PURE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(answer.stdout)
    assert found["different"] == []
    assert found["wrong lines"] == {}
    assert len(found["short"]) > 200  # ops; all others are laid out by the general way itself


def described(t: Any) -> list[Any]:
    """The graph of a tensor as values: of equal graphs they are equal."""
    numbers: dict[Any, int] = {}
    found: list[Any] = []
    stack = [t._node]
    while stack:
        node = stack.pop()
        if node is None or node in numbers:
            continue
        numbers[node] = len(numbers)
        cells = node._cells
        values = [
            (x.shape, x.strides, x.tobytes()) if hasattr(x, "strides") else x
            for x in node._kept or ()
        ]
        found.append(
            (
                node.name(),
                None if node._is_leaf else values,
                [(cells[k], cells[k + 1].n, cells[k + 2]) for k in range(0, len(cells), 3)],
                node._edge_slots,
                node._fixes,
                node._frees,
                None if node._code is None else (node._code.co_name, node._lasti),
                [None if edge is None else edge.name() for edge in node._edges],
                [numbers.get(edge) for edge in node._edges],
            )
        )
        stack.extend(reversed(node._edges))
    view = t._view_of
    return [*found, None if view is None else (view.kind, view.seen, view.steps)]


@pytest.mark.parametrize("wants", list(itertools.product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(4, 4), (2, 4), (2, 3, 4)], ids=str)
def test_a_linear_layer_has_the_nodes_of_its_ops(
    shape: tuple[int, ...],
    dtype: Any,
    wants: tuple[bool, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.arange(math.prod(shape)).reshape(shape).to(dtype).requires_grad_(wants[0])
    weight = torch.ones(4, 4, dtype=dtype, requires_grad=wants[1])
    bias = torch.ones(4, dtype=dtype, requires_grad=wants[2])
    graphs = []
    for product in (HOST_KERNELS.product, None):
        monkeypatch.setattr(HOST_KERNELS, "product", product)
        graphs.append(described(torch.nn.functional.linear(x, weight, bias)))
    assert graphs[0] == graphs[1]


def test_a_step_of_an_lstm_has_the_nodes_of_its_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    cell = torch.nn.LSTMCell(3, 2)
    x, h, c = torch.rand(4, 3), torch.rand(4, 2), torch.rand(4, 2)
    graphs = []
    for step in (HOST_KERNELS.lstm_step, None):
        monkeypatch.setattr(HOST_KERNELS, "lstm_step", step)
        graphs.append([described(t)[:-1] for t in cell(x, (h, c))])
    assert graphs[0] == graphs[1]
