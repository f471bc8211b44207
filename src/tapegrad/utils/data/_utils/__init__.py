"""The parts of the loader: fetching, collating, worker processes and their messages."""

from __future__ import annotations

from . import collate, fetch, pin_memory, worker
from .errors import ExceptionWrapper
from .worker import MP_STATUS_CHECK_INTERVAL
