"""The classes that all else is built on: version cell, view recipe, node and tensor.

These classes hold data and little else. They live in one file because each refers to the others,
and because this file is compiled: fields are typed, the defaults below cost nothing to set.
"""

from __future__ import annotations

import contextvars
import itertools
import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final

import numpy as np

from .late_bound import HOST_KERNELS, INSPECTION, TENSOR, own_defaults
from .mypyc import mypyc_attr

ndarray: Final = np.ndarray
F32: Final = np.dtype("float32")
F64: Final = np.dtype("float64")

# NumPy reports overflow and 0/0 through warnings that PyTorch does not give. The setting lives in a
# context variable, so kernels run in a context of our own and the user's own NumPy stays as it was.
_quiet_context: Final = contextvars.Context()
_quiet_context.run(np.seterr, all="ignore")
enter: Final = _quiet_context.run
# The only variable in there is NumPy's; a backward pass sets it for as long as it runs.
NUMPY_ERRORS: Final = next(iter(_quiet_context))
IGNORED: Final = _quiet_context[NUMPY_ERRORS]


def quiet(kernel: Callable[..., Any], *args: Any) -> Any:
    """`kernel(*args)` without floating point warnings."""
    try:
        return enter(kernel, *args)
    except RuntimeError as error:
        if not str(error).startswith("cannot enter context"):
            raise
    # Another thread is inside the shared context right now.
    token = NUMPY_ERRORS.set(IGNORED)
    try:
        return kernel(*args)
    finally:
        NUMPY_ERRORS.reset(token)


def allocate_by(use: Callable[[], Any]) -> None:
    """Make kernels and backward passes allocate NumPy's arrays by the allocator that `use` sets."""
    enter(use)
    for variable, value in _quiet_context.items():
        if variable is not NUMPY_ERRORS:
            STATE.allocator = variable
            STATE.allocates = value


def begin_kernels() -> Any:
    """Set NumPy up for kernels in this thread: no floating point warnings, and our allocator.

    Returns what `end_kernels` needs to undo it.
    """
    token = NUMPY_ERRORS.set(IGNORED)
    return token, None if STATE.allocator is None else STATE.allocator.set(STATE.allocates)


def end_kernels(tokens: Any) -> None:
    """Put NumPy's settings back to what they were before `begin_kernels`."""
    NUMPY_ERRORS.reset(tokens[0])
    if tokens[1] is not None:
        STATE.allocator.reset(tokens[1])


class State:
    """Process-wide switches that the hot path reads."""

    # How many (thread, mode) pairs differ from the default: grad mode off, inference mode, saved
    # tensor hooks, anomaly mode, autocast … Zero means that nothing has to be looked up.
    modes_on: int = 0
    recording: bool = True  # keep the user's line with nodes, writes and cuts
    anomaly: bool = False
    casting: int = 0  # in how many threads autocast is on
    only_casting: int = 0  # in how many threads autocast is on, and nothing else differs
    only_unrecorded: int = 0  # in how many threads grad mode is off, and nothing else differs
    timing: int = 0  # how many profilers are running
    # (thread, code, lasti) while library code makes many writes for one line of the user's.
    writer: Any = None
    maker: Any = (
        None  # whose line new nodes belong to, as in `writer`, while nothing but library code runs
    )
    numbered: int = 0  # how many nodes have a number, in the compiled build
    user_code: Any = None  # the code object of the last user frame seen: mostly the next one too
    module: Any = None  # a weak reference to the nn.Module whose forward is running
    # While a CUDA graph is recorded: the leaves that get gradients.
    captured: Any = None
    device_type: Any = None  # the class of arrays on a GPU, once one is used (devices.py)
    several: bool = False  # whether there is more than one GPU
    detached: bool = False  # whether detach_() ever took a tensor out of a graph
    meta_type: Any = None  # the class of arrays without values, once one is used (meta.py)
    bits_type: Any = (
        None  # the class of conjugate and negative views, once one is used (lazy_conj.py)
    )
    elsewhere: bool = False  # whether tensors may be made elsewhere than on the CPU
    # NumPy's context variable of who allocates arrays, and what it is set to; None: NumPy does.
    allocator: Any = None
    allocates: Any = None


