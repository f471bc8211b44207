# ruff: noqa
# Seed 002, section 2: clearing the gradient between iterations; the loop stands in.
import torch
from torch.autograd import Variable

x = Variable(torch.ones(2,2),requires_grad = True)
for i in range(3):
    (x * x).sum().backward()
    print(x.grad)
x.grad.data.zero_()
print(x.grad)
