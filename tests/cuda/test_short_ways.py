"""What goes a shorter way on a GPU than PyTorch's own composition: same numbers, same memory."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import tapegrad as torch
from tapegrad import nn


def gradients_of(model: Any, x: Any, **options: Any) -> list[Any]:
    """The result of attention of `x` over itself, and all gradients, on the CPU."""
    x = x.detach().requires_grad_()
    out = model(x, x, x, need_weights=False, **options)[0]
    (out * torch.arange(out.numel(), device=out.device).view(out.shape).cos()).sum().backward()
    return [t.detach().cpu() for t in (out, x.grad, *[p.grad for p in model.parameters()])]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("first", [True, False])
def test_attention_over_itself(bias: bool, causal: bool, first: bool) -> None:
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2, bias=bias, batch_first=first)
    x = torch.randn(3, 5, 8)
    length = 5 if first else 3
    mask = nn.Transformer.generate_square_subsequent_mask(length) if causal else None
    here = gradients_of(model, x, attn_mask=mask, is_causal=causal)
    model.zero_grad()
    there = mask.cuda() if causal else None
    found = gradients_of(model.cuda(), x.cuda(), attn_mask=there, is_causal=causal)
    for a, b in zip(found, here, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def lines_of(result: Any) -> set[tuple[str, int]]:
    """The function and the line of every node behind a tensor that is no leaf's."""
    found, stack, seen = set(), [result.grad_fn], set()
    while stack:
        node = stack.pop()
        if node in seen or node._is_leaf:
            continue
        seen.add(node)
        stack.extend([edge for edge in node._edges if edge is not None])
        lines = [n for a, b, n in node._code.co_lines() if a <= node._lasti < b]
        found.add((node._code.co_name, lines[0] - node._code.co_firstlineno))
    return found


@pytest.mark.parametrize("half", [False, True])
def test_its_nodes_know_the_line(half: bool) -> None:
    def user(model: Any, x: Any) -> Any:
        return model(x, x, x, need_weights=False)[0]

    model = nn.MultiheadAttention(8, 2, batch_first=True).cuda()
    x = torch.randn(3, 5, 8, device="cuda", requires_grad=True)
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        out = user(model, x)
    assert lines_of(out) == {("user", 1)}
    assert lines_of(x * 2) == {("test_its_nodes_know_the_line", 10)}  # not where it was before


def test_its_result_lies_as_in_pytorch() -> None:
    model = nn.MultiheadAttention(8, 2, batch_first=True).cuda()
    x = torch.randn(3, 5, 8, device="cuda")
    out = model(x, x, x, need_weights=False)[0]
    assert out.stride() == (8, 24, 1)  # length in front in memory
    model.eval()
    with torch.no_grad():
        assert model(x, x, x, need_weights=False)[0].stride() == (40, 8, 1)


def test_what_differs_is_not_taken_for_it() -> None:
    """Weights, other keys, masks, dropout: the long way, with the same results as on the CPU."""
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    x, y = torch.randn(3, 5, 8), torch.randn(3, 4, 8)
    padding = torch.tensor([[False] * 4 + [True]] * 3)
    cases: list[tuple[Any, dict[str, Any]]] = [
        ((x, x, x), {}),
        ((x, y, y), {"need_weights": False}),
        ((x, x, x), {"need_weights": False, "key_padding_mask": padding}),
        ((x[0], x[0], x[0]), {"need_weights": False}),
        ((x.transpose(0, 1),) * 3, {"need_weights": False}),
    ]
    for inputs, options in cases:
        here = model.cpu()(*inputs, **options)[0]
        there = {k: v.cuda() if isinstance(v, torch.Tensor) else v for k, v in options.items()}
        found = model.cuda()(*[t.cuda() for t in inputs], **there)[0]
        torch.testing.assert_close(found.cpu(), here, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="Need attn_mask if specifying the is_causal hint"):
        t = x.cuda()
        model(t, t, t, need_weights=False, is_causal=True)
    with pytest.raises(AssertionError, match="was expecting embedding dimension of 8"):
        t = torch.randn(3, 5, 6, device="cuda")
        model(t, t, t, need_weights=False)


def test_an_encoder_and_its_hooks() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    x = torch.randn(3, 5, 8)
    here = model(x)
    model.cuda()
    seen: list[Any] = []
    model.layers[0].self_attn.register_forward_hook(lambda m, i, o: seen.append(o[0].shape))
    torch.testing.assert_close(model(x.cuda()).cpu(), here, rtol=1e-4, atol=1e-5)
    assert seen == [(3, 5, 8)]
    with torch.autocast("cuda", torch.bfloat16):
        half = model(x.cuda())
    torch.testing.assert_close(half.float().cpu(), here, rtol=0.1, atol=0.1)


