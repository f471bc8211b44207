"""Memory that several CUDA tensors share: storages, files, and what selective checkpoints keep."""

from __future__ import annotations

import functools
import io
from typing import Any

import pytest

import tapegrad as torch
from tapegrad.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)


def views(device: str) -> dict[str, Any]:
    x = torch.arange(24.0, device=device).reshape(6, 4)
    return {
        "x": x,
        "slice": x[1:5:2, 1:],
        "transposed": x.t(),
        "flat": x.view(-1)[5:],
        "wide": x[:, :1].expand(6, 3),
        "strided": x.as_strided((2, 2), (4, 1), 9),
        "column": x.select(1, 2),
        "apart": x.clone(),
    }


def test_views_have_the_storage_of_their_base() -> None:
    found, wanted = views("cuda"), views("cpu")
    for name, t in found.items():
        storage = t.untyped_storage()
        assert storage.nbytes() == wanted[name].untyped_storage().nbytes() == 96, name
        assert (storage == found["x"].untyped_storage()) is (name != "apart"), name
        for same in (t, t.detach()):
            assert storage.data_ptr() + same.storage_offset() * 4 == t.data_ptr(), name
            assert same.storage_offset() == wanted[name].storage_offset()
        assert storage.device.type == "cuda"


@pytest.mark.parametrize("zip", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("place", ["cuda", "cpu"])
@pytest.mark.parametrize("first", ["x", "slice", "wide"])
def test_files_keep_what_is_shared(zip: bool, place: str, first: str) -> None:
    """Whatever comes first, the memory is written once, and the tensors share it again."""
    given = views("cuda")
    given = {first: given.pop(first), **given}
    file = io.BytesIO()
    torch.save(given, file, _use_new_zipfile_serialization=zip)
    assert file.tell() < 5000
    file.seek(0)
    found = torch.load(file, map_location=place)
    for name, t in given.items():
        assert found[name].device.type == place
        assert torch.equal(found[name].cpu(), t.cpu()) and found[name].stride() == t.stride()
    found["x"].fill_(7.0)
    assert all((found[n] == 7).all() for n in given if n != "apart")
    assert not (found["apart"] == 7).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.int64, torch.bool])
def test_the_old_format_has_every_dtype(dtype: Any) -> None:
    file = io.BytesIO()
    t = torch.tensor([0, 1, 1], device="cuda").to(dtype)
    torch.save(t, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    back = torch.load(file)
    assert back.device.type == "cuda" and back.dtype == dtype and torch.equal(back, t)


def test_selective_checkpoints_see_the_ops_of_a_gpu() -> None:
    seen: list[str] = []

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        if not ctx.is_recompute:
            seen.append(str(op))
        kept = "sin" in str(op)
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    def run(device: str) -> Any:
        seen.clear()
        x = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        y = checkpoint(lambda t: (t.sin() * 2).exp(), x, use_reentrant=False, context_fn=contexts)
        y.sum().backward()
        assert x.grad is not None
        return list(seen), x.grad.cpu()

    found, grad = run("cuda")
    wanted, same_grad = run("cpu")
    assert found == wanted and "aten.sin.default" in found
    torch.testing.assert_close(grad, same_grad)


def test_what_a_selective_checkpoint_kept_must_not_change() -> None:
    x = torch.ones(3, device="cuda", requires_grad=True)
    inner: list[Any] = []

    def block(t: Any) -> Any:
        inner.append(t.sin())
        return inner[-1].exp()

    contexts = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.sin.default])
    y = checkpoint(block, x, use_reentrant=False, context_fn=contexts)
    with torch.no_grad():
        inner[0].add_(1)
    with pytest.raises(RuntimeError, match="selective activation checkpoint has been mutated"):
        y.sum().backward()
