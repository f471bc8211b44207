"""Anomaly mode: what it stops at, what it keeps, what it costs. What it says: test_errors.py."""

from __future__ import annotations

import gc
import linecache
import time
import warnings
import weakref
from typing import Any

import pytest

import tapegrad
from tapegrad.autograd import anomaly_mode
from tapegrad.autograd.anomaly_mode import is_finite
from tapegrad.core import modes

pytestmark = pytest.mark.filterwarnings("ignore:Error detected in:UserWarning")


def infinite_slope() -> Any:
    """sqrt at 0: the gradient is infinite, and stays so."""
    x = tapegrad.tensor([0.0, 4.0], requires_grad=True)
    return x, x.sqrt().sum()


def test_infinities_pass_by_default() -> None:
    with tapegrad.autograd.set_detect_anomaly(True):
        x, loss = infinite_slope()
        loss.backward()
    assert x.grad.tolist() == [float("inf"), 0.25]


def test_check_inf_stops_at_infinities() -> None:
    with tapegrad.autograd.set_detect_anomaly(True, check_inf=True):
        _, loss = infinite_slope()
        with pytest.raises(RuntimeError) as caught:
            loss.backward()
    first = str(caught.value).splitlines()[0]
    assert first == "Function 'SqrtBackward0' returned inf values in its 0th output."
    assert caught.value.diagnosis["pattern"] == "sqrt(0)"  # type: ignore[attr-defined]
    assert caught.value.diagnosis["kind"] == "inf"  # type: ignore[attr-defined]


def test_detect_anomaly_takes_check_inf_and_restores() -> None:
    before = modes.anomaly_switches()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tapegrad.autograd.detect_anomaly(check_nan=False, check_inf=True):
            assert modes.anomaly_switches() == (True, False, True)
    assert modes.anomaly_switches() == before


def test_the_warning_shows_the_forward_line() -> None:
    with tapegrad.autograd.set_detect_anomaly(True):
        x = tapegrad.tensor([0.0], requires_grad=True)
        y = x.sqrt() * 0  # the forward line
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(RuntimeError):
                y.sum().backward()
    text = str(caught[0].message)
    assert "Traceback of forward call that caused the error:" in text
    assert "    y = x.sqrt() * 0  # the forward line\n" in text


def test_no_file_is_read_while_all_is_well(monkeypatch: Any) -> None:
    x = tapegrad.ones(3, requires_grad=True)
    with tapegrad.autograd.set_detect_anomaly(True):
        (x.exp() * 2).sum().backward()

        def refuse(*args: Any) -> Any:
            raise AssertionError("a source line was read")

        monkeypatch.setattr(linecache, "getline", refuse)
        (x.exp() * 2).sum().backward()


def test_nothing_is_kept_alive() -> None:
    """Births remember facts, not arrays, graphs or modules."""
    with tapegrad.autograd.set_detect_anomaly(True):
        module: Any = tapegrad.nn.Softplus()
        module.forward = lambda x: x.log()
        x = tapegrad.zeros(3, requires_grad=True)
        y = module(x)
    births = anomaly_mode.WATCH.births
    assert births[-1][1]["op"] == "log" and births[-1][0]() is y._array
    gone = weakref.ref(y), weakref.ref(module), weakref.ref(x)
    del x, y, module
    gc.collect()
    assert [reference() for reference in gone] == [None, None, None]
    assert births[-1][0]() is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_is_finite(dtype: str) -> None:
    kind = getattr(tapegrad, dtype)
    largest = float(tapegrad.finfo(kind).max)
    assert is_finite(tapegrad.tensor([largest, -largest, 0.0], dtype=kind)._array)
    assert is_finite(tapegrad.zeros(0, dtype=kind)._array)
    for bad in (float("nan"), float("inf"), -float("inf")):
        values = tapegrad.tensor([[1.0, bad], [2.0, 3.0]], dtype=kind)
        assert not is_finite(values._array)
        assert not is_finite(values.t()._array) and is_finite(values[1]._array)
    assert is_finite(tapegrad.tensor([1, 2])._array)


@pytest.mark.slow
def test_cost_of_a_healthy_step() -> None:
    """At most 1.5 times a step of a small network; interleaved, the best of many."""
    nn = tapegrad.nn
    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)]
    net = nn.Sequential(*layers)
    optimizer = tapegrad.optim.SGD(net.parameters(), lr=1e-3)
    x, labels = tapegrad.randn(64, 64), tapegrad.randint(0, 10, (64,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), labels).backward()
        optimizer.step()

    threads = tapegrad.get_num_threads()
    tapegrad.set_num_threads(1)
    gc.collect()
    gc.freeze()  # what other tests have left behind is not part of the step
    best = {False: 9.0, True: 9.0}
    for _ in range(500):
        for mode in best:
            with tapegrad.autograd.set_detect_anomaly(mode):
                start = time.perf_counter()
                step()
                best[mode] = min(best[mode], time.perf_counter() - start)
    gc.unfreeze()
    tapegrad.set_num_threads(threads)
    assert best[True] <= 1.5 * best[False]
