"""SparseAdam: Adam for gradients that are sparse, where only the rows that are there move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ..kernels.portable.functions import NUMBERS
from ._per_tensor import check_one_element, evaluate, python_number
from .optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam in which the averages of an entry change only when it has a gradient.

    >>> p = nn.Parameter(tensor([0.0, 0.0, 0.0]))
    >>> p.grad = tensor([0.0, 1.0, 0.0]).to_sparse()
    >>> optim.SparseAdam([p], lr=0.5).step()
    >>> p.detach()
    tensor([ 0.0000, -0.5000,  0.0000])
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_one_element(lr)
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i in range(2):
            if not 0.0 <= betas[i] < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)
        sparse = [
            [i, j]
            for i, group in enumerate(self.param_groups)
            for j, p in enumerate(group["params"])
            if p.is_sparse
        ]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )

    @tg.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; the loss that `closure` returned, if one is given."""
        loss = evaluate(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not p.grad.is_sparse:
                    raise RuntimeError(
                        "SparseAdam does not support dense gradients, please consider Adam instead"
                    )
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = tg.zeros_like(p, memory_format=tg.preserve_format)
                    state["exp_avg_sq"] = tg.zeros_like(p, memory_format=tg.preserve_format)
                update(p, p.grad.coalesce(), state, group)
        return loss


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of the entries of one parameter at which there is a gradient."""
    state["step"] += 1
    if not grad._nnz():
        return
    at = tuple(grad._indices())
    values = -grad._values() if group["maximize"] else grad._values()
    beta1, beta2 = group["betas"]
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    mean[at] += (values - mean[at]) * (1 - beta1)
    square[at] += (values * values - square[at]) * (1 - beta2)
    # Both averages start at zero; these take that bias out again.
    unbias1, unbias2 = (
        1 - NUMBERS.power(beta1, state["step"]),
        1 - NUMBERS.power(beta2, state["step"]),
    )
    size = python_number(group["lr"]) * NUMBERS.power(unbias2, 0.5) / unbias1
    p[at] -= size * mean[at] / (square[at].sqrt() + group["eps"])
