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
from tapegrad._library.registry import DEFS, overloads_of
from tapegrad._library.running import bound
from tapegrad._library.running import call as run_custom
from tapegrad._library.schema import FunctionSchema, aten_schema, aten_schemas, parse_schema
from tapegrad.api.publish import find, load_family
from tapegrad.core.arguments import REDUCTIONS
from tapegrad.core.base import TensorBase
from tapegrad.core.late_bound import DISPATCHED
from tapegrad.core.op import REGISTRY, Op
from tapegrad.core.python_dispatch import ACTIVE, pending
from tapegrad.core.rule_functions import RECORDED
from tapegrad.ops.block.lazy_aten import ATEN

__all__ = ["OpOverload", "OpOverloadPacket"]

# What PyTorch runs in the place of some ops on other devices or in other formats. Programs name
# these in lists of ops, where they have to be found; nothing here runs them.
ABROAD = frozenset(
    """
    _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_cudnn_attention _flash_attention_forward _efficient_attention_forward
    _scaled_mm cudnn_convolution miopen_convolution mkldnn_convolution
    cudnn_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional
    convolution_overrideable _thnn_fused_lstm_cell _thnn_fused_gru_cell _sparse_addmm
    _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_efficient_attention_backward _assert_scalar _assert_tensor_metadata
    sym_constrain_range_for_size _grouped_mm
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
        """The name in PyTorch's schemas: aten::mm, aten::add.Tensor."""
        packet = self._overloadpacket._qualified_op_name
        return packet if self._overloadname == "default" else f"{packet}.{self._overloadname}"

    @property
    def op(self) -> OpOverloadPacket:
        return self._overloadpacket

    @functools.cached_property
    def _schema(self) -> FunctionSchema:
        """The declaration; of ops that PyTorch does not have, one in our names."""
        definition = DEFS.get(self.name())
        if definition is not None:
            return definition.schema
        found = None
        if self.namespace == "aten":
            found = aten_schema(self._overloadpacket.__name__, self._overloadname)
        return found or parse_schema(own_schema(self))

    @property
    def tags(self) -> list[Any]:
        """The tags of a user-defined op; PyTorch's own ops have none here."""
        definition = DEFS.get(self.name())
        return [] if definition is None else list(definition.tags)

    @property
    def is_view(self) -> bool:
        """Whether a result shares memory with an argument that is not written."""
        shared = [r.alias_info for r in self._schema.returns]
        return any(info is not None and not info.is_write for info in shared)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if ACTIVE.calls:
            call = pending(self, args, kwargs)
            if call is not None:
                return call.again(args, kwargs)
        definition = DEFS.get(self.name())
        if definition is not None:
            return run_custom(definition, self, args, kwargs)
        return self._overloadpacket(*args, **self.named(kwargs))

    def named(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments under the names that our functions have."""
        if self.namespace != "aten":
            return kwargs
        if "self" in kwargs:
            kwargs = {("input" if k == "self" else k): v for k, v in kwargs.items()}
        # A word about memory that most of our functions do not take.
        return {k: v for k, v in kwargs.items() if k != "pin_memory" or v}

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> Any:
        return op_named, (self._overloadpacket, self._overloadname)

    def __str__(self) -> str:
        return f"{self._overloadpacket}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._overloadpacket}', overload='{self._overloadname}')>"


def with_words(
    overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a loss: the number that says how to reduce is a word in `nn.functional`."""
    declared = overload._schema.arguments
    names = [a.name for a in declared]
    if "reduction" not in names:
        return args, kwargs
    place = names.index("reduction")
    given = dict(zip(names[place:], args[place:], strict=False)) | kwargs
    how = given.get("reduction", declared[place].default_value)
    takes_word = find(overload._overloadpacket.__name__) is None
    given["reduction"] = REDUCTIONS[how] if takes_word and how in (0, 1, 2) else how
    return args[:place], given


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

    def __reduce__(self) -> Any:
        return op_named, (self.namespace, self.__name__)

    def __iter__(self) -> Iterator[str]:
        return iter(self._dir)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        defined = overloads_of(self.namespace, self.__name__)
        if self.namespace == "tapegrad":
            return own_call(self.__name__, args, kwargs)
        if self.namespace == "aten" and not defined:
            args, kwargs = with_words(self._made(self._dir[0]), args, kwargs)
            return implementation(self.__name__)(*args, **kwargs)
        reasons = []
        for each in self._dir:
            overload = self._made(each)
            try:
                bound(DEFS[overload.name()], args, kwargs)
            except RuntimeError as error:
                if len(self._dir) == 1:
                    raise
                reasons.append(str(error))
                continue
            return overload(*args, **kwargs)
        raise RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n"
            + "\n\n".join(reasons)
        )

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"


def op_named(space: Any, name: str) -> Any:
    """The op for a copied or pickled reference. `space` is a packet's, or an overload's."""
    return space._made(name) if isinstance(space, OpOverloadPacket) else ops_packet(space, name)


def ops_packet(namespace: str, name: str) -> OpOverloadPacket:
    found: OpOverloadPacket = getattr(ops_namespace(namespace), name)
    return found


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
        if self.name not in ("aten", "tapegrad"):
            return overloads_of(self.name, name)
        if self.name == "tapegrad":
            return ["default"] if ops_called(name) or name in REGISTRY else []
        if name.endswith("_"):
            return written_form(name)
        found = overloads(name) or (["default"] if exists(name) else [])
        return found or overloads_of("aten", name)

    def __repr__(self) -> str:
        return f"<module 'torch.ops.{self.name}' from 'torch.ops'>"


def own_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An op of ours by our name for it, with the arguments as they are shown (`calls.shown`)."""
    op = REGISTRY.get(name)
    if op is None or kwargs:
        return implementation(name)(*args, **kwargs)
    count = 1 if op.variadic else len(op.tensors)
    attrs = [as_attribute(each) for each in args[count:]]
    attrs += [None] * (len(op.attrs) - len(attrs))  # at the end they are not shown
    attrs = [each._array if isinstance(each, TensorBase) else each for each in attrs]
    return getattr(RECORDED, name)(*args[:count], *attrs)


def as_attribute(value: Any) -> Any:
    if isinstance(value, tg.dtype):
        return value.np
    return tuple([as_attribute(v) for v in value]) if isinstance(value, (list, tuple)) else value


def own_schema(overload: OpOverload) -> str:
    """A declaration for an op that PyTorch has not, from what we know of it."""
    name = overload._overloadpacket.__name__
    op = REGISTRY.get(name.removesuffix("_")) or REGISTRY.get(name)
    if op is None:
        return f"{overload.name()}(Tensor self) -> Tensor"
    operands = [f"Tensor[] {t}" if op.variadic else f"Tensor? {t}" for t in op.tensors]
    rest = [f"Any {a}=None" for a in op.attrs]
    returns = "Tensor" if op.single else "Tensor[]"
    return f"{overload.name()}({', '.join([*operands, *rest])}) -> {returns}"


def is_aten(name: str) -> bool:
    """Whether an op of PyTorch's is one that can be called here."""
    return bool(NAMESPACES["aten"]._known(name))


def written_form(name: str) -> list[str]:
    """The overloads of an op that writes into its first argument: those of the op itself."""
    if not hasattr(tg.Tensor, name):
        return []
    return list(dict.fromkeys([*overloads(name[:-1]), *overloads(name)])) or ["default"]


def exists(name: str) -> bool:
    """Whether a function that is no op of ours is one of PyTorch's. It has no `softmax`."""
    if name in ABROAD or name in QUESTIONS:
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


def convolution_backward(*args: Any, **kwargs: Any) -> Any:
    """The gradients of a convolution, which PyTorch has as an op."""
    from tapegrad.ops.nn import conv_functions  # with its family, on demand

    return conv_functions.convolution_backward(*args, **kwargs)


# Questions that PyTorch has as ops, an older name, and a gradient that is several ops here.
QUESTIONS: dict[str, Callable[..., Any]] = {
    "size": lambda input: list(input.shape),
    "stride": lambda input: list(input.stride()),
    "_local_scalar_dense": lambda input: input.item(),
    "lift_fresh": lambda input: input,
    "_pin_memory": lambda input, device=None: input.pin_memory(),
    "is_pinned": lambda input, device=None: input.is_pinned(),
    "sym_size": lambda input, dim=None: input.size() if dim is None else input.size(dim),
    "_assert_async": lambda input, assert_msg="": tg._assert_async(input, assert_msg),
    "_is_all_true": lambda input: input.all(),
    # The nine arguments of `convolution`, and switches of cuDNN's.
    "convolution_backward": convolution_backward,
    "_convolution": lambda *args: tg.convolution(*args[:9]),
}


@functools.cache
def implementation(name: str) -> Callable[..., Any]:
    """The function that runs when an aten op is called."""
    if name in ABROAD:
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend."
        )
    ops = ops_called(name)
    adapted = [op.aten_call for op in ops if op.aten_call is not None]
    found = adapted[0] if adapted else QUESTIONS.get(name) or public(name)
    return found or with_defaults(ops[0])


