# ruff: noqa
# Seed 001, snippet 9 on the CPU: only one row is used.
import torch
from torch.autograd import Variable
w1 = Variable(torch.FloatTensor(2,3), requires_grad=True)
res = torch.mean(w1[1])# 只用了variable的第二行参数
res.backward()
print(w1.grad)
