"""Random indices of every kind, read and written through, in both libraries.

Values, shapes, strides, views, versions, and for what is refused the class and the sentence.
"""

from __future__ import annotations

import math
import random
import warnings

import pytest
import torch

import tapegrad

DTYPES = ["float32", "float64", "int64", "bool", "complex64", "float16", "uint8"]
VALUES = """1|2.5|True|300|1j|lib.tensor(3)|lib.tensor(3.5)|lib.tensor([True])|lib.ones(1)
    |lib.ones(2)|lib.ones(1, 3)|lib.ones(2, 2, dtype=lib.float64)|t.clone()|lib.zeros(0)|[1, 2]"""
PROGRAMS, PARTS = 6000, 20
# Where two things are wrong, the one that is noticed first is not compared.
EITHER = ("tensors used as indices must be long", "The shape of the mask")


def part(r, shape):
    """One part of an index, as source."""
    size = r.choice([*shape, 3])

    def place():
        return r.randrange(-size, max(size, 1))

    def bound():
        return r.choice(["None", str(r.randrange(-size - 2, size + 2))])

    kind = r.randrange(11)
    if kind == 0:
        return str(r.randrange(-size - 1, size + 1))
    if kind == 1:
        step = r.choice(["None", "None", "1", "2", "3", "-1", "0"])
        return f"slice({bound()},{bound()},{step})"
    if kind == 2:
        return r.choice(["...", "None", "True", "False"])
    if kind == 3:
        return str([place() + (r.random() < 0.1) for _ in range(r.randrange(1, 4))])
    if kind == 4:
        dtype = r.choice(["int64", "int64", "int32", "int16", "float32"])
        return f"lib.tensor({[place() for _ in range(r.randrange(1, 4))]}, dtype=lib.{dtype})"
    if kind in (5, 6):
        mask = [r.random() < 0.5 for _ in range(size)]
        return str(mask) if kind == 5 else f"lib.tensor({mask}, dtype=lib.bool)"
    if kind == 7:
        return f"lib.tensor({place()})"
    if kind == 8:
        return f"lib.tensor({[[place() for _ in range(2)] for _ in range(2)]})"
    if kind == 9:
        return f"(lib.arange({math.prod(shape)}).reshape({list(shape)}) % 2 == 0)"
    return f"slice({bound()},{bound()},None)"


def seen(lib, shape, dtype, index, value):
    t = lib.arange(math.prod(shape)).reshape(shape).to(getattr(lib, dtype))
    names = {"lib": lib, "t": t}
    try:
        place = eval(index, names)
        if value is None:
            out = t[place]
        else:
            t[place] = eval(value, names)
            out = t
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0]
    where = (out.stride(), out.storage_offset()) if out.numel() else None  # NumPy forgets them
    facts = str(out.dtype), tuple(out.shape), where, out._is_view()
    return repr((*facts, out._version, out.tolist()))


@pytest.mark.parametrize("share", range(PARTS))
def test_random_indices(share):
    for seed in range(share, PROGRAMS, PARTS):
        r = random.Random(seed)
        shape = tuple([r.choice([0, 1, 2, 3, 3, 4]) for _ in range(r.choice([0, 1, 1, 2, 2, 3]))])
        parts = [part(r, shape) for _ in range(r.choice([1, 1, 1, 2, 2, 3, 4]))]
        index = parts[0] if len(parts) == 1 and r.random() < 0.6 else f"({','.join(parts)},)"
        value = None if r.random() < 0.6 else r.choice(VALUES.split("|")).strip()
        if "...,..." in index:
            continue  # PyTorch counts dimensions that do not exist
        program = (shape, r.choice(DTYPES), index, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours, theirs = seen(tapegrad, *program), seen(torch, *program)
        if all([len(found) == 2 and found[1].startswith(EITHER) for found in (ours, theirs)]):
            continue
        assert ours == theirs, (seed, program)
