"""Softmax over so many classes that the rare ones are kept in clusters (Grave et al., 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import tapegrad as tg

from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """The log-probability of every target, and the mean of their negatives."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """The head scores the frequent classes and the clusters; each cluster scores its classes.

    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(8, 10, cutoffs=[4], div_value=2.0)
    >>> layer(zeros(1, 8), tensor([0])).loss.detach()
    tensor(1.6094)
    """

    in_features: int
    n_classes: int
    cutoffs: list[int]
    div_value: float
    head_bias: bool
    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            any(int(c) != c for c in cutoffs)
            or any(a >= b for a, b in pairwise(cutoffs))
            or cutoffs[0] <= 0
            or cutoffs[-1] > n_classes - 1
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an "
                "increasing order, where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs), start=1):
            # Rarer classes get by with fewer features.
            width = int(in_features // div_value**i)
            self.tail.append(
                Sequential(
                    Linear(in_features, width, False, device, dtype),
                    Linear(width, high - low, False, device, dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new values."""
        self.head.reset_parameters()
        for narrow, wide in self.tail:
            narrow.reset_parameters()
            wide.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> _ASMoutput:
        check_pair(input_, target_)
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)

        output = input.new_zeros(target.size(0))
        columns = target.new_empty(target.size(0))  # where in the head a target is found
        found = 0
        for i, (low, high) in enumerate(pairwise([0, *self.cutoffs])):
            rows = ((target >= low) & (target < high)).nonzero().reshape(-1)
            if rows.numel() == 0:
                continue
            found += rows.numel()
            if i == 0:
                columns.index_copy_(0, rows, target[rows])
                continue
            columns.index_fill_(0, rows, self.shortlist_size + i - 1)
            within = F.log_softmax(self.tail[i - 1](input.index_select(0, rows)), dim=1)
            local = within.gather(1, (target[rows] - low).unsqueeze(1)).squeeze(1)
            output.index_copy_(0, rows, local)
        if found != target.size(0):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        head = F.log_softmax(self.head(input), dim=1)
        output += head.gather(1, columns.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: Any, head_output: Any) -> Any:
        """The log-probabilities of all classes, from the outputs of the head."""
        out = input.new_empty((head_output.size(0), self.n_classes))
        head = F.log_softmax(head_output, dim=1)
        n = self.shortlist_size
        out[:, :n] = head[:, :n]
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            within = F.log_softmax(self.tail[i](input), dim=1)
            out[:, low:high] = within + head[:, n + i].unsqueeze(1)
        return out

    def log_prob(self, input: Any) -> Any:
        """The log-probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Any) -> Any:
        """The most likely class of every row; clusters are looked into only where they lead."""
        head = self.head(input)
        best = tg.argmax(head, dim=1)
        clusters = best >= self.shortlist_size
        if not clusters.any():
            return best
        best[clusters] = tg.argmax(self._get_full_log_prob(input[clusters], head[clusters]), dim=1)
        return best


def check_pair(input: Any, target: Any) -> None:
    """PyTorch's errors for shapes that do not go together."""
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.dim() == 1 and input.size(0) != target.size(0):
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found "
            f"inputs with size {input.size()}"
        )
