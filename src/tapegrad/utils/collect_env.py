"""Facts about the machine for a problem report: `python -m tapegrad.utils.collect_env`."""

from __future__ import annotations

import platform
import sys

import numpy as np

import tapegrad as tg


def get_pretty_env_info() -> str:
    """The versions and the machine, a line each."""
    rows = {
        "tapegrad version": tg.__version__,
        "Is compiled": tg.__config__.is_compiled(),
        "OS": platform.platform(),
        "Python version": sys.version.replace("\n", " "),
        "NumPy version": np.__version__,
        "Is CUDA available": tg.cuda.is_available(),
        "CPU": platform.processor() or platform.machine(),
    }
    return "\n".join([f"{name}: {value}" for name, value in rows.items()])


def main() -> None:
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
