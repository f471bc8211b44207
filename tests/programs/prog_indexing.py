"""Indexing both ways: every kind of index, views or copies, gradients, refusals, protocols."""

import numpy as np

from programs.harness import program
from programs.prog_views import plain, warned


def cube(torch, grad=False):
    return torch.arange(24.0).reshape(2, 3, 4).clone().requires_grad_(grad)


def read(torch, log, *indices):
    """Read with each index: the result, whether it is a view, and the gradient behind it."""
    for index in indices:
        x = cube(torch, grad=True)
        out = (x * 1)[index]
        log(out, out._is_view(), out.storage_offset())
        weights = torch.arange(1.0, out.numel() + 1).view(out.shape)
        (g,) = torch.autograd.grad((out * weights).sum(), x)
        log(plain(torch, g))


def refuse(log, t, *indices):
    for index in indices:
        log.raises(lambda index=index: t[index])


def write(torch, log, index, value):
    """Assign with and without gradients on either side."""
    a = cube(torch)
    a[index] = value
    log(a)
    x = cube(torch, grad=True)
    y = torch.as_tensor(value, dtype=torch.float32).clone().requires_grad_()
    b = x * 1
    b[index] = y
    log(b)
    log.graph(b)
    (b * torch.arange(1.0, 25.0).view(2, 3, 4)).sum().backward()
    log(plain(torch, x.grad), plain(torch, y.grad))


@program
def read_with_ints(torch, log):
    read(torch, log, 0, -1, (1, 2), (0, -1, 3), (-2, -3, -4))


@program
def read_with_numpy_numbers(torch, log):
    a = cube(torch)
    log(a[np.int64(1)], a[np.int32(0), np.uint8(2)])
    refuse(log, a, np.bool_(True), np.float64(1.0))


@program
def read_with_slices(torch, log):
    read(torch, log, slice(None), slice(1, None), slice(-1, None), (slice(None), slice(0, 2)))


@program
def read_with_steps(torch, log):
    read(torch, log, (slice(None), slice(None, None, 2)), (0, slice(None), slice(1, None, 3)))


@program
def read_with_slices_out_of_range(torch, log):
    read(torch, log, slice(5, 9), slice(-9, 9), slice(1, 0), (slice(None), slice(2, 1)))


@program
def read_with_none(torch, log):
    read(torch, log, None, (None, 0), (slice(None), None, 1), (Ellipsis, None), (0, None, 1, None))


@program
def read_with_ellipsis(torch, log):
    read(torch, log, Ellipsis, (Ellipsis, 0), (1, Ellipsis), (0, Ellipsis, slice(1, 3)))
    read(torch, log, (Ellipsis, 1, 2, 3), (0, 1, 2, Ellipsis))


@program
def read_with_an_empty_tuple(torch, log):
    a = cube(torch)
    log(a[()], a[()] is a, a[()]._base is a, torch.tensor(3.0)[()])


@program
def read_a_scalar_tensor(torch, log):
    s = torch.tensor(3.0)
    log(s[None], s[...], s[..., None], s[True], s[False])
    refuse(log, s, 0, slice(None), (0, 0))


@program
def read_with_python_bools(torch, log):
    read(torch, log, True, False, (True, 0), (slice(None), True))


@program
def read_with_int_tensor(torch, log):
    read(torch, log, torch.tensor([1, 0, 1]), torch.tensor([[0, 1], [-1, -2]]))


@program
def read_with_lists_and_ranges(torch, log):
    read(torch, log, [0, 1, 0], ([0, 1], [2, 0]), (0, [1, 1]), (slice(None), [2]))
    log(cube(torch)[range(2)], cube(torch)[:, range(0, 3, 2)])


@program
def read_with_nested_lists(torch, log):
    log(cube(torch)[[[0, 1], [1, 0]]], cube(torch)[0, [[0, 1], [1, 2]]])


@program
def read_with_a_list_of_slices(torch, log):
    warned(torch, log, lambda: cube(torch)[[slice(0, 1), 1]])
    warned(torch, log, lambda: cube(torch)[[0, None]])


@program
def read_with_numpy_arrays(torch, log):
    a = cube(torch)
    log(a[np.array([1, 0])], a[:, np.array([[0], [2]])], a[np.array([True, False])])


