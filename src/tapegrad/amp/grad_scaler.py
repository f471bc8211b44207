"""GradScaler: scale the loss up so that half precision gradients do not vanish, and back again."""

from __future__ import annotations

from collections import abc, defaultdict
from enum import Enum
from typing import Any

import tapegrad as tg

from ..core import devices
from ..core.warned import warn

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """How far an optimizer has come since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses, takes the scale out of gradients, and skips steps with infinite ones.

    >>> scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale(torch.tensor(1.5))
    tensor(6.)
    """

    def __init__(
        self,
        device: Any = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        if tg.device(device).type == "cuda" and enabled and not tg.cuda.is_available():
            warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
            )
            enabled = False
        self._enabled = enabled
        if not enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: Any = None  # made by the first `scale`
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Any = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(
            _refresh_per_optimizer_state
        )

    def _check_scale_growth_tracker(self, funcname: str) -> tuple[Any, Any]:
        fix = (
            "This may indicate your script did not use scaler.scale(loss or outputs) earlier in "
            "the iteration."
        )
        if self._scale is None:
            raise AssertionError(f"Attempted {funcname} but _scale is None.  {fix}")
        if self._growth_tracker is None:
            raise AssertionError(f"Attempted {funcname} but _growth_tracker is None.  {fix}")
        return self._scale, self._growth_tracker

    def _lazy_init_scale_growth_tracker(self, device: Any) -> None:
        self._scale = tg.full((), self._init_scale, dtype=tg.float32, device=device)
        self._growth_tracker = tg.full((), self._init_growth_tracker, dtype=tg.int32, device=device)

    def scale(self, outputs: Any) -> Any:
        """A tensor, or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, tg.Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, abc.Iterable):
            parts = map(self.scale, outputs)
            return type(outputs)(parts) if isinstance(outputs, (list, tuple)) else parts
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale; `step` does it else."""
        if not self._enabled:
            return
        self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        # In double precision: 1 / scale of a scale that is no power of two.
        inverse = self._scale.double().reciprocal().float()
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse)
        state["stage"] = OptState.UNSCALED

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Any, allow_fp16: bool = False
    ) -> dict[Any, Any]:
        """Unscale, and say per device whether something was not finite."""
        found: dict[Any, Any] = {}
        on_gpu: dict[Any, list[Any]] = defaultdict(list)  # by device and dtype
        with tg.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is None:
                        continue
                    if grad.dtype is tg.float16 and not allow_fp16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    device = grad.device
                    infinite = found.get(device)
                    if infinite is None:
                        infinite = tg.full((), 0.0, dtype=tg.float32, device=device)
                        found[device] = infinite
                    if grad.is_cuda:
                        on_gpu[device, grad.dtype].append(grad)
                        continue
                    if not tg.isfinite(grad).all():
                        infinite.data.fill_(1.0)
                    grad.data.mul_(inv_scale.to(device))  # PyTorch counts no write here
            for (device, _), grads in on_gpu.items():
                unscale_on_gpu(grads, inv_scale.to(device), found[device])
        return found

    def _maybe_opt_step(self, optimizer: Any, state: dict[str, Any], *args: Any, **kw: Any) -> Any:
        if sum(v.item() for v in state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kw)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(...)`, left out if the gradients hold infinities or nans."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """Set the scale for the next iteration: smaller after infinities, larger after long peace.

        With `new_scale`, that is it.
        """
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            self._set_scale(new_scale)
        else:
            found = [
                v
                for state in self._per_optimizer_states.values()
                for v in state["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            with tg.no_grad():
                if scale.is_cuda:
                    self._grow_or_shrink_on_gpu(scale, tracker, found)
                else:
                    self._grow_or_shrink(scale, tracker, any(v.item() for v in found))
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _set_scale(self, new_scale: Any) -> None:
        if isinstance(new_scale, float):
            self._scale.fill_(new_scale)
            return
        reason = (
            "new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
            "torch.FloatTensor with requires_grad=False."
        )
        if new_scale.device.type != self._scale.device.type:
            raise AssertionError(reason)
        if new_scale.numel() != 1 or new_scale.requires_grad:
            raise AssertionError(reason)
        self._scale.copy_(new_scale)

    def _grow_or_shrink(self, scale: Any, tracker: Any, infinite: bool) -> None:
        if infinite:
            scale.mul_(self._backoff_factor)
            tracker.fill_(0)
            return
        tracker.add_(1)
        if tracker.item() == self._growth_interval:
            grown = scale * self._growth_factor
            if tg.isfinite(grown):
                scale.copy_(grown)
            tracker.fill_(0)

    def _grow_or_shrink_on_gpu(self, scale: Any, tracker: Any, found: list[Any]) -> None:
        """Change the scale on the GPU, without waiting to hear whether it found infinities."""
        total = sum([v.to(scale.device) for v in found[1:]], found[0].to(scale.device))
        kernels = getattr(devices.DEVICE.backend, "gradients", None)
        if kernels is not None and scale.dtype is total.dtype is tg.float32:
            numbers = self._growth_factor, self._backoff_factor, self._growth_interval
            kernels.next_scale(scale._array, tracker._array, total._array, *numbers)
            for t in (scale, tracker):
                t._version_cell().bump("_amp_update_scale_")
            return
        infinite = total > 0
        count = tg.where(infinite, tg.zeros_like(tracker), tracker + 1)
        due = count == self._growth_interval
        grown = scale * self._growth_factor
        grown = tg.where(tg.isfinite(grown), grown, scale)
        kept = tg.where(due, grown, scale)
        scale.copy_(tg.where(infinite, scale * self._backoff_factor, kept))
        tracker.copy_(tg.where(due, tg.zeros_like(count), count))

    def _get_scale_async(self) -> Any:
        return self._scale

    def get_scale(self) -> float:
        """The scale; 1.0 when disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker.item())

    def is_enabled(self) -> bool:
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The state for `load_state_dict`; empty when disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, "
                    "or at the end after scaler.update()."
                )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = None
            state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _check_inf_per_device(self, optimizer: Any) -> Any:
        self._check_scale_growth_tracker("_check_inf_per_device")
        state = self._per_optimizer_states[id(optimizer)]
        # Multiplying by one changes nothing; what is looked for is found all the same.
        state["found_inf_per_device"] = self._unscale_grads_(
            optimizer, tg.full((), 1.0, dtype=tg.float32), True
        )
        return state["found_inf_per_device"]

    def _found_inf_per_device(self, optimizer: Any) -> Any:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]


def unscale_on_gpu(grads: list[Any], inverse: Any, infinite: Any) -> None:
    """Unscale gradients of one dtype; nothing waits for the GPU."""
    kernels: Any = getattr(devices.DEVICE.backend, "gradients", None)
    arrays = None if kernels is None else kernels.arrays_of(grads)
    if arrays is not None:
        kernels.unscale(arrays, inverse._array, infinite._array)
        return
    for grad in grads:
        infinite.data.logical_or_(tg.isfinite(grad).all().logical_not())
        grad.data.mul_(inverse)
