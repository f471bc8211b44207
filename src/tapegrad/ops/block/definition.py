"""How a block becomes an op: the `op` decorator reads a class body, `api` publishes a function.

    @op
    class Exp(Elementwise):
        '''exp(input) -> Tensor: …'''
        fwd = ufunc("exp")
        def d_input(F, grad, out):  return grad * out

A block says, in this order: what it is called, what its arguments are, how it is computed (`fwd`,
with the array module `xp` in front), and per tensor argument how a gradient comes back
(`d_<name>`). The names of a rule's parameters after `F, grad` say what it needs and so what is
saved:

    input, other …   a tensor argument     out (or the names in `outs`)   an output
    dim, keepdim …   an attribute          input_shape / _dtype / _strides  facts, no array

How the op is mapped over a batch (vmap) follows from `elementwise`, or is said by one of `dims`,
`leading`, `fold` or a method `batch`: see batching.py.

A name with a dot, as in `name = "linalg.det"`, is published in that module and is no method; the
op itself is then called `linalg_det`.

`guard` is called with the arrays and numbers before promotion, off the hot path, and raises for
dtypes that PyTorch refuses.

From the block come the function `tapegrad.<name>`, the method, the in-place method (`inplace =
True`) and `out=`. `call` is the public signature; it normalises its arguments and ends in `run(OP,
tensors, attrs)`, where `run` is `apply`, or `write` when the in-place form or `out=` called it.

All else that anybody has to know of the op is a field too: what PyTorch calls it, what autocast
does with it, what its errors say. The fields are listed in `Facts` (core/op.py), and below in
`Public` (which functions of ops have as arguments of `api`) and in `Block`. A forgotten rule and a
private op without a name in PyTorch are refused when the block is read.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core import dispatch, python_dispatch
from ...core.dispatch import binary, unary
from ...core.op import AS_IS, PROMOTE, PROMOTE_FLOAT, REGISTRY, Autocast, Facts, Op, Rule
from ...core.rule_functions import RAW, RECORDED
from ...core.strides import empty_like
from ...kernels.cpu import KERNELS
from ...kernels.cpu.backend import HOST
from .batching import batching_rule
from .forward_rules import elementwise_jvp, given_jvp, linear_jvp
from .samples import Case, binary_cases, unary_cases

__all__ = [
    "AS_IS",
    "PROMOTE",
    "PROMOTE_FLOAT",
    "Block",
    "Case",
    "Elementwise",
    "Linear",
    "ViewOp",
    "api",
    "apply",
    "binary_cases",
    "helper",
    "looks_at_values",
    "noted",
    "op",
    "ufunc",
    "unary_cases",
]

# Run an op: `dispatch.apply`, whose calls are noted while a public function is remembered
# (c/runtime/call_steps.c).
apply = dispatch.apply if KERNELS is None else KERNELS.Noted(dispatch.apply)


def noted(check: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a check that looks at values: remembered calls ask it again and want its answer."""
    return check if KERNELS is None else KERNELS.Noted(check, True)  # type: ignore[no-any-return]


