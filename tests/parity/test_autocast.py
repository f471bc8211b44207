"""Autocast on the CPU: the functions that have a rule, and the dtypes that come out, as PyTorch's.

The rules are compared with those that PyTorch registered, the results over its operator table.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from convert import to_ours
from opdb import op_db, our_function

import tapegrad
from tapegrad.api.publish import load_everything
from tapegrad.core.op import REGISTRY
from tapegrad.ops.block.definition import APIS

# Some functions of the table are deprecated.
pytestmark = pytest.mark.filterwarnings("ignore")

load_everything()


def plain_name(name: str) -> str:
    """`nn.functional.linear` -> `linear`, `linalg.qr` -> `linalg_qr`: as PyTorch registers them."""
    return name.removeprefix("nn.functional.").replace(".", "_")


RULES = {
    plain_name(name): each.autocast
    for name, each in (*APIS.items(), *REGISTRY.items())
    if each.autocast is not None
}

# Names of kernels below the functions that users call, or of what tapegrad does not have.
INNER = {
    "_addmm_activation",
    "_convolution",
    "_grid_sampler_2d_cpu_fallback",
    "_lu_with_info",
    "_native_multi_head_attention",
    "cross_entropy_loss",
    "fake_quantize_per_tensor_affine",
    "mkldnn_rnn_layer",
    "multilabel_margin_loss_forward",
    "nll_loss2d",
}
# Functions that reach those kernels under another name, and aliases.
OURS = {"concat", "concatenate", "cross_entropy", "grid_sample", "max_unpool1d"}


def test_the_rules_are_pytorchs() -> None:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")
    theirs = {name.removeprefix("aten::").partition(".")[0] for name in registered}
    assert theirs - INNER == {name for name, rule in RULES.items() if rule.cpu} - OURS
    assert theirs > INNER


# The same for GPUs: below convolution, recurrent cells, interpolation and norms.
INNER_ON_GPUS = set(
    """
    _convolution _scaled_dot_product_flash_attention _thnn_fused_gru_cell _thnn_fused_lstm_cell
    _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d convolution cudnn_convolution
    cudnn_convolution_transpose frobenius_norm nll_loss2d nuclear_norm upsample_bicubic2d
    upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    upsample_trilinear3d
    """.split()
)
OURS_ON_GPUS = set(
    """
    arccos arcsin arctan2 cross_entropy grid_sample interpolate linalg_norm upsample
    upsample_bilinear upsample_nearest
    """.split()
)


def test_the_rules_on_gpus_are_pytorchs() -> None:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    theirs = {name.removeprefix("aten::").partition(".")[0] for name in registered}
    ours = {name for name, rule in RULES.items() if rule.gpu}
    assert theirs - INNER_ON_GPUS == ours - OURS_ON_GPUS


def dtypes(value: Any) -> tuple[str, ...]:
    if isinstance(value, (torch.Tensor, tapegrad.Tensor)):
        return (str(value.dtype),)
    if isinstance(value, (tuple, list)):
        return tuple(itertools.chain.from_iterable(map(dtypes, value)))
    return ()


def outcome(lib: Any, function: Any, args: Any, kwargs: Any) -> tuple[str, ...]:
    try:
        with lib.autocast("cpu"):
            return dtypes(function(*args, **kwargs))
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        return ("refused", type(error).__name__)


# Functions without a rule that are made of functions with one.
MADE_OF_THEM = "chain_matmul corrcoef cov einsum hstack linalg.multi_dot tensordot vstack".split()
CASES = [
    info
    for info in op_db
    if (plain_name(info.name) in RULES or info.name in MADE_OF_THEM)
    and our_function(info) is not None
]


@pytest.mark.parametrize("info", CASES, ids=lambda info: info.formatted_name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_results_have_the_same_dtypes(info: Any, dtype: Any) -> None:
    function = our_function(info)
    try:
        samples = list(itertools.islice(info.sample_inputs("cpu", dtype), 4))
    except RuntimeError:
        pytest.skip("PyTorch cannot make samples in this dtype")
    for sample in samples:
        args = (sample.input, *sample.args)
        wanted = outcome(torch, info.op, args, sample.kwargs)
        found = outcome(tapegrad, function, to_ours(args), to_ours(sample.kwargs))
        assert found == wanted or wanted[0] == found[0] == "refused"
