"""`tapegrad.compile`: hooks in a recorded step, and gradients that are there before it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import nn

CALLS = 14


def perceptron() -> tuple[Any, Any, Callable[..., Any]]:
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    optimizer = tg.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def trained(compiled: bool, prepare: Any) -> tuple[list[Any], list[Any], Any]:
    """What the calls gave and left behind; `prepare(model, optimizer)`: what runs before each."""
    tg.manual_seed(0)
    model, optimizer, step = perceptron()
    before, seen = prepare(model, optimizer)
    step = tg.compile(step) if compiled else step
    losses = []
    for i in range(CALLS):
        before(i)
        losses.append(step(tg.randn(5, 4)).item())
    parameters = [p.detach().numpy().copy() for p in model.parameters()]
    return [*losses, len(seen)], parameters, step


def assert_same(prepare: Any) -> Any:
    """The compiled step does what the step does; it is returned."""
    expected = trained(False, prepare)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is not recorded
        found = trained(True, prepare)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return found[2]


def nothing(i: int) -> None:
    pass


KINDS = ("parameter", "accumulated", "forward", "backward", "all modules", "optimizer")


def add_hook(kind: str, model: Any, optimizer: Any, call: Callable[[], None]) -> Any:
    if kind == "parameter":
        return model[0].weight.register_hook(lambda grad: call())
    if kind == "accumulated":
        return model[0].weight.register_post_accumulate_grad_hook(lambda p: call())
    if kind == "forward":
        return model[1].register_forward_hook(lambda *given: call())
    if kind == "backward":
        return model[2].register_full_backward_hook(lambda *given: call())
    if kind == "all modules":
        return nn.modules.module.register_module_forward_hook(lambda *given: call())
    return optimizer.register_step_post_hook(lambda *given: call())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("later", [False, True])
def test_hooks_that_do_something_are_called_every_time(kind: str, later: bool) -> None:
    handles: list[Any] = []

    def prepare(model: Any, optimizer: Any) -> Any:
        seen: list[int] = []

        def add(i: int) -> None:
            if i == (7 if later else 0):
                handles.append(add_hook(kind, model, optimizer, lambda: seen.append(1)))
            if i == CALLS - 2:
                handles.pop().remove()

        return add, seen

    assert_same(prepare)


@pytest.mark.parametrize("kind", ["parameter", "forward"])
def test_hooks_that_only_compute_are_recorded(kind: str) -> None:
    def prepare(model: Any, optimizer: Any) -> Any:
        if kind == "parameter":
            model[0].weight.register_hook(lambda grad: grad * 0.5)
        else:
            model[1].register_forward_hook(lambda module, given, out: out * 1.5)
        return nothing, []

    step = assert_same(prepare)
    assert next(iter(step.recordings.values())).replays == CALLS - 3


def test_hooks_of_parameters_whose_gradients_come_later_are_called_by_the_tape() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2), nn.Tanh(), nn.Linear(2, 2))
    seen: list[Any] = []
    model[0].weight.register_hook(lambda grad: seen.append(grad.sum().item()))
    compiled = tg.compile(model)
    for i in range(8):
        compiled(tg.randn(3, 4)).sum().backward()
        assert len(seen) == i + 1
    assert next(iter(compiled.forward.recordings.values())).replays == 5


@pytest.mark.parametrize("in_place", [False, True])
def test_gradients_that_are_added_up_over_calls(in_place: bool) -> None:
    """Some calls begin without gradients, others add to those of the calls before."""

    def gradients(compiled: bool) -> tuple[list[Any], Any]:
        tg.manual_seed(0)
        model, optimizer, _ = perceptron()

        def step(x: Any) -> Any:
            loss = model(x).square().mean()
            loss.backward()
            return loss

        step = tg.compile(step) if compiled else step
        found = []
        for i in range(24):
            step(tg.randn(5, 4))
            if i % 3 == 2:
                found += [p.grad.numpy().copy() for p in model.parameters()]
                optimizer.step()
                optimizer.zero_grad(set_to_none=not in_place)
        return found, step

    expected, _ = gradients(False)
    found, step = gradients(True)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    recordings = [*step.recordings.values(), *[r for some in step.resting.values() for r in some]]
    assert sum([r.replays for r in recordings]) > 12


def test_gradients_in_place_that_are_gone() -> None:
    """Zeros are written into gradients, and now there are none."""

    def prepare(model: Any, optimizer: Any) -> Any:
        zero_grad = optimizer.zero_grad
        optimizer.zero_grad = lambda: zero_grad(set_to_none=False)

        def forget(i: int) -> None:
            if i in (6, 10):
                for p in model.parameters():
                    p.grad = None

        return forget, []

    assert_same(prepare)


def test_results_that_cannot_be_differentiated_are_results_all_the_same() -> None:
    weight = tg.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        y = (x * weight).exp() * weight
        with tg.no_grad():
            weight.mul_(0.9)
        return y

    compiled = tg.compile(step)
    with pytest.warns(UserWarning, match="its backward pass fails"):
        for _ in range(5):
            y = compiled(tg.ones(3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("kind", ["forward", "forward_pre", "with_kwargs"])
def test_a_hook_in_the_place_of_another(kind: str) -> None:
    """As many hooks as before, and yet not the same."""

    def double(module: Any, given: Any, *rest: Any) -> Any:
        return given[0] * 2 if kind == "forward_pre" else rest[-1] * 2

    def triple(module: Any, given: Any, *rest: Any) -> Any:
        return given[0] * 3 if kind == "forward_pre" else rest[-1] * 3

    def prepare(model: Any, optimizer: Any) -> Any:
        place = model[1]
        add = place.register_forward_hook
        handles = [place.register_forward_pre_hook(double) if "pre" in kind else add(double)]

        def before(i: int) -> None:
            if i == 7:
                handles.pop().remove()
                if kind == "forward_pre":
                    place.register_forward_pre_hook(triple)
                else:
                    add(triple, with_kwargs=kind == "with_kwargs")

        return before, []

    step = assert_same(prepare)
    assert sum([recording.replays for recording in step.recordings.values()]) > 0
