"""Metrics of classification, regression, images and text."""

from show import show

# isort: split
import torch
import torchmetrics
from torchmetrics import functional as F

torch.manual_seed(0)
scores, labels = torch.randn(50, 5).softmax(1), torch.randint(0, 5, (50,))
for name in ("Accuracy", "F1Score", "AUROC", "CohenKappa", "MatthewsCorrCoef", "CalibrationError"):
    metric = getattr(torchmetrics, name)(task="multiclass", num_classes=5)
    for part in range(0, 50, 10):
        metric.update(scores[part : part + 10], labels[part : part + 10])
    show(name, metric.compute())
show("confusion", torchmetrics.ConfusionMatrix(task="multiclass", num_classes=5)(scores, labels))
x, y = torch.randn(40), torch.randn(40)
for name in ("PearsonCorrCoef", "SpearmanCorrCoef", "R2Score", "MeanSquaredError"):
    show(name, getattr(torchmetrics, name)()(x, y))
a, b = torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32)
show("ssim", F.image.structural_similarity_index_measure(a, b))
show("psnr", F.image.peak_signal_noise_ratio(a, b, data_range=1.0))
show("wer", F.text.word_error_rate(["the cat sat"], ["the cat sat down"]))
both = torchmetrics.MetricCollection([torchmetrics.MeanAbsoluteError(), torchmetrics.R2Score()])
show("both", {k: round(v.item(), 4) for k, v in both(x, y).items()})
