"""The examples of the reference that need a GPU."""

from __future__ import annotations

import pytest

from reference_examples import every_entry, failures, needs_gpu
from tapegrad.cuda import runtime

# What the stand-in has none of: it does not count memory, nor end it.
MEASURED = {
    "OutOfMemoryError",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
}
ENTRIES = {name: part for name, part in every_entry() if needs_gpu(part)}


@pytest.mark.parametrize("name", ENTRIES)
def test_the_example_runs(name):
    if not hasattr(runtime.start(), "RawKernel") and name.rpartition(".")[2] in MEASURED:
        pytest.skip("the stand-in does not count memory")
    wrong, count = failures([(name, ENTRIES[name])])
    assert wrong == {} and count
