"""The recorded answers to tests/mistakes.py are still PyTorch's."""

import json
import pathlib

import mistakes


def test_recorded_answers_are_pytorchs(tmp_path: pathlib.Path) -> None:
    recorded = json.loads(mistakes.RECORDED.read_text())
    path = tmp_path / "program.py"
    said = {m.title: mistakes.answer(mistakes.run(m, path)) for m in mistakes.MISTAKES}
    assert said == recorded
