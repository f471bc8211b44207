"""dtypes, promotion, limits, sizes and devices."""

import pickle

from programs.harness import program

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
NAMES += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
# Without bfloat16, whose arrays need an optional package, and without the unsigned ones that
# PyTorch itself does no arithmetic on.
PLAIN = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
LIMITS = ["bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"]


@program
def promote_types(torch, log):
    for a in NAMES:
        for b in NAMES:
            log.raises(lambda a=a, b=b: torch.promote_types(getattr(torch, a), getattr(torch, b)))
    log.raises(lambda: torch.promote_types(1, torch.int8))
    log.raises(lambda: torch.promote_types(torch.int8, "int8"))


@program
def can_cast(torch, log):
    for a in NAMES:
        log(a, [torch.can_cast(getattr(torch, a), getattr(torch, b)) for b in NAMES])
    log.raises(lambda: torch.can_cast(1, torch.int8))


@program
def attributes(torch, log):
    for name in NAMES:
        d = getattr(torch, name)
        log(d, repr(d), d.is_signed, d.is_floating_point, d.is_complex, d.itemsize, d.to_real())
        log(pickle.loads(pickle.dumps(d)) is d)
        if d is not torch.float16:
            log.raises(d.to_complex)
    for alias in ["half", "float", "double", "short", "int", "long", "cfloat", "cdouble"]:
        log(alias, getattr(torch, alias))
    log.raises(torch.dtype)
    log.raises(lambda: setattr(torch.float32, "itemsize", 1))
    log.raises(lambda: torch.float32.nothing)


@program
def limits(torch, log):
    for kind in (torch.finfo, torch.iinfo):
        for name in NAMES:
            d = getattr(torch, name)
            log.raises(lambda kind=kind, d=d: repr(kind(d)))
            for field in LIMITS:
                log.raises(lambda kind=kind, d=d, field=field: getattr(kind(d), field))
        log.raises(lambda kind=kind: str(kind()))
        log.raises(lambda kind=kind: kind(3))
        log.raises(lambda kind=kind: kind(type=3))
        log.raises(lambda kind=kind: kind(torch.float32, 1))
    log(torch.finfo() == torch.finfo(torch.float32), torch.finfo() == torch.finfo(torch.float64))
    log(torch.iinfo(torch.int8) != torch.iinfo(torch.uint8))


@program
def default_dtype(torch, log):
    try:
        for name in NAMES:
            log.raises(lambda name=name: torch.set_default_dtype(getattr(torch, name)))
            log(torch.get_default_dtype())
        for name in ("float32", "float64"):
            torch.set_default_dtype(getattr(torch, name))
            ints = torch.tensor([1, 2])
            log(torch.tensor(1.0).dtype, torch.tensor(1j).dtype, torch.tensor(1).dtype)
            log((ints + 1.0).dtype, (ints + 1j).dtype, (ints / 2).dtype, repr(torch.finfo()))
            log(torch.result_type(ints, 1.5), torch.result_type(2, 1j))
    finally:
        torch.set_default_dtype(torch.float32)
    log.raises(lambda: torch.set_default_dtype(3))


@program
def result_type_of_tensors(torch, log):
    for a in PLAIN:
        for b in PLAIN:
            if {a, b} & {"float16"} and {a, b} & {"complex64", "complex128"}:
                continue  # PyTorch's answer may be complex32
            for m in ((), (1,)):
                for n in ((), (1,)):
                    x = torch.ones(m, dtype=getattr(torch, a))
                    y = torch.ones(n, dtype=getattr(torch, b))
                    log(a, m, b, n, torch.result_type(x, y), (x * y).dtype)


@program
def result_type_of_scalars(torch, log):
    for a in PLAIN:
        for value in (True, 3, 2.5, 1j):
            if a == "float16" and value == 1j:
                continue
            for m in ((), (1,)):
                x = torch.ones(m, dtype=getattr(torch, a))
                log(a, m, torch.result_type(x, value), torch.result_type(value, x))
                log((x * value).dtype, (value * x).dtype)
    for left in (True, 3, 2.5, 1j):
        log([torch.result_type(left, right) for right in (True, 3, 2.5, 1j)])
    log.raises(lambda: torch.result_type(torch.ones(1), 2**64))
    log.raises(lambda: torch.result_type(torch.ones(1), "a"))


@program
def sizes(torch, log):
    s = torch.Size([2, 3])
    log(s, repr(s), str(s), s.numel(), torch.Size().numel(), s == (2, 3), hash(s) == hash((2, 3)))
    log(s[0], s[-1], s[:1], s[::-1], s + (4,), (4,) + s, s + s, s * 2, 2 * s)
    log(pickle.loads(pickle.dumps(s)), torch.Size([True]), torch.Size(range(3)), torch.Size(s))
    log(torch.ones(2, 3).shape, torch.ones(2, 3).size()[1:], torch.Size([torch.tensor(3)]))
    for bad in ([1.5], ["a"], [None], [1, [2]], 3, None, [torch.tensor(3.0)]):
        log.raises(lambda bad=bad: torch.Size(bad))
    log.raises(lambda: torch.Size(2, 3))
    log.raises(lambda: s + [4])
    log.raises(lambda: s + 1)
    log.raises(lambda: s + (1.5,))
    log.raises(lambda: ("a",) + s)
    log.raises(lambda: s * 1.5)
    log.raises(lambda: s[2])
    log.raises(lambda: s["a"])


@program
def devices(torch, log):
    device = torch.device
    for text in ("cpu", "cuda", "cuda:1", "cpu:0", "meta", "mps", "xpu:3", b"cpu"):
        d = device(text)
        log(d, repr(d), d.type, d.index, pickle.loads(pickle.dumps(d)) == d)
    for bad in ("foo", "", "cuda:", "cuda:-1", "cuda:a", "cuda:01", "cuda:1:2", "CPU", " cpu"):
        log.raises(lambda bad=bad: device(bad))
    for bad in (None, 1.5, True, -1, "cuda:99999999999999999999", [], ("cpu",)):
        log.raises(lambda bad=bad: device(bad))
    log(device("cuda", 1), device(type="cuda", index=1), device(device("cuda:1")))
    log(device("cpu", None), device(type="cuda"), device(device="cuda:2"))
    log.raises(lambda: device())
    log.raises(lambda: device("cpu", -1))
    log.raises(lambda: device("cpu", "0"))
    log.raises(lambda: device("cuda:0", 1))
    log.raises(lambda: device("cpu", 0, 1))
    log.raises(lambda: device(index=1))
    log.raises(lambda: setattr(device("cpu"), "type", "cuda"))
    log.raises(lambda: device("cpu") < device("cuda"))
    log(device("cpu") == device("cpu"), device("cpu") == device("cpu:0"), device("cpu") == "cpu")
    log(device("cpu") != device("cuda"), len({device("cuda:1"), device("cuda", 1)}))
    with device("cpu") as inside:
        log(inside, torch.ones(1).device)


@program
def layouts(torch, log):
    every = [torch.strided, torch.contiguous_format, torch.preserve_format]
    every += [torch.channels_last, torch.channels_last_3d]
    for value in every:
        log(repr(value), str(value), pickle.loads(pickle.dumps(value)) is value)
    log(torch.ones(1).layout is torch.strided)
    log.raises(torch.layout)
    log.raises(torch.memory_format)
