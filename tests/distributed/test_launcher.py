"""What torchrun does with its options and with the lines of the ranks."""

from __future__ import annotations

import sys

import pytest
from ranks import torchrun

from tapegrad.distributed import run

PROGRAM = """
import os, sys
print("RANK", *(os.environ[name] for name in ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE")))
sys.stderr.write("an error")
print("the end", end="")
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_lines_are_whole(program):
    done = torchrun(program, 2, options=("--standalone", "--rdzv-backend=c10d", "--role", "x"))
    assert sorted(done.stdout.splitlines()) == [
        *("[0] RANK 0 0 0 2", "[0] the end", "[1] RANK 1 1 0 2", "[1] the end")
    ]
    assert sorted(done.stderr.splitlines()) == ["[0] an error", "[1] an error"]


def test_machines_have_numbers(program):
    done = torchrun(program, 1, options=("--hosts=localhost,127.0.0.1",))
    assert "[1] RANK 1 0 1 2" in done.stdout.splitlines()


def test_files_and_filters(program, tmp_path):
    logs = tmp_path / "logs"
    done = torchrun(program, 2, options=(f"--log-dir={logs}", "--local-ranks-filter=1"))
    assert done.stdout.splitlines() == ["[1] RANK 1 1 0 2", "[1] the end"]
    assert (logs / "attempt0-rank0.out").read_text() == "RANK 0 0 0 2\nthe end"
    assert (logs / "attempt0-rank1.err").read_text() == "an error"


def test_a_rank_that_never_joins(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import os, torch.distributed as dist\n"
        "if os.environ['RANK'] == '0':\n    dist.init_process_group()\n"
    )
    done = torchrun(str(path), 2)
    assert done.returncode == 143
    assert "rank 1 has ended without init_process_group, in which others wait" in done.stderr


@pytest.mark.parametrize(
    "option, says",
    [
        ("--nproc-per-node=0", "Unsupported nproc_per_node value: 0"),
        ("--nproc-per-node=some", "Unsupported nproc_per_node value: some"),
        ("--nnodes=2", "--nnodes=2 needs their names: --hosts a,b or --hostfile FILE"),
    ],
)
def test_options_that_cannot_be(program, option, says):
    done = torchrun(program, 2, options=(option,))
    assert done.returncode == 2 and says in done.stderr


def test_windows_is_refused_by_name(monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit) as ended:
        run.main(["--nproc-per-node=2", "script.py"])
    assert ended.value.code == 2
    assert "torchrun needs pipes and signals that Windows has not" in capsys.readouterr().err
