"""The dtypes: one singleton each, with PyTorch's names, and the default floating dtype.

`bool`, `int` and `float` are dtypes in the public API. Here they would hide Python's own, so the
module spells the first `bool_`; `NAMES` holds every public name, aliases included.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy

from .core.late_bound import ON_DEMAND

BOOL, INTEGRAL, FLOATING, COMPLEX = 0, 1, 2, 3


class dtype:
    """The type of a tensor's elements.

    >>> float32, float32.itemsize, float32.to_complex()
    (torch.float32, 4, torch.complex64)
    """

    __slots__ = (
        "category",
        "index",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
        "np",
        "scalar_type",
    )

    name: str
    scalar_type: str  # the name that error sentences use: "Float", "ComplexDouble"
    index: int  # position in ALL
    category: int
    itemsize: int
    is_floating_point: bool
    is_complex: bool
    is_signed: bool
    np: numpy.dtype[Any]

    @property
    def abbr(self) -> str:
        """A short name: "f32", "bf16", "c64"."""
        return f"{'bf' if self.name == 'bfloat16' else self.name[0]}{8 * self.itemsize}"

    def __new__(cls, *args: object, **kwargs: object) -> dtype:
        raise TypeError("cannot create 'torch.dtype' instances")

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("type 'torch.dtype' is not an acceptable base type")

    def __getattr__(self, name: str) -> Any:
        # Reached only while a slot is empty: the first use of `bfloat16.np`.
        if name == "np":
            return _load_np(self)
        raise AttributeError(f"'torch.dtype' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        if name in dtype.__slots__:
            raise AttributeError(f"attribute '{name}' of 'torch.dtype' objects is not writable")
        raise AttributeError(f"'torch.dtype' object has no attribute '{name}'")

    def __repr__(self) -> str:
        return "torch." + self.name

    def __reduce__(self) -> Any:
        if self.__module__ == "torch":  # of a program that knows this class as PyTorch's
            return self.name
        return named, (self.name,)

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: object) -> dtype:
        return self

    def to_real(self) -> dtype:
        """The dtype of the real part; itself unless complex."""
        return _REAL.get(self, self)

    def to_complex(self) -> dtype:
        """The complex dtype of this precision (float16 has none in NumPy and gives complex64)."""
        if self.category == COMPLEX:
            return self
        if self.category != FLOATING:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_type}")
        return complex128 if self is float64 else complex64


ALL: list[dtype] = []
STORED: list[dtype] = []  # kept and converted (float8), or only named; never computed with
OUTSIDE = 1 << 20  # their index, which no table has
UNSIGNED = ("uint", "quint", "bits", "float8_e8m0")


def _make(
    name: str, scalar_type: str, category: int, itemsize: int, stored_only: bool = False
) -> dtype:
    new = object.__new__(dtype)
    put = object.__setattr__
    put(new, "name", name)
    put(new, "scalar_type", scalar_type)
    put(new, "index", OUTSIDE if stored_only else len(ALL))
    put(new, "category", category)
    put(new, "itemsize", itemsize)
    put(new, "is_floating_point", category == FLOATING)
    put(new, "is_complex", category == COMPLEX)
    put(new, "is_signed", not (category == BOOL or name.startswith(UNSIGNED)))
    if stored_only:
        STORED.append(new)
        return new
    if name != "bfloat16":
        put(new, "np", numpy.dtype(name))
    ALL.append(new)
    return new


bool_ = _make("bool", "Bool", BOOL, 1)
uint8 = _make("uint8", "Byte", INTEGRAL, 1)
int8 = _make("int8", "Char", INTEGRAL, 1)
int16 = _make("int16", "Short", INTEGRAL, 2)
int32 = _make("int32", "Int", INTEGRAL, 4)
int64 = _make("int64", "Long", INTEGRAL, 8)
uint16 = _make("uint16", "UInt16", INTEGRAL, 2)
uint32 = _make("uint32", "UInt32", INTEGRAL, 4)
uint64 = _make("uint64", "UInt64", INTEGRAL, 8)
float16 = _make("float16", "Half", FLOATING, 2)
bfloat16 = _make("bfloat16", "BFloat16", FLOATING, 2)
float32 = _make("float32", "Float", FLOATING, 4)
float64 = _make("float64", "Double", FLOATING, 8)
complex64 = _make("complex64", "ComplexFloat", COMPLEX, 8)
complex128 = _make("complex128", "ComplexDouble", COMPLEX, 16)

for _name in (
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
):
    _make(_name, _name.capitalize(), FLOATING, 1, stored_only=True)
_make("float4_e2m1fn_x2", "Float4_e2m1fn_x2", FLOATING, 1, stored_only=True)
_make("complex32", "ComplexHalf", COMPLEX, 4, stored_only=True)
for _name, _scalar, _size in (
    ("qint8", "QInt8", 1),
    ("quint8", "QUInt8", 1),
    ("qint32", "QInt32", 4),
    ("quint4x2", "QUInt4x2", 1),
    ("quint2x4", "QUInt2x4", 1),
    ("bits1x8", "Bits1x8", 1),
    ("bits2x4", "Bits2x4", 1),
    ("bits4x2", "Bits4x2", 1),
    ("bits8", "Bits8", 1),
    ("bits16", "Bits16", 2),
):
    _make(_name, _scalar, INTEGRAL, _size, stored_only=True)
for _bits in range(1, 8):
    _make(f"uint{_bits}", f"UInt{_bits}", INTEGRAL, 1, stored_only=True)
    _make(f"int{_bits}", f"Int{_bits}", INTEGRAL, 1, stored_only=True)

half, double = float16, float64
short, long = int16, int64
cfloat, cdouble = complex64, complex128

NAMES: dict[str, dtype] = {
    **{d.name: d for d in (*ALL, *STORED)},
    "half": float16,
    "float": float32,
    "double": float64,
    "short": int16,
    "int": int32,
    "long": int64,
    "cfloat": complex64,
    "cdouble": complex128,
    "chalf": next(d for d in STORED if d.is_complex),
}

# What C++ compilers call them, and so do some of PyTorch's sentences.
CPP_NAMES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "uint16": "short unsigned int",
    "uint32": "unsigned int",
    "uint64": "long unsigned int",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def cpp_name(d: Any) -> str:
    """The C++ name of a dtype, ours or NumPy's."""
    return CPP_NAMES[d.name]


