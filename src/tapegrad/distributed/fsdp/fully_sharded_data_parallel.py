"""FullyShardedDataParallel: a unit's parameters are one flat vector, of which each rank has a part.

Before a unit computes, the parts are gathered, and the parameters become views of the whole; when
it is done, the whole is dropped. What the backward pass needs of it is not kept: it is gathered
again when it is asked for. The gradient of the whole is summed and dealt out to the parts. All of
this is autograd's own: gathering is a Function, whose backward scatters.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tapegrad as tg

from ...autograd import Function
from ...autograd.graph import saved_tensors_hooks
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from .._combining import all_reduce, reduce_scatter_tensor
from .._groups import default_group
from .._reduce_op import ReduceOp
from .._shards import FlatShard
from .._spreading import all_gather_into_tensor, broadcast
from . import optim_state
from .api import (
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from .wrap import wrap_children

__all__ = [
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
]


class Gather(Function):
    """The whole flat vector of a unit, from the parts of all ranks."""

    @staticmethod
    def forward(ctx: Any, shard: Any, unit: FullyShardedDataParallel) -> Any:
        ctx.unit = unit
        return unit._gathered()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return ctx.unit._scattered(grad), None


class InUnit:
    """A saved tensor that is a view of a unit's vector: where it is, instead of its values."""

    def __init__(self, unit: FullyShardedDataParallel, tensor: Any) -> None:
        self.unit = unit
        self.size, self.stride = tuple(tensor.shape), tensor.stride()
        self.offset = tensor.storage_offset()

    def again(self) -> Any:
        return self.unit._whole().as_strided(self.size, self.stride, self.offset)


