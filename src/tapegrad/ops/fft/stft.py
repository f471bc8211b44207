"""The short-time Fourier transform: spectra of overlapping windows of a signal; and back."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ... import dtypes
from ...core.array_kind import refuse_meta
from ...core.base import TensorBase
from ...core.devices import on_device_of, to_host
from ...core.op import REGISTRY
from ...core.transforms.batched import physical_array
from ...core.warned import warn, warn_once
from ...errors import must_be_tensor
from ..block import SINGLE, Autocast, Case, api, apply, looks_at_values
from ..block.checks import invalid_call
from ..block.samples import Draw, Index
from ..nn.pad import constant_pad_nd
from ..nn.pad import pad as pad_signal
from .one_dim import BY_COUNT, BY_ROOT, NONE, FftC2C, FftC2R, FftR2C

NO_WINDOW = "A window was not provided. A rectangular window will be applied"
LEAKAGE = (
    ",which is known to cause spectral leakage. Other windows such as torch.hann_window or "
    "torch.hamming_window are recommended to reduce spectral leakage."
)
LOSS = ".Please provide the same window used by stft to make the inversion lossless."
SUPPRESS = (
    "To suppress this warning and use a rectangular window, explicitly set "
    "`window=torch.ones(n_fft, device=<device>)`."
)
OLD_FORMAT = (
    "stft with return_complex=False is deprecated. In a future pytorch release, stft will return "
    "complex tensors for all inputs, and return_complex=False will raise an error.\nNote: you can "
    "still call torch.view_as_real on the complex output to recover the old return format."
)
NOT_SAID = (
    "stft requires the return_complex parameter be given for real inputs, and will further require "
    "that return_complex=True in a future PyTorch release."
)
TOO_SHORT = (
    "The length of signal is shorter than the length parameter. Result is being padded with zeros "
    "in the tail. Please check your center and hop_length settings."
)
ONE_SIDED = "Cannot have onesided output if window or input is complex"


def tensor_type_name(t: Any) -> str:
    """A tensor's type as PyTorch's older sentences name it."""
    dtype = dtypes.of(t._array.dtype)
    if dtype.is_complex:
        return f"CPU{dtype.scalar_type}Type"
    return f"torch.{dtype.scalar_type}Tensor"


def argument_text(value: Any) -> str:
    """An argument in those sentences: bools are numbers, a window is its type and size."""
    if isinstance(value, TensorBase):
        return f"{tensor_type_name(value)}{{{list(value._array.shape)}}}"
    return str(int(value)) if isinstance(value, bool) else str(value)


def complaint(function: str, input: Any, said: str, **arguments: Any) -> RuntimeError:
    shown = ", ".join([f"{name}={argument_text(value)}" for name, value in arguments.items()])
    head = f"{function}({tensor_type_name(input)}{list(input._array.shape)}, {shown})"
    return RuntimeError(f"{head} {said}")


def is_count(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def is_complex(t: Any) -> bool:
    return t is not None and t._array.dtype.kind == "c"


STFT_CASES = [
    Case(Draw(10), 4, window=Draw(4, low=0.5, high=1.5), return_complex=True),
    Case(Draw(2, 9), 4, 2, 3, Draw(3, low=0.5, high=1.5), center=False, return_complex=True),
    Case(Draw(9), 4, win_length=2, normalized=True, onesided=False, return_complex=True),
    Case(Draw(9), 4, pad_mode="constant", return_complex=False),
]


@api(samples=STFT_CASES, autocast=Autocast(cpu=SINGLE), python=True)
def stft(
    input: Any,
    n_fft: Any,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: Any = None,
    return_complex: Any = None,
    align_to_window: Any = None,
) -> Any:
    """stft(input, n_fft, hop_length=None, win_length=None, window=None, …) -> Tensor: the spectrum
    of each piece of a signal.

    The Fourier transforms of pieces of `n_fft` samples that start `hop_length` apart: frequency
    by time. With `center`, the first piece is centred on the first sample.

    >>> x = tensor([1.0, 2.0, 3.0, 4.0])
    >>> stft(x, 2, 2, window=ones(2), center=False, return_complex=True)
    tensor([[ 3.+0.j,  7.+0.j],
            [-1.+0.j, -1.+0.j]])
    """
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if center:
        input = centred(input, int(n_fft // 2), pad_mode)
    options = (normalized, onesided, return_complex, align_to_window)
    counts = (n_fft, hop_length, win_length)
    if not isinstance(input, TensorBase):
        raise must_be_tensor("stft", "input", 1, input)
    fits = all([c is None or is_count(c) for c in counts]) and is_count(n_fft)
    if not fits or not (window is None or isinstance(window, TensorBase)):
        raise invalid_call("stft", input, *counts, window, *options)
    return spectra(input, *counts, window, *options)


def centred(input: Any, pad: int, mode: str) -> Any:
    """The signal with `pad` more samples at both ends."""
    signal_dim = input.dim()
    shape = (*(1,) * (3 - signal_dim), *input.shape)
    wide = pad_signal(input.view(shape), [pad, pad], mode)
    return wide.view(wide.shape[-signal_dim:] if signal_dim else wide.shape)


def spectra(
    input: Any,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Any,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align_to_window: bool | None,
) -> Any:
    """`stft` of a signal that needs no more samples at its ends."""
    if window is None:
        warn_once(NO_WINDOW + LEAKAGE + SUPPRESS)
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    as_complex = is_complex(input) or is_complex(window)
    if return_complex is not None:
        as_complex = return_complex
    if not as_complex:
        if return_complex is None:
            raise RuntimeError(NOT_SAID)
        warn_once(OLD_FORMAT)

    def wrong(said: str) -> RuntimeError:
        return complaint(
            "stft",
            input,
            f": expected {said}",
            n_fft=n_fft,
            hop_length=hop,
            win_length=length,
            window=window,
            normalized=bool(normalized),
            onesided=onesided,
            return_complex=return_complex,
            align_to_window=align_to_window,
        )

    if input._array.dtype.kind not in "fVc":
        raise wrong("a tensor of floating point or complex values")
    ndim = input._array.ndim
    if ndim not in (1, 2):
        raise wrong("a 1D or 2D tensor")
    signal = input.unsqueeze(0) if ndim == 1 else input
    batch, samples = signal._array.shape
    if not 0 < n_fft <= samples:
        raise wrong(f"0 < n_fft < {samples}, but got n_fft={length}")
    if hop <= 0:
        raise wrong(f"hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise wrong(f"0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and window._array.shape != (length,):
        raise wrong(
            f"a 1D window tensor of size equal to win_length={length}, but got window with size "
            f"{list(window._array.shape)}"
        )
    if length < n_fft:
        window = padded_window(window, length, n_fft, input)
    frames = 1 + (samples - (length if align_to_window else n_fft)) // hop
    if align_to_window:
        margin = (n_fft - length) // 2
        signal = constant_pad_nd(signal, [margin, margin])
    along, step = signal.stride()
    pieces = signal.as_strided((batch, frames, n_fft), (along, hop * step, step))
    if window is not None:
        pieces = pieces.mul(window)
    out = transformed(pieces, BY_ROOT if normalized else NONE, onesided)
    out = out.transpose_(1, 2)
    if ndim == 1:
        out = out.squeeze_(0)
    return out if as_complex else apply(REGISTRY["view_as_real"], (out,))


def transformed(pieces: Any, normalization: int, onesided: bool | None) -> Any:
    """The spectrum of each piece of a signal."""
    dtype = dtypes.of(pieces._array.dtype)
    if dtype.itemsize == 2:
        raise RuntimeError(f"MKL FFT doesn't support tensors of type: {dtype.scalar_type}")
    if not dtype.is_complex:
        half = True if onesided is None else bool(onesided)
        return apply(FftR2C, (pieces,), ((2,), normalization, half))
    if onesided:
        raise RuntimeError(ONE_SIDED)
    return apply(FftC2C, (pieces,), ((2,), normalization, True))


def padded_window(window: Any, length: int, n_fft: int, input: Any) -> Any:
    """A window with zeros around it; without one, ones in the middle."""
    left = (n_fft - length) // 2
    if window is None:
        array = np.zeros(n_fft, input._array.dtype)
        array[left : left + length] = 1
        return on_device_of(input, array)
    wide = window.new_zeros(n_fft)
    wide.narrow(0, left, length).copy_(window)
    return wide


ISTFT_CASES = [
    Case(Index(np.arange(15).reshape(3, 5) * (0.3 + 0.2j) - 1), 4, window=Draw(4, low=0.5)),
    Case(
        Index(np.arange(24).reshape(2, 3, 4) * (0.3 - 0.1j)),
        4,
        2,
        3,
        Draw(3, low=0.5),
        normalized=True,
        length=5,
    ),
    Case(
        Index(np.arange(12).reshape(4, 3) * (0.3 - 0.1j)),
        4,
        window=Draw(4, low=0.5),
        center=False,
        return_complex=True,
    ),
]


@looks_at_values
def is_nearly_zero(least: Any) -> bool:
    return bool(to_host(physical_array(least)).min(initial=1) < 1e-11)


@api(samples=ISTFT_CASES)
def istft(
    input: Any,
    n_fft: Any,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: Any = None,
    length: Any = None,
    return_complex: bool = False,
) -> Any:
    """istft(input, n_fft, hop_length=None, win_length=None, window=None, …) -> Tensor: the signal
    that `stft` was taken of.

    The pieces are added up where they overlap, and divided by the sum of the squared windows.

    >>> x = tensor([1.0, 2.0, 3.0, 4.0])
    >>> spectrum = stft(x, 2, 2, window=ones(2), center=False, return_complex=True)
    >>> istft(spectrum, 2, 2, window=ones(2), center=False)
    tensor([1., 2., 3., 4.])
    """
    if not isinstance(input, TensorBase):
        raise must_be_tensor("istft", "input", 1, input)
    for place, (name, value) in enumerate(
        {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length}.items(), 2
    ):
        if not (is_count(value) or (value is None and name != "n_fft")):
            raise TypeError(
                f"istft(): argument '{name}' (position {place}) must be int, "
                f"not {type(value).__name__}"
            )
    if window is not None and not isinstance(window, TensorBase):
        raise must_be_tensor("istft", "window", 5, window)
    if window is None:
        warn_once(NO_WINDOW + LOSS + SUPPRESS)
    if not is_complex(input):
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    n_fft = operator.index(n_fft)
    hop = n_fft // 4 if hop_length is None else operator.index(hop_length)
    size = n_fft if win_length is None else operator.index(win_length)
    shown = {
        "n_fft": n_fft,
        "hop_length": hop,
        "win_length": size,
        "window": window,
        "center": bool(center),
        "normalized": bool(normalized),
        "onesided": onesided,
        "length": length,
        "return_complex": bool(return_complex),
    }
    half = check_inverse(input, n_fft, hop, size, window, onesided, shown)
    if window is None:
        window = on_device_of(input, np.ones(size, dtypes.of(input._array.dtype).to_real().np))
    left = (n_fft - size) // 2
    if size != n_fft:
        window = constant_pad_nd(window, [left, n_fft - size - left])
    frames = input._array.shape[-1]
    pieces = inverse_pieces(input, n_fft, normalized, half, return_complex, shown["window"])
    total = n_fft + hop * (frames - 1)
    y = overlapped(pieces * window.view(1, 1, n_fft), total, n_fft, hop)
    envelope = overlapped(window.pow(2).expand(1, frames, n_fft), total, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = total if length is None else start + length
    if length is None and center:
        end = total - n_fft // 2
    y, envelope = y[:, start:end], envelope[:, start:end]
    refuse_meta("equal", envelope)
    if is_nearly_zero(envelope.abs().min()):
        raise complaint("istft", input, "window overlap add min: 1", **shown)
    y = y / envelope
    if input._array.ndim == 2:
        y = y.squeeze(0)
    if end > total:
        warn(TOO_SHORT, UserWarning)
        y = constant_pad_nd(y, [0, end - total])
    return y


def check_inverse(
    input: Any, n_fft: int, hop: int, size: int, window: Any, onesided: Any, shown: Any
) -> bool:
    """Whether the spectra are one-sided; raises for arguments that do not fit each other."""

    def wrong(said: str) -> RuntimeError:
        return complaint("istft", input, f": {said}", **shown)

    shape = input._array.shape
    if len(shape) < 2:
        # The spectra are looked at as pairs of real numbers.
        low, high = -len(shape) - 1, len(shape)
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{low}, {high}], but got -3)"
        )
    if not input._array.size:
        raise wrong("input tensor cannot be empty.")
    if len(shape) > 3:
        raise wrong(f"expected a tensor with 3 or 4 dimensions, but got {len(shape) + 1}")
    bins = shape[-2]
    half = bins != n_fft if onesided is None else bool(onesided)
    axis = "expected the frequency dimension (3rd to the last) of the input tensor to match"
    if half and bins != n_fft // 2 + 1:
        raise wrong(f"{axis} n_fft / 2 + 1 when onesided=True, but got {bins}")
    if not half and bins != n_fft:
        raise wrong(f"{axis} n_fft when onesided=False, but got {bins}")
    if not 0 < hop <= size:
        raise wrong("expected 0 < hop_length <= win_length")
    if not 0 < size <= n_fft:
        raise wrong("expected 0 < win_length <= n_fft")
    if window is not None and window._array.shape != (size,):
        raise wrong("Invalid window shape. window has to be 1D and length of `win_length`")
    return half


def inverse_pieces(
    input: Any, n_fft: int, normalized: bool, half: bool, as_complex: bool, window: Any
) -> Any:
    """The pieces of the signal from their spectra: (batch, frames, n_fft)."""
    parts = apply(REGISTRY["view_as_real"], (input.resolve_conj(),))
    if input._array.ndim == 2:
        parts = parts.unsqueeze(0)
    spectrum = apply(REGISTRY["view_as_complex"], (parts.transpose(1, 2),))
    normalization = BY_ROOT if normalized else BY_COUNT
    if as_complex:
        if half:
            raise RuntimeError(ONE_SIDED)
        return apply(FftC2C, (spectrum,), ((2,), normalization, False))
    if is_complex(window):
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    if not half:
        spectrum = spectrum[..., : n_fft // 2 + 1]
    return apply(FftC2R, (spectrum,), ((2,), normalization, n_fft))


def overlapped(pieces: Any, total: int, size: int, step: int) -> Any:
    """Pieces added up at the places where they were cut out."""
    shape = (pieces._array.shape[0], total)
    return apply(REGISTRY["unfold_backward"], (pieces,), (shape, 1, size, step))
