"""torch.__future__'s switches, swap_tensors, and modules that swap or replace their parameters."""

import copy
import importlib
import weakref

from programs.harness import program
from programs.prog_backward import bare


def switches(torch):
    return importlib.import_module(f"{torch.__name__}.__future__")


class Switched:
    """Both switches for a block."""

    def __init__(self, torch, swap, overwrite):
        self.future, self.swap, self.overwrite = switches(torch), swap, overwrite

    def __enter__(self):
        self.future.set_swap_module_params_on_conversion(self.swap)
        self.future.set_overwrite_module_params_on_conversion(self.overwrite)

    def __exit__(self, *error):
        self.future.set_swap_module_params_on_conversion(False)
        self.future.set_overwrite_module_params_on_conversion(False)


ALL = [(False, False), (True, False), (False, True), (True, True)]


def small(torch, used):
    m = torch.nn.Linear(2, 1)
    with torch.no_grad():
        m.weight.fill_(2)
    m.register_buffer("kept", torch.ones(2))
    if used:
        m.weight.grad = torch.ones(1, 2)
    return m


def told(m, weight, kept, grad):
    now = m.weight
    facts = [now is weight, m.kept is kept, now, type(now).__name__, weight.dtype]
    return facts if grad is None else [*facts, now.grad is grad, bare(now.grad), grad.dtype]


@program
def converted(torch, log):
    future = switches(torch)
    log(future.get_overwrite_module_params_on_conversion())
    log(future.get_swap_module_params_on_conversion())
    for used in (False, True):
        for swap, overwrite in ALL:
            with Switched(torch, swap, overwrite):
                for change in ("double", "float"):
                    m = small(torch, used)
                    before = m.weight, m.kept, m.weight.grad
                    log(getattr(m, change)() is m)
                    log(told(m, *before))


@program
def loaded(torch, log):
    for swap, overwrite in ALL:
        for assign in (False, True):
            with Switched(torch, swap, overwrite):
                m = small(torch, False)
                before = m.weight, m.kept, None
                wide = torch.full((1, 2), 3.0, dtype=torch.float64)
                values = {"weight": wide, "bias": torch.ones(1), "kept": torch.zeros(2)}
                m.load_state_dict(values, assign=assign)
                log(told(m, *before))
                values["weight"] = torch.ones(1, 3)
                log.raises(lambda m=m, v=values, a=assign: m.load_state_dict(v, assign=a))


@program
def own_module_load(torch, log):
    class Doubling(torch.nn.Parameter):
        def module_load(self, other, assign=False):
            return torch.nn.Parameter(other.detach() * 2)

    class Lazy(torch.nn.Parameter):
        def module_load(self, other, assign=False):
            return other

    for kind in (Doubling, Lazy):
        m = torch.nn.Module()
        m.weight = kind(torch.zeros(2))
        with Switched(torch, True, False):
            log.raises(lambda m=m: len(m.load_state_dict({"weight": torch.ones(2)})))
        log(m.weight)


@program
def exchanged(torch, log):
    swap = torch.utils.swap_tensors
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor([3.0])
    a.note = 5
    b.add_(1)
    swap(a, b)
    log(a, b, hasattr(a, "note"), b.note)
    p, q = torch.nn.Parameter(torch.tensor([1.0])), torch.tensor([5.0, 6.0])
    swap(p, q)
    log(p, q)
    inner, plain = b * 2, torch.tensor([7.0])
    swap(inner, plain)
    log(inner, plain)
    log(torch.autograd.grad(plain.sum(), b))


@program
def exchanged_hooks(torch, log):
    a = torch.tensor([1.0], requires_grad=True)
    b = torch.tensor([2.0, 3.0], requires_grad=True)
    a.register_hook(lambda g: log("hook of a", g))
    b.register_hook(lambda g: log("hook of b", g))
    torch.utils.swap_tensors(a, b)
    (a * 2).sum().backward()
    (b * 3).sum().backward()
    log(bare(a.grad), bare(b.grad))


@program
def refused(torch, log):
    swap = torch.utils.swap_tensors
    a, b = torch.tensor([1.0]), torch.tensor([2.0])
    ref = weakref.ref(a)
    log.raises(lambda: swap(a, b))
    log.raises(lambda: swap(b, a))
    log(ref() is a)
    a = torch.tensor([1.0], requires_grad=True)
    y = (a * 2).sum()
    swap(a, torch.tensor([2.0, 3.0], requires_grad=True))
    log.raises(lambda: y.backward())

    class Slotted(torch.Tensor):
        __slots__ = ("extra",)

    log.raises(lambda: swap(torch.tensor([1.0]), torch.tensor([1.0]).as_subclass(Slotted)))


@program
def use_counts(torch, log):
    a = torch.tensor([1.0], requires_grad=True)
    log(torch.tensor([1.0])._use_count(), a._use_count())
    y = a * 2
    log(a._use_count())
    ref = torch._C._WeakTensorRef(y)
    log(ref.expired())
    del y
    log(ref.expired())


@program
def replicas(torch, log):
    m = torch.nn.BatchNorm1d(2)
    replica = m._replicate_for_data_parallel()
    log(type(replica).__name__, list(replica._parameters), list(replica._buffers))
    log(replica._is_replica, replica.eps, replica._buffers is m._buffers)
    log(replica.running_mean is m.running_mean, len(m._parameters))


@program
def schedulers(torch, log):
    rates = torch.optim.lr_scheduler
    for mode in ("triangular", "triangular2", "exp_range"):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)
        s = rates.CyclicLR(optimizer, 0.1, 1.0, step_size_up=2, mode=mode, gamma=0.5)
        log(sorted(s.state_dict()), s._scale_fn_ref(3), s.scale_fn(3))
        t = copy.deepcopy(s)
        t.load_state_dict(s.state_dict())
        log(t.scale_fn(2))
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)
    s = rates.OneCycleLR(optimizer, 1.0, total_steps=10)
    log(s._annealing_cos(1.0, 2.0, 0.25), s._annealing_linear(1.0, 2.0, 0.25))
    log(s._anneal_func_type, sorted(s.state_dict()))
