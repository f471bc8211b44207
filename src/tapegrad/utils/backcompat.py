"""Warnings about behaviour of PyTorch before version 0.2, which nothing here has."""

from __future__ import annotations


class Warning:
    """A switch for a warning that is never given."""

    enabled: bool = False

    def set_enabled(self, value: bool) -> None:
        self.enabled = value

    def get_enabled(self) -> bool:
        return self.enabled


broadcast_warning = Warning()
keepdim_warning = Warning()
