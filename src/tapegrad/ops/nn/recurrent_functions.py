"""lstm, gru, rnn_tanh, rnn_relu: whole stacks of recurrent layers; and single steps of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import dtypes
from ...core.arguments import is_index
from ...core.base import TensorBase
from ...core.python_dispatch import is_asked, is_recorded
from ...errors import must_be_tensor
from ...kernels.recurrent_loops import spans
from ..block import LOWER, Autocast, Case, api, apply
from ..block.public import public
from ..block.samples import Draw, Index
from ..copying.part_copies import UnsafeSplit
from .lstm_step import lstm_gates
from .recurrent import GruLayer, LstmLayer, MkldnnRnnLayer, RnnLayer, StackSteps

# ---------------------------------------------------------------------- one layer, one direction


class Weights:
    """The parameters of one layer in one direction."""

    def __init__(self, given: Sequence[Any], biased: bool) -> None:
        self.input, self.hidden = given[:2]
        self.input_bias, self.hidden_bias = given[2:4] if biased else (None, None)
        self.proj = given[4 if biased else 2] if len(given) % 2 else None

    def gates(self, rows: Any, all_biases: bool) -> Any:
        """The input's part of the gates, for all steps at once."""
        bias = self.input_bias
        if all_biases and bias is not None:
            bias = bias + self.hidden_bias
        return public.nn.functional.linear(rows, self.input, bias)


Place = tuple[tuple[int, ...], bool]  # sizes, turned: see recurrent.py


def refuse_integers(gates: Any) -> None:
    """Gates are fractions; PyTorch notices when it writes them back."""
    if not (gates.is_floating_point() or gates.is_complex()):
        name = gates.dtype.scalar_type
        raise RuntimeError(f"result type Float can't be cast to the desired output type {name}")


def rnn_layer(rows: Any, states: Sequence[Any], w: Weights, place: Place, relu: bool) -> Any:
    gates = w.gates(rows, True)
    if relu and gates.is_complex():
        raise NotImplementedError("clamp is not supported for complex types")
    if not relu and not (gates.is_floating_point() or gates.is_complex()):
        name = gates.dtype.scalar_type
        raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got Float and {name}")
    return [apply(RnnLayer, (gates, states[0], w.hidden), (relu, *place))]


def gru_layer(rows: Any, states: Sequence[Any], w: Weights, place: Place) -> Any:
    gates = w.gates(rows, False)
    refuse_integers(gates)
    return apply(GruLayer, (gates, states[0], w.hidden, w.hidden_bias), place)[:1]


def lstm_layer(rows: Any, states: Sequence[Any], w: Weights, place: Place) -> Any:
    gates = w.gates(rows, True)
    refuse_integers(gates)
    return apply(LstmLayer, (gates, *states, w.hidden, w.proj), place)[:2]


LAYERS: dict[str, Any] = {
    "rnn_tanh": lambda *args: rnn_layer(*args, relu=False),
    "rnn_relu": lambda *args: rnn_layer(*args, relu=True),
    "gru": gru_layer,
    "lstm": lstm_layer,
}


def final(rows: Any, sizes: tuple[int, ...], turned: bool) -> Any:
    """The last state of every sequence."""
    if turned:
        return rows[: sizes[0]]
    parts = []
    have = 0
    for start, count in reversed(spans(sizes, False)):
        if count > have:
            parts.append(rows[start + have : start + count])
            have = count
    if not parts:
        return rows[: sizes[0]]  # a batch of nothing
    return parts[0] if len(parts) == 1 else public.cat(parts)


# ---------------------------------------------------------------------- the whole stack


