"""A result without history cannot be gone back from (grad_fn 为 None).

requires_grad is inherited: one input that has it is enough, and without any there is no grad_fn.
"""

import torch

x = torch.ones(2, 2)
temp = torch.zeros(2, 2, requires_grad=True)

y = (x + temp + 2).mean()
y.backward()
print(x.grad, temp.grad)

y = (x + 2).mean()
print(y.grad_fn)
try:
    y.backward()
except RuntimeError as error:
    print("RuntimeError:", str(error).splitlines()[0])

# Three ways to end a history on purpose.
x = torch.tensor([1.0, 2.0], requires_grad=True)
print(x.detach().requires_grad)
with torch.no_grad():
    print((x + 2).requires_grad)
x.requires_grad_(False)
print((x + 2).requires_grad)
