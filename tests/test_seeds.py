"""Every snippet of the seeds, as `import tapegrad as torch` and through `python -m tapegrad run`.

The scripts in tests/seeds are the snippets as they stand, completed where one leaves names open.
Beside each lies what PyTorch 2.13 prints for it, from `python script.py > script.expected`.
Two are written by hand: PyTorch has dropped `retain_variables`, and the other needs a GPU.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import warnings
from typing import Any

import pytest

import tapegrad
from tapegrad.compat import alias

SEEDS = pathlib.Path(__file__).parent / "seeds"
SCRIPTS = sorted(p.stem for p in SEEDS.glob("*.py"))

SECOND_TIME = "Trying to backward through the graph a second time"
NO_GRAD_FN = "element 0 of tensors does not require grad and does not have a grad_fn"
MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation"
)
# The snippets that end in an error, as their text says.
RAISES = {
    "s001_6_second_backward": SECOND_TIME,
    "s002_3_backward_raises": NO_GRAD_FN,
    "s003_4_anomaly": MODIFIED + ": [torch.FloatTensor [1]], which is output 0 of Exp",
    "s003_5_step_between_backwards": MODIFIED + ": [torch.FloatTensor [2]] is at version 1",
    "s004_03_without_requires_grad": NO_GRAD_FN,
    "s004_04_needs_a_scalar": "grad can be implicitly created only for scalar outputs",
}
VOLATILE = "volatile was removed and now has no effect. Use `with torch.no_grad():` instead."


def scripts() -> list[Any]:
    gpu = pytest.mark.skipif(not tapegrad.cuda.is_available(), reason="needs a GPU")
    return [pytest.param(n, marks=gpu) if n.endswith("_cuda") else n for n in SCRIPTS]


def expected(name: str) -> str:
    return (SEEDS / f"{name}.expected").read_text(encoding="utf-8")


def execute(name: str) -> tuple[dict[str, Any], str, BaseException | None]:
    """Run a script in this process with `torch` answered by tapegrad: names, output, error."""
    path = SEEDS / f"{name}.py"
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    printed, error = io.StringIO(), None
    alias.install()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(code, names)
    except Exception as caught:
        error = caught
    finally:
        alias.uninstall()
    return names, printed.getvalue(), error


def launch(name: str) -> subprocess.CompletedProcess[str]:
    """Run a script unmodified through the command line."""
    return subprocess.run(
        [sys.executable, "-m", "tapegrad", "run", str(SEEDS / f"{name}.py")],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", scripts())
def test_as_an_import(name: str) -> None:
    _, printed, error = execute(name)
    if name in RAISES:
        assert isinstance(error, RuntimeError)
        assert str(error).startswith(RAISES[name])
    elif error is not None:
        raise error
    assert printed == expected(name)


@pytest.mark.parametrize("name", scripts())
def test_unmodified_through_the_command(name: str) -> None:
    done = launch(name)
    assert done.stdout == expected(name), done.stderr
    if name in RAISES:
        assert done.returncode == 1
        assert f"RuntimeError: {RAISES[name]}" in done.stderr
    else:
        assert done.returncode == 0, done.stderr


def test_every_script_has_an_expectation() -> None:
    assert {p.stem for p in SEEDS.glob("*.expected")} == set(SCRIPTS)


def test_the_alias_is_taken_away_again() -> None:
    before = sys.modules.get("torch")
    names, _, _ = execute("s000_1_fresh_grad")
    assert names["torch"].Tensor is tapegrad.Tensor
    assert sys.modules.get("torch") is before


# What the seeds' text says, beyond what the scripts print.


@pytest.mark.parametrize("name", ["s000_1_fresh_grad", "s001_1_fresh_grad"])
def test_a_fresh_gradient_is_none(name: str) -> None:
    names, _, _ = execute(name)
    assert names["w1"].grad is None
    assert names["w2"].grad is None
    assert names["w1"].requires_grad
    assert names["w1"].is_leaf
    assert isinstance(names["w1"], names["Variable"])


def test_the_second_backward_doubles_the_gradient() -> None:
    once = execute("s000_2_mean_backward")[0]["w1"].grad
    twice = execute("s000_3_accumulates")[0]["w1"].grad
    assert tapegrad.equal(twice, once + once)


def test_the_gradient_has_the_shape_of_the_data_and_is_a_tensor() -> None:
    w1 = execute("s000_2_mean_backward")[0]["w1"]
    assert type(w1.grad) is tapegrad.Tensor
    assert w1.grad.shape == w1.data.shape
    assert not w1.grad.requires_grad


def test_the_update_through_data_leaves_no_history() -> None:
    w1 = execute("s000_5_update_data")[0]["w1"]
    assert w1.is_leaf
    assert w1.grad_fn is None
    assert w1._version == 0


def test_optim_only_updates() -> None:
    names, _, _ = execute("s000_6_optim_loop")
    assert all(p.grad is not None for p in names["net"].parameters())
    before = [p.grad.tolist() for p in names["net"].parameters()]
    names["optimizer"].step()
    assert [p.grad.tolist() for p in names["net"].parameters()] == before


def test_gradient_argument_weights_the_rows() -> None:
    names, _, _ = execute("s001_5_gradient_argument")
    w1, w2, grads = names["w1"], names["w2"], names["grads"]
    assert tapegrad.allclose(w1.grad, grads * (w2.detach() + 1))
    assert tapegrad.allclose(w2.grad, grads * w1.detach())


def test_second_backward_error_names_the_first() -> None:
    names, _, error = execute("s001_6_second_backward")
    assert "retain_graph=True" in str(error).splitlines()[0]
    first = names["w1"].grad.tolist()
    assert first == pytest.approx([2 / 3, 1.0, 4 / 3])
    assert error.diagnosis["id"] == "E02"


def test_retain_variables_is_retain_graph() -> None:
    old = execute("s001_7_retain_variables")[0]
    new = execute("s001_8_retain_graph")[0]
    assert tapegrad.equal(old["w1"].grad, new["w1"].grad)
    assert tapegrad.equal(old["w2"].grad, new["w2"].grad)


def test_unused_rows_get_zero() -> None:
    w1 = execute("s001_9_part_of_a_variable")[0]["w1"]
    assert w1.grad[0].tolist() == [0.0, 0.0, 0.0]
    assert w1.grad[1].tolist() == pytest.approx([1 / 3] * 3)


def test_no_gradient_without_requires_grad() -> None:
    names, _, _ = execute("s002_1_no_grad_for_x")
    assert names["x"].grad is None
    assert names["x"].grad_fn is None
    assert names["temp"].grad is not None
    assert names["y"].grad_fn is not None


def test_nothing_to_differentiate() -> None:
    names, _, error = execute("s002_3_backward_raises")
    assert names["y"].grad_fn is None
    assert names["x"].grad is None
    assert error.diagnosis["id"] == "E03"


def test_anomaly_error_names_the_write() -> None:
    _, _, error = execute("s003_4_anomaly")
    assert error.diagnosis["id"] == "E01"
    assert "d *= 5" in str(error)
    assert "d = b.exp_()" in str(error)


def test_step_between_backwards_names_the_step() -> None:
    _, _, error = execute("s003_5_step_between_backwards")
    assert error.diagnosis["id"] == "E01"
    assert "optimizer.step()" in str(error)


def test_scalar_error_names_the_shape() -> None:
    _, _, error = execute("s004_04_needs_a_scalar")
    assert error.diagnosis["id"] == "E04"


def test_detach_shares_the_values() -> None:
    names, _, _ = execute("s004_07_detach")
    assert names["y"].data_ptr() == names["x"].data_ptr()
    assert not names["y"].requires_grad
    assert names["x"].requires_grad


def test_volatile_is_accepted_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="volatile was removed"):
        x = tapegrad.autograd.Variable(tapegrad.tensor([1.0]), volatile=True)
    assert not x.requires_grad
    done = launch("volatile")
    assert VOLATILE in done.stderr
