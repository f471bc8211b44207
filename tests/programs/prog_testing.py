"""torch.testing: what counts as close, what the messages say, which tensors are made."""

import collections

import numpy as np

from programs.harness import program

NAN, INF = float("nan"), float("inf")


def complete(torch, log, actual, expected, **options):
    """The whole message: it is what users read."""
    try:
        torch.testing.assert_close(actual, expected, **options)
    except Exception as error:
        log(type(error).__name__, str(error))
    else:
        log("close")


@program
def close_tensors(torch, log):
    t = torch.tensor
    complete(torch, log, t([1.0, 2.0]), t([1.0, 2.0]))
    complete(torch, log, t([1.0]), t([1.0 + 1e-6]))
    complete(torch, log, t([1e-6]), t([0.0]))
    complete(torch, log, t([1.0], dtype=torch.float64), t([1.00000005], dtype=torch.float64))
    complete(torch, log, t([INF]), t([INF]))
    complete(torch, log, torch.empty(0), torch.empty(0))
    complete(torch, log, torch.nn.Parameter(torch.ones(2)), torch.ones(2))


@program
def different_tensors(torch, log):
    t = torch.tensor
    complete(torch, log, t([1.0, 2.0, 3.0]), t([1.0, 2.5, 4.0]))
    complete(torch, log, t([[1.0, 2.0], [3.0, 4.0]]), t([[1.0, 2.0], [3.0, 5.0]]))
    complete(torch, log, t(1.0), t(2.0))
    complete(torch, log, t([1, 2]), t([1, 3]))
    complete(torch, log, t([True]), t([False]))
    complete(torch, log, t([1.0, 2.0, 3.0], dtype=torch.float16), t([1.0, 2.0, 3.25]).half())
    complete(torch, log, t([1], dtype=torch.int8), t([-128], dtype=torch.int8))
    complete(torch, log, t([1], dtype=torch.uint8), t([255], dtype=torch.uint8))
    complete(torch, log, t([1 + 1j]), t([1 + 2j]))
    complete(torch, log, t([0.1, 0.2]), t([0.0, 0.0]))
    complete(torch, log, torch.ones(100), torch.ones(100).index_fill(0, t([7]), 2.0))


@program
def infinities_and_nans(torch, log):
    t = torch.tensor
    complete(torch, log, t([NAN]), t([NAN]))
    complete(torch, log, t([NAN]), t([NAN]), equal_nan=True)
    complete(torch, log, t([NAN, 1.0]), t([NAN, 2.0]), equal_nan=True)
    complete(torch, log, t([INF]), t([1.0]))
    complete(torch, log, t([INF]), t([-INF]))
    complete(torch, log, NAN, NAN)
    complete(torch, log, NAN, NAN, equal_nan=True)


@program
def tolerances(torch, log):
    t = torch.tensor
    complete(torch, log, t([1.0, 2.0]), t([1.0, 3.0]), rtol=0, atol=0)
    complete(torch, log, t([1.0, 2.0]), t([1.0, 3.0]), rtol=0.1, atol=0.2)
    complete(torch, log, t([1.0, 2.0]), t([1.0, 3.0]), rtol=0.0, atol=1.0)
    complete(torch, log, t([1]), t([3]), rtol=0.5, atol=0)
    complete(torch, log, t([1.0]), t([1.0]), rtol=1)
    complete(torch, log, t([1.0]), t([1.0]), atol=1)
    complete(torch, log, 1.0, 1.2, rtol=0.1, atol=0.01)


@program
def attributes(torch, log):
    t = torch.tensor
    complete(torch, log, t([1, 2, 3]), t([1, 2]))
    complete(torch, log, torch.empty(0), torch.empty(0, 2))
    complete(torch, log, t([1.0]), t([1]))
    complete(torch, log, t([1.0]), t([1]), check_dtype=False)
    complete(torch, log, t([1.0]), t([2], dtype=torch.int32), check_dtype=False)
    complete(torch, log, t([1.0]), t([1.0 + 1e-6]).double(), check_dtype=False)
    complete(torch, log, torch.ones(3, 2).t(), torch.ones(2, 3))
    complete(torch, log, torch.ones(3, 2).t(), torch.ones(2, 3), check_stride=True)


@program
def numbers(torch, log):
    complete(torch, log, 1, 1)
    complete(torch, log, 1, 2)
    complete(torch, log, 1.0, 2.0)
    complete(torch, log, 1, 1.0)
    complete(torch, log, 1, 1.0, check_dtype=False)
    complete(torch, log, 1 + 1j, 1 + 2j)
    complete(torch, log, 0.1, 0.0)
    complete(torch, log, True, True)
    complete(torch, log, True, False)
    complete(torch, log, None, None)
    complete(torch, log, 3, None)
    complete(torch, log, np.float64(1.0), np.float64(2.0))
    complete(torch, log, 1.0, np.float64(1.0))
    complete(torch, log, np.array([1.0]), np.array([2.0]))


@program
def structures(torch, log):
    t = torch.tensor
    complete(torch, log, [1, 2], [1, 2])
    complete(torch, log, (1, 2), [1, 2])
    complete(torch, log, [1, 2], [1, 3])
    complete(torch, log, [1, 2], [1, 2, 3])
    complete(torch, log, [[]], [[1]])
    complete(torch, log, [t(1.0), [t(2.0)]], [t(1.0), [t(3.0)]])
    complete(torch, log, {"a": 1}, {"a": 2})
    complete(torch, log, {"a": 1, "c": 2}, {"a": 1, "b": 1})
    complete(torch, log, {"a": [1, {"b": t([2.0])}]}, {"a": [1, {"b": t([3.0])}]})
    complete(torch, log, collections.OrderedDict(a=1), {"a": 1})
    complete(torch, log, [], [])


