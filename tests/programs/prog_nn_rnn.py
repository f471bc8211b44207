"""Recurrent layers, cells and packed sequences: numbers, gradients, states, reprs, refusals."""

from programs.gradients import plain
from programs.harness import program

KINDS = ("RNN", "LSTM", "GRU")


def states_of(hidden):
    return hidden if isinstance(hidden, tuple) else (hidden,)


def show(log, layer, out, hidden):
    """The result of a layer and all gradients of a weighted sum of it."""
    log(out, states_of(hidden))
    total = (out * out).sum()
    for state in states_of(hidden):
        total = total + state.sum()
    total.backward()
    for name, p in layer.named_parameters():
        log(name, plain(p.grad))


def run(torch, log, kind, *args, shape=(4, 3, 2), dtype=None, **kwargs):
    dtype = dtype or torch.float64
    layer = getattr(torch.nn, kind)(2, 3, *args, dtype=dtype, **kwargs)
    x = torch.randn(*shape, dtype=dtype, requires_grad=True)
    out, hidden = layer(x)
    show(log, layer, out, hidden)
    log(plain(x.grad))


@program
def initial_weights(torch, log):
    for kind in KINDS:
        torch.manual_seed(3)
        log(getattr(torch.nn, kind)(2, 3, num_layers=2, bidirectional=True).state_dict())
        torch.manual_seed(4)
        log(getattr(torch.nn, kind + "Cell")(2, 3).state_dict())


@program
def rnn_in_all_forms(torch, log):
    run(torch, log, "RNN")
    run(torch, log, "RNN", nonlinearity="relu", num_layers=2)
    run(torch, log, "RNN", bias=False, bidirectional=True)
    run(torch, log, "RNN", batch_first=True, num_layers=2, bidirectional=True)
    run(torch, log, "RNN", shape=(4, 2))
    run(torch, log, "RNN", dtype=torch.float32)


@program
def lstm_in_all_forms(torch, log):
    run(torch, log, "LSTM")
    run(torch, log, "LSTM", num_layers=2, bidirectional=True)
    run(torch, log, "LSTM", bias=False, batch_first=True)
    run(torch, log, "LSTM", proj_size=2)
    run(torch, log, "LSTM", proj_size=2, num_layers=2, bidirectional=True, bias=False)
    run(torch, log, "LSTM", shape=(4, 2))


@program
def gru_in_all_forms(torch, log):
    run(torch, log, "GRU")
    run(torch, log, "GRU", num_layers=2, bidirectional=True)
    run(torch, log, "GRU", bias=False, batch_first=True)
    run(torch, log, "GRU", shape=(4, 2), bidirectional=True)
    run(torch, log, "GRU", dtype=torch.float32)


@program
def lstm_in_single_precision(torch, log):
    layer = torch.nn.LSTM(2, 3)
    out, (h, c) = layer(torch.randn(3, 2, 2))
    log(out, h, c)
    out, _ = torch.nn.LSTM(2, 3, batch_first=True)(torch.randn(3, 2, 2))
    log(out)
    print_form = torch.nn.LSTM(2, 2)(torch.ones(1, 1, 2))[0]
    log(repr(print_form))


@program
def states_that_are_given(torch, log):
    for kind in KINDS:
        layer = getattr(torch.nn, kind)(2, 3, num_layers=2, dtype=torch.float64)
        h = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
        c = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
        hx = (h, c) if kind == "LSTM" else h
        out, hidden = layer(torch.randn(4, 3, 2, dtype=torch.float64), hx)
        show(log, layer, out, hidden)
        log(plain(h.grad), plain(c.grad))
        single = (h[:, 0], c[:, 0]) if kind == "LSTM" else h[:, 0]
        log(layer(torch.randn(4, 2, dtype=torch.float64), single))


