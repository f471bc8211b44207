"""torch.func: grad, vjp, jvp, linearize, jacrev, jacfwd, hessian: values, structures, misuse."""

from programs.harness import program


def value(torch, *shape, start=1.0):
    count = 1
    for n in shape:
        count *= n
    return (torch.arange(count, dtype=torch.float64) / 2 + start).reshape(shape).clone()


def dense(torch, tree):
    """Values only: how results lie in memory is not the point here."""
    if isinstance(tree, torch.Tensor):
        return tree.detach().clone(memory_format=torch.contiguous_format)
    if isinstance(tree, dict):
        return {k: dense(torch, v) for k, v in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)([dense(torch, v) for v in tree])
    return tree


# --- grad ------------------------------------------------------------------------------------


@program
def gradients(torch, log):
    grad = torch.func.grad
    x, y = value(torch, 3), value(torch, 3, start=3.0)
    log(grad(lambda a: (a**3).sum())(x), grad(torch.sin)(torch.tensor(0.5)))
    log(grad(lambda a, b: (a * b).sum())(x, y))
    log(grad(lambda a, b: (a * b).sum(), argnums=1)(x, y))
    log(grad(lambda a, b: (a * b).sum(), argnums=-1)(x, y))
    log(grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, y))
    log(grad(lambda a, b: (a * b).sum(), argnums=(1, 0))(x, y))
    log(grad(lambda a, b: (a * b).sum(), argnums=(1,))(x, y))
    log(grad(lambda a, k=2: (a * k).sum())(x, k=5))
    log(grad(lambda a: a.sum() * 0 + 1)(x), grad(lambda a: torch.tensor(1.0))(x))
    log(grad(lambda a: a.float().sum())(x), dense(torch, grad(lambda a: (a + 0j).abs().sum())(x)))


@program
def gradients_of_trees(torch, log):
    grad = torch.func.grad
    x, y = value(torch, 3), value(torch, 2, start=3.0)
    log(grad(lambda d: (d["a"].sum() * d["b"]).sum())({"a": x, "b": y}))
    log(grad(lambda p: (p[0].sum() * p[1][0]).sum())((x, [y])))
    log(grad(lambda p, q: p["w"].sum() * q[0].sum(), argnums=(0, 1))({"w": x}, (y,)))
    log.raises(lambda: grad(lambda d: d["a"].sum())({"a": x, "b": 3.0}))
    log.raises(lambda: grad(lambda d: d["a"].sum())({"a": x, "b": None}))
    log.raises(lambda: grad(lambda d: torch.tensor(1.0))({}))


@program
def auxiliary_results(torch, log):
    func = torch.func
    x = value(torch, 3)
    log(func.grad(lambda a: ((a**2).sum(), a * 3), has_aux=True)(x))
    log(func.grad(lambda a: ((a**2).sum(), {"k": [a, a + 1]}), has_aux=True)(x))
    log(func.grad_and_value(lambda a: (a**2).sum())(x))
    log(func.grad_and_value(lambda a: ((a**2).sum(), a.exp()), has_aux=True)(x))
    log.raises(lambda: func.grad(lambda a: a.sum(), has_aux=True)(x))
    log.raises(lambda: func.grad(lambda a: [a.sum(), a], has_aux=True)(x))
    log.raises(lambda: func.grad(lambda a: (a.sum(), a, a), has_aux=True)(x))
    log.raises(lambda: func.grad(lambda a: (a.sum(), 3.0), has_aux=True)(x))
    log.raises(lambda: func.grad_and_value(lambda a: a.sum(), has_aux=True)(x))
    log.raises(lambda: func.vjp(lambda a: a, x, has_aux=True))
    log.raises(lambda: func.jvp(lambda a: a, (x,), (x,), has_aux=True))
    log.raises(lambda: func.jacrev(lambda a: a, has_aux=True)(x))
    log.raises(lambda: func.jacfwd(lambda a: a, has_aux=True)(x))
    log(func.jvp(lambda a: (a * 2, a * 3), (x,), (x,), has_aux=True))
    log(dense(torch, func.jacrev(lambda a: (a**2, a * 3), has_aux=True)(x)))
    log(dense(torch, func.jacfwd(lambda a: (a**2, a * 3), has_aux=True)(x)))
    out, pull, aux = func.vjp(lambda a: (a * 2, a * 3), x, has_aux=True)
    log(out, pull(x), aux)


