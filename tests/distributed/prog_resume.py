"""Training that is killed at a random moment and goes on from its last checkpoint.

prog_resume.py FOLDER SEED: in the first attempt one rank kills itself, somewhere in some step.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn

STEPS = 40


def die(folder):
    pathlib.Path(folder, "killed").write_text(str(time.time()))
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder, seed):
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    draw = random.Random(seed)
    victim, last, delay = draw.randrange(size), draw.randrange(STEPS), draw.uniform(0, 0.01)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), 0.05, momentum=0.9)
    for p in model.parameters():
        optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 0}
    # The newest complete one; rank 0 says which, since a save may just have been cut off.
    done = sorted(path.parent for path in pathlib.Path(folder).glob("*/.metadata"))
    box = [str(done[-1]) if done else None]
    dist.broadcast_object_list(box, 0)
    if box[0]:
        dcp.load(state, checkpoint_id=box[0])
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        print("went on from step", state["step"], flush=True)
    for step in range(state["step"], STEPS):
        if first and rank == victim and step == last:
            threading.Timer(delay, die, (folder,)).start()
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(8, 4, generator=generator)[rank::size]
        optimizer.zero_grad()
        (ddp(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        if step % 5 == 4:
            now = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            dcp.save({**now, "step": step + 1}, checkpoint_id=f"{folder}/{step + 1:04}")
    if rank == 0:
        torch.save(model.state_dict(), f"{folder}/final.pt")
    print("finished", flush=True)
    dist.barrier()
    os._exit(0) if first and rank == victim else dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except RuntimeError as error:
        late = time.time() - float(pathlib.Path(sys.argv[1], "killed").read_text())
        print(f"named after {late:.3f} s: {error}", flush=True)
        raise
