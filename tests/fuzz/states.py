"""Calls with odd tensors, made in PyTorch and in tapegrad: results, errors, state afterwards.

    python tests/fuzz/states.py --count 2000 --seed 0     prints the differences and counts

The tensors are expanded, overlapping, views of leaves, conjugated, on "meta", sparse, of a
subclass, inference tensors, without elements. Afterwards both libraries must agree on what the call
gave, or on the class of its error, and on everything that can be seen of its operands: contents,
strides, version, history, gradient. A call that raises must leave all of that as it was.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import random
import sys
import warnings
from typing import Any

TENSORS = """
torch.arange(6.0).view(2, 3)
torch.arange(6.0).view(3, 2).t()
torch.arange(3.0).expand(2, 3)
torch.tensor(2.0).expand(2, 3)
torch.arange(4.0).as_strided((2, 3), (1, 1))
torch.arange(12.0).view(2, 6)[:, ::2]
torch.arange(12.0)[6:].view(2, 3)
torch.arange(6.0, dtype=torch.float64).view(2, 3)
torch.arange(6).view(2, 3)
torch.tensor([[True, False, True], [False, False, True]])
torch.arange(6.0).view(2, 3).to(torch.bfloat16)
torch.arange(6.0).view(2, 3).to(torch.complex64).conj()
torch.arange(6.0).view(2, 3).to(torch.complex64).conj().imag
torch.zeros(2, 3, requires_grad=True)
torch.zeros(4, 3, requires_grad=True)[1:3]
torch.zeros(2, 3, requires_grad=True) * 2
torch.zeros(2, 3, requires_grad=True).detach()
torch.zeros(1, 3, requires_grad=True).expand(2, 3)
torch.nn.Parameter(torch.ones(2, 3))
torch.zeros(2, 0)
torch.tensor(3.0)
torch.tensor(3.0, requires_grad=True)
torch.zeros(2, 3, device="meta")
torch.eye(2, 3).to_sparse()
Inferred(torch.ones(2, 3))
torch.ones(2, 3).as_subclass(Sub)
torch.tensor([0, 1])
torch.tensor([[0, 2, 1], [1, 0, 0]])
""".strip().splitlines()

CALLS = """
x.add_(y) | x.mul_(2) | x.copy_(y) | x.fill_(3) | x.zero_() | x.relu_() | x.clamp_(0, 1) | x.exp_()
x.sub_(y, alpha=2) | x.div_(y) | x.pow_(2) | x.lerp_(y, 0.5) | x.masked_fill_(y > 0, 5) | x.neg_()
x.index_fill_(0, y, 1.0) | x.index_add_(0, z, y) | x.scatter_(1, z, 1.0) | x.scatter_add_(1, z, y)
x.t_() | x.transpose_(0, 1) | x.unsqueeze_(0) | x.squeeze_() | x.resize_(3, 2) | x.detach_()
x.requires_grad_() | x.requires_grad_(False) | x.set_(y) | x.swapaxes_(0, 1) | x.cumsum_(0)
x.index_put_((z,), y) | x.put_(z, y) | x.addmm_(y, z) | x.addcmul_(y, z) | x.bernoulli_(2.0)
x.__setitem__(0, y) | x.__setitem__(z, 1.0) | x.__setitem__((slice(None), 1), y) | x.tril_()
setattr(x, 'data', y) | setattr(x, 'grad', y) | setattr(x, 'requires_grad', True)
x.fill_diagonal_(1) | torch.add(x, y, out=z) | torch.mul(x, 2, out=y) | torch.matmul(x, y, out=z)
torch.cat([x, y], out=z) | torch.sum(x, 0, out=y) | torch.exp(x, out=x)
torch.sort(x, out=(y, z)) | torch.neg(x, out=y[0])
x + y | x @ y | torch.cat([x, y]) | torch.stack([x, y, z]) | torch.where(x > 0, y, z) | x.view(-1)
x.reshape(3, 2) | x.sum().backward() | x.backward(y) | torch.autograd.grad(x.sum(), y) | x[z] | x[0]
x.sort() | x.max(0) | x.gather(1, z) | x.expand(4, 2, 3) | x.unbind() | x.numpy() | x.tolist()
x.as_strided((2,), (1,), 5) | x.view(torch.int32) | x.to(torch.float16) | x.clone() | x.contiguous()
x.detach() | x.new_zeros(2) | torch.zeros_like(x) | x.data_ptr() == y.data_ptr() | x.is_set_to(y)
x.storage_offset() | x.share_memory_() | x.item() | bool(x) | len(x) | x.T | x.mT | x.H
x.real | x.imag | x.conj() | x.resolve_conj() | x.is_conj() | x.is_neg() | x.unfold(0, 2, 1)
x.flip(0) | x.diagonal() | torch.nn.functional.relu(x, inplace=True)
torch.nn.functional.dropout(x, 0.0, inplace=True)
torch._foreach_add_([x, y], 1.0) | torch._foreach_mul_([x], [y]) | torch.split(x, 1)[0].add_(y)
x[0].mul_(y) | x.T.add_(1) | x.view(-1).fill_(2) | x.detach().add_(y) | x.unbind()[0].zero_()
""".replace("\n", " | ")
CALLS = [c.strip() for c in CALLS.strip(" |").split("|")]


def library(name: str) -> dict[str, Any]:
    """The names that programs use, in one of the two libraries."""
    torch: Any = __import__(name)

    class Sub(torch.Tensor):  # type: ignore[misc]
        pass

    def inferred(t: Any) -> Any:
        with torch.inference_mode():
            return t.clone()

    return {"torch": torch, "Sub": Sub, "Inferred": inferred}


def described(value: Any, torch: Any) -> Any:
    """Everything that can be seen of a value, as text."""
    if isinstance(value, (tuple, list)):
        return [described(v, torch) for v in value]
    if not isinstance(value, torch.Tensor):
        return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else "object"
    kind = type(value).__name__.replace(
        "SparseTensor", "Tensor"
    )  # PyTorch's has no class of its own
    found = [kind, str(value.dtype), tuple(value.shape), str(value.layout)]
    found += [value.requires_grad, value.is_inference(), value.is_conj()]
    try:
        found += [value.is_leaf, type(value.grad_fn).__name__]
    except Exception as error:
        found.append(type(error).__name__)
    if value.layout is torch.strided:
        if value.numel() > 1:
            found.append(value.stride())
        found.append(value.storage_offset())
    with contextlib.suppress(RuntimeError):  # inference tensors have none
        found.append(value._version)
    with contextlib.suppress(NotImplementedError):  # values on "meta"
        plain = value.detach().to_dense() if value.layout is not torch.strided else value.detach()
        plain = plain.resolve_conj().resolve_neg()
        wide = plain.to(torch.complex128 if plain.is_complex() else torch.float64)
        found.append([f"{v:.4g}" for v in wide.reshape(-1).tolist()])
    if value.is_leaf and value.grad is not None:
        found.append(described(value.grad, torch))
    return found


def outcome(names: dict[str, Any], tensors: list[str], call: str) -> tuple[str, Any, Any, Any]:
    """The class of what a program raises, or "ok"; what it gives; its operands before and after."""
    torch = names["torch"]
    torch.manual_seed(0)
    scope = dict(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, text in zip("xyz", tensors, strict=True):
            scope[name] = eval(text, scope)
        before = [described(scope[n], torch) for n in "xyz"]
        try:
            result = eval(call, scope)
            kind, said = "ok", described(result, torch)
        except Exception as error:
            kind = type(error)
            kind = kind.__name__ if kind.__module__ == "builtins" else kind.__mro__[1].__name__
            said = str(error).split("\n")[0]
        after = [described(scope[n], torch) for n in "xyz"]
    return kind, said, before, after


def verdict(ours: tuple[str, Any, Any, Any], theirs: tuple[str, Any, Any, Any]) -> str:
    """How two outcomes differ, in a word; "" where they agree."""
    if ours[0] != theirs[0]:
        if theirs[0] == "ok":
            word = "refused"
        else:
            word = "accepted" if ours[0] == "ok" else "class"
        return "state" if ours[0] != "ok" and ours[2] != ours[3] else word
    if ours[2] != theirs[2]:
        return "made"
    if ours[3] != theirs[3] and (ours[0] == "ok" or ours[3] != ours[2]):
        return "state"  # where PyTorch raised and wrote all the same, nothing is to be like it
    return "result" if ours[0] == "ok" and ours[1] != theirs[1] else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", default="", help="kinds of difference to print, by default all")
    given = parser.parse_args()
    both = library("tapegrad"), library("torch")
    counts: collections.Counter[str] = collections.Counter()
    for number in range(given.count):
        draw = random.Random(f"{given.seed} {number}")
        tensors, call = [draw.choice(TENSORS) for _ in "xyz"], draw.choice(CALLS)
        ours, theirs = [outcome(names, tensors, call) for names in both]
        word = verdict(ours, theirs)
        counts[word or "same"] += 1
        if word and word in (given.show or word):
            print(
                f"{word}: {call}",
                *[f"{n} = {t}" for n, t in zip("xyz", tensors, strict=True)],
                sep="\n    ",
            )
            for name, found in (("ours", ours), ("PyTorch", theirs)):
                print(f"    {name}: {found[0]} {found[1]}")
            if word in ("state", "made"):
                for at, name in enumerate("xyz"):
                    if ours[2][at] != theirs[2][at] or ours[3][at] != theirs[3][at]:
                        print(f"    {name} before", ours[2][at], theirs[2][at], sep="\n      ")
                        print(f"    {name} after ", ours[3][at], theirs[3][at], sep="\n      ")
    print(f"{given.count} calls:", *[f"{k} {v}" for k, v in sorted(counts.items())])
    return 0


if __name__ == "__main__":
    sys.exit(main())
