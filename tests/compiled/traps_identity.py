"""Traps: which tensors are the same, share memory, or lie in another order."""

# ruff: noqa: N801

from __future__ import annotations

from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn


def pair(i):
    return numbers(i), numbers(i + 20)


# --- identity and shared memory


@trap
def the_same_tensor_twice(compile):
    @compile
    def f(x, y):
        return work(x) * (2.0 if x is y else 1.0)

    def args(i):
        x = numbers(i)
        return (x, x) if phase(i) != 1 else (x, x.clone())

    return Trap(f, args=args)


@trap
def the_same_tensor_twice_after_others(compile):
    @compile
    def f(x, y):
        return work(x) * (2.0 if x is y else 1.0)

    def args(i):
        x = numbers(i)
        return (x, x) if phase(i) == 1 else (x, x.clone())

    return Trap(f, args=args)


@trap
def the_same_tensor_written(compile):
    @compile
    def f(x, y):
        x.add_(1)
        return work(y)

    def args(i):
        x = numbers(i)
        return (x, x) if phase(i) == 1 else (x, x.clone())

    return Trap(f, args=args)


@trap
def the_same_tensor_in_a_list(compile):
    @compile
    def f(xs):
        return work(xs[0]) * (2.0 if xs[0] is xs[1] else 1.0)

    def args(i):
        x = numbers(i)
        return ([x, x if phase(i) else x.clone()],)

    return Trap(f, args=args)


@trap
def a_parameter_as_an_argument(compile):
    p = nn.Parameter(numbers(1))

    @compile
    def f(x, q):
        return work(x) * q * (2.0 if q is p else 1.0)

    def args(i):
        return numbers(i), (p if phase(i) != 1 else nn.Parameter(p.detach().clone()))

    return Trap(f, args=args)


@trap
def a_tensor_of_the_closure_as_an_argument(compile):
    t = numbers(1)

    @compile
    def f(x):
        return work(x) * (2.0 if x is t else 1.0)

    return Trap(f, args=lambda i: (t if phase(i) == 1 else numbers(i),))


@trap
def gradient_of_the_same_tensor_twice(compile):
    @compile
    def f(x, y):
        out = work(x) * y.sin()
        out.sum().backward()
        return out.detach(), x.grad

    def args(i):
        x = numbers(i).requires_grad_()
        return (x, x) if phase(i) == 1 else (x, numbers(i).requires_grad_())

    return Trap(f, args=args)


@trap
def a_view_and_its_base(compile):
    @compile
    def f(base, view):
        view.mul_(2)
        return work(base)

    def args(i):
        base = numbers(i)
        return base, (base[0] if phase(i) == 0 else base.clone()[0])

    return Trap(f, args=args)


@trap
def a_view_and_its_base_later(compile):
    @compile
    def f(base, view):
        view.mul_(2)
        return work(base)

    def args(i):
        base = numbers(i)
        return base, (base[0] if phase(i) == 1 else base.clone()[0])

    return Trap(f, args=args)


@trap
def overlapping_views(compile):
    @compile
    def f(a, b):
        a.add_(b)
        return work(a) + work(b)

    def args(i):
        base = numbers(i, 6)
        return base[:4], base[2:]

    return Trap(f, args=args)


@trap
def a_view_of_a_closure_tensor(compile):
    t = numbers(1)

    @compile
    def f(x):
        x.mul_(2)
        return work(t)

    return Trap(f, args=lambda i: (t[0] if phase(i) != 1 else numbers(i)[0],))


@trap
def a_detached_view_of_a_parameter(compile):
    p = nn.Parameter(numbers(1))

    @compile
    def f(x):
        x.mul_(1.1)
        return work(p).detach()

    return Trap(f, args=lambda i: (p.detach(),), state=lambda: p)


@trap
def argument_returned(compile):
    @compile
    def f(x):
        return work(x), x

    def args(i):
        return (numbers(i),)

    def checked(x):
        out, same = f(x)
        return out, same is x

    return Trap(checked, args=args)


@trap
def view_of_an_argument_returned(compile):
    @compile
    def f(x):
        return work(x), x[0]

    def checked(x):
        out, view = f(x)
        shares = view.data_ptr() == x.data_ptr()
        return out, shares, view._is_view()

    return Trap(checked)


@trap
def closure_tensor_returned(compile):
    t = numbers(1)

    @compile
    def f(x):
        return work(x), t

    def checked(x):
        out, same = f(x)
        return out, same is t

    return Trap(checked)


