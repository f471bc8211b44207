"""Steps whose effects later steps overwrite are left out of a recording."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...core.strides import memory
from .steps import FillStep, GradientStep, is_zero_grad, sees_gradients


def without_dead_steps(
    steps: list[Any], written: Collection[int], lines: dict[int, Any] | None = None
) -> list[Any]:
    """The steps that have an effect, in their order; those that were given stay as they are.

    `written`: ids of memory that some step writes into. What is filled once and never written
    keeps its values, and `zero_grad` does nothing where new gradients are set before anybody looks
    at the old ones: then the step that sets them also forgets the gradients of the other
    parameters. `lines`, by ids of steps: a step that takes the place of another one has its line.
    """
    forgotten: dict[int, list[Any]] = {}  # by id of a GradientStep: optimizers without zero_grad
    kept: list[Any] = []
    for i, step in enumerate(steps):
        if isinstance(step, FillStep) and id(memory(step.made[0])) not in written:
            continue
        if is_zero_grad(step):
            later = (steps[k] for k in range(i + 1, len(steps)))
            following = next((s for s in later if sees_gradients(s) and not is_zero_grad(s)), None)
            if isinstance(following, GradientStep):
                forgotten.setdefault(id(following), []).append(step.args[0])
                continue
        if id(step) in forgotten:
            before, step = step, without_gradients_of_others(step, forgotten[id(step)])
            if lines is not None and id(before) in lines:
                lines[id(step)] = lines[id(before)]
        kept.append(step)
    return kept


def without_gradients_of_others(step: GradientStep, optimizers: list[Any]) -> GradientStep:
    """A step that also forgets the gradients of parameters for which it has none."""
    known = {id(leaf) for leaf, _ in step.gradients}
    params = [p for each in optimizers for group in each.param_groups for p in group["params"]]
    others = {id(p): p for p in params if id(p) not in known}
    return GradientStep([*step.gradients, *[(p, None) for p in others.values()]])
