"""What tensors look like: repr, str and format under every print option."""

import contextlib
import math

from programs.harness import program

INF, NAN = math.inf, math.nan


@contextlib.contextmanager
def defaults_after(torch):
    """Put the global options back, also after an error: the programs run in one process."""
    try:
        yield
    finally:
        torch.set_printoptions(profile="default")
        torch.set_default_dtype(torch.float32)


def show(log, *tensors):
    for t in tensors:
        log(repr(t))


@program
def scalars(torch, log):
    for value in (1.0, 0.0, -0.0, 3.14159, 1e-5, 123456789.0, 1e10, INF, -INF, NAN, 7, -7, True):
        show(log, torch.tensor(value))
    show(log, torch.tensor(1 + 2j), torch.tensor(-1.5 - 0.25j), torch.tensor(complex(NAN, -INF)))
    log(str(torch.tensor(2.5)), f"{torch.tensor([2.5, 1.0])}", f"{torch.tensor(3)!s}")


@program
def float_notation(torch, log):
    rows = [
        [1.0, 2.0, 3.0],
        [0.0, 0.0],
        [-0.0, 0.0],
        [0.5, 100.0],
        [0.1, 100.0, 1000.0],
        [1.0, 1000.0],
        [1.0, 1001.0],
        [1.0, 1e8],
        [1e8, 1e8],
        [1e8 + 8, 1e8],
        [1.5, 99999.0],
        [1e-4, 1e-4],
        [1.1e-4, 2e-3],
        [9e-5, 1e-4],
        [1.5, 1e-20],
        [-1.0, 10.0, -100.0],
        [-1.25, 10.5, -100.75],
        [1e38, 1e-38],
        [0.99999, 0.5],
        [9.99999, 0.5],
    ]
    for row in rows:
        show(log, torch.tensor(row), torch.tensor(row, dtype=torch.float64))


@program
def non_finite(torch, log):
    rows = [
        [INF],
        [NAN, NAN],
        [1.0, NAN],
        [1.0, -INF],
        [0.0, -INF, NAN],
        [1.5, INF],
        [-1.5, -INF],
        [100000.0, -INF],
        [1e10, INF, 0.0, NAN],
    ]
    for row in rows:
        show(log, torch.tensor(row), torch.tensor([row, row]))


@program
def half_precision(torch, log):
    rows = [[1.0, 2.0], [0.1, 0.2, 0.3], [65504.0, 1.0], [1e-4, 2e-4], [6e-8, 1.0], [NAN, INF, 1.5]]
    for row in rows:
        show(log, torch.tensor(row, dtype=torch.float16))


@program
def bfloat16(torch, log):
    for row in ([1.0, 2.0], [0.1, 0.2, 0.3], [3e38, 1.0], [1e-4, 2e-4], [NAN, INF, 1.5]):
        show(log, torch.tensor(row, dtype=torch.bfloat16))


@program
def integers(torch, log):
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        show(log, torch.tensor([1, 20, 127], dtype=dtype), torch.tensor(5, dtype=dtype))
    for dtype in (torch.uint16, torch.uint32, torch.uint64):
        show(log, torch.tensor([1, 20, 127], dtype=dtype))
    show(log, torch.tensor([-1, 100]), torch.tensor([2**63 - 1, -(2**63)]))
    show(log, torch.tensor([True, False]), torch.tensor([[True], [True]]))
    show(log, torch.arange(-3, 60), torch.arange(24).reshape(2, 3, 4))


@program
def complex_numbers(torch, log):
    rows = [
        [1 + 2j, -3.5 - 1e-6j],
        [complex(NAN, -1), complex(1, -INF), complex(1, NAN)],
        [1 + 100j, 2 - 3j],
        [complex(1, -0.0), 0j],
        [1e10 + 1j, 1 + 0j],
    ]
    for row in rows:
        show(log, torch.tensor(row), torch.tensor(row, dtype=torch.complex128))
    show(log, torch.full((40,), 1.5 - 2.5j), torch.full((1001,), 1j), torch.tensor([1j]).conj())


@program
def shapes(torch, log):
    show(log, torch.zeros(1, 1), torch.ones(2, 3), torch.ones(2, 2, 2), torch.ones(1, 2, 1, 2, 1))
    show(
        log, torch.arange(6.0).reshape(2, 3).t(), torch.arange(10)[::3], torch.ones(1).expand(2, 3)
    )


