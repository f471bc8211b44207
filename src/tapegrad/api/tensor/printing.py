"""`repr` of tensors, byte for byte PyTorch's, and the options that steer it.

The text is made in three steps: choose the elements to show (all, or the corners of a large
tensor), write each one as a cell in a notation that suits them together, lay the cells out in
brackets. What is said about the tensor (`dtype=`, `grad_fn=` ...) follows, broken to the width.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from ... import dtypes
from ...core.python_dispatch import read_values


@dataclasses.dataclass
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PRINT_OPTS = _Options()

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print: a profile ("default", "short", "full"), then single options over it.

    An option left at None keeps its value, except `sci_mode`: None means "choose by the values".

    >>> set_printoptions(precision=2)
    >>> tensor([3.14159])
    tensor([3.14])
    >>> set_printoptions(profile="default")
    """
    chosen = dict(_PROFILES.get(profile, {})) if profile is not None else {}
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    chosen.update((name, value) for name, value in given.items() if value is not None)
    for name, value in chosen.items():
        setattr(PRINT_OPTS, name, value)
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options in force, as keyword arguments for `set_printoptions`."""
    return dataclasses.asdict(PRINT_OPTS)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Set print options for the length of a `with` block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


def tensor_repr(tensor: Any, tensor_contents: str | None = None, tangent: Any = None) -> str:
    """The text of `repr(tensor)`.

    `tensor_contents` stands in for the elements; `tangent` is the forward-mode tangent, if any.
    """
    read_values(tensor)
    kind = type(tensor)
    lineage = [base.__name__ for base in kind.__mro__]
    own_name = kind.__name__ not in ("Tensor", "Parameter")
    prefix = f"{kind.__name__}(" if own_name else "tensor("
    contents = _contents(tensor, len(prefix)) if tensor_contents is None else tensor_contents
    notes = _notes(tensor)
    if tangent is not None:
        notes.append(f"tangent={tangent}")
    text = _append_notes(prefix + contents, notes, len(prefix)) + ")"
    if own_name and ("Parameter" in lineage or getattr(tensor, "_is_param", False)):
        text = f"Parameter({text})"
    return f"Parameter containing:\n{text}" if "Parameter" in lineage else text


def format_item(tensor: Any, spec: str) -> str:
    """The text of `format(tensor, spec)`: a 0-d tensor formats as its number."""
    plain = type(tensor).__name__ == "Tensor"
    if plain and not tensor.shape and tensor.device.type != "meta":
        return format(tensor.item(), spec)
    return object.__format__(tensor, spec)


# ---- the elements -------------------------------------------------------------------------------


def _host_array(tensor: Any, index: tuple[Any, ...] = ()) -> numpy.ndarray[Any, Any]:
    """The elements at `index` in host memory; indexing first, so that little is transferred."""
    array = tensor._array
    if index:
        array = array[index]
    fetch = getattr(array, "get", None)  # CuPy's copy to the host
    return numpy.asarray(array if fetch is None else fetch())


def _contents(tensor: Any, indent: int) -> str:
    shape = tuple(tensor.shape)
    size = math.prod(shape)
    if tensor.device.type == "meta":
        return "..."
    if size == 0:
        return "[]"
    edge = PRINT_OPTS.edgeitems
    if size <= PRINT_OPTS.threshold:
        array, cut = _host_array(tensor), [False] * len(shape)
    elif edge == 0 and shape:
        return "[...]"
    else:
        array, cut = _corners(tensor, shape, edge)
    cells, width = _cells(tensor.dtype, array)
    return _layout(cells, width, array.shape, cut, indent)


def _corners(
    tensor: Any, shape: tuple[int, ...], edge: int
) -> tuple[numpy.ndarray[Any, Any], list[bool]]:
    """The first and last `edge` entries along each axis, and which axes had more than those."""
    cut = [n > 2 * edge for n in shape]
    if not any(cut):
        return _host_array(tensor), cut
    kept = [
        [*range(edge), *range(n - edge, n)] if long else list(range(n))
        for n, long in zip(shape, cut, strict=True)
    ]
    return _host_array(tensor, numpy.ix_(*kept)), cut


def _cells(dtype: dtypes.dtype, array: numpy.ndarray[Any, Any]) -> tuple[list[str], int]:
    """Every element as text, in memory order, and the width that one takes on a line."""
    if dtype.is_complex:
        real, real_width = _float_cells(array.real)
        imag, imag_width = _float_cells(array.imag)
        return list(map(_complex_cell, real, imag)), real_width + imag_width + 1
    if dtype.is_floating_point:
        return _float_cells(array)
    texts = [str(value) for value in array.ravel().tolist()]
    width = max(map(len, texts))
    return [text.rjust(width) for text in texts], width


def _complex_cell(real: str, imag: str) -> str:
    imag = imag.lstrip()
    return f"{real}{imag}j" if imag.startswith("-") else f"{real}+{imag}j"


def _float_cells(array: numpy.ndarray[Any, Any]) -> tuple[list[str], int]:
    """Floats in one notation for all; zeros and non-finite values have no say in it."""
    values = array.astype(numpy.float64).ravel()
    tells = numpy.isfinite(values) & (values != 0)
    telling = values[tells]
    whole = bool((telling == numpy.floor(telling)).all())
    scientific = bool(telling.size) and _scientific(telling, whole)
    if scientific:
        spec, point = f".{PRINT_OPTS.precision}e", ""
    elif whole:
        spec, point = ".0f", "."
    else:
        spec, point = f".{PRINT_OPTS.precision}f", ""
    texts = [format(v, spec) + (point if math.isfinite(v) else "") for v in values.tolist()]
    # PyTorch reserves one column where nothing tells: a line of zeros may pass the line width.
    width = max((len(text) for text, t in zip(texts, tells.tolist(), strict=True) if t), default=1)
    return [text.rjust(width) for text in texts], width


def _scientific(telling: numpy.ndarray[Any, Any], whole: bool) -> bool:
    if PRINT_OPTS.sci_mode is not None:
        return PRINT_OPTS.sci_mode
    sizes = numpy.abs(telling)
    least, most = float(sizes.min()), float(sizes.max())
    return most / least > 1000 or most > 1e8 or (not whole and least < 1e-4)


# ---- the layout ---------------------------------------------------------------------------------


def _layout(
    cells: list[str], width: int, shape: tuple[int, ...], cut: list[bool], indent: int
) -> str:
    """The cells in nested brackets, built from the innermost axis outwards."""
    if not shape:
        return cells[0]
    depth = len(shape)
    # Two columns for the ", " after each cell; the brackets open so far stand to the left.
    per_line = max(1, (PRINT_OPTS.linewidth - (indent + depth - 1)) // (width + 2))
    blocks = []
    for row in _groups(cells, shape[-1]):
        if cut[-1]:
            row = _with_gap(row, " ...")
        lines = [", ".join(part) for part in _groups(row, per_line)]
        blocks.append("[" + (",\n" + " " * (indent + depth)).join(lines) + "]")
    for axis in reversed(range(depth - 1)):
        separator = "," + "\n" * (depth - 1 - axis) + " " * (indent + axis + 1)
        blocks = [
            "[" + separator.join(_with_gap(group, "...") if cut[axis] else group) + "]"
            for group in _groups(blocks, shape[axis])
        ]
    return blocks[0]


def _groups(items: list[str], length: int) -> Iterator[list[str]]:
    return (items[i : i + length] for i in range(0, len(items), length))


def _with_gap(items: list[str], gap: str) -> list[str]:
    half = len(items) // 2
    return [*items[:half], gap, *items[half:]]


# ---- what follows the elements ------------------------------------------------------------------


def _notes(tensor: Any) -> list[str]:
    shape = tuple(tensor.shape)
    empty = math.prod(shape) == 0
    meta = tensor.device.type == "meta"
    notes = []
    if tensor.device.type != "cpu":
        index = tensor.device.index
        place = "" if index is None else f":{index}"
        notes.append(f"device='{tensor.device.type}{place}'")
    if meta or (len(shape) != 1 if empty else PRINT_OPTS.edgeitems == 0):
        notes.append(f"size={shape}")
    if not _is_implied(tensor.dtype, bare=meta or empty):
        notes.append(f"dtype={tensor.dtype}")
    notes.extend(_grad_note(tensor))
    return notes


def _is_implied(dtype: dtypes.dtype, bare: bool) -> bool:
    """Whether the elements alone tell the dtype; `bare` is for none to be seen."""
    default = dtypes.get_default_dtype()
    if dtype is default or bare:
        return dtype is default
    return dtype in (dtypes.int64, dtypes.bool_, default.to_complex())


def _grad_note(tensor: Any) -> list[str]:
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view whose base was written to in a way that has no gradient
        return ["grad_fn=<Invalid>"]
    if node is not None:
        return [f"grad_fn=<{node.name().rsplit('::', 1)[-1]}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def _append_notes(text: str, notes: Sequence[str], indent: int) -> str:
    """Each note on the current line where it fits, else on a line of its own start."""
    # PyTorch counts two columns more than the line has; where it breaks depends on it.
    column = len(text) - text.rfind("\n") + 1
    parts = [text]
    for note in notes:
        if column + len(note) + 2 > PRINT_OPTS.linewidth:
            parts.append(",\n" + " " * indent + note)
            column = indent + len(note)
        else:
            parts.append(", " + note)
            column += len(note) + 2
    return "".join(parts)
