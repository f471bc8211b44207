"""The site: `make docs` builds it into build/site. Its pages are run while it is built."""

import pathlib
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]
_own = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "tapegrad"
version = release = _own["version"]
copyright = "the tapegrad authors, Apache-2.0"
repository = _own["urls"]["Source"]

extensions = ["myst_parser", "run_directive", "two_languages", "reference", "name_pages"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # pages of the repository may start at any level
exclude_patterns = ["_ext", "_static", "_templates"]
templates_path = ["_templates"]

html_theme = "furo"
html_title = "tapegrad"
html_static_path = ["_static"]
html_logo = html_favicon = "_static/logo.svg"
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_use_index = False  # the reference and the search have the names, in better order
highlight_language = "none"  # a block that names no language is a drawing or a command
html_theme_options = {
    "source_repository": repository,
    "source_branch": "main",
    "source_directory": "docs/",
}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/languages.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
pygments_style = "default"  # its colours can be told from a light ground
pygments_dark_style = "github-dark"

# The catalogue of errors is a page of the repository; here it has the menu of its pages.
ERRORS_MENU = "\n\n```{toctree}\n:hidden:\n:glob:\n\nE*\n```\n"


def add_menu(app, name, source):
    if name == "errors/README":
        source[0] += ERRORS_MENU


class Progress:
    """A line every few seconds: the build takes minutes, and Sphinx is told to be quiet."""

    def __init__(self):
        self.began = self.said = time.monotonic()
        self.counts = {}

    def tell(self, app, doing, name):
        count = self.counts[doing] = self.counts.get(doing, 0) + 1
        now = time.monotonic()
        if now - self.said >= 3 or count == 1:
            self.said = now
            of = f" of {len(app.env.all_docs)}" if doing == "writing" else ""
            print(f"{now - self.began:4.0f} s  {doing} page {count}{of}: {name}", flush=True)

    def reading(self, app, name, source):
        self.tell(app, "reading and running", name)

    def writing(self, app, name, template, context, doctree):
        self.tell(app, "writing", name)

    def done(self, app, failed):
        print(
            f"{time.monotonic() - self.began:4.0f} s  {'failed' if failed else 'done'}", flush=True
        )


def setup(app):
    app.connect("source-read", add_menu)
    progress = Progress()
    app.connect("source-read", progress.reading)
    app.connect("html-page-context", progress.writing)
    app.connect("build-finished", progress.done, priority=900)
