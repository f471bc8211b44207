"""Sequences of several lengths in one batch: padded, or packed without the padding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tapegrad as tg

from ...core.dispatch import apply
from ...errors import no_tensor_in_list
from ...ops.nn.packing import PackPaddedSequence

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpad_sequence",
    "pack_sequence",
    "unpack_sequence",
]


class PackedSequence_(NamedTuple):  # noqa: N801  # PyTorch's name
    """The fields of a PackedSequence."""

    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(PackedSequence_):
    """The steps of all sequences, one time after the other, and how many there are at each.

    >>> packed = nn.utils.rnn.pack_sequence([tensor([1, 2, 3]), tensor([4, 5])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Any = None,
        sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            # The old form: both in one list.
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence "
                "and pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Another dtype or device, as `Tensor.to`; the sizes stay where they are."""
        if "copy" in kwargs:
            raise RuntimeError(".to() does not accept copy argument")
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        order, back = (
            None if index is None else index.to(data.device)
            for index in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(data, self.batch_sizes, order, back)

    def cuda(self, device: Any = "cuda", non_blocking: bool = False) -> PackedSequence:
        """On the GPU."""
        return self.to(device=device, non_blocking=non_blocking)

    def cpu(self) -> PackedSequence:
        """On the CPU."""
        return self.to(device="cpu")

    def double(self) -> PackedSequence:
        """With float64 data."""
        return self.to(dtype=tg.double)

    def float(self) -> PackedSequence:
        """With float32 data."""
        return self.to(dtype=tg.float)

    def half(self) -> PackedSequence:
        """With float16 data."""
        return self.to(dtype=tg.half)

    def long(self) -> PackedSequence:
        """With int64 data."""
        return self.to(dtype=tg.long)

    def int(self) -> PackedSequence:
        """With int32 data."""
        return self.to(dtype=tg.int)

    def short(self) -> PackedSequence:
        """With int16 data."""
        return self.to(dtype=tg.short)

    def char(self) -> PackedSequence:
        """With int8 data."""
        return self.to(dtype=tg.int8)

    def byte(self) -> PackedSequence:
        """With uint8 data."""
        return self.to(dtype=tg.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        on_gpu: bool = self.data.is_cuda
        return on_gpu

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        pinned: bool = self.data.is_pinned()
        return pinned


def invert_permutation(permutation: Any) -> Any:
    """The permutation that undoes another.

    >>> nn.utils.rnn.invert_permutation(tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    output = tg.empty_like(permutation)
    output.scatter_(0, permutation, tg.arange(permutation.numel(), device=permutation.device))
    return output


# ---------------------------------------------------------------------- packing


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch; the lengths have to be in descending order, or are sorted here.

    >>> nn.utils.rnn.pack_padded_sequence(tensor([[1, 3], [2, 0]]), [2, 1]).data
    tensor([1, 3, 2])
    """
    if not isinstance(lengths, tg.Tensor):
        lengths = tg.as_tensor(lengths, dtype=tg.int64, device="cpu")
    else:
        lengths = lengths.to(dtype=tg.int64)
    if enforce_sorted:
        order = None
    else:
        lengths, order = tg.sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    data, batch_sizes = _pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, order, None)


def _pack_padded_sequence(input: Any, lengths: Any, batch_first: bool) -> tuple[Any, Any]:
    input = input.transpose(0, 1) if batch_first else input
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if lengths.dim() != 1:
        raise RuntimeError(
            "'lengths' argument should be a 1D CPU int64 tensor, but got "
            f"{lengths.dim()}D {lengths.device} Long tensor"
        )
    batch = input.size(1)
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
            f"(batch_size={batch})"
        )
    steps = tuple(lengths.tolist())
    if steps[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if any([later > earlier for earlier, later in zip(steps, steps[1:], strict=False)]):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    sizes = (lengths > tg.arange(steps[0]).unsqueeze(1)).sum(1)
    return apply(PackPaddedSequence, (input,), (steps,)), sizes


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Any]:
    """A padded batch and the lengths, from packed sequences.

    >>> packed = nn.utils.rnn.pack_sequence([tensor([1, 2, 3]), tensor([4, 5])])
    >>> nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2, 3],
            [4, 5, 0]]), tensor([3, 2]))
    """
    sizes = sequence.batch_sizes.tolist()
    longest = len(sizes)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being "
                f"{longest}"
            )
        longest = total_length
    data = sequence.data
    batch, tail = sizes[0], tuple(data.shape[1:])
    padded = data.new_empty((longest, batch, *tail)).fill_(padding_value)
    start = time = 0
    while time < len(sizes):
        count = sizes[time]
        end = time
        while end < len(sizes) and sizes[end] == count:
            end += 1
        rows = data[start : start + (end - time) * count]
        padded[time:end, :count] = rows.view(end - time, count, *tail)
        start += (end - time) * count
        time = end
    lengths = (sequence.batch_sizes > tg.arange(batch).unsqueeze(1)).sum(1)
    if batch_first:
        padded = padded.transpose(0, 1)
    back = sequence.unsorted_indices
    if back is not None:
        return padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]
    return padded, lengths


def pack_sequence(sequences: Iterable[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Pack tensors of several lengths.

    >>> nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])]).data
    tensor([1, 3, 2])
    """
    sequences = list(sequences)
    lengths = tg.as_tensor([v.size(0) for v in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The tensors that `pack_sequence` was given.

    >>> packed = nn.utils.rnn.pack_sequence([tensor([1, 2]), tensor([3])])
    >>> nn.utils.rnn.unpack_sequence(packed)
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


# ---------------------------------------------------------------------- padding


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:
    """Tensors of several lengths as one, filled up at the end or in front.

    >>> nn.utils.rnn.pad_sequence([tensor([1, 2]), tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if isinstance(sequences, tg.Tensor):
        sequences = sequences.unbind(0)
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    sequences = tuple(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    for index, sequence in enumerate(sequences):
        if not isinstance(sequence, tg.Tensor):
            raise no_tensor_in_list(index, 0, sequence)
    first = sequences[0]
    if first.dim() == 0:
        raise RuntimeError("ArrayRef: invalid slice, N = 1; size = 0")
    longest = max([s.size(0) for s in sequences])
    dims = (len(sequences), longest) if batch_first else (longest, len(sequences))
    padded = tg.empty((*dims, *first.shape[1:]), dtype=first.dtype).fill_(padding_value)
    for i, sequence in enumerate(sequences):
        start = longest - sequence.size(0) if padding_side == "left" else 0
        row = padded.select(0 if batch_first else 1, i)
        row.narrow(0, start, sequence.size(0)).copy_(sequence)
    return padded


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The tensors that `pad_sequence` was given.

    >>> nn.utils.rnn.unpad_sequence(tensor([[1, 3], [2, 0]]), tensor([2, 1]))
    [tensor([1, 2]), tensor([3])]
    """
    if not batch_first:
        padded_sequences.transpose_(0, 1)  # in place, as PyTorch: callers see it
    steps = tg.arange(padded_sequences.shape[1], device=lengths.device)
    return [
        sequence[steps < length]
        for sequence, length in zip(padded_sequences, lengths, strict=False)
    ]


def bind(optional: Any, fn: Callable[[Any], Any]) -> Any:
    """`fn` of something, if there is something."""
    return None if optional is None else fn(optional)
