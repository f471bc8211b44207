"""Same seed, same numbers? Every random function of both libraries, compared bit by bit.

    python tests/parity/test_streams_table.py           print the table of docs/random.md
    python tests/parity/test_streams_table.py --write   put it there

As a test: the table in docs/random.md is what is measured.
"""

from __future__ import annotations

import pathlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import tapegrad

warnings.simplefilter("ignore")

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "random.md"
START, END = "<!-- measured: begin -->", "<!-- measured: end -->"
SIZES = (1, 2, 15, 16, 17, 1000)
SEEDS = (0, 1, 1234)
FLOATS = ("float32", "float64", "float16", "bfloat16")
WHOLE = ("int64", "int32", "uint8", "bool")
COMPLEX = ("complex64", "complex128")

Draw = Callable[[Any, int, Any], Any]


def filled(name: str, *args: Any) -> Draw:
    """An in-place method on an empty tensor."""
    return lambda lib, n, dtype: getattr(lib.zeros(n, dtype=dtype), name)(*args)


def initial(name: str, *args: Any, **kwargs: Any) -> Draw:
    """A function of nn.init on a matrix."""

    def draw(lib: Any, n: int, dtype: Any) -> Any:
        return getattr(lib.nn.init, name)(lib.zeros(n, 3, dtype=dtype), *args, **kwargs)

    return draw


def functional(name: str, *args: Any, **kwargs: Any) -> Draw:
    """A function of nn.functional on a matrix of ones."""

    def draw(lib: Any, n: int, dtype: Any) -> Any:
        return getattr(lib.nn.functional, name)(lib.ones(n, 4, dtype=dtype), *args, **kwargs)

    return draw


def probabilities(lib: Any, n: int, dtype: Any) -> Any:
    return (lib.arange(1, n + 1, dtype=lib.float32) / (n + 1)).to(dtype)


def weights(lib: Any, n: int, dtype: Any) -> Any:
    return (lib.arange(1, n + 1) % 5 + 1).to(dtype)


def normal_of_tensors(lib: Any, n: int, dtype: Any) -> Any:
    return lib.normal(weights(lib, n, dtype), probabilities(lib, n, dtype))


def layer(make: Callable[[Any], Any]) -> Draw:
    """All parameters of a new layer."""

    def draw(lib: Any, n: int, dtype: Any) -> Any:
        before = lib.get_default_dtype()
        lib.set_default_dtype(dtype)
        try:
            found = [p.detach().flatten() for p in make(lib).parameters()]
        finally:
            lib.set_default_dtype(before)
        return lib.cat(found)

    return draw


