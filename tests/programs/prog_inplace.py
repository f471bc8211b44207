"""In-place writes: versions, rebased history, gradients afterwards, and everything refused."""

import functools

from programs.harness import program
from programs.prog_views import plain, warned


def leaf(torch, *values, grad=True):
    return torch.tensor(values or (1.0, 2.0, 3.0, 4.0), requires_grad=grad)


def finish(torch, log, out, *leaves):
    """Weight every element differently, go backward, log the gradients or the refusal."""
    weights = torch.arange(1.0, out.numel() + 1).view(out.shape)
    log.raises(lambda: (out * weights).sum().backward())
    log([plain(torch, x.grad) for x in leaves])


def versions(log, *tensors):
    log([t._version for t in tensors], [t.grad_fn for t in tensors])


@program
def version_of_every_kind_of_write(torch, log):
    a = leaf(torch, grad=False)
    a.add_(1)
    log(a._version)
    a += 1
    a -= 1
    a *= 2
    a /= 2
    a **= 2
    log(a._version)
    a.copy_(torch.ones(4))
    a.fill_(3)
    a.zero_()
    log(a._version)
    a[0] = 5
    a[1:] = torch.tensor([1.0, 2.0, 3.0])
    a[torch.tensor([0, 2])] = 7.0
    a[a > 6] = 0.0
    log(a._version, a)


@program
def version_is_untouched_by_reading(torch, log):
    a = leaf(torch, grad=False)
    _ = a + 1, a[0], a.sum(), a.clone(), a.tolist(), a.numpy(), repr(a), a.detach(), a.view(2, 2)
    log(a._version)
    a.requires_grad_()
    log(a._version)


@program
def version_is_shared_with_views(torch, log):
    a = leaf(torch, grad=False)
    v, w = a[1:], a.view(2, 2)
    vv = v[1:]
    v.add_(1)
    log(a._version, v._version, w._version, vv._version)
    vv.zero_()
    a.mul_(2)
    log(a, v, w, vv)


@program
def version_is_shared_with_detach_not_data(torch, log):
    a = leaf(torch)
    d, x = a.detach(), a.data
    d.add_(1)
    log(a, d._version, x._version)
    x.mul_(10)
    log(a, d, x)
    log(a.detach()._version, a.data._version)


@program
def version_of_clone_starts_at_zero(torch, log):
    a = leaf(torch, grad=False)
    a.add_(1).add_(1)
    log(a.clone()._version, a.contiguous()._version, (a + 0)._version, a[1:]._version)


@program
def version_after_numpy_write(torch, log):
    a = leaf(torch, grad=False)
    a.numpy()[0] = 50.0
    log(a)


@program
def version_of_views_of_complex(torch, log):
    z = torch.tensor([1 + 1j, 2 + 2j])
    z.real.add_(1)
    torch.view_as_real(z)[0, 1] = 9.0
    log(z)


@program
def version_after_optimizer_step(torch, log):
    w = leaf(torch)
    opt = torch.optim.SGD([w], lr=0.5)
    (w * w).sum().backward()
    opt.step()
    log(w)
    opt.step()
    log(w)
    opt.zero_grad()
    log(w.grad)


@program
def optimizer_step_between_two_backwards(torch, log):
    w = leaf(torch)
    out = (w * w).sum()
    out.backward(retain_graph=True)
    torch.optim.SGD([w], lr=0.5).step()
    log.raises(lambda: out.backward())


@program
def failed_write_leaves_the_version(torch, log):
    a = leaf(torch)
    log.raises(lambda: a.add_(1))
    b = leaf(torch, grad=False)
    log.raises(lambda: b.add_(torch.ones(3)))
    log.raises(lambda: b.copy_(torch.ones(3)))
    log(a, b)


@program
def op_underscore_returns_self(torch, log):
    a = leaf(torch) * 1
    log(a.mul_(2) is a, a.t_() is a, a.detach_() is a, a.requires_grad_() is a)


@program
def leaf_that_requires_grad_is_refused(torch, log):
    a = leaf(torch)
    log.raises(lambda: a.mul_(2))
    log.raises(lambda: a.zero_())
    log.raises(lambda: a.copy_(torch.ones(4)))
    log.raises(lambda: a.fill_(1.0))
    log.raises(lambda: a.__iadd__(1))
    log.raises(lambda: a.__setitem__(0, 1.0))
    log.raises(lambda: a.clamp_(min=0))
    log.raises(lambda: a.masked_fill_(a > 1, 0.0))
    log(a)


@program
def view_of_leaf_is_refused(torch, log):
    a = leaf(torch)
    log.raises(lambda: a[1:].mul_(2))
    log.raises(lambda: a.view(2, 2).zero_())
    log.raises(lambda: a[1:][1:].fill_(2))
    log.raises(lambda: a[1:].__setitem__(0, 1.0))
    log.raises(lambda: a.unbind()[0].add_(1))
    log(a)


