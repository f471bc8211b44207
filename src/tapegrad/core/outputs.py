"""`out=`: compute, then store into tensors that the caller owns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from .base import STATE, TensorBase, quiet, wrap
from .devices import two_devices, xp_of
from .modes import MODES
from .transforms.batched import has_batched
from .transforms.levels import TANGENTS

# What PyTorch says when `out` has another dtype than the result, where it does not cast.
EXACT_DTYPES = {
    "Expected out tensor to have dtype {want_c}, but got {got_c} instead": """
        addmm addmv aminmax argmax argmin baddbmm bmm diag gather index_add index_copy inverse
        linalg_cholesky linalg_cholesky_ex linalg_det linalg_eigh linalg_eigvalsh linalg_inv
        linalg_inv_ex linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_qr
        linalg_slogdet linalg_solve linalg_solve_ex linalg_svd linalg_svdvals linalg_vector_norm
        log_softmax lu_solve lu_unpack mm msort norm qr scatter scatter_add scatter_reduce
        slice_scatter slogdet softmax sort svd take_along_dim topk triangular_solve tril triu
    """,
    "Found dtype {got} but expected {want}": """
        abs absolute bitwise_not ceil clamp clamp_max clamp_min clip conj_physical fix floor frac
        hardshrink neg negative round sgn sign trunc
    """,
    "{name} only supports bool tensor for result, got: {got}": "all any",
    "{name} does not support non-boolean outputs.": "isneginf isposinf signbit",
    "Expected the dtype for input and out to match, but got {want} for input's dtype and {got} for "
    "out's dtype.": "amax amin",
    "Expected object of scalar type {want} but got scalar type {got} for argument 'out'": """
        complex polar
    """,
    "expected scalar_type {want} but found {got}": "cummax cummin logcumsumexp",
    "expected scalar type {want} but found {got}": "linalg_solve_triangular",
    "result dtype {got} does not match input dtype {want}": "dot matmul vdot",
    "{name}(): self and result must have the same scalar type": "index_select masked_select",
    "tensordot: Expected the output tensor to have dtype {want}, but got an output tensor with "
    "dtype {got}": "inner tensordot",
    "{torch_name} expected out tensor dtype {want} but got: {got}": """
        linalg_matrix_norm linalg_norm
    """,
    "{name} expects Long tensor out, got: {got}": "multinomial",
    "nan_to_num: dtype of out: {got} should be same as input: {want}": "nan_to_num",
    "nonzero: Expected out tensor to have scalar type Long but got scalar type{got}": "nonzero",
    "take(): self and out expected to have the same dtype, but got self.dtype = {want} and "
    "out.dtype = {got}": "take",
    "Expected out type to be {want} but got {got}": "where",
}
SENTENCE = {name: text for text, names in EXACT_DTYPES.items() for name in names.split()}
# These read their input after they began to write.
UNSHARED = frozenset(
    [
        "cat",
        "concat",
        "concatenate",
        "gather",
        "index_select",
        "kthvalue",
        "masked_select",
        "take",
        "take_along_dim",
    ]
)


def write_outputs(
    name: str, out: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`call(*args, **kwargs)` with the result stored in `out`, a tensor or a tuple of them."""
    from .transforms.dual import has_dual

    targets = out if isinstance(out, (tuple, list)) else (out,)
    for t in targets:
        if not isinstance(t, TensorBase):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(t).__name__}")
    if has_batched((*targets, *flatten(args), *flatten(kwargs.values()))):
        raise RuntimeError(
            f"Batching rule not implemented for aten::{name}.out; the fallback path doesn't work "
            "on out= or view ops."
        )
    if TANGENTS and has_dual((*targets, *flatten(args), *flatten(kwargs.values()))):
        raise NotImplementedError(
            f"Trying to use forward AD with {name}_out that does not support it because it is an "
            "out= function"
        )
    if MODES.grad:
        for t in (*targets, *flatten(args), *flatten(kwargs.values())):
            if t.wants_grad:
                raise RuntimeError(
                    f"{name}(): functions with out=... arguments don't support automatic "
                    "differentiation, but one of the arguments requires grad."
                )
    sources = [x.array for x in (*flatten(args), *flatten(kwargs.values()))]
    for t in targets:
        check_memory(name, t.array, sources)
    before, cast = MODES.grad, MODES.autocast
    MODES.set("grad", False)
    MODES.set("autocast", None)  # it leaves the caller's tensors alone
    try:
        result = call(*args, **kwargs)
        parts = result if isinstance(result, tuple) else (result,)
        for target, part in zip(targets, parts, strict=True):
            if name in UNSHARED and target.array.shape != part.array.shape:
                # It grows into the memory behind it.
                refuse_shared([x for x in sources if x.base is not None], target.array.base)
            store(name, target, part.array)
    finally:
        MODES.set("grad", before)
        MODES.set("autocast", cast)
    return type(result)(targets) if isinstance(result, tuple) else out


def check_memory(name: str, destination: Any, sources: list[Any]) -> None:
    """Refuse outputs whose elements are in each other's way, or in the way of the inputs."""
    from ..autograd.inplace import check_overlap

    check_overlap(destination, sources)
    if name in UNSHARED:
        refuse_shared(sources, destination)


def refuse_shared(sources: list[Any], destination: Any) -> None:
    if isinstance(destination, np.ndarray) or type(destination) is STATE.device_type:
        if any([type(x) is type(destination) and shares(destination, x) for x in sources]):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )


def shares(a: Any, b: Any) -> bool:
    """Whether two arrays may have memory in common."""
    return bool(xp_of(a).may_share_memory(a, b))


def flatten(values: Any) -> list[TensorBase]:
    found = []
    for v in values:
        if isinstance(v, TensorBase):
            found.append(v)
        elif isinstance(v, (tuple, list)):
            found.extend(flatten(v))
    return found


def store(name: str, target: TensorBase, array: Any) -> None:
    """Copy `array` into `target`, resizing it if need be."""
    if STATE.device_type is not None and type(array) is not type(target.array):
        raise two_devices((target, wrap(array)))
    have, want = dtypes.of(array.dtype), dtypes.of(target.array.dtype)
    if have is not want and name in SENTENCE:
        expected, got = have.scalar_type, want.scalar_type
        raise RuntimeError(
            SENTENCE[name].format(
                name=name,
                torch_name=name.replace("_", ".", 1),
                want=expected,
                got=got,
                want_c=dtypes.cpp_name(have),
                got_c=dtypes.cpp_name(want),
            )
        )
    if have.category > want.category:
        raise RuntimeError(
            f"result type {have.scalar_type} can't be cast to the desired output type "
            f"{want.scalar_type}"
        )
    if target.array.shape != array.shape:
        if target.array.size:
            warnings.warn(
                "An output with one or more elements was resized since it had shape "
                f"{list(target.array.shape)}, which does not match the required output shape "
                f"{list(array.shape)}. This behavior is deprecated, and in a future PyTorch "
                "release outputs will not be resized unless they have zero elements. You can "
                "explicitly reuse an out tensor t by resizing it, inplace, to zero elements with "
                "t.resize_(0).",
                UserWarning,
                stacklevel=5,
            )
        target.array = xp_of(target.array).empty(array.shape, target.array.dtype)
    quiet(target.array.__setitem__, ..., array)
    target.version_cell().bump(name)