@program
def misuse_of_grad(torch, log):
    grad = torch.func.grad
    x = value(torch, 3)
    log.raises(lambda: grad(lambda a: a)(x))
    log.raises(lambda: grad(lambda a: a.sum(0, keepdim=True))(x))
    log.raises(lambda: grad(lambda a: a.sum().item())(x))
    log.raises(lambda: grad(lambda a: None)(x))
    log.raises(lambda: grad(lambda a: (a.sum(),))(x))
    log.raises(lambda: grad(lambda a: a.sum())(x.long()))
    log.raises(lambda: grad(lambda a: a.sum())(3.0))
    log.raises(lambda: grad(lambda a: a.sum())([1.0, 2.0]))
    log.raises(lambda: grad(lambda a: a.sum())())
    log.raises(lambda: grad(lambda a: a.sum())(a=x))
    for argnums in (1, -2, (), (0, 0), (0, 5), "a", 1.0, [0], None, (0, "b")):
        log.raises(lambda argnums=argnums: grad(lambda a: a.sum(), argnums=argnums)(x))


@program
def writes_inside_grad(torch, log):
    grad = torch.func.grad
    x = value(torch, 3)

    def fresh(a):
        b = a * 2
        b.mul_(a)
        b[0] = 0
        return b.sum()

    log(grad(fresh)(x), x)
    log.raises(lambda: grad(lambda a: a.mul_(2).sum())(x.clone()))
    log.raises(lambda: grad(lambda a: a[0].zero_())(x.clone()))
    log.raises(lambda: grad(lambda a: a.requires_grad_().sum())(x.clone()))
    log.raises(lambda: grad(lambda a: a.sum().backward())(x.clone()))
    log.raises(lambda: grad(lambda a: a.detach_().sum())(x.clone()))


@program
def modes_and_grad(torch, log):
    grad = torch.func.grad
    x = value(torch, 3)

    def quiet(a):
        with torch.no_grad():
            return a * a

    log(grad(lambda a: (quiet(a) * a).sum())(x), grad(lambda a: quiet(a).sum())(x))
    log(grad(lambda a: (a.detach() * a).sum())(x))
    log(grad(lambda a: grad(lambda b: (quiet(b) * b).sum())(a).sum())(x))
    with torch.no_grad():
        log(grad(lambda a: (a * a).sum())(x))
        log(grad(lambda a: grad(lambda b: (b**3).sum())(a).sum())(x))

    def half(a):
        with torch.no_grad():
            return grad(lambda b: (b**3).sum())(a).sum() + a.sum()

    log(grad(half)(x))
    seen = []
    grad(lambda a: (seen.append((a.requires_grad, torch.is_grad_enabled())), a.sum())[1])(x)
    with torch.no_grad():
        grad(lambda a: (seen.append((a.requires_grad, torch.is_grad_enabled())), a.sum())[1])(x)
    log(seen)


@program
def grad_and_the_tape_outside(torch, log):
    grad = torch.func.grad
    x = value(torch, 3)
    w = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    got = grad(lambda a: (a * a * w).sum())(x)
    log(got.requires_grad, got.detach(), torch.autograd.grad(got.sum(), w))
    leaf = x.clone().requires_grad_()
    got = grad(lambda a: (a**3).sum())(leaf)
    log(got.requires_grad, torch.autograd.grad(got.sum(), leaf))
    out, pull = torch.func.vjp(lambda a: a * a * w, leaf)
    (got,) = pull(torch.ones_like(out))
    log(out.requires_grad, got.requires_grad)
    log(dense(torch, torch.autograd.grad(got.sum(), (leaf, w))))
    out, moved = torch.func.jvp(lambda a: a * a * w, (leaf,), (x,))
    log(out.requires_grad, dense(torch, torch.autograd.grad(moved.sum(), (leaf, w))))
    log(leaf.grad, w.grad)
    plain = torch.func.grad_and_value(lambda a: (a * a).sum())(x)
    log([t.requires_grad for t in plain])


