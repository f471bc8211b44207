"""cuBLASLt: matrix products planned once per shape, with the bias added by the same kernel.

For large products the library offers several kernels, and its own first choice is often not the
fastest; the first time that such a shape comes up, they are tried and the best is kept.
"""

from __future__ import annotations

import ctypes
from typing import Any

from . import cublas

TRANS_A, TRANS_B, EPILOGUE, BIAS = 3, 4, 7, 8  # cublasLtMatmulDescAttributes_t
ADD_BIAS = 4  # cublasLtEpilogue_t
MAX_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t
TRIED = 8  # kernels
WORTH_TRYING = 1e9  # multiplications: below, starting the kernel is what takes time
ROUNDS = 3


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
    """One product of given shapes, ready to run."""

    def __init__(self, lt: Lt, key: tuple[Any, ...]) -> None:
        kind, out_kind, m, n, k, turn_a, turn_b, step_a, step_b, bias, compute = key
        self.lt = lt
        lib = lt.lib
        scale = 1 if kind == "float64" else 0
        self.desc = ctypes.c_void_p()
        check(lib.cublasLtMatmulDescCreate(ctypes.byref(self.desc), compute, scale))
        # By columns, as the library counts: our right factor is its left one.
        for attribute, value in ((TRANS_A, turn_b), (TRANS_B, turn_a)):
            lt.set(self.desc, attribute, ctypes.c_int(value))
        if bias:
            lt.set(self.desc, EPILOGUE, ctypes.c_int(ADD_BIAS))
        code, out_code = cublas.KINDS[kind], cublas.KINDS[out_kind]
        self.left = lt.layout(code, *((k, n) if turn_b else (n, k)), step_b)
        self.right = lt.layout(code, *((m, k) if turn_a else (k, m)), step_a)
        self.out = lt.layout(out_code, n, m, n)
        self.bias = bias
        self.kind = kind
        self.choices = self.offered()
        self.best = self.choices[0]
        self.tried = len(self.choices) == 1 or m * n * k < WORTH_TRYING

    def offered(self) -> list[Heuristic]:
        lib = self.lt.lib
        preference = ctypes.c_void_p()
        check(lib.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)))
        size = ctypes.c_size_t(cublas.WORKSPACE)
        check(
            lib.cublasLtMatmulPreferenceSetAttribute(
                preference, MAX_WORKSPACE, ctypes.byref(size), ctypes.sizeof(size)
            )
        )
        results = (Heuristic * TRIED)()
        count = ctypes.c_int()
        check(
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

    def run(self, a: int, b: int, out: int, bias: int, alpha: float, beta: float) -> None:
        """Start the product of the matrices at these addresses."""
        if self.bias:
            self.lt.set(self.desc, BIAS, ctypes.c_void_p(bias))
        if not self.tried:
            self.choose(a, b, out, alpha, beta)
        self.start(self.best, a, b, out, alpha, beta)

    def start(self, choice: Heuristic, a: int, b: int, out: int, alpha: float, beta: float) -> None:
        lt = self.lt
        address = lt.address
        target = address(out)
        workspace, stream = lt.blas.place()
        status = lt.matmul(
            lt.handle,
            self.desc,
            cublas.factor(self.kind, alpha),
            address(b),
            self.left,
            address(a),
            self.right,
            cublas.factor(self.kind, beta),
            target,
            self.out,
            target,
            self.out,
            choice.pointer,
            workspace,
            lt.size,
            stream,
        )
        if status:
            check(status)

    def choose(self, a: int, b: int, out: int, alpha: float, beta: float) -> None:
        """Keep the fastest kernel: the result is computed several times over, from the same data.

        Not while the result is also an input, and not while a graph is captured.
        """
        if beta or self.lt.busy():
            return
        self.tried = True
        xp = self.lt.xp
        stream = xp.cuda.get_current_stream()
        best = float("inf")
        for choice in self.choices:
            self.start(choice, a, b, out, alpha, beta)
            first, last = xp.cuda.Event(), xp.cuda.Event()
            first.record(stream)
            for _ in range(ROUNDS):
                self.start(choice, a, b, out, alpha, beta)
            last.record(stream)
            last.synchronize()
            taken = xp.cuda.get_elapsed_time(first, last)
            if taken < best:
                best, self.best = taken, choice


class Lt:
    """The library, and the plans made so far."""

    def __init__(self, blas: cublas.Library) -> None:
        self.xp = blas.xp
        self.blas = blas
        self.lib = ctypes.CDLL(cublas.loaded("cublasLt"))
        self.handle = ctypes.c_void_p()
        check(self.lib.cublasLtCreate(ctypes.byref(self.handle)))
        pointer = ctypes.c_void_p
        # No argtypes: what is passed is made ready once, and converted no more.
        self.matmul = self.lib.cublasLtMatmul
        self.size = ctypes.c_size_t(cublas.WORKSPACE)
        self.address = pointer
        self.plans: dict[tuple[Any, ...], Plan] = {}

    def set(self, desc: Any, attribute: int, value: Any) -> None:
        check(
            self.lib.cublasLtMatmulDescSetAttribute(
                desc, attribute, ctypes.byref(value), ctypes.sizeof(value)
            )
        )

    def layout(self, code: int, rows: int, columns: int, step: int) -> Any:
        made = ctypes.c_void_p()
        check(
            self.lib.cublasLtMatrixLayoutCreate(
                ctypes.byref(made),
                code,
                ctypes.c_uint64(rows),
                ctypes.c_uint64(columns),
                ctypes.c_int64(step),
            )
        )
        return made

    def busy(self) -> bool:
        """Whether trying kernels out would disturb something."""
        from ..core.devices import DEVICE
        from ..settings import are_deterministic_algorithms_enabled

        return DEVICE.capturing() or are_deterministic_algorithms_enabled()


def check(status: int) -> None:
    if status:
        raise RuntimeError(f"CUDA error: cuBLASLt status {status}")


def product(
    lt: Lt,
    a: Any,
    b: Any,
    bias: Any = None,
    out: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> Any:
    """`alpha * a @ b + beta * out`, plus a bias for each column."""
    m, k = a.shape
    n = b.shape[1]
    kind = cublas.NAMES[a.dtype]
    item = a.dtype.itemsize
    if out is None:
        out = lt.xp.ndarray((m, n), a.dtype)
    a, turn_a, step_a = cublas.laid_out(a, item)
    b, turn_b, step_b = cublas.laid_out(b, item)
    compute = lt.blas.compute(kind)
    key = (kind, kind, m, n, k, turn_a, turn_b, step_a, step_b, bias is not None, compute)
    plan = lt.plans.get(key)
    if plan is None:
        plan = lt.plans[key] = Plan(lt, key)
    address = 0 if bias is None else bias.data.ptr
    plan.run(a.data.ptr, b.data.ptr, out.data.ptr, address, alpha, beta)
    return out
