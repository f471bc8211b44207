"""Recurrent layers: RNN, LSTM and GRU over whole sequences, and their single steps."""

from __future__ import annotations

import math
import numbers
from typing import Any

import tapegrad as tg

from ...core.warned import warn
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]

# How many gates a mode has: the height of its matrices in hidden sizes.
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _apply_permutation(tensor: Any, permutation: Any, dim: int = 1) -> Any:
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor: Any, permutation: Any, dim: int = 1) -> Any:
    """The old name of `index_select` in this module."""
    warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` "
        "instead",
        FutureWarning,
    )
    return _apply_permutation(tensor, permutation, dim)


class RNNBase(Module):
    """Base of RNN, LSTM and GRU: the parameters of all layers and directions, and checks.

    >>> layer = nn.RNNBase("GRU", input_size=2, hidden_size=3)
    >>> layer.weight_ih_l0.shape, isinstance(nn.GRU(2, 3), nn.RNNBase)
    (torch.Size([9, 2]), True)
    """

    __constants__ = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]
    __jit_unused_properties__ = ["all_weights"]

    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        for name, flag in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        check_arguments(self, dropout)
        if mode not in GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        height = GATES[mode] * hidden_size
        width = proj_size if proj_size > 0 else hidden_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse") if bidirectional else ("",):
                below = input_size if layer == 0 else width * (2 if bidirectional else 1)
                shapes: dict[str, Any] = {
                    "weight_ih": (height, below),
                    "weight_hh": (height, width),
                }
                if bias:
                    shapes |= {"bias_ih": height, "bias_hh": height}
                if proj_size > 0:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = []
                for kind, shape in shapes.items():
                    names.append(f"{kind}_l{layer}{suffix}")
                    empty = tg.empty(shape, device=device, dtype=dtype)
                    setattr(self, names[-1], Parameter(empty))
                self._all_weights.append(names)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters by layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        # Looked up anew, as weights can be exchanged: parametrized, pruned, functional_call.
        given = self.__dict__.get("_given_weights")
        return given or [getattr(self, name) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Any]) -> None:
        """Other packages set this list: it is what runs until a weight is set by its name."""
        self.__dict__.pop("_given_weights", None)
        now = self._flat_weights
        if len(weights) != len(now) or any(a is not b for a, b in zip(weights, now, strict=True)):
            self.__dict__["_given_weights"] = weights

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if "_given_weights" in self.__dict__ and name in self._flat_weights_names:
            del self.__dict__["_given_weights"]

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self.__dict__.pop("_given_weights", None)
        return super()._apply(fn, recurse)

    def flatten_parameters(self) -> None:
        """Lets cuDNN find the weights in one piece; here there is nothing to do."""

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        for name, default in defaults.items():
            value = getattr(self, name)
            if value != default:
                parts.append(f"{name}={value}")
        return ", ".join(parts)

    # ------------------------------------------------------------------ checks

    def check_input(self, input: Any, batch_sizes: Any) -> None:
        """Refuse an input of a wrong dtype, rank or width."""
        expected = self._flat_weights[0].dtype
        if input.dtype != expected:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({expected}). "
                f"Convert input: input.to({expected}), or convert model: model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """The shape that hidden states should have."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0) if self.batch_first else input.size(1)
        width = self.proj_size if self.proj_size > 0 else self.hidden_size
        return len(self._all_weights), batch, width

    def check_hidden_size(
        self,
        hx: Any,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Refuse a hidden state of another shape."""
        if tuple(hx.size()) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """Refuse inputs and states that do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """The states in another order of the sequences."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    # ------------------------------------------------------------------ the computation

    def _states(self, input: Any, batch_sizes: Any) -> Any:
        """The states that a sequence begins with if none are given."""
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return tg.zeros(shape, dtype=input.dtype, device=input.device)

    def _run(self, function: Any, input: Any, hx: Any, batch_sizes: Any) -> tuple[Any, ...]:
        how = (
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
        )
        if batch_sizes is None:
            found: tuple[Any, ...] = function(input, hx, *how, self.batch_first)
        else:
            found = function(input, batch_sizes, hx, *how)
        return found

    def _one_state(self, function: Any, name: str, input: Any, hx: Any) -> tuple[Any, Any]:
        """The forward pass of the kinds that carry one state."""
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            if hx is not None:
                hx = self.permute_hidden(hx, order)
            else:
                hx = self._states(data, batch_sizes)
            self.check_forward_args(data, hx, batch_sizes)
            out, last = self._run(function, data, hx, batch_sizes)
            return PackedSequence(out, batch_sizes, order, back), self.permute_hidden(last, back)
        if input.dim() not in (2, 3):
            word = "tensor " if name == "RNN" else ""
            raise ValueError(
                f"{name}: Expected input to be 2D or 3D, got {input.dim()}D {word}instead"
            )
        batched = input.dim() == 3
        place = 0 if self.batch_first else 1
        rank = 3 if batched else 2
        if hx is not None and hx.dim() != rank:
            kind = "batched" if batched else "unbatched"
            raise RuntimeError(
                f"For {kind} {rank}-D input, hx should also be {rank}-D but got {hx.dim()}-D tensor"
            )
        if not batched:
            input = input.unsqueeze(place)
            hx = None if hx is None else hx.unsqueeze(1)
        if hx is None:
            hx = self._states(input, None)
        self.check_forward_args(input, hx, None)
        out, last = self._run(function, input, hx, None)
        if not batched:
            return out.squeeze(place), last.squeeze(1)
        return out, last


def check_arguments(module: RNNBase, dropout: Any) -> None:
    """Refuse sizes that make no sense."""
    if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or dropout is True:  # type: ignore[operator]
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an "
            "element being zeroed"
        )
    if dropout and module.num_layers == 1:
        warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={module.num_layers}",
        )
    for name in ("input_size", "hidden_size"):
        size = getattr(module, name)
        if not isinstance(size, int):
            raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if module.num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if module.proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if module.proj_size >= module.hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


def refuse_projection(given: dict[str, Any]) -> None:
    if "proj_size" in given:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """`h = tanh(W x + b + U h + c)`, step by step; arguments as PyTorch's, `nonlinearity` too.

    Args:
        input_size: features of each step of the input
        hidden_size: features of the hidden state
        num_layers: layers, each fed with the one before
        bias: add learned constants
        batch_first: the batch is dimension 0, not 1
        dropout: probability of dropout between layers, in train mode
        bidirectional: a second pass from the end, its results beside the first's
        nonlinearity: "tanh" or "relu"
        device, dtype: of the parameters

    Shape:
        input (L, N, input_size), (N, L, input_size) with `batch_first`, (L, input_size) without
        a batch -> output (L, N, D * hidden_size), last hidden state (D * num_layers, N,
        hidden_size), where D is 2 if bidirectional, else 1. The state may be given:
        layer(input, h0).

    >>> nn.RNN(3, 4, num_layers=2)
    RNN(3, 4, num_layers=2)
    >>> out, last = nn.RNN(3, 4)(zeros(5, 2, 3))
    >>> out.shape, last.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    nonlinearity: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse_projection(kwargs)
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        function = tg.rnn_tanh if self.mode == "RNN_TANH" else tg.rnn_relu
        return self._one_state(function, "RNN", input, hx)


class GRU(RNNBase):
    """Gated recurrent units.

    Args:
        input_size: features of each step of the input
        hidden_size: features of the hidden state
        num_layers: layers, each fed with the one before
        bias: add learned constants
        batch_first: the batch is dimension 0, not 1
        dropout: probability of dropout between layers, in train mode
        bidirectional: a second pass from the end, its results beside the first's
        device, dtype: of the parameters

    Shape:
        input (L, N, input_size), (N, L, input_size) with `batch_first`, (L, input_size) without
        a batch -> output (L, N, D * hidden_size), last hidden state (D * num_layers, N,
        hidden_size), where D is 2 if bidirectional, else 1. The state may be given:
        layer(input, h0).

    >>> out, last = nn.GRU(3, 4, bidirectional=True)(zeros(5, 2, 3))
    >>> out.shape, last.shape
    (torch.Size([5, 2, 8]), torch.Size([2, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Any = None) -> Any:
        return self._one_state(tg.gru, "GRU", input, hx)


class LSTM(RNNBase):
    """Long short-term memory; with `proj_size`, hidden states go through one more matrix.

    Args:
        input_size: features of each step of the input
        hidden_size: features of the hidden state
        num_layers: layers, each fed with the one before
        bias: add learned constants
        batch_first: the batch is dimension 0, not 1
        dropout: probability of dropout between layers, in train mode
        bidirectional: a second pass from the end, its results beside the first's
        proj_size: size of hidden states after a projection; 0 for none
        device, dtype: of the parameters

    Shape:
        input (L, N, input_size), (N, L, input_size) with `batch_first`, (L, input_size) without
        a batch -> output (L, N, D * hidden_size), (last hidden state, last cell state), each (D
        * num_layers, N, hidden_size), where D is 2 if bidirectional, else 1. The state may be
        given: layer(input, (h0, c0)).

    >>> out, (h, c) = nn.LSTM(3, 4, batch_first=True)(zeros(2, 5, 3))
    >>> out.shape, h.shape, c.shape
    (torch.Size([2, 5, 4]), torch.Size([1, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """The shape that cell states should have."""
        layers, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return layers, batch, self.hidden_size

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """Refuse inputs and states that do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(
            hidden[0],
            self.get_expected_hidden_size(input, batch_sizes),
            "Expected hidden[0] size {}, got {}",
        )
        self.check_hidden_size(
            hidden[1],
            self.get_expected_cell_size(input, batch_sizes),
            "Expected hidden[1] size {}, got {}",
        )

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """Both states in another order of the sequences."""
        if permutation is None:
            return hx
        return tuple(_apply_permutation(state, permutation) for state in hx)

    def _states(self, input: Any, batch_sizes: Any) -> Any:
        cell = self.get_expected_cell_size(input, batch_sizes)
        return super()._states(input, batch_sizes), tg.zeros(
            cell, dtype=input.dtype, device=input.device
        )

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            if hx is None:
                hx = self._states(data, batch_sizes)
            else:
                hx = self.permute_hidden(hx, order)
            out, *last = self._run(tg.lstm, data, hx, batch_sizes)
            packed = PackedSequence(out, batch_sizes, order, back)
            return packed, self.permute_hidden(tuple(last), back)
        if input.dim() not in (2, 3):
            raise ValueError(f"LSTM: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        place = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(place)
        if hx is None:
            hx = self._states(input, None)
        else:
            rank = 3 if batched else 2
            if hx[0].dim() != rank or hx[1].dim() != rank:
                kind = "batched" if batched else "unbatched"
                raise RuntimeError(
                    f"For {kind} {rank}-D input, hx and cx should also be {rank}-D but got "
                    f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
                )
            if not batched:
                hx = (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
        self.check_forward_args(input, hx, None)
        out, *last = self._run(tg.lstm, input, hx, None)
        if not batched:
            return out.squeeze(place), tuple(state.squeeze(1) for state in last)
        return out, tuple(last)


# ---------------------------------------------------------------------- single steps


class RNNCellBase(Module):
    """Base of the recurrent cells: holds their parameters.

    >>> isinstance(nn.LSTMCell(2, 3), nn.RNNCellBase)
    True
    """

    __constants__ = ["input_size", "hidden_size", "bias"]

    input_size: int
    hidden_size: int
    bias: bool

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        height = num_chunks * hidden_size
        for name, shape in {
            "weight_ih": (height, input_size),
            "weight_hh": (height, hidden_size),
        }.items():
            setattr(self, name, Parameter(tg.empty(shape, device=device, dtype=dtype)))
        for name in ("bias_ih", "bias_hh"):
            if bias:
                setattr(self, name, Parameter(tg.empty(height, device=device, dtype=dtype)))
            else:
                self.register_parameter(name, None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        parts = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            parts += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return parts if nonlinearity == "tanh" else f"{parts}, nonlinearity={nonlinearity}"

    def reset_parameters(self) -> None:
        """Draw new values."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)


def check_rank(cell: Any, what: str, x: Any) -> None:
    if x.dim() not in (1, 2):
        raise ValueError(
            f"{type(cell).__name__}: Expected {what} to be 1D or 2D, got {x.dim()}D instead"
        )


def step(cell: Any, function: Any, input: Any, hx: Any) -> Any:
    return function(input, hx, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)


def one_state(cell: Any, function: Any, input: Any, hx: Any) -> Any:
    """A step of the kinds that carry one state."""
    check_rank(cell, "input", input)
    if hx is not None:
        check_rank(cell, "hidden", hx)
    batched = input.dim() == 2
    if not batched:
        input = input.unsqueeze(0)
    if hx is None:
        hx = tg.zeros(input.size(0), cell.hidden_size, dtype=input.dtype, device=input.device)
    elif not batched:
        hx = hx.unsqueeze(0)
    out = step(cell, function, input, hx)
    return out if batched else out.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of an RNN.

    Args:
        input_size: features of the input
        hidden_size: features of the hidden state
        bias: add learned constants
        nonlinearity: "tanh" or "relu"
        device, dtype: of the parameters

    Shape:
        input (N, input_size), h (N, hidden_size), zeros by default -> h after the step.

    >>> nn.RNNCell(3, 4)(zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        functions = {"tanh": tg.rnn_tanh_cell, "relu": tg.rnn_relu_cell}
        if not isinstance(self.nonlinearity, str) or self.nonlinearity not in functions:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return one_state(self, functions[self.nonlinearity], input, hx)


class _GatedCell(RNNCellBase):
    """A cell without options; its weights are those of `_gates` linear layers."""

    _gates: int

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, self._gates, device, dtype)


class LSTMCell(_GatedCell):
    """One step of an LSTM.

    Args:
        input_size: features of the input
        hidden_size: features of the hidden state
        bias: add learned constants
        device, dtype: of the parameters

    Shape:
        input (N, input_size), (h, c) of (N, hidden_size) each, zeros by default -> (h, c) after
        the step.

    >>> h, c = nn.LSTMCell(3, 4)(zeros(2, 3))
    >>> h.shape, c.shape
    (torch.Size([2, 4]), torch.Size([2, 4]))
    """

    _gates = 4

    def forward(self, input: Any, hx: Any = None) -> Any:
        check_rank(self, "input", input)
        if hx is not None:
            for index, state in enumerate(hx):
                check_rank(self, f"hx[{index}]", state)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = tg.zeros(
                input.size(0), self.hidden_size, dtype=input.dtype, device=input.device
            )
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        h, c = step(self, tg.lstm_cell, input, hx)
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(_GatedCell):
    """One step of a GRU.

    Args:
        input_size: features of the input
        hidden_size: features of the hidden state
        bias: add learned constants
        device, dtype: of the parameters

    Shape:
        input (N, input_size), h (N, hidden_size), zeros by default -> h after the step.

    >>> nn.GRUCell(3, 4)(zeros(2, 3)).shape
    torch.Size([2, 4])
    """

    _gates = 3

    def forward(self, input: Any, hx: Any = None) -> Any:
        return one_state(self, tg.gru_cell, input, hx)
