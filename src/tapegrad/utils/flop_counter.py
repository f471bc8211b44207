"""How many floating point operations a piece of a program takes: products and convolutions.

A multiplication and an addition are two operations; what is elementwise is not counted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ..nn.modules.module import Module
from ..ops.nn.conv import Convolution
from ..ops.products.addmm import Addmm, Baddbmm
from ..ops.products.matmul import Bmm, Mm
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map

__all__ = ["FlopCounterMode", "register_flop_formula"]

Shape = Any


def mm_flop(a_shape: Shape, b_shape: Shape, *args: Any, **kwargs: Any) -> int:
    """The operations of a product of matrices."""
    (m, k), (_, n) = a_shape, b_shape
    return int(2 * m * n * k)


def addmm_flop(self_shape: Shape, a_shape: Shape, b_shape: Shape, *args: Any, **kw: Any) -> int:
    """The operations of a product that is added."""
    return mm_flop(a_shape, b_shape)


def bmm_flop(a_shape: Shape, b_shape: Shape, *args: Any, **kwargs: Any) -> int:
    """The operations of a batch of products."""
    b, m, k = a_shape
    return int(2 * b * m * k * b_shape[-1])


def baddbmm_flop(self_shape: Shape, a_shape: Shape, b_shape: Shape, *args: Any, **kw: Any) -> int:
    """The operations of a batch of products that is added."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x: Shape, w: Shape, out: Shape, transposed: bool = False) -> int:
    """The operations of a convolution: each filter at each place."""
    places = (x if transposed else out)[2:]
    return int(2 * math.prod(places) * math.prod(w) * x[0])


def conv_flop(
    x: Shape,
    w: Shape,
    bias: Any,
    stride: Any = None,
    padding: Any = None,
    dilation: Any = None,
    transposed: bool = False,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """The operations of a convolution op."""
    return conv_flop_count(x, w, out_shape, transposed)


def conv_backward_flop(
    grad_out: Shape,
    x: Shape,
    w: Shape,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Any,
    *args: Any,
    out_shape: Any = None,
) -> int:
    """The operations of the gradients of a convolution."""
    count = conv_flop_count(x, w, grad_out, transposed)
    return count * (bool(output_mask[0]) + bool(output_mask[1]))


def sdpa_flop(query: Shape, key: Shape, value: Shape, *args: Any, **kwargs: Any) -> int:
    """The operations of attention: scores, and the sums that they weight."""
    b, h, q, d = query
    k, v = key[2], value[3]
    return int(2 * b * h * q * k * d + 2 * b * h * q * k * v)


# By the names in torch.ops.aten.
flop_registry: dict[str, Callable[..., int]] = {
    Mm.name: mm_flop,
    Addmm.name: addmm_flop,
    Bmm.name: bmm_flop,
    Baddbmm.name: baddbmm_flop,
    Convolution.name: conv_flop,
    "_convolution": conv_flop,
    "convolution_backward": conv_backward_flop,
    "scaled_dot_product_attention": sdpa_flop,
}


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Any], Any]:
    """Say how many operations an op of one's own takes."""

    def decorate(formula: Callable[..., int]) -> Callable[..., int]:
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            flop_registry[target.__name__.partition(".")[0]] = formula
        return formula

    return decorate


def shape_of(value: Any) -> Any:
    return value.shape if isinstance(value, tg.Tensor) else value


class _Counting(TorchDispatchMode):
    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.counter.count(func._overloadpacket, out, args, kwargs or {})
        return out


class FlopCounterMode:
    """Counts the operations inside a `with` block.

    >>> from tapegrad.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = ones(2, 3) @ ones(3, 4)
    >>> counter.get_total_flops()
    48
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        given = [] if mods is None else [mods] if isinstance(mods, Module) else list(mods)
        self.mods, self.depth, self.display = given, depth, display
        self.registry = dict(flop_registry)
        for op, formula in (custom_mapping or {}).items():
            self.registry[op.__name__.partition(".")[0]] = formula
        self.flop_counts: dict[str, dict[Any, int]] = {}
        self.parents: list[str] = ["Global"]

    def count(self, packet: Any, out: Any, args: Any, kwargs: Any) -> None:
        formula = self.registry.get(packet.__name__)
        if formula is None:
            return
        args, kwargs, out = tree_map(shape_of, (args, kwargs, out))
        number = formula(*args, **kwargs, out_shape=out)
        for parent in dict.fromkeys(self.parents):
            self.flop_counts[parent][packet] += number

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self.handles = []
        for mod in self.mods:
            for name, inner in mod.named_modules(prefix=type(mod).__name__):
                self.handles.append(inner.register_forward_pre_hook(self._enters(name)))
                self.handles.append(inner.register_forward_hook(self._leaves))
        self.mode = _Counting(self)
        self.mode.__enter__()
        return self

    def _enters(self, name: str) -> Callable[..., None]:
        def enter(module: Any, inputs: Any) -> None:
            self.parents.append(name)

        return enter

    def _leaves(self, module: Any, inputs: Any, outputs: Any) -> None:
        self.parents.pop()

    def __exit__(self, *error: Any) -> None:
        self.mode.__exit__(*error)
        for handle in self.handles:
            handle.remove()
        if self.display:
            print(self.get_table(self.depth))

    def get_total_flops(self) -> int:
        """All operations."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """The operations of each module, by op."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text: modules to some depth, and their ops."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops() or 1
        rows = [("Module", "FLOP", "% Total")]
        for name, counts in self.flop_counts.items():
            level = 0 if name == "Global" else name.count(".") + 1
            if level > depth:
                continue
            number = sum(counts.values())
            rows.append((" " * level + name, f"{number:,}", f"{100 * number / total:.2f}%"))
            for op, part in counts.items():
                rows.append((" " * level + f" - {op}", f"{part:,}", f"{100 * part / total:.2f}%"))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
