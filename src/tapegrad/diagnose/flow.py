"""`gradient_flow(model)`: how large the gradients are, parameter by parameter.

>>> import tapegrad as torch
>>> layer = torch.nn.Linear(2, 1, bias=False)
>>> layer(torch.tensor([[3.0, 4.0]])).sum().backward()
>>> torch.diagnose.gradient_flow(layer).rows[0]["norm"]
5.0

The bars are on a logarithmic scale: a bar that is much shorter at the input than at the output is a
gradient that vanishes on its way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.array_kind import host
from ..core.base import TensorBase
from ..errors import evidence
from . import words

BAR = 24  # columns of a full bar
MARKS = {"zero": "ZERO", "nan": "NAN", "useless": "useless in front of a norm"}
NOTHING = 1e-4  # of its weight's gradient: what rounding leaves of a bias that is subtracted again


class GradientFlow:
    """The result of `gradient_flow`: `rows`, one dict per parameter in the order of the model."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def data(self) -> list[dict[str, Any]]:
        return self.rows

    @property
    def notes(self) -> list[str]:
        """Remarks about gradients that are missing, zero, very small or very large."""
        found = []
        for mark, text in (
            ("none", "without gradient: unused in the loss, or backward() has not run; see why()"),
            ("nan", "with NaN or infinite values: see torch.autograd.detect_anomaly()"),
            ("zero", "with a gradient that is zero everywhere: dead units, or a masked loss"),
            (
                "useless",
                "in front of a normalisation, which takes the mean away and the bias with it: no "
                "gradient, no use; bias=False leaves them out",
            ),
            ("frozen", "frozen (requires_grad=False)"),
            ("lazy", "of lazy layers that have not seen an input yet"),
        ):
            names = [row["name"] for row in self.rows if row["mark"] == mark]
            if names:
                shown = ", ".join(names[:4]) + (" ..." if len(names) > 4 else "")
                found.append(f"{len(names)} {text}: {shown}")
        low, high = self._range()
        if low and high / low > 1e4:
            small = next(row["name"] for row in self.rows if row["norm"] == low)
            large = next(row["name"] for row in self.rows if row["norm"] == high)
            found.append(
                f"the gradient of {large} is {high / low:.0e} times that of {small}: "
                "normalisation, skip connections or another initialisation even this out"
            )
        return found

    def _range(self) -> tuple[float, float]:
        norms = [row["norm"] for row in self.rows if row["mark"] == ""]
        return (min(norms), max(norms)) if norms else (0.0, 0.0)

    def _bar(self, norm: float) -> str:
        low, high = self._range()
        decades = max(math.log10(high / low), 2.0)  # almost equal gradients have almost equal bars
        share = 1 + math.log10(norm / high) / (decades * 1.25)
        return "#" * max(round(BAR * share), 1)

    def __repr__(self) -> str:
        if not self.rows:
            return "No parameters."
        rows = [["parameter", "shape", "|grad|", "mean", "max", "grad/weight", ""]]
        for row in self.rows:
            shape = "?" if row["shape"] is None else "x".join(map(str, row["shape"])) or "()"
            name = words.clipped(row["name"], 36)
            if row["norm"] is None:
                rows.append([name, shape, row["mark"], "", "", "", ""])
                continue
            keys = ("norm", "mean_abs", "max_abs", "ratio")
            values = [words.digits(row[key]) for key in keys]
            bar = self._bar(row["norm"]) if row["mark"] == "" else f"<- {MARKS[row['mark']]}"
            rows.append([name, shape, *values, bar])
        lines = words.table(rows, right=[2, 3, 4, 5], indent=0)
        for note in self.notes:
            lines.append("! " + words.paragraph(note, "  ").lstrip())
        if any(row["ratio"] for row in self.rows):
            lines.append(
                "grad/weight times the learning rate is how much a plain SGD step changes a "
                "parameter;\naround 0.001 is usual."
            )
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Bars in matplotlib (which has to be installed), on `ax` or a new figure; returns it."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError:
                raise ImportError(
                    "gradient_flow(...).plot() needs matplotlib: pip install matplotlib; "
                    "print() shows the same as text"
                ) from None
            _, ax = pyplot.subplots(figsize=(7, 0.3 * len(self.rows) + 1.5))
        colours = {"": "tab:blue", "zero": "tab:orange", "nan": "tab:red", "useless": "lightgrey"}
        names = [row["name"] for row in self.rows]
        usable = [row["norm"] if row["mark"] == "" else 0.0 for row in self.rows]
        ax.barh(names, usable, color=[colours.get(row["mark"], "lightgrey") for row in self.rows])
        for i, row in enumerate(self.rows):
            if row["mark"]:
                ax.annotate(f" {row['mark']}", (1.0, i), va="center")
        if any(usable):
            ax.set_xscale("log")
        ax.invert_yaxis()
        ax.set_xlabel("gradient norm")
        ax.set_title("gradient flow")
        return ax


