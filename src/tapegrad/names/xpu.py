"""Intel's GPUs: there are none here."""

from ._no_accelerator import *  # noqa: F403
