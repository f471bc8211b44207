"""Ten optimizers."""

from show import show

# isort: split
import pytorch_optimizer
import torch

names = (
    "Lion",
    "AdaBelief",
    "RAdam",
    "Lamb",
    "Adan",
    "Prodigy",
    "Sophia",
    "AdaFactor",
    "Muon",
    "CAME",
)
for name in names:
    if not hasattr(pytorch_optimizer, name):
        continue
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x = torch.randn(16, 4)
    kind = {"lr": 1e-2}
    parameters = list(model.parameters())
    if name == "Muon":
        parameters = [
            {"params": [p for p in parameters if p.dim() == 2], "use_muon": True},
            {"params": [p for p in parameters if p.dim() != 2], "use_muon": False},
        ]
        kind = {}
    try:
        optimizer = getattr(pytorch_optimizer, name)(parameters, **kind)
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    except (TypeError, ValueError) as error:
        show(name, type(error).__name__)
        continue
    show(name, torch.cat([p.detach().flatten() for p in model.parameters()]))
