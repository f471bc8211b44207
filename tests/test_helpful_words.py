"""What common slips are told: PyTorch's class and first line, then the way out."""

import numpy as np
import pytest

import tapegrad as torch
from tapegrad import nn


def said(error, first, *parts):
    text = str(error.value)
    assert text.splitlines()[0].startswith(first), text
    for part in parts:
        assert part in text, text


def test_sizes_that_differ_are_named_with_the_keys_to_leave_out():
    with pytest.raises(RuntimeError) as error:
        nn.Linear(2, 3).load_state_dict(nn.Linear(4, 3).state_dict(), strict=False)
    said(
        error,
        "Error(s) in loading state_dict for Linear:",
        "size mismatch for weight",
        "k not in {'weight'}",
        "make the model with the sizes",
    )


@pytest.mark.parametrize(
    ("loss", "function"),
    [
        (nn.CrossEntropyLoss, "cross_entropy"),
        (nn.MSELoss, "mse_loss"),
        (nn.BCEWithLogitsLoss, "binary_cross_entropy_with_logits"),
    ],
)
def test_a_loss_that_is_made_with_its_arguments(loss, function):
    out = torch.ones(4, 3)
    with pytest.raises(RuntimeError) as error:
        loss(out, torch.zeros(4, 3))
    said(
        error,
        "Boolean value of Tensor with more than one value is ambiguous",
        f"make the loss, then call it: nn.{loss.__name__}()(output, target)",
    )
    assert f"use the function: nn.functional.{function}(output, target)" in str(error.value)
    assert ".any()" not in str(error.value)


def test_images_with_their_channels_last():
    with pytest.raises(RuntimeError) as error:
        nn.Conv2d(3, 8, 3)(torch.rand(28, 28, 3))
    said(error, "Given groups=1, weight of size [8, 3, 3, 3]", "permute(2, 0, 1)")
    assert "Conv2d(28" not in str(error.value)


def test_tensors_without_values():
    with pytest.raises(RuntimeError) as error:
        torch.ones(2) + torch.ones(2, device="meta")
    said(error, "Tensor on device meta is not on the expected device cpu!", "no values")
    assert '.to("meta")' not in str(error.value)


def test_a_device_called_gpu():
    with pytest.raises(RuntimeError) as error:
        torch.ones(2).to("gpu")
    said(error, "Expected one of cpu, cuda", '.to("cuda")')


def test_a_tensor_in_the_place_of_a_parameter():
    layer = nn.Linear(2, 2)
    weight = torch.ones(2, 2)
    with pytest.raises(TypeError) as error:
        layer.weight = weight
    said(
        error,
        "cannot assign 'torch.FloatTensor' as parameter 'weight'",
        "nn.Parameter(weight)",
    )


def test_forward_misspelt():
    class Net(nn.Module):
        def foward(self, x):
            return x

    with pytest.raises(NotImplementedError) as error:
        Net()(torch.ones(1))
    said(error, 'Module [Net] is missing the required "forward" function', "Net.foward is misspelt")


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x


def leaf():
    return torch.ones(3, requires_grad=True)