@program
def things_that_cannot_be_compared(torch, log):
    complete(torch, log, "a", "a")
    complete(torch, log, torch.ones(1), [1.0])
    complete(torch, log, torch.ones(1), 1.0)
    complete(torch, log, {1: 2}, [1])
    complete(torch, log, torch.ones(1), np.ones(1, np.float32))

    class Mine(torch.Tensor):
        pass

    complete(torch, log, Mine([1.0]), torch.ones(1))
    log.raises(
        lambda: torch.testing.assert_close(Mine([1.0]), torch.ones(1), allow_subclasses=False)
    )


@program
def own_messages(torch, log):
    t = torch.tensor
    complete(torch, log, t([1.0]), t([2.0]), msg="other words")
    complete(torch, log, t([1.0]), t([2.0]), msg=lambda text: f"header\n\n{text}\n\nfooter")
    complete(torch, log, "a", "b", msg="other words")


@program
def it_does_not_record(torch, log):
    x = torch.ones(2, requires_grad=True)
    complete(torch, log, x * 2, torch.full((2,), 2.0))
    complete(torch, log, x * 2, torch.full((2,), 3.0))


@program
def allclose_of_old(torch, log):
    t = torch.tensor
    log.warns(lambda: torch.testing.assert_allclose(t([1.0]), [1.00005]))
    log.warns(lambda: torch.testing.assert_allclose(t([1.0]), t([2.0])))
    log.warns(lambda: torch.testing.assert_allclose(t([NAN]), t([NAN])))
    log.warns(lambda: torch.testing.assert_allclose(t([1.0]), t([2.0]), msg="mine"))
    log.warns(lambda: torch.testing.assert_allclose(t([1.0]), t([2.0]), rtol=1))
    log.warns(lambda: torch.testing.assert_allclose(t([1.0]), 1.0))


# --- make_tensor -----------------------------------------------------------------------------


def made(torch, *shape, **options):
    torch.manual_seed(0)
    return torch.testing.make_tensor(*shape, device="cpu", **options)


@program
def made_of_every_dtype(torch, log):
    for name in "float32 float64 float16 complex64 complex128 int64 int32 int8 uint8 bool".split():
        log(made(torch, 3, 2, dtype=getattr(torch, name)), torch.rand(1))


@program
def made_of_every_shape(torch, log):
    for shape in [(3,)], [[3]], [torch.Size([2])], [], [()], [0, 3]:
        log(made(torch, *shape, dtype=torch.float32))


@program
def made_between_bounds(torch, log):
    log(made(torch, 3, dtype=torch.float32, low=0), made(torch, 3, dtype=torch.float32, high=0))
    log(made(torch, 3, dtype=torch.int64, low=0.5, high=3.5))
    log(made(torch, 3, dtype=torch.uint8, low=-5), made(torch, 3, dtype=torch.int8, high=300))
    log(made(torch, 3, dtype=torch.bool, low=1))
    log.warns(lambda: made(torch, 3, dtype=torch.float32, low=1, high=1))
    log.raises(lambda: made(torch, 3, dtype=torch.float32, low=2, high=1))
    log.raises(lambda: made(torch, 3, dtype=torch.float32, low=NAN))
    log.raises(lambda: made(torch, 3, dtype=torch.int64, low=1, high=1))
    log.raises(lambda: made(torch, 3, dtype=torch.uint8, low=-5, high=-1))


@program
def made_with_options(torch, log):
    log(made(torch, 2, 3, dtype=torch.float32, noncontiguous=True))
    log(made(torch, 1, dtype=torch.float32, noncontiguous=True))
    log(made(torch, 3, dtype=torch.float32, requires_grad=True))
    log(made(torch, 8, dtype=torch.int64, low=0, high=2, exclude_zero=True))
    log(made(torch, 3, dtype=torch.float32, low=0, high=1e-45, exclude_zero=True))
    log(made(torch, 2, 3, 2, 2, dtype=torch.float32, memory_format=torch.channels_last))
    log.raises(lambda: made(torch, 3, dtype=torch.int64, requires_grad=True))
    log.raises(
        lambda: made(
            torch,
            *(2, 3, 2, 2),
            dtype=torch.float32,
            memory_format=torch.channels_last,
            noncontiguous=True,
        )
    )


@program
def what_is_refused_before_values(torch, log):
    """Kinds, lengths and half of the tolerances are looked at for all pairs first."""
    close = torch.testing.assert_close
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0])
    for actual, expected in (
        (x, y),
        ([x, x], [x, y]),
        ({"a": 1.0}, {"a": 2.0}),
        ([1.0, [2.0]], [2.0, [2.0, 3.0]]),
        ([1.0, x], [2.0, [1.0, 2.0]]),
        (x, [1.0, 2.0]),
        ([], []),
        ([None, True], [None, True]),
        ([None, True], [None, False]),
    ):
        for options in ({}, {"rtol": 0.5}, {"atol": 0.5}, {"msg": "mine"}):
            try:
                close(actual, expected, **options)
                log("close")
            except Exception as error:
                log(type(error).__name__, str(error))
