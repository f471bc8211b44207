"""Losses as layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...core.warned import warn
from ...ops.nn import reduction as _reduction
from .. import functional as F
from .distance import PairwiseDistance
from .linear import Linear
from .linear_cross_entropy_options import LinearCrossEntropyOptions
from .module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class _Loss(Module):
    """Base of losses: holds how the elements are reduced."""

    reduction: str

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = _reduction.chosen(reduction, size_average, reduce, type(self))


class _WeightedLoss(_Loss):
    """A loss with a weight for every class, or for every element."""

    weight: Any

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


# --- differences -----------------------------------------------------------------------------


class L1Loss(_Loss):
    """The mean of absolute differences.

    Args:
        size_average, reduce: old spellings of `reduction`
        reduction: "mean" or "sum" of all elements, or "none" for one loss each

    Shape:
        input and target of the same shape -> a scalar, or that shape with reduction="none".

    >>> nn.L1Loss()(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(1.)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Any, target: Any) -> Any:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The mean of squared differences.

    Args:
        size_average, reduce: old spellings of `reduction`
        reduction: "mean" or "sum" of all elements, or "none" for one loss each

    Shape:
        input and target of the same shape -> a scalar, or that shape with reduction="none".

    >>> nn.MSELoss()(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(2.)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Any, target: Any) -> Any:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared differences below `beta`, absolute ones above.

    Args:
        size_average, reduce: old spellings of `reduction`
        reduction: "mean" or "sum" of all elements, or "none" for one loss each
        beta: where squares become straight lines

    Shape:
        input and target of the same shape -> a scalar, or that shape with reduction="none".

    >>> nn.SmoothL1Loss(reduction="none")(tensor([0.5, 3.0]), zeros(2))
    tensor([0.1250, 2.5000])
    """

    __constants__ = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Any, target: Any) -> Any:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """SmoothL1Loss times delta: squared near zero, straight lines further out.

    Args:
        reduction: "mean" or "sum" of all elements, or "none" for one loss each
        delta: where squares become straight lines

    Shape:
        input and target of the same shape -> a scalar, or that shape with reduction="none".

    >>> nn.HuberLoss(reduction="none", delta=2.0)(tensor([1.0, 3.0]), zeros(2))
    tensor([0.5000, 4.0000])
    """

    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Any, target: Any) -> Any:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


# --- likelihoods -----------------------------------------------------------------------------


class NLLLoss(_WeightedLoss):
    """The negative of the log-probability that the input gives to the target class.

    Args:
        weight: a factor per class, (C)
        size_average, reduce: old spellings of `reduction`
        ignore_index: a target that counts for nothing
        reduction: "mean" or "sum" of all elements, or "none" for one loss each

    Shape:
        log-probabilities (N, C) or (N, C, *), classes (N) or (N, *) -> a scalar, or one loss
        per target.

    >>> nn.NLLLoss()(tensor([[-0.5, -2.0]]), tensor([1]))
    tensor(2.)
    """

    __constants__ = ["ignore_index", "reduction"]
    ignore_index: int

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Any:
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


OLD_NAME = (
    "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement and "
    "see https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details."
)


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss for images.

    >>> loss = nn.NLLLoss2d()
    >>> loss(log_softmax(zeros(1, 2, 1, 2), 1), tensor([[[0, 1]]]))
    tensor(0.6931)
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        if type(self) is NLLLoss2d:
            warn(OLD_NAME, FutureWarning)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        warn(OLD_NAME, FutureWarning)
        super().__init_subclass__(**kwargs)


class CrossEntropyLoss(_WeightedLoss):
    """NLLLoss of the logarithm of softmax; targets are classes or probabilities.

    Args:
        weight: a factor per class, (C)
        size_average, reduce: old spellings of `reduction`
        ignore_index: a target that counts for nothing
        label_smoothing: share of the target that all classes get alike
        reduction: "mean" or "sum" of all elements, or "none" for one loss each

    Shape:
        scores (N, C) or (N, C, *), not softmax of them; targets (N) or (N, *) of classes from 0
        to C - 1, or probabilities like the scores -> a scalar, or one loss per target with
        "none".

    >>> scores = tensor([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    >>> nn.CrossEntropyLoss()(scores, tensor([0, 1]))
    tensor(0.1672)
    >>> nn.CrossEntropyLoss()(tensor([[0.0, 0.0]]), tensor([1]))
    tensor(0.6931)
    """

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]
    ignore_index: int
    label_smoothing: float

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer and the cross entropy of its outputs in one.

    >>> nn.LinearCrossEntropyLoss(3, 4)(zeros(2, 3), tensor([0, 1])).detach()
    tensor(1.3863)
    """

    __constants__ = [
        "num_classes",
        "out_features",
        "reduction",
        "ignore_index",
        "label_smoothing",
    ]
    num_classes: int
    out_features: tuple[int, ...]
    ignore_index: int | None
    label_smoothing: float
    options: LinearCrossEntropyOptions | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.linear = Linear(
            in_features, num_classes * math.prod(out_features), bias, device, dtype
        )
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options

    def forward(self, input: Any, target: Any) -> Any:
        # The outputs of the layer are classes times one loss for each of `out_features`.
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.view(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.view(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class PoissonNLLLoss(_Loss):
    """The negative log-likelihood of counts with a Poisson distribution.

    Args:
        log_input: the input is the logarithm of the rate
        full: add Stirling's approximation of the missing term
        size_average, reduce: old spellings of `reduction`
        eps: keeps the logarithm from zero, without `log_input`
        reduction: "mean" or "sum" of all elements, or "none" for one loss each

    Shape:
        input and target of the same shape -> a scalar, or that shape with reduction="none".

    >>> nn.PoissonNLLLoss()(zeros(2), ones(2))
    tensor(1.)
    """

    __constants__ = ["log_input", "full", "eps", "reduction"]
    log_input: bool
    full: bool
    eps: float

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Any, target: Any) -> Any:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """The negative log-likelihood with a normal distribution of given variance.

    Args:
        full: add the constant of the likelihood too
        eps: keeps the variance from zero
        reduction: "mean" or "sum" of all elements, or "none" for one loss each

    Shape:
        input, target and variance of the same shape -> a scalar, or that shape.

    >>> nn.GaussianNLLLoss()(zeros(2), zeros(2), ones(2))
    tensor(0.)
    """

    __constants__ = ["full", "eps", "reduction"]
    full: bool
    eps: float

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Any, target: Any, var: Any) -> Any:
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence; the input is in logarithms.

    Args:
        size_average, reduce: old spellings of `reduction`
        reduction: "mean" or "sum" of all elements, or "none" for one loss each; "batchmean" is
            the divergence itself
        log_target: the target is in logarithms too

    Shape:
        input and target of the same shape -> a scalar, or that shape with reduction="none".

    >>> p = tensor([[0.5, 0.5]])
    >>> nn.KLDivLoss(reduction="batchmean")(p.log(), p)
    tensor(0.)
    """

    __constants__ = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Any, target: Any) -> Any:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """Cross entropy of probabilities of two classes.

    Args:
        weight: a factor per element
        size_average, reduce: old spellings of `reduction`
        reduction: "mean" or "sum" of all elements, or "none" for one loss each

    Shape:
        probabilities between 0 and 1, targets of the same shape, too -> a scalar, or that
        shape.

    >>> nn.BCELoss()(tensor([0.5]), tensor([1.0]))
    tensor(0.6931)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Any, target: Any) -> Any:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """BCELoss of the sigmoid, without overflow.

    Args:
        weight: a factor per element
        size_average, reduce: old spellings of `reduction`
        reduction: "mean" or "sum" of all elements, or "none" for one loss each
        pos_weight: a factor for the positive examples, per class

    Shape:
        scores of any size, targets between 0 and 1 of the same shape -> a scalar, or that
        shape.

    >>> nn.BCEWithLogitsLoss()(tensor([0.0]), tensor([1.0]))
    tensor(0.6931)
    """

    weight: Any
    pos_weight: Any

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Any = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Any, target: Any) -> Any:
        return F.binary_cross_entropy_with_logits(
            input,
            target,
            self.weight,
            pos_weight=self.pos_weight,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """Connectionist temporal classification: all ways to align a sequence (Graves et al., 2006).

    Args:
        blank: the class that stands for nothing
        reduction: "mean" or "sum" of all elements, or "none" for one loss each
        zero_infinity: zero where no alignment exists

    Shape:
        log-probabilities (T, N, C), targets (N, S), input_lengths (N), target_lengths (N) -> a
        scalar.

    >>> steps = zeros(5, 1, 3).log_softmax(2)
    >>> nn.CTCLoss()(steps, tensor([[1, 2]]), tensor([5]), tensor([2])).shape
    torch.Size([])
    """

    __constants__ = ["blank", "reduction"]
    blank: int
    zero_infinity: bool

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )


