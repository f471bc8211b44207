"""Every layer but the losses: repr, state, values, gradients, training and evaluation, errors."""

import copy
import pickle

from programs import layers
from programs.gradients import plain
from programs.harness import program


def report_all(torch, log, family):
    for text, shapes in family.items():
        layers.report(torch, log, text, shapes)


@program
def convolutions(torch, log):
    report_all(torch, log, layers.CONVOLUTIONS)


@program
def pools(torch, log):
    report_all(torch, log, layers.POOLS)


@program
def norms(torch, log):
    report_all(torch, log, layers.NORMS)


@program
def activations(torch, log):
    report_all(torch, log, layers.ACTIVATIONS)


@program
def dropouts(torch, log):
    report_all(torch, log, layers.DROPOUTS)


@program
def pads(torch, log):
    report_all(torch, log, layers.PADS)


@program
def shapes(torch, log):
    report_all(torch, log, layers.SHAPES)


@program
def products(torch, log):
    report_all(torch, log, layers.PRODUCTS)


@program
def layers_that_write_over_their_input(torch, log):
    for text in layers.IN_PLACE:
        layer = layers.build(torch, text)
        x = torch.tensor([[-2.0, -0.5, 0.0], [0.5, 2.0, 7.0]])
        log(repr(layer), layer.extra_repr(), layer(x) is x, x)
        leaf = torch.ones(2, requires_grad=True)
        log.raises(lambda layer=layer, leaf=leaf: layer(leaf))


@program
def tables(torch, log):
    for text in layers.TABLES:
        layer = layers.build(torch, text)
        log(text, repr(layer), layers.outline(layer))
        index = torch.tensor([[1, 3], [3, 0]])
        out = layer(index)
        out.sum().backward()
        log(layers.shown(out), layer.weight.grad, layer.weight)
        log.raises(lambda layer=layer: layer(torch.tensor([[1.0]])))


@program
def tables_from_pretrained(torch, log):
    nn = torch.nn
    given = torch.tensor([[1.0, 2.0, 2.0], [3.0, 4.0, 0.0]])
    log(nn.Embedding.from_pretrained(given)(torch.tensor([1, 0])))
    table = nn.Embedding.from_pretrained(
        given.clone(), freeze=False, padding_idx=-1, max_norm=2.0, norm_type=1.0
    )
    log(repr(table), table.weight.requires_grad, table(torch.tensor([0])), table.weight)
    bag = nn.EmbeddingBag.from_pretrained(given, mode="sum", include_last_offset=True)
    log(repr(bag), bag(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 3])), bag.weight)
    weighted = torch.tensor([[0.5, 2.0]], requires_grad=True)
    out = nn.EmbeddingBag.from_pretrained(given, mode="sum")(
        torch.tensor([[0, 1]]), per_sample_weights=weighted
    )
    out.sum().backward()
    log(out, weighted.grad)
    log.raises(lambda: nn.Embedding.from_pretrained(torch.ones(2)))
    log.raises(lambda: nn.EmbeddingBag.from_pretrained(torch.ones(2)))


@program
def table_errors(torch, log):
    nn = torch.nn
    log.raises(lambda: nn.Embedding(4, 3, padding_idx=4))
    log.raises(lambda: nn.Embedding(4, 3, padding_idx=-5))
    log.raises(lambda: nn.EmbeddingBag(4, 3, padding_idx=4))
    log.raises(lambda: nn.Embedding(4, 3, _weight=torch.ones(4, 2)))
    log.raises(lambda: nn.Embedding(-1, 3))
    log.raises(lambda: nn.Embedding(4, 3)(torch.tensor([[4]])))
    bag = nn.EmbeddingBag(4, 3)
    log.raises(lambda: bag(torch.tensor([[4]])))
    log.raises(lambda: bag(torch.tensor([1, 2])))
    log.raises(lambda: bag(torch.tensor([1, 2]), torch.tensor([0]), torch.ones(2)))
    log.raises(lambda: bag(torch.tensor([[[1]]])))
    log.raises(lambda: nn.EmbeddingBag(4, 3, mode="median")(torch.tensor([[1]])))


