"""Corners of the everyday functions: numbers at the edge of a dtype, odd indices, `out=`."""

import math

from programs.harness import program

NAN, INF = math.nan, math.inf


def attempts(log, *actions):
    """Log what each action gives, or how it is refused."""
    for action in actions:
        try:
            log(action())
        except Exception:
            log.raises(action)


@program
def numbers_that_fit(torch, log):
    def small():
        return torch.zeros(2, dtype=torch.int8)

    def single():
        return torch.zeros(2)

    def half():
        return torch.zeros(2, dtype=torch.half)

    attempts(
        log,
        lambda: single().fill_(1e300),
        lambda: half().fill_(1e10),
        lambda: small().fill_(300),
        lambda: small().fill_(NAN),
        lambda: small().fill_(127.5),
        lambda: torch.zeros(2, dtype=torch.uint8).fill_(-1),
        lambda: torch.zeros(2, dtype=torch.uint8).fill_(-300),
        lambda: torch.zeros(2, dtype=torch.uint8).fill_(-0.5),
        lambda: torch.zeros(2, dtype=torch.long).fill_(2**63),
        lambda: torch.zeros(2, dtype=torch.bool).fill_(1j),
        lambda: torch.zeros(2, dtype=torch.complex64).fill_(1e300j),
        lambda: torch.full((1,), 1e300, dtype=torch.complex64),
        lambda: torch.full((1,), 127.5, dtype=torch.int8),
        lambda: single().copy_(1e300),
        lambda: small().copy_(300),
        lambda: single().clamp(max=1e300),
        lambda: small().clamp_min(300),
        lambda: small().clamp(max=300.5),
        lambda: single().add(torch.ones(2), alpha=1e300),
        lambda: small().sub(small(), alpha=300),
        lambda: single().addcmul(single(), single(), value=1e300),
        lambda: torch.addmm(torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1, 1), beta=1e300),
        lambda: small().index_add(0, torch.tensor([0]), small()[:1], alpha=300),
        lambda: torch.nn.functional.pad(small(), (1, 1), value=300),
        lambda: torch.where(torch.tensor([True, False]), single(), 1e300),
        lambda: torch.where(torch.tensor([True, False]), 300, small()),
        lambda: small().pow(300),
        lambda: half().pow(1e300),
        lambda: single().pow(1e300),
        lambda: torch.ones(1, dtype=torch.complex64) * 1e300,
    )


@program
def assigned_numbers(torch, log):
    def assigned(dtype, index, value):
        x = torch.zeros(2, dtype=dtype)
        x[index] = value
        return x

    mask = torch.tensor([True, False])
    attempts(
        log,
        lambda: assigned(torch.half, 0, 1j),
        lambda: assigned(torch.half, 0, 1e300),
        lambda: assigned(torch.float, 0, 1e300),
        lambda: assigned(torch.bool, 0, 1j),
        lambda: assigned(torch.long, 0, 2**70),
        lambda: assigned(torch.uint8, mask, torch.tensor(2.5)),
        lambda: assigned(torch.uint8, mask, torch.tensor(1e30)),
        lambda: assigned(torch.bool, mask, torch.tensor([2.5])),
        lambda: assigned(torch.float, torch.tensor([0]), torch.tensor(1)),
        lambda: assigned(torch.float, torch.tensor([0]), torch.tensor([1, 2, 3])),
    )
    value = torch.tensor(2.5, requires_grad=True)
    x = torch.zeros(2, dtype=torch.double)
    x[mask] = value
    x.sum().backward()
    log(x, value.grad)


@program
def complex_to_real(torch, log):
    torch.set_warn_always(True)
    try:
        log.warns(lambda: torch.tensor([1j]).float())
        log.warns(lambda: torch.zeros(1).copy_(torch.tensor([1j])))
        log.warns(lambda: torch.zeros(1).fill_(torch.tensor(1j)))
        log.warns(lambda: torch.tensor([1j]).bool())
    finally:
        torch.set_warn_always(False)


@program
def odd_indices(torch, log):
    x = torch.arange(9).reshape(3, 3)
    attempts(
        log,
        lambda: reversed(x),
        lambda: reversed(torch.tensor(3)),
        lambda: x[0, 0, "a"],
        lambda: x[5, "a"],
        lambda: x["a", 5],
        lambda: x[[]],
        lambda: x[:, []],
        lambda: x[[True, False, True]],
        lambda: x[[True, False, True], [1, 2]],
        lambda: x[[True, False]],
    )
    log.warns(lambda: log.raises(lambda: x["a"]))
    log.raises(lambda: torch.meshgrid(torch.arange(3), torch.ones(2), indexing="ij"))


@program
def nan_in_searches(torch, log):
    edges = torch.tensor([1.0, 2.0, INF, NAN])
    values = torch.tensor([NAN, INF, 1.5, -INF])
    for right in (False, True):
        log(torch.searchsorted(edges, values, right=right))
        log(torch.bucketize(values, edges, right=right))
        log(torch.searchsorted(edges.repeat(2, 1), values.repeat(2, 1), right=right))


