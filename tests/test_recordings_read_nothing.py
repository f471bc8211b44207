"""What the Python part of a remembered call reads while it is recorded (c/runtime/call_steps.c).

The memory of the arguments cannot be read between the steps of a recording: a fault there is a
value that the Python part has looked at, and the call may not be remembered.
"""

import ctypes
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import table
from tapegrad.api.fast_path import with_memory
from tapegrad.core.late_bound import HOST_KERNELS
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.cpu import KERNELS
from tapegrad.ops.block import apply
from test_public_calls import has_values, outcome

COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = [
    pytest.mark.skipif(HOST_KERNELS.public_function is None, reason="no kernels in C"),
    pytest.mark.skipif(sys.platform != "linux" or COMPILER is None, reason="needs Linux and cc"),
]
SIZE = 1 << 22
WATCHER = r"""
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
static char *memory;
static size_t size;
static struct sigaction before;
static volatile int is_closed;
volatile int reads, recordings, kept, wrong;
static void set(int closed) {
    mprotect(memory, size, closed ? PROT_NONE : PROT_READ | PROT_WRITE);
    is_closed = closed;
}
static void fault(int number, siginfo_t *at, void *context) {
    char *place = at->si_addr;
    if (is_closed && place >= memory && place < memory + size) {
        reads++;
        set(0);
    } else {
        sigaction(SIGSEGV, &before, NULL);
    }
}
void *begin(size_t bytes) {
    struct sigaction now = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    size = bytes;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &now, &before);
    return memory;
}
void end(void) {
    sigaction(SIGSEGV, &before, NULL);
    munmap(memory, size);
}
void tell(int what) {
    if (what < 2) {
        set(what);
    } else { /* a recording ends */
        recordings++;
        kept += what == 3;
        wrong += what == 3 && reads;
        reads = 0;
    }
}
"""


class Guard:
    """Memory that is closed while a Python part runs."""

    def __init__(self, folder):
        source, library = folder / "watcher.c", folder / "watcher.so"
        source.write_text(WATCHER)
        subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        self.c = ctypes.CDLL(str(library))
        self.c.begin.restype, self.c.begin.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        self.memory = np.frombuffer(
            (ctypes.c_char * SIZE).from_address(self.c.begin(SIZE)), np.uint8
        )
        self.used = 0
        KERNELS.watch_recordings(ctypes.cast(self.c.tell, ctypes.c_void_p).value)

    def close(self):
        KERNELS.watch_recordings(0)
        self.c.end()

    def moved(self, x):
        """An array with the same values and strides in this memory."""
        if not x.size:
            return x
        steps = [(n - 1) * s for n, s in zip(x.shape, x.strides, strict=True)]
        low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
        start = self.used - low
        self.used += -(-(high - low + x.itemsize) // 64) * 64
        made = np.ndarray(x.shape, x.dtype, self.memory, start, x.strides)
        made[...] = x
        made.flags.writeable = x.flags.writeable
        return made

    def count(self, name):
        return ctypes.c_int.in_dll(self.c, name).value


@pytest.fixture(scope="module")
def guard(tmp_path_factory):
    found = Guard(tmp_path_factory.mktemp("guard"))
    yield found
    found.close()


def forms(name):
    api = table.APIS[name]
    yield table.find(table.tapegrad, api)
    for ending in ("", "_"):
        yield getattr(table.tapegrad.Tensor, name + ending, None)


@pytest.mark.parametrize("name", [n for n in table.SAMPLED if has_values(n)])
def test_what_is_remembered_has_read_no_value(name, guard):
    for function in forms(name):
        if not isinstance(function, HOST_KERNELS.public_function):
            continue
        for index in range(len(table.APIS[name].samples)):
            for make in (table.plain, table.leaf):
                for _ in range(6):  # seen, then recorded
                    args, kwargs, tensors = table.draw(name, index, make)
                    guard.used = 0
                    for t in tensors:
                        if type(t._array) is np.ndarray:
                            t._array = guard.moved(t._array)
                    wrong = guard.count("wrong")
                    outcome(function, args, kwargs)
                    assert guard.count("wrong") == wrong, (function, index)


SUBSCRIPTS = {
    "int": lambda x, i, n, m: x[1],
    "slices": lambda x, i, n, m: x[1:, ::2],
    "new": lambda x, i, n, m: x[None, ..., 0],
    "rows": lambda x, i, n, m: x[i],
    "columns": lambda x, i, n, m: x[:, i],
    "pairs": lambda x, i, n, m: x[i, i],
    "mask": lambda x, i, n, m: x[m],
    "number": lambda x, i, n, m: x[n],
    "number in a tuple": lambda x, i, n, m: x[n, :2],
    "flag": lambda x, i, n, m: x[n > 1],
    "list": lambda x, i, n, m: x[[0, 2]],
    "true": lambda x, i, n, m: x[True, i],
}


@pytest.mark.parametrize("name", SUBSCRIPTS)
def test_subscripts_read_no_value(name, guard):
    """And the values of later calls are those that are read."""
    guard.used = 0
    rng = np.random.default_rng(0)
    for turn in range(12):
        x, i = rng.random((3, 4)).astype(np.float32), rng.integers(0, 3, 2)
        n, m = np.array(turn % 3), rng.random((3, 4)) > 0.5
        wanted = SUBSCRIPTS[name](x, i, n, m)
        guard.used = 0
        tensors = [table.plain(guard.moved(array)) for array in (x, i, n, m)]
        wrong = guard.count("wrong")
        found = SUBSCRIPTS[name](*tensors)
        assert guard.count("wrong") == wrong
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_reads_are_seen():
    """In a process of its own: what other tests leave behind may end all recording."""
    code = "import test_recordings_read_nothing as t; t.see_reads()"
    folder = pathlib.Path(__file__).parent
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


def see_reads():
    with tempfile.TemporaryDirectory() as folder:
        guard = Guard(pathlib.Path(folder))
    function = with_memory(lambda x: apply(REGISTRY["neg"], (x,)))
    recordings, kept, wrong = [guard.count(name) for name in ("recordings", "kept", "wrong")]
    x = table.tapegrad.randn(3, 4)
    x._array = guard.moved(x._array)
    for _ in range(4):
        function(x)
    assert guard.count("recordings") == recordings + 1 and guard.count("kept") == kept + 1
    assert guard.count("wrong") == wrong
    reading = with_memory(lambda x: apply(REGISTRY["neg" if x._array[0, 0] > 0 else "exp"], (x,)))
    for _ in range(4):
        reading(x)
    assert guard.count("wrong") == wrong + 1
