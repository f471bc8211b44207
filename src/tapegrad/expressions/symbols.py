"""Symbols: passed to a formula in place of arrays, they record its operations.

NumPy asks its arguments whether they want to answer themselves (`__array_ufunc__`,
`__array_function__`), so that a block's forward runs on symbols as it is, with NumPy for `xp`
(`TracedNumPy`: some functions do not ask), and a rule with raw `F`. What a symbol cannot answer
(its values, its shape, a mask as an index) raises `Untraceable`: such a formula has no expression,
and runs on NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..core.host_arrays import host
from .expressions import NOT_PORTABLE, PRIMITIVES, SINGLE, Expression, Maker

BOOL = np.dtype(bool)


F16 = np.dtype(np.float16)


def is_half(dtype: Any) -> bool:
    """Whether it is float16 or bfloat16: computed in single precision and rounded (`rounding`)."""
    return bool(dtype.itemsize == 2)


def rounding(dtype: Any) -> str:
    """The primitive that rounds single precision to a half precision dtype."""
    return "round_f16" if dtype == F16 else "round_bf16"


class Untraceable(TypeError):
    """A formula asked for more than a symbol knows."""


def beside_half(inputs: Any) -> list[Any]:
    """The arguments of a function of halves, as NumPy takes them.

    It rounds Python numbers to float16, but not to bfloat16; beside single precision to that.
    """
    halves = {x.dtype for x in inputs if isinstance(x, Symbol) and is_half(x.dtype)}
    single = any([getattr(x, "dtype", None) == np.float32 for x in inputs])
    made = []
    for x in inputs:
        if isinstance(x, Symbol):
            fine = is_half(x.dtype) or x.dtype == np.float32
        elif halves == {F16} and type(x) in (int, float):
            with np.errstate(all="ignore"):
                x = (np.float32 if single else np.float16)(x)
            fine = type(x) is np.float32 or np.isfinite(x) or not math.isfinite(x)
        else:
            fine = type(x) in (float, np.float32) or (type(x) is int and abs(x) <= 256)
            fine = fine or getattr(x, "dtype", None) in halves  # a scalar of that dtype
        if not fine:
            raise Untraceable("half precision beside something that may be rounded")
        made.append(x)
    if len(halves) > 1:
        raise Untraceable("both kinds of half precision")
    return made


class Flags:
    """The `flags` of a symbol: contiguous, aligned, writable."""

    c_contiguous = f_contiguous = contiguous = forc = behaved = carray = owndata = True
    writeable = aligned = True


class Symbol(NDArrayOperatorsMixin):
    """An array of unknown size in a formula; writing into it replaces its expression."""

    base = None
    is_number = False  # an attribute of the call, as an input
    ndim = 1
    shape = (1,)
    flags = Flags()

    def __init__(self, maker: Maker, expression: Expression, dtype: np.dtype[Any]) -> None:
        self.maker = maker
        self.expression = expression
        self.dtype = dtype

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def size(self) -> int:
        if is_half(self.dtype):  # small arrays of half precision are rounded more often
            raise Untraceable("the size of a symbol")
        return 1

    @property
    def strides(self) -> tuple[int, ...]:
        return (self.itemsize,)

    # ------------------------------------------------------------------ what NumPy asks

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        kwargs.pop("casting", None)
        if method != "__call__" or kwargs:
            raise Untraceable(f"{ufunc.__name__}.{method} with {sorted(kwargs)}")
        rule = UFUNCS.get(ufunc.__name__)
        if rule is None:
            raise Untraceable(f"no primitive computes {ufunc.__name__}")
        if any([is_half(x.dtype) for x in inputs if isinstance(x, Symbol)]):
            inputs = beside_half(inputs)
        if self.maker.portable and all([getattr(x, "is_number", True) for x in inputs]):
            raise Untraceable("arithmetic of numbers: Python does that in double precision")
        made = rule(self.maker, *[self.read(x) for x in inputs])
        dtype = BOOL if made.is_truth else self.float_dtype(inputs)
        if self.maker.portable and is_wider(dtype, inputs):
            raise Untraceable("a number in double precision beside single precision")
        if is_half(dtype):
            made = self.maker.apply(rounding(dtype), made)
        if all([isinstance(x, Number) or not isinstance(x, Symbol) for x in inputs]):
            with np.errstate(all="ignore"):
                value = ufunc(*[x.value if isinstance(x, Number) else x for x in inputs])
            return Number(self.maker, made, dtype, value)
        result = Symbol(self.maker, made, dtype)
        if out is None:
            return result
        return written(out[0], result)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rule = FUNCTIONS.get(function.__name__)
        if rule is None:
            raise Untraceable(f"no expression for numpy.{function.__name__}")
        return rule(self, *args, **kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Untraceable("the values of a symbol")

    def read(self, x: Any) -> Expression:
        """An argument as an expression."""
        if isinstance(x, Symbol):
            return x.expression
        if isinstance(x, (bool, int, float, np.bool_, np.floating, np.integer)):
            return self.maker.number(x)
        if isinstance(x, np.generic) and is_half(x.dtype):
            return self.maker.number(float(x))
        if isinstance(x, np.ndarray) and x.ndim == 0 and x.dtype.kind in "bfiu":
            return self.maker.number(x[()])
        raise Untraceable(f"a {type(x).__name__} beside symbols")

    def float_dtype(self, inputs: Any) -> np.dtype[Any]:
        """The dtype of a float result: the common dtype of all symbols.

        Of halves and integers it is half; beside a float NumPy computes in single precision.
        """
        if any([isinstance(x, Symbol) and is_half(x.dtype) for x in inputs]):
            if all([type(x) is int or is_half(getattr(x, "dtype", BOOL)) for x in inputs]):
                return next(x.dtype for x in inputs if isinstance(x, Symbol))
            return np.dtype(np.float32)
        found = {x.dtype for x in inputs if isinstance(x, Symbol) and x.dtype != BOOL}
        found |= {
            x.dtype for x in inputs if isinstance(x, (np.ndarray, np.floating)) and x.ndim == 0
        }
        floats = {dtype for dtype in found if dtype.kind == "f"}
        if not floats:
            return np.dtype(np.float64)
        return max(floats, key=lambda dtype: dtype.itemsize)

    # ------------------------------------------------------------------ methods of arrays

    def astype(self, dtype: Any, copy: bool = True, **kwargs: Any) -> Symbol:
        dtype = np.dtype(dtype)
        if dtype == BOOL and self.dtype != BOOL:
            zero = self.maker.number(0.0)
            return Symbol(self.maker, self.maker.apply("ne", self.expression, zero), BOOL)
        if dtype != BOOL and dtype.kind != "f" and not is_half(dtype):
            raise Untraceable(f"a cast to {dtype}")
        if is_half(self.dtype) and is_half(dtype) and dtype != self.dtype:
            raise Untraceable(f"a cast of {self.dtype} to {dtype}")
        if is_half(self.dtype) and dtype == np.float64:
            self.maker.wide = True
        made = self.expression
        if is_half(dtype) and not is_half(self.dtype) and self.dtype != BOOL:
            made = self.maker.apply(rounding(dtype), made)
        if self.dtype == BOOL and dtype != BOOL:
            # The machine has 0 and 1 for truths: a number already, but no truth any more.
            one, zero = self.maker.number(1.0), self.maker.number(0.0)
            made = self.maker.apply("select", made, one, zero)
        return Symbol(self.maker, made, dtype)

    def copy(self, order: str = "C") -> Symbol:
        return Symbol(self.maker, self.expression, self.dtype)

    def polynomial(self, coefficients: Any) -> Symbol:
        """`horner` of ops/special/kernels.py as one primitive."""
        if is_half(self.dtype):
            raise Untraceable("a polynomial of half precision")
        made = self.maker.polynomial(self.expression, tuple(coefficients))
        return Symbol(self.maker, made, self.dtype)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise Untraceable("a decision that depends on values")

    def __len__(self) -> int:
        raise Untraceable("the length of a symbol")

    def __iter__(self) -> Any:
        raise Untraceable("the elements of a symbol")

    def __getitem__(self, index: Any) -> Any:
        if index is Ellipsis or index == ():
            return self
        raise Untraceable("elements of a symbol")

    def __setitem__(self, index: Any, value: Any) -> None:
        if index is not Ellipsis:
            raise Untraceable("writing to elements of a symbol")
        self.expression = self.read(value)

    def __float__(self) -> float:
        raise Untraceable("the value of a symbol")

    __int__ = __index__ = __complex__ = __float__  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        raise Untraceable(f"the attribute {name} of a symbol")


class Number(Symbol):
    """A number that an op was called with, or what was computed of such.

    It is an input of the formula, as arrays are; but a formula may take another way for it (`if
    beta == 1`), and then what it leaves behind is right for numbers that go the same way.
    """

    ndim = 0
    shape = ()  # type: ignore[assignment]

    def __init__(
        self, maker: Maker, expression: Expression, dtype: np.dtype[Any], value: Any
    ) -> None:
        super().__init__(maker, expression, dtype)
        self.value = value

    def __bool__(self) -> bool:
        self.maker.decided = True
        return bool(self.value)


def is_wider(dtype: Any, inputs: Any) -> bool:
    """Whether a result is in double precision and no symbol that it is computed of."""
    floats = [x.dtype for x in inputs if isinstance(x, Symbol) and x.dtype.kind == "f"]
    return dtype == np.float64 and np.float64 not in floats


def written(target: Any, result: Symbol) -> Symbol:
    """`out=`: the target takes over the expression of the result."""
    if not isinstance(target, Symbol):
        raise Untraceable("writing into an array")
    target.expression = result.expression
    return target


def as_truth(maker: Maker, x: Expression) -> Expression:
    return x if x.is_truth else maker.apply("ne", x, maker.number(0.0))


def primitive(name: str) -> Callable[..., Expression]:
    return lambda maker, *args: maker.apply(name, *args)


def of_truths(name: str) -> Callable[..., Expression]:
    """A logical function: its arguments are compared with zero first."""
    return lambda maker, *args: maker.apply(name, *[as_truth(maker, x) for x in args])


def only_of_truths(name: str) -> Callable[..., Expression]:
    """A bitwise function, which is traced for bools only."""

    def rule(maker: Maker, *args: Expression) -> Expression:
        if not all(x.is_truth for x in args):
            raise Untraceable("bits of numbers")
        return maker.apply(name, *args)

    return rule


def log_sum(maker: Maker, a: Expression, b: Expression, power: str, of_two: float) -> Expression:
    """The logarithm of the sum of two powers; `of_two` is that of two."""
    apply = maker.apply
    if maker.portable:
        return apply("logaddexp" if power == "exp" else "logaddexp2", a, b)
    gap = apply("abs", apply("sub", a, b))
    rest = apply("log1p", apply(power, apply("neg", gap)))
    rest = apply("mul", rest, maker.number(of_two / math.log(2.0)))
    apart = apply("add", apply("maximum", a, b), rest)
    same = apply("add", a, maker.number(of_two))
    return apply("select", apply("eq", a, b), same, apart)


def floor_divide(maker: Maker, a: Expression, b: Expression) -> Expression:
    """NumPy's floor_divide: computed from the remainder, so that both fit together."""
    apply, zero, one = maker.apply, maker.number(0.0), maker.number(1.0)
    rest = apply("fmod", a, b)
    whole = apply("div", apply("sub", a, rest), b)
    signs = apply("xor_", apply("lt", b, zero), apply("lt", rest, zero))
    below = apply("and_", apply("ne", rest, zero), signs)
    whole = apply("select", below, apply("sub", whole, one), whole)
    down = apply("floor", whole)
    far = apply("gt", apply("sub", whole, down), maker.number(0.5))
    down = apply("select", far, apply("add", down, one), down)
    quotient = apply("div", a, b)
    down = apply("select", apply("ne", whole, zero), down, apply("copysign", zero, quotient))
    return apply("select", apply("eq", b, zero), quotient, down)


