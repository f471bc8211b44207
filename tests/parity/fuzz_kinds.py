"""Kinds of random programs: lines that a kind has more of, beside those that every program has.

In the templates {t} is a tensor, {u} one of its shape and dtype, {a} and {b} are small integers. A
line without `=` in front makes a new tensor, unless it is in `STATEMENTS`.
"""

from __future__ import annotations

import random
from typing import Any

from fuzz_lines import Writer

VALUES = {
    "data": [
        "{t}.exp()",
        "{t}.sin()",
        "{t} * {u}",
        "{t}.sigmoid()",
        "torch.nn.functional.elu({t})",
        "fn.Square.apply({t})",
        "{t}.pow(3)",
        "{t}.relu()",
    ],
    "inference": [
        "{t}.view(-1)",
        "{t}[...]",
        "{t} * 2",
        "{t}.detach()",
        "{t}.clone()",
        "torch.func.grad(lambda x: (x * x).sum())({t}.detach().double())",
        "{t}.flatten()",
    ],
    "memory": [
        "torch.add({u}.detach(), 1, out={t}.detach().view({t}.shape))",
        "torch.mul({u}.detach(), 2, out={t}.detach()[...])",
        "{t}.detach().clone().resize_({b}, 2).fill_(1)",
        "torch.zeros_like({t}).detach().set_({u}.detach())",
        "torch.arange({b} + 2, out=torch.zeros({b} + 2, dtype=torch.float64))",
        "torch.empty(0, dtype={t}.dtype).set_({t}.detach().untyped_storage(), 0, {t}.shape)",
        "torch.sin({t}.detach(), out=torch.empty(0, dtype={t}.dtype))",
    ],
    "formats": [
        "leaf((2, 2, 2, 3), {a}, torch.float64).to(memory_format=torch.channels_last)",
        "leaf((2, 2, 3, 2), {a}, torch.float64, False, requires_grad=True).contiguous("
        "memory_format=torch.channels_last)",
        "packed(torch.nn.functional.relu({t}))",
        "{t}[:, :, ::2].clone()",
        "{t}.clone()",
        "torch.zeros_like({t})",
        "{t}.exp()",
        "{t}[..., 1:].clone()",
        "{t}.sort(0)[0]",
        "{t}.sort()[0]",
        "torch.nn.functional.max_pool2d({t}, 1)",
        "torch.nn.functional.interpolate({t}, scale_factor=2)",
        "torch.nn.functional.avg_pool2d({t}, 1)",
        "{t}.sum(1, keepdim=True)",
    ],
    # What is between sparse tensors has nodes of the dense ops that it is made of.
    "sparse": [
        "packed(({t}.to_sparse() * {u}.to_sparse()).to_dense())",
        "packed(({t}.to_sparse() + {u}.to_sparse()).to_dense())",
        "packed(({t}.detach().to_sparse() * 2).values().clone())",
        "packed(torch.cat([{t}[None].detach().to_sparse(), {u}[None].detach().to_sparse()])"
        ".to_dense())",
        "packed(torch.stack([{t}.detach().to_sparse()] * 2, -1).to_dense())",
        "packed({t}[None].detach().to_sparse().index_select(0, torch.tensor([0, 0])).to_dense())",
        "{t}.detach().to_sparse().unsqueeze(0)._indices().clone()",
        "packed({t}.detach().to_sparse().sin().to_dense())",
        "packed({t}[None, None].detach().to_sparse()[0].to_dense())",
        "packed(torch.sparse.sum({t}.detach().to_sparse()))",
        "packed(({t}.detach().to_sparse() ** 2).to_dense())",
        "packed({t}.to_sparse().t().to_dense())",
    ],
    "nodes": ["{t} * {u}", "{t}.exp()", "{t} * 2"],
    "duals": [
        "tangent(lambda d: {t}.detach().clone().mul_(d), {u})",
        "tangent(lambda d: (b := {t}.detach().clone(), b.view(-1).add_(d.reshape(-1)), b)[-1], "
        "{u})",
        "tangent(lambda d: (b := {t}.detach().clone(), v := b[...], v.copy_(d), v.mul_(2), b)[-1], "
        "{u})",
        "tangent(lambda d: (b := {t}.detach().clone(), v := b.transpose(0, -1), "
        "v.mul_(d.transpose(0, -1)), v.add_(1), b * v.transpose(0, -1))[-1], {u})",
        "tangent(lambda d: (b := {t}.detach().clone(), b[:1].mul_(d[:1]), b)[-1], {u})",
        "tangent(lambda d: d.detach() * d, {u})",
        "tangent(lambda d: (d.view(-1)[:2].mul_(3), d.exp())[-1], {u})",
        "tangent(lambda d: (e := d.clone(), e.detach_(), e * d + e)[-1], {u})",
        "tangent(lambda d: torch.cumprod(d, 0), {u})",
        "tangent(lambda d: torch.cat([d, {t}.detach() * d]).sin(), {u})",
        "tangent(lambda d: fn.Square.apply(d), {u})",
        "{t} * 2",
    ],
}
STATEMENTS = {
    "data": ["{t}.data = {u}.detach() * 2", "{t}.data = {u}.detach()", "{t}.data = {t}.data + 1"],
    "inference": ["{t}.add_(1)", "{t}[...] = {u}", "{t}.view(-1).mul_(2)", "show({t}._is_view())"],
    "memory": ["{t}.detach().copy_({u})"],
    "formats": ["{t}.copy_({u})"],
    "duals": ["show(torch.autograd.forward_ad.unpack_dual({t}).tangent)"],
    "sparse": ["{t}.detach().clone().add_({u}.detach().to_sparse())"],
    "nodes": [
        "{t}.grad_fn.register_hook(hook('{h}'))",
        "{t}.grad_fn.register_prehook(hook('{h}'))",
        "{t}.grad_fn.register_hook(hook('{h}', lambda i, o: doubled(i)))",
        "{t}.grad_fn.register_prehook(hook('{h}', lambda o: doubled(o)))",
        "{t}.grad_fn.next_functions[0][0].register_hook(hook('{h}'))",
        "{t}.grad_fn.next_functions[-1][0].register_prehook(hook('{h}'))",
        "show({t}.grad_fn._saved_self)",
    ],
}
KINDS = tuple(VALUES)