@program
def leaf_may_be_written_under_no_grad(torch, log):
    a = leaf(torch)
    with torch.no_grad():
        a.mul_(2)
        a[0] = 9.0
        a[1:].add_(1)
        a -= 1
    log(a, a.is_leaf, a.requires_grad, a._version)
    finish(torch, log, a, a)


@program
def leaf_written_under_no_grad_after_use(torch, log):
    a = leaf(torch)
    s, p = (a + 1).sum(), (a * a).sum()
    with torch.no_grad():
        a.zero_()
    log.raises(lambda: s.backward())
    log.raises(lambda: p.backward())


@program
def data_write_goes_unnoticed(torch, log):
    a = leaf(torch)
    p = (a * a).sum()
    a.data.mul_(10)
    log.raises(lambda: p.backward())
    log(plain(torch, a.grad), a)


@program
def detach_write_is_noticed(torch, log):
    a = leaf(torch)
    p = (a * a).sum()
    a.detach().mul_(10)
    log.raises(lambda: p.backward())
    b = leaf(torch) * 1
    q = b.exp()
    q.detach().zero_()
    log.raises(lambda: q.sum().backward())


@program
def history_after_arithmetic(torch, log):
    x = leaf(torch)
    a = x * 1
    for step in (lambda: a.add_(1), lambda: a.mul_(2), lambda: a.sub_(1), lambda: a.div_(4)):
        step()
        log(a)
    finish(torch, log, a, x)


@program
def history_after_unary(torch, log):
    x = leaf(torch, 0.5, 1.0, 2.0, 3.0)
    a = x * 1
    a.exp_()
    a.log_()
    a.sqrt_()
    a.sin_()
    log(a)
    log.graph(a)
    finish(torch, log, a, x)


@program
def history_after_more_unary(torch, log):
    for name in ("cos_", "tanh_", "sigmoid_", "abs_", "neg_", "relu_", "sign_"):
        x = leaf(torch, -2.0, -0.5, 0.5, 2.0)
        a = x * 1
        getattr(a, name)()
        log(a)
        finish(torch, log, a, x)


@program
def history_after_pow_and_clamp(torch, log):
    x = leaf(torch)
    a = x * 1
    a.pow_(2)
    log(a)
    a.clamp_(2.0, 10.0)
    log(a)
    a **= 2
    log(a)
    finish(torch, log, a, x)


@program
def history_after_fill_and_zero(torch, log):
    x = leaf(torch)
    a, b = x * 1, x * 1
    a.fill_(3.0)
    b.zero_()
    log(a, b)
    log.graph(a)
    finish(torch, log, a, x)
    finish(torch, log, b, x)


@program
def history_after_copy(torch, log):
    x, y = leaf(torch), leaf(torch, 5.0, 6.0, 7.0, 8.0)
    a = x * 1
    a.copy_(y)
    log(a)
    log.graph(a)
    finish(torch, log, a, x, y)


@program
def copy_broadcasts_and_casts(torch, log):
    x, y = leaf(torch), leaf(torch, 2.0)
    a = x * 1
    a.copy_(y)
    finish(torch, log, a, x, y)
    d = torch.zeros(4, dtype=torch.float64)
    d.copy_(x)
    log(d)
    finish(torch, log, d, x)
    i = torch.zeros(4, dtype=torch.int64)
    i.copy_(x)
    log(i)
    log.raises(lambda: i.copy_(torch.ones(3)))
    log.raises(lambda: i.copy_(torch.ones(2, 4)))


@program
def history_after_masked_fill(torch, log):
    x = leaf(torch)
    a = x * 1
    a.masked_fill_(x > 2, 0.0)
    log(a)
    finish(torch, log, a, x)


@program
def history_after_triangle(torch, log):
    x = leaf(torch)
    a = (x * 1).view(2, 2).clone()
    a.tril_()
    log(a)
    a.triu_()
    log(a)
    finish(torch, log, a, x)


@program
def history_after_scatter(torch, log):
    x, y = leaf(torch), leaf(torch, 5.0, 6.0)
    a = x * 1
    a.scatter_(0, torch.tensor([0, 2]), y)
    log(a)
    a.scatter_(0, torch.tensor([1]), 7.0)
    log(a)
    finish(torch, log, a, x, y)


@program
def write_through_a_view_rebases_the_base(torch, log):
    x = leaf(torch)
    a = x * 1
    v = a[1:3]
    v.mul_(10)
    log(a, v)
    log.graph(a)
    log.graph(v)
    finish(torch, log, a, x)


@program
def gradient_of_the_written_view(torch, log):
    x = leaf(torch)
    a = x * 1
    v = a[1:3]
    v.mul_(10)
    finish(torch, log, v, x)


