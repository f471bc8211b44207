"""docs/parity.md tells the truth about names: which are here, and how many are not."""

import importlib.util
import pathlib
import re

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "names.py"


def load():
    spec = importlib.util.spec_from_file_location("names", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_true():
    tool = load()
    _, heading, rest = tool.PAGE.read_text().partition(tool.HEADING)
    assert heading + rest == tool.section(), "run `python tools/names.py --write`"


def test_few_names_are_absent():
    found = re.search(r"of the other (\d+), (\d+) are absent", load().section())
    whole, absent = map(int, found.groups())
    assert whole > 2400
    assert absent <= 0.03 * whole
