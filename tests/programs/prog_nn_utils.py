"""nn.utils: clipping, norms by hook, parametrizations, pruning, fusion, functional_call."""

import importlib
import warnings

from programs.gradients import plain
from programs.harness import program


def with_grads(torch, *values):
    made = []
    for v in values:
        p = torch.nn.Parameter(torch.zeros_like(torch.tensor(v)))
        p.grad = torch.tensor(v)
        made.append(p)
    return made


def layer_of(torch, inputs=2, outputs=3):
    return torch.nn.Linear(inputs, outputs, dtype=torch.float64)


def ones(torch, *shape):
    return torch.ones(*shape, dtype=torch.float64)


def names(module):
    parameters = [n for n, _ in module.named_parameters()]
    return [parameters, [n for n, _ in module.named_buffers()], list(module.state_dict())]


def gradients(log, module):
    log([[n, plain(p.grad)] for n, p in module.named_parameters()])


# ---------------------------------------------------------------------- gradients and vectors


@program
def clipping_by_norm(torch, log):
    clip = torch.nn.utils.clip_grad_norm_
    for kind in (2, 1, float("inf"), 0, -float("inf"), 3.5, "inf"):
        p = with_grads(torch, [3.0, 4.0], [0.0, 12.0])
        log(clip(p, 1.0, norm_type=kind), [plain(q.grad) for q in p])
    p = with_grads(torch, [3.0, 4.0])
    log(clip(p[0], 10.0), plain(p[0].grad), clip(p, 1, foreach=True), clip([], 1.0))
    log(clip([torch.nn.Parameter(torch.ones(1))], 1.0))
    log.warns(lambda: clip((q for q in ()), 1.0))
    log.raises(lambda: clip(with_grads(torch, [float("inf")]), 1.0, error_if_nonfinite=True))
    log.raises(lambda: clip(p, 1.0, norm_type="fro"))
    p = with_grads(torch, [float("inf"), 1.0])
    log(clip(p, 1.0), plain(p[0].grad))
    log.warns(lambda: torch.nn.utils.clip_grad_norm(with_grads(torch, [3.0, 4.0]), 1.0))


@program
def norms_and_values(torch, log):
    utils = torch.nn.utils
    log(utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])]))
    log(utils.get_total_norm(torch.tensor([3.0, 4.0])), utils.get_total_norm([]))
    log(utils.get_total_norm(t for t in [torch.tensor([3.0])]))
    nan = torch.tensor([float("nan")])
    log.raises(lambda: utils.get_total_norm([nan], error_if_nonfinite=True))
    p = with_grads(torch, [3.0, -4.0], [0.5])
    utils.clip_grads_with_norm_(p, 1.0, torch.tensor(5.0))
    log([plain(q.grad) for q in p])
    p = with_grads(torch, [3.0, -4.0], [0.5])
    utils.clip_grad_value_(p, 1)
    log([plain(q.grad) for q in p])


@program
def vectors(torch, log):
    utils = torch.nn.utils
    p = [torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.zeros(1))]
    log(utils.parameters_to_vector(p))
    utils.vector_to_parameters(torch.arange(5.0), p)
    log(p)
    log.raises(lambda: utils.vector_to_parameters(3, p))
    log.raises(lambda: utils.parameters_to_vector([]))
    log.raises(lambda: utils.parameters_to_vector([torch.ones(2, 3).t()]))


# ---------------------------------------------------------------------- norms by hook


@program
def weight_norm_by_hook(torch, log):
    utils, nn = torch.nn.utils, torch.nn
    warnings.simplefilter("ignore")
    m = utils.weight_norm(layer_of(torch))
    log(names(m), m.weight, m.weight_g, m.weight_v, repr(m))
    m(ones(torch, 1, 2)).sum().backward()
    gradients(log, m)
    for dim in (None, 1, -1):
        conv = utils.weight_norm(nn.Conv2d(2, 3, 2), dim=dim)
        log(conv.weight_g.shape, conv.weight.shape, conv(torch.ones(1, 2, 3, 3)).shape)
    log.raises(lambda: utils.weight_norm(m))
    log.raises(lambda: utils.weight_norm(nn.Linear(1, 1), "foo"))
    log.raises(lambda: utils.remove_weight_norm(m, "foo"))
    log(names(utils.remove_weight_norm(m)), m.weight)
    log.raises(lambda: utils.remove_weight_norm(m))
    log.warns(lambda: repr(utils.weight_norm(nn.Linear(1, 1))))
    rnn = utils.weight_norm(nn.LSTM(2, 2), "weight_hh_l0")
    log(names(rnn))
    rnn(torch.ones(1, 1, 2), (torch.ones(1, 1, 2), torch.ones(1, 1, 2)))[0].sum().backward()
    log(plain(rnn.weight_hh_l0_g.grad))


