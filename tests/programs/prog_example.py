"""The smallest program: how the others look."""

from programs.harness import program


@program
def product(torch, log):
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = (a * a).sum()
    b.backward()
    log(a, b, a.grad)
    log.raises(lambda: b.backward())
    log.graph(b)
