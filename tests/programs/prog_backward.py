"""backward() and autograd.grad(): arguments, accumulation, leaves, errors, higher orders."""

import copy
import pickle
import warnings
import weakref

from programs.harness import first_line, program

# The first warning would make this name while the harness walks over the module.
__warningregistry__ = {}


def caught(action):
    """Class and first line of each warning, without PyTorch's note on its own sources."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        action()
    return [[w.category.__name__, first_line(w.message)] for w in found]


def bare(value):
    """Gradients without their version: how often the engine adds in place is its own affair."""
    if isinstance(value, (tuple, list)):
        return [bare(v) for v in value]
    return value if value is None or value.requires_grad else value.data


def copied(t):
    """A copy's facts without its version, which tells how the copy was made and no more."""
    return t.detach().clone(), t.requires_grad, t.is_leaf, t.grad_fn


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


# --- the gradient argument -------------------------------------------------------------------


@program
def scalar_root_needs_no_gradient(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = (x * x).sum()
    log(y.backward())
    log(bare(x.grad), y.grad_fn)


@program
def one_element_root_needs_no_gradient(torch, log):
    x = torch.tensor([[3.0]], requires_grad=True)
    (x * x).backward()
    log(bare(x.grad))


@program
def non_scalar_root_raises(torch, log):
    x = leaf(torch, 1.0, 2.0)
    log.raises(lambda: (x * 2).backward())
    log.raises(lambda: torch.autograd.backward(x * 2))
    log.raises(lambda: bare(torch.autograd.grad(x * 2, x)))
    log(bare(x.grad))


@program
def gradient_tensor(torch, log):
    x = leaf(torch, 1.0, 2.0)
    (x * x).backward(torch.tensor([1.0, 10.0]))
    log(bare(x.grad))
    (x * x).backward(gradient=torch.tensor([1.0, 0.0]))
    log(bare(x.grad))


@program
def gradient_of_wrong_shape(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = x * x
    log.raises(lambda: y.backward(torch.tensor([1.0, 1.0, 1.0])))
    log.raises(lambda: y.backward(torch.tensor(1.0)))
    log.raises(lambda: y.sum().backward(torch.tensor([1.0])))
    log.raises(lambda: bare(torch.autograd.grad(y, x, torch.tensor([[1.0, 1.0]]))))


@program
def gradient_of_wrong_type(torch, log):
    x = leaf(torch, 1.0, 2.0)
    log.raises(lambda: (x * x).backward([1.0, 1.0]))
    log.raises(lambda: (x * x).sum().backward(1.0))
    log.raises(lambda: (x * x).sum().backward("one"))


@program
def gradient_of_other_dtype_is_cast(torch, log):
    x = leaf(torch, 1.0, 2.0)
    (x * x).backward(torch.tensor([1.0, 2.0], dtype=torch.float64))
    log(bare(x.grad))
    log.raises(lambda: (x * x).backward(torch.tensor([1, 2])))
    log(bare(x.grad))


@program
def complex_gradient_for_real_root(torch, log):
    x = leaf(torch, 1.0, 2.0)
    log.raises(lambda: (x * x).backward(torch.tensor([1.0 + 1.0j, 2.0])))
    log(bare(x.grad))


@program
def gradient_that_requires_grad(torch, log):
    x = leaf(torch, 1.0, 2.0)
    v = leaf(torch, 3.0, 4.0)
    (g,) = torch.autograd.grad(x * x, x, v, create_graph=True)
    log(g)
    g.sum().backward()
    log(bare(x.grad), bare(v.grad))


@program
def gradient_that_requires_grad_without_create_graph(torch, log):
    x = leaf(torch, 1.0, 2.0)
    v = leaf(torch, 3.0, 4.0)
    (x * x).backward(v)
    log(bare(x.grad), bare(v.grad))


@program
def gradient_argument_is_not_kept(torch, log):
    x = leaf(torch, 1.0, 2.0)
    v = torch.tensor([1.0, 1.0])
    x.clone().backward(v)
    v.mul_(100)
    log(bare(x.grad), v)


@program
def backward_on_a_leaf(torch, log):
    x = torch.tensor(2.0, requires_grad=True)
    x.backward()
    log(bare(x.grad))
    x.backward(torch.tensor(5.0))
    log(bare(x.grad))


@program
def backward_without_graph(torch, log):
    log.raises(lambda: torch.tensor(1.0).backward())
    log.raises(lambda: torch.tensor([1.0, 2.0]).sum().backward())
    x = torch.tensor(1.0, requires_grad=True)
    log.raises(lambda: (x * 2).detach().backward())
    log.raises(lambda: bare(torch.autograd.grad(torch.tensor(1.0), x)))


@program
def integer_root(torch, log):
    log.raises(lambda: torch.tensor(1).backward())
    x = torch.tensor([3.0, 1.0], requires_grad=True)
    log.raises(lambda: x.argmax().backward())


# --- several roots ---------------------------------------------------------------------------


@program
def several_roots(torch, log):
    x = leaf(torch, 1.0, 2.0)
    a, b = x * 2, (x * x).sum()
    torch.autograd.backward([a, b], [torch.tensor([1.0, 1.0]), None])
    log(bare(x.grad))


@program
def several_roots_one_behind_the_other(torch, log):
    x = leaf(torch, 1.0, 2.0)
    a = x * x
    b = (a * 3).sum()
    torch.autograd.backward((b, a.sum()))
    log(bare(x.grad))


@program
def same_root_twice(torch, log):
    x = torch.tensor(3.0, requires_grad=True)
    y = x * x
    torch.autograd.backward([y, y])
    log(bare(x.grad))
    log(bare(torch.autograd.grad([x * 2, x * 3], [x])))


@program
def several_roots_wrong_counts(torch, log):
    x = leaf(torch, 1.0, 2.0)
    a, b = x * 2, x * 3
    one = torch.tensor([1.0, 1.0])
    log.raises(lambda: torch.autograd.backward([a, b], [one]))
    log.raises(lambda: torch.autograd.backward([a, b], one))
    log.raises(lambda: bare(torch.autograd.grad([a, b], x, [one, one, one])))
    log.raises(lambda: torch.autograd.backward([a.sum(), b.sum()], []))


@program
def one_root_of_several_needs_no_grad(torch, log):
    x = torch.tensor(3.0, requires_grad=True)
    log.raises(lambda: torch.autograd.backward([x * 2, torch.tensor(1.0)]))
    log(bare(x.grad))


@program
def no_roots(torch, log):
    x = torch.tensor(3.0, requires_grad=True)
    log.raises(lambda: torch.autograd.backward([]))
    log.raises(lambda: bare(torch.autograd.grad([], [x])))


@program
def grad_variables_is_deprecated(torch, log):
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    v = torch.tensor([1.0, 2.0])
    log.raises(lambda: torch.autograd.backward(x * 2, v, grad_variables=v))
    log(caught(lambda: torch.autograd.backward(x * 2, grad_variables=v)))
    log(bare(x.grad))


# --- retaining and freeing -------------------------------------------------------------------


@program
def backward_twice_raises(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = (x * x).sum()
    y.backward()
    log.raises(lambda: y.backward())
    log.raises(lambda: bare(torch.autograd.grad(y, x)))
    log(bare(x.grad))


@program
def backward_twice_without_saved_values(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = (x + 1).sum()
    y.backward()
    log.raises(lambda: y.backward())
    log(bare(x.grad))


@program
def retain_graph(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    log(bare(x.grad))
    y.backward()
    log(bare(x.grad))
    log.raises(lambda: y.backward())


@program
def shared_part_freed_by_the_first_backward(torch, log):
    x = leaf(torch, 1.0, 2.0)
    shared = x.exp()
    a, b = (shared * 2).sum(), (shared * 3).sum()
    a.backward()
    log(bare(x.grad))
    log.raises(lambda: b.backward())
    log(bare(x.grad))


@program
def freed_saved_attribute(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = x.exp()
    log(y.grad_fn._saved_result)
    y.sum().backward()
    log.raises(lambda: y.grad_fn._saved_result)


@program
def partial_backward_leaves_the_rest(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor(3.0, requires_grad=True)
    y = a.exp() * b.exp()
    log(bare(torch.autograd.grad(y, b, retain_graph=True)))
    log(bare(torch.autograd.grad(y, a)))
    log.raises(lambda: bare(torch.autograd.grad(y, b)))


@program
def create_graph_implies_retain_graph(torch, log):
    x = torch.tensor(2.0, requires_grad=True)
    y = x * x * x
    log(torch.autograd.grad(y, x, create_graph=True))
    log(bare(torch.autograd.grad(y, x)))


@program
def create_graph_with_retain_graph_false(torch, log):
    x = torch.tensor(2.0, requires_grad=True)
    y = x * x * x
    log(torch.autograd.grad(y, x, create_graph=True, retain_graph=False))
    log.raises(lambda: bare(torch.autograd.grad(y, x)))


# --- accumulation ----------------------------------------------------------------------------


@program
def grad_starts_as_none_and_accumulates(torch, log):
    x = leaf(torch, 1.0, 2.0)
    log(bare(x.grad))
    for _ in range(3):
        (x * 2).sum().backward()
        log(bare(x.grad))


@program
def accumulation_is_in_place(torch, log):
    x = leaf(torch, 1.0, 2.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * 2).sum().backward()
    log(first is x.grad, first)


@program
def accumulation_under_create_graph_is_out_of_place(torch, log):
    x = leaf(torch, 1.0, 2.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * x).sum().backward(create_graph=True)
    log(first is x.grad, first, bare(x.grad))


@program
def gradients_of_two_leaves_share_no_memory(torch, log):
    a, b = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    (a + b).backward(torch.tensor([1.0, 1.0]))
    a.grad.add_(10)
    log(bare(a.grad), bare(b.grad))


@program
def grad_set_to_none_and_zeroed(torch, log):
    x = leaf(torch, 1.0, 2.0)
    (x * 2).sum().backward()
    x.grad = None
    log(bare(x.grad))
    (x * 3).sum().backward()
    x.grad.zero_()
    log(bare(x.grad))
    (x * 4).sum().backward()
    log(bare(x.grad))


@program
def leaf_used_many_times(torch, log):
    x = leaf(torch, 1.0, 2.0)
    (x + x * x + x * x * x - x).sum().backward()
    log(bare(x.grad))


# --- inputs= and autograd.grad ---------------------------------------------------------------


@program
def inputs_limits_what_accumulates(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor(3.0, requires_grad=True)
    (a * b).backward(inputs=[a])
    log(bare(a.grad), bare(b.grad))
    (a * b).backward(inputs=b)
    log(bare(a.grad), bare(b.grad))


@program
def inputs_non_leaf(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    m = a * 3
    y = m * m
    y.backward(inputs=[m, a])
    log(bare(a.grad), bare(m.grad), m.retains_grad)


@program
def inputs_bad(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    log.raises(lambda: (a * 2).backward(inputs=[]))
    log.raises(lambda: (a * 2).backward(inputs=[torch.tensor(1.0)]))
    other = torch.tensor(1.0, requires_grad=True)
    log.raises(lambda: (a * 2).backward(inputs=[other]))
    log(bare(a.grad), bare(other.grad))


@program
def grad_does_not_touch_dot_grad(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor(3.0, requires_grad=True)
    log(bare(torch.autograd.grad(a * b * b, [a, b])))
    log(bare(a.grad), bare(b.grad))


@program
def grad_of_non_leaf(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    m = a * a
    log(bare(torch.autograd.grad(m * m * 3, [m, a])))


@program
def grad_of_the_output_itself(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    y = a * a
    log(bare(torch.autograd.grad(y, y)))
    log(bare(torch.autograd.grad(a, a)))


@program
def grad_of_same_input_twice(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    log(bare(torch.autograd.grad(a * a, [a, a])))


@program
def grad_outputs_of_every_kind(torch, log):
    x = leaf(torch, 1.0, 2.0)
    v = torch.tensor([1.0, 10.0])
    log(bare(torch.autograd.grad(x * x, x, v)))
    log(bare(torch.autograd.grad(x * x, x, [v])))
    log(bare(torch.autograd.grad(x * x, [x], grad_outputs=(v,))))
    log(bare(torch.autograd.grad([x * x, x.sum()], x, [v, None])))


@program
def allow_unused(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    b = leaf(torch, 1.0, 2.0)
    log.raises(lambda: bare(torch.autograd.grad(a * 2, [a, b])))
    log(bare(torch.autograd.grad(a * 2, [a, b], allow_unused=True)))
    log.raises(lambda: bare(torch.autograd.grad(a * 2, [a, b], allow_unused=False)))


@program
def input_without_requires_grad(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor(2.0)
    log.raises(lambda: bare(torch.autograd.grad(a * b, b)))
    log.raises(lambda: bare(torch.autograd.grad(a * b, b, allow_unused=True)))


@program
def materialize_grads(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor([[1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    log(bare(torch.autograd.grad(a * 2, [a, b], materialize_grads=True)))
    log.raises(
        lambda: bare(torch.autograd.grad(a * 2, [a, b], allow_unused=False, materialize_grads=True))
    )


@program
def grad_with_bad_argument_types(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    log.raises(lambda: bare(torch.autograd.grad(a * 2, [3.0])))
    log.raises(lambda: bare(torch.autograd.grad(a * 2, [])))


# --- higher orders ---------------------------------------------------------------------------


@program
def third_derivative_of_a_power(torch, log):
    x = torch.tensor(2.0, requires_grad=True)
    y = x**4
    for _ in range(4):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        log(y)


@program
def derivatives_of_sin(torch, log):
    x = torch.tensor([0.0, 0.5], dtype=torch.float64, requires_grad=True)
    y = x.sin()
    for _ in range(5):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        log(y.detach())


@program
def mixed_second_derivative(torch, log):
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor(3.0, requires_grad=True)
    y = a * a * b + b.exp() * a
    da, db = torch.autograd.grad(y, [a, b], create_graph=True)
    log(da, db)
    log(bare(torch.autograd.grad(da, [a, b], retain_graph=True)))
    log(bare(torch.autograd.grad(db, [a, b])))


@program
def double_backward_through_matmul(torch, log):
    w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x = torch.tensor([[0.5], [-1.0]], requires_grad=True)
    y = ((w @ x) ** 2).sum()
    (gx,) = torch.autograd.grad(y, x, create_graph=True)
    (gx * gx).sum().backward()
    log(gx, bare(w.grad), bare(x.grad))


@program
def gradient_penalty(torch, log):
    x = leaf(torch, 0.5, -0.25)
    y = (x.tanh() * x.sigmoid()).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (y + (g.norm() - 1) ** 2).backward()
    log(bare(x.grad))


@program
def grad_of_linear_function_has_no_graph(torch, log):
    x = leaf(torch, 1.0, 2.0)
    (g,) = torch.autograd.grad((x * 3).sum(), x, create_graph=True)
    log(g.requires_grad)
    log.raises(lambda: bare(torch.autograd.grad(g.sum(), x)))
    log.raises(lambda: bare(torch.autograd.grad(g.sum(), x, allow_unused=True)))


@program
def without_create_graph_the_gradient_has_no_history(torch, log):
    x = leaf(torch, 1.0, 2.0)
    (g,) = torch.autograd.grad((x * x).sum(), x)
    log(bare(g))
    log.raises(lambda: g.sum().backward())


@program
def hessian_by_rows(torch, log):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = torch.autograd.grad((x.prod() + (x**3).sum()), x, create_graph=True)
    log([bare(torch.autograd.grad(g[i], x, retain_graph=True))[0] for i in range(3)])


@program
def graph_of_a_gradient(torch, log):
    x = torch.tensor(2.0, requires_grad=True)
    (g,) = torch.autograd.grad(x * x, x, create_graph=True)
    log.graph(g)
    (g,) = torch.autograd.grad(x.exp(), x, create_graph=True)
    log.graph(g)
    (g,) = torch.autograd.grad(x.sin(), x, create_graph=True)
    log.graph(g)


# --- leaves, .grad, .data --------------------------------------------------------------------


@program
def is_leaf_rules(torch, log):
    a = torch.tensor([1.0])
    b = torch.tensor([1.0], requires_grad=True)
    for t in (a, b, a * 2, b * 2, (b * 2).detach(), b.detach(), b.data, b.clone(), b.view(1)):
        log(t.is_leaf, t.requires_grad, t.grad_fn)
    log((a * 2).requires_grad_())
    with torch.no_grad():
        log(b * 2)


@program
def non_leaf_grad_access_warns(torch, log):
    x = torch.tensor(2.0, requires_grad=True)
    y = x * 2
    log(caught(lambda: y.grad))
    y.backward()
    log(caught(lambda: y.grad), y.grad)
    log(caught(lambda: x.grad), caught(lambda: torch.tensor(1.0).grad))


@program
def retain_grad(torch, log):
    x = torch.tensor(2.0, requires_grad=True)
    y = x * 2
    log(x.retains_grad, y.retains_grad)
    y.retain_grad()
    y.retain_grad()
    log(y.retains_grad, caught(lambda: y.grad))
    (y * y).backward(retain_graph=True)
    log(bare(x.grad), bare(y.grad))
    (y * 3).backward()
    log(bare(y.grad))


@program
def retain_grad_on_leaf_and_on_constant(torch, log):
    x = torch.tensor(2.0, requires_grad=True)
    log(x.retain_grad(), x.retains_grad)
    log.raises(lambda: torch.tensor(1.0).retain_grad())


@program
def assign_grad(torch, log):
    x = leaf(torch, 1.0, 2.0)
    g = torch.tensor([5.0, 6.0])
    x.grad = g
    log(x.grad is g)
    (x * 2).sum().backward()
    log(g)
    del x.grad
    log(bare(x.grad))


@program
def assign_grad_checks(torch, log):
    x = leaf(torch, 1.0, 2.0)

    def assign(value):
        x.grad = value

    log.raises(lambda: assign(torch.tensor([1.0])))
    log.raises(lambda: assign(torch.tensor([[1.0, 2.0]])))
    log.raises(lambda: assign(torch.tensor([1.0, 2.0], dtype=torch.float64)))
    log.raises(lambda: assign(torch.tensor([1, 2])))
    log.raises(lambda: assign(1.0))
    log.raises(lambda: assign(x))
    log(bare(x.grad))


@program
def assign_grad_to_constant(torch, log):
    x = torch.tensor([1.0, 2.0])
    x.grad = torch.tensor([3.0, 4.0])
    log(bare(x.grad), x.requires_grad)


@program
def assign_data(torch, log):
    x = leaf(torch, 1.0, 2.0)
    before = x._version
    x.data = torch.tensor([7.0, 8.0, 9.0])
    log(x, x._version - before)
    (x * x).sum().backward()
    log(bare(x.grad))


@program
def assign_data_checks(torch, log):
    x = leaf(torch, 1.0, 2.0)

    def assign(value):
        x.data = value

    log.raises(lambda: assign(5.0))
    log.raises(lambda: assign(None))
    log.raises(lambda: assign(torch.tensor([1, 2])))
    assign(torch.tensor([1.0, 2.0], dtype=torch.float64))
    log(x)


@program
def data_shares_memory_but_not_version(torch, log):
    x = leaf(torch, 1.0, 2.0)
    d = x.data
    d.mul_(3)
    log(x, d)
    e = x.detach()
    e.mul_(2)
    log(x, e)


@program
def write_through_data_is_not_noticed(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = (x * x).sum()
    x.data.mul_(10)
    y.backward()
    log(bare(x.grad))


@program
def write_through_detach_is_noticed(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = (x * x).sum()
    x.detach().mul_(10)
    log.raises(lambda: y.backward())


@program
def detach_cuts(torch, log):
    x = torch.tensor(3.0, requires_grad=True)
    (x * x.detach()).backward()
    log(bare(x.grad))


@program
def detach_in_place(torch, log):
    x = torch.tensor(3.0, requires_grad=True)
    y = x * x
    z = y * 2
    log(y.detach_())
    log.raises(lambda: y.backward())
    z.backward()
    log(bare(x.grad))
    log(x.detach_())


@program
def detach_in_place_on_a_view(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    v = y[0]
    log.raises(lambda: v.detach_())
    log.raises(lambda: x.view(2).detach_())


@program
def requires_grad_setter(torch, log):
    x = torch.tensor([1.0, 2.0])
    x.requires_grad = True
    log(x)
    log(x.requires_grad_(False))
    log(x.requires_grad_())
    y = x * 2

    def switch_off():
        y.requires_grad = False

    log.raises(switch_off)
    log.raises(lambda: y.requires_grad_(False))
    log.raises(lambda: y.requires_grad_(True))


@program
def requires_grad_of_integers(torch, log):
    log.raises(lambda: torch.tensor([1, 2], requires_grad=True))
    log.raises(lambda: torch.tensor([True], requires_grad=True))
    log.raises(lambda: torch.tensor([1, 2]).requires_grad_())
    log.raises(lambda: torch.zeros(2, dtype=torch.int64, requires_grad=True))
    log.raises(lambda: torch.tensor([1, 2]).requires_grad_(False))
    log.raises(lambda: torch.tensor([1.0 + 2.0j], requires_grad=True))

    def assign():
        torch.tensor([1, 2]).requires_grad = True

    log.raises(assign)


@program
def integer_results_need_no_grad(torch, log):
    x = leaf(torch, 1.5, 0.5)
    log(x.argmax(), x > 1, x.long(), x.int().requires_grad)
    log(x.max(0)[1].requires_grad, x.max(0)[0].requires_grad)


@program
def leaf_switched_off_after_use(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = (x * x).sum()
    x.requires_grad_(False)
    log.raises(lambda: y.backward())
    log(bare(x.grad))


@program
def numpy_and_item_of_a_tensor_that_requires_grad(torch, log):
    x = leaf(torch, 1.0, 2.0)
    log.raises(lambda: x.numpy())
    log(x.detach().numpy())
    log(x.tolist(), x.sum().item())
    log.raises(lambda: x.item())


# --- copies, references, attributes ----------------------------------------------------------


@program
def deepcopy_rules(torch, log):
    x = leaf(torch, 1.0, 2.0)
    (x * x).sum().backward()
    y = copy.deepcopy(x)
    log(copied(y), bare(y.grad), y.grad is x.grad, y.data_ptr() == x.data_ptr())
    log.raises(lambda: copy.deepcopy(x * 2))
    log(copied(copy.deepcopy((x * 2).detach())))


@program
def deepcopy_keeps_sharing(torch, log):
    x = torch.tensor([1.0, 2.0])
    a, b = copy.deepcopy([x, x])
    log(a is b, a is x)
    base, view = copy.deepcopy([x, x[:1]])
    view.fill_(9)
    log(base.tolist(), view.tolist(), view._is_view())


@program
def copy_copy_rules(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = copy.copy(x)
    log(copied(y), y is x, y.data_ptr() == x.data_ptr())
    log.raises(lambda: copied(copy.copy(x * 2)))


@program
def pickle_rules(torch, log):
    x = leaf(torch, 1.0, 2.0)
    x.grad = torch.tensor([3.0, 4.0])
    y = pickle.loads(pickle.dumps(x))
    log(copied(y), bare(y.grad))
    log.raises(lambda: copied(pickle.loads(pickle.dumps(x * 2))))


@program
def weak_references(torch, log):
    x = torch.tensor([1.0], requires_grad=True)
    r = weakref.ref(x)
    log(r() is x)
    y = x * 2
    del x
    log(r() is not None)
    del y
    log(r() is None)


@program
def user_attributes(torch, log):
    x = torch.tensor([1.0])
    x.note = "mine"
    log(x.note, (x * 2).__dict__, copy.deepcopy(x).note)
    log.raises(lambda: (x * 2).note)


@program
def grad_fn_is_the_same_object(torch, log):
    x = torch.tensor([1.0], requires_grad=True)
    y = x * 2
    log(y.grad_fn is y.grad_fn, (y * 1).grad_fn.next_functions[0][0] is y.grad_fn)
    log(x.grad_fn)


@program
def read_only_attributes(torch, log):
    x = torch.tensor([1.0], requires_grad=True)
    for name in ("is_leaf", "grad_fn", "output_nr", "_version", "retains_grad"):
        try:
            setattr(x, name, None)
        except AttributeError as error:
            log(name, type(error).__name__)


@program
def output_nr(torch, log):
    x = torch.tensor([3.0, 1.0, 2.0, 4.0], requires_grad=True)
    log([t.output_nr for t in x.split(2)], [t.output_nr for t in x.unbind()])
    log([t.output_nr for t in x.chunk(2)], x.output_nr, (x * 2).output_nr)
    values, _ = x.max(0)
    log(values.output_nr, values.grad_fn)
    parts = (x * 2).unbind()
    log((parts[2] * parts[1]).grad_fn.next_functions)


@program
def only_some_outputs_used(torch, log):
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    a, b = (x * 2).split(2)
    (b * b).sum().backward()
    log(bare(x.grad))


@program
def grad_follows_the_tensor_after_in_place(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    y.add_(1)
    y.mul_(x)
    log(y)
    log.graph(y)
    y.sum().backward()
    log(bare(x.grad))


@program
def saved_value_changed_in_place(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    y.add_(1)
    log.raises(lambda: z.backward())
    w = x.exp()
    v = w.sum()
    w.mul_(2)
    log.raises(lambda: v.backward())
    log(bare(x.grad))


@program
def value_times_itself_in_place(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    y.mul_(y)
    log(y)
    log.graph(y)
    log.raises(lambda: y.sum().backward())


@program
def unsaved_value_changed_in_place(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    z = (y + 1).sum()
    y.zero_()
    log.raises(lambda: z.backward())
    log(y, bare(x.grad))


@program
def in_place_on_a_leaf(torch, log):
    x = leaf(torch, 1.0, 2.0)
    log.raises(lambda: x.add_(1))
    log.raises(lambda: x[0].mul_(2))
    log.raises(lambda: x.__setitem__(0, 5.0))
    with torch.no_grad():
        x.add_(1)
    log(x)


@program
def variable_is_tensor(torch, log):
    v = torch.autograd.Variable(torch.tensor([1.0, 2.0]), requires_grad=True)
    log(v, isinstance(v, torch.Tensor), isinstance(v, torch.autograd.Variable))
    (v * v).sum().backward()
    log(bare(v.grad))