def looks_at_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a check that replays of a compiled function ask again too."""
    return noted(python_dispatch.looks_at_values(function))


class Public:
    """The fields of a block, or of an @api function, about the function that users call."""

    function = True  # `tapegrad.<name>`; else there is only a method
    method = True
    inplace = False  # a method `<name>_`
    inplace_functions: tuple[str, ...] = ()  # in-place methods that are functions too: ("exp_",)
    foreach = ""  # the kind of `torch._foreach_<name>`, if there is one (foreach.py)
    python = False  # written in Python in PyTorch: a missing argument raises Python's own TypeError
    samples: Sequence[Case] = ()
    autocast: Autocast | None = None  # the precision that autocast runs it in
    out_dtype = ""  # the error for an `out` of another dtype than the result; empty: it is cast
    keywords_only_with = ""  # a keyword that PyTorch takes with other keywords only
    spread_ints = False  # a method that takes `f(1, 2)` for `f((1, 2))`
    functional_out = False  # one of the few functions of nn.functional with an `out`
    out_decides = False  # the result is made in the dtype of `out`
    out_apart = False  # `out` may share no memory with the arguments
    direct = False  # makes its result on the device that `device` names, without a copy on the host
    follows = False  # stays where its argument is, whatever the default device


class Block(Public):
    """The defaults of a block. Its other fields are `Facts` (core/op.py), which an Op has too."""

    name = ""  # of op and function; the class name in snake case if not given
    aliases: tuple[str, ...] = ()  # other names of the function
    public = True  # it has a function; else it is an op that functions are made of
    node = ""  # of the node; "<Class>Backward0" if not given

    # Methods besides `fwd`, which each block has, and the rules d_<tensor> and shape_<tensor>.
    # `into` has the parameters of `fwd` and changes `input` itself; it takes the place of `fwd` in
    # a block where the op is that on a copy, in the memory order `copies_in`.
    into: Any = None
    copies_in = "C"
    call: Any = None  # the public signature
    backward: Any = None  # one gradient rule for all tensors, which also gets `needs`
    jvp: Any = None  # the forward-mode rule
    batch: Any = None  # the batching rule
    shape: Any = None  # the shape of the result (shapes.py), if the op is not elementwise

    dtype = AS_IS
    several = False  # the number of outputs depends on the arguments (split, unbind)
    positions: tuple[int, ...] = ()  # outputs that are indices or counts: always int64

    # Batches (batching.py).
    dims: tuple[str, ...] = ()  # attributes that are dimensions: vmap shifts them by one
    shapes: tuple[str, ...] = ()  # attributes that are shapes: vmap puts the batch in front
    leading: tuple[int, ...] = ()  # per tensor, how many trailing dimensions are not a batch
    aligns = False  # shapes broadcast, though the op is not elementwise
    fold = False  # dimension 0 of every tensor is a batch already


class Elementwise(Block):
    """One output element per (broadcast) input element."""

    elementwise = True
    dtype = PROMOTE_FLOAT
    inplace = True


class Linear(Block):
    linear = True


class ViewOp(Block):
    """The result looks at the memory of `input`."""

    linear = True
    view = True


class Ufunc:
    """The name of a NumPy ufunc that is the whole kernel: it is then called directly."""

    def __init__(self, name: str) -> None:
        self.ufunc = name

    def __call__(self, xp: Any, *arrays: Any) -> Any:
        return getattr(xp, self.ufunc)(*arrays)


def ufunc(name: str) -> Ufunc:
    return Ufunc(name)


def names_of(fields: type) -> frozenset[str]:
    return frozenset([name for name in vars(fields) if not name.startswith("__")])


FIELDS = names_of(Public)
RECORD_FIELDS = names_of(Facts) | {"autocast"}
BLOCK_FIELDS = FIELDS | names_of(Block) | RECORD_FIELDS


@functools.cache
def inherited(base: type) -> tuple[tuple[str, Any], ...]:
    """The fields that the classes between a block (which has one base) and `Block` set."""
    if base is Block:
        return ()
    own = [(name, value) for name, value in vars(base).items() if name in BLOCK_FIELDS]
    return *inherited(base.__base__), *own


def op(block: type[Block]) -> Op:
    """The Op record of a block, registered and published."""
    record = Op()
    fields: dict[str, Any] = {}
    for name, value in (*inherited(block.__base__), *vars(block).items()):
        if name in RECORD_FIELDS:
            setattr(record, name, value)
        if name in FIELDS:
            fields[name] = value
    public_name = block.name or snake(block.__name__)
    record.name = public_name.replace(".", "_")
    record.node_name = block.node or f"{block.__name__}Backward0"
    if record.aten == "":
        record.aten = own_name(record.name, block.public)
    record.doc = block.__doc__ or ""
    record.home = block.__module__
    forward = block.fwd if hasattr(block, "fwd") else on_copy(block)
    if block.positions and np.intp is not np.int64:
        forward = with_long(forward, block.positions)
    record.width = 0 if record.variadic else len(record.tensors)
    if block.several:
        record.outs = ()
    record.single = len(record.outs) == 1
    if not isinstance(forward, Ufunc):
        record.attrs = parameter_names(forward)[1 + len(record.tensors) :]
    record.forward = forward
    record.kernel = HOST.kernel(record)
    if block.into is not None:
        record.into = HOST.into(record, block.into)
    if record.result is not None:
        record.result = record.result._make
    record.differentiable = not record.undifferentiable
    record.dtype_rule = block.dtype
    if record.elementwise and len(record.tensors) > 1:
        record.broadcasts = record.numbers = True
    add_rules(record, block)
    record.gradients = HOST.gradients(record)
    if block.shape is not None:
        record.shape_rules = shape_rules(record, block)
    record.jvp = forward_rule(record, block)
    record.batch = batching_rule(record, block)
    if record.name in REGISTRY:
        raise ValueError(f"two blocks are called {record.name!r}")
    REGISTRY[record.name] = record
    setattr(RAW, record.name, record.kernel)
    setattr(RECORDED, record.name, recorded_call(record))
    if block.public:
        call = block.call or default_call(record)
        fields["samples"] = block.samples or default_samples(record)
        publish(call, (public_name, *block.aliases), record.doc, block.__module__, fields)
    return record


def on_copy(block: type[Block]) -> Callable[..., Any]:
    """The `fwd` of a block that has only `into`: it changes a copy of the input."""
    change, order = block.into, block.copies_in

    @functools.wraps(change)
    def fwd(xp: Any, input: Any, *others: Any) -> Any:
        if order == "K" and not input.flags.c_contiguous:
            out = empty_like(xp, input)
            out[...] = input
        else:
            out = xp.array(input, order=order, copy=True)
        change(xp, out, *others)
        return out

    return fwd


def with_long(forward: Callable[..., Any], positions: tuple[int, ...]) -> Callable[..., Any]:
    """`fwd` for a processor of 32 bits, where NumPy's own indices and counts are int32."""

    @functools.wraps(forward)
    def fwd(*args: Any) -> Any:
        outs = forward(*args)
        if not isinstance(outs, tuple):
            return outs.astype(np.int64, copy=False)
        return tuple(
            [x.astype(np.int64, copy=False) if i in positions else x for i, x in enumerate(outs)]
        )

    return fwd


