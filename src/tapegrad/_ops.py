"""`torch.ops.aten`: the names that PyTorch gives to single ops, as objects that can be called.

Selective checkpointing hands them to policies, which compare: `op == torch.ops.aten.mm.default`.

>>> import tapegrad as torch
>>> torch.ops.aten.mm.default
<OpOverload(op='aten.mm', overload='default')>
>>> torch.ops.aten.add.Tensor(torch.ones(2), 1)
tensor([2., 2.])
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import tapegrad as tg

from .core.base import TensorBase
from .core.op import REGISTRY, Op
from .core.publish import find, load_family
from .core.spaces import RECORDED
from .ops.block.lazy_aten import ATEN

__all__ = ["OpOverload", "OpOverloadPacket"]

# What PyTorch runs in the place of some ops on other devices or in other formats. Programs name
# these in lists of ops, where they have to be found; nothing here runs them.
ABROAD = frozenset(
    """
    _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_cudnn_attention _flash_attention_forward _efficient_attention_forward
    _scaled_mm cudnn_convolution miopen_convolution mkldnn_convolution
    cudnn_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional
    convolution_overrideable _thnn_fused_lstm_cell _thnn_fused_gru_cell
    """.split()
)


class OpOverload:
    """One op with one set of arguments: `aten.add.Tensor`. There is one object of each."""

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self._overloadpacket = packet
        self._overloadname = overload
        self.namespace = packet.namespace
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__qualname__ = self.name()
        self.__module__ = f"torch._ops.{packet.namespace}"

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        return self._overloadpacket

    def name(self) -> str:
        """As PyTorch's schemas have it: aten::mm, aten::add.Tensor."""
        packet = self._overloadpacket._qualified_op_name
        return packet if self._overloadname == "default" else f"{packet}.{self._overloadname}"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._overloadpacket(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self._overloadpacket}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._overloadpacket}', overload='{self._overloadname}')>"


class OpOverloadPacket:
    """All overloads of one op: `aten.add`."""

    def __init__(self, namespace: str, name: str, known: list[str]) -> None:
        self.namespace = namespace
        self.__name__ = name
        self.__module__ = f"torch._ops.{namespace}"
        self._qualified_op_name = f"{namespace}::{name}"
        self._dir = known

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return list(self._dir)

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("__") or overload not in self._dir:
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{overload}'")
        return self._made(overload)

    def _made(self, overload: str) -> OpOverload:
        if overload not in self.__dict__:
            setattr(self, overload, OpOverload(self, overload))
        found: OpOverload = self.__dict__[overload]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._dir)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return implementation(self.__name__)(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"


class _OpNamespace(types.ModuleType):
    """`torch.ops.aten`: makes a packet when its name is first asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self.name = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        known = [] if name.startswith("__") else self._known(name)
        if not known:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        found = OpOverloadPacket(self.name, name, known)
        setattr(self, name, found)
        return found

    def _known(self, name: str) -> list[str]:
        if self.name == "tapegrad":
            return ["default"] if any(op.aten is None for op in ops_called(name)) else []
        if name.endswith("_"):
            return written_form(name)
        return overloads(name) or (["default"] if exists(name) else [])

    def __repr__(self) -> str:
        return f"<module 'torch.ops.{self.name}' from 'torch.ops'>"


def written_form(name: str) -> list[str]:
    """The overloads of an op that writes into its first argument: those of the op itself."""
    if not hasattr(tg.Tensor, name):
        return []
    return list(dict.fromkeys([*overloads(name[:-1]), *overloads(name)])) or ["default"]


def exists(name: str) -> bool:
    """Whether a function that is no op of ours is one of PyTorch's. It has no `softmax`."""
    if name in ABROAD:
        return True
    return public(name) is not None and name not in REGISTRY


def ops_called(name: str) -> list[Op]:
    """Our ops of a name in PyTorch, `softmax` for `_softmax`; and what only we have."""
    for family, names in ATEN.items():
        if name in names.split():
            load_family(family)
    return [op for op in REGISTRY.values() if op.aten_name() == name]


def overloads(name: str) -> list[str]:
    """The overloads of an aten op that some op of ours stands for; empty if there is none."""
    found: dict[str, None] = {}
    for op in ops_called(name):
        if op.aten is not None:
            found[op.aten.partition(".")[2] or "default"] = None
            found |= dict.fromkeys([each for each in (op.aten_number, *op.aten_dim) if each])
    return list(found)


def public(name: str) -> Callable[..., Any] | None:
    """The public function or method that is an aten op."""
    spaces = ("linalg_", "special_", "fft_")
    paths = [name, f"nn.functional.{name}"]
    paths += [name.replace("_", ".", 1) for space in spaces if name.startswith(space)]
    for path in paths:
        found = find(path) or (getattr(tg, path, None) if path == name else None)
        if isinstance(found, (types.FunctionType, types.BuiltinFunctionType)):
            return found
    method = getattr(tg.Tensor, name, None)
    return method if callable(method) else None


# Questions that PyTorch has as ops.
QUESTIONS: dict[str, Callable[..., Any]] = {
    "size": lambda input: list(input.shape),
    "stride": lambda input: list(input.stride()),
}


@functools.cache
def implementation(name: str) -> Callable[..., Any]:
    """What runs when an aten op is called."""
    if name in ABROAD:
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend."
        )
    ops = ops_called(name)
    adapted = [op.aten_call for op in ops if op.aten_call is not None]
    found = adapted[0] if adapted else QUESTIONS.get(name) or public(name)
    return found or getattr(RECORDED, ops[0].name)  # type: ignore[no-any-return]


NAMESPACES: dict[str, _OpNamespace] = {n: _OpNamespace(n) for n in ("aten", "tapegrad")}


def overload_of(op: Op, tensors: Any, attrs: tuple[Any, ...]) -> OpOverload:
    """What PyTorch would call an op of ours that runs with these arguments."""
    packet: OpOverloadPacket
    if op.aten is None:
        packet = getattr(NAMESPACES["tapegrad"], op.name)
        return packet._made("default")
    name, _, overload = op.aten.partition(".")
    if op.aten_number and not isinstance(tensors[-1], TensorBase):
        overload = op.aten_number
    elif op.aten_dim:
        one, several = op.aten_dim
        dim = attrs[op.attrs.index("dim")]
        if dim is not None:
            single = isinstance(dim, int) or len(dim) == 1
            overload = one if single and one else several
    packet = getattr(NAMESPACES["aten"], name)
    return packet._made(overload or "default")