@program
def read_with_small_int_tensors(torch, log):
    a = cube(torch)
    log(a[torch.tensor([1, 0], dtype=torch.int32)])
    log.raises(lambda: a[torch.tensor([1, 0], dtype=torch.int8)])
    log.raises(lambda: a[torch.tensor([1, 0], dtype=torch.int16)])


@program
def read_with_scalar_int_tensor(torch, log):
    read(torch, log, torch.tensor(1), (slice(None), torch.tensor(-1)), (torch.tensor(0), 1))


@program
def read_with_scalar_and_vector_tensors(torch, log):
    read(torch, log, (torch.tensor(1), torch.tensor([0, 2])), (torch.tensor([0]), torch.tensor(1)))


@program
def read_with_bool_masks(torch, log):
    read(torch, log, torch.tensor([True, False]), torch.arange(6).view(2, 3) % 2 == 0)
    read(torch, log, torch.arange(24).view(2, 3, 4) % 5 == 0, torch.tensor([False, False]))


@program
def read_with_bool_lists(torch, log):
    read(torch, log, [True, False], (slice(None), [True, False, True]), (0, [False, True, True]))


@program
def read_with_scalar_bool_tensor(torch, log):
    read(torch, log, torch.tensor(True), torch.tensor(False))


@program
def read_with_mask_and_int_tensor(torch, log):
    read(torch, log, (torch.tensor([True, True]), torch.tensor([0, 2])))
    read(torch, log, (torch.tensor([True, True]), slice(None), torch.tensor([3, 1])))


@program
def read_advanced_side_by_side(torch, log):
    i, j = torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1])
    read(torch, log, (i, j), (slice(None), j, i), (i, j, slice(1, 3)), (Ellipsis, j, i))


@program
def read_advanced_apart(torch, log):
    i, j = torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1])
    read(torch, log, (i, slice(None), j), (i, slice(0, 2), j), (i, Ellipsis, j), (i, None, j))


@program
def read_advanced_with_ints(torch, log):
    j = torch.tensor([2, 0])
    read(torch, log, (1, j), (slice(None), 1, j), (1, slice(None), j), (j % 2, slice(None), 1))


@program
def read_advanced_that_broadcasts(torch, log):
    i, j = torch.tensor([[0], [1]]), torch.tensor([0, 2])
    read(torch, log, (i, j), (i, j, 0), (i, slice(None), j))


@program
def read_advanced_of_all_dims(torch, log):
    i = torch.tensor([0, 1])
    read(torch, log, (i, i, i), (i, i + 1, torch.tensor([[3], [0]])))


@program
def read_advanced_with_none(torch, log):
    i = torch.tensor([1, 0])
    read(torch, log, (None, i), (i, None), (slice(None), i, None), (i, None, i))


@program
def read_with_empty_indices(torch, log):
    read(torch, log, torch.zeros(0, dtype=torch.int64), [], (slice(None), []))
    read(torch, log, torch.zeros(0, 2, dtype=torch.int64))


@program
def read_with_uint8_mask(torch, log):
    a = cube(torch)
    warned(torch, log, lambda: a[torch.tensor([1, 0], dtype=torch.uint8)])
    warned(torch, log, lambda: a[:, torch.tensor([1, 0, 1], dtype=torch.uint8)])
    warned(torch, log, lambda: torch.arange(2)[torch.tensor(1, dtype=torch.uint8)])


@program
def int_out_of_range(torch, log):
    refuse(log, cube(torch), 2, -3, (0, 3), (slice(None), -4), (0, 0, 4), (Ellipsis, 9))


@program
def tensor_index_out_of_range(torch, log):
    a = cube(torch)
    refuse(log, a, torch.tensor([0, 2]), torch.tensor([-3]), [5], (slice(None), [0, 3]))
    refuse(log, a, torch.tensor(2), (0, torch.tensor([7])))


@program
def mask_of_wrong_shape(torch, log):
    a = cube(torch)
    refuse(log, a, torch.tensor([True, False, True]), torch.ones(2, 2, dtype=torch.bool))
    refuse(log, a, [True], torch.ones(2, 3, 4, 1, dtype=torch.bool), (0, [True, False]))


@program
def indices_that_do_not_broadcast(torch, log):
    a = cube(torch)
    i, j = torch.tensor([0, 1]), torch.tensor([0, 1, 2])
    refuse(log, a, ([0, 1], [0, 1, 2]), (i, slice(None), j))


