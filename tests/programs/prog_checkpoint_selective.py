"""Selective checkpointing and `torch.ops.aten`: what policies see, and what is kept for them."""

import functools
from importlib import import_module

from programs.harness import program

# The first warning would make this name while the harness walks over the module.
__warningregistry__ = {}


def module(torch):
    return import_module(torch.__name__ + ".utils.checkpoint")


def weights(torch, *shape):
    return torch.linspace(-1.0, 1.0, 6 if not shape else shape[0] * shape[1]).reshape(
        shape or (2, 3)
    )


def leaf(torch, *shape):
    return weights(torch, *shape).clone().requires_grad_()


def selected(torch, function, policy, *args, allow=False, **options):
    """function(*args) in a checkpoint with a policy (or a list of ops)."""
    utils = module(torch)
    contexts = functools.partial(
        utils.create_selective_checkpoint_contexts, policy, allow_cache_entry_mutation=allow
    )
    return utils.checkpoint(function, *args, use_reentrant=False, context_fn=contexts, **options)


def watching(torch, seen, keep=()):
    """A policy that notes the ops it is asked about."""
    policy = module(torch).CheckpointPolicy

    def decide(ctx, op, *args, **kwargs):
        seen.append(str(op))
        return policy.MUST_SAVE if str(op) in keep else policy.PREFER_RECOMPUTE

    return decide


def compare(torch, log, function, policy, *shapes, **options):
    """Gradients with and without: they have to be bit-equal."""
    shapes = shapes or ((2, 3),)
    plain = [leaf(torch, *s) for s in shapes]
    torch.manual_seed(3)
    function(*plain).sum().backward()
    args = [leaf(torch, *s) for s in shapes]
    torch.manual_seed(3)
    selected(torch, function, policy, *args, **options).sum().backward()
    log([torch.equal(a.grad, b.grad) for a, b in zip(plain, args, strict=True)])


# --- what policies see -----------------------------------------------------------------------


def ops_of(torch, log, function, *args):
    seen = []
    selected(torch, function, watching(torch, seen), *args)
    log(seen)


@program
def arithmetic(torch, log):
    x, y = leaf(torch), leaf(torch)
    ops_of(torch, log, lambda a, b: a + b - a * b / 2, x, y)
    ops_of(torch, log, lambda a: 1 + 2 * a - 3, x)
    ops_of(torch, log, lambda a: 1 - a, x)
    ops_of(torch, log, lambda a: 1 / a, x)
    ops_of(torch, log, lambda a: -(a**2) + 2**a, x)
    ops_of(torch, log, lambda a, b: a**b, x, y)
    ops_of(torch, log, lambda a: a % 2, x)
    ops_of(torch, log, lambda a, b: torch.add(a, b, alpha=2), x, y)
    ops_of(torch, log, lambda a: a.sin().exp().tanh().sqrt().abs().log(), x)
    ops_of(torch, log, lambda a: torch.clamp(a, 0, 1).clamp_min(0).round().sigmoid(), x)
    ops_of(torch, log, lambda a, b: torch.maximum(a, b).lerp(b, 0.5), x, y)


@program
def comparisons(torch, log):
    x, y = leaf(torch), leaf(torch)
    ops_of(torch, log, lambda a, b: (a > 0) & (a <= b) | (a == b) | (a != 0.5), x, y)
    ops_of(torch, log, lambda a: (a > 0).all(), x)
    ops_of(torch, log, lambda a: (a > 0).any(0), x)
    ops_of(torch, log, lambda a: torch.where(a > 0, a, a * 2), x)
    ops_of(torch, log, lambda a: a.masked_fill(a > 0, 1.0), x)


@program
def reductions(torch, log):
    x = leaf(torch)
    ops_of(torch, log, lambda a: a.sum() + a.mean() + a.max() + a.min() + a.prod(), x)
    ops_of(torch, log, lambda a: a.sum(0) + a.mean(0) + a.prod(0) + a.amax(0), x)
    ops_of(torch, log, lambda a: a.max(0).values + a.min(0).values + a.median(0).values, x)
    ops_of(torch, log, lambda a: a.var(0) + a.std(0) + a.logsumexp(0), x)
    ops_of(torch, log, lambda a: a.norm() + a.norm(dim=0).sum(), x)
    ops_of(torch, log, lambda a: a.cumsum(0) + a.cumprod(1), x)
    ops_of(torch, log, lambda a: (a.argmax(), a.sort(0)[0], a.topk(1)[0]), x)


