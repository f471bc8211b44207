"""Calls that autograd refuses before it does anything: hooks, flags, the first gradient.

Each function returns the exception, or adds to it, and names the user's line and the way out.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from . import functions
from .evidence import describe, here, is_installed, name_of, of_node, place, user_frames
from .report import attach, build


def noticed() -> list[Any]:
    return [("noticed", "at", here())]


def outside_python() -> Any:
    """The user's line, where Python's own modules (copy) call in between."""
    frame = next((f for f in user_frames() if not is_installed(f)), None)
    return here() if frame is None else place(frame.f_code, frame.f_lasti)


def seed_of_other_shape(
    sentence: str, output: Any, wanted: tuple[int, ...], given: tuple[int, ...]
) -> Exception:
    """`y.backward(gradient=...)`: the gradient has another shape than `y`."""
    array = getattr(output, "_array", None)  # an edge of the graph has none
    name = None if array is None else name_of(array)
    ones = f"torch.ones_like({name or 'output'})"
    fixes = [f"pass a tensor of shape {wanted}: {ones} gives the gradient of the sum"]
    if wanted == ():
        fixes = ["leave the argument out: a tensor with one element needs none"]
    elif _size(given) == _size(wanted):
        fixes.insert(0, f"reshape it: gradient.reshape({wanted})")
    return build(
        RuntimeError,
        sentence,
        "E04",
        what=f"gradient= has the shape of what backward() starts from, {wanted}; it has {given}",
        causes=noticed(),
        tensor="" if array is None else describe(array, name),
        fixes=fixes,
    )


def _size(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def hook_changed(sentence: str, hook: Any, before: Any, after: Any) -> Exception:
    """A hook on a tensor returned a gradient of another shape or dtype."""
    wanted, given = describe(before._array), describe(after._array)
    fixes = ["return nothing to keep the gradient as it is: a lambda returns what it computes"]
    if wanted["shape"] == given["shape"]:
        kind = wanted["dtype"]
        fixes.insert(0, f"return it with its dtype: result.to({kind})")
        what = f"the gradient is {kind}, the hook returned {given['dtype']}"
    else:
        fixes.insert(0, f"return a tensor of shape {tuple(wanted['shape'])}")
        what = (
            f"the gradient has shape {tuple(wanted['shape'])}, the hook returned "
            f"{tuple(given['shape'])}"
        )
    return build(
        RuntimeError,
        sentence,
        "E12",
        what=what,
        causes=[("hook", "at", written_at(hook)), *noticed()],
        fixes=fixes,
    )


def written_at(function: Any) -> Any:
    """Where a function of the user's begins."""
    code = getattr(function, "__code__", None)
    return None if code is None else place(code, -1)


def hook_without_history(t: Any) -> Exception:
    """`t.register_hook(f)` where no gradient will ever arrive."""
    name = name_of(t._array)
    own = name or "x"
    return build(
        RuntimeError,
        "cannot register a hook on a tensor that doesn't require gradient",
        "E03",
        what="a hook is called with the gradient of this tensor, and there will be none",
        causes=noticed(),
        tensor=describe(t._array, name),
        fixes=[
            f"an input: {own}.requires_grad_() before it is used",
            "a result: compute it from tensors that require grad, outside of torch.no_grad()",
        ],
    )


def kept_without_history(t: Any) -> Exception:
    """`t.retain_grad()` where no gradient will ever arrive."""
    name = name_of(t._array)
    own = name or "x"
    return build(
        RuntimeError,
        "can't retain_grad on Tensor that has requires_grad=False",
        "E03",
        what="retain_grad() keeps the gradient of a result, and there will be none",
        causes=noticed(),
        tensor=describe(t._array, name),
        fixes=[
            f"an input: {own}.requires_grad_() before it is used; its .grad is kept anyway",
            "a result: compute it from tensors that require grad, outside of torch.no_grad()",
        ],
    )


