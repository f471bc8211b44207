"""Five steps of training from the same seed: the same losses, rates, weights and states.

training.py makes the scripts. Where one differs it is printed, ready to be run.

Some scripts cannot be compared by anyone: a gradient that is zero but for rounding errors, divided
by its own size, is noise. PyTorch alone decides which: it runs each script again with roundings
moved, and where it does not agree with itself another script is drawn for that seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from training import LOSSES, OPTIMIZERS, script

import tapegrad

SEEDS = range(186)
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
# What optimizers keep is made of gradients, which may be small differences of large sums.
STATE_SCALE = 100
# Muon makes its steps in bfloat16: one rounding is 2**-8 of a step, and the steps turn with it.
MUON_TOLERANCE = 1e-2
# How often PyTorch runs a script again, and how much better it must agree with itself.
RERUNS, MARGIN = 2, 2


def train(library: Any, text: str, **more: Any) -> dict[str, Any]:
    """The names of a script after it has run with a library as `torch`; its warnings and error."""
    names = {"torch": library, "nn": library.nn, "error": None, **more}
    before = library.get_default_dtype()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(text, names)
        except ZeroDivisionError as error:  # what L-BFGS says where the rate has become 0
            names["error"] = str(error)
        finally:
            library.set_default_dtype(before)
    names["caught"] = [(w.category, str(w.message).splitlines()[0]) for w in caught]
    return names


def results(names: dict[str, Any]) -> dict[str, Any]:
    """Everything a script has computed, under flat names."""
    found = {name: names[name] for name in ("losses", "rates", "error")}
    for part in ("model", "optimizer", "scheduler"):
        if names[part] is not None:
            found |= dict(flat(part, names[part].state_dict()))
    return found


def flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from flat(f"{name}.{key}", part)
    elif isinstance(value, (list, tuple)) and not all(isinstance(v, (int, float)) for v in value):
        for index, part in enumerate(value):
            yield from flat(f"{name}.{index}", part)
    else:
        yield name, value


def difference(ours: Any, theirs: Any) -> float:
    """The largest difference of two values, relative to the largest number in them."""
    if not isinstance(theirs, (torch.Tensor, float, int, list, tuple)):
        return 0.0 if ours == theirs else float("inf")
    assert kind(ours) == kind(theirs)
    a, b = (torch.as_tensor(numbers(v), dtype=torch.float64) for v in (ours, theirs))
    assert a.shape == b.shape
    same = (a == b) | (a.isnan() & b.isnan())
    if same.all():
        return 0.0
    if not (a[~same].isfinite() & b[~same].isfinite()).all():
        return float("inf")
    return ((a - b)[~same].abs().max() / b[b.isfinite()].abs().max()).item()


def kind(value: Any) -> str:
    return str(value.dtype) if hasattr(value, "dtype") else type(value).__name__


def numbers(value: Any) -> Any:
    return value.detach().numpy() if hasattr(value, "detach") else value


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, float]:
    assert list(ours) == list(theirs)
    off = {name: difference(ours[name], theirs[name]) for name in theirs}
    return {n: d / STATE_SCALE if n.startswith("optimizer") else d for n, d in off.items()}


def shaken(text: str, seed: int) -> dict[str, Any]:
    """A script on PyTorch with roundings moved: of weights, of what layers give, of gradients."""
    generator = torch.Generator().manual_seed(seed)

    def noise(t: torch.Tensor) -> torch.Tensor:
        sides = torch.rand(t.shape, generator=generator, dtype=t.dtype) * 2 - 1
        return torch.finfo(t.dtype).eps * sides

    def shake(model: torch.nn.Module) -> None:
        for p in model.parameters():
            p.data.mul_(1 + noise(p))
            p.register_post_accumulate_grad_hook(shake_gradient)
        for module in model.modules():
            module.register_forward_hook(shake_output)

    def shake_gradient(p: torch.Tensor) -> None:
        p.grad.add_(noise(p) * p.grad.abs().max(), alpha=4)

    def shake_output(module: torch.nn.Module, args: Any, out: Any) -> Any:
        return out * (1 + noise(out)) if isinstance(out, torch.Tensor) else out

    return train(torch, text.replace("\nn = ", "\nshake(model)\nn = "), shake=shake)


def tolerance_of(text: str) -> float:
    if "torch.optim.Muon" in text:
        return MUON_TOLERANCE
    return TOLERANCE["float64" if "torch.float64" in text else "float32"]


def steady_script(seed: int) -> tuple[str, dict[str, Any]]:
    """The first variation of a script on which PyTorch agrees with itself, and what it makes."""
    for variation in range(60):
        text = script(seed, variation)
        theirs = train(torch, text)
        found = results(theirs)
        again = [results(shaken(text, i)) for i in range(RERUNS)]
        if all(agree(moved, found, tolerance_of(text) / MARGIN) for moved in again):
            return text, theirs
    raise AssertionError(f"no variation of script {seed} can be compared:\n{text}")


def agree(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> bool:
    same_names = list(ours) == list(theirs)
    return same_names and max(differences(ours, theirs).values()) <= tolerance


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("seed", SEEDS)
def test_training(seed):
    text, theirs = steady_script(seed)
    ours = train(tapegrad, text)
    off = differences(results(ours), results(theirs))
    worst = max(off, key=off.get)
    assert off[worst] <= tolerance_of(text), f"{worst} differs by {off[worst]:.1e} in\n{text}"
    assert ours["rates"] == theirs["rates"], text
    assert ours["caught"] == theirs["caught"], text


def test_every_loss_and_optimizer_is_used():
    texts = [script(seed) for seed in SEEDS]
    for loss, *_ in LOSSES:
        assert any(loss in text for text in texts)
    for optimizer in OPTIMIZERS:
        name, _, options = optimizer.partition("(params")
        assert any(f"torch.optim.{name}" in text and options in text for text in texts)
