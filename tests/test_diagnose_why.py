"""why(x): every reason for a gradient that is or is not there, with the line that made it so."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad as torch
from tapegrad import nn
from tapegrad.diagnose import why


def marked(place: Any, mark: str) -> bool:
    """Whether a place is the line of this file with that comment."""
    return place is not None and place["text"].endswith(f"#: {mark}")


def test_never_used() -> None:
    x = torch.ones(2, requires_grad=True)
    assert why(x).cause == "never used"
    assert str(why(x)).startswith("`x` has never been used in a recorded computation")


def test_no_backward_yet() -> None:
    x = torch.ones(2, requires_grad=True)
    loss = (x * 2).sum()
    answer = why(x)
    assert answer.cause == "no backward yet" and answer.facts["part_of"] == ["loss"]
    loss.backward()
    assert why(x).cause == "filled"


def test_filled_and_added_up() -> None:
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    for _ in range(3):
        loss = (x * x).sum() / 2
        loss.backward()  #: pass
    answer = why(x)
    assert answer.cause == "filled" and answer.facts["norm"] == 15.0
    assert answer.facts["accumulated"] == 3
    assert all(marked(place, "pass") for place in answer.facts["backward"])
    assert "2 more backward passes" in answer.text


def test_filled_once_names_the_line() -> None:
    x = torch.ones(2, requires_grad=True)
    loss = x.exp().sum()
    loss.backward()  #: pass
    answer = why(x)
    assert answer.facts["accumulated"] == 1
    assert marked(answer.facts["backward"][0], "pass")
    assert "added up" not in answer.text


def test_zero_and_nan_are_told() -> None:
    x = torch.tensor([-1.0], requires_grad=True)
    x.relu().sum().backward()
    assert why(x).facts["zero"] and "All of it is zero" in why(x).text
    y = torch.tensor([0.0], requires_grad=True)
    (y.sqrt() * 0).sum().backward()
    assert why(y).facts["finite"] is False


def test_set_to_none_by_zero_grad() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(3, 2)).pow(2).sum()
    loss.backward()  #: pass
    optimizer.step()
    optimizer.zero_grad()  #: zero
    answer = why(model.weight)
    assert answer.cause == "set to None" and answer.facts["name"] == "model.weight"
    assert marked(answer.facts["backward"], "pass")
    assert marked(answer.facts["zero_grad"], "zero")
    del loss
    later = why(model.weight)  # the graph is gone; that the optimizer wrote it, is known
    assert later.cause == "set to None" and "optimizer.step() has used it" in later.text


def test_autograd_grad_fills_nothing() -> None:
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    torch.autograd.grad(y, x)  #: pass
    answer = why(x)
    assert answer.cause == "autograd.grad" and marked(answer.facts["backward"], "pass")


def test_cut_on_the_way() -> None:
    x = torch.ones(2, requires_grad=True)
    w = torch.ones(2, requires_grad=True)
    h = x * 2
    carried = h.detach()  #: cut
    loss = (carried * w).sum()
    loss.backward()
    answer = why(x)
    assert answer.cause == "cut" and answer.facts["cut_by"] == "detach"
    assert marked(answer.facts["cut"], "cut")
    assert why(w).cause == "filled"
    own = why(carried)
    assert own.cause == "cut" and marked(own.facts["cut"], "cut")


def test_not_in_this_loss() -> None:
    used = torch.ones(2, requires_grad=True)
    forgotten = torch.ones(2, requires_grad=True)
    extra = forgotten * 2
    loss = used.exp().sum()
    loss.backward()  #: pass
    answer = why(forgotten)
    assert answer.cause == "not in the loss" and answer.facts["part_of"] == ["extra"]
    assert marked(answer.facts["backward"], "pass") and "`loss`" in answer.text
    del extra
    assert why(forgotten).cause == "graph is gone"


@pytest.mark.parametrize("how", ["to", "times"])
def test_not_a_leaf_any_more(how: str) -> None:
    if how == "to":
        x = torch.ones(2, requires_grad=True).to(torch.float64)  #: made
    else:
        x = torch.ones(2, requires_grad=True) * 0.1  #: made
    answer = why(x)
    assert answer.cause == "not a leaf: made from one" and marked(answer.facts["made"], "made")
    assert "Call .requires_grad_() last" in answer.text


def test_result_of_an_operation() -> None:
    w = torch.ones(2, requires_grad=True)
    h = w * 2  #: made
    answer = why(h)
    assert answer.cause == "not a leaf" and answer.facts["op"] == "Mul"
    assert marked(answer.facts["made"], "made") and answer.facts["leaves"] == ["w"]
    assert "h.retain_grad() before backward()" in answer.text
    h.retain_grad()
    assert why(h).cause == "no backward yet"
    h.sum().backward()
    assert why(h).cause == "filled, retained"


def test_retained_too_late() -> None:
    w = torch.ones(2, requires_grad=True)
    h = w.exp()
    h.sum().backward()  #: pass
    h.retain_grad()
    answer = why(h)
    assert answer.cause == "retained too late" and "#: pass" in answer.text


def test_frozen_parameter() -> None:
    model = nn.Linear(2, 1)
    model.weight.requires_grad_(False)  #: frozen
    answer = why(model.weight)
    assert answer.cause == "frozen" and marked(answer.facts["frozen_at"], "frozen")
    assert why(model.bias).cause == "never used"
    assert "called in forward()" in why(model.bias).text


def test_what_does_not_require_grad() -> None:
    x = torch.ones(2, requires_grad=True)
    plain = torch.ones(2)
    with torch.no_grad():
        silent = x * 2  #: no_grad
        view = x[1:]
        assert why(plain).facts["no_grad_now"]
    with torch.inference_mode():
        inferred = x * 2
    counts = (x > 0).long()
    assert why(plain).cause == "requires_grad is False"
    assert why(silent).facts["cut_by"] == "no_grad" and marked(why(silent).facts["cut"], "no_grad")
    assert why(view).cause == "view under no_grad"
    assert why(inferred).cause == "inference_mode"
    assert why(counts).cause == "dtype" and "torch.int64" in why(counts).text


def test_a_gradient_from_before() -> None:
    x = torch.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    x.requires_grad_(False)
    answer = why(x)
    assert answer.cause == "filled" and "does not require grad now" in answer.text


def test_odd_input() -> None:
    for wrong in (None, 3, "x", []):
        with pytest.raises(TypeError, match=r"why\(\): argument 'x' must be a Tensor"):
            why(wrong)
    assert why(torch.ones(0, 3, requires_grad=True)).cause == "never used"
    assert why(torch.eye(2).to_sparse()).cause == "requires_grad is False"
    assert str(why(torch.tensor(1 + 1j, requires_grad=True))).startswith("This tensor has never")


def test_a_graph_that_frees_nothing_does_not_tell_whether_a_pass_ran():
    w = torch.ones(3, requires_grad=True)
    d = w.mean()
    d.backward()
    w.grad = None
    found = why(w)
    assert found.cause == "set to None" and "most likely" in found.text
    assert "no backward() has been through it" not in found.text and d is not None