def no_gradient(sentence: str, t: Any, given: Any) -> Exception:
    """`t.grad = 0`: a gradient is a tensor, or None."""
    name = name_of(t._array)
    own = name or "x"
    fixes = [f"to clear it: {own}.grad = None", f"zeros: {own}.grad = torch.zeros_like({own})"]
    if type(given).__name__ == "ndarray":
        fixes = [f"{own}.grad = torch.from_numpy(array), in the dtype of {own}"]
    return build(
        TypeError,
        sentence,
        "E10",
        what="a gradient is a tensor of the shape of its tensor, or None",
        causes=noticed(),
        tensor=describe(t._array, name),
        fixes=fixes,
    )


def copied_result(sentence: str, t: Any) -> Exception:
    """`copy.deepcopy` of the result of an operation, or of an object that holds one."""
    name = name_of(t._array)
    own = name or "x"
    return build(
        RuntimeError,
        sentence,
        "E07",
        what="it is the result of an operation: a copy has no place in the graph",
        causes=[("made", "at", of_node(t._node)), ("noticed", "at", outside_python())],
        tensor=describe(t._array, name),
        fixes=[
            f"copy the values: {own}.detach().clone()",
            f"a copy that gradients pass through: {own}.clone()",
            "held by a model: compute it in forward(), or keep it detached",
        ],
    )


def called_function(sentence: str, function: Any) -> Exception:
    """`MyFunction()(x)`: custom functions are applied, not made and called."""
    kind = type(function).__name__
    return build(
        RuntimeError,
        sentence,
        "E15",
        what=f"{kind} is never made: its forward and backward are static methods",
        causes=noticed(),
        fixes=[f"{kind}.apply(...), with the arguments of forward after ctx"],
    )


def scheduler_first(sentence: str) -> Exception:
    """The warning of a scheduler whose step() comes before the optimizer's."""
    return build(
        UserWarning,
        sentence,
        "E16",
        what="the optimizer has not made a step yet: the first learning rate would never be used",
        causes=noticed(),
        fixes=["in this order: loss.backward(), optimizer.step(), scheduler.step()"],
    )


def other_lengths(sentence: str, tensors: Any) -> Exception:
    """`TensorDataset(x, y)` of tensors with other numbers of rows."""
    counts = [t.size(0) for t in tensors]
    names = [name_of(t._array) or f"number {i}" for i, t in enumerate(tensors)]
    listed = ", ".join(f"`{n}` has {c}" for n, c in zip(names, counts, strict=True))
    return build(
        AssertionError,
        sentence,
        "E09",
        what=f"sample i is row i of each tensor, and their rows differ: {listed}",
        causes=noticed(),
        fixes=[
            "is one of them transposed, or cut off? their first sizes must be equal",
            f"to drop the rest: [:{min(counts)}] on each",
        ],
    )


def split_of_other_size(sentence: str, lengths: Any, count: int) -> Exception:
    """`random_split(data, lengths)` whose lengths do not add up."""
    first, total = list(lengths)[:-1], sum(lengths)
    rest = count - sum(first)
    fixes = ["fractions that add up to 1: random_split(data, [0.9, 0.1])"]
    if rest > 0 and isinstance(rest, int):
        fixes.insert(0, f"the last part gets the rest: {[*first, rest]}")
    return build(
        ValueError,
        sentence,
        "E09",
        what=f"the lengths add up to {total}, and there are {count} samples",
        causes=noticed(),
        fixes=fixes,
    )


def explain_batch(error: Exception, batch: Any) -> None:
    """Samples of a data set that cannot be put into one tensor."""
    error.args = (str(error).partition("\n")[0],)
    own = "write how they are joined: DataLoader(..., collate_fn=lambda batch: ...)"
    first = batch[0]
    shapes = list(dict.fromkeys([tuple(each.shape) for each in batch if hasattr(each, "shape")]))
    if first is None:
        what = "the data set gave None for a sample"
        fixes = ["__getitem__ must return the sample on every path", own]
    elif len(shapes) > 1:
        what = f"a batch is one tensor, and its samples have shapes {shapes[0]} and {shapes[1]}"
        pad = "pad_sequence(batch, batch_first=True)"
        fixes = [
            f"pad them: collate_fn=lambda batch: torch.nn.utils.rnn.{pad}",
            "or keep them apart: collate_fn=list",
        ]
    else:
        what = f"a {type(first).__name__} is no number, tensor, array, or dict or list of these"
        fixes = ["return its tensors from __getitem__", own]
    attach(error, "E09" if len(shapes) > 1 else "E10", what=what, causes=noticed(), fixes=fixes)


