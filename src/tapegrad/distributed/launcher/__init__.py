"""Starting ranks from a program: names only."""

from .api import LaunchConfig, elastic_launch

__all__ = ["LaunchConfig", "elastic_launch"]
