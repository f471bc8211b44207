"""Broken scripts of the kinds that people write (tests/learner): the line and the cure are named.

A comment `#: label` in a script marks a line that the error must name under that label.
"""

from __future__ import annotations

import pathlib
import warnings
from typing import Any, NamedTuple

import pytest

LEARNER = pathlib.Path(__file__).parent / "learner"


class Lesson(NamedTuple):
    id: str
    raises: str
    sentence: str  # how PyTorch's begins
    what: str  # the cause, as the second line says it
    fix: str  # the first fix


LESSONS = {
    "carried_state": Lesson(
        "E02",
        "RuntimeError",
        "Trying to backward through the graph a second time",
        "`h` was carried over",
        "h = h.detach()",
    ),
    "detached_loss": Lesson(
        "E03",
        "RuntimeError",
        "element 0 of tensors does not require grad",
        "the way back ends at .detach()",
        "leave out .detach()",
    ),
    "frozen_model": Lesson(
        "E03",
        "RuntimeError",
        "element 0 of tensors does not require grad",
        "all parameters of `model` are frozen",
        "model.requires_grad_(True)",
    ),
    "label_dtype": Lesson(
        "E10",
        "RuntimeError",
        "expected target dtype to be Long or Byte, but got Float",
        "the labels are torch.float32",
        "labels.long()",
    ),
    "linear_after_conv": Lesson(
        "E09",
        "RuntimeError",
        "mat1 and mat2 shapes cannot be multiplied (2x864 and 600x32)",
        "takes 600 features in the last dimension, the input has 864",
        "nn.Linear(864, 32)",
    ),
    "loss_shapes": Lesson(
        "E09",
        "ValueError",
        "Target size (torch.Size([6])) must be the same as input size (torch.Size([6, 1]))",
        "both must have one shape",
        "outputs.squeeze(-1)",
    ),
    "nan_from_sqrt": Lesson(
        "E08",
        "RuntimeError",
        "Function 'PowBackward0' returned nan values in its 0th output.",
        "the norm at 0",
        "torch.linalg.vector_norm",
    ),
    "normalised_in_place": Lesson(
        "E01",
        "RuntimeError",
        "one of the variables needed for gradient computation has been modified",
        "PowBackward0 needs its input",
        "write h = h / length",
    ),
    "numpy_of_outputs": Lesson(
        "E11",
        "RuntimeError",
        "Can't call numpy() on Tensor that requires grad.",
        "is not recorded",
        "prediction.detach().numpy()",
    ),
    "step_between": Lesson(
        "E01",
        "RuntimeError",
        "one of the variables needed for gradient computation has been modified",
        "AddmmBackward0 needs its input `mat2`",
        "before optimizer.step()",
    ),
}


def run(text: str, path: pathlib.Path) -> Any:
    """The exception that a script ends with."""
    with warnings.catch_warnings(), pytest.raises(Exception) as caught:
        warnings.simplefilter("ignore", UserWarning)
        exec(compile(text, str(path), "exec"), {"__name__": "script"})
    return caught.value


def labels(text: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for label in line.partition("#:")[2].split():
            found.setdefault(label, []).append(number)
    return found


@pytest.mark.parametrize("name", LESSONS)
def test_the_line_and_the_cure_are_named(name: str) -> None:
    lesson = LESSONS[name]
    path = LEARNER / f"{name}.py"
    text = path.read_text()
    error = run(text, path)
    assert type(error).__name__ == lesson.raises
    lines = str(error).splitlines()
    assert lines[0].startswith(lesson.sentence)
    assert lesson.what in lines[1]
    assert lesson.fix in error.diagnosis["fixes"][0]
    assert error.diagnosis["id"] == lesson.id and len(lines) <= 12
    named: dict[str, list[int]] = {}
    for cause in error.diagnosis["causes"]:
        assert cause["file"] == str(path)
        named.setdefault(cause["label"], []).append(cause["line"])
    assert named == labels(text)


def test_every_script_has_a_lesson() -> None:
    assert {path.stem for path in LEARNER.glob("*.py")} == set(LESSONS)
