"""Every program of tests/programs under tapegrad, against the recorded transcripts of PyTorch."""

import sys

import numpy as np
import pytest

import tapegrad
from programs import harness

pytest.importorskip("ml_dtypes", reason="bfloat16 is in many programs")

CASES = [(m, name, f) for m in harness.modules() for name, f in harness.programs(m)]


# Tensors on "meta" with more bytes than addresses of 32 bits; and integers of NumPy's own kind.
TOO_WIDE = ("prog_meta-huge", "prog_meta-a_transformer")
NUMPYS_INTEGERS = ("prog_collate-convert", "prog_function_vmap-numpy_functions")


@pytest.mark.parametrize("module, name, function", CASES, ids=[f"{m}-{n}" for m, n, _ in CASES])
def test_program(module, name, function):
    if sys.maxsize < 2**32 and f"{module}-{name}" in TOO_WIDE:
        pytest.skip("needs addresses of 64 bits")
    if np.intp is not np.int64 and f"{module}-{name}" in NUMPYS_INTEGERS:
        pytest.skip("the program asks NumPy for integers, which are int32 here")
    expected = harness.golden(module)[name]
    found = harness.run(function, tapegrad)
    for i, (want, got) in enumerate(zip(expected, found, strict=False)):
        assert harness.same_entry(name, got, want), (
            f"entry {i}:\n  torch    {want}\n  tapegrad {got}"
        )
    assert len(found) == len(expected)
