"""Corners of many operators: origins, NaN and infinities, one element, nothing, and misfits."""

from programs.gradients import orders
from programs.harness import program

NAN, INF = float("nan"), float("inf")


@program
def angles_at_the_origin(torch, log):
    y = torch.tensor([0.0, -0.0, 1.0, NAN], requires_grad=True)
    x = torch.tensor([0.0, 0.0, 0.0, 1.0], requires_grad=True)
    angle = torch.atan2(y, x)
    log(angle)
    log(*torch.autograd.grad(angle.sum(), (y, x)))


@program
def numbers_that_do_not_vary(torch, log):
    for dtype in (torch.float32, torch.float64):
        for n in (3, 7, 100):
            same = torch.full((2, n), 1.7, dtype=dtype)
            log(same.std(1), same.var(1), torch.var_mean(same, 1), torch.std_mean(same.t(), 0))
    x = torch.full((2, 7), 0.1, requires_grad=True)
    x.std(1).sum().backward()
    log(x.grad)


@program
def spreads_of_large_numbers(torch, log):
    x = torch.tensor([[1e25, -1e25, 3e25], [1.0, 2.0, 4.0]])
    log(x.std(1), torch.std_mean(x, 1))
    log(torch.zeros(0).std(correction=-5), torch.zeros(3, 0).var(1, correction=-1))


@program
def matrices_with_infinities(torch, log):
    a = torch.eye(3)
    a[2, 0] = INF
    log(torch.linalg.svdvals(a), torch.linalg.pinv(a))
    whole = torch.stack([a, torch.diag(torch.tensor([3.0, 2.0, 1.0]))])
    log(torch.linalg.svdvals(whole))
    a[2, 0] = NAN
    log.raises(lambda: torch.linalg.svdvals(a))


@program
def norms_of_one_number(torch, log):
    for value in (1e30, 1e-30, 2.0, 0.0):
        x = torch.tensor([[value], [-value]])
        log(*[torch.linalg.vector_norm(x, p, 1) for p in (2, 3, 6, 0.5, INF)])
        log(torch.dist(x[:1], x[:1] * 3, 1000))
    x = torch.tensor([1e30], requires_grad=True)
    x.norm().backward()
    log(x.grad)


@program
def losses_of_nan(torch, log):
    F = torch.nn.functional
    x = torch.tensor([0.5, NAN, 3.0], requires_grad=True)
    target = torch.zeros(3)
    for loss in (F.huber_loss(x, target), F.smooth_l1_loss(x, target)):
        log(loss, *torch.autograd.grad(loss, x))
    x = torch.tensor([[1.0, NAN, 3.0, 2.5], [INF, 0.0, 1.0, 2.0]], requires_grad=True)
    loss = F.multi_margin_loss(x, torch.tensor([2, 1]), reduction="none")
    log(loss, *torch.autograd.grad(loss.sum(), x))
    loss = F.multilabel_margin_loss(x, torch.tensor([[0, 2, -1, 0], [3, -1, 0, 0]]))
    log(loss)


@program
def einsum_of_scalars(torch, log):
    a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0)
    log(torch.einsum("", a), torch.einsum("->", a), torch.einsum(",", a, b))
    log(torch.einsum(",i->i", a, torch.ones(2)), torch.einsum("i,", torch.ones(2), b))
    orders(torch, log, lambda x: torch.einsum(",,", x, x, b), 2.0)


@program
def slices_that_do_not_fit(torch, log):
    x = torch.zeros(5, 5)
    log.raises(lambda: x.index_copy(1, torch.tensor([4]), torch.ones(5, 5)))
    log.raises(lambda: x.index_copy(1, torch.tensor([0, 1]), torch.ones(5, 1)))
    log.raises(lambda: x[0].index_copy(0, torch.tensor([0, 1]), torch.tensor(2.0)))
    log(x[0].index_copy(0, torch.tensor(4), torch.tensor(2.0)))
    log.raises(lambda: torch.tensor(1.0).index_add(0, torch.tensor([0]), torch.ones(1)))
    log.raises(lambda: torch.ones(1).index_add(0, torch.tensor(0), torch.tensor(1.0)))
    log.raises(lambda: torch.ones(3).index_add(0, torch.tensor([5]), torch.ones(1)))
    log(torch.tensor(1.0).index_add(0, torch.tensor(0), torch.tensor(1.0)))


@program
def sizes_that_do_not_fit(torch, log):
    three = torch.ones(3)
    log.raises(lambda: torch.repeat_interleave(three, torch.tensor([1, 2, 3]), output_size=5))
    log.raises(lambda: torch.repeat_interleave(three, 2, output_size=5))
    log(torch.repeat_interleave(three, torch.tensor([1, 0, 1]), output_size=2))
    log.raises(lambda: torch.complex(torch.ones(3, 2), three))
    log.raises(lambda: torch.polar(torch.ones(3, 2), three))
    log.raises(lambda: torch.dist(torch.ones(3, 2), three))
    index = torch.zeros(2, 3, dtype=torch.int64)
    log.raises(lambda: torch.take_along_dim(torch.ones(3, 2), index, 0))
    log.raises(lambda: torch.dist(torch.tensor([True]), torch.tensor([1.0])))
    log.raises(lambda: torch.dist(three, three, "x"))


