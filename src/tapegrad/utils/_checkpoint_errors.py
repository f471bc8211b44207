"""Texts of CheckpointError: PyTorch's sentences, then which tensor and which lines of the user's.

Every tensor that a checkpoint saves is noted with the line that saved it and the line that made it;
of a leaf, its memory. Nothing is put into words unless recomputation comes out different.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..core.base import user_frame
from ..errors import evidence

TIP = (
    "\nTip: To see a more detailed error message, either pass `debug=True` to\n"
    "`torch.utils.checkpoint.checkpoint(...)` or wrap the code block\n"
    "with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to\n"
    "enable checkpoint-debug mode globally.\n"
)
SHOWN = 3  # how many tensors are described


class CheckpointError(RuntimeError):
    """A recomputed value differs from the first one; `diagnosis` has the facts."""

    __module__ = "tapegrad.utils.checkpoint"
    diagnosis: dict[str, Any]


class Seen:
    """One tensor as it was saved: what `determinism_check` compares, and where it comes from."""

    __slots__ = ("at", "dtype", "leaf", "made", "metadata", "shape")

    def __init__(self, x: Any, metadata: Any) -> None:
        self.metadata = metadata
        self.shape = tuple(x._array.shape)
        self.dtype = x.dtype
        frame = user_frame(1)
        self.at = None if frame is None else (frame.f_code, frame.f_lasti)
        node = x._node
        made = node is not None and not node._is_leaf
        self.made = (node._code, node._lasti) if made else None
        # Not the tensor: what hooks are handed may be made for them.
        self.leaf = None if made else weakref.ref(x._array)

    def saved_at(self) -> evidence.Place | None:
        return None if self.at is None else evidence.place(*self.at)

    def made_at(self) -> evidence.Place | None:
        return None if self.made is None else evidence.place(*self.made)

    def name(self) -> str | None:
        """The user's name for this tensor: a leaf by who holds it, others by the line `h = ...`."""
        leaf = None if self.leaf is None else self.leaf()
        if leaf is not None:
            return evidence.name_of(leaf)
        return evidence.assigned_name(self.made_at())

    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name(),
            "shape": list(self.shape),
            "dtype": str(self.dtype),
            "made": self.made_at(),
            "saved": self.saved_at(),
        }


def describe(facts: dict[str, Any]) -> str:
    return evidence.spell_tensor({k: facts[k] for k in ("name", "shape", "dtype")})


def lines_of(label: str, facts: dict[str, Any]) -> list[str]:
    """Where a tensor was saved and, if that is another line, where it was made."""
    saved, made = facts["saved"], facts["made"]
    lines = [f"    {label + ':':<12}{describe(facts)}"]
    if made is not None and made != saved:
        lines.append(f"    {'':<12}made at {evidence.spell(made)}")
    if saved is not None:
        lines.append(f"    {'':<12}saved at {evidence.spell(saved)}")
    return lines


class Mismatch:
    """The errors for one recomputation: `first` was saved in forward, `again` afterwards."""

    def __init__(self, first: list[Seen], again: list[Seen], debug: bool) -> None:
        self.first = first
        self.again = again
        self.debug = debug

    def too_many(self) -> CheckpointError:
        place = len(self.again) - 1
        return self.error(
            "torch.utils.checkpoint: trying to save more tensors during recomputation than "
            f"during the original forward pass.\n{TIP}",
            [self.one(place, None, self.again[place])],
        )

    def too_few(self) -> CheckpointError:
        wanted, found = len(self.first), len(self.again)
        return self.error(
            "torch.utils.checkpoint: A different number of tensors was saved during the "
            "original forward and recomputation.\nNumber of tensors saved during forward: "
            f"{wanted}\nNumber of tensors saved during recomputation: {found}.\n{TIP}",
            [self.one(self.parting(), *self.pair(self.parting()))],
        )

    def different(self, places: list[int]) -> CheckpointError:
        lines = ""
        for i in places:
            lines += (
                f"tensor at position {i}:\nsaved metadata: {self.first[i].metadata}\n"
                f"recomputed metadata: {self.again[i].metadata}\n"
            )
        return self.error(
            "torch.utils.checkpoint: Recomputed values for the following tensors have "
            f"different metadata than during the forward pass.\n{lines}{TIP}",
            [self.one(i, *self.pair(i)) for i in places],
        )

    def parting(self) -> int:
        """Where the two runs begin to save different things: the first other line or shape."""
        for i, (a, b) in enumerate(zip(self.first, self.again, strict=False)):
            if a.at != b.at or a.metadata != b.metadata:
                return i
        return min(len(self.first), len(self.again))

    def pair(self, place: int) -> tuple[Seen | None, Seen | None]:
        first = self.first[place] if place < len(self.first) else None
        return first, self.again[place] if place < len(self.again) else None

    def one(self, place: int, first: Seen | None, again: Seen | None) -> dict[str, Any]:
        return {
            "position": place,
            "forward": None if first is None else first.facts(),
            "recomputation": None if again is None else again.facts(),
        }

    def error(self, sentence: str, tensors: list[dict[str, Any]]) -> CheckpointError:
        """PyTorch's text, the tensors and lines, and in debug mode everything that was saved."""
        lines = [sentence.rstrip("\n")]
        for one in tensors[:SHOWN]:
            lines.append(f"  tensor at position {one['position']}")
            for label, when in (("forward", "forward"), ("again", "recomputation")):
                if one[when] is None:
                    lines.append(f"    {label + ':':<12}nothing was saved here")
                else:
                    lines += lines_of(label, one[when])
        if len(tensors) > SHOWN:
            lines.append(f"  and {len(tensors) - SHOWN} more")
        text = "\n".join(lines)
        if self.debug:
            text = (
                " An error happened while unpacking tensors; dumping logs of latest computation\n"
                "because you passed `debug=True` to `torch.utils.checkpoint.checkpoint()`.\n\n"
                f"Tensors saved during the original forward:\n{listed(self.first)}\n\n"
                f"Tensors saved during recomputation:\n{listed(self.again)}\n\n{text}\n"
                "You are seeing this error because you passed `debug=True` to checkpoint."
            )
        made = CheckpointError(text)
        made.diagnosis = {"message": sentence.partition("\n")[0], "tensors": tensors}
        return made


def listed(saved: list[Seen]) -> str:
    lines = []
    for i, seen in enumerate(saved):
        where = seen.saved_at()
        at = "" if where is None else f" at {evidence.spell(where)}"
        lines.append(f"  {i}: {describe(seen.facts())}{at}")
    return "\n".join(lines)