class KindWriter(Writer):
    """Draws lines of a kind among the others."""

    def __init__(self, rng: random.Random, kind: str) -> None:
        super().__init__(rng)
        self.kind = kind

    def line(self, tensors: dict[str, Any]) -> str:
        rng = self.rng
        if not tensors or rng.random() < 0.5:
            return super().line(tensors)
        family = rng.choices([VALUES, STATEMENTS], [3, 2])[0]
        template = rng.choice(family[self.kind])
        text = self.filled_with_like(template, tensors)
        if family is VALUES:
            text = f"{self.name()} = {text}"
        if self.kind == "inference" and rng.random() < 0.6:
            return f"with torch.inference_mode(): {text}"
        return text

    def filled_with_like(self, template: str, tensors: dict[str, Any]) -> str:
        """`template` about a tensor, and one of its shape, dtype and strides."""
        rng = self.rng
        if ".data" in template:  # views would follow, or not
            bases = {id(t._base) for t in tensors.values()}
            loose = {n: t for n, t in tensors.items() if t._base is None and id(t) not in bases}
            tensors = {n: t for n, t in loose.items() if not t.is_inference()}
            if not tensors:
                return "torch.ones(2)"
        if self.kind == "sparse":  # PyTorch has no derivatives of complex ones
            tensors = {n: t for n, t in tensors.items() if not t.is_complex()}
            if not tensors:
                return "torch.ones(2)"
        t = rng.choice(list(tensors))
        kind = tensors[t].shape, tensors[t].dtype, tensors[t].stride()
        alike = [n for n, u in tensors.items() if (u.shape, u.dtype, u.stride()) == kind]
        h = self.hook() if "{h}" in template else ""
        return template.format(
            t=t, u=rng.choice(alike), a=rng.randrange(-2, 3), b=rng.randrange(0, 3), h=h
        )
