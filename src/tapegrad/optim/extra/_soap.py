"""SOAP: Adam in the eigenvectors of Shampoo's matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tapegrad as tg

from .._per_tensor import evaluate
from ..optimizer import Optimizer
from ._matrices import check, check_real, dimensions, gram, is_count, is_number, multiplied


class SOAP(Optimizer):
    """SOAP (Vyas et al., 2024), with decoupled weight decay.

    Adam on gradients that are turned into the eigenvectors of averaged products of the gradient
    with itself, one matrix per dimension; every `frequency` steps the eigenvectors follow by a
    step of orthogonal iteration. The first step only measures, as in the authors' program.
    Dimensions of more than `max_dim` entries are not turned, vectors only with `precondition_1d`.

    >>> p = nn.Parameter(tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> optimizer = optim.extra.SOAP([p], lr=0.2)
    >>> for step in range(30):
    ...     optimizer.zero_grad()
    ...     loss = (p * p).sum()
    ...     loss.backward()
    ...     optimizer.step()
    >>> loss.item() < 1
    True
    """

    def __init__(
        self,
        params: Any,
        lr: float = 3e-3,
        betas: tuple[float, float] = (0.95, 0.95),
        shampoo_beta: float | None = None,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        frequency: int = 10,
        max_dim: int = 10000,
        precondition_1d: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        right = isinstance(betas, (tuple, list)) and len(betas) == 2
        check(
            "SOAP",
            lr=(lr, is_number(lr), "a number >= 0"),
            betas=(betas, right and all(is_number(b, 0, 1) for b in betas), "two in [0, 1)"),
            shampoo_beta=(
                shampoo_beta,
                shampoo_beta is None or is_number(shampoo_beta, 0, 1),
                "a number in [0, 1), or None for betas[1]",
            ),
            eps=(eps, is_number(eps), "a number >= 0"),
            weight_decay=(weight_decay, is_number(weight_decay), "a number >= 0"),
            frequency=(frequency, is_count(frequency), "an integer >= 1"),
            max_dim=(max_dim, is_count(max_dim), "an integer >= 1"),
        )
        defaults = {
            "lr": lr, "betas": tuple(betas), "shampoo_beta": shampoo_beta, "eps": eps,
            "weight_decay": weight_decay, "frequency": frequency, "max_dim": max_dim,
            "precondition_1d": precondition_1d, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    @tg.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; the loss that `closure` returned, if one is given."""
        loss = evaluate(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    check_real("SOAP", p)
                    self._update(p, self.state[p], group)
        return loss

    def _update(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        grad = -p.grad if group["maximize"] else p.grad
        dims = dimensions(p, group["max_dim"])
        if p.ndim == 1 and not group["precondition_1d"]:
            dims = []
        beta1, beta2 = group["betas"]
        weight = 1 - (beta2 if group["shampoo_beta"] is None else group["shampoo_beta"])
        if "step" not in state:
            state["step"] = 0
            state["exp_avg"] = tg.zeros_like(p)
            state["exp_avg_sq"] = tg.zeros_like(p)  # in the eigenvectors
            for d in dims:
                matrix = state[f"gram_{d}"] = weight * gram(grad, d)
                state[f"vectors_{d}"] = tg.linalg.eigh(matrix)[1].flip(1)
            return
        state["step"] += 1
        turned = grad
        for d in dims:
            turned = multiplied(turned, state[f"vectors_{d}"].mT, d)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(turned, turned, value=1 - beta2)
        update = mean
        for d in dims:
            update = multiplied(update, state[f"vectors_{d}"].mT, d)
        update = update / (square.sqrt() + group["eps"])
        for d in dims:
            update = multiplied(update, state[f"vectors_{d}"], d)
        n = state["step"]
        size = group["lr"] * math.sqrt(1 - beta2**n) / (1 - beta1**n)
        p.add_(update, alpha=-size)
        if group["weight_decay"]:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        for d in dims:
            state[f"gram_{d}"].lerp_(gram(grad, d), weight)
            if n % group["frequency"] == 0:
                follow(state, d)


def follow(state: dict[str, Any], d: int) -> None:
    """One step of orthogonal iteration, with the eigenvectors sorted by decreasing eigenvalue."""
    matrix, vectors = state[f"gram_{d}"], state[f"vectors_{d}"]
    values = (vectors * (matrix @ vectors)).sum(0)
    order = values.argsort(descending=True)
    state["exp_avg_sq"] = state["exp_avg_sq"].index_select(d, order)
    state[f"vectors_{d}"] = tg.linalg.qr(matrix @ vectors[:, order])[0]
