"""Bulk checks (same array, version, gradient) and bulk updates of lists of tensors.

Compiled steps and the kernels of optimizers make these checks in every call, so this module is
compiled.
"""

from __future__ import annotations

from typing import Any

from .base import ON_DEVICE, STATE, TensorBase, Version, cell_of


def same_tensors(known: list[tuple[TensorBase, Any, bool]]) -> bool:
    """Whether tensors have the arrays that they had, and require grad as they did."""
    for t, array, wants_grad in known:
        if t._array is not array or t._wants_grad != wants_grad:
            return False
    return True


def same_parameters(known: list[tuple[TensorBase, Any, Any, Any]]) -> bool:
    """Whether tensors have the same arrays, gradients and version cells as before."""
    for t, array, gradient, cell in known:
        now = t._gradient
        if (
            now is None
            or now._array is not gradient
            or t._array is not array
            or t._cell is not cell
        ):
            return False
    return True


def same_state(known: list[tuple[TensorBase, Any, Any]]) -> bool:
    """Whether tensors have the same arrays and version cells as before; None: not checked."""
    for t, array, cell in known:
        if t._array is not array or (cell is not None and t._cell is not cell):
            return False
    return True


def without_gradients(tensors: list[TensorBase]) -> bool:
    return all([t._gradient is None for t in tensors])


def same_gradients(known: list[tuple[TensorBase, Any]]) -> bool:
    """Whether gradients have the arrays that they had; None: there was none.

    The gradients themselves are not kept: who else does is looked at.
    """
    for t, array in known:
        now = t._gradient
        if (None if now is None else now._array) is not array:
            return False
    return True


def same_hooks(known: list[tuple[TensorBase, Any]]) -> bool:
    """Whether the nodes of leaves have the hooks that they had; None: they had none."""
    for t, hooks in known:
        node = t._node
        if (None if node is None else node._hooks) is not hooks:
            return False
    return True


def with_gradients(params: Any) -> list[TensorBase] | None:
    """The parameters that have a gradient; None if one of them is more than arrays."""
    found: list[TensorBase] = []
    for each in params:
        if not isinstance(each, TensorBase):
            return None
        p: TensorBase = each
        gradient = p._gradient
        if gradient is None:
            node = p._node
            if node is not None and not node._is_leaf:
                return None  # `.grad` has a warning to give
        elif p._special & ~ON_DEVICE or gradient._special & ~ON_DEVICE:
            return None
        else:
            found.append(p)
    return found


def drop_gradients(params: Any) -> bool:
    """Forget the gradients of parameters; False: one of them is more than arrays."""
    found = with_gradients(params)
    if found is None:
        return False
    for p in found:
        p._gradient = None
    return True


def dtype_of_all(params: list[TensorBase], owns: list[Any], names: Any) -> Any:
    """The dtype of parameters that can be used through their arrays, with their state in `names`.

    None if there are several dtypes, or something else is the matter with one of them.
    """
    dtype: Any = None
    for i, p in enumerate(params):
        gradient = p._gradient
        cell = p._cell
        if p._special or p._view_of is not None or gradient is None or gradient._special:
            return None
        if cell is not None and cell.inference:
            return None
        own: dict[str, Any] = owns[i]
        for name in names:
            value = own.get(name)
            if value is not None:
                t: TensorBase = value
                if t._special or (t._cell is not None and t._cell.inference):
                    return None
        found = p._array.dtype
        if dtype is None:
            dtype = found
        elif found is not dtype:
            return None
    return dtype


def count_writes(params: list[TensorBase], n: int) -> None:
    for p in params:
        cell = p._cell
        if cell is None:
            cell = cell_of(p)
        cell.n += n


def set_gradients(gradients: list[tuple[TensorBase, Any]]) -> None:
    for leaf, gradient in gradients:
        leaf._gradient = gradient


def set_versions(gradients: list[tuple[TensorBase, Any]], versions: list[int]) -> None:
    """Set how many writes into each gradient are counted; negative: it stays as it is."""
    for pair, n in zip(gradients, versions, strict=True):
        if n < 0:
            continue
        gradient: TensorBase = pair[1]
        cell = gradient._cell
        if cell is None and n:
            cell = cell_of(gradient)
        if cell is not None:
            cell.n = n


def count_gradient_writes(writes: list[tuple[TensorBase, int]]) -> None:
    """Count writes into the present gradients of leaves."""
    for leaf, n in writes:
        gradient = leaf._gradient
        assert gradient is not None
        cell = gradient._cell
        if cell is None:
            cell = cell_of(gradient)
        cell.n += n


def add_writes(writes: list[tuple[Version, int]]) -> None:
    for cell, n in writes:
        cell.n += n


def note_writes(written: Version, params: list[TensorBase]) -> None:
    """Note on the parameters whose line wrote them, as the cell `written` knows it.

    The writes are counted already.
    """
    if not STATE.recording or not written.writers:
        return
    last = written.writers[-1]
    # Parameters that were always written together share one tuple of notes, before and after.
    n = -1
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()
    for p in params:
        cell = p._cell
        assert cell is not None
        if p._cut is None and cell.n == n:
            own = cell.writers
            # Of long ones only the last four are kept (`Version.note`): they come to be one here.
            if own is before or (len(own) == len(before) >= 8 and own[-4:] == before[-4:]):
                cell.writers = after
                continue
        n, before = cell.n, cell.writers
        cell.note(last[1], last[2], last[3], (False, None, None, -1, p._cut))
        after = cell.writers
