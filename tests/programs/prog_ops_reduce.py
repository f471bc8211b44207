"""Reductions, scans and softmax: dims, dtypes, ties, empties, NaN, gradients of both orders."""

from programs.gradients import orders
from programs.harness import program

M = [[1.0, -2.0, 3.0], [0.5, 4.0, -1.5]]
V = [2.0, -1.0, 0.5]
NAN = float("nan")


@program
def sum_dims(torch, log):
    a = torch.arange(24.0).reshape(2, 3, 4)
    log(a.sum(), a.sum(0), a.sum(-1), a.sum((0, 2)), a.sum([1], keepdim=True), torch.sum(a, 1))
    log(a.sum(dim=(-1, 0), keepdim=True), a.sum(()), a.sum(dim=None), torch.tensor(3.0).sum(0))
    log(a.sum(axis=1, keepdims=True))


@program
def sum_dtypes(torch, log):
    log(torch.tensor([1, 2]).sum(), torch.tensor([True, True]).sum())
    log(torch.tensor([200, 100], dtype=torch.uint8).sum())
    log(torch.tensor([1], dtype=torch.int32).sum(), torch.tensor([1.5], dtype=torch.float16).sum())
    log(torch.tensor([1.5, 2.5]).sum(dtype=torch.int64))
    log(torch.tensor([1, 2]).sum(dtype=torch.float64), torch.tensor([1j, 2]).sum())


@program
def sum_gradients(torch, log):
    orders(torch, log, lambda x: x.sum(), M)
    orders(torch, log, lambda x: (x * x).sum(1), M)
    orders(torch, log, lambda x: (x * x).sum((0, 1), keepdim=True), M)
    orders(torch, log, lambda x: x.sum(0) * x.sum(), M)


@program
def sum_gradient_is_dense(torch, log):
    x = torch.tensor(M, requires_grad=True)
    y = x.sum(0)
    log(y)
    y.backward(torch.tensor([1.0, 2.0, 3.0]))
    log(x.grad)
    log.graph(y)


@program
def sum_dtype_gradients(torch, log):
    x = torch.tensor([1.5, 2.5], requires_grad=True)
    x.sum(dtype=torch.float64).backward()
    log(x.grad)


@program
def dim_errors(torch, log):
    a = torch.ones(2, 3)
    log.raises(lambda: a.sum(2))
    log.raises(lambda: a.sum(-3))
    log.raises(lambda: a.sum((0, 0)))
    log.raises(lambda: a.sum((0, -2)))
    log.raises(lambda: a.sum(1.5))
    log.raises(lambda: a.sum("x"))
    log.raises(lambda: a.mean(5))
    log.raises(lambda: a.max(2))
    log.raises(lambda: a.argmax(2))
    log.raises(lambda: a.cumsum(2))
    log.raises(lambda: a.softmax(2))
    log.raises(lambda: a.cumsum())


@program
def mean_dims(torch, log):
    a = torch.tensor(M)
    log(a.mean(), a.mean(0), a.mean(1, keepdim=True), a.mean((0, 1)), torch.mean(a, -1))
    log(torch.tensor([1, 2]).float().mean(), torch.tensor([1, 2]).mean(dtype=torch.float64))
    log(torch.tensor([]).mean(), torch.zeros(0, 2).mean(0), torch.zeros(0, 2).mean(1))
    log.raises(lambda: torch.tensor([1, 2]).mean())
    log.raises(lambda: torch.tensor([True]).mean(0))


@program
def mean_gradients(torch, log):
    orders(torch, log, lambda x: (x * x).mean(), M)
    orders(torch, log, lambda x: (x * x).mean(0), M)
    orders(torch, log, lambda x: (x * x).mean((0, 1), keepdim=True), M)


@program
def prod_values(torch, log):
    a = torch.tensor(M)
    log(a.prod(), a.prod(0), a.prod(1, keepdim=True), torch.tensor([2, 3]).prod())
    log(torch.tensor([True, False]).prod(), torch.tensor([]).prod(), a.prod(dtype=torch.float64))
    log(torch.tensor([100, 3], dtype=torch.uint8).prod(), torch.tensor(4.0).prod(0))


