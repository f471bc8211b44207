"""Ops that become one kernel in a step that is recorded as a CUDA graph.

Elementwise ops after a batch norm are done by its kernel: if nothing else has been recorded in
between, the kernel in the graph is replaced by one that also computes the op, and no new kernel is
started. In the backward pass, the gradient of such an op is computed by the kernels of the norm's
gradient, which recompute the values that the op read.

Intermediate results are stored all the same, as other code may refer to them. If the memory of one
is freed before anything else is recorded, nobody has read it, and it is not stored any
more. The results are those of the kernels one by one, bit for bit.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import join_sources
from .cublas import loaded
from .launchers.kernels import NOTHING, Gpu, accumulator, real_of
from .launchers.moves import contiguous
from .launchers.rms import is_aligned

MOST_STEPS = 4
ACTIVE = 1  # cudaStreamCaptureStatusActive
POINTER = np.uint64


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v1"""

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("extra", ctypes.c_void_p),
    ]


class Graph:
    """The CUDA graph that is being recorded."""

    def __init__(self, xp: Any) -> None:
        lib = ctypes.CDLL(loaded("cuda"))
        self.info, self.dependents = lib.cuStreamGetCaptureInfo_v2, lib.cuGraphNodeGetDependentNodes
        self.set_params = lib.cuGraphKernelNodeSetParams
        self.stream_now = xp.cuda.get_current_stream

    def last(self) -> int | None:
        """The node that the next kernel would depend on; None unless there is exactly one."""
        status, number = ctypes.c_int(), ctypes.c_uint64()
        graph, count = ctypes.c_void_p(), ctypes.c_size_t()
        nodes = ctypes.POINTER(ctypes.c_void_p)()
        found = [ctypes.byref(x) for x in (status, number, graph, nodes, count)]
        stream = ctypes.c_void_p(self.stream_now().ptr)
        failed = self.info(stream, *found)
        if failed or status.value != ACTIVE or count.value != 1:
            return None
        return nodes[0]

    def waiting(self, node: int) -> int:
        """How many nodes depend on a node."""
        count = ctypes.c_size_t()
        wanted = (ctypes.c_void_p(node), None, ctypes.byref(count))
        failed = self.dependents(*wanted)
        return -1 if failed else count.value

    def set(self, node: int, kernel: Any, grid: Any, block: Any, args: Sequence[Any]) -> bool:
        """Replace a kernel by another one; False if that does not work."""
        while not hasattr(kernel, "ptr"):
            kernel = kernel.kernel
        values = [ctypes.create_string_buffer(bytes_of(a)) for a in args]
        places = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        node_of = KernelNode(kernel.ptr, three(grid), three(block), 0, places, None)
        wanted = (ctypes.c_void_p(node), ctypes.byref(node_of))
        return self.set_params(*wanted) == 0


def three(sizes: Any) -> Any:
    return (ctypes.c_uint * 3)(*sizes, *(1,) * (3 - len(sizes)))


def as_pointer(argument: Any) -> Any:
    """The address of an array; other arguments of kernels unchanged."""
    is_array = hasattr(argument, "data") and hasattr(argument.data, "ptr")
    return POINTER(argument.data.ptr) if is_array else argument


def bytes_of(argument: Any) -> bytes:
    """An argument of a kernel as the bytes that CuPy passes."""
    argument = as_pointer(argument)
    if isinstance(argument, int):
        argument = np.int64(argument)
    elif isinstance(argument, float):
        argument = np.float64(argument)
    found: bytes = argument.tobytes()
    return found


def watched(cuda: Any, malloc: Callable[[int], Any]) -> Callable[[int], Any]:
    """An allocator whose memory calls back when it is freed."""
    memory = cuda.memory
    weakly = () if memory.BaseMemory.__weakrefoffset__ else ("__weakref__",)

    class Watched(memory.BaseMemory):  # type: ignore[misc]
        __slots__ = ("gone", "source", *weakly)

        def __del__(self) -> None:
            if self.gone is not None:
                self.gone()

    def take(size: int) -> Any:
        found = malloc(size)
        if not size:
            return found
        made = Watched()
        made.ptr, made.size, made.device_id = found.ptr, size, found.mem.device_id
        made.source, made.gone = found, None
        return memory.MemoryPointer(made, 0)

    return take


