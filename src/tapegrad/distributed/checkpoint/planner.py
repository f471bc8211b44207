"""The planners, where PyTorch keeps the names."""

from . import LoadPlanner, SavePlanner

__all__ = ["LoadPlanner", "SavePlanner"]
