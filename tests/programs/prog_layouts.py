"""How gradients and joined tensors lie in memory, and who is asked about `grad` and `backward`."""

from programs.harness import program


@program
def gradients_of_strided_leaves(torch, log):
    """A gradient lies as its leaf does, where that has no gaps."""
    leaves = (
        lambda: torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        lambda: torch.ones(4, 3).t(),
        lambda: torch.ones(3, 1).expand(3, 4),
        lambda: torch.ones(4, 6)[:, ::2],
        lambda: torch.ones(2, 3, 4).permute(2, 0, 1),
    )
    losses = (
        lambda w: (w * 2).sum(),
        lambda w: w.sum(),
        lambda w: (w * w).sum(),
        lambda w: w.contiguous().pow(2).sum(),
        lambda w: (w.transpose(0, 1) * 2).sum(),
        lambda w: (w * torch.ones(w.shape)).sum(),
    )
    for make in leaves:
        for loss in losses:
            w = make().detach().requires_grad_()
            loss(w).backward()
            first = w.grad.stride(), w.grad._version
            loss(w).backward()
            log(first, w.grad.stride(), w.grad._version)


@program
def joined_images(torch, log):
    """Images by pixel give images by pixel; with any other among them the result is contiguous."""
    x = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = torch.ones(2, 3, 4, 5)
    for tensors in ([x, x], [x, y], [y, x], [x, torch.zeros(0)], [torch.zeros(0), x]):
        log(*[torch.cat(tensors, d) for d in range(4)])
    for tensors in ([x, x, x], [x, y], [y, x]):
        log(*[torch.stack(tensors, d) for d in range(5)])
    log(torch.hstack([x, x]), torch.vstack([x, x]), torch.dstack([x, x]), torch.cat([x.half(), x]))
    z = torch.ones(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d)
    log(torch.cat([z, z], 1).stride(), torch.stack([z, z]).stride())
    turned = torch.ones(2, 3, 4).permute(2, 0, 1)
    log(*[torch.stack([turned, turned], d).stride() for d in range(4)])
    w = x.detach().requires_grad_()
    torch.cat([w, w * 2], 1).square().sum().backward()
    log(w.grad)


@program
def complex_softmax_of_nothing(torch, log):
    for shape in ((0,), (0, 3), (3, 0)):
        x = torch.zeros(shape, dtype=torch.complex64)
        log(x.softmax(0), x.log_softmax(-1))
        x.requires_grad_()
        log.raises(lambda x=x: x.softmax(0))
        log.raises(lambda x=x: x.log_softmax(-1))
        with torch.no_grad():
            log(x.softmax(0))


