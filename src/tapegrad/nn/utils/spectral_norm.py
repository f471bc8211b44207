"""Spectral normalization with a hook, as before parametrizations."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from .. import functional as F
from ..modules.module import Module
from ..parameter import Parameter, is_lazy

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]


class SpectralNorm:
    """The hook: before each call, the weight is divided by (an estimate of) its largest singular
    value."""

    _version: int = 1
    # Version 1 keeps `v` too, so that evaluation needs no step of the power method.

    name: str
    dim: int
    n_power_iterations: int
    eps: float

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        self.name = name
        self.dim = dim
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Any) -> Any:
        """The weight with `dim` as rows and everything else as columns."""
        if self.dim != 0:
            others = [d for d in range(weight.dim()) if d != self.dim]
            weight = weight.permute(self.dim, *others)
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Any:
        """The divided weight; the singular vectors are improved in place first, if asked for."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with tg.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(tg.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(tg.mv(matrix, v), dim=0, eps=self.eps))
                # The next call writes into the buffers; this one's graph keeps these.
                u, v = u.clone(), v.clone()
        sigma = tg.dot(u, tg.mv(matrix, v))
        return weight / sigma

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with tg.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        weight = self.compute_weight(module, do_power_iteration=module.training)
        setattr(module, self.name, weight)

    def _solve_v_and_rescale(self, weight_mat: Any, u: Any, target_sigma: Any) -> Any:
        """The v with `u = normalize(W v)`, scaled so that `u W v` is the given value."""
        square = weight_mat.t().mm(weight_mat).pinverse()
        v = tg.linalg.multi_dot([square, weight_mat.t(), u.unsqueeze(1)]).squeeze(1)
        return v.mul_(target_sigma / tg.dot(u, tg.mv(weight_mat, v)))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Put a hook on a module."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make "
                "sure to run the dummy forward before applying spectral normalization"
            )
        with tg.no_grad():
            height, width = fn.reshape_weight_to_matrix(weight).size()
            u = F.normalize(weight.new_empty(height).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(width).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        # Something to find under the name before the first call.
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(fn)
        module._register_state_dict_hook(SpectralNormStateDictHook(fn))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(fn))
        return fn


class SpectralNormLoadStateDictPreHook:
    """Finds `v` for state dicts that were saved without it."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: list[str]
    ) -> None:
        fn, missing_keys = self.fn, lists[0]
        version = local_metadata.get("spectral_norm", {}).get(f"{fn.name}.version", None)
        if version is not None and version >= 1:
            return
        key = prefix + fn.name
        new = all([key + suffix in state_dict for suffix in ("_orig", "_u", "_v")])
        if version is None and new and key not in state_dict:
            return  # saved by this version, without its metadata
        missing = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state_dict]
        if missing:
            missing_keys.extend(missing if strict else [])
            return
        with tg.no_grad():
            original = state_dict[f"{key}_orig"]
            sigma = (original / state_dict.pop(key)).mean()
            matrix = fn.reshape_weight_to_matrix(original)
            v = fn._solve_v_and_rescale(matrix, state_dict[f"{key}_u"], sigma)
            state_dict[f"{key}_v"] = v


class SpectralNormStateDictHook:
    """Notes the version in the metadata of state dicts."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]
    ) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Divide a weight by its largest singular value, which the power method follows.

    >>> nn.utils.spectral_norm(nn.Linear(2, 3)).weight_u.shape
    torch.Size([3])
    """
    if dim is None:
        turned = (tg.nn.ConvTranspose1d, tg.nn.ConvTranspose2d, tg.nn.ConvTranspose3d)
        dim = 1 if isinstance(module, turned) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Undo `spectral_norm`.

    >>> layer = nn.utils.spectral_norm(nn.Linear(2, 3))
    >>> nn.utils.remove_spectral_norm(layer)
    Linear(in_features=2, out_features=3, bias=True)
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """

    def of_this(hook: Any) -> bool:
        return hook.fn.name == name

    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for key, hook in module._state_dict_hooks.items():
        if isinstance(hook, SpectralNormStateDictHook) and of_this(hook):
            del module._state_dict_hooks[key]
            break
    for key, bound in module._load_state_dict_pre_hooks.items():
        if isinstance(bound.hook, SpectralNormLoadStateDictPreHook) and of_this(bound.hook):
            del module._load_state_dict_pre_hooks[key]
            break
    return module
