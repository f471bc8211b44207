"""What differs from PyTorch beside the operator table, as docs/parity.md has it."""

from __future__ import annotations

ON_PURPOSE = """
- What PyTorch refuses after it has written (to an inference tensor, into a tensor of another size)
  is refused before anything is written.
- Indices of sparse tensors are checked where they are used; PyTorch trusts them, and reads or
  writes foreign memory if they are wrong.
- A call that ends in PyTorch's `INTERNAL ASSERT FAILED` works, or raises an ordinary error.
- Derivatives that PyTorch lacks are there: of `cat`, `sin`, `select`, `index_select` and `norm` of
  sparse tensors, of complex sparse tensors, and the second one of `linear_cross_entropy`.
- The gradient of a CSR or CSC matrix has its places, where PyTorch makes a dense matrix of it in
  products and sums; so has that of a dense matrix that was made compressed.
- Between sparse tensors the nodes of the graph are those of the dense ops on the values.
- `s[:]` and `s[...]` of a sparse tensor are the tensor.
- `torch.cond` runs the branch; PyTorch's wants a program that is compiled as a whole.
- An op whose `out=` repeats elements in memory (an `unfold` window) computes with the values before
  the call; in PyTorch the result depends on the order of its writes.
- `set_` with more elements than the storage has raises; PyTorch makes the storage larger.
"""
NOT_YET = """
- complex32, masked tensors, nested tensors.
- Sparse layouts in blocks (BSR, BSC). CSR and CSC are matrices: no batches, no dense dimensions, no
  writes in place; there must be an index for each value.
- `OpOverload.tags` of PyTorch's own ops is empty; ops of users have the tags that were given.
- `._version` of what `torch.autograd.grad` returns is 0; PyTorch counts sums made in place.
- `torch.load(weights_only=True)` refuses sparse tensors.
- Gradients of images in channels-last order are in the usual order from pools, resizing, padding
  and convolutions; so are results of `batch_norm`, `group_norm` and `max_unpool2d` of images with
  gaps.
- `torch.fft.fft.__name__` is "fft", PyTorch's "fft_fft"; so it is with `linalg` and `special`, and
  `__torch_function__` is not asked about private methods of sparse tensors.
- Strides: of dimensions of size 1 in results of elementwise functions; of `2 ** x` of a transposed
  `x`; of `select_scatter` and its like with gaps; of about 4 % of the gradients that
  `autograd.grad` returns for transposed tensors (`.grad` lies as its tensor).
- Gradients of pooling, padding and of the bias of a convolution that depend on nothing do not
  require grad under `create_graph=True`; in PyTorch they do, and their derivative is zero.
- The sum of `x.to_sparse()` and another tensor: the gradient of `x` is zero where `x` is zero; in
  PyTorch it is that of the sum.
- The storage of `from_numpy(a[1:])` begins where `a` does: `storage_offset()` counts from there.
- Private modules that only PyTorch's tests use (`torch.masked._ops`, `torch._library.utils`,
  `torch.testing.FileCheck`, `torch._C._will_engine_execute_node`, `functorch.experimental`).
"""
# name -> a program that ends in `got`, PyTorch's derivative, and `want`, by finite differences.
REPRODUCERS = {
    "as_strided_scatter": """
x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
t = torch.tensor([1.0, 0.5, 0.25, 2.0], dtype=torch.float64)
src = torch.tensor([5.0, 6.0], dtype=torch.float64)
f = lambda x: torch.as_strided_scatter(x[1:], src, (2,), (1,), 0).sum()
got = torch.func.grad(f)(x).dot(t)                     # 0.75
want = (f(x + 1e-6 * t) - f(x - 1e-6 * t)) / 2e-6      # 2.25
""",
    "cholesky_inverse": """
x = torch.tensor([[2.0, 0.0], [1.0, 3.0]], dtype=torch.float64)
t = torch.tensor([[1.0, 0.0], [0.25, -1.0]], dtype=torch.float64)
f = lambda x: torch.cholesky_inverse(x).sum()
got = torch.func.jvp(f, (x,), (t,))[1]                 # -0.2963
want = (f(x + 1e-6 * t) - f(x - 1e-6 * t)) / 2e-6      # -0.2176
""",
    "logcumsumexp": """
x = torch.tensor([-100.0, 0.0, 3.0], dtype=torch.float64)
t = torch.ones_like(x)
f = lambda x: x.logcumsumexp(0).sum()
got = torch.func.jvp(f, (x,), (t,))[1]                 # 2
want = (f(x + 1e-6 * t) - f(x - 1e-6 * t)) / 2e-6      # 3
""",
    "triangular_solve": """
x = torch.tensor([[2.0, 1.0], [0.0, 4.0]], dtype=torch.float64)
t = torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
b = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
f = lambda x: torch.triangular_solve(b, x).solution.sum()
got = torch.func.jvp(f, (x,), (t,))[1]                 # -0.03125
want = (f(x + 1e-6 * t) - f(x - 1e-6 * t)) / 2e-6      # 0
""",
}


def section() -> str:
    """The part of docs/parity.md."""
    parts = [
        f"## What differs\n\n### On purpose\n{ON_PURPOSE}\n### Not yet\n{NOT_YET}",
        "### PyTorch's own errors\n\n"
        "In each program `got` is a derivative of PyTorch 2.13 and `want` what finite differences\n"
        "give; here the two agree.\n",
    ]
    parts += [f"`{name}`:\n\n```python{program}```\n" for name, program in REPRODUCERS.items()]
    return "\n".join(parts) + "\n"
