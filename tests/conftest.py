"""What tests of compiled functions have in common."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def small_functions_are_recorded(request: Any, monkeypatch: Any) -> None:
    """Functions of an op or two show what recordings do: here they are worth it."""
    if request.module.__name__.startswith("test_compile"):
        monkeypatch.setattr("tapegrad.compiler.run.function.FEWEST_OPS", 0)
