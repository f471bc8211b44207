"""What the comparison with `op_db` leaves out, and why; tests/deviations has what it misses."""

from __future__ import annotations

INTERNAL = "internal to PyTorch: no public name"
SPARSE = "sparse tensors"
CUDA_ONLY = "CUDA only"

OUTSIDE: dict[str, str] = {
    "_batch_norm_with_update": INTERNAL,
    "_chunk_cat": INTERNAL,
    "_native_batch_norm_legit": INTERNAL,
    "_segment_reduce": INTERNAL,
    "_softmax_backward_data": INTERNAL,
    "_unsafe_masked_index": INTERNAL,
    "_unsafe_masked_index_put_accumulate": INTERNAL,
    "_upsample_bilinear2d_aa": INTERNAL,
    "chalf": "complex32, which NumPy does not have",
    "jiterator_2inputs_2outputs": CUDA_ONLY,
    "jiterator_4inputs_with_extra_args": CUDA_ONLY,
    "jiterator_binary": CUDA_ONLY,
    "jiterator_binary_return_by_ref": CUDA_ONLY,
    "jiterator_unary": CUDA_ONLY,
    "max_pool2d_with_indices_backward": INTERNAL,
    "native_dropout_backward": INTERNAL,
    "slice": INTERNAL,
    "sparse.mm": SPARSE,
    "sparse.sampled_addmm": SPARSE,
    "to_sparse": SPARSE,
    "torch._scaled_mm": INTERNAL,
    "torch._scaled_mm_v2": INTERNAL,
    "torch.ops.aten._efficient_attention_forward": INTERNAL,
    "torch.ops.aten._flash_attention_forward": INTERNAL,
    "torch.ops.aten._safe_softmax.default": INTERNAL,
}

# Used by at least two of 35 public programs and libraries.
EVERYDAY = frozenset(
    """
    T __getitem__ __radd__ __rmul__ __rpow__ __rsub__ abs add addcdiv addcmul addmm all allclose
    any arange argmax argsort as_strided bfloat16 bitwise_and bitwise_not bitwise_or bmm bool
    broadcast_shapes cat cholesky_solve clamp clamp_min clone complex contiguous cos cumsum diag
    diag_embed diagonal div dot double einsum empty empty_like eq equal exp expand eye fft.fft
    fill flatten flip flipud float floor_divide full full_like gather ge gt index_select isclose
    isfinite isinf isnan item le lerp linalg.cholesky linalg.cholesky_ex linalg.diagonal
    linalg.eigh linalg.lstsq linalg.norm linalg.qr linalg.solve linalg.solve_triangular
    linalg.svd linspace log logical_or logsumexp long lt mT masked_fill matmul max maximum mean
    min mm movedim mul mv nan_to_num narrow ne neg new_full new_zeros nn.functional.conv2d
    nn.functional.cross_entropy nn.functional.logsigmoid nn.functional.max_pool2d
    nn.functional.normalize nn.functional.one_hot nn.functional.pad nn.functional.relu
    nn.functional.smooth_l1_loss nn.functional.softplus norm normal ones ones_like permute pow
    prod rand_like randint randint_like randn randn_like real reciprocal repeat reshape rsqrt
    scatter scatter_add sigmoid sign sin softmax sort split sqrt square squeeze stack std sub
    sum t tan tanh tensordot to topk trace transpose tril unbind unsqueeze view view_as where
    zero_ zeros zeros_like
    """.split()
)

# Nobody says what is in their memory.
UNDEFINED = frozenset(
    ["empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"]
)

# The order of equal elements is not specified, unless a stable order is asked for.
TIES = frozenset(["argsort", "kthvalue", "sort", "topk"])
