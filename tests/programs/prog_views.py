"""View ops: values, strides, sharing, grad_fn names, gradients twice, what bad arguments say."""

import warnings

from programs.harness import program


def plain(torch, tensor):
    """The values alone: the layout and version of a computed gradient are nobody's business."""
    if tensor is None:
        return None
    return [list(tensor.shape), torch.tensor(tensor.tolist(), dtype=tensor.dtype)]


def warned(torch, log, action):
    """Log every warning without the C++ location that PyTorch adds, then what the action gives."""
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            log.raises(action)
    finally:
        torch.set_warn_always(False)
    for w in caught:
        log(w.category.__name__, str(w.message).split(" (Triggered internally")[0])


def layout(log, view, base):
    """What makes a view: its numbers, where it starts, whose it is."""
    log(view, view.storage_offset(), view._is_view(), view._base is base, view.is_contiguous())


def explore(torch, log, base, make, write=True):
    """One view op, all round: layout, sharing, names, gradient and gradient of the gradient.

    `write` is False where elements overlap and the order of writing would show.
    """
    view = make(base)
    layout(log, view, base)
    if write:
        with torch.no_grad():
            log.raises(lambda: make(base).mul_(-1))
        log(base, view._version)
    leaf = torch.arange(1.0, base.numel() + 1, dtype=torch.float64).view(base.shape)
    leaf.requires_grad_()
    mid = leaf * 2
    out = make(mid)
    layout(log, out, mid)
    log.graph(out)
    (first,) = torch.autograd.grad((out * out * out).sum(), leaf, create_graph=True)
    log(plain(torch, first), first.requires_grad)
    (second,) = torch.autograd.grad((first * first).sum(), leaf)
    log(plain(torch, second))
    view_of_leaf = make(leaf)
    log(view_of_leaf.is_leaf, view_of_leaf.requires_grad, view_of_leaf._base is leaf)


def grid(torch, *shape):
    count = 1
    for n in shape:
        count *= n
    return torch.arange(float(count)).reshape(shape).clone()


@program
def view_with_sizes(torch, log):
    explore(torch, log, grid(torch, 2, 6), lambda t: t.view(3, 4))


@program
def view_infers_minus_one(torch, log):
    explore(torch, log, grid(torch, 2, 6), lambda t: t.view(-1, 3))


@program
def view_takes_a_tuple_or_size(torch, log):
    a = grid(torch, 2, 6)
    log(a.view((4, 3)), a.view([12]), a.view(torch.Size([6, 2])), a.view(size=(1, 12)))


@program
def view_to_a_scalar_and_back(torch, log):
    explore(torch, log, grid(torch, 1, 1), lambda t: t.view(()))
    log(torch.tensor(3.0).view(1, 1), torch.tensor(3.0).view(-1))


@program
def view_of_a_view_has_the_first_base(torch, log):
    a = grid(torch, 3, 4)
    b = a[1:]
    c = b.view(8)
    d = c[2:]
    layout(log, b, a)
    layout(log, c, a)
    layout(log, d, a)


@program
def view_bad_sizes(torch, log):
    a = grid(torch, 2, 6)
    log.raises(lambda: a.view(5))
    log.raises(lambda: a.view(-1, 5))
    log.raises(lambda: a.view(-1, -1))
    log.raises(lambda: a.view(-2, 6))
    log.raises(lambda: a.view(3, 4, 2))
    log.raises(lambda: a.t().view(12))
    log.raises(lambda: torch.zeros(0).view(-1, 0))
    log.raises(lambda: a.view())
    log.raises(lambda: a.view(2.0, 6))
    log.raises(lambda: a.view("x"))


@program
def view_of_noncontiguous_where_strides_allow(torch, log):
    a = grid(torch, 4, 6)
    b = a[:, ::2]
    layout(log, b.view(2, 2, 3), a)
    layout(log, b.view(4, 3, 1), a)
    layout(log, b.view(12), a)
    log.raises(lambda: a[:, :4].view(16))


@program
def view_of_empty(torch, log):
    a = torch.zeros(0, 3)
    layout(log, a.view(3, 0), a)
    layout(log, a.view(0), a)
    layout(log, a.view(-1, 3), a)


