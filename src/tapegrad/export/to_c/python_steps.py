"""Steps that run in Python in a compiled step, and have a text in C all the same."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...compiler.program.steps import OpStep, Step
from ...core.base import TensorBase
from ...core.strides import address, channels_last
from ...kernels.cpu.blas import CONNECTED
from ...nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_
from ...ops.nn import batch_norm
from ...optim.lr_scheduler import LRScheduler
from .elementwise import NoPrinter
from .places import Memory, number
from .printers import Call, function, panel_size, room_for

Printed = Any  # of program.py
Printer = Callable[[Any, Printed], str]


def statement(step: Step, printed: Printed) -> str | None:
    """The statement for a step without kernels; None: there is none."""
    if isinstance(step, OpStep):
        printer = OPS.get(step.name)
    else:
        called: Any = getattr(step, "function", None)
        printer = WHOLE.get(called)
        if printer is None and isinstance(getattr(called, "__self__", None), LRScheduler):
            printer = scheduler
    return None if printer is None else printer(step, printed)


# ---------------------------------------------------------------------- whole numbers


def counted(step: Any, printed: Printed) -> str:
    """A number added to whole ones, such as the count of batches."""
    target, more = step.arrays[0], step.arrays[1]
    if isinstance(more, np.ndarray) and more.size == 1:
        more = more.item()
    if target.dtype != np.int64 or not isinstance(more, int) or not target.flags.c_contiguous:
        raise NoPrinter("an addition in Python")
    more *= next((v for v in step.attrs if isinstance(v, int)), 1)
    at = printed.memory.pointer(address(target), "int64_t", True)
    if target.size == 1:
        return f"*({at}) += {more};"
    return f"for (int64_t i = 0; i < {target.size}; i++)\n    ({at})[i] += {more};"


def sum_of_whole(step: Any, printed: Printed) -> str:
    """The sum of whole numbers or of truths."""
    x, out = step.arrays[0], step.made[0]
    T = {"int64": "int64_t", "bool": "unsigned char"}.get(str(x.dtype))
    if T is None or out.dtype != np.int64 or not x.flags.c_contiguous:
        raise NoPrinter("a sum in Python")
    given = printed.memory.pointer(address(x), T)
    to = printed.memory.pointer(address(out), "int64_t", True)
    return f"*{to} = 0;\nfor (int64_t i = 0; i < {x.size}; i++)\n    *{to} += ({given})[i];"


def quotient(step: Any, printed: Printed) -> str:
    """A number divided by a whole one, such as a count."""
    a, b, out = *step.arrays[:2], step.made[0]
    types = {"float32": "float", "float64": "double", "int64": "int64_t"}
    given = [types.get(str(getattr(x, "dtype", ""))) for x in (a, b)]
    if (step.attrs and step.attrs[0] is not None) or None in given or a.size * b.size != 1:
        raise NoPrinter("a division in Python")
    if out.dtype != a.dtype:
        raise NoPrinter("a division of whole numbers")
    x, y = (printed.memory.pointer(address(v), T) for v, T in zip((a, b), given, strict=True))
    return f"*{printed.memory.pointer(address(out), given[0], True)} = *{x} / ({given[0]})*{y};"


# ---------------------------------------------------------------------- batch norm


def running_statistics(step: Any, printed: Printed) -> str:
    """The running mean and variance of batch norm, which follow those of a batch."""
    mean, var, stats, count, momentum = step.args
    arrays = [t._array for t in (mean, var, stats)]
    if len({x.dtype for x in arrays}) > 1 or arrays[0].dtype.name not in ("float32", "float64"):
        raise NoPrinter("running statistics of another dtype")
    kind, T, f = ("f64", "double", "") if arrays[0].itemsize == 8 else ("f32", "float", "f")
    found = printed.memory.pointer(address(arrays[2]), T)
    unbiased = number(count / (count - 1) if count > 1 else math.nan, f)
    rates = [number(1 - momentum, f), number(momentum, f)]
    features = arrays[0].size
    return "\n".join(
        [
            function(
                f"follow_{kind}",
                printed.memory.pointer(address(x), T, True),
                f"{found} + {row * features}" if row else found,
                *[features, scale, *rates],
            )
            for x, row, scale in ((arrays[0], 0, number(1.0, f)), (arrays[1], 2, unbiased))
        ]
    )


# ---------------------------------------------------------------------- small convolutions


FEW = 32  # outputs of an image: with less it is a product (kernels/cpu/overrides/conv.py)


def is_one_product(a: Any, b: Any, kernel: Any, out: Any, how: Any) -> bool:
    """Whether the kernels compute a convolution as one product with the matrix of all windows."""
    *_, transposed, _, groups = how
    if transposed or groups > 1 or math.prod(kernel) == 1 or not 0 < math.prod(out) < FEW:
        return False
    if a.dtype != b.dtype or a.dtype.name not in ("float32", "float64") or not CONNECTED:
        return False
    return all([x.size and x.flags.c_contiguous and not channels_last(x) for x in (a, b)])


class Small:
    """A convolution of images so small that it is one product with the matrix of all windows."""

    def __init__(self, arrays: Any, shapes: Any, how: Any, memory: Memory) -> None:
        x, w, y = shapes
        kernel, out = w[2:], y[2:]
        if not is_one_product(*arrays, kernel, out, how):
            raise NoPrinter("a convolution of this kind")
        self.call = Call(f"conv_{'f64' if arrays[0].itemsize == 8 else 'f32'}", (), (), ())
        self.kind, self.memory = self.call.kind, memory
        self.images, self.features, self.pixels = x[0], y[1], math.prod(out)
        self.rows, self.columns = x[1] * math.prod(kernel), x[0] * self.pixels
        axes: list[Any] = [(1, 1, 1, 0, 1, 1)] * (3 - len(kernel))
        axes += zip(x[2:], kernel, *how[:1], *how[1:3], out, strict=True)
        self.numbers = [*x[:2], *itertools.chain(*axes)]
        size = self.rows * self.columns
        more = self.features * self.columns
        panel = panel_size(1, max(self.rows, self.columns, self.features), 1)
        self.matrix = room_for(self.call, memory, size + more + panel)
        self.by_feature = f"{self.matrix} + {size}"
        self.panel = f"{self.matrix} + {size + more}"

    def at(self, array: Any, writes: bool = False) -> str:
        return self.memory.pointer(address(array), self.call.T, writes)

    def windows(self, x: str, back: bool) -> str:
        numbers = self.memory.table(self.numbers, "windows")
        if not back:  # one function for both directions: what it reads is not written
            x = f"({self.call.T} *)(void *)(uintptr_t)({x})"
        return function(f"windows_{self.kind}", x, self.matrix, numbers, int(back))

    def exchanged(self, source: str, to: str, first: int, second: int) -> str:
        return function(f"features_first_{self.kind}", source, to, first, second, self.pixels)

    def product(self, m: int, n: int, k: int, a: Any, b: Any, out: str) -> str:
        return function(f"product_{self.kind}", m, n, k, *a, *b, "NULL", out, n, self.panel)


def convolution(step: Any, printed: Printed) -> str:
    (x, w, bias), y = step.arrays, step.made[0]
    s = Small((x, w), (x.shape, w.shape, y.shape), step.attrs, printed.memory)
    lines = [
        s.windows(s.at(x), False),
        s.product(
            *(s.features, s.columns, s.rows),
            (s.at(w), s.rows, 1),
            (s.matrix, s.columns, 1),
            s.by_feature,
        ),
    ]
    if bias is not None:
        lines += [
            f"for (int64_t i = 0; i < {s.features * s.columns}; i++)",
            f"    ({s.by_feature})[i] += ({s.at(bias)})[i / {s.columns}];",
        ]
    lines.append(s.exchanged(s.by_feature, s.at(y, True), s.features, s.images))
    return "\n".join(lines)


def input_gradient(step: Any, printed: Printed) -> str:
    (y, w), (shape, how) = step.arrays, step.attrs
    s = Small((y, w), (shape, w.shape, y.shape), how, printed.memory)
    lines = [
        s.exchanged(s.at(y), s.by_feature, s.images, s.features),
        s.product(
            *(s.rows, s.columns, s.features),
            (s.at(w), 1, s.rows),
            (s.by_feature, s.columns, 1),
            s.matrix,
        ),
        s.windows(s.at(step.made[0], True), True),
    ]
    return "\n".join(lines)


def weight_gradient(step: Any, printed: Printed) -> str:
    (y, x), (shape, how) = step.arrays, step.attrs
    s = Small((x, y), (x.shape, shape, y.shape), how, printed.memory)
    lines = [
        s.exchanged(s.at(y), s.by_feature, s.images, s.features),
        s.windows(s.at(x), False),
        s.product(
            *(s.features, s.rows, s.columns),
            (s.by_feature, s.columns, 1),
            (s.matrix, 1, s.columns),
            s.at(step.made[0], True),
        ),
    ]
    return "\n".join(lines)


# ---------------------------------------------------------------------- gradients, all at once


def gradients_of(step: Any, printed: Printed) -> tuple[str, list[Any]]:
    """The kind of arrays, and pointers to them with their sizes."""
    given = step.args[0]
    leaves = [given] if isinstance(given, TensorBase) else list(given)
    arrays = [printed.gradients.get(id(p)) for p in leaves]
    found = [x for x in arrays if x is not None]
    if not found or len({x.dtype for x in found}) > 1 or found[0].dtype.kind != "f":
        raise NoPrinter("gradients of several dtypes, or none")
    if any([not x.flags.c_contiguous for x in found]):
        raise NoPrinter("gradients that are not contiguous")
    kind, T = ("f64", "double") if found[0].itemsize == 8 else ("f32", "float")
    return kind, [(printed.memory.pointer(address(x), T, True), x.size) for x in found]


def options(step: Any, *names: str) -> list[Any]:
    """The arguments after the parameters, by name or in order."""
    values = dict(zip(names, step.args[1:], strict=False))
    return [values.get(name, step.kwargs.get(name)) for name in names]


def clip_norm(step: Any, printed: Printed) -> str:
    most, order, _, foreach = options(
        step, "max_norm", "norm_type", "error_if_nonfinite", "foreach"
    )
    order = float(2.0 if order is None else order)
    kind, given = gradients_of(step, printed)
    pieces = -(-sum([size for _, size in given]) // 16384)
    if order not in (1.0, 2.0, math.inf) or foreach is False or pieces > 128:
        raise NoPrinter("a norm of this kind")
    T, f = ("double", "") if kind == "f64" else ("float", "f")
    code = 0 if order == math.inf else int(order)
    lines = [f"double parts[{pieces}];", "int64_t count = 0;"]
    lines += [function(f"norm_on_{kind}", at, size, code, "&count", "parts") for at, size in given]
    if code:
        lines.append(f"const double all = sum_few_f64(parts, {pieces});")
    else:
        lines += ["double all = parts[0];", f"for (int i = 1; i < {pieces}; i++)"]
        lines.append("    all = larger_f64(all, parts[i]);")
    norm = f"({T})all" if code < 2 else f"sqrt{f}(({T})all)"
    lines += [
        f"const {T} norm = {norm};",
        f"const {T} by = {number(float(most), f)} / (norm + {number(1e-6, f)});",
        "if (by < 1 || by != by) {",
        *[f"    scale_{kind}({at}, {size}, by);" for at, size in given],
        "}",
    ]
    for made in step.made:
        lines.append(f"*{printed.memory.pointer(address(made), T, True)} = norm;")
    body = "".join([f"    {line}\n" for line in lines])
    name = printed.named(
        f"clip {len(printed.statements)}",
        lambda name: f"static void {name}(void) {{\n{body}}}\n",
    )
    return f"{name}();"


def clip_value(step: Any, printed: Printed) -> str:
    most, foreach = options(step, "clip_value", "foreach")
    kind, given = gradients_of(step, printed)
    if foreach is False:
        raise NoPrinter("clipping one by one")
    limit = number(float(most), "" if kind == "f64" else "f")
    return "\n".join([f"limit_{kind}({at}, {size}, {limit});" for at, size in given])


def scheduler(step: Any, printed: Printed) -> str:
    """The next learning rates, from a table."""
    if step.args or step.kwargs:
        raise NoPrinter("a scheduler that is told a value")
    return f"{printed.schedule(step.function)}();"


OPS: dict[str, Printer] = {
    "add_": counted,
    "sum_all": sum_of_whole,
    "div": quotient,
    "convolution": convolution,
    "conv_input_grad": input_gradient,
    "conv_weight_grad": weight_gradient,
}
WHOLE: dict[Any, Printer] = {
    getattr(f, "__wrapped__", f): printer
    for f, printer in (
        (clip_grad_norm_, clip_norm),
        (clip_grad_value_, clip_value),
        (batch_norm.update, running_statistics),
    )
}
