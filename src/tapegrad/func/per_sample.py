"""Gradients of each sample of a batch.

The gradient of a layer's parameters for one sample follows from the layer's input and from the
gradient of its output: for a linear layer it is their outer product. So for a `Sequential` of
common layers one pass over the batch gives the gradients of all outputs, and one product per layer
those of its parameters. Other models run under `vmap`, which follows any `forward`, with parameters
that have a gradient per sample; and so do all models if the gradients are recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import tapegrad as tg

from ..core.base import TensorBase
from ..core.modes import MODES, grad_set_to
from ..core.transforms.levels import STACK
from ..nn.modules._hooks import GLOBAL
from .derivatives import grad
from .module_state import functional_call
from .vmapping import vmap

Function = Callable[..., Any]
Gradients = dict[str, Any]


def per_sample_grad(
    loss: Function,
    model: Any,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
    create_graph: bool = False,
) -> Function:
    """The gradients of loss(model(inputs), targets) for each sample of a batch.

    The result is a function of `inputs` (a tensor, or a tuple of tensors for a model that takes
    several) and `targets` (none, or several), all with the batch in front. It returns a dict: for
    each parameter that requires grad, the gradients of all samples, stacked. Model and loss see
    one sample at a time, as a batch of one. `chunk_size` bounds the memory: so many samples at a
    time. `randomness`: "error", "different" or "same" dropout masks, as for `vmap`. With
    `create_graph` the gradients can be differentiated; inside other transforms they always can.

    >>> layer = nn.Linear(1, 1)
    >>> each = torch.func.per_sample_grad(nn.functional.mse_loss, layer)
    >>> each(ones(5, 1), zeros(5, 1))["weight"].shape
    torch.Size([5, 1, 1])
    """
    check_model("per_sample_grad", model)
    if not callable(loss):
        raise TypeError(f"per_sample_grad: the loss must be a function, got {type(loss).__name__}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"per_sample_grad: chunk_size must be positive, got {chunk_size}")
    for name, module in model.named_modules():
        if module.training and isinstance(module, tg.nn.modules.batchnorm._BatchNorm):
            raise ValueError(
                f"per_sample_grad: {name!r} ({type(module).__name__}) mixes the samples of a batch "
                "while it is training, so that no sample has a gradient of its own: call "
                "model.eval(), or use GroupNorm"
            )

    def of_batch(inputs: Any, *targets: Any) -> Gradients:
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        for t in (*given, *targets):
            if not isinstance(t, TensorBase):
                raise TypeError(
                    "per_sample_grad: inputs and targets must be tensors with the samples in "
                    f"front, got {type(t).__name__}"
                )
        if STACK.levels or (create_graph and MODES.records):
            return by_copies(loss, model, chunk_size, randomness, given, targets)
        with tg.no_grad():
            run = by_layers(loss, model, randomness)
            if run is not None and is_batch(given, targets) and MODES.autocast is None:
                found = in_chunks(run, chunk_size, given, targets)
                if found is not None:
                    return found
            return by_copies(loss, model, chunk_size, randomness, given, targets)

    return of_batch


def check_model(name: str, model: Any) -> None:
    if not isinstance(model, tg.nn.Module):
        raise TypeError(f"{name}: model must be a Module, got {type(model).__name__}")


def by_copies(
    loss: Function,
    model: Any,
    chunk_size: int | None,
    randomness: str,
    given: tuple[Any, ...],
    targets: tuple[Any, ...],
) -> Gradients:
    """The gradients in the copies of the parameters that `vmap` makes, one per sample."""
    wanted = {name: p for name, p in model.named_parameters() if p.requires_grad}

    def of_one(parameters: dict[str, Any], given: tuple[Any, ...], *targets: Any) -> Any:
        out = functional_call(model, parameters, tuple([t.unsqueeze(0) for t in given]))
        return loss_of_one(loss, out, targets)

    dims = (None, 0) + (0,) * len(targets)
    mapped = vmap(grad(of_one), dims, chunk_size=chunk_size, randomness=randomness)
    return mapped(wanted, given, *targets)  # type: ignore[no-any-return]


def loss_of_one(loss: Function, out: Any, targets: tuple[Any, ...]) -> Any:
    return loss(out, *[t.unsqueeze(0) for t in targets]).sum()


def is_batch(given: tuple[Any, ...], targets: tuple[Any, ...]) -> bool:
    """Whether all arguments are ordinary tensors with the same number of samples, at least one."""
    sizes = set()
    for t in (*given, *targets):
        if t._special or not t._array.ndim:
            return False
        sizes.add(len(t._array))
    return len(sizes) == 1 and 0 not in sizes


def in_chunks(
    run: Function, chunk_size: int | None, given: tuple[Any, ...], targets: tuple[Any, ...]
) -> Gradients | None:
    count = len(given[0])
    if chunk_size is None or chunk_size >= count:
        return run(given, targets)  # type: ignore[no-any-return]
    parts = []
    for start in range(0, count, chunk_size):
        stop = start + chunk_size
        part = run(tuple([t[start:stop] for t in given]), tuple([t[start:stop] for t in targets]))
        if part is None:
            return None
        parts.append(part)
    return {name: tg.cat([part[name] for part in parts]) for name in parts[0]}


# ---------------------------------------------------------------------- rules of layers

# Each takes the layer, its inputs and the gradients of its outputs, with the samples in front of
# what the layer itself sees, and returns the gradients of "weight" and "bias" for each sample.


def of_linear(layer: Any, x: Any, g: Any) -> Gradients:
    if x.ndim == 2:
        return {"weight": tg.bmm(g.unsqueeze(2), x.unsqueeze(1)), "bias": g.contiguous()}
    x = x.flatten(1, -2)
    g = g.flatten(1, -2)
    return {"weight": tg.bmm(g.mT, x), "bias": g.sum(1)}


def of_convolution(layer: Any, x: Any, g: Any) -> Gradients:
    """Samples as groups of channels: the kernels take them all at once."""
    count, dims = len(x), len(layer.kernel_size)
    padding: Any = layer.padding
    if layer.padding_mode != "zeros" or isinstance(padding, str):
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        x = tg.nn.functional.pad(x, layer._reversed_padding_repeated_twice, mode=mode)
        padding = 0
    shape = layer.weight.shape
    weight = getattr(tg.nn.grad, f"conv{dims}d_weight")(
        x.flatten(0, 1).unsqueeze(0),
        (count * shape[0], *shape[1:]),
        g.flatten(0, 1).unsqueeze(0),
        layer.stride,
        padding,
        layer.dilation,
        count * layer.groups,
    )
    return {"weight": weight.unflatten(0, (count, shape[0])), "bias": g.flatten(2).sum(2)}


def of_last_dims_norm(layer: Any, x: Any, g: Any) -> Gradients:
    """LayerNorm and RMSNorm: the gradient of the weight is that of the output times the result
    without weight."""
    functional = tg.nn.functional
    norm = functional.layer_norm if type(layer) is tg.nn.LayerNorm else functional.rms_norm
    plain = norm(x, layer.normalized_shape, eps=layer.eps)
    shape = (len(x), -1, *layer.normalized_shape)
    return {"weight": (g * plain).reshape(shape).sum(1), "bias": g.reshape(shape).sum(1)}


def of_group_norm(layer: Any, x: Any, g: Any) -> Gradients:
    plain = tg.nn.functional.group_norm(x, layer.num_groups, eps=layer.eps)
    return {"weight": (g * plain).flatten(2).sum(2), "bias": g.flatten(2).sum(2)}


def of_embedding(layer: Any, x: Any, g: Any) -> Gradients:
    """One table for all samples, of which each has its own rows."""
    count, (rows, width) = len(x), layer.weight.shape
    places = x.reshape(count, -1) + rows * tg.arange(count, device=x.device).unsqueeze(1)
    table = tg.zeros(count * rows, width, dtype=g.dtype, device=g.device)
    table.index_add_(0, places.flatten(), g.reshape(-1, width))
    found = table.unflatten(0, (count, rows))
    if layer.padding_idx is not None:
        found[:, layer.padding_idx] = 0
    return {"weight": found}


@functools.cache
def rules() -> dict[type, Function]:
    nn = tg.nn
    return {
        nn.Linear: of_linear,
        nn.Conv1d: of_convolution,
        nn.Conv2d: of_convolution,
        nn.Conv3d: of_convolution,
        nn.LayerNorm: of_last_dims_norm,
        nn.RMSNorm: of_last_dims_norm,
        nn.GroupNorm: of_group_norm,
        nn.Embedding: of_embedding,
    }


def has_rule(module: Any) -> bool:
    """Whether the gradients of a module's parameters follow from its rule."""
    if type(module) not in rules() or not runs_as_written(module):
        return False
    for name, p in module._parameters.items():
        if p is not None and (
            name not in ("weight", "bias")
            or type(p) is not tg.nn.Parameter
            or not p.is_floating_point()  # complex rules would need conjugates
        ):
            return False
    if type(module) is tg.nn.Embedding:
        return not (module.sparse or module.scale_grad_by_freq) and module.max_norm is None
    return "weight" in module._parameters


