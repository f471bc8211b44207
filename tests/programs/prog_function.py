"""autograd.Function: both styles, what ctx offers, and every check on what backward returns."""

from programs.harness import program
from programs.prog_backward import bare, caught, leaf

# The first warning would make this name while the harness walks over the module.
__warningregistry__ = {}


def make_square(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    return Square


def returning(torch, answer):
    """A Function that copies its first input and whose backward returns answer(ctx, grad)."""

    class Returning(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            return args[0].clone()

        @staticmethod
        def backward(ctx, grad):
            return answer(ctx, grad)

    return Returning


# --- the two styles --------------------------------------------------------------------------


@program
def forward_with_ctx(torch, log):
    square = make_square(torch)
    x = leaf(torch, 2.0, 3.0)
    y = square.apply(x)
    log(y)
    log.graph(y)
    y.sum().backward()
    log(bare(x.grad))


@program
def forward_and_setup_context(torch, log):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, factor):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, factor = inputs
            log("setup", inputs, output)
            ctx.factor = factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    x = leaf(torch, 2.0, 3.0)
    y = Scale.apply(x, 4.0)
    log(y, y.grad_fn.name())
    y.sum().backward()
    log(bare(x.grad))
    log(Scale.forward(x.detach(), 2.0))


@program
def setup_context_saves_output(torch, log):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    x = torch.tensor(0.5, requires_grad=True)
    y = Exp.apply(x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    log(y, g)
    log(bare(torch.autograd.grad(g, x)))


@program
def setup_context_with_a_single_input_and_tuple_output(torch, log):
    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x + 1, x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            log(type(inputs).__name__, len(inputs), type(output).__name__, len(output))

        @staticmethod
        def backward(ctx, first, second):
            return first + 2 * second

    x = leaf(torch, 1.0)
    a, b = Pair.apply(x)
    (a + b * 10).backward()
    log(bare(x.grad))


@program
def forward_missing(torch, log):
    class Empty(torch.autograd.Function):
        pass

    log.raises(lambda: Empty.apply(torch.tensor(1.0)))


@program
def backward_missing(torch, log):
    class OnlyForward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    x = torch.tensor(1.0, requires_grad=True)
    y = OnlyForward.apply(x)
    log(y)
    log.raises(lambda: y.backward())


@program
def instances_are_refused(torch, log):
    square = make_square(torch)
    log(caught(lambda: square()))
    log.raises(lambda: square()(torch.tensor(1.0)))


@program
def legacy_style_forward(torch, log):
    class Legacy(torch.autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, grad):
            return grad * 2

    x = torch.tensor(1.0, requires_grad=True)
    log.raises(lambda: Legacy.apply(x))
    log.raises(lambda: Legacy()(x))


@program
def keyword_arguments_are_refused(torch, log):
    square = make_square(torch)
    log.raises(lambda: square.apply(x=torch.tensor(1.0)))


@program
def calling_forward_directly(torch, log):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 1000

    x = torch.tensor(1.0, requires_grad=True)
    y = Double.forward(None, x)
    log(y)
    y.backward()
    log(bare(x.grad))


# --- what ctx offers -------------------------------------------------------------------------


@program
def ctx_attributes_live_on_the_node(torch, log):
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, note):
            ctx.note = note
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            log(ctx.note, ctx.name())
            ctx.seen = True
            return grad * 2, None

    x = torch.tensor(1.0, requires_grad=True)
    y = Keep.apply(x, "hello")
    log(y.grad_fn.note, y.grad_fn.name(), type(y.grad_fn).__name__)
    y.grad_fn.extra = 3
    y.backward()
    log(y.grad_fn.seen, y.grad_fn.extra)
    log.raises(lambda: y.grad_fn.nothing)


@program
def needs_input_grad(torch, log):
    class Show(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, c, flag):
            log("forward", ctx.needs_input_grad)
            return a * b * c

        @staticmethod
        def backward(ctx, grad):
            log("backward", ctx.needs_input_grad)
            return grad, grad, grad, None

    a = torch.tensor(1.0, requires_grad=True)
    b = torch.tensor(2.0)
    Show.apply(a, b, a * 2, True).backward()
    log(bare(a.grad), b.grad)
    log(Show.apply(b, b, b, False))


@program
def needs_input_grad_when_only_some_are_asked(torch, log):
    class Show(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, grad):
            log(ctx.needs_input_grad)
            return grad * 2, grad * 3

    a = torch.tensor(1.0, requires_grad=True)
    b = torch.tensor(2.0, requires_grad=True)
    log(bare(torch.autograd.grad(Show.apply(a, b), b)))
    Show.apply(a, b).backward(inputs=[a])
    log(bare(a.grad), b.grad)


@program
def grad_is_off_inside_forward(torch, log):
    class Peek(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            log(torch.is_grad_enabled(), x.requires_grad, y.requires_grad, y.grad_fn)
            return y

        @staticmethod
        def backward(ctx, grad):
            log(torch.is_grad_enabled(), grad.requires_grad)
            return grad * 2

    x = torch.tensor(1.0, requires_grad=True)
    y = Peek.apply(x)
    y.backward(retain_graph=True)
    torch.autograd.grad(y, x, create_graph=True)


@program
def saved_input_is_the_same_object(torch, log):
    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            (saved,) = ctx.saved_tensors
            log(saved is x, saved)
            return grad

    x = leaf(torch, 1.0, 2.0)
    Identity.apply(x).sum().backward()


@program
def saved_output_has_its_history(torch, log):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            log(y, y.grad_fn is ctx)
            return grad * y

    x = leaf(torch, 0.0, 1.0)
    Exp.apply(x).sum().backward()
    log(bare(x.grad))


@program
def saved_intermediate(torch, log):
    class Sigmoid(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            e = (-x).exp()
            ctx.save_for_backward(e, None)
            return 1 / (1 + e)

        @staticmethod
        def backward(ctx, grad):
            e, nothing = ctx.saved_tensors
            log(e, nothing)
            return grad * e / (1 + e) ** 2

    x = leaf(torch, 0.0, 1.0)
    Sigmoid.apply(x).sum().backward()
    log(bare(x.grad))


@program
def saved_tensors_read_twice(torch, log):
    square = make_square(torch)
    x = leaf(torch, 2.0)
    y = square.apply(x)
    log(y.grad_fn.saved_tensors, y.grad_fn.saved_tensors)
    y.backward()
    log.raises(lambda: y.grad_fn.saved_tensors)
    log.raises(lambda: y.backward())


@program
def saved_tensors_twice_in_one_backward(torch, log):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            first, second = ctx.saved_tensors, ctx.saved_tensors
            log(first, second)
            return grad * (first[0] + second[0])

    x = leaf(torch, 2.0)
    Twice.apply(x).backward()
    log(bare(x.grad))


@program
def save_for_backward_of_a_non_tensor(torch, log):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = leaf(torch, 2.0)
    log.raises(lambda: Wrong.apply(x))


@program
def save_for_backward_twice_keeps_the_last(torch, log):
    class Last(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x)
            ctx.save_for_backward(y)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            log(ctx.saved_tensors)
            return grad, grad

    Last.apply(leaf(torch, 2.0), leaf(torch, 5.0)).backward()


@program
def saved_tensor_modified_in_place(torch, log):
    square = make_square(torch)
    x = leaf(torch, 2.0, 3.0)
    m = x * 1
    y = square.apply(m).sum()
    m.add_(1)
    log.raises(lambda: y.backward())


@program
def tensor_kept_as_attribute_is_not_checked(torch, log):
    class Attribute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.x * grad

    x = leaf(torch, 2.0, 3.0)
    m = x * 1
    y = Attribute.apply(m).sum()
    m.add_(1)
    y.backward()
    log(bare(x.grad))


@program
def names(torch, log):
    class _Hidden(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    y = _Hidden.apply(leaf(torch, 1.0))
    log(y.grad_fn.name(), str(y))
    log(make_square(torch).__name__, isinstance(y.grad_fn, _Hidden))


# --- arguments and outputs -------------------------------------------------------------------


@program
def non_tensor_arguments(torch, log):
    class Affine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale, options, none):
            log(scale, options, none)
            ctx.scale = scale
            return x * scale + options["shift"]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.scale, None, None, None

    x = leaf(torch, 1.0, 2.0)
    y = Affine.apply(x, 3, {"shift": 1}, None)
    y.sum().backward()
    log(y, bare(x.grad))


@program
def tensors_inside_lists_are_not_tracked(torch, log):
    class SumList(torch.autograd.Function):
        @staticmethod
        def forward(ctx, items):
            return items[0] + items[1]

        @staticmethod
        def backward(ctx, grad):
            return None

    x = leaf(torch, 1.0)
    y = SumList.apply([x, x])
    log(y)


@program
def several_outputs(torch, log):
    class Parts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3, x * 4

        @staticmethod
        def backward(ctx, a, b, c):
            log(bare((a, b, c)))
            return 2 * a + 3 * b + 4 * c

    x = leaf(torch, 1.0, 2.0)
    parts = Parts.apply(x)
    log(type(parts).__name__, [p.output_nr for p in parts], parts[1])
    parts[1].sum().backward()
    log(bare(x.grad))


@program
def one_element_tuple_output(torch, log):
    class Single(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (x * 2,)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    log(Single.apply(leaf(torch, 1.0)))


@program
def non_tensor_outputs(torch, log):
    class Mixed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, "note", 5, None

        @staticmethod
        def backward(ctx, grad, *rest):
            log(grad, rest)
            return grad * 2

    x = leaf(torch, 1.0)
    out = Mixed.apply(x)
    log(out)
    out[0].backward()
    log(bare(x.grad))


@program
def only_a_non_tensor_output(torch, log):
    class Number(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 5

    log.raises(lambda: Number.apply(leaf(torch, 1.0)))


@program
def integer_output_is_non_differentiable(torch, log):
    class Arg(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x.argmax()

        @staticmethod
        def backward(ctx, a, b):
            log(bare((a, b)))
            return a * 2

    x = leaf(torch, 1.0, 3.0)
    y, i = Arg.apply(x)
    log(y, i)
    y.sum().backward()


@program
def no_input_requires_grad(torch, log):
    y = make_square(torch).apply(torch.tensor([2.0]))
    log(y, y.grad_fn)


@program
def apply_under_no_grad(torch, log):
    x = leaf(torch, 2.0)
    with torch.no_grad():
        log(make_square(torch).apply(x))


@program
def returning_an_input_as_it_is(torch, log):
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 10

    x = leaf(torch, 1.0, 2.0)
    y = Same.apply(x)
    log(y, y is x, y.data_ptr() == x.data_ptr(), y._is_view())
    y.sum().backward()
    log(bare(x.grad), x.is_leaf)


@program
def returning_an_input_among_several(torch, log):
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x, x * y

        @staticmethod
        def backward(ctx, a, b):
            return a * 2, b * 3

    x, y = leaf(torch, 1.0), leaf(torch, 2.0)
    a, b = Both.apply(x, y)
    log(a, b)
    (a + b).backward()
    log(bare(x.grad), bare(y.grad))


@program
def returning_a_view_of_the_input(torch, log):
    class First(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[0]

        @staticmethod
        def backward(ctx, grad):
            return torch.stack([grad * 5, torch.zeros_like(grad)])

    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    m = x * 1
    y = First.apply(m)
    log(y, y._is_view())
    log.raises(lambda: y.mul_(2))
    y = First.apply(m)
    y.sum().backward()
    log(bare(x.grad))


@program
def two_views_returned(torch, log):
    class Halves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:1], x[1:]

        @staticmethod
        def backward(ctx, a, b):
            return torch.cat([a, b])

    x = leaf(torch, 1.0, 2.0)
    m = x * 1
    a, b = Halves.apply(m)
    log(a, b)
    log.raises(lambda: a.add_(1))


# --- mark_dirty and in-place Functions -------------------------------------------------------


def make_add_one(torch, dirty=True):
    class AddOne(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            if dirty:
                ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    return AddOne


@program
def in_place_function(torch, log):
    x = leaf(torch, 1.0, 2.0)
    m = x * 2
    y = make_add_one(torch).apply(m)
    log(y is m, y)
    log.graph(m)
    y.sum().backward()
    log(bare(x.grad))


@program
def in_place_function_on_a_leaf(torch, log):
    x = leaf(torch, 1.0, 2.0)
    log.raises(lambda: make_add_one(torch).apply(x))


@program
def in_place_function_on_a_view(torch, log):
    x = leaf(torch, 1.0, 2.0)
    m = x * 2
    v = m[:1]
    y = make_add_one(torch).apply(v)
    log(y is v, v, m)
    m.sum().backward()
    log(bare(x.grad))


@program
def in_place_function_on_a_constant(torch, log):
    x = torch.tensor([1.0, 2.0])
    y = make_add_one(torch).apply(x)
    log(y is x, x)


@program
def dirty_input_not_returned(torch, log):
    class Forgets(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = leaf(torch, 1.0)
    log.raises(lambda: Forgets.apply(x * 1))


@program
def mark_dirty_of_something_else(torch, log):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, what):
            y = x * 2
            ctx.mark_dirty(y if what == "output" else what)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    x = leaf(torch, 1.0)
    log.raises(lambda: Wrong.apply(x, "output"))
    log.raises(lambda: Wrong.apply(x, "text"))


# --- mark_non_differentiable, materialize_grads, once_differentiable --------------------------


@program
def mark_non_differentiable(torch, log):
    class Sort(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y, z = x * 2, x * 3
            ctx.mark_non_differentiable(z)
            return y, z

        @staticmethod
        def backward(ctx, a, b):
            log(bare((a, b)))
            return a * 2

    x = leaf(torch, 1.0, 2.0)
    y, z = Sort.apply(x)
    log(y, z)
    y.sum().backward()
    log(bare(x.grad))


@program
def mark_non_differentiable_only_output(torch, log):
    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = (x > 0).float()
            ctx.mark_non_differentiable(y)
            return y

    log(Step.apply(leaf(torch, 1.0, -1.0)))


@program
def set_materialize_grads_off(torch, log):
    class Parts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            log(bare((a, b)))
            return 3 * b

    x = leaf(torch, 1.0, 2.0)
    Parts.apply(x)[1].sum().backward()
    log(bare(x.grad))


@program
def once_differentiable(torch, log):
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            log(torch.is_grad_enabled())
            return 2 * x * grad

    x = leaf(torch, 3.0)
    Once.apply(x).backward()
    log(bare(x.grad))
    (g,) = torch.autograd.grad(Once.apply(x), x, create_graph=True)
    log(g.requires_grad)
    log.raises(lambda: g.backward())
    v = leaf(torch, 1.0)
    (g,) = torch.autograd.grad(Once.apply(x), x, v, create_graph=True)
    log(g.requires_grad, g.grad_fn)
    log.raises(lambda: g.backward())


# --- double backward -------------------------------------------------------------------------


@program
def double_backward(torch, log):
    x = leaf(torch, 3.0)
    y = make_square(torch).apply(make_square(torch).apply(x))
    for _ in range(3):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        log(y)


@program
def double_backward_through_a_function_in_backward(torch, log):
    class CubeGrad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, grad):
            ctx.save_for_backward(x, grad)
            return 3 * x * x * grad

        @staticmethod
        def backward(ctx, outer):
            x, grad = ctx.saved_tensors
            return 6 * x * grad * outer, 3 * x * x * outer

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return CubeGrad.apply(ctx.saved_tensors[0], grad)

    x = leaf(torch, 2.0)
    (g,) = torch.autograd.grad(Cube.apply(x), x, create_graph=True)
    log(g)
    log.graph(g)
    log(bare(torch.autograd.grad(g, x)))


@program
def intermediate_saved_for_double_backward_is_wrong_silently(torch, log):
    class Sinh(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            plus, minus = x.exp(), (-x).exp()
            ctx.save_for_backward(plus, minus)
            return (plus - minus) / 2

        @staticmethod
        def backward(ctx, grad):
            plus, minus = ctx.saved_tensors
            return grad * (plus + minus) / 2

    x = torch.tensor(1.0, requires_grad=True)
    (g,) = torch.autograd.grad(Sinh.apply(x), x, create_graph=True)
    log(g)


@program
def enable_grad_inside_backward(torch, log):
    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin() * x

        @staticmethod
        def backward(ctx, grad):
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                y = x.sin() * x
            return torch.autograd.grad(y, x, grad)

    x = leaf(torch, 0.5, 1.0)
    Recompute.apply(x).sum().backward()
    log(bare(x.grad))


# --- checks on what backward returns ---------------------------------------------------------


@program
def too_few_and_too_many_gradients(torch, log):
    x = leaf(torch, 1.0, 2.0)
    few = returning(torch, lambda ctx, g: g)
    many = returning(torch, lambda ctx, g: (g, g))
    extra_none = returning(torch, lambda ctx, g: (g, None, None))
    log.raises(lambda: few.apply(x, x).sum().backward())
    log.raises(lambda: many.apply(x).sum().backward())
    log.raises(lambda: extra_none.apply(x).sum().backward())
    log(bare(x.grad))


@program
def gradient_returned_with_wrong_shape(torch, log):
    x = leaf(torch, 1.0, 2.0)
    wide = returning(torch, lambda ctx, g: torch.ones(3, 2))
    bad = returning(torch, lambda ctx, g: torch.ones(3))
    short = returning(torch, lambda ctx, g: torch.ones(1))
    log.raises(lambda: wide.apply(x).sum().backward())
    log(bare(x.grad))
    log.raises(lambda: bad.apply(x).sum().backward())
    log.raises(lambda: short.apply(x).sum().backward())
    log(bare(x.grad))


@program
def gradient_returned_with_wrong_type(torch, log):
    x = leaf(torch, 1.0, 2.0)
    log.raises(lambda: returning(torch, lambda c, g: 1.0).apply(x).sum().backward())
    log.raises(lambda: returning(torch, lambda c, g: "text").apply(x).sum().backward())
    log.raises(lambda: returning(torch, lambda c, g: [g]).apply(x).sum().backward())


@program
def gradient_returned_with_other_dtype(torch, log):
    x = leaf(torch, 1.0, 2.0)
    returning(torch, lambda c, g: g.double()).apply(x).sum().backward()
    log(bare(x.grad))
    log.raises(lambda: returning(torch, lambda c, g: g.long()).apply(x).sum().backward())
    log(bare(x.grad))


@program
def none_returned(torch, log):
    x = leaf(torch, 1.0, 2.0)
    nothing = returning(torch, lambda c, g: None)
    nothing.apply(x).sum().backward()
    log(x.grad)
    log.raises(lambda: torch.autograd.grad(nothing.apply(x).sum(), x))
    log(bare(torch.autograd.grad(nothing.apply(x).sum(), x, allow_unused=True)))
    (nothing.apply(x * 2) + x).sum().backward()
    log(bare(x.grad))


@program
def none_passed_on_to_a_builtin_node(torch, log):
    x = leaf(torch, 1.0, 2.0)
    nothing = returning(torch, lambda c, g: None)
    nothing.apply((x * 3).exp()).sum().backward()
    log(bare(x.grad))


@program
def gradient_for_an_argument_that_needs_none(torch, log):
    x, y = leaf(torch, 1.0), torch.tensor([2.0])
    both = returning(torch, lambda c, g: (g * 2, g * 3))
    both.apply(x, y).backward()
    log(bare(x.grad), y.grad)
    log.raises(lambda: both.apply(x, "text").backward())


@program
def function_gradient_is_cut_to_shape_by_broadcast_rule(torch, log):
    x = torch.tensor([[1.0], [2.0]], requires_grad=True)
    spread = returning(torch, lambda c, g: torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    spread.apply(x).sum().backward()
    log(bare(x.grad))


# --- failures and recovery -------------------------------------------------------------------


@program
def exception_in_forward(torch, log):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            raise ValueError("no forward today")

    x = leaf(torch, 1.0)
    log.raises(lambda: Fails.apply(x))
    log(torch.is_grad_enabled())
    (x * 2).backward()
    log(bare(x.grad))


@program
def exception_in_backward(torch, log):
    def fail(ctx, grad):
        raise KeyError("no backward today")

    x = leaf(torch, 1.0)
    y = returning(torch, fail).apply(x)
    log.raises(lambda: y.backward())
    log(torch.is_grad_enabled(), x.grad)
    (x * 2).backward()
    log(bare(x.grad))
    log.raises(lambda: y.backward())


@program
def custom_exception_class_survives(torch, log):
    class MyError(Exception):
        pass

    def fail(ctx, grad):
        raise MyError("mine", 3)

    x = leaf(torch, 1.0)
    try:
        returning(torch, fail).apply(x).backward()
    except MyError as error:
        log(error.args)


@program
def function_in_a_diamond(torch, log):
    square = make_square(torch)
    x = leaf(torch, 2.0)
    a = square.apply(x)
    (square.apply(a) + a * x).backward()
    log(bare(x.grad))


@program
def straight_through_estimator(torch, log):
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (x > 0.5).to(x.dtype)

        @staticmethod
        def backward(ctx, grad):
            return grad.clamp(-1, 1)

    x = leaf(torch, 0.2, 0.7)
    (Round.apply(x) * torch.tensor([3.0, -0.5])).sum().backward()
    log(bare(x.grad))


@program
def clamped_relu_with_two_tensor_inputs(torch, log):
    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x.clamp(min=0) @ w

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            gx = gw = None
            if ctx.needs_input_grad[0]:
                gx = (grad @ w.t()) * (x > 0)
            if ctx.needs_input_grad[1]:
                gw = x.clamp(min=0).t() @ grad
            return gx, gw

    x = torch.tensor([[1.0, -2.0]], requires_grad=True)
    w = torch.tensor([[1.0], [2.0]], requires_grad=True)
    Gate.apply(x, w).sum().backward()
    log(bare(x.grad), bare(w.grad))
    Gate.apply(x.detach(), w).sum().backward()
    log(bare(w.grad))
