"""vmap: views, writes, indexing in all combinations, and autograd inside of it."""

from programs.prog_vmap import batch, try_all, vmapped

# ---------------------------------------------------------------------- views


@vmapped
def views_of_entries(torch, log):
    vmap = torch.func.vmap
    x = torch.arange(24.0).reshape(3, 2, 4)
    log(vmap(lambda a: a.view(8))(x), vmap(lambda a: a.view(-1))(x), vmap(lambda a: a.t())(x))
    log(vmap(lambda a: a.reshape(4, 2), in_dims=2)(x.reshape(2, 4, 3)))
    log(vmap(lambda a: a.expand(3, 2, 4))(x), vmap(lambda a: a.unsqueeze(-1).expand(-1, -1, 2))(x))
    log(vmap(lambda a: a.unfold(1, 2, 1))(x), vmap(lambda a: a.diagonal())(x))
    log(vmap(lambda a: a.chunk(2, 1))(x), vmap(lambda a: a.transpose(0, 1).flatten())(x))
    log(vmap(lambda a: a.squeeze())(x[:, :1]), vmap(lambda a: a.movedim(0, -1))(x))
    log.raises(lambda: vmap(lambda a: a.t().view(8))(x))


@vmapped
def as_strided(torch, log):
    vmap = torch.func.vmap
    x = torch.arange(12.0).reshape(3, 4)
    log(vmap(lambda a: a.as_strided((2,), (2,)))(x), vmap(lambda a: a.as_strided((2,), (2,), 1))(x))
    log(vmap(lambda a: a.as_strided((3, 2), (1, 1)))(x))
    log(vmap(lambda a: a.as_strided((2,), (1,), 4))(x[1:]))
    log(vmap(lambda a: a.as_strided((2,), (4,)), in_dims=1)(x))
    log.raises(lambda: vmap(lambda a: a.as_strided((6,), (1,)))(x))
    log.raises(lambda: vmap(lambda a: a.as_strided((2,), (1,), 3))(x))


@vmapped
def writes_to_views(torch, log):
    vmap = torch.func.vmap

    def f(a):
        a = a.clone()
        a[0].mul_(10)
        a.view(4)[1:3].add_(1)
        a.t()[1].zero_()
        return a

    log(vmap(f)(torch.arange(12.0).reshape(3, 2, 2)))
    x = torch.arange(12.0).reshape(3, 2, 2)
    vmap(lambda a: a.add_(1))(x)
    log(x)
    vmap(lambda a: a.mul_(2), in_dims=-1)(x)
    log(x)


# ---------------------------------------------------------------------- writes


WRITES = {
    "add_": lambda z, a, i, m: z.add_(a),
    "sub_": lambda z, a, i, m: z.sub_(a),
    "mul_": lambda z, a, i, m: z.mul_(a),
    "div_": lambda z, a, i, m: z.div_(a),
    "pow_": lambda z, a, i, m: z.pow_(a),
    "copy_": lambda z, a, i, m: z.copy_(a),
    "fill_": lambda z, a, i, m: z.fill_(a[0]),
    "clamp_": lambda z, a, i, m: z.clamp_(a),
    "masked_fill_": lambda z, a, i, m: z.masked_fill_(m, 1.0),
    "scatter_": lambda z, a, i, m: z.scatter_(0, i, a),
    "scatter_add_": lambda z, a, i, m: z.scatter_add_(0, i, a),
    "index_add_": lambda z, a, i, m: z.index_add_(0, i, a),
    "index_copy_": lambda z, a, i, m: z.index_copy_(0, i, a),
    "index_fill_": lambda z, a, i, m: z.index_fill_(0, i, 2.0),
    "index_put_": lambda z, a, i, m: z.index_put_((i,), a),
    "lerp_": lambda z, a, i, m: z.lerp_(a, 0.5),
    "addcmul_": lambda z, a, i, m: z.addcmul_(a, a),
    "remainder_": lambda z, a, i, m: z.remainder_(a),
    "put_": lambda z, a, i, m: z.put_(i, a),
    "masked_scatter_": lambda z, a, i, m: z.masked_scatter_(m, a),
    "zero_": lambda z, a, i, m: z.zero_() + a,
    "exp_": lambda z, a, i, m: z.exp_() + a,
}


@vmapped
def writes(torch, log):
    x = batch(torch)
    i = torch.tensor([[0, 1], [1, 0], [1, 1]])
    vmap = torch.func.vmap
    for f in WRITES.values():
        log.raises(lambda f=f: vmap(f)(torch.zeros(3, 2), x, i, x > 2))
        log.raises(lambda f=f: vmap(lambda a, i, m: f(torch.zeros(2), a, i, m))(x, i, x > 2))