@program
def convolution_errors(torch, log):
    nn = torch.nn
    log.raises(lambda: nn.Conv2d(3, 6, 3, groups=2))
    log.raises(lambda: nn.Conv2d(4, 5, 3, groups=2))
    log.raises(lambda: nn.Conv2d(4, 6, 3, groups=0))
    log.raises(lambda: nn.Conv2d(4, 6, 3, padding="same", stride=2))
    log.raises(lambda: nn.Conv2d(4, 6, -1))
    log.raises(lambda: nn.ConvTranspose2d(4, 6, 3, padding_mode="reflect"))
    layer = nn.Conv2d(4, 6, 3)
    log.raises(lambda: layer(torch.ones(5, 5)))
    log.raises(lambda: layer(torch.ones(1, 2, 5, 5)))
    log.raises(lambda: layer(torch.ones(1, 4, 5, 2)))
    log.raises(lambda: layer(torch.ones(1, 4, 5, 5, dtype=torch.float64)))
    around = nn.Conv2d(4, 6, 3, padding=7, padding_mode="circular")
    log.raises(lambda: around(torch.ones(1, 4, 5, 5)))
    log.warns(lambda: repr(nn.Conv2d(0, 2, 1)))
    for text in ("nn.Conv2d(1, 1, 1, padding='x')", "nn.Conv2d(1, 1, 1, padding_mode='x')"):
        # The rest of these messages is a set, in no fixed order.
        try:
            layers.build(torch, text)
        except ValueError as error:
            log(str(error).partition("{")[0])


@program
def output_sizes_of_transposed_convolutions(torch, log):
    layer = layers.build(torch, "nn.ConvTranspose2d(2, 1, 3, stride=2)")
    x = torch.arange(8.0).reshape(1, 2, 2, 2)
    for size in ((5, 5), (6, 5), [6, 6], (1, 1, 5, 6), torch.Size((5, 6))):
        log(layer(x, output_size=size))
    log(layer(x[0], output_size=(5, 6)), layer(x[0], output_size=(1, 6, 5)))
    for size in ((7, 7), (4, 5), (1, 5, 5), (5,)):
        log.raises(lambda size=size: layer(x, output_size=size))
    line = layers.build(torch, "nn.ConvTranspose1d(2, 1, 3, stride=2, padding=1, dilation=2)")
    log(line(x[0, 0], output_size=[6]), line(x[0], output_size=[6]).shape)
    log.raises(lambda: line(x[0, 0], output_size=[9]))


@program
def unpooling(torch, log):
    nn = torch.nn
    for n in (1, 2, 3):
        x = torch.arange(1.0, 4**n + 1).reshape(1, 1, *(4,) * n).requires_grad_()
        pool = getattr(nn, f"MaxPool{n}d")(2, return_indices=True)
        unpool = getattr(nn, f"MaxUnpool{n}d")(2)
        values, where = pool(x)
        out = unpool(values, where)
        out.sum().backward()
        log(repr(unpool), out, x.grad, unpool(values, where, output_size=x.size()).shape)
        log.raises(lambda v=values, w=where, u=unpool, n=n: u(v, w, output_size=(9,) * n))
    log(repr(nn.MaxUnpool2d((2, 3), stride=2, padding=(1, 0))))


@program
def pool_errors(torch, log):
    nn = torch.nn
    log.raises(lambda: nn.FractionalMaxPool2d(2))
    log.raises(lambda: nn.FractionalMaxPool3d(2, 3, 0.5))
    log.raises(lambda: nn.FractionalMaxPool2d(2, output_ratio=1.5))
    log.raises(lambda: nn.FractionalMaxPool2d(2, output_ratio=(0.5, 1.0)))
    log.raises(lambda: nn.MaxPool2d(2)(torch.ones(3)))
    log.raises(lambda: nn.AvgPool2d(3)(torch.ones(1, 2, 2)))
    log.raises(lambda: nn.MaxPool1d(2, padding=2)(torch.ones(1, 4)))
    log.raises(lambda: nn.AdaptiveAvgPool2d((1, 2, 3))(torch.ones(1, 4, 4)))
    kept = nn.FractionalMaxPool2d(2, 2, _random_samples=torch.full((1, 1, 2), 0.5))
    log(kept.state_dict(), kept(torch.arange(25.0).reshape(1, 1, 5, 5)))