@program
def view_as_other(torch, log):
    shape = torch.zeros(3, 2)
    explore(torch, log, grid(torch, 6), lambda t: t.view_as(shape))
    log.raises(lambda: grid(torch, 5).view_as(shape))


@program
def view_same_size_dtype(torch, log):
    a = torch.tensor([1.0, -2.0, 0.5])
    b = a.view(torch.int32)
    layout(log, b, a)
    b[0] = 0
    log(a, b)
    log(a.view(torch.float32) is a, a.view(torch.float32)._is_view())


@program
def view_narrower_dtype(torch, log):
    a = torch.tensor([[1, 256], [65536, -1]], dtype=torch.int32)
    layout(log, a.view(torch.int16), a)
    layout(log, a.view(torch.uint8), a)
    layout(log, a.t().view(torch.int32), a)
    log.raises(lambda: a.t().view(torch.int16))
    log.raises(lambda: torch.tensor(1.0).view(torch.int16))


@program
def view_wider_dtype(torch, log):
    a = torch.arange(8, dtype=torch.int16).view(2, 4)
    layout(log, a.view(torch.int32), a)
    layout(log, a.view(torch.int64), a)
    log.raises(lambda: a[:, :3].view(torch.int32))
    log.raises(lambda: a[:, 1:3].view(torch.int32))
    log.raises(lambda: a.t().view(torch.int32))
    log.raises(lambda: torch.tensor(1, dtype=torch.int16).view(torch.int32))


@program
def reshape_views_when_it_can(torch, log):
    explore(torch, log, grid(torch, 2, 6), lambda t: t.reshape(3, 4))


@program
def reshape_copies_when_it_must(torch, log):
    a = grid(torch, 2, 3)
    b = a.t().reshape(6)
    log(b, b._is_view(), b._base is None)
    b.zero_()
    log(a)
    x = grid(torch, 2, 3).requires_grad_()
    y = x.t().reshape(6)
    log(y, y._is_view(), y._base is None)
    log.graph(y)
    (y * torch.arange(6.0)).sum().backward()
    log(plain(torch, x.grad))


@program
def reshape_to_its_own_shape(torch, log):
    a = grid(torch, 2, 3)
    b = a.reshape(2, 3)
    log(b is a, b._is_view(), b._base is a)
    c = a.t().reshape(3, 2)
    log(c, c._is_view(), c._base is a)
    log(torch.reshape(a, (-1,)), a.reshape(-1, 2), a.reshape_as(c))


@program
def reshape_bad_sizes(torch, log):
    a = grid(torch, 2, 3)
    log.raises(lambda: a.reshape(4))
    log.raises(lambda: a.reshape(-1, 4))
    log.raises(lambda: a.reshape(-1, -1))
    log.raises(lambda: torch.zeros(0, 2).reshape(-1, 0))
    log.raises(lambda: torch.reshape(a, 6))
    log.raises(lambda: a.reshape("x"))


@program
def transpose_two_dims(torch, log):
    explore(torch, log, grid(torch, 2, 3, 2), lambda t: t.transpose(0, 2))


@program
def transpose_negative_and_same_dims(torch, log):
    explore(torch, log, grid(torch, 2, 3), lambda t: t.transpose(-1, -2))
    explore(torch, log, grid(torch, 2, 3), lambda t: t.transpose(1, 1))


@program
def transpose_swap_aliases(torch, log):
    a = (grid(torch, 2, 3).requires_grad_()) * 1
    log(a.swapaxes(0, 1), a.swapdims(0, 1), torch.transpose(a, 0, 1))
    log.raises(lambda: a.transpose(0, 2))
    log.raises(lambda: a.transpose(-3, 0))
    log.raises(lambda: a.transpose(0))
    log.raises(lambda: torch.tensor(1.0).transpose(0, 1))
    log(torch.tensor(1.0).transpose(0, -1))


@program
def permute_dims(torch, log):
    explore(torch, log, grid(torch, 2, 3, 4), lambda t: t.permute(2, 0, 1))