@program
def promoted_losses(torch, log):
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    dtypes = (torch.half, torch.bfloat16, torch.float, torch.double)
    for a in dtypes:
        for b in dtypes:
            x = torch.tensor([0.5, -1.0], dtype=a, requires_grad=True)
            y = torch.tensor([1.0, 0.25], dtype=b)
            out = loss(x, y)
            out.backward()
            log(out.dtype, out.double().item() if a is b else None, x.grad.dtype)
    log.raises(lambda: loss(torch.zeros(2), torch.ones(2, dtype=torch.bool)))
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    log(torch.lerp(a, b, torch.tensor(0.5, dtype=torch.double)))
    log.raises(lambda: torch.lerp(a, b, torch.tensor([0.5], dtype=torch.double)))
    log.raises(lambda: torch.lerp(a.long(), b.long(), 0.5))


@program
def tensors_as_numbers(torch, log):
    a, two = torch.ones(2, 2), torch.tensor(2.0)
    attempts(
        log,
        lambda: torch.add(a, a, alpha=two),
        lambda: torch.add(a, a, alpha=two.reshape(1)),
        lambda: a.clone().add_(a, alpha=two.clone().requires_grad_()),
        lambda: torch.sub(a, a, alpha=two),
        lambda: torch.addcmul(a, a, a, value=two),
        lambda: a.clone().addcdiv_(a, a, value=two.clone().requires_grad_()),
        lambda: torch.addmm(a, a, a, alpha=two, beta=two),
    )


@program
def steps_with_gradients(torch, log):
    """Two steps of a differentiable optimizer, and the gradients through them."""

    def stepped(name, **options):
        start = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
        knob = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
        options = {k: knob if v is None else v for k, v in options.items()}
        if "betas" in options:
            options["betas"] = tuple([knob if b is None else b for b in options["betas"]])
        p = start.clone()
        optimizer = getattr(torch.optim, name)([p], differentiable=True, **options)
        for scale in (0.3, 0.2):
            p.grad = start * scale + 0.1
            optimizer.step()
        grads = torch.autograd.grad(p.sum(), [start, knob], allow_unused=True)
        return [p.tolist(), *[None if g is None else g.tolist() for g in grads]]

    for name in ("SGD", "Adam", "AdamW", "RAdam", "NAdam", "Adagrad", "Adadelta", "RMSprop"):
        for options in ({}, {"lr": None}, {"weight_decay": None}, {"weight_decay": 0.1}):
            attempts(log, lambda name=name, options=options: stepped(name, **options))
    for name in ("Adam", "AdamW"):
        for betas in ((None, 0.9), (0.9, None)):
            attempts(log, lambda name=name, betas=betas: stepped(name, betas=betas))


@program
def batches_of_nothing(torch, log):
    torch.manual_seed(0)
    for kind in ("RNN", "GRU", "LSTM"):
        layer = getattr(torch.nn, kind)(3, 4, num_layers=2, bidirectional=True)
        x = torch.zeros(2, 0, 3, requires_grad=True)
        out, state = layer(x)
        out.sum().backward()
        log(
            out.shape,
            state[0].shape,
            x.grad.shape,
            [p.grad.abs().sum() for p in layer.parameters()],
        )


@program
def channels_stay_last(torch, log):
    functional = torch.nn.functional
    x = torch.zeros(2, 8, 4, 4).contiguous(memory_format=torch.channels_last)
    volume = torch.zeros(2, 4, 4, 4, 4).contiguous(memory_format=torch.channels_last_3d)
    for mode in ("constant", "reflect", "replicate", "circular"):
        log(functional.pad(x, (1, 1, 1, 1), mode=mode).stride())
        log(functional.pad(volume, (1, 1, 1, 1, 1, 1), mode=mode).stride())
    log(functional.pixel_shuffle(x, 2).stride(), functional.pixel_unshuffle(x, 2).stride())
    log(functional.channel_shuffle(x, 2).stride(), functional.channel_shuffle(volume, 2).stride())


@program
def extra_state_without_a_taker(torch, log):
    class Giver(torch.nn.Module):
        def get_extra_state(self):
            return 3

    module = Giver()
    log.raises(lambda: module.load_state_dict(module.state_dict()))
    log(str(module.load_state_dict(module.state_dict(), strict=False)))


@program
def functional_out(torch, log):
    functional = torch.nn.functional
    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    calls = [
        lambda out: functional.gelu(x, out=out),
        lambda out: functional.softplus(x, out=out),
        lambda out: functional.logsigmoid(x, out=out),
        lambda out: functional.hardshrink(x, out=out),
        lambda out: functional.softshrink(x, out=out),
        lambda out: functional.normalize(x, out=out),
        lambda out: functional.linear(x, torch.ones(4, 3), out=out),
        lambda out: functional.avg_pool2d(torch.ones(1, 1, 4, 4), 2, out=out),
        lambda out: functional.avg_pool3d(torch.ones(1, 1, 4, 4, 4), 2, out=out),
    ]
    for call in calls:
        out = torch.empty(0)
        log(call(out), call(out) is out)
        log.raises(lambda call=call: call(torch.empty(0, dtype=torch.long)))
    log.raises(lambda: functional.gelu(x, out=torch.empty(0, requires_grad=True)))
    log.raises(lambda: functional.linear(x, x, out=torch.empty(0, requires_grad=True)))
    for name in ("sum", "prod", "cumsum", "cumprod"):
        log(getattr(torch, name)(x * 3, 0, out=torch.empty(0, dtype=torch.long)))