STATE: Final = State()
own_defaults(STATE)
# `TensorBase._special`: whether dispatch's fast paths take a tensor, and if not, why.
ORDINARY: Final = 0  # they take it
INTERPRETED: Final = 1  # a subclass, or a transform's tensor: core/subclass.py knows what to do
ON_DEVICE: Final = 2  # on a GPU, and nothing else besides
ON_META: Final = 4  # on the device meta: it has no values
WITH_BITS: Final = 8  # its memory is to be read conjugated or negated: core/lazy_conj.py
_sequence: Final = itertools.count(1)
COMPILED: Final = not __file__.endswith(".py")
# The caller of an interpreted function; a compiled one has no frame of its own.
CALLER: Final[int] = 0 if COMPILED else 1
# `stamp`, the function that records and the one of dispatch that calls it are never the user's: the
# search for the user's line starts above them, which saves a fifth of `x * w` in the pure build.
# tests/test_node_layouts.py fails if a node gets another line.
ABOVE_DISPATCH: Final[int] = 0 if COMPILED else 3
ABOVE_OPERATOR: Final[int] = 0 if COMPILED else 4  # and the function that an op of two tensors has
PACKAGE: Final[str] = __file__[: __file__.rindex("core")]
getframe: Final = sys._getframe
_own_files: Final[dict[str, bool]] = {}  # of this package: users' files may be many (notebooks)


def is_own(filename: str) -> bool:
    """Whether a file is one of this package."""
    found = filename.startswith(PACKAGE)
    if found:
        _own_files[filename] = True
    return found


def user_frame(depth: int) -> Any:
    """The innermost frame outside this package, starting `depth` interpreted frames up."""
    frame: Any
    try:
        frame = getframe(depth)
    except ValueError:
        return None
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame


