"""Writes what the programs of deviations print under both libraries into their files.

PYTHONPATH=src python tests/deviations/record.py [NAME...]      # all by default; needs PyTorch
"""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch

import deviations
import tapegrad


def main() -> None:
    for each in deviations.deviations():
        if each.name not in (sys.argv[1:] or [each.name]):
            continue
        file = deviations.FOLDER / each.folder / f"{each.name}.toml"
        told = file.read_text("utf-8").partition("\npytorch = ")[0].rstrip("\n")
        outputs = {"pytorch": each.printed(torch), "ours": each.printed(tapegrad)}
        for name, output in outputs.items():
            told += f"\n{name} = '''\n{output}'''"
        file.write_text(f"{told}\n", encoding="utf-8")
        if outputs["pytorch"] == outputs["ours"]:
            print(f"{each.name}: there is no difference")


if __name__ == "__main__":
    main()
