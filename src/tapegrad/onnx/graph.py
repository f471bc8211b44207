"""An ONNX graph in the making: nodes, constants, and sizes that are computed when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.base import TensorBase
from ..core.op import Op
from ..core.python_dispatch import leaves_of
from ..ops.shape.copying import Copy
from ..ops.shape.dim_views import SqueezeAll, SqueezeOne, Unsqueeze
from ..ops.shape.part_views import Select, Slice
from ..ops.shape.views import Alias, View
from .errors import OnnxExporterError, UnsupportedOperatorError
from .recording import Joined, Step
from .sizes import Size

Dims = Any  # a sequence of ints and Sizes
TRANSLATIONS: dict[Any, Callable[..., Any]] = {}  # by op, or by name in PyTorch
ONE_NODE = "an op whose block names the node of ONNX that it is"
RANDOM = ("rand", "bernoulli", "dropout", "normal_", "uniform", "multinomial", "poisson")


def translates(*ops: Any) -> Callable[[Any], Any]:
    """Enter a function as the translation of ops: (graph, step) -> names of the results."""

    def enter(function: Any) -> Any:
        TRANSLATIONS.update(dict.fromkeys(ops, function))
        return function

    return enter


class Value:
    """A tensor of the graph."""

    def __init__(self, name: str, dtype: Any, shape: Any, array: Any = None) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)
        self.shape = tuple(shape)
        self.array = array  # of a constant
        self.made_by: Step | None = None
        self.last: str = ""  # recurrent layers have only the last of some results

    @property
    def ndim(self) -> int:
        return len(self.shape)


class Graph:
    """Collects the nodes of a graph while the steps of a recording are translated."""

    def __init__(self, onnx: Any, joined: Joined, names: dict[int, str], opset: int) -> None:
        self.onnx = onnx
        self.joined = joined
        self.state_names = names  # by id: parameters and buffers
        self.opset = opset
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.known_constants: dict[Any, str] = {}
        self.values: dict[int, Value] = {}  # by id of a tensor of the first recording
        self.views: dict[int, tuple[Any, Step, int]] = {}  # base, step, version of the base
        self.versions: dict[int, int] = {}
        self.lost: dict[int, str] = {}  # written through views that are not followed
        self.symbols: dict[str, tuple[str, int]] = {}  # tensor and axis
        self.computed: dict[Any, str] = {}
        self.step = Step("", [], {}, [], None)
        self.names: set[str] = set()

    # ------------------------------------------------------------------ names and nodes

    def fresh(self, wish: str) -> str:
        name, n = wish, 0
        while name in self.names:
            n += 1
            name = f"{wish}_{n}"
        self.names.add(name)
        return name

    def op(self, kind: str, *inputs: Any, outputs: int = 1, **attrs: Any) -> Any:
        """Add a node; its output, or a list of them. Inputs are values, names or ''."""
        names = [self.name_of(each) for each in inputs]
        while names and not names[-1]:
            names.pop()
        made = [self.fresh(kind.lower()) for _ in range(outputs)]
        attrs = {k: v for k, v in attrs.items() if v is not None}
        self.nodes.append(self.onnx.helper.make_node(kind, names, made, **attrs))
        return made[0] if outputs == 1 else made

    def name_of(self, value: Any) -> str:
        if isinstance(value, Value):
            if value.array is not None and not value.name:
                value.name = self.constant(value.array)
            return value.name
        return "" if value is None else value

    def constant(self, array: Any, wish: str = "") -> str:
        """An initializer; small ones of equal value are one."""
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        key = (array.dtype, array.shape, array.tobytes()) if array.size <= 64 and not wish else None
        if key is not None and key in self.known_constants:
            return self.known_constants[key]
        name = self.fresh(wish or "constant")
        self.constants[name] = array
        if key is not None:
            self.known_constants[key] = name
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def number(self, value: Any, dtype: Any) -> str:
        return self.constant(np.array(value, dtype))

    # ------------------------------------------------------------------ sizes

    def size(self, value: int | Size) -> str:
        """A number as a tensor of one element and one dimension."""
        if not isinstance(value, Size):
            return self.ints(int(value))
        if value not in self.computed:
            terms = []
            for product, factor in value.terms.items():
                parts = [self.symbol(name) for name in product]
                if factor != 1 or not parts:
                    parts.append(self.ints(factor))
                terms.append(self.joined_by("Mul", parts))
            self.computed[value] = self.joined_by("Add", terms)
        return self.computed[value]

    def scalar(self, value: int | Size) -> str:
        """A number as a tensor without dimensions."""
        if not isinstance(value, Size):
            return self.number(value, np.int64)
        return self.op("Squeeze", self.size(value), self.ints(0))  # type: ignore[no-any-return]

    def joined_by(self, kind: str, names: list[str]) -> str:
        made = names[0]
        for name in names[1:]:
            made = self.op(kind, made, name)
        return made

    def symbol(self, name: str) -> str:
        if name not in self.computed:
            if name in self.joined.sizes.derived:
                tensor, axis = self.joined.sizes.derived[name]
                if id(tensor) not in self.values:
                    raise OnnxExporterError(
                        f"{self.step.name} needs a size that is known after it{self.step.where()}"
                    )
                source = self.values[id(tensor)].name
            else:
                source, axis = self.symbols[name]
            shape = self.op("Shape", source)
            self.computed[name] = self.op("Gather", shape, self.ints(axis), axis=0)
        return self.computed[name]

    def sizes(self, dims: Dims) -> str:
        """Several numbers as one tensor."""
        if not any([isinstance(d, Size) for d in dims]):
            return self.ints(*[int(d) for d in dims])
        return self.op("Concat", *[self.size(d) for d in dims], axis=0)

    def reshape(self, value: Any, dims: Dims) -> str:
        dims = list(dims)
        changing = [i for i, d in enumerate(dims) if isinstance(d, Size)]
        if len(changing) == 1 and 0 not in dims:
            dims[changing[0]] = -1
        return self.op("Reshape", value, self.sizes(dims), allowzero=1 if 0 in dims else None)

    # ------------------------------------------------------------------ tensors

    def value(self, t: Any) -> Value:
        """The graph's value for a tensor of the recording, at this point."""
        key = id(t)
        if key in self.lost:
            raise OnnxExporterError(
                f"a tensor is read after something was written into it through a view by "
                f"{self.lost[key]}, which cannot be exported{self.step.where()}"
            )
        if key in self.views:
            base, step, version = self.views[key]
            self.value(base)
            if self.versions.get(id(base), 0) > version:
                place = [r is t for r in step.results].index(True)
                self.values[key] = self.translate(step)[place]
                self.views[key] = (base, step, self.versions[id(base)])
                self.versions[key] = self.versions.get(key, 0) + 1
        if key not in self.values:
            wish = self.state_names.get(key, "")
            array = t.detach().resolve_conj().resolve_neg()._array
            made = Value(self.constant(array, wish) if wish else "", array.dtype, t.shape, array)
            self.values[key] = made
        return self.values[key]

    def cast(self, value: Any, dtype: Any) -> Value:
        """A value or number in a dtype."""
        dtype = np.dtype(dtype)
        if not isinstance(value, Value):
            return Value(self.number(value, dtype), dtype, ())
        if value.dtype == dtype:
            return value
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(dtype)
        return Value(self.op("Cast", value, to=kind), dtype, value.shape)

    # ------------------------------------------------------------------ steps

    def add(self, step: Step) -> None:
        """Translate a step and remember its results."""
        self.step = step
        if self.is_constant(step):
            for result in step.results:
                self.values[id(result)] = Value(
                    "", result._array.dtype, result.shape, result._array
                )
            return
        made = self.translate(step)
        if step.writes:
            self.write(step, made[0])
            return
        for result, value in zip(step.results, made, strict=True):
            if isinstance(result, TensorBase):
                self.values[id(result)] = value
                if step.view:
                    base = step.tensors[0]
                    self.views[id(result)] = (base, step, self.versions.get(id(base), 0))

    def is_constant(self, step: Step) -> bool:
        """Whether the results are the same whatever the inputs are: then they are known."""
        if step.writes or not all([isinstance(r, TensorBase) for r in step.results]):
            return False
        if any([word in step.name for word in RANDOM]):
            return False
        leaves = leaves_of((step.tensors, list(step.attrs.values())))
        if any([isinstance(leaf, Size) for leaf in leaves]):
            return False
        tensors = [self.value(leaf) for leaf in leaves if isinstance(leaf, TensorBase)]
        return all([t.array is not None for t in tensors])

    def translate(self, step: Step) -> list[Value]:
        function = TRANSLATIONS.get(step.op)
        if function is None and isinstance(step.op, Op) and step.op.onnx:
            function = TRANSLATIONS[ONE_NODE]
        if function is None:
            raise unsupported(step, self.opset)
        before, self.step = self.step, step
        made = function(self, step)
        self.step = before
        names = made if isinstance(made, list) else [made]
        found = []
        for i, result in enumerate(step.results):
            value = names[i] if i < len(names) else ""
            if not isinstance(value, Value):
                value = Value(value, result._array.dtype, step.sizes[i])
            value.made_by = step
            found.append(value)
        return found

    def write(self, step: Step, made: Value) -> None:
        """A tensor is another value from now on; so is what it is a view of."""
        target = step.tensors[0]
        self.values[id(target)] = Value(made.name, made.dtype, made.shape)
        self.versions[id(target)] = self.versions.get(id(target), 0) + 1
        for result in step.results:
            if result is not target and isinstance(result, TensorBase):
                self.values[id(result)] = self.values[id(target)]
        if id(target) not in self.views:
            return
        base, view, _ = self.views[id(target)]
        new = self.written_back(base, view, made)
        if new is None:
            self.forget(base, step)
            del self.views[id(target)]
            return
        whole = self.value(base)
        copy = Step(Copy, [base, base], {}, [base], step.place)
        copy.writes = True
        self.write(copy, Value(new, whole.dtype, whole.shape))
        self.views[id(target)] = (base, view, self.versions[id(base)])

    def forget(self, base: Any, step: Step) -> None:
        self.lost[id(base)] = step.name
        if id(base) in self.views:
            self.forget(self.views[id(base)][0], step)

    def written_back(self, base: Any, view: Step, made: Value) -> str | None:
        """The base with a part of it replaced."""
        whole = self.value(base)
        part: Any = made.name
        if view.op in (View, Alias, Unsqueeze, SqueezeOne, SqueezeAll):
            return self.reshape(part, whole.shape)
        if view.op not in (Select, Slice) or view.attrs.get("step", 1) != 1:
            return None
        dim = view.attrs["dim"]
        if view.op is Select:
            start = self.size(view.attrs["index"])
            end = self.op("Add", start, self.ints(1))
            part = self.op("Unsqueeze", part, self.ints(dim))
        else:
            start, end = self.size(view.attrs["start"]), self.size(view.attrs["end"])
        before = self.op("Slice", whole, self.ints(0), start, self.ints(dim))
        after = self.op("Slice", whole, end, self.ints(np.iinfo(np.int64).max), self.ints(dim))
        return self.op("Concat", before, part, after, axis=dim)  # type: ignore[no-any-return]


def unsupported(step: Step, opset: int) -> UnsupportedOperatorError:
    name = step.name if "::" in step.name else f"aten::{step.name}"
    return UnsupportedOperatorError(
        f"Exporting the operator '{name}' to ONNX opset version {opset} is not supported."
        f"{step.where()}"
    )
