"""Batch, group and instance norm on the GPU: launchers of their ops (norms.py has the plans)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.devices import DEVICE
from ..cublas import NAMES
from . import rms as cupy_rms
from .kernels import I32, NOTHING, Gpu, accumulator, real
from .launcher import Launcher
from .moves import U32, contiguous
from .norms import FIXED, Launch, Norms, parameter_dtype
from .rms import is_aligned
from .rows import dense, pointer


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    norms = Norms(backend, gpu)
    register_batch(backend, norms, reference)
    GroupNorm(norms, reference).register(backend)
    GroupNormBackward(norms, reference).register(backend)
    cupy_rms.register(backend, gpu, reference)


def register_batch(backend: Any, norms: Norms, reference: Any) -> None:
    norm, back = BatchNorm(norms, reference), BatchNormBackward(norms, reference)
    norm.register(backend)
    back.register(backend)
    FixedBatchNorm(norms, reference).register(backend)
    backend.overrides["batch_norm_step"] = norm.step
    backend.overrides["follow_statistics"] = norms.follow
    backend.pulls["native_batch_norm"] = back.pull
    backend.pulls["native_batch_norm_fixed"] = back.pull_fixed


class NormLauncher(Launcher):
    """A launcher with the plans of norms."""

    def __init__(self, norms: Norms, reference: Any) -> None:
        super().__init__(reference)
        self.norms = norms
        self.ndarray = norms.gpu.xp.ndarray


# ---------------------------------------------------------------------- batch norm


class BatchNorm(NormLauncher):
    """Standardizes by the statistics of the batch, which are a result too."""

    op = "native_batch_norm"

    def fits(self, input: Any, weight: Any, bias: Any, eps: float, kept: Any) -> bool:
        return input.dtype in NAMES and parameter_dtype(input, weight, bias) is not None

    def plan(self, input: Any, weight: Any, bias: Any, eps: float, kept: Any) -> Any:
        dtype, parameter = input.dtype, parameter_dtype(input, weight, bias)
        x, last = self.norms.laid_out(input)
        dtypes = (dtype, parameter, accumulator(dtype))
        plan = self.norms.batch.get(("norm", x.shape, last, dtypes, eps, is_aligned(x)))
        return None if plan is None else (plan, x)

    def run(
        self,
        plan: Any,
        input: Any,
        weight: Any,
        bias: Any,
        eps: float,
        kept: Any,
        running: Any = None,
    ) -> Any:
        plan, x = plan
        norms, ndarray, shape = self.norms, self.ndarray, x.shape
        out, stats = norms.room(shape, x.dtype, plan.strides), ndarray((3, shape[1]), plan.wide)
        results = (out, stats, *plan.more)
        made = plan.standardize(ndarray, x, (pointer(weight), pointer(bias), *results), running)
        if norms.gpu.joins is not None:
            norms.gpu.joins.normalized(plan.apply, made, out, (x, stats))
        return out, stats

    def step(
        self,
        input: Any,
        weight: Any,
        bias: Any,
        running: tuple[Any, ...],
        eps: float,
        momentum: float,
    ) -> Any:
        """Batch norm with running means and variances that follow, and a count of batches.

        None, and nothing is done, if they do not fit.
        """
        mean, var, count = running
        wide = accumulator(input.dtype)
        n = input.size // input.shape[1]
        if mean.dtype != wide or var.dtype != wide or count.dtype != np.int64 or n < 2:
            return None
        if not contiguous(mean) or not contiguous(var):
            return None
        args = (input, weight, bias, eps, None)
        plan = self.plan(*args) if self.fits(*args) else None
        if plan is None:
            return None
        numbers = real(wide, momentum), real(wide, n / (n - 1))
        return self.run(plan, *args, (mean, var, count, *numbers))


class FixedBatchNorm(NormLauncher):
    """Standardizes by statistics that are given."""

    op = "native_batch_norm_fixed"

    def fits(self, input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> bool:
        given = (input, weight, bias, mean, var)
        return input.dtype in NAMES and parameter_dtype(*given) is not None

    def plan(self, input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
        parameter = parameter_dtype(input, weight, bias, mean, var)
        x, last = self.norms.laid_out(input)
        dtypes = (input.dtype, parameter, parameter)
        plan = self.norms.batch.get((FIXED, x.shape, last, dtypes, eps, is_aligned(x)))
        return None if plan is None else (plan, x)

    def run(
        self, plan: Any, input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float
    ) -> Any:
        plan, x = plan
        norms = self.norms
        out = norms.room(x.shape, x.dtype, plan.strides)
        apply = plan.apply
        arrays = (x, pointer(weight), pointer(bias), out, mean, var)
        args = (*arrays, plan.number, apply.sizes)
        apply.run(apply.grid, apply.block, args)
        if norms.gpu.joins is not None:
            norms.gpu.joins.normalized(apply, args, out)
        return out


class BatchNormBackward(NormLauncher):
    """The gradients of input, weight (None without) and bias."""

    op = "native_batch_norm_backward"

    def gradients(
        self,
        grad: Any,
        x: Any,
        weight: Any,
        stats: Any,
        var: Any,
        number: float,
        training: bool,
        biased: bool,
    ) -> Any:
        """The gradients of input, weight and bias; None for arguments that do not fit.

        Statistics are those that batch norm returned, or a mean and a variance (`var`), with eps as
        the number.
        """
        dtype = x.dtype
        if dtype not in NAMES or grad.dtype != dtype or stats.dtype not in NAMES:
            return None
        parameter = parameter_dtype(x, weight)
        if parameter is None or accumulator(stats.dtype) != accumulator(dtype):
            return None
        if not contiguous(stats) or (var is not None and var.dtype != stats.dtype):
            return None
        norms, ndarray = self.norms, self.ndarray
        x, last = norms.laid_out(x)
        grad = norms.laid_like(grad, last)
        dtypes = (dtype, parameter, stats.dtype)
        shape = x.shape
        plan = norms.batch.get(("back", shape, last, dtypes, number, is_aligned(x, grad)))
        if plan is None:
            return None
        out = norms.room(shape, dtype, plan.strides)
        to_weight = None if weight is None else ndarray((shape[1],), parameter)
        to_bias = ndarray((shape[1],), parameter) if biased else None
        first, apply = plan.parts, plan.apply
        given = (stats, pointer(var), plan.number, pointer(weight), out)
        results = (pointer(to_weight), pointer(to_bias), I32(training), apply.sizes)
        args: tuple[Any, ...] = (*given, *results)
        launches: list[tuple[Launch, tuple[Any, ...]]] = []
        if first is not None:
            parts: Any = NOTHING
            if training or biased or weight is not None:
                parts = ndarray(plan.parts_shape, plan.wide)
                launches.append((first, (x, stats, parts, first.sizes)))
            args = (parts, *args)
        launches.append((apply, (x, *args)))
        joins = norms.gpu.joins
        if joins is None or not joins.pulls(grad, (x, stats), launches):
            for launch, values in launches:
                launch.run(launch.grid, launch.block, (grad, *values))
        return out, to_weight, to_bias

    def tried(self, *args: Any) -> Any:
        grad, input, weight, stats, training, _, biased = args
        found = self.gradients(grad, input, weight, stats, None, -1.0, training, biased)
        return None if found is None else with_placeholders(self.ndarray, found)

    def pull(self, node: Any, grad: Any, kept: Any) -> Any:
        """All gradients of `native_batch_norm` at once."""
        edges = node._edges
        if grad[0] is None or node.mixed:
            return None
        given = grad[0], kept.input, kept.weight, kept.stats
        found = self.gradients(*given, None, -1.0, True, edges[2] is not None)
        if found is None:
            return None
        grads = [None if edge is None else g for edge, g in zip(edges, found, strict=True)]
        if node._fixes is not None:
            grads = [node.finish(DEVICE.space, i, g) for i, g in enumerate(grads)]
        return grads

    def pull_fixed(self, node: Any, grad: Any, kept: Any) -> Any:
        """The gradients of batch norm by given statistics, without a launch for their roots."""
        to_input, to_weight, to_bias = node._edges[:3]
        if kept.eps < 0 or not contiguous(kept.var):
            return None
        given = grad, kept.input, kept.weight, kept.mean, kept.var
        found = self.gradients(*given, kept.eps, False, to_bias is not None)
        if found is None:
            return None
        grads = [
            None if edge is None else g
            for edge, g in zip((to_input, to_weight, to_bias), found, strict=True)
        ]
        if grads[2] is not None and node._fixes is not None and node._fixes[2] is not None:
            if node._fixes[2][1] != grads[2].dtype:
                return None
        return [*grads, None, None]


def with_placeholders(ndarray: Any, found: Any) -> Any:
    """Gradients, with empty arrays where nobody asks for one."""
    out, to_weight, to_bias = found
    if to_weight is None:
        to_weight = ndarray((0,), out.dtype)
    return out, to_weight, ndarray((0,), out.dtype) if to_bias is None else to_bias


# ---------------------------------------------------------------------- group norm


class GroupNorm(NormLauncher):
    """Standardizes the groups of channels of each sample."""

    op = "native_group_norm"

    def fits(self, input: Any, weight: Any, bias: Any, groups: int, eps: float) -> bool:
        return input.dtype in NAMES and parameter_dtype(input, weight, bias) is not None

    def plan(self, input: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
        parameter = parameter_dtype(input, weight, bias)
        x = dense(self.norms.backend, input)
        dtypes = (input.dtype, parameter, parameter)
        plan = self.norms.group.get(("norm", x.shape, groups, dtypes, eps, is_aligned(x)))
        return None if plan is None else (plan, x, parameter)

    def run(self, plan: Any, input: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
        plan, x, parameter = plan
        ndarray, kept = self.ndarray, (x.shape[0], groups)
        out = ndarray(x.shape, x.dtype)
        mean, rstd = ndarray(kept, parameter), ndarray(kept, parameter)
        plan.standardize(ndarray, x, (pointer(weight), pointer(bias), out, mean, rstd))
        return out, mean, rstd


class GroupNormBackward(NormLauncher):
    """The gradients of input, weight and bias, with empty arrays where nobody asks for one."""

    op = "native_group_norm_backward"

    def fits(
        self,
        grad: Any,
        input: Any,
        mean: Any,
        rstd: Any,
        weight: Any,
        groups: int,
        eps: float,
        biased: bool,
    ) -> bool:
        dtype = input.dtype
        if dtype not in NAMES or grad.dtype != dtype or mean.dtype not in NAMES:
            return False
        if rstd.dtype != mean.dtype or not contiguous(mean) or not contiguous(rstd):
            return False
        if parameter_dtype(input, weight) is None:
            return False
        return bool(accumulator(mean.dtype) == accumulator(dtype))

    def plan(
        self,
        grad: Any,
        input: Any,
        mean: Any,
        rstd: Any,
        weight: Any,
        groups: int,
        eps: float,
        biased: bool,
    ) -> Any:
        norms = self.norms
        x, grad = dense(norms.backend, input), dense(norms.backend, grad)
        parameter = parameter_dtype(input, weight)
        dtypes = (input.dtype, parameter, mean.dtype)
        aligned = is_aligned(x, grad)
        if weight is None and not biased:
            plan = norms.group.get(("back", x.shape, groups, dtypes, -1.0, aligned))
        else:
            plan = norms.group_back.get((x.shape, groups, dtypes, aligned))
        return None if plan is None else (plan, x, grad, parameter)

    def run(
        self,
        plan: Any,
        grad: Any,
        input: Any,
        mean: Any,
        rstd: Any,
        weight: Any,
        groups: int,
        eps: float,
        biased: bool,
    ) -> Any:
        plan, x, grad, parameter = plan
        ndarray, shape = self.ndarray, x.shape
        out = ndarray(shape, x.dtype)
        to_weight = None if weight is None else ndarray((shape[1],), parameter)
        to_bias = ndarray((shape[1],), parameter) if biased else None
        first, apply = plan.parts, plan.apply
        args: tuple[Any, ...] = (mean, rstd)
        if first is not None:
            parts = ndarray(plan.parts_shape, plan.wide)
            first.run(first.grid, first.block, (grad, x, mean, parts, first.sizes))
            args = (parts, *args)
        if weight is None and not biased:
            args += (plan.number, NOTHING, out, NOTHING, NOTHING, I32(1))
        else:
            args += (pointer(weight), out, pointer(to_weight), pointer(to_bias))
            args += (U32(shape[0]), U32(plan.parts_shape[1]))
        apply.run(apply.grid, apply.block, (grad, x, *args, apply.sizes))
        return with_placeholders(ndarray, (out, to_weight, to_bias))
