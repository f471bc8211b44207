"""Modules that learn the shapes of their parameters from the first input."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ..parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Put in front of a module class whose parameters start uninitialized.

    The first call runs `initialize_parameters` with the arguments of `forward`; after it the module
    is an ordinary one, of the class `cls_to_become` where that is given.

    >>> layer = nn.LazyLinear(2)
    >>> layer(zeros(4, 3)).shape, layer
    (torch.Size([4, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become: type[Any] | None = None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        module: Any = self
        self._load_hook = module._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = module.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        # An uninitialized tensor cannot be detached, so it stands there as it is.
        for name, tensor in self._own_tensors():
            plain = is_lazy(tensor) or keep_vars
            destination[prefix + name] = tensor if plain else tensor.detach()

    def _lazy_load_hook(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Before loading: what has no shape yet takes that of the tensor to be loaded."""
        for name, tensor in [*self._parameters.items(), *self._buffers.items()]:
            found = state_dict.get(prefix + name)
            if found is not None and is_lazy(tensor) and not is_lazy(found):
                with tg.no_grad():
                    tensor.materialize(found.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give all parameters their shapes; subclasses define it, with forward's arguments."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer still waits for its shape."""
        return any(map(is_lazy, [*self._parameters.values(), *self._buffers.values()]))

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        """Before the first forward: initialize, then turn into an ordinary module."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> None:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )

    def _own_tensors(self) -> list[tuple[str, Any]]:
        """Parameters and persistent buffers by name."""
        both = [*self._parameters.items(), *self._buffers.items()]
        left_out = self._non_persistent_buffers_set
        return [(n, t) for n, t in both if t is not None and n not in left_out]
