"""Products of matrices on the GPU, and their gradients, by cuBLASLt (../cublaslt.py)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import cublas, cublaslt
from ..cublas import NAMES
from .kernels import Gpu, is_float
from .launcher import Launcher
from .moves import contiguous
from .sums import Sum


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    gpu.xp.matmul = any_product(gpu, gpu.xp.matmul)
    for product in (Product, StackProduct, ProductAdded):
        product(gpu, reference).register(backend)
    gradients = ProductGradients(gpu, reference)
    backend.overrides["left_grad"] = gradients.left
    backend.overrides["right_grad"] = gradients.right
    backend.linear_gradients = gradients.of_linear
    backend.pulls["addmm"] = gradients.of_addmm


class ProductLauncher(Launcher):
    """A launcher of cuBLASLt's products, which plan for themselves."""

    def __init__(self, gpu: Gpu, reference: Any) -> None:
        super().__init__(reference)
        self.gpu = gpu

    def plan(self, *args: Any) -> Any:
        return self.gpu.lt


class Product(ProductLauncher):
    """The product of two matrices."""

    op = "mm"

    def fits(self, input: Any, mat2: Any) -> bool:
        alike = is_float(input) and input.dtype == mat2.dtype
        return bool(alike and input.size and mat2.size)

    def run(self, plan: Any, input: Any, mat2: Any) -> Any:
        return cublaslt.product(plan, input, mat2)


class StackProduct(ProductLauncher):
    """The products of two stacks of matrices."""

    op = "bmm"

    def fits(self, input: Any, mat2: Any) -> bool:
        return is_float(input) and bool(input.dtype == mat2.dtype)

    def run(self, plan: Any, input: Any, mat2: Any) -> Any:
        return cublaslt.stack_product(plan, input, mat2)


class ProductAdded(ProductLauncher):
    """The product of two matrices plus a row for each of its rows, as a linear layer's bias."""

    op = "addmm"

    def fits(self, input: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> bool:
        if beta != 1 or alpha != 1 or input.shape != (mat2.shape[1],):
            return False
        same = is_float(mat1) and input.dtype == mat1.dtype == mat2.dtype
        return bool(same and contiguous(input) and mat1.size and mat2.size)

    def run(self, plan: Any, input: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
        return cublaslt.product(plan, mat1, mat2, input)


class ProductGradients:
    """The gradients of products, in the memory order that PyTorch gives them."""

    def __init__(self, gpu: Gpu, reference: Any) -> None:
        self.gpu = gpu
        self.product = Product(gpu, reference)
        self.sums = Sum(gpu, reference)
        self.all_of_linear = cublaslt.LinearGradients(gpu)

    def left(self, grad: Any, right: Any, strides: Any) -> Any:
        if by_columns(grad.shape[0], strides):
            return self.product(right, grad.T).T
        return self.product(grad, right.T)

    def right(self, grad: Any, left: Any, strides: Any) -> Any:
        if by_columns(left.shape[1], strides):
            return self.product(grad.T, left).T
        return self.product(left.T, grad)

    def of_linear(
        self, grad: Any, x: Any, right: Any, wants: tuple[bool, ...]
    ) -> tuple[Any, Any, Any]:
        """The gradients of bias, input and weight; one kernel makes bias and weight where it can.

        `right` is the weight's transpose.
        """
        if False not in wants:
            at_once = self.all_of_linear(grad, x, right)
            if at_once is not None:
                return at_once
        to_bias = to_weight = None
        turned = grad.T
        if wants[0] and wants[2]:
            found = cublaslt.product_and_sums(self.gpu.lt, turned, x)
            if found is not None:
                to_weight, to_bias = found
        if wants[0] and to_bias is None:
            to_bias = self.sums(grad, (0,), False, None)
        if wants[2] and to_weight is None:
            to_weight = cublaslt.product(self.gpu.lt, turned, x)
        to_input = cublaslt.product(self.gpu.lt, grad, right.T) if wants[1] else None
        return to_bias, to_input, to_weight

    def of_addmm(self, node: Any, grad: Any, kept: Any) -> Any:
        """The gradients of a linear layer; one kernel makes those of weight and bias."""
        beta, alpha = kept.beta, kept.alpha
        to_input, to_left, to_right = node._edges
        fixes = node._fixes
        if to_input is None or to_right is None or fixes is None or beta != 1 or alpha != 1:
            return None
        left = kept.mat1
        dtype = grad.dtype
        if fixes[0] != ((grad.shape[1],), dtype) or left.dtype is not dtype or not left.size:
            return None
        if dtype not in NAMES or not by_columns(left.shape[1], kept.mat2_strides):
            return None
        found = cublaslt.product_and_sums(self.gpu.lt, grad.T, left)
        if found is None:
            return None
        left_too = None if to_left is None else self.left(grad, kept.mat2, kept.mat1_strides)
        return [found[1], left_too, found[0].T]


def by_columns(rows: int, strides: Any) -> bool:
    """Whether a matrix of so many rows has its columns one after the other in memory."""
    return bool(strides[0] != 0 and strides[1] == strides[0] * rows)


def any_product(gpu: Gpu, other: Any) -> Any:
    """`matmul` for the forwards of blocks: CuPy's own cannot be captured into a graph."""

    def matmul(a: Any, b: Any, out: Any = None) -> Any:
        if a.dtype not in NAMES or a.dtype != b.dtype or not a.ndim or not b.ndim:
            return other(a, b) if out is None else other(a, b, out=out)
        left = a if a.ndim > 1 else a[None]
        right = b if b.ndim > 1 else b[:, None]
        if left.shape[-1] != right.shape[-2]:
            return other(a, b)  # which complains
        if left.ndim == right.ndim == 2 and left.size and right.size:
            found = cublaslt.product(gpu.lt, left, right)
        else:
            outer = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
            stacks = [as_stack(gpu.xp, x, outer) for x in (left, right)]
            found = cublas.stack_product(gpu.blas, *stacks)
            found = found.reshape(*outer, *found.shape[1:])
        if a.ndim == 1:
            found = found[..., 0, :]
        if b.ndim == 1:
            found = found[..., 0]
        if out is None:
            return found
        out[...] = found
        return out

    return matmul


def as_stack(xp: Any, x: Any, outer: tuple[int, ...]) -> Any:
    """An array of matrices as a stack; a single matrix is repeated with stride 0."""
    size, matrix = math.prod(outer), x.shape[-2:]
    if x.ndim == 2:
        return xp.broadcast_to(x, (size, *matrix))
    return xp.broadcast_to(x, (*outer, *matrix)).reshape(size, *matrix)
