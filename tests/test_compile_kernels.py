"""Compiled gradients are those of ordinary backward passes, by the same kernels."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.compiler.capture.branches import Decision
from tapegrad.compiler.plan.native_calls import Segment
from tapegrad.kernels.cpu import KERNELS
from tapegrad.utils._python_dispatch import TorchDispatchMode
from test_compile_memory import both_ways, needs_kernels

F = torch.nn.functional
ROWS, COLUMNS = 24, 40


def pulled(function: Any) -> Any:
    """A function of one tensor together with the gradient of a weighted sum of what it gives."""

    def work(x: Any, weight: Any) -> Any:
        leaf = x.detach().requires_grad_()
        out = function(leaf)
        (out * weight[: out.numel()].view(out.shape)).sum().backward()
        return out.detach(), leaf.grad

    return work


def draw() -> Any:
    return torch.randn(ROWS, COLUMNS), torch.randn(2 * ROWS * COLUMNS)


def in_python(step: Any) -> list[str]:
    """The ops that a recording calls through Python; checks of values are none."""
    (recording,) = step.recordings.values()
    owners = [run.__self__ for run in recording.run_steps]
    return [each.name for each in owners if not isinstance(each, (Segment, Decision))]


CASES = {
    "group_norm": lambda x: F.group_norm(x.view(4, 8, 30), 2),
    "silu": F.silu,
    "mish": F.mish,
    "gather": lambda x: x.gather(1, (x * 0).long()),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "by a truth value": lambda x: x * (x > 0),
    "as a number": lambda x: (x > 0).float() * x,
    "nan_to_num": lambda x: x.nan_to_num(),
    "turned": lambda x: x.t().contiguous().exp(),
    "without weights": lambda x: F.binary_cross_entropy(x.sigmoid(), (x * 2).sigmoid()),
}


def edges() -> Any:
    """Zeros of both signs and infinities among ordinary numbers, twice, in all pairs."""
    one = torch.tensor([0.0, -0.0, 1.5, -1.5, torch.inf, -torch.inf, 3e-42, -7.0])
    a, b = torch.meshgrid(one, one, indexing="ij")
    return a.reshape(-1), b.reshape(-1)


SIGNED = {
    "products": lambda a, b: (-a * b, a * -b, -a * -b),
    "quotients": lambda a, b: (-a / b, a / -b, -a / -b),
    "sums": lambda a, b: (-a + b, a + -b, -a + -b, -a + -a),
    "differences": lambda a, b: (-a - b, a - -b, -a - -b),
    "of one": lambda a, b: ((-a).abs(), (-b) * (-b), a.neg().neg() * b),
    "the same twice": lambda a, b: (a * b + b * a, b + a, a + b),
}


@needs_kernels
@pytest.mark.parametrize("kind", SIGNED)
def test_signs_are_those_of_eager(kind: str) -> None:
    step = torch.compile(SIGNED[kind], fullgraph=True)
    for _ in range(4):
        a, b = edges()
        found, wanted = step(a, b), SIGNED[kind](a, b)
        for f, w in zip(found, wanted, strict=True):
            assert torch.equal(f.isnan(), w.isnan())
            assert torch.equal(f[~f.isnan()].view(torch.int32), w[~w.isnan()].view(torch.int32))


@needs_kernels
def test_the_gradient_of_a_sum_is_no_array() -> None:
    """It is one everywhere: nothing is multiplied by it, and other values may be results."""
    x = torch.randn(3, 50, requires_grad=True)
    y = torch.randn(3, 50, requires_grad=True)

    @torch.compile
    def step() -> None:
        x.grad = y.grad = None
        (x * y).sum().backward()

    for _ in range(4):
        step()
    assert torch.equal(x.grad, y) and torch.equal(y.grad, x)
    assert x.grad.data_ptr() != y.data_ptr()
    (recording,) = step.recordings.values()
    names = [name for run in recording.run_steps for name in getattr(run.__self__, "names", ())]
    assert names == ["mul+mul+mul", "sum_all"]


@needs_kernels
def test_a_program_of_numbers_alone() -> None:
    def step(x: Any) -> Any:
        one = torch.ones(())
        return x * 2 + 1, (one * 2 + 1).exp() - one

    compiled = torch.compile(step, fullgraph=True)
    for _ in range(4):
        x = torch.randn(5)
        for f, w in zip(compiled(x), step(x), strict=True):
            assert torch.equal(f, w)


def recipe(seed: int) -> list[tuple[str, int, Any]]:
    """Sums, products and choices: what is done, with which value, with which other or number."""
    chooser = random.Random(seed)
    made = []
    for i in range(2, 32):
        name = chooser.choice(["add", "sub", "rsub", "mul", "square", "where", "exp"])
        first = chooser.randrange(max(0, i - 5), i)
        other: Any = chooser.randrange(max(0, i - 5), i)
        if chooser.random() < 0.3:
            other = chooser.uniform(-2, 2)
        made.append((name, first, other))
    return made


def cooked(steps: list[tuple[str, int, Any]], *given: Any) -> list[Any]:
    values = list(given)
    for name, first, other in steps:
        x, y = values[first], values[other] if type(other) is int else other
        if name == "where":
            values.append(torch.where(x > 0, y, x) if first % 2 else torch.where(x > 0, x, y))
        elif name == "rsub":
            values.append(y - x)
        elif name == "square":
            values.append(x * x)
        elif name == "exp":
            values.append((-x.abs()).exp())
        else:
            values.append({"add": x + y, "sub": x - y, "mul": x * y}[name])
    return values[8::8] + values[-1:]


@needs_kernels
@pytest.mark.parametrize("seed", range(16))
def test_steps_of_joined_programs_in_pairs(seed: int) -> None:
    """Where two steps become one, nothing is rounded otherwise, and no value is lost."""
    steps = recipe(seed)
    dtype = torch.float64 if seed % 2 else torch.float32
    compiled = torch.compile(lambda a, b: cooked(steps, a, b), fullgraph=True)
    for _ in range(4):
        given = [torch.randn(5000 if seed % 3 else 7, dtype=dtype) for _ in range(2)]
        for f, w in zip(compiled(*given), cooked(steps, *given), strict=True):
            assert torch.equal(f.nan_to_num(), w.nan_to_num())


@needs_kernels
def test_programs_that_are_alike_are_one() -> None:
    """As many times as it is used, it is prepared once; for other operands it is another one."""

    def once(x: Any) -> Any:
        return (x * 2 + 1).tanh() * 0.0 + (x * -2 + 1).tanh() * -0.0

    def step(x: Any, wide: Any) -> Any:
        first = once(x)
        return first, once(first @ x), once(wide)

    compiled = torch.compile(step)
    given = torch.randn(4, 4), torch.randn(5, 8)
    for _ in range(4):
        found = compiled(*given)
    for f, w in zip(found, step(*given), strict=True):
        assert torch.equal(f, w) and torch.equal(f.signbit(), w.signbit())
    (recording,) = compiled.recordings.values()
    (segment,) = [run.__self__ for run in recording.run_steps]
    programs = [x for x in segment.tape.kept if type(x).__name__ == "Program"]
    assert len(programs) == 3 and len(set(map(id, programs))) == 2

    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    said = segment.tape.machine(0)[0]
    operands = [(0, x.ctypes.data, 0.0, (4,)), (0, y.ctypes.data, 0.0, (4,))]
    tape = KERNELS.fused_tape(said, (4,), tuple(operands), [x, y])
    with pytest.raises(ValueError, match="prepared for other operands"):
        KERNELS.fused_tape(tape.kept[0], (2,), tuple(operands), [x, y])


@needs_kernels
@pytest.mark.parametrize("kind", CASES)
def test_gradients_have_the_same_bits(kind: str) -> None:
    step = both_ways(pulled(CASES[kind]), draw)
    left = {"gradients", "binary_cross_entropy", "binary_cross_entropy_backward"}
    if kind == "gather":
        left.add("cast")  # to whole numbers
    assert not set(in_python(step)) - left


def recurrent(kind: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    layer = kind(COLUMNS, 16, **options)

    def work(x: Any) -> Any:
        layer.zero_grad()
        out, _ = layer(x)
        (out * out).sum().backward()
        return out.detach(), *[p.grad.clone() for p in layer.parameters()]

    return work


@needs_kernels
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}], ids=str)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_run_in_c_and_have_the_same_bits(kind: str, options: Any) -> None:
    work = recurrent(getattr(torch.nn, kind), **options)
    step = both_ways(work, lambda: (torch.randn(5, ROWS, COLUMNS),))
    assert not [name for name in in_python(step) if kind.lower() in name]


def test_a_projection_goes_step_by_step() -> None:
    work = recurrent(torch.nn.LSTM, proj_size=8)
    both_ways(work, lambda: (torch.randn(5, ROWS, COLUMNS),))


@pytest.mark.parametrize("dim", (0, 1, None))
@pytest.mark.parametrize("zeros", (0, 1, 2))
def test_products_with_and_without_zeros(dim: Any, zeros: int) -> None:
    def given() -> Any:
        x, weight = draw()
        x = x.abs() + 0.5
        x.view(-1)[: 3 * zeros : 3] = 0
        return x, weight

    both_ways(pulled(lambda x: x.prod() if dim is None else x.prod(dim)), given)


@pytest.mark.parametrize("weighted", (False, True))
def test_smoothed_labels_are_recorded(weighted: bool) -> None:
    torch.manual_seed(0)
    labels = torch.randint(0, COLUMNS, (ROWS,))
    labels[3] = -100
    weight = torch.rand(COLUMNS) if weighted else None

    def work(x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        loss = F.cross_entropy(leaf, labels, weight, label_smoothing=0.1)
        loss.backward()
        return loss.detach(), leaf.grad

    step = torch.compile(work, fullgraph=True)
    for i in range(6):
        torch.manual_seed(i)
        x = torch.randn(ROWS, COLUMNS)
        for a, b in zip(step(x), work(x), strict=True):  # the weights are summed in another order
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


SUMS = {
    "repeated": lambda x: x.repeat(2, 1),
    "repeated rows": lambda x: x.repeat_interleave(2, 0),
    "windows": lambda x: x.unfold(0, 3, 1).sum(2),
    "turned": lambda x: x.view(4, 6, COLUMNS).permute(2, 0, 1).sum(1),
    "expanded": lambda x: x[:1].expand(3, COLUMNS).sum(0),
}


@needs_kernels
@pytest.mark.parametrize("kind", SUMS)
def test_sums_of_arrays_that_do_not_lie_in_a_row(kind: str) -> None:
    function = SUMS[kind]

    def work(x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        out = function(leaf)
        (out * 1.5).sum().backward()
        return out.detach(), leaf.grad

    step = torch.compile(work, fullgraph=True)
    for i in range(6):
        torch.manual_seed(i)
        x = torch.randn(ROWS, COLUMNS)
        for a, b in zip(step(x), work(x), strict=True):
            assert a.stride() == b.stride()
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@needs_kernels
def test_zeros_of_rules_are_neither_kept_nor_read() -> None:
    """What a rule fills with zeros first is cleared by the kernel, row by row."""
    x = torch.randn(64, 64, requires_grad=True)
    at = torch.randint(0, 64, (64, 8))

    def work() -> None:
        x.grad = None
        x.gather(1, at).sum().backward()

    step = torch.compile(work, fullgraph=True)
    for _ in range(5):
        step()
    (recording,) = step.recordings.values()
    floats = [t for t, _, _ in recording.externals if t.is_floating_point()]
    assert len(floats) == 1 and floats[0] is x
    calls = sum([len(run.__self__.tape) for run in recording.run_steps[:1]])
    # the forward kernel and its check, the sum, the gradient spread out, its kernel and its check
    assert calls == 6


def test_modes_are_shown_what_pytorch_shows() -> None:
    """Ops that are one for the sake of a recording are PyTorch's own for everybody else."""
    seen: list[str] = []

    class Listens(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def pull(function: Any) -> list[str]:
        loss = function(torch.rand(4, 6, requires_grad=True)).sum()
        seen.clear()
        with Listens():
            loss.backward()
        return list(seen)

    assert "aten.silu_backward.default" in pull(F.silu)
    assert "aten.native_group_norm_backward.default" in pull(lambda x: F.group_norm(x, 2))
    assert pull(lambda x: x.prod(1)).count("aten.cumprod.default") == 2
    layer = torch.nn.LSTM(6, 3)
    assert all([name.startswith("aten.") for name in pull(lambda x: layer(x)[0])])


def test_conjugate_and_negative_views() -> None:
    """What is read through the bits is the result of an op in the recording, of each call anew."""

    def work(x: Any) -> Any:
        z = torch.complex(x, x * 2).requires_grad_()
        turned = z.conj().t()
        product = turned @ z + (z.conj() * z.conj().imag).sum() + turned[0].conj().sum()
        product.abs().sum().backward()
        return product.detach().real + 0, z.grad.imag + 0, torch.view_as_real(z.grad) + 0

    step = torch.compile(work, fullgraph=True)
    for i in range(6):
        torch.manual_seed(i)
        x = torch.randn(3, 4, dtype=torch.float64)
        for found, wanted in zip(step(x), work(x), strict=True):
            torch.testing.assert_close(found, wanted)
    assert next(iter(step.recordings.values())).replays == 3


def test_a_conjugate_view_that_is_written_is_named() -> None:
    def work(x: Any) -> Any:
        z = torch.complex(x, x)
        z.conj().mul_(2)
        return z.real + 1

    step = torch.compile(work, fullgraph=True)
    step(torch.ones(3))
    with pytest.raises(RuntimeError, match="it uses a conjugate or negative view"):
        step(torch.ones(3))


@needs_kernels
@pytest.mark.parametrize("shape", [(48, 40, 64), (5, 6, 7)])
def test_products_with_the_gradient_of_a_sum(shape: tuple[int, int, int]) -> None:
    """It is one number, repeated; a tape copies it as a call does."""
    m, k, n = shape
    x = torch.randn(m, k, requires_grad=True)
    w = torch.randn(k, n, requires_grad=True)

    def step() -> None:
        x.grad = w.grad = None
        (x @ w).sum().backward()

    step()
    want = x.grad.clone(), w.grad.clone()
    compiled = torch.compile(step, fullgraph=True)
    for _ in range(4):
        compiled()
        assert torch.equal(x.grad, want[0]) and torch.equal(w.grad, want[1])


MOVES = {
    "roll": lambda x: x.roll((1, -3), (0, 1)),
    "repeat": lambda x: x * x.detach()[:12, :20].repeat(2, 2),
    "pad": lambda x: F.pad(x, (1, -2, 0, 3), value=0.5),
    "tril": lambda x: x.tril(-1),
    "triu of a view": lambda x: x.t().triu(2),
    "rot90": lambda x: torch.rot90(x, 1, (0, 1)),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[:, :32].reshape(2, 12, 4, 8), 2),
    "diag_embed": lambda x: torch.diag_embed(x[0, :7]),
    "diagonal": lambda x: x.diagonal(1) * 1,
}
LOSSES = {
    "mse_loss": lambda x: F.mse_loss(x, x.detach() * 0.5),
    "of a part": lambda x: F.mse_loss(x[:, ::2], x.detach()[:, ::2].cos(), reduction="sum"),
    "huber_loss": lambda x: F.huber_loss(x, x.detach().cos(), delta=0.7),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x.detach().cos(), beta=0.3, reduction="none"),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x.sigmoid(), x.detach().cos().abs()),
    "with logits": lambda x: F.binary_cross_entropy_with_logits(x, x.detach().cos().abs()),
    "with weights": lambda x: F.binary_cross_entropy_with_logits(
        x, x.detach().cos().abs(), pos_weight=x.detach()[0].exp()
    ),
    "soft_margin_loss": lambda x: F.soft_margin_loss(x, x.detach().sign()),
}
OTHERS = {
    "max": lambda x: x.max(1).values,
    "min along columns": lambda x: x.min(0, True).values,
    "amax": lambda x: x.view(4, 6, 40).amax((0, 1)),
    "max of all": lambda x: x.max(),
    "masked_fill": lambda x: x.masked_fill(x > 0.3, -2.0),
    "masked_fill of a row": lambda x: x.masked_fill(x[0] > 0.3, 7.5),
}
ADDED_OTHERWISE = {  # by NumPy or BLAS, where nothing is compiled
    "norm": lambda x: x.norm(dim=1),
    "norm of all": lambda x: x.norm(),
    "mv": lambda x: x @ x.detach()[0],
    "dot": lambda x: x[0] @ x[1].detach(),
}
WRITES = {
    "clamp_": lambda x: (x * 2).clamp_(-0.5, 1.5),
    "lerp_": lambda x: (x * 2).lerp_(x, 0.25),
    "add_ with alpha": lambda x: (x * 2).add_(x, alpha=3),
}


