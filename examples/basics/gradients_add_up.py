"""Gradients add up, and how to begin again (梯度是累加的).

The program of many first tutorials: Variable, .grad, .data, and the loop with an optimizer.
"""

import torch
from torch.autograd import Variable

w1 = Variable(torch.Tensor([1.0, 2.0, 3.0]), requires_grad=True)
print(w1.grad)  # None: nothing has been computed yet

d = torch.mean(w1)
d.backward()
print(w1.grad)
d.backward()  # the mean keeps nothing, so its graph can be used again
print(w1.grad)

w1.grad.data.zero_()
print(w1.grad)

d.backward()
learning_rate = 0.1
w1.data -= learning_rate * w1.grad  # the values alone: this is not recorded
print(w1)

weights = torch.ones(4, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.01)
for _ in range(3):
    optimizer.zero_grad()  # without it: 3, 6, 9
    output = (weights * 3).sum()
    output.backward()
    print(weights.grad)
    optimizer.step()
print(weights)
