"""One round of Bayesian optimization."""

from show import show

# isort: split
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
box = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
x = draw_sobol_samples(box, n=8, q=1, seed=1).squeeze(1)
show("sobol", x)
y = -(x - 0.3).square().sum(1, keepdim=True)
model = SingleTaskGP(x, y)
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
acquire = LogExpectedImprovement(model, best_f=y.max())
tried = torch.rand(16, 1, 2, dtype=torch.double)
best = tried[acquire(tried).argmax()]
show("best", [round(v, 3) for v in best.flatten().tolist()])