@program
def weight_norm_functions(torch, log):
    v = torch.randn(2, 3, 2, dtype=torch.float64)
    for dim in (0, 1, 2, -1):
        log(torch.norm_except_dim(v, 2, dim))
        g = torch.norm_except_dim(v, 2, dim) * 2
        log(torch._weight_norm(v, g, dim))


@program
def spectral_norm_by_hook(torch, log):
    utils, nn = torch.nn.utils, torch.nn
    m = utils.spectral_norm(layer_of(torch, 4, 3))
    log(names(m), m.weight_u, m.weight_v, m.weight)
    log(m(ones(torch, 1, 4)), m.weight_u)
    m(ones(torch, 1, 4)).sum().backward()
    gradients(log, m)
    m.eval()
    log(m(ones(torch, 1, 4)), m.weight_u, m.state_dict()._metadata)
    for conv in (nn.Conv2d(2, 3, 2), nn.ConvTranspose2d(2, 3, 2)):
        conv = utils.spectral_norm(conv)
        log(conv.weight_u.shape, conv.weight_v.shape)
    other = utils.spectral_norm(layer_of(torch, 4, 3), n_power_iterations=3, eps=1e-6)
    log(other(ones(torch, 1, 4)))
    log(repr(other.load_state_dict(m.state_dict())), other.weight_u)
    log.raises(lambda: other.load_state_dict(layer_of(torch, 4, 3).state_dict()))
    log.raises(lambda: utils.spectral_norm(m))
    log.raises(lambda: utils.spectral_norm(nn.Linear(1, 1), n_power_iterations=0))
    log(names(utils.remove_spectral_norm(m)), m.weight)
    log.raises(lambda: utils.remove_spectral_norm(m))


@program
def spectral_norm_of_old_state(torch, log):
    m = torch.nn.utils.spectral_norm(layer_of(torch, 2, 2))
    m(ones(torch, 1, 2))
    state = {k: v.clone() for k, v in m.state_dict().items() if k != "weight_v"}
    state["weight"] = m.weight.detach().clone()
    other = torch.nn.utils.spectral_norm(layer_of(torch, 2, 2))
    log(repr(other.load_state_dict(state)), other.weight_v)
    log(other.eval()(ones(torch, 1, 2)))


# ---------------------------------------------------------------------- parametrizations


