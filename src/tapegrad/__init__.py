"""tapegrad: PyTorch's autograd, and the library people use it through, on NumPy.

>>> import tapegrad as torch
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> (x ** 2).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from __future__ import annotations

import importlib
import math
import os as _os
from typing import Any

if len(__path__) == 1:  # PyTorch's modules that exist for their names: names/mps.py is tapegrad.mps
    __path__.append(_os.path.join(__path__[0], "names"))

if _os.environ.get("TAPEGRAD_PURE") == "1":
    from .core.python_files import prefer as _prefer

    _prefer()

from . import dtypes as _dtypes
from .api.tensor.tensor import Tensor  # before anything that makes one

# isort: split
from .api.on_demand import fill as _fill
from .api.publish import find as _find
from .api.publish import publish as _publish
from .api.tensor.printing import set_printoptions
from .autograd.anomaly_mode import (
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
)
from .autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .core.promote import can_cast, promote_types
from .core.size import Size
from .device import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    layout,
    memory_format,
    preserve_format,
    sparse_coo,
    strided,
)
from .dtypes import dtype, finfo, get_default_dtype, iinfo, set_default_dtype
from .errors import no_such_name as _no_such_name
from .errors.tracebacks import install as _install
from .kernels.cpu.classes import release_classes as _release_classes
from .ops.creation.sized import *  # noqa: F403 (its __all__ is partly computed)
from .torch_version import TorchVersion as _TorchVersion

# The version of PyTorch whose behaviour this is; tapegrad's own is in __config__.
__version__ = _TorchVersion("2.13.0+tapegrad.0.1.0")

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

_fill()
_publish(globals(), Tensor)
globals().update(_dtypes.NAMES)

# The ops have to be there before the functions that draw random numbers with them.
from .random import Generator, default_generator  # noqa: E402

_SUBMODULES = frozenset(
    """
    _C _VF __config__ __future__ _dynamo _functorch _guards _higher_order_ops _inductor
    _jit_internal _lobpcg _ops _subclasses _tensor _tensor_str _utils _vmap_internals accelerator
    amp ao autograd backends classes compat compiler cpu cuda datasets diagnose distributed
    distributions export fft func functional futures fx hub jit library linalg masked mps mtia
    multiprocessing nn onnx optim overrides profiler quantization quasirandom random return_types
    serialization signal sparse special storage testing torch_version types utils version xpu
    """.split()
)

# Public names of modules that are imported when they are asked for.
_ELSEWHERE = {
    "api.checks": """
        _assert _assert_async _check _check_index _check_is_size _check_not_implemented
        _check_tensor_all _check_tensor_all_with _check_type _check_value _check_with
    """,
    "api.control_flow": "cond while_loop",
    "api.removed_names": """
        AcceleratorError PyTorchFileReader PyTorchFileWriter TensorType classproperty eig
        get_file_path has_lapack has_mkl has_openmp has_spectral init_num_threads
        legacy_contiguous_format lstsq matrix_rank prepare_multiprocessing_environment solve
        symeig
    """,
    "api.tensor.legacy_storages": """
        BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage
        DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage Storage
    """,
    "amp.autocast_mode": """
        autocast autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache
        get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype is_autocast_cache_enabled
        is_autocast_cpu_enabled is_autocast_enabled set_autocast_cache_enabled
        set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled
        set_autocast_gpu_dtype
    """,
    "amp.grad_scaler": "GradScaler",
    "compiler": "compile",
    "cuda.memory": "OutOfMemoryError",
    "cuda.streams": "Event Stream",
    "_lobpcg": "lobpcg",
    "_library.tags": "Tag",
    "ops.statistics.segments": "_segment_reduce",
    "ops.reduce.sorting": "_unique _unique2",
    "ops.products.private_names": "_addmm_activation _int_mm",
    "core.subclass": "DisableTorchFunctionSubclass",
    "func.vmapping": "vmap",
    "futures": "Future",
    "jit": "ScriptFunction ScriptModule fork wait",
    "api.tensor.predicates": """
        detach detach_ get_device is_conj is_distributed is_inference is_neg is_same_size is_signed
    """,
    "serialization": "load save",
    "api.settings": """
        are_deterministic_algorithms_enabled compiled_with_cxx11_abi get_deterministic_debug_mode
        get_device_module get_float32_matmul_precision get_num_interop_threads get_num_threads
        is_deterministic_algorithms_warn_only_enabled is_storage is_vulkan_available
        set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal
        set_num_interop_threads set_num_threads typename use_deterministic_algorithms
    """,
    "sparse.compressed": "sparse_compressed_tensor sparse_csc_tensor sparse_csr_tensor",
    "sparse.functions": "smm sparse_coo_tensor sspaddmm",
    "sparse.more": "dsmm hsmm hspmm resize_as_sparse_ saddmm spmm",
    "signal": "windows",
    "device": "_mkldnn jagged sparse_bsc sparse_bsr sparse_csc sparse_csr",
    "storage": "StorageBase TypedStorage UntypedStorage",
    "random": "thread_safe_generator",
    "utils.dlpack": "to_dlpack",
    "api.symbolic": """
        SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum
    """,
}
_LAZY = {name: module for module, names in _ELSEWHERE.items() for name in names.split()}


def _names() -> list[str]:
    """Every public name, loaded or not."""
    from .api.publish import FAMILY_OF

    return [*globals(), *_LAZY, *_SUBMODULES, *[n for n in FAMILY_OF if "." not in n]]


def __dir__() -> list[str]:
    return sorted(set(_names()))


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    if name.startswith("_foreach_"):
        found = importlib.import_module(".api.foreach", __name__).find(name)
    else:
        found = _find(name)
    if found is not None:
        return found
    raise _no_such_name("torch", name, _names)


_install()
_release_classes()

if _os.environ.get("TAPEGRAD_PORTABLE", "0") not in ("", "0"):
    __getattr__("use_deterministic_algorithms")("portable")

if _os.environ.get("TAPEGRAD_DOCTOR", "0") not in ("", "0"):
    from .diagnose._doctor.doctor import watch_process as _watch_process

    _watch_process()

if _os.environ.get("TAPEGRAD_TRACE", "0") not in ("", "0"):
    from .diagnose._ops import trace_ops as _trace_ops

    _trace_ops().__enter__()
