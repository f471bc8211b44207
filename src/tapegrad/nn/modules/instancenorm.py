"""Instance normalization: every channel of every sample by itself."""

from __future__ import annotations

from typing import Any

from ...core.warned import warn
from .. import functional as F
from .batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    """Base of instance normalization in 1, 2 and 3 dimensions. Inputs may come without a batch
    dimension.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self) -> int:
        """The number of dimensions of an input without a batch."""
        if not self._input_dims:
            raise NotImplementedError
        return self._input_dims[0]

    def _handle_no_batch_input(self, input: Any) -> Any:
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _apply_instance_norm(self, input: Any) -> Any:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        dim = input.dim() - self._get_no_batch_dim()
        if input.size(dim) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features "
                    f"({self.num_features}), but got: {input.size(dim)}."
                )
            warn(
                f"input's size at dim={dim} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
            )
        return self._apply_instance_norm(input) if dim else self._handle_no_batch_input(input)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            found = [
                key
                for key in (f"{prefix}running_mean", f"{prefix}running_var")
                if key in state_dict
            ]
            if found:
                error_msgs.append(unexpected_statistics(found, type(self).__name__))
                for key in found:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )


def unexpected_statistics(keys: list[str], kind: str) -> str:
    names = " and ".join(f'"{key}"' for key in keys)
    return (
        f"Unexpected running stats buffer(s) {names} for {kind} with track_running_stats=False. "
        "If state_dict is a checkpoint saved before 0.4.0, this may be expected because "
        f"{kind} does not track running stats by default since 0.4.0. Please remove these keys "
        "from state_dict. If the running stats are actually needed, instead set "
        f"track_running_stats=True in {kind} to enable them. See the documentation of {kind} for "
        "details."
    )


class InstanceNorm1d(_InstanceNorm):
    """Mean zero and variance one along every channel of every sample.

    Args:
        num_features: how many channels, C
        eps: added to the variance, so that it is never zero
        momentum: share of the new batch in the running statistics
        affine: learn a factor and a constant per channel
        track_running_stats: keep running statistics, which eval mode uses
        device, dtype: of the parameters
        bias: whether `affine` has the constant too

    Shape:
        (N, C, L) or (C, L) -> the same.

    >>> nn.InstanceNorm1d(1)(tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """

    _input_dims = (2, 3)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d that takes `num_features` from its first input.

    >>> layer = nn.LazyInstanceNorm1d()
    >>> layer(rand(1, 3, 10)).shape, layer.weight.shape
    (torch.Size([1, 3, 10]), torch.Size([3]))
    """

    cls_to_become = InstanceNorm1d
    _input_dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Mean zero and variance one over every channel of every image.

    Args:
        num_features: how many channels, C
        eps: added to the variance, so that it is never zero
        momentum: share of the new batch in the running statistics
        affine: learn a factor and a constant per channel
        track_running_stats: keep running statistics, which eval mode uses
        device, dtype: of the parameters
        bias: whether `affine` has the constant too

    Shape:
        (N, C, H, W) or (C, H, W) -> the same.

    >>> nn.InstanceNorm2d(3)(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    _input_dims = (3, 4)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d that takes `num_features` from its first input.

    >>> layer = nn.LazyInstanceNorm2d()
    >>> layer(rand(1, 3, 4, 4)).shape, layer.weight.shape
    (torch.Size([1, 3, 4, 4]), torch.Size([3]))
    """

    cls_to_become = InstanceNorm2d
    _input_dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Mean zero and variance one over every channel of every volume.

    Args:
        num_features: how many channels, C
        eps: added to the variance, so that it is never zero
        momentum: share of the new batch in the running statistics
        affine: learn a factor and a constant per channel
        track_running_stats: keep running statistics, which eval mode uses
        device, dtype: of the parameters
        bias: whether `affine` has the constant too

    Shape:
        (N, C, D, H, W) or (C, D, H, W) -> the same.

    >>> nn.InstanceNorm3d(3)(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    _input_dims = (4, 5)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d that takes `num_features` from its first input.

    >>> layer = nn.LazyInstanceNorm3d()
    >>> layer(rand(1, 3, 2, 4, 4)).shape, layer.weight.shape
    (torch.Size([1, 3, 2, 4, 4]), torch.Size([3]))
    """

    cls_to_become = InstanceNorm3d
    _input_dims = (4, 5)