@program
def autograd_inside_grad(torch, log):
    grad = torch.func.grad
    x = value(torch, 3)

    def inner(a):
        return torch.autograd.grad((a**3).sum(), a, create_graph=True)[0].sum()

    log(grad(inner)(x))


# --- vjp -------------------------------------------------------------------------------------


@program
def products_from_the_left(torch, log):
    vjp = torch.func.vjp
    x, y = value(torch, 3), value(torch, 3, start=3.0)
    out, pull = vjp(lambda a: a**2, x)
    log(out, pull(y), pull(x))
    out, pull = vjp(lambda a, b: a * b, x, y)
    log(pull(x))
    out, pull = vjp(lambda a: (a * 2, a.sum()), x)
    log(out, pull((y, torch.tensor(1.0, dtype=torch.float64))))
    out, pull = vjp(lambda a: {"p": a * 2, "q": [a * 3]}, x)
    log(out, pull({"p": y, "q": [x]}))
    out, pull = vjp(lambda d: d["a"] * d["b"], {"a": x, "b": y})
    log(pull(x))
    out, pull = vjp(lambda a: torch.ones(2), x)
    log(pull(torch.ones(2)))


@program
def misuse_of_vjp(torch, log):
    vjp = torch.func.vjp
    x = value(torch, 3)
    out, pull = vjp(lambda a: a * 2, x)
    log.raises(lambda: pull(x[:2]))
    log.raises(lambda: pull(x[0]))
    log.raises(lambda: pull((x, x)))
    log.raises(lambda: pull({"a": x}))
    log.raises(lambda: pull(3.0))
    log.raises(lambda: pull(torch.complex(x, x)))
    out, pull = vjp(lambda a: (a * 2, [a * 3]), x)
    log.raises(lambda: pull((x, x)))
    log.raises(lambda: pull(x))
    log.raises(lambda: vjp(lambda a: 3.0, x))
    log.raises(lambda: vjp(lambda a: (a, 3.0), x))
    log.raises(lambda: vjp(lambda a: a, 3.0))
    log.raises(lambda: vjp(lambda a: a.long(), x))
    log.raises(lambda: vjp(lambda a: a, x.long()))
    log.raises(lambda: vjp(lambda: x))


# --- jvp -------------------------------------------------------------------------------------


@program
def products_from_the_right(torch, log):
    jvp = torch.func.jvp
    x, y = value(torch, 3), value(torch, 3, start=3.0)
    log(jvp(lambda a: a**2, (x,), (y,)))
    log(jvp(lambda a, b: a * b, (x, y), (y, x)))
    log(jvp(lambda a: (a * 2, a.sum()), (x,), (y,)))
    log(jvp(lambda a: {"p": a * 2, "q": [a * 3]}, (x,), (y,)))
    log(jvp(lambda d: d["a"] * d["b"], ({"a": x, "b": y},), ({"a": y, "b": x},)))
    log(jvp(lambda a: torch.ones(2), (x,), (y,)))
    log(jvp(lambda a: (a > 2, a * 2), (x,), (y,)))
    log(jvp(lambda a: a.detach() * a, (x,), (y,)))
    log(jvp(lambda a: a, (x,), (y,)))
    log(jvp(lambda a: a * 2, (x,), (y.float(),)))