def with_defaults(op: Op) -> Callable[..., Any]:
    """An op itself, to be called as its schema says: by names too, and with defaults left out."""
    recorded = getattr(RECORDED, op.name)
    wanted = [*op.tensors, *op.attrs]
    schemas = aten_schemas(op.aten.partition(".")[0]) if op.aten else []

    def call(*args: Any, **kwargs: Any) -> Any:
        from tapegrad._library.calls import SCHEMA_NAMES

        if len(args) == len(wanted) and not kwargs:
            return recorded(*map(as_attribute, args))
        for schema in schemas:
            given = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
            given |= dict(zip([a.name for a in schema.arguments], args, strict=False)) | kwargs
            for name, ours in SCHEMA_NAMES.items():
                given |= {each: given[name] for each in ours if name in given}
            if all([name in given for name in wanted]):
                return recorded(*[as_attribute(given[name]) for name in wanted])
        return recorded(*args, **kwargs)

    return call


NAMESPACES: dict[str, _OpNamespace] = {n: _OpNamespace(n) for n in ("aten", "tapegrad")}


def ops_namespace(name: str) -> _OpNamespace:
    """`torch.ops.<name>`: every name is one, whether something is defined in it or not."""
    if name not in NAMESPACES:
        made = NAMESPACES[name] = _OpNamespace(name)
        if name == "profiler":
            vars(made).update(blocks_of_profiles())
    return NAMESPACES[name]


