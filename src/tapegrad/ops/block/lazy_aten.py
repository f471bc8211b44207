"""Which lazy family has which ops of PyTorch's. Made by tools/generate.py: do not edit."""

ATEN: dict[str, str] = {
    "copying.part_copies": """
        narrow_copy select_copy slice_copy split_copy split_with_sizes_copy unbind_copy unfold_copy
        unsafe_split unsafe_split_with_sizes
    """,
    "copying.placement": """
        _to_copy
    """,
    "copying.resize": """
        as_strided_ set_source
    """,
    "copying.view_copies": """
        alias_copy as_strided_copy as_strided_scatter detach_copy expand_copy permute_copy
        squeeze_copy t_copy transpose_copy unsqueeze_copy view_as_complex_copy view_as_real_copy
        view_copy
    """,
    "fft.one_dim": """
        _fft_c2c _fft_c2r _fft_r2c
    """,
    "linalg.cholesky": """
        cholesky cholesky_inverse cholesky_solve linalg_cholesky_ex
    """,
    "linalg.det": """
        _linalg_det _linalg_slogdet linalg_cofactor linalg_cofactor_slope linalg_inv_ex
    """,
    "linalg.householder": """
        geqrf linalg_householder_product ormqr
    """,
    "linalg.ldl": """
        linalg_ldl_factor_ex linalg_ldl_solve
    """,
    "linalg.lu": """
        linalg_lu linalg_lu_factor_ex linalg_lu_solve lu_unpack
    """,
    "linalg.pinv": """
        linalg_lstsq linalg_pinv
    """,
    "linalg.products": """
        linalg_cross linalg_matrix_exp
    """,
    "linalg.solve": """
        _linalg_solve_ex linalg_solve_triangular triangular_solve
    """,
    "linalg.spectral": """
        _linalg_eigh _linalg_svd linalg_eig linalg_qr
    """,
    "nn.adaptive_pool": """
        _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d
        _adaptive_avg_pool3d_backward adaptive_max_pool2d adaptive_max_pool2d_backward
        adaptive_max_pool3d adaptive_max_pool3d_backward
    """,
    "nn.attention": """
        _safe_softmax _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_flash_attention_for_cpu_backward
    """,
    "nn.avg_pool": """
        avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward
    """,
    "nn.batch_norm": """
        native_batch_norm native_batch_norm_backward native_batch_norm_fixed
    """,
    "nn.bilinear": """
        _trilinear
    """,
    "nn.conv": """
        conv_bias_grad conv_input_grad conv_tbc conv_weight_grad convolution
    """,
    "nn.distance": """
        _cdist_forward _euclidean_dist _pdist_forward renorm
    """,
    "nn.dropout": """
        native_dropout native_dropout_backward
    """,
    "nn.embedding": """
        embedding embedding_counts embedding_dense_backward embedding_renorm
    """,
    "nn.embedding_bag": """
        _embedding_bag embedding_bag_counts
    """,
    "nn.grid_sample": """
        affine_grid_backward affine_grid_generator grid_adder_2d grid_adder_3d grid_sampler_2d
        grid_sampler_3d grid_slope_2d grid_slope_3d
    """,
    "nn.group_norm": """
        native_group_norm native_group_norm_backward
    """,
    "nn.interpolate": """
        _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
        _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_bicubic2d
        upsample_bicubic2d_backward upsample_bicubic_aa2d_backward upsample_bilinear2d
        upsample_bilinear2d_backward upsample_bilinear_aa2d_backward upsample_lanczos_aa2d
        upsample_lanczos_aa2d_backward upsample_linear1d upsample_linear1d_backward
        upsample_nearest1d upsample_nearest1d_backward upsample_nearest2d
        upsample_nearest2d_backward upsample_nearest3d upsample_nearest3d_backward
        upsample_nearest_exact1d_backward upsample_nearest_exact2d_backward
        upsample_nearest_exact3d_backward upsample_trilinear3d upsample_trilinear3d_backward
    """,
    "nn.layer_norm": """
        _fused_rms_norm _fused_rms_norm_backward native_layer_norm native_layer_norm_backward
    """,
    "nn.leaky_activations": """
        _prelu_kernel _prelu_kernel_backward leaky_relu leaky_relu_backward leaky_relu_write
        rrelu_on_average rrelu_on_average_write rrelu_with_noise rrelu_with_noise_backward
        rrelu_with_noise_write
    """,
    "nn.loss_class": """
        nll_loss2d_forward nll_loss_backward nll_loss_forward
    """,
    "nn.loss_ctc": """
        _ctc_loss_backward ctc_loss
    """,
    "nn.loss_likelihood": """
        binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits
    """,
    "nn.loss_margin": """
        multi_margin_loss multilabel_margin_loss_forward multilabel_margin_slope
    """,
    "nn.loss_pointwise": """
        huber_loss mse_loss smooth_l1_loss soft_margin_loss
    """,
    "nn.max_pool": """
        max_pool2d_backward max_pool2d_with_indices max_pool3d_backward max_pool3d_with_indices
        max_pool_indices
    """,
    "nn.max_unpool": """
        fractional_max_pool2d fractional_max_pool2d_backward fractional_max_pool3d
        fractional_max_pool3d_backward max_unpool2d max_unpool3d
    """,
    "nn.packing": """
        _pack_padded_sequence unpack_rows
    """,
    "nn.pad": """
        circular_pad circular_pad_back constant_pad_nd reflection_pad1d reflection_pad1d_back
        reflection_pad2d reflection_pad2d_back reflection_pad3d reflection_pad3d_back
        replication_pad1d replication_pad1d_back replication_pad2d replication_pad2d_back
        replication_pad3d replication_pad3d_back
    """,
    "nn.piecewise_linear": """
        glu glu_backward hardshrink hardsigmoid hardsigmoid_backward hardswish hardswish_backward
        hardtanh hardtanh_backward shrink_backward softshrink softshrink_backward threshold
        threshold_backward threshold_write
    """,
    "nn.recurrent": """
        gru_back gru_layer lstm_back lstm_layer mkldnn_rnn_layer rnn_back rnn_layer stack_steps
    """,
    "nn.shuffles": """
        channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle
    """,
    "nn.smooth_activations": """
        celu celu_write elu elu_backward elu_write gelu gelu_backward log_sigmoid_backward
        log_sigmoid_forward mish mish_backward silu silu_backward softplus softplus_backward
    """,
    "nn.unfold": """
        col2im im2col
    """,
    "nn.weight_norm": """
        _weight_norm_interface
    """,
    "random.gamma": """
        _dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad
    """,
    "special.bessel": """
        i0 special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
        special_i0e special_i1 special_i1e special_modified_bessel_i0 special_modified_bessel_i1
        special_modified_bessel_k0 special_modified_bessel_k1 special_scaled_modified_bessel_k0
        special_scaled_modified_bessel_k1 special_spherical_bessel_j0
    """,
    "special.error": """
        erfinv logit sinc special_entr special_erfcx special_log_ndtr special_ndtri special_xlog1py
        xlogy
    """,
    "special.float_parts": """
        deg2rad frexp gcd heaviside lcm ldexp logaddexp2 nextafter rad2deg
    """,
    "special.gamma": """
        digamma igamma igammac lgamma mvlgamma polygamma special_zeta
    """,
    "special.polynomials": """
        special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
        special_chebyshev_polynomial_w special_hermite_polynomial_h special_hermite_polynomial_he
        special_laguerre_polynomial_l special_legendre_polynomial_p
        special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
        special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w
    """,
    "statistics.combinations": """
        block_diag isin nonzero_static
    """,
    "statistics.histogram": """
        _histogramdd_bin_edges _histogramdd_from_bin_cts hash_tensor histc histogram
    """,
    "statistics.order": """
        kthvalue median mode nanmedian
    """,
}