@program
def norm_errors_and_warnings(torch, log):
    nn = torch.nn
    for text in ("nn.BatchNorm1d(3)", "nn.BatchNorm2d(3)", "nn.BatchNorm3d(3)"):
        for dims in (1, 2, 4):
            log.raises(lambda t=text, n=dims: layers.build(torch, t)(torch.ones((3,) * n)).shape)
    for text in ("nn.InstanceNorm1d(3)", "nn.InstanceNorm2d(3)", "nn.InstanceNorm3d(3)"):
        for dims in (1, 3, 6):
            log.raises(lambda t=text, n=dims: layers.build(torch, t)(torch.ones((3,) * n)).shape)
    log.raises(lambda: nn.BatchNorm1d(3)(torch.ones(2, 4)))
    log.raises(lambda: nn.BatchNorm1d(3)(torch.ones(1, 3)))
    log.warns(lambda: nn.InstanceNorm1d(3)(torch.ones(4, 2, 5)).shape)
    log.warns(lambda: nn.InstanceNorm1d(3)(torch.ones(2, 5)).shape)
    log.raises(lambda: nn.InstanceNorm1d(3, affine=True)(torch.ones(4, 2, 5)))
    log.raises(lambda: nn.InstanceNorm2d(3)(torch.ones(1, 3, 1, 1)))
    log.raises(lambda: nn.GroupNorm(3, 4))
    log.raises(lambda: nn.GroupNorm(2, 4)(torch.ones(2, 3)))
    log.raises(lambda: nn.LayerNorm(3)(torch.ones(2, 4)))
    log.raises(lambda: nn.RMSNorm(3)(torch.ones(2, 4)))
    log.raises(lambda: nn.LayerNorm(2.5))
    log.raises(lambda: nn.BatchNorm1d(-1))
    log.raises(lambda: nn.CrossMapLRN2d(3)(torch.ones(2, 3)))
    log.raises(lambda: nn.SyncBatchNorm(3)(torch.ones(3)))
    log.raises(lambda: nn.modules.batchnorm._BatchNorm(3)(torch.ones(2, 3)))
    log.raises(lambda: nn.modules.batchnorm._NormBase(3)(torch.ones(2, 3)))


@program
def running_statistics(torch, log):
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0], [2.0, 2.0]])
    for momentum in (0.1, None, 1.0):
        norm = torch.nn.BatchNorm1d(2, momentum=momentum)
        for factor in (0, 1, 2):
            norm(x * factor)
            log(norm.running_mean, norm.running_var, norm.num_batches_tracked)
        norm.eval()
        log(norm(x), norm.num_batches_tracked)
        norm.reset_running_stats()
        log(norm.state_dict())
    with torch.no_grad():
        norm.weight.fill_(3)
    norm.reset_parameters()
    log(norm.state_dict())
    norm.num_batches_tracked = None
    log(norm.train()(x), norm.running_mean)


@program
def statistics_of_old_checkpoints(torch, log):
    nn = torch.nn
    state = nn.BatchNorm1d(2).state_dict()
    log(dict(state._metadata))
    del state["num_batches_tracked"]
    log.raises(lambda: nn.BatchNorm1d(2).load_state_dict(state))
    state._metadata[""] = {"version": 1}
    log(repr(nn.BatchNorm1d(2).load_state_dict(state)))
    log(repr(nn.BatchNorm1d(2).load_state_dict(dict(state))))
    kept = {"0.running_mean": torch.ones(2), "0.running_var": torch.ones(2)}
    net = nn.Sequential(nn.InstanceNorm1d(2))
    log.raises(lambda: net.load_state_dict(kept))
    tracking = nn.InstanceNorm1d(2, track_running_stats=True)
    log.raises(lambda: nn.InstanceNorm1d(2).load_state_dict(tracking.state_dict()))


@program
def converted_to_sync_batchnorm(torch, log):
    nn = torch.nn
    net = nn.Sequential(nn.BatchNorm2d(3, affine=False), nn.ReLU(), nn.BatchNorm1d(2).eval())
    made = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    log(repr(made), made is net, made[2].training, list(made.state_dict()))
    alone = nn.BatchNorm1d(2)
    made = nn.SyncBatchNorm.convert_sync_batchnorm(alone)
    log(made.weight is alone.weight, made.running_mean is alone.running_mean)


