"""torch.utils.checkpoint: what is recomputed and when, and what if it comes out different."""

import contextlib
import functools
import warnings
from importlib import import_module

from programs.harness import program

# The first warning would make this name while the harness walks over the module.
__warningregistry__ = {}


def module(torch):
    return import_module(torch.__name__ + ".utils.checkpoint")


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def numbers(*tensors):
    return [None if t is None else t.tolist() for t in tensors]


def deep(x):
    return (x.sin() * x.cos()).exp()


def both(function):
    """Run a program body for both variants."""

    def run(torch, log):
        for reentrant in (False, True):
            function(torch, log, module(torch).checkpoint, {"use_reentrant": reentrant})

    run.__name__ = function.__name__
    return program(run)


# --- values and gradients --------------------------------------------------------------------


@both
def gradients_are_those_of_the_function(torch, log, checkpoint, variant):
    x = leaf(torch, 1.0, 2.0)
    y = checkpoint(deep, x, **variant)
    log(numbers(y), y.requires_grad, y.is_leaf)
    y.sum().backward()
    log(numbers(x.grad))
    plain = leaf(torch, 1.0, 2.0)
    deep(plain).sum().backward()
    log(torch.equal(plain.grad, x.grad))


@both
def several_inputs_and_outputs(torch, log, checkpoint, variant):
    def function(x, n, y, none):
        return x * y * n, (x + y).exp()

    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    a, b = checkpoint(function, x, 2, y, None, **variant)
    (a.sum() + b.sum()).backward()
    log(numbers(a, b, x.grad, y.grad))


@both
def inputs_that_do_not_require_grad(torch, log, checkpoint, variant):
    x, y = leaf(torch, 1.0, 2.0), torch.tensor([3.0, 4.0])
    checkpoint(lambda x, y: x * y * y, x, y, **variant).sum().backward()
    log(numbers(x.grad, y.grad))


@both
def layers_with_parameters(torch, log, checkpoint, variant):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    x = torch.randn(5, 3, requires_grad=True)
    checkpoint(net, x, **variant).pow(2).sum().backward()
    log(numbers(x.grad, *[p.grad for p in net.parameters()]))


@both
def input_without_grad_before_layers(torch, log, checkpoint, variant):
    net = torch.nn.Linear(3, 2)
    x = torch.ones(1, 3)

    def run():
        y = checkpoint(net, x, **variant)
        if y.requires_grad:
            y.sum().backward()
        return numbers(net.weight.grad), y.requires_grad

    log.warns(run)


@both
def calls_counted(torch, log, checkpoint, variant):
    calls = []

    def function(x):
        calls.append(torch.is_grad_enabled())
        return x.sin().cos()

    x = leaf(torch, 1.0, 2.0)
    y = checkpoint(function, x, **variant)
    log(list(calls))
    y.sum().backward()
    log(list(calls))


@both
def under_no_grad(torch, log, checkpoint, variant):
    calls = []

    def function(x):
        calls.append(torch.is_grad_enabled())
        return x.sin()

    x = leaf(torch, 1.0, 2.0)
    with torch.no_grad():
        y = checkpoint(function, x, **variant)
    log(numbers(y), y.requires_grad, calls)


@both
def twice_with_retain_graph(torch, log, checkpoint, variant):
    calls = []

    def function(x):
        calls.append(1)
        return x.sin() * x

    x = leaf(torch, 1.0, 2.0)
    y = checkpoint(function, x, **variant).sum()
    y.backward(retain_graph=True)
    y.backward()
    log(numbers(x.grad), len(calls))
    log.raises(lambda: y.backward())


@both
def chain_of_checkpoints(torch, log, checkpoint, variant):
    x = leaf(torch, 0.5, 0.25)
    h = x
    for _ in range(4):
        h = checkpoint(lambda t: t.sin() * t.exp(), h, **variant)
    h.sum().backward()
    log(numbers(h, x.grad))


