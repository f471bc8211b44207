"""Dual tensors and their parts, for the programs about forward mode."""

from importlib import import_module


def module(torch):
    return import_module(torch.__name__ + ".autograd.forward_ad")


def value(torch, *shape, start=1.0):
    count = 1
    for n in shape:
        count *= n
    return (torch.arange(count, dtype=torch.float64) / 2 + start).reshape(shape).clone()


def way(torch, *shape):
    return value(torch, *shape, start=-1.0)


def dual(torch, *shape):
    return module(torch).make_dual(value(torch, *shape), way(torch, *shape))


def parts(torch, t):
    """Primal and tangent, without their histories."""
    found = module(torch).unpack_dual(t)
    return [None if p is None else p.detach().clone().contiguous() for p in found]


def pushed(torch, log, function, *shape):
    """Log what `function` makes of a dual, or what it raises."""

    def attempt():
        with module(torch).dual_level():
            return parts(torch, function(dual(torch, *(shape or (3,)))))

    def of_a_result():
        with module(torch).dual_level():
            return parts(torch, function(dual(torch, *(shape or (3,))) * 2))

    log.raises(attempt)
    log.raises(of_a_result)
