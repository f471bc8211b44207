"""Ways to start: the launcher is everywhere; here mp.spawn, and the example of the docs."""

from __future__ import annotations

import re
import subprocess
import sys

from ranks import HERE, torchrun

from tapegrad.distributed.run import free_port

DOCS = HERE.parent.parent / "docs"


def test_spawned_processes_meet():
    command = [sys.executable, "-m", "tapegrad", "run", HERE / "prog_spawn.py", str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {r}: [3.0, 3.0, 3.0]" for r in range(2)]


def test_the_example_of_the_page(tmp_path):
    text = (DOCS / "errors" / "E14.md").read_text()
    path = tmp_path / "example.py"
    path.write_text(re.search(r"```python\n(.*?)```", text, re.S)[1])
    expected = re.search(r"```text\n(.*?)```", text, re.S)[1]
    done = torchrun(str(path), 2)
    said = "".join(re.findall(r"^\[0\] (.*\n)", done.stderr, re.M)).replace(str(path), "example.py")
    assert expected in said
