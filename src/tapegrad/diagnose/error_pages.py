"""Errors and the doctor's findings in short: what the docs say first about each id, and the cure.

The docs are not part of an installed package, so their first paragraphs and cures are kept in
error_pages.txt. After a change of the docs:  python -m tapegrad.diagnose.error_pages docs

>>> page("E04").title
'Backward needs one number to start from'
"""

from __future__ import annotations

import functools
import importlib.resources
import pathlib
import sys
from typing import NamedTuple


class Page(NamedTuple):
    id: str
    title: str
    paragraph: str
    cure: str  # a Markdown list


def page(identity: str) -> Page | None:
    """The page of an id; None if there is none."""
    return catalogue().get(identity)


@functools.cache
def catalogue() -> dict[str, Page]:
    text = importlib.resources.files(__package__).joinpath("error_pages.txt").read_text("utf-8")
    found = {}
    for part in text.split("\n# ")[1:]:
        head, paragraph, cure = part.strip().split("\n\n", 2)
        identity, title = head.split(": ", 1)
        found[identity] = Page(identity, title, paragraph, cure)
    return found


def show(identity: str | None) -> int:
    """`tapegrad explain`: print a page, or the list of all; the exit status."""
    pages = catalogue()
    if identity is None:
        for each in pages.values():
            print(f"{each.id}  {each.title}")
        return 0
    found = pages.get(identity.upper())
    if found is None:
        known = ", ".join(pages)
        print(
            f"tapegrad explain: nothing is called {identity!r}; there are {known}", file=sys.stderr
        )
        return 2
    print(f"[{found.id}] {found.title}\n\n{found.paragraph}\n\nThe cure:\n{found.cure}")
    return 0


def condensed(text: str) -> str:
    """Title, first paragraph and cure of one page of the docs, as error_pages.txt has them."""
    title, *blocks = text.split("## Example")[0].strip().split("\n\n")
    paragraph = next(block for block in blocks if not block.startswith(">"))
    cure = text.partition("## The cure")[2].split("\n## ")[0].strip()
    return f"{title}\n\n{paragraph}\n\n{cure}\n"


def condensed_finding(text: str) -> str:
    """The same of one section of docs/doctor.md."""
    identity, title, paragraph, *others = text.strip().split("\n\n")
    cure = next(block for block in others if block.startswith("Cure: ")).removeprefix("Cure: ")
    return f"# {identity}: {title.partition('. **')[0]}\n\n{paragraph}\n\n{cure}\n"


def gather(docs: pathlib.Path) -> str:
    """All pages of docs/errors and all sections of docs/doctor.md, condensed."""
    parts = [condensed(file.read_text("utf-8")) for file in sorted((docs / "errors").glob("E*.md"))]
    sections = (docs / "doctor.md").read_text("utf-8").split("\n## ")[1:]
    parts += [condensed_finding(each) for each in sections if each.startswith("D")]
    return "Made by tapegrad.diagnose.error_pages from the docs.\n\n" + "\n".join(parts)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tapegrad.diagnose.error_pages docs", file=sys.stderr)
        return 2
    target = pathlib.Path(__file__).with_name("error_pages.txt")
    target.write_text(gather(pathlib.Path(arguments[0])), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
