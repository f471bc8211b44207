"""``tapegrad record``, ``tapegrad compare`` and ``tapegrad replay-op``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from .cli_help import RECORD_USAGE
from .compare import compare
from .kept import replay
from .reader import BadRun, read_run
from .report import Text, as_data

WITH_VALUE = ("-o", "--output", "--every", "--steps", "--modules")


# ---------------------------------------------------------------------- record


def record_main(args: Sequence[str]) -> int:
    """Run a program and record it."""
    try:
        options, program = parsed(list(args))
        target = options.get("--output") or default_output(program)
        chosen = {
            "every": number("--every", options.get("--every", "1")),
            "steps": step_range(options.get("--steps")),
            "modules": options.get("--modules", "").split(",") if "--modules" in options else None,
        }
    except ValueError as error:
        print(f"usage: {RECORD_USAGE}\n{error}", file=sys.stderr)
        return 2
    if program[0] != "-m" and not os.path.exists(program[0]):  # a recording is not overwritten
        print(f"tapegrad record: {program[0]}: No such file or directory", file=sys.stderr)
        return 2
    from .nonfinite import NonfiniteError
    from .recorder import record

    try:
        run = record(target, until_nonfinite="--until-nonfinite" in options, **chosen).__enter__()
    except (OSError, ValueError) as error:
        print(f"tapegrad record: {error}", file=sys.stderr)
        return 2
    try:
        start(program)
    except NonfiniteError as error:
        run.__exit__(*sys.exc_info())
        print(f"record: {error}", file=sys.stderr)
        return 1
    except BaseException:
        run.__exit__(*sys.exc_info())
        print(written(target, run), file=sys.stderr)
        raise
    run.__exit__(None, None, None)
    print(written(target, run), file=sys.stderr)
    return 0


def start(program: list[str]) -> None:
    from ...compat import run as runner

    if program[0] == "-m":
        runner.run_module(program[1], program[2:])
    else:
        runner.run_script(program[0], program[1:])


def written(target: str, run: Any) -> str:
    size = os.path.getsize(target) / 1e6
    empty = "" if run.ops else ": the program ran no op of tapegrad in its main thread"
    return f"record: wrote {target} ({run.steps} steps, {run.ops} ops, {size:.1f} MB){empty}"


def parsed(args: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options and the program; what follows the script is the program's own."""
    options: dict[str, str] = {}
    while args and args[0][:1] == "-" and args[0] != "-m":
        name, _, value = args.pop(0).partition("=")
        if name == "--until-nonfinite":
            options[name] = "1"
        elif name in WITH_VALUE:
            if not value and not args:
                raise ValueError(f"a value is missing after {name}")
            options["--output" if name == "-o" else name] = value or args.pop(0)
        else:
            raise ValueError(f"unknown option {name!r}")
    size = 2 if args[:1] == ["-m"] else 1
    if len(args) < size:
        raise ValueError("a SCRIPT, or -m MODULE, is needed")
    # -o may come after the script, as with `tapegrad graph`.
    rest = args[size:]
    if rest[:1] in (["-o"], ["--output"]) and len(rest) > 1 and "--output" not in options:
        options["--output"] = rest[1]
        rest = rest[2:]
    return options, [*args[:size], *rest]


def number(name: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{name} must be a positive number, not {text!r}")
    return int(text)


def step_range(text: str | None) -> Any:
    if text is None:
        return None
    first, colon, last = text.partition(":")
    if not colon:
        return number("--steps", text)
    if not first.isdigit() or not last.isdigit():
        raise ValueError(f"--steps must be N or A:B, not {text!r}")
    if int(first) >= int(last):
        raise ValueError(f"--steps {text} has no step: A must be less than B")
    return range(int(first), int(last))


def default_output(program: list[str]) -> str:
    name = program[1].rpartition(".")[2] if program[0] == "-m" else program[0]
    return os.path.splitext(os.path.basename(name))[0] + ".tgr"


# ---------------------------------------------------------------------- compare, replay-op


def compare_main(options: argparse.Namespace) -> int:
    """Compare two files; print, and write a page if one is wanted."""
    for name in ("rtol", "atol"):
        value = getattr(options, name)
        if value is not None and not value >= 0:
            print(f"tapegrad compare: --{name} must not be negative", file=sys.stderr)
            return 2
    if options.output is not None and not options.output.lower().endswith((".html", ".htm")):
        print(f"tapegrad compare: -o writes a page: {options.output!r} must end in .html",
              file=sys.stderr)  # fmt: skip
        return 2
    try:
        runs = [read_run(path, options.partial) for path in (options.a, options.b)]
    except (BadRun, OSError) as error:
        print(f"tapegrad compare: {told(error)}", file=sys.stderr)
        return 2
    found = compare(*runs, options.rtol, options.atol, True if options.bits else None)
    if options.json:
        print(json.dumps(as_data(found), indent=2))
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(Text(found, colour))
    if options.output is not None:
        from .page import render

        try:
            with open(options.output, "w", encoding="utf-8") as file:
                file.write(render(found))
        except OSError as error:
            print(f"tapegrad compare: {told(error)}", file=sys.stderr)
            return 2
        print(f"compare: wrote {options.output}", file=sys.stderr)
    return 0 if found.same else 1


def replay_main(path: str) -> int:
    """Run a kept op again."""
    try:
        lines = replay(path)
    except (BadRun, OSError) as error:
        print(f"tapegrad replay-op: {told(error)}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


def told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
