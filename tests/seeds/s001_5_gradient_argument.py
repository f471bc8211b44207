# ruff: noqa
# Seed 001, snippet 7: backward(gradient); the seed names no z and no grads, these stand in.
import torch
from torch.autograd import Variable
w1 = Variable(torch.Tensor([1.0,2.0,3.0]),requires_grad=True)#需要求导的话，requires_grad=True属性是必须的。
w2 = Variable(torch.Tensor([1.0,2.0,3.0]),requires_grad=True)
z = w1*w2+w1
grads = torch.Tensor([1.0, 0.1, 0.01])
z.backward(gradient=grads)
print(w1.grad)
print(w2.grad)
