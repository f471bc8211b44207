"""Numbers and flags of wrong kinds, or that do not fit: found by calls with untried seeds.

The expected values, classes and texts are PyTorch 2.13's answers to the same calls.
"""

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.nn import functional as F

INF = float("inf")


@pytest.mark.parametrize("find", [torch.bucketize, lambda v, rows: torch.searchsorted(rows, v)])
def test_a_number_is_not_rounded_to_the_dtype_of_the_boundaries(find):
    """2.5 was cut to 2, and found before it."""
    rows = torch.tensor([1, 2, 3])
    assert [find(v, rows).item() for v in (2.5, 2, 2.0, -INF, INF, True)] == [2, 1, 1, 0, 3, 0]
    small = torch.tensor([1, 2, 3], dtype=torch.uint8)
    assert [find(v, small).item() for v in (300, -1, 2)] == [3, 3, 1]
    assert find(1, torch.tensor([False, True])).item() == 1
    halves = torch.tensor([16777216, 16777217, 16777219])
    assert find(16777218.0, halves).item() == 2
    with pytest.raises(OverflowError):
        find(10**30, rows)
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        find(3 + 4j, rows)


ONES = torch.ones(3)
EYE = torch.eye(3)
GRU = [torch.ones(6, 3), torch.ones(6, 2), torch.ones(6), torch.ones(6)]
BAGS = (torch.tensor([1, 2]), torch.tensor([0]))
FITS = "value cannot be converted to type float without overflow"
REFUSED = {
    "a bool as an int": (
        lambda: torch.combinations(ONES, True),
        (TypeError, "combinations(): argument 'r' (position 2) must be int, not bool"),
    ),
    "a bool as a size": (
        lambda: torch.eye(True),
        (TypeError, "eye(): argument 'n' (position 1) must be int, not bool"),
    ),
    "a bool as a dimension": (lambda: torch.ones(2, 3).movedim(True, 0), (TypeError, "movedim()")),
    "a text as a flag": (
        lambda: torch.linalg.solve_triangular(EYE, torch.ones(3, 1), upper="x"),
        (TypeError, "linalg_solve_triangular(): argument 'upper' must be bool, not str"),
    ),
    "an int as a flag": (
        lambda: torch.embedding_bag(torch.ones(4, 3), *BAGS, 1),
        (TypeError, "embedding_bag(): argument 'scale_grad_by_freq' (position 4) must be bool"),
    ),
    "weights without rows": (
        lambda: torch.embedding_bag(torch.tensor(1.0), *BAGS),
        (RuntimeError, "weight has to be a 2D Tensor, but got Tensor of dimension 0"),
    ),
    "an empty row": (
        lambda: torch.embedding(torch.zeros(2, 0), torch.tensor(2)),
        (RuntimeError, "INDICES element is out of DATA bounds, id=2 axis_dim=2"),
    ),
    "no row": (
        lambda: torch.embedding(torch.zeros(0, 3), torch.tensor([2])),
        (RuntimeError, "index_select(): self indexing axis dim should be positive"),
    ),
    "a shift": (lambda: ONES.roll(10**30, 0), (ValueError, "Overflow when unpacking long long")),
    "shifts": (
        lambda: ONES.roll((1, 10**30), (0, 0)),
        (TypeError, "roll(): argument 'shifts' failed to unpack the object at pos 2 with error"),
    ),
    "alpha": (lambda: torch.rsub(ONES, 2, alpha=2**64), (OverflowError, "int too big")),
    "weight": (lambda: torch.lerp(ONES, ONES, 10**30), (OverflowError, "int too big")),
    "a complex alpha": (
        lambda: torch.ones(2).addbmm_(torch.ones(2, 2, 2), torch.ones(2, 2, 2), alpha=3j),
        (RuntimeError, FITS),
    ),
    "leaky_relu": (lambda: F.leaky_relu(ONES, 1e300), (RuntimeError, FITS)),
    "elu": (lambda: F.elu(ONES.half(), 1e300), (RuntimeError, FITS)),
    "softplus": (lambda: F.softplus(ONES, 1e300), (RuntimeError, FITS)),
    "a complex degree": (
        lambda: torch.special.hermite_polynomial_h(ONES, 3j),
        (NotImplementedError, "\"hermite_polynomial_h_cpu\" not implemented for 'ComplexFloat'"),
    ),
    "a list as a mode": (
        lambda: F.grid_sample(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), [1]),
        (ValueError, "nn.functional.grid_sample(): expected mode to be"),
    ),
    "a list as a nonlinearity": (
        lambda: torch.nn.RNNCell(1, 1, 1, [1])(torch.ones(2, 1)),
        (RuntimeError, "Unknown nonlinearity: [1]"),
    ),
    "an ord of several numbers": (lambda: torch.norm(ONES, ONES), (TypeError, "")),
    "states of one dimension": (
        lambda: torch.gru(
            *(torch.ones(5, 3), torch.tensor([2, 2, 1]), torch.ones(2, 3), [*GRU, *GRU]),
            *(True, 1, 0.0, False, True),
        ),
        (RuntimeError, "mat1 and mat2 shapes cannot be multiplied (1x3 and 2x6)"),
    ),
    "no matrix": (
        lambda: torch.linalg.solve_ex(torch.Tensor, EYE),
        (TypeError, "linalg_solve_ex(): argument 'A' (position 1) must be Tensor, not "),
    ),
    "a text as a number": (
        lambda: torch.grid_sampler(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), 2, "cpu", True),
        (TypeError, "grid_sampler(): argument 'padding_mode' (position 4) must be int, not str"),
    ),
    "more edges than there are numbers": (
        lambda: torch.histogramdd(torch.ones(4, 2), 2**63 - 1),
        (RuntimeError, "number of steps must be non-negative"),
    ),
    "more places than there are": (
        lambda: torch.combinations(torch.arange(100), 70),
        (RuntimeError, "numel: integer multiplication overflow"),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_as_in_pytorch(what):
    call, (kind, begins) = REFUSED[what]
    with pytest.raises(Exception) as caught:
        call()
    assert type(caught.value) is kind and str(caught.value).startswith(begins)


def test_numbers_that_pytorch_takes():
    assert torch.mvlgamma(ONES + 5, np.int64(1)).shape == (3,)
    assert torch.mvlgamma(ONES + 5, torch.tensor(2)).shape == (3,)
    assert EYE.tril(-(2**63)).sum() == 0 and EYE.tril(2**63 - 1).sum() == 3
    assert EYE.triu(-(2**63)).sum() == 3 and EYE.triu(2**63 - 1).sum() == 0
    assert torch.linalg.norm(ONES, torch.tensor(1)).item() == 3
    assert torch.linalg.vector_norm(ONES, torch.tensor(1)).item() == 3
    assert F.elu(ONES.half(), 1e6).tolist() == F.leaky_relu(ONES, INF).tolist() == [1, 1, 1]
    assert F.softplus(ONES.half(), 1e6).tolist() == [1, 1, 1]


def test_huge_strides_of_a_transposed_convolution_end_at_once():
    """The kernel asked each of 2**31 places whether a tap reaches it."""
    layer = torch.nn.ConvTranspose3d(2, 2, 2, 2**31)
    with pytest.raises(RuntimeError):
        layer(torch.ones(2, 2, 5, 5))
    weight = torch.arange(6.0).view(1, 1, 2, 3)
    wide = F.conv_transpose2d(torch.ones(1, 1, 1, 2), weight, stride=(5, 7), dilation=(2, 3))
    assert wide.shape == (1, 1, 3, 14) and wide.sum() == 30
    assert wide[0, 0, 2, ::7].tolist() == [3, 3] and wide[0, 0, 0, 3::7].tolist() == [1, 1]
