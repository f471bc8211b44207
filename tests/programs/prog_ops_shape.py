"""Joining, repeating, picking and moving elements: values, strides, gradients, errors."""

from programs.gradients import orders
from programs.harness import program

M = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
N = [[-1.0, 0.5, 2.0], [3.0, -2.0, 1.5]]


def ramp(torch, *shape):
    n = 1
    for s in shape:
        n *= s
    return torch.arange(float(n)).reshape(shape)


@program
def cat_values(torch, log):
    a, b = ramp(torch, 2, 3), ramp(torch, 1, 3)
    log(torch.cat([a, b]), torch.cat((a, a), 1), torch.cat([a, a], dim=-1), torch.cat([a]))
    log(torch.cat([torch.tensor([]), a]), torch.concat([a, b]), torch.concatenate([b, b], axis=0))
    log(torch.cat([a.t(), a.t()]))


@program
def cat_promotes(torch, log):
    log(torch.cat([torch.tensor([1]), torch.tensor([1.5])]))
    log(torch.cat([torch.tensor([True]), torch.tensor([2])]))


@program
def cat_gradients(torch, log):
    orders(torch, log, lambda x, y: torch.cat([x * x, y]), M, N)
    orders(torch, log, lambda x, y: torch.cat([x, y, x * y], 1), M, N)
    x = torch.tensor([1.5], requires_grad=True)
    torch.cat([x, torch.tensor([1.0], dtype=torch.float64)]).sum().backward()
    log(x.grad.clone())


@program
def cat_errors(torch, log):
    a = torch.ones(2, 3)
    log.raises(lambda: torch.cat([]))
    log.raises(lambda: torch.cat([a, torch.ones(2, 2)]))
    log.raises(lambda: torch.cat([a, torch.ones(3)]))
    log.raises(lambda: torch.cat([a, a], 2))
    log.raises(lambda: torch.cat([torch.tensor(1.0)]))
    log.raises(lambda: torch.cat(a))
    log.raises(lambda: torch.cat([a, 1]))


@program
def stack_values(torch, log):
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3, 4])
    log(torch.stack([a, a]), torch.stack((a, b), 1), torch.stack([a, a], dim=-1))
    log(torch.stack([torch.tensor(1), torch.tensor(2)]))


@program
def stack_gradients(torch, log):
    orders(torch, log, lambda x, y: torch.stack([x * x, y]), M, N)
    orders(torch, log, lambda x, y: torch.stack([x, x * y], -1), M, N)


@program
def stack_errors(torch, log):
    log.raises(lambda: torch.stack([]))
    log.raises(lambda: torch.stack([torch.ones(2), torch.ones(3)]))
    log.raises(lambda: torch.stack([torch.ones(2)], 2))


@program
def repeat_and_tile(torch, log):
    a = torch.tensor([1.0, 2.0])
    log(a.repeat(2), a.repeat(2, 2), a.repeat((1, 3)), a.repeat(0), torch.tensor(5).repeat(2))
    log(a.tile(2), torch.tile(a, (2, 1)), torch.tile(torch.tensor(M), (2,)))
    log.raises(lambda: torch.tensor(M).repeat(2))
    log.raises(lambda: a.repeat(-1))


@program
def repeat_gradients(torch, log):
    orders(torch, log, lambda x: x.repeat(2, 2) * 1.0, M)
    orders(torch, log, lambda x: (x * x).repeat(2, 1, 2), M)
    orders(torch, log, lambda x: x.tile(2) * 1.0, M)


@program
def gather_values(torch, log):
    a = torch.tensor(M)
    log(a.gather(0, torch.tensor([[0, 1, 0]])), a.gather(1, torch.tensor([[2, 0], [1, 1]])))
    log(torch.gather(a, -1, torch.tensor([[0]])), torch.tensor(3.0).gather(0, torch.tensor(0)))
    log(a.gather(1, torch.zeros(2, 0, dtype=torch.int64)))


@program
def gather_gradients(torch, log):
    index = torch.tensor([[2, 0, 2], [1, 1, 1]])
    orders(torch, log, lambda x: (x * x).gather(1, index), M)
    orders(torch, log, lambda x: x.gather(0, index % 2), M)


@program
def gather_errors(torch, log):
    a = torch.tensor(M)
    log.raises(lambda: a.gather(1, torch.tensor([[3]])))
    log.raises(lambda: a.gather(1, torch.tensor([[-1]])))
    log.raises(lambda: a.gather(1, torch.tensor([0])))
    log.raises(lambda: a.gather(1, torch.tensor([[0.0]])))
    log.raises(lambda: a.gather(0, torch.zeros(1, 4, dtype=torch.int64)))
    log.raises(lambda: a.gather(2, torch.tensor([[0]])))