def stacked(
    kind: str,
    input: Any,
    sizes: tuple[int, ...] | None,
    hx: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Any, ...]:
    """All layers, forwards and backwards in time: the output and the last states of each."""
    padded = sizes is None
    if sizes is None:
        sizes = (input.size(1),) * input.size(0)
        input.size(2)  # complains about a matrix in PyTorch's words
    if not sizes:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    directions = 2 if bidirectional else 1
    projected = len(hx) == 2 and hx[0].size(2) != hx[1].size(2)
    stride = 2 + 2 * bool(has_biases) + projected
    fast = padded and kind == "lstm" and not projected and sizes[0] > 0
    fast = fast and input.dtype in (dtypes.float32, dtypes.bfloat16)
    if len(params) % stride:
        raise RuntimeError(
            f"MatrixRef: ArrayRef size {len(params)} not divisible by stride {stride}"
            if fast
            else "got an incorrect number of RNN parameters"
        )
    weights = [Weights(params[i : i + stride], has_biases) for i in range(0, len(params), stride)]
    initial = [state.unbind(0) for state in hx]
    if len(initial[0]) != num_layers * directions:
        raise RuntimeError("Expected more hidden states in stacked_rnn")
    if len(weights) != num_layers * directions:
        raise RuntimeError("Expected more weights in stacked_rnn")
    if hx[0].dim() == 2:
        height, width = weights[0].hidden.shape
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied (1x{hx[0].size(1)} and {width}x{height})"
        )
    layer = LAYERS[kind]
    last: list[list[Any]] = [[] for _ in hx]
    for depth in range(num_layers):
        rows = input.reshape(-1, input.size(-1)) if padded else input
        outs = []
        for turned in (False, True)[:directions]:
            index = depth * directions + turned
            found = layer(
                rows, [state[index] for state in initial], weights[index], (sizes, turned)
            )
            for kept, each in zip(last, found, strict=True):
                kept.append(final(each, sizes, turned))
            out = found[0]
            if padded:
                out = apply(MkldnnRnnLayer if fast else StackSteps, (out,), (len(sizes),))
            outs.append(out)
        # Packed rows come out of a `cat`, whether there are two directions or one.
        input = outs[0] if padded and not bidirectional else public.cat(outs, dim=-1)
        if dropout and train and depth < num_layers - 1:
            input = public.nn.functional.dropout(input, dropout, training=True)
    return (input, *[public.stack(states) for states in last])


FLAGS = ("has_biases", "train", "bidirectional", "batch_first")


def parsed(name: str, args: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, ...]:
    """Either public signature, as the arguments of `stacked` and `batch_first`."""
    many = name == "lstm"
    shared = ("hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional")
    for names in (("data", "batch_sizes", *shared), ("input", *shared, "batch_first")):
        values = dict(zip(names, args, strict=False))
        if len(args) > len(names) or values.keys() & given.keys():
            continue
        values |= given
        if values.keys() != set(names) or not isinstance(values[names[0]], TensorBase):
            continue
        hx, params = values["hx"], values["params"]
        fits = isinstance(hx, (tuple, list)) if many else isinstance(hx, TensorBase)
        if not fits or not isinstance(params, (tuple, list)):
            continue
        if names[0] == "data" and not isinstance(values["batch_sizes"], TensorBase):
            continue
        flags = [values.get(n, False) for n in FLAGS]
        if not all([isinstance(v, bool) for v in flags]):
            continue
        if not is_index(values["num_layers"]):
            continue
        if not isinstance(values["dropout"], (int, float, TensorBase)):
            continue
        first, rest = values[names[0]], [values[n] for n in shared[1:]]
        if many and len(hx) != 2:
            raise RuntimeError("lstm expects two hidden states")
        states = tuple(hx) if many else (hx,)
        sizes = tuple(values["batch_sizes"].tolist()) if names[0] == "data" else None
        return (first, sizes, states, *rest), bool(values.get("batch_first"))
    got = ", ".join([type(a).__name__ for a in args])
    states_type = "tuple of Tensors" if many else "Tensor"
    common = (
        f"{states_type} hx, tuple of Tensors params, bool has_biases, int num_layers, "
        "float dropout, bool train, bool bidirectional"
    )
    raise TypeError(
        f"{name}() received an invalid combination of arguments - got ({got}), but expected one "
        f"of:\n * (Tensor data, Tensor batch_sizes, {common})\n"
        f" * (Tensor input, {common}, bool batch_first)\n"
    )


def run(name: str, args: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, ...]:
    (input, *rest), batch_first = parsed(name, args, given)
    if not batch_first:
        return stacked(name, input, *rest)
    out, *last = stacked(name, input.transpose(0, 1), *rest)
    # PyTorch turns the result of the simpler kinds in place; the user's modes are not told of it.
    turns = name != "lstm" and (not is_asked(out) or is_recorded())
    return (out.transpose_(0, 1) if turns else out.transpose(0, 1), *last)


def small(*shape: int) -> Draw:
    return Draw(*shape, low=-0.9, high=0.9)


