"""Functions of higher layers that core calls: one record per owner, who fills it when loaded.

Imports point downwards, so these calls cannot be imports. A record has its owner's file beside it;
whoever looks for the function that a call runs finds it there.
"""

from __future__ import annotations

from typing import Any, Final


class TensorClass:
    """api/tensor/tensor.py: the class whose instances core makes."""

    cls: Any = None
    new: Any = None  # makes an instance of a class without its public constructor
    plain: Any = None  # `new` for Tensor itself, a little faster


class Interpreters:
    """core/subclass.py: runs an op on tensors that are more than arrays with a history."""

    run: Any = None  # (op, tensors, attrs, watch)
    ask_foreign: Any = None  # api/publish.py: an operand that is no tensor may know what to do
    watched: Any = None  # core/function_modes.py: (op, tensors, attrs) of an operator, for a mode
    watched_operator: Any = None  # `watched` for an operator that is a function: (name, a, b)
    is_watched: Any = None  # whether a mode or a class asks to see a call: (args, kwargs)
    prepare_for_modes: Any = None  # core/python_dispatch.py: called before a mode is entered
    prepare_for_watching: Any = None  # before a mode that sees functions: core/function_modes.py
    function_of: Any = None  # (op): what users call to run it
    special_without_tangent: Any = None  # (tensor): its `_special` then
    is_made_of_others: Any = None  # whether a tensor is a batched or dual one, or asks its class


class Dispatched:
    """autograd/dispatched.py: ops that `__torch_dispatch__` runs, with their history above."""

    run: Any = None  # (op, tensors, attrs, watch)
    overload: Any = None  # names/_ops.py: the object of torch.ops.aten for "name.overload"
    created: Any = None  # (api, function, args, kwargs): `zeros`, `ones_like` …
    saved: Any = None  # (node, place, tensor): a saved tensor with its history
    accumulate: Any = None  # (leaf, gradient): False if it is left to do
    sum_of: Any = None  # of two gradients


class Views:
    """autograd/view_history.py: the history of views after their memory was written."""

    refresh: Any = None  # (tensor)
    seen_from: Any = None


class Recording:
    """autograd/api.py: what modes change about a node that is being recorded."""

    in_mode: Any = None  # (node)
    pack_outputs: Any = None  # (node): saved_tensors_hooks
    copy_of_gradient: Any = None  # (gradient, leaf), with its history


class Inspection:
    """autograd/inspect.py: what nodes answer to users."""

    attributes: Any = None
    unpacking_order: Any = None
    shown_edges: Any = None
    shown: Any = None  # the node as its class
    register_hook: Any = None
    call: Any = None  # a node as a function of gradients
    input_metadata: Any = None


class Autocast:
    """core/casting.py: arguments in the precision that autocast wants."""

    operands: Any = None  # (op, tensors)
    call: Any = None  # (function, args, kwargs)


class Profiler:
    """autograd/profiler.py: how long ops take."""

    start: Any = None
    stop: Any = None


class AnomalyMode:
    """autograd/anomaly_mode.py: checks the results of each op."""

    check_forward: Any = None
    release_frame: Any = None  # () after anomaly mode was switched on or off


class ForwardMode:
    """core/transforms/dual.py: gives a saved value its tangent back."""

    with_tangent: Any = None


class Gpu:
    """core/devices.py: everything about arrays on a GPU."""

    memory: Any = None  # an ArrayMemory, once a GPU is used
    space: Any = None  # (gradient): the F of rules for bare arrays of its device
    raw: Any = None  # the F of rules for bare arrays of a GPU
    arguments: Any = None  # (op, tensors, attrs): all of them on one device, or an error
    run_kernel: Any = None  # (op, arrays, attrs)
    created: Any = None  # (api, function, args, kwargs): makes a tensor on some device
    watch_range: Any = None  # (indices, low, high, ignored): the range is checked on the GPU
    backward_pass: Any = None  # kernels/cuda/backward.py: the class of a pass that starts on a GPU


