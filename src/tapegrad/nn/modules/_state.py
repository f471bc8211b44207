"""`state_dict` and `load_state_dict`: what a module is made of, by name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import tapegrad as tg

from ...autograd.hooks import RemovableHandle
from ...core.warned import warn
from ...errors.models import does_not_fit, no_state
from ...utils.swapping import swap_tensors
from ..parameter import Parameter, is_lazy
from ._hooks import BoundHook, add

Hook = Callable[..., Any]
EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(
    NamedTuple(
        "IncompatibleKeys",  # type: ignore[misc]
        [("missing_keys", list), ("unexpected_keys", list)],
    )
):
    """The names that `load_state_dict` could not match."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateMethods:
    """The part of Module that saves and loads."""

    _version: int = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, Hook]
    _state_dict_pre_hooks: OrderedDict[int, Hook]
    _load_state_dict_pre_hooks: OrderedDict[int, Hook]
    _load_state_dict_post_hooks: OrderedDict[int, Hook]

    def get_extra_state(self) -> Any:
        """Further data that `state_dict` should hold for this module; override together with the
        setter.

        >>> class Counter(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.count = 3
        ...     def get_extra_state(self):
        ...         return self.count
        ...     def set_extra_state(self, state):
        ...         self.count = state
        >>> Counter().state_dict()["_extra_state"]
        3
        """
        raise RuntimeError(unreachable("get_extra_state"))

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave.

        >>> class Counter(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.count = 0
        ...     def get_extra_state(self):
        ...         return self.count
        ...     def set_extra_state(self, state):
        ...         self.count = state
        >>> counter = Counter()
        >>> counter.load_state_dict({"_extra_state": 5})
        <All keys matched successfully>
        >>> counter.count
        5
        """
        raise RuntimeError(unreachable("set_extra_state"))

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        """Like `register_state_dict_post_hook`, but what the hook returns replaces the dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return add(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict` is filled.

        >>> layer = nn.Linear(2, 1)
        >>> def forget_bias(module, state_dict, prefix, local_metadata):
        ...     del state_dict[prefix + "bias"]
        >>> handle = layer.register_state_dict_post_hook(forget_bias)
        >>> list(layer.state_dict())
        ['weight']
        """
        hook._from_public_api = True  # type: ignore[attr-defined]
        return add(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` is filled.

        >>> layer = nn.Linear(2, 1)
        >>> handle = layer.register_state_dict_pre_hook(lambda *given: print("saving"))
        >>> state = layer.state_dict()
        saving
        """
        return add(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> RemovableHandle:
        return add(self._load_state_dict_pre_hooks, BoundHook(hook, self if with_module else None))

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before this module takes its part of a state dict.

        >>> layer = nn.Linear(2, 1)
        >>> def rename(module, state_dict, prefix, *others):
        ...     state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
        >>> handle = layer.register_load_state_dict_pre_hook(rename)
        >>> layer.load_state_dict({"w": ones(1, 2), "bias": zeros(1)})
        <All keys matched successfully>
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may change the two lists.

        >>> layer = nn.Linear(2, 1)
        >>> def forgive(module, incompatible):
        ...     incompatible.missing_keys.clear()
        >>> handle = layer.register_load_state_dict_post_hook(forgive)
        >>> layer.load_state_dict({"weight": ones(1, 2)})
        <All keys matched successfully>
        """
        return add(self._load_state_dict_post_hooks, hook)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put what this module itself holds (not its children) into `destination`."""
        for name, tensor in own_state(self):
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if overrides(self, "get_extra_state"):
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers by name, sharing memory with the module.

        >>> list(nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
        """
        if args:
            warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.state_dict for details.",
                FutureWarning,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for pre_hook in list(self._state_dict_pre_hooks.values()):
            pre_hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in list(self._state_dict_hooks.values()):
            answer = hook(self, destination, prefix, metadata)
            if answer is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = answer
        return destination

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
        """Take what belongs to this module itself (not to its children) out of `state_dict`."""
        for hook in list(self._load_state_dict_pre_hooks.values()):
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = dict(own_state(self))
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                problem = load_tensor(self, name, key, tensor, state_dict[key], assign)
                if problem:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA_STATE
        if overrides(self, "get_extra_state") or overrides(self, "set_extra_state"):
            if extra not in state_dict:
                if strict:
                    missing_keys.append(extra)
            elif overrides(self, "set_extra_state"):
                self.set_extra_state(state_dict[extra])
            elif strict:
                unexpected_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            unexpected_keys += unexpected_in(self, state_dict, prefix, own)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy values by name into this module and all below; with `assign`, take the tensors.

        >>> a, b = nn.Linear(2, 1), nn.Linear(2, 1)
        >>> a.load_state_dict(b.state_dict())
        <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise no_state(state_dict)
        missing: list[str] = []
        unexpected: list[str] = []
        problems: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        values = OrderedDict(state_dict)
        if metadata is not None:
            values._metadata = metadata  # type: ignore[attr-defined]

        def load(module: Any, part: Any, prefix: str) -> None:
            local = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local["assign_to_params_buffers"] = assign
            module._load_from_state_dict(part, prefix, local, True, missing, unexpected, problems)
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, {k: v for k, v in part.items() if k.startswith(below)}, below)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in list(module._load_state_dict_post_hooks.values()):
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be "
                        "modified, it should be done inplace."
                    )

        load(self, values, "")
        if strict:
            if unexpected:
                problems.insert(0, f"Unexpected key(s) in state_dict: {quoted(unexpected)}. ")
            if missing:
                problems.insert(0, f"Missing key(s) in state_dict: {quoted(missing)}. ")
        if problems:
            listed = "\n\t".join(problems)
            sentence = f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}"
            sized = [p.partition("size mismatch for ")[2] for p in problems]
            mismatched = [p.partition(":")[0] for p in sized if p]
            raise does_not_fit(sentence, missing, unexpected, mismatched)
        return _IncompatibleKeys(missing, unexpected)


