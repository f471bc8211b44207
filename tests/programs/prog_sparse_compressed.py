"""Matrices in CSR and CSC: parts, printing, conversions, arithmetic, products, gradients."""

from programs.harness import program


def csr(torch, values=None, **options):
    if values is None:
        values = torch.tensor([1.0, 2.0, 3.0])
    crow, col = torch.tensor([0, 2, 3]), torch.tensor([0, 2, 1])
    return torch.sparse_csr_tensor(crow, col, values, (2, 3), **options)


def csc(torch):
    ccol, row = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, 0])
    return torch.sparse_csc_tensor(ccol, row, torch.tensor([1.0, 2.0, 3.0]), (2, 3))


def dense(torch):
    return torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])


def refused(log, action):
    """The class of an error and the op that it names; PyTorch goes on about its backends."""
    try:
        action()
    except Exception as error:
        said = str(error).partition("\n")[0].partition(". This could be")[0]
        log(type(error).__name__, said)
    else:
        log("nothing raised")


@program
def facts(torch, log):
    for s in (csr(torch), csc(torch), csr(torch).double(), csr(torch, requires_grad=True)):
        log(s.shape, s.size(0), s.dim(), s.ndim, s.numel(), len(s), s.dtype, str(s.layout))
        log(s.is_sparse, s.is_sparse_csr, s.requires_grad, s.is_leaf, s._nnz(), s.sparse_dim())
        log(s.dense_dim(), s.element_size(), s.nbytes, s.values().detach(), torch.is_tensor(s))
    log(csr(torch).crow_indices(), csr(torch).col_indices())
    log(csc(torch).ccol_indices(), csc(torch).row_indices())


@program
def printing(torch, log):
    s = csr(torch)
    log(repr(s), repr(csc(torch)), repr(s.double()), repr(s.int()), repr(s.bool()), str(s.half()))
    log(repr(s * 1e6), repr(torch.eye(30).to_sparse_csr()), repr(torch.zeros(2, 3).to_sparse_csc()))
    log(repr(csr(torch, requires_grad=True)), repr(torch.eye(12).to_sparse_csr().double()))
    log(repr(csr(torch, torch.ones(3, requires_grad=True))), repr(s.to(torch.complex64)))
    log(repr(torch.ones(5, 5).to_sparse_csr()), repr((torch.rand(0, 4)).to_sparse_csr()))


@program
def construction(torch, log):
    parts = [0, 2, 3], [0, 2, 1], [1, 2, 3]
    make = torch.sparse_csr_tensor
    log(repr(make(*parts)), repr(make(*parts, dtype=torch.float64)), repr(make(*parts, (2, 9))[0]))
    log(repr(make(*parts, (2, 5), dtype=torch.float32, requires_grad=True)))
    log(repr(torch.sparse_csc_tensor(*parts)), repr(torch.sparse_csc_tensor(*parts, (4, 2))))
    log(repr(torch.sparse_compressed_tensor(*parts, (2, 3), layout=torch.sparse_csr)))
    i32 = [torch.tensor(p, dtype=torch.int32) for p in parts[:2]]
    log(make(*i32, torch.ones(3)).col_indices(), make(*i32, torch.ones(3)).to_dense())
    checked = {"check_invariants": True}
    for crow, col, size in (
        ([0, 2, 3], [0, 2, 1], (2, 2)),
        ([0, 2, 3], [0, 2, 1], (3, 3)),
        ([0, 3, 2], [0, 2, 1], (2, 3)),
        ([1, 2, 3], [0, 2, 1], (2, 3)),
        ([0, 2, 2], [0, 2, 1], (2, 3)),
        ([0, 2, 3], [2, 0, 1], (2, 3)),
        ([0, 2, 3], [0, 0, 1], (2, 3)),
        ([0, 2, 3], [0, -2, 1], (2, 3)),
        ([0, 4, 3], [0, 1, 2], (2, 3)),
        ([0, 2, 3], [0, 2], (2, 3)),
    ):
        refused(log, lambda c=crow, k=col, s=size: make(c, k, [1.0, 2.0, 3.0], s, **checked))
    refused(log, lambda: torch.sparse_csc_tensor(*parts, (2, 2), **checked))
    refused(log, lambda: make(*parts, (2, 3), requires_grad=True))
    refused(log, lambda: make([[0, 1]], [0], [1.0], (2,), **checked) and None)


@program
def conversions(torch, log):
    for s in (csr(torch), csc(torch), dense(torch).to_sparse(), dense(torch)):
        log(repr(s.to_sparse_csr()), repr(s.to_sparse_csc()), s.to_dense())
    for s in (csr(torch), csc(torch)):
        log(
            repr(s.to_sparse()),
            s.to_sparse().is_coalesced(),
            repr(s.to_sparse_coo()),
            repr(s.to_sparse(layout=torch.sparse_csc)),
        )
        log(repr(s.t()), repr(s.transpose(0, 1)), repr(s.mT), repr(s.transpose(-1, -1)))
        log(repr(s.clone()), repr(s.detach()), repr(s.to(torch.float64)), repr(s.double()))
    log(repr(dense(torch).to_sparse(layout=torch.sparse_csr)))
    log(repr(torch.zeros_like(csr(torch))), repr(dense(torch).sparse_mask(csr(torch))))
    log(repr((dense(torch) + 5).sparse_mask(csc(torch))))