# --- margins ---------------------------------------------------------------------------------


class HingeEmbeddingLoss(_Loss):
    """The input where the target is 1, and how far it is below the margin where it is -1.

    >>> loss = nn.HingeEmbeddingLoss()
    >>> loss(tensor([0.5, 0.2]), tensor([1.0, -1.0]))
    tensor(0.6500)
    """

    __constants__ = ["margin", "reduction"]
    margin: float

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Any, target: Any) -> Any:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Every class named in the target should be ahead of every other one by a margin.

    >>> loss = nn.MultiLabelMarginLoss()
    >>> loss(tensor([[0.1, 0.2, 0.4, 0.8]]), tensor([[3, 0, -1, 1]]))
    tensor(0.8500)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Any, target: Any) -> Any:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target * input)), for targets 1 and -1.

    >>> loss = nn.SoftMarginLoss()
    >>> loss(tensor([2.0, -1.0]), tensor([1.0, -1.0]))
    tensor(0.2201)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Any, target: Any) -> Any:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Cross entropy of two classes for each of several labels.

    >>> loss = nn.MultiLabelSoftMarginLoss()
    >>> loss(tensor([[2.0, -1.0]]), tensor([[1.0, 0.0]]))
    tensor(0.2201)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Any, target: Any) -> Any:
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class _PairLoss(_Loss):
    """Two inputs that a target compares, with a margin."""

    __constants__ = ["margin", "reduction"]
    margin: float

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class CosineEmbeddingLoss(_PairLoss):
    """Pairs with target 1 should point the same way, those with -1 should not.

    Args:
        margin: pairs with target -1 count while their cosine is above it
        size_average, reduce: old spellings of `reduction`
        reduction: "mean" or "sum" of all elements, or "none" for one loss each

    Shape:
        two inputs (N, D), targets (N) of 1 and -1 -> a scalar, or (N).

    >>> x = tensor([[1.0, 0.0]])
    >>> nn.CosineEmbeddingLoss()(x, x, tensor([1]))
    tensor(0.)
    """

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_PairLoss):
    """Which of two inputs should be larger.

    Args:
        margin: by how much
        size_average, reduce: old spellings of `reduction`
        reduction: "mean" or "sum" of all elements, or "none" for one loss each

    Shape:
        two inputs (N), targets (N): 1 if the first should be larger, -1 if the second -> a
        scalar.

    >>> nn.MarginRankingLoss()(tensor([1.0]), tensor([3.0]), tensor([1.0]))
    tensor(2.)
    """

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """The target class should be ahead of every other one by a margin.

    >>> loss = nn.MultiMarginLoss()
    >>> loss(tensor([[0.1, 0.2, 0.4, 0.8]]), tensor([3]))
    tensor(0.3250)
    """

    __constants__ = ["p", "margin", "reduction"]
    p: int
    margin: float

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                "MultiMarginLoss: expected weight to be None or 1D tensor, got "
                f"{weight.dim()}D instead"
            )
        self.p = p
        self.margin = margin

    def forward(self, input: Any, target: Any) -> Any:
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class TripletMarginLoss(_Loss):
    """The anchor should be nearer to the positive example than to the negative one.

    Args:
        margin: how much nearer it should be
        p: which norm measures distances
        eps: keeps distances from zero
        swap: measure from the positive example where that is nearer to the negative one
        size_average, reduce: old spellings of `reduction`
        reduction: "mean" or "sum" of all elements, or "none" for one loss each

    Shape:
        anchor, positive and negative (N, D) each -> a scalar, or (N).

    >>> a, n = zeros(1, 2), tensor([[3.0, 4.0]])
    >>> nn.TripletMarginLoss()(a, a, n)
    tensor(0.)
    """

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]
    margin: float
    p: float
    eps: float
    swap: bool

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with a distance of one's own.

    >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(1))
    >>> loss(tensor([[0.0]]), tensor([[1.0]]), tensor([[1.5]]))
    tensor(0.5000)
    """

    __constants__ = ["margin", "swap", "reduction"]
    margin: float
    swap: bool

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(None, None, reduction)
        if margin <= 0:
            raise ValueError(
                "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got "
                f"{margin} instead"
            )
        self.distance_function = (
            PairwiseDistance() if distance_function is None else distance_function
        )
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
