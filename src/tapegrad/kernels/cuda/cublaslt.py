"""cuBLASLt: matrix products planned once per shape, with the bias added by the same kernel.

For large products the library offers several kernels, and its own first choice is often not the
fastest; for float32 there are ours besides (tensor_cores.py). The first time that a shape comes
up, they are tried and the best is kept.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any

from ...core.locks import new_lock
from ...core.settings import Settings
from . import cublas, tensor_cores

TRANS_A, TRANS_B, EPILOGUE, BIAS = 3, 4, 7, 8  # cublasLtMatmulDescAttributes_t
NOTHING, ADD_BIAS, SUM_RIGHT = 1, 4, 512  # cublasLtEpilogue_t; the right factor is our left one
MAX_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t
COUNT, STEP = 5, 6  # cublasLtMatrixLayoutAttribute_t: of a stack
TRIED = 8  # kernels
WORTH_TRYING = 1e9  # multiplications: below, starting the kernel is what takes time
ROUNDS = 3
POINTER = ctypes.c_size_t(ctypes.sizeof(ctypes.c_void_p))


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t"""

    _fields_ = [
        ("algo", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


class Plan:
    """One product of given shapes, or a stack of them, ready to run; `made` is its dtype."""

    def __init__(self, lt: Lt, a: Any, b: Any, epilogue: int, fp32: str, made: Any = None) -> None:
        kind = cublas.NAMES[a.dtype]
        item = a.dtype.itemsize
        *stack, m, k = a.shape
        n = b.shape[-1]
        turn_a, step_a = cublas.laid_out(a, item)
        turn_b, step_b = cublas.laid_out(b, item)
        # Matrices whose strides the library cannot take are copied first.
        self.copies = (turn_a < 0, turn_b < 0)
        turn_a, turn_b = max(turn_a, 0), max(turn_b, 0)
        self.shape = (*stack, m, n)
        self.lt = lt
        lib = lt.lib
        compute = lt.blas.compute(a.dtype, fp32)
        scale = 1 if kind == "float64" else 0
        self.desc = ctypes.c_void_p()
        check_status(lib.cublasLtMatmulDescCreate(ctypes.byref(self.desc), compute, scale))
        # By columns, as the library counts: our right factor is its left one.
        for attribute, value in ((TRANS_A, turn_b), (TRANS_B, turn_a)):
            lt.set(self.desc, attribute, ctypes.c_int(value))
        if epilogue != NOTHING:
            lt.set(self.desc, EPILOGUE, ctypes.c_int(epilogue))
        code = cublas.KINDS[kind]
        self.left = lt.layout(code, *((k, n) if turn_b else (n, k)), step_b)
        self.right = lt.layout(code, *((m, k) if turn_a else (k, m)), step_a)
        made_code = code if made is None else cublas.KINDS[cublas.NAMES[made]]
        self.out = lt.layout(made_code, n, m, n)
        if stack:
            apart = cublas.steps_between(a, b, self.copies)
            layouts = zip((self.right, self.left, self.out), (*apart, m * n), strict=True)
            for layout, step in layouts:
                lt.set_stack(layout, stack[0], step)
        self.bias_at = 0  # the address that the description holds
        self.bias_given = ctypes.c_void_p()
        self.bias_reference = ctypes.byref(self.bias_given)
        self.lock = new_lock()
        self.one, self.zero = cublas.factor(kind, 1.0), cublas.factor(kind, 0.0)
        self.choices: list[Callable[[int, int, int, int], None]] = []
        for offer in self.offered():
            self.choices.append(functools.partial(self.start, offer))
        self.first = self.best = self.choices[0]
        large = math.prod(self.shape) * k >= WORTH_TRYING
        if large and not stack and epilogue != SUM_RIGHT and has_own(a.dtype, fp32):
            layout = (bool(turn_a), bool(turn_b), step_a, step_b)
            own = tensor_cores.plans(lt.gpu, m, n, k, *layout)
            self.choices += [functools.partial(self.start_own, plan) for plan in own]
        self.tried = len(self.choices) == 1 or not large

    def offered(self) -> list[Heuristic]:
        lib = self.lt.lib
        preference = ctypes.c_void_p()
        check_status(lib.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)))
        size = ctypes.c_size_t(cublas.WORKSPACE)
        check_status(
            lib.cublasLtMatmulPreferenceSetAttribute(
                preference, MAX_WORKSPACE, ctypes.byref(size), ctypes.sizeof(size)
            )
        )
        results = (Heuristic * TRIED)()
        count = ctypes.c_int()
        check_status(
            lib.cublasLtMatmulAlgoGetHeuristic(
                self.lt.handle,
                *(self.desc, self.left, self.right, self.out, self.out, preference),
                *(TRIED, results, ctypes.byref(count)),
            )
        )
        lib.cublasLtMatmulPreferenceDestroy(preference)
        found = [r for r in results[: count.value] if r.state == 0]
        for r in found:
            r.pointer = ctypes.byref(r.algo)
        if not found:
            raise RuntimeError("CUDA error: cuBLASLt has no kernel for this product")
        return found

    def run(self, a: int, b: int, out: int, bias: int) -> None:
        """Start the product of the matrices at these addresses."""
        if not self.tried:
            self.choose(a, b, out, bias)
        self.best(a, b, out, bias)

    def start_own(self, plan: tensor_cores.Plan, a: int, b: int, out: int, bias: int) -> None:
        if tensor_cores.aligned(a, b, out):
            plan.run(a, b, out, bias)
        else:
            self.first(a, b, out, bias)

    def start(self, choice: Heuristic, a: int, b: int, out: int, bias: int) -> None:
        lt = self.lt
        address = lt.address
        target = address(out)
        workspace, stream = lt.blas.place()
        given = (
            lt.handle,
            self.desc,
            self.one,
            address(b),
            self.left,
            address(a),
            self.right,
            self.zero,
            target,
            self.out,
            target,
            self.out,
            choice.pointer,
            workspace,
            lt.size,
            stream,
        )
        if not bias:
            status = lt.matmul(*given)
        else:
            with self.lock:  # the address is part of the description, which all threads share
                if bias != self.bias_at:
                    self.bias_given.value = bias
                    check_status(lt.set_attribute(self.desc, BIAS, self.bias_reference, POINTER))
                    self.bias_at = bias
                status = lt.matmul(*given)
        if status:
            check_status(status)

    def choose(self, a: int, b: int, out: int, bias: int) -> None:
        """Keep the fastest kernel: the result is computed several times over, from the same data.

        Not while a graph is captured.
        """
        if self.lt.may_not_try():
            return
        self.tried = True
        xp = self.lt.xp
        stream = xp.cuda.get_current_stream()
        best = float("inf")
        for choice in self.choices:
            choice(a, b, out, bias)
            first, last = xp.cuda.Event(), xp.cuda.Event()
            first.record(stream)
            for _ in range(ROUNDS):
                choice(a, b, out, bias)
            last.record(stream)
            last.synchronize()
            taken = xp.cuda.get_elapsed_time(first, last)
            if taken < best:
                best, self.best = taken, choice


