"""Every loss of torch.nn: repr, reductions, gradients, the old flags, errors."""

import pickle

from programs import layers
from programs.gradients import plain, weights
from programs.harness import program

REDUCTIONS = ("mean", "sum", "none")


def values(torch, *shape, positive=False):
    """Float64 numbers around zero (or in (0, 1)) that require a gradient."""
    drawn = torch.rand if positive else torch.randn
    return drawn(shape, dtype=torch.float64).requires_grad_()


def report(torch, log, make, *inputs, reductions=REDUCTIONS):
    """Value and gradients of `make(reduction=...)` at `inputs`, for every reduction."""
    log(repr(make()), list(make().state_dict()), vars(make()).get("reduction"))
    for reduction in reductions:
        loss = make(reduction=reduction)
        out = loss(*inputs)
        log(reduction, layers.shown(out))
        leaves = [t for t in inputs if isinstance(t, torch.Tensor) and t.requires_grad]
        grads = torch.autograd.grad(out, leaves, weights(torch, out))
        log([plain(g) for g in grads])
    log.raises(lambda: make(reduction="median")(*inputs))


@program
def differences(torch, log):
    nn = torch.nn
    pair = values(torch, 2, 3), values(torch, 2, 3)
    report(torch, log, nn.L1Loss, *pair)
    report(torch, log, nn.MSELoss, *pair)
    report(torch, log, nn.SmoothL1Loss, *pair)
    report(torch, log, lambda **k: nn.SmoothL1Loss(beta=0.5, **k), *pair)
    report(torch, log, nn.HuberLoss, *pair)
    report(torch, log, lambda **k: nn.HuberLoss(delta=0.5, **k), *pair)
    log.warns(lambda: nn.L1Loss()(torch.ones(2, 1), torch.zeros(2)))
    log.raises(lambda: nn.HuberLoss(delta=0)(*pair))
    log.raises(lambda: nn.SmoothL1Loss(beta=-1)(*pair))


@program
def class_probabilities(torch, log):
    nn = torch.nn
    scores = values(torch, 4, 3)
    target = torch.tensor([2, 0, 1, 0])
    share = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    report(torch, log, nn.NLLLoss, scores, target)
    report(torch, log, lambda **k: nn.NLLLoss(share, ignore_index=0, **k), scores, target)
    report(torch, log, nn.CrossEntropyLoss, scores, target)
    report(
        torch,
        log,
        lambda **k: nn.CrossEntropyLoss(share, ignore_index=1, label_smoothing=0.1, **k),
        scores,
        target,
    )
    soft = values(torch, 4, 3, positive=True)
    report(torch, log, nn.CrossEntropyLoss, scores, soft)
    image = values(torch, 1, 3, 2, 2)
    report(torch, log, nn.CrossEntropyLoss, image, torch.tensor([[[0, 1], [2, 2]]]))
    report(torch, log, nn.NLLLoss, values(torch, 3), torch.tensor(1))


@program
def class_probability_errors(torch, log):
    nn, scores = torch.nn, torch.zeros(2, 3)
    for kind in (nn.NLLLoss, nn.CrossEntropyLoss):
        log.raises(lambda kind=kind: kind()(scores, torch.tensor([0, 3])))
        log.raises(lambda kind=kind: kind()(scores, torch.tensor([0, -1])))
        log.raises(lambda kind=kind: kind()(scores, torch.tensor([0])))
        log.raises(lambda kind=kind: kind(torch.ones(2))(scores, torch.tensor([0, 1])))
        log.raises(lambda kind=kind: kind()(scores, torch.zeros(2)))
        log(kind(ignore_index=0)(scores, torch.tensor([0, 0])))
    log.raises(lambda: nn.CrossEntropyLoss(label_smoothing=2)(scores, torch.tensor([0, 1])))
    log.warns(lambda: repr(nn.NLLLoss2d()))
    log.warns(lambda: type("Own", (nn.NLLLoss2d,), {})().ignore_index)


@program
def two_classes(torch, log):
    nn = torch.nn
    target = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.5, 1.0]], dtype=torch.float64)
    share = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    shares = values(torch, 2, 3, positive=True)
    scores = values(torch, 2, 3)
    report(torch, log, nn.BCELoss, shares, target)
    report(torch, log, lambda **k: nn.BCELoss(share, **k), shares, target)
    report(torch, log, nn.BCEWithLogitsLoss, scores, target)
    report(
        torch,
        log,
        lambda **k: nn.BCEWithLogitsLoss(share, pos_weight=share + 1, **k),
        scores,
        target,
    )
    log.raises(lambda: nn.BCELoss()(torch.tensor([1.5]), torch.tensor([1.0])))
    log.raises(lambda: nn.BCELoss()(torch.ones(2), torch.ones(3)))
    log.raises(lambda: nn.BCEWithLogitsLoss()(torch.ones(2), torch.ones(3)))
    log(nn.BCELoss()(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 1.0])))


