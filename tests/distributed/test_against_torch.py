"""DDP here and DDP of PyTorch on gloo: the same losses and weights. Needs torch beside mpi4py."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
from ranks import HERE, torchrun

from tapegrad.distributed._starting import free_port

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is missing"
)


def test_training_equals_pytorch(tmp_path):
    done = torchrun("prog_train.py", 2, f"{tmp_path}/ours")
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    for _ in range(3):  # its port may be taken by others between the question and its start
        port = f"--master-port={free_port()}"
        theirs = subprocess.run(
            [*command, port, HERE / "prog_train.py", f"{tmp_path}/theirs"],
            timeout=240,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        if theirs.returncode == 0:
            break
    assert theirs.returncode == 0, theirs.stderr
    for rank in range(2):
        ours, theirs = (np.load(f"{tmp_path}/{who}{rank}.npz") for who in ("ours", "theirs"))
        assert set(ours) == set(theirs)
        for name in theirs:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6, atol=1e-6, err_msg=name)