TABLE: list[tuple[str, Draw, tuple[str, ...]]] = [
    ("rand", lambda lib, n, d: lib.rand(n, dtype=d), FLOATS + COMPLEX),
    ("rand_like", lambda lib, n, d: lib.rand_like(lib.zeros(n, dtype=d)), FLOATS + COMPLEX),
    ("randn", lambda lib, n, d: lib.randn(n, dtype=d), FLOATS + COMPLEX),
    ("randn_like", lambda lib, n, d: lib.randn_like(lib.zeros(n, dtype=d)), FLOATS + COMPLEX),
    ("randint", lambda lib, n, d: lib.randint(0, 100, (n,), dtype=d), FLOATS + WHOLE[:3]),
    (
        "randint, two words",
        lambda lib, n, d: lib.randint(-(2**40), 2**40, (n,), dtype=d),
        ("int64", "float64"),
    ),
    ("randperm", lambda lib, n, d: lib.randperm(n, dtype=d), ("int64", "int32", *FLOATS[:2])),
    ("normal(mean, std)", normal_of_tensors, FLOATS),
    ("uniform_", filled("uniform_", -3.3, 100.7), FLOATS),
    ("normal_", filled("normal_", 1.7, 2.3), FLOATS + COMPLEX),
    ("random_()", filled("random_"), FLOATS + WHOLE),
    ("random_(3, 50)", filled("random_", 3, 50), FLOATS + WHOLE[:3]),
    ("exponential_", filled("exponential_", 1.3), FLOATS),
    ("cauchy_", filled("cauchy_", 1.0, 2.0), FLOATS),
    ("log_normal_", filled("log_normal_", 0.5, 0.7), FLOATS),
    ("geometric_", filled("geometric_", 0.3), FLOATS + WHOLE[:3]),
    ("bernoulli_(p)", filled("bernoulli_", 0.3), FLOATS + WHOLE),
    ("bernoulli", lambda lib, n, d: lib.bernoulli(probabilities(lib, n, d)), FLOATS),
    (
        "multinomial",
        lambda lib, n, d: lib.multinomial(weights(lib, n, d), 1 + n // 3),
        FLOATS,
    ),
    (
        "multinomial, replacement",
        lambda lib, n, d: lib.multinomial(weights(lib, n, d), 20, replacement=True),
        FLOATS,
    ),
    ("poisson", lambda lib, n, d: lib.poisson(weights(lib, n, d) * 4), FLOATS),
    (
        "binomial",
        lambda lib, n, d: lib.binomial(weights(lib, n, d) * 9, probabilities(lib, n, d)),
        FLOATS[:2],
    ),
    ("nn.functional.dropout", functional("dropout", 0.3), FLOATS),
    ("nn.functional.dropout1d", functional("dropout1d", 0.3), FLOATS),
    ("nn.functional.alpha_dropout", functional("alpha_dropout", 0.3, True), FLOATS),
    (
        "nn.functional.feature_alpha_dropout",
        functional("feature_alpha_dropout", 0.3, True),
        FLOATS,
    ),
    ("nn.functional.rrelu", functional("rrelu", training=True), FLOATS[:2]),
    ("nn.functional.gumbel_softmax", functional("gumbel_softmax"), FLOATS),
    ("nn.init.xavier_uniform_", initial("xavier_uniform_"), FLOATS),
    ("nn.init.xavier_normal_", initial("xavier_normal_"), FLOATS),
    ("nn.init.kaiming_uniform_", initial("kaiming_uniform_", a=5**0.5), FLOATS),
    ("nn.init.kaiming_normal_", initial("kaiming_normal_"), FLOATS),
    ("nn.init.trunc_normal_", initial("trunc_normal_", std=0.02), FLOATS[:2]),
    ("nn.init.sparse_", initial("sparse_", 0.5), FLOATS[:2]),
    ("nn.Linear(7, 5)", layer(lambda lib: lib.nn.Linear(7, 5)), FLOATS[:2]),
]


def raw(lib: Any, t: Any) -> Any:
    """The values as integers of the same width, which count representable numbers."""
    t = t.detach().contiguous()
    if t.is_complex():
        t = lib.view_as_real(t)
    if t.dtype is lib.bfloat16:
        return monotonic(t.view(lib.int16).numpy())
    array = t.numpy()
    if array.dtype.kind == "f":
        return monotonic(array.view(f"i{array.itemsize}"))
    return array.astype(np.int64)


def monotonic(bits: Any) -> Any:
    """The bits of floats as integers in the order of the numbers."""
    width = 8 * bits.itemsize
    signed = bits.astype(object) if width == 64 else bits.astype(np.int64)
    return np.where(signed < 0, -(2 ** (width - 1)) - signed, signed)


class Verdict:
    """What was seen of one function in one dtype."""

    def __init__(self) -> None:
        self.wrong = 0
        self.ulps = 0
        self.error = 0.0  # relative, or absolute for values below one
        self.state = True

    def add(self, ours: Any, theirs: Any, error: float, same_state: bool) -> None:
        distance = np.abs(ours - theirs)
        self.error = max(self.error, error)
        self.wrong += int((distance > 0).sum())
        self.ulps = max(self.ulps, int(distance.max()) if distance.size else 0)
        self.state &= same_state

    def __str__(self) -> str:
        """Without counts and last digits: those depend on the machine's exponentials."""
        if not self.wrong:
            return "bit-exact" if self.state else "bit-exact, state differs"
        if self.ulps <= 16:
            return "within an ulp" if self.ulps <= 1 else "within 16 ulp"
        return "equal to 1e-05" if self.error < 1e-5 else "different"


def error_of(ours: Any, theirs: Any) -> float:
    a, b = np.asarray(ours.tolist(), complex), np.asarray(theirs.tolist(), complex)
    return float((np.abs(a - b) / np.maximum(np.abs(b), 1)).max(initial=0.0))


def measured(draw: Draw, dtype: str) -> Verdict:
    verdict = Verdict()
    for seed in SEEDS:
        for n in SIZES:
            found = []
            for lib in (tapegrad, torch):
                lib.manual_seed(seed)
                values = draw(lib, n, getattr(lib, dtype))
                found.append((raw(lib, values), values, lib.get_rng_state().numpy().tobytes()))
            (ours, own, state), (theirs, other, wanted) = found
            verdict.add(ours, theirs, error_of(own, other), state == wanted)
    return verdict


def rows() -> list[str]:
    lines = ["| function | dtypes | result |", "|---|---|---|"]
    for name, draw, dtypes in TABLE:
        by_verdict: dict[str, list[str]] = {}
        for dtype in dtypes:
            by_verdict.setdefault(str(measured(draw, dtype)), []).append(dtype)
        for verdict, names in by_verdict.items():
            lines.append(f"| `{name}` | {', '.join(names)} | {verdict} |")
    return lines


def table_on_page() -> str:
    return PAGE.read_text().partition(START)[2].partition(END)[0].strip()


# From the best to the worst: another machine's exponentials may be better than the page says.
VERDICTS = [
    "bit-exact",
    "bit-exact, state differs",
    "within an ulp",
    "within 16 ulp",
    "equal to 1e-05",
    "different",
]


def by_function(lines: list[str]) -> dict[tuple[str, str], int]:
    found = {}
    for line in lines[2:]:
        name, dtypes, verdict = line.strip("| ").split(" | ")
        for dtype in dtypes.split(", "):
            found[name, dtype] = VERDICTS.index(verdict)
    return found


def test_the_page_says_what_is_measured() -> None:
    torch.set_num_threads(1)
    said, seen = by_function(table_on_page().splitlines()), by_function(rows())
    assert said.keys() == seen.keys()
    assert {k: v for k, v in seen.items() if v > said[k]} == {}


if __name__ == "__main__":
    torch.set_num_threads(1)
    text = "\n".join(rows())
    print(text)
    if "--write" in sys.argv:
        before, _, rest = PAGE.read_text().partition(START)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{START}\n{text}\n{END}{after}")
