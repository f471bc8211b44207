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
import re
import sys
from typing import NamedTuple

from ..errors.calls import rules


class Page(NamedTuple):
    id: str
    title: str
    sentence: str  # PyTorch's, of which it is; "" for a finding
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
        sentence = ""
        if paragraph.startswith("> "):
            sentence, paragraph, cure = paragraph[2:], *cure.split("\n\n", 1)
        identity, title = head.split(": ", 1)
        found[identity] = Page(identity, title, sentence, paragraph, cure)
    return found


def show(identity: str | None) -> int:
    """`tapegrad explain`: print a page, or the list of all; the exit status."""
    pages = catalogue()
    if identity is None:
        for each in pages.values():
            print(f"{each.id}  {each.title}")
        return 0
    found = search(identity)
    if not found:
        print(
            f"tapegrad explain: no page has the id or the words {identity!r}; "
            "`tapegrad explain` lists them all",
            file=sys.stderr,
        )
        return 2
    first, *others = found
    print(f"[{first.id}] {first.title}\n\n{first.paragraph}\n\nThe cure:\n{first.cure}")
    if others:
        print("\nAlso: " + "; ".join([f"{each.id} {each.title}" for each in others]))
    return 0


SHOWN = 4  # pages that a search gives
ENOUGH = 0.5  # how much of what was asked for a page has to have


def search(asked: str) -> list[Page]:
    """The page of an id (E01, e1, [E01]), or those that have the words of a sentence, best first.

    >>> [each.id for each in search("e1")]
    ['E01']
    >>> search("one of the variables needed for gradient computation")[0].id
    'E01'
    """
    by_id = re.fullmatch(r"\[?([ED])0?(\d+)\]?", asked.strip(), re.IGNORECASE)
    if by_id is not None:
        found = page(f"{by_id[1].upper()}{int(by_id[2]):02}")
        return [] if found is None else [found]
    wanted = words_of(asked)
    if not wanted:
        return []
    ranked = []
    sentences = dict.fromkeys(catalogue(), "")
    for identity, pattern, _ in rules():
        if pattern.search(asked):
            return [catalogue()[identity]]
        sentences[identity] += f" {pattern.pattern}"
    for each in catalogue().values():
        said = words_of(f"{each.sentence} {sentences[each.id]}")
        text = words_of(f"{each.title} {each.paragraph} {each.cure}") | said
        weight = len(wanted & text) + len(wanted & said)
        if len(wanted & text) >= ENOUGH * len(wanted):
            ranked.append((-weight, each.id))
    return [catalogue()[identity] for _, identity in sorted(ranked)[:SHOWN]]


def words_of(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z_]{3,}", text.lower()) if word not in ("the", "and")}


def condensed(text: str) -> str:
    """Title, first paragraph and cure of one page of the docs, as error_pages.txt has them."""
    title, *blocks = text.split("## Example")[0].strip().split("\n\n")
    sentence = next(block for block in blocks if block.startswith(">")).replace("\n> ", " ")
    paragraph = next(block for block in blocks if not block.startswith(">"))
    cure = text.partition("## The cure")[2].split("\n## ")[0].strip()
    return f"{title}\n\n{sentence}\n\n{paragraph}\n\n{cure}\n"


def condensed_finding(text: str) -> str:
    """Title, first paragraph and cure of one section of docs/doctor.md, for error_pages.txt."""
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