class HostKernels:
    """kernels/cpu/backend.py: what the kernels in C do for core, where there are any."""

    sum_to: Any = None  # (array, shape): broadcasting undone; None where it is not for them
    alike: Any = None  # (array, array): as base.alike, of NumPy's arrays
    is_fresh: Any = None  # (array, array): the first is no view, writable, of the other's dtype
    lies_as: Any = None  # (array, array): both in C order with the same strides, the first writable
    meet: Any = None  # (array, array): whether one begins before the other ends
    strided: Any = None  # (array, shape, strides, offset): a view; None: not for it
    has_tape: Any = None  # (): whether kernels are being recorded for a replay
    elementwise_along: Any = None  # kernels/cpu/directions.py: (op, place, args, first, second)
    product: Any = None  # (matrix, matrix, summand); None: not for it
    as_single: Any = None  # (array of half precision, in C order): as float32
    as_half: Any = None  # (float32 array in C order, half dtype): rounded
    lstm_step: Any = None  # (sums, cells): all results of a step; None: not for it
    public_function: Any = None  # a class: a public function with a fast path; api/publish.py
    user_line: Any = None  # (code, own files): where in that code the user is, or None


class MetaSide:
    """core/meta.py: tensors without values."""

    memory: Any = None  # an ArrayMemory, once there is one


class OnDemand:
    """api/on_demand.py: functions of features that are loaded by the first call."""

    not_here: Any = None  # (name, instead): the error for a name that can be imported, not used
    why: Any = None  # (tensor): diagnose.why
    cuda_runtime: Any = None  # (): the module, whether a GPU is there or not
    out_of_memory: Any = None  # (MemoryError): PyTorch's error where it came from a GPU
    resolve_name: Any = None  # (function): its name, for an error
    handle_torch_function: Any = None  # overrides.handle_torch_function
    ask_foreign: Any = None  # overrides.ask_foreign
    schema_calls: Any = None  # (): _library/calls.py, which shows ops as PyTorch's schemas do
    ones_like: Any = None  # the public function, which `__torch_dispatch__` sees
    mapped_arguments: Any = None  # of func.vmap, for is_grads_batched=True
    validate_cuda_device: Any = None  # ("cuda:1"): its index, or PyTorch's refusal
    load_file: Any = None  # torch.load
    from_dlpack: Any = None  # (object): the array of another library as a tensor
    sparse_gradient: Any = None  # (indices, values, shape): a sparse tensor
    add_sparse_gradient: Any = None  # (leaf, gradient)
    sparse_root: Any = None  # (root, gradient or None, place): those of its values
    sparse_like: Any = None  # (function, input, value, dtype, requires_grad): zeros_like …
    sparse_output: Any = None  # (out, result): `out=` of a sparse tensor
    write_sparse: Any = None  # (op, tensors, attrs): an in-place op on sparse tensors


TENSOR: Final = TensorClass()
INTERPRETERS: Final = Interpreters()
DISPATCHED: Final = Dispatched()
VIEWS: Final = Views()
RECORDING: Final = Recording()
INSPECTION: Final = Inspection()
AUTOCAST: Final = Autocast()
PROFILER: Final = Profiler()
ANOMALY_MODE: Final = AnomalyMode()
FORWARD_MODE: Final = ForwardMode()
GPU: Final = Gpu()
HOST_KERNELS: Final = HostKernels()
META_SIDE: Final = MetaSide()
ON_DEMAND: Final = OnDemand()


def own_defaults(record: Any) -> None:
    """Copy the defaults of a class to its object, whose attributes Python reads 3 times as fast.

    Compiled classes have none but their own.
    """
    if __file__.endswith(".py"):
        for name, value in list(vars(type(record)).items()):
            if not name.startswith("__") and not callable(value):
                setattr(record, name, value)


for _record in (AUTOCAST, GPU, HOST_KERNELS, TENSOR):
    own_defaults(_record)
