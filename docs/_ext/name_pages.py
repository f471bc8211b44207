"""A page of its own for every name of the reference.

Sphinx renders the reference as a few dozen pages, one for each part of the library, which takes it
seconds; 2,500 pages would take it minutes. When it is done, each entry moves from such a page to a
page of its own, `reference/torch.exp.html`, with the menus around it, and a table of the names
stays behind. Links to the old places are rewritten; a link from outside to
`torch-pointwise.html#torch.exp` is sent on.
"""

from __future__ import annotations

import html
import pathlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

ENTRY = '<dl class="py '
TAG = re.compile(r"<dl\b|</dl>")
# The names of entries do not start with what a part of a page may be called.
NAME = re.compile(r'<dt class="sig sig-object py" id="(torch\.[\w.]+)">')
ARTICLE = re.compile(r'(<article role="main"[^>]*>).*?(</article>)', re.S)
HEADING = re.compile(r"<h1>(.*?)<a class=\"headerlink\"", re.S)
PERMALINK = re.compile(r'<a class="headerlink" href="#torch[^"]*"[^>]*>[^<]*</a>')
OWN_LINK = re.compile(r'href="#(torch\.[\w.]+)"')  # to another entry of the same part
LINK = re.compile(r'href="((?:\.\./)*(?:reference/)?[\w.-]+\.html)#(torch\.[\w.]+)"')
OF_THE_SOURCE = re.compile(r'<div class="(?:view-this|edit-this)-page">.*?</div>', re.S)
TOC = re.compile(r'<div class="toc-sticky.*?(?=</aside>)', re.S)
# What leads to the neighbours of a page, to its source and to its sections is not that of a name.
NOT_OF_A_NAME = [
    re.compile(r'<div class="related-pages">.*?</div>\s*(?=<div class="bottom)', re.S),
    re.compile(r'<link rel="(?:next|prev)"[^>]*>'),
    re.compile(r'<label class="toc-overlay-icon toc-(?:content|header)-icon".*?</label>', re.S),
    OF_THE_SOURCE,
    TOC,
]
EMPTY_DRAWER = ('<aside class="toc-drawer">', '<aside class="toc-drawer no-toc">')
# An address with the place of a name leads to the row of the table: go on to the name's page.
SEND_ON = (
    "<script>const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));"
    'if (row && row.matches("tr.name")) location.replace(row.querySelector("a").href);</script>'
)
ROW = re.compile(r'<tr class="name" id="([\w.]+)"><td><a class="reference internal" href="([^"]+)"')


class Entry(NamedTuple):
    name: str
    text: str  # its HTML


def split(text: str) -> Iterator[str | Entry]:
    """A page as the entries on it and what is between them."""
    at = 0
    while (start := text.find(ENTRY, at)) >= 0:
        depth = 0
        for tag in TAG.finditer(text, start):
            depth += 1 if tag[0] == "<dl" else -1
            if depth == 0:
                break
        else:
            raise ValueError(f"a <dl> is not closed: {text[start : start + 200]}")
        entry = text[start : tag.end()]
        name = NAME.search(entry)
        if name is None:
            raise ValueError(f"an entry without a name: {entry[:200]}")
        yield text[at:start]
        yield Entry(name[1], entry)
        at = tag.end()
    yield text[at:]


def files_of(names: list[str]) -> dict[str, str]:
    """The file of each name. Two that differ in their capitals alone get different files, since
    some file systems could not hold both: `torch.tensor.html` and `torch.Tensor-2.html`."""
    found: dict[str, str] = {}
    taken: dict[str, int] = {}
    for name in sorted(names, key=lambda name: (name.lower(), name.swapcase())):
        count = taken[name.lower()] = taken.get(name.lower(), 0) + 1
        found[name] = f"{name}.html" if count == 1 else f"{name}-{count}.html"
    return found


def summary(entry: str) -> str:
    """The first sentence of an entry, as HTML."""
    first = re.search(r"<dd><p>(.*?)</p>", entry, re.S)
    if first is None:
        return ""
    sentence = re.split(
        r"(?<=\w\w[.:;]) |(?<=</code>[.:;]) |(?<=[)\]][.:;]) ", first[1], maxsplit=1
    )[0]
    return re.sub(r"</?a\b[^>]*>", "", sentence).rstrip(".:; ")


