# ruff: noqa
# Seed 001, snippet 8 with the cure its comment names, in the spelling of its day.
import torch
from torch.autograd import Variable
w1 = Variable(torch.Tensor([1.0,2.0,3.0]),requires_grad=True)#需要求导的话，requires_grad=True属性是必须的。
w2 = Variable(torch.Tensor([1.0,2.0,3.0]),requires_grad=True)

z = w1*w2+w1 # 第二次BP出现问题就在这，不知道第一次BP之后销毁了啥。
res = torch.mean(z)
res.backward(retain_variables=True)
print(w1.grad)
res.backward()
print(w1.grad)
print(w2.grad)