@program
def misuse_of_jvp(torch, log):
    jvp = torch.func.jvp
    x = value(torch, 3)
    log.raises(lambda: jvp(lambda a: a, x, x))
    log.raises(lambda: jvp(lambda a: a, [x], [x]))
    log.raises(lambda: jvp(lambda a: a, (x,), (x, x)))
    log.raises(lambda: jvp(lambda a: a, (x,), ((x,),)))
    log.raises(lambda: jvp(lambda a: a, (x,), (x[:2],)))
    log.raises(lambda: jvp(lambda a: a, (3.0,), (x,)))
    log.raises(lambda: jvp(lambda a: a, (x,), (3.0,)))
    log.raises(lambda: jvp(lambda a: a, (), ()))
    log.raises(lambda: jvp(lambda a: 3.0, (x,), (x,)))
    log.raises(lambda: jvp(lambda a: (a, 3.0), (x,), (x,)))
    log.raises(lambda: jvp(lambda a: a, (x.long(),), (x,)))
    log.raises(lambda: jvp(lambda a: a, (x,), (x.long(),)))
    log.raises(lambda: jvp(lambda a: x, (x,), (x,), strict=True))
    log.raises(lambda: jvp(lambda a: (a, x), (x,), (x,), strict=True))


# --- linearize -------------------------------------------------------------------------------


@program
def linear_maps(torch, log):
    linearize = torch.func.linearize
    x, y = value(torch, 3), value(torch, 3, start=3.0)
    out, push = linearize(lambda a: a**3, x)
    log(out, push(x), push(y))
    out, push = linearize(lambda a, b: (a * b, a.sum()), x, y)
    log(out, push(y, x))
    out, push = linearize(lambda d: {"o": d["a"] * 2}, {"a": x})
    log(out, push({"a": y}))


@program
def misuse_of_linearize(torch, log):
    linearize = torch.func.linearize
    x = value(torch, 3)
    _, push = linearize(lambda a: a**2, x)
    log.raises(lambda: push(x[:2]))
    log.raises(lambda: push(x.float()))
    log.raises(lambda: push(x, x))
    log.raises(lambda: push())
    log.raises(lambda: push((x,)))


# --- Jacobians -------------------------------------------------------------------------------


@program
def jacobians(torch, log):
    func = torch.func
    x, y = value(torch, 3), value(torch, 2, start=3.0)
    for jac in (func.jacrev, func.jacfwd):
        log(dense(torch, jac(lambda a: a**2)(x)))
        log(dense(torch, jac(lambda a: a.sum())(x)))
        log(dense(torch, jac(lambda a: torch.outer(a, y))(x)).shape)
        log(dense(torch, jac(lambda a, b: a[:2] * b)(x, y)))
        log(dense(torch, jac(lambda a, b: a[:2] * b, argnums=1)(x, y)))
        log(dense(torch, jac(lambda a, b: a[:2] * b, argnums=(0, 1))(x, y)))
        log(dense(torch, jac(lambda a: (a * 2, {"s": a.sum()}))(x)))
        log(dense(torch, jac(lambda d: d["a"].sum() * d["b"])({"a": x, "b": y})))
        log(dense(torch, jac(lambda a: torch.ones(2, dtype=torch.float64))(x)))
        log.raises(lambda jac=jac: jac(lambda a: a * 2)(x[:0]).shape)
        log.raises(lambda jac=jac: jac(lambda a: a[:0])(x).shape)
        log(dense(torch, jac(lambda a: a * 2)(torch.tensor(3.0))))


@program
def misuse_of_jacobians(torch, log):
    func = torch.func
    x = value(torch, 3)
    for jac in (func.jacrev, func.jacfwd):
        log.raises(lambda jac=jac: jac(lambda a: 3.0)(x))
        log.raises(lambda jac=jac: jac(lambda a: (a, 3.0))(x))
        log.raises(lambda jac=jac: jac(lambda a: a)(x.long()))
        log.raises(lambda jac=jac: jac(lambda a: a)())
        for argnums in (1, (), (0, 0), "a", (0, 3)):
            log.raises(lambda jac=jac, argnums=argnums: jac(lambda a: a, argnums=argnums)(x))
    log.raises(lambda: func.jacrev(lambda a: a, chunk_size=0))
    log.raises(lambda: func.jacrev(lambda a: a, chunk_size=-1))
    log.raises(lambda: func.jacrev(lambda a: a.long())(x))
    log.raises(lambda: func.jacfwd(lambda a: a.long())(x))
    log.raises(lambda: func.jacfwd(lambda a: a + torch.rand(3))(x))
    log.raises(lambda: func.jacfwd(lambda a: a + torch.rand(3), randomness="same")(x).shape)


