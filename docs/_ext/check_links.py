"""Checks every link of the built site that stays within it: the page is there, and the place on it.

python docs/_ext/check_links.py build/site
"""

from __future__ import annotations

import functools
import html
import os
import pathlib
import re
import sys
import urllib.parse


class Page:
    """The places that a page has, and the links that leave from it."""

    # The pages are what Sphinx writes: double quotes around every attribute. A parser of HTML takes
    # ten times as long, for 2,500 pages.
    ID = re.compile(r'\sid="([^"]+)"')
    ADDRESS = re.compile(r'\s(?:href|src)="([^"]*)"|<object\b[^>]*?\sdata="([^"]*)"')

    def __init__(self, text: str) -> None:
        self.places = {html.unescape(name) for name in self.ID.findall(text)}
        self.links = {html.unescape(a or b) for a, b in self.ADDRESS.findall(text) if a or b}


def broken(site: pathlib.Path) -> list[str]:
    """What does not lead anywhere, as "page -> link"."""
    made = site / "_made"  # the pages of diagnose stand for themselves
    paths = [p for p in site.rglob("*.html") if not p.is_relative_to(made)]
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in paths}
    found = []
    is_there = functools.cache(pathlib.Path.exists)
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path:
                joined = os.path.normpath(path.parent / urllib.parse.unquote(parts.path))
                target = pathlib.Path(joined)
            place = urllib.parse.unquote(parts.fragment)
            there = is_there(target)
            if there and place and target in pages and place != "":
                there = place in pages[target].places
            if not there:
                found.append(f"{path.relative_to(site.resolve())} -> {link}")
    return found


if __name__ == "__main__":
    wrong = broken(pathlib.Path(sys.argv[1]))
    print("\n".join(wrong) if wrong else "all links lead somewhere")
    sys.exit(bool(wrong))