@program
def permute_forms_and_errors(torch, log):
    a = grid(torch, 2, 3, 1)
    log(a.permute((0, -1, 1)), a.permute([1, 0, 2]), torch.permute(a, (2, 1, 0)))
    log.raises(lambda: a.permute(0, 1))
    log.raises(lambda: a.permute(0, 0, 1))
    log.raises(lambda: a.permute(0, 1, 3))
    log.raises(lambda: a.permute(0, 1, -4))
    log(torch.tensor(2.0).permute(()))


@program
def t_of_matrix_vector_and_scalar(torch, log):
    explore(torch, log, grid(torch, 2, 3), lambda t: t.t())
    explore(torch, log, grid(torch, 3), lambda t: t.t())
    log(torch.tensor(1.0).t())
    log.raises(lambda: grid(torch, 1, 2, 3).t())


@program
def capital_t_of_matrix(torch, log):
    explore(torch, log, grid(torch, 2, 3), lambda t: t.T)


@program
def capital_t_of_other_dims_warns(torch, log):
    warned(torch, log, lambda: grid(torch, 2, 1, 3).T)
    warned(torch, log, lambda: grid(torch, 3).T)
    warned(torch, log, lambda: torch.tensor(1.0).T)
    warned(torch, log, lambda: grid(torch, 2, 3).T)


@program
def matrix_transposes(torch, log):
    explore(torch, log, grid(torch, 2, 2, 3), lambda t: t.mT)
    explore(torch, log, grid(torch, 2, 3), lambda t: t.H)
    explore(torch, log, grid(torch, 1, 2, 3), lambda t: t.mH)
    log.raises(lambda: grid(torch, 3).mT)
    log.raises(lambda: grid(torch, 3).H)
    log.raises(lambda: grid(torch, 2, 2, 3).H)
    log.raises(lambda: grid(torch, 3).mH)
    warned(torch, log, lambda: torch.tensor(1.0).mT)
    warned(torch, log, lambda: torch.tensor(1.0).H)


@program
def expand_new_and_unit_dims(torch, log):
    explore(torch, log, grid(torch, 3, 1), lambda t: t.expand(2, 3, 4))
    explore(torch, log, grid(torch, 3, 1), lambda t: t.expand(-1, 2))


@program
def expand_scalar(torch, log):
    explore(torch, log, torch.tensor(5.0), lambda t: t.expand(2, 3))
    log(torch.tensor(5.0).expand(()))


@program
def expand_as_other(torch, log):
    other = torch.zeros(2, 3)
    explore(torch, log, grid(torch, 3), lambda t: t.expand_as(other))
    explore(torch, log, grid(torch, 2, 3), lambda t: t.expand_as(other))


@program
def expand_errors(torch, log):
    a = grid(torch, 3, 1)
    log.raises(lambda: a.expand(4, 1))
    log.raises(lambda: a.expand(3))
    log.raises(lambda: a.expand(-1, 3, 1))
    log.raises(lambda: a.expand_as(torch.zeros(2, 2)))
    log.raises(lambda: a.expand(3, 2).view(6))
    log(a.expand(3, 2).reshape(6), a.expand(3, 2).contiguous())


@program
def broadcast_to_size(torch, log):
    explore(torch, log, grid(torch, 1, 2), lambda t: torch.broadcast_to(t, (3, 2)))
    log.raises(lambda: torch.broadcast_to(grid(torch, 2), (3,)))


@program
def write_to_expanded_memory(torch, log):
    a = grid(torch, 3, 1)
    b = a.expand(3, 2)
    log.raises(lambda: b.add_(1))
    log.raises(lambda: b.copy_(torch.ones(3, 2)))
    log.raises(lambda: b.fill_(7.0))
    log.raises(lambda: b.zero_())
    log(a, b, a._version)


@program
def squeeze_all(torch, log):
    explore(torch, log, grid(torch, 1, 3, 1, 2), lambda t: t.squeeze())
    explore(torch, log, grid(torch, 2, 2), lambda t: t.squeeze())