@needs_kernels
@pytest.mark.parametrize("name", [*MOVES, *LOSSES, *OTHERS, *WRITES])
def test_what_needs_no_python(name: str) -> None:
    """Ops that only move elements, losses of elements, and writes with numbers, both ways."""
    step = both_ways(pulled({**MOVES, **LOSSES, **OTHERS, **WRITES}[name]), draw)
    assert set(in_python(step)) <= {"gradients"}


@needs_kernels
@pytest.mark.parametrize("name", ADDED_OTHERWISE)
def test_what_is_added_up_in_another_order(name: str) -> None:
    work = pulled(ADDED_OTHERWISE[name])
    step = torch.compile(work, fullgraph=True)
    for i in range(6):
        torch.manual_seed(i)
        given = draw()
        for found, wanted in zip(step(*given), work(*given), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-6, atol=2e-6)
    assert set(in_python(step)) <= {"gradients"}


@needs_kernels
def test_what_is_moved_may_be_of_any_kind() -> None:
    @torch.compile
    def turned(x: Any, y: Any, z: Any) -> Any:
        return x.roll(1), y.tril(), F.pad(z, (2, 1), value=1)

    for i in range(6):
        x, y = torch.arange(5) + i, torch.ones(3, 3, dtype=torch.bool)
        z = torch.full((4,), float(i), dtype=torch.bfloat16)
        made = turned(x, y, z)
        assert made[0].tolist() == [4 + i, *range(i, 4 + i)]
        assert made[1].tolist() == [[True, False, False], [True, True, False], [True] * 3]
        assert made[2].tolist() == [1.0, 1.0, *[float(i)] * 4, 1.0]
    assert in_python(turned) == []


