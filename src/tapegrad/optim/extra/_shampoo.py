"""Shampoo: gradients preconditioned along every dimension of a parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from .._per_tensor import evaluate
from ..optimizer import Optimizer
from ._matrices import check, check_real, dimensions, gram, is_count, is_number, multiplied


class Shampoo(Optimizer):
    """Shampoo (Gupta, Koren and Singer, 2018).

    For each of the k dimensions of a parameter, a matrix sums the products of the gradient with
    itself (`beta2` < 1: averages them); the step is the gradient times these matrices to the power
    -1/(2k). Dimensions of more than `max_dim` entries are left as they are, and not counted. Roots
    of matrices are taken every `frequency` steps, in double precision.

    >>> p = nn.Parameter(tensor([3.0, 4.0]))
    >>> optimizer = optim.extra.Shampoo([p], lr=1.0)
    >>> (p * p).sum().div(2).backward()
    >>> optimizer.step()  # the first step of a vector has the length lr
    >>> p
    Parameter containing:
    tensor([2.4000, 3.2000], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        lr: float = 0.1,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        eps: float = 1e-4,
        beta2: float = 1.0,
        frequency: int = 1,
        max_dim: int = 4096,
        *,
        maximize: bool = False,
    ) -> None:
        check(
            "Shampoo",
            lr=(lr, is_number(lr), "a number >= 0"),
            momentum=(momentum, is_number(momentum, 0, 1), "a number in [0, 1)"),
            weight_decay=(weight_decay, is_number(weight_decay), "a number >= 0"),
            eps=(eps, is_number(eps) and eps > 0, "a number > 0"),
            beta2=(beta2, beta2 == 1 or is_number(beta2, 0, 1), "a number in [0, 1]"),
            frequency=(frequency, is_count(frequency), "an integer >= 1"),
            max_dim=(max_dim, is_count(max_dim), "an integer >= 1"),
        )
        defaults = {
            "lr": lr, "momentum": momentum, "weight_decay": weight_decay, "eps": eps,
            "beta2": beta2, "frequency": frequency, "max_dim": max_dim, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    @tg.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; the loss that `closure` returned, if one is given."""
        loss = evaluate(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    check_real("Shampoo", p)
                    self._update(p, self.state[p], group)
        return loss

    def _update(self, p: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        grad = -p.grad if group["maximize"] else p.grad
        if group["weight_decay"]:
            grad = grad.add(p, alpha=group["weight_decay"])
        dims = dimensions(p, group["max_dim"])
        if not dims and p.numel() == 1:  # the matrix of a single number
            p_shape, grad, dims = p.shape, grad.reshape(1), [0]
        else:
            p_shape = p.shape
        if "step" not in state:
            state["step"] = 0
            for d in dims:
                state[f"gram_{d}"] = group["eps"] * tg.eye(grad.shape[d], dtype=p.dtype)
        beta2 = group["beta2"]
        out = grad
        for d in dims:
            matrix = state[f"gram_{d}"]
            new = gram(grad, d)
            if beta2 == 1:
                matrix.add_(new)
            else:
                matrix.lerp_(new, 1 - beta2)
            if state["step"] % group["frequency"] == 0:
                # A sum is at least what it began with, but an average forgets that.
                least = group["eps"] * (1 if beta2 == 1 else 1e-3)
                state[f"root_{d}"] = inverse_root(matrix, 2 * len(dims), least)
            out = multiplied(out, state[f"root_{d}"], d)
        state["step"] += 1
        out = out.reshape(p_shape)
        if group["momentum"]:
            if "momentum_buffer" in state:
                out = state["momentum_buffer"].mul_(group["momentum"]).add_(out)
            else:
                out = state["momentum_buffer"] = out.clone()
        p.add_(out, alpha=-group["lr"])


def inverse_root(matrix: Any, root: int, least: float) -> Any:
    """A symmetric matrix to the power -1/root, with eigenvalues of at least `least`.

    Eigenvalues below the rounding errors of the matrix would turn these into large steps.
    """
    values, vectors = tg.linalg.eigh(matrix.double())
    noise = tg.finfo(matrix.dtype).eps * values[-1].item()
    powers = values.clamp(min=max(least, noise)) ** (-1 / root)
    return ((vectors * powers) @ vectors.mT).to(matrix.dtype)