@program
def squeeze_one_dim(torch, log):
    explore(torch, log, grid(torch, 1, 3, 1), lambda t: t.squeeze(-1))
    explore(torch, log, grid(torch, 1, 3, 1), lambda t: t.squeeze(1))


@program
def squeeze_several_dims(torch, log):
    explore(torch, log, grid(torch, 1, 3, 1, 1), lambda t: t.squeeze((0, 1, -1)))
    explore(torch, log, grid(torch, 1, 3), lambda t: t.squeeze(()))


@program
def squeeze_scalars_and_errors(torch, log):
    a = grid(torch, 1, 3)
    log(torch.tensor(1.0).squeeze(), torch.tensor(1.0).squeeze(0), torch.squeeze(a, 0))
    log.raises(lambda: a.squeeze(2))
    log.raises(lambda: a.squeeze((0, 0)))
    log.raises(lambda: torch.tensor(1.0).squeeze(1))
    log.raises(lambda: a.squeeze("x"))


@program
def unsqueeze_everywhere(torch, log):
    for dim in (0, 1, 2, -1, -3):
        a = grid(torch, 2, 3)
        layout(log, a.unsqueeze(dim), a)
    layout(log, a.t().unsqueeze(1), a)
    explore(torch, log, grid(torch, 2, 3), lambda t: t.unsqueeze(1))


@program
def unsqueeze_errors(torch, log):
    a = grid(torch, 2, 3)
    log.raises(lambda: a.unsqueeze(3))
    log.raises(lambda: a.unsqueeze(-4))
    log.raises(lambda: a.unsqueeze())
    log(torch.tensor(1.0).unsqueeze(0), torch.unsqueeze(a, -1))


@program
def select_one_index(torch, log):
    explore(torch, log, grid(torch, 3, 4), lambda t: t.select(1, 2))
    explore(torch, log, grid(torch, 3, 4), lambda t: t.select(-2, -1))


@program
def select_errors(torch, log):
    a = grid(torch, 3, 4)
    log(torch.select(a, 0, 1))
    log.raises(lambda: a.select(0, 3))
    log.raises(lambda: a.select(1, -5))
    log.raises(lambda: a.select(2, 0))
    log.raises(lambda: torch.tensor(1.0).select(0, 0))


@program
def narrow_a_dim(torch, log):
    explore(torch, log, grid(torch, 4, 3), lambda t: t.narrow(0, 1, 2))
    explore(torch, log, grid(torch, 4, 3), lambda t: t.narrow(-1, -2, 1))
    explore(torch, log, grid(torch, 4, 3), lambda t: t.narrow(0, 4, 0))


@program
def narrow_errors(torch, log):
    a = grid(torch, 4, 3)
    log(torch.narrow(a, 0, 0, 4), a.narrow(0, torch.tensor(1), 2))
    log.raises(lambda: a.narrow(0, 3, 2))
    log.raises(lambda: a.narrow(0, 5, 0))
    log.raises(lambda: a.narrow(0, 0, -1))
    log.raises(lambda: a.narrow(2, 0, 1))
    log.raises(lambda: a.narrow(0, -5, 1))
    log.raises(lambda: torch.tensor(1.0).narrow(0, 0, 1))


@program
def slice_with_step(torch, log):
    explore(torch, log, grid(torch, 5, 2), lambda t: t[1::2])
    explore(torch, log, grid(torch, 5, 2), lambda t: t[:, 1:])
    explore(torch, log, grid(torch, 5), lambda t: t[3:1])


@program
def split_by_size(torch, log):
    a = (grid(torch, 5, 2).requires_grad_()) * 1
    parts = a.split(2)
    log(parts)
    for part in parts:
        log(part.output_nr, part._base is a, part._is_view(), part.storage_offset())
    log(a.split(2, 1), torch.split(a, 3), a.split(2, dim=-1))
    explore(torch, log, grid(torch, 5, 2), lambda t: t.split(2)[1])


@program
def split_with_sizes(torch, log):
    a = (grid(torch, 5, 2).requires_grad_()) * 1
    log(a.split([1, 4]), a.split((2, 0, 3)), a.split_with_sizes([3, 2]))
    explore(torch, log, grid(torch, 5, 2), lambda t: t.split([1, 4])[1])


