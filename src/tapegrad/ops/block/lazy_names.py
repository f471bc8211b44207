"""Which lazy family has which public names. Made by tools/generate.py: do not edit."""

NAMES: dict[str, str] = {
    "copying.part_copies": """
        Tensor.narrow_copy Tensor.unsafe_chunk Tensor.unsafe_split Tensor.unsafe_split_with_sizes
        diagonal_copy narrow_copy select_copy slice_copy split_copy split_with_sizes_copy
        unbind_copy unfold_copy unsafe_chunk unsafe_split unsafe_split_with_sizes
    """,
    "copying.resize": """
        Tensor.apply_ Tensor.as_strided_ Tensor.map2_ Tensor.map_ Tensor.resize_ Tensor.resize_as_
        Tensor.set_ as_strided_ empty_permuted resize_as_
    """,
    "copying.view_copies": """
        Tensor.as_strided_scatter alias_copy as_strided_copy as_strided_scatter detach_copy
        expand_copy permute_copy squeeze_copy t_copy transpose_copy unsqueeze_copy
        view_as_complex_copy view_as_real_copy view_copy
    """,
    "fft.many_dims": """
        fft.fft2 fft.fftn fft.hfft2 fft.hfftn fft.ifft2 fft.ifftn fft.ihfft2 fft.ihfftn fft.irfft2
        fft.irfftn fft.rfft2 fft.rfftn
    """,
    "fft.one_dim": """
        fft.fft fft.fftfreq fft.fftshift fft.hfft fft.ifft fft.ifftshift fft.ihfft fft.irfft
        fft.rfft fft.rfftfreq
    """,
    "fft.stft": """
        Tensor.istft Tensor.stft istft stft
    """,
    "fft.window_functions": """
        bartlett_window blackman_window hamming_window hann_window kaiser_window
        signal.windows.bartlett signal.windows.blackman signal.windows.cosine
        signal.windows.exponential signal.windows.gaussian signal.windows.general_cosine
        signal.windows.general_hamming signal.windows.hamming signal.windows.hann
        signal.windows.kaiser signal.windows.nuttall
    """,
    "linalg.cholesky": """
        Tensor.cholesky Tensor.cholesky_inverse Tensor.cholesky_solve cholesky cholesky_inverse
        cholesky_solve linalg.cholesky linalg.cholesky_ex
    """,
    "linalg.det": """
        Tensor.det Tensor.inverse Tensor.logdet Tensor.slogdet det inverse linalg.det linalg.inv
        linalg.inv_ex linalg.slogdet linalg.tensorinv logdet slogdet
    """,
    "linalg.householder": """
        Tensor.geqrf Tensor.orgqr Tensor.ormqr geqrf linalg.householder_product orgqr ormqr
    """,
    "linalg.ldl": """
        linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve
    """,
    "linalg.lowrank": """
        pca_lowrank svd_lowrank
    """,
    "linalg.lu": """
        Tensor.lu Tensor.lu_solve linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve lu
        lu_solve lu_unpack
    """,
    "linalg.norms": """
        frobenius_norm linalg.cond linalg.matrix_norm linalg.matrix_rank linalg.norm nuclear_norm
    """,
    "linalg.pinv": """
        Tensor.pinverse linalg.lstsq linalg.pinv pinverse
    """,
    "linalg.products": """
        Tensor.cross Tensor.matrix_exp Tensor.matrix_power cross linalg.cross linalg.diagonal
        linalg.matmul linalg.matrix_exp linalg.matrix_power linalg.multi_dot linalg.vander
        linalg.vecdot matrix_exp matrix_power vander
    """,
    "linalg.solve": """
        Tensor.triangular_solve linalg.solve linalg.solve_ex linalg.solve_triangular
        linalg.tensorsolve triangular_solve
    """,
    "linalg.spectral": """
        Tensor.qr Tensor.svd linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.qr
        linalg.svd linalg.svdvals qr svd
    """,
    "nn.adaptive_pool": """
        adaptive_avg_pool1d adaptive_max_pool1d nn.functional.adaptive_avg_pool1d
        nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d
        nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool1d_with_indices
        nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool2d_with_indices
        nn.functional.adaptive_max_pool3d nn.functional.adaptive_max_pool3d_with_indices
    """,
    "nn.attention": """
        nn.functional.scaled_dot_product_attention
    """,
    "nn.avg_pool": """
        avg_pool1d nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d
        nn.functional.lp_pool1d nn.functional.lp_pool2d nn.functional.lp_pool3d
    """,
    "nn.batch_norm": """
        batch_norm instance_norm native_batch_norm nn.functional.batch_norm
        nn.functional.instance_norm
    """,
    "nn.bilinear": """
        bilinear nn.functional.bilinear nn.functional.linear_cross_entropy
    """,
    "nn.conv_functions": """
        conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
        nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_tbc
        nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv_transpose3d
    """,
    "nn.distance": """
        Tensor.renorm Tensor.renorm_ cdist cosine_similarity nn.functional.cosine_similarity
        nn.functional.normalize nn.functional.pairwise_distance nn.functional.pdist
        pairwise_distance pdist renorm
    """,
    "nn.dropout": """
        alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_
        feature_dropout feature_dropout_ native_dropout nn.functional.alpha_dropout
        nn.functional.dropout nn.functional.dropout1d nn.functional.dropout2d
        nn.functional.dropout3d nn.functional.feature_alpha_dropout
    """,
    "nn.embedding": """
        embedding embedding_renorm_ nn.functional.embedding
    """,
    "nn.embedding_bag": """
        embedding_bag nn.functional.embedding_bag
    """,
    "nn.grid_sample": """
        affine_grid_generator grid_sampler grid_sampler_2d grid_sampler_3d nn.functional.affine_grid
        nn.functional.grid_sample
    """,
    "nn.group_norm": """
        group_norm native_group_norm nn.functional.group_norm
    """,
    "nn.gumbel": """
        nn.functional.gumbel_softmax
    """,
    "nn.interpolate": """
        nn.functional.interpolate nn.functional.upsample nn.functional.upsample_bilinear
        nn.functional.upsample_nearest
    """,
    "nn.layer_norm": """
        layer_norm native_layer_norm nn.functional.layer_norm nn.functional.local_response_norm
        nn.functional.rms_norm rms_norm
    """,
    "nn.leaky_activations": """
        Tensor.prelu nn.functional.leaky_relu nn.functional.leaky_relu_ nn.functional.prelu
        nn.functional.rrelu nn.functional.rrelu_ prelu rrelu rrelu_
    """,
    "nn.loss_class": """
        nn.functional.cross_entropy nn.functional.nll_loss
    """,
    "nn.loss_ctc": """
        ctc_loss nn.functional.ctc_loss
    """,
    "nn.loss_likelihood": """
        binary_cross_entropy_with_logits kl_div nn.functional.binary_cross_entropy
        nn.functional.binary_cross_entropy_with_logits nn.functional.gaussian_nll_loss
        nn.functional.kl_div nn.functional.poisson_nll_loss poisson_nll_loss
    """,
    "nn.loss_margin": """
        cosine_embedding_loss hinge_embedding_loss margin_ranking_loss
        nn.functional.cosine_embedding_loss nn.functional.hinge_embedding_loss
        nn.functional.margin_ranking_loss nn.functional.multi_margin_loss
        nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss
        nn.functional.triplet_margin_loss nn.functional.triplet_margin_with_distance_loss
        triplet_margin_loss
    """,
    "nn.loss_pointwise": """
        nn.functional.huber_loss nn.functional.l1_loss nn.functional.mse_loss
        nn.functional.smooth_l1_loss nn.functional.soft_margin_loss
    """,
    "nn.max_pool": """
        max_pool1d max_pool1d_with_indices max_pool2d max_pool3d nn.functional.max_pool1d
        nn.functional.max_pool1d_with_indices nn.functional.max_pool2d
        nn.functional.max_pool2d_with_indices nn.functional.max_pool3d
        nn.functional.max_pool3d_with_indices
    """,
    "nn.max_unpool": """
        nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool2d_with_indices
        nn.functional.fractional_max_pool3d nn.functional.fractional_max_pool3d_with_indices
        nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d
    """,
    "nn.multihead_attention": """
        nn.functional.multi_head_attention_forward
    """,
    "nn.pad": """
        constant_pad_nd nn.functional.pad
    """,
    "nn.piecewise_linear": """
        Tensor.hardshrink hardshrink nn.functional.glu nn.functional.hardshrink
        nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh
        nn.functional.hardtanh_ nn.functional.relu6 nn.functional.softshrink nn.functional.softsign
        nn.functional.tanhshrink nn.functional.threshold nn.functional.threshold_ threshold
        threshold_
    """,
    "nn.recurrent_functions": """
        gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell
    """,
    "nn.shuffles": """
        channel_shuffle native_channel_shuffle nn.functional.channel_shuffle
        nn.functional.native_channel_shuffle nn.functional.pixel_shuffle
        nn.functional.pixel_unshuffle pixel_shuffle pixel_unshuffle
    """,
    "nn.smooth_activations": """
        celu celu_ nn.functional.celu nn.functional.celu_ nn.functional.elu nn.functional.elu_
        nn.functional.gelu nn.functional.logsigmoid nn.functional.mish nn.functional.selu
        nn.functional.selu_ nn.functional.silu nn.functional.softplus selu selu_
    """,
    "nn.unfold": """
        nn.functional.fold nn.functional.unfold
    """,
    "nn.weight_norm": """
        _weight_norm norm_except_dim
    """,
    "random.gamma": """
        _dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad
    """,
    "special.bessel": """
        Tensor.i0 Tensor.i0_ i0 i0_ special.airy_ai special.bessel_j0 special.bessel_j1
        special.bessel_y0 special.bessel_y1 special.i0 special.i0e special.i1 special.i1e
        special.modified_bessel_i0 special.modified_bessel_i1 special.modified_bessel_k0
        special.modified_bessel_k1 special.scaled_modified_bessel_k0
        special.scaled_modified_bessel_k1 special.spherical_bessel_j0
    """,
    "special.error": """
        Tensor.erfinv Tensor.erfinv_ Tensor.logit Tensor.logit_ Tensor.sinc Tensor.sinc_
        Tensor.xlogy Tensor.xlogy_ erfinv logit logit_ sinc sinc_ special.entr special.erfcx
        special.erfinv special.log_ndtr special.logit special.ndtr special.ndtri special.sinc
        special.xlog1py special.xlogy xlogy xlogy_
    """,
    "special.float_parts": """
        Tensor.deg2rad Tensor.deg2rad_ Tensor.frexp Tensor.gcd Tensor.gcd_ Tensor.heaviside
        Tensor.heaviside_ Tensor.lcm Tensor.lcm_ Tensor.ldexp Tensor.ldexp_ Tensor.logaddexp2
        Tensor.nextafter Tensor.nextafter_ Tensor.rad2deg Tensor.rad2deg_ deg2rad deg2rad_ frexp gcd
        gcd_ heaviside lcm lcm_ ldexp ldexp_ logaddexp2 nextafter rad2deg rad2deg_ special.round
    """,
    "special.gamma": """
        Tensor.digamma Tensor.digamma_ Tensor.igamma Tensor.igamma_ Tensor.igammac Tensor.igammac_
        Tensor.lgamma Tensor.lgamma_ Tensor.mvlgamma Tensor.mvlgamma_ Tensor.polygamma
        Tensor.polygamma_ digamma igamma igammac lgamma mvlgamma polygamma special.digamma
        special.gammainc special.gammaincc special.gammaln special.multigammaln special.polygamma
        special.psi special.zeta
    """,
    "special.polynomials": """
        special.chebyshev_polynomial_t special.chebyshev_polynomial_u special.chebyshev_polynomial_v
        special.chebyshev_polynomial_w special.hermite_polynomial_h special.hermite_polynomial_he
        special.laguerre_polynomial_l special.legendre_polynomial_p
        special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
        special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w
    """,
    "statistics.combinations": """
        Tensor.nonzero_static Tensor.sum_to_size block_diag broadcast_shapes cartesian_prod
        combinations isin nonzero_static unravel_index
    """,
    "statistics.covariance": """
        Tensor.corrcoef Tensor.cov corrcoef cov
    """,
    "statistics.gradient": """
        gradient
    """,
    "statistics.histogram": """
        Tensor.hash_tensor Tensor.histc Tensor.histogram hash_tensor histc histogram histogramdd
    """,
    "statistics.masked_reductions": """
        masked.amax masked.amin masked.argmax masked.argmin masked.cumprod masked.cumsum
        masked.log_softmax masked.logaddexp masked.logsumexp masked.mean masked.median masked.norm
        masked.normalize masked.prod masked.softmax masked.softmin masked.std masked.sum masked.var
    """,
    "statistics.order": """
        Tensor.kthvalue Tensor.median Tensor.mode Tensor.nanmean Tensor.nanmedian Tensor.nanquantile
        Tensor.quantile kthvalue median mode nanmean nanmedian nanquantile quantile
    """,
    "statistics.segments": """
        segment_reduce
    """,
    "statistics.trapezoid": """
        cumulative_trapezoid trapezoid trapz
    """,
}
