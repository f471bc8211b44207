"""What the programs print: numbers that both libraries must agree on."""

import warnings

import torch

warnings.filterwarnings("ignore")

if not hasattr(torch, "diagnose"):
    # The build of torchvision that pip finds may be for another PyTorch than the one that runs
    # this: then its ops do not exist, and importing it needs their declarations.
    for schema in ("nms", "qnms"):
        torch.library.define(
            f"torchvision::{schema}", "(Tensor dets, Tensor scores, float t) -> Tensor"
        )


def show(name, value):
    """One line: a number, or sum, mean size and shape of a tensor."""
    if isinstance(value, torch.Tensor):
        x = value.detach().double()
        print(name, tuple(value.shape), f"{x.sum().item():.5g} {x.abs().mean().item():.5g}")
    elif isinstance(value, float):
        print(name, f"{value:.5g}")
    else:
        print(name, value)


def train(model, loss_of, steps=2, lr=1e-3):
    """Some steps of AdamW; prints losses, a gradient norm and the weights after."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        show("loss", loss)
        show("norm", norm)
    show("weights", torch.cat([p.detach().flatten() for p in model.parameters()]).abs())