_REAL = {complex64: float32, complex128: float64}

# By `numpy.dtype.num`. The C types `long` and `long long` are two numbers for one size.
BY_NUM: dict[int, dtype] = {d.np.num: d for d in ALL if d is not bfloat16}
for _code in "bhilqBHILQ":
    _integer = numpy.dtype(_code)
    BY_NUM[_integer.num] = NAMES[_integer.name]


def _load_np(d: dtype) -> numpy.dtype[Any]:
    """The NumPy dtype of what is not NumPy's own: those of ml_dtypes."""
    if d is not bfloat16 and not d.name.startswith("float8"):
        raise ON_DEMAND.not_here(f"torch.{d.name}", "convert to a dtype that can be computed with")
    try:
        import ml_dtypes
    except ImportError:
        raise RuntimeError(
            f"torch.{d.name} needs the package ml_dtypes, which is missing: pip install ml_dtypes"
        ) from None
    found: numpy.dtype[Any] = numpy.dtype(getattr(ml_dtypes, d.name))
    object.__setattr__(d, "np", found)
    BY_NUM[found.num] = d
    return found


def named(name: str) -> dtype:
    """The dtype of that name; how pickles come back to the singleton."""
    return NAMES[name]


def of(np_dtype: numpy.dtype[Any]) -> dtype:
    """The dtype of a NumPy dtype (its byte order is the caller's concern)."""
    try:
        return BY_NUM[np_dtype.num]
    except KeyError:
        known = NAMES.get(np_dtype.name)  # bfloat16 and float8, at their first array
        if known is not None and known.np == np_dtype:
            return known
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{np_dtype.type.__name__}. The only supported "
            "types are: float64, float32, float16, complex64, complex128, int64, int32, int16, "
            "int8, uint64, uint32, uint16, uint8, and bool."
        ) from None


