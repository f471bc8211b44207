"""``python -m tapegrad export-c``: a function of a script as a C file."""

from __future__ import annotations

import os
import runpy
import sys
from typing import Any

from . import c
from .program import Refused


def main(options: Any) -> int:
    """Run the script, export what it names, and say how large that is; 1: it is refused."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    names = runpy.run_path(options.script, run_name="exported")
    for name in (options.step, options.args):
        if name not in names:
            print(f"tapegrad export-c: {options.script} has no `{name}`", file=sys.stderr)
            return 2
    try:
        sizes = c(names[options.step], names[options.args], options.output, weights=options.weights)
    except (Refused, RuntimeError) as error:
        print(f"tapegrad export-c: {error}", file=sys.stderr)
        return 1
    said = ", ".join([f"{name} {size:,} bytes" for name, size in sizes.items()])
    print(f"{options.output}: {said}")
    return 0
