"""Products of matrices and vectors: every rank, broadcasting, gradients of both orders, errors."""

from programs.gradients import orders
from programs.harness import program

V2, V3 = [1.0, -2.0], [0.5, 2.0, -1.0]
M22 = [[1.0, 2.0], [-3.0, 0.5]]
M23 = [[1.0, 2.0, 3.0], [-1.0, 0.5, 4.0]]
M32 = [[1.0, -1.0], [2.0, 0.5], [0.25, 3.0]]
B223 = [[[1.0, 2.0, 0.5], [3.0, -1.0, 2.0]], [[0.25, 1.0, -2.0], [4.0, 1.5, 1.0]]]
B232 = [[[1.0, -1.0], [0.5, 2.0], [3.0, 1.0]], [[2.0, 0.0], [-0.5, 1.0], [1.0, 4.0]]]


def ramp(torch, *shape, dtype=None):
    n = 1
    for s in shape:
        n *= s
    return torch.arange(1, n + 1, dtype=dtype or torch.float32).reshape(shape)


@program
def matmul_vector_vector(torch, log):
    log(ramp(torch, 3) @ ramp(torch, 3))
    orders(torch, log, lambda x, y: x @ y, V3, [1.0, 2.0, 3.0])


@program
def matmul_matrix_vector(torch, log):
    log(ramp(torch, 2, 3) @ ramp(torch, 3))
    orders(torch, log, lambda x, y: x @ y, M23, V3)


@program
def matmul_vector_matrix(torch, log):
    log(ramp(torch, 2) @ ramp(torch, 2, 3))
    orders(torch, log, lambda x, y: x @ y, V2, M23)


@program
def matmul_matrix_matrix(torch, log):
    log(ramp(torch, 2, 3) @ ramp(torch, 3, 2), torch.matmul(ramp(torch, 1, 2), ramp(torch, 2, 1)))
    orders(torch, log, lambda x, y: x @ y, M23, M32)


@program
def matmul_batch_batch(torch, log):
    log(ramp(torch, 2, 2, 3) @ ramp(torch, 2, 3, 1))
    orders(torch, log, lambda x, y: x @ y, B223, B232)


@program
def matmul_batch_matrix(torch, log):
    log(ramp(torch, 2, 2, 3) @ ramp(torch, 3, 2))
    orders(torch, log, lambda x, y: x @ y, B223, M32)


@program
def matmul_matrix_batch(torch, log):
    log(ramp(torch, 2, 2) @ ramp(torch, 2, 2, 3))
    orders(torch, log, lambda x, y: x @ y, M22, B223)


@program
def matmul_batch_vector(torch, log):
    log(ramp(torch, 2, 2, 3) @ ramp(torch, 3))
    orders(torch, log, lambda x, y: x @ y, B223, V3)


@program
def matmul_vector_batch(torch, log):
    log(ramp(torch, 3) @ ramp(torch, 2, 3, 2))
    orders(torch, log, lambda x, y: x @ y, V3, B232)


@program
def matmul_broadcasts_batches(torch, log):
    log(ramp(torch, 2, 1, 1, 2) @ ramp(torch, 3, 2, 1), ramp(torch, 1, 2, 2) @ ramp(torch, 3, 2, 1))
    a, b = ramp(torch, 2, 1, 1, 2).requires_grad_(), ramp(torch, 3, 2, 1).requires_grad_()
    (a @ b).sum().backward()
    log(a.grad, b.grad)


@program
def matmul_of_transposes(torch, log):
    orders(torch, log, lambda x, y: x.t() @ y.t(), M23, M32)
    orders(torch, log, lambda x: x @ x.t(), M23)
    orders(torch, log, lambda x: x.mT @ x, B223)


@program
def matmul_empty(torch, log):
    log(torch.zeros(2, 0) @ torch.zeros(0, 3), torch.zeros(0, 2) @ torch.zeros(2, 3))
    log(torch.zeros(0) @ torch.zeros(0), torch.zeros(0, 2, 3) @ torch.zeros(3, 1))
    a = torch.zeros(2, 0, requires_grad=True)
    (a @ torch.zeros(0, 3)).sum().backward()
    log(a.grad)


@program
def matmul_integers(torch, log):
    a = ramp(torch, 2, 2, dtype=torch.int64)
    log(a @ a, a @ a[0], a[0] @ a[1], a.to(torch.uint8) @ a.to(torch.uint8))
    log(torch.bmm(a[None], a[None]), torch.mm(a.int(), a.int()))


