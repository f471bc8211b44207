"""torch.functional: the functions that PyTorch writes in Python, under the name of their module."""

from __future__ import annotations

import tapegrad as _tg

__all__ = """
    atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod
    cdist chain_matmul einsum istft lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot
    unique unique_consecutive unravel_index
""".split()

globals().update({name: getattr(_tg, name) for name in __all__})
