"""`diagnose.fingerprint` and the command: equal bits, equal hashes."""

from __future__ import annotations

import re
import subprocess
import sys

import tapegrad as torch
from tapegrad import diagnose, nn

SCRIPT = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr={lr})
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
"""


def test_what_a_hash_depends_on():
    x = torch.arange(6.0)
    assert diagnose.fingerprint(x) == diagnose.fingerprint(x.clone())
    others = [x.double(), x.reshape(2, 3), -x, x.to(torch.int32), x[:5], [x, x]]
    assert len({diagnose.fingerprint(v) for v in [x, *others]}) == 7
    assert diagnose.fingerprint(torch.tensor(0.0)) != diagnose.fingerprint(torch.tensor(-0.0))
    t = x.reshape(2, 3).T
    assert diagnose.fingerprint(t) == diagnose.fingerprint(t.contiguous())


def test_a_model_and_its_optimizer():
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    before = diagnose.fingerprint(model), diagnose.fingerprint(optimizer)
    model(torch.ones(1, 2)).sum().backward()
    assert (diagnose.fingerprint(model), diagnose.fingerprint(optimizer)) == before
    optimizer.step()
    assert diagnose.fingerprint(model) != before[0]
    assert diagnose.fingerprint(optimizer) != before[1]


def test_the_command(tmp_path):
    def said(lr):
        (tmp_path / "train.py").write_text(SCRIPT.format(lr=lr))
        command = [sys.executable, "-m", "tapegrad", "fingerprint", str(tmp_path / "train.py")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    first = said(0.1)
    assert re.fullmatch(r"(step +\d  \w{16}\n){3}end of 3 steps  \w{16}\n", first)
    assert said(0.1) == first
    assert said(0.2) != first