def stack_cases(gates: int, states: int) -> list[Case]:
    """Padded and packed, one direction and two, with and without biases."""

    def case(
        *first: Any, bias: bool = True, layers: int = 1, both: bool = False, last: Any
    ) -> Case:
        directions = 1 + both
        each = [
            w
            for depth in range(layers)
            for _ in range(directions)
            for w in (
                small(gates * 2, 3 if depth == 0 else 2 * directions),
                small(gates * 2, 2),
                *((small(gates * 2), small(gates * 2)) if bias else ()),
            )
        ]
        hx = [small(layers * directions, 2, 2) for _ in range(states)]
        state = tuple(hx) if states > 1 else hx[0]
        return Case(*first, state, each, bias, layers, 0.0, False, both, *last)

    return [
        case(small(3, 2, 3), last=[False]),
        case(small(2, 2, 3), bias=False, layers=2, both=True, last=[True]),
        case(small(5, 3), Index([2, 2, 1]), both=True, last=[]),
    ]


@api(method=False, samples=stack_cases(1, 1))
def rnn_tanh(*args: Any, **kwargs: Any) -> Any:
    """rnn_tanh(input, hx, params, …) -> (Tensor, Tensor): layers of `h = tanh(W x + U h + b)`.

    The rest is has_biases, num_layers, dropout, train, bidirectional, batch_first. Packed
    sequences are given as `data, batch_sizes` in place of `input`, without `batch_first`.

    >>> w, u = tensor([[1.0]]), tensor([[1.0]])
    >>> rnn_tanh(ones(2, 1, 1), zeros(1, 1, 1), [w, u], False, 1, 0.0, False, False, False)[1]
    tensor([[[0.9427]]])
    """
    return run("rnn_tanh", args, kwargs)


@api(method=False, samples=stack_cases(1, 1)[:1])
def rnn_relu(*args: Any, **kwargs: Any) -> Any:
    """rnn_relu(input, hx, params, …) -> (Tensor, Tensor): layers of `h = relu(W x + U h + b)`.

    >>> w, u = tensor([[1.0]]), tensor([[1.0]])
    >>> rnn_relu(ones(2, 1, 1), zeros(1, 1, 1), [w, u], False, 1, 0.0, False, False, False)[1]
    tensor([[[2.]]])
    """
    return run("rnn_relu", args, kwargs)


@api(method=False, samples=stack_cases(4, 2))
def lstm(*args: Any, **kwargs: Any) -> Any:
    """lstm(input, hx, params, …) -> (Tensor, Tensor, Tensor): layers of long short-term memory.

    >>> h, w = zeros(1, 1, 1), ones(4, 1)
    >>> lstm(ones(2, 1, 1), (h, h), [w, w], False, 1, 0.0, False, False, False)[2]
    tensor([[[1.1444]]])
    """
    return run("lstm", args, kwargs)


@api(method=False, samples=stack_cases(3, 1))
def gru(*args: Any, **kwargs: Any) -> Any:
    """gru(input, hx, params, …) -> (Tensor, Tensor): layers of gated recurrent units.

    >>> h, w = zeros(1, 1, 1), ones(3, 1)
    >>> gru(ones(2, 1, 1), h, [w, w], False, 1, 0.0, False, False, False)[1]
    tensor([[[0.3468]]])
    """
    return run("gru", args, kwargs)


# ---------------------------------------------------------------------- single steps


def fits_step(gates: int, input: Any, states: Sequence[Any], w_ih: Any, w_hh: Any) -> bool:
    """Whether there is nothing to refuse: the sizes of plain tensors, without a call for each."""
    for t in (input, w_ih, w_hh, *states):
        if not isinstance(t, TensorBase) or t._special:
            return False
    shape, width = input._array.shape, w_hh._array.shape[1:]
    if len(shape) != 2 or len(width) != 1 or w_ih._array.shape != (gates * width[0], shape[1]):
        return False
    state = (shape[0], *width)
    return all([t._array.shape == state for t in states])


def check_step(
    name: str, gates: int, input: Any, states: Sequence[Any], w_ih: Any, w_hh: Any
) -> None:
    """The sizes of a step, as PyTorch words them."""
    if fits_step(gates, input, states, w_ih, w_hh):
        return
    for position, (argument, value) in enumerate(
        [("input", input), ("hx", states[0]), ("w_ih", w_ih), ("w_hh", w_hh)], start=1
    ):
        if not isinstance(value, TensorBase):
            raise must_be_tensor(name, argument, position, value)
    width = w_hh.size(1)
    if w_ih.dim() < 2:
        spelled = f"{gates} * hidden_size = {gates * width}"
        raise RuntimeError(
            f"weight_ih first dim must be {spelled}, but got {w_ih.size(0) if w_ih.dim() else 0}"
        )
    found, expected = input.size(1), w_ih.size(1)
    if found != expected:
        raise RuntimeError(f"input has inconsistent input_size: got {found} expected {expected}")
    for index, state in enumerate(states):
        if input.size(0) != state.size(0):
            raise RuntimeError(
                f"Input batch size {input.size(0)} doesn't match hidden{index} batch size "
                f"{state.size(0)}"
            )
        if state.size(1) != width:
            raise RuntimeError(
                f"hidden{index} has inconsistent hidden_size: got {state.size(1)}, expected {width}"
            )
    if w_ih.size(0) != gates * width:
        spelled = f"{gates} * hidden_size" if gates > 1 else "hidden_size"
        raise RuntimeError(
            f"weight_ih first dim must be {spelled} = {gates * width}, but got {w_ih.size(0)}"
        )


