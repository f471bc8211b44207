"""einsum: where one product of stacks does it, the result is the one of the steps one by one."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tg

EQUATIONS = [
    ("bij,bkj->bik", (3, 4, 5), (3, 6, 5)),
    ("bij,bkj->bki", (3, 4, 5), (3, 6, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ij,jk->ki", (3, 4), (4, 5)),
    ("i,i->", (3,), (3,)),
    ("ij,ij->", (3, 4), (3, 4)),
    ("...ij,...jk->...ik", (2, 3, 4, 5), (2, 3, 5, 2)),
    ("...ij,...jk->ik...", (2, 3, 4, 5), (2, 3, 5, 2)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5)),
    ("aibj,jbk->kai", (2, 3, 4, 5), (5, 4, 6)),
    ("ab,cad->dbc", (2, 3), (4, 2, 5)),
    # Not for one product: broadcast, diagonals, sums of one operand, outer products, nothing.
    ("...ij,...jk->...ik", (2, 4, 5), (5, 2)),
    ("bij,bjk->bik", (1, 4, 5), (3, 5, 2)),
    ("iij,jk->ik", (3, 3, 4), (4, 5)),
    ("ij,k->ik", (3, 4), (5,)),
    ("i,j->ij", (3,), (4,)),
    ("ij,jk->ik", (3, 0), (0, 5)),
    ("ij,jk->ik", (1, 4), (4, 1)),
]


@pytest.mark.parametrize(("equation", "first", "second"), EQUATIONS)
@pytest.mark.parametrize("dtype", [tg.float32, tg.float64])
def test_without_recording_as_with(equation, first, second, dtype):
    tg.manual_seed(0)
    a, b = tg.randn(*first, dtype=dtype), tg.randn(*second, dtype=dtype)
    quick = tg.einsum(equation, a, b)
    slow = tg.einsum(equation, a.clone().requires_grad_(), b)
    assert not quick.requires_grad and slow.requires_grad
    assert np.array_equal(quick.numpy(), slow.detach().numpy())
    assert (quick.shape, quick.stride()) == (slow.shape, slow.stride())
    assert quick._is_view() == slow._is_view()
    expected = np.einsum(equation, a.numpy(), b.numpy())
    assert np.allclose(quick.numpy(), expected, rtol=1e-4, atol=1e-5)
    if quick._is_view():
        assert quick._base.shape == slow._base.shape
        version = quick._base._version
        quick.add_(1)
        assert quick._base._version == version + 1


def test_strided_operands():
    tg.manual_seed(0)
    a = tg.randn(4, 6, 5).transpose(0, 2)[:, ::2]
    b = tg.randn(8, 3, 4).permute(1, 0, 2)[:, ::2, :]
    found = tg.einsum("jib,ikb->bkj", a, b[:, :, :4])
    expected = np.einsum("jib,ikb->bkj", a.numpy(), b.numpy())
    assert np.allclose(found.numpy(), expected, atol=1e-5)


def test_one_equation_with_other_shapes():
    for size in (2, 3, 2, 1, 4):
        x = tg.ones(size, 3)
        assert tg.einsum("ij,kj->ik", x, x).tolist() == [[3.0] * size] * size
    with pytest.raises(RuntimeError, match="does not broadcast"):
        tg.einsum("ij,kj->ik", tg.ones(2, 3), tg.ones(2, 4))


def test_recording_again_after_a_quick_one():
    x = tg.ones(2, 3)
    tg.einsum("ij,kj->ik", x, x)
    y = tg.ones(2, 3, requires_grad=True)
    tg.einsum("ij,kj->ik", y, x).sum().backward()
    assert y.grad.tolist() == [[2.0] * 3] * 2
    with tg.no_grad():
        assert not tg.einsum("ij,kj->ik", y, x).requires_grad
