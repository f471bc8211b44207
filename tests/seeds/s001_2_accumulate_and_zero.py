# ruff: noqa
# Seed 001, snippets 2 to 4: the gradient accumulates until it is cleared.
import torch
from torch.autograd import Variable
w1 = Variable(torch.Tensor([1.0,2.0,3.0]),requires_grad=True)#需要求导的话，requires_grad=True属性是必须的。
w2 = Variable(torch.Tensor([1.0,2.0,3.0]),requires_grad=True)
d = torch.mean(w1)
d.backward()
print(w1.grad)

d.backward()
print(w1.grad)

w1.grad.data.zero_()
print(w1.grad)