class Lt:
    """The library, and the plans made so far."""

    def __init__(self, gpu: Any, blas: cublas.Library) -> None:
        self.gpu = gpu
        self.xp = blas.xp
        self.blas = blas
        self.lib = ctypes.CDLL(cublas.loaded("cublasLt"))
        self.handle = ctypes.c_void_p()
        check_status(self.lib.cublasLtCreate(ctypes.byref(self.handle)))
        pointer = ctypes.c_void_p
        # No argtypes: arguments are converted once, when the plan is made.
        self.matmul = self.lib.cublasLtMatmul
        self.size = ctypes.c_size_t(cublas.WORKSPACE)
        self.set_attribute = self.lib.cublasLtMatmulDescSetAttribute
        self.address = pointer
        self.plans: dict[tuple[Any, ...], Any] = {}
        self.stacks: dict[tuple[Any, ...], Plan | None] = {}

    def set(self, desc: Any, attribute: int, value: Any) -> None:
        check_status(
            self.lib.cublasLtMatmulDescSetAttribute(
                desc, attribute, ctypes.byref(value), ctypes.sizeof(value)
            )
        )

    def layout(self, code: int, rows: int, columns: int, step: int) -> Any:
        made = ctypes.c_void_p()
        check_status(
            self.lib.cublasLtMatrixLayoutCreate(
                ctypes.byref(made),
                code,
                ctypes.c_uint64(rows),
                ctypes.c_uint64(columns),
                ctypes.c_int64(step),
            )
        )
        return made

    def set_stack(self, layout: Any, count: int, step: int) -> None:
        """Make a layout that of `count` matrices, `step` elements apart."""
        for attribute, value in ((COUNT, ctypes.c_int32(count)), (STEP, ctypes.c_int64(step))):
            check_status(
                self.lib.cublasLtMatrixLayoutSetAttribute(
                    layout, attribute, ctypes.byref(value), ctypes.sizeof(value)
                )
            )

    def may_not_try(self) -> bool:
        """Whether kernels must not be tried: a graph is captured, or results are deterministic."""
        from ...core.devices import DEVICE

        return DEVICE.capturing() or Settings.deterministic