@program
def prod_gradients(torch, log):
    orders(torch, log, lambda x: x.prod(), M)
    orders(torch, log, lambda x: x.prod(0), M)
    orders(torch, log, lambda x: x.prod(1, keepdim=True), M)
    orders(torch, log, lambda x: x.prod(), 3.0)


@program
def prod_gradients_with_zeros(torch, log):
    orders(torch, log, lambda x: x.prod(), [0.0, 2.0, 3.0])
    orders(torch, log, lambda x: x.prod(), [0.0, 2.0, 0.0])
    orders(torch, log, lambda x: x.prod(1), [[0.0, 2.0], [3.0, 4.0], [0.0, 0.0]])


@program
def var_and_std_values(torch, log):
    a = torch.tensor(M)
    log(a.var(), a.std(), a.var(0), a.std(1, keepdim=True), a.var((0, 1)))
    log(a.var(unbiased=False), a.std(0, unbiased=False), a.var(1, False), a.var(correction=2))
    log(torch.var(a, dim=1, correction=0), a.std(dim=0, correction=0, keepdim=True))
    log(torch.tensor([1.0]).var(), torch.tensor([]).var(), torch.tensor(2.0).std(unbiased=False))
    log.raises(lambda: torch.tensor([1, 2]).var())


@program
def var_gradients(torch, log):
    orders(torch, log, lambda x: x.var(), M)
    orders(torch, log, lambda x: x.var(1), M)
    orders(torch, log, lambda x: x.var(0, unbiased=False, keepdim=True), M)


@program
def std_gradients(torch, log):
    orders(torch, log, lambda x: x.std(), M)
    orders(torch, log, lambda x: x.std(1, correction=0), M)


@program
def std_gradient_of_constants(torch, log):
    x = torch.tensor([2.0, 2.0], requires_grad=True)
    x.std().backward()
    log(x.grad)


@program
def max_over_all(torch, log):
    log(torch.tensor(M).max(), torch.tensor([3, 1]).min(), torch.tensor([True, False]).max())
    log(torch.tensor([1.0, NAN, 3.0]).max(), torch.tensor([1.0, NAN]).min())
    log(torch.max(torch.tensor(2)))
    log.raises(lambda: torch.tensor([]).max())
    log.raises(lambda: torch.tensor([]).min())


@program
def max_over_all_gradients(torch, log):
    orders(torch, log, lambda x: x.max(), M)
    orders(torch, log, lambda x: x.min() * x.max(), M)


@program
def max_over_all_tie_gradients(torch, log):
    for name in ("max", "min"):
        x = torch.tensor([2.0, 2.0, 2.0], requires_grad=True)
        getattr(x, name)().backward()
        log(x.grad.clone())


@program
def max_along_dim(torch, log):
    a = torch.tensor(M)
    r = a.max(1)
    log(r, r.values, r.indices, type(r).__name__, a.max(0, keepdim=True), torch.max(a, dim=-1))
    values, indices = a.min(0)
    log(values, indices, a.min(dim=1, keepdim=True).indices)
    log(torch.tensor([1.0, NAN, NAN]).max(0), torch.tensor([1.0, NAN]).min(0))
    log(torch.tensor(5.0).max(0), torch.zeros(2, 0).max(0))
    log.raises(lambda: torch.zeros(2, 0).max(1))


@program
def max_along_dim_gradients(torch, log):
    orders(torch, log, lambda x: x.max(1).values * x.sum(1), M)
    orders(torch, log, lambda x: x.min(0, keepdim=True)[0] * x, M)
    orders(torch, log, lambda x: x.max(0)[0], [[1.0, 2.0], [1.0, 3.0]])


@program
def max_indices_do_not_require_grad(torch, log):
    r = torch.tensor(M, requires_grad=True).max(1)
    log(r.values, r.indices)
    log.raises(lambda: r.indices.sum().backward())


