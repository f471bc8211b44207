"""Anomaly mode: the NaN check, its message, the warning with the forward trace, its switches."""

import warnings

from programs.harness import program
from programs.prog_backward import bare, caught, leaf

# The first warning would make this name while the harness walks over the module.
__warningregistry__ = {}


def zero_times_infinity(torch, x):
    """sqrt at 0 has an infinite derivative; the 0 that arrives there makes it NaN."""
    return (x.sqrt() * 0).sum()


def first_words(action, log):
    """Log each warning's class and first line cut before the file names of the trace."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        log.raises(action)
    for w in found:
        log(w.category.__name__, str(w.message).strip().splitlines()[0].split(" (Triggered")[0])


@program
def entering_warns(torch, log):
    def enter():
        with torch.autograd.detect_anomaly():
            pass

    log(caught(enter))
    log(caught(lambda: torch.autograd.detect_anomaly(check_nan=False)))


@program
def set_detect_anomaly_does_not_warn(torch, log):
    def enter():
        with torch.autograd.set_detect_anomaly(True):
            pass

    log(caught(enter))


@program
def switches(torch, log):
    log(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
    with torch.autograd.detect_anomaly():
        log(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            log(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
        log(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
        with torch.autograd.set_detect_anomaly(False):
            log(torch.is_anomaly_enabled())
    log(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())


@program
def set_detect_anomaly_as_function(torch, log):
    torch.autograd.set_detect_anomaly(True)
    try:
        log(torch.is_anomaly_enabled())
        x = leaf(torch, 0.0)
        log.raises(lambda: zero_times_infinity(torch, x).backward())
    finally:
        torch.autograd.set_detect_anomaly(False)
    log(torch.is_anomaly_enabled())


@program
def restored_after_an_exception(torch, log):
    def fail():
        with torch.autograd.detect_anomaly():
            raise ValueError("inside")

    log.raises(fail)
    log(torch.is_anomaly_enabled())


@program
def nan_is_silent_without_the_mode(torch, log):
    x = leaf(torch, 0.0, 4.0)
    zero_times_infinity(torch, x).backward()
    log(bare(x.grad))


@program
def nan_in_backward_raises(torch, log):
    x = leaf(torch, 0.0, 4.0)
    with torch.autograd.detect_anomaly():
        y = zero_times_infinity(torch, x)
        log.raises(lambda: y.backward())
    log(x.grad)


@program
def nan_error_comes_with_a_warning(torch, log):
    x = leaf(torch, 0.0, 4.0)
    with torch.autograd.detect_anomaly():
        y = zero_times_infinity(torch, x)
        first_words(lambda: y.backward(), log)


@program
def forward_outside_the_mode(torch, log):
    x = leaf(torch, 0.0)
    y = zero_times_infinity(torch, x)
    with torch.autograd.detect_anomaly():
        first_words(lambda: y.backward(), log)


@program
def check_nan_off(torch, log):
    x = leaf(torch, 0.0)
    with torch.autograd.detect_anomaly(check_nan=False):
        y = zero_times_infinity(torch, x)
        first_words(lambda: y.backward(), log)
    log(bare(x.grad))


@program
def error_in_backward_names_the_forward(torch, log):
    x = leaf(torch, 1.0, 2.0)
    with torch.autograd.detect_anomaly():
        m = x * 1
        y = (m * m).sum()
        m.add_(1)
        first_words(lambda: y.backward(), log)


@program
def inplace_error_hint_changes_under_the_mode(torch, log):
    x = leaf(torch, 1.0, 2.0)
    m = x * 1
    y = (m * m).sum()
    m.add_(1)
    log.raises(lambda: y.backward())
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        m = x * 1
        y = (m * m).sum()
        m.add_(1)
        log.raises(lambda: y.backward())


@program
def nan_of_the_second_argument(torch, log):
    a = leaf(torch, 1.0)
    b = leaf(torch, 0.0)
    with torch.autograd.detect_anomaly():
        y = (a * 0 / b * 0).sum()
        log.raises(lambda: y.backward())


@program
def nan_from_log_of_zero(torch, log):
    x = leaf(torch, 0.0)
    with torch.autograd.detect_anomaly():
        y = (x.log() * torch.tensor([0.0])).sum()
        log.raises(lambda: y.backward())
        y = (x**0.5 * torch.tensor([0.0])).sum()
        log.raises(lambda: y.backward())


@program
def infinity_is_not_nan(torch, log):
    x = leaf(torch, 0.0)
    with torch.autograd.detect_anomaly():
        x.sqrt().sum().backward()
    log(bare(x.grad))


@program
def nan_in_forward_only_is_fine(torch, log):
    x = leaf(torch, -1.0)
    with torch.autograd.detect_anomaly():
        y = x.sqrt()
        log(y)
        log.raises(lambda: (x + y.detach()).sum().backward())
    log(bare(x.grad))


@program
def nan_in_the_root_gradient(torch, log):
    x = leaf(torch, 1.0)
    with torch.autograd.detect_anomaly():
        y = x * 2
        log.raises(lambda: y.backward(torch.tensor([float("nan")])))


def make_nan_function(torch):
    class MakesNan(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * float("nan")

    return MakesNan


@program
def nan_from_a_function(torch, log):
    x = leaf(torch, 1.0)
    with torch.autograd.detect_anomaly():
        y = make_nan_function(torch).apply(x)
        first_words(lambda: y.backward(), log)


@program
def exception_in_a_function_under_the_mode(torch, log):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise RuntimeError("some error in backward")

    x = leaf(torch, 1.0)
    with torch.autograd.detect_anomaly():
        y = Fails.apply(x)
        first_words(lambda: y.backward(), log)


@program
def nan_in_double_backward(torch, log):
    x = leaf(torch, 0.0)
    with torch.autograd.detect_anomaly():
        y = x**1.5
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        log(g)
        first_words(lambda: (g * 0).sum().backward(), log)


@program
def healthy_training_step_under_the_mode(torch, log):
    x = leaf(torch, 1.0, 2.0)
    with torch.autograd.detect_anomaly():
        ((x * 3).exp().log() ** 2).sum().backward()
    log(bare(x.grad))


@program
def nan_not_reached_is_not_reported(torch, log):
    x, z = leaf(torch, 0.0), leaf(torch, 1.0)
    with torch.autograd.detect_anomaly():
        y = zero_times_infinity(torch, x) + z.sum()
        log(bare(torch.autograd.grad(y, z)))
