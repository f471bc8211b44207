"""What goes a shorter way on a GPU than PyTorch's own composition: same numbers, same memory."""

from __future__ import annotations

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


def test_batches_are_counted() -> None:
    norm = nn.BatchNorm2d(3).cuda()
    for _ in range(3):
        norm(torch.randn(2, 3, 4, 4, device="cuda"))
    assert norm.num_batches_tracked.item() == 3
    assert norm.num_batches_tracked.dtype == torch.int64


def test_gradients_that_meet_twice() -> None:
    """A gradient that two nodes hold is added to another in new memory."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = torch.ones(4, device="cuda", dtype=dtype, requires_grad=True)
        y = x * 2
        a = y + x
        (a + y + a).sum().backward()
        assert x.grad.tolist() == [8, 8, 8, 8]