# What is done wrong, the class, how PyTorch's sentence begins, and a part of the first fix.
SLIPS = [
    (
        lambda: nn.Linear(2, 2).to("gpu"),
        RuntimeError,
        "Expected one of cpu, cuda",
        '.to("cuda")',
    ),
    (
        lambda: (leaf() * 2).backward(gradient=torch.ones(2)),
        RuntimeError,
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([2]) and output[0] has a",
        "torch.ones_like(output)",
    ),
    (
        lambda: (leaf() * 2).backward(torch.ones(3, 1)),
        RuntimeError,
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([3, 1])",
        "gradient.reshape((3,))",
    ),
    (
        lambda: leaf().sum().backward(torch.ones(3)),
        RuntimeError,
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([3])",
        "leave the argument out",
    ),
    (
        lambda: torch.tensor([[1, 2], [3]]),
        ValueError,
        "expected sequence of length 2 at dim 1 (got 1)",
        "pad_sequence",
    ),
    (
        lambda: torch.tensor([["a"]]),
        ValueError,
        "too many dimensions 'str'",
        "[float(word) for word in data]",
    ),
    (
        lambda: Square.apply(leaf()).sum().backward(),
        NotImplementedError,
        "You must implement either the backward or vjp method for your custom autograd.Function",
        "add to Square: @staticmethod def backward(ctx, grad_output), which returns one gradient",
    ),
    (
        lambda: torch.ones(3).register_hook(print),
        RuntimeError,
        "cannot register a hook on a tensor that doesn't require gradient",
        "requires_grad_()",
    ),
    (
        lambda: setattr(leaf() * 2, "requires_grad", False),
        RuntimeError,
        "you can only change requires_grad flags of leaf variables. If you want to use a computed",
        "x = x.detach()",
    ),
    (
        lambda: torch.ones(3).sum(dims=0),
        TypeError,
        "sum() received an invalid combination of arguments - got (dims=int, ), but expected one",
        "did you mean dim=?",
    ),
    (
        lambda: torch.cat([torch.ones(1)], dimm=0),
        TypeError,
        "cat() got an unexpected keyword argument 'dimm'",
        "did you mean dim=?",
    ),
    (
        lambda: torch.zeros(3, dtyp=torch.float32),
        TypeError,
        "zeros() got an unexpected keyword argument 'dtyp'",
        "did you mean dtype=?",
    ),
    (
        lambda: nn.Linear(2, 2)([[1.0, 2.0]]),
        TypeError,
        "linear(): argument 'input' (position 1) must be Tensor, not list",
        "torch.tensor(values)",
    ),
    (
        lambda: nn.Linear(2, 2)(np.ones((1, 2))),
        TypeError,
        "linear(): argument 'input' (position 1) must be Tensor, not numpy.ndarray",
        "torch.from_numpy(array)",
    ),
    (
        lambda: nn.Sequential(nn.functional.relu),
        TypeError,
        "torch.nn.functional.relu is not a Module subclass",
        "use the layer: nn.ReLU()",
    ),
    (
        lambda: nn.Sequential([nn.ReLU()]),
        TypeError,
        "list is not a Module subclass",
        "nn.Sequential(*layers)",
    ),
    (
        lambda: nn.Sequential(nn.ReLU),
        TypeError,
        "torch.nn.modules.activation.ReLU is not a Module subclass",
        "make one: ReLU()",
    ),
]


@pytest.mark.parametrize(("program", "kind", "first", "fix"), SLIPS, ids=[s[3] for s in SLIPS])
def test_slips(program, kind, first, fix):
    with pytest.raises(kind) as error:
        program()
    said(error, first)
    assert fix in error.value.diagnosis["fixes"][0]
    assert error.value.diagnosis["noticed"]["file"] == __file__


@pytest.mark.parametrize(
    ("hook", "first", "fix"),
    [
        (lambda grad: grad.sum(), "hook '<lambda>' has changed the size", "a tensor of shape (3,)"),
        (lambda grad: grad.double(), "hook '<lambda>' has changed the type", ".to(torch.float32)"),
    ],
)
def test_hooks_that_return_another_kind_of_gradient(hook, first, fix):
    y = leaf() * 2
    y.register_hook(hook)
    with pytest.raises(RuntimeError) as error:
        y.sum().backward()
    said(error, first, fix, "hook:", "return nothing to keep the gradient")


def test_losses_that_are_broadcast():
    with pytest.warns(UserWarning) as caught:
        nn.functional.mse_loss(torch.ones(3, 1), torch.ones(3))
    text = str(caught[0].message)
    assert text.splitlines()[0].endswith("Please ensure they have the same size.")
    assert "(3, 3)" in text and "target.reshape((3, 1))" in text and caught[0].filename == __file__


@pytest.mark.parametrize(
    ("answer", "kind", "sentence"),
    [
        (lambda g: (g.sum(),), RuntimeError, "hook 'hook' has changed the size of value"),
        (lambda g: (g.double(),), RuntimeError, "hook 'hook' has changed the type of value (was"),
        (lambda g: g.sum(), TypeError, "len() of a 0-d tensor"),
        (lambda g: (1,), TypeError, "expected Variable, but hook returned 'int'"),
        (lambda g: 5, TypeError, "object of type 'int' has no len()"),
    ],
)
def test_hooks_of_modules_that_return_another_kind_of_gradient(answer, kind, sentence):
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda module, inputs, outputs: answer(inputs[0]))
    with pytest.raises(kind) as error:
        layer(torch.ones(2, 2, requires_grad=True)).sum().backward()
    said(error, sentence)