def step_sum(input: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    linear = public.nn.functional.linear
    return linear(input, w_ih, b_ih) + linear(h, w_hh, b_hh)


def gates_of(sums: Any, count: int) -> Any:
    """The columns of each gate."""
    return apply(UnsafeSplit, (sums,), ((sums.size(1) // count,) * count, 1))


def as_if_written(result: Any, times: int) -> Any:
    """A new tensor with the version that PyTorch's, which is written in place, has."""
    result._version_cell().n += times
    return result


def step_case(gates: int, states: int, bias: bool) -> Case:
    hx = [small(2, 2) for _ in range(states)]
    biases = [small(gates * 2), small(gates * 2)] if bias else []
    state = tuple(hx) if states > 1 else hx[0]
    return Case(small(2, 3), state, small(gates * 2, 3), small(gates * 2, 2), *biases)


@api(
    method=False,
    samples=[step_case(1, 1, True), step_case(1, 1, False)],
    autocast=Autocast(gpu=LOWER),
)
def rnn_tanh_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None) -> Tensor: one step of a recurrent
    network: the new hidden state.

    >>> rnn_tanh_cell(ones(1, 1), zeros(1, 1), ones(1, 1), ones(1, 1))
    tensor([[0.7616]])
    """
    check_step("rnn_tanh_cell", 1, input, (hx,), w_ih, w_hh)
    return public.tanh(step_sum(input, hx, w_ih, w_hh, b_ih, b_hh))


@api(method=False, samples=[step_case(1, 1, True)], autocast=Autocast(gpu=LOWER))
def rnn_relu_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None) -> Tensor: one step of a recurrent
    network: the new hidden state.

    >>> rnn_relu_cell(ones(1, 1), ones(1, 1), ones(1, 1), ones(1, 1))
    tensor([[2.]])
    """
    check_step("rnn_relu_cell", 1, input, (hx,), w_ih, w_hh)
    return public.relu(step_sum(input, hx, w_ih, w_hh, b_ih, b_hh))


@api(
    method=False,
    samples=[step_case(4, 2, True), step_case(4, 2, False)],
    autocast=Autocast(gpu=LOWER),
)
def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None) -> (Tensor, Tensor): one step of an
    LSTM: the new hidden and cell states.

    >>> h, w = zeros(1, 1), ones(4, 1)
    >>> lstm_cell(ones(1, 1), (h, h), w, w)
    (tensor([[0.3696]]), tensor([[0.5568]]))
    """
    if not isinstance(hx, (tuple, list)):
        raise TypeError(
            "lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not "
            f"{type(hx).__name__}"
        )
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    check_step("lstm_cell", 4, input, hx, w_ih, w_hh)
    h, c = hx
    gates = step_sum(input, h, w_ih, w_hh, b_ih, b_hh)
    found = lstm_gates(gates, c)
    if found is not None:
        return found
    refuse_integers(gates)
    i, f, g, o = gates_of(gates, 4)
    c = as_if_written(public.sigmoid(f) * c + public.sigmoid(i) * public.tanh(g), 1)
    return public.sigmoid(o) * public.tanh(c), c


@api(
    method=False,
    samples=[step_case(3, 1, True), step_case(3, 1, False)],
    autocast=Autocast(gpu=LOWER),
)
def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None) -> Tensor: one step of a GRU: the new
    hidden state.

    >>> w = ones(3, 1)
    >>> gru_cell(ones(1, 1), zeros(1, 1), w, w)
    tensor([[0.2048]])
    """
    check_step("gru_cell", 3, input, (hx,), w_ih, w_hh)
    linear = public.nn.functional.linear
    gates = linear(input, w_ih, b_ih)
    refuse_integers(gates)
    r, z, n = gates_of(gates, 3)
    by_r, by_z, by_n = gates_of(linear(hx, w_hh, b_hh), 3)
    new = public.tanh(n + by_n * public.sigmoid(r + by_r))
    return as_if_written((hx - new) * public.sigmoid(z + by_z) + new, 2)
