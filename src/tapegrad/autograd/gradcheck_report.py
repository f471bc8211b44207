"""The report about a wrong gradient: PyTorch's text, the worst element, a likely cause."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import tapegrad as tg

from ..core.base import TensorBase
from ..core.devices import to_host
from ..core.strides import address
from ..errors import evidence
from .finite_differences import array_of, as_tuple, double_values, moved, values_of
from .gradcheck import GradcheckError

FAST_TEXT = (
    "\nThe above quantities relating the numerical and analytical jacobians are computed \n"
    "in fast mode. See: https://github.com/pytorch/pytorch/issues/53876 for more background \n"
    "about fast mode. Below, we recompute numerical and analytical jacobians in slow mode:\n\n"
    "Numerical:\n {}\nAnalytical:\n{}\n\nThe max per-element difference (slow mode) is: {}.\n"
)
MANY = 1_000_000  # elements up to which memory is searched for overlaps


@dataclasses.dataclass
class Finding:
    """Where two Jacobians disagree: differentiable output and input by their numbers."""

    trial: Any
    output: int
    input: int
    part: str  # "", "real" or "imaginary": of the outputs by backward, of the inputs forward
    forward: bool

    def sentence(self) -> str:
        considering = ""
        if self.part == "imaginary" or (self.part == "real" and self.is_split()):
            what = "inputs" if self.forward else "outputs"
            considering = f"While considering the {self.part} part of complex {what} only, "
        mode = "computed with forward mode " if self.forward else ""
        return (
            f"{considering}Jacobian {mode}mismatch for output {self.output} with respect to input "
            f"{self.input},"
        )

    def is_split(self) -> bool:
        trial = self.trial
        side = trial.inputs[self.input] if self.forward else trial.outputs[self.output]
        found: bool = side.is_complex()
        return found

    @property
    def tensor(self) -> Any:
        return self.trial.inputs[self.input]


def mismatch(finding: Finding, numeric: Any, analytic: Any, slow: Any) -> GradcheckError:
    """The error; `slow` are the full Jacobians (numeric, analytic) if only a sum was compared."""
    text = f"{finding.sentence()}\nnumerical:{numeric}\nanalytical:{analytic}\n"
    if slow is not None:
        difference = float(np.abs(double_values(slow[1]) - double_values(slow[0])).max(initial=0.0))
        text += FAST_TEXT.format(slow[0], slow[1], difference)
        numeric, analytic = slow
    facts = worst_element(finding, double_values(numeric), double_values(analytic))
    cause = likely_cause(finding, double_values(numeric), double_values(analytic), facts)
    lines = [*(spell_worst(finding, facts) if facts else []), f"  likely cause: {cause}"]
    error = GradcheckError(text + "\n" + "\n".join(lines))
    error.diagnosis = {  # type: ignore[attr-defined]
        "message": finding.sentence(),
        "output": finding.output,
        "input": finding.input,
        "mode": "forward" if finding.forward else "backward",
        "cause": cause,
        **facts,
    }
    return error


# ---------------------------------------------------------------------- the worst element


def worst_element(finding: Finding, numeric: Any, analytic: Any) -> dict[str, Any]:
    """The element whose error is the largest compared with what is allowed; empty for no element.

    Not a number counts as infinitely wrong.
    """
    if numeric.size == 0:
        return {}
    options = finding.trial.options
    with np.errstate(all="ignore"):
        error = np.abs(analytic - numeric)
        allowed = options.atol + options.rtol * np.abs(numeric)
        excess = np.where(np.isfinite(error), error / np.maximum(allowed, 1e-300), np.inf)
    excess[analytic == numeric] = 0
    row, column = np.unravel_index(int(excess.argmax()), excess.shape)
    t = finding.tensor
    output = finding.trial.outputs[finding.output]
    return {
        "argument": next(i for i, a in enumerate(finding.trial.args) if a is t),
        "name": evidence.name_of(t._array),
        "input_index": [int(i) for i in np.unravel_index(row, t.shape)] if t.shape else [],
        "output_index": [int(i) for i in np.unravel_index(column, output.shape)]
        if output.shape
        else [],
        "analytic": analytic[row, column].item(),
        "numeric": numeric[row, column].item(),
        "allowed": float(allowed[row, column]),
        "wrong": int((excess > 1).sum()),
        "elements": int(excess.size),
    }


def spell_worst(finding: Finding, facts: dict[str, Any]) -> list[str]:
    name = f" `{facts['name']}`" if facts["name"] else ""
    off = abs(facts["analytic"] - facts["numeric"])
    return [
        f"  worst element: output {finding.output}{facts['output_index'] or ''} by input "
        f"{finding.input}{facts['input_index'] or ''} (argument {facts['argument']}{name}): "
        f"analytic {facts['analytic']:.8g}, numeric {facts['numeric']:.8g}",
        f"  {'off by:':<14}{off:.3g} where {facts['allowed']:.3g} is allowed; {facts['wrong']} of "
        f"{facts['elements']} elements differ",
    ]


# ---------------------------------------------------------------------- causes


def likely_cause(finding: Finding, numeric: Any, analytic: Any, facts: Any) -> str:
    """The first explanation of the difference that holds."""
    return (
        single_precision(finding)
        or random_function(finding.trial)
        or overlap(finding.trial, finding.tensor)
        or (kink(finding, facts) if facts and finding.tensor.layout is tg.strided else None)
        or pattern(numeric, analytic)
        or "the gradient that the function defines is not its derivative"
    )


def single_precision(finding: Finding) -> str | None:
    t = finding.tensor
    output = finding.trial.outputs[finding.output]
    for what, x in ((f"input {finding.input}", t), (f"output {finding.output}", output)):
        if x._array.dtype not in (np.float64, np.complex128):
            eps = finding.trial.options.eps
            return f"{what} is {x.dtype}: a step of {eps} drowns in rounding; use .double() inputs"
    return None


def same_values(a: Any, b: Any) -> bool:
    return np.array_equal(to_host(array_of(a)), to_host(array_of(b)), equal_nan=True)


def random_function(trial: Any) -> str | None:
    """Whether func gives something else when it is called again."""
    again = as_tuple(trial.call())
    for before, now in zip(trial.everything, again, strict=False):
        same = before.shape == now.shape and same_values(before, now)
        if not same:
            return "func is not deterministic: a second call on the same inputs differs"
    return None


def overlap(trial: Any, t: Any) -> str | None:
    """Memory that several elements share: a step moves all of them at once."""
    if t.layout is not tg.strided:
        return None
    array = t._array
    if array.size <= MANY and len(np.unique(addresses(array))) < array.size:
        return "elements of the input overlap in memory; pass .contiguous()"
    for i, other in enumerate(trial.args):
        if other is t or not isinstance(other, TensorBase) or other.layout is not tg.strided:  # type: ignore[attr-defined]
            continue
        if other._array.size <= MANY and array.size <= MANY:
            shared = np.intersect1d(addresses(array), addresses(other._array)).size
            if shared:
                return f"the input shares memory with argument {i}; pass .clone()"
    return None


def addresses(array: Any) -> Any:
    """The offset of each element in memory, in bytes."""
    found = np.full(array.shape, address(array), np.int64)
    for axis, stride in enumerate(array.strides):
        steps = np.arange(array.shape[axis]) * stride
        found = found + steps.reshape([-1 if i == axis else 1 for i in range(array.ndim)])
    return found.reshape(-1)


def kink(finding: Finding, facts: dict[str, Any]) -> str | None:
    """Whether the slopes on the two sides of the worst element differ: func is not smooth there."""
    trial = finding.trial
    eps = trial.options.eps
    place = trial.places[finding.output]
    at = tuple(facts["output_index"])
    here = double_values(trial.everything[place])[at]
    sides = []
    for delta in (-eps, eps):
        outputs = moved(trial.call, values_of(finding.tensor), tuple(facts["input_index"]), delta)
        sides.append((double_values(outputs[place])[at] - here) / delta)
    left, right = sides
    if not (np.isfinite(left) and np.isfinite(right)):
        return "func is not finite next to this point"
    # The rounding of one-sided differences is about that of the values over eps.
    noise = 1e-13 * max(abs(here), 1.0) / eps
    if abs(left - right) > 0.01 * max(abs(left), abs(right)) + 100 * noise:
        return f"func has a kink there: slope {left:.4g} on one side, {right:.4g} on the other"
    return None


def pattern(numeric: Any, analytic: Any) -> str | None:
    """Mistakes that can be told from the two matrices."""
    with np.errstate(all="ignore"):
        if not np.isfinite(analytic).all():
            return "the analytic gradient is not finite"
        if not np.isfinite(numeric).all():
            return "func returns values that are not finite near the inputs"
        if not analytic.any():
            return "no gradient comes back: a detach, or a backward that returns None or zeros"
        if np.iscomplexobj(analytic) and np.allclose(analytic, numeric.conj(), 1e-3, 1e-5):
            return "the analytic gradient is the complex conjugate of the right one"
        weight = np.abs(numeric) ** 2
        factor = (analytic * numeric.conj()).sum() / weight.sum() if weight.any() else np.nan
        if np.isfinite(factor) and factor != 0:
            scaled = numeric * factor
            if np.allclose(analytic, scaled, 1e-3, 1e-5 * max(1.0, abs(factor))):
                if np.isclose(factor, -1):
                    return "the sign: the analytic gradient is minus the right one"
                return f"a factor: the analytic gradient is {factor:.4g} times the right one"
        if analytic.shape[0] == analytic.shape[1]:
            if np.allclose(analytic, numeric.T, 1e-3, 1e-5):
                return "a transpose: the analytic Jacobian is that of the right one"
    return None
