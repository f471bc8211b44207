"""Distances between points, one of which is there twice; anomaly mode finds the NaN."""

import tapegrad as torch

points = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
centre = torch.tensor([0.0, 0.0])
with torch.autograd.set_detect_anomaly(True):
    squares = (points - centre).pow(2)  #: failed
    distances = squares.sum(dim=1).sqrt()  #: made
    loss = distances.mean()
    loss.backward()  #: noticed