@program
def searches_that_make_no_sense(torch, log):
    edges = torch.tensor([1.0, 2.0])
    log.raises(lambda: torch.searchsorted(torch.tensor(1), torch.tensor(1)))
    log.raises(lambda: torch.searchsorted(edges, edges, sorter=torch.tensor([0])))
    log(torch.searchsorted(edges.flip(0), torch.tensor(1.5), sorter=torch.tensor([1, 0])))
    log.raises(lambda: torch.unique(torch.zeros(5, 1, 0), dim=0))
    log.raises(lambda: torch.unique_consecutive(torch.zeros(5, 0, 5), dim=-1))
    log(torch.unique(torch.zeros(5, 0), dim=1).shape, torch.unique(torch.zeros(0, 5), dim=0))
    log.raises(lambda: torch.unique(torch.tensor(1.0), dim=0))
    log.raises(lambda: torch.bincount(torch.tensor([2**63 - 1])))
    none = torch.zeros(0, dtype=torch.int64)
    log(torch.bincount(none, weights=torch.ones(10), minlength=4))


@program
def nothing_and_one(torch, log):
    log(torch.topk(torch.tensor(1.0), 0), torch.topk(torch.tensor(1.0), 1))
    log(torch.nn.functional.grid_sample(torch.ones(1, 0, 2, 2), torch.zeros(1, 3, 3, 2)))
    log.raises(lambda: torch.renorm(torch.zeros(1, 0, 5), INF, 2, 0.5))
    log.raises(lambda: torch.gradient(torch.tensor(1.0), dim=0))
    log.raises(lambda: torch.nn.functional.one_hot(1.5))


@program
def numbers_out_of_range(torch, log):
    F = torch.nn.functional
    log(torch.round(torch.tensor([1.23, 0.0, INF]), decimals=1000))
    log(torch.round(torch.tensor([1.23, 0.0]), decimals=-1000))
    log.raises(lambda: F.interpolate(torch.ones(1, 1, 4), scale_factor=INF))
    log.raises(lambda: F.interpolate(torch.ones(1, 1, 4), scale_factor=NAN, mode="linear"))
    log.raises(lambda: F.avg_pool2d(torch.ones(1, 1, 4, 4), 2, divisor_override=INF))
    log.raises(lambda: torch.cdist(torch.ones(1, 2), torch.ones(1, 2), NAN))
    log.raises(lambda: F.pdist(torch.ones(2, 2), NAN))
    smallest = torch.tensor([-(2**63), -1, 0])
    log(torch.pow(torch.tensor([1, -1, 5]), smallest), torch.pow(2, smallest))


@program
def nan_in_distances(torch, log):
    x = torch.tensor([[NAN, 1.0], [1.0, 1.0], [1.0, 2.0]])
    log(torch.cdist(x, x[1:], 0.0), torch.pdist(x, 0.0), torch.cdist(x, x[1:], 2.0))


@program
def grids_with_nan(torch, log):
    x = torch.arange(1.0, 5.0).view(1, 1, 2, 2)
    grid = torch.zeros(1, 1, 9, 2)
    grid[..., 0] = NAN
    log(torch.nn.functional.grid_sample(x, grid, align_corners=False))
    log(torch.nn.functional.grid_sample(x, grid, padding_mode="border", align_corners=False))


@program
def spreads_without_freedom(torch, log):
    ad = torch.autograd.forward_ad
    for n, correction, dim in ((3, 5, (1,)), (3, 3, (1,)), (1, 2, (0, 1)), (3, 6, None)):
        x = torch.arange(2.0 * n).view(2, n).requires_grad_()
        for y in (
            torch.var(x, dim, correction=correction),
            torch.std(x, dim, correction=correction),
        ):
            log(y, *torch.autograd.grad(y.sum(), x))
    with ad.dual_level():
        x = ad.make_dual(torch.arange(3.0), torch.ones(3))
        log(ad.unpack_dual(torch.var(x, correction=3)).tangent.tolist())
        log(ad.unpack_dual(torch.std(x, correction=5)).tangent.tolist())


@program
def one_sample_and_its_class(torch, log):
    F = torch.nn.functional
    log(F.multi_margin_loss(torch.tensor([[1.0, 2.0]]), torch.tensor(0)))
    log(F.multi_margin_loss(torch.tensor([1.0, 2.0]), torch.tensor(0)))
    log.raises(lambda: torch.linalg.lstsq(torch.ones(1, 4, 1), torch.ones(1, 3)))
