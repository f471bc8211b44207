"""A layer that normalises its output in place."""

import tapegrad as torch

torch.manual_seed(0)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, x):
        h = self.fc(x)
        length = (h**2).sum(dim=1, keepdim=True).sqrt()  #: saved
        h /= length  #: written
        return h


model = Encoder()
out = model(torch.randn(5, 4))
out.sum().backward()  #: noticed
