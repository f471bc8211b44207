"""The mode in which every op has the same bits on every machine, and what it refuses.

In that mode ops run their forward on NumPy: no kernel in C but those that compute what NumPy would,
to the bit (functions.py, products.py). `host`, which blocks get as `xp`, has the functions of NumPy
whose loops round in one way only, ours in the place of others, and refuses what is in neither list.
docs/notes/portable-mode.md says what was measured.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...core.base import ndarray
from ...core.host_arrays import host
from ...core.late_bound import HOST_KERNELS
from ...core.op import REGISTRY, Op
from ...core.rule_functions import RAW
from ...core.settings import Settings
from ...core.warned import warn
from ..cpu import KERNELS
from ..cpu.backend import HOST
from .extremes import EXTREMES
from .functions import FUNCTIONS, NotPortable
from .products import PRODUCTS, vector_norm

# Functions of NumPy that use no functions of the C library, no BLAS and no fused instructions.
EXACT = frozenset(
    """
    abs absolute add all any append arange argmax argmin argpartition argsort array array_equal
    asarray ascontiguousarray atleast_1d atleast_2d bincount bitwise_and bitwise_count
    bitwise_not bitwise_or bitwise_xor broadcast_arrays broadcast_shapes broadcast_to can_cast
    ceil clip concatenate conj conjugate copy copysign copyto count_nonzero cumprod cumsum diag
    diagonal diff divide divmod dtype empty empty_like equal errstate expand_dims eye fabs finfo
    flatnonzero flip floor floor_divide fmax fmin fmod frexp frombuffer fromiter full full_like
    gcd greater greater_equal heaviside hstack iinfo indices invert isclose isfinite isin isinf
    isnan isneginf isposinf isscalar issubdtype lcm ldexp left_shift less less_equal lexsort
    linspace logical_and logical_not logical_or logical_xor max maximum may_share_memory mean
    meshgrid min min_scalar_type minimum mod modf moveaxis multiply nan_to_num negative
    nextafter nonzero not_equal ones ones_like outer pad partition permute_dims positive prod
    promote_types ptp put_along_axis ravel_multi_index reciprocal remainder repeat reshape
    result_type right_shift rint roll rollaxis rot90 searchsorted select shares_memory sign
    signbit sort spacing split sqrt square squeeze stack std subtract sum swapaxes take
    take_along_axis tile transpose tri tril tril_indices triu triu_indices true_divide trunc
    unique unravel_index var vstack where zeros zeros_like
    """.split()
)
MODULES = ("linalg", "fft", "random", "polynomial")  # NumPy loads some when they are asked for

# Ops that move complex numbers, or add them: their products are fused on some processors.
OF_PARTS = frozenset(
    """
    add sub neg conj conj_physical real imag view_as_real view_as_complex complex where eq ne isnan
    isfinite isinf clone copy cast positive sum mean cumsum resolve_conj add_alpha sub_alpha
    """.split()
)
COMPUTING = ("pointwise", "products", "nn", "special", "linalg", "reduce", "statistics", "fft")


def refused(name: str, why: str) -> RuntimeError:
    return RuntimeError(explained(name, why))


def explained(name: str, why: str) -> str:
    return (
        f"{name} does not have a portable implementation, but you set "
        "'torch.use_deterministic_algorithms(\"portable\")'.\n"
        f"  what:    {why} may round otherwise on another processor\n"
        "  fix:     switch the mode off around it: torch.use_deterministic_algorithms(False)\n"
        "           or set it with warn_only=True: this is then computed as usual, with a warning\n"
        "           or compute it on one machine, and load it from a file on the others"
    )


def or_refuse(why: str, ordinary: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Refuse what the mode has no form of, or compute it as usual with a warning."""
    if not Settings.warn_only:
        raise NotPortable(why, explained("This call", why))
    warn(f"{why} may round otherwise on another processor: this result is not portable")
    return ordinary(*args, **options)


def with_fallback(own: Callable[..., Any], ordinary: Callable[..., Any]) -> Callable[..., Any]:
    """Our function, and NumPy's own for what that does not take, with a warning."""

    def run(*args: Any, **options: Any) -> Any:
        try:
            return own(*args, **options)
        except NotPortable as why:
            return or_refuse(why.why, ordinary, *args, **options)

    return functools.update_wrapper(run, own)


class Refusing:
    """A module of NumPy's of which nothing is portable."""

    def __init__(self, name: str, module: Any) -> None:
        self.name = name
        self.module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.module, name)
        if isinstance(found, type) or not callable(found):
            return found
        return functools.partial(or_refuse, f"numpy.{self.name}.{name}", found)


def replaced_names() -> dict[str, Any]:
    """The functions that `host` has in the place of NumPy's, by name."""
    names: dict[str, Any] = {name: Refusing(name, getattr(host, name)) for name in MODULES}
    names["linalg"].norm = vector_norm
    for name, value in vars(host).items():
        if name in MODULES:
            continue
        if name in EXTREMES:
            names[name] = EXTREMES[name]
        elif name in FUNCTIONS:
            names[name] = with_fallback(FUNCTIONS[name], value)
        elif name in PRODUCTS:
            names[name] = with_fallback(PRODUCTS[name], value)
        elif callable(value) and not isinstance(value, type) and name not in EXACT:
            names[name] = functools.partial(or_refuse, f"numpy.{name}", value)
    return names


def portable_kernel(op: Op, run: Callable[..., Any]) -> Callable[..., Any]:
    """The forward of an op on NumPy, with refusals that name it."""
    if op.view:
        return run
    moves = op.name in OF_PARTS or op.home.split(".")[2:3] not in [[part] for part in COMPUTING]

    def kernel(*args: Any) -> Any:
        if not moves:
            for x in args:
                if type(x) is ndarray and x.dtype.kind == "c":
                    return with_complex(op, run, args)
        try:
            return run(*args)
        except NotPortable as why:
            raise refused(op.name, why.why) from None

    return kernel


def with_complex(op: Op, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return or_refuse("arithmetic of complex numbers", run, *args)
    except NotPortable as why:
        raise refused(op.name, why.why) from None


# ---------------------------------------------------------------------- switching

ORDINARY: dict[str, Any] = {}  # names of `host` outside the mode
# Of HOST_KERNELS: they sum in orders of their own.
SHORT_WAYS = ("sum_to", "product", "lstm_step", "elementwise_along")
SHORT: dict[str, Any] = {}
KEPT: dict[str, tuple[Any, ...]] = {}  # kernels outside the mode, by op


def use_portable(on: bool) -> None:
    """Enter or leave the mode, for all ops that are loaded; others ask when they are."""
    if Settings.portable == on:
        return
    Settings.portable = on
    if on:
        ORDINARY.update(vars(host))
        SHORT.update({name: getattr(HOST_KERNELS, name) for name in SHORT_WAYS})
        vars(host).update(replaced_names())
    else:
        vars(host).clear()
        vars(host).update(ORDINARY)
    if KERNELS is not None:
        KERNELS.KERNELS["portable_powers"]((), (on,))
    for name in SHORT_WAYS:
        setattr(HOST_KERNELS, name, None if on else SHORT[name])
    for op in list(REGISTRY.values()):
        if on:
            KEPT[op.name] = (op.kernel, op.by_rows, op.into, op.gradients, op.native)
        kept = None if on else KEPT.get(op.name)
        if kept is None:
            HOST.fit(op)
        else:
            op.kernel, op.by_rows, op.into, op.gradients, op.native = kept
        setattr(RAW, op.name, op.kernel)
