"""What was measured, when, from which commit and with which command: docs/evidence/*.toml.

    make evidence-page                       print docs/evidence.md from the records
    python tools/evidence.py add files "`torch.load`, zip" files=10000 failures=0 \\
        --command "make sanitize"            add a record by hand

Tools that measure take `--record`, and call `add` below: tests/fuzz/run.py, tests/parity/opdb.py,
tools/bits.py, tools/clean_installs.py, tools/conformance.py, tools/libraries.py, benchmarks/run.py,
benchmarks/start.py and benchmarks/survey.py.

A file is a section of the page: `title`, `place` (its order), `text` before the table, `found`
after it, and records. A record says `what` was tried, `date`, `commit`, `command`, `numbers` (a
column each; texts are allowed) and, if there is more to say, `note`. The table shows the newest
record of each `what`; older ones stay in the file and are printed below the table.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tomllib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER, PAGE = ROOT / "docs" / "evidence", ROOT / "docs" / "evidence.md"
HEAD = """\
# Evidence

Made by `make evidence-page` from the records in `docs/evidence/`, which also keep the older
numbers. A record names the day, the commit from which it was measured (`+` after it: with changes
that were not committed) and the command. Seconds are those of a shared machine with two cores, most
of the time with other work on it; counts do not depend on that.
"""
Record = dict[str, Any]


def subjects(folder: pathlib.Path = FOLDER) -> dict[str, dict[str, Any]]:
    """name -> section, in the order of the page."""
    found = {file.stem: tomllib.loads(file.read_text("utf-8")) for file in folder.glob("*.toml")}
    return dict(sorted(found.items(), key=lambda item: (item[1]["place"], item[0])))


def commit() -> str:
    """The commit of this tree, with a "+" if files that git knows differ from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":!docs/evidence*")
    return git("rev-parse", "--short=8", "HEAD") + ("+" if changed else "")


def this_command() -> str:
    """The command line of this process as others may type it: no folders of this machine."""

    def portable(word: str) -> str:
        path = pathlib.Path(word)
        if not path.is_absolute():
            return word
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name

    words = [a for a in sys.argv if a != "--record"]
    return shlex.join(["python", *(portable(os.path.abspath(words[0])), *map(portable, words[1:]))])


def add(
    subject: str,
    what: str,
    numbers: dict[str, Any],
    *,
    command: str = "",
    note: str = "",
    date: datetime.date | None = None,
    at: str = "",
    folder: pathlib.Path = FOLDER,
) -> None:
    """Append a record to a section; `command` is by default that of this process."""
    file = folder / f"{subject}.toml"
    if not file.exists():
        raise SystemExit(f"there is no {file.name}; there are {', '.join(subjects(folder))}")
    record = {
        "what": what,
        "date": date or datetime.datetime.now(datetime.UTC).date(),
        "commit": at or commit(),
        "command": command or this_command(),
        "numbers": numbers,
        "note": note,
    }
    lines = [f"{key} = {toml(value)}" for key, value in record.items() if value != ""]
    with file.open("a", encoding="utf-8") as stream:
        stream.write("\n".join(["", "[[record]]", *lines, ""]))


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join([f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()]) + " }"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False)


def page(folder: pathlib.Path = FOLDER) -> str:
    return "\n".join([HEAD, *[section(each) for each in subjects(folder).values()]])


def section(subject: dict[str, Any]) -> str:
    newest: dict[str, Record] = {}
    older: list[Record] = []
    # Of one day, the one that stands later in the file is the newer one.
    for record in sorted(subject.get("record", []), key=lambda r: r["date"]):
        if record["what"] in newest:
            older.append(newest.pop(record["what"]))
        newest[record["what"]] = record
    order = list(dict.fromkeys([r["what"] for r in subject.get("record", [])]))
    parts = [f"## {subject['title']}\n", subject.get("text", "").strip() + "\n"]
    if newest:
        parts.append(table([newest[what] for what in order]))
    if older:
        parts += ["Before:\n", table(older[::-1])]
    parts.append(subject.get("found", "").strip() + "\n")
    return "\n".join([part for part in parts if part.strip()])


def table(records: list[Record]) -> str:
    columns = list(dict.fromkeys([key for record in records for key in record["numbers"]]))
    notes = ["note"] if any("note" in record for record in records) else []
    rows = [["what", *columns, *notes, "day", "commit", "command"]]
    rows.append(["---"] * len(rows[0]))
    for record in records:
        numbers = [cell(record["numbers"].get(column, "")) for column in columns]
        remarks = [record.get("note", "") for _ in notes]
        command = f"`{record['command']}`"
        rows.append(
            [record["what"], *numbers, *remarks, str(record["date"]), record["commit"], command]
        )
    return "".join(
        ["| " + " | ".join([c.replace("|", "\\|") for c in row]) + " |\n" for row in rows]
    )


def cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write docs/evidence.md")
    actions = parser.add_subparsers(dest="action")
    adding = actions.add_parser("add", help="add a record by hand")
    adding.add_argument("subject", help=", ".join(subjects()))
    adding.add_argument("what")
    adding.add_argument("numbers", nargs="+", metavar="name=number")
    adding.add_argument("--command", required=True)
    adding.add_argument("--note", default="")
    adding.add_argument("--date", type=datetime.date.fromisoformat)
    adding.add_argument("--commit", default="", help="by default that of this tree")
    given = parser.parse_args()
    if given.action == "add":
        numbers = {k: number(v) for k, _, v in [pair.partition("=") for pair in given.numbers]}
        add(
            given.subject,
            given.what,
            numbers,
            command=given.command,
            note=given.note,
            date=given.date,
            at=given.commit,
        )
    elif given.write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