@both
def nested_checkpoints(torch, log, checkpoint, variant):
    calls = []

    def inner(x):
        calls.append("inner")
        return x.sin().exp()

    def outer(x):
        calls.append("outer")
        return checkpoint(inner, x.cos(), **variant).tanh()

    x = leaf(torch, 1.0, 2.0)
    checkpoint(outer, x, **variant).sum().backward()
    log(numbers(x.grad), calls)


@both
def random_numbers_are_drawn_again(torch, log, checkpoint, variant):
    def function(x):
        return torch.nn.functional.dropout(x * 2, 0.5).exp() + torch.rand(4) * x

    torch.manual_seed(5)
    x = leaf(torch, 1.0, 2.0, 3.0, 4.0)
    y = checkpoint(function, x, **variant)
    log(torch.rand(2).tolist())
    y.sum().backward()
    log(numbers(y, x.grad), torch.rand(2).tolist())
    torch.manual_seed(5)
    plain = leaf(torch, 1.0, 2.0, 3.0, 4.0)
    function(plain).sum().backward()
    log(torch.equal(plain.grad, x.grad))


@both
def random_state_not_preserved(torch, log, checkpoint, variant):
    torch.manual_seed(5)
    x = leaf(torch, 1.0, 2.0, 3.0, 4.0)
    y = checkpoint(lambda t: t * torch.rand(4), x, preserve_rng_state=False, **variant)
    y.sum().backward()
    log(numbers(y, x.grad), torch.rand(2).tolist())


@both
def views_and_identity(torch, log, checkpoint, variant):
    x = leaf(torch, 1.0, 2.0)
    checkpoint(lambda t: t.view(2, 1) * 2, x * 3, **variant).sum().backward()
    log(numbers(x.grad))
    y = checkpoint(lambda t: t, x * 3, **variant)
    (y * y).sum().backward()
    log(numbers(x.grad))


@both
def outputs_that_are_no_tensors(torch, log, checkpoint, variant):
    x = leaf(torch, 1.0, 2.0)
    y, n, none = checkpoint(lambda t: (t.sin(), 3, None), x, **variant)
    y.sum().backward()
    log(numbers(x.grad), n, none)


@both
def errors_of_the_function(torch, log, checkpoint, variant):
    def function(x):
        raise KeyError("inside")

    log.raises(lambda: checkpoint(function, leaf(torch, 1.0), **variant))
    broken = []

    def later(x):
        if broken:
            raise KeyError("again")
        return x.sin()

    y = checkpoint(later, leaf(torch, 1.0), **variant)
    broken.append(1)
    log.raises(lambda: y.sum().backward())


@both
def gradient_of_the_gradient(torch, log, checkpoint, variant):
    def run():
        x = leaf(torch, 1.0, 2.0)
        y = checkpoint(lambda t: t.sin() * t, x, **variant)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return numbers(g, *torch.autograd.grad(g.sum(), x))

    log.raises(run)


@both
def backward_with_inputs(torch, log, checkpoint, variant):
    x = leaf(torch, 1.0, 2.0)
    y = checkpoint(deep, x, **variant).sum()
    log.raises(lambda: y.backward(inputs=[x]))
    log(numbers(x.grad))


# --- what is particular to one variant -------------------------------------------------------


@program
def variant_has_to_be_chosen(torch, log):
    checkpoint = module(torch).checkpoint

    def run():
        x = leaf(torch, 1.0, 2.0)
        y = checkpoint(deep, x)
        y.sum().backward()
        return numbers(x.grad), y.grad_fn.name()

    log.warns(run)


@program
def keyword_arguments(torch, log):
    checkpoint = module(torch).checkpoint

    def function(x, *, scale, shift=0.0):
        return (x * scale).sin() + shift

    x, s = leaf(torch, 1.0, 2.0), leaf(torch, 3.0)
    checkpoint(function, x, use_reentrant=False, scale=s, shift=1.0).sum().backward()
    log(numbers(x.grad, s.grad))
    log.raises(lambda: checkpoint(function, x, use_reentrant=True, scale=s))
    log.raises(lambda: checkpoint(function, x, use_reentrant=False, unknown=1))


