"""Record what PyTorch answers: `python tests/programs/record.py [module ...]`, `make golden`."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import torch

from programs import harness

for name in sys.argv[1:] or harness.modules():
    harness.record(name, torch)
    print(f"recorded {name}")
