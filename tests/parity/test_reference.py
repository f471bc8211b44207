"""What the examples of the reference print is what PyTorch prints."""

from __future__ import annotations

import importlib

import pytest
import torch

from reference_examples import every_entry, failures, needs_gpu

# What PyTorch has not, or prints otherwise.
OWN = ("torch.datasets.", "torch.diagnose.", "torch.optim.extra.", "torch.utils.progress.")
OWN_FUNC = """
    NotConverged argmin biharmonic divergence fixed_point ggn_vector_product hessian_diag
    hvp jacobian jet kfac_factors laplacian linear_solve loop_over operator per_sample_grad
    root sparsity
""".split()
DIFFERENT = {
    "torch.PyTorchFileReader": "absent here, and says so",
    "torch.PyTorchFileWriter": "absent here, and says so",
    "torch.distributed.DistQueueEmptyError": "has only its second name there",
    "torch.distributed.ProcessGroupGloo": "absent here, and says so",
    "torch.distributed.RedOpType": "is ReduceOp.RedOpType there",
    "torch.distributed.shrink_group": "absent here, and says so",
    "torch.distributed.split_group": "with NCCL alone there",
    **dict.fromkeys([f"torch.func.{name}" for name in OWN_FUNC], "ours"),
    "torch.hub.help": "of a local folder here, of GitHub there",
    "torch.hub.list": "of a local folder here, of GitHub there",
    "torch.sparse.from_scipy": "ours",
    "torch.sparse.to_scipy": "ours",
    "torch.jit.interface": "PyTorch reads the source of the class, which an example has not",
    "torch.linalg.eig": "the last bit of the eigenvalues: other LAPACK",
    "torch.linalg.eigvals": "the last bit of the eigenvalues: other LAPACK",
    "torch.lobpcg": "the last bit of the eigenvalues: other LAPACK",
    "torch.autograd.detect_anomaly": "the error says more here",
    "torch.Tensor.cuda": "the error says more here",
    "torch.Tensor.pin_memory": "the error says more here",
    "torch.onnx.export": "PyTorch's needs onnxscript",
    "torch.onnx.ONNXProgram": "PyTorch's needs onnxscript",
    "torch.profiler.profile": "ones is one op here",
    "torch.use_deterministic_algorithms": "the portable mode is ours",
    "torch.utils.benchmark.Fuzzer": "absent here, and says so",
}

SHARED = ("torch.export", "torch.func", "torch.sparse", "torch.utils.checkpoint")

# These would start PyTorch's own compiler.
COMPILED = ("torch.compile", "torch.compiler.", "torch.nn.Module.compile")


def is_ours(name):
    """Whether an entry is a function of ours in a module where PyTorch has others."""
    space, _, last = name.rpartition(".")
    return space in SHARED and not hasattr(importlib.import_module(space), last)


@pytest.mark.slow
def test_the_examples_print_what_pytorch_prints():
    found = [
        (name, part)
        for name, part in every_entry()
        if not needs_gpu(part)
        and not name.startswith(OWN + COMPILED)
        and name not in DIFFERENT
        and not is_ours(name)
    ]
    wrong, count = failures(found, torch)
    assert count > 3800
    assert not wrong, "".join(wrong.values())
    assert DIFFERENT.keys() <= {name for name, _ in every_entry()}
