"""Steps whose effects later steps overwrite: programs written by hand."""

from typing import Any

import numpy as np

import tapegrad as torch
from tapegrad.compiler.program.dead_steps import without_dead_steps
from tapegrad.compiler.program.steps import FillStep, GradientStep, Step, WholeStep


def leaf() -> torch.Tensor:
    return torch.ones(2, requires_grad=True)


def forgets(*params: torch.Tensor) -> tuple[Any, WholeStep]:
    """An optimizer, and a step that forgets the gradients of its parameters."""
    optimizer = torch.optim.SGD(params, lr=0.1)
    return optimizer, WholeStep(torch.optim.SGD.zero_grad, (optimizer,), {})


def test_a_fill_that_nothing_writes_into_is_done_once() -> None:
    once, again = FillStep("zeros", np.zeros(3)), FillStep("ones", np.ones(3))
    assert without_dead_steps([once, again], {id(again.made[0])}) == [again]


def test_zero_grad_before_new_gradients_is_part_of_them() -> None:
    p, q = leaf(), leaf()
    _, zero = forgets(p, q)
    set_p = GradientStep([(p, torch.zeros(2))])
    between = Step()
    found = without_dead_steps([zero, between, set_p], ())
    assert found[0] is between and len(found) == 2
    assert found[1].gradients == [set_p.gradients[0], (q, None)]
    assert len(set_p.gradients) == 1  # the step that was given is as it was


def test_two_optimizers_forget_a_parameter_once() -> None:
    p, q = leaf(), leaf()
    (_, first), (_, second) = forgets(p, q), forgets(q)
    found = without_dead_steps([first, second, GradientStep([(p, torch.zeros(2))])], ())
    assert len(found) == 1 and [t for t, _ in found[0].gradients] == [p, q]


def test_zero_grad_stays_where_somebody_looks_in_between() -> None:
    p = leaf()
    optimizer, zero = forgets(p)
    looks = WholeStep(torch.optim.SGD.step, (optimizer,), {})
    set_p = GradientStep([(p, torch.zeros(2))])
    assert without_dead_steps([zero, looks, set_p], ()) == [zero, looks, set_p]
    assert without_dead_steps([set_p, zero], ()) == [set_p, zero]


def test_zero_grad_that_fills_with_zeros_stays() -> None:
    p = leaf()
    optimizer, _ = forgets(p)
    zero = WholeStep(torch.optim.SGD.zero_grad, (optimizer,), {"set_to_none": False})
    set_p = GradientStep([(p, torch.zeros(2))])
    assert without_dead_steps([zero, set_p], ()) == [zero, set_p]