class Step:
    """An elementwise op after a norm; without a formula, a copy to where it writes."""

    def __init__(
        self, formula: Any, is_value: list[bool], other: Any, numbers: Sequence[Any], out: Any
    ) -> None:
        self.formula = formula
        self.is_value = is_value  # which of its arguments are what the norm and the steps made
        self.other = other  # an array (or where it is), in the place of the others
        self.numbers = numbers
        self.out = POINTER(out.data.ptr)


class Head:
    """The norm that was recorded last, and what has joined it."""

    def __init__(self, node: int, launch: Any, args: list[Any], out: Any) -> None:
        self.node = node
        self.launch = launch
        # Arrays are kept, so that no result gets their memory; not the one that it makes.
        self.place = [a is out for a in args].index(True)
        self.args = args
        self.args[self.place] = self.value = POINTER(out.data.ptr)
        self.size, self.dtype = out.size, out.dtype
        self.steps: list[Step] = []
        self.line: Any = None
        self.keys: tuple[int, int] | None = None  # where input and statistics are, in training

    def arguments(self) -> list[Any]:
        line = NOTHING if self.line is None else self.line
        found = [*self.args, line, real_of(self.dtype)(1)]
        for step in self.steps:
            if step.other is not None:
                found.append(step.other)
            found += [*step.numbers, step.out]
        return found

    def let_go(self) -> None:
        """Keep addresses in the place of arrays: no further op joins this norm."""
        self.args = [as_pointer(a) for a in self.args]
        for step in self.steps:
            step.other = as_pointer(step.other)

    def where(self, place: int) -> int:
        """Where the result of the norm (-1) or of a step is stored; 0 if it is not."""
        return int(self.args[self.place] if place < 0 else self.steps[place].out)

    def drop(self, place: int) -> None:
        """Do not store it."""
        if place < 0:
            self.args[self.place] = NOTHING
        else:
            self.steps[place].out = NOTHING

    def text(self) -> str:
        return join_sources.tail([(step.formula, step.is_value) for step in self.steps])


class Recipe:
    """How to recompute a value derived from a norm, as it was after `version` in-place writes."""

    def __init__(self, head: Head, count: int, version: int) -> None:
        self.version = version
        self.keys = head.keys
        self.line = head.line
        self.size, self.dtype = head.size, head.dtype
        self.steps = [step for step in head.steps[:count] if step.formula is not None]


class Pull:
    """The gradient of an elementwise op, which was recorded last."""

    def __init__(
        self, node: int, out: int, formula: Any, numbers: Any, grad: Any, recipe: Recipe
    ) -> None:
        self.nodes = [node]
        self.out = out  # where it is
        self.formula = formula
        self.numbers = numbers
        self.grad = grad  # kept, so that no result gets its memory
        self.recipe = recipe
        # What the first node does, if a norm's gradient has taken it over, and which of its
        # arguments says where this one is to be stored.
        self.set: Any = None
        self.place = 0


