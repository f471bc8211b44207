"""Gradients of single samples, and a private training step."""

from show import show

# isort: split
import torch
from opacus import GradSampleModule, PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = GradSampleModule(
    nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(64, 3))
)
out = model(torch.randn(5, 1, 6, 6))
nn.functional.cross_entropy(out, torch.tensor([0, 1, 2, 0, 1])).backward()
for name, parameter in model.named_parameters():
    show(name, parameter.grad_sample.abs())

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = DataLoader(TensorDataset(torch.randn(16, 4), torch.arange(16) % 2), batch_size=4)
engine = PrivacyEngine()
model, optimizer, data = engine.make_private(
    module=model, optimizer=optimizer, data_loader=data, noise_multiplier=1.0, max_grad_norm=1.0
)
torch.manual_seed(5)
for x, y in data:
    if len(x):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
show("weights", torch.cat([p.flatten() for p in model.parameters()]))
show("epsilon", float(engine.get_epsilon(1e-5)))
