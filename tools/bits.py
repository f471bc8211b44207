"""Which results have the same bits elsewhere: a hash per result, to be compared between machines.

    PYTHONPATH=src python tools/bits.py > here.txt       # and there
    python tools/bits.py here.txt there.txt              # what is equal, and what is not
    python tools/bits.py here.txt there.txt "clang 16 against GCC 12"      # and a record of it

Only the kernels in C are asked (TAPEGRAD_NATIVE=0 asks NumPy alone), in one thread.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import evidence

UNARY = (
    "exp log log1p expm1 sqrt rsqrt sin cos tan tanh sigmoid erf erfinv lgamma digamma "
    "logsigmoid:F gelu:F silu:F softplus:F mish:F relu:F"
)


def results() -> Iterator[tuple[str, Any]]:
    import tapegrad as torch

    functional = torch.nn.functional
    torch.set_num_threads(1)
    for dtype in (torch.float32, torch.float64):
        kind = str(dtype).rpartition(".")[2]
        torch.manual_seed(1)
        x = torch.randn(37, 129, dtype=dtype)
        positive = x.abs() + 0.1
        yield f"randn {kind}", x
        for name in UNARY.split():
            name, _, module = name.partition(":")
            value = (
                positive if name in ("log", "sqrt", "rsqrt", "lgamma", "digamma") else x
            ).tanh()
            yield f"{name} {kind}", getattr(functional if module else torch, name)(value)
        yield f"pow {kind}", positive**1.7
        yield f"sum {kind}", x.sum(1)
        yield f"mean {kind}", x.mean(0)
        yield f"var {kind}", x.var(1)
        yield f"softmax {kind}", x.softmax(1)
        yield f"log_softmax {kind}", x.log_softmax(1)
        yield f"layer_norm {kind}", functional.layer_norm(x, (129,))
        yield f"logsumexp {kind}", x.logsumexp(1)
        yield f"cumsum {kind}", x.cumsum(1)
        yield f"sort {kind}", x.sort(1).values
        yield f"matmul {kind}", x @ x.T
        yield f"linear {kind}", functional.linear(x, x[:20], x[0, :20])
        image, weight = x[:, :128].reshape(1, 37, 16, 8), x[:9, :111].reshape(3, 37, 3, 3)
        yield f"conv2d {kind}", functional.conv2d(image, weight, padding=1)
        yield f"max_pool2d {kind}", functional.max_pool2d(image, 2)
        yield (
            f"attention {kind}",
            functional.scaled_dot_product_attention(*[image.transpose(1, 2)] * 3),
        )
        weights = x[:, :20].clone().requires_grad_()
        optimizer = torch.optim.Adam([weights])
        for _ in range(3):
            optimizer.zero_grad()
            (weights.sigmoid() * x[:, 20:40]).sum().backward()
            optimizer.step()
        yield f"Adam {kind}", weights.detach()


def main() -> None:
    if len(sys.argv) > 2:
        here, there = [
            dict([turned(line) for line in Path(path).read_text().splitlines()])
            for path in sys.argv[1:3]
        ]
        other = [name for name in here if here[name] != there.get(name)]
        print(f"{len(here) - len(other)} of {len(here)} results have the same bits")
        print("others:", ", ".join(other) or "none")
        if len(sys.argv) > 3:
            numbers = {"results": len(here), "equal": len(here) - len(other)}
            command = "python tools/bits.py here.txt there.txt"
            note = f"others: {', '.join(other)}" if other else ""
            evidence.add("bits", sys.argv[3], numbers, command=command, note=note)
        return
    for name, value in results():
        data = value.contiguous().numpy().tobytes()
        print(name, hashlib.sha256(data).hexdigest()[:16])


def turned(line: str) -> tuple[str, str]:
    name, kind, value = line.split()
    return f"{name} {kind}", value


if __name__ == "__main__":
    main()