@program
def likelihoods(torch, log):
    nn = torch.nn
    pair = values(torch, 2, 3), values(torch, 2, 3)
    counts = torch.tensor([[0.0, 1.0, 4.0], [2.0, 3.0, 1.0]], dtype=torch.float64)
    rates = values(torch, 2, 3, positive=True)
    report(torch, log, nn.PoissonNLLLoss, pair[0], counts)
    report(torch, log, lambda **k: nn.PoissonNLLLoss(False, True, **k), rates, counts)
    report(torch, log, nn.GaussianNLLLoss, *pair, rates)
    report(torch, log, lambda **k: nn.GaussianNLLLoss(full=True, eps=0.5, **k), *pair, rates)
    every = (*REDUCTIONS, "batchmean")
    report(torch, log, nn.KLDivLoss, pair[0], rates, reductions=every)
    report(torch, log, lambda **k: nn.KLDivLoss(log_target=True, **k), *pair, reductions=every)
    log.warns(lambda: nn.KLDivLoss()(torch.zeros(2), torch.ones(2)))
    log.raises(lambda: nn.GaussianNLLLoss()(*pair, -rates))
    log.raises(lambda: nn.GaussianNLLLoss()(*pair, torch.ones(5)))
    log.raises(lambda: nn.GaussianNLLLoss(True))


@program
def margins(torch, log):
    nn = torch.nn
    scores = values(torch, 2, 4)
    signs = torch.tensor([[1, -1, 1, -1], [-1, -1, 1, 1]], dtype=torch.float64)
    labels = torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0]])
    many = (signs + 1) / 2
    share = torch.tensor([0.5, 2.0, 1.0, 1.5], dtype=torch.float64)
    report(torch, log, nn.HingeEmbeddingLoss, scores, signs)
    report(torch, log, lambda **k: nn.HingeEmbeddingLoss(0.5, **k), scores, signs)
    report(torch, log, nn.SoftMarginLoss, scores, signs)
    report(torch, log, nn.MultiLabelMarginLoss, scores, labels)
    report(torch, log, nn.MultiLabelSoftMarginLoss, scores, many)
    report(torch, log, lambda **k: nn.MultiLabelSoftMarginLoss(share, **k), scores, many)
    report(torch, log, nn.MultiMarginLoss, scores, torch.tensor([3, 0]))
    report(
        torch, log, lambda **k: nn.MultiMarginLoss(2, 0.5, share, **k), scores, torch.tensor([1, 1])
    )
    log.raises(lambda: nn.MultiMarginLoss(p=3))
    log.raises(lambda: nn.MultiMarginLoss(weight=torch.ones(2, 2)))
    log.raises(lambda: nn.MultiMarginLoss()(torch.ones(2, 3), torch.tensor([0, 3])))
    log.raises(lambda: nn.MultiLabelMarginLoss()(torch.ones(2, 3), torch.tensor([[1, 0]])))


@program
def pairs_and_triplets(torch, log):
    nn = torch.nn
    a, b, c = (values(torch, 3, 4) for _ in range(3))
    signs = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
    report(torch, log, nn.CosineEmbeddingLoss, a, b, signs)
    report(torch, log, lambda **k: nn.CosineEmbeddingLoss(-0.5, **k), a, b, signs)
    report(torch, log, nn.MarginRankingLoss, a[:, 0], b[:, 0], signs)
    report(torch, log, lambda **k: nn.MarginRankingLoss(0.5, **k), a[:, 0], b[:, 0], signs)
    report(torch, log, nn.TripletMarginLoss, a, b, c)
    report(torch, log, lambda **k: nn.TripletMarginLoss(2.0, 1.0, swap=True, **k), a, b, c)
    report(torch, log, nn.TripletMarginWithDistanceLoss, a, b, c)
    report(
        torch,
        log,
        lambda **k: nn.TripletMarginWithDistanceLoss(
            distance_function=lambda x, y: (x - y).abs().sum(-1), margin=2.0, swap=True, **k
        ),
        a,
        b,
        c,
    )
    log.raises(lambda: nn.TripletMarginLoss(margin=0))
    log.raises(lambda: nn.TripletMarginWithDistanceLoss(margin=-1.0))
    log.raises(lambda: nn.TripletMarginLoss()(a, b, c[0]))
    log.raises(lambda: nn.CosineEmbeddingLoss()(a, b, signs[:2]))
    log(list(nn.TripletMarginWithDistanceLoss()._modules))


