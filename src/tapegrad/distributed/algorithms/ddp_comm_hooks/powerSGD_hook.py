"""PowerSGD: gradients of matrices are communicated as two thin factors (Vogels et al., 2019)."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from ..._combining import all_reduce
from ..._groups import default_group
from . import default_hooks

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """PowerSGD's state between steps: the errors it made, and the last right factors."""

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.random_seed = random_seed
        self.error_dict: dict[int, Any] = {}
        self.q_memory_dict: dict[tuple[int, int], Any] = {}
        self.iter = 0

    def pays(self, rows: int, columns: int) -> bool:
        """Whether two factors are smaller than the matrix, by the rate that is asked for."""
        thin = (rows + columns) * self.matrix_approximation_rank
        return thin * self.min_compression_rate < rows * columns


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Any:
    """Average a bucket: matrices through factors of low rank, the rest as it is."""
    group = state.process_group or default_group()
    buffer = bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.iter += bucket.is_last()
        return default_hooks.averaged(group, buffer)
    key = bucket.index()
    if state.use_error_feedback:
        if key in state.error_dict:
            buffer.add_(state.error_dict[key])
        wanted = buffer.clone()
    plain, matrices = [], []
    for i, gradient in enumerate(bucket.gradients()):
        matrix = gradient.reshape(gradient.shape[0], -1) if gradient.dim() > 1 else gradient
        small = matrix.dim() < 2 or not state.pays(*matrix.shape)
        plain.append(gradient) if small else matrices.append((i, gradient, matrix))
    if plain:
        flat = tg.cat([gradient.reshape(-1) for gradient in plain]).div_(group.size())
        all_reduce(flat, group=group)
        parts = flat.split([gradient.numel() for gradient in plain])
        for gradient, part in zip(plain, parts, strict=True):
            gradient.copy_(part.view(gradient.shape))
    for i, gradient, matrix in matrices:
        gradient.copy_(approximated(state, group, (key, i), matrix).view(gradient.shape))
    if state.use_error_feedback:
        errors = wanted - buffer
        # What is averaged exactly leaves no error.
        start, plain_ids = 0, {id(gradient) for gradient in plain}
        for gradient in bucket.gradients():
            if id(gradient) in plain_ids:
                errors[start : start + gradient.numel()] = 0
            start += gradient.numel()
        state.error_dict[key] = errors
    state.iter += bucket.is_last()
    return finished(buffer)


def batched_powerSGD_hook(state: PowerSGDState, bucket: Any) -> Any:
    """Average a bucket as one square matrix of low rank: quicker, and coarser."""
    group = state.process_group or default_group()
    buffer = bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.iter += bucket.is_last()
        return default_hooks.averaged(group, buffer)
    key = bucket.index()
    side = math.isqrt(buffer.numel() - 1) + 1
    square = buffer.new_zeros(side * side)
    square[: buffer.numel()] = buffer
    if state.use_error_feedback and key in state.error_dict:
        square.add_(state.error_dict[key])
    average = approximated(state, group, (key, -1), square.view(side, side)).reshape(-1)
    if state.use_error_feedback:
        state.error_dict[key] = square - average
    buffer.copy_(average[: buffer.numel()])
    state.iter += bucket.is_last()
    return finished(buffer)


def approximated(state: PowerSGDState, group: Any, key: tuple[int, int], matrix: Any) -> Any:
    """The average of a matrix over ranks, of low rank: one step of a power iteration."""
    rank = min(state.matrix_approximation_rank, *matrix.shape)
    right = state.q_memory_dict.get(key)
    if right is None or not state.warm_start:
        generator = tg.Generator().manual_seed(state.random_seed + state.iter + key[1] + 1)
        right = tg.randn(matrix.shape[1], rank, generator=generator, dtype=matrix.dtype)
        right = right.to(matrix.device)
    right = orthogonal(right)
    left = matrix @ right
    all_reduce(left, group=group)
    left = orthogonal(left)
    right = matrix.t() @ left
    all_reduce(right, group=group)
    right.div_(group.size())
    state.q_memory_dict[key] = right
    return left @ right.t()


def finished(value: Any) -> Any:
    future: Any = tg.futures.Future()
    future.set_result(value)
    return future


def orthogonal(matrix: Any) -> Any:
    """Orthonormal columns that span the same space."""
    return tg.linalg.qr(matrix)[0]
