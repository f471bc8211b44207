"""Attention and transformer layers: numbers, gradients, masks, dropout, reprs, refusals."""

from programs.gradients import plain
from programs.harness import program


def attention(torch, **kwargs):
    return torch.nn.MultiheadAttention(4, 2, dtype=torch.float64, **kwargs)


def draw(torch, *shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def layer_of(torch, kind="Encoder", dropout=0.0, **kwargs):
    make = getattr(torch.nn, f"Transformer{kind}Layer")
    return make(4, 2, 6, dropout=dropout, dtype=torch.float64, **kwargs)


def show(log, module, out):
    """A result, and the gradients of a sum of its squares."""
    log(out)
    (out * out).sum().backward()
    log([[name, plain(p.grad)] for name, p in module.named_parameters()])
    module.zero_grad()


@program
def initial_weights(torch, log):
    nn = torch.nn
    for options in ({}, {"bias": False}, {"kdim": 3, "add_bias_kv": True}):
        torch.manual_seed(3)
        log(nn.MultiheadAttention(4, 2, **options).state_dict())
    torch.manual_seed(3)
    log(nn.TransformerDecoderLayer(4, 2, 3).state_dict())
    torch.manual_seed(3)
    model = nn.Transformer(4, 2, 1, 1, 3)
    log([[k, v.sum()] for k, v in model.state_dict().items()])


@program
def attention_in_all_forms(torch, log):
    for options in ({}, {"bias": False}, {"add_zero_attn": True}, {"add_bias_kv": True}):
        module = attention(torch, **options)
        x, y = draw(torch, 3, 2, 4), draw(torch, 5, 2, 4)
        out, weights = module(x, x, x)
        log(weights)
        show(log, module, out)
        out, weights = module(x, y, y, average_attn_weights=False)
        log(weights)
        show(log, module, out)
        out, weights = module(x, y, y.detach(), need_weights=False)
        log(weights)
        show(log, module, out)
        log(plain(x.grad), plain(y.grad))


@program
def keys_and_values_of_other_widths(torch, log):
    module = attention(torch, kdim=3, vdim=5, add_bias_kv=True, batch_first=True)
    out, weights = module(draw(torch, 2, 3, 4), draw(torch, 2, 4, 3), draw(torch, 2, 4, 5))
    log(weights)
    show(log, module, out)
    log(list(module.state_dict()), module.in_proj_weight, module._qkv_same_embed_dim)


@program
def batch_first_and_no_batch(torch, log):
    module = attention(torch, batch_first=True)
    x = draw(torch, 2, 3, 4)
    log(module(x, x, x), module(x, x.clone(), x.clone()), module(x[0], x[0], x[0]))
    with torch.no_grad():
        log(module.eval()(x, x, x), module(x, x, x, need_weights=False))
        log(module(x, x, x.clone())[0].stride(), module(x[0], x[0], x[0])[0].stride())


@program
def masks(torch, log):
    module = attention(torch)
    x = draw(torch, 3, 2, 4)
    later = torch.ones(3, 3, dtype=torch.bool).triu(1)
    padding = torch.tensor([[False, False, True], [False, True, True]])
    log(module(x, x, x, attn_mask=later), module(x, x, x, key_padding_mask=padding))
    log(module(x, x, x, attn_mask=later.double() * -1, need_weights=False))
    log(module(x, x, x, attn_mask=later, is_causal=True, need_weights=False))
    log(module(x, x, x, attn_mask=later, key_padding_mask=padding))
    log(module(x, x, x, attn_mask=later.expand(4, 3, 3))[1])
    log.warns(lambda: module(x, x, x, padding, attn_mask=later.double())[1].shape)
    log.raises(lambda: module(x, x, x, is_causal=True))
    log.raises(lambda: module(x, x, x, attn_mask=later[:2]))
    log.raises(lambda: module(x, x, x, attn_mask=later.expand(3, 3, 3)))
    log.raises(lambda: module(x, x, x, attn_mask=later.int()))
    log.raises(lambda: module(x, x, x, key_padding_mask=padding.int()))
    merged, kind = module.merge_masks(later[:2, :2], None, draw(torch, 3, 2, 4))
    log(merged, kind)
    log(module.merge_masks(None, padding, x)[1], module.merge_masks(None, None, x))


@program
def attention_refuses(torch, log):
    make = torch.nn.MultiheadAttention
    log.raises(lambda: make(5, 2))
    log.raises(lambda: make(0, 2))
    log.raises(lambda: make(4, -1))
    log.raises(lambda: make(4, 2, foo=1))
    module, x = make(4, 2), torch.ones(3, 2, 4)
    log.raises(lambda: module(x[None], x[None], x[None]))
    log.raises(lambda: module(x, x[0], x))
    log.raises(lambda: module(torch.ones(3, 2, 5), x, x))


@program
def attention_dropout(torch, log):
    module = attention(torch, dropout=0.5)
    x = draw(torch, 3, 2, 4)
    torch.manual_seed(5)
    log(module(x, x, x))
    torch.manual_seed(5)
    log(module(x, x, x, need_weights=False)[0])
    log(module.eval()(x, x, x)[0])


@program
def reprs(torch, log):
    nn = torch.nn
    log(repr(nn.MultiheadAttention(4, 2)), repr(nn.TransformerDecoderLayer(4, 2, 8)))
    log(repr(nn.TransformerEncoderLayer(4, 2, 8, activation=nn.GELU(), bias=False)))
    log(repr(nn.Transformer(4, 2, 2, 1, 8, batch_first=True)))
    log(list(nn.Transformer(4, 2, 1, 1, 8).state_dict()))


@program
def encoder_layers(torch, log):
    for options in (
        {},
        {"norm_first": True, "batch_first": True},
        {"activation": "gelu", "bias": False},
        {"activation": torch.tanh, "layer_norm_eps": 1e-3},
    ):
        layer = layer_of(torch, **options)
        x = draw(torch, 3, 2, 4)
        show(log, layer, layer(x))
        log(plain(x.grad), layer.activation_relu_or_gelu)
        with torch.no_grad():
            log(layer.eval()(x), layer(x[0]))


@program
def decoder_layers(torch, log):
    for options in ({}, {"norm_first": True, "batch_first": True}, {"bias": False}):
        layer = layer_of(torch, "Decoder", **options)
        x, memory = draw(torch, 3, 2, 4), draw(torch, 3, 2, 4)
        show(log, layer, layer(x, memory))
        log(plain(x.grad), plain(memory.grad), layer(x[0], memory[0]))


@program
def encoders_and_their_masks(torch, log):
    nn = torch.nn
    encoder = nn.TransformerEncoder(layer_of(torch), 2, norm=nn.LayerNorm(4, dtype=torch.float64))
    x = draw(torch, 3, 2, 4)
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)
    padding = torch.tensor([[False, False, True], [False, False, False]])
    show(log, encoder, encoder(x))
    log(encoder(x, mask), encoder(x, mask, is_causal=True), encoder(x, mask, is_causal=False))
    log(encoder(x, src_key_padding_mask=padding))
    log.warns(lambda: encoder(x, mask, padding).shape)
    log.raises(lambda: encoder(x, is_causal=True))
    log.raises(lambda: encoder(x, mask.long()))
    log.raises(lambda: encoder(torch.ones(3, 2, 5, dtype=torch.float64)))


