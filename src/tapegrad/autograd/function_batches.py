"""generate_vmap_rule=True: from a Function of one entry to a Function of a whole batch.

Its forward, backward and jvp are the Function's own, each run inside of a vmap level of its own:
the level of the call may be closed by then.
"""

from __future__ import annotations

from typing import Any

from ..core.base import TensorBase
from ..core.node import unbroadcast
from ..core.rule_functions import RECORDED
from ..core.transforms.opening import level_of
from .function import Function, call_backward, sums_to
from .function_transforms import put_in, taken_out


class Batches:
    """A Function mapped over a batch, and where its tensors have that batch."""

    def __init__(self, cls: Any, in_dims: Any, size: int, randomness: str) -> None:
        self.cls = cls
        self.in_dims = in_dims
        self.size = size
        self.randomness = randomness
        self.out_dims: Any = None
        self.saved_dims: Any = ()
        self.entry_shapes: tuple[Any, ...] = ()

    def function(self) -> Any:
        """The Function of whole batches."""
        return type(
            f"Vmapped{self.cls.__name__}",
            (Function,),
            {
                "forward": staticmethod(self.forward),
                "setup_context": staticmethod(self.setup_context),
                "backward": staticmethod(self.backward),
                "jvp": staticmethod(self.jvp),
                "generate_vmap_rule": True,
            },
        )

    def level(self) -> level_of:
        return level_of("vmap", self.size, self.randomness)

    def forward(self, *args: Any) -> Any:
        with self.level() as level:
            out = self.cls.forward(*put_in(args, self.in_dims, level))
            physical, self.out_dims = taken_out(out, level)
        return physical

    def setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        with self.level() as level:
            args = put_in(inputs, self.in_dims, level)
            shown = SavingContext(ctx, level)
            self.cls.setup_context(shown, args, put_in(output, self.out_dims, level))
            self.saved_dims = shown._saved_dims
            self.entry_shapes = tuple(
                [a._array.shape if isinstance(a, TensorBase) else None for a in args]
            )

    def backward(self, ctx: Any, *grads: Any) -> Any:
        with self.level() as level:
            dims = self.out_dims if isinstance(self.out_dims, tuple) else (self.out_dims,)
            known = [None if g is None else d for g, d in zip(grads, dims, strict=True)]
            shown = SavedContext(ctx, put_in(ctx.saved_tensors, self.saved_dims, level))
            found = call_backward(self.cls, shown, put_in(grads, tuple(known), level))
            found = found if isinstance(found, tuple) else (found,)
            # More or fewer than there are arguments: whoever counts them complains.
            shapes = (*self.entry_shapes, *[None] * len(found))
            fitted = [cut_down(g, s) for g, s in zip(found, shapes, strict=False)]
            return self.reduced(*taken_out(tuple(fitted), level), self.in_dims)

    def jvp(self, ctx: Any, *tangents: Any) -> Any:
        with self.level() as level:
            dims = [None if t is None else d for t, d in zip(tangents, self.in_dims, strict=True)]
            shown = SavedContext(ctx, put_in(ctx.saved_tensors, self.saved_dims, level))
            found = self.cls.jvp(shown, *put_in(tangents, tuple(dims), level))
            single = not isinstance(found, tuple)
            outs = (found,) if single else found
            wanted = self.out_dims if isinstance(self.out_dims, tuple) else (self.out_dims,)
            moved = self.reduced(*taken_out(outs, level), wanted)
            return moved[0] if single else moved

    def reduced(self, values: Any, dims: Any, wanted: Any) -> tuple[Any, ...]:
        """Sum gradients over the batch for inputs without one; repeat those that lack the batch."""
        made = []
        for i, (x, dim) in enumerate(zip(values, dims, strict=True)):
            want = wanted[i] if i < len(wanted) else dim
            if isinstance(x, TensorBase):
                if dim is None and want is not None:
                    x = RECORDED.expand(RECORDED.unsqueeze(x, 0), (self.size, *x._array.shape))
                elif dim is not None and want is None:
                    x = RECORDED.sum(x, (0,), False, None)
            made.append(x)
        return tuple(made)


def cut_down(g: Any, shape: Any) -> Any:
    """A gradient summed to the shape of one entry, which the engine cannot do below vmap."""
    if not isinstance(g, TensorBase) or shape is None or g._array.shape == shape:
        return g
    return unbroadcast(RECORDED, g, shape) if sums_to(g._array.shape, shape) else g


class ShownContext:
    """A `ctx` that wraps another one and forwards all other attributes to it."""

    def __init__(self, inner: Any) -> None:
        self.__dict__["_inner"] = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)


class SavingContext(ShownContext):
    """For setup_context: what is saved is saved whole, with a note of where the batch is."""

    def __init__(self, inner: Any, level: Any) -> None:
        super().__init__(inner)
        self.__dict__["_level"] = level
        self.__dict__["_saved_dims"] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        physical, self.__dict__["_saved_dims"] = taken_out(tensors, self._level)
        self._inner.save_for_backward(*physical)

    def save_for_forward(self, *tensors: Any) -> None:
        physical, self.__dict__["_saved_dims"] = taken_out(tensors, self._level)
        self._inner.save_for_forward(*physical)

    def mark_non_differentiable(self, *args: Any) -> None:
        self._inner.mark_non_differentiable(*taken_out(args, self._level)[0])


class SavedContext(ShownContext):
    """For backward and jvp: the saved tensors with the batch hidden again."""

    def __init__(self, inner: Any, saved: Any) -> None:
        super().__init__(inner)
        self.__dict__["saved_tensors"] = saved
