"""Tests of several processes need mpi4py and an MPI; without them they are skipped, and say so."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None,
    reason="mpi4py is missing: pip install tapegrad[mpi]",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if "alone" not in item.path.name and item.path.parent == pathlib.Path(__file__).parent:
            item.add_marker(needs_mpi)