@program
def empty(torch, log):
    for shape in ((0,), (0, 3), (2, 0), (2, 0, 3)):
        show(log, torch.zeros(shape), torch.zeros(shape, requires_grad=True))
        for dtype in (torch.int64, torch.bool, torch.float64, torch.complex64):
            show(log, torch.zeros(shape, dtype=dtype))


@program
def wrapping(torch, log):
    with defaults_after(torch):
        for n in (18, 19, 24, 25, 40):
            show(log, torch.zeros(n), torch.ones(n), torch.full((n,), 0.5), torch.full((2, n), -1))
            show(log, torch.ones(n) > 0, torch.full((n,), 1e-7))
        for width in (0, 10, 20, 40, 120):
            torch.set_printoptions(linewidth=width)
            show(
                log,
                torch.arange(30.0),
                torch.full((2, 2, 5), 1.25),
                torch.arange(4, dtype=torch.int8),
            )


@program
def summaries(torch, log):
    show(log, torch.zeros(1000), torch.zeros(1001), torch.arange(1001), torch.arange(2000.0) / 7)
    show(log, torch.arange(2000).reshape(2, 1000), torch.arange(2000).reshape(1000, 2))
    show(
        log, torch.zeros(10, 11, 12), torch.arange(1200).reshape(3, 4, 100), torch.zeros(7, 6, 8, 9)
    )
    show(log, torch.arange(3000, dtype=torch.int16).reshape(30, 100))
    # Only what is shown decides the notation and the width.
    t = torch.ones(2000)
    t[1000] = 1e-9
    show(log, t, torch.ones(100000).reshape(10, 10000).t() * 2)


@program
def summary_options(torch, log):
    with defaults_after(torch):
        for edge in (0, 1, 2, 3, 10):
            torch.set_printoptions(threshold=3, edgeitems=edge)
            show(log, torch.arange(30), torch.ones(2, 3), torch.ones(3, 2, 5), torch.ones(5, 1))
            show(log, torch.tensor(1), torch.ones(2), torch.zeros(2, 0, 3), torch.ones(4) * 1j)
            show(log, torch.ones(2, 3, dtype=torch.float64, requires_grad=True))
        torch.set_printoptions(threshold=0, edgeitems=0)
        show(log, torch.tensor(1.5), torch.zeros(0))


@program
def profiles(torch, log):
    with defaults_after(torch):
        samples = (
            torch.arange(1500.0) / 7,
            torch.tensor([1.0, 2.123456789]),
            torch.ones(40, 30) * 0.5,
        )
        for profile in ("short", "default", "unknown"):
            torch.set_printoptions(profile=profile)
            show(log, *samples)
        torch.set_printoptions(profile="full")
        show(log, torch.arange(1100))
        torch.set_printoptions(profile="short", precision=6, edgeitems=1)
        show(log, *samples)
        torch.set_printoptions(profile="default")
        show(log, *samples)


@program
def precision(torch, log):
    with defaults_after(torch):
        for digits in (0, 1, 2, 8):
            torch.set_printoptions(precision=digits)
            show(log, torch.tensor([1.5, 2.25]), torch.tensor([1e9, 1.5]), torch.tensor([1.0, 2.0]))
            show(log, torch.tensor([0.5 + 1j]), torch.tensor(math.pi, dtype=torch.float64))


@program
def scientific(torch, log):
    with defaults_after(torch):
        rows = (
            [1.0, 200.0],
            [0.0, 1.0],
            [0.0, INF],
            [NAN, 1.5],
            [1.0, 20000.0],
            [0.0, 1e-20],
            [1.5, 2e9],
        )
        for mode in (True, False, None):
            torch.set_printoptions(sci_mode=mode)
            show(log, *(torch.tensor(row) for row in rows))
            show(log, torch.tensor([1, 2]), torch.tensor(1.0), torch.tensor([1 + 2j, -3.5 - 1e-6j]))
        torch.set_printoptions(sci_mode=True)
        torch.set_printoptions(precision=3)  # and sci_mode is back at None
        show(log, torch.tensor([1.0, 1.5]))


