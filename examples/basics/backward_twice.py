"""What backward() lets go, and how to keep it (retain_graph, 以前叫 retain_variables).

A product keeps its factors for the way back. After one backward() they are gone.
"""

import torch

w1 = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
w2 = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)

res = torch.mean(w1 * w2 + w1)
res.backward()
print(w1.grad)
try:
    res.backward()
except RuntimeError as error:
    print("RuntimeError:", str(error).partition(" (")[0])

res = torch.mean(w1 * w2 + w1)
res.backward(retain_graph=True)
res.backward()
print(w1.grad)

# Weights for the elements of a vector: grads * dz/dw.
w1.grad = w2.grad = None
z = w1 * w2 + w1
z.backward(torch.tensor([0.1, 1.0, 10.0]))
print(w1.grad, w2.grad)

# Only a part is used: the rest gets zero.
table = torch.zeros(2, 3, requires_grad=True)
torch.mean(table[1]).backward()
print(table.grad)
