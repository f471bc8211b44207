"""What is printed of an exception that nobody catches: the user's frames."""

import os
import subprocess
import sys

import pytest

from tapegrad.errors import tracebacks

SHAPES = """
import tapegrad as torch
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(9, 2))
def train():
    return net(torch.ones(3, 4))
train()
"""

BETWEEN = """
import tapegrad as torch
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        try:
            {}["a"]
        except KeyError as error:
            raise ValueError("mine") from error
F.apply(torch.ones(2, requires_grad=True)).sum().backward()
"""

OWN_HOOK = "import sys\nsys.excepthook = lambda *error: print('mine', file=sys.stderr)\n" + SHAPES


def stderr_of(tmp_path, source, *before, **environment):
    script = tmp_path / "script.py"
    script.write_text(source)
    done = subprocess.run(
        [sys.executable, *before, str(script)], env={**os.environ, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    return done.stderr


def frames(said):
    """The functions of the frames that are shown, and whether all are the script's."""
    lines = [line.strip() for line in said.splitlines() if line.strip().startswith('File "')]
    names = [line.rpartition(" in ")[2] for line in lines]
    return names, all("script.py" in line for line in lines)


@pytest.mark.parametrize("before", [(), ("-m", "tapegrad", "run")], ids=["python", "run"])
def test_frames_of_the_package_are_left_out(tmp_path, before):
    said = stderr_of(tmp_path, SHAPES, *before)
    assert frames(said) == (["<module>", "train"], True)
    assert "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x8 and 9x2)" in said
    page, last = said.splitlines()[-2:]
    assert page.strip().startswith("[E09]")
    assert last.endswith("frames inside tapegrad left out: TAPEGRAD_TRACEBACK=full shows them)")


def test_frames_of_the_user_stay_between_them_and_in_causes(tmp_path):
    said = stderr_of(tmp_path, BETWEEN)
    assert frames(said) == (["backward", "<module>", "backward"], True)
    assert "direct cause" in said and "KeyError: 'a'" in said and "ValueError: mine" in said


def test_all_of_them_if_asked(tmp_path):
    said = stderr_of(tmp_path, SHAPES, TAPEGRAD_TRACEBACK="full")
    names, only_the_script = frames(said)
    assert not only_the_script and "_call_impl" in names and "left out" not in said


def test_who_shows_tracebacks_goes_on_to(tmp_path):
    assert stderr_of(tmp_path, OWN_HOOK) == "mine\n"


def test_other_errors_are_as_ever(tmp_path):
    said = stderr_of(tmp_path, "import tapegrad\n1 / 0\n")
    assert said.endswith("ZeroDivisionError: division by zero\n")


def test_the_exception_keeps_its_traceback(tmp_path):
    source = SHAPES.replace(
        "train()\n",
        "import atexit, sys\n"
        "atexit.register(lambda: print('after', sys.last_traceback.tb_next.tb_next.tb_next "
        "is not None, file=sys.stderr))\ntrain()\n",
    )
    assert stderr_of(tmp_path, source).splitlines()[-1] == "after True"


NO_GRADIENT = """
import tapegrad as torch
w = torch.ones(2, requires_grad=True)
def step():
    w.data -= 0.1 * w.grad
step()
"""


@pytest.mark.parametrize("asked", ["", "full"])
def test_a_gradient_that_is_none_is_explained(tmp_path, asked):
    said = stderr_of(tmp_path, NO_GRADIENT, TAPEGRAD_TRACEBACK=asked)
    assert "TypeError: unsupported operand type(s) for *: 'float' and 'NoneType'\n" in said
    assert "`w` has never been used in a recorded computation" in said
    assert said.splitlines()[-1].strip() == "[E17] python -m tapegrad explain E17"


def test_other_nones_are_not(tmp_path):
    said = stderr_of(tmp_path, NO_GRADIENT.replace("w.grad", "w.grad_fn"))
    assert said.endswith("TypeError: unsupported operand type(s) for *: 'float' and 'NoneType'\n")


def test_one_suggestion(tmp_path):
    """Python has one of its own, which it would put behind ours."""
    said = stderr_of(tmp_path, "import tapegrad as torch\ntorch.nn.Linear(1, 1).wieght\n")
    assert "did you mean .weight?" in said and "Did you mean" not in said


def test_an_interrupt_between_two_lines_has_no_line():
    def interrupted():
        raise KeyboardInterrupt

    no_lines = bytes([0b1_1111_111])  # a table in which the code belongs to no line
    interrupted.__code__ = interrupted.__code__.replace(co_linetable=no_lines)
    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted()
    trace = caught.value.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_lineno is None
    kept, left_out = tracebacks.without_ours(trace)
    assert kept.tb_frame is trace.tb_frame and left_out == 0