def runs_as_written(module: Any) -> bool:
    """Whether nobody replaced `forward`, for this module or for its class."""
    kind = type(module)
    return "forward" not in module.__dict__ and kind.forward.__module__ == kind.__module__


# ---------------------------------------------------------------------- one pass over a batch


class Notes:
    """The inputs and outputs of the layers with a rule, in one pass over a batch."""

    def __init__(self) -> None:
        self.layers: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def call(self, layer: Any, x: Any) -> Any:
        """Call a layer with its parameters as constants, and note input and output."""
        table = layer._parameters
        own = dict(table)
        try:
            for name, p in own.items():
                if p is not None:
                    table[name] = p.detach()
            out = layer.forward(x)
        finally:
            table.update(own)
        if not out.requires_grad:
            out.requires_grad_()
        self.layers.append(layer)
        self.inputs.append(x.detach())
        self.outputs.append(out)
        return out

    def gradients(self, losses: Any, wanted: Gradients) -> Gradients:
        """The gradients of the wanted parameters from the losses of all samples."""
        found: dict[int, Any] = {}
        if losses.requires_grad:
            back = tg.autograd.grad(losses.sum(), self.outputs, allow_unused=True)
            for layer, x, g in zip(self.layers, self.inputs, back, strict=True):
                if g is not None:
                    add_gradients(found, layer, x, g)
        return {
            name: found[id(p)] if id(p) in found else p.new_zeros((len(losses), *p.shape))
            for name, p in wanted.items()
        }


