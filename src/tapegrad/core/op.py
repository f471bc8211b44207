"""The Op record: what dispatch, engine and tests know about one operation.

Records are made from the blocks in ops/ by `ops.block.op`. Everything that can be worked out once
is worked out here, at import: which values a gradient rule reads, their places in a node, and
which of them have to be saved for a given set of inputs that need a gradient.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any, Final

NEW_TUPLE: Final = tuple.__new__

# dtype rules: what happens to the inputs before the kernel runs.
AS_IS: Final = 0  # nothing
PROMOTE: Final = 1  # all tensors and scalars to their common dtype
PROMOTE_FLOAT: Final = 2  # PROMOTE, and integers to the default float dtype

# Autocast: the precision in which a function runs.
AS_CALLED: Final = 0
LOWER: Final = 1  # the low one that was asked for
SINGLE: Final = 2
WIDEST: Final = 3  # that of its tensors: the low one, or single
UNSAFE: Final = 4  # it refuses to run


class Autocast:
    """How autocast casts the tensors of a function, on the CPU and on a GPU."""

    def __init__(self, cpu: int = AS_CALLED, gpu: int = AS_CALLED, unless: str = "") -> None:
        self.cpu = cpu
        self.gpu = gpu
        self.unless = unless  # an argument that makes it another function, without a rule


class Rule:
    """A gradient rule and the places in `Node._kept` of the values that it names."""

    def __init__(self, function: Callable[..., Any], places: tuple[int, ...]) -> None:
        self.function = function
        self.places = places
        self.count: int = len(places)
        self.first: int = places[0] if places else -1

    def call(self, F: Any, grad: Any, kept: tuple[Any, ...]) -> Any:
        count = self.count
        if count == 0:
            return self.function(F, grad)
        if count == 1:
            return self.function(F, grad, kept[self.first])
        return self.function(F, grad, *[kept[i] for i in self.places])


class Plan:
    """Which inputs and outputs are saved, for one set of inputs that need a gradient."""

    def __init__(self, inputs: tuple[bool, ...], outs: tuple[bool, ...], mask: int) -> None:
        self.inputs = inputs
        self.outs = outs
        # The places of the tensors that need a gradient, and of those that are saved.
        self.wanting: tuple[int, ...] = tuple(
            [i for i in range(mask.bit_length()) if mask >> i & 1]
        )
        self.saved: tuple[int, ...] = tuple([i for i, saves in enumerate(inputs) if saves])
        self.first: bool = bool(inputs) and inputs[0]
        self.second: bool = len(inputs) > 1 and inputs[1]
        self.out: bool = bool(outs) and outs[0]
        self.any_out: bool = True in outs
        self.saves: bool = True in inputs or self.any_out


class DeviceSide:
    """How an op runs on the arrays of a GPU; filled by core/devices.py."""

    kernel: Any = None
    # All gradients at once: (node, gradient, Op.named(kept)) -> list, or None to use the rules.
    pull: Any = None
    # (array, array) of two float dtypes -> array, without a cast before; None: cast them.
    mixed: Any = None

    def clear(self) -> None:
        self.kernel = self.pull = self.mixed = None


class Facts:
    """The fields that the block of an op may set, and that its Op record has as they are."""

    # What PyTorch calls the op, as in "add.Tensor", and None where it has no single op for it. A
    # public block may leave it out if it is the name; the others say it.
    aten: str | None = ""
    aten_call: Any = None  # what `torch.ops.aten.<name>(…)` runs, if it has other arguments
    aten_number: str = ""  # the overload for a second operand that is a number
    aten_dim: tuple[str, ...] = ()  # the overloads for one and for several dimensions
    written_name: str = ""  # node of the in-place form with tensors, if it is another

    # Arguments and results.
    tensors: tuple[str, ...] = ("input",)
    variadic: bool = False  # `tensors` is one list
    numbers: bool = False  # Python numbers may take the place of tensors
    wide_numbers: bool = False  # as second argument, beside half precision, they are not rounded
    outs: tuple[str, ...] = ("out",)  # names of the outputs; () in an Op if their number varies
    result: Any = None  # class of a several-output result (a namedtuple)
    guard: Any = None  # (arrays or numbers…): raises for dtypes that the op refuses
    host_number: bool = False  # on a device, one number of the host may take a tensor's place
    across_devices: bool = False  # the tensors may be on two devices

    # What kind of function it is.
    elementwise: bool = False
    ordered: bool = False  # lies in memory as elementwise results do, though it is not elementwise
    ordered_by: int = 0  # the tensor whose order in memory an elementwise result has first
    row_by_row: str = ""  # the matrix of which each row alone makes the same row of the result
    broadcasts: bool = False  # gradients may have to be summed back to the inputs' shapes
    linear: bool = False  # in each tensor argument: the forward-mode rule follows
    wirtinger: bool = False  # the rules spell out complex conjugation themselves
    casts: bool = False  # to another dtype, and does nothing else
    keeps_finite: bool = False  # nothing non-finite comes of finite values
    leaves_out: bool = False  # a mask says which elements of its tensors have no effect
    view: bool = False
    multi_view: bool = False  # several views at once: they refuse to be written
    replays: bool = False  # a view that as_strided cannot express (it changes the dtype)
    silent: bool = False  # the in-place form leaves the history as it is
    apart: tuple[str, ...] = ()  # arguments that may share no memory with what the op writes into

    # Gradients.
    undifferentiable: str = ""  # why the op has no gradient, and no rules
    nearest: str = ""  # what to use instead, where people ask for the gradient that is missing
    plain_tensors: tuple[str, ...] = ()  # those without a rule: indices, masks, class weights
    plain_outs: tuple[int, ...] = ()  # outputs that never need a gradient: indices
    partial: bool = False  # rules get None, not zeros, for outputs that received no gradient

    # Batches (ops/block/batching.py).
    unbatchable: str = ""  # why the op cannot be mapped over a batch
    dynamic_shape: bool = False  # the shape of the result depends on the data
    meta_by_rows: int | None = None  # the result in rows on meta, but not elsewhere
    # What PyTorch calls a write of batched values into a tensor that is not batched, if it is not
    # `aten::<name>_`; None: it says that the shapes do not fit.
    vmap_write: str | None = ""

    # What diagnostics and exporters write.
    sign: str = ""  # Python's operator for it: "*" between two arguments, "-" before one
    formula: str = ""  # a call of it in the rule of another op, in the names of the arguments
    gradient_text: dict[str, str] | None = None  # what is shown for rules that are loops or kernels
    nonfinite: str = ""  # how it makes NaN or infinity: a function of errors/nonfinite_patterns.py
    onnx: str = ""  # the operator of ONNX that is the op, as in "Sqrt"


class Op(Facts):
    """One operation. The fields are filled by `ops.block.op` and never change afterwards.

    What a GPU does instead is in `device`, an object of its own, which is filled when one is used.
    """

    name: str = ""
    node_name: str = ""
    doc: str = ""
    home: str = ""  # the module of its block
    width: int = 0  # how many tensors are in `Node._kept`: all, or none if variadic
    attrs: tuple[str, ...] = ()  # names of the other arguments of the kernel, in order
    single: bool = True  # exactly one output, not in a tuple
    kernel: Any = None  # (arrays…, attributes…) -> array or tuple of arrays, on the CPU
    by_rows: Any = None  # the same for arrays in C order: it need not look how they lie
    native: bool = False  # the kernel is in C: it gives no floating point warnings
    # (arrays…, attributes…): changes the first array into the result, at the cost of what is
    # written. It raises before it writes. None: the in-place form copies the kernel's result.
    into: Any = None
    # All gradients at once: (gradient, kept, edges) -> list, or None to use the rules.
    gradients: Any = None
    forward: Any = None  # the block's `fwd`: the kernel with the array module as first argument
    device: DeviceSide
    rules: tuple[Rule | None, ...] = ()  # per tensor argument
    shape_rules: dict[str, Any] | None = None  # for diagnose: of "out", and of tensors, by name
    joint: Rule | None = None  # or one rule for all of them; it also gets `needs`
    jvp: Any = None
    jvp_reads_outs: bool = False  # whether `jvp` needs the outputs
    multilinear: bool = False  # linear in each tensor while the others are fixed, like a product
    batch: Any = None  # the batching rule, see ops/block/batching.py
    dtype_rule: int = AS_IS
    public: Any = None  # the function that users call
    differentiable: bool = True
    autocast: Autocast | None = None  # its rule where other functions are made of the op
    metas: tuple[tuple[int, str], ...] = ()  # (tensor index, "shape" | "dtype" | "strides")
    # The names of the values in `Node._kept`, in order: tensors, outputs, attributes, metas.
    layout: tuple[str, ...] = ()
    layout_class: Any = None  # a namedtuple of them, made when `named` is first called
    simple: bool = False  # one tensor, one output, no dtype rule: dispatch has a short way
    paired: bool = (
        False  # two differentiable tensors, one output, no dtype rule: dispatch has a short way
    )
    plan_cache: dict[int, Plan]
    plan_first: Plan  # the plans of the hot paths
    plan_second: Plan
    plan_both: Plan
    needed_by: tuple[tuple[str, ...], ...] = ()  # per tensor argument: names its rule reads

    def __init__(self) -> None:
        self.plan_cache = {}
        self.device = DeviceSide()

    def aten_name(self) -> str:
        """The name of the op in PyTorch's messages: `add`, whatever the overload."""
        return (self.aten or self.name).partition(".")[0]

    def named(self, kept: tuple[Any, ...]) -> Any:
        """The values in the `_kept` of a node of this op, to be read by name: `.weight`."""
        if self.layout_class is None:
            self.layout_class = namedtuple("Kept", self.layout)  # type: ignore[misc]
        return NEW_TUPLE(self.layout_class, kept)

    def make_plans(self) -> None:
        short = self.single and self.dtype_rule == AS_IS and self.guard is None
        self.simple = short and self.width == 1
        self.paired = short and self.width == 2 and None not in self.rules and not self.view
        self.plan_first = self.plan(1)
        binary = self.width == 2
        self.plan_second = self.plan(2) if binary else self.plan_first
        self.plan_both = self.plan(3) if binary else self.plan_first

    def plan(self, mask: int) -> Plan:
        """The save plan for the inputs whose bits are set in `mask`."""
        found = self.plan_cache.get(mask)
        if found is None:
            found = self.plan_cache[mask] = self.make_plan(mask)
        return found

    def make_plan(self, mask: int) -> Plan:
        names: set[str] = set()
        for i, needed in enumerate(self.needed_by):
            if mask >> i & 1:
                names.update(needed)
        inputs = tuple([name in names for name in self.tensors])
        return Plan(inputs, tuple([name in names for name in self.outs]), mask)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


REGISTRY: Final[dict[str, Op]] = {}
