"""Variational inference and Hamiltonian Monte Carlo."""

from show import show

# isort: split
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal

pyro.set_rng_seed(0)
data = torch.randn(20) + 2


def model(data):
    mean = pyro.sample("mean", dist.Normal(0.0, 5.0))
    scale = pyro.sample("scale", dist.HalfNormal(2.0))
    with pyro.plate("data", len(data)):
        pyro.sample("x", dist.Normal(mean, scale), obs=data)


guide = AutoNormal(model)
svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
for _ in range(10):
    loss = svi.step(data)
show("loss", float(loss))
show("median", {k: round(v.item(), 3) for k, v in guide.median(data).items()})
pyro.set_rng_seed(1)
sampler = MCMC(NUTS(model), num_samples=10, warmup_steps=10, disable_progbar=True)
sampler.run(data)
show("samples", sampler.get_samples()["mean"])
