"""Record the schemas of PyTorch's ops that we have, as PyTorch prints them.

Runs where PyTorch is: PYTHONPATH=src .venv-parity/bin/python tools/aten_schemas.py
"""

import pathlib

import torch

from tapegrad import _ops
from tapegrad.api.publish import load_everything

FILE = pathlib.Path(__file__).parents[1] / "src/tapegrad/_library/aten_schemas.txt"


def main() -> None:
    load_everything()
    known = set(torch._C._dispatch_get_all_op_names())
    lines = []
    for schema in torch._C._jit_get_all_schemas():
        full = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        if full not in known or not full.startswith("aten::") or any_out(schema):
            continue
        if _ops.is_aten(schema.name.removeprefix("aten::")):
            lines.append(str(schema).removeprefix("aten::"))
    FILE.write_text("\n".join(sorted(set(lines))) + "\n", "utf8")
    print(f"{len(lines)} schemas")


def any_out(schema: torch._C.FunctionSchema) -> bool:
    return any(argument.is_out for argument in schema.arguments)


main()