@program
def write_to_the_base_regenerates_its_views(torch, log):
    x = leaf(torch)
    a = x * 1
    v, w = a[1:3], a.view(2, 2)
    versions(log, a, v, w)
    a.mul_(10)
    versions(log, a, v, w)
    log(v, w)
    log.graph(w)
    finish(torch, log, w, x)


@program
def write_seen_through_a_sibling_view(torch, log):
    x = leaf(torch)
    a = x * 1
    v, w = a[:3], a[2:]
    v.mul_(10)
    log(w)
    log.graph(w)
    finish(torch, log, w, x)


@program
def write_through_both_siblings(torch, log):
    x = leaf(torch)
    a = x * 1
    v, w = a[:3], a[1:]
    v.mul_(10)
    w.add_(1)
    v.exp_()
    versions(log, a, v, w)
    log.graph(a)
    y = leaf(torch)
    b = y * 1
    v, w = b[:3], b[1:]
    v.mul_(10)
    w.add_(1)
    finish(torch, log, b * v.sum() + w.sum(), y)


@program
def write_through_a_chain_of_views(torch, log):
    x = leaf(torch)
    a = x * 1
    b = a.view(2, 2)
    c = b.t()
    d = c[0]
    d.mul_(10)
    versions(log, a, b, c, d)
    log(a, b, c, d)
    log.graph(d)
    finish(torch, log, c, x)


@program
def write_to_the_middle_of_a_chain(torch, log):
    x = leaf(torch)
    a = x * 1
    b = a.view(2, 2)
    c = b[0]
    b.mul_(3)
    versions(log, a, b, c)
    c.add_(1)
    versions(log, a, b, c)
    finish(torch, log, a, x)


@program
def two_writes_through_one_view(torch, log):
    x = leaf(torch)
    a = x * 1
    v = a[::2]
    v.mul_(2)
    v.mul_(3)
    log(a, v)
    log.graph(a)
    finish(torch, log, a, x)


@program
def view_writes_of_every_view_op(torch, log):
    makers = [
        lambda t: t.t(),
        lambda t: t.permute(1, 0),
        lambda t: t.diagonal(),
        lambda t: t.select(0, 1),
        lambda t: t.narrow(1, 0, 1),
        lambda t: t.unsqueeze(0),
        lambda t: t.squeeze(),
        lambda t: t.flatten(),
        lambda t: t.as_strided((2,), (3,)),
        lambda t: t.movedim(0, 1),
        lambda t: t.mT,
        lambda t: t[..., None],
    ]
    for make in makers:
        x = leaf(torch)
        a = (x * 1).view(2, 2).clone()
        v = make(a)
        v.mul_(5)
        log(a, v)
        finish(torch, log, a, x)


@program
def write_with_a_tensor_operand_through_a_view(torch, log):
    x, y = leaf(torch), leaf(torch, 7.0, 8.0)
    a = x * 1
    v = a[1:3]
    v.mul_(y)
    log(a)
    finish(torch, log, a, x, y)


@program
def copy_through_a_view(torch, log):
    x, y = leaf(torch), leaf(torch, 7.0, 8.0)
    a = x * 1
    a[1:3].copy_(y)
    log(a)
    log.graph(a)
    finish(torch, log, a, x, y)


@program
def second_gradient_through_a_view_write(torch, log):
    x = leaf(torch)
    a = x * x
    a[1:3].mul_(a[:2].clone())
    (g,) = torch.autograd.grad((a * a).sum(), x, create_graph=True)
    log(plain(torch, g))
    (gg,) = torch.autograd.grad(g.sum(), x)
    log(plain(torch, gg))


@program
def base_begins_to_require_grad(torch, log):
    a, x = leaf(torch, grad=False), leaf(torch)
    v = a[1:]
    a.mul_(x)
    log(a, v, a.is_leaf, v.is_leaf)
    finish(torch, log, v, x)


@program
def view_write_makes_the_base_require_grad(torch, log):
    a, x = torch.zeros(4), leaf(torch, 5.0, 6.0)
    v, w = a[:2], a[1:]
    v.copy_(x)
    log(a, v, w)
    log.graph(a)
    finish(torch, log, w, x)


@program
def index_assignment_makes_the_base_require_grad(torch, log):
    a, x = torch.zeros(4), leaf(torch, 5.0)
    a[2] = x[0]
    log(a)
    log.graph(a)
    finish(torch, log, a, x)


@program
def requires_grad_on_a_base_with_views(torch, log):
    a = torch.zeros(4)
    v = a[1:]
    a.requires_grad_()
    log(v, a[1:])
    log.raises(lambda: v.add_(1))
    log.raises(lambda: a[1:].add_(1))
    b = torch.zeros(4)
    w = b[1:].requires_grad_()
    log(b, w)
    log.raises(lambda: w.add_(1))
    log.raises(lambda: b.add_(1))
    log(b, w)


