"""Exact Gaussian process regression."""

from show import show

# isort: split
import gpytorch
import torch

torch.manual_seed(0)
x = torch.linspace(0, 1, 20)
y = torch.sin(6 * x) + 0.1 * torch.randn(20)


class Model(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Model(likelihood)
model.train()
likelihood.train()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
for _ in range(10):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
show("loss", loss)
model.eval()
likelihood.eval()
with torch.no_grad():
    found = likelihood(model(torch.linspace(0, 1, 7)))
show("mean", found.mean)
show("variance", found.variance)
