"""docs/parity.md tells the truth about names: which are here, and how many are not."""

import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
HEADING = "## Names\n"


@functools.cache
def section():
    """In a process of its own: importing a module adds names to others, in PyTorch too."""
    command = [sys.executable, str(ROOT / "tools" / "names.py")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_page_is_true():
    _, heading, rest = (ROOT / "docs" / "parity.md").read_text().partition(HEADING)
    assert heading + rest.rstrip() == section().rstrip(), "run `python tools/names.py --write`"


def test_few_names_are_absent():
    found = re.search(r"of the other (\d+), (\d+) are absent", section().replace("\n", " "))
    whole, absent = map(int, found.groups())
    assert whole > 2400
    assert absent <= 0.03 * whole