WHOLE = {
    "comparisons": lambda n, m, t: (n == m, n != 3, n < m, n <= 2, n > m, n >= -1),
    "broadcast": lambda n, m, t: (n[:, None] == torch.arange(-5, 5), n[None] + m[:4, None]),
    "sums that wrap": lambda n, m, t: (n * m, n - m, n * (1 << 62) + m),
    "remainders": lambda n, m, t: (n % 3, n % -4, m % -1),
    "of truths": lambda n, m, t: (t & (n > 0), t | (n > m), t ^ (m > 1), ~t, t == (n > 0)),
    "bits": lambda n, m, t: (n & m, n | 6, n ^ m),
    "all and any": lambda n, m, t: (t.all(), t.any(), t.view(3, 4).all(0), (n > 4).any()),
    "of parts": lambda n, m, t: (n.view(3, 4).t() == m.view(4, 3), n[::2] + m[1::2]),
    "one number": lambda n, m, t: (n[0] == 2, n[1] % 3, t[0] & t[1]),
    "casts": lambda n, m, t: (n.float() / 2, n.double() * 1, t.long() + n, n.bool() | t, t.float()),
    "one_hot": lambda n, m, t: (F.one_hot(n % 9, 9) + 0,),
}


@needs_kernels
@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_and_truths_need_no_python(name: str) -> None:
    def arguments() -> Any:
        n = torch.randint(-8, 9, (12,))
        return n, torch.randint(-8, 9, (12,)), torch.rand(12) < 0.7

    step = both_ways(WHOLE[name], arguments)
    assert in_python(step) == []