# What NumPy's ufuncs are in primitives.
UFUNCS: dict[str, Callable[..., Expression]] = {
    **{
        theirs: primitive(ours)
        for theirs, ours in {
            "negative": "neg",
            "absolute": "abs",
            "fabs": "abs",
            "subtract": "sub",
            "multiply": "mul",
            "divide": "div",
            "true_divide": "div",
            "power": "pow",
            "float_power": "pow",
            "arcsin": "asin",
            "arccos": "acos",
            "arctan": "atan",
            "arcsinh": "asinh",
            "arccosh": "acosh",
            "arctanh": "atanh",
            "arctan2": "atan2",
            "less": "lt",
            "less_equal": "le",
            "greater": "gt",
            "greater_equal": "ge",
            "equal": "eq",
            "not_equal": "ne",
        }.items()
    },
    **{
        name: primitive(name)
        for name in """
        add square sqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh
        floor ceil rint trunc sign isnan isinf isfinite signbit maximum minimum fmax fmin fmod
        hypot copysign
        """.split()
    },
    "floor_divide": floor_divide,
    "logaddexp": lambda maker, a, b: log_sum(maker, a, b, "exp", math.log(2.0)),
    "logaddexp2": lambda maker, a, b: log_sum(maker, a, b, "exp2", 1.0),
    "positive": lambda maker, x: x,
    "conjugate": lambda maker, x: x,
    "logical_and": of_truths("and_"),
    "logical_or": of_truths("or_"),
    "logical_xor": of_truths("xor_"),
    "logical_not": of_truths("not_"),
    "bitwise_and": only_of_truths("and_"),
    "bitwise_or": only_of_truths("or_"),
    "bitwise_xor": only_of_truths("xor_"),
    "invert": only_of_truths("not_"),
}