@program
def activation_errors_and_warnings(torch, log):
    nn, x = torch.nn, torch.ones(2, 3)
    log.raises(lambda: nn.Hardtanh(2, -2))
    log.warns(lambda: repr(nn.Hardtanh(min_value=-3, max_value=3)))
    log.raises(lambda: nn.GELU("x")(x))
    log.raises(lambda: nn.Softshrink(-1)(x))
    log.raises(lambda: nn.PReLU(4)(x))
    log.raises(lambda: nn.PReLU(dtype=torch.float64)(x))
    log.raises(lambda: nn.Softmax2d()(x))
    log.raises(lambda: nn.GLU()(x))
    log.raises(lambda: nn.Dropout(1.5))
    log.raises(lambda: nn.AlphaDropout(-0.5))
    for kind in (nn.Softmax, nn.Softmin, nn.LogSoftmax):
        log.warns(lambda kind=kind: kind()(x))
    slopes = nn.PReLU(2, init=0.5)
    with torch.no_grad():
        slopes.weight.zero_()
    slopes.reset_parameters()
    log(slopes.weight)


@program
def pad_and_shape_errors(torch, log):
    nn = torch.nn
    log.raises(lambda: nn.CircularPad1d(1)(torch.ones(3)))
    log.raises(lambda: nn.CircularPad2d(1)(torch.ones(3, 3, 3, 3, 3)))
    log.raises(lambda: nn.ReflectionPad1d(1)(torch.ones(3)))
    log.raises(lambda: nn.ReflectionPad1d(3)(torch.ones(1, 3)))
    log.raises(lambda: nn.ReplicationPad2d(1)(torch.ones(3, 3)))
    log.raises(lambda: nn.ConstantPad2d(1, 0.0)(torch.ones(3)))
    log.raises(lambda: nn.ZeroPad1d((1, 2, 3))(torch.ones(3)))
    log.raises(lambda: nn.PixelShuffle(2)(torch.ones(1, 3, 2, 2)))
    log.raises(lambda: nn.PixelUnshuffle(2)(torch.ones(1, 3, 3)))
    log.raises(lambda: nn.ChannelShuffle(2)(torch.ones(1, 3, 2)))
    log.raises(lambda: nn.Upsample()(torch.ones(1, 1, 2)))
    log.raises(lambda: nn.Upsample(3, 2)(torch.ones(1, 1, 2)))
    log.raises(lambda: nn.Upsample(scale_factor=[2, 3]))
    log.raises(lambda: nn.UpsamplingBilinear2d(3)(torch.ones(1, 1, 2)))
    log.raises(lambda: nn.Fold((3, 3), 2)(torch.ones(1, 4, 5)))
    log.raises(lambda: nn.Unfold(3)(torch.ones(1, 1, 2, 2)))
    log.raises(lambda: nn.Unflatten(1, "ab"))
    log.raises(lambda: nn.Unflatten(1, (2, "a")))
    log.raises(lambda: nn.Unflatten(1, (2, 3))(torch.ones(2, 7)))
    log.raises(lambda: nn.Flatten(0, 5)(torch.ones(2)))
    log.raises(lambda: nn.Bilinear(0, 1, 1))
    log.raises(lambda: nn.Bilinear(2, 2, 1)(torch.ones(1, 2), torch.ones(1, 3)))
    log(repr(nn.Upsample(3, 2)), nn.Upsample(scale_factor=2).scale_factor, nn.Upsample(3).name)


@program
def lazy_layers(torch, log):
    for text, shape in layers.LAZY.items():
        layer = layers.build(torch, text)
        log(text, repr(layer), list(layer.state_dict()), layer.has_uninitialized_params())
        log([repr(t) for t in layer.state_dict().values()])
        torch.manual_seed(3)
        out = layer.double()(torch.randn(shape, dtype=torch.float64))
        log(repr(layer), layers.shown(out), layers.outline(layer), type(layer).__name__)


@program
def lazy_layers_in_a_network(torch, log):
    nn = torch.nn
    net = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2)).double()
    log(repr(net), len(list(net.parameters())))
    out = net(torch.ones(1, 4, dtype=torch.float64))
    out.sum().backward()
    log(repr(net), out, [plain(p.grad) for p in net.parameters()])
    log(net[0]._forward_pre_hooks, net[0]._load_state_dict_pre_hooks, hasattr(net[0], "_load_hook"))


