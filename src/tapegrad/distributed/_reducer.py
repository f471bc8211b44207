"""Gradients of a module, averaged over ranks in buckets while the backward pass goes on.

A bucket is one array; the gradients of its parameters are views of it. When the last gradient of a
bucket is there, its all_reduce starts; the end of the backward pass waits for those under way. All
ranks start the buckets in the same order, whatever order the gradients come in.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg

from ..core.base import ORDINARY
from . import _timeline
from ._combining import all_reduce
from ._groups import ProcessGroup
from ._spreading import broadcast

FIRST_BUCKET = 1 << 20  # bytes: small, so that communication starts early


class GradBucket:
    """Some parameters and their gradients in one array, as communication hooks get it."""

    def __init__(
        self, index: int, params: list[Any], sparse: bool = False, buffer: Any = None
    ) -> None:
        self._index, self._params = index, params
        self.sparse = sparse  # one parameter, whose gradient is a tensor of its own
        self.last = False
        self.missing = len(params)
        self.future: Any = None
        self.views: list[Any] = [None]
        self._buffer = buffer
        if not sparse:
            sizes = [p.numel() for p in params]
            if buffer is None:
                self._buffer = params[0].detach().new_zeros(sum(sizes))
            parts = self._buffer.split(sizes)
            self.views = [laid_out(part, p) for part, p in zip(parts, params, strict=True)]

    def index(self) -> int:
        """The place of this bucket in the order of all."""
        return self._index

    def buffer(self) -> Any:
        """All gradients, flat."""
        return self._buffer

    def set_buffer(self, buffer: Any) -> None:
        self._buffer.copy_(buffer)

    def gradients(self) -> list[Any]:
        """The gradients, in the shapes of their parameters."""
        return list(self.views)

    def parameters(self) -> list[Any]:
        return list(self._params)

    def is_last(self) -> bool:
        """Whether this is the last bucket of a backward pass."""
        return self.last


Hook = Callable[[Any, GradBucket], Any]


def laid_out(part: Any, p: Any) -> Any:
    """A vector in the shape of a parameter, and in its order in memory (channels last, say)."""
    order = sorted(range(p.dim()), key=lambda d: (-p.stride(d), d))
    if p.is_contiguous() or not p.permute(order).is_contiguous():
        return part.view(p.shape)
    back = [order.index(d) for d in range(p.dim())]
    return part.view([p.shape[d] for d in order]).permute(back)


def copy_scaled(view: Any, grad: Any, scale: float) -> None:
    """view = grad * scale; nothing to do for a gradient that is the view already, unscaled."""
    if view._special == ORDINARY and grad._special == ORDINARY:
        target = view._array
        if scale == 1.0:
            if grad is not view:
                target[...] = grad._array
        else:
            np.multiply(grad._array, target.dtype.type(scale), out=target)
        return
    view.copy_(grad if scale == 1.0 else grad * scale)


class Reducer:
    """The buckets of a module's parameters, and what happens as their gradients come."""

    def __init__(
        self,
        named: list[tuple[str, Any]],
        group: ProcessGroup,
        bucket_bytes: int,
        find_unused: bool,
        static_graph: bool,
        sparse: set[int] = frozenset(),  # type: ignore[assignment]
    ) -> None:
        self.sparse = sparse  # parameters whose gradients are sparse, by id
        self.names = {id(p): name for name, p in named}
        self.params = [p for _, p in named]
        self.group, self.bucket_bytes = group, bucket_bytes
        self.find_unused, self.static_graph = find_unused, static_graph
        self.hook: Hook | None = None
        self.hook_state: Any = None
        self.size = group.size()
        self.divisor: float = self.size
        self.arrived: list[Any] = []  # the order in which gradients came in this pass
        self.rebuilt = False
        self.never_used: set[int] = set()  # of a static graph
        self.expecting = False
        self.left_over: list[Any] = []  # parameters whose gradients did not come
        self.reasons: dict[int, str] = {}  # why, as far as it could be seen while there was a graph
        self.set_buckets(list(reversed(self.params)))
        for p in self.params:
            p.register_post_accumulate_grad_hook(self.arrive)

    def set_buckets(self, order: list[Any]) -> None:
        """Fill buckets in this order, one dtype and device in each."""
        self.buckets: list[GradBucket] = []
        self.place: dict[int, tuple[GradBucket, int]] = {}
        filling: dict[Any, tuple[list[Any], int]] = {}
        finished: list[list[Any]] = []
        for p in order:
            if id(p) in self.sparse:
                finished.append([p])
                continue
            key = p.dtype, p.device
            params, size = filling.get(key, ([], 0))
            params, size = [*params, p], size + p.numel() * p.element_size()
            filling[key] = params, size
            if size >= (self.bucket_bytes if finished else min(FIRST_BUCKET, self.bucket_bytes)):
                finished.append(params)
                del filling[key]
        finished += [params for params, _ in filling.values()]
        for index, params in enumerate(finished):
            bucket = GradBucket(index, params, id(params[0]) in self.sparse)
            self.buckets.append(bucket)
            for i, p in enumerate(params):
                self.place[id(p)] = bucket, i
        self.buckets[-1].last = True

    def rebuild(self) -> None:
        """Buckets in the order in which the gradients came, which rank 0 decides."""
        if self.rebuilt or self.find_unused or len(self.arrived) != len(self.params):
            return
        self.rebuilt = True
        places = {id(p): i for i, p in enumerate(self.params)}
        order = tg.tensor([places[id(p)] for p in self.arrived])
        broadcast(order, group=self.group, group_src=0)
        # Gradients that exist stay as they are; the next pass moves them.
        for p in self.params:
            if p.grad is not None:
                p.grad = p.grad.clone()
        self.set_buckets([self.params[i] for i in order.tolist()])

    # ------------------------------------------------------------------ a pass

    def prepare(self, output: Any) -> None:
        """A forward pass is over whose backward pass will be reduced."""
        self.expecting = True
        self.started = self.finishing = False
        self.next_bucket = 0
        self.ready: set[int] = set()
        self.unused: list[Any] = []
        self.arrived = []
        for bucket in self.buckets:
            bucket.missing, bucket.future = len(bucket._params), None
        if self.find_unused:
            used = parameters_below(output)
            self.unused = [p for p in self.params if id(p) not in used]
        elif not self.rebuilt and not self.reasons:
            self.keep_reasons(output)
        if self.never_used:
            self.unused = [p for p in self.params if id(p) in self.never_used]

    def keep_reasons(self, output: Any) -> None:
        """In the first pass, while its graph is there: why a parameter will get no gradient."""
        used = parameters_below(output)
        for p in self.params:
            if id(p) in used:
                continue
            from ..diagnose import _why

            node = p._node
            if not _why.above(p):
                p._node = None  # there for our hook only: the parameter was not used
            self.reasons[id(p)] = _why.why(p).text
            p._node = node

    def arrive(self, p: Any) -> None:
        """The gradient of a parameter has been accumulated."""
        if not self.expecting:
            return
        if not self.started:
            self.started = True
            self.began = time.perf_counter()
            tg.autograd.Variable._execution_engine.queue_callback(self.finish)
            for other in self.unused:
                self.mark(other, used=False)
        self.mark(p, used=True)

    def mark(self, p: Any, used: bool) -> None:
        if id(p) in self.ready:
            if used and any(p is other for other in self.unused):
                self.unused = [other for other in self.unused if other is not p]
            return
        self.ready.add(id(p))
        bucket, i = self.place[id(p)]
        view = bucket.views[i]
        scale = 1.0 if self.hook is not None else 1.0 / self.divisor
        if used and not self.rebuilt:
            self.arrived.append(p)
        with tg.no_grad():
            if bucket.sparse:
                pass
            elif used:
                copy_scaled(view, p.grad, scale)
                p.grad = view
            elif p.grad is not None and p.grad is not view:
                copy_scaled(view, p.grad, scale)
            elif p.grad is None:
                view.zero_()
        bucket.missing -= 1
        while self.next_bucket < len(self.buckets) and not self.buckets[self.next_bucket].missing:
            self.launch(self.buckets[self.next_bucket])
            self.next_bucket += 1
        self.group.progress()

    def launch(self, bucket: GradBucket) -> None:
        if bucket.sparse:
            self.add_up(bucket, bucket._params[0])
            return
        if self.size == 1 and self.hook is None:
            return
        if self.hook is None:
            bucket.future = all_reduce(bucket._buffer, group=self.group, async_op=True)
            bucket.future.kind = f"bucket {bucket._index}"
        else:
            bucket.future = self.hook(self.hook_state, bucket)

    def add_up(self, bucket: GradBucket, p: Any) -> None:
        """A sparse gradient: its entries are at other places on other ranks."""
        from ._sparse import summed

        grad = p.grad
        if grad is None:
            none = tg.zeros(1, 0, dtype=tg.long, device=p.device), p.new_zeros((0, *p.shape[1:]))
            grad = tg.sparse_coo_tensor(*none, tuple(p.shape), check_invariants=False)
        with tg.no_grad():
            bucket.views = [summed(grad / self.divisor, self.group)]
        if p.grad is not None:
            p.grad = bucket.views[0]

    def finish(self) -> None:
        """The backward pass is over: wait for what is under way."""
        if not self.expecting:
            return
        _timeline.add("backward", "backward", self.began)
        missing = [p for p in self.params if id(p) not in self.ready]
        if missing and self.static_graph and not self.never_used:
            # The first pass of a static graph shows what is never used.
            self.never_used = {id(p) for p in missing}
            self.unused = [*self.unused, *missing]
            for p in missing:
                self.mark(p, used=False)
            missing = []
        for bucket in self.buckets[: self.next_bucket]:
            if bucket.future is None:
                continue
            result = bucket.future.wait()
            if self.hook is not None:
                result = result[0] if isinstance(result, list) else result
                if result is not bucket._buffer:
                    with tg.no_grad():
                        bucket._buffer.copy_(result.view(-1))
        _timeline.add("reduced", "backward", self.began)
        self.expecting = False
        self.left_over = missing
        if self.left_over:
            self.expecting = True
            return
        if self.find_unused or self.unused:
            self.settle_unused()
        self.rebuild()

    def settle_unused(self) -> None:
        """A parameter that no rank used keeps its .grad; one that another used gets a share."""
        flags = tg.ones(len(self.params))
        unused = {id(p) for p in self.unused}
        for i, p in enumerate(self.params):
            if id(p) in unused:
                flags[i] = 0
        all_reduce(flags, group=self.group)
        for p, count in zip(self.params, flags.tolist(), strict=True):
            if id(p) in unused and count:
                bucket, i = self.place[id(p)]
                p.grad = bucket.views[i]

    def shadow(self) -> None:
        """Take part in a pass of the others with nothing to add: uneven inputs."""
        for bucket in self.buckets:
            if not bucket.sparse:
                bucket._buffer.zero_()
            self.launch(bucket)
        for bucket in self.buckets:
            if bucket.future is not None:
                bucket.future.wait()
        if self.find_unused:
            all_reduce(tg.zeros(len(self.params)), group=self.group)

    def refuse_left_over(self) -> None:
        """PyTorch's error for gradients that never came, with the parameters and the reason."""
        if not self.left_over:
            return
        from ..errors.evidence import here
        from ..errors.report import build

        names = [self.names[id(p)] for p in self.left_over]
        reasons = []
        for p in self.left_over[:3]:
            name = self.names[id(p)]
            text = self.reasons.get(id(p)) or "it was not used for what backward() was called on"
            reasons.append((name, text))
        raise build(
            RuntimeError,
            "Expected to have finished reduction in the prior iteration before starting a new one. "
            "This error indicates that your module has parameters that were not used in producing "
            "loss. You can enable unused parameter detection by passing the keyword argument "
            "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by "
            "making sure all `forward` function outputs participate in calculating loss.",
            "E14",
            what=f"no gradient came for {', '.join(names[:8])}",
            details=[("unused", f"{name}: {text}") for name, text in reasons],
            causes=[("noticed", "at", here())],
            fixes=[
                "use it for the loss, or freeze it: requires_grad_(False) before DDP is made",
                "DistributedDataParallel(module, find_unused_parameters=True)",
                "static_graph=True, if the same ones are unused in every step",
            ],
            unused=names,
            reasons=dict(reasons),
        )


def parameters_below(output: Any) -> set[int]:
    """The leaves that some tensor of an output depends on, by id."""
    from ..utils import _pytree as pytree

    found: set[int] = set()
    leaves = pytree.tree_leaves(output)
    stack = [t.grad_fn for t in leaves if isinstance(t, tg.Tensor) and t.grad_fn is not None]
    found.update(id(t) for t in leaves if isinstance(t, tg.Tensor) and t.is_leaf)
    seen = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.add(id(variable))
        stack.extend(following for following, _ in node.next_functions if following is not None)
    return found
