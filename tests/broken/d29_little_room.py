"""D29: a graph that saves more than half of the memory that a limit leaves."""

import resource

import torch

torch.manual_seed(0)
x = torch.randn(2048, 256)
w = torch.full((1,), 0.5, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.01)

with open("/proc/self/status") as lines:
    (used,) = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData")]
soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
resource.setrlimit(resource.RLIMIT_DATA, (used + (60 << 20), hard))
try:
    for _ in range(5):
        optimizer.zero_grad()
        h = x * w
        for _ in range(20):
            h = h.tanh()  # fault
        h.square().mean().backward()
        optimizer.step()
finally:
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