@program
def passes_that_are_asked_about(torch, log):
    """`__torch_function__` sees `backward` and `grad`, with all their arguments."""
    seen = []

    class Names(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            named = sorted(kwargs or {})
            seen.append((func.__name__, len(args), named, [t.__name__ for t in types]))
            return func(*args, **(kwargs or {}))

    w = torch.ones(2, requires_grad=True)
    y = (w * 2).sum()
    one = torch.tensor(1.0)
    for run in (
        lambda: y.backward(retain_graph=True),
        lambda: y.backward(one, True, inputs=[w]),
        lambda: torch.autograd.backward(y, retain_graph=True),
        lambda: torch.autograd.backward([y], [one], True, inputs=[w]),
        lambda: torch.autograd.grad(y, w, retain_graph=True),
        lambda: torch.autograd.grad([y], [w], [one], create_graph=True),
    ):
        with Names():
            found = run()
        log(found, w.grad, list(seen))
        seen.clear()

    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(2).as_subclass(Named).requires_grad_()
    y = (x * 2).sum()
    seen.clear()
    y.backward(retain_graph=True)
    torch.autograd.grad(y, x, retain_graph=True)
    torch.autograd.backward(y)
    log(list(seen))


@program
def results_of_turned_and_cut_inputs(torch, log):
    turned = torch.arange(24.0).view(2, 3, 4).permute(2, 0, 1)
    images = torch.arange(120.0).view(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for x in (turned, images, images[:, :, ::2], turned[:, :, ::2], torch.ones(3, 1).expand(3, 4)):
        for dim in (0, -1):
            found = [*x.sort(dim), x.argsort(dim), x.index_fill(dim, torch.tensor([0]), 7.0)]
            log([tuple(t.stride()) for t in found], found[0].sum(), found[3].sum())
    where = torch.zeros(3, 4, dtype=torch.int64).t()
    log(torch.arange(12.0).view(4, 3).gather(0, where))
    log(torch.ones(2, 3).gather(1, where[:2].t().contiguous().t()[:, :2]))


@program
def losses_of_two_dtypes(torch, log):
    F = torch.nn.functional
    for one, two in (("float32", "float64"), ("float16", "float32"), ("float64", "float32")):
        x = torch.tensor([0.5, 3.0], dtype=getattr(torch, one))
        y = torch.tensor([0.25, 1.0], dtype=getattr(torch, two))
        for loss in (F.huber_loss, F.mse_loss, F.smooth_l1_loss, F.l1_loss):
            for reduction in ("none", "mean", "sum"):
                log(loss(x, y, reduction=reduction))


@program
def complex_values_to_fill_with(torch, log):
    x, first = torch.ones(2), torch.tensor([0])
    log.raises(lambda: x.index_fill(0, first, 1 + 1j))
    log.raises(lambda: x.index_fill_(0, first, torch.tensor(1 + 1j)))
    log(x, (x * 1j).index_fill_(0, first, 1 + 2j))


@program
def outputs_that_are_resized(torch, log):
    turned = torch.arange(12.0).view(3, 4).t()
    images = torch.arange(24.0).view(2, 3, 2, 2).to(memory_format=torch.channels_last)
    for x in (turned, images, turned[:, ::2], torch.arange(6.0).view(2, 3)):
        for size in (0, 3):
            for f in (torch.exp, torch.neg, lambda x, out: torch.add(x, 1, out=out)):
                out = torch.empty(size)
                log(tuple(f(x, out=out).stride()), out.sum(), out.untyped_storage().nbytes())
            out = torch.empty(size, dtype=torch.float64)
            log(tuple(torch.mul(x, 2, out=out).stride()), out.sum())
    values, places = torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.sort(turned, out=(values, places))
    log(values, tuple(places.stride()))
    log(torch.cat([turned, turned], out=torch.empty(0)), torch.mm(turned, turned.t(), out=values))


@program
def flips_fills_and_complex_numbers_of_turned_inputs(torch, log):
    turned = torch.arange(12.0).view(3, 4).t()
    cut = torch.arange(30.0).view(5, 6)[1:4, 2:5]
    spread = torch.ones(1, 3, 1).expand(5, 3, 2)
    for x in (turned, cut, cut.t(), spread, torch.ones(2, 3).expand(4, 2, 3)):
        first = torch.tensor([0])
        found = [x.flip(0), x.flip(-1), x.rot90(), x.index_fill(0, first, 7.0)]
        log([(tuple(t.stride()), t.sum()) for t in found])
    for a, b in ((turned, torch.ones(4, 3)), (torch.ones(4, 3), turned), (torch.ones(3), turned)):
        log(tuple(torch.complex(a, b).stride()), tuple(torch.polar(a, b).stride()))


@program
def results_of_tensors_that_lie_differently(torch, log):
    """The first tensor that tells two dimensions apart decides, for every dtype."""
    functional = torch.nn.functional
    pairs = {
        "add": torch.add,
        "maximum": torch.maximum,
        "lt": torch.lt,
        "isclose": torch.isclose,
        "mse": lambda a, b: functional.mse_loss(a, b, reduction="none"),
        "smooth": lambda a, b: functional.smooth_l1_loss(a, b, reduction="none"),
        "complex": torch.complex,
        "where": lambda a, b: torch.where(a > 0, b, a),
    }
    shape = (2, 3, 4)
    orders = [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)]
    for first in orders:
        for second in orders:
            for name, function in pairs.items():
                for dtype in (torch.float32, torch.float16, torch.int64):
                    if dtype is not torch.float32 and name in ("mse", "smooth", "complex"):
                        continue
                    a = turned(torch, shape, first).to(dtype)
                    b = turned(torch, shape, second).to(dtype)
                    log(name, function(a, b).stride(), function(a, b[:1]).stride())
    a = turned(torch, (3, 2), (1, 0))
    log(torch.kron(a, a).stride(), torch.addr(a, a[:, 0], a[0]).stride())
    log(functional.one_hot(a.long()).stride())
    images = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for dims in [1, (0, 1), (2, 3), None]:
        moved = images.roll(1 if dims in (1, None) else (1, 2), dims)
        log(moved.stride(), moved.sum())
    log(torch.arange(120.0).reshape(2, 3, 4, 5).roll((1, 2), (1, 3)))
    counted = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)
    log(counted.roll((1, 2), (1, 3)), counted.roll(1, 0), counted.roll((1, 1, 2), (-1, 2, 1)))
    log(torch.linalg.cross(a.expand(3, 3, 2), a.expand(3, 3, 2), dim=0).stride())


def turned(torch, shape, order):
    """A tensor whose dimensions lie in memory in this order, from the slowest."""
    back = [order.index(d) for d in range(len(shape))]
    return torch.ones([shape[d] for d in order]).permute(back)


@program
def parts_of_images_in_channels_last_order(torch, log):
    """The result is in that order too, whether or not the part has gaps in memory."""
    F = torch.nn.functional
    images = torch.arange(384.0).view(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    volumes = torch.arange(384.0).view(2, 3, 4, 4, 4)
    volumes = volumes.contiguous(memory_format=torch.channels_last_3d)
    for x in (images[..., ::2], images[:, :, ::2], images[:, 1:], images[:, :, 2:], images[::2]):
        log(F.max_pool2d(x, 2).stride(), F.avg_pool2d(x, 2).stride())
        log([i.stride() for i in F.max_pool2d(x, 2, return_indices=True)])
        log(F.adaptive_max_pool2d(x, 2).stride(), F.adaptive_avg_pool2d(x, 2).stride())
        for mode in ("nearest", "bilinear", "bicubic", "area"):
            log(F.interpolate(x, size=(3, 5), mode=mode).stride())
        log(F.pad(x, (1, 1, 1, 1), mode="replicate").stride())
    for x in (volumes[..., ::2], volumes[:, :, ::2], volumes[:, 1:]):
        log(F.interpolate(x, scale_factor=2).stride())
        log(F.interpolate(x, scale_factor=2, mode="trilinear").stride())