@program
def dropout_between_layers(torch, log):
    for kind in KINDS:
        torch.manual_seed(7)
        layer = getattr(torch.nn, kind)(2, 3, num_layers=3, dropout=0.5, dtype=torch.float64)
        x = torch.randn(4, 2, 2, dtype=torch.float64)
        log(layer(x)[0], layer.eval()(x)[0])
        packed = torch.nn.utils.rnn.pack_sequence([x[:, 0], x[:2, 1]])
        log(layer.train()(packed)[0].data)
        both = getattr(torch.nn, kind)(2, 3, 2, bidirectional=True, dropout=0.3, batch_first=True)
        log(both(x.float())[0])


@program
def packed_sequences_through_layers(torch, log):
    rnn = torch.nn.utils.rnn
    for kind in KINDS:
        for sorted_already in (True, False):
            lengths = (4, 2, 1) if sorted_already else (2, 4, 1)
            x = [torch.randn(n, 2, dtype=torch.float64, requires_grad=True) for n in lengths]
            packed = rnn.pack_sequence(x, enforce_sorted=sorted_already)
            layer = getattr(torch.nn, kind)(2, 3, 2, bidirectional=True, dtype=torch.float64)
            out, hidden = layer(packed)
            log(type(out).__name__, out.batch_sizes, out.sorted_indices, out.unsorted_indices)
            show(log, layer, out.data, hidden)
            log([plain(t.grad) for t in x])
            h = torch.randn(4, 3, 3, dtype=torch.float64)
            log(layer(packed, (h, h) if kind == "LSTM" else h)[0].data)


@program
def second_gradients(torch, log):
    for kind in KINDS:
        layer = getattr(torch.nn, kind)(2, 2, bidirectional=True, dtype=torch.float64)
        x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
        out, _ = layer(x)
        (grad,) = torch.autograd.grad((out**2).sum(), x, create_graph=True)
        total = (grad * torch.arange(12, dtype=torch.float64).reshape(3, 2, 2)).sum()
        log([plain(g) for g in torch.autograd.grad(total, [x, *layer.parameters()])])


@program
def names_of_the_last_nodes(torch, log):
    for kind in KINDS:
        for options in ({}, {"bidirectional": True}, {"batch_first": True}):
            layer = getattr(torch.nn, kind)(2, 3, **options)
            out, hidden = layer(torch.randn(4, 3, 2))
            log(kind, out.grad_fn, [s.grad_fn for s in states_of(hidden)], out.stride())
            out, hidden = layer(torch.randn(4, 2))
            log(out.grad_fn, out._version)
        cell = getattr(torch.nn, kind + "Cell")(2, 3)
        log([s.grad_fn for s in states_of(cell(torch.randn(3, 2)))])


@program
def results_may_be_written(torch, log):
    for kind in KINDS:
        layer = getattr(torch.nn, kind)(2, 3, dtype=torch.float64)
        out, _ = layer(torch.randn(4, 3, 2, dtype=torch.float64))
        out.mul_(2)
        out.sum().backward()
        log(plain(layer.weight_hh_l0.grad))


@program
def cells(torch, log):
    for kind in KINDS:
        cell = getattr(torch.nn, kind + "Cell")(2, 3, dtype=torch.float64)
        x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
        hidden = cell(x)
        for _ in range(2):
            hidden = cell(x, hidden)
        log(hidden)
        sum(s.sum() for s in states_of(hidden)).backward()
        log([plain(p.grad) for p in [x, *cell.parameters()]])
        log(cell(torch.randn(2, dtype=torch.float64)))
        bare = getattr(torch.nn, kind + "Cell")(2, 3, bias=False)
        log(bare, bare.bias_ih, bare(torch.ones(1, 2)), repr(bare))
    log(repr(torch.nn.RNNCell(2, 3, nonlinearity="relu")))
    log(torch.nn.RNNCell(2, 3, nonlinearity="relu")(torch.ones(1, 2)))


