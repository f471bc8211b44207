"""Training loops without an optimizer: what the doctor and `.grad` say about them."""

from __future__ import annotations

import warnings

import pytest

import tapegrad as torch
from tapegrad import diagnose

X = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]])
Y = torch.tensor([1.0, 2.0, 3.0])


def by_data(w):
    w.data -= 0.01 * w.grad


def by_data_method(w):
    w.data.sub_(0.01 * w.grad.data)


def without_recording(w):
    with torch.no_grad():
        w -= 0.01 * w.grad


def keep(w):
    pass


def set_none(w):
    w.grad = None


def zero(w):
    w.grad.zero_()


def zero_data(w):
    w.grad.data.zero_()


def ids(update, reset, steps=6, every=1):
    w = torch.zeros(2, requires_grad=True)
    with diagnose.doctor(show=False) as report:
        for step in range(steps):
            ((X @ w - Y) ** 2).mean().backward()
            if step % every == every - 1:
                update(w)
                reset(w)
    assert report.problems == []
    return [finding.id for finding in report.findings]


UPDATES = [by_data, by_data_method, without_recording]


@pytest.mark.parametrize("update", UPDATES)
def test_a_gradient_that_is_kept(update):
    assert ids(update, keep) == ["D01"]


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("reset", [set_none, zero, zero_data])
def test_a_gradient_that_is_reset(update, reset):
    assert ids(update, reset) == []


def test_accumulation_on_purpose():
    assert ids(without_recording, set_none, steps=9, every=3) == []


def test_it_names_the_leaf_and_the_line():
    weights = torch.zeros(2, requires_grad=True)
    with diagnose.doctor(show=False) as report:
        for _ in range(4):
            ((X @ weights - Y) ** 2).mean().backward()
            weights.data -= 0.01 * weights.grad
    (finding,) = report.findings
    assert "`weights`" in finding.what and "by hand" in finding.what
    assert "weights.grad = None" in finding.fix
    assert "mean().backward()" in finding.where["text"]


def test_a_clamp_after_an_optimizers_step_is_no_step():
    w = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with diagnose.doctor(show=False) as report:
        for _ in range(6):
            optimizer.zero_grad()
            ((X @ w - Y) ** 2).mean().backward()
            optimizer.step()
            with torch.no_grad():
                w.clamp_(-1, 1)
    assert report.findings == []


def test_an_update_that_loses_its_leaf():
    w = torch.zeros(2, requires_grad=True)
    ((X @ w - Y) ** 2).mean().backward()
    w = w - 0.1 * w.grad
    ((X @ w - Y) ** 2).mean().backward()
    with pytest.warns(UserWarning) as caught:
        assert w.grad is None
    said = str(caught[0].message)
    assert "`w` was a leaf" in said
    assert "update it in place: with torch.no_grad(): w -= 0.1 * w.grad" in said


def test_other_results_are_told_to_retain():
    w = torch.zeros(2, requires_grad=True)
    v = w - 0.1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        v.grad
    assert "v.retain_grad()" in str(caught[0].message)


def test_an_update_that_loses_its_leaf_is_found():
    """Also where the loop ends in Python's own error, after one step."""
    w = torch.zeros(2, requires_grad=True)
    with warnings.catch_warnings(), pytest.raises(TypeError):
        warnings.simplefilter("ignore", UserWarning)
        with diagnose.doctor(show=False) as report:
            for _ in range(3):
                ((X @ w - Y) ** 2).mean().backward()
                w = w - 0.1 * w.grad
    (finding,) = report.findings
    assert finding.id == "D28" and "with torch.no_grad(): w -= 0.1 * w.grad" in finding.fix
    assert finding.where["text"] == "w = w - 0.1 * w.grad"


def test_a_new_leaf_for_each_step_is_healthy():
    w = torch.zeros(2, requires_grad=True)
    with diagnose.doctor(show=False) as report:
        for _ in range(6):
            ((X @ w - Y) ** 2).mean().backward()
            w = (w - 0.1 * w.grad).detach().requires_grad_()
    assert report.findings == []


def test_steps_by_hand_are_counted():
    w = torch.zeros(2, requires_grad=True)
    with diagnose.doctor(show=False) as report:
        for _ in range(4):
            ((X @ w - Y) ** 2).mean().backward()
            by_data(w)
            set_none(w)
    assert (report.steps, report.by_hand, report.backwards) == (0, 3, 4)
    assert str(report) == "tapegrad doctor: no findings (3 steps by hand, 4 backward)"
