"""Every layer of torch.nn as the text that builds it, and the shapes of an input for it.

The programs prog_nn_layers and prog_nn_losses report on each of them; tests/parity/test_layers.py
compares the weights that both libraries draw for them.
"""

from __future__ import annotations

from typing import Any

from .gradients import plain, weights

CONVOLUTIONS = {
    "nn.Conv1d(2, 3, 2)": [(2, 2, 5)],
    "nn.Conv1d(2, 4, 3, padding='same', groups=2, bias=False)": [(2, 5)],
    "nn.Conv1d(2, 3, 3, stride=2, padding=2, dilation=2, padding_mode='reflect')": [(1, 2, 6)],
    "nn.Conv2d(2, 3, 2)": [(1, 2, 4, 4)],
    "nn.Conv2d(2, 2, (3, 2), stride=(1, 2), padding=(1, 0))": [(2, 4, 4)],
    "nn.Conv2d(2, 2, (3, 2), padding='same', dilation=(1, 2))": [(1, 2, 4, 4)],
    "nn.Conv2d(2, 2, 3, padding='valid', padding_mode='replicate')": [(1, 2, 4, 4)],
    "nn.Conv2d(2, 2, 3, padding=(1, 2), padding_mode='circular')": [(1, 2, 4, 4)],
    "nn.Conv2d(2, 2, 3, padding=1, padding_mode='replicate')": [(1, 2, 4, 4)],
    "nn.Conv2d(1, 1, (3, 4), padding='same', padding_mode='reflect')": [(1, 1, 4, 4)],
    "nn.Conv3d(1, 2, 2)": [(1, 1, 3, 3, 3)],
    "nn.Conv3d(2, 2, (1, 2, 2), padding=(0, 1, 0), groups=2)": [(2, 2, 3, 3)],
    "nn.ConvTranspose1d(2, 3, 3, stride=2, output_padding=1)": [(1, 2, 4)],
    "nn.ConvTranspose2d(2, 2, 2)": [(1, 2, 3, 3)],
    "nn.ConvTranspose2d(2, 4, 3, 2, 1, 1, 2, False, 2)": [(1, 2, 3, 3)],
    "nn.ConvTranspose3d(1, 2, 2, stride=(1, 2, 1))": [(1, 1, 2, 2, 2)],
}

POOLS = {
    "nn.MaxPool1d(2)": [(1, 2, 5)],
    "nn.MaxPool2d((2, 3), stride=1, padding=1)": [(1, 1, 4, 4)],
    "nn.MaxPool2d(2, dilation=2, return_indices=True, ceil_mode=True)": [(1, 4, 4)],
    "nn.MaxPool3d(2, stride=(1, 2, 2))": [(1, 1, 3, 4, 4)],
    "nn.AvgPool1d(2)": [(1, 2, 5)],
    "nn.AvgPool1d((3,), stride=2, padding=1, ceil_mode=True, count_include_pad=False)": [(1, 2, 6)],
    "nn.AvgPool2d(2)": [(1, 1, 4, 4)],
    "nn.AvgPool2d((2, 3), padding=(1, 0), divisor_override=3)": [(1, 4, 4)],
    "nn.AvgPool3d(2, 1, 1)": [(1, 1, 2, 2, 3)],
    "nn.LPPool1d(2, 2)": [(1, 2, 5)],
    "nn.LPPool2d(1.5, (3, 2), stride=2, ceil_mode=True)": [(1, 1, 4, 4)],
    "nn.LPPool3d(2, 2)": [(1, 1, 2, 4, 2)],
    "nn.AdaptiveMaxPool1d(3)": [(1, 2, 5)],
    "nn.AdaptiveMaxPool2d((3, None))": [(1, 1, 5, 4)],
    "nn.AdaptiveMaxPool3d(2, return_indices=True)": [(1, 3, 3, 3)],
    "nn.AdaptiveAvgPool1d(2)": [(1, 2, 5)],
    "nn.AdaptiveAvgPool2d((1, None))": [(1, 1, 4, 4)],
    "nn.AdaptiveAvgPool2d(3)": [(1, 4, 5)],
    "nn.AdaptiveAvgPool3d((None, 2, 1))": [(1, 1, 3, 3, 3)],
    "nn.FractionalMaxPool2d(2, output_size=3)": [(1, 1, 6, 6)],
    "nn.FractionalMaxPool2d((3, 2), output_ratio=0.5, return_indices=True)": [(1, 6, 6)],
    "nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.7, 0.5))": [(1, 1, 4, 6, 4)],
}

