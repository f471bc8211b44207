"""The command line of the scripts here: how many steps, and where the picture goes."""

from __future__ import annotations

import argparse
import pathlib
import sys

import matplotlib

FILE = pathlib.Path(sys.argv[0]).with_suffix(".png").name


def arguments(doc: str, steps: int) -> argparse.Namespace:
    """Read --steps, --seed and --out; `doc` is the script's own docstring."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--steps", type=int, default=steps, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--out", metavar="FILE", default=FILE, help="default: %(default)s")
    matplotlib.use("Agg")
    return parser.parse_args()


def save(figure: matplotlib.figure.Figure, args: argparse.Namespace) -> None:
    figure.savefig(args.out, dpi=120)
    print(f"written: {args.out}")
