"""Full backward hooks: an identity around a module's inputs and one around its outputs.

Both identities are autograd nodes. The gradients of the module's outputs arrive at the outer one,
those of its inputs leave through the inner one; the hooks hang on these two nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import tapegrad as tg

from ...autograd.hooks import check_answer
from ...core.warned import warn

Hook = Callable[..., Any]


@cache
def identity() -> Any:
    """The autograd Function that passes tensors and gradients through unchanged."""

    class BackwardHookFunction(tg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            ctx.mark_non_differentiable(*[a for a in args if not a.requires_grad])
            return args

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads

    return BackwardHookFunction


class BackwardHook:
    """The backward hooks of one call of one module."""

    def __init__(self, module: Any, hooks: list[Hook], pre_hooks: list[Hook]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.arguments = 0
        # Which arguments are tensors; None if no gradient goes to any.
        self.inputs: list[int] | None = None
        self.outputs: tuple[int, list[int]] = (0, [])

    def __bool__(self) -> bool:
        return bool(self.hooks or self.pre_hooks)

    def setup_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, passed through the inner identity."""
        args, indices, node = wrap_tensors(args)
        self.arguments = len(args)
        if node is not None:
            self.inputs = indices
            node.register_hook(self.gradients_left)
        return args

    def setup_outputs(self, result: Any) -> Any:
        """Pass the results of forward through the outer identity."""
        single = not isinstance(result, tuple)
        results, indices, node = wrap_tensors((result,) if single else result)
        if node is not None:
            self.outputs = len(results), indices
            node.register_prehook(self.gradients_arrived)
        return results[0] if single else results

    def gradients_arrived(self, grads: tuple[Any, ...]) -> Any:
        """The gradients of the outputs are complete; the pre-hooks may change them."""
        size, indices = self.outputs
        outputs = at_positions(grads, size, indices)
        for hook in self.pre_hooks:
            answer = hook(self.module, outputs)
            if answer is not None:
                outputs = as_many(answer, size, "Backward pre hook", "grad_output")
        if self.inputs is None:
            self.fire_without_inputs(outputs)
        else:
            self.grad_outputs = outputs
        return replacements(grads, outputs, indices) if self.pre_hooks else None

    def fire_without_inputs(self, outputs: tuple[Any, ...]) -> None:
        """No input needs a gradient: this is as late as the hooks can run."""
        warn(
            "Full backward hook is firing when gradients are computed with respect to module "
            "outputs since no inputs require gradients. See https://docs.pytorch.org/docs/main/generated/"
            "torch.nn.Module.html#torch.nn.Module.register_full_backward_hook for more details.",
        )
        nothing = (None,) * self.arguments
        for hook in self.hooks:
            answer = hook(self.module, nothing, outputs)
            if answer is None or (isinstance(answer, tuple) and all(a is None for a in answer)):
                continue
            raise RuntimeError(
                "Backward hook for Modules where no input requires gradient should always return "
                "None or None for all gradients."
            )

    def gradients_left(self, grads: tuple[Any, ...], _: Any) -> Any:
        """The gradients of the inputs are complete; the hooks may change them."""
        if self.grad_outputs is None:
            return None  # the outputs took no part in this backward
        assert self.inputs is not None
        size, indices = self.arguments, self.inputs
        outputs, inputs = self.grad_outputs, at_positions(grads, size, indices)
        for hook in self.hooks:
            answer = hook(self.module, inputs, outputs)
            if answer is not None:
                inputs = as_many(answer, size, "Backward hook", "grad_input")
        self.grad_outputs = None
        return replacements(grads, inputs, indices)


def as_many(answer: Any, size: int, hook: str, gradients: str) -> Any:
    """Check that a hook returned as many gradients as it was given, in a tuple or alone."""
    if len(answer) != size:
        raise RuntimeError(
            f"{hook} returned an invalid number of {gradients}, got {len(answer)}, but expected "
            f"{size}"
        )
    return answer


def replacements(grads: tuple[Any, ...], answer: Any, indices: list[int]) -> tuple[Any, ...]:
    """The gradients that go on, which are of the kind of those that came."""
    found = tuple([answer[i] for i in indices])
    for before, after in zip(grads, found, strict=True):
        if after is not None and after is not before:
            check_answer("hook", before, after)
    return found


def wrap_tensors(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int], Any]:
    """`values` with the tensors passed through an identity, where those are, and its node."""
    indices = [i for i, v in enumerate(values) if isinstance(v, tg.Tensor)]
    tensors = [values[i] for i in indices]
    if not (tg.is_grad_enabled() and any(t.requires_grad for t in tensors)):
        return values, [], None
    passed = identity().apply(*tensors)
    made = list(values)
    for i, t in zip(indices, passed, strict=True):
        made[i] = t
    node = next(t.grad_fn for t in passed if t.grad_fn is not None)
    whole = tuple(made) if type(values) is tuple else type(values)(*made)  # a namedtuple stays one
    return whole, indices, node


def at_positions(grads: tuple[Any, ...], size: int, indices: list[int]) -> tuple[Any, ...]:
    """Gradients back at the positions of their tensors; None at all others."""
    found: list[Any] = [None] * size
    for i, g in zip(indices, grads, strict=True):
        found[i] = g
    return tuple(found)
