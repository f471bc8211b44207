"""torch.utils.data: from samples to batches, container by container."""

import collections
from unittest import mock

import numpy as np

from programs.harness import program

Point = collections.namedtuple("Point", "x y")


class Plain(dict):
    """A dict that cannot be made from a dict."""

    def __init__(self):
        super().__init__()


class Frozen(tuple):
    pass


def samples(torch):
    plain = Plain()
    plain["a"] = 1
    x = torch.arange(6)
    return {
        "ints": [1, 2],
        "floats": [1.0, 2.5],
        "bools": [True, False],
        "texts": ["a", "b"],
        "bytes": [b"a", b"b"],
        "int and float": [1, 2.5],
        "float and int": [2.5, 1],
        "big ints": [2**40, 1],
        "tensors": [x[:2], x[2:4]],
        "0-d tensors": [x[0], x[1]],
        "unequal tensors": [x[:2], x[:3]],
        "mixed tensors": [torch.ones(2), torch.ones(2, dtype=torch.int32)],
        "with grad": [torch.ones(2, requires_grad=True)] * 2,
        "arrays": [np.ones(2), np.zeros(2)],
        "float32 scalars": [np.float32(1), np.float32(2)],
        "int32 scalars": [np.int32(1), np.int32(4)],
        "bool scalars": [np.bool_(1), np.bool_(0)],
        "complex scalars": [np.complex64(1j)] * 2,
        "0-d arrays": [np.array(1.5), np.array(2)],
        "uint16 arrays": [np.ones(2, np.uint16)] * 2,
        "text arrays": [np.array(["a"])] * 2,
        "object arrays": [np.array([None])] * 2,
        "numpy texts": [np.str_("a"), np.str_("b")],
        "array and tensor": [np.ones(2), torch.ones(2)],
        "dicts": [{"a": 1, "b": 2.0}, {"a": 3, "b": 4.0}],
        "missing key": [{"a": 1}, {"b": 2}],
        "extra key": [{"a": 1}, {"a": 1, "b": 2}],
        "ordered": [collections.OrderedDict(b=1, a=2)] * 2,
        "default": [collections.defaultdict(int, a=1)] * 2,
        "plain": [plain, plain],
        "user dict": [dict(collections.UserDict(a=1))] * 2,
        "points": [Point(1, 2.0), Point(3, 4.0)],
        "tuples": [(1, "a"), (2, "b")],
        "tuple of tuples": ((1, 2), (3, 4)),
        "lists": [[1, 2], [3, 4]],
        "unequal lists": [[1, 2], [3]],
        "frozen": [Frozen((1, 2))] * 2,
        "ranges": [range(3), range(3)],
        "bytearrays": [bytearray(b"ab")] * 2,
        "nested": [{"x": (1, [2.0, "s"])}, {"x": (3, [4.0, "t"])}],
        "empty dicts": [{}, {}],
        "empty tuples": [(), ()],
        "empty": [],
        "nones": [None, None],
        "complex": [1j, 2j],
        "sets": [{1}, {2}],
        "slices": [slice(1)] * 2,
        "int and text": [1, "a"],
        "dates": [np.datetime64("2020")] * 2,
    }


@program
def collate(torch, log):
    for name, batch in samples(torch).items():
        log(name)
        log.raises(lambda batch=batch: torch.utils.data.default_collate(batch))
    deque = torch.utils.data.default_collate([collections.deque([1, 2])] * 2)
    log(type(deque).__name__, list(deque))


@program
def convert(torch, log):
    skipped = ("sets", "slices", "bytearrays")
    for name, batch in samples(torch).items():
        if name not in skipped:
            log(name)
            log.raises(lambda batch=batch: torch.utils.data.default_convert(batch))
    for one in (3, "abc", None, b"ab", np.float32(2), np.array("a"), np.str_("a"), (1, (2,))):
        log.raises(lambda one=one: torch.utils.data.default_convert(one))
    kept = torch.utils.data.default_convert(bytearray(b"ab"))
    log(type(kept).__name__, list(kept))
    x = torch.ones(2)
    log(torch.utils.data.default_convert(x) is x)


@program
def collate_map(torch, log):
    module = torch.utils.data._utils.collate
    log.raises(lambda: module.collate([1, 2]))

    def total(batch, *, collate_fn_map=None):
        return sum(batch)

    def keep(batch, *, collate_fn_map=None):
        return list(batch)

    log(module.collate([1, 2], collate_fn_map={int: total}))
    log(module.collate([True, True], collate_fn_map={int: total}))
    log(module.collate([(1, "a"), (2, "b")], collate_fn_map={(int, float): total, str: keep}))
    log(module.collate([{"a": [None]}] * 2, collate_fn_map={type(None): keep}))
    table = module.default_collate_fn_map
    log([k.__name__ if isinstance(k, type) else [c.__name__ for c in k] for k in table])
    log([f.__name__ for f in table.values()], module.default_collate_err_msg_format)
    with mock.patch.dict(table, {Frozen: keep, slice: keep}):
        log(torch.utils.data.default_collate([Frozen((1, 2))])[0] == (1, 2))
        log(len(torch.utils.data.default_collate([{"s": slice(1)}] * 3)["s"]))
