"""A variational autoencoder that draws handwritten digits of its own.

The encoder gives a normal distribution for every image, a sample of it goes through the decoder
(the reparametrisation trick lets the gradient pass), and the loss is the reconstruction error plus
the Kullback-Leibler divergence from a standard normal. Then the decoder alone makes new digits.
"""

import torch
import torch.nn.functional as F
from torch import nn

from data import digits, show
from progress import Progress, arguments


class VAE(nn.Module):
    def __init__(self, hidden=128, latent=8):
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(nn.Linear(64, hidden), nn.ReLU())
        self.mean = nn.Linear(hidden, latent)
        self.log_var = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, 64))

    def forward(self, x):
        h = self.encoder(x)
        mean, log_var = self.mean(h), self.log_var(h)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        return self.decoder(z), mean, log_var


def negative_elbo(logits, x, mean, log_var):
    """Reconstruction error plus divergence, per image."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_var - mean.pow(2) - log_var.exp())
    return (reconstruction + divergence) / len(x)


args = arguments(__doc__, steps=2000)
torch.manual_seed(args.seed)

images = torch.from_numpy(digits()[0]).flatten(1)
model = VAE()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

progress = Progress(args)
for _ in progress:
    x = images[torch.randint(len(images), (100,))]
    logits, mean, log_var = model(x)
    loss = negative_elbo(logits, x, mean, log_var)

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    progress.log(loss.item())

with torch.no_grad():
    logits, mean, log_var = model(images)
    bound = negative_elbo(logits, images, mean, log_var).item()
    drawn = torch.sigmoid(model.decoder(torch.randn(5, model.latent)))

print("drawn from noise:")
print(show(torch.cat(list(drawn.view(5, 8, 8)), dim=1).numpy()))
print(f"negative ELBO over all {len(images)} digits: {bound:.2f} nats")