@program
def shapes(torch, log):
    x = leaf(torch)
    ops_of(torch, log, lambda a: a.view(6).reshape(3, 2).t(), x)
    ops_of(torch, log, lambda a: a.transpose(0, 1).permute(1, 0).unsqueeze(0).squeeze(0), x)
    ops_of(torch, log, lambda a: a.expand(4, 2, 3).contiguous(), x)
    ops_of(torch, log, lambda a: a[0] + a[1:, 1], x)
    ops_of(torch, log, lambda a: torch.cat([a, a]) + torch.stack([a, a]).flatten(0, 1), x)
    ops_of(torch, log, lambda a: a.split(1)[0] + a.chunk(2, 1)[0] + a.unbind(1)[0], x)
    ops_of(torch, log, lambda a: a.double().float(), x)
    ops_of(torch, log, lambda a: a.clone().flip(0).roll(1, 0).tril(), x)


@program
def products(torch, log):
    x, y = leaf(torch), leaf(torch, 3, 4)
    ops_of(torch, log, lambda a, b: a @ b, x, y)
    ops_of(torch, log, lambda a, b: torch.einsum("ij,jk->ik", a, b), x, y)
    ops_of(torch, log, lambda a, b: a.expand(5, 2, 3) @ b, x, y)
    ops_of(torch, log, lambda a, b: torch.bmm(a[None], b[None]), x, y)
    ops_of(torch, log, lambda a, b: a[0] @ b, x, y)
    ops_of(torch, log, lambda a, b: a @ b[:, 0], x, y)
    ops_of(torch, log, lambda a: a[0] @ a[1], x)
    ops_of(torch, log, lambda a, b: torch.addmm(a[0, :1], a, b, beta=2), x, y)


@program
def layers(torch, log):
    nn = torch.nn
    x = leaf(torch)
    ops_of(torch, log, nn.Linear(3, 4), x)
    ops_of(torch, log, nn.Linear(3, 4, bias=False), x)
    ops_of(torch, log, nn.Sequential(nn.ReLU(), nn.GELU(), nn.SiLU(), nn.Sigmoid()), x)
    ops_of(torch, log, nn.Softmax(-1), x)
    ops_of(torch, log, nn.LogSoftmax(-1), x)
    ops_of(torch, log, nn.LayerNorm(3), x)
    ops_of(torch, log, lambda a: nn.functional.mse_loss(a, a * 2), x)
    target = torch.tensor([0, 1])
    ops_of(torch, log, lambda a: nn.functional.cross_entropy(a, target), x)
    ops_of(torch, log, nn.Conv1d(2, 3, 2), x[None])
    ops_of(torch, log, nn.Embedding(4, 3), torch.tensor([1, 2]))
    ops_of(torch, log, nn.MaxPool2d(2), x[None].expand(1, 2, 3))
    ops_of(torch, log, lambda a: nn.functional.dropout(a, 0.0, False) * 2, x)


@program
def arguments(torch, log):
    policy = module(torch).CheckpointPolicy

    def shape(value):
        return list(value.shape) if isinstance(value, torch.Tensor) else value

    def decide(ctx, op, *args, **kwargs):
        log(str(op), [shape(a) for a in args], kwargs)
        log(type(ctx).__name__, ctx.is_recompute, shape(ctx.op_output), ctx.op_output.requires_grad)
        return policy.PREFER_RECOMPUTE

    net = torch.nn.Linear(3, 4)
    y = selected(torch, lambda a: (net(a).sin() * 2).sum(1), decide, leaf(torch))
    y.sum().backward()
    w = leaf(torch, 3, 4)
    selected(torch, lambda a, b: torch.addmm(b[0], a, b, beta=2), decide, leaf(torch), w)


@program
def results(torch, log):
    policy = module(torch).CheckpointPolicy

    def decide(ctx, op, *args, **kwargs):
        out = ctx.op_output
        log(str(op), len(out) if isinstance(out, tuple) else out.tolist())
        return policy.MUST_SAVE

    y = selected(torch, lambda a: a.max(0)[0] * 2, decide, leaf(torch))
    y.sum().backward()


@program
def policies_are_asked_once(torch, log):
    for keep in ((), ("aten.mm.default",), ("aten.sin.default", "aten.exp.default")):
        seen = []
        x, w = leaf(torch), leaf(torch, 3, 4)
        y = selected(torch, lambda a, b: (a @ b).sin().exp(), watching(torch, seen, keep), x, w)
        log(seen)
        y.sum().backward()
        log(seen)


