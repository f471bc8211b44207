"""Two builds from one source: the core compiled with mypyc, or pure Python.

TAPEGRAD_PURE unset   compiled where mypyc and a C compiler work, else pure, with a note
TAPEGRAD_PURE=1       pure: a py3-none-any wheel
TAPEGRAD_PURE=0       compiled, or the build fails
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

# Small, hot and fully typed; everything else is interpreted in both builds.
MYPYC_MODULES = [
    "src/tapegrad/core/upward.py",
    "src/tapegrad/core/base.py",
    "src/tapegrad/core/array_memory.py",
    "src/tapegrad/core/op.py",
    "src/tapegrad/core/record.py",
    "src/tapegrad/core/dispatch.py",
    "src/tapegrad/core/devices.py",
    "src/tapegrad/amp/casting.py",
    "src/tapegrad/core/layout.py",
    "src/tapegrad/core/operators.py",
    "src/tapegrad/core/promote.py",
    "src/tapegrad/autograd/node.py",
    "src/tapegrad/autograd/order.py",
    "src/tapegrad/autograd/leaves.py",
    "src/tapegrad/autograd/engine.py",
    "src/tapegrad/backends/gpu/late_casts.py",
]

# The commands that compile; for the others (metadata, sdist) mypyc would run for nothing.
BUILDING = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}


class BuildPy(build_py):
    """Copies the Python files into a build directory that holds nothing of an earlier build."""

    def run(self) -> None:
        wanted = {pathlib.Path(self.build_lib, p) for p in self.current_extensions()}
        for path in pathlib.Path(self.build_lib).rglob("*"):
            if path.is_file() and path not in wanted:
                path.unlink()
        super().run()

    def current_extensions(self) -> list[str]:
        """Compiled files of this build: kept, so that an unchanged core is not compiled again."""
        if not self.distribution.has_ext_modules():
            return []
        command = self.get_finalized_command("build_ext")
        return [command.get_ext_filename(e.name) for e in self.distribution.ext_modules]


def compiled_extensions() -> list[Any]:
    from mypyc.build import mypycify

    paths = [path for path in MYPYC_MODULES if pathlib.Path(path).exists()]
    if not paths:
        raise RuntimeError("none of MYPYC_MODULES exists")
    return mypycify(paths, opt_level="3", debug_level="0", group_name="tapegrad")


def build(extensions: list[Any]) -> None:
    setup(ext_modules=extensions, cmdclass={"build_py": BuildPy})


def note(reason: object) -> None:
    line = "=" * 78
    print(
        f"{line}\ntapegrad: building the pure Python version (same results, slower).\n"
        f"The core was not compiled: {reason}\n{line}",
        file=sys.stderr,
    )


def main() -> None:
    choice = os.environ.get("TAPEGRAD_PURE", "")
    if choice not in ("", "0", "1"):
        raise SystemExit(f"TAPEGRAD_PURE must be 0, 1 or unset, not {choice!r}")
    if choice == "1" or not BUILDING.intersection(sys.argv):
        build([])
        return
    arguments = list(sys.argv)
    try:
        build(compiled_extensions())
    # mypyc reports type errors, and setuptools compiler errors, as SystemExit.
    except (Exception, SystemExit) as error:
        if choice == "0":
            raise
        note("mypyc refused it (see above)" if error.args == (1,) else error)
        sys.argv = arguments
        build([])


main()