@program
def reprs(torch, log):
    log(repr(torch.nn.RNN(2, 3)), repr(torch.nn.RNN(2, 3, 2, "relu", False, True, 0.5, True)))
    log(
        repr(torch.nn.LSTM(2, 3, 2, False, True, 0.5, True, 2)),
        repr(torch.nn.GRU(2, 3, bias=False)),
    )
    log(repr(torch.nn.RNNBase("GRU", 2, 3)), torch.nn.RNN(2, 3).mode, torch.nn.GRU(2, 3).mode)


@program
def weights_by_name(torch, log):
    layer = torch.nn.LSTM(2, 3, 2, bidirectional=True, proj_size=2)
    log([(n, p.shape) for n, p in layer.named_parameters()])
    log([len(w) for w in layer.all_weights], layer.all_weights[1][0] is layer.weight_ih_l0_reverse)
    log(layer.flatten_parameters(), len(layer._flat_weights))
    layer.double()
    log(layer(torch.ones(1, 1, 2, dtype=torch.float64))[0].dtype)
    layer.weight_ih_l0 = torch.nn.Parameter(torch.zeros(12, 2))
    log(layer._flat_weights[0].sum())
    other = torch.nn.LSTM(2, 3, 2, bidirectional=True, proj_size=2)
    log(repr(other.load_state_dict(layer.state_dict())))
    log(layer.get_expected_hidden_size(torch.ones(4, 5, 2), None))
    log(layer.get_expected_cell_size(torch.ones(4, 5, 2), None))


@program
def bad_arguments(torch, log):
    nn = torch.nn
    for kind in KINDS:
        make = getattr(nn, kind)
        log.raises(lambda make=make: make(0, 3))
        log.raises(lambda make=make: make(2, -1))
        log.raises(lambda make=make: make(2.0, 3))
        log.raises(lambda make=make: make(2, 3, 0))
        log.raises(lambda make=make: make(2, 3, dropout=2))
        log.raises(lambda make=make: make(2, 3, dropout=True))
        log.raises(lambda make=make: make(2, 3, foo=1))
        log.raises(lambda make=make: make(2))
        log.warns(lambda make=make: repr(make(2, 3, dropout=0.5)))
    log.raises(lambda: nn.RNN(2, 3, nonlinearity="x"))
    log.raises(lambda: nn.GRU(2, 3, proj_size=1))
    log.raises(lambda: nn.RNN(2, 3, proj_size=1))
    log.raises(lambda: nn.LSTM(2, 3, proj_size=3))
    log.raises(lambda: nn.LSTM(2, 3, proj_size=-1))
    log.raises(lambda: nn.RNNBase("X", 2, 3))
    log.raises(lambda: nn.RNNBase("GRU", 2, 3)(torch.ones(1, 1, 2)))


@program
def bad_inputs(torch, log):
    x, zeros = torch.ones(4, 2, 2), torch.zeros
    for kind in KINDS:
        layer = getattr(torch.nn, kind)(2, 3)

        def h(*shape, kind=kind):
            return (zeros(*shape), zeros(*shape)) if kind == "LSTM" else zeros(*shape)

        log.raises(lambda layer=layer: layer(torch.ones(1, 4, 2, 2)))
        log.raises(lambda layer=layer: layer(torch.ones(4, 2, 3)))
        log.raises(lambda layer=layer: layer(x.double()))
        log.raises(lambda layer=layer: layer(torch.ones(0, 2, 2)))
        log.raises(lambda layer=layer, h=h: layer(x, h(2, 2, 3)))
        log.raises(lambda layer=layer, h=h: layer(x, h(2, 3)))
        log.raises(lambda layer=layer, h=h: layer(x[:, 0], h(1, 2, 3)))
        cell = getattr(torch.nn, kind + "Cell")(2, 3)
        log.raises(lambda cell=cell: cell(torch.ones(1, 1, 2)))
        log.raises(lambda cell=cell: cell(torch.ones(1, 3)))
        log.raises(lambda cell=cell, h=h: cell(torch.ones(1, 2), h(2, 3)))
        log.raises(lambda cell=cell, h=h: cell(torch.ones(1, 2), h(1, 4)))
        log.raises(lambda cell=cell, h=h: cell(torch.ones(1, 2), h(1, 1, 3)))
    log.raises(lambda: torch.nn.LSTM(2, 3)(x, (zeros(1, 2, 3), zeros(1, 1, 3))))
    log.raises(lambda: torch.nn.LSTM(2, 3)(x, zeros(1, 2, 3)))
    log.raises(lambda: torch.nn.RNNCell(2, 3, nonlinearity="x")(torch.ones(1, 2)))
    packed = torch.nn.utils.rnn.PackedSequence(torch.ones(3, 2), torch.tensor([2, 1]))
    log.raises(lambda: torch.nn.GRU(2, 3)(packed, zeros(1, 3, 3)))
    log.raises(lambda: torch.nn.GRU(3, 3)(packed))