@program
def unbind_outputs_refuse_writes(torch, log):
    x = leaf(torch)
    a = x * 1
    parts = a.unbind()
    log.raises(lambda: parts[0].mul_(2))
    log(a)


@program
def split_and_chunk_outputs_refuse_writes(torch, log):
    x = leaf(torch)
    a = x * 1
    log.raises(lambda: a.split(2)[0].mul_(2))
    log.raises(lambda: a.split([1, 3])[1].mul_(2))
    log.raises(lambda: a.chunk(2)[0].mul_(2))
    log.raises(lambda: a.split(2)[0][0].mul_(2))
    log.raises(lambda: a.split(4)[0].mul_(2))
    log(a)


@program
def multi_output_views_without_grad_are_free(torch, log):
    a = leaf(torch, grad=False)
    a.unbind()[0].fill_(9)
    a.split(2)[1].mul_(2)
    a.chunk(2)[0].neg_()
    log(a)


@program
def multi_output_views_begin_to_require_grad(torch, log):
    a, x = leaf(torch, grad=False), leaf(torch, 3.0)
    log.raises(lambda: a.unbind()[0].mul_(x[0]))
    log(a)


@program
def base_of_multi_output_views_is_written(torch, log):
    x = leaf(torch)
    a = x * 1
    p, q = a.split(2)
    a.mul_(2)
    log.raises(lambda: p.grad_fn)
    log.raises(lambda: (p * q).sum().backward())
    finish(torch, log, a, x)


@program
def view_made_under_no_grad_is_refused(torch, log):
    x = leaf(torch)
    a = x * 1
    with torch.no_grad():
        v = a[1:]
    log(v, v._is_view(), v._base is a)
    log.raises(lambda: v.mul_(2))
    with torch.no_grad():
        v.mul_(2)
    log(a, v.tolist(), v._version)
    log.raises(lambda: v.grad_fn)


@program
def view_made_under_no_grad_then_base_is_written(torch, log):
    x = leaf(torch)
    a = x * 1
    with torch.no_grad():
        v = a[1:]
    a.mul_(2)
    log.raises(lambda: v.grad_fn)
    log.raises(lambda: v.requires_grad)
    finish(torch, log, a, x)


@program
def view_of_leaf_made_under_no_grad(torch, log):
    x = leaf(torch)
    with torch.no_grad():
        v = x[1:]
    log.raises(lambda: v.mul_(2))
    with torch.no_grad():
        v.mul_(2)
    log(x, v.tolist())
    log.raises(lambda: v.grad_fn)


@program
def view_of_a_plain_base_made_under_no_grad(torch, log):
    a = leaf(torch, grad=False)
    with torch.no_grad():
        v = a[1:]
    v.mul_(2)
    log(a, v)
    log.raises(lambda: v.mul_(leaf(torch, 1.0, 2.0, 3.0)))
    log(a)


@program
def write_under_no_grad_to_a_view_with_history(torch, log):
    x = leaf(torch)
    a = x * 1
    v = a[1:]
    with torch.no_grad():
        v.mul_(2)
        a[0] = 9.0
    log(a, v)
    log.graph(v)
    finish(torch, log, v, x)


@program
def inference_tensors_refuse_writes_outside(torch, log):
    with torch.inference_mode():
        a = torch.ones(3)
        a.add_(1)
        v = a[1:]
    # What the refused writes leave behind is not logged: torch refuses after having written.
    log(a, v)
    log.raises(lambda: a.add_(1))
    log.raises(lambda: v.add_(1))
    log.raises(lambda: a._version)
    log.raises(lambda: a.__setitem__(0, 1.0))
    log(a.is_inference(), v.is_inference())


@program
def inference_tensor_in_a_recorded_op(torch, log):
    with torch.inference_mode():
        i = torch.ones(4)
    x = leaf(torch)
    log.raises(lambda: x * i)
    log.raises(lambda: x + i)
    a = x * 1
    log.raises(lambda: a.mul_(i))
    log.raises(lambda: i.requires_grad_())
    log(i.clone().tolist())
    log.raises(lambda: i.copy_(x))


@program
def normal_tensors_written_in_inference_mode(torch, log):
    x = leaf(torch)
    a = x * 1
    b = leaf(torch, grad=False)
    with torch.inference_mode():
        a.mul_(2)
        b.mul_(2)
        v = a[1:]
        log(v.is_inference(), v._is_view(), v.requires_grad)
    log(a, b)
    log.raises(lambda: v.mul_(2))
    log.raises(lambda: (v * x[1:]).sum().backward())


@program
def saved_input_is_written(torch, log):
    x = leaf(torch)
    a = x * 1
    out = a * a
    a.add_(1)
    log.raises(lambda: out.sum().backward())