def no_cuda(sentence: str, kind: type[Exception] = AssertionError) -> Exception:
    """A GPU is asked for, and there is none, or no CuPy."""
    return build(
        kind,
        sentence,
        "E10",
        what="no GPU can be used: that takes one of NVIDIA's, and CuPy for its version of CUDA",
        causes=noticed(),
        fixes=[
            'where there may be none: device = "cuda" if torch.cuda.is_available() else "cpu"',
            "install CuPy: pip install 'tapegrad[cuda12]' or 'tapegrad[cuda13]'",
        ],
    )


def flag_of_a_result(sentence: str, t: Any, value: bool) -> Exception:
    """`y.requires_grad = False` on the result of an operation."""
    name = name_of(t._array)
    own = name or "x"
    fixes = [
        f"cut the history off: {own} = {own}.detach()",
        "compute it inside a block: with torch.no_grad():",
    ]
    if value:
        fixes = [f"it requires grad already; {own}.retain_grad() keeps its gradient in .grad"]
    return build(
        RuntimeError,
        sentence,
        "E07",
        what="a result requires grad because its inputs do; the flag can be set on leaves only",
        causes=[("made", "at", of_node(t._node)), *noticed()],
        tensor=describe(t._array, name),
        fixes=fixes,
    )


def explain_missing_backward(error: Exception, node: Any) -> None:
    """A custom Function was differentiated that has no `backward`."""
    cls = getattr(node, "_forward_cls", None)
    kind = getattr(cls, "__name__", "the Function")
    count = 1 if cls is None else len(functions.forward_arguments(cls))
    one = "one gradient" if count == 1 else f"{count} gradients, one for each argument of forward"
    attach(
        error,
        "E15",
        what=f"{kind} has a forward and no backward",
        causes=[("applied", "at", of_node(node)), *noticed()],
        fixes=[
            f"add to {kind}: @staticmethod def backward(ctx, grad_output), which returns {one}",
            "if no gradient shall pass: call it on x.detach()",
        ],
    )


def broadcast_loss(sentence: str, input: Any, target: Any) -> Exception:
    """The warning of losses whose arguments have different shapes."""
    given, wanted = tuple(target.shape), tuple(input.shape)
    name = name_of(target._array)
    own, full = name or "target", given
    fixes = [f"make {own} of shape {wanted} where the data is prepared"]
    with contextlib.suppress(ValueError):
        full = np.broadcast_shapes(wanted, given)
    if _size(given) == _size(wanted):
        fixes = [f"{own}.reshape({wanted})", "squeeze the output of the model"]
    return build(
        UserWarning,
        sentence,
        "E09",
        what=f"they are broadcast to {full}: elements are compared that do not belong together",
        causes=noticed(),
        tensor=describe(target._array, name),
        fixes=fixes,
    )


def ragged(sentence: str, index: tuple[int, ...], length: int, wanted: int) -> Exception:
    """`torch.tensor([[1, 2], [3]])`: rows of different lengths."""
    row = "".join([f"[{i}]" for i in index])
    return build(
        ValueError,
        sentence,
        "E09",
        what=f"data{row} has length {length}, those before it {wanted}: a tensor has no gaps",
        causes=noticed(),
        fixes=[
            "pad them: torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in data], "
            "batch_first=True)",
            "keep a list of tensors: [torch.tensor(row) for row in data]",
        ],
    )


def text_as_data(sentence: str) -> Exception:
    """`torch.tensor(["a"])`: tensors hold numbers."""
    return build(
        ValueError,
        sentence,
        "E10",
        what="a tensor holds numbers, and there is text among the data",
        causes=noticed(),
        fixes=[
            "numbers written as text: [float(word) for word in data]",
            "words or classes: number them, {word: i for i, word in enumerate(sorted(set(data)))}",
        ],
    )