@program
def sequences(torch, log):
    nn = torch.nn
    scores = values(torch, 6, 2, 4).log_softmax(2).detach().requires_grad_()
    targets = torch.tensor([[1, 2, 2], [3, 1, 0]])
    lengths = torch.tensor([6, 5]), torch.tensor([3, 2])
    report(torch, log, nn.CTCLoss, scores, targets, *lengths)
    report(torch, log, lambda **k: nn.CTCLoss(blank=3, **k), scores, targets * 0 + 1, *lengths)
    short = torch.tensor([2, 5]), torch.tensor([3, 2])
    report(torch, log, lambda **k: nn.CTCLoss(zero_infinity=True, **k), scores, targets, *short)
    log(nn.CTCLoss()(scores, targets, *short))
    log(nn.CTCLoss()(scores, torch.tensor([1, 2, 2, 3, 1]), (6, 5), (3, 2)))
    log.raises(lambda: nn.CTCLoss(blank=4)(scores, targets, *lengths))
    log.raises(lambda: nn.CTCLoss()(scores, targets, torch.tensor([7, 5]), lengths[1]))


@program
def old_flags(torch, log):
    nn = torch.nn
    kinds = [nn.L1Loss, nn.MSELoss, nn.SmoothL1Loss, nn.KLDivLoss, nn.SoftMarginLoss]
    kinds += [nn.NLLLoss, nn.CrossEntropyLoss, nn.BCELoss, nn.BCEWithLogitsLoss]
    kinds += [nn.PoissonNLLLoss, nn.HingeEmbeddingLoss, nn.CosineEmbeddingLoss]
    kinds += [nn.MarginRankingLoss, nn.MultiMarginLoss, nn.MultiLabelMarginLoss]
    kinds += [nn.MultiLabelSoftMarginLoss, nn.TripletMarginLoss]
    for kind in kinds:
        log.warns(lambda kind=kind: kind(size_average=False).reduction)
        log.warns(lambda kind=kind: kind(reduce=False, reduction="sum").reduction)
        log.warns(lambda kind=kind: kind(size_average=True, reduce=True).reduction)
    log.raises(lambda: nn.HuberLoss(size_average=False))


@program
def linear_cross_entropy(torch, log):
    nn = torch.nn
    x = values(torch, 3, 3)
    for text in layers.HEADS[2:]:
        loss = layers.build(torch, text)
        log(repr(loss), layers.outline(loss))
        loss.double()
        shape = (3, *loss.out_features)
        target = torch.arange(3).reshape(3, *(1,) * len(loss.out_features)).expand(shape)
        out = loss(x, target)
        grads = torch.autograd.grad(out, [x, *loss.parameters()])
        log(layers.shown(out), [plain(g) for g in grads])
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    whole = layers.build(torch, "nn.LinearCrossEntropyLoss(3, 4, ignore_index=0, reduction='sum')")
    log(repr(options), repr(whole), whole.options, whole(x.float(), torch.tensor([0, 1, 2])))
    whole.options = options
    log(repr(whole), whole(x.float(), torch.tensor([0, 1, 2])).item())
    log.raises(lambda: nn.LinearCrossEntropyLoss(3, 4, weight=torch.ones(3)))
    log.raises(lambda: nn.LinearCrossEntropyLoss(3, 4, label_smoothing=2))
    log.raises(lambda: whole(x.float(), torch.rand(3, 4)))
    for wrong in (
        {"batch_chunk_size": 0},
        {"chunking_method": "x"},
        {"chunking_method": "aspect_ratio:0"},
        {"acc_policy": "x"},
        {"acc_dtype": torch.int32},
    ):
        log.raises(lambda wrong=wrong: nn.LinearCrossEntropyOptions(**wrong))
    log(nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio:2").chunking_method)
    log(nn.LinearCrossEntropyOptions() == pickle.loads(pickle.dumps(type(options)())))


@program
def adaptive_softmax(torch, log):
    for text in layers.HEADS[:2]:
        layer = layers.build(torch, text)
        log(repr(layer), layers.outline(layer), layer.cutoffs, layer.head_size)
        layer.double()
        torch.manual_seed(2)
        x = values(torch, 5, layer.in_features)
        target = torch.tensor([0, 4, 6, 2, 5])
        answer = layer(x, target)
        log(type(answer).__name__, layers.shown(answer))
        answer.loss.backward()
        log(plain(x.grad), [plain(p.grad) for p in layer.parameters()])
        log(layers.shown(layer.log_prob(x)), layer.predict(x), layer.predict(-3 * x))
        log(layers.shown(layer(x[0], target[0])), layer(x[:0], target[:0]).output.shape)


@program
def adaptive_softmax_errors(torch, log):
    make = torch.nn.AdaptiveLogSoftmaxWithLoss
    for cutoffs in ([], [6, 3], [3, 3], [0, 3], [3, 10], [2.5]):
        log.raises(lambda cutoffs=cutoffs: make(4, 10, cutoffs))
    layer = make(8, 10, [3, 6], div_value=2.0)
    x, target = torch.ones(3, 8), torch.tensor([0, 4, 9])
    log.raises(lambda: layer(x, target + 1))
    log.raises(lambda: layer(x, target - 1))
    log.raises(lambda: layer(x, target[:2]))
    log.raises(lambda: layer(x, target[None]))
    log.raises(lambda: layer(x, target[0]))
    log.raises(lambda: layer(torch.ones(3, 2, 8), target))
