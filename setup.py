"""Two builds from one source: the core compiled with mypyc and kernels in C, or pure Python.

TAPEGRAD_PURE unset   compiled where mypyc and a C compiler work, else pure, with a note
TAPEGRAD_PURE=1       pure: a py3-none-any wheel
TAPEGRAD_PURE=0       compiled, or the build fails

(The same TAPEGRAD_PURE=1 before a program takes the core of a compiled build from its Python files:
src/tapegrad/_plain_core.py.)
"""

from __future__ import annotations

import os
import pathlib
import platform
import sys
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

# Small, hot and fully typed; everything else is interpreted in both builds.
MYPYC_MODULES = [
    "src/tapegrad/core/late_bound.py",
    "src/tapegrad/core/base.py",
    "src/tapegrad/core/gradient_memory.py",
    "src/tapegrad/core/op.py",
    "src/tapegrad/core/record.py",
    "src/tapegrad/core/dispatch.py",
    "src/tapegrad/core/devices.py",
    "src/tapegrad/core/casting.py",
    "src/tapegrad/core/strides.py",
    "src/tapegrad/core/layers.py",
    "src/tapegrad/core/cells.py",
    "src/tapegrad/core/operators.py",
    "src/tapegrad/core/transforms/batched.py",
    "src/tapegrad/core/transforms/dual.py",
    "src/tapegrad/core/promote.py",
    "src/tapegrad/core/tensor_lists.py",
    "src/tapegrad/core/node.py",
    "src/tapegrad/autograd/order.py",
    "src/tapegrad/autograd/leaves.py",
    "src/tapegrad/autograd/engine.py",
    "src/tapegrad/autograd/starts.py",
    "src/tapegrad/ops/block/batching.py",
    "src/tapegrad/ops/block/forward_rules.py",
    "src/tapegrad/kernels/cuda/late_casts.py",
    "src/tapegrad/kernels/cuda/layers.py",
]

# No fast-math, and no fused multiply-adds but those that are written down: results do not depend on
# the processor more than they must. Loops are compiled for AVX-512 too (c/runtime/tapegrad.h).
NATIVE_FLAGS = [
    "-std=gnu11",
    "-O3",
    "-g0",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
]
X86_BASELINE = "-march=x86-64-v3"  # AVX2; kernels/cpu/ asks the processor before it loads

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
    core = mypycify(paths, opt_level="3", debug_level="0", group_name="tapegrad")
    return [*core, *native_extensions()]


def native_extensions() -> list[Any]:
    """The kernels in C; they need pthreads, and a compiler that talks like GCC."""
    if sys.platform == "win32":
        return []
    import numpy

    flags = list(NATIVE_FLAGS)
    if platform.machine() in ("x86_64", "AMD64"):
        flags.append(X86_BASELINE)
    folder = pathlib.Path("src/tapegrad/kernels/cpu/c")
    folders = [path.as_posix() for path in sorted(folder.iterdir()) if path.is_dir()]
    return [
        Extension(
            "tapegrad.kernels.cpu._kernels",
            sources=sorted([path.as_posix() for path in folder.rglob("*.c")]),
            depends=sorted([path.as_posix() for path in folder.rglob("*.h")]),
            include_dirs=[numpy.get_include(), *folders],
            extra_compile_args=flags,
            libraries=["m", "pthread"],
        )
    ]


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