@program
def structures_go_through(torch, log):
    checkpoint = module(torch).checkpoint

    def function(d):
        return {"y": d["x"].sin(), "list": [d["x"] * 2]}

    x = leaf(torch, 1.0, 2.0)
    out = checkpoint(function, {"x": x}, use_reentrant=False)
    (out["y"] + out["list"][0]).sum().backward()
    log(numbers(x.grad), sorted(out))


@program
def options_of_the_other_variant(torch, log):
    checkpoint = module(torch).checkpoint
    x = leaf(torch, 1.0)
    log.raises(lambda: checkpoint(deep, x, use_reentrant=True, debug=True))
    log.raises(
        lambda: checkpoint(
            deep,
            x,
            use_reentrant=True,
            context_fn=lambda: (contextlib.nullcontext(), contextlib.nullcontext()),
        )
    )
    log.raises(lambda: checkpoint(deep, x, use_reentrant=False, determinism_check="strange"))
    log.raises(
        lambda: checkpoint(
            deep,
            x,
            use_reentrant=False,
            debug=True,
            context_fn=lambda: (contextlib.nullcontext(), contextlib.nullcontext()),
        )
    )


@program
def reentrant_output_without_grad(torch, log):
    checkpoint = module(torch).checkpoint
    x = leaf(torch, 1.0)
    y = checkpoint(lambda t: t.detach() * 2, x, use_reentrant=True)
    log.raises(lambda: y.sum().backward())
    z = checkpoint(lambda t: t.detach() * 2, x, use_reentrant=False)
    log(z.requires_grad)


@program
def reentrant_warns_without_inputs(torch, log):
    checkpoint = module(torch).checkpoint
    x = torch.ones(2)
    log.warns(lambda: checkpoint(deep, x, use_reentrant=True).requires_grad)
    log.warns(lambda: checkpoint(deep, x, use_reentrant=False).requires_grad)


@program
def parts_of_outputs(torch, log):
    checkpoint = module(torch).checkpoint
    x = leaf(torch, 1.0, 2.0)
    for reentrant in (False, True):
        a, b = checkpoint(lambda t: (t.sin(), t.exp()), x, use_reentrant=reentrant)
        x.grad = None
        b.sum().backward()
        log(numbers(x.grad))


# --- stopping early --------------------------------------------------------------------------


def counted(torch, log, steps):
    """A function that notes how far it gets."""

    def function(x):
        steps.append("start")
        y = x.sin()
        steps.append("after sin")
        z = y.exp()
        steps.append("after exp")
        return z + 1

    return function


@program
def recomputation_stops_early(torch, log):
    checkpoint = module(torch).checkpoint
    for options in ({}, {"early_stop": False}, {"early_stop": True}):
        steps = []
        x = leaf(torch, 1.0, 2.0)
        y = checkpoint(counted(torch, log, steps), x, use_reentrant=False, **options)
        steps.clear()
        y.sum().backward()
        log(list(steps), numbers(x.grad))


@program
def set_checkpoint_early_stop(torch, log):
    utils = module(torch)
    for enabled in (True, False):
        for option in (True, False):
            steps = []
            x = leaf(torch, 1.0, 2.0)
            with utils.set_checkpoint_early_stop(enabled):
                y = utils.checkpoint(
                    counted(torch, log, steps), x, use_reentrant=False, early_stop=option
                )
            steps.clear()
            y.sum().backward()
            log(enabled, option, list(steps))


# --- recomputing something else --------------------------------------------------------------


def changing(torch, first, then):
    """A function that does something else the second time."""
    calls = []

    def function(x):
        calls.append(1)
        return first(x) if len(calls) == 1 else then(x)

    return function


def paragraph(error):
    return [line.strip() for line in str(error).splitlines() if line.strip()]


