"""Two builds from one source: the core compiled with mypyc and kernels in C, or pure Python.

TAPEGRAD_PURE unset   compiled where mypyc and a C compiler work, else pure, with a note
TAPEGRAD_PURE=1       pure: a py3-none-any wheel
TAPEGRAD_PURE=0       compiled, or the build fails

Free-threaded Pythons get the pure build: the core and the kernels rely on the GIL, and importing an
extension that does switches it on again.

(The same TAPEGRAD_PURE=1 before a program takes the core of a compiled build from its Python files:
src/tapegrad/core/python_files.py.)
"""

from __future__ import annotations

import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

# Small, hot and fully typed; everything else is interpreted in both builds.
MYPYC_MODULES = [
    "src/tapegrad/core/late_bound.py",
    "src/tapegrad/core/base.py",
    "src/tapegrad/core/modes.py",
    "src/tapegrad/core/gradient_memory.py",
    "src/tapegrad/core/op.py",
    "src/tapegrad/core/record.py",
    "src/tapegrad/core/dispatch.py",
    "src/tapegrad/core/devices.py",
    "src/tapegrad/core/casting.py",
    "src/tapegrad/core/strides.py",
    "src/tapegrad/core/operators.py",
    "src/tapegrad/core/transforms/batched.py",
    "src/tapegrad/core/transforms/dual.py",
    "src/tapegrad/core/transforms/opening.py",
    "src/tapegrad/core/transforms/series.py",
    "src/tapegrad/core/promote.py",
    "src/tapegrad/core/arguments.py",
    "src/tapegrad/core/rounding.py",
    "src/tapegrad/core/tensor_lists.py",
    "src/tapegrad/core/node.py",
    "src/tapegrad/autograd/watched.py",
    "src/tapegrad/autograd/engine.py",
    "src/tapegrad/autograd/starts.py",
    "src/tapegrad/autograd/inplace.py",
    "src/tapegrad/ops/block/checks.py",
    "src/tapegrad/ops/block/batching.py",
    "src/tapegrad/ops/block/forward_rules.py",
    "src/tapegrad/ops/products/linear_layer.py",
    "src/tapegrad/ops/nn/lstm_step.py",
    "src/tapegrad/kernels/cpu/overrides/rows.py",
    "src/tapegrad/kernels/cpu/overrides/reduce.py",
    "src/tapegrad/kernels/cpu/overrides/softmax.py",
    "src/tapegrad/kernels/cpu/overrides/gather.py",
    "src/tapegrad/kernels/cpu/overrides/norms.py",
    "src/tapegrad/kernels/cpu/overrides/extremes.py",
    "src/tapegrad/kernels/cpu/overrides/pool2d.py",
    "src/tapegrad/kernels/cpu/overrides/losses.py",
    "src/tapegrad/kernels/cuda/late_casts.py",
    "src/tapegrad/kernels/cuda/layers.py",
    "src/tapegrad/kernels/cuda/backward.py",
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
KERNELS = "tapegrad.kernels.cpu._kernels"
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
        # Beside the package, where Python reads it when it starts: TAPEGRAD_AS_TORCH.
        self.copy_file("src/tapegrad_as_torch.pth", self.build_lib)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        own = os.path.join(self.build_lib, "tapegrad_as_torch.pth")
        return [*super().get_outputs(include_bytecode), own]

    def current_extensions(self) -> list[str]:
        """Compiled files of this build: kept, so that an unchanged core is not compiled again."""
        if not self.distribution.has_ext_modules():
            return []
        command = self.get_finalized_command("build_ext")
        return [command.get_ext_filename(e.name) for e in self.distribution.ext_modules]


class BuildExt(build_ext):
    """Compiles on all cores, says how far it is, and tries what it built.

    One core needs two and a half minutes, most of them for the core that mypyc translates; pip
    shows what is printed here with `-v`. On Windows clang-cl compiles the kernels.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = os.cpu_count() or 1

    def build_extensions(self) -> None:
        print(f"compiling {len(self.extensions)} extensions with {self.parallel} workers ...")
        if self.compiler.compiler_type != "msvc":  # which has no method for a single file
            self.compiler.compile = self.compile_all
            super().build_extensions()
            return
        extensions = self.extensions
        self.compiler.initialize()
        before = self.compiler.cc
        self.compiler.cc = clang_cl()
        for each in extensions:
            if each.name == KERNELS:
                self.build_extension(each)
        self.compiler.cc = before
        self.extensions = [each for each in extensions if each.name != KERNELS]
        super().build_extensions()
        self.extensions = extensions

    def compile_all(
        self,
        sources: list[str],
        output_dir: Any = None,
        macros: Any = None,
        include_dirs: Any = None,
        debug: bool = False,
        extra_preargs: Any = None,
        extra_postargs: Any = None,
        depends: Any = None,
    ) -> list[str]:
        """`CCompiler.compile` with several files at a time."""
        compiler = self.compiler
        macros, objects, extra_postargs, pp_opts, build = compiler._setup_compile(
            output_dir, macros, include_dirs, sources, depends, extra_postargs
        )
        cc_args = compiler._get_cc_args(pp_opts, debug, extra_preargs)

        def one(target: str) -> None:
            source, ending = build[target]
            compiler._compile(target, source, ending, cc_args, extra_postargs, pp_opts)

        wanted = [target for target in objects if target in build]
        with ThreadPoolExecutor(self.parallel) as pool:
            for i, _ in enumerate(pool.map(one, wanted), 1):
                print(f"  {i} of {len(wanted)}: {build[wanted[i - 1]][0]}", flush=True)
        return objects  # type: ignore[no-any-return]

    def run(self) -> None:
        super().run()
        is_native = "_PYTHON_HOST_PLATFORM" not in os.environ  # else it is for another machine
        if os.environ.get("TAPEGRAD_PURE") == "0" and is_native:
            for each in self.extensions:
                if each.name == KERNELS:
                    import_kernels(self.get_ext_fullpath(each.name))


def import_kernels(path: str) -> None:
    """Import the kernels that were just built: one that lacks a symbol must fail the build."""
    code = (
        "import importlib.util as u, numpy;"
        f"spec = u.spec_from_file_location('_kernels', {path!r});"
        "spec.loader.exec_module(u.module_from_spec(spec))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def compiled_extensions() -> list[Any]:
    from mypyc.build import mypycify

    paths = [path for path in MYPYC_MODULES if pathlib.Path(path).exists()]
    if not paths:
        raise RuntimeError("none of MYPYC_MODULES exists")
    core = mypycify(paths, opt_level="3", debug_level="0", group_name="tapegrad")
    return [*core, *native_extensions()]


def clang_cl() -> str:
    """Clang in the clothes of Microsoft's compiler, which itself has no vector types."""
    found = shutil.which("clang-cl")
    if found is None:
        raise RuntimeError("the kernels in C need clang-cl on the PATH (it comes with LLVM)")
    return found


def native_extensions() -> list[Any]:
    """The kernels in C; they need a compiler that talks like GCC."""
    import numpy

    flags = list(NATIVE_FLAGS)
    if platform.machine() in ("x86_64", "AMD64"):
        flags.append(X86_BASELINE)
    if sys.platform == "win32":
        flags = [f"/clang:{flag}" for flag in flags if flag not in ("-g0", "-fvisibility=hidden")]
    folder = pathlib.Path("src/tapegrad/kernels/cpu/c")
    folders = [path.as_posix() for path in sorted(folder.iterdir()) if path.is_dir()]
    sources = sorted([path.as_posix() for path in folder.rglob("*.c")])
    if not sources:
        raise RuntimeError(f"there are no C files in {folder}: this source tree is not whole")
    return [
        Extension(
            KERNELS,
            sources=sources,
            depends=sorted([path.as_posix() for path in folder.rglob("*.h")]),
            include_dirs=[numpy.get_include(), *folders],
            # Built against any NumPy 2, they run on every NumPy 2.
            define_macros=[("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION")],
            extra_compile_args=flags,
            libraries=[] if sys.platform == "win32" else ["m", "pthread"],
        )
    ]


# What only builds with kernels in C can do something with: texts of programs in C.
TEXTS = {"tapegrad.export.to_c": ["sources/*.c"], "tapegrad.kernels.cpu": ["c/machine/*.h"]}


def build(extensions: list[Any]) -> None:
    setup(
        ext_modules=extensions,
        cmdclass={"build_py": BuildPy, "build_ext": BuildExt},
        exclude_package_data={} if extensions else TEXTS,
    )


def note(reason: object) -> None:
    line = "=" * 78
    print(
        f"{line}\ntapegrad: building the pure Python version. It computes the same, up to rounding "
        f"in the last bits, and is several times slower.\nThe core was not compiled: {reason}\n"
        f"{line}",
        file=sys.stderr,
    )


def main() -> None:
    choice = os.environ.get("TAPEGRAD_PURE", "")
    if choice not in ("", "0", "1"):
        raise SystemExit(f"TAPEGRAD_PURE must be 0, 1 or unset, not {choice!r}")
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    if free_threaded and choice == "0":
        raise SystemExit(
            "TAPEGRAD_PURE=0: this Python has no GIL, and the compiled core relies on it"
        )
    if free_threaded or choice == "1" or not BUILDING.intersection(sys.argv):
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