@program
def matmul_complex(torch, log):
    a = torch.tensor([[1 + 1j, 2j], [0.5, -1j]], requires_grad=True)
    y = a @ a
    log(y)
    y.abs().sum().backward()
    log(a.grad)


@program
def matmul_dtype_errors(torch, log):
    a = torch.ones(2, 2)
    log.raises(lambda: a @ a.double())
    log.raises(lambda: a @ a.long())
    log.raises(lambda: a[0] @ a[0].double())
    log.raises(lambda: a @ a[0].double())
    log.raises(lambda: torch.bmm(a[None], a[None].double()))
    log.raises(lambda: a @ 2)


@program
def matmul_shape_errors(torch, log):
    log.raises(lambda: torch.ones(2, 3) @ torch.ones(2, 3))
    log.raises(lambda: torch.ones(3) @ torch.ones(2))
    log.raises(lambda: torch.ones(2, 3) @ torch.ones(2))
    log.raises(lambda: torch.ones(3) @ torch.ones(2, 3))
    log.raises(lambda: torch.ones(2, 2, 3) @ torch.ones(3, 3, 2))
    log.raises(lambda: torch.ones(2, 2, 3) @ torch.ones(2, 4, 2))
    log.raises(lambda: torch.ones(2, 2, 3) @ torch.ones(4, 2))
    log.raises(lambda: torch.tensor(1.0) @ torch.ones(2))
    log.raises(lambda: torch.ones(2) @ torch.tensor(1.0))


@program
def mm(torch, log):
    log(torch.mm(ramp(torch, 2, 3), ramp(torch, 3, 2)), ramp(torch, 1, 2).mm(ramp(torch, 2, 1)))
    orders(torch, log, torch.mm, M23, M32)
    log.raises(lambda: torch.mm(torch.ones(2), torch.ones(2, 2)))
    log.raises(lambda: torch.mm(torch.ones(2, 2), torch.ones(3, 2)))
    log.raises(lambda: torch.mm(torch.ones(1, 2, 2), torch.ones(2, 2)))


@program
def bmm(torch, log):
    log(torch.bmm(ramp(torch, 2, 1, 2), ramp(torch, 2, 2, 1)))
    orders(torch, log, torch.bmm, B223, B232)
    log.raises(lambda: torch.bmm(torch.ones(2, 2), torch.ones(2, 2, 2)))
    log.raises(lambda: torch.bmm(torch.ones(1, 2, 2), torch.ones(2, 2, 2)))
    log.raises(lambda: torch.bmm(torch.ones(2, 2, 3), torch.ones(2, 2, 3)))


@program
def mv(torch, log):
    log(torch.mv(ramp(torch, 2, 3), ramp(torch, 3)))
    orders(torch, log, torch.mv, M23, V3)
    log.raises(lambda: torch.mv(torch.ones(2, 3), torch.ones(2)))
    log.raises(lambda: torch.mv(torch.ones(2), torch.ones(2)))


@program
def dot(torch, log):
    log(torch.dot(ramp(torch, 3), ramp(torch, 3)), torch.tensor([1, 2]).dot(torch.tensor([3, 4])))
    log(torch.dot(torch.tensor([1j]), torch.tensor([1j])))
    orders(torch, log, torch.dot, V3, [1.0, 2.0, 3.0])
    log.raises(lambda: torch.dot(torch.ones(2), torch.ones(3)))
    log.raises(lambda: torch.dot(torch.ones(2, 2), torch.ones(2)))
    log.raises(lambda: torch.dot(torch.ones(2), torch.ones(2).long()))


@program
def outer(torch, log):
    log(torch.outer(ramp(torch, 2), ramp(torch, 3)))
    log(torch.tensor([1, 2]).outer(torch.tensor([1.5])))
    log(torch.ger(ramp(torch, 2), ramp(torch, 2)))
    orders(torch, log, torch.outer, V2, V3)
    log.raises(lambda: torch.outer(torch.ones(2, 2), torch.ones(2)))


@program
def addmm(torch, log):
    bias = torch.tensor([10.0, 20.0])
    log(torch.addmm(bias, ramp(torch, 2, 3), ramp(torch, 3, 2)))
    log(torch.addmm(bias, ramp(torch, 1, 2), ramp(torch, 2, 2), beta=0.5, alpha=2))
    log(torch.zeros(2, 2).addmm_(ramp(torch, 2, 1), ramp(torch, 1, 2)))
    log.raises(lambda: torch.addmm(torch.ones(3), torch.ones(2, 3), torch.ones(3, 2)))
    log.raises(lambda: torch.addmm(torch.ones(2), torch.ones(2, 3), torch.ones(2, 2)))