def recomputed(torch, first, then, **options):
    x = leaf(torch, 1.0, 2.0)
    y = module(torch).checkpoint(changing(torch, first, then), x, use_reentrant=False, **options)
    y.sum().backward()
    return numbers(x.grad)


@program
def fewer_tensors_saved(torch, log):
    log.raises(lambda: recomputed(torch, lambda x: x.sin().exp(), lambda x: x.sin() + 1))
    log.raises(
        lambda: recomputed(torch, lambda x: x.sin().exp(), lambda x: x.sin() + 1, early_stop=False)
    )


@program
def more_tensors_saved(torch, log):
    log.raises(lambda: recomputed(torch, lambda x: x.sin() + 1, lambda x: x.sin().exp()))
    log.raises(
        lambda: recomputed(torch, lambda x: x.sin() + 1, lambda x: x.sin().exp(), early_stop=False)
    )


@program
def another_shape_or_dtype(torch, log):
    log.raises(lambda: recomputed(torch, lambda x: x.sin(), lambda x: x[:1].sin()))
    log.raises(lambda: recomputed(torch, lambda x: x.sin(), lambda x: x.double().sin()))
    log.raises(
        lambda: recomputed(
            torch, lambda x: x.sin(), lambda x: x[:1].sin(), determinism_check="none"
        )
    )
    log.raises(lambda: recomputed(torch, lambda x: x.sin(), lambda x: (x * 2).sin()))


@program
def the_message_names_the_metadata(torch, log):
    for then in (lambda x: x[:1].sin(), lambda x: x.double().sin()):
        try:
            recomputed(torch, lambda x: x.sin(), then)
        except module(torch).CheckpointError as error:
            log(paragraph(error)[:4])
    try:
        recomputed(torch, lambda x: x.sin().exp(), lambda x: x.sin() + 1)
    except module(torch).CheckpointError as error:
        log(paragraph(error)[:3])


@program
def metadata_of_several_tensors(torch, log):
    def first(x):
        return (x.sin() * x.cos()).exp()

    def then(x):
        x = x.double()
        return (x.sin() * x.cos()).exp()

    for options in ({}, {"early_stop": False}, {"determinism_check": "none"}):
        try:
            log(recomputed(torch, first, then, **options))
        except module(torch).CheckpointError as error:
            log([line for line in paragraph(error) if "position" in line and ":" in line][:1])
            log(paragraph(error)[0])


@program
def error_class(torch, log):
    log([c.__name__ for c in module(torch).CheckpointError.__mro__])


@program
def debug_mode(torch, log):
    log(recomputed(torch, lambda x: x.sin(), lambda x: x.sin(), debug=True))
    log.raises(lambda: recomputed(torch, lambda x: x.sin(), lambda x: x.double().sin(), debug=True))
    utils = module(torch)

    def run():
        with utils.set_checkpoint_debug_enabled(True):
            return recomputed(torch, lambda x: x.sin(), lambda x: x.double().sin())

    log.raises(run)

    def off():
        with utils.set_checkpoint_debug_enabled(False):
            return recomputed(torch, lambda x: x.sin(), lambda x: x.double().sin(), debug=True)

    log.raises(off)


@program
def saved_tensors_asked_for_twice(torch, log):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            (x,) = ctx.saved_tensors
            return grad * x.cos()

    x = leaf(torch, 1.0, 2.0)
    y = module(torch).checkpoint(lambda t: Twice.apply(t * 1), x, use_reentrant=False)
    log.raises(lambda: y.sum().backward())


@program
def saved_tensors_outside_of_backward(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = module(torch).checkpoint(lambda t: (t * 2).exp(), x, use_reentrant=False)
    log(numbers(y.grad_fn._saved_result))
    log(numbers(y.grad_fn._saved_result))
    y.sum().backward()
    log(numbers(x.grad))


# --- checkpoint_sequential -------------------------------------------------------------------


def net(torch):
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 4),
        torch.nn.Tanh(),
        torch.nn.Linear(4, 4),
        torch.nn.ReLU(),
        torch.nn.Linear(4, 2),
    )


