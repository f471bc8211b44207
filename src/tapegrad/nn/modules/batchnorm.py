"""Batch normalization, and the base of everything that keeps running statistics."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ...ops.nn.batch_norm_layer import layer_step
from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """Base of batch and instance normalization: scale, shift and running statistics."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    _input_dims: tuple[int, ...] = ()  # how many an input may have
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool
    weight: Parameter
    bias: Parameter | None
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = tg.empty(num_features, device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, None if value is None else Parameter(value))
        if track_running_stats:
            ones = tg.ones(num_features, device=device, dtype=dtype)
            self.register_buffer("running_mean", tg.zeros_like(ones))
            self.register_buffer("running_var", ones)
            count = tg.tensor(0, dtype=tg.long, device=device)
            self.register_buffer("num_batches_tracked", count)
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the statistics: mean zero, variance one."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forget the statistics; scale one, shift zero."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Any) -> None:
        if not self._input_dims:
            raise NotImplementedError
        if input.dim() not in self._input_dims:
            expected = " or ".join(f"{n}D" for n in self._input_dims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any, **named: Any
    ) -> None:
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats:
            # Version 1 did not count batches: keep the count.
            state_dict.setdefault(
                f"{prefix}num_batches_tracked",
                tg.tensor(0) if self.num_batches_tracked is None else self.num_batches_tracked,
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest, **named)


class _BatchNorm(_NormBase):
    """The forward of batch normalization."""

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        counting = self.training and self.track_running_stats
        # How much the new batch counts; None asks for the plain mean of all batches so far.
        factor = 0.0 if self.momentum is None else self.momentum
        batches = self.num_batches_tracked if counting else None
        if batches is not None:
            mean = self.running_mean
            if self.momentum is not None and mean is not None:
                statistics = (mean, self.running_var, batches)
                out = layer_step(input, self.weight, self.bias, *statistics, factor, self.eps)
                if out is not None:
                    return out
            batches.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(batches)
        has_stats = self.running_mean is not None or self.running_var is not None
        use_stats = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if use_stats else None,
            self.running_var if use_stats else None,
            self.weight,
            self.bias,
            self.training or not has_stats,
            factor,
            self.eps,
        )


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Takes `num_features` from the first input."""

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tg.tensor(0, dtype=tg.long, device=device)

    def reset_parameters(self) -> None:
        """Start again, once there are shapes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """The second dimension of the input is `num_features`."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class BatchNorm1d(_BatchNorm):
    """Mean zero and variance one for every feature of the batch.

    Args:
        num_features: how many channels, C
        eps: added to the variance, so that it is never zero
        momentum: share of the new batch in the running statistics; None for a plain average
        affine: learn a factor and a constant per channel, `weight` and `bias`
        track_running_stats: keep running statistics, which eval mode uses
        device, dtype: of the parameters
        bias: whether `affine` has the constant too

    Shape:
        (N, C) or (N, C, L) -> the same. In train mode the statistics are those of the batch, in
        eval mode the running ones.

    >>> nn.BatchNorm1d(1)(tensor([[1.0], [3.0]])).detach()
    tensor([[-1.0000],
            [ 1.0000]])
    """

    _input_dims = (2, 3)


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A BatchNorm1d that takes `num_features` from its first input.

    >>> layer = nn.LazyBatchNorm1d()
    >>> layer(rand(4, 3)).shape, layer.weight.shape
    (torch.Size([4, 3]), torch.Size([3]))
    """

    cls_to_become = BatchNorm1d
    _input_dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Mean zero and variance one for every channel of the batch.

    Args:
        num_features: how many channels, C
        eps: added to the variance, so that it is never zero
        momentum: share of the new batch in the running statistics; None for a plain average
        affine: learn a factor and a constant per channel, `weight` and `bias`
        track_running_stats: keep running statistics, which eval mode uses
        device, dtype: of the parameters
        bias: whether `affine` has the constant too

    Shape:
        (N, C, H, W) -> the same. In train mode the statistics are those of the batch, in eval
        mode the running ones.

    >>> nn.BatchNorm2d(3)
    BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    >>> nn.BatchNorm2d(3)(torch.rand(2, 3, 4, 4)).mean((0, 2, 3)).abs().max() < 1e-5
    tensor(True)
    """

    _input_dims = (4,)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A BatchNorm2d that takes `num_features` from its first input.

    >>> layer = nn.LazyBatchNorm2d()
    >>> layer(rand(1, 3, 4, 4)).shape, layer.weight.shape
    (torch.Size([1, 3, 4, 4]), torch.Size([3]))
    """

    cls_to_become = BatchNorm2d
    _input_dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Mean zero and variance one for every channel of a batch of volumes.

    Args:
        num_features: how many channels, C
        eps: added to the variance, so that it is never zero
        momentum: share of the new batch in the running statistics; None for a plain average
        affine: learn a factor and a constant per channel, `weight` and `bias`
        track_running_stats: keep running statistics, which eval mode uses
        device, dtype: of the parameters
        bias: whether `affine` has the constant too

    Shape:
        (N, C, D, H, W) -> the same. In train mode the statistics are those of the batch, in
        eval mode the running ones.

    >>> nn.BatchNorm3d(3)(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    _input_dims = (5,)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A BatchNorm3d that takes `num_features` from its first input.

    >>> layer = nn.LazyBatchNorm3d()
    >>> layer(rand(1, 3, 2, 4, 4)).shape, layer.weight.shape
    (torch.Size([1, 3, 2, 4, 4]), torch.Size([3]))
    """

    cls_to_become = BatchNorm3d
    _input_dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all processes of a group.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    >>> nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]
    SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _check_non_zero_input_channels(self, input: Any) -> None:
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        self._check_non_zero_input_channels(input)
        if self.training and tg.distributed.is_initialized():
            group = self.process_group or tg.distributed.group.WORLD
            if group.size() > 1:
                return self._forward_over_ranks(input, group)
        return super().forward(input)

    def _forward_over_ranks(self, input: Any, group: Any) -> Any:
        """Mean and variance of what all ranks have; their batches may differ in size."""
        from ...distributed.nn.functional import all_reduce

        dims = [d for d in range(input.dim()) if d != 1]
        across = [1, -1] + [1] * (input.dim() - 2)
        own = input.new_tensor([input.numel() / input.size(1)])
        sums = all_reduce(tg.cat([input.sum(dims), own]), group=group)
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centered = input - mean.view(across)
        variance = all_reduce(centered.square().sum(dims), group=group) / count
        self._track(mean.detach(), (variance * (count / (count - 1))).detach())
        out = centered * (variance + self.eps).rsqrt().view(across)
        if self.weight is not None:
            out = out * self.weight.view(across)
        return out if self.bias is None else out + self.bias.view(across)

    def _track(self, mean: Any, variance: Any) -> None:
        """Running averages, as F.batch_norm keeps them."""
        if self.running_mean is None:
            return
        self.num_batches_tracked.add_(1)
        share = self.momentum
        if share is None:
            share = 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """`module` with every batch normalization in it replaced by a SyncBatchNorm."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                with tg.no_grad():
                    converted.weight = module.weight
                    converted.bias = module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked", "training"):
                setattr(converted, name, getattr(module, name))
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
