"""Every case of the error catalogue under PyTorch: the same class and the same first line."""

from __future__ import annotations

import pathlib
import textwrap
import warnings

import pytest
import torch

import test_errors
import test_learner
from error_cases import Case


def failure(text: str, path: pathlib.Path) -> Exception:
    """What a program raises under PyTorch."""
    path.write_text(text)
    with warnings.catch_warnings(), pytest.raises(Exception) as caught:
        warnings.simplefilter("ignore")
        exec(compile(text, str(path), "exec"), {"__name__": "user_code"})
    torch.autograd.set_detect_anomaly(False)
    return caught.value


@pytest.mark.parametrize("case", test_errors.CASES, ids=lambda c: f"{c.id} {c.about}")
def test_case(case: Case, tmp_path: pathlib.Path) -> None:
    error = failure("import torch\n" + textwrap.dedent(case.source), tmp_path / "user_code.py")
    assert type(error).__name__ == case.raises
    assert str(error).splitlines()[0] == case.sentence


@pytest.mark.parametrize("name", test_learner.LESSONS)
def test_script(name: str, tmp_path: pathlib.Path) -> None:
    path = test_learner.LEARNER / f"{name}.py"
    text = path.read_text()
    theirs = text.replace("import tapegrad as torch", "import torch")
    error = failure(theirs.replace("from tapegrad", "from torch"), tmp_path / "script.py")
    ours = test_learner.run(text, path)
    assert type(error) is type(ours)
    assert str(error).splitlines()[0] == str(ours).splitlines()[0]
