# ruff: noqa
# Seed 000, snippet 3: the second backward adds to the gradient (after snippet 2).
import torch
from torch.autograd import Variable
w1 = Variable(torch.Tensor([1.0,2.0,3.0]),requires_grad=True)#需要求导的话，requires_grad=True属性是必须的。
w2 = Variable(torch.Tensor([1.0,2.0,3.0]),requires_grad=True)
d = torch.mean(w1)
d.backward()
print(w1.grad)
d.backward()
print(w1.grad)