@program
def addmm_gradients(torch, log):
    orders(torch, log, lambda b, x, y: torch.addmm(b, x, y), V2, M23, M32)
    orders(torch, log, lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=3), M22, M23, M32)


@program
def linear_function(torch, log):
    linear = torch.nn.functional.linear
    x, w, b = ramp(torch, 2, 3), ramp(torch, 2, 3), torch.tensor([0.5, -0.5])
    log(linear(x, w), linear(x, w, b), linear(x[0], w, b), linear(x[None], w, b), linear(x, w[0]))
    log.raises(lambda: linear(torch.ones(2, 4), w))
    log.raises(lambda: linear(torch.ones(2, 4), w, b))
    log.raises(lambda: linear(torch.ones(4), w, b))
    log.raises(lambda: linear(x.double(), w, b))


@program
def linear_gradients(torch, log):
    linear = torch.nn.functional.linear
    orders(torch, log, linear, M23, [[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]], V2)
    orders(torch, log, lambda x, w: linear(x, w), B223, M23)
    orders(torch, log, lambda x, w, b: linear(x, w, b), V3, M23, V2)


@program
def linear_graphs(torch, log):
    w = ramp(torch, 2, 3).requires_grad_()
    b = torch.zeros(2, requires_grad=True)
    for x in (ramp(torch, 4, 3), ramp(torch, 3), ramp(torch, 2, 2, 3)):
        log(torch.nn.functional.linear(x, w, b).grad_fn, torch.nn.functional.linear(x, w).grad_fn)


@program
def matmul_graphs(torch, log):
    shapes = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2))]
    shapes += [((2, 3), (3, 2)), ((2, 2, 3), (2, 3, 2))]
    for a, b in shapes:
        log.graph(ramp(torch, *a).requires_grad_() @ ramp(torch, *b).requires_grad_())


@program
def einsum_values(torch, log):
    a, b, v = ramp(torch, 2, 3), ramp(torch, 3, 2), ramp(torch, 3)
    for equation, args in (
        ("ij,jk->ik", (a, b)),
        ("ij,jk", (a, b)),
        ("ij->ji", (a,)),
        ("ij->", (a,)),
        ("ij->i", (a,)),
        ("i,i->", (v, v)),
        ("i,j->ij", (v, v)),
        ("ii->i", (ramp(torch, 2, 2),)),
        ("ii", (ramp(torch, 2, 2),)),
        ("bij,bjk->bik", (a[None], b[None])),
        ("...ij,...jk->...ik", (a[None], b[None])),
        ("ij,j", (a, v)),
        ("ij,jk,k->i", (a, b, v[:2])),
    ):
        out = torch.einsum(equation, *args)
        log(equation, out.dtype, out.shape, out.tolist())
    log(torch.einsum("ij,jk->ik", [a, b]).tolist())


@program
def einsum_gradients(torch, log):
    orders(torch, log, lambda x, y: torch.einsum("ij,jk->ik", x, y), M23, M32)
    orders(torch, log, lambda x, y: torch.einsum("bij,bjk->bk", x, y), B223, B232)
    orders(torch, log, lambda x: torch.einsum("ii->i", x), M22)
    orders(torch, log, lambda x, y: torch.einsum("i,j->ij", x, y), V2, V3)
    orders(torch, log, lambda x: torch.einsum("ij,ij->", x, x), M23)


@program
def einsum_errors(torch, log):
    a = torch.ones(2, 3)
    log.raises(lambda: torch.einsum("ij,jk->ik", a, a))
    log.raises(lambda: torch.einsum("ij", a, a))
    log.raises(lambda: torch.einsum("ijk->i", a))
    log.raises(lambda: torch.einsum("ij->k", a))
    log.raises(lambda: torch.einsum("ij->ii", a))
    log.raises(lambda: torch.einsum("i1->i", a))
    log.raises(lambda: torch.einsum("ij"))


@program
def matrix_chain(torch, log):
    orders(torch, log, lambda x, y, v: ((x @ y).tanh() @ v).sum(), M23, M32, V2)


@program
def matmul_out_and_in_place_operator(torch, log):
    out = torch.zeros(2, 2)
    log(torch.matmul(ramp(torch, 2, 3), ramp(torch, 3, 2), out=out) is out, out)
    a = ramp(torch, 2, 2)
    b = a
    b = b @ a
    log(a, b, a._version)
    a @= a
    log(a)


@program
def rmatmul_with_lists(torch, log):
    log.raises(lambda: [1.0, 2.0] @ torch.ones(2))
    log.raises(lambda: torch.ones(2) @ [1.0, 2.0])
