"""Weight normalization with a hook, as before parametrizations."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ...core.warned import warn
from ..modules.module import Module
from ..parameter import Parameter, is_lazy

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook: before each call, the weight is made from its length and its direction."""

    name: str
    dim: int

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The weight."""
        length, direction = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return tg._weight_norm(direction, length, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Put a hook on a module."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure "
                "to run the dummy forward before applying weight normalization"
            )
        del module._parameters[name]
        length = tg.norm_except_dim(weight, 2, fn.dim).data
        module.register_parameter(f"{name}_g", Parameter(length))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"]
        del module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Replace a weight by its length `weight_g` and its direction `weight_v`.

    >>> layer = nn.utils.weight_norm(nn.Linear(2, 3))
    >>> [(name, tuple(p.shape)) for name, p in layer.named_parameters()]
    [('bias', (3,)), ('weight_g', (3, 1)), ('weight_v', (3, 2))]
    """
    warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Undo `weight_norm`.

    >>> layer = nn.utils.weight_norm(nn.Linear(2, 3))
    >>> nn.utils.remove_weight_norm(layer)
    Linear(in_features=2, out_features=3, bias=True)
    >>> sorted(name for name, _ in layer.named_parameters())
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
