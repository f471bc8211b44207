"""Random programs of views and in-place writes, run on torch and on tapegrad side by side.

Every step is taken by both libraries; then every tensor made so far must agree in all that can be
seen of it, and both must have refused alike. At the end every tensor is differentiated.
`TAPEGRAD_PARITY_SELF=1` runs torch against torch, which tests this file;
`TAPEGRAD_PARITY_RANDOM=1` draws new programs instead of the fixed ones.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule

SELF = os.environ.get("TAPEGRAD_PARITY_SELF") == "1"
MODULES = (torch, torch if SELF else importlib.import_module("tapegrad"))

SHAPES = [(), (1,), (4,), (2, 3), (3, 1), (2, 2, 2), (0,)]
STALE = "its base or another view of its base has been modified"
NAMED = re.compile(r", which is output \d+ of [\w:]+,")
small = st.integers(-3, 3)
sizes = st.integers(0, 3)

ViewOp = Callable[[Any, int, int], Any]

# Two small integers parametrise each op; those that do not fit test the refusals.
VIEWS: dict[str, ViewOp] = {
    "select": lambda t, a, b: t.select(a, b),
    "narrow": lambda t, a, b: t.narrow(a, b, 1),
    "index": lambda t, a, b: t[a],
    "slice_from": lambda t, a, b: t[a:],
    "slice_to": lambda t, a, b: t[..., :b],
    "slice_last": lambda t, a, b: t[-2:, ...],
    "slice_step": lambda t, a, b: t[:: abs(a) + 1],
    "ellipsis": lambda t, a, b: t[...],
    "new_axis": lambda t, a, b: t[None],
    "view_flat": lambda t, a, b: t.view(-1),
    "view_rows": lambda t, a, b: t.view(a, -1),
    "reshape": lambda t, a, b: t.reshape(-1, b),
    "flatten": lambda t, a, b: t.flatten(),
    "transpose": lambda t, a, b: t.transpose(a, b),
    "t": lambda t, a, b: t.t(),
    "permute": lambda t, a, b: t.permute(*reversed(range(t.dim()))),
    "mT": lambda t, a, b: t.mT,
    "movedim": lambda t, a, b: t.movedim(a, b),
    "squeeze": lambda t, a, b: t.squeeze(),
    "squeeze_dim": lambda t, a, b: t.squeeze(a),
    "unsqueeze": lambda t, a, b: t.unsqueeze(a),
    "expand": lambda t, a, b: t.expand(2, *t.shape),
    "expand_rows": lambda t, a, b: t.expand(abs(a), -1) if t.dim() else t.expand(abs(a)),
    "diagonal": lambda t, a, b: t.diagonal(a),
    "windows": lambda t, a, b: t.unfold(a, abs(b), max(abs(b), 1)),
    "as_strided": lambda t, a, b: t.as_strided(t.shape[:1], t.stride()[:1]),
    "view_as": lambda t, a, b: t.view_as(t),
    "contiguous": lambda t, a, b: t.contiguous(),
    "detach": lambda t, a, b: t.detach(),
    "data": lambda t, a, b: t.data,
}

MULTI_VIEWS: dict[str, ViewOp] = {
    "unbind": lambda t, a, b: t.unbind(a),
    "split": lambda t, a, b: t.split(abs(b), a),
    "split_sizes": lambda t, a, b: t.split([1, abs(b)], a),
    "chunk": lambda t, a, b: t.chunk(abs(b), a),
    "iterate": lambda t, a, b: tuple(t),
}

WRITES: dict[str, ViewOp] = {
    "add": lambda t, a, b: t.add_(a),
    "mul": lambda t, a, b: t.mul_(0.5),
    "neg": lambda t, a, b: t.neg_(),
    "sin": lambda t, a, b: t.sin_(),
    "tanh": lambda t, a, b: t.tanh_(),
    "sigmoid": lambda t, a, b: t.sigmoid_(),
    "pow": lambda t, a, b: t.pow_(2),
    "clamp": lambda t, a, b: t.clamp_(-1.75, 1.75),
    "fill": lambda t, a, b: t.fill_(b),
    "zero": lambda t, a, b: t.zero_(),
    "square": lambda t, a, b: t.mul_(t),
    "div": lambda t, a, b: t.div_(2),
    "exp": lambda t, a, b: t.exp_(),
    "relu": lambda t, a, b: t.relu_(),
    "cumsum": lambda t, a, b: t.cumsum_(a),
    "masked_fill": lambda t, a, b: t.masked_fill_(t > a, b),
    "detach": lambda t, a, b: t.detach_(),
}

WRITES_OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda t, u: t.add_(u),
    "sub": lambda t, u: t.sub_(u),
    "mul": lambda t, u: t.mul_(u),
    "copy": lambda t, u: t.copy_(u),
}

ASSIGNMENTS: dict[str, ViewOp] = {
    "int": lambda t, a, b: t.__setitem__(a, 0.25),
    "slice": lambda t, a, b: t.__setitem__(slice(a, None), 0.5),
    "last": lambda t, a, b: t.__setitem__((..., b), 0.75),
    # An index out of range comes first: torch writes what stands before it, tapegrad nothing.
    "list": lambda t, a, b: t.__setitem__([a, 0], -0.25),
    "doubled": lambda t, a, b: t.__setitem__(a, t[a] * 2),
    "mask": lambda t, a, b: t.__setitem__(t > a, 0.125),
    "everything": lambda t, a, b: t.__setitem__(..., 1.25),
}

PURE: dict[str, Callable[[Any], Any]] = {
    "mul": lambda t: t * 2,
    "sin": lambda t: t.sin(),
    "tanh": lambda t: t.tanh(),
    "clone": lambda t: t.clone(),
    "cube": lambda t: t.pow(3),
    "sum": lambda t: t.sum(),
    "mean": lambda t: t.mean(),
    "relu": lambda t: t.relu(),
    "take": lambda t: t[[0, 0]],
    "take_first": lambda t: t[..., [0]],
    "take_positive": lambda t: t[t > 0],
}

PURE_OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda t, u: t + u,
    "mul": lambda t, u: t * u,
}


class Pair(NamedTuple):
    """One tensor of the program, as each library has it."""

    reference: Any
    subject: Any


class Refusal(NamedTuple):
    """What an action raised; only the first line, since tapegrad's messages go on."""

    kind: str
    line: str