@program
def scatter_values(torch, log):
    a, index = torch.zeros(2, 3), torch.tensor([[0, 2], [1, 0]])
    source = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    log(a.scatter(1, index, source), torch.scatter(a, 1, index, 9.0))
    log(a.clone().scatter_(1, index, 5))
    log(a.clone().scatter_(1, index, source))
    log(a.scatter(0, torch.tensor([[1, 0, 1]]), torch.ones(1, 3)))
    log(torch.zeros(2, 3).scatter_(1, torch.tensor([[1], [2]]), 1.0))


@program
def scatter_gradients(torch, log):
    index = torch.tensor([[0, 2], [1, 0]])
    orders(torch, log, lambda x, y: x.scatter(1, index, y[:, :2]) * 1.0, M, N)
    orders(torch, log, lambda x: (x * x).scatter(1, index, 7.0), M)
    orders(torch, log, lambda x, y: (x * 1).scatter_(1, index, y[:, 1:]) * x, M, N)


@program
def scatter_add(torch, log):
    index = torch.tensor([[0, 0, 1], [2, 2, 2]])
    log(torch.zeros(2, 3).scatter_add(1, index, torch.tensor(M)))
    log(torch.ones(2, 3).scatter_add_(1, index, torch.tensor(M)))
    orders(torch, log, lambda x, y: x.scatter_add(1, index, y * y), M, N)


@program
def scatter_errors(torch, log):
    a = torch.zeros(2, 3)
    log.raises(lambda: a.scatter(1, torch.tensor([[3]]), torch.ones(1, 1)))
    log.raises(lambda: a.scatter(1, torch.tensor([[0]]), torch.ones(1, 1, dtype=torch.float64)))
    log.raises(lambda: a.scatter(1, torch.tensor([[0, 1]]), torch.ones(1, 1)))
    log.raises(lambda: a.scatter(1, torch.tensor([[0.5]]), torch.ones(1, 1)))
    log.raises(lambda: a.scatter_add(1, torch.tensor([[5]]), torch.ones(1, 1)))


@program
def index_select(torch, log):
    a = torch.tensor(M)
    log(a.index_select(0, torch.tensor([1, 0, 1])), torch.index_select(a, 1, torch.tensor([2])))
    log(a.index_select(-1, torch.tensor([0], dtype=torch.int32)))
    log(a.index_select(0, torch.tensor(1)))
    orders(torch, log, lambda x: (x * x).index_select(1, torch.tensor([0, 2, 0])), M)
    log.raises(lambda: a.index_select(0, torch.tensor([2])))
    log.raises(lambda: a.index_select(0, torch.tensor([-1])))
    log.raises(lambda: a.index_select(0, torch.tensor([0.0])))
    log.raises(lambda: a.index_select(0, torch.tensor([[0]])))
    log.raises(lambda: a.index_select(2, torch.tensor([0])))


@program
def masked_select(torch, log):
    a = torch.tensor(M)
    log(a.masked_select(a > 2), torch.masked_select(a, torch.tensor([True, False, True])))
    log(a.masked_select(a > 99), torch.tensor(1.0).masked_select(torch.tensor(True)))
    orders(torch, log, lambda x: (x * x).masked_select(x > 2), M)
    log.raises(lambda: a.masked_select(torch.tensor([True, False])))
    log.raises(lambda: a.masked_select(torch.tensor([1, 0, 1])))


@program
def masked_fill(torch, log):
    a = torch.tensor(M)
    log(a.masked_fill(a > 2, 0), a.masked_fill(torch.tensor([True, False, True]), -1.5))
    log(a.clone().masked_fill_(a > 2, float("-inf")), a.masked_fill(a > 2, torch.tensor(7)))
    log(torch.tensor([1, 2]).masked_fill(torch.tensor([True, False]), 3))
    log.raises(lambda: torch.tensor([1, 2]).masked_fill(torch.tensor([True, False]), 1.5))
    log.raises(lambda: a.masked_fill(torch.tensor([1, 0, 1]), 0))
    log.raises(lambda: a.masked_fill(a > 2, torch.tensor([1.0, 2.0])))


@program
def masked_fill_gradients(torch, log):
    orders(torch, log, lambda x: (x * x).masked_fill(x > 2, 0.0), M)
    orders(torch, log, lambda x, v: (x * x).masked_fill(x > 2, v), M, 3.0)
    orders(torch, log, lambda x: (x * 1).masked_fill_(x > 2, 1.0) * x, M)


