"""docs/evidence.md follows from the records in docs/evidence, which say where they are from."""

import datetime
import importlib.util
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = ROOT / "tools" / "evidence.py"
if not FILE.exists():
    pytest.skip("the tools are not beside the tests", allow_module_level=True)
spec = importlib.util.spec_from_file_location("evidence", FILE)
evidence = importlib.util.module_from_spec(spec)
spec.loader.exec_module(evidence)


def test_the_page_is_that_of_the_records():
    assert evidence.PAGE.read_text("utf-8") == evidence.page(), "run `make evidence-page`"


@pytest.mark.parametrize("name", evidence.subjects())
def test_a_record_has_a_day_a_commit_and_a_command(name):
    subject = evidence.subjects()[name]
    assert set(subject) <= {"title", "place", "text", "found", "record"}
    for record in subject.get("record", []):
        assert set(record) - {"note"} == {"what", "date", "commit", "command", "numbers"}, record
        assert isinstance(record["date"], datetime.date)
        assert re.fullmatch(r"[0-9a-f]{8}\+?", record["commit"]), record
        assert record["command"] and record["numbers"], record
        assert not re.search(r"(^|[ ='])/[a-z]", record["command"]), "a path of one machine"


def test_a_measurement_adds_a_record_and_the_older_one_stays(tmp_path, monkeypatch):
    (tmp_path / "races.toml").write_text('title = "Races"\nplace = 1\ntext = "Who wins."\n')
    own = {"folder": tmp_path, "command": "make race"}
    evidence.add(
        "races", "a | b", {"laps": 1200, "won": 0.5}, date=datetime.date(2026, 1, 2), **own
    )
    evidence.add("races", "c", {"laps": 7}, date=datetime.date(2026, 1, 3), at="0123abcd", **own)
    evidence.add("races", "a | b", {"laps": 3}, date=datetime.date(2026, 1, 4), note='a "w"', **own)
    page = evidence.page(tmp_path)
    newest, older = page.partition("## Races")[2].split("Before:")
    assert "| what | laps | note | day | commit | command |" in newest
    assert '| a \\| b | 3 | a "w" | 2026-01-04 |' in newest
    assert "| c | 7 |  | 2026-01-03 | 0123abcd | `make race` |" in newest
    assert "1,200" not in newest and "| a \\| b | 1,200 | 0.5 | 2026-01-02 |" in older
    with pytest.raises(SystemExit, match="there is no horses.toml; there are races"):
        evidence.add("horses", "a", {"b": 1}, folder=tmp_path)


def test_the_command_of_a_record_names_no_folder_of_this_machine(monkeypatch):
    tool = str(ROOT / "tools" / "bits.py")
    monkeypatch.setattr(
        sys, "argv", [tool, str(pathlib.Path.home() / "pytorch"), "-k", "a b", "--record"]
    )
    assert evidence.this_command() == "python tools/bits.py pytorch -k 'a b'"