def test_batched_attention_over_itself() -> None:
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2, batch_first=True).cuda()
    x = torch.randn(2, 3, 5, 8, device="cuda")
    found = torch.func.vmap(lambda t: model(t, t, t, need_weights=False)[0])(x)
    each = torch.stack([model(t, t, t, need_weights=False)[0] for t in x])
    torch.testing.assert_close(found, each, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------- writing in place

DTYPES = [torch.int64, torch.int32, torch.uint8, torch.float32, torch.float64, torch.float16]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16, torch.bool])
def test_numbers_written_in_place(dtype: Any) -> None:
    for value in (1, 3, -2, 2**40, 0.5):
        for name in ("add_", "mul_", "sub_", "div_"):
            here, there = torch.ones(5, dtype=dtype), torch.ones(5, dtype=dtype, device="cuda")
            results = []
            for t in (here, there):
                try:
                    getattr(t, name)(value)
                    results.append((t.cpu(), t._version))
                except (RuntimeError, OverflowError) as error:
                    results.append((type(error), str(error).split("\n")[0]))
            if isinstance(results[0][0], torch.Tensor):
                torch.testing.assert_close(results[1][0], results[0][0], rtol=0, atol=0)
                assert results[0][1] == results[1][1] == 1
            else:
                assert results[0] == results[1]


def test_tensors_written_in_place() -> None:
    base = torch.arange(8.0, device="cuda")
    x = torch.arange(4.0, device="cuda")
    x.add_(x)
    assert x.tolist() == [0, 2, 4, 6]
    x.mul_(torch.tensor([1.0, 2, 3, 4], device="cuda"))
    assert x.tolist() == [0, 4, 12, 24]
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        base[1:].add_(base[:-1])
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        base[1:].detach().add_(base[:-1].detach())
    x.add_(torch.ones(1, device="cuda"))
    assert x.tolist() == [1, 5, 13, 25]
    x.t_()
    leaf = torch.ones(3, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.add_(1)
    with torch.no_grad():
        leaf.add_(1)
    assert leaf.tolist() == [2, 2, 2] and leaf._version == 1
    y = leaf * 2
    y.add_(1)
    y.sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]


def test_a_write_is_seen_by_who_saved_the_tensor() -> None:
    w = torch.ones(3, device="cuda", requires_grad=True)
    x = torch.ones(3, device="cuda")
    out = (w * x).sum()
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


SHAPES = [(2, 3, 4, 4), (5, 3), (2, 3, 7), (64, 3, 40, 40), (3, 8, 2, 2), (3000, 8)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", [{}, {"affine": False}, {"momentum": None}, {"momentum": 0.3}])
def test_a_batch_norm_layer_in_training(shape: Any, options: dict[str, Any]) -> None:
    """Result, gradients, running statistics and count, of several batches."""
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)]
    found = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        norm = kind(shape[1], **options).to(device)
        before = [t._version for t in norm.buffers()]
        x = torch.randn(3, *shape).to(device).requires_grad_()
        outs = [norm(t * (i + 1)) for i, t in enumerate(x)]
        sum([(out * out * out.sin()).sum() for out in outs]).backward()
        made = [*outs, x.grad, *[p.grad for p in norm.parameters()], *norm.buffers()]
        found.append([t.detach().cpu() for t in made])
        writes = [t._version - n for t, n in zip(norm.buffers(), before, strict=True)]
        assert writes == [0, 0, 3]  # as in PyTorch, who does not count that statistics follow
        assert norm.num_batches_tracked.dtype == torch.int64
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4)


def test_what_a_batch_norm_layer_refuses() -> None:
    norm = nn.BatchNorm2d(3).cuda()
    with pytest.raises(RuntimeError, match="running_mean should contain 4 elements not 3"):
        norm(torch.randn(2, 4, 2, 2, device="cuda"))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        norm(torch.randn(1, 3, 1, 1, device="cuda"))
    with torch.no_grad():
        norm(torch.randn(2, 3, 2, 2, device="cuda"))
    assert norm.num_batches_tracked.item() == 3  # PyTorch counts before it looks
    norm.eval()
    norm(torch.randn(2, 3, 2, 2, device="cuda"))
    assert norm.num_batches_tracked.item() == 3
    norm.train()
    with torch.autocast("cuda", torch.bfloat16):
        half = norm(torch.randn(2, 3, 2, 2, device="cuda", dtype=torch.bfloat16))
    assert half.dtype is torch.bfloat16 and norm.num_batches_tracked.item() == 4


