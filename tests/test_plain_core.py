"""TAPEGRAD_PURE=1 when a program starts: the core as Python, in the compiled build too."""

import os
import subprocess
import sys

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