@program
def lazy_layers_load_and_copy(torch, log):
    nn = torch.nn
    ready = layers.build(torch, "nn.Linear(4, 3)")
    lazy = nn.LazyLinear(3)
    log.raises(lambda: ready.load_state_dict(lazy.state_dict()))
    log(repr(nn.LazyLinear(3).load_state_dict(lazy.state_dict())))
    log(repr(lazy.load_state_dict(ready.state_dict())), repr(lazy), lazy.weight)
    log.raises(lambda: lazy(torch.ones(1, 5)))
    log(lazy(torch.ones(1, 4)), repr(lazy))
    for twin in (copy.deepcopy(nn.LazyLinear(3)), pickle.loads(pickle.dumps(nn.LazyLinear(3)))):
        log(repr(twin), twin(torch.ones(2, 4)).shape, repr(twin))
    half = nn.LazyBatchNorm1d()
    log(repr(half.load_state_dict(nn.BatchNorm1d(2).state_dict())), repr(half), half.running_var)


@program
def uninitialized_tensors(torch, log):
    nn = torch.nn
    for tensor in (nn.UninitializedParameter(), nn.UninitializedBuffer()):
        log(repr(tensor), tensor.dtype, tensor.requires_grad, nn.parameter.is_lazy(tensor))
        log.raises(lambda t=tensor: t.shape)
        log.raises(lambda t=tensor: t + 1)
        log.raises(lambda t=tensor: t.numel())
        log.raises(lambda t=tensor: t.share_memory_())
        tensor.materialize((2, 3), dtype=torch.float64)
        log(type(tensor).__name__, tensor.shape, tensor.dtype, nn.parameter.is_lazy(tensor))
        log.raises(lambda t=tensor: t.materialize((1,)))
    log(isinstance(nn.UninitializedBuffer(), nn.Buffer), nn.UninitializedBuffer().persistent)
    log(isinstance(nn.UninitializedParameter(), nn.Parameter))