NORMS = {
    "nn.BatchNorm1d(3)": [(4, 3)],
    "nn.BatchNorm1d(3, eps=1e-3, momentum=None, bias=False)": [(2, 3, 3)],
    "nn.BatchNorm2d(2, affine=False)": [(2, 2, 2, 2)],
    "nn.BatchNorm2d(2, track_running_stats=False)": [(2, 2, 2, 2)],
    "nn.BatchNorm3d(2)": [(2, 2, 1, 2, 2)],
    "nn.SyncBatchNorm(2)": [(3, 2, 2)],
    "nn.InstanceNorm1d(2)": [(2, 2, 4)],
    "nn.InstanceNorm1d(2, affine=True)": [(2, 4)],
    "nn.InstanceNorm2d(2, affine=True, track_running_stats=True)": [(2, 2, 2, 3)],
    "nn.InstanceNorm3d(2, affine=True, bias=False)": [(2, 2, 1, 2, 2)],
    "nn.LayerNorm(4)": [(3, 4)],
    "nn.LayerNorm([2, 3], eps=1e-3, bias=False)": [(2, 2, 3)],
    "nn.LayerNorm((3,), elementwise_affine=False)": [(2, 3)],
    "nn.GroupNorm(2, 4)": [(2, 4, 3)],
    "nn.GroupNorm(1, 4, affine=False)": [(2, 4)],
    "nn.GroupNorm(2, 4, eps=1e-3, bias=False)": [(1, 4, 2, 2)],
    "nn.RMSNorm(4)": [(3, 4)],
    "nn.RMSNorm((2, 3), eps=1e-3, elementwise_affine=False)": [(2, 2, 3)],
    "nn.LocalResponseNorm(3, alpha=0.5, beta=0.5, k=2.0)": [(1, 5, 3)],
    "nn.CrossMapLRN2d(3, alpha=0.5, beta=0.5, k=2.0)": [(1, 5, 2, 2)],
    "nn.CrossMapLRN2d(4, alpha=0.5)": [(1, 6, 1, 2)],
}

ACTIVATIONS = {
    "nn.Threshold(0.1, 20)": [(2, 3)],
    "nn.ReLU()": [(2, 3)],
    "nn.RReLU(0.1, 0.3)": [(2, 3)],
    "nn.Hardtanh()": [(2, 3)],
    "nn.Hardtanh(-0.5, 2)": [(2, 3)],
    "nn.ReLU6()": [(2, 3)],
    "nn.Sigmoid()": [(2, 3)],
    "nn.Hardsigmoid()": [(2, 3)],
    "nn.Tanh()": [(2, 3)],
    "nn.SiLU()": [(2, 3)],
    "nn.Mish()": [(2, 3)],
    "nn.Hardswish()": [(2, 3)],
    "nn.ELU(0.5)": [(2, 3)],
    "nn.CELU(0.5)": [(2, 3)],
    "nn.SELU()": [(2, 3)],
    "nn.GLU()": [(2, 4)],
    "nn.GLU(0)": [(2, 3)],
    "nn.GELU()": [(2, 3)],
    "nn.GELU('tanh')": [(2, 3)],
    "nn.Hardshrink()": [(2, 3)],
    "nn.LeakyReLU()": [(2, 3)],
    "nn.LeakyReLU(0.2)": [(2, 3)],
    "nn.LogSigmoid()": [(2, 3)],
    "nn.Softplus()": [(2, 3)],
    "nn.Softplus(2, 1)": [(2, 3)],
    "nn.Softshrink()": [(2, 3)],
    "nn.PReLU()": [(2, 3)],
    "nn.PReLU(3, 0.1)": [(2, 3, 2)],
    "nn.Softsign()": [(2, 3)],
    "nn.Tanhshrink()": [(2, 3)],
    "nn.Softmin(1)": [(2, 3)],
    "nn.Softmax(dim=0)": [(2, 3)],
    "nn.Softmax2d()": [(3, 2, 2)],
    "nn.LogSoftmax(dim=-1)": [(2, 3)],
}

