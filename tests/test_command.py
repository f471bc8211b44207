"""The command: its tour, its help, its version, and how it ends."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from tapegrad import __main__ as command
from tapegrad.diagnose import demo

COLOUR = re.compile(r"\033\[\d+m")


def call(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "tapegrad", *arguments],
        env=os.environ | {"PYTHONIOENCODING": "utf-8"} | environment,
        capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def tour():
    done = call("demo")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_tour_fits_80_columns(tour):
    assert [line for line in tour.splitlines() if len(line) > 79] == []


def test_the_tour_in_a_pipe_has_no_colours(tour):
    assert not COLOUR.search(tour)


def test_what_the_tour_shows(tour):
    assert "written: by add_ (version 0 -> 1) at overwrites.py:3:  y += 1" in tour
    assert "`w` is not a leaf" in tour
    assert "[D01]" in tour and "[D10]" in tour
    page = pathlib.Path(re.search(r"^  (.*backward\.html)$", tour, re.M)[1])
    text = page.read_text(encoding="utf-8")
    assert "<script" in text and "frozen runpy" not in text
    assert '"name":"product"' in text and '"file":"computes.py","line":4' in text
    assert float(re.search(r"reads ([\d.]+)% correctly", tour)[1]) > 90


class Terminal:
    encoding = "utf-8"

    def isatty(self):
        return True


def test_colours_of_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert demo.colour("red", "x") == "\033[31mx\033[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert demo.colour("red", "x") == "x"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert demo.colour("red", "x") == "x"


def test_the_version(capsys):
    assert command.main(["--version"]) == 0
    assert re.fullmatch(r"tapegrad \d+\.\d+\.\d+ \(PyTorch 2\.13\.0\)\n", capsys.readouterr().out)


@pytest.mark.parametrize("name", command.COMMANDS)
def test_help_has_an_example(name, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main([name, "--help"])
    assert ended.value.code == 0
    assert f"tapegrad {name}" in capsys.readouterr().out.partition("Example")[2].replace("\n", " ")


def test_explain(capsys):
    assert command.main(["explain", "e01"]) == 0
    assert "A value that backward needs was overwritten" in capsys.readouterr().out
    assert command.main(["explain"]) == 0
    assert capsys.readouterr().out.startswith("E01  ")
    assert command.main(["explain", "E99"]) == 2
    assert "no page has the id or the words 'E99'" in capsys.readouterr().err


def test_a_closed_pipe_is_no_error():
    """As in `tapegrad explain | true`: nobody reads what is printed."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tapegrad", "info"],
            stdout=writer, stderr=subprocess.PIPE, encoding="utf-8", check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 128 + signal.SIGPIPE


def test_an_interrupted_tour_has_no_traceback():
    """Unbuffered: else the first line comes when the tour is nearly over. The signal counts, though
    what a shell starts in the background ignores it.
    """
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "tapegrad", "demo"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:  # fmt: skip
        running.stdout.readline()  # it has begun
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=60)
    assert error.strip() == ""
    assert running.returncode == 128 + signal.SIGINT
