"""Python threads that compute at the same time: run as `threads.py SECONDS SEED`.

Each thread runs random programs (ops large enough for the pool of threads in C, gradients, random
numbers, optimizers, compiled functions of its own and shared ones) and compares with what one
thread got before, bit for bit; one more thread changes the number of threads and the memory that
is kept.
`make tsan` runs it under ThreadSanitizer. Prints the counts as JSON.
"""

from __future__ import annotations

import collections
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import tapegrad as torch
from tapegrad import nn
from tapegrad.kernels.cpu import KERNELS

F = nn.functional
THREADS = 4


def drawn(seed: int, *shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def elementwise(seed: int) -> list[Any]:
    x, y = drawn(seed, 300, 400), drawn(seed + 1, 300, 400)
    z = (x * y + x.sin()).exp().tanh()
    z.mul_(y).add_(1)
    return [z, z.sum(), z.sum(0), z.amax(1), z.cumsum(1), z.softmax(1), z.bfloat16().float()]


def gradients(seed: int) -> list[Any]:
    x = drawn(seed, 4, 3, 20, 20).requires_grad_()
    w = drawn(seed + 1, 8, 3, 3, 3).requires_grad_()
    out = F.max_pool2d(F.batch_norm(F.conv2d(x, w), None, None, training=True).relu(), 2)
    rows = F.layer_norm(out.flatten(1), (648,)) @ drawn(seed + 2, 648, 10)
    loss = F.cross_entropy(rows, torch.arange(4))
    return [loss, *torch.autograd.grad(loss, (x, w))]


def sorting(seed: int) -> list[Any]:
    x = drawn(seed, 200, 300)
    order = x.sort(1)
    rows = order.indices[:, 0] % 200
    return [order.values, x[rows], x.gather(1, order.indices), x[x > 0], x.topk(5).values]


def draws(seed: int) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    room = torch.empty(5000)
    return [
        room.normal_(generator=generator).clone(),
        torch.rand(3000, generator=generator),
        torch.randperm(500, generator=generator),
        torch.bernoulli(torch.rand(900, generator=generator), generator=generator),
    ]


def recurrent(seed: int) -> list[Any]:
    layer = nn.LSTM(8, 16)
    weights = list(layer.parameters())
    with torch.no_grad():
        for i, w in enumerate(weights):
            w.copy_(drawn(seed + i, *w.shape) / 4)
    out = layer(drawn(seed, 12, 6, 8))[0].sum()
    return [out, *torch.autograd.grad(out, weights)]


def training(seed: int) -> list[Any]:
    weights = [drawn(seed, 100, 50).requires_grad_(), drawn(seed, 100).requires_grad_()]
    optimizer = torch.optim.Adam(weights, lr=0.01)
    x = drawn(seed + 5, 64, 50)
    for _ in range(3):
        optimizer.zero_grad()
        F.linear(x, *weights).square().mean().backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
    return weights


def step(x: Any, y: Any) -> Any:
    z = (x * y).sin() + y
    z = z @ z.t()
    return z.softmax(0).sum(1) + F.gelu(z[:, 0])


def compiled(seed: int) -> list[Any]:
    """A function that this thread compiles, and one that all threads have in common."""
    own = torch.compile(step)
    x, y = drawn(seed, 40, 60), drawn(seed + 1, 40, 60)
    done = [own(x, y) for _ in range(4)]
    return [done[-1], COMMON(x, y)]


COMMON = torch.compile(step)
PROGRAMS: list[Callable[[int], list[Any]]] = [
    *(elementwise, gradients, sorting, draws, recurrent, training, compiled)
]


def run(program: Any, seed: int) -> list[bytes]:
    return [t.detach().numpy().tobytes() for t in program(seed)]


class Run:
    def __init__(self, seconds: float, seed: int) -> None:
        self.expected = {(p, s): run(p, s) for p in PROGRAMS for s in range(seed, seed + 3)}
        self.end = time.monotonic() + seconds
        self.done: collections.Counter[str] = collections.Counter()
        self.failures: list[str] = []

    def worker(self, number: int) -> None:
        draw = random.Random(number)
        while time.monotonic() < self.end and len(self.failures) < 20:
            program, seed = draw.choice(list(self.expected))
            try:
                is_same = run(program, seed) == self.expected[program, seed]
            except Exception as error:
                self.failures.append(f"{program.__name__}({seed}): {error!r:.300}")
                continue
            self.done[program.__name__] += 1
            if not is_same:
                self.failures.append(f"{program.__name__}({seed}): other values")

    def disturb(self) -> None:
        draw = random.Random(0)
        while time.monotonic() < self.end:
            torch.set_num_threads(draw.randint(1, THREADS))
            if KERNELS is not None:
                KERNELS.keep_memory(draw.choice([0, 1 << 20, 1 << 28]))
                KERNELS.forget_memory()
            time.sleep(0.01)


def main(seconds: float, seed: int) -> dict[str, Any]:
    torch.set_num_threads(THREADS)
    work = Run(seconds, seed)
    threads = [threading.Thread(target=work.worker, args=(i,)) for i in range(THREADS)]
    threads.append(threading.Thread(target=work.disturb))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"programs": work.done.total(), "by name": work.done, "failures": work.failures}


if __name__ == "__main__":
    print(json.dumps(main(float(sys.argv[1]), int(sys.argv[2]))))