@trap
def the_same_result_twice(compile):
    @compile
    def f(x):
        out = work(x)
        return out, out

    def checked(x):
        a, b = f(x)
        return a, a is b

    return Trap(checked)


@trap
def a_result_and_its_view(compile):
    @compile
    def f(x):
        out = work(x)
        return out, out[0]

    def checked(x):
        out, view = f(x)
        with T.no_grad():
            out.detach().fill_(3)
        return out.detach(), view.detach()

    return Trap(checked)


@trap
def results_are_new_each_time(compile):
    kept = []

    @compile
    def f(x):
        return work(x)

    def checked(x):
        kept.append(f(x))
        return kept[-1]

    return Trap(checked, state=lambda: [t.detach() for t in kept])


@trap
def results_written_by_the_caller(compile):
    @compile
    def f(x):
        return work(x)

    def checked(x):
        out = f(x)
        kept = out.detach().clone()
        out.detach().zero_()
        return kept

    return Trap(checked)


@trap
def gradients_kept_by_the_caller(compile):
    p = nn.Parameter(numbers(1))
    kept = []

    @compile
    def f(x):
        p.grad = None
        (work(x) * p).sum().backward()

    def checked(x):
        f(x)
        kept.append(p.grad)

    return Trap(checked, state=lambda: kept)


@trap
def gradients_kept_as_views(compile):
    p = nn.Parameter(numbers(1))
    kept = []

    @compile
    def f(x):
        p.grad = None
        (work(x) * p).sum().backward()
        return p.grad.sum()

    def checked(x):
        out = f(x)
        kept.append(p.grad.clone())
        p.grad.zero_()
        return out

    return Trap(checked, state=lambda: kept)


@trap
def the_same_list_twice(compile):
    @compile
    def f(a, b):
        a.append(1.0)
        return work(numbers(0)) * len(b)

    def args(i):
        a = [1.0]
        return (a, a) if phase(i) == 1 else (a, [1.0])

    return Trap(f, args=args)


# --- strides, offsets, versions


@trap
def is_contiguous(compile):
    @compile
    def f(x):
        return work(x) * (2.0 if x.is_contiguous() else 1.0)

    def args(i):
        x = numbers(i, 3, 3)
        return (x.t() if phase(i) == 1 else x,)

    return Trap(f, args=args)


@trap
def strides(compile):
    @compile
    def f(x):
        return work(x) * x.stride(0)

    def args(i):
        return (numbers(i, 3, 6)[:, :: (2 if phase(i) == 1 else 1)][:, :3],)

    return Trap(f, args=args)


@trap
def storage_offset(compile):
    @compile
    def f(x):
        return work(x) * (1 + x.storage_offset())

    def args(i):
        return (numbers(i, 8)[phase(i) : phase(i) + 3],)

    return Trap(f, args=args)


@trap
def as_strided_of_an_argument(compile):
    """Reads outside the view that was given, but inside its storage."""

    @compile
    def f(x):
        return work(x).sum() + x.as_strided((2,), (1,), 0).sum()

    def args(i):
        return (numbers(i, 8)[3:6],)

    return Trap(f, args=args)


@trap
def storage_of_an_argument(compile):
    @compile
    def f(x):
        return work(x) * x.untyped_storage().nbytes()

    def args(i):
        return (numbers(i, 8 + phase(i))[3:6],)

    return Trap(f, args=args)


@trap
def version_of_an_argument(compile):
    @compile
    def f(x):
        return work(x) * (1 + x._version)

    def args(i):
        x = numbers(i)
        for _ in range(phase(i)):
            x.add_(1)
        return (x,)

    return Trap(f, args=args)


@trap
def data_ptr_of_an_argument(compile):
    t = numbers(1)

    @compile
    def f(x):
        return work(x) * (2.0 if x.data_ptr() == t.data_ptr() else 1.0)

    return Trap(f, args=lambda i: (t.view(3, 2) if phase(i) == 1 else numbers(i, 3, 2),))


@trap
def is_view_of_something(compile):
    @compile
    def f(x):
        return work(x) * (2.0 if x._is_view() else 1.0)

    return Trap(f, args=lambda i: (numbers(i, 3, 3)[:] if phase(i) == 1 else numbers(i, 3, 3),))


