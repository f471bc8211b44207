"""`tapegrad.export.c`: files that compile without a warning and do what the function does."""

from __future__ import annotations

import functools
import json
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import nn
from tapegrad.kernels.cpu import KERNELS

HERE = Path(__file__).parent
STRICT = ["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror"]
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
NATIVE = ["-march=native"] if platform.machine() == "x86_64" else []
PROGRAMS = """
mlp_sgd mlp_adam mlp_predicts physics conv_net conv_predicts lstm gpt dropout batch_norm
normed_predicts group_norm gru rnn words variational q_learning up_and_down
""".split()

pytestmark = pytest.mark.skipif(
    KERNELS is None or not COMPILERS, reason="needs the kernels in C and a C compiler"
)

DRIVER = """
#include <stdint.h>
#include <stdio.h>
#include "model.c"
static struct { double aligned; unsigned char bytes[%(most)d]; } given[%(count)d];
int main(void) {
    model_init();
    for (;;) {
        %(reads)s
        %(call)s
    }
}
"""


@functools.cache
def exported(name: str, folder: Path) -> dict:
    """A program's file, with what the compiled function is given and answers."""
    folder.mkdir(exist_ok=True)
    run([sys.executable, str(HERE / "export_c_programs.py"), name, str(folder)])
    return json.loads((folder / "sizes.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("export_c")
    return lambda name: made / name


def run(command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, **kwargs)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def driver(folder: Path, sizes: dict) -> str:
    """A program that reads arguments and writes results."""
    text = (folder / "model.c").read_text()
    head = re.search(r"^(\w+) (model_(?:step|predict))\((.*)\) \{", text, re.MULTILINE)
    types = [t.strip().rsplit("*", 1)[0] for t in head[3].split(",")]
    given = [f"({t}*)(void *)given[{i}].bytes" for i, t in enumerate(types)]
    reads = "\n".join(
        f"if (fread(given[{i}].bytes, {n}, 1, stdin) != 1) return 0;"
        for i, n in enumerate(sizes["arguments"])
    )
    call = f"{head[2]}({', '.join(given)})"
    if head[1] == "void":
        last = f"given[{len(types) - 1}].bytes"
        call = f"{call}; fwrite({last}, {sizes['results']}, 1, stdout);"
    else:
        call = f"{{ {head[1]} r = {call}; fwrite(&r, sizeof r, 1, stdout); }}"
    most = max([*sizes["arguments"], sizes["results"]])
    return DRIVER % {"most": most, "count": len(types), "reads": reads, "call": call}


def answers(folder: Path, sizes: dict, compiler: list[str], runner=(), steps: int = 100) -> bytes:
    (folder / "driver.c").write_text(driver(folder, sizes))
    program = folder / "driver"
    run([*compiler, *STRICT, "-o", str(program), str(folder / "driver.c"), "-lm"])
    given = (folder / "given.bin").read_bytes()[: steps * sum(sizes["arguments"])]
    done = subprocess.run([*runner, str(program)], input=given, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_does_what_the_compiled_function_does_to_the_bit(name, folder):
    sizes = exported(name, folder(name))
    wanted = (folder(name) / "wanted.bin").read_bytes()
    for compiler in COMPILERS:
        found = answers(folder(name), sizes, [compiler, "-O3", *NATIVE, "-fno-math-errno"])
        assert found == wanted, compiler


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_sanitizers_are_silent(name, folder):
    sizes, steps = exported(name, folder(name)), 4
    wanted = (folder(name) / "wanted.bin").read_bytes()[: steps * sizes["results"]]
    flags = ["-O1", "-g", *NATIVE, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    assert answers(folder(name), sizes, [COMPILERS[0], *flags], steps=steps) == wanted


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64")),
    reason="needs a compiler for arm64 and QEMU",
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_arm64_has_the_same_bits(name, folder):
    sizes, steps = exported(name, folder(name)), 10
    wanted = (folder(name) / "wanted.bin").read_bytes()[: steps * sizes["results"]]
    compiler = ["aarch64-linux-gnu-gcc", "-O2", "-static"]
    assert answers(folder(name), sizes, compiler, ["qemu-aarch64"], steps) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_arena_is_the_plan_and_nothing_is_allocated(name, folder):
    sizes = exported(name, folder(name))
    assert sizes["planned"] == sizes["plan"]
    text = (folder(name) / "model.c").read_text()
    assert f"MODEL_ARENA_BYTES = {sizes['arena']}," in text
    object_file = folder(name) / "model.o"
    compiler = [COMPILERS[0], *STRICT, "-O2", "-c"]
    run([*compiler, "-o", str(object_file), str(folder(name) / "model.c")])
    undefined = run(["nm", "--undefined-only", str(object_file)])
    assert not re.search(r"alloc|free|printf|fopen", undefined)
    if name == "mlp_sgd":
        assert object_file.stat().st_size <= 200_000


def small(optimizer=torch.optim.SGD, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    made = optimizer(model.parameters(), lr=0.1, **options)

    def step(x, y):
        made.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        made.step()
        return loss

    return model, made, step, (torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))


def library(path: Path):
    import ctypes

    made = path.with_suffix(".so")
    run([COMPILERS[0], *STRICT, "-O2", "-shared", "-fPIC", "-o", str(made), str(path), "-lm"])
    found = ctypes.CDLL(str(made))
    found.model_step.restype = ctypes.c_float
    found.model_refused.restype = ctypes.c_char_p
    return found


def pointer(array):
    import ctypes

    return ctypes.c_void_p(array.ctypes.data)


def test_tensors_are_afterwards_as_before(tmp_path):
    model, optimizer, step, args = small(torch.optim.Adam)
    before = [p.detach().clone() for p in model.parameters()]
    random = torch.get_rng_state()
    torch.export.c(step, args, tmp_path / "model.c")
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert not optimizer.state
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize(
    "optimizer, options",
    [
        (torch.optim.SGD, {}),
        (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.5}),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        (torch.optim.SGD, {"maximize": True}),
        (torch.optim.Adam, {"amsgrad": True}),
        (torch.optim.AdamW, {}),
        (torch.optim.RMSprop, {"momentum": 0.5, "centered": True}),
        (torch.optim.Adagrad, {}),
        (torch.optim.Adadelta, {}),
    ],
)
def test_a_fresh_optimizer_begins_as_in_python(tmp_path, optimizer, options):
    model, _, step, args = small(optimizer, **options)
    torch.export.c(step, args, tmp_path / "model.c")
    found = library(tmp_path / "model.c")
    found.model_init()
    x, y = (np.ascontiguousarray(t.numpy()) for t in args)
    for _ in range(4):
        assert found.model_step(pointer(x), pointer(y)) == pytest.approx(
            step(*args).item(), rel=1e-5
        )
    numbers = np.empty(sum(p.numel() for p in model.parameters()), np.float32)
    found.model_get_parameters(pointer(numbers))
    named = sorted([(n, p.detach().numpy()) for n, p in model.named_parameters()])
    np.testing.assert_allclose(
        numbers, np.concatenate([p.reshape(-1) for _, p in named]), rtol=1e-4, atol=1e-5
    )
    found.model_set_parameters(pointer(numbers * 0))
    assert found.model_step(pointer(x), pointer(y)) == pytest.approx(np.log(3), rel=1e-5)
    found.model_init()
    first = found.model_step(pointer(x), pointer(y))
    found.model_init()
    assert found.model_step(pointer(x), pointer(y)) == first


def test_a_schedule_and_random_numbers_begin_as_they_were(tmp_path):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss

    x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
    torch.export.c(step, (x, y), tmp_path / "model.c")
    assert scheduler.last_epoch == 0 and optimizer.param_groups[0]["lr"] == 0.5
    found = library(tmp_path / "model.c")
    found.model_init()
    at = [pointer(x.numpy()), pointer(y.numpy())]
    for _ in range(6):
        assert found.model_step(*at) == pytest.approx(step(x, y).item(), rel=1e-5)
    torch.manual_seed(7)
    found.model_seed(7)
    assert found.model_step(*at) == pytest.approx(step(x, y).item(), rel=1e-5)


def test_a_class_out_of_range_is_refused(tmp_path):
    _, _, step, args = small()
    torch.export.c(step, args, tmp_path / "model.c")
    found = library(tmp_path / "model.c")
    found.model_init()
    x, y = (np.ascontiguousarray(t.numpy()) for t in args)
    assert found.model_step(pointer(x), pointer(y)) > 0
    assert found.model_refused() is None
    assert np.isnan(found.model_step(pointer(x), pointer(y + 7)))
    assert b"out of range" in found.model_refused()


def test_a_refused_step_leaves_no_state_behind(tmp_path):
    model, optimizer, step, args = small(torch.optim.Adam)
    before = [p.detach().clone() for p in model.parameters()]

    def in_python_too(x, y):
        loss = step(x, y)
        return torch.linalg.svdvals(x).sum() + loss

    with pytest.raises(RuntimeError, match="svdvals"):
        torch.export.c(in_python_too, args, tmp_path / "model.c")
    assert not optimizer.state and not list(tmp_path.iterdir())
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))


def test_weights_in_a_file_of_their_own(tmp_path):
    _, _, step, args = small()
    torch.export.c(step, args, tmp_path / "model.c", weights=tmp_path / "model.bin")
    found = library(tmp_path / "model.c")
    x, y = (np.ascontiguousarray(t.numpy()) for t in args)
    found.model_init()
    assert found.model_load(str(tmp_path / "none.bin").encode()) == 0
    assert found.model_load(str(tmp_path / "model.bin").encode()) == 1
    assert found.model_step(pointer(x), pointer(y)) == pytest.approx(step(*args).item(), rel=1e-5)


def test_comments_name_the_users_lines(tmp_path):
    _, _, step, args = small()
    torch.export.c(step, args, tmp_path / "model.c")
    text = (tmp_path / "model.c").read_text()
    assert "/* loss = F.cross_entropy(model(x), y) */" in text
    assert "/* made.step() */" in text


def test_what_runs_in_python_is_refused_with_its_line(tmp_path):
    def step(x):
        return torch.linalg.svdvals(x + 1).sum()

    with pytest.raises(RuntimeError, match=r"torch.linalg.svdvals\(x \+ 1\)"):
        torch.export.c(step, (torch.randn(3, 3),), tmp_path / "model.c")

    def prints(x):
        print("a side effect")
        return x + 1

    with pytest.raises(RuntimeError):
        torch.export.c(prints, (torch.randn(3),), tmp_path / "model.c")
    with pytest.raises(RuntimeError, match="eval"):
        torch.export.c(nn.Dropout(), (torch.randn(3),), tmp_path / "model.c")
    assert not list(tmp_path.iterdir())


def test_the_command(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "w = torch.ones(3, requires_grad=True)\n"
        "example_args = (torch.ones(3),)\n"
        "def step(x):\n"
        "    loss = (w * x).sum()\n"
        "    loss.backward()\n"
        "    with torch.no_grad():\n"
        "        w.sub_(w.grad)\n"
        "    w.grad = None\n"
        "    return loss\n"
    )
    command = [sys.executable, "-m", "tapegrad", "export-c", str(script)]
    assert "arena" in run([*command, "-o", str(tmp_path / "model.c")])
    assert "float model_step(const float *x)" in (tmp_path / "model.c").read_text()


def test_the_example_learns(tmp_path):
    example = HERE.parent / "examples" / "c_file"
    run([sys.executable, "-m", "tapegrad", "run", str(example / "export.py")], cwd=tmp_path)
    compiler = [COMPILERS[0], *STRICT, "-O2", "-o", str(tmp_path / "spiral")]
    run([*compiler, str(example / "main.c"), "learn.c", "answer.c", "-lm"], cwd=tmp_path)
    right = re.search(r"([\d.]+) % of new points right", run([str(tmp_path / "spiral")]))
    assert float(right[1]) > 95


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs a compiler for ARM")
def test_a_microcontroller_has_room_and_learns(tmp_path):
    example = HERE.parent / "examples" / "c_micro"
    run([sys.executable, "-m", "tapegrad", "run", str(example / "export.py")], cwd=tmp_path)
    compiler = ["arm-none-eabi-gcc", "-mthumb", *STRICT, "-O2", "-ffp-contract=off"]
    small = [*compiler, "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
    run([*small, "-c", "sense.c"], cwd=tmp_path)
    code, data, zeros = map(
        int, run(["arm-none-eabi-size", "sense.o"], cwd=tmp_path).splitlines()[1].split()[:3]
    )
    assert code + data < 8_000 and data + zeros < 10_000
    undefined = run(["arm-none-eabi-nm", "--undefined-only", str(tmp_path / "sense.o")])
    assert not re.search(r"alloc|free|printf", undefined)
    if shutil.which("qemu-arm"):  # which has processors with an operating system only
        large = [*compiler, "-mcpu=cortex-a7", "-mfloat-abi=hard", "-mfpu=vfpv4"]
        files = [str(example / "main.c"), "sense.c", "told.c"]
        run([*large, "--specs=rdimon.specs", *files, "-lm", "-o", "sense"], cwd=tmp_path)
        said = run(["qemu-arm", "-cpu", "cortex-a7", "sense"], cwd=tmp_path)
        assert int(re.search(r"(\d+) of 300", said)[1]) > 290
