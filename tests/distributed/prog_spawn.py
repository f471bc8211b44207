"""The usual beginning of a tutorial: processes started by mp.spawn."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def main(rank, size, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    x = torch.ones(3) * (rank + 1)
    dist.all_reduce(x)
    os.write(1, f"rank {dist.get_rank()}: {x.tolist()}\n".encode())
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=(2, sys.argv[1]), nprocs=2)
