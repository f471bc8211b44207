"""Random programs of views and in-place writes, mirrored by NumPy.

A tensor's mirror is an array of its values and one of its slopes by every element of the leaves,
both kept as NumPy keeps views: a write to a view of the one is a write to a view of the other. What
is checked is what PyTorch promises: values, versions, what requires grad, whose view a tensor is,
every gradient; that a leaf refuses to be written; and that backward refuses if, and only if, a
value that it needs was written since. tests/parity/test_random_programs.py has more ops and
compares with PyTorch itself. `TAPEGRAD_RANDOM=1` draws new programs instead of the fixed ones.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule
from numpy.lib.stride_tricks import as_strided

import tapegrad as torch

LEAVES = ((2, 3), (4,))
SIZES = [math.prod(shape) for shape in LEAVES]
COUNT = sum(SIZES)  # slopes of every element

Array = Any
Cut = tuple[Any, ...]


class Cell:
    """The version of one memory."""

    n = 0


Needs = frozenset[tuple[Cell, int]]  # values that backward reads, with the version they had


class History:
    """What a tensor and all its views have in common: the slopes, and what backward will read."""

    def __init__(self, base: Any, slopes: Array, requires: bool, leaf: bool = False) -> None:
        self.base = base  # the tensor that owns it; None behind detach()
        self.slopes = slopes
        self.requires = requires
        self.leaf = leaf
        self.must: Needs = frozenset()  # backward goes there
        self.may: Needs = frozenset()  # it may go there with zeros, or see that it need not

    def depends_on(self, *others: History) -> None:
        for other in others:
            if other.requires:
                self.must |= other.must
                self.may |= other.may


class Pair:
    """A tensor, and what NumPy knows about it."""

    def __init__(self, t: Any, values: Array, slopes: Array, cell: Cell, history: History) -> None:
        self.tensor = t
        self.values = values
        self.slopes = slopes
        self.cell = cell
        self.history = history

    @property
    def requires(self) -> bool:
        return self.history.requires

    @property
    def now(self) -> Needs:
        """What an op that saves this tensor will read."""
        return frozenset([(self.cell, self.cell.n)])

    @property
    def large(self) -> bool:
        """Whether products would soon be infinite."""
        return bool(np.abs(self.values).max(initial=0) > 100)

    @property
    def repeats(self) -> bool:
        steps = zip(self.values.shape, self.values.strides, strict=True)
        return any(n > 1 and step == 0 for n, step in steps)


# ---------------------------------------------------------------------- what can be done

# Of tensors, and of arrays: of values, or of slopes, which have one dimension more at the end.
VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Array, int], Array]]] = {
    "transpose": (lambda t: t.transpose(0, -1), lambda a, dims: a.swapaxes(0, dims - 1)),
    "flat": (lambda t: t.view(-1), lambda a, dims: a.reshape(-1, *a.shape[dims:])),
    "unsqueeze": (lambda t: t.unsqueeze(0), lambda a, dims: a[None]),
    "expand": (
        lambda t: t.expand(2, *t.shape),
        lambda a, dims: as_strided(a, (2, *a.shape), (0, *a.strides)),
    ),
    "diagonal": (lambda t: t.diagonal(), lambda a, dims: diagonal(a)),
    "half": (lambda t: t.narrow(0, 0, half(t)), lambda a, dims: a[: half(a)]),
}


def half(a: Any) -> int:
    return -(-len(a) // 2)


def diagonal(a: Array) -> Array:
    """NumPy's own cannot be written to."""
    return np.einsum("ii...->i...", a)


def sigmoid(v: Array) -> Array:
    return 1 / (1 + np.exp(-v))


# Value, slope by the value; whether the rule reads the input ("in"), the result ("out") or nothing.
UNARY: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array], str]] = {
    "neg": (lambda v: -v, lambda v: -np.ones_like(v), ""),
    "sin": (np.sin, np.cos, "in"),
    "sigmoid": (sigmoid, lambda v: sigmoid(v) * (1 - sigmoid(v)), "out"),
    "tanh": (np.tanh, lambda v: 1 - np.tanh(v) ** 2, "out"),
}
CUTS = [(0,), (-1,), (slice(1, None),), (slice(None, None, 2),), (..., 0), (..., slice(1, 3)), ()]