@program
def too_many_indices(torch, log):
    a = cube(torch)
    refuse(log, a, (0, 0, 0, 0), (slice(None),) * 4, ([0], [0], [0], [0]), (0, 0, 0, [0]))
    log.raises(lambda: a.__setitem__((0, 0, 0, 0), 1.0))


@program
def indices_of_bad_types(torch, log):
    a = cube(torch)
    refuse(log, a, 1.0, "x", torch.tensor([0.5]), (0, 1.5), {}, [0.5], torch.tensor(0.5))
    refuse(log, a, object, np.array([0.5]), slice("a"), slice(0.5, None), 1j)


@program
def slices_of_bad_steps(torch, log):
    refuse(log, cube(torch), slice(None, None, -1), slice(None, None, 0))


@program
def slice_bounds_may_be_tensors(torch, log):
    a = cube(torch)
    log(a[torch.tensor(1) :], a[: torch.tensor(1)])
    refuse(log, a, slice(torch.tensor(0.5), None), slice(torch.tensor([0, 1]), None))


@program
def two_ellipses(torch, log):
    log.raises(lambda: cube(torch)[..., 0, ...])
    log(cube(torch)[..., ...])


@program
def index_that_requires_grad(torch, log):
    i = torch.tensor([0.0], requires_grad=True)
    log.raises(lambda: cube(torch)[i])
    log.raises(lambda: cube(torch)[i.long()])


