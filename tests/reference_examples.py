"""The examples of the reference, taken from its pages and run: here, on a GPU, on PyTorch."""

from __future__ import annotations

import doctest
import functools
import importlib
import importlib.util
import pathlib
import re
import sys
import warnings

import numpy

import tapegrad

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "docs" / "_ext"))
import examples
import reference


@functools.cache
def pages():
    return reference.all_pages()


def every_entry():
    return [each for text, _ in pages().values() for each in entries(text)]


def entries(text):
    """The names of a page of the reference, with what stands below each."""
    for part in re.split(r"^`````\{py:", text, flags=re.M)[1:]:
        yield re.match(r"\w+\} ([\w.]+)", part)[1], part


def example(part):
    return "\n\n".join(re.findall(r"```pycon\n(.*?)```", part, re.S))


def needs_gpu(part):
    return examples.GPU in part


def can_run(part):
    """Whether what the example needs is here."""
    needed = {examples.ONNX: "onnx", examples.SCIPY: "scipy"}
    packages = [package for mark, package in needed.items() if mark in part]
    return not needs_gpu(part) and all(importlib.util.find_spec(p) for p in packages)


def names_of(library):
    """As after `from torch import *`, with the modules that examples name."""
    listed = library._names() if library is tapegrad else dir(library)
    names = {n: getattr(library, n) for n in listed if not n.startswith("_")}
    names |= {"torch": library, "tapegrad": library, "nn": library.nn, "np": numpy}
    for space in ("autograd", "distributions", "optim", "random", "utils"):
        names[space] = importlib.import_module(f"{library.__name__}.{space}")
    return names


def own_names(library, name):
    """The names of the module that the entry `name` is in, below the package."""
    space = name.split(".", 1)[1].rpartition(".")[0]
    try:
        module = importlib.import_module(f"{library.__name__}.{space}") if space else None
    except ImportError:
        return {}
    listed = () if module is None else reference.public(module)
    return {n: getattr(module, n) for n in listed if hasattr(module, n)}


def failures(found, library=tapegrad):
    """What the examples of some entries print that they should not, by name; how many lines ran."""
    every = names_of(library)
    wrong, count = {}, 0
    for name, part in found:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that PyTorch has deprecated
            names = every | own_names(library, name) | {"__name__": "__main__"}
        for kept in {"bool", "float", "int", "complex", "range", "round"} - {name[6:]}:
            names.pop(kept, None)
        test = doctest.DocTestParser().get_doctest(example(part), names, name, name, 0)
        report: list[str] = []
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        runner = doctest.DocTestRunner(optionflags=flags)
        library.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runner.run(test, out=report.append)
        count += runner.tries
        if report:
            wrong[name] = "".join(report)
    return wrong, count
