"""How PyTorch spells our ops: `softmax` is `aten._softmax.default` there.

An op that is not listed here has its own name and the overload `default`.
"""

from __future__ import annotations

from typing import Any

from ...core.base import TensorBase
from ...core.op import Op

# Ours = theirs, without a dot where the overload is `default`.
SPELLED: dict[str, str] = dict(
    pair.split("=")
    for pair in """
    fw_primal=_fw_primal to_device=_to_copy drawn_dropout=native_dropout
    add=add.Tensor add_alpha=add.Tensor add_number=add.Scalar plus_number=add.Scalar
    sub=sub.Tensor sub_alpha=sub.Tensor sub_number=sub.Scalar rsub=rsub.Tensor
    rsub_scalar=rsub.Scalar mul=mul.Tensor mul_number=mul.Scalar times_number=mul.Scalar
    div=div.Tensor div_number=div.Scalar div_mode=div.Tensor_mode
    remainder=remainder.Tensor remainder_scalar=remainder.Scalar
    remainder_of=remainder.Scalar_Tensor fmod=fmod.Tensor fmod_scalar=fmod.Scalar
    pow=pow.Tensor_Tensor pow_scalar=pow.Tensor_Scalar
    pow_of=pow.Scalar copysign=copysign.Tensor copysign_scalar=copysign.Scalar ldexp=ldexp.Tensor
    round_decimals=round.decimals clamp=clamp.Tensor clamp_scalar=clamp clamp_max=clamp_max.Tensor
    clamp_max_scalar=clamp_max clamp_min=clamp_min.Tensor clamp_min_scalar=clamp_min
    lerp=lerp.Tensor lerp_scalar=lerp.Scalar frexp=frexp.Tensor where=where.self
    xlogy=xlogy.Tensor xlogy_from=xlogy.Scalar_Self xlogy_of=xlogy.Scalar_Other
    special_xlog1py_from=special_xlog1py.self_scalar special_xlog1py_of=special_xlog1py.other_scalar
    special_zeta_from=special_zeta.self_scalar special_zeta_at=special_zeta.other_scalar
    conj=_conj conj_physical=_conj_physical conj_physical_write=conj_physical_
    eq=eq.Tensor ne=ne.Tensor lt=lt.Tensor le=le.Tensor gt=gt.Tensor ge=ge.Tensor
    bitwise_and=bitwise_and.Tensor bitwise_or=bitwise_or.Tensor bitwise_xor=bitwise_xor.Tensor
    bitwise_left_shift=bitwise_left_shift.Tensor bitwise_right_shift=bitwise_right_shift.Tensor
    sum=sum.dim_IntList sum_all=sum mean=mean.dim mean_all=mean prod=prod.dim_int prod_all=prod
    max=max.dim max_all=max min=min.dim min_all=min median=median.dim median_all=median
    nanmedian=nanmedian.dim nanmedian_all=nanmedian std=std.correction var=var.correction
    std_mean=std_mean.correction var_mean=var_mean.correction norm_along=norm.ScalarOpt_dim
    sort_stable=sort.stable unique_parts=_unique2 unique_runs=unique_consecutive
    isin_set=isin.Tensor_Tensor histogram=histogram.bin_ct searchsorted=searchsorted.Tensor
    histogramdd_bin_edges=_histogramdd_bin_edges histogramdd_counts=_histogramdd_from_bin_cts
    reshape_alias=view unsafe_view=_unsafe_view transpose=transpose.int select=select.int
    slice=slice.Tensor unbind=unbind.int split=split.Tensor unsafe_split=unsafe_split.Tensor
    squeeze=squeeze.dims squeeze_all=squeeze squeeze_one=squeeze.dim squeeze_product=squeeze_.dim
    transpose_copy=transpose_copy.int select_copy=select_copy.int slice_copy=slice_copy.Tensor
    unbind_copy=unbind_copy.int split_copy=split_copy.Tensor squeeze_copy=squeeze_copy.dims
    squeeze_all_copy=squeeze_copy squeeze_one_copy=squeeze_copy.dim
    cast=_to_copy fill=fill.Scalar fill_number=fill.Scalar fill_with=fill.Tensor
    fill_tensor=fill.Tensor index=index.Tensor scatter_src=scatter.src scatter_value=scatter.value
    scatter_reduce=scatter_reduce.two index_fill_tensor=index_fill.int_Tensor
    index_fill_value=index_fill.int_Scalar masked_fill=masked_fill.Scalar
    masked_fill_tensor=masked_fill.Tensor nonzero_rows=nonzero
    softmax=_softmax log_softmax=_log_softmax safe_softmax=_safe_softmax
    softmax_backward_data=_softmax_backward_data fused_rms_norm=_fused_rms_norm
    fused_rms_norm_backward=_fused_rms_norm_backward
    log_softmax_backward_data=_log_softmax_backward_data
    log_sigmoid=log_sigmoid_forward prelu_kernel=_prelu_kernel
    prelu_kernel_backward=_prelu_kernel_backward mse_loss_mixed=mse_loss nll_loss=nll_loss_forward
    nll_loss2d=nll_loss2d_forward multilabel_margin_loss=multilabel_margin_loss_forward
    ctc_loss=ctc_loss.IntList ctc_loss_backward=_ctc_loss_backward trilinear=_trilinear
    cdist_forward=_cdist_forward pdist_forward=_pdist_forward euclidean_dist=_euclidean_dist
    scaled_dot_product_flash_attention_for_cpu=_scaled_dot_product_flash_attention_for_cpu
    scaled_dot_product_flash_attention_for_cpu_backward=_scaled_dot_product_flash_attention_for_cpu_backward
    adaptive_avg_pool2d=_adaptive_avg_pool2d adaptive_avg_pool3d=_adaptive_avg_pool3d
    adaptive_avg_pool2d_backward=_adaptive_avg_pool2d_backward
    adaptive_avg_pool3d_backward=_adaptive_avg_pool3d_backward
    max_pool2d=max_pool2d_with_indices max_pool3d=max_pool3d_with_indices
    im2_col=im2col col2_im=col2im affine_grid=affine_grid_generator embedding_bag=_embedding_bag
    weight_norm_interface=_weight_norm_interface pack_padded_sequence=_pack_padded_sequence
    upsample_nearest_exact1d=_upsample_nearest_exact1d
    upsample_nearest_exact2d=_upsample_nearest_exact2d
    upsample_nearest_exact3d=_upsample_nearest_exact3d
    upsample_bilinear_aa2d=_upsample_bilinear2d_aa upsample_bicubic_aa2d=_upsample_bicubic2d_aa
    linalg_det=_linalg_det linalg_eigh=_linalg_eigh linalg_slogdet=_linalg_slogdet
    linalg_solve_ex=_linalg_solve_ex linalg_svd=_linalg_svd linalg_pinv=linalg_pinv.atol_rtol_tensor
    bernoulli_draw=bernoulli poisson_draw=poisson normal_mean=normal.Tensor_float
    normal_std=normal.float_Tensor normal_mean_std=normal.Tensor_Tensor
    """.split()
)