def parameter_names(function: Any) -> tuple[str, ...]:
    """The parameters of a plain function; `inspect` would take most of the time of an import."""
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    if code is None:  # of a compiled module
        return tuple(inspect.signature(function).parameters)
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def add_rules(record: Op, block: type[Block]) -> None:
    """Work out which values each gradient rule reads, and their positions in a node."""
    metas: list[tuple[int, str]] = []

    def place(name: str) -> int:
        outs = record.outs
        if name in record.tensors and not record.variadic:
            return record.tensors.index(name)
        if name in outs:
            return record.width + outs.index(name)
        if name in record.attrs:
            return record.width + len(outs) + record.attrs.index(name)
        owner, _, what = name.rpartition("_")
        if owner in record.tensors and what in ("shape", "dtype", "strides"):
            key = (-1 if record.variadic else record.tensors.index(owner), what)
            if key not in metas:
                metas.append(key)
            return record.width + len(outs) + len(record.attrs) + metas.index(key)
        raise TypeError(f"{record.name}: a rule asks for {name!r}, which is no argument or output")

    def rule(function: Any, skip: int) -> Rule:
        names = parameter_names(function)[skip:]
        return Rule(function, tuple(place(n) for n in names))

    joint = block.backward
    needed: list[tuple[str, ...]] = []
    if joint is not None:
        record.joint = rule(joint, 3)
        names = parameter_names(joint)[3:]
        needed = [names] * (64 if record.variadic else len(record.tensors))
    else:
        rules: list[Rule | None] = []
        for tensor in record.tensors:
            function = getattr(block, f"d_{tensor}", None)
            if function is None and record.differentiable:
                refuse_silence(record, tensor)
            rules.append(None if function is None else rule(function, 2))
            needed.append(() if function is None else parameter_names(function)[2:])
        record.rules = tuple(rules)
    record.needed_by = tuple(needed)
    record.metas = tuple(metas)
    facts = [f"{record.tensors[max(i, 0)]}_{what}" for i, what in metas]
    record.layout = (*record.tensors[: record.width], *record.outs, *record.attrs, *facts)
    record.make_plans()


def shape_rules(record: Op, block: type[Block]) -> dict[str, Any]:
    found = {"out": block.shape}
    for name in record.tensors:
        rule = getattr(block, f"shape_{name}", None)
        if rule is not None:
            found[name] = rule
    return found


def refuse_silence(record: Op, tensor: str) -> None:
    """Raise if a block neither has a gradient rule nor says why: forgetting is no decision."""
    if tensor not in record.plain_tensors:
        raise TypeError(
            f"{record.name}: no rule d_{tensor}. If there is no such derivative, say it: "
            f'plain_tensors = ("{tensor}",), or undifferentiable = "why" for all arguments'
        )


def own_name(name: str, public: bool) -> str:
    """PyTorch's name of an op whose block gives none: the op's own name, if it is public."""
    if not public:
        raise TypeError(
            f'{name}: what is it called in PyTorch? aten = "name.overload", or None if there is '
            "no such op"
        )
    return name


def forward_rule(record: Op, block: type[Block]) -> Callable[..., Any] | None:
    """jvp(F, tensors, tangents, outs, attrs): given, or derived for elementwise and linear ops."""
    given = block.jvp
    if given is not None:
        names = [*record.tensors, *[f"t_{n}" for n in record.tensors], *record.outs, *record.attrs]
        at = {name: i for i, name in enumerate(names)}
        wanted = parameter_names(given)[1:]
        record.jvp_reads_outs = any([name in record.outs for name in wanted])
        places = tuple([at[name] for name in wanted])
        return functools.partial(given_jvp, given, places)
    if not record.differentiable:
        return None
    if record.linear:
        record.multilinear = not record.variadic
        return functools.partial(linear_jvp, record)
    if record.elementwise and not record.wirtinger:
        record.jvp_reads_outs = any(
            [name in record.outs for names in record.needed_by for name in names]
        )
        return functools.partial(elementwise_jvp, record)
    return None