@program
def functions(torch, log):
    def ones(*shape):
        return torch.ones(*shape, dtype=torch.float64)

    w = [torch.randn(*s, dtype=torch.float64) for s in ((12, 2), (12, 3), (12,), (12,))]
    h = torch.randn(1, 2, 3, dtype=torch.float64)
    one = (1, 0.0, False, False)
    log(torch.lstm(ones(2, 2, 2), (h, h), w, True, *one, False))
    log(torch.lstm(ones(3, 2), torch.tensor([2, 1]), (h, h), w, True, *one))
    log(torch.lstm_cell(ones(2, 2), (h[0], h[0]), *w))
    g = [t[:9] for t in w]
    log(torch.gru(ones(2, 2, 2), h, g[:2], False, *one, False))
    log(torch.gru_cell(ones(2, 2), h[0], *g))
    r = [t[:3] for t in w]
    log(torch.rnn_tanh(ones(2, 2, 2), h, r, True, *one, True))
    log(torch.rnn_relu(ones(2, 2, 2), h, r, True, *one, False))
    log(torch.rnn_tanh_cell(ones(2, 2), h[0], *r))
    log(torch.rnn_relu_cell(ones(2, 2), h[0], *r))
    log.raises(lambda: torch.lstm(ones(2, 2, 2), (h,), w, True, *one, False))
    log.raises(lambda: torch.lstm_cell(ones(2, 2), h[0], *w))
    log.raises(lambda: torch.lstm_cell(ones(2, 2), (h[0],), *w))
    log.raises(lambda: torch.gru_cell(ones(2, 2), h[0], *w))
    log.raises(lambda: torch.gru(ones(2, 2, 2), h, g[:3], True, *one, False))


@program
def packing(torch, log):
    rnn = torch.nn.utils.rnn
    x = torch.arange(12.0).reshape(3, 2, 2).requires_grad_()
    packed = rnn.pack_padded_sequence(x, [3, 1])
    log(packed, packed.data, packed.batch_sizes)
    (packed.data * torch.arange(1.0, 5.0).unsqueeze(1)).sum().backward()
    log(plain(x.grad))
    log(rnn.pack_padded_sequence(x, torch.tensor([1, 3]), enforce_sorted=False))
    log(rnn.pack_padded_sequence(x, [2, 2, 1], batch_first=True))
    log(rnn.pad_packed_sequence(packed), rnn.pad_packed_sequence(packed, True))
    log(rnn.pad_packed_sequence(packed, padding_value=-1.0, total_length=4))
    log.raises(lambda: rnn.pad_packed_sequence(packed, total_length=2))
    for lengths in ([1, 3], [3, 0], [3, 1, 1], [], [[3, 1]]):
        log.raises(lambda lengths=lengths: rnn.pack_padded_sequence(x, torch.tensor(lengths)))
    log.raises(lambda: rnn.pack_padded_sequence(torch.zeros(3, 0), []))


