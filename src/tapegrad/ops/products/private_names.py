"""Products under PyTorch's private names, which programs about quantised weights call."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...core.base import TensorBase
from ...dtypes import cpp_name
from ...errors import must_be_tensor
from ..block.checks import wrap_dim
from ..creation.sized import resize_out
from ..nn.smooth_activations import gelu
from .matmul import mm

SIGNED, UNSIGNED = "int8", "uint8"


def _int_mm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    """The product of two matrices of int8, summed in int32."""
    for place, (name, t) in enumerate((("self", input), ("mat2", mat2)), 1):
        if not isinstance(t, TensorBase):
            raise must_be_tensor("_int_mm", name, place, t)
    a, b = input._array, mat2._array
    if a.ndim != 2:
        raise RuntimeError(f"int_mm_out_cpu: Expected self to be of dimension 2 but got {a.ndim}")
    wrap_dim(1, b.ndim)
    if b.ndim != 2:
        raise RuntimeError(f"int_mm_out_cpu: Expected mat2 to be of dimension 2 but got {b.ndim}")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            "int_mm_out_cpu: self.size(1) needs to match mat2.size(0) but got "
            f"{a.shape[1]} and {b.shape[0]}"
        )
    if a.dtype.name not in (SIGNED, UNSIGNED):
        raise RuntimeError(
            f"int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got {cpp_name(a.dtype)}"
        )
    if b.dtype.name != SIGNED:
        raise RuntimeError(
            f"int_mm_out_cpu: Expected mat2 dtype to be of type int8 but got {cpp_name(b.dtype)}"
        )
    if out is not None:
        check_out(out, (a.shape[0], b.shape[1]))
    found = mm(input.to(dtypes.int32), mat2.to(dtypes.int32))
    return found if out is None else out.copy_(found)


def check_out(out: Any, shape: tuple[int, int]) -> None:
    array = out._array
    if array.dtype.name != "int32":
        raise RuntimeError(
            "int_mm_out_cpu: Expected result dtype to be of type kInt but got "
            f"{cpp_name(array.dtype)}"
        )
    if array.ndim != 2:
        raise RuntimeError(
            f"int_mm_out_cpu: Expected result to be of dimension 2 but got {array.ndim}"
        )
    for d, wanted in enumerate(shape):
        if array.shape[d] != wanted:
            raise RuntimeError(
                f"int_mm_out_cpu: Expected result.size({d}) to be {wanted} but got {array.shape[d]}"
            )


def _addmm_activation(
    input: Any,
    mat1: Any,
    mat2: Any,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    use_gelu: bool = False,
    out: Any = None,
) -> Any:
    """`addmm`, then `relu` or `gelu`."""
    found = input.addmm(mat1, mat2, beta=beta, alpha=alpha)
    found = gelu(found) if use_gelu else found.relu()
    if out is None:
        return found
    resize_out(out, found._array.shape)
    return out.copy_(found)
