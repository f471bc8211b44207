"""Tensor.grad_dtype: gradients of another dtype than their leaf's."""

import copy

from programs.harness import program
from programs.prog_backward import bare


def leaf(torch, dtype="unset"):
    t = torch.tensor([1.0, 2.0], requires_grad=True)
    if dtype != "unset":
        t.grad_dtype = dtype
    return t


@program
def read_and_set(torch, log):
    t = leaf(torch)
    log(t.grad_dtype, torch.ones(1).grad_dtype, torch.tensor([1]).grad_dtype)
    t.grad_dtype = torch.float16
    log(t.grad_dtype, t.detach().grad_dtype, copy.deepcopy(t).grad_dtype)
    t.requires_grad_(False)
    log(t.grad_dtype, t.is_leaf, t.grad_fn)
    t.grad_dtype = None
    log(t.grad_dtype)
    t.data = t.data.double()
    log(t.grad_dtype, leaf(torch).grad_dtype)
    log.raises(lambda: setattr(t, "grad_dtype", "float32"))
    inner = leaf(torch) * 2
    log.raises(lambda: inner.grad_dtype)
    inner.retain_grad()
    log.raises(lambda: setattr(inner, "grad_dtype", torch.float64))


@program
def backward(torch, log):
    for dtype in (torch.float16, torch.float64, torch.complex64, None):
        t = leaf(torch, dtype)
        (t * 2 + t * t).sum().backward()
        log(bare(t.grad))
        (t * 1.5).sum().backward()
        log(bare(t.grad))
        log(bare(torch.autograd.grad((t * t).sum(), t)))
        t = leaf(torch, dtype)
        (t * t).sum().backward(inputs=[t])
        log(bare(t.grad))
        t = leaf(torch, dtype)
        wide = torch.tensor([1.0 / 3, 2.0], dtype=torch.float64)
        (t * wide).sum().backward()  # the gradient arrives in double precision
        log(bare(t.grad))
    t = leaf(torch)
    y = t * 2
    t.grad_dtype = torch.float64
    y.sum().backward()
    log(bare(t.grad))


@program
def two_small_parts(torch, log):
    t = leaf(torch, torch.float16)
    (t * 1.0007 + t * 1.0008).sum().backward()  # each part is rounded, then they are added
    log(bare(t.grad))


@program
def assigned(torch, log):
    t = leaf(torch, torch.float16)
    log.raises(lambda: setattr(t, "grad", torch.ones(2)))
    t.grad = torch.ones(2, dtype=torch.float16)
    log(bare(t.grad))
    log.raises(lambda: setattr(t, "grad_dtype", torch.float64))
    t.grad_dtype = None
    t.grad = torch.ones(2, dtype=torch.int64)
    log(bare(t.grad))


@program
def hooks(torch, log):
    t = leaf(torch, torch.float64)
    t.register_hook(lambda g: log(g))
    t.register_post_accumulate_grad_hook(lambda x: log(bare(x.grad)))
    (t * 2).sum().backward()


@program
def functions(torch, log):
    class Widened(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad.double()

    for dtype in ("unset", None, torch.float16):
        t = leaf(torch, dtype)
        Widened.apply(t).sum().backward()
        log(bare(t.grad))


@program
def recorded(torch, log):
    t = leaf(torch, torch.float64)
    (g,) = torch.autograd.grad((t**3).sum(), t, create_graph=True)
    log(g)
    log(torch.autograd.grad(g.sum(), t))
