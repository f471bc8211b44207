"""Programs for the GPU: the files of sources/ with what they include, as CuPy compiles them.

A `.cu` file says what it needs of others by `#include "file.cu"`, so that nvcc compiles it as
it is. What differs from program to program is defined before it: DTYPE
always (sources/prelude.cu), other words as the file's head says. Functions that are made
from the formula of an op come as a file that is included too but is not in sources/: `formula.cu`,
`joined.cu`, `rule.cu`.
"""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from ...expressions.cuda import FUNCTIONS

SOURCES = pathlib.Path(__file__).with_name("sources")
INCLUDE = re.compile(r'#include "(.*)"\n')
MOVED = frozenset([1, 2, 4, 8, 16])  # sizes of items that are moved whatever they are: raw1, …
NOTHING: Mapping[str, Any] = {}


@functools.cache
def parts_of(name: str) -> tuple[str, ...]:
    """A file, split at its includes: texts at even places, names of files at odd ones."""
    text = (SOURCES / name).read_text("utf-8").replace("#pragma once\n", "")
    return tuple(INCLUDE.split(text))


def spliced(name: str, made: Mapping[str, str], seen: set[str]) -> str:
    """A file with the text of all files that it includes, each once; `made` are not in sources/."""
    seen.add(name)
    if name in made:
        return made[name]
    found = []
    for i, part in enumerate(parts_of(name)):
        if i % 2 == 0:
            found.append(part)
        elif part not in seen:
            found.append(spliced(part, made, seen))
    return "".join(found)


def defined(words: Mapping[str, Any]) -> str:
    return "".join([f"#define {word} {value}\n" for word, value in words.items()])


def program(
    name: str, dtype: str, words: Mapping[str, Any] = NOTHING, made: Mapping[str, str] = NOTHING
) -> str:
    """The text of a program: words that are defined, then a file with what it includes."""
    return defined({"DTYPE": dtype, **words}) + spliced(name, made, set())


def compiled(
    xp: Any,
    name: str,
    dtype: str,
    kernel: str,
    words: Mapping[str, Any] = NOTHING,
    made: Mapping[str, str] = NOTHING,
    *,
    flags: tuple[str, ...] = (),
    together: bool = False,
) -> Any:
    """A kernel of a program; it is compiled when it is first started.

    The blocks of some wait for each other: those have to run `together`.
    """
    options = {"enable_cooperative_groups": True} if together else {}
    code = program(name, dtype, words, made)
    return xp.RawKernel(code, kernel, ("--std=c++14", *flags), **options)


def formula_file(functions: str, letters: str | list[str] = "") -> dict[str, str]:
    """`formula.cu`: functions made from the formula of an op, and the numbers that they take.

    NUMBER_PARAMETERS declares the numbers as parameters of the kernel, NUMBER_ARGUMENTS passes them
    to the functions.
    """
    words = {
        "NUMBER_PARAMETERS": "".join([f", A {s}" for s in letters]),
        "NUMBER_ARGUMENTS": "".join([f", {s}" for s in letters]),
    }
    return {"formula.cu": defined(words) + FUNCTIONS + functions}
