"""gradcheck: what its report says beyond PyTorch's, and how its module is found.

The behaviour that both libraries share is in programs/prog_gradcheck.py.
"""

import subprocess
import sys

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.autograd import gradcheck, gradgradcheck
from tapegrad.autograd.gradcheck import GradcheckError


def doubles(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def product(derivative):
    """x * y with the user's own gradient with respect to y."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y, derivative(grad, x)

    return Product.apply


def complaint(function, *inputs, **options):
    with pytest.raises(GradcheckError) as caught:
        gradcheck(function, inputs, **options)
    return caught.value


def test_worst_element_is_named():
    first, second = doubles(1.0, 2.0), doubles(3.0, 4.0)
    error = complaint(product(lambda g, x: g * x + x.eq(2) * g), first, second)
    facts = error.diagnosis
    assert facts["output"] == 0 and facts["input"] == 1
    assert facts["input_index"] == [1] and facts["output_index"] == [1]
    assert facts["name"] == "second" and facts["argument"] == 1
    assert facts["analytic"] == 3.0 and facts["numeric"] == pytest.approx(2.0)
    assert facts["wrong"] == 1 and facts["elements"] == 4
    assert "output 0[1] by input 1[1] (argument 1 `second`): analytic 3, numeric 2" in str(error)


def test_fast_mode_names_it_too():
    first, second = doubles(1.0, 2.0), doubles(3.0, 4.0)
    error = complaint(product(lambda g, x: -g * x), first, second, fast_mode=True)
    assert error.diagnosis["input_index"] == [1]
    assert "The max per-element difference (slow mode) is: 4.0" in str(error)


def causes():
    x = doubles(1.0, 2.0)
    yield "single", lambda t: t * 2, (torch.ones(2, requires_grad=True),), "drowns in rounding"
    many = doubles(*np.linspace(1, 2, 40))  # so that two draws are never the same
    yield "random", torch.nn.functional.dropout, (many,), "not deterministic"
    yield "kink", torch.relu, (doubles(0.0, 1.0),), "kink"
    shared = doubles(1.0, 2.0)
    view = shared.detach()[1:].requires_grad_()
    yield "shared", lambda a, b: a * b, (shared, view), "shares memory with argument 1"
    strided = torch.ones(4, dtype=torch.float64).as_strided((3, 2), (1, 1)).requires_grad_()
    yield "overlap", torch.sin, (strided,), "overlap in memory"
    y = doubles(3.0, 4.0)
    yield "sign", product(lambda g, x: -g * x), (x, y), "the sign"
    yield "factor", product(lambda g, x: 3 * g * x), (x, y), "is 3 times"
    yield "zero", product(lambda g, x: 0 * g), (x, y), "no gradient comes back"
    yield "nan", product(lambda g, x: g * float("nan")), (x, y), "is not finite"
    yield "other", product(lambda g, x: g * x * x * x), (x, y), "not its derivative"


@pytest.mark.filterwarnings("ignore:Input #0 requires gradient")
@pytest.mark.parametrize("case", list(causes()), ids=lambda case: case[0])
def test_likely_cause(case):
    _, function, inputs, words = case
    error = complaint(function, *inputs)
    assert words in error.diagnosis["cause"]
    assert f"likely cause: {error.diagnosis['cause']}" in str(error)


def test_conjugate_and_transpose():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z.abs() ** 2

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0].conj()

    z = torch.tensor([1 + 2j], dtype=torch.complex128, requires_grad=True)
    assert "complex conjugate" in complaint(Square.apply, z).diagnosis["cause"]

    class Turn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return MATRIX @ x

        @staticmethod
        def backward(ctx, grad):
            return MATRIX @ grad

    assert "a transpose" in complaint(Turn.apply, doubles(1.0, 2.0)).diagnosis["cause"]


MATRIX = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)


def test_inputs_come_back_after_an_error():
    x = doubles(1.0, 2.0)

    def function(t):
        if float(t.detach()[1]) > 2.0:
            raise ZeroDivisionError("at the second element")
        return t * 2

    with pytest.raises(ZeroDivisionError):
        gradcheck(function, (x,))
    assert x.tolist() == [1.0, 2.0]


def test_undefined_tangents_are_compared():
    fw = torch.autograd.forward_ad

    def careless(a, b):
        primal, tangent = fw.unpack_dual(a * b)
        alone = tangent is not None and fw.unpack_dual(b).tangent is None
        return primal if alone else a * b

    error = complaint(
        careless,
        doubles(1.0),
        doubles(2.0),
        check_forward_ad=True,
        check_backward_ad=False,
        rtol=10.0,
    )
    assert str(error).startswith("Mismatch in tangent values for output with index: 0 when input:")


def test_batched_checks():
    class Careless(torch.autograd.Function):
        """Looks at values in backward and in jvp, which a batch of them does not have."""

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * (2 if grad.sum() != 0 else 0)

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * (2 if tangent.sum() != 0 else 0)

    x = doubles(1.0, 2.0)
    forward = {"check_forward_ad": True, "check_batched_forward_grad": True}
    for function, options in ((torch.sin, {"check_batched_grad": True}), (torch.sin, forward)):
        assert gradcheck(function, (x,), **options)
    assert gradcheck(Careless.apply, (x,), check_forward_ad=True)
    for options in ({"check_batched_grad": True}, forward):
        error = complaint(Careless.apply, x, **options)
        assert str(error).startswith("While computing batched gradients, got: ")


def test_calls_are_few():
    calls = []

    def function(t):
        calls.append(1)
        return t.sin()

    gradcheck(function, (doubles(1.0, 2.0, 3.0),))
    assert len(calls) == 1 + 2 * 3
    calls.clear()
    gradcheck(function, (doubles(*np.linspace(0, 1, 50)),), fast_mode=True)
    assert len(calls) == 1 + 2


def test_second_derivatives_of_a_layer():
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(lambda a, b: torch.nn.functional.layer_norm(a, (3,), b), (x, w))


def test_the_name_is_both_a_module_and_a_function():
    program = (
        "from tapegrad.compat import install; install()\n"
        "from torch.autograd.gradcheck import GradcheckError, gradcheck\n"
        "import torch, torch.autograd.gradcheck as found\n"
        "assert found is gradcheck and torch.autograd.gradcheck is gradcheck\n"
        "assert 'tapegrad.autograd.gradcheck_modes' not in __import__('sys').modules\n"
        "x = torch.ones(2, dtype=torch.float64, requires_grad=True)\n"
        "assert gradcheck(torch.exp, (x,))\n"
        "from torch.autograd.functional import jacobian\n"
        "from torch.utils.checkpoint import checkpoint\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