@program
def take(torch, log):
    a = torch.tensor(M)
    log(a.take(torch.tensor([0, 5, -1])), torch.take(a.t(), torch.tensor([[1, 2]])))
    orders(torch, log, lambda x: (x * x).take(torch.tensor([0, 4, 0])), M)
    log.raises(lambda: a.take(torch.tensor([6])))
    log.raises(lambda: a.take(torch.tensor([0.0])))


@program
def tril_and_triu(torch, log):
    a = ramp(torch, 3, 3) + 1
    for k in (-1, 0, 1, 3, -3):
        log(a.tril(k), a.triu(k))
    log(torch.tril(ramp(torch, 2, 3)), torch.triu(ramp(torch, 2, 2, 3), diagonal=1))
    log(a.clone().tril_(), a.clone().triu_(1), torch.ones(2, 2, dtype=torch.bool).tril())
    log.raises(lambda: torch.ones(2).tril())


@program
def tril_gradients(torch, log):
    orders(torch, log, lambda x: (x * x).tril(), M)
    orders(torch, log, lambda x: (x * x).triu(1), M)


@program
def flip_and_roll(torch, log):
    a = torch.tensor(M)
    log(a.flip(0), a.flip(1), a.flip((0, 1)), torch.flip(a, dims=[-1]), a.fliplr(), a.flipud())
    log(a.roll(1), a.roll(1, 0), a.roll((1, -1), (0, 1)), torch.roll(a, 5, dims=1), a.roll(-1, 1))
    log.raises(lambda: a.flip(2))
    log.raises(lambda: a.flip((0, 0)))
    log.raises(lambda: a.roll((1, 2), 0))


@program
def flip_and_roll_gradients(torch, log):
    orders(torch, log, lambda x: (x * x).flip(1), M)
    orders(torch, log, lambda x: (x * x).roll(2, 1), M)
    orders(torch, log, lambda x: (x * x).roll(1), M)


@program
def split_values(torch, log):
    a = ramp(torch, 5, 2)
    log(a.split(2), torch.split(a, [1, 4]), a.split(2, dim=1), a.split(10), a.split([2, 0, 3]))
    log.raises(lambda: a.split([1, 2]))
    log.raises(lambda: a.split(-1))
    log.raises(lambda: a.split(0))
    log.raises(lambda: a.split(1, 2))


@program
def split_gradients(torch, log):
    def weave(x):
        a, b = x.split(2, dim=1)
        return a.sum(1) * b.sum(1)

    orders(torch, log, weave, M)
    orders(torch, log, lambda x: x.split([1, 2], 1)[1] * 2, M)


@program
def chunk_values(torch, log):
    a = ramp(torch, 5)
    log(a.chunk(2), torch.chunk(a, 3), a.chunk(10), ramp(torch, 2, 4).chunk(2, dim=1))
    log.raises(lambda: a.chunk(0))
    orders(torch, log, lambda x: x.chunk(2, 1)[0] * x.chunk(2, 1)[0], M)


@program
def unbind(torch, log):
    a = torch.tensor(M, requires_grad=True)
    log(a.unbind(), torch.unbind(a, 1), a.unbind(-1))
    orders(torch, log, lambda x: x.unbind(1)[0] * x.unbind(1)[2], M)
    log.raises(lambda: torch.tensor(1.0).unbind())


@program
def view_and_reshape(torch, log):
    a = ramp(torch, 2, 3)
    log(a.view(3, 2), a.view(-1), a.view(6, -1), a.reshape(3, 2), a.t().reshape(6), a.view((1, 6)))
    log(a.view(torch.int32).dtype, a.view_as(torch.ones(3, 2)), a.reshape_as(torch.ones(6)))
    log.raises(lambda: a.view(4))
    log.raises(lambda: a.view(-1, -1))
    log.raises(lambda: a.view(-1, 4))
    log.raises(lambda: a.t().view(6))
    log.raises(lambda: a.reshape(5))
    log.raises(lambda: torch.zeros(0).view(-1, 0))


@program
def view_gradients(torch, log):
    orders(torch, log, lambda x: (x * x).view(3, 2), M)
    orders(torch, log, lambda x: (x * x).t().reshape(6), M)
    orders(torch, log, lambda x: x.flatten() * 2, M)


@program
def transpose_family(torch, log):
    a, b = ramp(torch, 2, 3), ramp(torch, 2, 1, 3)
    log(a.t(), a.T, a.mT, a.transpose(0, 1), b.transpose(0, -1), b.permute(2, 0, 1))
    log(b.permute((1, 2, 0)))
    log(b.movedim(0, -1), torch.movedim(b, (0, 1), (1, 0)), b.swapaxes(0, 2), b.mT)
    log(torch.ones(2).t())
    log.raises(lambda: b.t())
    log.raises(lambda: a.transpose(0, 2))
    log.raises(lambda: b.permute(0, 1))
    log.raises(lambda: b.permute(0, 0, 1))
    log.raises(lambda: torch.ones(2).mT)


