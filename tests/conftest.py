"""What tests have in common."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def small_functions_are_recorded(request: Any, monkeypatch: Any) -> None:
    """Functions of an op or two show what recordings do: here they are worth it."""
    if request.module.__name__.startswith("test_compile"):
        monkeypatch.setattr("tapegrad.compiler.run.function.FEWEST_OPS", 0)


@pytest.fixture
def fresh_process(monkeypatch: Any) -> Any:
    """As where no class asks for `__torch_function__` yet, and no tensor is on another device."""
    from tapegrad.core.base import STATE
    from tapegrad.core.function_modes import WATCHED

    kept = WATCHED[:]
    WATCHED.clear()
    monkeypatch.setattr(STATE, "elsewhere", False)
    yield
    WATCHED.extend(kept)
