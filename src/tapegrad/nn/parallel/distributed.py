"""DistributedDataParallel: one model in several processes, each with its part of the batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tapegrad as tg

from ...autograd import Function
from ...distributed._combining import all_reduce
from ...distributed._groups import default_group
from ...distributed._reduce_op import ReduceOp
from ...distributed._reducer import Reducer
from ...distributed._spreading import broadcast
from ...distributed.algorithms.join import Join, Joinable, JoinHook
from ...utils import _pytree as pytree
from ..modules.module import Module
from ..modules.sparse import Embedding, EmbeddingBag
from ..parameter import UninitializedParameter

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module, Joinable):
    """Keeps a module equal in several processes: its gradients are averaged over them.

    Parameters and buffers come from rank 0 at the start. In every backward pass the gradients are
    averaged in buckets, while the pass goes on; `.grad` is a view of a bucket.
    """

    module: Module

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Any = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool = True,
    ) -> None:
        super().__init__()
        if process_group and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is not None:
            process_group = device_mesh.get_group(mesh_dim=0)
        self.process_group = process_group or default_group()
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.parameters_to_ignore = ignored
        named: list[tuple[str, Any]] = [
            (name, p)
            for name, p in module.named_parameters()
            if p.requires_grad and name not in ignored
        ]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        kinds = {p.device.type for _, p in named}
        if len(kinds) != 1:
            raise ValueError(
                "DistributedDataParallel's input module must be on the same type of devices, but "
                f"input module parameters locate in {kinds}."
            )
        self.device_type = next(iter(kinds))
        if self.device_type == "cpu" and (device_ids or output_device):
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with "
                "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
                f"{device_ids}, output_device {output_device}, and module parameters "
                f"{ {p.device for _, p in named} }."
            )
        if any(isinstance(p, UninitializedParameter) for _, p in named):
            raise RuntimeError(
                "Modules with uninitialized parameters can't be used with "
                "`DistributedDataParallel`. Run a dummy forward pass to correctly initialize the "
                "modules"
            )
        self.device = named[0][1].device
        self.device_ids = list(device_ids) if device_ids else None
        self.output_device = output_device
        self.module = module
        self.dim = dim
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.mixed_precision = mixed_precision
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        if init_sync:
            self._check_same_model(named)
            self._broadcast(self._state(), 0)
        self._make_reducer(named)

    def _make_reducer(self, named: list[tuple[str, Any]]) -> None:
        kinds = Embedding, EmbeddingBag
        tables = [m for m in self.module.modules() if isinstance(m, kinds) and m.sparse]
        self.__dict__["reducer"] = Reducer(
            named,
            self.process_group,
            self.bucket_bytes_cap,
            self.find_unused_parameters,
            self.static_graph,
            {id(table.weight) for table in tables},
        )

    # ------------------------------------------------------------------ equal at the start

    def _state(self) -> list[Any]:
        """Parameters and buffers that all ranks share."""
        named = [*self.module.named_parameters(), *self.module.named_buffers()]
        return [t.detach() for name, t in named if name not in self.parameters_to_ignore]

    def _buffers_to_share(self) -> list[Any]:
        named = self.module.named_buffers()
        return [t for name, t in named if name not in self.parameters_to_ignore]

    def _broadcast(self, tensors: list[Any], source: int) -> None:
        """Values of rank `source` for all: one message for each dtype."""
        kinds: dict[Any, list[Any]] = {}
        for t in tensors:
            kinds.setdefault((t.dtype, t.device), []).append(t)
        with tg.no_grad():
            for same in kinds.values():
                flat = tg.cat([t.reshape(-1) for t in same])
                broadcast(flat, group=self.process_group, group_src=source)
                if self.process_group.rank() == source:
                    continue
                start = 0
                for t in same:
                    t.copy_(flat[start : start + t.numel()].view(t.shape))
                    start += t.numel()

    def _check_same_model(self, named: list[tuple[str, Any]]) -> None:
        from ...distributed._objects import all_gather_object

        if self.process_group.size() == 1:
            return
        own = [(name, tuple(p.shape)) for name, p in named]
        every: list[Any] = [None] * self.process_group.size()
        all_gather_object(every, own, self.process_group)
        me = self.process_group.rank()
        for rank, other in enumerate(every):
            if len(other) != len(own):
                raise RuntimeError(
                    f"DDP expects same model across all ranks, but Rank {me} has {len(own)} "
                    f"params, while rank {rank} has inconsistent {len(other)} params."
                )
            for i, ((name, shape), (_, theirs)) in enumerate(zip(own, other, strict=True)):
                if shape != theirs:
                    raise RuntimeError(
                        f"[{i}]: params[{i}] in this process with sizes {list(shape)} appears not "
                        f"to match sizes of the same param in process {rank}.\n"
                        f"  {name}: {shape} here, {theirs} on rank {rank}"
                    )

    # ------------------------------------------------------------------ a step

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        reducer: Reducer = self.reducer
        if tg.is_grad_enabled() and self.require_backward_grad_sync:
            reducer.refuse_left_over()
        active = Join.notify_join_context(self)
        if active is not None:
            active.wait()
            if not self._join_config.throw_on_early_termination and not self._divide_by_initial:
                reducer.divisor = self._join_config.active_ranks
        if self.will_sync_module_buffers():
            self._sync_buffers()
        if self._join_config.enable:
            self._tell_joined_whether_to_reduce(False)
        output = self.module(*inputs, **kwargs)
        if tg.is_grad_enabled() and self.require_backward_grad_sync:
            self.require_forward_param_sync = True
            if self.find_unused_parameters or self.static_graph:
                output = through_sink(output)
            reducer.prepare(output)
        else:
            self.require_forward_param_sync = False
            reducer.expecting = False
        return output

    def will_sync_module_buffers(self) -> bool:
        return (
            self.require_forward_param_sync
            and self.broadcast_buffers
            and self.process_group.size() > 1
            and any(True for _ in self.module.buffers())
        )

    def _sync_buffers(self) -> None:
        source = 0
        if self._join_config.enable:
            source = self._common_rank(True)
        self._broadcast(self._buffers_to_share(), source)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of passes in here are only added up, and averaged in the next pass outside."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def train(self, mode: bool = True) -> DistributedDataParallel:
        super().train(mode)
        return self

    # ------------------------------------------------------------------ communication hooks

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Reduce buckets by `hook(state, bucket)`, which returns a future of the average."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        given = inspect.signature(hook).parameters.get("bucket")
        kinds = ("GradBucket", "Any", "_empty")
        if given is not None and not any(kind in str(given.annotation) for kind in kinds):
            raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
        if self.reducer.hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self.reducer.hook, self.reducer.hook_state = hook, state

    def _set_static_graph(self) -> None:
        self.static_graph = self.reducer.static_graph = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Any, names: Any) -> None:
        module._ddp_params_and_buffers_to_ignore = names

    # ------------------------------------------------------------------ uneven inputs

    _divide_by_initial = True

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """Ranks that run out of inputs take part in the others' steps with nothing to add."""
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        self._divide_by_initial = kwargs.get("divide_by_initial_world_size", True)
        return _DDPJoinHook(self)

    @property
    def join_device(self) -> Any:
        return self.device

    @property
    def join_process_group(self) -> Any:
        return self.process_group

    def _common_rank(self, active: bool) -> int:
        """The highest rank that still has inputs."""
        rank = tg.tensor([self.process_group.rank() if active else -1])
        all_reduce(rank, ReduceOp.MAX, self.process_group)
        return int(rank.item())

    def _tell_joined_whether_to_reduce(self, joined: bool) -> bool:
        wanted = not joined and tg.is_grad_enabled() and self.require_backward_grad_sync
        flag = tg.tensor([float(wanted)])
        all_reduce(flag, group=self.process_group)
        return bool(flag.item())

    # ------------------------------------------------------------------ pickling

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        del state["reducer"], state["process_group"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.process_group = default_group()
        named: list[tuple[str, Any]] = [
            (n, p) for n, p in self.module.named_parameters() if p.requires_grad
        ]
        self._make_reducer(named)


class Sink(Function):
    """Outputs as they are; those that the loss does not use get zeros in the backward pass."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        return tuple([t.view_as(t) for t in tensors])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


def through_sink(output: Any) -> Any:
    """Give all parameters that were used for outputs gradients, as DDP expects."""
    leaves, spec = pytree.tree_flatten(output)
    places = [i for i, t in enumerate(leaves) if isinstance(t, tg.Tensor) and t.grad_fn is not None]
    if len(places) < 2:
        return output
    for i, t in zip(places, Sink.apply(*[leaves[i] for i in places]), strict=True):
        leaves[i] = t
    return pytree.tree_unflatten(leaves, spec)


class _DDPJoinHook(JoinHook):
    """Shadows the collectives of ranks that still have inputs, on a rank that has none left."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        ddp = self.ddp
        if ddp.will_sync_module_buffers():
            ddp._broadcast(ddp._buffers_to_share(), ddp._common_rank(False))
        reduces = ddp._tell_joined_whether_to_reduce(True)
        ddp.require_forward_param_sync = reduces
        if reduces:
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        ddp = self.ddp
        ddp._broadcast(ddp._state(), ddp._common_rank(is_last_joiner))
        ddp.reducer.divisor = ddp.process_group.size()
