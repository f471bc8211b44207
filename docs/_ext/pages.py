"""Runs the code of the site's pages: the blocks that a page marks with {run}, from top to bottom.

A page is one program: its blocks share their names, and its lines are counted through, so that an
error at `gradients.py:12` names the line with that number on the page. This file needs tapegrad
alone; the Sphinx directive in run_directive.py and tests/test_site.py both use it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import pathlib
import re
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterator, Set
from typing import Any, NamedTuple

from tapegrad.errors import tracebacks

DOCS = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```\{run\}[ ]*\n(.*?)^```[ ]*$", re.M | re.S)
OPTION = re.compile(r"^:([\w-]+):[ ]*(.*)$")
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")
FRAME = re.compile(r'^  File "([^"]+)", line .*\n(?:    .*\n)*', re.M)


class Result(NamedTuple):
    """What a block did: its first line on the page, what it printed, its error, its pictures."""

    first_line: int
    printed: str
    error: str
    graph: str
    page: str
    shown: str  # HTML


class Printed(io.StringIO):
    """What a block prints: any letter can be written."""

    encoding = "utf-8"  # type: ignore[assignment]


class Session:
    """The program of one page, which grows block by block."""

    def __init__(self, name: str) -> None:
        self.file = name.rpartition("/")[2] + ".py"
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"__name__": "__main__", "__file__": self.file}
        self.folder = tempfile.mkdtemp()  # where the code may write files
        weakref.finalize(self, shutil.rmtree, self.folder, True)

    def run(self, source: str, options: dict[str, str]) -> Result:
        """Run a block. Options: error (it raises), graph, page and html (an expression to show)."""
        first = len(self.lines) + 1
        self.lines += source.splitlines()
        text = "\n".join(self.lines) + "\n"
        linecache.cache[self.file] = (len(text), None, text.splitlines(True), self.file)
        printed, error = Printed(), ""
        with contextlib.ExitStack() as around:
            warned = around.enter_context(warnings.catch_warnings(record=True))
            warnings.simplefilter("always")
            around.enter_context(contextlib.redirect_stdout(printed))
            around.enter_context(contextlib.redirect_stderr(printed))  # the doctor's report
            around.enter_context(contextlib.chdir(self.folder))
            try:
                self.execute(source, first)
            except Exception as raised:
                if "error" not in options:
                    raise
                tracebacks.explained(raised)  # as where nobody catches it
                error = f"{type(raised).__name__}: {raised}"
        if "error" in options and not error:
            raise AssertionError(f"{self.file}:{first}: the block was to raise and did not")
        for warning in warned or ():
            printed.write(f"{warning.category.__name__}: {warning.message}\n")
        return Result(
            first,
            self.tidy(printed.getvalue()),
            self.tidy(error),
            self.drawing(options["graph"]) if options.get("graph") else "",
            eval(options["page"], self.names).html() if options.get("page") else "",
            eval(options["html"], self.names)._repr_html_() if options.get("html") else "",
        )

    def execute(self, source: str, first: int) -> None:
        """Run the statements; the value of a last expression is shown, as at the prompt."""
        tree = ast.parse("\n" * (first - 1) + source, self.file)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, self.file, "exec"), self.names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), self.file, "eval"), self.names)
            if value is not None:
                print(repr(value))

    def tidy(self, text: str) -> str:
        """Without what differs from build to build: addresses, and our own frames."""
        text = FRAME.sub(lambda found: found[0] if found[1] == self.file else "", text)
        return ADDRESS.sub("0x7f…", text)

    def drawing(self, expression: str) -> str:
        """The graph behind an expression, as SVG."""
        from tapegrad import diagnose

        value = eval(expression, self.names)
        if not hasattr(value, "svg"):
            # Called from the page's own program, where the variables have their names.
            call = compile(f"_draw({expression}, title={expression!r})", self.file, "eval")
            value = eval(call, self.names | {"_draw": diagnose.graph})
        return value.svg()


def split(body: str) -> tuple[str, dict[str, str]]:
    """The source of a block and its options, which stand on its first lines."""
    lines = body.splitlines()
    options = {}
    while lines and (found := OPTION.match(lines[0])):
        options[found[1]] = found[2].strip()
        lines.pop(0)
    return "\n".join(lines).strip("\n"), options


def blocks(text: str) -> list[tuple[str, dict[str, str]]]:
    """Every block of a page that is to be run."""
    return [split(body) for body in FENCE.findall(text)]


def run_page(path: pathlib.Path) -> Iterator[Result]:
    """Run a page from top to bottom."""
    session = Session(path.stem)
    for source, options in blocks(path.read_text(encoding="utf-8")):
        yield session.run(source, options)


def pages_with_code() -> list[pathlib.Path]:
    """The pages of the site that have blocks to run."""
    found = sorted(DOCS.rglob("*.md"))
    return [path for path in found if FENCE.search(path.read_text(encoding="utf-8"))]


LEADS_TO = re.compile(r'href="(?:\.\./)+((?!zh/)[^"#]+)\.html')  # from a page in zh/
# A heading of the menu without entries.
EMPTY = re.compile(r'<p class="caption"[^>]*>(?:(?!</p>).)*</p>\s*<ul[^>]*>\s*</ul>', re.DOTALL)


def only_english(menu: str, known: Set[str]) -> str:
    """The menu of a Chinese page without the entries of pages that exist in Chinese."""
    first, *entries = re.split(r'(?=<li class="toctree-l1)', menu)
    kept = [first]
    for entry in entries:
        found = LEADS_TO.search(entry)
        page = found[1] if found else ""
        end = entry.rindex("</li>") + len("</li>")
        kept.append(entry[end:] if page == "" or f"zh/{page}" in known else entry)
    return EMPTY.sub("", "".join(kept))
