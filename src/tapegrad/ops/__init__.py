"""The operations, one block each, by family."""

from __future__ import annotations

import importlib
from typing import Any

# Loaded with the package: what nearly every program uses.
FAMILIES = (
    "pointwise",
    "power",
    "transcendental",
    "parts",
    "select",
    "compare",
    "bitwise",
    "view",
    "split",
    "dims",
    "memory",
    "reduce",
    "extrema",
    "vector_norm",
    "scan",
    "softmax",
    "index",
    "gather",
    "index_along",
    "masked",
    "view_scatter",
    "shape",
    "triangles",
    "sort",
    "matmul",
    "addmm",
    "products",
    "einsum",
    "complexes",
)


# Loaded when one of their names is first asked for; names.py (made by tools/generate.py) has them.
LAZY: tuple[str, ...] = (
    "activations",
    "activations_leaky",
    "activations_more",
    "adaptive_pool",
    "attention",
    "attention_forward",
    "avg_pool",
    "batch_norm",
    "bilinear",
    "combine",
    "conv_functions",
    "copied_parts",
    "copies",
    "covariance",
    "ctc",
    "distance",
    "dropouts",
    "elementwise_more",
    "embedding",
    "embedding_bag",
    "fft",
    "fft_nd",
    "gradient",
    "grid_sample",
    "group_norm",
    "gumbel",
    "histogram",
    "index_reduce",
    "interpolate",
    "layer_norm",
    "linalg_cholesky",
    "linalg_det",
    "linalg_householder",
    "linalg_ldl",
    "linalg_lu",
    "linalg_norms",
    "linalg_pinv",
    "linalg_products",
    "linalg_solve",
    "linalg_spectral",
    "loss_class",
    "loss_likelihood",
    "loss_margin",
    "loss_pointwise",
    "lowrank",
    "masked_reduce",
    "max_pool",
    "max_unpool",
    "order_stats",
    "placement",
    "pad",
    "random_gamma",
    "rearrange",
    "recurrent_functions",
    "resize",
    "special_aliases",
    "special_bessel",
    "special_error",
    "special_gamma",
    "special_poly",
    "stft",
    "trapezoid",
    "unfold",
    "weight_norm",
    "windows",
)


def load() -> list[Any]:
    """Import the everyday families; their blocks register themselves."""
    return [importlib.import_module(f".{family}", __name__) for family in FAMILIES]


def __getattr__(name: str) -> Any:
    """`torch.ops.aten` and, for what only we have, `torch.ops.tapegrad`."""
    if name in ("aten", "tapegrad"):
        return importlib.import_module(".._ops", __name__).NAMESPACES[name]
    raise AttributeError(f"module 'torch.ops' has no attribute '{name}'")