@program
def argmax_and_argmin(torch, log):
    a = torch.tensor([[1.0, 5.0, 5.0], [7.0, -1.0, 7.0]])
    log(a.argmax(), a.argmin(), a.argmax(0), a.argmin(1, keepdim=True), torch.argmax(a, dim=-1))
    log(torch.tensor([1.0, NAN, 2.0]).argmax(), torch.tensor([1.0, NAN]).argmin())
    log(torch.tensor(3.0).argmax(), torch.tensor([2, 2, 1]).argmax(0), a.argmax(keepdim=True))
    log.raises(lambda: torch.tensor([]).argmax())
    log.raises(lambda: torch.tensor([True]).argmax())
    log(torch.tensor([1.0], requires_grad=True).argmax())


@program
def amax_and_amin(torch, log):
    a = torch.tensor(M)
    log(a.amax(), a.amax(0), a.amin((0, 1)), a.amax(1, keepdim=True), torch.amin(a, -1))
    log(torch.tensor([1.0, NAN]).amax(), torch.tensor([1, 2]).amin())
    log.raises(lambda: torch.tensor([]).amax())


@program
def amax_shares_tie_gradients(torch, log):
    for name in ("amax", "amin"):
        x = torch.tensor([[2.0, 2.0], [1.0, 2.0]], requires_grad=True)
        getattr(x, name)().backward()
        log(x.grad.clone())
    orders(torch, log, lambda x: x.amax(1) * x.sum(1), M)
    orders(torch, log, lambda x: x.amin((0, 1), keepdim=True) * x, M)


@program
def all_and_any(torch, log):
    a = torch.tensor([[True, False], [True, True]])
    log(a.all(), a.any(), a.all(0), a.any(1, keepdim=True), torch.all(a, -1), torch.any(a, dim=0))
    log(torch.tensor([]).all(), torch.tensor([]).any(), torch.tensor([0.5, 0.0]).all())
    log(torch.tensor([1, 2], dtype=torch.uint8).all(), torch.tensor([NAN]).any(), a.all((0, 1)))


@program
def norm_values(torch, log):
    a = torch.tensor(M)
    log(a.norm(), a.norm(1), a.norm(p=3), a.norm(float("inf")), a.norm(float("-inf")), a.norm(0))
    log(a.norm(2, 1), a.norm(dim=0), a.norm(1, dim=(0, 1)), a.norm(2, 1, True))
    log(torch.norm(a, "fro"))
    log(torch.tensor(-3.0).norm(), torch.tensor([3 + 4j]).norm(), a.norm(dim=1, keepdim=True))
    log.raises(lambda: torch.tensor([3, 4]).norm())


@program
def norm_gradients(torch, log):
    for p in (1, 2, 3, 2.5, float("inf")):
        orders(torch, log, lambda x, p=p: x.norm(p), M)
    orders(torch, log, lambda x: x.norm(dim=1), M)
    orders(torch, log, lambda x: x.norm(2, 0, True), M)


@program
def norm_gradient_at_zero(torch, log):
    for p in (1, 2, 3, float("inf")):
        x = torch.zeros(2, requires_grad=True)
        x.norm(p).backward()
        log(x.grad)


@program
def cumsum_values(torch, log):
    a = torch.tensor(M)
    log(a.cumsum(0), a.cumsum(-1), torch.cumsum(a, dim=1), torch.tensor([1, 2]).cumsum(0))
    log(torch.tensor([True, True]).cumsum(0), torch.tensor([1.5, 2]).cumsum(0, dtype=torch.int64))
    log(torch.tensor(3.0).cumsum(0), torch.tensor([]).cumsum(0), a.clone().cumsum_(1))


@program
def cumsum_gradients(torch, log):
    orders(torch, log, lambda x: (x * x).cumsum(0), M)
    orders(torch, log, lambda x: x.cumsum(1) * x, M)


@program
def cumprod_values(torch, log):
    log(torch.tensor(M).cumprod(1), torch.tensor([2, 3]).cumprod(0), torch.tensor(3.0).cumprod(0))
    log(torch.cumprod(torch.tensor([True, False]), 0), torch.tensor([0.0, 2.0]).cumprod(0))


@program
def cumprod_gradients(torch, log):
    orders(torch, log, lambda x: x.cumprod(1), M)
    orders(torch, log, lambda x: x.cumprod(0), [2.0, 0.0, 3.0])


