"""Forward-mode rules, jvp(F, tensors, tangents, outs, attrs), as they are called.

They are those that blocks give, or follow from what an op is. Compiled: one is called per op.
"""

from __future__ import annotations

from typing import Any

from ...core.op import Op


def given_jvp(
    given: Any, places: tuple[int, ...], F: Any, tensors: Any, tangents: Any, outs: Any, attrs: Any
) -> Any:
    """The rule of a block, called with what it names."""
    values: list[Any] = [*tensors, *tangents, *outs, *attrs]
    return given(F, *[values[i] for i in places])


def linear_jvp(record: Op, F: Any, tensors: Any, tangents: Any, outs: Any, attrs: Any) -> Any:
    """The derivative of a (multi)linear op: the op itself, one argument exchanged at a time."""
    own = getattr(F, record.name)
    if record.variadic:
        zeros = [
            F.zeros_like(x) if t is None else t for x, t in zip(tensors, tangents, strict=True)
        ]
        return own(zeros, *attrs)
    total = None
    for i, t in enumerate(tangents):
        if t is not None:
            part = own(*tensors[:i], t, *tensors[i + 1 :], *attrs)
            total = part if total is None else add_parts(total, part)
    return total


def add_parts(a: Any, b: Any) -> Any:
    return tuple(x + y for x, y in zip(a, b, strict=True)) if isinstance(a, tuple) else a + b


def elementwise_jvp(record: Op, F: Any, tensors: Any, tangents: Any, outs: Any, attrs: Any) -> Any:
    """An elementwise Jacobian is diagonal: the gradient rule pushes forward as it pulls back."""
    kept = (*tensors, *outs, *attrs, *[fact(tensors[i], what) for i, what in record.metas])
    total = None
    for rule, t in zip(record.rules, tangents, strict=True):
        if t is not None and rule is not None:
            try:
                part = rule.call(F, t, kept)
            except NotImplementedError as error:
                raise no_forward_mode(record) from error
            total = part if total is None else total + part
    return total


def no_forward_mode(record: Op) -> NotImplementedError:
    name = (record.aten or record.name).partition(".")[0]
    return NotImplementedError(
        f"Trying to use forward AD with {name} that does not support it because it has not been "
        "implemented yet."
    )


def fact(x: Any, what: str) -> Any:
    """A shape or dtype that rules read by name: `input_shape`, `input_dtype`."""
    array = getattr(x, "_array", x)
    return array.strides if what == "strides" else getattr(array, what)