def writing_for_caller(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run `function(...)`, and note its writes for the user's line that called it."""
    frame = user_frame(CALLER)
    if frame is None:
        return function(*args, **kwargs)
    before = STATE.writer
    STATE.writer = (get_ident(), frame.f_code, frame.f_lasti)
    try:
        return function(*args, **kwargs)
    finally:
        STATE.writer = before


def making_for_caller(function: Callable[..., Any], *args: Any) -> Any:
    """Run `function(...)`, and note its nodes for the user's line that called it.

    No function of the user's may run inside: the nodes that it makes have lines of their own.
    """
    frame = user_frame(CALLER)
    if frame is None or STATE.modes_on != STATE.only_casting:
        return function(*args)
    before = own_maker()
    STATE.maker = (get_ident(), frame.f_code, frame.f_lasti)
    try:
        return function(*args)
    finally:
        STATE.maker = before


def own_maker() -> Any:
    """`State.maker` if this thread set it, else None: only one's own may be put back later."""
    maker = STATE.maker
    return maker if maker is not None and maker[0] == get_ident() else None


class Version:
    """Counts the writes to one memory; all tensors that look at that memory hold the same cell."""

    n: int = 0
    # The last few writes, newest last: (n, op name, code, lasti, how).
    writers: tuple[Any, ...] = ()
    rebased: str = ""  # the name of the base's node since the last recorded write
    rebased_array: int = 0  # the id of the base's array at that write
    inference: bool = False
    counts: bool = False  # of an inference tensor that detach() gave a counter after all
    borrowed: bool = False  # the memory is somebody else's (a NumPy array's): it cannot grow
    born: Any = None  # (code, lasti) of the line that made a leaf which requires grad

    def bump(self, name: str, how: Any = None) -> None:
        """Count a write by `name`; `how` is what inplace.bump knows about it."""
        self.n += 1
        if not STATE.recording:
            return
        writer = STATE.writer
        if writer is not None and writer[0] == get_ident():
            self.note(name, writer[1], writer[2], how)
            return
        frame = user_frame(CALLER)
        if frame is not None:
            self.note(name, frame.f_code, frame.f_lasti, how)

    def note(self, name: str, code: Any, lasti: int, how: Any) -> None:
        """Keep who made the last write."""
        kept = self.writers if len(self.writers) < 8 else self.writers[-4:]
        self.writers = (*kept, (self.n, name, code, lasti, how))


@mypyc_attr(allow_interpreted_subclasses=True)
class Stamped:
    """Something that remembers the user's line, as code object and offset, and the module."""

    _code: Any = None
    _lasti: int = -1
    _module: Any = None  # a weak reference to the nn.Module that was running


class Cut(Stamped):
    """The tombstone of a tensor that lost its history: what cut it, and where."""

    def __init__(
        self, what: str, source: TensorBase | None = None, beside: Stamped | None = None
    ) -> None:
        self.what = what
        # Weakly: a cut must not keep alive what it cuts off.
        self.source: Any = None if source is None else weakref.ref(source)
        if beside is not None and beside._code is not None:  # stamped a moment ago
            self._code = beside._code
            self._lasti = beside._lasti
            return
        frame = user_frame(CALLER)
        if frame is not None:
            self._code = frame.f_code
            self._lasti = frame.f_lasti


@mypyc_attr(allow_interpreted_subclasses=True)
class Node(Stamped):
    """One recorded op application. Edges point towards the leaves only."""

    _op: Any = None  # the Op record; None for nodes that are not made from one
    _edges: tuple[Node | None, ...] = ()
    _edge_slots: tuple[int, ...] | None = None  # which output of each edge's node; None: all 0
    # Inputs, outputs, attributes, in the op's layout; None: freed.
    _kept: tuple[Any, ...] | None = None
    _cells: tuple[Any, ...] = ()  # (position in kept, version cell, version when saved) …
    # Per edge (shape, dtype) where the rule's result may differ.
    _fixes: tuple[Any, ...] | None = None
    _outputs: tuple[Any, ...] | None = None  # per output (shape, dtype), for nodes with several
    _hooks: Any = None  # autograd.hooks.NodeHooks, when somebody registered one
    # The leaf (or a tuple of them) that the edges lead to: a graph keeps its leaves alive.
    _leaves: Any = None
    _seq: int = 0
    _is_leaf: bool = False
    _frees: bool = False  # something saved goes away after backward, so a second one fails
    # Something in `_kept` went through saved_tensors_hooks, or is the array of a conjugate view.
    _packed: bool = False
    _on_tensors: bool = False  # its values are more than arrays: a pass through it is on tensors
    # Of the backward that dropped the saved values: code, lasti, root's seq, when.
    _freed_by: Any = None
    _cut: Any = None  # the tombstone of an input that had lost its history before
    _trace: Any = None  # where the forward ran, in anomaly mode
    _duals: Any = None  # in forward mode: the tangents of saved values, by position in kept
    _notes: Any = None  # `metadata`, a dict made on first access
    _detached: Any = None  # the outputs that detach_() took away, a set of slots
    # (shape, dtype) of the one output, noted when a user gets the node from its tensor.
    _made: Any = None
    _gives_away: bool = False  # no op, but the gradients that it returns are in new memory
    _converts: bool = False  # a leaf whose gradient has a dtype of its own: Tensor.grad_dtype
    # Of the last node of a linear layer on a GPU: those of addmm (None: it is this one), of the
    # input's view and of the weight's transpose (None: there is none).
    _chain: Any = None

    def _pull(self, grad: Any, record: bool) -> Any:
        """The gradients for the edges, given the gradient of the output (a list if several)."""
        raise NotImplementedError

    def _accumulate(self, g: Any, record: bool, owned: int, caller: Any) -> None:
        """Add a gradient that has arrived to the `.grad` of a leaf (AccumulateGrad)."""
        raise NotImplementedError

    def _release(self) -> None:
        """Drop what backward needs; a second pass will say so."""
        if self._frees:
            self._kept = None
            self._cells = ()

    def name(self) -> str:
        """The name that PyTorch has for this node."""
        return "Node"

    def __repr__(self) -> str:
        return f"<{self.name().rpartition('::')[2]} object at {id(self):#x}>"

    def __dir__(self) -> list[str]:
        names: list[str] = INSPECTION.attributes(self)
        return names

    def register_hook(self, fn: Callable[..., Any]) -> Any:
        """Call `fn(grad_inputs, grad_outputs)` after this node ran in backward."""
        return INSPECTION.register_hook(self, fn, False)

    def register_prehook(self, fn: Callable[..., Any]) -> Any:
        """Call `fn(grad_outputs)` before this node runs in backward."""
        return INSPECTION.register_hook(self, fn, True)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for whatever users want to attach."""
        if self._notes is None:
            self._notes = {}
        found: dict[Any, Any] = self._notes
        return found

    def _sequence_nr(self) -> int:
        return self._seq

    def _set_sequence_nr(self, sequence_nr: int) -> None:
        """Of the nodes that are ready, the one with the greatest number is visited first."""
        self._seq = sequence_nr

    @property
    def _input_metadata(self) -> tuple[Any, ...]:
        found: tuple[Any, ...] = INSPECTION.input_metadata(self)
        return found

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        slots = self._edge_slots
        places: list[int] = INSPECTION.shown_edges(self)
        return tuple([(shown(self._edges[i]), 0 if slots is None else slots[i]) for i in places])


def shown(node: Node | None) -> Any:
    """A node as users see it: an object whose class has PyTorch's name."""
    return None if node is None else INSPECTION.shown(node)


def stamp(what: Stamped, above: int = ABOVE_DISPATCH) -> None:
    """Note the user's line on a node or view that is being made.

    `above` frames are known to be ours; the others are asked for their files.
    """
    if COMPILED and HOST_KERNELS.user_line is not None:
        at = HOST_KERNELS.user_line(STATE.user_code, _own_files)
        if at is not None:
            what._code = STATE.user_code
            what._lasti = at
            what._module = STATE.module
            return
    maker = STATE.maker
    if maker is not None and maker[0] == get_ident():
        what._code = maker[1]
        what._lasti = maker[2]
        what._module = STATE.module
        return
    frame: Any
    try:
        frame = getframe(above)
    except ValueError:
        return
    code = frame.f_code
    known = STATE.user_code
    if code is not known:
        # `is_own`, without a call for every frame: a dozen frames of ours may be on the stack.
        while True:
            while code is not known and code.co_filename in _own_files:
                frame = frame.f_back
                if frame is None:
                    return
                code = frame.f_code
            if code is known or not is_own(code.co_filename):
                break
        STATE.user_code = code
    what._code = code
    what._lasti = frame.f_lasti
    what._module = STATE.module


def next_seq() -> int:
    """The number of a new node: of two nodes the later one has the greater number."""
    if COMPILED:  # no other thread comes in between
        STATE.numbered += 1
        return STATE.numbered
    return next(_sequence)


if not COMPILED:
    globals()["next_seq"] = _sequence.__next__  # without a frame of Python


def alike(x: Any, y: Any) -> int:
    """For two float32 or two float64 arrays: 1 if they have one shape, else 2. Others: 0."""
    if HOST_KERNELS.alike is not None and type(x) is ndarray:
        found: int = HOST_KERNELS.alike(x, y)
        return found
    dtype = x.dtype
    if dtype is not y.dtype or (dtype is not F32 and dtype is not F64):
        return 0
    return 1 if x is y or x.shape == y.shape else 2


class View(Stamped):
    """How a view came from its base. `seen` is the version at which its history was last right."""

    asked: bool = False  # requires_grad_() was called on the view itself, not only on its base

    def __init__(self, base: TensorBase, kind: str, seen: int, steps: tuple[Any, ...]) -> None:
        self.base = base
        self.kind = kind  # "" or what forbids writing: "no_grad", "multi", "inference", "custom"
        self.seen = seen
        # (source array, op, attrs) of the first view that strides cannot express (it changes the
        # dtype, or has bits), and of each one on the way since then.
        self.steps = steps

    def twin(self) -> View:
        """A copy of the view recipe for another tensor, which follows its own history."""
        made = View(self.base, self.kind, self.seen, self.steps)
        made.asked = self.asked
        made._code = self._code
        made._lasti = self._lasti
        made._module = self._module
        return made


@mypyc_attr(allow_interpreted_subclasses=True)
class TensorBase:
    """The part of a Tensor that dispatch and engine touch; made by `blank` or `wrap`."""

    # Slots, so that a tensor's `__dict__` holds what users put there and nothing else.
    __slots__ = (
        "_array",
        "_cell",
        "_cut",
        "_gradient",
        "_node",
        "_retained",
        "_slot",
        "_special",
        "_view_of",
        "_wants_grad",
    )

    _array: Any
    _wants_grad: bool
    _special: int  # ORDINARY, INTERPRETED, ON_DEVICE, ON_META or WITH_BITS
    _node: Node | None  # the grad_fn; for a leaf that has been used, its AccumulateGrad
    _slot: int  # which output of `_node` this is
    _cell: Version | None
    _view_of: View | None
    _gradient: TensorBase | None
    _cut: Cut | None
    _retained: bool

    def _version_cell(self) -> Version:
        """The version cell, made on first need."""
        return cell_of(self)


def cell_of(t: TensorBase) -> Version:
    """`TensorBase._version_cell` for compiled code, which calls a function faster than a method."""
    cell = t._cell
    if cell is None:
        cell = t._cell = Version()
    return cell


def node_of(root: Any) -> Any:
    """The node of a tensor or of a GradientEdge; None where there is none."""
    if isinstance(root, TensorBase):
        return root._node
    edge = root
    return getattr(edge, "node", None)


def note_birth(t: TensorBase) -> None:
    """Keep the user's line that made a leaf which requires grad: E05 tells it."""
    if STATE.recording:
        frame = user_frame(CALLER)
        if frame is not None:
            cell_of(t).born = (frame.f_code, frame.f_lasti)


def blank(cls: Any) -> TensorBase:
    """A tensor of class `cls` around nothing yet; its array is set next."""
    t: TensorBase = TENSOR.new(cls)
    clear(t)
    return t


def clear(t: TensorBase) -> None:
    """Set the fields of a tensor to those of one without history."""
    t._wants_grad = False
    t._special = ORDINARY
    t._node = None
    t._slot = 0
    t._cell = None
    t._view_of = None
    t._gradient = None
    t._cut = None
    t._retained = False


def wrap(array: Any) -> TensorBase:
    """A plain tensor around an array."""
    t: TensorBase = TENSOR.plain()
    t._array = array
    t._wants_grad = False  # `clear`, without a call for every result
    t._node = t._cell = t._view_of = t._gradient = t._cut = None
    t._slot = 0
    t._retained = False
    kind = type(array)
    if kind is ndarray:
        t._special = ORDINARY
    else:
        t._special = ON_DEVICE if kind is STATE.device_type else special_by(array)
    return t


def special_by(array: Any) -> int:
    """The `_special` of a plain tensor around an array: which kind of memory it has."""
    kind = type(array)
    if kind is STATE.device_type:
        return ON_DEVICE
    if kind is STATE.meta_type:
        return ON_META
    return WITH_BITS if kind is STATE.bits_type else ORDINARY


def as_array(value: Any) -> Any:
    """NumPy gives scalars for 0-d results; tensors hold arrays."""
    kind = type(value)
    if kind is ndarray or kind is STATE.device_type or kind is STATE.meta_type:
        return value
    if kind is STATE.bits_type:
        return value
    return np.asarray(value)