def recorded_call(record: Op) -> Callable[..., Any]:
    """`F.<op>` on tensors: the arguments of the kernel by position, or its defaults."""
    width = len(record.tensors)
    count = len(record.attrs)
    defaults = getattr(record.forward, "__defaults__", None) or ()

    short = record.elementwise and record.single and not record.attrs and not record.variadic
    if short and width == 1:
        return functools.partial(unary, record)
    if short and width == 2 and None not in record.rules:
        return functools.partial(binary, record)

    def call(*args: Any) -> Any:
        tensors, attrs = (args[0], args[1:]) if record.variadic else (args[:width], args[width:])
        if len(attrs) < count:
            attrs += defaults[len(attrs) - count :]
        return apply(record, tuple(tensors), attrs)

    return call


def helper(
    name: str, raw: Callable[..., Any], recorded: Callable[..., Any], formula: str = ""
) -> None:
    """Give F a function that is no op: `raw` for arrays, `recorded` for tensors."""
    setattr(RAW, name, raw)
    setattr(RECORDED, name, recorded)
    if formula:
        reads_as(formula)(recorded)


def reads_as(*formulas: str) -> Callable[[Any], Any]:
    """How diagnostics print a call of a helper: the first text whose names the call has."""

    def mark(function: Any) -> Any:
        function.formulas = formulas
        return function

    return mark


def apply_one(record: Op, input: Any) -> Any:
    return apply(record, (input,))


def default_call(record: Op) -> Callable[..., Any]:
    """The public signature of an op that takes its tensors and nothing else."""
    if len(record.tensors) == 1:
        run_one = unary if record.elementwise else apply_one

        def call_unary(input: Any, *, run: Any = None) -> Any:
            return run_one(record, input) if run is None else run(record, (input,))

        call_unary.op = record  # type: ignore[attr-defined]  # the method needs nothing else
        return call_unary

    def call_binary(input: Any, other: Any, *, run: Any = None) -> Any:
        return binary(record, input, other) if run is None else run(record, (input, other))

    call_binary.op_of_two = record  # type: ignore[attr-defined]
    return call_binary


def default_samples(record: Op) -> Sequence[Case]:
    if not record.elementwise:
        return ()
    return unary_cases() if len(record.tensors) == 1 else binary_cases()


SPOKEN_SPACES = ("linalg", "fft", "special")


class Api(Public):
    """A public function, of a block or a composite of ops: what `tapegrad` and `Tensor` have."""

    def __init__(
        self, name: str, call: Callable[..., Any], doc: str, home: str, fields: dict[str, Any]
    ) -> None:
        for field, value in fields.items():
            setattr(self, field, value)
        self.name = name
        space, _, last = name.rpartition(".")
        # What error messages call it: `linalg_det()`, but `conv2d()`.
        self.spoken = f"{space}_{last}" if space in SPOKEN_SPACES else last
        self.call = call
        self.doc = doc
        self.parameters = parameter_names(call)
        self.home = home  # the module of its block
        self.alias = False
        if space:
            self.method = self.inplace = False
        if space == "special":  # these are made of the others there, which have the rules
            self.autocast = None
            self.out_dtype = ""


APIS: dict[str, Api] = {}
UNPUBLISHED: list[Api] = []  # waiting for api/publish.py to hand them out


def publish(
    call: Callable[..., Any], names: Sequence[str], doc: str, home: str, fields: dict[str, Any]
) -> None:
    """A function under all its names; `fields` are those of `Public` that are not the default."""
    if fields.get("autocast") is not None:
        call.autocast = fields["autocast"]  # type: ignore[attr-defined]  # where casting.py looks
    for name in names:
        if name in APIS:
            raise ValueError(f"two functions are called {name!r}")
        made = APIS[name] = Api(name, call, doc, home, fields)
        made.alias = name != names[0]
        UNPUBLISHED.append(made)


def api(*, name: str = "", aliases: Sequence[str] = (), **fields: Any) -> Callable[[Any], Any]:
    """Publish a function of ops; `fields` are those of `Public`.

    With `inplace`, it takes `run` and ends in `run(OP, …)`.
    """
    if not fields.keys() <= FIELDS:
        raise TypeError(f"api() has no argument {sorted(fields.keys() - FIELDS)}")

    def register(call: Callable[..., Any]) -> Callable[..., Any]:
        names = (name or call.__name__, *aliases)
        publish(call, names, call.__doc__ or "", call.__module__, fields)
        return call

    return register