@vmapped
def writes_that_do_not_fit(torch, log):
    vmap = torch.func.vmap
    x = batch(torch)
    log.raises(lambda: vmap(lambda a: a[0].add_(torch.ones(2)))(x.clone()))
    log.raises(lambda: vmap(lambda a: a[0].add_(a))(x.clone()))
    outside = torch.zeros(2)
    log.raises(lambda: vmap(lambda a: outside.mul_(a))(x))
    log(vmap(lambda a: outside.add_(1) + a)(x), outside)


@vmapped
def output_arguments(torch, log):
    vmap = torch.func.vmap
    x = batch(torch)
    try_all(
        log,
        lambda: vmap(lambda a: torch.add(a, a, out=torch.zeros(2)))(x),
        lambda: vmap(lambda a: torch.add(a, a, out=torch.zeros_like(a)))(x),
        lambda: vmap(lambda a: torch.add(torch.ones(2), 1, out=a.clone()))(x),
        lambda: vmap(lambda a: torch.add(torch.ones(2), 1, out=torch.zeros(2)) + a)(x),
    )


# ---------------------------------------------------------------------- indexing


@vmapped
def reading_at_indices(torch, log):
    vmap = torch.func.vmap
    x = batch(torch)
    i = torch.tensor([[0, 1], [1, 0], [1, 1]])
    table = torch.arange(12.0).reshape(2, 3, 2)
    try_all(
        log,
        lambda: vmap(lambda a, i: a[i])(x, i),
        lambda: vmap(lambda i: table[i])(i),
        lambda: vmap(lambda i: table[:, i])(i),
        lambda: vmap(lambda i: table[i, :, i])(i),
        lambda: vmap(lambda i: table[i[:, None], i])(i),
        lambda: vmap(lambda i: table[0, i, 1])(i),
        lambda: vmap(lambda i: table[i])(i[:, 0]),
        lambda: vmap(lambda i: table[:, i, 0])(i[:, 0]),
        lambda: vmap(lambda a, i: a[i])(x, i[:, 0]),
        lambda: vmap(lambda a, i: a[None, i])(x, i),
        lambda: vmap(lambda a, i: a[..., i])(x, i),
        lambda: vmap(lambda a: a[[1, 0]])(x),
        lambda: vmap(lambda a: a[torch.tensor([True, False])])(x),
        lambda: vmap(lambda a, m: a[m])(x, x > 2),
        lambda: vmap(lambda a, m: a[m])(x, x[:, 0] > 2),
        lambda: vmap(lambda m: torch.ones(2)[m])(x > 2),
        lambda: vmap(lambda a, i: a[i])(x, i + 5),
        lambda: vmap(lambda a: a[5])(x),
        lambda: vmap(lambda a: a[0, 0])(x),
        lambda: vmap(lambda a, i: a[i], in_dims=(0, 1))(x[:2], i),
        lambda: vmap(lambda a, i: a.gather(0, i))(x, i),
        lambda: vmap(lambda a, i: a.index_select(0, i))(x, i),
        lambda: vmap(lambda i: x.index_select(0, i))(i),
        lambda: vmap(lambda a, i: a.take(i))(x, i),
    )


@vmapped
def writing_at_indices(torch, log):
    vmap = torch.func.vmap
    x, v = batch(torch), batch(torch) * 10
    i = torch.tensor([[0, 1], [1, 0], [1, 1]])
    mask = torch.tensor([True, False])

    def put(a, index, value):
        a = a.clone()
        a[index] = value
        return a

    zeros = torch.zeros(2)
    try_all(
        log,
        lambda: vmap(lambda a: put(a, 0, 5.0))(x),
        lambda: vmap(lambda a, v: put(a, 0, v[1]))(x, v),
        lambda: vmap(lambda a, v: put(a, slice(None), v))(x, v),
        lambda: vmap(lambda a, i: put(a, i, 5.0))(x, i),
        lambda: vmap(lambda a, i, v: put(a, i, v))(x, i, v),
        lambda: vmap(lambda a, i, v: put(a, i[0], v[0]))(x, i, v),
        lambda: vmap(lambda a, i: put(a, i, torch.ones(2)))(x, i),
        lambda: vmap(lambda a, v: put(a, torch.tensor([1, 0]), v))(x, v),
        lambda: vmap(lambda a: put(a, mask, 7.0))(x),
        lambda: vmap(lambda a, v: put(a, mask, v[0]))(x, v),
        lambda: vmap(lambda a: put(a, a > 2, 7.0))(x),
        lambda: vmap(lambda i: put(zeros, i, 1.0))(i),
        lambda: vmap(lambda v: put(zeros, 0, v[0]))(v),
        lambda: vmap(lambda v: put(zeros, torch.tensor([0, 1]), v))(v),
        lambda: vmap(lambda m: put(zeros, m, 1.0))(x > 2),
        lambda: vmap(lambda a, i: torch.index_put(a, (i,), torch.ones(2)))(x, i),
        lambda: vmap(lambda i, v: torch.index_put(zeros, (i,), v))(i, v),
        lambda: vmap(lambda i, v: torch.index_put(zeros, (i,), v, accumulate=True))(i, v),
        lambda: vmap(lambda a, i: put(a[None], (0, i), 9.0))(x, i),
    )