@program
def saved_output_is_written(torch, log):
    for name in ("exp", "sqrt", "tanh", "sigmoid", "relu"):
        x = leaf(torch)
        y = getattr(x, name)()
        y += 1
        log(y)
        log.raises(lambda y=y: y.sum().backward())


@program
def unsaved_tensors_may_be_written(torch, log):
    x = leaf(torch)
    a = x * 1
    out = a + a
    a.add_(1)
    log.raises(lambda: out.sum().backward())
    b = x * 1
    s = b.sum()
    b.zero_()
    log.raises(lambda: s.backward())
    log(plain(torch, x.grad))


@program
def saved_input_is_written_through_a_view(torch, log):
    x = leaf(torch)
    a = x * 1
    out = a.sin()
    a[0] = 5.0
    log.raises(lambda: out.sum().backward())
    b = (x * 1).view(2, 2)
    out = b @ b
    b.t().zero_()
    log.raises(lambda: out.sum().backward())


@program
def saved_view_is_written_through_the_base(torch, log):
    x = leaf(torch)
    a = x * 1
    out = a[1:].pow(3)
    a.mul_(2)
    log.raises(lambda: out.sum().backward())


@program
def disjoint_view_write_still_counts(torch, log):
    x = leaf(torch)
    a = x * 1
    out = a[:2] * a[:2]
    a[2:].zero_()
    log.raises(lambda: out.sum().backward())


@program
def saved_operands_named_by_type_and_shape(torch, log):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    a = x * 1
    out = a.mm(a.t())
    a.add_(1).add_(1)
    log.raises(lambda: out.sum().backward())
    w = torch.ones(2, 1)
    out = (x.float() * w).sum()
    w.zero_()
    log.raises(lambda: out.backward())
    s = (x * 1).sum()
    out = s * s
    s.mul_(2)
    log.raises(lambda: out.backward())


@program
def saved_index_is_written(torch, log):
    x = leaf(torch)
    index = torch.tensor([0, 1])
    out = x[index].sum()
    index.zero_()
    log.raises(lambda: out.backward())
    mask = x > 2
    out = x.masked_fill(mask, 0.0).sum()
    mask.zero_()
    log.raises(lambda: out.backward())


@program
def mul_by_itself_in_place(torch, log):
    x = leaf(torch)
    a = x * 1
    a.mul_(a)
    log(a)
    log.raises(lambda: a.sum().backward())
    log(plain(torch, x.grad))


@program
def add_sub_div_by_itself_in_place(torch, log):
    for name in ("add_", "sub_", "div_", "pow_"):
        x = leaf(torch)
        a = x * 1
        getattr(a, name)(a)
        log(a)
        log.raises(lambda a=a: a.sum().backward())
        log(plain(torch, x.grad))


@program
def mul_by_its_own_view(torch, log):
    x = leaf(torch)
    a = x * 1
    log.raises(lambda: a.mul_(a[:1]))
    b = (x * 1).view(2, 2)
    log.raises(lambda: b.add_(b.t()))
    log.raises(lambda: b.add_(b.view(2, 2)))


@program
def partial_overlap_is_refused(torch, log):
    a = leaf(torch, grad=False)
    log.raises(lambda: a[1:].copy_(a[:-1]))
    log.raises(lambda: a[1:].add_(a[:-1]))
    log.raises(lambda: a[:2].add_(a[2:]))


@program
def filled_with_an_element_of_their_own(torch, log):
    """A 0-d value is read before anything is written: its memory may lie inside."""
    a = leaf(torch, grad=False)
    a[...] = a[1]
    log(a)
    b = leaf(torch) * 1
    b.fill_(b[2])
    log(b)
    c = leaf(torch, grad=False)
    log(c.masked_fill_(c > 1, c[0]))
    d = leaf(torch, grad=False)
    log(d.index_fill_(0, torch.tensor([0, 1]), d[2]))


@program
def index_arrays_over_shared_memory(torch, log):
    """Each element is written in its turn, into memory that others see."""
    for values in (-0.25, torch.tensor([[10.0, 20.0], [30.0, 40.0]])):
        a = torch.arange(4.0)
        a.unfold(0, 2, 1)[[1, 0]] = values
        log(a)
    b = torch.arange(4.0)
    windows = b.unfold(0, 2, 1)
    log(windows.index_put_((torch.tensor([0, 1]),), torch.tensor(1.0), accumulate=True), b)
    c = torch.arange(6.0).view(2, 3)
    d = c.expand(2, 2, 3)
    d[d > 2] = 0.5
    log(c)
    e = torch.arange(1.0)

    def put():
        e.expand(2, 1)[0:] = 0.5

    log.raises(put)
    log(e)


