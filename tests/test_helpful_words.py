"""What common slips are told: PyTorch's class and first line, then the way out."""

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


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss, nn.MSELoss])
def test_a_loss_that_is_made_with_its_arguments(loss):
    out = torch.ones(4, 3)
    with pytest.raises(RuntimeError) as error:
        loss(out, torch.zeros(4, 3))
    said(
        error,
        "Boolean value of Tensor with more than one value is ambiguous",
        "make the loss, then call it: nn.MSELoss()(output, target)",
    )
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
