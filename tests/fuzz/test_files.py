"""Files made to do harm (files.py): an error each, nothing run, nothing hung, memory bounded.

And processes killed while they save: the file is the old one or the new one, never a broken one.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import time
from typing import Any

import pytest

import tapegrad as torch
from fuzz.files import archived, colliding, pickled

SOURCE = str(pathlib.Path(torch.__file__).parent.parent)
FILES = str(pathlib.Path(__file__).with_name("files.py"))
KINDS = ["zip", "legacy", "pickles", "exported", "npz", "safetensors"]
ENV = {**os.environ, "PYTHONPATH": SOURCE}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")


def ends(kind: str, count: int, seed: int, folder: pathlib.Path) -> dict[str, Any]:
    if kind == "safetensors":
        pytest.importorskip("safetensors")
    done = subprocess.run(
        [sys.executable, FILES, kind, str(count), str(seed)],
        cwd=folder,
        env=ENV,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["failures"] == [] and not found["harm"]
    refused = sum(found["ends"].values()) - found["ends"].get("loaded", 0)
    assert refused > count / 3
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_files(kind: str, tmp_path: pathlib.Path) -> None:
    ends(kind, 150, 1, tmp_path)


MAKER = """
import hashlib, random, sys, time
from fuzz import files
time.localtime = lambda *_: time.gmtime(int(sys.argv[1]))
for kind in sys.argv[2:]:
    data, make, *_ = files.original(kind)
    made = [make(random.Random(f"1, {i}"), data) for i in range(40)]
    print(kind, *[hashlib.md5(file).hexdigest() for file in [data, *made]])
"""


def test_a_seed_decides_every_byte_of_a_file() -> None:
    """Not the date, nor the order of sets: a tree passes or fails on every day, everywhere."""
    pytest.importorskip("safetensors")
    paths = os.pathsep.join([SOURCE, str(pathlib.Path(FILES).parent.parent)])
    found = []
    for date in ("1000000000", "1600000001"):
        env = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": date}
        command = [sys.executable, "-c", MAKER, date, *KINDS]
        found.append(subprocess.run(command, env=env, capture_output=True, text=True, check=True))
    assert found[0].stdout == found[1].stdout and len(found[0].stdout.split()) == 6 * 42


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_many_hostile_files(kind: str, tmp_path: pathlib.Path) -> None:
    """`run.py` reads any number of each kind, under AddressSanitizer with `make sanitize`."""
    ends(kind, 2000, 2, tmp_path)


DEEP = b")" + b"\x85" * 300_000
CRAFTED = {
    "a deep key in pairs that are lists": (b"ccollections\nOrderedDict\n(](](", DEEP, b"K\1eetR"),
    "a deep key in pairs": (b"ccollections\nOrderedDict\n(](", DEEP, b"K\1\x86etR"),
    "a deep key": (b"}", DEEP, b"K\1s"),
    "a deep element of a set": (b"cbuiltins\nset\n(](", DEEP, b"etR"),
    "a number that no float holds": (b"cbuiltins\ncomplex\n(\x8a\xff", b"\x7f" * 255, b"K\1tR"),
    "ints with one hash": (colliding(100_000, 0),),
    "complex numbers with one hash": (colliding(60_000, 1),),
}


LOAD = """
import sys, tapegrad as torch
for path in sys.argv[1:]:
    try:
        torch.load(path)
        print("loaded", flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


def test_crafted_keys_are_refused(tmp_path: pathlib.Path) -> None:
    """Each of these killed the process, kept it busy for minutes or raised OverflowError."""
    paths = []
    for what, codes in CRAFTED.items():
        paths.append(tmp_path / f"{what}.pt")
        paths[-1].write_bytes(archived(pickled(*codes)))
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *paths], env=ENV, capture_output=True, text=True, timeout=100
    )
    ends = dict(itertools.zip_longest(CRAFTED, done.stdout.split(), fillvalue="died"))
    assert ends == dict.fromkeys(CRAFTED, "UnpicklingError")


def test_keys_that_are_numbers_or_tuples_load() -> None:
    keys = [*range(-300, 300), 2.5, (1, "x"), (1, (2, 3)), 1 << 70, complex(1, 2), None, True, "x"]
    file = io.BytesIO()
    torch.save([dict.fromkeys(keys, i) for i in range(100)], file)
    file.seek(0)
    assert torch.load(file) == [dict.fromkeys(keys, i) for i in range(100)]


SAVER = """
import sys, tapegrad as torch
print("ready", flush=True)
n = 0
while True:
    n += 1
    torch.save({"n": n, "x": torch.full((250_000,), float(n))}, sys.argv[1])
"""


def kill_while_saving(file: pathlib.Path, times: int) -> None:
    draw = random.Random(0)
    for _ in range(times):
        saver = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(file)], env=ENV, stdout=subprocess.PIPE
        )
        assert saver.stdout is not None
        saver.stdout.readline()
        while not file.exists():
            time.sleep(0.001)
        time.sleep(draw.uniform(0.0, 0.05))
        saver.kill()
        saver.wait()
        saver.stdout.close()
        found = torch.load(file)
        assert bool((found["x"] == found["n"]).all())


def test_a_kill_leaves_no_broken_file(tmp_path: pathlib.Path) -> None:
    kill_while_saving(tmp_path / "checkpoint.pt", 2)


@pytest.mark.thorough
def test_sixty_kills_leave_no_broken_file(tmp_path: pathlib.Path) -> None:
    kill_while_saving(tmp_path / "checkpoint.pt", 60)