def gradient_flow(model: Any) -> GradientFlow:
    """Norm, mean and maximum of every parameter's gradient; for a module, or named tensors."""
    rows = [row_of(name, t) for name, t in named_tensors(model)]
    if evidence.is_module(model):
        mark_useless(model, rows)
    return GradientFlow(rows)


def mark_useless(model: Any, rows: list[dict[str, Any]]) -> None:
    """Biases whose layer is followed by a norm over the same channels, and that have no gradient.

    The order is that in which the layers were made; the gradient tells whether it is the one in
    which they run.
    """
    from ..nn.modules.batchnorm import _NormBase

    norms = {row["name"]: row["norm"] for row in rows}
    layers = [(path, m) for path, m in model.named_modules() if not list(m.children())]
    for (path, layer), (_, after) in zip(layers, layers[1:], strict=False):
        bias = f"{path}.bias" if path else "bias"
        weight = norms.get(bias.removesuffix("bias") + "weight")
        if norms.get(bias) is None or not weight or not isinstance(after, _NormBase):
            continue
        if layer.bias.numel() == after.num_features and norms[bias] < NOTHING * weight:
            next(row for row in rows if row["name"] == bias)["mark"] = "useless"


def named_tensors(model: Any) -> list[tuple[str, Any]]:
    """(name, tensor) pairs of a module, a dict, a list of pairs or of tensors."""
    if evidence.is_module(model):
        return list(model.named_parameters())
    if isinstance(model, TensorBase):
        return [(words.name_of(model) or "tensor", model)]
    pairs: list[tuple[str, Any]] = []
    if isinstance(model, dict):
        pairs = list(model.items())
    elif hasattr(model, "__iter__"):
        for i, item in enumerate(model):
            pairs.append(item if isinstance(item, tuple) and len(item) == 2 else (f"[{i}]", item))
    else:
        pairs = [("", model)]
    for name, t in pairs:
        if not isinstance(t, TensorBase):
            where = f"{model!r:.40}" if name == "" else f"the item {name}, {type(t).__name__}"
            raise TypeError(
                "gradient_flow(): argument 'model' must be a Module, or named tensors, not " + where
            )
    return [(str(name), t) for name, t in pairs]


def row_of(name: str, t: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name,
        "shape": None if words.is_lazy(t) else list(t.shape),
        "norm": None,
        "mean_abs": None,
        "max_abs": None,
        "ratio": None,
        "mark": "",
    }
    grad = t._gradient
    if row["shape"] is None:
        row["mark"] = "lazy"
        return row
    if grad is None:
        row["mark"] = "none" if t.requires_grad else "frozen"
        return row
    array = host((grad.to_dense() if grad.is_sparse else grad)._array)
    size = np.abs(array).astype(np.float64)
    weight = float(np.sqrt(np.sum(np.abs(host(t._array)).astype(np.float64) ** 2)))
    if not size.size:
        row.update(norm=0.0, mean_abs=0.0, max_abs=0.0, mark="zero")
        return row
    with np.errstate(all="ignore"):
        row["norm"] = float(np.sqrt(np.sum(size**2)))
        row["mean_abs"] = float(size.mean())
        row["max_abs"] = float(size.max())
    if not np.isfinite(size).all():
        row["mark"] = "nan"
    elif row["norm"] == 0:
        row["mark"] = "zero"
    if weight:
        row["ratio"] = row["norm"] / weight
    return row
