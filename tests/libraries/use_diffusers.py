"""A small UNet, a scheduler, and a sampling loop."""

from show import show, train

# isort: split
import torch
from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=8,
    in_channels=1,
    out_channels=1,
    block_out_channels=(16, 32),
    layers_per_block=1,
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
noise, x, t = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8), torch.tensor([3, 7])
scheduler = DDPMScheduler(num_train_timesteps=10)
noisy = scheduler.add_noise(x, noise, t)
show("noisy", noisy)
train(model, lambda: torch.nn.functional.mse_loss(model(noisy, t).sample, noise))
sampler = DDIMScheduler(num_train_timesteps=10)
sampler.set_timesteps(3)
with torch.no_grad():
    for step in sampler.timesteps:
        x = sampler.step(model(x, step).sample, step, x).prev_sample
show("sample", x)