class FullyShardedDataParallel(Module):
    """Spreads parameters, gradients and optimizer state of a module over ranks."""

    def __init__(
        self,
        module: Any,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: Any = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: Any = None,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Any = None,
        param_init_fn: Any = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Any = None,
        device_mesh: Any = None,
    ) -> None:
        super().__init__()
        if device_mesh is not None:
            process_group = device_mesh.get_group(0)
        self.__dict__["process_group"] = process_group or default_group()
        if device_id is not None:
            module.to(f"cuda:{device_id}" if isinstance(device_id, int) else device_id)
        self.sharding_strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        self.mixed_precision = mixed_precision or MixedPrecision()
        if auto_wrap_policy is not None:

            def make(inner: Any) -> FullyShardedDataParallel:
                return FullyShardedDataParallel(
                    inner,
                    self.process_group,
                    self.sharding_strategy,
                    mixed_precision=mixed_precision,
                    sync_module_states=sync_module_states,
                )

            wrap_children(module, auto_wrap_policy, make)
        if sync_module_states:
            with tg.no_grad():
                for t in [*module.parameters(), *module.buffers()]:
                    if not getattr(t, "_is_flat", False):
                        broadcast(t.detach(), group=self.process_group, group_src=0)
        self._fsdp_wrapped_module = module
        self._sync = True
        self._settings = StateDictSettings(
            StateDictType.FULL_STATE_DICT, StateDictConfig(), OptimStateDictConfig(False)
        )
        self._flatten()

    @property
    def module(self) -> Any:
        """The module that is wrapped."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_fsdp_wrapped_module"), name)

    # ------------------------------------------------------------------ parts and the whole

    def _flatten(self) -> None:
        """Take the parameters out of the modules and keep this rank's part of them."""
        places: list[tuple[Any, str, str, tuple[int, ...]]] = []  # module, name, path, shape
        seen: dict[int, int] = {}
        shared: list[tuple[Any, str, str, int]] = []
        tensors = []
        for path, module in self.module.named_modules():
            for name, p in list(module._parameters.items()):
                if p is None or getattr(p, "_is_flat", False):
                    continue
                full = join(path, name)
                if id(p) in seen:
                    shared.append((module, name, full, seen[id(p)]))
                else:
                    seen[id(p)] = len(places)
                    places.append((module, name, full, tuple(p.shape)))
                    tensors.append(p)
                del module._parameters[name]
        self.__dict__["_places"], self.__dict__["_shared"] = places, shared
        size, rank = self.process_group.size(), self.process_group.rank()
        if self.sharding_strategy is ShardingStrategy.NO_SHARD:
            size, rank = 1, 0
        self.__dict__["_full"] = None
        self._parts, self._part = size, rank
        if not tensors:
            self._flat_param = None
            return
        if len({p.dtype for p in tensors}) > 1:
            raise ValueError("Must flatten tensors with uniform dtype but got several")
        if len({p.requires_grad for p in tensors}) > 1:
            frozen = next(place[2] for place, p in zip(places, tensors, strict=True)
                          if not p.requires_grad)  # fmt: skip
            raise ValueError(
                "Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`\n"
                f"  {frozen} is frozen, others beside it are not: wrap it in a unit of its own"
            )
        flat = tg.cat([p.detach().reshape(-1) for p in tensors])
        self._numel = flat.numel()
        self._each = -(-flat.numel() // size)
        padded = flat.new_zeros(self._each * size)
        padded[: flat.numel()] = flat
        part = padded[rank * self._each : (rank + 1) * self._each].clone()
        wants = any(p.requires_grad for p in tensors)
        self._flat_param = Parameter(part, requires_grad=wants)
        self._flat_param._is_flat = True

    def _gathered(self) -> Any:
        """The whole vector, in the dtype of computation."""
        shard = self._flat_param.detach()
        if self.mixed_precision.param_dtype is not None:
            shard = shard.to(self.mixed_precision.param_dtype)
        if self._parts == 1:
            full = shard.clone()
        else:
            full = shard.new_empty(self._each * self._parts)
            all_gather_into_tensor(full, shard, self.process_group)
        self.__dict__["_full"] = full
        return full

    def _whole(self) -> Any:
        return self._gathered() if self._full is None else self._full

    def _scattered(self, grad: Any) -> Any:
        """The average of the whole gradient over ranks, this rank's part."""
        self.__dict__["_full"] = None
        dtype = self._flat_param.dtype
        grad = grad.to(self.mixed_precision.reduce_dtype or grad.dtype).contiguous()
        if self._parts == 1:
            if self._sync:
                all_reduce(grad, ReduceOp.AVG, self.process_group)
            return grad.to(dtype)
        part = grad.new_empty(self._each)
        reduce_scatter_tensor(part, grad, ReduceOp.AVG, self.process_group)
        return part.to(dtype)

    def _views(self, full: Any) -> Iterator[tuple[Any, str, Any]]:
        """(module, name, tensor) of every parameter as a part of the whole."""
        made, start = [], 0
        for module, name, _, shape in self._places:
            count = 1
            for n in shape:
                count *= n
            made.append(full[start : start + count].view(shape))
            yield module, name, made[-1]
            start += count
        for module, name, _, place in self._shared:
            yield module, name, made[place]

    def _set(self, full: Any) -> None:
        for module, name, view in self._views(full):
            module.__dict__[name] = view

    def _unset(self) -> None:
        for module, name, *_ in [*self._places, *self._shared]:
            module.__dict__.pop(name, None)

    # ------------------------------------------------------------------ computing

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._flat_param is None:
            return self.module(*args, **kwargs)
        if self.mixed_precision.param_dtype is not None:
            args = tuple(self._cast(a) for a in args)
            kwargs = {k: self._cast(v) for k, v in kwargs.items()}
        full = Gather.apply(self._flat_param, self)
        self._set(full)
        try:
            if self.sharding_strategy is not ShardingStrategy.FULL_SHARD:
                return self.module(*args, **kwargs)
            pointer = full.untyped_storage().data_ptr()

            def pack(tensor: Any) -> Any:
                if tensor.untyped_storage().data_ptr() == pointer:
                    return InUnit(self, tensor)
                return tensor

            def unpack(kept: Any) -> Any:
                return kept.again() if isinstance(kept, InUnit) else kept

            with saved_tensors_hooks(pack, unpack):
                return self.module(*args, **kwargs)
        finally:
            self._unset()
            self.__dict__["_full"] = None

    def _cast(self, value: Any) -> Any:
        if isinstance(value, tg.Tensor) and value.is_floating_point():
            return value.to(self.mixed_precision.param_dtype)
        return value

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accepted: gradients are dealt out in every pass, and add up in the parts."""
        yield

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale all gradients so that the norm of all of them, over all ranks, is at most this."""
        grads = [unit._flat_param.grad for unit in self._units() if unit._flat_param is not None]
        grads = [grad for grad in grads if grad is not None]
        infinite = norm_type == float("inf")
        if infinite:
            total = tg.stack([grad.abs().max() for grad in grads]).max()
        else:
            total = tg.stack([grad.norm(norm_type) ** norm_type for grad in grads]).sum()
        if self._parts > 1:
            all_reduce(total, ReduceOp.MAX if infinite else ReduceOp.SUM, self.process_group)
        norm = total if infinite else total ** (1 / norm_type)
        scale = min(1.0, max_norm / (float(norm) + 1e-6))
        for grad in grads:
            grad.mul_(scale)
        return norm

    # ------------------------------------------------------------------ state

    def _units(self) -> list[FullyShardedDataParallel]:
        return [m for m in self.modules() if isinstance(m, FullyShardedDataParallel)]

    @staticmethod
    def fsdp_modules(module: Any, root_only: bool = False) -> list[Any]:
        """The units inside a module."""
        return [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Any, recurse: bool = True, writeback: bool = True, **kwargs: Any
    ) -> Iterator[None]:
        """Inside, the modules have their whole parameters; what is written goes to the parts."""
        units = [
            u for u in FullyShardedDataParallel.fsdp_modules(module) if u._flat_param is not None
        ]
        wholes = []
        with tg.no_grad():
            for unit in units:
                full = unit._gathered()
                unit._set(full)
                wholes.append(full)
        try:
            yield
        finally:
            for unit, full in zip(units, wholes, strict=True):
                unit._unset()
                unit.__dict__["_full"] = None
                if writeback:
                    with tg.no_grad():
                        unit._take(full)

    def _take(self, full: Any) -> None:
        """This rank's part of a whole vector."""
        start = self._part * self._each
        part = full[start : start + self._each]
        self._flat_param.detach()[: part.numel()].copy_(part)

    def _path_of(self, unit: Any) -> str:
        """The path of a unit inside this one, without the wrappers."""
        for path, module in self.named_modules():
            if module is unit:
                return clean(path)
        raise KeyError("not a part of this module")

    def _pieces(self, unit: Any, flat: Any) -> Iterator[tuple[str, FlatShard]]:
        """(path, what this rank has of it) for all parameters of a unit, from its local vector."""
        low, start = unit._part * unit._each, 0
        for _, _, path, shape in unit._places:
            count = 1
            for n in shape:
                count *= n
            first, last = max(start, low), min(start + count, low + unit._each)
            if first < last:
                yield path, FlatShard(flat[first - low : last - low], first - start, shape)
            start += count

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Whole tensors under the names of the module without FSDP; or parts, if asked for."""
        state: dict[str, Any] = {}
        for unit in self._units():
            if unit._flat_param is None:
                continue
            prefix = join(self._path_of(unit), "")
            if self._settings.state_dict_type is not StateDictType.FULL_STATE_DICT:
                for path, piece in self._pieces(unit, unit._flat_param.detach()):
                    state[prefix + clean(path)] = piece
                continue
            with tg.no_grad():
                full = unit._gathered().to(unit._flat_param.dtype)
                unit.__dict__["_full"] = None
                paths = [path for _, _, path, _ in [*unit._places, *unit._shared]]
                for path, (_, _, view) in zip(paths, unit._views(full), strict=True):
                    state[prefix + clean(path)] = view.clone()
        for path, buffer in self.named_buffers():
            state[clean(path)] = buffer.detach()
        config = self._settings.state_dict_config
        if self._only_rank_0(config):
            return {}
        if config.offload_to_cpu:
            return {k: v.cpu() if isinstance(v, tg.Tensor) else v for k, v in state.items()}
        return state

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Take this rank's parts of whole tensors; parts that were loaded in place are there."""
        with tg.no_grad():
            for unit in self._units():
                if unit._flat_param is None:
                    continue
                prefix = join(self._path_of(unit), "")
                local = dict(self._pieces(unit, unit._flat_param.detach()))
                for path, piece in local.items():
                    given = state_dict[prefix + clean(path)]
                    if isinstance(given, FlatShard):
                        piece.local.copy_(given.local)
                    else:
                        end = piece.start + piece.numel()
                        piece.local.copy_(given.reshape(-1)[piece.start : end])
            for path, buffer in self.named_buffers():
                if clean(path) in state_dict:
                    buffer.copy_(state_dict[clean(path)])

    @staticmethod
    def set_state_dict_type(
        module: Any,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Set the form of state_dict() and optim_state_dict(); returns the settings before."""
        before = FullyShardedDataParallel.get_state_dict_type(module)
        config = state_dict_config or StateDictConfig()
        optim_config = optim_state_dict_config or OptimStateDictConfig(config.offload_to_cpu)
        settings = StateDictSettings(state_dict_type, config, optim_config)
        for unit in FullyShardedDataParallel.fsdp_modules(module):
            unit._settings = settings
        return before

    @staticmethod
    def get_state_dict_type(module: Any) -> StateDictSettings:
        """The settings of state_dict() and optim_state_dict()."""
        units = FullyShardedDataParallel.fsdp_modules(module)
        return units[0]._settings  # type: ignore[no-any-return]

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Any,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """Inside, state_dict() gives whole tensors or parts."""
        units = FullyShardedDataParallel.fsdp_modules(module)
        before = [unit._settings for unit in units]
        FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            for unit, settings in zip(units, before, strict=True):
                unit._settings = settings

    @staticmethod
    def optim_state_dict(
        model: Any, optim: Any, optim_state_dict: Any = None, group: Any = None
    ) -> dict[str, Any]:
        """The state of an optimizer by the names of the module without FSDP: whole, or parts."""
        found = optim_state.get(model, optim, model._settings.state_dict_type)
        config = model._settings.optim_state_dict_config
        return {} if model._only_rank_0(config) else found

    @staticmethod
    def optim_state_dict_to_load(
        model: Any,
        optim: Any,
        optim_state_dict: Any,
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:
        """Convert the result of `optim_state_dict` back, for `optim.load_state_dict`."""
        made = optim_state.to_load(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(made)
        return made

    @staticmethod
    def full_optim_state_dict(
        model: Any, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None
    ) -> dict[str, Any]:
        """The whole state of an optimizer; on rank 0 alone, unless asked otherwise."""
        found = optim_state.get(model, optim, StateDictType.FULL_STATE_DICT)
        return {} if rank0_only and model.process_group.rank() else found

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: Any, model: Any, optim_input: Any = None, optim: Any = None
    ) -> dict[str, Any]:
        """This rank's parts of a whole state."""
        return optim_state.to_load(model, optim, full_optim_state_dict)

    def _only_rank_0(self, config: Any) -> bool:
        """Whether a whole state is wanted on rank 0 alone, and this is another."""
        wanted = self._settings.state_dict_type is StateDictType.FULL_STATE_DICT
        return wanted and getattr(config, "rank0_only", False) and self.process_group.rank() > 0


def clean(path: str) -> str:
    """A path without the wrappers."""
    return ".".join(part for part in path.split(".") if part != "_fsdp_wrapped_module")


def join(path: str, rest: str) -> str:
    return f"{path}.{rest}" if path else rest