# ---------------------------------------------------------------------- autograd inside


@vmapped
def flags_inside(torch, log):
    x = batch(torch)
    func = torch.func
    y = torch.ones(2, requires_grad=True)
    try_all(
        log,
        lambda: func.vmap(lambda a: a.requires_grad_())(x),
        lambda: func.vmap(lambda a: a.requires_grad_(False))(x),
        lambda: func.vmap(lambda a: torch.zeros(2).requires_grad_() + a)(x),
        lambda: func.grad(lambda a: a.requires_grad_().sum())(x),
        lambda: func.jvp(lambda a: a.requires_grad_(), (x,), (x,)),
        lambda: func.vmap(lambda a: setattr(a, "requires_grad", True) or a)(x),
        lambda: func.vmap(lambda a: a.retain_grad())(x),
        lambda: func.grad(lambda a: (a.retain_grad(), a.sum())[1])(x),
        lambda: func.grad(lambda a: ((a * 2).retain_grad(), a.sum())[1])(x),
        lambda: func.vmap(lambda a: a.sum().backward())(x),
        lambda: func.grad(lambda a: a.sum().backward())(x),
        lambda: func.jvp(lambda a: a.sum().backward(), (x,), (x,)),
        lambda: func.vmap(lambda a: torch.autograd.backward(a.sum()))(x),
        lambda: func.vmap(lambda a: (y * 2).sum().backward())(x),
        lambda: func.vmap(lambda a: torch.autograd.grad(a.sum(), a))(x),
    )


@vmapped
def hooks_inside(torch, log):
    x = batch(torch)
    func = torch.func

    def hooked(a):
        b = a * 2
        b.register_hook(lambda g: g * 3)
        return (b * b).sum()

    log.raises(lambda: func.vmap(lambda a: (a.register_hook(lambda g: g), a)[1])(x))
    log(func.grad(hooked)(x), func.vmap(func.grad(hooked))(x))
    log(func.vmap(func.vmap(func.grad(hooked)))(torch.stack([x, x])))


@vmapped
def gradients_through_vmap(torch, log):
    x = batch(torch).requires_grad_()
    out = torch.func.vmap(lambda a: (a * a).sum() * a)(x)
    log(out)
    out.sum().backward()
    log(x.grad)
    w = torch.ones(2, requires_grad=True)
    torch.func.vmap(lambda a: (w * a).sum())(batch(torch)).sum().backward()
    log(w.grad)
    y = batch(torch).requires_grad_()

    def write(a):
        z = torch.zeros_like(a)
        z[0] = a[1] * 2
        z.add_(a).mul_(a)
        return z

    torch.func.vmap(write)(y).sum().backward()
    log(y.grad)


@vmapped
def with_other_transforms(torch, log):
    x = batch(torch)
    func = torch.func

    def f(a):
        return (a.sin() * a.flip(0)).sum()

    log(func.vmap(func.grad(f))(x), func.grad(lambda y: func.vmap(f)(y).sum())(x))
    log(func.vmap(func.hessian(f))(x), func.vmap(func.jacrev(lambda a: a * a.sum()))(x))
    log(func.vmap(func.jacfwd(lambda a: a * a.sum()))(x))
    log(func.vmap(lambda a, t: func.jvp(f, (a,), (t,)))(x, x.cos()))
    log(func.vmap(lambda a: func.vjp(torch.sin, a)[1](a)[0])(x))
    log(func.jvp(func.vmap(f), (x,), (x.cos(),)))
    log(
        func.vmap(func.grad(lambda a, b: (a * b).sum(), argnums=(0, 1)), in_dims=(0, None))(x, x[0])
    )