@program
def split_errors(torch, log):
    a = grid(torch, 5, 2)
    log.raises(lambda: a.split(-1))
    log.raises(lambda: a.split(0))
    log.raises(lambda: a.split([1, 1]))
    log.raises(lambda: a.split([6, -1]))
    log.raises(lambda: a.split(1, 2))
    log.raises(lambda: torch.tensor(1.0).split(1))
    log(torch.zeros(0).split(0), a.split(10))


@program
def chunk_evenly_and_not(torch, log):
    a = (grid(torch, 5, 2).requires_grad_()) * 1
    log(a.chunk(2), a.chunk(4), a.chunk(7), a.chunk(2, 1), torch.chunk(a, 1))
    log.raises(lambda: a.chunk(0))
    log.raises(lambda: a.chunk(2, 2))
    log.raises(lambda: torch.tensor(1.0).chunk(1))
    explore(torch, log, grid(torch, 5, 2), lambda t: t.chunk(2)[0])


@program
def unbind_rows_and_columns(torch, log):
    a = (grid(torch, 2, 3).requires_grad_()) * 1
    rows, columns = a.unbind(), a.unbind(-1)
    log(rows, columns, [c.output_nr for c in columns], [c._base is a for c in columns])
    log.raises(lambda: a.unbind(2))
    log.raises(lambda: torch.tensor(1.0).unbind())
    explore(torch, log, grid(torch, 2, 3), lambda t: t.unbind(1)[2])


@program
def only_some_outputs_used(torch, log):
    x = grid(torch, 6).requires_grad_()
    a, _, c = x.split(2)
    (a * c).sum().backward()
    log(plain(torch, x.grad))
    x = grid(torch, 3).requires_grad_()
    x.unbind()[1].backward()
    log(plain(torch, x.grad))


@program
def diagonal_offsets(torch, log):
    explore(torch, log, grid(torch, 3, 4), lambda t: t.diagonal())
    explore(torch, log, grid(torch, 3, 4), lambda t: t.diagonal(1))
    explore(torch, log, grid(torch, 3, 4), lambda t: t.diagonal(offset=-2))
    explore(torch, log, grid(torch, 2, 2), lambda t: t.diagonal(5))


@program
def diagonal_of_batches(torch, log):
    explore(torch, log, grid(torch, 2, 3, 3), lambda t: t.diagonal(0, 1, 2))
    explore(torch, log, grid(torch, 2, 3, 2), lambda t: t.diagonal(dim1=0, dim2=2))
    a = grid(torch, 2, 3)
    log.raises(lambda: a.diagonal(0, 0, 0))
    log.raises(lambda: a.diagonal(0, 0, 2))
    log.raises(lambda: grid(torch, 3).diagonal())


@program
def unfold_windows(torch, log):
    explore(torch, log, grid(torch, 7), lambda t: t.unfold(0, 3, 2), write=False)
    explore(torch, log, grid(torch, 2, 4), lambda t: t.unfold(1, 2, 1), write=False)


@program
def unfold_errors(torch, log):
    a = grid(torch, 4)
    log.raises(lambda: a.unfold(0, 5, 1))
    log.raises(lambda: a.unfold(0, 2, 0))
    log.raises(lambda: a.unfold(0, -1, 1))
    log.raises(lambda: a.unfold(1, 2, 1))
    log(torch.tensor(1.0).unfold(0, 1, 1), a.unfold(0, 0, 2))


@program
def as_strided_forms(torch, log):
    explore(torch, log, grid(torch, 3, 4), lambda t: t.as_strided((2, 2), (4, 1), 5))
    explore(torch, log, grid(torch, 6), lambda t: torch.as_strided(t, (4, 3), (1, 1)), write=False)
    explore(torch, log, grid(torch, 6), lambda t: t.as_strided((2, 3), (0, 2)))


@program
def as_strided_of_a_view_keeps_its_offset(torch, log):
    a = grid(torch, 6)
    b = a[2:]
    layout(log, b.as_strided((2,), (1,)), a)
    layout(log, b.as_strided((2,), (1,), 0), a)


