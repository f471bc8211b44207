"""The directive {run}: a block of Python, run when the site is built, with what it prints.

    ```{run}
    :graph: loss
    loss = (w * x).sum()
    ```

`:error:` says that the block raises, `:graph: EXPRESSION` draws the graph of a tensor beside it,
`:page: EXPRESSION` shows an interactive page of tapegrad.diagnose below it, and `:html: EXPRESSION`
what a notebook would show.
"""

from __future__ import annotations

import hashlib
import html
import pathlib
import re
from typing import Any

import benchmark_picture
from docutils import nodes
from docutils.parsers.rst import directives
from pages import Session
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

SESSIONS: dict[str, Session] = {}
COLUMNS = re.compile(r"\S {2,}\S|[│█├└●○\u2801-\u28ff]|^ +#|^ {4}\S")
WIDEST = 120  # a longer line is a sentence, and is broken
MADE = "_made"  # where pictures and pages go in the site


class Run(SphinxDirective):
    has_content = True
    option_spec = {
        "error": directives.flag,
        "graph": directives.unchanged,
        "page": directives.unchanged,
        "html": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        docname = self.env.docname
        session = SESSIONS.setdefault(docname, Session(docname))
        source = "\n".join(self.content).strip("\n")
        options = {name: value or "" for name, value in self.options.items()}
        result = session.run(source, options)
        code = nodes.literal_block(source, source, language="python", linenos=True)
        code["highlight_args"] = {"linenostart": result.first_line}
        left = nodes.container("", code, classes=["run-code"])
        if result.printed:
            left += output(result.printed.rstrip("\n"), "output")
        if result.error:
            left += output(result.error, "error")
            named = re.search(r"\[(E\d\d)\] python -m tapegrad explain", result.error)
            if named:
                up = "../" * docname.count("/")
                link = f'<a class="page-link" href="{up}errors/{named[1]}.html">→ {named[1]}</a>'
                left += nodes.raw("", link, format="html")
        whole = nodes.container("", left, classes=["run"])
        if result.graph:
            path = self.write(result.graph, "svg")
            said = html.escape(f"the graph of {options['graph']}")
            width = re.search(r'width="([\d.]+)"', result.graph)
            # No <img>: the text of an object can be selected.
            picture = (
                f'<object type="image/svg+xml" data="{path}" role="img" aria-label="{said}" '
                f'width="{width and width[1]}"></object>'
            )
            whole += nodes.raw("", f'<figure class="graph">{picture}</figure>', format="html")
        if result.shown:
            whole += nodes.raw("", f'<figure class="shown">{result.shown}</figure>', format="html")
        if result.page:
            path = self.write(result.page, "html")
            frame = f'<iframe class="page" src="{path}" loading="lazy" title="the page"></iframe>'
            link = f'<a class="page-link" href="{path}">↗ {html.escape(options["page"])}</a>'
            return [whole, nodes.raw("", frame + link, format="html")]
        return [whole]

    def write(self, text: str, kind: str) -> str:
        """Put a picture or a page into the site; the path to it from this page."""
        name = f"{self.env.docname.replace('/', '-')}-{hashlib.sha1(text.encode()).hexdigest()[:8]}"
        folder = pathlib.Path(self.env.app.outdir, MADE)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.{kind}").write_text(text, encoding="utf-8")
        return "../" * self.env.docname.count("/") + f"{MADE}/{name}.{kind}"


class Benchmarks(SphinxDirective):
    """{benchmarks}: every row of docs/benchmarks.md as a bar."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(benchmark_picture.PAGE))
        found = benchmark_picture.rows(benchmark_picture.PAGE.read_text(encoding="utf-8"))
        if not found:
            raise self.error("docs/benchmarks.md has no rows that can be drawn")
        drawn = benchmark_picture.picture(found)
        return [nodes.raw("", f'<figure class="wide">{drawn}</figure>', format="html")]


def output(text: str, kind: str) -> nodes.literal_block:
    """What was printed. Columns stay columns, and are scrolled where they are too wide."""
    lines = [line for line in text.splitlines() if line.strip()]
    aligned = [line for line in lines if COLUMNS.search(line)]
    narrow = not lines or max(map(len, lines)) <= WIDEST
    table = kind == "output" and narrow and 2 * len(aligned) > len(lines)
    return nodes.literal_block(text, text, language="text", classes=[kind, "table"][: 1 + table])


def forget(app: Sphinx, env: Any, docname: str) -> None:
    SESSIONS.pop(docname, None)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("run", Run)
    app.add_directive("benchmarks", Benchmarks)
    app.connect("env-purge-doc", forget)
    return {"version": "1", "parallel_read_safe": False}