@program
def jacobians_in_chunks(torch, log):
    x = value(torch, 3)
    for size in (1, 2, 3, 10, None):
        log(dense(torch, torch.func.jacrev(lambda a: a**2, chunk_size=size)(x)))
    both = torch.func.jacrev(lambda a: (a**2, a.sum()), chunk_size=2)(x)
    log(dense(torch, both))


@program
def second_derivatives(torch, log):
    func = torch.func
    x, y = value(torch, 3), value(torch, 2, start=3.0)
    f = lambda a: (a**3).sum() + a[0] * a[1]  # noqa: E731
    log(dense(torch, func.hessian(f)(x)))
    for outer in (func.jacrev, func.jacfwd):
        for inner in (func.jacrev, func.jacfwd, func.grad):
            log(dense(torch, outer(inner(f))(x)))
    log(dense(torch, func.hessian(lambda a, b: (a[:2] * b**2).sum(), argnums=(0, 1))(x, y)))
    log(dense(torch, func.hessian(lambda a, b: (a[:2] * b**2).sum(), argnums=1)(x, y)))
    log(dense(torch, func.hessian(lambda d: (d["a"] ** 2).sum())({"a": x})))
    log(dense(torch, func.hessian(lambda a: a**2)(y)))
    log(dense(torch, func.vmap(func.hessian(f))(torch.stack([x, x + 1]))))
    log.raises(lambda: func.hessian(lambda a: 3.0)(x))


# --- modules ---------------------------------------------------------------------------------


@program
def per_sample_gradients(torch, log):
    func = torch.func
    layer = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))
    layer.double()
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(value(torch, *p.shape) / 4)
    x, y = value(torch, 4, 3) / 16, value(torch, 4, 1)
    params = {k: p.detach() for k, p in layer.named_parameters()}

    def loss(params, a, b):
        out = func.functional_call(layer, params, (a[None],))
        return torch.nn.functional.mse_loss(out, b[None])

    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(params, x, y)
    log(dense(torch, each))
    log(dense(torch, func.grad(loss)(params, x[0], y[0])))
    jac = func.jacrev(lambda p: func.functional_call(layer, p, (x,)))(params)
    log({k: list(v.shape) for k, v in jac.items()})


@program
def ensembles(torch, log):
    func = torch.func
    models = [torch.nn.Linear(3, 2).double() for _ in range(3)]
    with torch.no_grad():
        for i, model in enumerate(models):
            for p in model.parameters():
                p.copy_(value(torch, *p.shape, start=i + 1.0) / 4)
    params, buffers = func.stack_module_state(models)
    base = models[0]
    x = value(torch, 4, 3)

    def call(params, buffers, a):
        return func.functional_call(base, (params, buffers), (a,))

    got = func.vmap(call, in_dims=(0, 0, None))(params, buffers, x)
    log(got.requires_grad, dense(torch, got))
    log(all(torch.allclose(got[i], m(x)) for i, m in enumerate(models)))


@program
def modules_in_transforms(torch, log):
    """Parameters of a module are constants that the tape outside still sees."""
    func = torch.func
    layer = torch.nn.Linear(3, 1).double()
    with torch.no_grad():
        layer.weight.fill_(0.5)
        layer.bias.fill_(1.0)
    x = value(torch, 3)
    got = func.grad(lambda a: layer(a).sum() ** 2)(x)
    log(got.requires_grad, got.detach())
    got.sum().backward()
    log(dense(torch, [layer.weight.grad, layer.bias.grad]))
    layer.zero_grad()
    got = func.vmap(layer)(value(torch, 2, 3))
    got.sum().backward()
    log(dense(torch, [layer.weight.grad, layer.bias.grad]))