def where(self: Symbol, condition: Any, x: Any, y: Any) -> Symbol:
    halves = [v.dtype for v in (x, y) if isinstance(v, Symbol) and is_half(v.dtype)]
    if halves:
        if halves[0] != F16 and float in (type(x), type(y)):
            raise Untraceable("NumPy chooses double precision beside bfloat16")
        x, y = beside_half((x, y))
    test, a, b = as_truth(self.maker, self.read(condition)), self.read(x), self.read(y)
    made = self.maker.apply("select", test, a, b)
    dtype = BOOL if made.is_truth else self.float_dtype((x, y))
    if is_half(dtype):
        made = self.maker.apply(rounding(dtype), made)
    return Symbol(self.maker, made, dtype)


def clip(self: Symbol, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None) -> Symbol:
    made = a
    if a_min is not None:
        made = np.maximum(made, a_min)
    if a_max is not None:
        made = np.minimum(made, a_max)
    return made if out is None else written(out, made)


def filled(value: Any) -> Callable[..., Symbol]:
    def rule(self: Symbol, a: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
        kind = a.dtype if dtype is None else np.dtype(dtype)
        if isinstance(value, Symbol):
            return Symbol(self.maker, value.expression, kind)
        made = self.maker.number(bool(value) if kind == BOOL else value)
        if is_half(kind):
            made = self.maker.apply(rounding(kind), made)
        return Symbol(self.maker, made, kind)

    return rule


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "where": where,
    "clip": clip,
    "copy": lambda self, a, **kwargs: a.copy(),
    "zeros_like": filled(0.0),
    "ones_like": filled(1.0),
    "empty_like": filled(0.0),
    "full_like": lambda self, a, value, **kwargs: filled(value)(self, a, **kwargs),
    "iscomplexobj": lambda self, a: False,
    "result_type": lambda self, *args: self.float_dtype(args),
}


