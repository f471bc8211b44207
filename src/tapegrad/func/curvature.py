"""The curvature of a training loss.

A loss of a model is loss(model(inputs), targets), a mean over the samples of a batch. Its
generalised Gauss-Newton matrix (GGN) is the Hessian without the second derivatives of the model:
J^T H J, with the Jacobian J of the model and the Hessian H of the loss in the model's outputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ..core.base import TensorBase
from .derivatives import jvp, vjp
from .jacobians import hessian, hvp
from .per_sample import check_model
from .vmapping import vmap

Function = Callable[..., Any]


def ggn_vector_product(func: Function, loss: Function, primals: Any, tangents: Any) -> Any:
    """The GGN of loss(func(*primals)), times a vector, without the matrix.

    `func` returns a tensor, of which `loss` is a scalar function. `primals` and `tangents` are
    tuples, as for `jvp`, and so is the result, unless there is one input.

    >>> x, v = tensor([1.0, 2.0]), tensor([1.0, 0.0])
    >>> torch.func.ggn_vector_product(lambda x: x * x, lambda y: y.square().sum(), (x,), (v,))
    tensor([8., 0.])
    """
    out, moved = jvp(func, primals, tangents)
    if not isinstance(out, TensorBase):
        raise ValueError(
            f"ggn_vector_product: func must return a tensor, got {type(out).__name__}: let it "
            "return one, and loss take it"
        )
    found = vjp(func, *primals)[1](hvp(loss, (out,), (moved,)))
    return found[0] if len(primals) == 1 else found


def kfac_factors(loss: Function, model: Any, inputs: Any, targets: Any) -> dict[str, Any]:
    """Kronecker factors of the GGN for each linear and convolutional layer: name to (A, G).

    The layer's block, for the weight (as a matrix with one row per output) beside the bias, is
    about kron(G, A): A is the mean over the samples of a a^T, for the layer's inputs a followed by
    a one if it has a bias; G that of g g^T, where the columns g come from an exact factor of the
    loss's Hessian. Several positions in one sample (a convolution's, a sequence's) are added up in
    A and averaged in G. `loss` is a mean over the batch; parameters need not require grad.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> a, g = torch.func.kfac_factors(nn.functional.mse_loss, layer, ones(4, 2), ones(4, 1))[""]
    >>> g.round()
    tensor([[2.]])
    """
    check_model("kfac_factors", model)
    nn = tg.nn
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    layers = {name: m for name, m in model.named_modules() if isinstance(m, kinds)}
    if not layers:
        raise ValueError(
            f"kfac_factors: the model ({type(model).__name__}) has no linear or convolutional layer"
        )
    seen: dict[str, tuple[Any, Any]] = {}

    def note(name: str, module: Any, args: Any, out: Any) -> Any:
        if name in seen:
            raise ValueError(
                f"kfac_factors: {name!r} is called twice in one pass; the factors are those of "
                "layers that are called once"
            )
        out = out.detach().requires_grad_() if not out.requires_grad else out
        seen[name] = args[0].detach(), out
        return out

    handles = [m.register_forward_hook(functools.partial(note, n)) for n, m in layers.items()]
    try:
        with tg.enable_grad():
            out = model(inputs)
    finally:
        for handle in handles:
            handle.remove()

    def of_one(out: Any, target: Any) -> Any:
        return loss(out.unsqueeze(0), target.unsqueeze(0))

    count, width = out.shape[0], out[0].numel()
    curved = vmap(hessian(of_one))(out.detach(), targets).reshape(count, width, width)
    values, vectors = tg.linalg.eigh(curved)
    columns = (vectors * values.clamp(min=0).sqrt().unsqueeze(1)).movedim(2, 0)
    found: dict[str, Any] = {}
    names = list(seen)
    back = tg.autograd.grad(
        out,
        [seen[name][1] for name in names],
        columns.reshape(width, *out.shape),
        is_grads_batched=True,
        allow_unused=True,
    )
    for name, g in zip(names, back, strict=True):
        if g is not None:
            found[name] = both_factors(layers[name], seen[name][0], g, count)
    return found


def both_factors(module: Any, x: Any, g: Any, count: int) -> tuple[Any, Any]:
    """A and G of one layer, from its input and the columns' gradients of its output."""
    if isinstance(module, tg.nn.Linear):
        a = x.reshape(count, -1, x.shape[-1])
        g = g.reshape(g.shape[0], count, -1, g.shape[-1])
    else:
        a = patches(module, x)
        g = g.flatten(3).movedim(2, 3)
    if module.bias is not None:
        a = tg.cat([a, tg.ones_like(a[..., :1])], -1)
    positions = g.shape[2]
    g = g.reshape(-1, g.shape[-1])
    a = a.reshape(-1, a.shape[-1])
    return a.mT @ a / count, g.mT @ g / (count * positions)


def patches(module: Any, x: Any) -> Any:
    """Input patches that a convolution multiplies with its weight: (sample, position, input)."""
    if module.groups != 1:
        raise ValueError(f"kfac_factors: {module} has groups, which are no single layer")
    size = module.weight[0].numel()
    eye = tg.eye(size, dtype=x.dtype, device=x.device).reshape(size, *module.weight.shape[1:])
    return module._conv_forward(x, eye, None).flatten(2).mT
