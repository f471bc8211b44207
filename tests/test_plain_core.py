"""TAPEGRAD_PURE=1 when a program starts: the core as Python, in the compiled build too."""

import os
import subprocess
import sys

import tapegrad as torch

PROGRAM = """
import sys
seen = set()

def look(frame, event, value):
    seen.add((frame.f_code.co_filename.rpartition("tapegrad/")[2], frame.f_code.co_name))

import tapegrad
x = tapegrad.ones(3, requires_grad=True)
y = (x * x).sum()
sys.settrace(look)
y.backward()
sys.settrace(None)
assert x.grad.tolist() == [2.0, 2.0, 2.0]
print(tapegrad.__config__.is_compiled(), ("autograd/engine.py", "visit") in seen)
print(tapegrad.__config__.show().splitlines()[1])
"""


def test_the_engine_can_be_stepped_into():
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, "TAPEGRAD_PURE": "1"},
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert answer[0] == "False True"
    assert "pure Python" in answer[1]


WALKS = """
import sys
import tapegrad

x, w = [tapegrad.ones(3, requires_grad=True) for _ in range(2)]

def walk(work):
    files = []

    def look(frame, event, value):
        if event == "call" and "tapegrad" in frame.f_code.co_filename:
            files.append(frame.f_code.co_filename)

    sys.setprofile(look)
    work()
    sys.setprofile(None)
    changes = sum(a != b for a, b in zip(files, files[1:]))
    return len(files), len(set(files)), changes

for _ in range(3):  # the first time something is imported or looked up
    x.grad = w.grad = None
    found = [walk(lambda: x * w) for _ in range(2)][-1:]
    product = x * w
    found += [walk(lambda: product.sum()) for _ in range(2)][-1:]
    loss = product.sum()
    found.append(walk(lambda: loss.backward()))
print(found)
"""


def test_an_op_and_a_pass_go_through_few_functions_and_files():
    """Calls, files and changes of file in pure Python. These numbers may fall, not rise."""
    answer = subprocess.run(
        [sys.executable, "-c", WALKS],
        env={**os.environ, "TAPEGRAD_PURE": "1", "TAPEGRAD_NATIVE": "0"},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = eval(answer)
    most = [(9, 4, 4), (14, 5, 7), (40, 8, 20)]  # of x * w, of .sum() and of .backward()
    for walk, limit in zip(found, most, strict=True):
        assert all(a <= b for a, b in zip(walk, limit, strict=True)), found


STEPS = """
import sys
import tapegrad

x = tapegrad.tensor(0.2)
w = tapegrad.tensor(0.5, requires_grad=True)
(x * w + w).tanh().backward()  # the first time something is imported or looked up
loss = (x * w + w).tanh()
count, reached = 0, {}

def look(frame, event, value):
    global count
    count += 1
    where = frame.f_code.co_filename.rpartition("/")[2], frame.f_code.co_name
    reached.setdefault(where[0], count)
    reached.setdefault(where, count)
    return look

sys.settrace(look)
loss.backward()
sys.settrace(None)
print(reached["engine.py"], reached["engine.py", "visit"])
"""


def test_a_debugger_steps_from_backward_into_the_engine():
    """Calls, lines and returns: what `s` in pdb stops at."""
    answer = subprocess.run(
        [sys.executable, "-c", STEPS],
        env={**os.environ, "TAPEGRAD_PURE": "1"}, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    steps_to_engine, steps_to_first_node = map(int, answer)
    # 44 and 155 in Python 3.11; other versions count lines in other ways.
    assert steps_to_engine <= 50 and steps_to_first_node <= 170, answer


def test_a_slow_build_says_how_it_gets_fast(monkeypatch, capsys):
    """Where no compiler was found: in `info`, and once at a terminal that trains; not in pipes."""
    from tapegrad.kernels import cpu

    weights = [torch.ones(2, requires_grad=True)]
    monkeypatch.setattr(cpu, "REASON", "not built")
    monkeypatch.delenv("TAPEGRAD_PURE", raising=False)
    monkeypatch.setattr(cpu.Note, "due", True)
    torch.optim.SGD(weights, lr=0.1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(cpu.Note, "due", True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    torch.optim.SGD(weights, lr=0.1)
    torch.optim.Adam(weights)
    said = capsys.readouterr().err
    assert said.count("tapegrad: this is the pure Python build") == 1 and "pip install" in said
    assert "Note: this is the pure" in torch.__config__.show()
    monkeypatch.setenv("TAPEGRAD_PURE", "1")  # it was asked for
    assert "Note" not in torch.__config__.show()
    monkeypatch.delenv("TAPEGRAD_PURE")
    monkeypatch.setattr(cpu, "REASON", "")
    assert "Note" not in torch.__config__.show()