@program
def lazy_errors(torch, log):
    nn = torch.nn
    log.raises(lambda: nn.LazyConv2d(4, 3)(torch.ones(2, 3)))
    log.raises(lambda: nn.LazyConv2d(4, 2, groups=2)(torch.ones(3, 3, 3)))
    log.raises(lambda: nn.LazyBatchNorm2d()(torch.ones(2, 3)))
    log.raises(lambda: nn.LazyLinear(3).share_memory())
    log.raises(lambda: nn.LazyLinear(3).requires_grad_(False))
    log.raises(lambda: nn.LazyLinear(3)._replicate_for_data_parallel())

    class Forgets(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.UninitializedParameter()

        def forward(self, x):
            return x

    class Leaves(Forgets):
        def initialize_parameters(self, x):
            pass

    class Fills(Forgets):
        def initialize_parameters(self, x):
            self.w.materialize(x.shape)

    log.raises(lambda: Forgets()(torch.ones(2)))
    log.raises(lambda: Leaves()(torch.ones(2)))
    own = Fills()
    log(own(x=torch.ones(2)), own.w.shape, type(own).__name__, own.cls_to_become)


@program
def helpers_for_sizes(torch, log):
    utils = torch.nn.modules.utils
    log(utils._pair(3), utils._pair([1, 2]), utils._single(3), utils._triple((1, 2)))
    log(utils._quadruple("ab"), utils._reverse_repeat_tuple((1, 2), 2), utils._pair.__name__)
    log(utils._list_with_default((None, 2), [4, 5, 6]), utils._list_with_default(3, [5]))
    log.raises(lambda: utils._list_with_default([1, 2], [5, 6]))
    state = torch.nn.Sequential(torch.nn.Linear(1, 1)).state_dict(prefix="module.")
    state["other"] = torch.ones(1)
    utils.consume_prefix_in_state_dict_if_present(state, "module.")
    log(list(state), dict(state._metadata))


@program
def pickled_layers(torch, log):
    for text in (
        "nn.Conv2d(1, 1, 1, padding_mode='reflect')",
        "nn.AvgPool3d(2)",
        "nn.BatchNorm1d(2)",
        "nn.Upsample(3)",
        "nn.Embedding(2, 2)",
    ):
        layer = layers.build(torch, text)
        twin = pickle.loads(pickle.dumps(layer))
        log(repr(twin), layers.outline(twin), repr(copy.deepcopy(layer)))
    old = torch.nn.AvgPool3d(2)
    state = {k: v for k, v in vars(old).items() if k not in ("padding", "ceil_mode")}
    old.__setstate__(state)
    log(repr(old), old.ceil_mode)
    state = dict(vars(torch.nn.Upsample(scale_factor=2)))
    del state["recompute_scale_factor"]
    up = torch.nn.Upsample(3)
    up.__setstate__(state)
    log(repr(up), up.recompute_scale_factor)


@program
def base_classes(torch, log):
    m = torch.nn.modules
    pairs = [
        ("Conv2d", m.conv._ConvNd),
        ("ConvTranspose1d", m.conv._ConvTransposeNd),
        ("LazyConv3d", m.conv._LazyConvXdMixin),
        ("MaxPool2d", m.pooling._MaxPoolNd),
        ("MaxUnpool2d", m.pooling._MaxUnpoolNd),
        ("AvgPool1d", m.pooling._AvgPoolNd),
        ("LPPool3d", m.pooling._LPPoolNd),
        ("AdaptiveMaxPool1d", m.pooling._AdaptiveMaxPoolNd),
        ("AdaptiveAvgPool3d", m.pooling._AdaptiveAvgPoolNd),
        ("BatchNorm2d", m.batchnorm._BatchNorm),
        ("BatchNorm2d", m.batchnorm._NormBase),
        ("LazyBatchNorm2d", m.batchnorm._LazyNormBase),
        ("LazyBatchNorm2d", torch.nn.BatchNorm2d),
        ("InstanceNorm2d", m.instancenorm._InstanceNorm),
        ("Dropout2d", m.dropout._DropoutNd),
        ("CircularPad1d", m.padding._CircularPadNd),
        ("ZeroPad2d", torch.nn.ConstantPad2d),
        ("ZeroPad2d", m.padding._ConstantPadNd),
        ("ReflectionPad1d", m.padding._ReflectionPadNd),
        ("ReplicationPad1d", m.padding._ReplicationPadNd),
        ("MSELoss", m.loss._Loss),
        ("NLLLoss", m.loss._WeightedLoss),
        ("ReLU6", torch.nn.Hardtanh),
    ]
    for name, base in pairs:
        cls = getattr(torch.nn, name)
        log(name, base.__name__, issubclass(cls, base), cls.__module__.partition(".")[2])
    log.warns(
        lambda: repr(
            m.conv._ConvTransposeMixin(1, 1, (1,), (1,), (0,), (1,), True, (0,), 1, True, "zeros")
        )
    )


@program
def which_refusal_comes_first(torch, log):
    """Dtypes before sizes, and who is named."""
    F = torch.nn.functional
    for shape in ((1, 6), (6,), (2, 2, 6), ()):
        for dtype in (torch.int64, torch.float64, torch.bool, torch.complex64):
            x = torch.zeros(shape, dtype=dtype)
            log.raises(lambda x=x: F.linear(x, torch.zeros(2, 3), torch.zeros(2)))
            log.raises(lambda x=x: F.linear(x, torch.zeros(2, 3)))
    a, b = torch.zeros(2, 3), torch.zeros(4, 2)
    log.raises(lambda: torch.addmm(torch.zeros(5), a.long(), b))
    log.raises(lambda: torch.addmm(torch.zeros(5).long(), a, b))
    for shape in ((3, 1), ()):
        for dtype in (torch.bool, torch.int64, torch.float64, torch.float16):
            x = torch.zeros(shape, dtype=dtype)
            log.raises(lambda x=x: F.layer_norm(x, (3,), torch.ones(3), torch.ones(3)))
            log.raises(lambda x=x: F.layer_norm(x, (3,)))
    log.raises(lambda: F.rms_norm(torch.zeros(()), (3,)))
    weight, bias = torch.zeros(2, 2, 3), torch.zeros(2)
    for last in (None, bias, bias.double()):
        log.raises(lambda last=last: F.bilinear(a.double(), b, weight, last))
    log.raises(lambda: F.bilinear(torch.zeros(1, 2), torch.zeros(1, 3), weight, bias.double()))
    for dtype in (torch.bool, torch.bfloat16, torch.float16, torch.complex64, torch.uint8):
        log.raises(lambda dtype=dtype: F.embedding(torch.zeros(2, dtype=dtype), b))
    for shape in ((2, 0, 4), (0, 4, 4), (0, 2, 4, 4)):
        log(F.pixel_unshuffle(torch.zeros(shape), 2))