@trap
def base_of_an_argument(compile):
    @compile
    def f(x):
        return work(x) * (1.0 if x._base is None else x._base.sum())

    def args(i):
        x = numbers(i, 3)
        return (x.expand(2, 3) if phase(i) == 1 else x.clone(),)

    return Trap(f, args=args)


@trap
def is_leaf(compile):
    @compile
    def f(x):
        return work(x) * (2.0 if x.is_leaf else 1.0)

    def args(i):
        x = numbers(i).requires_grad_()
        return (x * 1.0 if phase(i) == 1 else x,)

    return Trap(f, args=args)


@trap
def grad_fn_of_an_argument(compile):
    @compile
    def f(x):
        return work(x) * (2.0 if x.grad_fn is None else len(x.grad_fn.name()))

    def args(i):
        x = numbers(i).requires_grad_()
        return ((x, x * 1.0, x.exp())[phase(i)],)

    return Trap(f, args=args)


@trap
def grad_of_an_argument(compile):
    @compile
    def f(x):
        return work(x) * (1.0 if x.grad is None else x.grad)

    def args(i):
        x = numbers(i).requires_grad_()
        if phase(i) == 1:
            x.grad = numbers(i + 1)
        return (x,)

    return Trap(f, args=args)


@trap
def requires_grad_of_an_argument(compile):
    @compile
    def f(x):
        return (work(x) * (2.0 if x.requires_grad else 1.0)).detach()

    return Trap(f, args=lambda i: (numbers(i).requires_grad_(phase(i) == 1),))


@trap
def memory_format_of_an_argument(compile):
    @compile
    def f(x):
        return work(x) * (2.0 if x.is_contiguous(memory_format=T.channels_last) else 1.0)

    def args(i):
        x = numbers(i, 2, 3, 4, 4)
        return (x.to(memory_format=T.channels_last) if phase(i) == 1 else x,)

    return Trap(f, args=args)


@trap
def expanded_argument(compile):
    @compile
    def f(x):
        return work(x).cumsum(0)

    def args(i):
        return (numbers(i, 3).expand(2, 3) if phase(i) == 1 else numbers(i, 2, 3),)

    return Trap(f, args=args)


@trap
def conjugated_argument(compile):
    @compile
    def f(z):
        return z.exp() * (2.0 if z.is_conj() else 1.0) + z.sin() * z

    def args(i):
        z = T.complex(numbers(i), numbers(i + 30))
        return (z.conj() if phase(i) == 1 else z,)

    return Trap(f, args=args)


@trap
def argument_with_attributes(compile):
    @compile
    def f(x):
        return work(x) * getattr(x, "scale", 1.0)

    def args(i):
        x = numbers(i)
        if phase(i):
            x.scale = 1.0 + phase(i)
        return (x,)

    return Trap(f, args=args)


@trap
def argument_with_attributes_from_the_start(compile):
    @compile
    def f(x):
        return work(x) * x.scale

    def args(i):
        x = numbers(i)
        x.scale = 1.0 + phase(i)
        return (x,)

    return Trap(f, args=args)


@trap
def argument_of_a_subclass(compile):
    class Mine(T.Tensor):
        pass

    @compile
    def f(x):
        return work(x) * (2.0 if isinstance(x, Mine) else 1.0)

    def args(i):
        x = numbers(i)
        return (x.as_subclass(Mine) if phase(i) == 1 else x,)

    return Trap(f, args=args)


@trap
def parameter_or_tensor(compile):
    @compile
    def f(x):
        return work(x) * (2.0 if isinstance(x, nn.Parameter) else 1.0)

    def args(i):
        return (nn.Parameter(numbers(i)) if phase(i) == 1 else numbers(i).requires_grad_(),)

    return Trap(f, args=args)


@trap
def an_argument_with_other_memory(compile):
    @compile
    def f(x, y):
        x.mul_(2)
        old = x.data
        x.data = work(y)
        x.add_(1)
        return old + work(x)

    return Trap(f, args=lambda i: (numbers(i), numbers(i + 1)))


@trap
def a_parameter_with_other_memory(compile):
    net = T.nn.Linear(3, 3).double()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    def restrict():
        for p in net.parameters():
            p.data = p.data.clamp(-0.2, 0.2)

    @compile
    def f(x):
        opt.zero_grad()
        loss = work(net(x)).sum()
        loss.backward()
        opt.step()
        restrict()
        return loss

    return Trap(f, state=lambda: list(net.parameters()))