@program
def padding(torch, log):
    rnn = torch.nn.utils.rnn
    a, b = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0])
    log(rnn.pad_sequence([a, b]), rnn.pad_sequence([a, b], batch_first=True, padding_value=9.0))
    log(rnn.pad_sequence([b, a], True, 0.5, "left"))
    rnn.pad_sequence([b, a]).pow(2).sum().backward()
    log(plain(a.grad), rnn.pad_sequence(torch.ones(2, 3)), rnn.pad_sequence(t for t in (b, b)))
    log.raises(lambda: rnn.pad_sequence([]))
    log.raises(lambda: rnn.pad_sequence(3))
    log.raises(lambda: rnn.pad_sequence([a, b], padding_side="middle"))
    log.raises(lambda: rnn.pad_sequence([torch.ones(2, 3), torch.ones(2, 4)]))
    padded = torch.tensor([[1, 3], [2, 0]])
    log(rnn.unpad_sequence(padded, torch.tensor([2, 1])))
    log(rnn.unpad_sequence(padded, torch.tensor([2, 1]), batch_first=True))
    packed = rnn.pack_sequence([b, a], enforce_sorted=False)
    log(packed, rnn.unpack_sequence(packed), rnn.pad_packed_sequence(packed))
    log.raises(lambda: rnn.pack_sequence([b, a]))
    log(rnn.invert_permutation(torch.tensor([2, 0, 1])), rnn.invert_permutation(None))


@program
def packed_sequence_as_a_value(torch, log):
    packed = torch.nn.utils.rnn.PackedSequence
    p = packed(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2, 1]), torch.tensor([1, 0]))
    log(p, repr(p), p._fields, len(p), p[0] is p.data, p.is_cuda, p.is_pinned())
    for change in ("double", "half", "long", "int", "short", "char", "byte"):
        log(getattr(p, change)().data)
    log(p.float() is p, p.cpu() is p, p.to("cpu") is p, p.to(torch.float64).unsorted_indices)
    log.raises(lambda: p.to(torch.float32, copy=True))
    log.raises(lambda: packed(torch.ones(1)))
    log(packed((p.data, p.batch_sizes)))
    data, sizes, order, back = p
    log(data, sizes, order, back)


@program
def the_list_of_weights_is_set(torch, log):
    net = torch.nn.LSTM(2, 3)
    for i, weight in enumerate(net.parameters()):
        torch.nn.init.constant_(weight, 0.1 * (i + 1))
    x = torch.ones(1, 2)
    log(net(x)[0].detach())
    net._flat_weights = [weight * 0 + 0.5 for weight in net._flat_weights]
    log(net(x)[0].detach(), net.weight_ih_l0.detach())
    net.weight_hh_l0 = torch.nn.Parameter(torch.full((12, 3), -1.0))
    log(net(x)[0].detach(), net._flat_weights[0].requires_grad)
    net.to(torch.float64)
    log(net(x.double())[0].detach())


@program
def forwards_of_objects_with_the_same_attributes(torch, log):
    nn = torch.nn

    class Bare:
        pass

    for layer, inputs in (
        (nn.MaxPool2d(1), (torch.ones(1, 1, 2, 2),)),
        (nn.AvgPool3d(1), (torch.ones(1, 1, 2, 2, 2),)),
        (nn.LSTMCell(2, 2), (torch.ones(1, 2),)),
        (nn.GRUCell(2, 2), (torch.ones(1, 2),)),
        (nn.MultiheadAttention(2, 1), (torch.ones(1, 1, 2),) * 3),
        (nn.ConvTranspose2d(2, 3, 1), (torch.ones(1, 2, 3, 3),)),
    ):
        bare = Bare()
        for names in (layer.__dict__, layer._parameters, layer._modules):
            bare.__dict__.update(names)
        if hasattr(layer, "_output_padding"):
            bare._output_padding = layer._output_padding
        found = type(layer).forward(bare, *inputs)
        log([list(t.shape) for t in (found if isinstance(found, tuple) else (found,))])