def as_dtype(value: object, function: str = "tensor", argument: str = "dtype") -> dtype:
    """`value` itself if it is a dtype; otherwise PyTorch's complaint about that argument."""
    if type(value) is dtype:
        return value
    raise TypeError(
        f"{function}(): argument '{argument}' must be torch.dtype, not {type(value).__name__}"
    )


_default = float32


def get_default_dtype() -> dtype:
    """The dtype of tensors made from Python floats.

    >>> get_default_dtype()
    torch.float32
    """
    return _default


def set_default_dtype(d: dtype, /) -> None:
    """Make `d` the dtype of tensors made from Python floats.

    >>> torch.set_default_dtype(float64)
    >>> tensor([1.5]).dtype
    torch.float64
    >>> torch.set_default_dtype(float32)
    """
    global _default
    if type(d) is not dtype:
        raise TypeError(
            "invalid dtype object: only floating-point types are supported as the default type"
        )
    if d.category != FLOATING:
        raise TypeError("only floating-point types are supported as the default type")
    _default = d


def default_np() -> numpy.dtype[Any]:
    """The NumPy dtype of tensors made from Python floats."""
    return _default.np


def default_complex() -> dtype:
    """The dtype of tensors made from Python complex numbers."""
    return complex128 if _default is float64 else complex64


def scalar_dtype(value: object) -> dtype:
    """The dtype that a number has as an operand beside a tensor.

    As in PyTorch, a NumPy scalar that is no Python number and no integer counts as a float.
    """
    if isinstance(value, bool):
        return bool_
    if isinstance(value, (int, numpy.integer)):
        return int64 if -(2**63) <= value < 2**63 else _big_int_dtype(value)
    if isinstance(value, float):
        return _default
    if isinstance(value, complex):
        return default_complex()
    if isinstance(value, numpy.generic):
        return _default
    raise TypeError(f"expected a number, not {type(value).__name__}")


def _big_int_dtype(value: int | numpy.integer[Any]) -> dtype:
    if not isinstance(value, int):
        raise TypeError("an integer is required")
    if value < 0:
        raise OverflowError("can't convert negative int to unsigned")
    if value < 2**64:
        return uint64
    raise OverflowError("int too big to convert")


# bits of the mantissa, largest exponent, decimal digits that survive
_FLOAT_LAYOUT = {
    float16: (10, 15, 3),
    bfloat16: (7, 127, 2),
    float32: (23, 127, 6),
    float64: (52, 1023, 15),
}

# eps, max, smallest normal number
_FLOAT8_LIMITS = {
    "float8_e4m3fn": (2.0**-3, 448.0, 2.0**-6),
    "float8_e5m2": (2.0**-2, 57344.0, 2.0**-14),
    "float8_e4m3fnuz": (2.0**-3, 240.0, 2.0**-7),
    "float8_e5m2fnuz": (2.0**-3, 57344.0, 2.0**-15),
    "float8_e8m0fnu": (1.0, 2.0**127, 2.0**-127),
}


