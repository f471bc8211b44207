"""Two losses, two optimizers, and the step that must wait (optimizer.step() 的位置).

step() writes the parameters in place. A graph that still needs their old values cannot be used
after it; so all backward() calls come first.
"""

import torch

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([3.0, 4.0], requires_grad=True)
optimizer_a = torch.optim.SGD([a], lr=0.1)
optimizer_b = torch.optim.SGD([b], lr=0.1)

shared = a * b
loss1, loss2 = shared.sum(), (shared * shared).sum()
loss1.backward(retain_graph=True)
optimizer_a.step()
try:
    loss2.backward()
except RuntimeError as error:
    print("RuntimeError:", str(error).partition(":")[0])

optimizer_a.zero_grad()
optimizer_b.zero_grad()
shared = a * b
loss1, loss2 = shared.sum(), (shared * shared).sum()
loss1.backward(retain_graph=True)
loss2.backward()
optimizer_a.step()
optimizer_b.step()
print(a, b)

# A write in place over something that exp() keeps.
c = torch.tensor([0.5], requires_grad=True)
d = (c**2).exp_()
d *= 5
try:
    d.backward()
except RuntimeError as error:
    print("RuntimeError:", str(error).partition(":")[0])