def check_status(status: int) -> None:
    if status:
        raise RuntimeError(f"CUDA error: cuBLASLt status {status}")


def product(lt: Lt, a: Any, b: Any, bias: Any = None, fp32: str | None = None) -> Any:
    """`a @ b`, plus a bias for each column; `fp32` as for `stack_product`."""
    dtype = a.dtype
    epilogue = NOTHING if bias is None else ADD_BIAS
    if fp32 is None:
        fp32 = Settings.matmul_fp32
    key = (dtype, a.shape, a.strides, b.shape, b.strides, epilogue, fp32)
    plan = lt.plans.get(key)
    if plan is None:
        plan = lt.plans[key] = Plan(lt, a, b, epilogue, fp32)
    if plan.copies[0]:
        a = a.copy()
    if plan.copies[1]:
        b = b.copy()
    out = lt.xp.ndarray(plan.shape, dtype)
    run = plan.best if plan.tried else plan.run
    run(a.data.ptr, b.data.ptr, out.data.ptr, 0 if bias is None else bias.data.ptr)
    return out


def stack_product(lt: Lt, a: Any, b: Any, out: Any = None, fp32: str | None = None) -> Any:
    """`cublas.stack_product` with the kernel found once; that library searches in each call.

    Kernels are found for matrices that begin at multiples of 16 bytes.
    """
    if fp32 is None:
        fp32 = Settings.matmul_fp32
    dtype = a.dtype
    made = dtype if out is None else out.dtype
    key = (dtype, made, a.shape, a.strides, b.shape, b.strides, fp32)
    try:
        plan = lt.stacks[key]
    except KeyError:
        if len(lt.stacks) >= cublas.MOST_STACKS:
            lt.stacks.clear()
        plan = lt.stacks[key] = plan_stack(lt, a, b, made, fp32)
    at, right = a.data.ptr, b.data.ptr
    if plan is None or (at | right) & 15 or (out is not None and out.data.ptr & 15):
        return cublas.stack_product(lt.blas, a, b, out, fp32=fp32)
    if out is None:
        out = lt.xp.ndarray(plan.shape, dtype)
    plan.run(at, right, out.data.ptr, 0)
    return out