def attempt(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Exception as error:
        return Refusal(type(error).__name__, (str(error).strip().splitlines() or [""])[0].strip())


def check_refusals(expected: Any, found: Any) -> None:
    """Either both refuse, in the same words, or none does. The exceptions are wanted."""
    if not (isinstance(expected, Refusal) or isinstance(found, Refusal)):
        return
    line = expected.line if isinstance(expected, Refusal) else ""
    other = found.line if isinstance(found, Refusal) else ""
    if line and other and (STALE in line or STALE in other):
        pass  # whether the stale view or another mistake is noticed first is not compared
    elif "has been detached in-place" in line:
        pass  # tapegrad can use these: a node keeps the history that its saved values had
    elif line and other:
        # What torch calls an overwritten tensor depends on which views of it still live.
        assert (found.kind, NAMED.sub("", other)) == (expected.kind, NAMED.sub("", line))
    else:
        assert found == expected


def facts(t: Any) -> dict[str, Any]:
    """Everything that both libraries must agree on, refusals included.

    Strides matter where they lead somewhere: in dimensions with more than one element.
    """
    strides = [step for n, step in zip(t.shape, t.stride(), strict=True) if n > 1]
    return {
        "shape": tuple(t.shape),
        "stride": strides if t.numel() else None,
        "offset": t.storage_offset() if t.numel() else None,
        "version": attempt(lambda: t._version),
        "is_view": attempt(lambda: t._is_view()),
        "requires_grad": attempt(lambda: t.requires_grad),
        "is_leaf": attempt(lambda: t.is_leaf),
        "grad_fn": attempt(lambda: None if t.grad_fn is None else t.grad_fn.name()),
        "output_nr": attempt(lambda: t.output_nr),
    }


def close(a: Any, b: Any) -> bool:
    """Nested lists of floats that agree to rounding, with NaN equal to itself."""
    if isinstance(a, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    if math.isnan(a):
        return math.isnan(b)
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-11)


def agree(pair: Pair) -> None:
    expected, found = facts(pair.reference), facts(pair.subject)
    assert found == expected
    assert close(pair.reference.tolist(), pair.subject.tolist()), pair


def same_storage(target: Any, other: Any) -> bool:
    return bool(target.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


def overlaps(target: Any, other: Any) -> bool:
    """Whether writing `target` could change `other` while it is read, in torch's memory."""
    if not same_storage(target, other):
        return False
    place = (target.shape, target.stride(), target.storage_offset())
    return place != (other.shape, other.stride(), other.storage_offset())


def packed(t: Any) -> Any:
    """A copy whose strides depend on the shape only."""
    module = MODULES[0] if isinstance(t, MODULES[0].Tensor) else MODULES[1]
    return t.clone(memory_format=module.contiguous_format)


def repeats(t: Any) -> bool:
    """Whether several elements share one place: then the order of writing would show."""
    return any(n > 1 and step == 0 for n, step in zip(t.shape, t.stride(), strict=True))


def is_trainable_leaf(t: Any) -> bool:
    """False also for a view that has become unusable: asking it for its history raises."""
    return attempt(lambda: t.requires_grad and t.is_leaf) is True


class RandomPrograms(RuleBasedStateMachine):
    tensors = Bundle("tensors")

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[Pair] = []
        self.recording = True

    def both(self, action: Callable[..., Any], *pairs: Pair) -> tuple[Any, Any]:
        """Do it in both libraries, in the present grad mode; they must succeed or refuse alike."""
        results = []
        for side, module in enumerate(MODULES):
            with module.set_grad_enabled(self.recording), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.append(attempt(lambda side=side: action(*(p[side] for p in pairs))))
        expected, found = results
        check_refusals(expected, found)
        return expected, found

    def keep(self, *pairs: Pair) -> Any:
        """Remember new tensors, then compare everything there is."""
        self.pairs.extend(pairs)
        for pair in self.pairs:
            agree(pair)
        return multiple(*pairs)

    def make(self, action: Callable[..., Any], *pairs: Pair) -> Any:
        """One new tensor, or none where both refuse."""
        expected, found = self.both(action, *pairs)
        return self.keep() if isinstance(expected, Refusal) else self.keep(Pair(expected, found))

    def write(self, action: Callable[..., Any], *pairs: Pair) -> None:
        self.both(action, *pairs)
        self.keep()

    def has_views(self, t: Pair) -> bool:
        return any(p.reference._base is t.reference for p in self.pairs)

    def leaf(self, shape: tuple[int, ...], requires_grad: bool) -> Pair:
        count = math.prod(shape)
        start = float(len(self.pairs)) - 1.5
        values = [start + 0.5 * i for i in range(count)]
        made = [m.tensor(values, dtype=m.float64).reshape(shape).clone() for m in MODULES]
        return Pair(*(t.requires_grad_(requires_grad) for t in made))

    @initialize(target=tensors, shape=st.sampled_from([(4,), (2, 3), (2, 2, 2)]))
    def start(self, shape: tuple[int, ...]) -> Any:
        x, plain = self.leaf(shape, True), self.leaf(shape, False)
        expected, found = self.both(lambda t: t * 1, x)
        return self.keep(x, plain, Pair(expected, found))

    @rule(target=tensors, shape=st.sampled_from(SHAPES), requires_grad=st.booleans())
    def new_leaf(self, shape: tuple[int, ...], requires_grad: bool) -> Any:
        return self.keep(self.leaf(shape, requires_grad))

    @rule(target=tensors, t=tensors, name=st.sampled_from(sorted(VIEWS)), a=small, b=small)
    def view(self, t: Pair, name: str, a: int, b: int) -> Any:
        return self.make(lambda x: VIEWS[name](x, a, b), t)

    @rule(target=tensors, t=tensors, name=st.sampled_from(sorted(MULTI_VIEWS)), a=small, b=sizes)
    def multi_view(self, t: Pair, name: str, a: int, b: int) -> Any:
        expected, found = self.both(lambda x: MULTI_VIEWS[name](x, a, b), t)
        if isinstance(expected, Refusal):
            return self.keep()
        assert len(found) == len(expected)
        return self.keep(*map(Pair, expected, found))

    @rule(target=tensors, t=tensors, name=st.sampled_from(sorted(PURE)))
    def compute(self, t: Pair, name: str) -> Any:
        return self.make(PURE[name], t)

    @rule(target=tensors, t=tensors, u=tensors, name=st.sampled_from(sorted(PURE_OF_TWO)))
    def compute_of_two(self, t: Pair, u: Pair, name: str) -> Any:
        action = PURE_OF_TWO[name]
        same = t.reference.shape == u.reference.shape
        if same and t.reference.is_contiguous() and u.reference.is_contiguous():
            return self.make(action, t, u)
        # The layout of the result of two that lie differently is up to the array library.
        return self.make(lambda x, y: packed(action(x, y)), t, u)

    @rule(t=tensors, name=st.sampled_from(sorted(WRITES)), a=small, b=small)
    def write_in_place(self, t: Pair, name: str, a: int, b: int) -> None:
        forgets = name == "detach" and self.has_views(t)  # the views would not know what to follow
        if not forgets and not (repeats(t.reference) and name in ("fill", "zero", "masked_fill")):
            self.write(lambda x: WRITES[name](x, a, b), t)

    @rule(t=tensors, u=tensors, name=st.sampled_from(sorted(WRITES_OF_TWO)))
    def write_in_place_of_two(self, t: Pair, u: Pair, name: str) -> None:
        copied = overlaps(t.reference, u.reference)
        if name == "copy" and repeats(t.reference) and not copied:
            return  # torch takes a copy onto itself for nothing done, and fails in backward
        self.write(lambda x, y: WRITES_OF_TWO[name](x, y.clone() if copied else y), t, u)

    @rule(t=tensors, name=st.sampled_from(sorted(ASSIGNMENTS)), a=small, b=small)
    def assign(self, t: Pair, name: str, a: int, b: int) -> None:
        if name == "list" and not t.reference.numel():
            return  # torch does not look at indices with nothing to write
        if not repeats(t.reference):
            self.write(lambda x: ASSIGNMENTS[name](x, a, b), t)

    @rule(t=tensors, u=tensors, index=st.sampled_from([0, -1, slice(1, None), ..., None, [0]]))
    def assign_tensor(self, t: Pair, u: Pair, index: Any) -> None:
        if not repeats(t.reference):
            copied = same_storage(t.reference, u.reference)
            self.write(lambda x, y: x.__setitem__(index, y.clone() if copied else y), t, u)

    @rule(t=tensors, requires_grad=st.booleans())
    def require_grad(self, t: Pair, requires_grad: bool) -> None:
        # Views made before would require grad with nothing behind them, and all made from them.
        # A view of such a leaf that is no leaf itself would lose its history in torch's next write.
        if not self.has_views(t) and not (requires_grad and t.reference._is_view()):
            self.write(lambda x: x.requires_grad_(requires_grad), t)

    @rule()
    def toggle_grad_mode(self) -> None:
        self.recording = not self.recording

    def teardown(self) -> None:
        """Differentiate every tensor by every leaf; what succeeds is also accumulated."""
        self.recording = True
        leaves = [p for p in self.pairs if is_trainable_leaf(p.reference)]
        for pair in self.pairs:
            if not (leaves and pair.reference.requires_grad):
                continue
            found = self.differentiate(pair, leaves)
            if isinstance(found, Refusal) or all(g is None for g in found):
                continue
            self.both(lambda t: t.sum().backward(retain_graph=True), pair)
        for leaf in leaves:
            self.same_gradient(leaf.reference.grad, leaf.subject.grad)

    def differentiate(self, pair: Pair, leaves: list[Pair]) -> Any:
        results = []
        for side, module in enumerate(MODULES):
            inputs = [p[side] for p in leaves]
            out = pair[side]
            weights = module.arange(1.0, out.numel() + 1, dtype=module.float64).reshape(out.shape)
            results.append(
                attempt(
                    lambda m=module, o=out, w=weights, i=inputs: m.autograd.grad(
                        (o * w).sum(), i, retain_graph=True, allow_unused=True
                    )
                )
            )
        expected, found = results
        check_refusals(expected, found)
        if isinstance(expected, Refusal):
            return expected
        for a, b in zip(expected, found, strict=True):
            self.same_gradient(a, b)
        return expected

    def same_gradient(self, expected: Any, found: Any) -> None:
        assert (expected is None) == (found is None)
        if expected is not None:
            assert tuple(found.shape) == tuple(expected.shape)
            assert close(expected.tolist(), found.tolist()), (expected, found)


TestRandomPrograms = RandomPrograms.TestCase
TestRandomPrograms.settings = settings(
    derandomize=os.environ.get("TAPEGRAD_PARITY_RANDOM") != "1",
    max_examples=300,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
