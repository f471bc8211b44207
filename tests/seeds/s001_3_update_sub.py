# ruff: noqa
# Seed 001, snippet 5: the update by sub_ on .data, and the form the comment calls equivalent.
import torch
from torch.autograd import Variable
w1 = Variable(torch.Tensor([1.0,2.0,3.0]),requires_grad=True)#需要求导的话，requires_grad=True属性是必须的。
w2 = Variable(torch.Tensor([1.0,2.0,3.0]),requires_grad=True)
torch.mean(w1).backward()
torch.mean(w2).backward()
# 获得梯度后，如何更新
learning_rate = 0.1
#w1.data -= learning_rate * w1.grad.data 与下面式子等价
w1.data.sub_(learning_rate*w1.grad.data)# w1.data是获取保存weights的Tensor
w2.data -= learning_rate * w2.grad.data
print(w1)
print(torch.equal(w1, w2))
