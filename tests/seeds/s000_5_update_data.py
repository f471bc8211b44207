# ruff: noqa
# Seed 000, snippet 5: the update through .data (after snippet 2).
import torch
from torch.autograd import Variable
w1 = Variable(torch.Tensor([1.0,2.0,3.0]),requires_grad=True)#需要求导的话，requires_grad=True属性是必须的。
w2 = Variable(torch.Tensor([1.0,2.0,3.0]),requires_grad=True)
d = torch.mean(w1)
d.backward()
# 获得梯度后，如何更新
learning_rate = 0.1
w1.data -= learning_rate * w1.grad  # w1.data是获取保存weights的Tensor
print(w1)
print(w1.grad)
print(w1.is_leaf, w1._version)
