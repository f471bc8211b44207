"""Jacobians, Hessians and products with them, of functions of tensors.

>>> import tapegrad as torch
>>> torch.autograd.functional.jacobian(lambda x: x * x, torch.tensor([1.0, 2.0]))
tensor([[2., 0.],
        [0., 4.]])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ..core.base import TensorBase
from ..core.transforms.batched import batched, lift
from ..core.transforms.opening import level_of
from . import forward_ad
from .grad_mode import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Any, ...]

STRICT = " This is not allowed in strict mode."
STRICT_GRAPH = " This is not allowed in strict mode when create_graph=True."

# What strict mode says of a tensor that does not require grad, by what the tensor is.
INDEPENDENT = {
    "hessian": "The hessian of the user-provided function with respect to input {i} is independent "
    "of the input. This is not allowed in strict mode. You should ensure that your function is "
    "thrice differentiable and that the hessian depends on the inputs.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided "
    "function with respect to input {i} is independent of the input. This is not allowed in "
    "strict mode. You should ensure that your function is twice differentiable and that the "
    "jacobian depends on the inputs (this would be violated by a linear function for example).",
    "grad_inputs": "The gradient with respect to input {i} is independent of the inputs of the "
    "user-provided function. This is not allowed in strict mode.",
    "outputs": "Output {i} of the user-provided function does not require gradients. The outputs "
    "must be computed in a differentiable manner from the input when running in strict mode.",
}

# What it says of a gradient that is missing, by the pass that should have given it.
MISSING = {
    "back": "The output of the user-provided function is independent of input {i}." + STRICT,
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the "
    "grad_outputs when using the double backward trick to compute forward mode gradients." + STRICT,
    "double_back": "The jacobian of the user-provided function is independent of input {i}."
    + STRICT,
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} in "
    "the grad_jacobian. This is not allowed in strict mode as it prevents from using the double "
    "backward trick to replace forward mode AD.",
}
OUTPUTS = "outputs of the user-provided function"


# ---------------------------------------------------------------------- arguments


def _as_tuple_nocheck(x: Any) -> Tensors:
    if isinstance(x, tuple):
        return x
    return tuple(x) if isinstance(x, list) else (x,)


def _as_tuple(inp: Any, arg_name: str | None = None, fn_name: str | None = None) -> Any:
    """(Is it a tuple?, `inp` as a tuple of tensors); without names just `inp` as a tuple."""
    if arg_name is None and fn_name is None:
        return _as_tuple_nocheck(inp)
    is_tuple = isinstance(inp, tuple)
    values = inp if is_tuple else (inp,)
    for i, value in enumerate(values):
        if not isinstance(value, TensorBase):
            which = f"value at index {i}" if is_tuple else f"given {arg_name}"
            raise TypeError(
                f"The {arg_name} given to {fn_name} must be either a Tensor or a tuple of Tensors "
                f"but the {which} has type {type(value)}."
            )
    return is_tuple, values


def _tuple_postprocess(res: Any, to_unpack: bool | tuple[bool, bool]) -> Any:
    """Undo `_as_tuple`: per level of `res`, keep the tuple (True) or take its only item."""
    if not isinstance(to_unpack, tuple):
        return res if to_unpack else res[0]
    if len(to_unpack) != 2:
        raise AssertionError("Expected to_unpack tuple to have exactly 2 elements")
    outer, inner = to_unpack
    if not inner:
        res = tuple([el[0] for el in res])
    return res if outer else res[0]


def _grad_preprocess(inputs: Tensors, create_graph: bool, need_graph: bool) -> Tensors:
    """The inputs as tensors of our own that can be differentiated with respect to."""
    return tuple(
        [
            t.view_as(t)
            if create_graph and t.requires_grad
            else t.detach().requires_grad_(need_graph)
            for t in inputs
        ]
    )


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """The results for the caller: detached, unless they are to be differentiated further."""
    if create_graph:
        return inputs
    if isinstance(inputs[0], TensorBase):
        return tuple([t.detach() for t in inputs])
    return tuple([_grad_postprocess(part, create_graph) for part in inputs])


def _validate_v(v: Tensors, other: Tensors, is_other_tuple: bool) -> None:
    if len(v) != len(other):
        if is_other_tuple:
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(other)} but got {len(v)}."
            )
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (one, like) in enumerate(zip(v, other, strict=True)):
        if one.size() != like.size():
            entry = f"Entry {i} in " if is_other_tuple else ""
            raise RuntimeError(
                f"{entry}v has invalid size: should be {like.size()} but got {one.size()}."
            )


def _check_requires_grad(inputs: Tensors, input_type: str, strict: bool) -> None:
    if not strict:
        return
    if input_type not in INDEPENDENT:
        raise RuntimeError("Invalid input_type to _check_requires_grad")
    for i, t in enumerate(inputs):
        if t is None:
            raise RuntimeError(MISSING["back"].format(i=i))
        if not t.requires_grad:
            raise RuntimeError(INDEPENDENT[input_type].format(i=i))


def _autograd_grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensors | None = None,
    create_graph: bool = False,
    retain_graph: bool | None = None,
    is_grads_batched: bool = False,
) -> Tensors:
    """autograd.grad that takes outputs without history, and gives None for what is not reached."""
    vectors = (None,) * len(outputs) if grad_outputs is None else grad_outputs
    if len(outputs) != len(vectors):
        raise AssertionError(
            "Expected outputs and grad_outputs to have the same length, but got "
            f"{len(outputs)} and {len(vectors)}"
        )
    pairs = [
        (out, v)
        for out, v in zip(outputs, vectors, strict=True)
        if out is not None and out.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    found: tuple[Any, ...] = tg.autograd.grad(
        [out for out, _ in pairs],
        inputs,
        [v for _, v in pairs],
        allow_unused=True,
        create_graph=create_graph,
        retain_graph=retain_graph,
        is_grads_batched=is_grads_batched,
    )
    return found


def _fill_in_zeros(
    grads: Tensors, refs: Tensors, strict: bool, create_graph: bool, stage: str
) -> Tensors:
    """Zeros for missing gradients; in strict mode they are errors, as are those without history."""
    if stage not in MISSING:
        raise RuntimeError(f"Invalid stage argument '{stage}' to _fill_in_zeros")
    found = []
    for i, (g, ref) in enumerate(zip(grads, refs, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(MISSING[stage].format(i=i))
            g = tg.zeros_like(ref)
        elif strict and create_graph and not g.requires_grad:
            what = "hessian" if "double" in stage else "jacobian"
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {i}."
                + STRICT_GRAPH
            )
        found.append(g)
    return tuple(found)


def called(func: Callable[..., Any], inputs: Tensors, name: str) -> tuple[bool, Tensors]:
    is_tuple, outputs = _as_tuple(func(*inputs), OUTPUTS, name)
    return is_tuple, outputs


def vector_for_inputs(
    v: Any, inputs: Tensors, is_tuple: bool, create_graph: bool, name: str
) -> Tensors | None:
    """The checked `v` of jvp, vhp and hvp; None means 1 where there is one element."""
    if v is None:
        if len(inputs) != 1 or inputs[0].nelement() != 1:
            raise RuntimeError(
                "The vector v can only be None if the input to the user-provided function is a "
                "single Tensor with a single element."
            )
        return None
    _, vector = _as_tuple(v, "v", name)
    vector = _grad_preprocess(vector, create_graph=create_graph, need_graph=False)
    _validate_v(vector, inputs, is_tuple)
    return vector


def check_scalar(outputs: Tensors, is_tuple: bool, name: str) -> None:
    if is_tuple:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].nelement() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )


# ---------------------------------------------------------------------- vectors times Jacobians


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs of `func`, and `v` times its Jacobian: one backward pass.

    >>> autograd.functional.vjp(lambda x: x**2, tensor([1.0, 2.0]), ones(2))[1]
    tensor([2., 4.])
    """
    with enable_grad():
        is_tuple, own = _as_tuple(inputs, "inputs", "vjp")
        own = _grad_preprocess(own, create_graph=create_graph, need_graph=True)
        is_outputs_tuple, outputs = called(func, own, "vjp")
        _check_requires_grad(outputs, "outputs", strict=strict)
        vector: Tensors | None = None
        if v is not None:
            _, vector = _as_tuple(v, "v", "vjp")
            vector = _grad_preprocess(vector, create_graph=create_graph, need_graph=False)
            _validate_v(vector, outputs, is_outputs_tuple)
        elif len(outputs) != 1 or outputs[0].nelement() != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single "
                "Tensor with a single element."
            )
    with tg.set_grad_enabled(create_graph or tg.is_grad_enabled()):
        grads = _autograd_grad(outputs, own, vector, create_graph=create_graph)
        product = _fill_in_zeros(grads, own, strict, create_graph, "back")
    return unpacked(outputs, is_outputs_tuple, product, is_tuple, create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs of `func`, and its Jacobian times `v`: two backward passes.

    Backward is linear in the gradients of the outputs; the gradient with respect to those is the
    product.

    >>> autograd.functional.jvp(lambda x: x**2, tensor([1.0, 2.0]), ones(2))[1]
    tensor([2., 4.])
    """
    with enable_grad():
        is_tuple, own = _as_tuple(inputs, "inputs", "jvp")
        own = _grad_preprocess(own, create_graph=create_graph, need_graph=True)
        vector = vector_for_inputs(v, own, is_tuple, create_graph, "jvp")
        is_outputs_tuple, outputs = called(func, own, "jvp")
        _check_requires_grad(outputs, "outputs", strict=strict)
        seeds = tuple([tg.zeros_like(out, requires_grad=True) for out in outputs])
        pulled = _autograd_grad(outputs, own, seeds, create_graph=True)
        _check_requires_grad(pulled, "grad_inputs", strict=strict)
    with tg.set_grad_enabled(create_graph or tg.is_grad_enabled()):
        grads = _autograd_grad(pulled, seeds, vector, create_graph=create_graph)
        product = _fill_in_zeros(grads, outputs, strict, create_graph, "back_trick")
    return unpacked(outputs, is_outputs_tuple, product, is_outputs_tuple, create_graph)


def unpacked(
    outputs: Tensors, is_outputs_tuple: bool, product: Tensors, is_tuple: bool, create_graph: bool
) -> tuple[Any, Any]:
    return (
        _tuple_postprocess(_grad_postprocess(outputs, create_graph), is_outputs_tuple),
        _tuple_postprocess(_grad_postprocess(product, create_graph), is_tuple),
    )


# ---------------------------------------------------------------------- Jacobians


def _construct_standard_basis_for(tensors: Tensors, tensor_numels: tuple[int, ...]) -> Tensors:
    """The identity matrix, cut into one block of columns per tensor, in that tensor's dtype."""
    if len(tensors) != len(tensor_numels):
        raise AssertionError(
            "Expected tensors and tensor_numels to have the same length, but got "
            f"{len(tensors)} and {len(tensor_numels)}"
        )
    if not tensors:
        raise AssertionError("Expected at least one tensor")
    total = sum(tensor_numels)
    blocks = []
    start = 0
    for t, count in zip(tensors, tensor_numels, strict=True):
        block = tg.zeros(total, count, dtype=t.dtype, device=t.device)
        block.diagonal(-start).fill_(1)
        blocks.append(block)
        start += count
    return tuple(blocks)


def unit_vector(like: Any, place: int) -> Any:
    vector = tg.zeros(like.shape, dtype=like.dtype, device=like.device)
    vector.view(-1)[place] = 1
    return vector


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func` at `inputs`: per output and input, in the shape of output + input.

    Reverse mode takes a backward pass per output element, or with `vectorize` one batched pass for
    all of them. Forward mode is always one call of `func`, with all directions at once.

    >>> autograd.functional.jacobian(lambda x: x**2, tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        check_forward(create_graph, strict, vectorize)
        return _jacfwd(func, inputs)
    with enable_grad():
        is_tuple, own = _as_tuple(inputs, "inputs", "jacobian")
        own = _grad_preprocess(own, create_graph=create_graph, need_graph=True)
        is_outputs_tuple, outputs = called(func, own, "jacobian")
        _check_requires_grad(outputs, "outputs", strict=strict)
        if vectorize and strict:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
                "supported together. Please either set `strict=False` or `vectorize=False`."
            )
        if vectorize:
            return _tuple_postprocess(
                batched_rows(outputs, own, create_graph), (is_outputs_tuple, is_tuple)
            )
        blocks = []
        for i, out in enumerate(outputs):
            if out.is_complex():
                refuse_complex(out)
            rows = [
                reverse_row(out, own, i, j, create_graph, strict) for j in range(out.nelement())
            ]
            columns = zip(*rows, strict=True) if rows else [()] * len(own)
            blocks.append(
                tuple(
                    [
                        tg.stack(column, dim=0).view(out.size() + t.size())
                        for column, t in zip(columns, own, strict=True)
                    ]
                )
            )
    found = _grad_postprocess(tuple(blocks), create_graph)
    return _tuple_postprocess(found, (is_outputs_tuple, is_tuple))


def batched_rows(outputs: Tensors, inputs: Tensors, create_graph: bool) -> Tensors:
    """The Jacobians of all outputs, per input, in one backward pass with a batch of gradients."""
    counts = tuple([out.nelement() for out in outputs])
    flat = tuple([out.reshape(-1) for out in outputs])
    rows = _construct_standard_basis_for(outputs, counts)
    grads = _autograd_grad(flat, inputs, rows, create_graph=create_graph, is_grads_batched=True)
    filled = [
        tg.zeros_like(t).expand((sum(counts), *t.shape)) if g is None else g
        for g, t in zip(grads, inputs, strict=True)
    ]
    if not create_graph:
        filled = [g.detach() for g in filled]
    parts = [g.split(counts, 0) for g in filled]
    return tuple(
        [
            tuple(
                [part[i].view(out.shape + t.shape) for part, t in zip(parts, inputs, strict=True)]
            )
            for i, out in enumerate(outputs)
        ]
    )


def refuse_complex(out: Any) -> None:
    if out.requires_grad and out.nelement():
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {out.dtype}"
        )


def reverse_row(
    out: Any, inputs: Tensors, index: int, place: int, create_graph: bool, strict: bool
) -> Tensors:
    """The gradients of one element of output `index`, zeros for the inputs that it ignores."""
    seed = unit_vector(out, place)
    grads = _autograd_grad((out,), inputs, (seed,), create_graph=create_graph, retain_graph=True)
    row = []
    for k, (g, t) in enumerate(zip(grads, inputs, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(
                    f"Output {index} of the user-provided function is independent of input {k}."
                    + STRICT
                )
            g = tg.zeros_like(t)
        elif strict and create_graph and not g.requires_grad:
            raise RuntimeError(
                f"The jacobian of the user-provided function is independent of input {k}."
                + STRICT_GRAPH
            )
        row.append(g)
    return tuple(row)


def check_forward(create_graph: bool, strict: bool, vectorize: bool) -> None:
    if create_graph:
        raise NotImplementedError(
            "torch.autograd.functional.jacobian: `create_graph=True` and "
            '`strategy="forward-mode"` are not supported together (yet). Please either set '
            '`create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are '
            "not supported together (yet). Please either set `strict=False` or "
            '`strategy="reverse-mode"`.'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
            "only implemented for `vectorize=True`."
        )


