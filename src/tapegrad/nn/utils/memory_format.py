"""The memory format of the weights of convolutions."""

from __future__ import annotations

from typing import Any

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert(module: Any, kinds: tuple[type, ...], memory_format: Any) -> Any:
    for layer in module.modules():
        if isinstance(layer, kinds):
            layer.weight.data = layer.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Put the weights of 2-d convolutions, here and below, into a memory format; gives the module.

    >>> layer = nn.Conv2d(2, 2, 3)
    >>> nn.utils.convert_conv2d_weight_memory_format(layer, channels_last).weight.stride()
    (18, 1, 6, 2)
    """
    return convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Convert the weights of 3-d convolutions to a memory format.

    >>> model = nn.Conv3d(2, 4, 3)
    >>> model = nn.utils.convert_conv3d_weight_memory_format(model, torch.channels_last_3d)
    >>> model.weight.stride()
    (54, 1, 18, 6, 2)
    """
    return convert(module, (Conv3d, ConvTranspose3d), memory_format)