@program
def arithmetic(torch, log):
    a, b = csr(torch), csr(torch) * 3
    other = torch.tensor([[0.0, 7.0, 1.0], [0.0, 0.0, 5.0]]).to_sparse_csr()
    log(repr(a + b), repr(a + other), repr(torch.add(a, other, alpha=2)), repr(a * 2), repr(2 * a))
    log(repr(a * a), repr(-a), repr(a * torch.tensor(2.0)), a + dense(torch), dense(torch) + a)
    log(repr(a * dense(torch)), repr(dense(torch) * a))
    c = csc(torch)
    log(repr(c + c), repr(c * 2), repr(-c))
    log(a.sum(), repr(torch.sum(a, dim=0, keepdim=True)), repr(torch.sum(a, dim=1, keepdim=True)))
    for name in ("abs", "neg", "sin", "sqrt", "relu", "round", "sign", "tanh", "expm1", "isnan"):
        log(name, repr(getattr(a, name)()))


@program
def products(torch, log):
    m, x = torch.arange(6.0).view(3, 2), torch.tensor([1.0, 2.0, 3.0])
    for s in (csr(torch), csc(torch)):
        log(s @ x, s.mv(x), s @ m, torch.mm(s, m), s.matmul(m), torch.matmul(s, x), x[:2] @ s)
        log(m.t() @ s.t(), torch.sparse.mm(s, m), torch.addmm(torch.ones(2, 2), s, m, alpha=2))
        log(s.t() @ x[:2])
    log(torch.addmv(torch.ones(2), csr(torch), x), repr(csr(torch) @ csr(torch).t()))
    log(torch.sparse.addmm(torch.ones(2, 2), csr(torch), m))
    log(repr(torch.sparse.sampled_addmm(csr(torch), m.t()[:, :2], torch.ones(2, 3), beta=2.0)))
    log(csr(torch, torch.ones(3).double()) @ x.double())


@program
def rows(torch, log):
    s = csr(torch)
    log(repr(s[0]), repr(s[-1]), s[0, 1], s[0, 2], repr(s[:, 0]), repr(s.select(0, 1)))
    log(repr(csc(torch)[1]), [r.to_dense() for r in csr(torch)])


@program
def gradients(torch, log):
    x, m = torch.tensor([1.0, 2.0, 3.0]), torch.arange(6.0).view(3, 2)
    functions = [
        lambda s: s.to_dense().square().sum(),
        lambda s: (s @ x).square().sum(),
        lambda s: (s @ m).square().sum(),
        lambda s: (s * 2 + s).to_dense().square().sum(),
        lambda s: s.values().sum(),
        lambda s: s.t().to_dense().square().sum(),
        lambda s: s.to_sparse().to_dense().square().sum(),
        lambda s: (s * s).to_dense().sum(),
    ]
    for f in functions:
        values = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        f(csr(torch, values)).backward()
        log(values.grad.tolist())
    for f in (functions[0], functions[3], functions[4]):
        s = csr(torch, requires_grad=True)
        f(s).backward()
        log(repr(s.grad))
    log(repr(csr(torch, requires_grad=True) @ x), repr(csr(torch, requires_grad=True) @ m))
    log(repr(csr(torch, requires_grad=True).to_dense()))


@program
def refusals(torch, log):
    s, c, coo, x = csr(torch), csc(torch), dense(torch).to_sparse(), torch.ones(4)
    for action in (
        lambda: s.ccol_indices(),
        lambda: s.row_indices(),
        lambda: c.crow_indices(),
        lambda: coo.crow_indices(),
        lambda: dense(torch).col_indices(),
        lambda: s.indices(),
        lambda: s.coalesce(),
        lambda: s.is_coalesced(),
        lambda: torch.sparse.sum(s),
        lambda: s.sum(0),
        lambda: s - s,
        lambda: s / 2,
        lambda: s + 1,
        lambda: s.exp(),
        lambda: s == s,
        lambda: s.pow(2),
        lambda: s * torch.ones(3),
        lambda: s + torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 3)),
        lambda: s @ x,
        lambda: s @ torch.ones(4, 2),
        lambda: s @ coo.t(),
        lambda: s[5],
        lambda: s[0:1],
        lambda: s[torch.tensor([0])],
        lambda: s.T,
        lambda: s.view(3, 2),
        lambda: s.reshape(3, 2),
        lambda: s.unsqueeze(0),
        lambda: s.stride(),
        lambda: s.is_contiguous(),
        lambda: s.numpy(),
        lambda: s.tolist(),
        lambda: s.storage(),
        lambda: s.item(),
        lambda: s.max(),
        lambda: s.index_select(0, torch.tensor([0])),
        lambda: torch.ones(3).to_sparse_csr(),
        lambda: torch.ones(3).to_sparse_csc(),
    ):
        refused(log, action)


@program
def of_the_same_shape(torch, log):
    for s in (csr(torch), csc(torch).double(), csr(torch).int()):
        log(repr(torch.zeros_like(s)), repr(torch.ones_like(s)), repr(torch.full_like(s, 2)))
        log(torch.empty_like(s).dtype, repr(torch.ones_like(s, dtype=torch.float64)))
    log(repr(torch.ones_like(csr(torch), requires_grad=True)))
