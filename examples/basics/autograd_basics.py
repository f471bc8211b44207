"""What autograd does, in twelve short steps: start here.

Each step prints what it found. Run it, change a line, run it again.
"""

import torch


def step(title):
    print(f"\n{title}")


step("1. A fresh tensor has no gradient")
w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
print(w.grad)

step("2. backward() fills it: the mean has 1/3 for each of three numbers")
d = w.mean()
d.backward()
print(w.grad)

step("3. A second backward() adds to it")
w.mean().backward()
print(w.grad)

step("4. Zero it, or set it to None")
w.grad.zero_()
print(w.grad)
w.grad = None
print(w.grad)

step("5. grad_fn says which operation made a tensor")
y = w + 2
z = (y * y * 2).mean()
print([t.grad_fn and t.grad_fn.name() for t in (w, y, z)])

step("6. A vector needs to be told what its elements are worth")
y = w * w
y.backward(torch.tensor([0.1, 1.0, 0.001]))
print(w.grad)

step("7. After backward() the graph is used up, unless it is retained")
loss = (w * w).sum()
loss.backward(retain_graph=True)
loss.backward()
try:
    loss.backward()
except RuntimeError as error:
    print(str(error).splitlines()[0][:58], "...")

step("8. autograd.grad gives gradients back and leaves .grad alone; also second ones")
x = torch.tensor(3.0, requires_grad=True)
(first,) = torch.autograd.grad(x**3, x, create_graph=True)
(second,) = torch.autograd.grad(first, x)
print(first.item(), second.item(), x.grad)

step("9. detach() and no_grad() stop the recording")
print(x.detach().requires_grad)
with torch.no_grad():
    print((x * 2).requires_grad)

step("10. Only leaves keep a gradient; retain_grad() asks for more")
middle = x * 2
middle.retain_grad()
(middle**2).backward()
print(x.grad, middle.grad)

step("11. A value that backward needs must not be overwritten")
y = w.exp()
y += 1
try:
    y.sum().backward()
except RuntimeError as error:
    print(str(error).splitlines()[0][:72], "...")

step("12. An update is not part of the computation")
with torch.no_grad():
    w -= 0.1
print(w)