@program
def index_arrays_where_there_is_nothing(torch, log):
    log.raises(lambda: torch.ones(0, 0)[..., [0]])
    log.raises(lambda: torch.ones(0, 3)[torch.tensor([0])])
    log(torch.ones(1, 0)[[1, 0]], torch.ones(0, 3)[:, [5]])
    log(torch.ones(2, 0).index_put((torch.tensor([5]),), torch.tensor(1.0)))
    a = torch.ones(1, 0, requires_grad=True)
    (a[[1, 0]] * 2).sum().backward()
    log(a.grad.shape)


@program
def product_then_a_write(torch, log):
    x = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
    for make in (lambda: x.prod(), lambda: x.prod(0)):
        y = make()
        log(y.grad_fn._saved_result, torch.autograd.grad(y, x))
        y = make()
        y.mul_(2)
        log.raises(lambda y=y: y.backward())
    z = torch.tensor([2.0, 0.0, 4.0], requires_grad=True)
    log(torch.autograd.grad(z.prod(), z), torch.autograd.grad(z.prod(0), z))


@program
def broadcast_result_does_not_fit(torch, log):
    a = torch.ones(3)
    log.raises(lambda: a.add_(torch.ones(2, 3)))
    log.raises(lambda: a.mul_(torch.ones(2)))
    log.raises(lambda: torch.ones(1).add_(torch.ones(3)))
    log.raises(lambda: a.masked_fill_(torch.ones(2, 3) > 0, 1.0))
    log.raises(lambda: torch.tensor(1.0).mul_(torch.ones(2)))
    log(a.add_(torch.ones(1)), a.mul_(torch.tensor(2.0)))


@program
def result_dtype_does_not_fit(torch, log):
    i = torch.tensor([1, 2, 3])
    log.raises(lambda: i.add_(1.5))
    log.raises(lambda: i.mul_(torch.ones(3)))
    log.raises(lambda: i.div_(2))
    log.raises(lambda: i.__itruediv__(2))
    log.raises(lambda: i.sqrt_())
    log.raises(lambda: i.exp_())
    log.raises(lambda: torch.tensor([True]).add_(1))
    log.raises(lambda: torch.ones(3).mul_(1j))
    log.raises(lambda: i.add_(torch.tensor(2.5)))
    log(i)


@program
def result_dtype_narrows_within_a_kind(torch, log):
    a = torch.ones(3)
    a.add_(torch.ones(3, dtype=torch.float64))
    h = torch.ones(3, dtype=torch.float16)
    h.mul_(torch.full((3,), 2.0))
    i = torch.tensor([1], dtype=torch.int8)
    i.add_(torch.tensor([300]))
    log(a, h, i)
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    b = torch.ones(3)
    b.mul_(x)
    log(b)
    finish(torch, log, b, x)


@program
def saved_operand_of_another_dtype(torch, log):
    x = leaf(torch)
    d = torch.full((4,), 2.0, dtype=torch.float64)
    a = x * 1
    a.mul_(d)
    log(a)
    finish(torch, log, a, x)


@program
def comparison_in_place_keeps_the_dtype(torch, log):
    a = torch.tensor([1.0, 2.0, 3.0])
    a.gt_(1.5)
    log(a)
    x = leaf(torch)
    b = x * 1
    b.lt_(2.5)
    log(b)


@program
def bitwise_augmented_assignment(torch, log):
    i = torch.tensor([6, 5])
    i &= 3
    i |= 8
    i ^= 1
    b = torch.tensor([True, False])
    b &= torch.tensor([True, True])
    b |= torch.tensor([False, True])
    log(i, b)


@program
def detach_in_place(torch, log):
    x = leaf(torch)
    a = x * 1
    a.detach_()
    log(a)
    b = x * 1
    v = b[1:]
    log.raises(lambda: v.detach_())
    b.detach_()
    log(b)


@program
def requires_grad_of_non_leaf(torch, log):
    a = leaf(torch) * 1
    log.raises(lambda: setattr(a, "requires_grad", False))
    log.raises(lambda: a.requires_grad_(False))
    log.raises(lambda: a.requires_grad_())
    log.raises(lambda: torch.tensor([1]).requires_grad_())
    log.raises(lambda: torch.tensor([1], requires_grad=True))


@program
def in_place_views_of_self(torch, log):
    x = leaf(torch)
    a = (x * 1).view(2, 2).clone()
    a.t_()
    log(a)
    a.unsqueeze_(0)
    log(a)
    a.squeeze_()
    log(a)
    a.transpose_(0, 1)
    log(a)
    finish(torch, log, a, x)
    log.raises(lambda: leaf(torch).unsqueeze_(0))


@program
def retained_grad_of_a_written_tensor(torch, log):
    x = leaf(torch)
    a = x * 1
    a.retain_grad()
    a.mul_(3)
    log(a.retains_grad)
    finish(torch, log, a, x, a)