class finfo:
    """The limits of a floating dtype; of the default one if none is given.

    >>> finfo(float16)  # doctest: +ELLIPSIS
    finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, ...
    """

    __slots__ = (
        "_type",
        "bits",
        "dtype",
        "eps",
        "max",
        "min",
        "resolution",
        "smallest_normal",
        "tiny",
    )
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *args: object, **kwargs: object) -> None:
        given = _one_type("finfo", args, kwargs, default=True)
        if given.category < FLOATING:
            raise TypeError(
                "torch.finfo() requires a floating point input type. "
                "Use torch.iinfo to handle 'torch.finfo'"
            )
        self._type = given
        if given.name in _FLOAT8_LIMITS:
            self.eps, self.max, self.tiny = _FLOAT8_LIMITS[given.name]
            self.min = -self.max if given.is_signed else self.tiny
            self.smallest_normal, self.resolution = self.tiny, 1.0
            self.bits, self.dtype = 8, given.name
            return
        real = float16 if given.name == "complex32" else given.to_real()
        if real not in _FLOAT_LAYOUT:
            raise TypeError("bad argument type for built-in operation")
        mantissa, exponent, digits = _FLOAT_LAYOUT[real]
        self.bits = real.itemsize * 8
        self.dtype = real.name
        self.eps = 2.0**-mantissa
        self.max = (2.0 - self.eps) * 2.0**exponent
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** (1 - exponent)
        self.resolution = float(f"1e-{digits}")

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, finfo):
            return NotImplemented
        return self._type is other._type

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"'torch.finfo' object has no attribute '{name}'")


class iinfo:
    """The limits of an integer dtype.

    >>> iinfo(int8)
    iinfo(min=-128, max=127, dtype=int8)
    """

    __slots__ = ("_type", "bits", "dtype", "max", "min")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *args: object, **kwargs: object) -> None:
        given = _one_type("iinfo", args, kwargs, default=False)
        if given.category >= FLOATING or given in STORED:
            raise TypeError(
                "torch.iinfo() requires an integer input type. "
                "Use torch.finfo to handle 'torch.iinfo'"
            )
        if given is bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        self._type = given
        self.bits = given.itemsize * 8
        self.dtype = given.name
        value_bits = self.bits - given.is_signed
        self.max = 2**value_bits - 1
        self.min = -(2**value_bits) if given.is_signed else 0

    def __repr__(self) -> str:
        low, high = float(self.min), float(self.max)
        return f"iinfo(min={low:g}, max={high:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, iinfo):
            return NotImplemented
        return self._type is other._type

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"'torch.iinfo' object has no attribute '{name}'")


def _spell(value: object) -> str:
    return "torch.dtype" if type(value) is dtype else type(value).__name__


def _too_many(
    function: str, args: tuple[object, ...], kwargs: dict[str, object], overloaded: bool
) -> str:
    if overloaded:
        got = [_spell(v) for v in args]
        got += [f"{k}={_spell(kwargs[k])}" for k in sorted(kwargs, key="type".__ne__)]
        return (
            f"{function}() received an invalid combination of arguments - got ({', '.join(got)}"
            f"{'' if args else ', '}), but expected one of:\n * (torch.dtype type)\n * ()\n"
        )
    if len(args) > 1:
        return f"{function}() takes 1 positional argument but {len(args)} were given"
    if args and "type" in kwargs:
        return f"{function}() got multiple values for argument 'type'"
    unknown = next(name for name in kwargs if name != "type")
    return f"{function}() got an unexpected keyword argument '{unknown}'"


# What finfo and iinfo take Python's own types for.
_PYTHON_TYPES: dict[Any, dtype] = {float: float64, complex: complex128, int: int64, bool: bool_}


def _one_type(
    function: str, args: tuple[object, ...], kwargs: dict[str, object], default: bool
) -> dtype:
    """The only argument, `type`, of finfo and iinfo."""
    if not args and not kwargs and default:
        return _default
    if not args and "type" not in kwargs:
        raise TypeError(f'{function}() missing 1 required positional arguments: "type"')
    if len(args) + len(kwargs) > 1:
        raise TypeError(_too_many(function, args, kwargs, default))
    value = args[0] if args else kwargs["type"]
    if type(value) is dtype:
        return value
    if value in _PYTHON_TYPES:
        return _PYTHON_TYPES[value]
    position = " (position 1)" if args else ""
    raise TypeError(
        f"{function}(): argument 'type'{position} must be torch.dtype, not {type(value).__name__}"
    )
