"""Errors about the gradients that a user's autograd.Function returned: E12."""

from __future__ import annotations

import inspect
from typing import Any

from ..core.base import TensorBase
from .evidence import Place, here, node_name, of_node, place, return_lines
from .report import build


def wrong_gradient_count(node: Any, expected: int, found: tuple[Any, ...]) -> Exception:
    """E12: a Function's backward returned too few or too many gradients."""
    spelled = forward_arguments(node._forward_cls)
    returned = [spell_gradient(g) for g in found]
    return build(
        RuntimeError,
        f"function {node_name(node)} returned an incorrect number of gradients (expected "
        f"{expected}, got {len(found)})",
        "E12",
        what=f"forward takes ({', '.join(spelled)}), backward returned ({', '.join(returned)})",
        causes=[
            ("returns", "at", backward_result(node._forward_cls)),
            ("applied", "at", of_node(node)),
            ("noticed", "at", here()),
        ],
        fixes=[
            f"return {expected} values, one for each argument of forward; None where there is "
            "no gradient"
        ],
        expected=expected,
        got=len(found),
        arguments=spelled,
        returned=returned,
        applied=of_node(node),
    )


def wrong_gradient(node: Any, sentence: str, index: int, found: tuple[Any, ...]) -> Exception:
    """E12: what a Function's backward returned at `index` is no gradient of that argument."""
    arguments = forward_arguments(node._forward_cls)
    name = arguments[index] if index < len(arguments) else f"argument {index + 1}"
    meta = node._input_metas[index]
    cure = "None" if meta is None else f"a tensor of shape {tuple(meta[0])}, or None"
    return build(
        RuntimeError,
        sentence,
        "E12",
        what=f"value {index + 1} of backward, {spell_gradient(found[index])}, belongs to `{name}`",
        causes=[
            ("returns", "at", backward_result(node._forward_cls)),
            ("applied", "at", of_node(node)),
            ("noticed", "at", here()),
        ],
        fixes=[f"return {cure} at this position"],
        arguments=arguments,
        returned=[spell_gradient(g) for g in found],
        index=index,
        applied=of_node(node),
    )


def forward_arguments(cls: Any) -> list[str]:
    """The arguments of a Function's forward, without ctx."""
    names = list(inspect.signature(cls.forward).parameters.values())
    if "setup_context" not in vars(cls):
        names = names[1:]
    return [str(p).split(":")[0].split("=")[0].strip() for p in names]


def backward_result(cls: Any) -> Place | None:
    """The line of a Function's backward that returns, or where it begins if there are several."""
    code = getattr(inspect.unwrap(cls.backward), "__code__", None)
    ends = [] if code is None else return_lines(code)
    return ends[0] if len(ends) == 1 else place(code, -1)


def spell_gradient(g: Any) -> str:
    if not isinstance(g, TensorBase):
        return "None" if g is None else type(g).__name__
    return f"Tensor{list(g._array.shape)}"