@program
def hook_before_and_after_a_write(torch, log):
    x = leaf(torch)
    a = x * 1
    a.register_hook(lambda g: log("before", plain(torch, g)))
    a.mul_(3)
    a.register_hook(lambda g: log("after", plain(torch, g)))
    a.sum().backward()


@program
def out_argument(torch, log):
    a, b, c = torch.ones(3), torch.full((3,), 2.0), torch.zeros(3)
    r = torch.add(a, b, out=c)
    log(r is c, c)
    torch.mul(c, c, out=c)
    log(c)
    torch.exp(a, out=c[:])
    log(c)


@program
def out_argument_is_resized(torch, log):
    a = torch.ones(2, 3)
    warned(torch, log, lambda: torch.add(a, a, out=torch.empty(0)))
    warned(torch, log, lambda: torch.add(a, a, out=torch.zeros(5)))
    warned(torch, log, lambda: torch.matmul(a, a.t(), out=torch.zeros(1)))


@program
def out_argument_and_grad(torch, log):
    x = leaf(torch)
    c = torch.zeros(4)
    log.raises(lambda: torch.add(x, x, out=c))
    log.raises(lambda: torch.add(c, c, out=x))
    log.raises(lambda: torch.add(c, c, out=x * 1))
    with torch.no_grad():
        log.raises(lambda: torch.add(x, x, out=c))
        log.raises(lambda: torch.mul(c, c, out=x))
    log(x, c)


@program
def out_argument_dtype(torch, log):
    a = torch.ones(3)
    log.raises(lambda: torch.add(a, a, out=torch.zeros(3, dtype=torch.float64)))
    log.raises(lambda: torch.add(a, a, out=torch.zeros(3, dtype=torch.int64)))
    log.raises(lambda: torch.eq(a, a, out=torch.zeros(3)))


@program
def augmented_assignment_of_scalars_and_tensors(torch, log):
    x = leaf(torch)
    a = x * 1
    same = a
    a += x
    a -= 1
    a *= x
    a /= 2
    log(a is same, a)
    log.graph(a)
    finish(torch, log, a, x)


@program
def augmented_assignment_through_an_index(torch, log):
    x = leaf(torch)
    a = x * 1
    a[1:3] += 10
    a[0] *= 5
    a[torch.tensor([0, 3])] -= 1
    log(a)
    log.graph(a)
    finish(torch, log, a, x)


@program
def add_and_sub_with_alpha(torch, log):
    x = leaf(torch)
    a = x * 1
    a.add_(x, alpha=3)
    a.sub_(x, alpha=0.5)
    log(a)
    finish(torch, log, a, x)


@program
def writes_in_a_loop(torch, log):
    x = leaf(torch)
    state = torch.zeros(4)
    for i in range(4):
        state[i] = x[i] * (state[i - 1] if i else 1)
    log(state)
    log.graph(state)
    finish(torch, log, state, x)


@program
def old_view_used_before_and_after_a_write(torch, log):
    x = leaf(torch)
    a = x * 1
    v = a[1:]
    before = v + 0
    a.mul_(10)
    finish(torch, log, before + v, x)


@program
def write_to_a_base_that_is_a_detached_alias(torch, log):
    x = leaf(torch)
    a = x * 1
    d = a.detach()
    d[0] = 100.0
    log(a, d, d._is_view())
    finish(torch, log, a, x)
    out = a.exp()
    d.zero_()
    log(a._version)
    log.raises(lambda: out.sum().backward())
    sq = a * a
    d.add_(1)
    log.raises(lambda: sq.sum().backward())


@program
def writes_after_backward(torch, log):
    x = leaf(torch)
    a = x * 1
    (a * a).sum().backward()
    a.zero_()
    log(a)
    log.raises(lambda: a.sum().backward())
    with torch.no_grad():
        x.sub_(x.grad)
    log(x, x.grad)


@program
def gradients_may_be_written(torch, log):
    x = leaf(torch)
    (x * 2).sum().backward()
    x.grad.mul_(5)
    log(x.grad)
    (x * 2).sum().backward()
    log(x.grad)
    x.grad.zero_()
    log(x.grad)


