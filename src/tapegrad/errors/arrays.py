"""A tensor that requires grad as a NumPy array: E11."""

from __future__ import annotations

from typing import Any

from .evidence import Place, describe, is_installed, name_of, of_node, place, user_frames
from .report import build


def numpy_refused(t: Any) -> Exception:
    """E11: an array cannot carry a gradient."""
    name = name_of(t._array)
    made = None if t._node is None or t._node._is_leaf else of_node(t._node)
    now, library = asked_by()
    what = "what NumPy computes is not recorded, so the gradient would end here without a word"
    if library:
        what = f"{library} asks for an array; {what}"
    spelled = name if name and not name.startswith("a view of") else "t"
    fixes = [f"{spelled}.detach().numpy(), to look at the values"]
    if library:
        fixes = [f"give it the values alone: {spelled}.detach()"]
    if made is None:
        fixes.append("for an update by hand: with torch.no_grad(): around it")
    else:
        fixes.append("to go on differentiating: the torch function instead of NumPy's")
    return build(
        RuntimeError,
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        "E11",
        what=what,
        causes=[("made", "at", None if made == now else made), ("noticed", "at", now)],
        tensor=describe(t._array, name),
        fixes=fixes,
        library=library,
        made=made,
    )


def asked_by() -> tuple[Place | None, str]:
    """The line of the user's own code, and the installed library that it called, if one did."""
    library = ""
    for frame in user_frames():
        if not is_installed(frame):
            return place(frame.f_code, frame.f_lasti), library
        if "-packages" in frame.f_code.co_filename and not library:
            library = str(frame.f_globals.get("__name__")).partition(".")[0]
    return None, library
