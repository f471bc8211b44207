"""Names that libraries ask for: those that are real, against PyTorch's values or theory."""

import pytest

import tapegrad as torch
from tapegrad._higher_order_ops import associative_scan
from tapegrad.nn.attention.flex_attention import create_block_mask, flex_attention
from tapegrad.utils.flop_counter import FlopCounterMode


def test_sobol_points_are_pytorchs():
    engine = torch.quasirandom.SobolEngine(3)
    expected = [[0, 0, 0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75]]
    assert engine.draw(4).tolist() == expected
    assert repr(engine) == "SobolEngine(dimension=3)"
    points = torch.quasirandom.SobolEngine(5, scramble=True, seed=1).draw_base2(6)
    # Every interval of length 1/64 of every axis holds one of the 64 points.
    assert torch.equal((points * 64).long().sort(0).values, torch.arange(64)[:, None].expand(64, 5))


def test_flex_attention_is_attention():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 20, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 20, 20, BLOCK_SIZE=8)
    out = flex_attention(q, k, v, block_mask=mask)
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(out, wanted)
    grads = torch.autograd.grad(out.square().sum(), (q, k, v))
    expected = torch.autograd.grad(wanted.square().sum(), (q, k, v))
    torch.testing.assert_close(grads, expected)
    assert mask.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    biased = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j))
    at = torch.arange(20, dtype=torch.float64)
    bias = at[:, None] - at
    torch.testing.assert_close(
        biased, torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    )


def test_flops_are_counted():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 5)
    )
    with FlopCounterMode(display=False) as counter:
        model(torch.randn(2, 3, 8, 8))
    # 36 places, 4 x 27 products; and 144 x 5: for two images, each product with its sum.
    assert counter.get_total_flops() == 2 * 2 * (36 * 4 * 27 + 144 * 5)


def test_associative_scan_is_cumulative():
    x = torch.rand(7, 3, dtype=torch.float64)
    torch.testing.assert_close(associative_scan(torch.mul, x, 0), x.cumprod(0))
    torch.testing.assert_close(
        associative_scan(torch.add, x, 1, reverse=True), x.flip(1).cumsum(1).flip(1)
    )


def test_float8_has_limits_and_is_stored():
    for name, most in (("float8_e4m3fn", 448.0), ("float8_e5m2", 57344.0)):
        dtype = getattr(torch, name)
        assert torch.finfo(dtype).max == most and dtype.itemsize == 1
        x = torch.tensor([1.0, 2.3, -0.07])
        assert x.to(dtype).dtype is dtype
        assert (x.to(dtype).float() - x).abs().max() < 0.25
        with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
            torch.promote_types(dtype, torch.float32)


def test_what_is_absent_says_so_when_used():
    with pytest.raises(NotImplementedError, match=r"(?s)quantize_dynamic is not available.*E15"):
        torch.ao.quantization.quantize_dynamic(None)
    with pytest.raises(OSError, match="cannot be loaded"):
        torch.ops.load_library("anything.so")
    assert not torch._dynamo.is_compiling() and not torch.xpu.is_available()


def test_boxes_and_regions():
    torch.ops.load_library("torchvision/_C.so")
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
    kept = torch.ops.torchvision.nms(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5)
    assert kept.tolist() == [1, 2]
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    region = torch.tensor([[0.0, 0, 0, 4, 4]])
    # Aligned to pixels, four bins of four pixels are their means.
    pooled = torch.ops.torchvision.roi_align(image, region, 1.0, 2, 2, 2, True)
    assert pooled.flatten().tolist() == [2.5, 4.5, 10.5, 12.5]
    largest, _ = torch.ops.torchvision.roi_pool(
        image, region - region.new_tensor([0, 0, 0, 1, 1]), 1.0, 2, 2
    )
    assert largest.flatten().tolist() == [5.0, 7.0, 13.0, 15.0]


def test_a_subclass_may_have_names_of_our_fields():
    class Mixed:
        node = "theirs"

        def cut(self):
            return "a method"

    class Named(Mixed, torch.Tensor):
        special = "plain"

        @property
        def array(self):
            return self.detach().numpy()

        @array.setter
        def array(self, values):
            self.copy_(torch.as_tensor(values))

    x = torch.ones(2).as_subclass(Named)
    x.array = [3.0, 4.0]
    assert x.array.tolist() == [3.0, 4.0] and x.tolist() == [3.0, 4.0]
    assert (x.node, x.cut(), x.special, Named.special) == ("theirs", "a method", "plain", "plain")
    x.special = "other"
    assert x.special == "other" and type(x + 1) is Named and (x + 1).special == "plain"
    (x.requires_grad_() * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and x.is_leaf


def test_traces_have_the_ops_that_pytorchs_have():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 5),
        torch.nn.Softmax(-1),
    ).eval()
    graph, _ = torch.jit._get_trace_graph(model, (torch.ones(1, 3, 6, 6),))
    nodes = list(graph.nodes())
    names = "_convolution batch_norm adaptive_avg_pool2d flatten linear softmax"
    assert [n.kind() for n in nodes] == [f"aten::{name}" for name in names.split()]
    # input, weight, bias, stride, padding, dilation, transposed, ..., four switches
    convolution = list(nodes[0].inputs())
    assert len(convolution) == 13 and convolution[6].toIValue() is False
    graph, _ = torch.jit._get_trace_graph(
        lambda a, b: torch.einsum("ij,jk", a, b), (torch.ones(2, 3), torch.ones(3, 2))
    )
    (product,) = graph.nodes()
    equation, operands = product.inputs()
    assert equation.toIValue() == "ij,jk"
    assert [v.type().sizes() for v in operands.node().inputs()] == [[2, 3], [3, 2]]