def table(entries: list[Entry], files: dict[str, str]) -> str:
    rows = []
    for entry in entries:
        label = entry.name.removeprefix("torch.")
        rows.append(
            f'<tr class="name" id="{entry.name}"><td><a class="reference internal" '
            f'href="{files[entry.name]}"><code>{label}</code></a></td><td>{summary(entry.text)}</td></tr>'
        )
    return f'<div class="names"><table class="docutils">{"".join(rows)}</table></div>'


def name_page(shell: str, part: tuple[str, str], around: tuple[str, str], entry: Entry) -> str:
    """The page of one name; `part` is the page that lists it, `around` the names beside it."""
    file, title = part
    before, after = around
    steps = [
        f'<a class="{kind}" href="{where}">{label}</a>'
        for kind, where, label in (("before", before, "← previous"), ("after", after, "next →"))
        if where
    ]
    text = OWN_LINK.sub(rf'href="{file}#\1"', PERMALINK.sub("", entry.text))
    top = f'<p class="part"><a href="index.html">Reference</a> › <a href="{file}">{title}</a></p>'
    body = (
        f"{top}<section><h1>{html.escape(entry.name)}</h1>\n{text}</section>"
        f'<p class="steps">{" ".join(steps)}</p>'
    )
    page = ARTICLE.sub(lambda found: found[1] + body + found[2], shell, count=1)
    return re.sub(
        r"<title>.*?</title>", f"<title>{entry.name} - tapegrad</title>", page, flags=re.S
    )


def move_entries(folder: pathlib.Path) -> dict[tuple[str, str], str]:
    """Give every entry of a rendered reference its page: (page, name) -> the file of the name."""
    pages: dict[pathlib.Path, list[str | Entry]] = {}
    places: dict[tuple[str, str], str] = {}
    for path in sorted(folder.glob("*.html")):
        text = path.read_text(encoding="utf-8")
        if ENTRY in text:
            pages[path] = list(split(text))
        for name, file in ROW.findall(text):  # an earlier build has moved them
            places[path.name, name] = file
    known = {each.name for parts in pages.values() for each in parts if isinstance(each, Entry)}
    files = files_of(sorted(known | {name for _, name in places}))
    for path, parts in pages.items():
        entries = [each for each in parts if isinstance(each, Entry)]
        kept = [each for each in parts if isinstance(each, str)]
        heading = HEADING.search(kept[0])
        title = heading[1] if heading else path.stem
        shell = "".join(kept)
        for pattern in NOT_OF_A_NAME:
            shell = pattern.sub("", shell)
        shell = shell.replace(*EMPTY_DRAWER)
        for i, entry in enumerate(entries):
            around = (
                files[entries[i - 1].name] if i else "",
                files[entries[i + 1].name] if i + 1 < len(entries) else "",
            )
            text = name_page(shell, (path.name, title), around, entry)
            (folder / files[entry.name]).write_text(text, encoding="utf-8")
            places[path.name, entry.name] = files[entry.name]
        left = kept[0] + table(entries, files) + SEND_ON + "".join(kept[1:])
        left = TOC.sub("", left)  # "On this page" would be the table once more
        path.write_text(left.replace(*EMPTY_DRAWER), encoding="utf-8")
    for path in folder.glob("*.html"):  # their Markdown is not in the repository
        text = path.read_text(encoding="utf-8")
        if (made := OF_THE_SOURCE.sub("", text)) != text:
            path.write_text(made, encoding="utf-8")
    for path in folder.glob("torch.*.html"):
        if path.name not in places.values():
            path.unlink()  # a name that is gone
    return places


def rewrite_links(site: pathlib.Path, places: dict[tuple[str, str], str]) -> None:
    """Let links to an entry lead to its page."""

    def direct(found: re.Match[str]) -> str:
        path, slash, page = found[1].rpartition("/")
        file = places.get((page, found[2]))
        return found[0] if file is None else f'href="{path}{slash}{file}"'

    for path in site.rglob("*.html"):
        if "_made" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        if (made := LINK.sub(direct, text)) != text:
            path.write_text(made, encoding="utf-8")


def finish(app: Any, failed: Exception | None) -> None:
    if failed is None and app.builder.name == "html":
        site = pathlib.Path(app.outdir)
        rewrite_links(site, move_entries(site / "reference"))


def setup(app: Any) -> dict[str, Any]:
    app.connect("build-finished", finish)
    return {"version": "1", "parallel_read_safe": True}