@program
def ignored_ops(torch, log):
    seen = []
    x = leaf(torch)
    selected(torch, lambda a: a.detach().size(0) * a.numel() * a.sin(), watching(torch, seen), x)
    log(seen)
    names = {str(op) for op in module(torch).SAC_IGNORED_OPS}
    wanted = "detach dim is_contiguous numel size storage_offset stride"
    log([f"aten.{name}.default" in names for name in wanted.split()])


# --- what comes out --------------------------------------------------------------------------


def block(a, b):
    return ((a @ b).sin().exp() @ b.t()).tanh() * a


@program
def gradients_are_bit_equal(torch, log):
    aten = torch.ops.aten
    both = ((2, 3), (3, 4))
    lists = [
        [],
        [aten.mm.default],
        [aten.mm.default, aten.sin.default],
        [aten.exp.default],
        [aten.tanh.default, aten.mul.Tensor],
        [aten.t.default, aten.mm.default],
    ]
    for ops in lists:
        for early in (True, False):
            compare(torch, log, block, ops, *both, early_stop=early)


@program
def every_policy(torch, log):
    policies = module(torch).CheckpointPolicy
    for policy in policies:
        compare(torch, log, block, lambda *a, p=policy, **k: p, (2, 3), (3, 4))
    for answer in (True, False, None, 1, "MUST_SAVE"):
        compare(torch, log, block, lambda *a, p=answer, **k: p, (2, 3), (3, 4))


@program
def several_results(torch, log):
    aten = torch.ops.aten

    def function(a):
        values, where = (a * 2).sort(1)
        return values.exp() * a.gather(1, where)

    compare(torch, log, function, [aten.sort.default])
    compare(torch, log, function, [aten.gather.default, aten.sort.default])
    compare(torch, log, lambda a: a.sin().max(1)[0].exp(), [aten.max.dim])
    compare(torch, log, lambda a: a.sin().split(1)[0].exp(), [aten.split.Tensor])


@program
def linear_of_a_transposed_input(torch, log):
    aten = torch.ops.aten
    net = torch.nn.Linear(3, 4)

    def function(a):
        return net(a.expand(5, 2, 3).transpose(0, 1)).sin()

    for ops in ([], [aten.mm.default], [aten.mm.default, aten.sin.default]):
        compare(torch, log, function, ops)


@program
def views_are_kept_views(torch, log):
    aten = torch.ops.aten
    compare(torch, log, lambda a: (a * 2).view(6).sin(), [aten.view.default])
    compare(torch, log, lambda a: (a * 2).t().sin() * a.t(), [aten.t.default, aten.mul.Tensor])
    compare(torch, log, lambda a: (a * 2)[0].exp(), [aten.select.int])


@program
def random_numbers(torch, log):
    def function(a):
        return torch.nn.functional.dropout(a.sin(), 0.5).exp() * torch.rand(2, 3)

    aten = torch.ops.aten
    for ops in ([], [aten.sin.default], [aten.exp.default, aten.mul.Tensor]):
        compare(torch, log, function, ops)


@program
def layers_in_a_row(torch, log):
    aten = torch.ops.aten
    torch.manual_seed(0)
    nets = [torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()) for _ in range(3)]
    grads = []
    for ops in (None, [], [aten.addmm.default], [aten.relu.default]):
        h = leaf(torch)
        for net in nets:
            h = net(h) if ops is None else selected(torch, net, ops, h)
        h.sum().backward()
        grads.append([p.grad.clone() for net in nets for p in net.parameters()])
        for net in nets:
            net.zero_grad()
    log([all(map(torch.equal, grads[0], other)) for other in grads[1:]])


@program
def nested(torch, log):
    seen, inner_seen = [], []

    def inner(a):
        return selected(torch, lambda t: t.sin().exp(), inner_policy, a) * 2

    inner_policy = watching(torch, inner_seen, ("aten.sin.default",))
    x = leaf(torch)
    y = selected(torch, inner, watching(torch, seen, ("aten.exp.default",)), x)
    log(seen, inner_seen)
    y.sum().backward()
    log(seen, inner_seen)
    plain = leaf(torch)
    (plain.sin().exp() * 2).sum().backward()
    log(torch.equal(x.grad, plain.grad))


@program
def inside_of_a_plain_checkpoint(torch, log):
    aten = torch.ops.aten
    x, w = leaf(torch), leaf(torch, 3, 4)

    def function(a, b):
        return selected(torch, lambda s, t: (s @ t).sin(), [aten.mm.default], a, b).exp()

    module(torch).checkpoint(function, x, w, use_reentrant=False).sum().backward()
    plain, v = leaf(torch), leaf(torch, 3, 4)
    (plain @ v).sin().exp().sum().backward()
    log(torch.equal(x.grad, plain.grad), torch.equal(w.grad, v.grad))