def test_placements_are_values():
    from tapegrad.distributed.tensor import Partial, Replicate, Shard

    assert Shard(0) == Shard(0) != Shard(1) and len({Replicate(), Replicate()}) == 1
    assert [repr(p) for p in (Shard(0), Replicate(), Partial("avg"))] == [
        "Shard(dim=0)",
        "Replicate()",
        "Partial(avg)",
    ]
    assert Shard(1).is_shard(1) and not Shard(1).is_shard(0) and Partial().is_partial()
    parts = [Shard.local_shard_size_and_offset(7, 4, rank) for rank in range(5)]
    assert parts == [(2, 0), (2, 2), (2, 4), (1, 6), (0, 7)]


def test_checkpointed_modules_keep_their_names():
    from tapegrad.distributed.algorithms._checkpoint import checkpoint_wrapper as wrapping

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))
    x = torch.randn(3, 2)
    wanted = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    state = model.state_dict()
    wrapping.apply_activation_checkpointing(
        model, check_fn=lambda module: isinstance(module, torch.nn.Linear)
    )
    assert isinstance(model[0], wrapping.CheckpointWrapper) and model[0].in_features == 2
    found = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    torch.testing.assert_close(found, wanted)
    assert list(model.state_dict()) == list(state)
    model.load_state_dict(state)


def test_a_tensor_of_one_value_is_a_bound():
    x = torch.arange(5.0)
    assert x.clamp(1, torch.tensor(3)).tolist() == [1, 1, 2, 3, 3]
    assert torch.clamp(x, torch.tensor(2), 3).tolist() == [2, 2, 2, 3, 3]
    assert x.clone().clamp_(0, torch.tensor(2)).tolist() == [0, 1, 2, 2, 2]
    with pytest.raises(TypeError, match="invalid combination"):
        x.clamp(0, torch.tensor([3]))


def test_numbers_say_how_losses_are_reduced():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])
    aten = torch.ops.aten
    assert [aten.mse_loss(x, y, how).tolist() for how in (0, 1, 2)] == [[1.0, 4.0], 2.5, 5.0]
    assert aten.smooth_l1_loss.default(x, y, 2, 2.0).item() == 1.25
    assert aten.index.Tensor(torch.eye(3), [None, torch.tensor([1])]).tolist() == [[0], [1], [0]]


def test_timers_time():
    from tapegrad.utils import benchmark

    timer = benchmark.Timer("x.sum()", "x = torch.ones(10)", label="sums", sub_label="ten")
    once = timer.timeit(20)
    assert once.number_per_run == 20 and len(once.times) == 1 and once.median > 0
    assert once.times[0] == once.raw_times[0] / 20 and once.title == "sums: ten"
    several = timer.blocked_autorange(min_run_time=0.01)
    assert sum(several.raw_times) >= 0.01 and several.iqr >= 0
    assert "ten" in str(benchmark.Compare([several])) and "sums: ten" in repr(several)
    made = benchmark.Measurement(2, [2.0, 4.0, 6.0, 8.0], "pass")
    assert (made.mean, made.median, made.iqr) == (2.5, 2.5, 1.5)
    with pytest.raises(NotImplementedError, match="only Python"):
        benchmark.Timer("f()", language="c++")


def test_saved_values_have_pytorchs_names():
    x = torch.randn(1, 2, 4, 4, requires_grad=True)
    node = torch.nn.functional.conv2d(x, torch.ones(3, 2, 2, 2, requires_grad=True)).grad_fn
    assert node._saved_input.shape == x.shape and not hasattr(node, "_saved_self")
    assert x.mean().grad_fn._saved_self_sym_numel == 32
    product = torch.addmm(torch.ones(3), torch.ones(2, 4, requires_grad=True), torch.ones(4, 3))
    assert product.grad_fn._saved_mat1_sym_strides == (4, 1)
    assert product.grad_fn._saved_mat2_sym_sizes == (4, 3)
    loss = torch.nn.functional.nll_loss(torch.zeros(1, 2, requires_grad=True), torch.tensor([1]))
    assert loss.grad_fn._saved_reduction == 1
