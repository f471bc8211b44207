"""Arguments that make no sense: a Python exception of the usual kinds, whatever they are."""

import random
import warnings

import pytest

import tapegrad as torch
from tapegrad.ops.block.definition import APIS

KINDS = (TypeError, RuntimeError, IndexError, ValueError, AssertionError)
# Functions of a size or of a count, which may honestly ask for a lot of memory.
LARGE = {"tensor_split", "repeat", "tile", "repeat_interleave", "chunk", "split", "bincount"}
STATE = {"manual_seed", "seed", "set_rng_state"}
NAMES = sorted(n for n, api in APIS.items() if "input" in api.parameters[:1] and n not in STATE)


def arguments(name):
    grad = torch.ones(2, 3, requires_grad=True)
    values = [
        *(None, 0, -1, 5, 1.5, float("nan"), True, "x", b"y", 3 + 4j, object(), slice(None), {}),
        *([], [1, 2], (0, 1), (3, -1), [[1, 2], [3]], [torch.ones(2), torch.ones(2)]),
        *(torch.float64, torch.strided, torch.tensor(1.0), torch.ones(2, 3), torch.zeros(0)),
        *(torch.ones(3, 2).t(), torch.zeros(2, 0), torch.tensor([0, 1]), torch.tensor([5, -9])),
        *(torch.tensor([True, False]), torch.ones(2, 2, dtype=torch.complex64), grad * 1),
        *(torch.ones(3).expand(2, 3), torch.ones(2, dtype=torch.float16), "cpu", "cuda"),
    ]
    return values if name in LARGE else [*values, 2**40, -(2**40)]


@pytest.mark.parametrize("name", NAMES)
def test_nonsense_raises(name):
    draw = random.Random(name)
    inputs = [torch.ones(2, 3), torch.zeros(0), torch.tensor(2.0), torch.arange(6).view(2, 3)]
    forms = [getattr(torch, name, None), getattr(torch.Tensor, name, None)]
    forms.append(getattr(torch.Tensor, name + "_", None))
    values = arguments(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(25):
            form = draw.choice([f for f in forms if f is not None] or [lambda *a: None])
            given = [draw.choice(values) for _ in range(draw.randint(0, 4))]
            first = draw.choice(inputs)
            if form is forms[0]:
                first = draw.choice([first, draw.choice(values)])
            try:
                form(first, *given)
            except KINDS:
                pass