@program
def with_saved_tensors_hooks(torch, log):
    graph = torch.autograd.graph
    aten = torch.ops.aten
    packed = []

    def pack(t):
        packed.append(list(t.shape))
        return t

    def inside(a):
        with graph.saved_tensors_hooks(pack, lambda t: t):
            return (a * 2).sin().exp()

    def on_cpu(a):
        with graph.save_on_cpu():
            return (a * 2).sin().exp()

    compare(torch, log, inside, [aten.sin.default])
    log(packed)
    compare(torch, log, on_cpu, [aten.mul.Tensor])
    with graph.save_on_cpu():
        compare(torch, log, block, [aten.mm.default], (2, 3), (3, 4))


@program
def under_autocast(torch, log):
    aten = torch.ops.aten
    seen = []
    x, w = leaf(torch), leaf(torch, 3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = selected(torch, lambda a, b: (a @ b).sin(), watching(torch, seen), x, w)
    y.sum().backward()
    log(seen, str(y.dtype))
    grads = []
    for ops in ([], [aten.mm.default]):
        x, w = leaf(torch), leaf(torch, 3, 4)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = selected(torch, lambda a, b: (a @ b).sin(), ops, x, w)
        y.sum().backward()
        grads.append((x.grad, w.grad))
    log([torch.equal(a, b) for a, b in zip(*grads, strict=True)])


@program
def under_no_grad(torch, log):
    seen = []
    with torch.no_grad():
        y = selected(torch, lambda a: a.sin().exp(), watching(torch, seen), leaf(torch))
    log(seen, y.requires_grad)


@program
def part_of_the_function_without_grad(torch, log):
    aten = torch.ops.aten

    def function(a):
        with torch.no_grad():
            scale = a.sin().sum()
        return a.exp() * scale

    for ops in ([aten.sin.default], [aten.sum.default, aten.exp.default]):
        compare(torch, log, function, ops)


# --- what goes wrong -------------------------------------------------------------------------


@program
def bad_policies(torch, log):
    utils = module(torch)
    create = utils.create_selective_checkpoint_contexts
    log.raises(lambda: create(3))
    log.raises(lambda: create((torch.ops.aten.mm.default,)))
    log.raises(lambda: create(["mm"]))
    try:
        create([torch.ops.aten.mm])
    except ValueError as error:
        log(str(error).partition(" of type ")[0], str(error).partition(">. ")[2])
    log.raises(lambda: selected(torch, lambda a: a.sin(), lambda *a, **k: 1 / 0, leaf(torch)))


@program
def backward_twice(torch, log):
    aten = torch.ops.aten
    for ops in ([], [aten.sin.default], [aten.exp.default]):
        x = leaf(torch)
        y = selected(torch, lambda a: a.sin().exp(), ops, x).sum()
        y.backward(retain_graph=True)
        log.raises(lambda y=y: y.backward())


@program
def last_op_is_not_asked_for(torch, log):
    aten = torch.ops.aten
    x, w = leaf(torch), leaf(torch, 3, 4)
    y = selected(torch, lambda a, b: a.sin() @ b, [aten.mm.default], x, w).sum()
    y.backward(retain_graph=True)
    log.raises(lambda: y.backward())
    y = selected(torch, lambda a, b: a.sin() @ b, [aten.mm.default], x, w)
    y.mul_(2)
    log.raises(lambda: y.sum().backward())


@program
def create_graph(torch, log):
    aten = torch.ops.aten
    for ops in ([], [aten.sin.default]):
        x = leaf(torch)
        y = selected(torch, lambda a: (a.sin() * a).exp(), ops, x).sum()

        def run(x=x, y=y):
            (g,) = torch.autograd.grad(y, x, create_graph=True)
            (h,) = torch.autograd.grad(g.sum(), x)
            return g.tolist(), h.tolist()

        log.raises(run)


def mutating(a):
    y = a.sin()
    z = y.exp()
    y.add_(1)
    return z * 2


@program
def kept_and_written(torch, log):
    aten = torch.ops.aten
    for allow in (False, True):
        x = leaf(torch)
        y = selected(torch, mutating, [aten.sin.default], x, allow=allow)
        log.raises(lambda x=x, y=y: (y.sum().backward(), x.grad.tolist())[1])


def changing(*bodies):
    calls = []

    def function(*args):
        calls.append(1)
        return bodies[min(len(calls), len(bodies)) - 1](*args)

    return function


@program
def other_ops_the_second_time(torch, log):
    aten = torch.ops.aten
    bodies = [
        (lambda a: a.sin().exp(), lambda a: a.cos().exp()),
        (lambda a: a.sin().exp(), lambda a: a.sin().sin().exp()),
        (lambda a: a.sin().exp(), lambda a: (a.sin() + a).exp()),
        (lambda a: (a.sin() + 1).exp(), lambda a: a.sin().exp()),
        (lambda a: a.sin().exp(), lambda a: a[:1].sin().exp()),
    ]
    for first, then in bodies:
        for ops in ([], [aten.sin.default]):
            for early in (True, False):
                x = leaf(torch)
                y = selected(torch, changing(first, then), ops, x, early_stop=early)
                log.raises(lambda x=x, y=y: (y.sum().backward(), list(x.grad.shape))[1])


@program
def debug_needs_the_default_contexts(torch, log):
    log.raises(lambda: selected(torch, lambda a: a.sin(), [], leaf(torch), debug=True))


# --- names -----------------------------------------------------------------------------------


@program
def policy_names(torch, log):
    utils = module(torch)
    log([repr(p) for p in utils.CheckpointPolicy])
    log(vars(utils.SelectiveCheckpointContext(is_recompute=True)))
    log.raises(lambda: utils.SelectiveCheckpointContext(True))
    forward, again = utils.create_selective_checkpoint_contexts([])
    with forward:
        log(torch.ones(1).cos().requires_grad)
    with again:
        log.raises(lambda: torch.ones(1).sin())


@program
def names_of_ops(torch, log):
    aten = torch.ops.aten
    for op in (aten.mm.default, aten.add.Tensor, aten._softmax.default, aten.sum.dim_IntList):
        log(str(op), repr(op), op.name(), op.__name__, op.namespace, op._overloadname)
        log(str(op.overloadpacket), repr(op.overloadpacket), op.overloadpacket.__name__)
    log(aten.mm.default is aten.mm.default, aten.mm.default == aten.mm.default)
    log(aten.mm.default == aten.mm, aten.mm.default == aten.bmm.default)
    log(aten.mm.default in {aten.mm.default, aten.addmm.default}, aten.mm in [aten.mm])
    log(repr(aten), aten.__name__)
    log(hasattr(aten, "no_such_op"), hasattr(aten.mm, "no_such_overload"))
    log.raises(lambda: aten.no_such_op)
    log.raises(lambda: aten.mm.no_such_overload)
    log("default" in aten.mm.overloads(), "Tensor" in aten.add.overloads())


@program
def ops_that_lists_name(torch, log):
    names = """
    mm.default addmm.default bmm.default baddbmm.default convolution.default max.default
    _scaled_dot_product_flash_attention.default _scaled_dot_product_efficient_attention.default
    _scaled_dot_product_flash_attention_for_cpu.default native_layer_norm.default
    native_dropout.default _softmax.default _log_softmax.default gelu.default silu.default
    relu.default relu_.default add_.Tensor mul_.Tensor sum.default sum.dim_IntList topk.default
    linear.default matmul.default _to_copy.default native_batch_norm.default embedding.default
    """
    for name in names.split():
        packet, overload = name.split(".")
        log(str(getattr(getattr(torch.ops.aten, packet), overload)))


@program
def ops_are_called(torch, log):
    aten = torch.ops.aten
    x = weights(torch)
    log(aten.mm.default(x, x.t()).tolist(), aten.mm(x, x.t()).tolist())
    log(aten.add.Tensor(x, 1).tolist(), aten.add.Tensor(x, x, alpha=2).tolist())
    log(aten.sum.default(x + 1).tolist(), aten.sum.dim_IntList(x, [0]).tolist())
    log(aten.max.dim(x, 0)[0].tolist(), aten.max.default(x).tolist())
    log(aten._softmax.default(x, 1, False).tolist())
    log(aten.view.default(x, [6]).tolist(), aten.transpose.int(x, 0, 1).tolist())
    log(aten.relu.default(x).tolist(), aten.gelu.default(x).tolist())
    log(str(aten._to_copy.default(x, dtype=torch.float64).dtype))
    log(aten.select.int(x, 0, 1).tolist(), aten.pow.Tensor_Scalar(x, 2).tolist())
    log(aten.linear.default(x, x).shape, aten.size.default(x), aten.stride.default(x))
    y = x.clone()
    aten.add_.Tensor(y, 1)
    log(y.tolist())
    z = leaf(torch)
    aten.exp.default(z).sum().backward()
    log(z.grad.tolist())
