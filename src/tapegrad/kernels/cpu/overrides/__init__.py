"""Ops whose kernels on the CPU are written by hand in C.

Each module here gives overrides to the backend. An override looks at its arguments, takes what it
can do (float and double that lie in C order, mostly) and leaves the rest to the reference, which is
the op's forward on NumPy.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

# By family: the modules here that override something. They import the ops in turn, and so are
# imported when an op of theirs is made.
MODULES: dict[str, tuple[str, ...]] = {
    "products": ("addmm", "bmm", "mm", "half_product", "whole_product", "mv", "dot"),
    "extremes": (
        *("max", "min", "argmax", "argmin", "amax", "amin", "max_all", "min_all", "aminmax"),
        *("all", "any", "cummax", "cummin"),
    ),
    "casts": ("cast",),
    "masks": ("masked_fill", "tril", "triu"),
    "copies": ("clone",),
    "attention": (
        "scaled_dot_product_flash_attention_for_cpu",
        "scaled_dot_product_flash_attention_for_cpu_backward",
    ),
    "softmax": (
        *("softmax", "safe_softmax", "log_softmax"),
        *("softmax_backward_data", "log_softmax_backward_data"),
    ),
    "batch_norm": (
        *("native_batch_norm", "native_batch_norm_fixed", "native_batch_norm_backward"),
        *("native_group_norm", "native_group_norm_backward"),
    ),
    "conv": ("convolution", "conv_input_grad", "conv_weight_grad"),
    "pool2d": (
        *("max_pool2d", "max_pool2d_with_indices", "max_pool_indices", "max_pool2d_backward"),
        *("avg_pool2d", "avg_pool2d_backward"),
    ),
    "windows": (
        *("max_pool3d", "max_pool3d_with_indices", "max_pool3d_backward"),
        *("adaptive_max_pool2d", "adaptive_max_pool2d_backward"),
        *("adaptive_max_pool3d", "adaptive_max_pool3d_backward"),
        *("fractional_max_pool2d", "fractional_max_pool3d"),
        *("fractional_max_pool2d_backward", "fractional_max_pool3d_backward"),
        *("avg_pool3d", "avg_pool3d_backward"),
        *("adaptive_avg_pool2d", "adaptive_avg_pool2d_backward"),
        *("adaptive_avg_pool3d", "adaptive_avg_pool3d_backward"),
    ),
    "norms": (
        "native_layer_norm",
        "native_layer_norm_backward",
        "fused_rms_norm",
        "fused_rms_norm_backward",
    ),
    "recurrent": (
        *("lstm_layer", "lstm_back", "gru_layer", "gru_back"),
        *("rnn_layer", "rnn_back"),
    ),
    "losses": (
        *("nll_loss", "nll_loss_backward", "huber_loss", "smooth_l1_loss"),
        *("mse_loss", "mse_loss_mixed"),
        *("soft_margin_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"),
    ),
    "gather": (
        "embedding",
        "embedding_dense_backward",
        "index_select",
        "index_add",
        "gather",
        "scatter_into",
        "select_backward",
        "slice_backward",
        "scatter_add",
        "scatter_src",
        "scatter_value",
        "index",
        "index_into",
        "index_put",
        "masked_select",
    ),
    "transforms": ("_fft_c2c", "_fft_r2c", "_fft_c2r"),
    "distances": ("cdist_forward", "pdist_forward"),
    "grid": tuple([f"grid_{name}_{n}d" for n in (2, 3) for name in ("sampler", "adder", "slope")]),
    "pairs": (
        *[f"special_chebyshev_polynomial_{kind}" for kind in "tuvw"],
        *[f"special_shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"],
        *("special_hermite_polynomial_h", "special_hermite_polynomial_he"),
        *("special_laguerre_polynomial_l", "special_legendre_polynomial_p"),
        "nextafter",
    ),
    "sorting": ("sort", "sort_stable", "topk"),
    "reduce": (
        "sum_all",
        "sum",
        "mean_all",
        "mean",
        "var",
        "std",
        "var_mean",
        "std_mean",
        "logsumexp",
        "conv_bias_grad",
        "cumsum",
        "cumprod",
        "linear_scan",
        "nansum",
        "linalg_vector_norm",
        "norm_along",
    ),
}
HOME = {op: module for module, ops in MODULES.items() for op in ops}


def override(name: str, reference: Any) -> Any:
    """The kernel for the op `name`, with `reference` as its fallback; None: there is none."""
    home = HOME.get(name)
    if home is None:
        return None
    return importlib.import_module(f"{__name__}.{home}").OVERRIDES[name](reference)


def behind_formula(name: str, reference: Any) -> Any:
    """The fallback of a formula of the vector machine: `reference`, or what is faster."""
    if name != "neg":
        return reference

    def negative(x: Any) -> Any:
        """NumPy takes several times as long for complex numbers as for their parts."""
        if type(x) is np.ndarray and x.dtype.kind == "c" and x.ndim and x.flags.c_contiguous:
            return np.negative(x.view(x.real.dtype)).view(x.dtype)
        return reference(x)

    return negative


def override_into(name: str, reference: Any) -> Any:
    """The in-place kernel for the op `name`; `reference` if there is none."""
    home = HOME.get(name)
    if home is None:
        return reference
    module = importlib.import_module(f"{__name__}.{home}")
    make = getattr(module, "INTO", {}).get(name)
    return reference if make is None else make(reference)
