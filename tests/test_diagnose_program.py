"""diagnose.program: forward and backward as text, and the text is right."""

from __future__ import annotations

import pytest

import tapegrad as torch
from tapegrad import diagnose, nn

F = nn.functional


def evaluated(found, names):
    """The gradients that the lines of a backward pass give, when they are run."""
    space = {
        "expand": lambda t, shape: torch.as_tensor(t, dtype=torch.float32).expand(shape),
        "ones": torch.ones,
        "where": lambda c, a, b: torch.where(c, torch.as_tensor(float(a)), b),
        "sum_to": lambda t, shape: t.sum_to_size(shape),
        "exp": torch.exp,
        "sum": lambda t, dim: t.sum(dim, keepdim=True),
        "tanh": torch.tanh,
        "reshape": torch.reshape,
        **names,
    }
    text = "\n".join(found.forward[1:-1] + found.backward)
    for name in list(space):
        text = text.replace(f"{name}.grad", f"grad_of_{name}")
    with torch.no_grad():
        exec("\n".join(line.strip() for line in text.splitlines()), space)
    return space


def test_the_lines_compute_the_gradients():
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True)
    b = torch.zeros(1, requires_grad=True)
    y = torch.randn(4)

    def f(x):
        h = torch.tanh(x @ w + b)
        err = h - y
        return (err**2 * err).sum()

    x = torch.randn(4, 3)
    found = diagnose.program(f)(x)
    assert w.grad is None and found.result.requires_grad  # nothing ran backward
    space = evaluated(found, {"x": x, "w": w, "b": b, "y": y, "sum": lambda t: t.sum()})
    found.result.backward()
    torch.testing.assert_close(space["grad_of_w"], w.grad)
    torch.testing.assert_close(space["grad_of_b"], b.grad)


def test_how_it_reads():
    w = torch.ones(2, requires_grad=True)

    def f(x):
        h = torch.tanh(x * w)
        return h.mean()

    text = repr(diagnose.program(f)(torch.ones(3, 2))).splitlines()
    assert text[0] == "def f(x):         # x (3, 2)"
    assert text[1].startswith("    t1 = x * w    # (3, 2)  test_diagnose_program.py:")
    assert text[2:5] == ["    h = tanh(t1)  # (3, 2)", text[3], "    return t2"]
    assert text[6:] == [
        "# backward: g_... is the gradient of the result with respect to ...",
        "g_t2 = 1",
        "g_h = expand(g_t2, (3, 2)) / 6",
        "g_t1 = g_h * (1 - h ** 2)",
        "w.grad = sum_to(g_t1 * x, (2,))",
    ]


def test_constants_are_worked_out():
    x = torch.ones(3, requires_grad=True)
    assert diagnose.program(lambda x: x**2)(x).backward[-1] == "x.grad = g_t1 * (2 * x)"
    assert diagnose.program(lambda x: x**3)(x).backward[-1] == "x.grad = g_t1 * (3 * x ** 2)"


def test_a_model():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    found = diagnose.program(model)(torch.ones(5, 3))
    assert found.forward[0].startswith("def Sequential(input):")
    assert found.backward[0] == "g_t5 = ones((5, 2))"
    assert "model.2.bias.grad = sum_to(g_t5, (2,))" in found.backward
    assert "g_t2 = where(t3 <= 0, 0, g_t3)" in found.backward
    grads = {line.split()[0] for line in found.backward if ".grad" in line}
    assert grads == {f"model.{name}.grad" for name, _ in model.named_parameters()}


def test_writes_in_place_and_detach():
    def f(x):
        d = x.detach()
        y = x * d
        y += 1
        return y.sum()

    found = diagnose.program(f)(torch.ones(3, requires_grad=True) * 2)
    lines = [line.partition("\t")[0].strip() for line in found.forward]
    assert lines[1:4] == ["d = detach(x)", "y = x * d", "y.add_(1)"]
    assert found.backward[-2:] == ["g_y = expand(g_t1, (3,))", "g_x = g_y * d"]  # and no further


def test_gradients_add_up():
    x = torch.ones(2, requires_grad=True)
    assert diagnose.program(lambda x: x * x)(x).backward[1:] == [
        "x.grad = g_t1 * x",
        "x.grad += g_t1 * x",
    ]


def test_functions_and_what_has_no_gradient():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    x = torch.ones(2, requires_grad=True)
    assert diagnose.program(Square.apply)(x).backward[-1].endswith("Square.backward(g_t1)")
    found = diagnose.program(lambda a: a * 2)(torch.ones(2))
    assert found.backward == [] and "no backward" in repr(found)
    with pytest.raises(TypeError, match="argument 'f' must be a function"):
        diagnose.program(3)


def test_a_long_program_is_cut_off():
    def f(x):
        for _ in range(500):
            x = x + 1
        return x

    found = diagnose.program(f)(torch.ones(1, requires_grad=True))
    assert "    # ... 100 more" in found.forward and "# ... 100 more" in found.backward
    assert len(repr(found).splitlines()) < 820