@program
def sequential(torch, log):
    utils = module(torch)
    for segments in (1, 2, 3, 5):
        for reentrant in (False, True):
            model = net(torch)
            x = torch.randn(2, 3, requires_grad=True)
            y = utils.checkpoint_sequential(model, segments, x, use_reentrant=reentrant)
            y.sum().backward()
            log(segments, numbers(y, x.grad, model[0].weight.grad))


@program
def sequential_of_functions(torch, log):
    utils = module(torch)
    x = leaf(torch, 1.0, 2.0)
    functions = [torch.sin, torch.exp, lambda t: t * 2]
    utils.checkpoint_sequential(functions, 2, x, use_reentrant=False).sum().backward()
    log(numbers(x.grad))


@program
def sequential_warns_and_refuses(torch, log):
    utils = module(torch)
    x = torch.randn(2, 3, requires_grad=True)
    log.warns(lambda: utils.checkpoint_sequential(net(torch), 2, x).shape)
    log.raises(lambda: utils.checkpoint_sequential(net(torch), 2, x, use_reentrant=False, what=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log.raises(
            lambda: utils.checkpoint_sequential(net(torch), 2, x, preserve_rng_state=False).shape
        )


@program
def sequential_with_too_many_segments(torch, log):
    utils = module(torch)
    x = leaf(torch, 1.0, 2.0)
    for segments in (0, 1, 3, 4):
        run = functools.partial(
            utils.checkpoint_sequential, [torch.sin] * 3, segments, x, use_reentrant=False
        )
        log.raises(lambda run=run: numbers(run()))
    log.raises(lambda: utils.checkpoint_sequential([], 2, x, use_reentrant=False))
    log.raises(
        lambda: utils.checkpoint_sequential(torch.nn.Linear(2, 2), 1, x, use_reentrant=False)
    )


@program
def sequential_counts(torch, log):
    utils = module(torch)
    for reentrant in (False, True):
        calls = []

        def step(i, calls=calls):
            def run(t):
                calls.append(i)
                return (t * 1.5).sin()

            return run

        x = leaf(torch, 1.0, 2.0)
        y = utils.checkpoint_sequential(
            [step(i) for i in range(7)], 3, x, use_reentrant=reentrant, preserve_rng_state=False
        )
        log(list(calls))
        y.sum().backward()
        log(calls, numbers(x.grad))


@program
def sequential_random_numbers(torch, log):
    utils = module(torch)
    drop = torch.nn.Sequential(*[torch.nn.Dropout(0.5) for _ in range(4)])
    for reentrant in (False, True):
        torch.manual_seed(2)
        x = torch.ones(32, requires_grad=True)
        y = utils.checkpoint_sequential(drop, 2, x, use_reentrant=reentrant)
        y.sum().backward()
        log(torch.equal(x.grad, y.detach()))


# --- helpers ---------------------------------------------------------------------------------


@program
def helper_functions(torch, log):
    utils = module(torch)
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    detached = utils.detach_variable((x, y, 3, None))
    log([getattr(t, "requires_grad", t) for t in detached])
    log(detached[1].grad_fn, detached[1].is_leaf)
    log.raises(lambda: utils.detach_variable([x]))
    log.warns(lambda: utils.check_backward_validity((torch.ones(1), 3)))
    log.warns(lambda: utils.check_backward_validity((x, 3)))
    log(utils.get_device_states(x, 3))
    log(utils.DefaultDeviceType.get_device_type())
    utils.DefaultDeviceType.set_device_type("cpu")
    log(utils.DefaultDeviceType.get_device_type())
    utils.DefaultDeviceType.set_device_type("cuda")


@program
def function_class(torch, log):
    utils = module(torch)
    x = leaf(torch, 1.0, 2.0)
    y = utils.CheckpointFunction.apply(deep, True, x)
    log(y.grad_fn)
    y.sum().backward()
    log(numbers(x.grad))