@program
def as_strided_errors(torch, log):
    a = grid(torch, 4)
    log.raises(lambda: a.as_strided((2, 3), (2, 1), 0))
    log.raises(lambda: a.as_strided((2,), (1, 1)))
    log.raises(lambda: a.as_strided((2,), (-1,), 3))
    log.raises(lambda: a.as_strided((2,), (1,), -1))


@program
def flatten_ranges(torch, log):
    explore(torch, log, grid(torch, 2, 3, 2), lambda t: t.flatten())
    explore(torch, log, grid(torch, 2, 3, 2), lambda t: t.flatten(1))
    explore(torch, log, grid(torch, 2, 3, 2), lambda t: t.flatten(0, -2))


@program
def flatten_edge_cases(torch, log):
    a = grid(torch, 2, 3)
    log(torch.tensor(1.0).flatten(), a.flatten(1, 1) is a, a.t().flatten(), torch.flatten(a))
    log(a.t().flatten()._is_view(), a.ravel(), a.ravel()._base is a)
    log.raises(lambda: a.flatten(1, 0))
    log.raises(lambda: a.flatten(0, 2))


@program
def unflatten_a_dim(torch, log):
    explore(torch, log, grid(torch, 2, 6), lambda t: t.unflatten(1, (2, 3)))
    explore(torch, log, grid(torch, 2, 6), lambda t: t.unflatten(-1, (-1, 2)))
    a = grid(torch, 2, 6)
    log.raises(lambda: a.unflatten(1, (4, 2)))
    log.raises(lambda: a.unflatten(1, (-1, 4)))
    log.raises(lambda: a.unflatten(1, ()))
    log.raises(lambda: a.unflatten(2, (1, 1)))


@program
def movedim_forms(torch, log):
    explore(torch, log, grid(torch, 2, 3, 4), lambda t: t.movedim(0, -1))
    explore(torch, log, grid(torch, 2, 3, 4), lambda t: torch.movedim(t, (0, 1), (2, 0)))
    a = grid(torch, 2, 3, 1)
    log(a.moveaxis(2, 0))
    log.raises(lambda: a.movedim((0, 1), 2))
    log.raises(lambda: a.movedim((0, 0), (1, 2)))
    log.raises(lambda: a.movedim((0, 1), (2, 2)))
    log.raises(lambda: a.movedim(3, 0))


@program
def real_and_imag_of_complex(torch, log):
    z = torch.tensor([1 + 2j, 3 - 4j])
    layout(log, z.real, z)
    layout(log, z.imag, z)
    z.imag.mul_(10)
    z.real[0] = 9
    log(z, z._version)
    log.raises(lambda: torch.tensor([1.0]).imag)
    a = torch.tensor([1.0])
    log(a.real is a, torch.real(z), torch.imag(z))


@program
def gradients_of_real_and_imag(torch, log):
    z = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    out = z.real * z.imag
    log(out)
    log.graph(out)
    out.sum().backward()
    log(plain(torch, z.grad))


@program
def view_as_real_and_complex(torch, log):
    z = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    r = torch.view_as_real(z)
    layout(log, r, z)
    (r * r * torch.tensor([1.0, 2.0])).sum().backward()
    log(plain(torch, z.grad))
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    c = torch.view_as_complex(x)
    layout(log, c, x)
    (c * c.conj()).real.sum().backward()
    log(plain(torch, x.grad))
    log.raises(lambda: torch.view_as_real(x))
    log.raises(lambda: torch.view_as_complex(torch.zeros(3)))
    log.raises(lambda: torch.view_as_complex(torch.zeros(2, 2, dtype=torch.int64)))


@program
def contiguity(torch, log):
    a = grid(torch, 2, 3)
    b = a.t()
    log(a.contiguous() is a, b.is_contiguous(), b.contiguous(), b.contiguous()._is_view())
    log(a[:, :1].is_contiguous(), a[:1, ::2].is_contiguous(), a[0].is_contiguous())
    log(a[:0].t().is_contiguous(), a[:1].t().is_contiguous(), a.expand(1, 2, 3).is_contiguous())
    x = (a.clone().requires_grad_()) * 1
    log(x.t().contiguous())