@program
def logsumexp_values(torch, log):
    a = torch.tensor(M)
    inf = float("inf")
    log(a.logsumexp(0), a.logsumexp((0, 1)), a.logsumexp(1, keepdim=True), torch.logsumexp(a, -1))
    log(torch.tensor([1000.0, 1000.0]).logsumexp(0), torch.tensor([-inf, -inf]).logsumexp(0))
    log(torch.tensor([inf, 1.0]).logsumexp(0), torch.tensor([1, 2]).logsumexp(0))
    log(torch.zeros(0).logsumexp(0))


@program
def logsumexp_gradients(torch, log):
    orders(torch, log, lambda x: x.logsumexp(1), M)
    orders(torch, log, lambda x: x.logsumexp((0, 1), keepdim=True), M)


@program
def softmax_values(torch, log):
    a = torch.tensor(M)
    log(a.softmax(0), a.softmax(-1), torch.softmax(a, dim=1), torch.tensor(2.0).softmax(0))
    log(torch.tensor([1000.0, 0.0]).softmax(0))
    log(torch.tensor([1, 2]).softmax(0, dtype=torch.float64))
    log(torch.softmax(torch.tensor([float("-inf"), 0.0]), 0), torch.zeros(0, 2).softmax(1))
    log.raises(lambda: torch.tensor([1, 2]).softmax(0))


@program
def softmax_gradients(torch, log):
    orders(torch, log, lambda x: x.softmax(1), M)
    orders(torch, log, lambda x: x.softmax(0) * x, M)


@program
def log_softmax_values(torch, log):
    a = torch.tensor(M)
    log(a.log_softmax(0), torch.log_softmax(a, -1), torch.tensor([1000.0, 0.0]).log_softmax(0))
    log(torch.log_softmax(torch.tensor([1, 2]), 0, dtype=torch.float64))


@program
def log_softmax_gradients(torch, log):
    orders(torch, log, lambda x: x.log_softmax(1), M)
    orders(torch, log, lambda x: x.log_softmax(0) * x, M)


@program
def empty_reductions(torch, log):
    e = torch.zeros(2, 0)
    log(e.sum(), e.sum(0), e.sum(1), e.prod(1), e.mean(1), e.all(1), e.any(1), e.cumsum(1))
    log(e.norm())
    log.raises(lambda: e.amax(1))
    log.raises(lambda: e.argmax(1))
    x = torch.zeros(2, 0, requires_grad=True)
    x.sum().backward()
    log(x.grad.clone())


@program
def zero_dim_reductions(torch, log):
    a = torch.tensor(2.5, requires_grad=True)
    log(a.sum(), a.sum(0), a.sum(-1), a.mean(0), a.max(), a.prod(), a.norm(), a.softmax(0))
    log.raises(lambda: a.sum(1))
    a.sum(0, keepdim=True).backward()
    log(a.grad)


@program
def nan_propagates(torch, log):
    a = torch.tensor([1.0, NAN])
    log(a.sum(), a.mean(), a.prod(), a.var(), a.norm(), a.cumsum(0), a.softmax(0), a.logsumexp(0))


@program
def sum_of_an_expanded_tensor(torch, log):
    x = torch.tensor([[1.0], [2.0]], requires_grad=True)
    y = x.expand(2, 3).sum()
    y.backward()
    log(y, x.grad)


@program
def scalar_reduction_graphs(torch, log):
    x = torch.tensor(M, requires_grad=True)
    for name in ("sum", "mean", "prod", "max", "min", "var", "std", "norm", "amax"):
        log(name, getattr(x, name)().grad_fn)
    for name in ("sum", "mean", "prod", "var", "std", "amax", "logsumexp", "softmax", "cumsum"):
        log(name, getattr(x, name)(1).grad_fn)
    log(x.max(1).values.grad_fn, x.log_softmax(1).grad_fn, x.cumprod(1).grad_fn)


@program
def reductions_with_out(torch, log):
    a, out = torch.tensor(M), torch.zeros(3)
    log(torch.sum(a, 0, out=out) is out, out)
    log(torch.mean(a, 0, out=out), torch.cumsum(a[0], 0, out=out))