IN_PLACE = [
    "nn.Threshold(0.1, 20, True)",
    "nn.ReLU(inplace=True)",
    "nn.RReLU(0.1, 0.3, True)",
    "nn.Hardtanh(-2, 2, True)",
    "nn.ReLU6(True)",
    "nn.Hardsigmoid(True)",
    "nn.SiLU(True)",
    "nn.Mish(True)",
    "nn.Hardswish(True)",
    "nn.ELU(0.5, True)",
    "nn.CELU(0.5, True)",
    "nn.SELU(True)",
    "nn.LeakyReLU(0.2, True)",
    "nn.Dropout(0.3, True)",
]

DROPOUTS = {
    "nn.Dropout()": [(3, 4)],
    "nn.Dropout(p=0.25)": [(2, 5)],
    "nn.Dropout(p=1)": [(2, 2)],
    "nn.Dropout(p=0.0)": [(2, 2)],
    "nn.Dropout1d()": [(2, 4, 2)],
    "nn.Dropout2d(0.4)": [(2, 4, 1, 2)],
    "nn.Dropout3d()": [(2, 4, 1, 1, 2)],
    "nn.AlphaDropout(0.3)": [(3, 4)],
    "nn.FeatureAlphaDropout()": [(2, 4, 2)],
}

PADS = {
    "nn.CircularPad1d(1)": [(1, 3)],
    "nn.CircularPad2d((1, 2, 0, 1))": [(1, 2, 3)],
    "nn.CircularPad3d(1)": [(1, 1, 2, 1)],
    "nn.ConstantPad1d((1, 0), 2)": [(2, 2)],
    "nn.ConstantPad2d((1, 0, 2, -1), 3.5)": [(1, 2, 2)],
    "nn.ConstantPad3d(1, 2)": [(1, 1, 2)],
    "nn.ReflectionPad1d((2, 1))": [(1, 3)],
    "nn.ReflectionPad2d(1)": [(1, 2, 3)],
    "nn.ReflectionPad3d(1)": [(1, 2, 2, 2)],
    "nn.ReplicationPad1d(2)": [(1, 3)],
    "nn.ReplicationPad2d((1, 2, 0, 1))": [(1, 2, 2)],
    "nn.ReplicationPad3d(1)": [(1, 1, 2, 1)],
    "nn.ZeroPad1d(1)": [(1, 3)],
    "nn.ZeroPad2d((1, -1, 0, 2))": [(1, 2, 3)],
    "nn.ZeroPad3d(1)": [(1, 1, 2)],
}

SHAPES = {
    "nn.PixelShuffle(2)": [(1, 4, 2, 2)],
    "nn.PixelUnshuffle(2)": [(1, 4, 2)],
    "nn.ChannelShuffle(2)": [(1, 4, 2, 1)],
    "nn.Upsample(4)": [(1, 1, 3)],
    "nn.Upsample(size=(3, 4), mode='bilinear', align_corners=True)": [(1, 1, 2, 2)],
    "nn.Upsample(scale_factor=(2, 1.5), mode='bicubic')": [(1, 1, 2, 2)],
    "nn.Upsample(scale_factor=2, mode='trilinear', recompute_scale_factor=True)": [(1, 1, 1, 2, 1)],
    "nn.UpsamplingNearest2d(scale_factor=2)": [(1, 1, 2, 2)],
    "nn.UpsamplingBilinear2d((3, 2))": [(1, 1, 2, 2)],
    "nn.Fold((3, 4), 2)": [(1, 4, 6)],
    "nn.Fold(4, (2, 2), dilation=1, padding=1, stride=2)": [(4, 9)],
    "nn.Unfold(2)": [(1, 1, 3, 3)],
    "nn.Unfold((2, 3), padding=1, stride=2)": [(1, 1, 3, 4)],
    "nn.Flatten()": [(2, 2, 2)],
    "nn.Flatten(0, 1)": [(2, 2, 2)],
    "nn.Unflatten(1, (2, -1))": [(2, 4)],
    "nn.Identity(3, unused=4)": [(2, 2)],
}