@program
def clone_keeps_dense_layouts(torch, log):
    a = grid(torch, 2, 3, 2)
    log(a.permute(2, 0, 1).clone(), a[:, ::2].clone(), a[0, 0].expand(2, 2).clone())
    log(a.transpose(0, 1).clone(memory_format=torch.contiguous_format))


@program
def elementwise_results_keep_dense_layouts(torch, log):
    a = grid(torch, 2, 3)
    b = a.t()
    log(b * 2, b + b, b.exp() > 1)
    log(a[:, ::2] * 2, a[:1].expand(2, 3) + 1)


@program
def like_functions_keep_dense_layouts(torch, log):
    b = grid(torch, 2, 3).t()
    log(torch.zeros_like(b), torch.ones_like(b[::2]), torch.full_like(b[:, :1].expand(3, 2), 2.0))


@program
def detach_is_a_view_of_the_base(torch, log):
    a = grid(torch, 3).requires_grad_()
    d = a.detach()
    log(d, d._is_view(), d._base is a)
    b = a * 2
    v = b[1:]
    log(v.detach()._is_view(), v.detach()._base is b, v.data._is_view(), b.detach()._base is b)
    log(v.detach(), v.data, v.detach().storage_offset())


@program
def alias_of_self_by_full_slice(torch, log):
    x = grid(torch, 3).requires_grad_()
    y = x * 1
    log(y[:] is y, y[:], y[...], y[:]._base is y, y[...]._base is y)


@program
def base_is_alive_through_its_view(torch, log):
    v = grid(torch, 4)[1:3]
    log(v._base, v._base._is_view(), v._base._base)


@program
def view_chain_graph_and_gradient(torch, log):
    x = grid(torch, 2, 3, 4).requires_grad_()
    y = (x * 1).transpose(0, 2)[1:3].select(1, 0).unsqueeze(0).expand(2, 2, 2).permute(1, 0, 2)
    log(y)
    log.graph(y)
    (y * torch.arange(8.0).view(2, 2, 2)).sum().backward()
    log(plain(torch, x.grad))


@program
def views_of_integers_and_bools(torch, log):
    i = torch.arange(6).view(2, 3)
    b = i.t() > 2
    log(i.t(), b, b.t(), b[1:], i.diagonal(), i.unfold(1, 2, 1))


@program
def grad_mode_of_views(torch, log):
    x = grid(torch, 4).requires_grad_()
    with torch.no_grad():
        v = x[1:]
        w = (x * 1)[1:]
    log(v, v._is_view(), v._base is x, w, w._is_view())
    log(v[1:], v[1:]._base is x, (v * 1).requires_grad)


@program
def gradient_layout_follows_a_dense_leaf(torch, log):
    x = grid(torch, 2, 3).t().requires_grad_()
    log(x, x._is_view())
    y = grid(torch, 2, 3).t().clone().requires_grad_()
    (y * 2).sum().backward()
    log(y, y.grad)
    z = grid(torch, 3).requires_grad_()
    z.sum().backward()
    log(z.grad)


@program
def repeat_and_tile_copy(torch, log):
    a = grid(torch, 2).requires_grad_()
    r = a.repeat(2, 2)
    log(r, r._is_view())
    (r * torch.arange(8.0).view(2, 4)).sum().backward()
    log(plain(torch, a.grad))
    log.raises(lambda: grid(torch, 2, 2).repeat(2))


@program
def flip_and_roll_copy(torch, log):
    a = (grid(torch, 2, 3).requires_grad_()) * 1
    log(a.flip(0), a.flip(0, 1), a.flip((1,)), a.flip(0)._is_view())
    log(a.roll(1), a.roll(1, 0), a.roll((1, -1), (0, 1)), a.roll(1)._is_view())
    log.raises(lambda: a.flip(0, 0))
    log.raises(lambda: a.flip(2))
    log.raises(lambda: a.roll(1, 2))
    log.raises(lambda: a.roll((1, 2), 0))
