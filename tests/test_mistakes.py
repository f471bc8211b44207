"""Each of a hundred mistakes: PyTorch's class and first line, and a fix in the program's names."""

import json
import pathlib

import pytest

import mistakes
from mistakes import MISTAKES, Mistake

RECORDED = json.loads(mistakes.RECORDED.read_text())


def test_all_are_recorded():
    assert list(RECORDED) == [m.title for m in MISTAKES] and len(RECORDED) > 100


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.title)
def test_what_it_says(mistake: Mistake, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "program.py"
    found = mistakes.run(mistake, path, "tapegrad")
    assert mistakes.answer(found) == RECORDED[mistake.title]
    if not mistake.help:
        return
    diagnosis = found.diagnosis
    assert any(mistake.help in fix for fix in diagnosis["fixes"]), str(found)
    lines = path.read_text().splitlines()
    place = diagnosis["noticed"]
    assert place["file"] == str(path) and lines[place["line"] - 1].endswith("# @"), str(found)
    assert f"{path.name}:{place['line']}" in str(found)
