"""New tensors go to the default device where a mode sees them made, too."""

import pytest

import tapegrad as torch
from tapegrad.utils._python_dispatch import TorchDispatchMode


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.devices = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.devices.append(str((kwargs or {}).get("device")))
        return func(*args, **(kwargs or {}))


MAKE = {
    "ones": lambda: torch.ones(2),
    "randn": lambda: torch.randn(2),
    "arange": lambda: torch.arange(3),
    "full": lambda: torch.full((2,), 1.0),
    "eye": lambda: torch.eye(2),
    "tensor": lambda: torch.tensor([1.0]),
}


@pytest.mark.parametrize("kind", MAKE)
def test_where_it_goes(kind):
    with torch.device("cuda"), Seen() as seen:
        made = MAKE[kind]()
        assert made.device == torch.device("cuda", 0)
        assert torch.zeros(2, device="cpu").device.type == "cpu"
        assert torch.ones_like(torch.zeros(2, device="cpu")).device.type == "cpu"
    if kind != "tensor":
        assert seen.devices[0] == "cuda:0"
    with Seen():
        assert MAKE[kind]().device.type == "cpu"
        assert torch.ones(2, device="cuda").is_cuda