@program
def padded_positions_in_inference(torch, log):
    nn = torch.nn
    layer = layer_of(torch, batch_first=True)
    x = draw(torch, 2, 3, 4)
    right = torch.tensor([[False, False, True], [False, True, True]])
    left = torch.tensor([[True, False, False], [False, False, False]])
    norm = nn.LayerNorm(4, dtype=torch.float64)
    for encoder in (
        nn.TransformerEncoder(layer, 2),
        nn.TransformerEncoder(layer, 1, enable_nested_tensor=False),
        nn.TransformerEncoder(layer, 1, norm=norm),
    ):
        log(encoder(x, src_key_padding_mask=right))
        with torch.no_grad():
            log(encoder(x, src_key_padding_mask=right))
            encoder.eval()
            log(encoder(x, src_key_padding_mask=right), encoder(x, src_key_padding_mask=left))


@program
def warnings_about_nesting(torch, log):
    nn = torch.nn
    layer = nn.TransformerEncoderLayer
    same_eps = layer(4, 2, 8, batch_first=True)
    same_eps.norm2.eps = 1e-3
    for each in (
        layer(4, 2, 8),
        layer(4, 2, 8, batch_first=True),
        layer(4, 2, 8, batch_first=True, norm_first=True),
        layer(3, 3, 8, batch_first=True),
        layer(4, 2, 8, batch_first=True, activation=torch.tanh),
        layer(4, 2, 8, batch_first=True, bias=False),
        layer(4, 2, 8, bias=False),
        same_eps,
        nn.Linear(2, 2),
    ):
        log.warns(lambda each=each: type(nn.TransformerEncoder(each, 1)).__name__)
    log.warns(lambda: nn.TransformerEncoder(layer(4, 2), 1, enable_nested_tensor=False).num_layers)


@program
def whole_transformers(torch, log):
    for options in ({}, {"batch_first": True, "norm_first": True}):
        model = torch.nn.Transformer(4, 2, 1, 2, 6, 0.0, dtype=torch.float64, **options)
        shape = (2, 5) if options else (5, 2)
        x, y = draw(torch, *shape, 4), draw(torch, *shape, 4)
        mask = model.generate_square_subsequent_mask(5, dtype=torch.float64)
        show(log, model, model(x, y, tgt_mask=mask))
        log(model(x, y, tgt_mask=mask, tgt_is_causal=True))
        pad = torch.zeros(2, 5, dtype=torch.bool)
        pad[0, 3:] = True
        log(model(x, y, src_key_padding_mask=pad, memory_key_padding_mask=pad))
        log(model(x, y, src_mask=mask, memory_mask=mask, tgt_key_padding_mask=pad))


@program
def dropout_draws(torch, log):
    model = torch.nn.Transformer(4, 2, 1, 1, 6, 0.3, dtype=torch.float64)
    x, y = draw(torch, 3, 2, 4), draw(torch, 4, 2, 4)
    torch.manual_seed(11)
    log(model(x, y))
    log(model.eval()(x, y))


@program
def transformers_refuse(torch, log):
    nn = torch.nn
    model = nn.Transformer(4, 2, 1, 1, 8)
    x, y = torch.ones(3, 2, 4), torch.ones(5, 2, 4)
    log.raises(lambda: model(x, torch.ones(5, 3, 4)))
    log.raises(lambda: model(torch.ones(3, 2, 5), y))
    log.raises(lambda: model(torch.ones(3, 4), y))
    log.raises(lambda: nn.TransformerEncoderLayer(4, 2, activation="foo"))
    log.raises(lambda: nn.TransformerDecoderLayer(4, 2, activation="foo"))
    log.raises(lambda: nn.TransformerEncoderLayer(5, 2))
    log.raises(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 0)(x))
    log.raises(lambda: nn.TransformerEncoderLayer(4, 2, 8)(x[None]))
    custom = nn.Transformer(4, 2, custom_encoder=nn.Identity(), custom_decoder=nn.Identity())
    log(repr(custom))


@program
def the_causal_mask(torch, log):
    make = torch.nn.Transformer.generate_square_subsequent_mask
    log(make(3), make(2, dtype=torch.float64), make(0), make(2, device="cpu"))
