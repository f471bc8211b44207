"""Remarks of `check` besides missing names: on calls that do nothing here, or that need PyTorch."""

from __future__ import annotations

import functools
import os
import sys
from importlib.machinery import PathFinder

# Names that are accepted, so that programs run, and change nothing; with the reason.
IDLE = {
    "torch.backends.cudnn.benchmark": "cuDNN is not used",
    "torch.backends.cudnn.benchmark_limit": "cuDNN is not used",
    "torch.backends.cudnn.deterministic": "cuDNN is not used; results are the same from run to run",
    "torch.backends.cudnn.enabled": "cuDNN is not used",
    "torch.backends.mkldnn.enabled": "oneDNN is not used",
    "torch.backends.mkldnn.flags": "oneDNN is not used",
    "torch.backends.opt_einsum.enabled": "einsum has an order of its own",
    "torch.backends.opt_einsum.strategy": "einsum has an order of its own",
    "torch.set_num_interop_threads": "one operation runs at a time; set_num_threads is obeyed",
    "torch.set_flush_denormal": "it cannot be done from Python, and True answers False",
    "torch.jit.script": "gives back what it is given; torch.compile records and replays",
    "torch.jit.trace": "gives back what it is given; torch.compile records and replays",
    "torch.jit.freeze": "gives back what it is given",
    "torch.jit.optimize_for_inference": "gives back what it is given",
    "torch.jit.optimized_execution": "there is no compiled code to optimize",
    "torch._dynamo.config": "settings of a compiler that is not here",
    "torch._inductor.config": "settings of a compiler that is not here",
    "torch._dynamo.mark_dynamic": "torch.compile records again when a shape changes",
    "torch.multiprocessing.set_sharing_strategy": "memory is shared in one way only",
    "torch.nn.DataParallel": "the module gets the whole batch; DistributedDataParallel divides it",
    "torch.nn.parallel.DataParallel": (
        "the module gets the whole batch; DistributedDataParallel divides it"
    ),
}

# Packages with parts that are compiled against PyTorch's own binary; what there is instead.
NEED_PYTORCH = {
    "apex": "torch.amp and torch.optim",
    "auto_gptq": "",
    "bitsandbytes": "",
    "causal_conv1d": "nn.Conv1d with groups",
    "deepspeed": "torch.distributed, with ZeRO and FSDP",
    "detectron2": "",
    "dgl": "torch_geometric without its compiled companions",
    "exllamav2": "",
    "fbgemm_gpu": "",
    "flash_attn": "nn.functional.scaled_dot_product_attention",
    "horovod": "torch.distributed on MPI",
    "intel_extension_for_pytorch": "",
    "mamba_ssm": "",
    "mmcv": "",
    "MinkowskiEngine": "",
    "pyg_lib": "torch_geometric works without it",
    "pytorch3d": "",
    "spconv": "",
    "tinycudann": "",
    "torch_cluster": "torch_geometric works without it, but for a few functions",
    "torch_scatter": "Tensor.scatter_add and scatter_reduce; torch_geometric.utils.scatter",
    "torch_sparse": "torch.sparse_coo_tensor",
    "torch_spline_conv": "",
    "torch_tensorrt": "torch.onnx.export, and TensorRT on the file",
    "torch_xla": "",
    "torchao": "",
    "torchaudio": "",
    "torchcodec": "",
    "torchrec": "",
    "torchtext": "",
    "transformer_engine": "torch.amp",
    "triton": "kernels in CuPy (cupy.RawKernel), wrapped by torch.library.custom_op",
    "vllm": "",
    "xformers": "nn.functional.scaled_dot_product_attention",
}


# Packages whose metadata ask for PyTorch, which pip would install with them: the modules that are
# imported, and what pip calls them where that is another name.
ASK_FOR_PYTORCH = {
    name: name.replace("_", "-")
    for name in (
        "accelerate botorch captum e3nn geomloss higher kornia lightning monai nflows opacus peft "
        "pytorch_lightning pytorch_metric_learning pytorch_optimizer segmentation_models_pytorch "
        "sentence_transformers stable_baselines3 tensordict timm torchcde torchdiffeq torchmetrics "
        "torchsde torchviz vector_quantize_pytorch x_transformers"
    ).split()
} | {
    "backpack": "backpack-for-pytorch",
    "ignite": "pytorch-ignite",
    "open_clip": "open-clip-torch",
    "pyro": "pyro-ppl",
    "torchvision": "torchvision==0.28.0",  # that of PyTorch 2.13
}


def how_to_install(module: str) -> str:
    """The command that installs the package of a module, without PyTorch.

    >>> from tapegrad.compat.remarks import how_to_install
    >>> how_to_install("einops")
    'pip install einops'
    """
    package = ASK_FOR_PYTORCH.get(module)
    if package is None:
        return f"pip install {module}"
    return f"pip install --no-deps {package} (else pip installs PyTorch too), then what it imports"


def idle(name: str) -> str | None:
    """The name of the table that a use is about, if it does nothing here."""
    while name:
        if name in IDLE:
            return name
        name = name.rpartition(".")[0]
    return None


@functools.cache
def is_not_installed(module: str, file: str) -> bool:
    """Whether a module that a file imports is neither Python's, nor beside it, nor installed."""
    if not module or module in sys.stdlib_module_names or module in ("torch", "functorch"):
        return False
    path = [os.path.dirname(os.path.abspath(file)), *sys.path]
    return PathFinder.find_spec(module, path) is None and module not in sys.modules
