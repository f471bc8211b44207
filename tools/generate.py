"""Make the files that follow from the blocks in src/tapegrad/ops, and C that is printed.

python tools/generate.py              all of them
python tools/generate.py --check      say which are stale, and fail
python tools/generate.py names FAMILY [FAMILY …]   only the names of these lazy families
"""

from __future__ import annotations

import importlib
import os
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
# Compiled classes do not show the fields and signatures that the stubs are made from.
os.environ["TAPEGRAD_PURE"] = "1"

import operators_page  # noqa: E402
import optimizers  # noqa: E402
import portable_functions  # noqa: E402
import stubs  # noqa: E402

from tapegrad.api import publish  # noqa: E402
from tapegrad.core.op import REGISTRY  # noqa: E402
from tapegrad.ops import ON_DEMAND, files_of  # noqa: E402
from tapegrad.ops.block.definition import APIS, Api  # noqa: E402

NAMES_FILE = ROOT / "src/tapegrad/ops/block/lazy_names.py"
ATEN_FILE = ROOT / "src/tapegrad/ops/block/lazy_aten.py"
OPTIMIZERS = ROOT / "src/tapegrad/kernels/cpu/c/kernels/optim_rules_template.h"
PORTABLE = ROOT / "src/tapegrad/kernels/cpu/c/kernels/portable_functions_template.h"
HEAD = '"""Which lazy family has {}. Made by tools/generate.py: do not edit."""\n'


def family_names(family: str) -> list[str]:
    """Every public name that a family's blocks and functions give."""
    module = importlib.import_module(f"tapegrad.ops.{family}")
    found: list[str] = [f"Tensor.{name}" for name in getattr(module, "METHODS", {})]
    for api in APIS.values():
        if api.home == module.__name__:
            found += names_of(api)
    return sorted(set(found))


def names_of(api: Api) -> list[str]:
    found = []
    if api.function:
        found.append(api.name)
    if api.method:
        found.append(f"Tensor.{api.name}")
    if api.inplace:
        found.append(f"Tensor.{api.name}_")
    own = (api.name, f"{api.name}_")
    return found + [name for name in api.inplace_functions if name in own]


def aten_names(family: str) -> list[str]:
    """What PyTorch calls the ops of a family, or we do where it has none."""
    home = f"tapegrad.ops.{family}"
    return sorted({op.aten_name() for op in REGISTRY.values() if op.home == home})


def names_text(what: str, table: str, names: dict[str, str]) -> str:
    lines = [HEAD.format(what), f"\n{table}: dict[str, str] = {{\n"]
    for family in sorted(names):
        lines.append(f'    "{family}": """\n')
        wrapped = textwrap.fill(" ".join(names[family].split()), 92, break_on_hyphens=False)
        lines.append(textwrap.indent(wrapped, " " * 8) + "\n")
        lines.append('    """,\n')
    lines.append("}\n")
    return "".join(lines)


def write(path: pathlib.Path, text: str) -> None:
    """Replace the file in one step: others may be reading it."""
    made = path.with_suffix(".new")
    made.write_text(text)
    made.replace(path)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["names"]:
        from tapegrad.ops.block.lazy_names import NAMES

        families = files_of(ON_DEMAND)
        names = {f: NAMES[f] for f in NAMES if f in families}
        for family in arguments[1:]:
            names[family] = " ".join(family_names(family))
        write(NAMES_FILE, names_text("which public names", "NAMES", names))
        return 0
    lazy = {family: " ".join(family_names(family)) for family in files_of(ON_DEMAND)}
    publish.hand_out()
    lazy = {family: names for family, names in lazy.items() if names}
    aten = {family: " ".join(aten_names(family)) for family in files_of(ON_DEMAND)}
    aten = {family: names for family, names in aten.items() if names}
    made = {
        NAMES_FILE: names_text("which public names", "NAMES", lazy),
        ATEN_FILE: names_text("which ops of PyTorch's", "ATEN", aten),
    }
    made |= {ROOT / "src/tapegrad" / path: text for path, text in stubs.stubs().items()}
    made[ROOT / "docs/operators.md"] = operators_page.page()
    made[OPTIMIZERS] = optimizers.page()
    made[PORTABLE] = portable_functions.page()
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print("stale:" if "--check" in arguments else "written:", path.relative_to(ROOT))
        if "--check" not in arguments:
            write(path, made[path])
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