@needs_kernels
def test_numbers_of_a_tensor_are_looked_at_anew() -> None:
    """A tensor without dimensions is no constant, even where another one is."""

    @torch.compile
    def compared(x: Any, limit: Any) -> Any:
        return (x > limit) & (x > 2), x % 4

    for i in range(8):
        more, rest = compared(torch.arange(9), torch.tensor(i))
        assert more.tolist() == [k > max(i, 2) for k in range(9)]
        assert rest.tolist() == [k % 4 for k in range(9)]
    assert in_python(compared) == []


@needs_kernels
def test_a_division_by_zero_is_still_an_error() -> None:
    @torch.compile
    def divided(x: Any, by: Any) -> Any:
        return x % by

    for _ in range(5):
        assert divided(torch.arange(4), torch.tensor(3)).tolist() == [0, 1, 2, 0]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divided(torch.arange(4), torch.tensor(0))


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_softmax_of_rows_of_nothing(dtype: Any) -> None:
    """In C as on NumPy: zeros along rows of minus infinity, and nowhere else."""
    low = float("-inf")
    x = torch.tensor([[0.0, 1.0], [low, low], [low, float("nan")], [low, 2.0]], dtype=dtype)
    made = torch.ops.aten._safe_softmax(x, -1)
    assert made[1].tolist() == [0.0, 0.0] and made[3].tolist() == [0.0, 1.0]
    assert made[2].isnan().all()
    torch.testing.assert_close(made[0], x[0].softmax(-1))