class Joins:
    """Fuses ops into the kernels of norms while a graph is recorded."""

    def __init__(self, backend: Any, graph: Any) -> None:
        self.backend = backend
        self.gpu: Gpu = backend.gpu
        self.graph = graph
        self.head: Head | None = None
        self.pull: Pull | None = None
        self.recipes: dict[int, Recipe] = {}  # by where the value is
        self.versions: tuple[int, ...] = ()  # of what the node that runs has saved

    def begin(self) -> None:
        """Route elementwise ops to this object from now on."""
        gpu: Any = self.gpu
        gpu.joins = self
        gpu.unary, gpu.binary, gpu.combined = self.unary, self.binary, self.combined
        self.assign_alone, self.backend.assign = self.backend.assign, self.assign

    def end(self) -> None:
        gpu: Any = self.gpu
        gpu.joins = None
        self.forget()
        self.recipes = {}
        for name in ("unary", "binary", "combined"):
            delattr(gpu, name)
        self.backend.assign = self.assign_alone

    def forget(self) -> None:
        """Let no op join what was recorded so far."""
        head, self.head = self.head, None
        pull, self.pull = self.pull, None
        if head is not None:
            head.let_go()
        if pull is not None:
            pull.grad = None

    def goes_on(self) -> bool:
        return self.gpu.joins is self

    def is_last(self, node: int) -> bool:
        """Whether nothing has been recorded since."""
        return self.graph.last() == node and self.graph.waiting(node) == 0

    # ------------------------------------------------------------------ after a norm

    def normalized(self, launch: Any, args: Sequence[Any], out: Any, keys: Any = None) -> None:
        """A norm has been recorded; `keys`: its input and statistics, if it is one of training."""
        node = self.graph.last()
        self.forget()
        if node is None or not watches(out):
            return
        self.head = Head(node, launch, list(args), out)
        if keys is not None:
            self.head.keys = keys[0].data.ptr, keys[1].data.ptr
        self.watch(out, functools.partial(self.unread, self.head, -1))

    def watch(self, array: Any, gone: Callable[[], None]) -> None:
        before = array.data.mem.gone
        array.data.mem.gone = gone if before is None else functools.partial(both, before, gone)

    def unary(self, formula: Any, x: Any, *numbers: float) -> Any:
        return self.combined("unary", formula, (x,), numbers)

    def binary(self, formula: Any, x: Any, y: Any, *numbers: float) -> Any:
        return self.combined("binary", formula, (x, y), numbers)

    def combined(
        self, form: str, formula: Any, arrays: Sequence[Any], numbers: Any, out: Any = None
    ) -> Any:
        """`Gpu.combined`, unless the op can join the kernel that was recorded last."""
        if form in ("unary", "binary"):
            made = self.joined(formula, arrays, numbers, out)
            if made is not None:
                return made
        made = Gpu.combined(self.gpu, form, formula, arrays, numbers, out)
        if form == "binary" and out is None:
            self.note_gradient(formula, arrays, numbers, made)
        return made

    def joined(self, formula: Any, arrays: Sequence[Any], numbers: Any, out: Any) -> Any:
        """The result of an op as a part of the norm; None if it cannot be one."""
        head = self.head
        if head is None or len(head.steps) >= MOST_STEPS:
            return None
        is_value = [x.data.ptr == head.value for x in arrays]
        fit = [x.size == head.size and x.dtype is head.dtype and contiguous(x) for x in arrays]
        if True not in is_value or False in fit or not is_aligned(*arrays):
            return None
        if not self.is_last(head.node):
            self.forget()
            return None
        other = next((x for x, own in zip(arrays, is_value, strict=True) if not own), None)
        if out is None:
            out = self.gpu.xp.ndarray(arrays[-1].shape, head.dtype)
            if not watches(out):
                return None
        elif out.data.ptr != head.value:
            return None
        given = [real_of(head.dtype)(s) for s in numbers]
        step = Step(formula, is_value, other, given, out)
        return out if self.goes_further(head, step, out) else None

    def assign(self, target: Any, source: Any) -> None:
        if not self.written(target, source):
            self.assign_alone(target, source)

    def written(self, target: Any, source: Any) -> bool:
        """Write the value over an earlier one, as in-place ops do; False if it is not done here."""
        head = self.head
        if head is None or len(head.steps) >= MOST_STEPS or type(source) is not type(target):
            return False
        if source.data.ptr != head.value or source.size != head.size:
            return False
        item = head.dtype.itemsize
        if target.dtype is not head.dtype or target.strides != source.strides:
            return False
        reach = [(n - 1) * step for n, step in zip(source.shape, source.strides, strict=True)]
        if target.shape != source.shape or sum(reach) + item != source.size * item:
            return False
        # Of an array that a step reads, a thread has read what it writes over.
        places = [head.where(place) for place in range(-1, len(head.steps))]
        places += [int(as_pointer(s.other)) for s in head.steps if s.other is not None]
        if target.data.ptr not in places or not hasattr(target.data.mem, "gone"):
            return False
        if not self.is_last(head.node):
            return False
        return self.goes_further(head, Step(None, [True], None, (), target), target)

    def goes_further(self, head: Head, step: Step, out: Any) -> bool:
        before = head.value, head.line, list(head.args)
        if head.line is None and head.keys is not None:
            channels = head.launch.channels
            head.line = self.gpu.xp.ndarray((2, channels), accumulator(head.dtype))
        where, count, version = int(step.out), len(head.steps) + 1, 0
        over = [place for place in range(-1, count - 1) if head.where(place) == where]
        head.steps.append(step)
        for place in over:
            head.drop(place)
        if not self.write(head):
            head.steps.pop()
            head.value, head.line, head.args = before
            for place in over:
                if place >= 0:
                    head.steps[place].out = step.out
            self.forget()
            return False
        head.value = step.out
        known = self.recipes.pop(where, None)
        if over:
            version = 1 if known is None else known.version + 1
        if head.line is not None and all([all(s.is_value) for s in head.steps]):
            if count == 1 and not over:
                self.recipes[int(before[0])] = Recipe(head, 0, 0)
            self.recipes[where] = Recipe(head, count, version)
        self.watch(out, functools.partial(self.unread, head, count - 1))
        return True

    def write(self, head: Head) -> bool:
        launch = head.launch
        kernel = launch.again(head.text())
        done: bool = self.graph.set(head.node, kernel, launch.grid, launch.block, head.arguments())
        return done

    def unread(self, head: Head, place: int) -> None:
        """Called when the memory of a result is freed: it need not be stored."""
        if not self.goes_on():
            return
        where = head.where(place)
        self.recipes.pop(where, None)
        if self.head is head and head.value == where:
            self.forget()  # it may be another array's from now on
        if head.steps and where and self.is_last(head.node):
            head.drop(place)
            self.write(head)

    # ------------------------------------------------------------------ before its gradient

    def note_gradient(self, formula: Any, arrays: Sequence[Any], numbers: Any, made: Any) -> None:
        """Called after an op was recorded: note it if it is the gradient of an op after a norm."""
        if self.pull is not None:
            self.pull.grad = self.pull = None
        grad, value = arrays
        recipe = self.recipes.get(value.data.ptr)
        if recipe is None or any([n != recipe.version for n in self.versions or (-1,)]):
            return  # or what was saved has been written over since
        if value.size != recipe.size or value.dtype is not recipe.dtype:
            return
        if made.size != recipe.size or not is_aligned(grad) or not watches(made):
            return
        node = self.graph.last()
        if node is None:
            return
        given = [real_of(made.dtype)(s) for s in numbers]
        self.pull = pull = Pull(node, made.data.ptr, formula, given, grad, recipe)
        self.watch(made, functools.partial(self.gradient_unread, pull))

    def pulls(self, grad: Any, keys: Any, launches: Sequence[tuple[Any, tuple[Any, ...]]]) -> bool:
        """Run the kernels of a norm's gradient, if they can make `grad` themselves."""
        pull = self.pull
        if pull is None or pull.out != grad.data.ptr or grad.size != pull.recipe.size:
            return False
        recipe = pull.recipe
        if recipe.keys != tuple([x.data.ptr for x in keys]) or not self.is_last(pull.nodes[0]):
            return False
        text = join_sources.pull([step.formula for step in recipe.steps], pull.formula)
        numbers = [real_of(recipe.dtype)(1)]
        numbers += [s for step in recipe.steps for s in step.numbers] + pull.numbers
        (first, args), *rest = launches
        pull.place = 2 + len(args)
        args = [pull.grad, *args, recipe.line, POINTER(pull.out), *numbers]
        pull.set = [first.again(text), first.grid, first.block, args]
        if not self.graph.set(pull.nodes[0], *pull.set):
            pull.set = None
            return False
        for launch, more in rest:
            more = (pull.grad, *more, recipe.line, NOTHING, *numbers)
            launch.again(text)(launch.grid, launch.block, more)
            pull.nodes.append(self.graph.last())
        pull.set[-1] = [as_pointer(a) for a in args]
        self.forget()
        return True

    def gradient_unread(self, pull: Pull) -> None:
        """The memory of a gradient that a norm's own gradient was made from is given back."""
        if not self.goes_on():
            return
        if self.pull is pull:
            self.forget()
        first, last = pull.nodes[0], pull.nodes[-1]
        if pull.set is None or last is None or not self.is_last(last):
            return
        if first != last and self.graph.waiting(first) != 1:
            return
        args = pull.set[-1]
        args[pull.place] = NOTHING
        self.graph.set(first, *pull.set)


def both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()


def watches(array: Any) -> bool:
    """Whether an array's memory calls back when it is freed, and has no callback yet."""
    return hasattr(array.data.mem, "gone") and array.data.mem.gone is None


def of(xp: Any, backend: Any) -> Joins | None:
    """Joins for a graph whose recording begins; None where its kernels cannot be replaced."""
    try:
        return Joins(backend, Graph(xp))
    except (OSError, AttributeError):
        return None
