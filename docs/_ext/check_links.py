"""Checks every link of the built site that stays within it: the page is there, and the place on it.

python docs/_ext/check_links.py build/site
"""

from __future__ import annotations

import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """The places that a page has, and the links that leave from it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.places.add(value)
            elif value and (name in ("href", "src") or (tag, name) == ("object", "data")):
                self.links.add(value)


def broken(site: pathlib.Path) -> list[str]:
    """What does not lead anywhere, as "page -> link"."""
    made = site / "_made"  # the pages of diagnose stand for themselves
    paths = [p for p in site.rglob("*.html") if not p.is_relative_to(made)]
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in paths}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path:
                target = (path.parent / urllib.parse.unquote(parts.path)).resolve()
            place = urllib.parse.unquote(parts.fragment)
            there = target.exists()
            if there and place and target in pages and place != "":
                there = place in pages[target].places
            if not there:
                found.append(f"{path.relative_to(site.resolve())} -> {link}")
    return found


if __name__ == "__main__":
    wrong = broken(pathlib.Path(sys.argv[1]))
    print("\n".join(wrong) if wrong else "all links lead somewhere")
    sys.exit(bool(wrong))