def test_gradients_that_meet_twice() -> None:
    """A gradient that two nodes hold is added to another in new memory."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = torch.ones(4, device="cuda", dtype=dtype, requires_grad=True)
        y = x * 2
        a = y + x
        (a + y + a).sum().backward()
        assert x.grad.tolist() == [8, 8, 8, 8]


# ---------------------------------------------------------------------- linear layers


def names_behind(node: Any) -> Any:
    return node and (node.name(), [names_behind(n) for n, _ in node.next_functions])


def layer(device: str, wants: str = "xwb", shape: Any = (2, 3, 4), dtype: Any = None) -> list[Any]:
    torch.manual_seed(0)
    tensors = [torch.randn(*s, dtype=dtype).to(device) for s in (shape, (5, 4), (5,))]
    return [t.requires_grad_(name in wants) for t, name in zip(tensors, "xwb", strict=True)]


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (1, 4), (2, 1, 3, 4)])
@pytest.mark.parametrize("wants", ["xwb", "xw", "xb", "wb", "x", "w", "b"])
def test_a_linear_layer_has_the_nodes_of_its_ops(shape: Any, wants: str) -> None:
    found = []
    for device in ("cpu", "cuda"):
        x, w, b = layer(device, wants, shape, torch.float64)
        out = nn.functional.linear(x * 1 if x.requires_grad else x, w, b)
        (out * out).sum().backward()
        grads = [None if t.grad is None else t.grad.cpu() for t in (x, w, b)]
        found.append((names_behind(out.grad_fn), out.detach().cpu(), grads))
        assert out._is_view() == (len(shape) > 2)
    here, there = found
    assert here[0] == there[0]
    torch.testing.assert_close(here[1], there[1])
    for a, g in zip(here[2], there[2], strict=True):
        assert (a is None) == (g is None)
        if a is not None:
            torch.testing.assert_close(a, g)


def test_its_nodes_can_be_watched() -> None:
    x, w, b = layer("cuda")
    seen: list[Any] = []
    out = nn.functional.linear(x, w, b)
    product = out.grad_fn.next_functions[0][0]
    turned = product.next_functions[2][0]
    assert (product.name(), turned.name()) == ("AddmmBackward0", "TBackward0")
    turned.register_hook(lambda given, arrived: seen.append(given[0].shape))
    product.register_prehook(lambda arrived: seen.append(arrived[0].shape))
    out.sum().backward()
    assert seen == [(6, 5), (5, 4)]
    assert b.grad.tolist() == [6.0] * 5


def test_its_gradients_arrive_in_the_order_of_pytorch() -> None:
    for device in ("cpu", "cuda"):
        x, w, b = layer(device)
        seen: list[str] = []
        for name, t in zip("xwb", (x, w, b), strict=True):
            note = functools.partial(lambda to, name, _: to.append(name), seen, name)
            t.register_post_accumulate_grad_hook(note)
        nn.functional.linear(x, w, b).sum().backward()
        assert seen == ["b", "x", "w"]


def test_it_runs_again_or_says_that_it_cannot() -> None:
    x, w, b = layer("cuda")
    out = nn.functional.linear(x, w, b).sum()
    out.backward(retain_graph=True)
    first = w.grad.clone()
    out.backward()
    torch.testing.assert_close(w.grad, 2 * first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.backward()
    out = nn.functional.linear(x, w, b).sum()
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_it_is_differentiated_twice() -> None:
    found = []
    for device in ("cpu", "cuda"):
        x, w, b = layer(device, dtype=torch.float64)
        out = nn.functional.linear(x, w, b).tanh()
        grads = torch.autograd.grad(out.sum(), (x, w, b), create_graph=True)
        sum([(g * g).sum() for g in grads]).backward()
        found.append([t.grad.cpu() for t in (x, w, b)])
    for a, g in zip(*found, strict=True):
        torch.testing.assert_close(a, g)


def test_weights_and_inputs_that_are_used_twice() -> None:
    found = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        model = nn.Linear(4, 4)
        x = torch.randn(2, 3, 4)
        model, x = model.to(device), x.to(device).requires_grad_()
        y = model(x)
        z = model(torch.relu(y)) + y + model(x)
        with torch.no_grad():
            assert not model(x).requires_grad
        z.view(-1)[:7].add_(1)  # a write to what came out
        z.sum().backward()
        found.append([t.grad.cpu() for t in (x, *model.parameters())])
    for a, g in zip(*found, strict=True):
        torch.testing.assert_close(a, g, rtol=1e-4, atol=1e-5)


def test_under_autocast_it_has_the_nodes_of_its_ops() -> None:
    found = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4), nn.LayerNorm(4))
        x = torch.randn(2, 3, 4).to(device).requires_grad_()
        model.to(device)
        with torch.autocast(device, torch.bfloat16):
            out = model(x)
        names = names_behind(model[:3](x).grad_fn)
        out.float().pow(2).sum().backward()
        found.append((names, [t.grad.float().cpu() for t in (x, *model.parameters())]))
        assert all([p.grad.dtype is torch.float32 for p in model.parameters()])
    assert found[0][0] == found[1][0]
    for a, g in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(a, g, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("hooked", [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_leaves_take_gradients_in_the_same_order(hooked: tuple[int, ...]) -> None:
    """With a hook on a leaf they wait in line; without, they are given theirs at once."""
    found = []
    for device in ("cpu", "cuda"):
        a, b, c = [torch.full((3,), n).to(device).requires_grad_() for n in (1.0, 2.0, 3.0)]
        seen: list[Any] = []

        def note(p: Any, leaves: Any = (a, b, c), seen: Any = seen) -> None:
            seen.append([t.grad is not None for t in leaves])

        for i in hooked:
            (a, b, c)[i].register_post_accumulate_grad_hook(note)
        out = torch.addcmul(a, b, c) * b + a
        out.sum().backward()
        (a * c).sum().backward()  # to gradients that are there
        versions = [t.grad._version for t in (a, b, c)]
        found.append((seen, versions, [t.grad.tolist() for t in (a, b, c)]))
    assert found[0] == found[1]