class TracedNumPy:
    """NumPy for symbols: with those functions that do not ask their arguments.

    `primitives` are the functions of `pointwise` that a machine has, `known_as` those that it has
    by another name; others are their formulas.
    """

    def __init__(
        self, primitives: frozenset[str], known_as: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.primitives = primitives | known_as.keys()
        self.known_as = known_as

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def asarray(a: Any, dtype: Any = None, **kwargs: Any) -> Any:
        if not isinstance(a, Symbol):
            return np.asarray(a, dtype, **kwargs)
        return a if dtype is None else a.astype(dtype)

    ascontiguousarray = asarray

    @staticmethod
    def full(shape: Any, value: float, dtype: Any = np.float64) -> Any:
        return np.dtype(dtype).type(value)

    def pointwise(
        self, function: Callable[..., Any], operands: tuple[Any, ...], double: bool
    ) -> Any:
        """Block-wise functions of ops/special/kernels.py: as one primitive, or as their formula."""
        first = next(x for x in operands if isinstance(x, Symbol))
        name = function.__name__
        if is_half(first.dtype):
            inner = np.float64 if double and name not in self.primitives else np.float32
            wide = [x.astype(inner) if isinstance(x, Symbol) else x for x in operands]
            return self.pointwise(function, tuple(wide), double).astype(first.dtype)
        if name in self.primitives and (name not in SINGLE or first.dtype.itemsize == 4):
            primitive = self.known_as.get(name, name)
            made = first.maker.apply(primitive, *[first.read(x) for x in operands])
            return Symbol(first.maker, made, first.dtype)
        if not double:
            return function(self, *operands)
        first.maker.wide = True
        inner = [x.astype(np.float64) if isinstance(x, Symbol) else x for x in operands]
        made = function(self, *inner)
        if "round32" in self.primitives and first.dtype.itemsize == 4:
            made.expression = made.maker.apply("round32", made.expression)
        return made.astype(first.dtype)

    @staticmethod
    def by_parts(default: float, parts: Any, operands: tuple[Any, ...]) -> Any:
        """Every part is computed for all elements, and each takes its own."""
        out: Any = default
        for mask, function in parts:
            if any([is_half(x.dtype) for x in operands]):
                raise Untraceable("a function of half precision")
            mask.maker.branches = True
            out = np.where(mask, function(*[x.copy() for x in operands]), out)
        return out


XP = TracedNumPy(PRIMITIVES)


class PortableTracedNumPy(TracedNumPy):
    """With the functions that `host` has in the portable mode for numbers among the symbols."""

    def __getattr__(self, name: str) -> Any:
        found, own = getattr(np, name), getattr(host, name)
        if own is found:
            return found

        def run(*args: Any, **options: Any) -> Any:
            is_traced = any([isinstance(x, Symbol) for x in args])
            return (found if is_traced else own)(*args, **options)

        return run


PORTABLE_XP = PortableTracedNumPy(
    PRIMITIVES - NOT_PORTABLE, {"erf_single": "erf", "log_gamma": "lgamma"}
)
