"""What the tests of saving and loading save and load, written once for both libraries.

`python tests/serialized.py` (with PyTorch installed) records tests/data again.
"""

from __future__ import annotations

import io
import pathlib
import pickle
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

DATA = pathlib.Path(__file__).parent / "data"

DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "complex64 complex128"
).split()
# PyTorch itself cannot read these back from its old format.
NOT_IN_LEGACY = ("uint16", "uint32", "uint64")


def every_dtype(torch: Any, names: list[str] = DTYPES) -> Any:
    return {name: torch.tensor([0, 1, 1, 0, 1]).to(getattr(torch, name)) for name in names}


def legacy_dtypes(torch: Any) -> Any:
    return every_dtype(torch, [name for name in DTYPES if name not in NOT_IN_LEGACY])


def views(torch: Any) -> Any:
    base = torch.arange(24.0).reshape(4, 6)
    image = torch.arange(48.0).reshape(1, 3, 4, 4).to(memory_format=torch.channels_last)
    return {
        "base": base,
        "part": base[1:3, ::2],
        "turned": base.t(),
        "row": base[3],
        "item": base[2, 3],
        "expanded": torch.ones(1, 3).expand(4, 3),
        "image": image,
        "empty": torch.empty(0, 3),
        "empty view": base[2:2],
        "scalar": torch.tensor(1.5),
        "again": base,
    }


def containers(torch: Any) -> Any:
    return {
        "list": [1, -2, 3.5, None, True, False, "text", "\u00e9\u20ac\U0001f600", 10**30, -(2**40)],
        "tuple": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        "set": {1, 2},
        "bytes": [b"\x00\xff", bytearray(b"ab")],
        "complex": 1 + 2j,
        "ordered": OrderedDict([("b", 1), ("a", torch.ones(1))]),
        "counter": Counter("aab"),
        7: {"deep": [{"deeper": (torch.zeros(2), [torch.ones(1)])}]},
        "many": list(range(1500)),
        "size": torch.Size([2, 3]),
        "shape": torch.zeros(3, 0).shape,
        "dtypes": [torch.float32, torch.long, torch.bool],
        "devices": [torch.device("cpu"), torch.device("cuda:1"), torch.device("cuda")],
        "layout": torch.strided,
    }


def with_attributes(torch: Any) -> Any:
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    noted = torch.ones(2)
    noted.note = "mine"
    parameter = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    marked = torch.nn.Parameter(torch.ones(1))
    marked.mark = [1, 2]
    tied = torch.nn.Parameter(torch.arange(4.0))
    return {
        "leaf": leaf,
        "computed": leaf * 3,
        "detached": leaf.detach(),
        "noted": noted,
        "parameter": parameter,
        "marked": marked,
        "buffer": torch.nn.Buffer(torch.arange(3)),
        "tied": [tied, tied, tied.data[1:]],
    }


def network(torch: Any) -> Any:
    nn = torch.nn
    torch.manual_seed(3)
    return nn.Sequential(
        OrderedDict(
            first=nn.Linear(3, 4), act=nn.ReLU(), drop=nn.Dropout(0.25), last=nn.Linear(4, 2)
        )
    )


def training(torch: Any) -> Any:
    """A checkpoint as tutorials make it: the states of a network and of its optimizer."""
    net = network(torch)
    adam = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(2):
        adam.zero_grad()
        net.eval()(torch.arange(6.0).reshape(2, 3)).pow(2).sum().backward()
        adam.step()
    return {
        "epoch": 2,
        "model_state_dict": net.state_dict(),
        "optimizer_state_dict": adam.state_dict(),
        "loss": 0.5,
    }


def momentum(torch: Any) -> Any:
    """A whole optimizer."""
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    sgd = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    (weight * weight).sum().backward()
    sgd.step()
    return sgd


# What loads with weights_only=True, and what does not.
SAFE: dict[str, Callable[[Any], Any]] = {
    f.__name__: f for f in (every_dtype, views, containers, with_attributes, training)
}
WHOLE: dict[str, Callable[[Any], Any]] = {f.__name__: f for f in (network, momentum)}
LEGACY: dict[str, Callable[[Any], Any]] = {
    f.__name__: f for f in (legacy_dtypes, views, containers, with_attributes, training)
}


