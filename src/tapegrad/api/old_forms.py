"""Calls in forms that PyTorch has deprecated: `add(input, alpha, other)`."""

from __future__ import annotations

import inspect
from typing import Any

from ..core.base import TensorBase
from ..core.warned import Warned, warn
from ..ops.block.checks import is_number
from ..ops.block.definition import Api

OLD_FORMS_MET: list[str] = []  # PyTorch warns of the first one in a process


def todays_form(
    api: Api, args: Any, kwargs: dict[str, Any], method: bool, function: Any = None
) -> Any:
    """The arguments of an old call `add(input, alpha, other)`, `addmm(beta, input, alpha, …)` in
    today's form, where such numbers are keywords; None if this is no such call."""
    known = [p for p in inspect.signature(api.call).parameters.values() if p.name != "run"]
    names = [p.name for p in known if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if not names or not {"alpha", "beta", "value"}.issuperset(names):
        return None
    if names == ["alpha"] and len(args) == 3 and not kwargs:
        input, other, alpha = args  # `sub(input, 2, alpha)`, which is not deprecated
        if isinstance(input, TensorBase) and is_scalar(other) and is_scalar(alpha):
            return (input, other), {"alpha": alpha}
    if api.spoken.startswith("subtract"):
        return None  # it has no old form
    tensors = [a for a in args if isinstance(a, TensorBase)]
    numbers = [a for a in args if isinstance(a, (int, float, complex))]
    if len(tensors) != len(known) - len(names) or len(tensors) + len(numbers) < len(args):
        return None
    # `beta` comes before the input, which is in front of the others in a method.
    before = not method and "beta" in names
    written = "".join(["T" if isinstance(a, TensorBase) else "n" for a in args])
    orders = [names[:1], names[:2]] if "beta" in names else [names]
    for given in orders:
        head = "nT" if before else "Tn"
        pattern = (head + "n" * (len(given) - 1)).ljust(len(given) + len(tensors), "T")
        if written == pattern:
            break
    else:
        return None
    if Warned.always or not OLD_FORMS_MET:
        OLD_FORMS_MET.append(api.name)
        mark = "_" if getattr(function, "__name__", "").endswith("_") else ""
        left = iter(given)
        order = ["Tensor" if isinstance(a, TensorBase) else next(left) for a in args]
        warn(
            f"This overload of {api.spoken}{mark} is deprecated:\n"
            f"the numbers among its arguments ({', '.join(order)}) are keywords now: "
            f"{', '.join([f'{n}=' for n in given])}",
            UserWarning,
        )
    return tensors, {**kwargs, **dict(zip(given, numbers, strict=True))}


def is_scalar(value: Any) -> bool:
    """Whether PyTorch takes a value for a number: a 0-d tensor is one too."""
    if isinstance(value, TensorBase):
        return not value._array.ndim and not value._wants_grad
    return is_number(value)