# PyTorch has no single op for what these do.
OURS = frozenset(
    """
    affine_grid_backward bernoulli_fill bernoulli_tensor_fill cauchy_fill celu_write circular_pad
    circular_pad_back conv_bias_grad conv_input_grad conv_weight_grad copy_slices elu_write
    embedding_bag_counts embedding_counts exponential_fill geometric_fill grid_adder_2d
    grid_adder_3d grid_slope_2d grid_slope_3d gru_layer leaky_relu_write linalg_cofactor
    linalg_cofactor_slope linear_scan log_normal_fill lstm_layer max_pool3d_backward
    max_pool_indices multilabel_margin_slope native_batch_norm_fixed normal_fill random_fill
    random_from_fill random_to_fill reflection_pad1d_back reflection_pad2d_back
    reflection_pad3d_back region_of region_put region_zeroed replication_pad1d_back
    replication_pad2d_back replication_pad3d_back restride rnn_layer rrelu_on_average
    rrelu_on_average_write rrelu_with_noise_write scatter_old shrink_backward squeeze_all_
    squeeze_column squeeze_one_ stack_steps threshold_write trace_scatter uniform_fill unpack_rows
    upsample_bicubic_aa2d_backward upsample_bilinear_aa2d_backward upsample_lanczos_aa2d
    upsample_lanczos_aa2d_backward upsample_nearest_exact1d_backward
    upsample_nearest_exact2d_backward upsample_nearest_exact3d_backward
    """.split()
)

# The overload if the second operand is a number.
WITH_NUMBER: dict[str, str] = {
    **dict.fromkeys("eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor".split(), "Scalar"),
    **dict.fromkeys(["bitwise_left_shift", "bitwise_right_shift"], "Tensor_Scalar"),
}
# The overload if dimensions are given.
WITH_DIM = {"all": ("dim", "dims"), "any": ("dim", "dims"), "count_nonzero": ("", "dim_IntList")}

# What PyTorch runs in the place of some ops on other devices or in other formats. Programs name
# these in lists of ops, where they have to be found; nothing here runs them.
ABROAD = frozenset(
    """
    _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_cudnn_attention _flash_attention_forward _efficient_attention_forward
    _scaled_mm cudnn_convolution miopen_convolution mkldnn_convolution
    cudnn_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional
    convolution_overrideable _thnn_fused_lstm_cell _thnn_fused_gru_cell
    """.split()
)


def spelled(op: Op, tensors: Any, attrs: tuple[Any, ...]) -> tuple[str, str, str]:
    """Namespace, name and overload of an op that is called with these arguments."""
    ours = op.name
    if ours in OURS:
        return "tapegrad", ours, "default"
    name, _, overload = SPELLED.get(ours, ours).partition(".")
    if ours in WITH_NUMBER and not isinstance(tensors[-1], TensorBase):
        overload = WITH_NUMBER[ours]
    elif ours in WITH_DIM:
        one, several = WITH_DIM[ours]
        dim = attrs[op.attrs.index("dim")]
        if dim is not None:
            single = isinstance(dim, int) or len(dim) == 1
            overload = one if single and one else several
    return "aten", name, overload or "default"


def overloads(name: str) -> list[str]:
    """The overloads of an aten op that some op of ours stands for; empty if there is none."""
    found: dict[str, None] = {}
    for ours, theirs in SPELLED.items():
        packet, _, overload = theirs.partition(".")
        if packet == name:
            found[overload or "default"] = None
            if ours in WITH_NUMBER:
                found[WITH_NUMBER[ours]] = None
    for overload in WITH_DIM.get(name, ()):
        if overload:
            found["default"] = found[overload] = None
    return list(found)
