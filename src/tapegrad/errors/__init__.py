"""Texts of our exceptions: PyTorch's sentence first, then the facts that were recorded.

Every function here returns an exception, or raises it where its name begins with `check_`. The
facts follow the order of the catalogue in docs/errors: what, where it was caused, where it was
noticed, the tensor, the ways out, the id. The same facts are in `error.diagnosis`. Nothing here
runs unless something went wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import slips
from .arrays import numpy_refused
from .evidence import describe, here, of_node
from .functions import wrong_gradient, wrong_gradient_count
from .history import freed_graph, no_history, not_scalar, unused_input, warn_non_leaf_grad
from .report import build, type_name
from .sentences import (
    check_broadcast,
    does_not_fit,
    inference_saved,
    inference_written,
    must_be_tensor,
    no_method,
    no_tensor_in_list,
    of_tensors,
    saved_detached,
    swapped_data,
    unbound_call,
)
from .writes import leaf_written, modified_in_place, view_written

__all__ = [
    "argument_names",
    "build",
    "check_broadcast",
    "describe",
    "does_not_fit",
    "explain_backward",
    "explain_call",
    "freed_graph",
    "here",
    "inference_saved",
    "inference_written",
    "leaf_written",
    "modified_in_place",
    "must_be_tensor",
    "no_method",
    "of_tensors",
    "unbound_call",
    "no_history",
    "no_such_name",
    "no_tensor_in_list",
    "not_scalar",
    "numpy_refused",
    "of_node",
    "saved_detached",
    "slips",
    "swapped_data",
    "type_name",
    "unused_input",
    "view_written",
    "warn_non_leaf_grad",
    "wrong_gradient",
    "wrong_gradient_count",
]

NOTHING: dict[str, Any] = {}


def explain_call(
    error: Exception,
    name: str,
    names: Sequence[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] = NOTHING,
) -> None:
    """Add what the arguments tell to an exception that leaves a public function.

    `names` are the function's parameters. Whatever goes wrong here must not hide the error.
    """
    known = getattr(error, "diagnosis", None)
    if known is not None and not known.get("inner"):
        return
    try:
        from .calls import explain

        explain(error, name, names, args, kwargs)
    except Exception:
        return


def argument_names(function: Any) -> list[str]:
    """The parameters of a function; none where Python cannot say."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return [] if code is None else list(code.co_varnames[1 : code.co_argcount])


def explain_backward(error: Exception, node: Any) -> None:
    """Add facts to an exception that leaves a node in a backward pass."""
    try:
        from .missing import explain_backward as explain

        explain(error, node)
    except Exception:
        return


def no_such_name(space: str, name: str, known: Any) -> AttributeError:
    """`torch.foo`; `known()` gives the names that there are."""
    from .missing import no_such_name as make

    return make(space, name, known)
