"""``python -m tapegrad doctor``: run a program under the doctor, and print what was found."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Sequence

from ...compat import run
from .doctor import Doctor

USAGE = "tapegrad doctor [-h] [--json FILE] [--strict] (SCRIPT | -m MODULE | -) [ARG ...]"


def main(args: Sequence[str]) -> int:
    """Run the program as `python -m tapegrad run` does; its own exit status stays its own."""
    rest = list(args)
    json_file: str | None = None
    strict = False
    while rest and rest[0].startswith("--"):
        option = rest.pop(0)
        if option == "--strict":
            strict = True
        elif option == "--json" and rest:
            json_file = rest.pop(0)
        else:
            return refuse(f"unknown option {option}" if option != "--json" else "--json FILE")
    if not rest or rest == ["-m"]:
        return refuse("a SCRIPT, or -m MODULE, is needed")
    watching = Doctor(show=False).start()
    try:
        if rest[0] == "-m":
            run.run_module(rest[1], rest[2:])
        else:
            run.run_script(rest[0], rest[1:])
    except BaseException:
        # The traceback comes first: the interpreter prints it when this has gone all the way up.
        report(watching, json_file, later=True)
        raise
    report(watching, json_file)
    return 1 if strict and watching.report.findings else 0


def report(watching: Doctor, json_file: str | None, later: bool = False) -> None:
    """Stop watching and print, now or after everything that the program prints itself."""
    found = watching.stop()
    if json_file is not None:
        with open(json_file, "w", encoding="utf-8") as file:
            file.write(found.json() + "\n")
    if later:
        # A script that is not there, or broken, has its own error; "no findings" would hide it.
        if found.backwards or found.findings:
            atexit.register(watching.print)
    else:
        sys.stdout.flush()
        watching.print()


def refuse(reason: str) -> int:
    print(f"usage: {USAGE}\n{reason}", file=sys.stderr)
    return 2