def plan_stack(lt: Lt, a: Any, b: Any, made: Any, fp32: str) -> Plan | None:
    """The Plan of a product of stacks; None where cuBLAS has to do it."""
    if not a.size or not b.size:
        return None
    try:
        plan = Plan(lt, a, b, NOTHING, fp32, made)
    except RuntimeError:
        return None
    return None if True in plan.copies else plan


def product_and_sums(lt: Lt, a: Any, b: Any, fp32: str | None = None) -> tuple[Any, Any] | None:
    """`a @ b`, and the sums of the rows of `a`, which the same kernel reads; None if it cannot."""
    dtype = a.dtype
    if fp32 is None:
        fp32 = Settings.matmul_fp32
    key = (dtype, a.shape, a.strides, b.shape, b.strides, SUM_RIGHT, fp32)
    plan = lt.plans.get(key)
    if plan is None:
        plan = lt.plans[key] = with_sums(lt, a, b, fp32)
    if plan is False:
        return None
    out, sums = lt.xp.ndarray(plan.shape, dtype), lt.xp.ndarray(plan.shape[:1], dtype)
    plan.run(a.data.ptr, b.data.ptr, out.data.ptr, sums.data.ptr)
    return out, sums


def with_sums(lt: Lt, a: Any, b: Any, fp32: str) -> Any:
    """A plan for `product_and_sums`; False if the library has none, or something else is faster.

    For half precision in rows that are no multiples of 16 bytes it has one, ten times as slow.
    """
    item = a.dtype.itemsize
    steps = [cublas.laid_out(x, item)[1] for x in (a, b)]
    if item == 2 and any([step % 8 for step in steps]):
        return False
    if has_own(a.dtype, fp32) and a.shape[0] * b.size >= WORTH_TRYING:
        return False
    try:
        plan = Plan(lt, a, b, SUM_RIGHT, fp32)
    except RuntimeError:
        return False
    return False if True in plan.copies else plan


class LinearGradients:
    """All gradients of a linear layer by two products, which are looked up as one."""

    def __init__(self, gpu: Any) -> None:
        self.gpu = gpu
        self.known: dict[tuple[Any, ...], tuple[Plan, Plan] | None] = {}

    def __call__(self, grad: Any, x: Any, right: Any) -> tuple[Any, Any, Any] | None:
        """The gradients of bias, input and weight; None: the products have to be run one by one."""
        dtype = grad.dtype
        key = (dtype, grad.strides, x.shape, x.strides, right.shape, right.strides)
        key = (*key, Settings.matmul_fp32)
        try:
            plans = self.known[key]
        except KeyError:
            if len(self.known) >= cublas.MOST_STACKS:
                self.known.clear()
            plans = self.known[key] = self.plans(grad, x, right)
        if plans is None:
            return None
        weights, inputs = plans
        array = self.gpu.xp.ndarray
        to_weight, to_bias = array(weights.shape, dtype), array(weights.shape[:1], dtype)
        to_input = array(inputs.shape, dtype)
        given = grad.data.ptr
        weights.run(given, x.data.ptr, to_weight.data.ptr, to_bias.data.ptr)
        run = inputs.best if inputs.tried else inputs.run
        run(given, right.data.ptr, to_input.data.ptr, 0)
        return to_bias, to_input, to_weight

    def plans(self, grad: Any, x: Any, right: Any) -> tuple[Plan, Plan] | None:
        if not (grad.size and x.size and right.size) or grad.dtype not in cublas.NAMES:
            return None
        lt: Lt = self.gpu.lt
        fp32 = Settings.matmul_fp32
        weights = with_sums(lt, grad.T, x, fp32)
        if weights is False:
            return None
        inputs = Plan(lt, grad, right.T, NOTHING, fp32)
        return None if True in inputs.copies else (weights, inputs)


def has_own(dtype: Any, fp32: str) -> bool:
    """Whether large products of a dtype may be those of tensor_cores.py."""
    return dtype is cublas.F32 and fp32 == "none"