@program
def gradient_with_repeated_indices(torch, log):
    x = torch.arange(4.0, requires_grad=True)
    out = x[[0, 0, 2, 0]]
    (out * torch.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    log(plain(torch, x.grad))
    log.graph(out)


@program
def second_gradient_through_advanced_indexing(torch, log):
    x = torch.arange(1.0, 5.0, requires_grad=True)
    out = x[torch.tensor([0, 0, 2])] * x[x > 2][:1]
    (g,) = torch.autograd.grad((out * out).sum(), x, create_graph=True)
    log(plain(torch, g))
    (gg,) = torch.autograd.grad(g.sum(), x)
    log(plain(torch, gg))


@program
def index_is_saved_until_backward(torch, log):
    x = torch.arange(4.0, requires_grad=True)
    i = torch.tensor([0, 1])
    out = x[i]
    i.add_(1)
    log.raises(lambda: out.sum().backward())


@program
def mask_is_saved_until_backward(torch, log):
    x = torch.arange(4.0, requires_grad=True)
    mask = torch.tensor([True, False, True, False])
    out = x[mask]
    mask.zero_()
    log.raises(lambda: out.sum().backward())
    log(plain(torch, x.grad))


@program
def write_a_number_with_basic_index(torch, log):
    for index in (0, (0, 1), (slice(None), 1), (Ellipsis, slice(None, None, 2)), (0, 1, 2), ()):
        write(torch, log, index, 50.0)


@program
def write_a_tensor_with_basic_index(torch, log):
    write(torch, log, (0, 1), torch.tensor([10.0, 20.0, 30.0, 40.0]))
    write(torch, log, (slice(None), 0), torch.arange(8.0).view(2, 4))


@program
def write_a_tensor_that_broadcasts(torch, log):
    write(torch, log, 1, torch.tensor([1.0, 2.0, 3.0, 4.0]))
    write(torch, log, (slice(None), slice(0, 2)), torch.tensor([[5.0]]))
    write(torch, log, 0, torch.arange(12.0).view(1, 3, 4))


@program
def write_with_int_tensor(torch, log):
    write(torch, log, torch.tensor([1]), 9.0)
    write(torch, log, (0, torch.tensor([2, 0])), torch.tensor([[5.0], [6.0]]))


@program
def write_with_list(torch, log):
    write(torch, log, [1, 0], torch.arange(24.0).view(2, 3, 4))
    write(torch, log, (slice(None), [0, 2]), 7.0)


@program
def write_with_mask(torch, log):
    mask = torch.arange(24).view(2, 3, 4) % 6 == 0
    write(torch, log, mask, 9.0)
    write(torch, log, mask, torch.tensor([1.0, 2.0, 3.0, 4.0]))
    write(torch, log, (slice(None), [True, False, True]), torch.tensor(5.0))


@program
def write_with_mixed_indices(torch, log):
    i, j = torch.tensor([0, 1]), torch.tensor([2, 0])
    write(torch, log, (i, j), torch.tensor([[5.0], [6.0]]))
    write(torch, log, (i, slice(None), j), torch.arange(6.0).view(2, 3))
    write(torch, log, (slice(None), 1, j), 8.0)


@program
def write_with_none_and_ellipsis(torch, log):
    write(torch, log, (None, 0), torch.arange(12.0).view(3, 4))
    write(torch, log, (Ellipsis, None, 1), 3.0)
    write(torch, log, True, 4.0)


@program
def write_nothing_with_empty_index(torch, log):
    a = cube(torch)
    a[[]] = 9.0
    a[1:1] = 9.0
    a[torch.zeros(2, dtype=torch.bool)] = 9.0
    a[False] = 9.0
    log(a)


@program
def write_values_of_other_dtypes(torch, log):
    i = torch.arange(4)
    i[0] = 7.9
    i[1] = True
    i[2:] = torch.tensor([1.5, -2.5])
    log(i)
    log.raises(lambda: i.__setitem__(torch.tensor([0]), torch.tensor([1.5])))
    i[torch.tensor([0])] = 3.9
    log(i)
    b = torch.zeros(2, dtype=torch.bool)
    b[0] = 5
    log(b)


@program
def write_values_that_do_not_fit(torch, log):
    a = cube(torch)
    log.raises(lambda: a.__setitem__(0, torch.ones(5)))
    log.raises(lambda: a.__setitem__((0, 0), torch.ones(2, 4)))
    log.raises(lambda: a.__setitem__(torch.tensor([0, 1]), torch.ones(3, 3, 4)))
    log.raises(lambda: a.__setitem__(a > 3, torch.ones(3)))
    log.raises(lambda: a.__setitem__((0, 0, 0), torch.ones(2)))
    log(a)


@program
def write_values_of_bad_types(torch, log):
    a = cube(torch)
    log.raises(lambda: a.__setitem__(0, "x"))
    log.raises(lambda: a.__setitem__(0, None))
    log.raises(lambda: a.__setitem__(0, [1.0, 2.0, 3.0, 4.0]))
    log.raises(lambda: a.__setitem__((0, 0, 0), 1j))
    log.raises(lambda: a.__setitem__(0, np.ones(4)))
    log(a)


@program
def write_out_of_range(torch, log):
    a = cube(torch)
    log.raises(lambda: a.__setitem__(2, 1.0))
    log.raises(lambda: a.__setitem__((0, -4), 1.0))
    log.raises(lambda: a.__setitem__(torch.tensor([2]), 1.0))
    log.raises(lambda: a.__setitem__(torch.tensor([True]), 1.0))
    log.raises(lambda: a.__setitem__("x", 1.0))
    log.raises(lambda: a.__setitem__(slice(None, None, -1), 1.0))
    log.raises(lambda: a.__delitem__(0))
    log(a)


@program
def write_to_itself_through_an_index(torch, log):
    a = torch.arange(6.0)
    a[:3] = a[3:]
    log(a)
    a[[0, 1]] = a[[1, 0]]
    log(a)
    a[a > 3] *= 10
    log(a)


@program
def views_by_index_share_memory(torch, log):
    a = cube(torch)
    a[0][1].zero_()
    a[:, 2][..., 0] = -1.0
    a[None, 0, 0].fill_(7.0)
    log(a)
    a[[0]].zero_()
    a[a > 0].zero_()
    a[torch.tensor(0)].add_(100)
    log(a)


@program
def tensor_index_of_zero_dims_view_or_copy(torch, log):
    a = torch.arange(3.0)
    log(a[torch.tensor(1)]._is_view(), a[1]._is_view(), a[torch.tensor([1])]._is_view())
    log(a[True]._is_view(), a[...]._is_view(), a[None]._is_view())


@program
def index_select_forms(torch, log):
    x = cube(torch, grad=True)
    out = x.index_select(1, torch.tensor([2, 0, 2]))
    log(out)
    (out * torch.arange(24.0).view(2, 3, 4)).sum().backward()
    log(plain(torch, x.grad))
    log(torch.index_select(cube(torch), -1, torch.tensor([0], dtype=torch.int32)))
    log(torch.tensor(3.0).index_select(0, torch.tensor([0])))


@program
def index_select_errors(torch, log):
    a = cube(torch)
    log.raises(lambda: a.index_select(1, torch.tensor([3])))
    log.raises(lambda: a.index_select(1, torch.tensor([[0]])))
    log.raises(lambda: a.index_select(3, torch.tensor([0])))
    log.raises(lambda: a.index_select(0, torch.tensor([0.0])))
    log.raises(lambda: a.index_select(0, [0]))


@program
def gather_forms(torch, log):
    x = torch.arange(6.0).view(2, 3).clone().requires_grad_()
    i = torch.tensor([[0, 0], [2, 1]])
    out = x.gather(1, i)
    log(out)
    (out * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    log(plain(torch, x.grad))
    log(torch.gather(x.detach(), 0, torch.tensor([[1, 0, 1]])), x.gather(-1, i[:1]))


@program
def gather_errors(torch, log):
    x = torch.arange(6.0).view(2, 3)
    log.raises(lambda: x.gather(1, torch.tensor([[3], [0]])))
    log.raises(lambda: x.gather(1, torch.tensor([0])))
    log.raises(lambda: x.gather(1, torch.tensor([[0], [0], [0]])))
    log.raises(lambda: x.gather(1, torch.tensor([[0.0], [0.0]])))
    log.raises(lambda: x.gather(2, torch.tensor([[0]])))


@program
def scatter_forms(torch, log):
    x = torch.zeros(2, 3, requires_grad=True)
    src = torch.arange(1.0, 5.0).view(2, 2).clone().requires_grad_()
    i = torch.tensor([[0, 2], [1, 0]])
    out = x.scatter(1, i, src)
    log(out)
    (out * torch.arange(1.0, 7.0).view(2, 3)).sum().backward()
    log(plain(torch, x.grad), plain(torch, src.grad))
    out = x.scatter(0, torch.tensor([[1, 0, 1]]), 9.0)
    log(out)
    out.sum().backward()
    log(plain(torch, x.grad))


@program
def scatter_of_a_larger_source(torch, log):
    src = torch.arange(1.0, 7.0).view(2, 3).clone().requires_grad_()
    out = torch.zeros(2, 3).scatter(1, torch.tensor([[0, 2], [1, 0]]), src)
    log(out)
    log.raises(lambda: out.sum().backward())


@program
def scatter_errors(torch, log):
    x, src = torch.zeros(2, 3), torch.ones(2, 3)
    log.raises(lambda: x.scatter(1, torch.tensor([[3], [0]]), src))
    log.raises(lambda: x.scatter(1, torch.tensor([0]), src))
    log.raises(lambda: x.scatter(1, torch.tensor([[0], [0], [0]]), src))
    log.raises(lambda: x.scatter(1, torch.tensor([[0.0]]), src))
    log.raises(lambda: x.scatter(1, torch.tensor([[0]]), src.double()))
    log.raises(lambda: x.scatter(1, torch.tensor([[4]]), 1.0))


@program
def take_forms(torch, log):
    x = cube(torch, grad=True)
    out = x.take(torch.tensor([[0, 23], [-1, 5]]))
    log(out)
    (out * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    log(plain(torch, x.grad))
    log.raises(lambda: x.take(torch.tensor([24])))
    log.raises(lambda: x.take(torch.tensor([-25])))
    log.raises(lambda: x.take(torch.tensor([0.0])))


@program
def masked_select_forms(torch, log):
    x = torch.arange(6.0).view(2, 3).clone().requires_grad_()
    out = x.masked_select(torch.tensor([True, False, True]))
    log(out)
    (out * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    log(plain(torch, x.grad))
    log(torch.masked_select(torch.ones(2), torch.tensor([[True], [False]])))
    log.raises(lambda: x.masked_select(torch.tensor([1, 0, 1])))
    log.raises(lambda: x.masked_select(torch.tensor([True, False])))


@program
def masked_fill_forms(torch, log):
    x = torch.arange(6.0).view(2, 3).clone().requires_grad_()
    v = torch.tensor(9.0, requires_grad=True)
    mask = torch.tensor([True, False, True])
    out = x.masked_fill(mask, v)
    log(out)
    out.sum().backward()
    log(plain(torch, x.grad), plain(torch, v.grad))
    log(x.masked_fill(mask, -1.0), torch.ones(2).masked_fill(torch.ones(2, 2) > 0, 3))


@program
def masked_fill_errors(torch, log):
    x = torch.arange(3.0)
    mask = torch.tensor([True, False, True])
    log.raises(lambda: x.masked_fill(torch.tensor([1, 0, 1]), 0.0))
    log.raises(lambda: x.masked_fill(mask, torch.ones(3)))
    log.raises(lambda: x.masked_fill(mask[:2], 0.0))
    log.raises(lambda: torch.arange(3).masked_fill(mask, 1.5))
    log.raises(lambda: x.masked_fill(mask, 1j))


@program
def where_forms(torch, log):
    x = torch.arange(3.0, requires_grad=True)
    y = torch.tensor([10.0], requires_grad=True)
    out = torch.where(x > 0.5, x, y)
    log(out)
    (out * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    log(plain(torch, x.grad), plain(torch, y.grad))
    log(torch.where(x > 0.5, x, 0.0), torch.where(x > 0.5, 1, 0), x.where(x > 1, y))
    log(torch.where(x > 0.5), torch.where(x > 0.5, 1, torch.tensor([2.0], dtype=torch.float64)))


@program
def where_errors(torch, log):
    x = torch.arange(3.0)
    log.raises(lambda: torch.where(x, x, x))
    log.raises(lambda: torch.where(x > 1, torch.ones(2), x))
    log.raises(lambda: torch.where(torch.tensor([1, 0, 1]), x, x))
    log.raises(lambda: torch.where(True, x, x))


@program
def iteration_and_unpacking(torch, log):
    x = torch.arange(4.0).view(2, 2).clone().requires_grad_()
    a, b = x
    log(a, b, a._is_view(), list(x), [v.item() for v in x[0]])
    (a * b).sum().backward()
    log(plain(torch, x.grad))
    log.raises(lambda: list(torch.tensor(1.0)))
    log(list(torch.zeros(0, 2)), list(reversed(torch.arange(3))))


@program
def iteration_over_empty_inner_dims(torch, log):
    log(list(torch.zeros(2, 0)), len(torch.zeros(2, 0)))


@program
def length_protocol(torch, log):
    log(len(torch.zeros(3, 2)), len(torch.zeros(0, 2)), torch.zeros(3, 2).__len__())
    log.raises(lambda: len(torch.tensor(1.0)))


@program
def bool_protocol(torch, log):
    log(bool(torch.tensor(0.0)), bool(torch.tensor([[2]])), bool(torch.tensor(float("nan"))))
    log.raises(lambda: bool(torch.zeros(2)))
    log.raises(lambda: bool(torch.zeros(0)))
    log.raises(lambda: not torch.ones(2, 2))


@program
def number_protocols(torch, log):
    t = torch.tensor([2.7])
    log(float(t), int(t), int(torch.tensor(-2.7)), complex(torch.tensor(1.0)), round(t.item()))
    log.raises(lambda: float(torch.zeros(2)))
    log.raises(lambda: int(torch.zeros(0)))
    log.raises(lambda: float(torch.tensor(1j)))
    log.raises(lambda: torch.zeros(2).item())
    log.raises(lambda: torch.zeros(0).item())


@program
def index_protocol(torch, log):
    names = ["a", "b", "c"]
    log(names[torch.tensor(1)], names[torch.tensor([2])], range(5)[torch.tensor(-1)])
    log.raises(lambda: names[torch.tensor(1.0)])
    log.raises(lambda: names[torch.tensor([0, 1])])
    log.raises(lambda: names[torch.tensor(True)])
    log.raises(lambda: [0] * torch.tensor(2))


@program
def contains_protocol(torch, log):
    t = torch.tensor([1.0, 2.0])
    log(1 in t, 3 in t, torch.tensor(2.0) in t, 2.0 in t, True in t)
    log.raises(lambda: "x" in t)
    log.raises(lambda: None in t)
    log.raises(lambda: torch.ones(3) in t)


@program
def hash_and_equality_protocols(torch, log):
    t = torch.tensor([1.0, 2.0])
    log(hash(t) == hash(t), t in {t}, t == t, t != 1, t.__eq__(None), t == "x")


@program
def item_of_a_tensor_with_grad(torch, log):
    x = torch.tensor([2.0], requires_grad=True)
    log(x.item(), x.tolist(), (x * 2).item())
    warned(torch, log, lambda: float(x))
    log.raises(lambda: x.numpy())
    log.raises(lambda: np.asarray(x))
    log.raises(lambda: (x * 2).numpy())