@program
def index_writes_in_shared_memory(torch, log):
    def tried(write, target):
        log.raises(lambda: write(target))
        log(target, target._version)

    places = torch.arange(4)
    at = torch.zeros(4, 3, dtype=torch.int64)
    x = torch.arange(12.0).reshape(4, 3)
    for source in (x, x[0:4]):
        for write in (
            lambda t, v: t.index_add_(0, places, v),
            lambda t, v: t.index_copy_(0, places, v),
            lambda t, v: t.index_put_((places,), v, accumulate=True),
            lambda t, v: t.scatter_(0, at, v),
            lambda t, v: t.scatter_add_(0, at, v),
            lambda t, v: t.scatter_reduce_(0, at, v, "sum"),
            lambda t, v: t.put_(torch.arange(12), v),
        ):
            log.raises(functools.partial(write, x, source))
            log(x, x._version)
    n = torch.arange(4)
    five = torch.full((4,), 5)
    tried(lambda t: t.put_(t, five), n)
    tried(lambda t: t.index_add_(0, t, five), n)
    tried(lambda t: t.index_copy_(0, t, five), n)
    tried(lambda t: t.index_fill_(0, t, 5), n)
    tried(lambda t: t.index_put_((t,), five), n)
    tried(lambda t: t.__setitem__(t, 5), n)
    tried(lambda t: t.scatter_(0, t, five), n)
    tried(lambda t: t.scatter_(0, t, 5), n)
    tried(lambda t: t.scatter_add_(0, t, five), n)
    mask = torch.tensor([True, False])
    mask[mask] = False
    log(mask)
    x = torch.arange(4.0)
    log(x.index_fill_(0, torch.tensor([1, 3]), x[2]), x.masked_fill_(x > 1, x[0]))


@program
def index_writes_where_they_lie(torch, log):
    for make in (
        lambda: torch.zeros(4, 3),
        lambda: torch.zeros(3, 4).t(),
        lambda: torch.zeros(8, 6)[::2, ::2],
        lambda: torch.zeros(4, 3, dtype=torch.float64),
        lambda: torch.zeros(4, 3, dtype=torch.bfloat16),
        lambda: torch.zeros(4, 3, dtype=torch.int64),
    ):
        x = make()
        i = torch.tensor([2, 0, 2])
        j = torch.tensor([1, 1, -2])
        v = torch.arange(1, 10).reshape(3, 3).to(x.dtype)
        x[i[:2]] = v[:2]
        log(x)
        x[:, i[:2]] += 1
        log(x)
        x[i, j] = v[0]
        log(x)
        log(x.index_put_((i, j), v[1], accumulate=True), x.index_put_((i,), v, accumulate=True))
        log(x.index_put_((x > 20,), v[0, 0]), x.index_add_(0, i, v), x.index_add_(0, i, v, alpha=2))
        log(
            x.index_add_(1, i, v[:, :1].expand(3, 4).t()), x.index_copy_(1, i[1:], x.new_ones(4, 2))
        )
        at = torch.tensor([[1, 1, 0], [3, 2, 1]])
        log(x.scatter_(0, at, v[:2]), x.scatter_(0, at[:1], 7), x.scatter_add_(0, at, v[:2]))
        for how in ("sum", "prod", "mean", "amax", "amin"):
            log(x.scatter_reduce_(0, at, v[:2], how))
            log(x.scatter_reduce_(0, at, v[:2], how, include_self=False))
        log(x.put_(torch.tensor([0, -1]), v[0, :2]), x.put_(i, v[1], accumulate=True))
        log(x.masked_fill_(torch.tensor([True, False, True]), 3), x._version)
        log(x.masked_scatter_(x == 3, torch.arange(20).to(x.dtype)), x.stride())
        too_large = torch.ones(2, 4, 3, dtype=torch.bool)
        log.raises(functools.partial(x.masked_fill_, too_large, 0))


@program
def gradients_of_index_writes(torch, log):
    w = torch.arange(12.0).reshape(4, 3).requires_grad_()
    v = torch.ones(2, 3, requires_grad=True)
    i = torch.tensor([1, 3])
    at = torch.tensor([[1, 0, 2], [3, 1, 2]])
    for write in (
        lambda y: y.__setitem__(i, v * 2),
        lambda y: y[1:].__setitem__(torch.tensor([0, 2]), v * v),
        lambda y: y.index_put_((i,), v * 3, accumulate=True),
        lambda y: y.index_add_(0, i, v * 2, alpha=3),
        lambda y: y.index_copy_(0, i, v * 2),
        lambda y: y.index_fill_(0, i, 2.0),
        lambda y: y.scatter_(0, at, v * 2),
        lambda y: y.scatter_(0, at, 2.0),
        lambda y: y.scatter_add_(0, at, v * 2),
        lambda y: y.scatter_reduce_(0, at, v * 2, "amax"),
        lambda y: y.put_(torch.tensor([3, 5]), v[0, :2] * 2),
        lambda y: y.masked_fill_(w > 4, 1.0),
        lambda y: y.masked_scatter_(w > 8, v * 2),
        lambda y: y.t().__setitem__(torch.tensor([0, 2]), 4.0),
    ):
        y = w * 1
        write(y)
        log(y, y.grad_fn.name())
        found = torch.autograd.grad((y * w).sum(), (w, v), allow_unused=True)
        log([plain(torch, g) for g in found])
