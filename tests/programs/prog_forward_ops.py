"""Forward mode: which operations move a tangent along, and which lose it."""

import copy

from programs.duals import dual, module, parts, pushed, value, way
from programs.harness import program


@program
def elementwise(torch, log):
    for f in (
        torch.sin,
        lambda d: d * d,
        lambda d: d * 3,
        lambda d: 2 / d,
        lambda d: d**3,
        lambda d: 2**d,
        lambda d: -d,
        lambda d: d + 1,
        torch.relu,
        torch.abs,
        lambda d: d.clamp(1.2, 1.8),
        lambda d: torch.maximum(d, d.flip(0)),
        lambda d: torch.where(d > 1.2, d * 2, d * 5),
        lambda d: torch.lerp(d, d * 2, 0.3),
        torch.erf,
        torch.lgamma,
        lambda d: d.round(),
        lambda d: torch.fmod(d, 0.7),
    ):
        pushed(torch, log, f)


@program
def reductions(torch, log):
    for f in (
        torch.sum,
        torch.mean,
        torch.prod,
        lambda d: d.sum(0),
        lambda d: d.var(1),
        lambda d: d.std(),
        lambda d: d.norm(),
        lambda d: d.max(1).values,
        lambda d: d.max(),
        lambda d: d.cumsum(1),
        lambda d: d.cumprod(0),
        lambda d: d.logsumexp(1),
        lambda d: d.softmax(1),
        lambda d: d.log_softmax(0),
        lambda d: d.sort(1, descending=True).values,
        lambda d: d.median(1).values,
        lambda d: d.kthvalue(2).values,
        lambda d: d.topk(2).values,
    ):
        pushed(torch, log, f, 2, 3)


@program
def shapes(torch, log):
    for f in (
        lambda d: d.t(),
        lambda d: d.view(3, 2),
        lambda d: d.reshape(-1),
        lambda d: d[0],
        lambda d: d[:, 1],
        lambda d: d[:, None],
        lambda d: d[[1, 0]],
        lambda d: d[d > 1.2],
        lambda d: d.expand(2, 2, 3),
        lambda d: d.repeat(2, 1),
        lambda d: torch.cat([d, d * 2]),
        lambda d: torch.stack([d, torch.zeros_like(d)]),
        lambda d: d.split(1)[1],
        lambda d: d.chunk(2)[0],
        lambda d: d.unbind(1)[2],
        lambda d: d.flip(0),
        lambda d: d.roll(1),
        lambda d: d.tril(),
        lambda d: d.diagonal(),
        lambda d: torch.nn.functional.pad(d, (1, 1)),
        lambda d: d.gather(1, torch.tensor([[0], [2]])),
        lambda d: d.index_select(1, torch.tensor([2, 0])),
        lambda d: d.masked_fill(d > 2, 0.0),
        lambda d: torch.diag(d[0]),
        lambda d: d.unfold(1, 2, 1),
    ):
        pushed(torch, log, f, 2, 3)


@program
def matrices(torch, log):
    m = value(torch, 3, 2)
    for f in (
        lambda d: d @ m,
        lambda d: d @ d.t(),
        lambda d: torch.linalg.inv(d @ d.t() + torch.eye(2, dtype=d.dtype)),
        lambda d: torch.linalg.solve(d @ d.t() + torch.eye(2, dtype=d.dtype), d),
        lambda d: torch.linalg.det(d @ d.t() + torch.eye(2, dtype=d.dtype)),
        lambda d: torch.linalg.cholesky(d @ d.t() + torch.eye(2, dtype=d.dtype)),
        lambda d: torch.linalg.svdvals(d),
        lambda d: torch.einsum("ij,kj->ik", d, d),
        lambda d: torch.addmm(d @ m, d, m, beta=2),
        lambda d: torch.outer(d[0], d[1]),
        lambda d: torch.linalg.norm(d, dim=1),
        lambda d: torch.nn.functional.linear(d, m.t()),
        lambda d: torch.nn.functional.conv1d(d[None], m.t()[None]),
        lambda d: torch.nn.functional.layer_norm(d, (3,)),
        lambda d: torch.nn.functional.mse_loss(d, d * 2),
        lambda d: torch.nn.functional.cross_entropy(d, torch.tensor([0, 2])),
    ):
        pushed(torch, log, f, 2, 3)


@program
def what_has_no_tangent(torch, log):
    for f in (
        lambda d: d > 1,
        lambda d: d.argmax(),
        lambda d: d.long(),
        lambda d: d.detach(),
        lambda d: d.data,
        lambda d: torch.zeros_like(d),
        lambda d: torch.ones_like(d),
        lambda d: d.new_ones(2),
        lambda d: torch.empty_like(d).fill_(1),
        lambda d: d.sort().indices,
        lambda d: d.sign(),
        lambda d: d.floor(),
        lambda d: torch.bernoulli(d * 0),
        lambda d: d.isnan(),
        lambda d: torch.tensor(d.tolist()),
        lambda d: torch.full_like(d, 2.0),
    ):
        pushed(torch, log, f)


@program
def copies(torch, log):
    for f in (
        lambda d: d.clone(),
        lambda d: d.contiguous(),
        lambda d: d.float(),
        lambda d: d.to(torch.float32),
        lambda d: d.double(),
        lambda d: d.to(torch.complex128),
        lambda d: d.type_as(torch.zeros(1)),
        lambda d: d.cpu(),
        lambda d: copy.copy(d),
        lambda d: torch.as_tensor(d),
        lambda d: torch.empty(3, dtype=d.dtype).copy_(d),
        lambda d: d.detach().clone(),
        lambda d: d.requires_grad_(),
        lambda d: d.view_as(d),
    ):
        pushed(torch, log, f)


@program
def leaving(torch, log):
    fw = module(torch)
    with fw.dual_level():
        d = dual(torch, 3)
        log.raises(lambda: d.tolist())
        log.raises(lambda: d[0].item())
        log.raises(lambda: float(d[1]))
        log.raises(lambda: d.numpy())
        log.raises(lambda: d.detach().numpy())
        log.raises(lambda: bool(d[0] > 0))
        log.raises(lambda: parts(torch, copy.deepcopy(d)))


@program
def numbers_of_inputs(torch, log):
    fw = module(torch)
    with fw.dual_level():
        d, plain = dual(torch, 3), value(torch, 3, start=2.0)
        log(parts(torch, d * plain), parts(torch, plain * d), parts(torch, d * d))
        log(parts(torch, torch.atan2(d, plain)), parts(torch, torch.atan2(plain, d)))
        log(parts(torch, plain * plain))
        log(parts(torch, d[0] * plain), parts(torch, d + plain[:1]))
        log(parts(torch, d * plain.float()), parts(torch, d.float() * plain))


@program
def complex_duals(torch, log):
    fw = module(torch)
    v = torch.complex(value(torch, 2), value(torch, 2) * 2)
    t = torch.complex(way(torch, 2), way(torch, 2) + 3)
    for f in (
        lambda d: d * d,
        torch.abs,
        torch.angle,
        lambda d: d.conj().resolve_conj(),
        lambda d: d.real,
        lambda d: d.imag,
        torch.view_as_real,
        torch.exp,
        lambda d: d * torch.tensor(2.0, dtype=torch.float64),
        lambda d: (d * d.conj()).sum().real,
    ):
        with fw.dual_level():
            log(parts(torch, f(fw.make_dual(v, t))))
    pushed(torch, log, lambda d: torch.complex(d, d * 2))
    pushed(torch, log, lambda d: d * (1 + 2j))