def add_gradients(found: dict[int, Any], layer: Any, x: Any, g: Any) -> None:
    """Add what one call of a layer contributes, by the ids of parameters."""
    table = layer._parameters
    if any([p is not None and p.requires_grad for p in table.values()]):
        for name, part in rules()[type(layer)](layer, x, g).items():
            p = table.get(name)
            if p is not None and p.requires_grad:
                before = found.get(id(p))
                found[id(p)] = part if before is None else before + part


def by_layers(loss: Function, model: Any, randomness: str) -> Function | None:
    """How to compute the gradients from one pass over a batch; None if there is no way."""
    layers = list(in_a_row(model))
    if None in layers or any([has_hooks(m) for m in model.modules()]):
        return None
    wanted = {name: p for name, p in model.named_parameters() if p.requires_grad}

    def of_one(out: Any, *targets: Any) -> Any:
        return loss_of_one(loss, out.unsqueeze(0), targets)

    def run(given: tuple[Any, ...], targets: tuple[Any, ...]) -> Gradients | None:
        notes = Notes()
        with grad_set_to(True):
            try:
                out = through(layers, given, notes)
            except (IndexError, RuntimeError, TypeError, ValueError):
                return None  # the error is that of a single sample
            if out is None:
                return None
            targets = tuple([t.detach() for t in targets])
            return notes.gradients(vmap(of_one, randomness=randomness)(out, *targets), wanted)

    return run


# ---------------------------------------------------------------------- layers in a row


@functools.cache
def plain_layers() -> dict[type, int]:
    """Layers that have no parameters and treat samples alike, and the dimensions of their inputs
    (0: any number)."""
    nn = tg.nn
    names = """
        CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid Mish
        ReLU ReLU6 SELU Sigmoid SiLU Softplus Softshrink Softsign Tanh Tanhshrink Threshold
        Dropout Flatten
    """
    pools = ("MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool")
    found = {getattr(nn, name): 0 for name in names.split()}
    return found | {getattr(nn, f"{pool}{n}d"): n + 2 for pool in pools for n in (1, 2, 3)}


def takes_batch(layer: Any, dims: int) -> bool:
    """Whether a layer treats every sample of a batch of so many dimensions like a batch of one."""
    nn, kind = tg.nn, type(layer)
    if kind is nn.Flatten:
        return layer.start_dim == 1 and layer.end_dim == -1 and dims > 1
    if kind is nn.Dropout:
        return not layer.training or layer.p == 0
    wanted = plain_layers().get(kind)
    if wanted is not None:
        return wanted in (0, dims) and not getattr(layer, "return_indices", False)
    if kind in (nn.LayerNorm, nn.RMSNorm):
        return dims > len(layer.normalized_shape)
    if kind is nn.GroupNorm:  # a group of one number is refused in a batch of one
        return dims > 2 and layer.num_groups < layer.num_channels
    if kind is nn.Linear:
        return dims > 1
    return kind is nn.Embedding or dims == len(layer.kernel_size) + 2


def in_a_row(module: Any) -> Iterator[Any]:
    """The layers of nested Sequentials, in order; None for each that is not well-known."""
    if type(module) is tg.nn.Sequential and runs_as_written(module):
        for child in module._modules.values():
            yield from in_a_row(child)
    elif has_rule(module):
        yield module
    else:
        known = type(module) in plain_layers() and runs_as_written(module)
        yield module if known and not getattr(module, "inplace", False) else None


def through(layers: list[Any], given: tuple[Any, ...], notes: Notes) -> Any:
    """The result of layers called one after the other; None if one is not for whole batches."""
    if len(given) != 1:
        return None
    x = given[0].detach()
    for layer in layers:
        if not takes_batch(layer, x.ndim):
            return None
        x = notes.call(layer, x) if type(layer) in rules() else layer(x)
    return x


def has_hooks(module: Any) -> bool:
    return bool(
        module._backward_hooks
        or module._backward_pre_hooks
        or module._forward_hooks
        or module._forward_pre_hooks
        or GLOBAL.forward
        or GLOBAL.forward_pre
        or GLOBAL.backward
        or GLOBAL.backward_pre
    )
