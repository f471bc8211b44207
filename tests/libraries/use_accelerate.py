"""A loop of training with Accelerator, and big-model inference."""

from show import show

# isort: split
import torch
from accelerate import Accelerator, init_empty_weights
from accelerate.utils import set_seed

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(32, 4)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for inputs, targets in loader:
    with accelerator.accumulate(model):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    show("loss", loss)
show("state", sorted(accelerator.unwrap_model(model).state_dict()))
show("gathered", accelerator.gather(loss))
with init_empty_weights():
    empty = torch.nn.Linear(1000, 1000)
show("device", str(empty.weight.device))