@program
def transpose_gradients(torch, log):
    orders(torch, log, lambda x: (x * x).t(), M)
    orders(torch, log, lambda x: (x * x).view(2, 3, 1).permute(2, 1, 0), M)
    orders(torch, log, lambda x: (x * x).view(1, 2, 3).movedim(0, 2), M)


@program
def squeeze_and_unsqueeze(torch, log):
    a = ramp(torch, 1, 2, 1)
    log(a.squeeze(), a.squeeze(0), a.squeeze(1), a.squeeze((0, 2)), a.unsqueeze(0), a.unsqueeze(-1))
    log(torch.tensor(1.0).unsqueeze(0), torch.tensor(1.0).squeeze(0))
    log.raises(lambda: a.squeeze(3))
    log.raises(lambda: a.unsqueeze(4))
    orders(torch, log, lambda x: (x * x).unsqueeze(1).squeeze(), M)


@program
def expand(torch, log):
    a = torch.tensor([[1.0], [2.0]])
    log(a.expand(2, 3), a.expand(3, 2, -1), a.expand_as(torch.ones(2, 2)))
    log(torch.tensor(5.0).expand(2))
    log(torch.broadcast_to(a, (2, 2)), torch.broadcast_tensors(a, torch.ones(2)))
    orders(torch, log, lambda x: x.expand(2, 2, 3) * 1.0, M)
    log.raises(lambda: a.expand(3, 3))
    log.raises(lambda: a.expand(2))
    log.raises(lambda: a.expand(-1, 2, 1))


@program
def select_and_narrow(torch, log):
    a = ramp(torch, 3, 2)
    log(a.select(0, 1), a.select(1, -1), a.narrow(0, 1, 2), a.narrow(0, -2, 1))
    log(torch.narrow(a, 1, 0, 0))
    orders(torch, log, lambda x: x.select(1, 2) * x.narrow(1, 0, 1).select(1, 0), M)
    log.raises(lambda: a.select(0, 3))
    log.raises(lambda: a.narrow(0, 2, 2))
    log.raises(lambda: a.narrow(0, 0, -1))


@program
def diagonal(torch, log):
    a = ramp(torch, 3, 3)
    log(a.diagonal(), a.diagonal(1), a.diagonal(-2), ramp(torch, 2, 2, 3).diagonal(0, 1, 2))
    log(a.diag(), torch.diag(torch.tensor([1.0, 2.0])), torch.diag(torch.tensor([1.0]), 1))
    orders(torch, log, lambda x: x.diagonal(1) * 3, M)
    orders(torch, log, lambda x: (x * x).diag(), M)
    log.raises(lambda: torch.ones(2).diagonal())


@program
def unfold(torch, log):
    a = ramp(torch, 5)
    log(a.unfold(0, 2, 1), a.unfold(0, 2, 3), ramp(torch, 2, 3).unfold(1, 2, 1))
    orders(torch, log, lambda x: x.unfold(1, 2, 1) * 1.0, M)
    log.raises(lambda: a.unfold(0, 6, 1))
    log.raises(lambda: a.unfold(0, 2, 0))


@program
def as_strided(torch, log):
    a = ramp(torch, 6)
    log(a.as_strided((2, 2), (2, 1)), a.as_strided((2, 3), (1, 1), 1), a[2:].as_strided((2,), (1,)))
    orders(torch, log, lambda x: (x * 1).as_strided((2, 2), (1, 2)) * 2, M)
    log.raises(lambda: a.as_strided((4,), (2,)))


@program
def flatten(torch, log):
    a = ramp(torch, 2, 1, 3)
    log(a.flatten(), a.flatten(1), a.flatten(0, 1), torch.flatten(torch.tensor(1.0)), a.ravel())
    log(a.flatten() is a, a.view(6).flatten().data_ptr() == a.data_ptr(), a.unflatten(2, (3, 1)))
    log.raises(lambda: a.flatten(2, 0))


@program
def real_and_imag(torch, log):
    a = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    log(a.real, a.imag, torch.view_as_real(a), torch.view_as_complex(torch.tensor([[1.0, 2.0]])))
    (a.real * a.imag).sum().backward()
    log(a.grad.clone())
    log(torch.tensor([1.0]).real)
    log.raises(lambda: torch.tensor([1.0]).imag)
    log.raises(lambda: torch.view_as_real(torch.tensor([1.0])))
