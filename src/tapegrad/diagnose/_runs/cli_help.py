"""The options of ``record``, ``compare`` and ``replay-op``; in a file apart, so that help imports
little.
"""

from __future__ import annotations

from typing import Any

RECORD_USAGE = (
    "tapegrad record [-h] [-o FILE] [--every N] [--steps N] [--modules PATTERN] "
    "[--until-nonfinite] (SCRIPT | -m MODULE) [ARG ...]"
)


def add_commands(commands: Any) -> None:
    """The help of the three commands."""
    record = commands.add_parser(
        "record",
        usage=RECORD_USAGE,
        help="run a script and write down what it computes, op by op",
        description="Run a program like `run` and write a file with every op of forward, backward "
        "and optimizer: its line, its module, and a summary of what it read and made. "
        "`tapegrad compare` says where two such files part.",
        epilog="Example: tapegrad record -o today.tgr train.py --epochs 1. Options of `record` "
        "come before SCRIPT. The exit status is the program's own; with --until-nonfinite it is 1 "
        "if there was a NaN or an infinity.",
    )
    record.add_argument("-o", "--output", metavar="FILE", help="default: SCRIPT.tgr")
    record.add_argument("--every", metavar="N", help="record every Nth step only")
    record.add_argument("--steps", metavar="N", help="record the first N steps, or A:B")
    record.add_argument(
        "--modules", metavar="PATTERN", help="record what runs in modules like blocks.0*"
    )
    record.add_argument(
        "--until-nonfinite",
        action="store_true",
        help="stop at the op that makes the first NaN or infinity, and keep it in the file",
    )
    record.add_argument("script", nargs="?", metavar="SCRIPT", help="a file or a folder")
    record.add_argument("-m", dest="module", metavar="MODULE", help="run a module, like python -m")
    record.add_argument("args", nargs="*", metavar="ARG", help="arguments of the program")
    parts = commands.add_parser(
        "compare",
        help="say where two recorded runs part, and which line did it",
        description="Align two recorded runs and report the first op whose inputs agree and whose "
        "result does not, with both lines. Runs of one library and build are compared bit for bit, "
        "others within tolerances.",
        epilog="Example: tapegrad compare yesterday.tgr today.tgr -o diff.html. "
        "Exit status: 0 the runs are the same, 1 they are not, 2 a file cannot be read.",
    )
    parts.add_argument("a", metavar="A.tgr")
    parts.add_argument("b", metavar="B.tgr")
    parts.add_argument("--rtol", type=float, help="of the norm; default: by dtype")
    parts.add_argument("--atol", type=float, help="per element; default: by dtype")
    parts.add_argument("--bits", action="store_true", help="bit for bit, whatever made the runs")
    parts.add_argument("--partial", action="store_true", help="read files that were cut off")
    parts.add_argument("--json", action="store_true", help="print the report as JSON")
    parts.add_argument("-o", "--output", metavar="FILE.html", help="write a page, too")
    again = commands.add_parser(
        "replay-op",
        help="run the op again that a recording kept, under tapegrad and torch",
        description="Run the op that made the first NaN or infinity alone, with the inputs it had.",
        epilog="Example: tapegrad record --until-nonfinite -o run.tgr train.py; "
        "tapegrad replay-op run.tgr",
    )
    again.add_argument("file", metavar="FILE.tgr")
