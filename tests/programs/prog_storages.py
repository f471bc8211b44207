"""Storages of tensors that do not lie in the order of rows; `set_` with and without strides."""

import copy

from programs.harness import program

ORDERS = [(0, 1, 2), (1, 0, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1), (0, 2, 1)]


def turned(torch, order):
    return torch.arange(8.0).reshape(2, 2, 2).permute(order).clone()


@program
def order_of_storages(torch, log):
    for order in ORDERS:
        t = turned(torch, order)
        s = t.untyped_storage()
        log(t, t.storage().tolist(), s.nbytes())
        s[3] = 66
        t.storage()[1] = 7.0
        log(t, s.clone().tolist() == s.tolist())
        taken = torch.UntypedStorage(32)
        taken.copy_(s)
        s.fill_(0)
        log(t)
        s.copy_(taken)
        log(t, t[1].untyped_storage().tolist() == taken.tolist())


@program
def copies_of_views(torch, log):
    for order in ORDERS:
        t = turned(torch, order)
        whole, part = copy.deepcopy((t, t[1:]))
        part.fill_(9)
        log(whole, part, part.storage_offset(), t)


@program
def storages_set(torch, log):
    for order in ORDERS:
        t = turned(torch, order)
        for shape in [(2, 2, 2), (4, 2), (8,), (2,)]:
            u = torch.empty(0).set_(t.untyped_storage(), 0, shape)
            u[0] = -1
            log(u, t)
            v = turned(torch, order)
            v.set_(u.storage(), 0, shape)  # a tensor of this size keeps its strides
            log(v)
            v.add_(1)
            log(u, t)
        w = turned(torch, order)
        w.set_(t, 0, (2, 2, 2)) if t.is_contiguous() else log.raises(lambda t=t: t.set_(t, 0, (2,)))
        log(w)
    five = torch.arange(5.0)
    log(torch.empty(0).set_(five.storage(), 1, (4,)), torch.empty(0).set_(five[2:], 1, (2,)))
    log(torch.ones(2, 2).t().set_(five[1:], 0, (2, 2)), torch.ones(0).set_(five, 0, (2, 2), (1, 2)))


@program
def tensors_of_storages(torch, log):
    """A typed storage must have the dtype that is asked for; the memory is shared."""
    s = torch.arange(3.0).storage()
    for make in (torch.tensor, torch.as_tensor, torch.asarray):
        t = make(s)
        t[0] += 1
        log(t, s[0], make(s, dtype=torch.float32).dtype)
        log.raises(lambda make=make: make(s, dtype=torch.float64))
        log.raises(lambda make=make: make(torch.tensor([1, 2]).storage()))
        log(make(s._untyped_storage, dtype=torch.uint8).tolist(), make(s.untyped()).dtype)


@program
def a_saved_file_can_be_read_before_it_is_closed(torch, log):
    import tempfile

    for zipped in (True, False):
        with tempfile.NamedTemporaryFile() as file:
            torch.save([torch.arange(3.0)], file, _use_new_zipfile_serialization=zipped)
            log(torch.load(file.name))