def cut_slopes(slopes: Array, cut: Cut) -> Array:
    return slopes[(*cut, slice(None)) if ... in cut else cut]


class ViewsMirrorNumPy(RuleBasedStateMachine):
    pairs = Bundle("pairs")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Pair] = []
        self.leaves: list[Pair] = []

    # ------------------------------------------------------------------ making

    def keep(self, *new: Pair) -> Any:
        """Remember tensors, then compare all there are."""
        self.all += new
        for pair in self.all:
            self.compare(pair)
        return multiple(*new)

    def fresh(self, t: Any, values: Array, slopes: Array, requires: bool) -> Pair:
        """A new tensor with memory of its own."""
        shape = (*values.shape, COUNT)
        own = np.array(np.broadcast_to(slopes, shape)) if requires else np.zeros(shape)
        history = History(t, own, requires)
        return Pair(t, np.array(values), own, Cell(), history)

    @initialize(target=pairs)
    def start(self) -> Any:
        offset = 0
        for shape, size in zip(LEAVES, SIZES, strict=True):
            values = 0.25 * np.arange(offset, offset + size).reshape(shape) - 1
            slopes = np.zeros((size, COUNT))
            slopes[np.arange(size), offset + np.arange(size)] = 1
            t = torch.tensor(values.tolist(), dtype=torch.float64, requires_grad=True)
            pair = self.fresh(t, values, slopes.reshape(*shape, COUNT), True)
            pair.history.leaf = True
            self.leaves.append(pair)
            offset += size
        return self.keep(*self.leaves, *[self.computed("neg", p) for p in self.leaves])

    @rule(target=pairs, shape=st.sampled_from([(), (3,), (2, 3), (3, 3), (2, 2, 2)]))
    def constant(self, shape: tuple[int, ...]) -> Any:
        values = np.linspace(-1, 1.5, math.prod(shape)).reshape(shape)
        t = torch.tensor(values.tolist(), dtype=torch.float64).reshape(shape).clone()
        return self.keep(self.fresh(t, values, np.zeros(COUNT), False))

    # ------------------------------------------------------------------ views

    def shown(self, p: Pair, t: Any, values: Array, slopes: Array) -> Pair:
        """Another look at the memory of `p`, with its history."""
        assert np.shares_memory(values, p.values) or not values.size
        return Pair(t, values, slopes, p.cell, p.history)

    @rule(target=pairs, p=pairs, cut=st.sampled_from(CUTS))
    def cut(self, p: Pair, cut: Cut) -> Any:
        try:
            # An index alone gives a NumPy scalar, which is no view.
            values = p.values[(*cut, ...)] if ... not in cut else p.values[cut]
        except IndexError:
            with pytest.raises(IndexError):
                p.tensor[cut]
            return self.keep()
        if not isinstance(values, np.ndarray):
            values = p.values[..., 0:1].reshape(())
        return self.keep(self.shown(p, p.tensor[cut], values, cut_slopes(p.slopes, cut)))

    @rule(target=pairs, p=pairs, name=st.sampled_from(sorted(VIEWS)))
    def view(self, p: Pair, name: str) -> Any:
        of_tensor, of_array = VIEWS[name]
        dims = p.values.ndim
        if name == "diagonal" and (dims != 2 or p.values.shape[0] != p.values.shape[1]):
            return self.keep()
        if name in ("transpose", "half") and (not dims or not p.values.size):
            return self.keep()
        if name == "flat" and not p.values.flags.c_contiguous:
            return self.keep()
        made = of_tensor(p.tensor)
        return self.keep(
            self.shown(p, made, of_array(p.values, dims), of_array(p.slopes, dims)),
        )

    @rule(target=pairs, p=pairs)
    def detach(self, p: Pair) -> Any:
        """The same memory and the same version, but no history."""
        none = np.zeros(p.slopes.shape)
        return self.keep(
            Pair(p.tensor.detach(), p.values, none, p.cell, History(None, none, False)),
        )

    # ------------------------------------------------------------------ computing

    def computed(self, name: str, p: Pair, recording: bool = True) -> Pair:
        value, slope, reads = UNARY[name]
        with torch.set_grad_enabled(recording):
            t = getattr(p.tensor, name)()
        requires = p.requires and recording
        made = self.fresh(t, value(p.values), slope(p.values)[..., None] * p.slopes, requires)
        if requires:
            made.history.depends_on(p.history)
            made.history.must |= p.now if reads == "in" else made.now if reads == "out" else set()
        return made

    @rule(target=pairs, p=pairs, name=st.sampled_from(sorted(UNARY)), recording=st.booleans())
    def compute(self, p: Pair, name: str, recording: bool) -> Any:
        return self.keep(self.computed(name, p, recording))

    @rule(target=pairs, p=pairs)
    def total(self, p: Pair) -> Any:
        slopes = p.slopes.reshape(-1, COUNT).sum(0)
        made = self.fresh(p.tensor.sum(), p.values.sum(), slopes, p.requires)
        made.history.depends_on(p.history)
        return self.keep(made)

    @rule(target=pairs, p=pairs, q=pairs, product=st.booleans())
    def combine(self, p: Pair, q: Pair, product: bool) -> Any:
        try:
            shape = np.broadcast_shapes(p.values.shape, q.values.shape)
        except ValueError:
            return self.keep()
        if product and p.large | q.large:
            return self.keep()
        if product:
            t, values = p.tensor * q.tensor, p.values * q.values
            slopes = p.slopes * q.values[..., None] + q.slopes * p.values[..., None]
        else:
            t, values, slopes = p.tensor + q.tensor, p.values + q.values, p.slopes + q.slopes
        assert values.shape == shape
        made = self.fresh(t, values, slopes, p.requires or q.requires)
        made.history.depends_on(p.history, q.history)
        if product:
            made.history.must |= (q.now if p.requires else set()) | (p.now if q.requires else set())
        return self.keep(made)

    # ------------------------------------------------------------------ writing

    def refused(self, p: Pair, write: Callable[[], Any]) -> bool:
        """Whether the write is one that must not be: then it is refused before it happens."""
        if p.history.leaf:
            subject = "leaf" if p.tensor is p.history.base else "view of a leaf"
            sentence = f"a {subject} Variable that requires grad is being used in an in-place"
        elif p.repeats:
            sentence = "more than one element of the written-to tensor refers to a single memory"
        else:
            return False
        with pytest.raises(RuntimeError, match=sentence):
            write()
        self.keep()  # nothing has changed
        return True

    def written(self, p: Pair, values: Array, slopes: Array, q: Pair | None, drops: bool) -> None:
        """The mirror of a recorded write; `drops` if the old values do not matter any more."""
        p.values[...] = values
        p.cell.n += 1
        history = p.history
        requires = history.requires or (q is not None and q.requires)
        if drops and p.tensor is history.base:
            history.may |= history.must
            history.must = frozenset()
        if q is not None:
            history.depends_on(q.history)
        history.requires = requires
        if requires:
            p.slopes[...] = slopes

    @rule(p=pairs, name=st.sampled_from(sorted(UNARY)))
    def write_unary(self, p: Pair, name: str) -> None:
        value, slope, reads = UNARY[name]
        write = getattr(p.tensor, f"{name}_")
        if self.refused(p, write):
            return
        write()
        self.written(p, value(p.values), slope(p.values)[..., None] * p.slopes, None, False)
        if reads == "out" and p.requires:  # what is overwritten, and read, is kept as a copy
            p.history.must |= p.now
        self.keep()

    @rule(p=pairs, number=st.sampled_from([0.5, -2.0]), name=st.sampled_from(["add_", "mul_"]))
    def write_number(self, p: Pair, number: float, name: str) -> None:
        write = getattr(p.tensor, name)
        if self.refused(p, lambda: write(number)):
            return
        write(number)
        factor = number if name == "mul_" else 1.0
        values = p.values * number if name == "mul_" else p.values + number
        self.written(p, values, p.slopes * factor, None, False)
        self.keep()

    @rule(p=pairs, q=pairs, name=st.sampled_from(["add_", "mul_", "copy_"]))
    def write_tensor(self, p: Pair, q: Pair, name: str) -> None:
        if not fits(q.values.shape, p.values.shape) or name == "mul_" and p.large | q.large:
            return
        write = getattr(p.tensor, name)
        if q.cell is p.cell:  # a copy, lest it changes while it is read
            q = self.copied(q)
        if self.refused(p, lambda: write(q.tensor)):
            return
        needs = q.now if name == "mul_" and p.requires else frozenset()
        write(q.tensor)
        if name == "copy_":
            self.written(p, q.values, q.slopes, q, True)
        elif name == "add_":
            self.written(p, p.values + q.values, p.slopes + q.slopes, q, False)
        else:
            slopes = p.slopes * q.values[..., None] + q.slopes * p.values[..., None]
            self.written(p, p.values * q.values, slopes, q, False)
        p.history.must |= needs
        self.keep()

    def copied(self, q: Pair) -> Pair:
        made = self.fresh(q.tensor.clone(), q.values, q.slopes, q.requires)
        made.history.depends_on(q.history)
        return made

    @rule(p=pairs, cut=st.sampled_from(CUTS), number=st.sampled_from([0.0, 1.25]))
    def assign(self, p: Pair, cut: Cut, number: float) -> None:
        """`t[cut] = number`: a write to a view that nobody holds."""
        try:
            part = p.values[(*cut, ...)] if ... not in cut else p.values[cut]
        except IndexError:
            return
        if not np.size(part) or p.repeats:
            return
        if self.refused(p, lambda: p.tensor.__setitem__(cut, number)):
            return
        p.tensor[cut] = number
        p.values[cut or ...] = number
        p.cell.n += 1
        if p.requires:
            cut_slopes(p.slopes, cut or (...,))[...] = 0
        self.keep()

    @rule(p=pairs, number=st.sampled_from([0.5, 2.0]))
    def write_unrecorded(self, p: Pair, number: float) -> None:
        """As an optimizer does: the values change, and nothing else but the version."""
        if p.repeats:
            return
        with torch.no_grad():
            p.tensor.mul_(number)
        p.values *= number
        p.cell.n += 1
        self.keep()

    # ------------------------------------------------------------------ looking

    def compare(self, p: Pair) -> None:
        """Values and versions; whoever asks a view for more makes it follow its base."""
        t = p.tensor
        assert tuple(t.shape) == p.values.shape
        with torch.no_grad():
            np.testing.assert_allclose(t.numpy(), p.values, rtol=1e-13, atol=1e-15)
        assert t._version == p.cell.n

    @rule(p=pairs)
    def look(self, p: Pair) -> None:
        t, history = p.tensor, p.history
        assert t.requires_grad == history.requires
        if history.base is not None:
            assert t._base is (None if t is history.base else history.base)
            assert t.is_leaf == (history.leaf and t is history.base or not history.requires)

    def teardown(self) -> None:
        """Differentiate everything by the leaves."""
        leaves = [p.tensor for p in self.leaves]
        for p in self.all:
            if not p.requires or not p.values.size:
                continue
            weights = np.linspace(0.5, 1.5, p.values.size).reshape(p.values.shape)
            found = gradients((p.tensor * torch.from_numpy(weights)).sum(), leaves)
            old = any(cell.n != n for cell, n in p.history.must)
            perhaps = any(cell.n != n for cell, n in p.history.may)
            if found is None:
                assert old or perhaps
                continue
            assert not old
            wanted = (weights[..., None] * p.slopes).reshape(-1, COUNT).sum(0)
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
        for p in self.all:
            self.look(p)


def fits(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(small, large) == large
    except ValueError:
        return False


def gradients(loss: Any, leaves: list[Any]) -> Array | None:
    """The gradients by all elements of the leaves in a row; None if a value was overwritten."""
    try:
        found = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        assert "has been modified by an inplace operation" in str(error)
        return None
    parts = [
        np.zeros(t.numel()) if g is None else g.numpy().reshape(-1)
        for t, g in zip(leaves, found, strict=True)
    ]
    return np.concatenate(parts)


TestViewsMirrorNumPy = ViewsMirrorNumPy.TestCase
TestViewsMirrorNumPy.settings = settings(
    derandomize=os.environ.get("TAPEGRAD_RANDOM") != "1",
    database=None,
    max_examples=150,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
