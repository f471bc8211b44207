"""Random programs of ops on tensors of odd layouts: run as `programs.py COUNT SEED [--torch]`.

A program makes tensors of all dtypes (strided, misaligned, overlapping, read-only, of zero or huge
sizes, 0-d) and then takes views of them, writes into them, combines and reduces them, and asks for
gradients. It depends on the seed and its number alone. The same programs run in this process, with
the kernels in C, and in another one without them (or with PyTorch): each step must end in the same
error class, or in the same shape, dtype and values. Prints the counts as JSON.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

STEPS = 12
# What is known of a tensor's values. Kernels may round otherwise than NumPy does: what depends on a
# comparison is asked only of values that all compute alike, and casts to ints of those that fit.
SMALL, EXACT, ROUNDED = 0, 1, 2
DTYPES = "float32 float64 float16 int64 int32 int16 int8 uint8 bool complex64 complex128".split()
FLOATS = ("float32", "float64")


class Value:
    """A tensor, the group of tensors that share its memory, and what is known of their values."""

    def __init__(self, tensor: Any, group: list[int]) -> None:
        self.tensor = tensor
        self.group = group

    @property
    def known(self) -> int:
        return self.group[0]


# ---------------------------------------------------------------------- the first tensors


def shapes(draw: random.Random) -> tuple[int, ...]:
    if draw.random() < 0.08:
        return draw.choice([(0, 1 << 40), (1 << 33, 0, 3), (0,), (2, 0, 3)])
    if draw.random() < 0.1:
        return (draw.choice([40, 200]), draw.choice([33, 100]))
    return tuple([draw.choice([1, 2, 3, 3, 4, 5]) for _ in range(draw.randrange(5))])


def laid_out(x: Any, draw: random.Random) -> Any:
    kind = draw.randrange(9)
    if kind == 0 and x.size:
        room = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
        room[...] = x
        return room
    if kind == 1 and x.ndim and x.size:
        return np.repeat(x, 3, -1)[..., ::3]
    if kind == 2 and x.ndim and x.size:
        return np.asfortranarray(x)
    if kind == 3 and x.ndim > 1 and x.size:
        return x.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    if kind == 4:
        x.flags.writeable = False
    return x


def first(torch: Any, draw: random.Random) -> Value:
    dtype, shape = draw.choice(DTYPES), shapes(draw)
    values = np.random.default_rng(draw.randrange(1 << 30)).integers(-8, 9, shape)
    array = np.asarray((values / 4 if dtype[0] in "fc" else abs(values) % 5).astype(dtype))
    t = torch.from_numpy(laid_out(array, draw))
    kind = draw.random()
    if kind < 0.1 and t.ndim == 2 and t.numel():
        t = t.as_strided((2, t.shape[1]), (1, 1)) if min(t.shape) > 1 else t  # rows overlap
    elif kind < 0.2 and t.ndim and t.shape[0] == 1:
        t = t.expand(3, *t.shape[1:])
    elif kind < 0.4 and dtype in FLOATS:
        t = t.clone().requires_grad_()
    elif kind < 0.5:
        t = t.to(torch.bfloat16) if dtype in FLOATS else t
    return Value(t, [SMALL])


# ---------------------------------------------------------------------- steps

Step = Callable[[Any, random.Random, list[Value]], Value]


def pick(draw: random.Random, pool: list[Value], most: int = ROUNDED) -> Value:
    fit = [v for v in pool if v.known <= most]
    return draw.choice(fit or pool[:1])


def dim(draw: random.Random, t: Any) -> int:
    return draw.randrange(-max(t.ndim, 1), max(t.ndim, 1))


def fresh(tensor: Any, *sources: Value, known: int = SMALL) -> Value:
    return Value(tensor, [max([known, *[s.known for s in sources]])])


def unary(torch: Any, draw: random.Random, pool: list[Value]) -> Value:
    v = pick(draw, pool)
    if draw.random() < 0.5:
        name = draw.choice("neg abs square clone contiguous conj logical_not relu positive".split())
        return fresh(
            getattr(torch, name, None)(v.tensor) if name != "contiguous" else v.tensor.contiguous(),
            v,
            known=EXACT,
        )
    name = draw.choice("sin exp tanh sigmoid sqrt log1p reciprocal rsqrt erf softplus".split())
    function = torch.nn.functional.softplus if name == "softplus" else getattr(torch, name)
    return fresh(function(v.tensor), v, known=ROUNDED)


def binary(torch: Any, draw: random.Random, pool: list[Value]) -> Value:
    a, b = pick(draw, pool), pick(draw, pool)
    name = draw.choice("add sub mul div maximum minimum atan2 where addcmul lerp".split())
    if name == "where":
        c = pick(draw, pool)
        return fresh(
            torch.where(c.tensor != 0, a.tensor, b.tensor)
            if c.known < ROUNDED
            else a.tensor + b.tensor,
            a,
            b,
            c,
            known=EXACT,
        )
    if name == "addcmul":
        return fresh(torch.addcmul(a.tensor, b.tensor, b.tensor), a, b, known=ROUNDED)
    if name == "lerp":
        return fresh(torch.lerp(a.tensor, b.tensor, 0.25), a, b, known=ROUNDED)
    known = EXACT if name in ("add", "sub", "mul", "maximum", "minimum") else ROUNDED
    other = draw.choice([b.tensor, b.tensor, 2, 0.5, True])
    if name in ("maximum", "minimum", "atan2"):
        other = b.tensor
    return fresh(getattr(torch, name)(a.tensor, other), a, b, known=known)


def compare(torch: Any, draw: random.Random, pool: list[Value]) -> Value:
    a, b = pick(draw, pool, EXACT), pick(draw, pool, EXACT)
    if max(a.known, b.known) > EXACT:
        return fresh(a.tensor.clone(), a)
    name = draw.choice("eq ne lt le gt ge logical_and logical_or".split())
    return fresh(getattr(torch, name)(a.tensor, draw.choice([b.tensor, 1])))


def view(torch: Any, draw: random.Random, pool: list[Value]) -> Value:
    v = pick(draw, pool)
    t = v.tensor
    d = dim(draw, t)
    kind = draw.randrange(12)
    if kind == 0:
        made = t.transpose(d, dim(draw, t))
    elif kind == 1:
        made = t[..., draw.choice([0, -1, 1])]
    elif kind == 2:
        made = t[draw.choice([slice(1, None), slice(None, None, 2), slice(0, 0), slice(-2, None)])]
    elif kind == 3:
        made = t.unsqueeze(d)
    elif kind == 4:
        made = t.squeeze()
    elif kind == 5:
        made = t.reshape(-1)
    elif kind == 6:
        made = t.view(draw.choice([(-1,), (1, -1), (2, -1)]))
    elif kind == 7:
        made = t.expand(2, *t.shape)
    elif kind == 8:
        made = t.diagonal()
    elif kind == 9:
        made = t.unfold(d, 2, 1)
    elif kind == 10:
        made = t.narrow(d, 0, 1)
    else:
        made = t.movedim(0, -1)
    return Value(made, v.group)


def write(torch: Any, draw: random.Random, pool: list[Value]) -> Value:
    v, other = pick(draw, pool), pick(draw, pool)
    t, o = v.tensor, other.tensor
    kind = draw.randrange(11)
    known = max(v.known, other.known, EXACT)
    if kind == 0:
        t.add_(o)
    elif kind == 1:
        t.mul_(2)
        known = max(v.known, EXACT)
    elif kind == 2:
        t.copy_(o if o.dtype == t.dtype else 1)
    elif kind == 3:
        t.fill_(1)
        known = v.known
    elif kind == 4:
        t.zero_()
        known = v.known
    elif kind == 5:
        t.masked_fill_(t == 1, 0) if v.known < ROUNDED else t.zero_()
        known = v.known
    elif kind == 6:
        t[..., :1] = 1
        known = v.known
    elif kind == 7:
        t.sub_(o, alpha=2)
    elif kind == 8:
        t.clamp_(-1, 1)
        known = max(v.known, EXACT)
    elif kind == 9:
        t[..., 0] = o
    else:
        t.sin_()
        known = ROUNDED
    v.group[0] = max(v.group[0], known)
    return v


def reduce(torch: Any, draw: random.Random, pool: list[Value]) -> Value:
    if draw.random() < 0.4:
        v = pick(draw, pool, EXACT)
        if v.known <= EXACT:
            name = draw.choice("amax amin any all count_nonzero".split())
            if name == "count_nonzero":
                return fresh(torch.count_nonzero(v.tensor))
            return fresh(getattr(torch, name)(v.tensor, dim(draw, v.tensor)), v)
    v = pick(draw, pool)
    name = draw.choice(
        "sum mean prod std var logsumexp norm softmax cumsum cumprod log_softmax".split()
    )
    t = v.tensor
    if name in ("softmax", "log_softmax", "cumsum", "cumprod", "logsumexp", "prod"):
        return fresh(getattr(torch, name)(t, dim(draw, t)), v, known=ROUNDED)
    if draw.random() < 0.5:
        return fresh(getattr(torch, name)(t), v, known=ROUNDED)
    return fresh(
        getattr(torch, name)(t, dim=dim(draw, t), keepdim=draw.random() < 0.5), v, known=ROUNDED
    )


def order(torch: Any, draw: random.Random, pool: list[Value]) -> Value:
    v = pick(draw, pool, EXACT)
    if v.known > EXACT:
        return fresh(v.tensor.clone(), v)
    t, d = v.tensor, dim(draw, v.tensor)
    kind = draw.randrange(6)
    if kind == 0:
        # Which of equal elements comes first is nobody's promise: gradients would show it.
        return fresh(torch.sort(t, d).values.detach(), v)
    if kind == 1:
        return fresh(torch.sort(t, dim=d, stable=True, descending=True).indices)
    if kind == 2:
        return fresh(torch.unique(t), v)
    if kind == 3:
        return fresh(torch.nonzero(t))
    if kind == 4:
        return fresh(t[t > 0], v)
    return fresh(torch.topk(t, 1, d).values.detach(), v)


def index(torch: Any, draw: random.Random, pool: list[Value]) -> Value:
    v = pick(draw, pool)
    t, d = v.tensor, dim(draw, v.tensor)
    rows = torch.tensor(
        [draw.choice([0, 0, 1, 2, -1, 7]) for _ in range(draw.randrange(4))], dtype=torch.int64
    )
    kind = draw.randrange(8)
    if kind == 0:
        made = t[rows]
    elif kind == 1:
        made = torch.index_select(t, d, rows)
    elif kind == 2:
        made = torch.flip(t, (d,))
    elif kind == 3:
        made = torch.roll(t, 1, d)
    elif kind == 4:
        made = torch.tril(t)
    elif kind == 5:
        made = (
            torch.gather(t, d, torch.zeros(t.shape, dtype=torch.int64))
            if t.numel() < 9999
            else t[:1]
        )
    elif kind == 6:
        made = torch.index_fill(t, d, rows.clamp(min=0), 1)
    else:
        made = torch.repeat_interleave(t, 2, d)
    return fresh(made, v)


def join(torch: Any, draw: random.Random, pool: list[Value]) -> Value:
    a, b = pick(draw, pool), pick(draw, pool)
    if draw.random() < 0.5:
        same = [v for v in pool if v.tensor.shape == a.tensor.shape]
        b = draw.choice(same)
        name = draw.choice(["cat", "stack"])
        return fresh(getattr(torch, name)([a.tensor, b.tensor], dim(draw, a.tensor)), a, b)
    return fresh(torch.matmul(a.tensor, b.tensor), a, b, known=ROUNDED)


def cast(torch: Any, draw: random.Random, pool: list[Value]) -> Value:
    v = pick(draw, pool, SMALL)
    names = [*DTYPES, "bfloat16"] if v.known == SMALL else ["float64", "complex128"]
    if v.tensor.is_complex():
        names = ["complex64", "complex128"]
    return fresh(v.tensor.to(getattr(torch, draw.choice(names))), v)


KINDS: list[Step] = [unary, binary, binary, compare, view, view, view, write, write]
KINDS += [reduce, reduce, order, index, join, cast]


def plain(torch: Any, tensor: Any) -> Any:
    """The values, as an array that can be sent elsewhere."""
    t = tensor.detach()
    t = t.resolve_conj() if t.is_complex() else t
    name = str(t.dtype).removeprefix("torch.")
    if t.numel() == 0 or t.numel() > 1 << 20:
        return name, tuple(t.shape), None
    return name, tuple(t.shape), (t.float() if name == "bfloat16" else t).numpy().copy()


def outcomes(torch: Any, seed: int, number: int) -> list[Any]:
    """What each step of a program ends in."""
    draw = random.Random(f"{seed}, {number}")
    done: list[Any] = []
    pool = [first(torch, draw) for _ in range(draw.randint(2, 4))]
    leaves = [v.tensor for v in pool if v.tensor.requires_grad]
    for _ in range(draw.randint(3, STEPS)):
        step = draw.choice(KINDS)
        own = random.Random(draw.randrange(1 << 30))
        try:
            made = step(torch, own, pool)
        except Exception as error:
            done.append((step.__name__, type(error).__name__, str(error).partition("\n")[0][:200]))
            continue
        if made.tensor.numel() < 1 << 20:
            pool.append(made)
        done.append((step.__name__, "", plain(torch, made.tensor)))
    roots = [v.tensor for v in pool if v.tensor.requires_grad and v.tensor.dtype.is_floating_point]
    if leaves and roots:
        try:
            total = sum([t.double().sum() for t in roots])
            found = torch.autograd.grad(total, leaves, allow_unused=True)
            for g in found:
                done.append(("gradient", "", None if g is None else plain(torch, g)))
        except Exception as error:
            done.append(("gradient", type(error).__name__, str(error).partition("\n")[0][:200]))
    for v in pool:  # writes through views show in all of them
        done.append(("at the end", "", plain(torch, v.tensor)))
    return done


# ---------------------------------------------------------------------- comparing

PRECISION = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 2e-4, "complex64": 2e-4}


def same(a: Any, b: Any, name: str) -> bool:
    if a is None or b is None:
        return a is b
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    a, b = (x.astype("c16" if x.dtype.kind == "c" else "f8") for x in (a, b))
    scale = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b)))
    with np.errstate(all="ignore"):
        close = np.abs(a - b) <= PRECISION.get(name, 1e-7) * max(scale, 1.0)
        return bool(np.all(close | (a == b) | ~np.isfinite(a) & ~np.isfinite(b)))


def difference(ours: list[Any], theirs: list[Any]) -> str:
    for i, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if a[1] != b[1]:
            said = [f"{x[1] or 'a result'} ({x[2]!s:.100})" for x in (a, b)]
            return f"step {i}, {a[0]}: {said[0]} instead of {said[1]}"
        if a[1] or a[2] is None or b[2] is None:
            if (a[2] is None) != (b[2] is None):
                return f"step {i}, {a[0]}: only one of them is there"
            continue
        if a[2][:2] != b[2][:2]:
            return f"step {i}, {a[0]}: {a[2][:2]} instead of {b[2][:2]}"
        if not same(a[2][2], b[2][2], a[2][0]):
            return f"step {i}, {a[0]}: other values, {a[2][:2]}"
    return "" if len(ours) == len(theirs) else "other steps"


ROOM = 16 << 30  # bytes of addresses that a process may have


def limit_memory() -> None:
    """Let huge requests fail alike everywhere: some programs reduce (2 ** 33, 0, 3) to 25 GB.

    A large machine would give them the memory, and be out of it when it is written.
    """
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, hard))
    except (ImportError, ValueError):  # not every system has this limit
        pass


def library(name: str) -> Any:
    if name == "torch":
        import torch
    else:
        import tapegrad as torch
    torch.set_num_threads(2)
    return torch


def serve(name: str, seed: int, start: int) -> None:
    """Write the outcomes of one program after the other, until nobody reads them."""
    torch = library(name)
    for i in itertools.count(start):
        pickle.dump(outcomes(torch, seed, i), sys.stdout.buffer)
        sys.stdout.buffer.flush()


def others(name: str, seed: int) -> Iterator[Any]:
    """The outcomes in another process, which has no kernels in C, or PyTorch; None: it died."""
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | {"TAPEGRAD_NATIVE": "0"}
    at = 0
    while True:
        command = [sys.executable, "-W", "ignore", __file__, "--serve", name, str(seed), str(at)]
        child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
        assert child.stdout is not None
        try:
            while True:
                found = pickle.load(child.stdout)
                at += 1
                yield found
        except EOFError:
            at += 1
            yield None
        finally:
            child.kill()
            child.wait()
            child.stdout.close()


def main(count: int, seed: int, other: str) -> dict[str, Any]:
    torch = library("tapegrad")
    counts: collections.Counter[str] = collections.Counter()
    failures = []
    theirs = others(other, seed)
    for i, next_one in zip(range(count), theirs, strict=False):
        ours = outcomes(torch, seed, i)
        counts["programs"] += 1
        counts["steps"] += len(ours)
        counts["errors"] += len([1 for o in ours if o[1]])
        if next_one is None and other == "torch":
            counts["crashes of PyTorch"] += 1
            wrong = ""
        else:
            wrong = difference(ours, next_one) if next_one else "the other process died"
        if wrong:
            failures.append(f"program {i} of seed {seed}, {wrong}")
    theirs.close()
    return {"ends": counts, "failures": failures}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    limit_memory()
    if sys.argv[1] == "--serve":
        serve(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        chosen = "torch" if "--torch" in sys.argv else "tapegrad"
        print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), chosen)))
