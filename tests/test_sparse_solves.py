"""Triangular CSR systems, and derivatives and batches that pass through sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad import func

ROWS, COLUMNS = [0, 2, 4, 6, 7], [0, 2, 0, 1, 1, 2, 3]
F64 = torch.float64


def csr(values: Any) -> Any:
    return torch.sparse_csr_tensor(ROWS, COLUMNS, values, (4, 4))


def coo(values: Any) -> Any:
    rows = [i for i in range(4) for _ in range(ROWS[i], ROWS[i + 1])]
    return torch.sparse_coo_tensor([rows, COLUMNS], values, (4, 4), check_invariants=True)


def triangular(values: Any, b: Any, flags: Any) -> Any:
    return torch.triangular_solve(b, csr(values), *flags).solution


FLAGS = [tuple(bool(i & bit) for bit in (4, 2, 1)) for i in range(8)]


@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
def test_triangular_systems(dtype: Any, flags: Any) -> None:
    """Upper or not, transposed, unit diagonal: as NumPy solves them."""
    torch.manual_seed(0)
    values = torch.tensor([3.0, 1.0, 2.0, -2.0, 1.5, 4.0, 2.5]).to(dtype)
    b = torch.randn(4, 2, dtype=dtype)
    upper, transpose, unit = flags
    dense = csr(values).to_dense().numpy()
    triangle = np.triu(dense, 1) if upper else np.tril(dense, -1)
    triangle = triangle + (np.eye(4) if unit else np.diag(dense.diagonal()))
    expected = np.linalg.solve(triangle.T if transpose else triangle, b.numpy())
    found = triangular(values, b, flags)
    torch.testing.assert_close(found, torch.tensor(expected).to(dtype))
    if dtype is not torch.float32:
        inputs = values.requires_grad_(), b.requires_grad_()
        how = {"check_forward_ad": True, "check_batched_grad": True}
        assert torch.autograd.gradcheck(lambda v, b: triangular(v, b, flags), inputs, **how)
        assert torch.autograd.gradgradcheck(lambda v, b: triangular(v, b, flags), inputs)


@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
def test_triangular_systems_in_odd_cases() -> None:
    a = csr(torch.ones(7, dtype=F64)).requires_grad_()
    b = torch.ones(4, 1, dtype=F64)
    found = torch.triangular_solve(b, a, upper=False)
    assert type(found).__name__ == "triangular_solve"
    assert found.cloned_coefficient.shape == (0,)
    assert "TriangularSolveBackward0" in repr(found.solution.grad_fn)
    found.solution.sum().backward()
    assert a.grad.layout is torch.sparse_csr
    without_pivot = torch.sparse_csr_tensor([0, 0, 1], [1], torch.ones(1, dtype=F64), (2, 2))
    assert torch.triangular_solve(b[:2], without_pivot)[0].tolist() == [[np.inf], [1.0]]
    with pytest.raises(ValueError, match="triangular_solve: unsupported sparse layout"):
        torch.triangular_solve(b, a.detach().to_sparse_csc())
    with pytest.raises(RuntimeError, match="a sparse A takes one matrix b"):
        torch.triangular_solve(b.expand(2, 4, 1), a)


PRODUCTS = {
    "mm": lambda a, b: torch.mm(a, b),
    "operator": lambda a, b: a @ b,
    "mv": lambda a, b: torch.mv(a, b[:, 0]),
    "from the left": lambda a, b: torch.mm(b.t(), a),
    "addmm": lambda a, b: torch.addmm(b, a, b),
    "sparse.mm": lambda a, b: torch.sparse.mm(a, b),
    "dense": lambda a, b: a.to_dense() @ b,
    "masked": lambda a, b: (b @ b.t()).sparse_mask(a).to_dense() @ b,
    "scaled": lambda a, b: (2 * a) @ b.sin(),
    "twice": lambda a, b: (a @ a).to_dense() @ b,
}


@pytest.mark.parametrize("layout", [csr, coo], ids=["csr", "coo"])
@pytest.mark.parametrize("name", list(PRODUCTS))
def test_forward_mode_and_batches_of_parts(name: str, layout: Any) -> None:
    """Tangents and batches of the values of a sparse matrix, of what it multiplies, and of both."""
    torch.manual_seed(0)
    product = PRODUCTS[name]
    values, b = torch.randn(7, dtype=F64), torch.randn(4, 3, dtype=F64)

    def f(values: Any, b: Any) -> Any:
        return product(layout(values), b)

    moved = torch.randn(7, dtype=F64), torch.randn(4, 3, dtype=F64)
    for some in ((0,), (1,), (0, 1)):
        primals = tuple([(values, b)[i] for i in some])
        directions = tuple([moved[i] for i in some])

        def along(*given: Any, some: Any = some) -> Any:
            both = [values, b]
            for i, t in zip(some, given, strict=True):
                both[i] = t
            return f(*both)

        found = func.jvp(along, primals, directions)[1]
        step = 1e-6
        ahead = along(*[p + step * d for p, d in zip(primals, directions, strict=True)])
        back = along(*[p - step * d for p, d in zip(primals, directions, strict=True)])
        torch.testing.assert_close(found, (ahead - back) / (2 * step), rtol=1e-5, atol=1e-7)
        stacked = [torch.stack([p, p + d]) for p, d in zip(primals, directions, strict=True)]
        every = torch.vmap(along)(*stacked)
        for i in range(2):
            torch.testing.assert_close(every[i], along(*[s[i] for s in stacked]))


def test_second_derivatives_through_a_sparse_matrix() -> None:
    values, b = torch.rand(7, dtype=F64), torch.rand(4, 2, dtype=F64)

    def f(values: Any) -> Any:
        return (csr(values) @ b).square().sum()

    expected = func.jacrev(func.jacrev(f))(values)
    torch.testing.assert_close(func.jacfwd(func.grad(f))(values), expected)
    torch.testing.assert_close(func.jacrev(func.jacfwd(f))(values), expected)