def blocks_of_profiles() -> dict[str, Callable[..., Any]]:
    """`torch.ops.profiler`: the two ends of a block that profiles name."""
    from tapegrad.autograd.profiler import record_function

    def enter(name: str, args: str | None = None) -> Any:
        return record_function(name, args).__enter__()

    def leave(handle: Any) -> None:
        handle.__exit__()

    enters = dict.fromkeys(("_record_function_enter", "_record_function_enter_new"), enter)
    return {**enters, "_record_function_exit": leave}


def forget(namespace: str, name: str) -> None:
    """The overloads of an op changed: objects made of it are made again."""
    vars(ops_namespace(namespace)).pop(name, None)


def overload_of(op: Op, tensors: Any, attrs: tuple[Any, ...], written: bool = False) -> OpOverload:
    """PyTorch's overload for an op of ours, or its in-place form, with these arguments."""
    packet: OpOverloadPacket
    if op.aten is None:
        if written:
            return written_overload(op, "")
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
    if written:
        return written_overload(op, overload)
    packet = getattr(NAMESPACES["aten"], name)
    return packet._made(overload or "default")


def written_overload(op: Op, overload: str) -> OpOverload:
    """The in-place form: PyTorch's, with the overload of the op or the one that there is."""
    name = f"{op.aten_name()}_"
    known = [schema.overload_name for schema in aten_schemas(name)]
    if not known:
        return OpOverloadPacket("tapegrad", f"{op.name}_", ["default"])._made("default")
    chosen = overload if overload in known else known[0]
    packet: OpOverloadPacket = getattr(NAMESPACES["aten"], name)
    return packet._made(chosen or "default")


def overload_named(name: str) -> OpOverload:
    """`torch.ops.aten` by "name.overload", the name alone for the default."""
    name, _, overload = name.partition(".")
    packet: OpOverloadPacket = getattr(NAMESPACES["aten"], name)
    return packet._made(overload or "default")


DISPATCHED.overload = overload_named
