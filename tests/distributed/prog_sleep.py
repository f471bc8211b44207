"""Ranks that say their process number and wait, or of which one leaves without a word."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import tapegrad as torch
import tapegrad.distributed as dist

dist.init_process_group("mpi")
dist.barrier()
if sys.argv[1] == "leave" and dist.get_rank() == 1:
    os._exit(0)
if sys.argv[1] == "leave":
    dist.all_reduce(torch.ones(4))
subprocess.Popen([sys.executable, "-c", "pass"]).wait()
print(f"pid {os.getpid()}", flush=True)
time.sleep(120)