@needs_kernels
def test_writes_into_memory_in_another_order() -> None:
    @torch.compile
    def scaled(x: Any) -> Any:
        y = (x * 1).permute(2, 0, 1).contiguous().permute(1, 2, 0)
        y.div_(2.0).add_(1.5)
        return F.dropout(y, 0.5)

    for i in range(6):
        x = torch.arange(24.0).view(2, 3, 4) + i
        torch.manual_seed(i)
        made = scaled(x)
        torch.manual_seed(i)
        y = (x * 1).permute(2, 0, 1).contiguous().permute(1, 2, 0)
        assert torch.equal(made, F.dropout(y.div_(2.0).add_(1.5), 0.5))
        assert made.stride() == y.stride()
    assert in_python(scaled) == []


def heat(u: Any, source: Any, level: Any) -> None:
    """Writes of parts, of one number and of what another tensor has, one after the other."""
    inner = u[2:] - 2 * u[1:-1] + u[:-2]
    u[1:-1] = u[1:-1] + 0.1 * inner
    u[0] = source
    u[-1].fill_(0.5)
    u[3].fill_(level)
    u[5].zero_()
    u.t()[2].copy_(u.t()[1])


@needs_kernels
def test_writes_of_values_need_no_python() -> None:
    torch.manual_seed(0)
    u, source = torch.rand(9, 6), torch.rand(6)
    v, step = u.clone(), torch.compile(lambda source, level: heat(u, source, level))
    for i in range(10):
        level, before = torch.tensor(float(i)), u._version
        step(source, level)
        heat(v, source, level)
        assert torch.equal(u, v)
        source = source + 1
    assert u._version == before + 6
    assert in_python(step) == ["aten.fill_.Tensor", "aten.copy_.default"]  # of a tensor; of itself


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_numbers_are_stacked_without_python(dtype: Any) -> None:
    @torch.compile
    def joined(x: Any) -> Any:
        return torch.stack([x[0], x[2], x[1]]), torch.stack([x[:2], x[1:]], 1)

    for i in range(6):
        x = torch.tensor([i, 0, i + 1]).to(dtype)
        flat, square = joined(x)
        assert flat.tolist() == [x[0].item(), x[2].item(), x[1].item()]
        assert square.tolist() == [[x[0].item(), x[1].item()], [x[1].item(), x[2].item()]]
        assert flat.dtype is square.dtype is dtype


@needs_kernels
@pytest.mark.parametrize("function", [torch.exp, torch.tanh, torch.sigmoid, F.silu, F.softplus])
def test_bits_of_ops_on_turned_arrays(function: Any) -> None:
    """Eager calls run them by the kernels too: NumPy's exponential has other last bits."""
    torch.manual_seed(0)
    for _ in range(8):
        step = torch.compile(lambda x, y: function(x).t() + function(x.t() * y.t()), fullgraph=True)
        for _ in range(6):
            x = torch.randn(8, 12, dtype=torch.float64, requires_grad=True)
            y = torch.randn(8, 12, dtype=torch.float64)
            out = step(x * 1.0, y)
            out.backward(torch.randn(12, 8, dtype=torch.float64))
        assert any([r.replays for r in step.recordings.values()])