def _jacfwd(func: Callable[..., Any], inputs: Any) -> Any:
    """The Jacobian by forward mode: one call of `func` with a batch of directions."""
    is_tuple, own = _as_tuple(inputs, "inputs", "jacobian")
    counts = tuple([t.nelement() for t in own])
    columns = _construct_standard_basis_for(own, counts)
    with level_of("vmap", sum(counts)) as batch, forward_ad.dual_level():
        batch.directions = batch.inside = True
        duals = [
            forward_ad.dual_from(t, batched(column.view(sum(counts), *t.shape), batch))
            for t, column in zip(own, columns, strict=True)
        ]
        is_outputs_tuple, outputs = _as_tuple(func(*duals), "outputs")
        blocks = []
        for out in outputs:
            primal, tangent = forward_ad.unpack_dual(out)
            moved = lift(tg.zeros_like(primal) if tangent is None else tangent, batch)
            blocks.append(
                [
                    part.movedim(0, -1).reshape(out.size() + t.size())
                    for part, t in zip(moved.split(counts, 0), own, strict=True)
                ]
            )
    return _tuple_postprocess(blocks, (is_outputs_tuple, is_tuple))


# ---------------------------------------------------------------------- Hessians


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function with one output element: the Jacobian of its gradient.

    >>> autograd.functional.hessian(lambda x: (x**3).sum(), tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    is_tuple, own = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    forward = outer_jacobian_strategy == "forward-mode"

    def scalar(*values: Any) -> Any:
        is_outputs_tuple, outputs = called(func, values, "hessian")
        check_scalar(outputs, is_outputs_tuple, "hessian")
        if not (forward or vectorize):
            _check_requires_grad(outputs, "outputs", strict=strict)
        return outputs[0].squeeze()

    def gradient(*values: Any) -> Any:
        if forward:
            values = tuple([t.requires_grad_() for t in values])
        found = jacobian(scalar, values, create_graph=True)
        _check_requires_grad(found, "jacobian", strict=strict)
        return found

    found = jacobian(
        gradient,
        own,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return _tuple_postprocess(found, (is_tuple, is_tuple))


def gradient_graph(
    func: Callable[..., Any], inputs: Tensors, strict: bool, name: str
) -> tuple[bool, Tensors, Tensors]:
    """The output of a scalar function and its gradient, ready to be differentiated again."""
    is_outputs_tuple, outputs = called(func, inputs, name)
    check_scalar(outputs, is_outputs_tuple, name)
    _check_requires_grad(outputs, "outputs", strict=strict)
    found = _autograd_grad(outputs, inputs, create_graph=True)
    _check_requires_grad(found, "jacobian", strict=strict)
    return is_outputs_tuple, outputs, found


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The output of a scalar function, and `v` times its Hessian.

    >>> f = lambda x: (x**3).sum()
    >>> autograd.functional.vhp(f, tensor([1.0, 2.0]), ones(2))[1]
    tensor([ 6., 12.])
    """
    with enable_grad():
        is_tuple, own = _as_tuple(inputs, "inputs", "vhp")
        own = _grad_preprocess(own, create_graph=create_graph, need_graph=True)
        vector = vector_for_inputs(v, own, is_tuple, create_graph, "vhp")
        is_outputs_tuple, outputs, gradient = gradient_graph(func, own, strict, "vhp")
    with tg.set_grad_enabled(create_graph or tg.is_grad_enabled()):
        grads = _autograd_grad(gradient, own, vector, create_graph=create_graph)
        product = _fill_in_zeros(grads, own, strict, create_graph, "double_back")
    return unpacked(outputs, is_outputs_tuple, product, is_tuple, create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The output of a scalar function, and its Hessian times `v`; `vhp` takes a pass less.

    >>> f = lambda x: (x**3).sum()
    >>> autograd.functional.hvp(f, tensor([1.0, 2.0]), ones(2))[1]
    tensor([ 6., 12.])
    """
    with enable_grad():
        is_tuple, own = _as_tuple(inputs, "inputs", "hvp")
        own = _grad_preprocess(own, create_graph=create_graph, need_graph=True)
        vector = vector_for_inputs(v, own, is_tuple, create_graph, "hvp")
        is_outputs_tuple, outputs, gradient = gradient_graph(func, own, strict, "hvp")
        seeds = tuple([tg.zeros_like(t, requires_grad=True) for t in own])
        twice = _autograd_grad(gradient, own, seeds, create_graph=True)
        _check_requires_grad(gradient, "hessian", strict=strict)
    with tg.set_grad_enabled(create_graph or tg.is_grad_enabled()):
        grads = _autograd_grad(twice, seeds, vector, create_graph=create_graph)
        product = _fill_in_zeros(grads, own, strict, create_graph, "double_back_trick")
    return unpacked(outputs, is_outputs_tuple, product, is_tuple, create_graph)
