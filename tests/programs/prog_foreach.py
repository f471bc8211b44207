"""`torch._foreach_*`: one operation on every tensor of a list."""

from programs.harness import program

UNARY = """
    abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg
    reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc
""".split()


def lists(torch, start=0.25):
    first = torch.tensor([start, 0.5, 0.75], dtype=torch.float64)
    second = torch.tensor([[0.375], [0.625]], dtype=torch.float64)
    return [first, second]


@program
def unary(torch, log):
    for name in [*UNARY, "clone"]:
        log(name, getattr(torch, f"_foreach_{name}")(lists(torch)))
    for name in [*UNARY, "zero"]:
        tensors = lists(torch)
        log(name, getattr(torch, f"_foreach_{name}_")(tensors) is tensors, tensors)


@program
def binary(torch, log):
    for name in ("add", "sub", "mul", "div"):
        for other in (2, 1.5, [2.0, 3], lists(torch, 2.0), torch.tensor(0.5, dtype=torch.float64)):
            log(name, getattr(torch, f"_foreach_{name}")(lists(torch), other))
            tensors = lists(torch)
            log(getattr(torch, f"_foreach_{name}_")(tensors, other) is tensors, tensors)
    for name in ("add", "sub"):
        log(getattr(torch, f"_foreach_{name}")(lists(torch), lists(torch), alpha=0.5))


@program
def bounds(torch, log):
    for name in ("maximum", "minimum", "clamp_min", "clamp_max"):
        for other in (0.5, [0.4, 0.6], lists(torch, 2.0)):
            log(name, getattr(torch, f"_foreach_{name}")(lists(torch), other))
            tensors = lists(torch)
            log(getattr(torch, f"_foreach_{name}_")(tensors, other) is tensors, tensors)


@program
def powers(torch, log):
    for exponent in (2, 0.5, [2.0, 3.0], lists(torch, 2.0)):
        log(torch._foreach_pow(lists(torch), exponent))
        tensors = lists(torch)
        log(torch._foreach_pow_(tensors, exponent) is tensors, tensors)
    log(torch._foreach_pow(2.0, lists(torch)))


@program
def three_lists(torch, log):
    a, b = lists(torch, 2.0), lists(torch, 3.0)
    for name in ("addcmul", "addcdiv"):
        for options in (
            {},
            {"value": 0.5},
            {"scalars": [0.5, 2.0]},
            {"scalars": torch.tensor([0.5, 2.0])},
        ):
            log(name, getattr(torch, f"_foreach_{name}")(lists(torch), a, b, **options))
            tensors = lists(torch)
            log(getattr(torch, f"_foreach_{name}_")(tensors, a, b, **options) is tensors, tensors)
    for weight in (0.25, lists(torch)):
        log(torch._foreach_lerp(lists(torch), a, weight))
        tensors = lists(torch)
        log(torch._foreach_lerp_(tensors, a, weight) is tensors, tensors)


@program
def reductions_and_copies(torch, log):
    log(torch._foreach_norm(lists(torch)), torch._foreach_norm(lists(torch), 1))
    log(torch._foreach_norm(lists(torch), ord=float("inf")))
    log(torch._foreach_norm([t.float() for t in lists(torch)], 2, dtype=torch.float64))
    log(torch._foreach_max(lists(torch)), torch._foreach_powsum(lists(torch), 3))
    log(torch._foreach_mm([torch.ones(2, 3)], [torch.ones(3, 2)]))
    tensors = lists(torch)
    log(torch._foreach_copy_(tensors, [torch.ones(3), torch.zeros(1)]) is tensors, tensors)


@program
def gradients(torch, log):
    leaves = [t.requires_grad_() for t in lists(torch)]
    total = sum(t.sum() for t in torch._foreach_mul(torch._foreach_exp(leaves), leaves))
    total.backward()
    log([t.grad for t in leaves])
    log.raises(lambda: torch._foreach_mul_(leaves, 2))


@program
def refusals(torch, log):
    two = lists(torch)
    for action in (
        lambda: torch._foreach_add(two, two[:1]),
        lambda: torch._foreach_add(two, [1.0]),
        lambda: torch._foreach_add([], []),
        lambda: torch._foreach_sqrt([]),
        lambda: torch._foreach_add(two, torch.ones(2)),
        lambda: torch._foreach_add(two, 2, alpha=2),
        lambda: torch._foreach_add(two[0], 2),
        lambda: torch._foreach_add(two, "a"),
        lambda: torch._foreach_addcmul(two, two, two[:1]),
        lambda: torch._foreach_addcmul(two, two, two, torch.ones(1)),
        lambda: torch._foreach_lerp(two, two[:1], 0.5),
        lambda: torch._foreach_copy_(two, two[:1]),
        lambda: torch._foreach_sqrt(3),
        lambda: torch._foreach_sqrt([3]),
        lambda: torch._foreach_sqrt_([torch.tensor([4])]),
        lambda: torch._foreach_add_([torch.tensor([4])], 1.5),
        lambda: torch._foreach_add([torch.ones(2)], [torch.ones(3)]),
    ):
        log.raises(action)
    log(hasattr(torch, "_foreach_no_such"))
