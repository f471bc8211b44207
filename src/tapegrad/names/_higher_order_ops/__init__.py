"""Ops of functions: conditions, loops, scans."""

from tapegrad.api.control_flow import cond, while_loop

from .associative_scan import associative_scan

__all__ = ["associative_scan", "cond", "while_loop"]