def symmetric(torch, inverse=True):
    class Symmetric(torch.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

    if inverse:
        Symmetric.right_inverse = lambda self, a: a.triu()
    return Symmetric()


def function(torch, name, forward, inverse=None):
    """A module of a given name around plain functions."""
    body = {"forward": lambda self, *x: forward(*x)}
    if inverse is not None:
        body["right_inverse"] = lambda self, a: inverse(a)
    return type(name, (torch.nn.Module,), body)()


@program
def parametrized_weights(torch, log):
    p = torch.nn.utils.parametrize
    m = layer_of(torch, 3, 3)
    log(p.register_parametrization(m, "weight", symmetric(torch)) is m, repr(m), names(m))
    log(
        type(m).__name__, p.type_before_parametrizations(m).__name__, isinstance(m, torch.nn.Linear)
    )
    log(p.is_parametrized(m), p.is_parametrized(m, "weight"), p.is_parametrized(m, "bias"))
    log(m.weight, m.parametrizations.weight.original, m.parametrizations.weight.is_tensor)
    m(ones(torch, 1, 3)).sum().backward()
    gradients(log, m)
    m.weight = torch.eye(3, dtype=torch.float64)
    log(m.weight, m.parametrizations.weight.original)
    p.register_parametrization(m, "weight", torch.nn.Identity())
    log(repr(m.parametrizations))
    log.raises(lambda: setattr(m, "weight", torch.eye(3)))
    log(names(p.remove_parametrizations(m, "weight")), type(m).__name__, m.weight)
    log.raises(lambda: p.remove_parametrizations(m, "weight"))


@program
def several_originals_and_buffers(torch, log):
    p = torch.nn.utils.parametrize
    two = function(torch, "Two", lambda a, b: a + b, lambda a: (a / 4, a * 3 / 4))
    m = p.register_parametrization(layer_of(torch), "weight", two)
    log(names(m), m.weight, m.parametrizations.weight.ntensors)
    m(ones(torch, 1, 2)).sum().backward()
    gradients(log, m)
    m.weight = ones(torch, 3, 2)
    log(m.parametrizations.weight.original1)
    log.raises(lambda: p.remove_parametrizations(m, "weight", leave_parametrized=False))
    log(p.remove_parametrizations(m, "weight").weight)
    exp = function(torch, "Exp", lambda x: x.exp(), lambda a: a.log())
    b = torch.nn.Module()
    b.register_buffer("x", torch.full((2,), 3.0))
    p.register_parametrization(b, "x", exp)
    log(repr(b), names(b), b.x)
    log(names(p.remove_parametrizations(b, "x", leave_parametrized=False)), b.x)


@program
def parametrizations_are_checked(torch, log):
    p = torch.nn.utils.parametrize

    def same(x):
        return x

    bad = {
        "Shape": (lambda x: x[:2], None),
        "Dtype": (lambda x: x.float(), None),
        "Number": (lambda x: 3, None),
        "InverseDtype": (same, lambda a: a.float()),
        "InverseNumber": (same, lambda a: 3),
        "InverseSequence": (same, lambda a: (a, 3)),
        "InverseShape": (same, lambda a: a[:2]),
    }
    for name, (forward, inverse) in bad.items():
        made = function(torch, name, forward, inverse)
        first = layer_of(torch, 3, 3)
        log.raises(lambda m=first, f=made: p.register_parametrization(m, "weight", f))
        second = layer_of(torch, 3, 3)
        p.register_parametrization(second, "weight", symmetric(torch))
        log.raises(lambda m=second, f=made: p.register_parametrization(m, "weight", f))
    shape = function(torch, "Shape", lambda x: x[:2])
    log(p.register_parametrization(layer_of(torch), "weight", shape, unsafe=True).weight.shape)
    log.raises(lambda: p.register_parametrization(layer_of(torch), "foo", shape))
    log.raises(lambda: p.ParametrizationList([], torch.ones(1)))


@program
def cached_parametrizations(torch, log):
    p = torch.nn.utils.parametrize
    calls = []
    count = function(torch, "Count", lambda x: calls.append(1) or x * 1)
    m = p.register_parametrization(layer_of(torch), "weight", count)
    calls.clear()
    log(m.weight is m.weight, len(calls))
    with p.cached(), p.cached():
        log(m.weight is m.weight, len(calls))
    log(m.weight is m.weight, len(calls))


@program
def parametrized_modules_as_wholes(torch, log):
    import copy
    import pickle

    p = torch.nn.utils.parametrize
    m = p.register_parametrization(layer_of(torch, 2, 2), "weight", symmetric(torch))
    other = copy.deepcopy(m)
    log(type(other).__name__, other.weight, repr(other.load_state_dict(m.state_dict())))
    log.raises(lambda: pickle.dumps(m))
    log(m.eval().parametrizations.weight[0].training)
    to = p.transfer_parametrizations_and_params(m, layer_of(torch, 2, 2))
    log(repr(to), bool((to.weight == m.weight).all()))
    nested = torch.nn.Sequential(m, torch.nn.ReLU())
    log(repr(nested), names(nested))


@program
def weight_norm_parametrization(torch, log):
    z = torch.nn.utils.parametrizations
    m = z.weight_norm(layer_of(torch))
    log(repr(m), names(m), m.weight)
    m(ones(torch, 1, 2)).sum().backward()
    gradients(log, m)
    old = {"bias": torch.ones(3), "weight_g": torch.ones(3, 1), "weight_v": torch.ones(3, 2)}
    log(repr(m.load_state_dict(old)), m.weight)
    m.weight = ones(torch, 3, 2) * 2
    log(m.parametrizations.weight.original0)
    log(z.weight_norm(layer_of(torch), dim=None).parametrizations.weight.original0.shape)
    log.raises(lambda: z.weight_norm(layer_of(torch), "foo"))


@program
def spectral_norm_parametrization(torch, log):
    z, nn = torch.nn.utils.parametrizations, torch.nn
    m = z.spectral_norm(layer_of(torch, 4, 3))
    log(repr(m), names(m), m.parametrizations.weight[0]._u, m.weight)
    m(ones(torch, 1, 4)).sum().backward()
    gradients(log, m)
    m.eval()
    log(m.weight, m.parametrizations.weight[0]._v)
    log(z.spectral_norm(nn.ConvTranspose2d(2, 3, 2)).parametrizations.weight[0]._u.shape)
    bias = z.spectral_norm(layer_of(torch), "bias")
    log(names(bias), bias.bias)
    log.raises(lambda: z.spectral_norm(layer_of(torch), n_power_iterations=0))
    log.raises(lambda: z.spectral_norm(layer_of(torch), dim=7))
    log.raises(lambda: z.spectral_norm(layer_of(torch), "foo"))


@program
def orthogonal_parametrization(torch, log):
    z = torch.nn.utils.parametrizations
    for chosen in (None, "matrix_exp", "cayley", "householder"):
        for trivial in (True, False):
            for inputs, outputs in ((3, 3), (2, 4), (4, 2)):
                m = layer_of(torch, inputs, outputs)
                z.orthogonal(m, orthogonal_map=chosen, use_trivialization=trivial)
                weight = m.weight
                (weight * weight.detach().cos()).sum().backward()
                log(plain(weight), names(m))
                log(plain(m.parametrizations.weight.original.grad))
    log.raises(lambda: z.orthogonal(layer_of(torch), orthogonal_map="foo"))
    log.raises(lambda: z.orthogonal(layer_of(torch), "bias"))
    log.raises(lambda: z.orthogonal(layer_of(torch), "foo"))
    m = z.orthogonal(layer_of(torch, 2, 2), use_trivialization=False)
    log.raises(lambda: setattr(m, "weight", torch.eye(2, dtype=torch.float64)))
    m = z.orthogonal(layer_of(torch, 2, 2))
    m.weight = torch.eye(2, dtype=torch.float64)
    log(plain(m.weight))
    log.raises(lambda: setattr(m, "weight", torch.ones(2, 3)))


# ---------------------------------------------------------------------- pruning


def pruning(torch):
    """The module, which is not there before it is imported."""
    return importlib.import_module(f"{torch.__name__}.nn.utils.prune")


@program
def pruning_elements(torch, log):
    p = pruning(torch)
    m = p.identity(layer_of(torch), "weight")
    log(names(m), p.is_pruned(m), m.weight, repr(m))
    m = layer_of(torch, 3, 4)
    p.random_unstructured(m, "weight", 0.5)
    log(m.weight_mask)
    p.l1_unstructured(m, "weight", 2)
    log(m.weight_mask, m.weight)
    hook = next(iter(m._forward_pre_hooks.values()))
    log(type(hook).__name__, len(hook), [type(each).__name__ for each in hook])
    m(ones(torch, 1, 3)).sum().backward()
    log(plain(m.weight_orig.grad))
    log(names(p.remove(m, "weight")), m.weight, p.is_pruned(m))
    log.raises(lambda: p.remove(m, "weight"))
    scores = torch.arange(6.0).view(3, 2)
    log(p.l1_unstructured(layer_of(torch), "weight", 2, importance_scores=scores).weight_mask)
    log(p.custom_from_mask(layer_of(torch), "bias", torch.tensor([1, 0, 1])).bias)


@program
def pruning_channels(torch, log):
    p = pruning(torch)
    m = p.ln_structured(layer_of(torch, 3, 4), "weight", 0.5, 2, 0)
    log(m.weight_mask)
    log(p.ln_structured(m, "weight", 1, 1, 1).weight_mask)
    log(p.l1_unstructured(m, "weight", 1).weight_mask)
    m = p.random_structured(layer_of(torch, 3, 4), "weight", 2, 0)
    log(m.weight_mask, p.random_structured(m, "weight", 0.34, 1).weight_mask)
    for order in (float("inf"), -float("inf"), "fro", 0, 3):
        log(p.ln_structured(layer_of(torch, 3, 4), "weight", 1, order, -1).weight_mask)


@program
def pruning_everywhere(torch, log):
    p = pruning(torch)
    a, b = layer_of(torch, 3, 4), layer_of(torch, 2, 2)
    both = [(a, "weight"), (b, "weight")]
    p.global_unstructured(both, pruning_method=p.L1Unstructured, amount=0.5)
    log(a.weight_mask, b.weight_mask)
    p.global_unstructured(both, pruning_method=p.RandomUnstructured, amount=2)
    log(a.weight_mask, b.weight_mask, p.is_pruned(torch.nn.Sequential(a)))
    log.raises(lambda: p.global_unstructured(both, p.L1Unstructured, importance_scores=3, amount=1))
    log.raises(lambda: p.global_unstructured(3, p.L1Unstructured, amount=1))


@program
def pruning_refuses(torch, log):
    p = pruning(torch)
    for amount in (-1, 1.5, 13, "a", -0.1):
        log.raises(lambda a=amount: p.l1_unstructured(layer_of(torch), "weight", a))
    for amount in (0, 1.0, 6):
        log(p.l1_unstructured(layer_of(torch), "weight", amount).weight_mask)
    log.raises(lambda: p.l1_unstructured(layer_of(torch), "foo", 1))
    log.raises(lambda: p.ln_structured(layer_of(torch), "weight", 1, 2, 5))
    log.raises(lambda: p.ln_structured(layer_of(torch), "bias", 1, 2, 0))
    log.raises(lambda: p.ln_structured(layer_of(torch), "weight", 5, 2, 0))
    log.raises(lambda: p.custom_from_mask(layer_of(torch), "bias", torch.ones(2)))
    scores = torch.ones(3)
    log.raises(lambda: p.l1_unstructured(layer_of(torch), "weight", 1, importance_scores=scores))
    m = layer_of(torch)
    log.raises(lambda: p.l1_unstructured(m, "weight", 100))
    log(names(m))

    class Half(p.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    Half.apply(m, "bias")
    log(m.bias_mask, Half().prune(torch.ones(4)))
    log(p.L1Unstructured(2).prune(torch.arange(4.0), default_mask=torch.tensor([1.0, 1, 1, 0])))
    Half.PRUNING_TYPE = "foo"
    log.raises(lambda: Half.apply(m, "bias"))
    log.raises(lambda: p.BasePruningMethod())
    log.raises(lambda: p.PruningContainer().add_pruning_method(3))


# ---------------------------------------------------------------------- fusion, calls


@program
def fusion(torch, log):
    nn, utils = torch.nn, torch.nn.utils
    conv, bn = nn.Conv2d(2, 3, 2, dtype=torch.float64), nn.BatchNorm2d(3, dtype=torch.float64)
    log.raises(lambda: utils.fuse_conv_bn_eval(conv, bn))
    for t in (bn.running_mean, bn.weight, bn.bias):
        nn.init.normal_(t)
    bn.running_var.uniform_(0.5, 2)
    conv.eval()
    bn.eval()
    fused = utils.fuse_conv_bn_eval(conv, bn)
    log(fused.weight, fused.bias, repr(fused))
    turned = nn.ConvTranspose2d(2, 3, 2, bias=False, dtype=torch.float64).eval()
    log(utils.fuse_conv_bn_eval(turned, bn, transpose=True).bias)
    linear, bn = layer_of(torch).eval(), nn.BatchNorm1d(3, dtype=torch.float64).eval()
    bn.running_mean.normal_()
    log(utils.fuse_linear_bn_eval(linear, bn).bias)
    log.raises(lambda: utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(4).eval()))
    bare = nn.BatchNorm1d(3, track_running_stats=False).eval()
    log.raises(lambda: utils.fuse_linear_bn_eval(linear, bare))


@program
def skipping_initial_values(torch, log):
    skip = torch.nn.utils.skip_init
    torch.manual_seed(1)
    log(repr(skip(torch.nn.Linear, 2, 3)), torch.rand(2))
    log.raises(lambda: skip(int, 3))
    log.raises(lambda: skip(torch.nn.ReLU))


@program
def functional_calls(torch, log):
    call, nn = torch.func.functional_call, torch.nn
    m, x = layer_of(torch), ones(torch, 1, 2)
    weight = ones(torch, 3, 2).requires_grad_()
    call(m, {"weight": weight}, (x,)).sum().backward()
    log(plain(weight.grad), m.weight.grad, type(m.weight).__name__)
    log(call(m, ({"weight": weight}, {"bias": ones(torch, 3)}), x))
    log(call(m, {"weight": weight}, None, {"input": x}).shape)
    log.raises(lambda: call(m, ({"bias": x}, {"bias": x}), x))
    log.raises(lambda: call(m, {"weight": weight}, x, strict=True))
    log.raises(lambda: call(m, {"weight": 3}, x))
    log.raises(lambda: call(m, 3, x))
    log.raises(lambda: call(m, [3], x))
    log.raises(lambda: call(m, {"foo.bar": x}, x))
    log(plain(call(m, {"foo": x}, x)), hasattr(m, "foo"))
    nested = nn.Sequential(layer_of(torch), layer_of(torch, 3, 1))
    log(call(nested, {"1.weight": torch.zeros(1, 3, dtype=torch.float64)}, x))
    rnn = nn.GRU(2, 2)
    zeros = {k: torch.zeros_like(v) for k, v in rnn.named_parameters()}
    log(call(rnn, zeros, torch.ones(1, 1, 2)))
    log.warns(lambda: torch.nn.utils.stateless.functional_call(m, {}, (x,)).shape)


@program
def functional_calls_with_tied_tensors(torch, log):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Parameter(torch.ones(1))
            self.b = self.a
            self.register_buffer("n", torch.zeros(1))

        def forward(self, x):
            self.n = self.n + 1
            return x + self.a + self.b

    call, m, zero = torch.func.functional_call, Tied(), torch.zeros(1)
    log(call(m, {"a": zero}, zero), call(m, {"b": zero}, zero))
    log(call(m, {"a": zero}, zero, tie_weights=False), m.n)
    log.raises(lambda: call(m, {"a": zero, "b": torch.ones(1)}, zero))
    given = {"n": torch.zeros(1)}
    log(call(m, given, zero), given["n"], m.n)


@program
def stacked_states(torch, log):
    stack, nn = torch.func.stack_module_state, torch.nn
    parameters, buffers = stack([nn.BatchNorm1d(2), nn.BatchNorm1d(2)])
    log(parameters, buffers)
    log.raises(lambda: stack([]))
    log.raises(lambda: stack([nn.Linear(1, 1), nn.Linear(1, 1).eval()]))
    log.raises(lambda: stack([nn.Linear(1, 1), nn.ReLU()]))
    log.raises(lambda: stack([nn.Linear(1, 1), nn.Linear(1, 1).requires_grad_(False)]))


@program
def a_module_tracker_names_what_runs(torch, log):
    import importlib

    tracking = importlib.import_module(torch.__name__ + ".utils.module_tracker")

    class Seen(torch.nn.Module):
        def forward(self, x):
            log(sorted(tracker.parents), tracker.is_bw)
            y = x.clone()
            if y.requires_grad:
                y.register_hook(lambda _: log(sorted(tracker.parents), tracker.is_bw))
            return y

    net = torch.nn.Sequential(Seen(), torch.nn.Sequential(Seen()))
    with tracking.ModuleTracker() as tracker:
        net(torch.ones(2, requires_grad=True)).sum().backward()
        net(torch.ones(2))
        log(sorted(tracker.parents))
    net(torch.ones(2))


@program
def functional_call_without_a_parameter(torch, log):
    net = torch.nn.Linear(2, 2)
    given = {"weight": torch.ones(2, 2), "bias": None}
    log(torch.func.functional_call(net, given, torch.ones(1, 2)), net.bias is not None)
    log.raises(lambda: torch.func.functional_call(net, {"bias": 1}, torch.ones(1, 2)))


@program
def functional_call_refuses(torch, log):
    layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    layer.note = "text"
    call, x = torch.func.functional_call, torch.ones(3, 2)
    log.raises(lambda: call(layer, {"note": x}, (x,)))
    log.raises(lambda: call(layer, {"1.bias": x[0], "odd": x, "a": x}, (x,), strict=True))
    log(layer.note, sorted(layer.state_dict()))
