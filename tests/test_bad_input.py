"""Arguments that make no sense: a Python exception of the usual kinds, whatever they are."""

import random
import warnings

import pytest

import tapegrad as torch
from table import APIS, find

KINDS = (TypeError, RuntimeError, IndexError, ValueError, AssertionError)
# PyTorch's own, too: the number of groups is divided by before it is looked at.
ALSO = {"nn.functional.group_norm": (ZeroDivisionError,)}
# Functions of a size or of a count, which may honestly ask for a lot of memory.
LARGE = set(
    """
    bincount chunk combinations histc histogram multinomial mvlgamma new pca_lowrank repeat
    repeat_interleave resize_ special.multigammaln split svd_lowrank tensor_split tile unsafe_chunk
    """.split()
)
LARGE_FAMILIES = ("fft.", "new_", "signal.windows.")
SIZES = ("count", "generator", "low", "n", "out", "row", "size", "start", "window_length", None)
# These would change what the other tests draw.
STATE = {"manual_seed", "seed", "set_rng_state"}
NAMES = sorted(set(APIS) - STATE)


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
    first = (*APIS[name].parameters, None)[0]
    if name in LARGE or name.startswith(LARGE_FAMILIES) or first in SIZES:
        return values
    return [*values, 2**40, -(2**40)]


def forms_of(name):
    """The function, the method and the writing method of a name, as far as there are."""
    api = APIS[name]
    forms = [find(torch, api)] if api.function else []
    if api.method:
        forms += [getattr(torch.Tensor, n, None) for n in (name, f"{name}_")]
    return [f for f in forms if f is not None] or [api.call]


def test_the_table_is_complete():
    """The names are the same whatever other tests have loaded: all that there are."""
    assert len(NAMES) > 800 and {"linalg.det", "nn.functional.conv2d", "special.zeta"} < set(NAMES)
    assert all(callable(f) for name in NAMES for f in forms_of(name))


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path, monkeypatch):
    """A text may be taken for the name of a file, which is then written."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_nonsense_raises(name):
    draw = random.Random(name)
    inputs = [torch.ones(2, 3), torch.zeros(0), torch.tensor(2.0), torch.arange(6).view(2, 3)]
    forms = forms_of(name)
    values = arguments(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(100):
            form = draw.choice(forms)
            given = [draw.choice(values) for _ in range(draw.randint(0, 4))]
            first = draw.choice(inputs)
            if form is forms[0]:
                first = draw.choice([first, draw.choice(values)])
            try:
                form(first, *given)
            except (*KINDS, *ALSO.get(name, ())):
                pass