def same(one: Any, other: Any, path: str = "", close: float = 0.0) -> None:
    """Compare two objects, of whichever library; tensors with strides, offsets and flags.

    `close` is how far elements may be apart that the two libraries computed themselves.
    """
    kind = type(one).__name__
    assert kind == type(other).__name__, f"{path}: {kind} and {type(other).__name__}"
    if hasattr(one, "requires_grad") and hasattr(one, "stride"):
        same_tensors(one, other, path, close)
    elif hasattr(one, "named_parameters"):
        assert repr(one) == repr(other), path
        same(dict(sorted(vars(one).items())), dict(sorted(vars(other).items())), path, close)
    elif hasattr(one, "param_groups"):
        same(one.state_dict(), other.state_dict(), f"{path}.state_dict()", close)
    elif isinstance(one, dict):
        assert list(one) == list(other), f"{path}: {list(one)} and {list(other)}"
        for key in one:
            same(one[key], other[key], f"{path}[{key!r}]", close)
        same(
            getattr(one, "__dict__", None),
            getattr(other, "__dict__", None),
            f"{path}.__dict__",
            close,
        )
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), path
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            same(a, b, f"{path}[{i}]", close)
    elif isinstance(one, (set, int, float, complex, str, bytes, bytearray, type(None))):
        assert one == other, path
    else:
        assert repr(one) == repr(other), path


def same_tensors(one: Any, other: Any, path: str, close: float) -> None:
    for name in ("shape", "dtype", "requires_grad"):
        a, b = getattr(one, name), getattr(other, name)
        assert str(a) == str(b), f"{path}.{name}: {a} and {b}"
    assert one.stride() == other.stride(), f"{path}: strides {one.stride()} and {other.stride()}"
    if one.numel():  # a view of nothing may lie behind the end of its storage
        assert one.storage_offset() == other.storage_offset(), path
        sizes = one.untyped_storage().nbytes(), other.untyped_storage().nbytes()
        assert sizes[0] == sizes[1], f"{path}: {sizes[0]} and {sizes[1]} bytes of storage"
    values = [t.detach().reshape(-1).tolist() for t in (one, other)]
    if close:
        assert all([abs(a - b) <= close for a, b in zip(*values, strict=True)]), path
    else:
        assert values[0] == values[1], path
    same(vars(one), vars(other), f"{path}.__dict__", close)


def archive_of(pickled: bytes, memory: bytes = b"", **records: bytes) -> bytes:
    """An archive with this pickle and one storage."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, data in {"data.pkl": pickled, "version": b"3\n", **records}.items():
            made.writestr(f"a/{name}", data)
        made.writestr("a/data/0", memory)
    return file.getvalue()


def storage_pickle(kind: bytes, count: int = 1) -> bytes:
    return (
        b"(X\7\0\0\0storagectorch\n" + kind + b"Storage\nX\1\0\0\0000X\3\0\0\0cpuK" + bytes([count])
    ) + b"tQ"


def tensor_pickle(kind: bytes, args: bytes, count: int = 1) -> bytes:
    start = b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n("
    return start + storage_pickle(kind, count) + args + b"tR."


def called(name: bytes, args: bytes) -> bytes:
    """A pickle that calls something."""
    return b"\x80\2c" + name.replace(b" ", b"\n") + b"\n(" + args + b"tR."


class Sparse:
    """A file that leaves holes for long data, all of which has to be zeros."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def write(self, data: Any) -> int:
        if len(data) < 1 << 20:
            return int(self.file.write(data))
        self.file.seek(len(data), 1)
        return len(data)


def main() -> None:
    import torch

    DATA.mkdir(exist_ok=True)
    for name, make in {**SAFE, **WHOLE}.items():
        torch.save(make(torch), DATA / f"{name}.pt")
    for name, make in LEGACY.items():
        torch.save(make(torch), DATA / f"old_{name}.pt", _use_new_zipfile_serialization=False)
    (DATA / "plain.pickle").write_bytes(pickle.dumps([torch.arange(3.0), network(torch)]))


if __name__ == "__main__":
    main()