def quoted(keys: list[str]) -> str:
    return ", ".join(f'"{k}"' for k in keys)


def overrides(module: Any, method: str) -> bool:
    return getattr(type(module), method) is not getattr(StateMethods, method)


def own_state(module: Any) -> Iterator[tuple[str, Any]]:
    """Parameters and persistent buffers of this module itself."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield name, parameter
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield name, buffer


def unexpected_in(
    module: Any, state_dict: Any, prefix: str, own: Mapping[str, Any]
) -> Iterator[str]:
    """The keys that neither this module nor one of its children will take."""
    for key in state_dict:
        if not key.startswith(prefix) or key == prefix + EXTRA_STATE:
            continue
        head, dot, _ = key[len(prefix) :].partition(".")
        if head not in (module._modules if dot else own):
            yield key


def load_tensor(
    module: Any, name: str, key: str, tensor: Any, value: Any, assign: bool
) -> str | None:
    """Copy `value` into `tensor`, or assign it; a sentence if that is not possible."""
    if not isinstance(value, tg.Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or '
            f"Tensor-like object from checkpoint but received {type(value)}"
        )
    if not is_lazy(tensor):
        if tensor.dim() == 0 and value.shape == (1,):
            value = value[0]  # files of PyTorch before 0.4 hold scalars as one-element vectors
        if value.shape != tensor.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from "
                f"checkpoint, the shape in current model is {tensor.shape}."
            )
    if tensor.is_meta and not value.is_meta and not assign:
        warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter "
            "in the current model, which is a no-op. (Did you mean to pass `assign=True` to assign "
            "items in the state dictionary to their corresponding key in the module instead of "
            "copying them in place?)",
        )
    swaps = tg.__future__.get_swap_module_params_on_conversion()
    try:
        with tg.no_grad():
            if swaps:
                swap_in(tensor, value, assign)
                return None
            if not assign:
                tensor.copy_(value)
                return None
            if isinstance(tensor, Parameter):
                if isinstance(value, Parameter):
                    value.requires_grad_(tensor.requires_grad)
                else:
                    value = Parameter(value, requires_grad=tensor.requires_grad)
            setattr(module, name, value)
    except Exception as error:
        action = "swapping" if swaps else "copying"
        return (
            f'While {action} the parameter named "{key}", whose dimensions in the model are '
            f"{tensor.size()} and whose dimensions in the checkpoint are {value.size()}, "
            f"an exception occurred : {error.args}."
        )
    return None


def swap_in(tensor: Any, value: Any, assign: bool) -> None:
    """Give a parameter or buffer the content that `module_load` makes for it."""
    made = tensor.module_load(value, assign=assign)
    if made is value or made is tensor:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning "
            "one of the inputs in module_load"
        )
    if isinstance(tensor, Parameter):
        if isinstance(made, Parameter):
            made.requires_grad_(tensor.requires_grad)
        else:
            made = Parameter(made, requires_grad=tensor.requires_grad)
    swap_tensors(tensor, made)


def unreachable(method: str) -> str:
    return (
        f"Reached a code path in Module.{method}() that should never be called. Please file "
        "an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
        "to report this bug."
    )
