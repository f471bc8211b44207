"""Which inputs matter."""

from show import show

# isort: split
import torch
from captum.attr import (
    DeepLift,
    IntegratedGradients,
    LayerConductance,
    Saliency,
    ShapleyValueSampling,
)

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
x = torch.randn(5, 4)
show("integrated", IntegratedGradients(model).attribute(x, target=1, n_steps=20))
show("saliency", Saliency(model).attribute(x, target=0))
show("deeplift", DeepLift(model).attribute(x, torch.zeros_like(x), target=2))
show("layer", LayerConductance(model, model[0]).attribute(x, target=1, n_steps=10))
show("shapley", ShapleyValueSampling(model).attribute(x, target=1, n_samples=3))
