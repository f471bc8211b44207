"""Losses between embeddings, with a miner of hard pairs."""

from show import show

# isort: split
import torch
from pytorch_metric_learning import losses, miners

torch.manual_seed(0)
embeddings = torch.randn(12, 8, requires_grad=True)
labels = torch.arange(12) % 4
for loss in (
    losses.TripletMarginLoss(),
    losses.ContrastiveLoss(),
    losses.NTXentLoss(),
    losses.CircleLoss(),
    losses.MultiSimilarityLoss(),
    losses.ArcFaceLoss(4, 8),
    losses.ProxyAnchorLoss(4, 8),
):
    embeddings.grad = None
    pairs = None
    if isinstance(loss, losses.TripletMarginLoss):
        pairs = miners.MultiSimilarityMiner()(embeddings, labels)
    value = loss(embeddings, labels, pairs)
    value.backward()
    show(type(loss).__name__, value)
    show("its gradient", embeddings.grad)