@program
def default_dtypes(torch, log):
    with defaults_after(torch):
        samples = (
            torch.ones(2, dtype=torch.float32),
            torch.ones(2, dtype=torch.float64),
            torch.ones(2, dtype=torch.float16),
            torch.ones(2, dtype=torch.complex64),
            torch.ones(2, dtype=torch.complex128),
            torch.ones(2, dtype=torch.int64),
            torch.ones(2, dtype=torch.int32),
            torch.ones(2, dtype=torch.bool),
            torch.zeros(0, dtype=torch.float32),
            torch.zeros(0, dtype=torch.float64),
            torch.zeros(0, dtype=torch.complex128),
        )
        for default in (torch.float64, torch.float16, torch.float32):
            torch.set_default_dtype(default)
            show(log, *samples)


@program
def gradients(torch, log):
    x = torch.ones(3, requires_grad=True)
    show(log, x, x * 2, (x * 2).sum(), x.detach(), (x * 2).view(3, 1), torch.zeros(0, 2) * x[:2])
    show(log, x.double() * 2, torch.ones(2, 2, dtype=torch.float64, requires_grad=True))
    y = x * 1
    y[0] = 2.0
    show(log, y)
    with torch.no_grad():
        show(log, x * 2, x)
    with torch.inference_mode():
        show(log, torch.ones(2))


@program
def custom_function(torch, log):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    show(log, Double.apply(torch.ones(2, requires_grad=True)))


@program
def note_breaks(torch, log):
    with defaults_after(torch):
        for n in range(8, 20):
            row = torch.ones(n, dtype=torch.float64, requires_grad=True)
            show(log, row, row * 2, torch.ones(2, n, dtype=torch.float16, requires_grad=True))
            show(log, torch.ones(n, 2, dtype=torch.float64) * row.view(n, 1))
        torch.set_printoptions(linewidth=30)
        show(log, torch.ones(12, dtype=torch.float16, requires_grad=True), torch.zeros(0, 3).half())


@program
def parameters(torch, log):
    class Weight(torch.nn.Parameter):
        pass

    show(log, torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2, 2), False))
    show(
        log, Weight(torch.ones(3, 2)), Weight(torch.ones(30)), torch.nn.Parameter(torch.ones(2)) * 2
    )
    log(str(torch.nn.Parameter(torch.tensor(1.0))), f"{torch.nn.Parameter(torch.tensor(1.0))}")


@program
def subclasses(torch, log):
    class Named(torch.Tensor):
        pass

    t = torch.ones(2, 30).as_subclass(Named)
    show(log, t, t[0, 0], torch.ones(0, 2).as_subclass(Named), torch.zeros(1001).as_subclass(Named))
    log.raises(lambda: format(t[0, 0], ".2f"))


@program
def replaced_contents(torch, log):
    log(torch.ones(3).__repr__(tensor_contents="abc"))
    log(torch.zeros(0, 3).__repr__(tensor_contents="abc"))
    log(torch.zeros(3, dtype=torch.float16).__repr__(tensor_contents="abc\ndef"))


@program
def formatting(torch, log):
    log.raises(lambda: format(torch.tensor(3.14159), ".2f"))
    log.raises(lambda: format(torch.tensor(3.14159), ">10.3e"))
    log.raises(lambda: format(torch.tensor(42), "05d"))
    log.raises(lambda: format(torch.tensor(42)))
    log.raises(lambda: format(torch.tensor(True), "d"))
    log.raises(lambda: format(torch.tensor(1j), ".3f"))
    log.raises(lambda: format(torch.tensor(1.5, requires_grad=True), ".1f"))
    log.raises(lambda: format(torch.tensor([1.5])))
    log.raises(lambda: format(torch.tensor([1.5]), ".2f"))
    log.raises(lambda: format(torch.tensor(3), "s"))


@program
def option_functions(torch, log):
    with defaults_after(torch):
        from_module = torch._tensor_str
        log(from_module.get_printoptions())
        with from_module.printoptions(precision=2, sci_mode=True):
            log(from_module.get_printoptions(), repr(torch.tensor([1.0, 2.5])))
        log(from_module.get_printoptions(), repr(torch.tensor([1.0, 2.5])))
        log.raises(lambda: torch.set_printoptions(colour=True))