PRODUCTS = {
    "nn.Linear(3, 2)": [(4, 3)],
    "nn.Linear(3, 2, bias=False)": [(3,)],
    "nn.modules.linear.NonDynamicallyQuantizableLinear(2, 3)": [(1, 2)],
    "nn.Bilinear(2, 3, 2)": [(4, 2), (4, 3)],
    "nn.Bilinear(2, 1, 3, bias=False)": [(2,), (1,)],
    "nn.PairwiseDistance()": [(3, 4), (3, 4)],
    "nn.PairwiseDistance(p=1, keepdim=True)": [(3, 4), (1, 4)],
    "nn.CosineSimilarity()": [(3, 4), (3, 4)],
    "nn.CosineSimilarity(0, 1e-3)": [(3, 4), (3, 4)],
}

# These need indices or targets; the programs give them.
TABLES = [
    "nn.Embedding(5, 3)",
    "nn.Embedding(5, 3, padding_idx=-2)",
    "nn.Embedding(5, 3, max_norm=1.0, norm_type=1, scale_grad_by_freq=True)",
    "nn.EmbeddingBag(5, 3)",
    "nn.EmbeddingBag(5, 3, mode='sum', padding_idx=1)",
    "nn.EmbeddingBag(5, 3, mode='max', max_norm=2.0)",
]

HEADS = [
    "nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], div_value=2.0)",
    "nn.AdaptiveLogSoftmaxWithLoss(4, 7, (2,), head_bias=True)",
    "nn.LinearCrossEntropyLoss(3, 4)",
    "nn.LinearCrossEntropyLoss(3, 4, out_features=(2,), bias=True)",
]

# The lazy layer, an input, and what it turns into.
LAZY = {
    "nn.LazyLinear(3)": (2, 4),
    "nn.LazyLinear(3, bias=False)": (4,),
    "nn.LazyConv1d(3, 2)": (1, 2, 4),
    "nn.LazyConv2d(4, 2, groups=2)": (2, 3, 3),
    "nn.LazyConv3d(2, (1, 2, 2), bias=False)": (1, 1, 2, 2, 2),
    "nn.LazyConvTranspose1d(3, 2, stride=2)": (1, 2, 4),
    "nn.LazyConvTranspose2d(2, 2, output_padding=1, stride=2)": (1, 2, 2, 2),
    "nn.LazyConvTranspose3d(1, 2)": (1, 1, 2, 2, 2),
    "nn.LazyBatchNorm1d()": (4, 3),
    "nn.LazyBatchNorm2d(affine=False)": (2, 3, 2, 2),
    "nn.LazyBatchNorm3d(bias=False)": (2, 3, 1, 2, 2),
    "nn.LazyInstanceNorm1d()": (2, 3, 2),
    "nn.LazyInstanceNorm2d(track_running_stats=False)": (2, 3, 2, 2),
    "nn.LazyInstanceNorm3d(affine=False)": (2, 3, 1, 2, 2),
}

FAMILIES = [CONVOLUTIONS, POOLS, NORMS, ACTIVATIONS, DROPOUTS, PADS, SHAPES, PRODUCTS]


def build(torch: Any, text: str) -> Any:
    """The layer that `text` describes, with the weights of seed 0."""
    torch.manual_seed(0)
    return eval(text, {"nn": torch.nn, "torch": torch})


def draw(torch: Any, shapes: list[tuple[int, ...]]) -> list[Any]:
    torch.manual_seed(1)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def outline(layer: Any) -> list[Any]:
    """Names, shapes and first values of everything the layer holds."""
    state = layer.state_dict()
    return [[k, v.dtype, v.shape, v.flatten()[:3].tolist()] for k, v in state.items()]


def shown(answer: Any) -> list[Any]:
    """What a layer gives, without versions and strides, which tell how and not what."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    return [[plain(t), None if t.grad_fn is None else t.grad_fn.name()] for t in parts]


def report(torch: Any, log: Any, text: str, shapes: list[tuple[int, ...]]) -> None:
    """What a layer is, computes and differentiates to, in training and in evaluation."""
    layer = build(torch, text)
    log(text, repr(layer), layer.extra_repr(), outline(layer))
    layer.double()
    inputs = draw(torch, shapes)
    answer = layer(*inputs)
    out = answer[0] if isinstance(answer, tuple) else answer
    log("training", shown(answer))
    if out.requires_grad:
        out.backward(weights(torch, out))
    log("gradients", [plain(t.grad) for t in inputs], [plain(p.grad) for p in layer.parameters()])
    log("buffers", [plain(b) for b in layer.buffers()])
    with torch.no_grad():
        answer = layer.eval()(*inputs)
    log("evaluation", shown(answer))
