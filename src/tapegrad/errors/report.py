"""How an exception of the catalogue is put together; see docs/errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..core.base import STATE
from .evidence import Place, spell, spell_tensor


def build(
    cls: type[Exception],
    sentence: str,
    identity: str,
    *,
    what: str = "",
    details: Sequence[tuple[str, str]] = (),
    causes: Sequence[tuple[str, str, Place | None]],
    tensor: Any = "",
    fixes: list[str],
    **facts: Any,
) -> Exception:
    """An exception with PyTorch's `sentence`, the facts below it, and `diagnosis`.

    `details` are (label, text) below the first sentence; the text may have several lines. `causes`
    are (label, what happened, place), the last one where it was noticed; those without a place are
    left out. `tensor` is what `describe` gives.
    """
    error = cls(sentence)
    attach(
        error,
        identity,
        what=what,
        details=details,
        causes=causes,
        tensor=tensor,
        fixes=fixes,
        **facts,
    )
    return error


def attach(
    error: Exception,
    identity: str,
    *,
    what: str,
    details: Sequence[tuple[str, str]] = (),
    causes: Sequence[tuple[str, str, Place | None]],
    tensor: Any = "",
    fixes: list[str],
    **facts: Any,
) -> None:
    """Put the facts below what an exception says already; see `build`."""
    sentence = str(error)
    known = [(label, did, where) for label, did, where in causes if where is not None]
    page = f"docs/errors/{identity}.md"
    lines = [sentence]
    if what:
        lines.append(f"  {'what:':<9}{what}")
    for label, text in details:
        first, *more = text.splitlines()
        lines.append(f"  {label + ':':<9}{first}")
        lines += [f"{'':11}{line}" for line in more]
    lines += [f"  {label + ':':<9}{did} {spell(where)}" for label, did, where in known]
    if tensor:
        lines.append(f"  {'tensor:':<9}{spell_tensor(tensor)}")
    lines += [f"  {'fix:' if i == 0 else 'or:':<9}{fix}" for i, fix in enumerate(fixes)]
    lines.append(f"  [{identity}] python -m tapegrad explain {identity}")
    error.args = ("\n".join(lines),)
    error.diagnosis = {  # type: ignore[attr-defined]
        "id": identity,
        "message": sentence,
        "what": what,
        "causes": [{"label": label, "did": did, **where} for label, did, where in known],
        "noticed": next((where for label, _, where in known if label == "noticed"), None),
        "tensor": tensor or None,
        "fixes": fixes,
        "page": page,
        **facts,
    }


def type_name(array: Any) -> str:
    """PyTorch's name for a tensor's type in sentences: torch.FloatTensor, CPUBoolType …"""
    kind = dtypes.of(array.dtype).scalar_type
    old = kind in ("Float", "Double", "Half", "Byte", "Char", "Short", "Int", "Long")
    on_gpu = type(array) is STATE.device_type
    if old:
        return f"torch.cuda.{kind}Tensor" if on_gpu else f"torch.{kind}Tensor"
    return f"CUDA{kind}Type" if on_gpu else f"CPU{kind}Type"
