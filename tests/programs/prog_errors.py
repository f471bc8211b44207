"""Class and first line of the errors of autograd: E01 to E07, E12, E13 and common bad arguments."""

from programs.harness import program


def leaf(torch, *values):
    return torch.tensor(values or (1.0, 2.0, 3.0), requires_grad=True)


# E01: a saved tensor was changed in place.


@program
def e01_input_of_mul(torch, log):
    a = leaf(torch) * 1
    b = a * a
    a.add_(1)
    log.raises(lambda: b.sum().backward())


@program
def e01_other_of_mul(torch, log):
    a, w = leaf(torch), torch.ones(3)
    b = a * w
    w += 1
    log.raises(lambda: b.sum().backward())


@program
def e01_mul_by_itself_in_place(torch, log):
    a = leaf(torch) * 1
    a.mul_(a)
    log(a)
    log.raises(lambda: a.sum().backward())


@program
def e01_output_of_exp(torch, log):
    b = leaf(torch).exp()
    b += 1
    log(b._version)
    log.raises(lambda: b.sum().backward())


@program
def e01_output_of_sigmoid(torch, log):
    b = leaf(torch).sigmoid()
    b.mul_(2)
    log.raises(lambda: b.sum().backward())


@program
def e01_output_of_tanh(torch, log):
    b = leaf(torch).tanh()
    b[0] = 0
    log.raises(lambda: b.sum().backward())


@program
def e01_output_of_sqrt(torch, log):
    b = leaf(torch).sqrt()
    b.zero_()
    log.raises(lambda: b.sum().backward())
    c = leaf(torch).sqrt()
    d = c.sum()
    c.zero_()
    log.raises(lambda: d.backward())


@program
def e01_output_of_softmax(torch, log):
    b = leaf(torch).softmax(0)
    b -= 1
    log.raises(lambda: b.sum().backward())


@program
def e01_output_of_relu_in_place(torch, log):
    b = (leaf(torch) * 1).relu_()
    b += 1
    log.raises(lambda: b.sum().backward())


@program
def e01_output_of_sigmoid_in_place(torch, log):
    b = (leaf(torch) * 1).sigmoid_()
    b *= 2
    log.raises(lambda: b.sum().backward())


@program
def e01_output_of_exp_in_place(torch, log):
    b = (leaf(torch) * 1).exp_()
    b *= 5
    log.raises(lambda: b.sum().backward())


@program
def e01_relu_in_place_after_exp(torch, log):
    b = leaf(torch).exp()
    b.relu_()
    log.raises(lambda: b.sum().backward())


@program
def e01_write_through_a_slice(torch, log):
    a = leaf(torch) * 1
    b = a * a
    a[0] = 5.0
    log.raises(lambda: b.sum().backward())


@program
def e01_write_through_a_view(torch, log):
    a = leaf(torch) * 1
    b = a**2
    a.view(3, 1).mul_(2)
    log.raises(lambda: b.sum().backward())


@program
def e01_write_to_the_base_of_a_saved_view(torch, log):
    a = leaf(torch) * 1
    v = a[1:]
    b = v * v
    a.add_(1)
    log.raises(lambda: b.sum().backward())


@program
def e01_write_through_a_sibling_view(torch, log):
    a = leaf(torch) * 1
    one, two = a[:1], a[2:]
    b = one * one
    two.add_(1)
    log(one._version)
    log.raises(lambda: b.sum().backward())


@program
def e01_write_through_detach(torch, log):
    a = leaf(torch)
    b = a * a
    a.detach().add_(1)
    log(a._version)
    log.raises(lambda: b.sum().backward())


@program
def e01_write_through_data_is_not_seen(torch, log):
    a = leaf(torch)
    b = a * a
    a.data.add_(1)
    log(a._version)
    b.sum().backward()
    log(a.grad)


@program
def e01_write_under_no_grad(torch, log):
    a = leaf(torch)
    b = a * a
    with torch.no_grad():
        a -= 0.1
    log.raises(lambda: b.sum().backward())


@program
def e01_optimizer_step_between_backwards(torch, log):
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.SGD([p], lr=0.1)
    loss = (p * p).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    log.raises(lambda: loss.backward())


@program
def e01_optimizer_step_between_two_losses(torch, log):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    out = net(torch.ones(1, 2))
    out.sum().backward(retain_graph=True)
    optimizer.step()
    log.raises(lambda: (out * 2).sum().backward())


@program
def e01_weight_of_linear(torch, log):
    x, w = leaf(torch), torch.ones(2, 3)
    y = torch.nn.functional.linear(x, w)
    w.zero_()
    log.raises(lambda: y.sum().backward())


@program
def e01_matmul_operands(torch, log):
    a, b = torch.ones(2, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True)
    c, d = a * 1, b * 1
    y = c @ d
    d += 1
    log.raises(lambda: y.sum().backward())
    z = c.clone() @ b
    c[0, 0] = 7
    z.sum().backward()
    log(b.grad)


@program
def e01_tensor_saved_by_a_function(torch, log):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    a = leaf(torch) * 1
    b = Square.apply(a)
    a.add_(1)
    log.raises(lambda: b.sum().backward())


@program
def e01_output_saved_by_a_function(torch, log):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, grad):
            (out,) = ctx.saved_tensors
            return out * grad

    b = Exp.apply(leaf(torch))
    b.mul_(2)
    log.raises(lambda: b.sum().backward())


@program
def e01_several_writes_count(torch, log):
    a = leaf(torch) * 1
    a.add_(1).mul_(2)
    b = a * a
    a.sub_(1).sub_(1).sub_(1)
    log.raises(lambda: b.sum().backward())


@program
def e01_other_dtypes_and_shapes(torch, log):
    for dtype in (torch.float64, torch.float16, torch.complex64):
        a = torch.ones(2, 1, dtype=dtype, requires_grad=True) * 1
        b = a * a
        a.add_(1)
        log.raises(lambda b=b: b.backward(torch.ones(2, 1, dtype=b.dtype)))
    s = torch.tensor(2.0, requires_grad=True) * 1
    t = s * s
    s += 1
    log.raises(lambda: t.backward())


@program
def e01_index_changed_after_gather(torch, log):
    a, index = leaf(torch), torch.tensor([0, 1])
    b = a.gather(0, index)
    index += 1
    log.raises(lambda: b.sum().backward())


@program
def e01_mask_changed_after_where(torch, log):
    a, mask = leaf(torch), torch.tensor([True, False, True])
    b = torch.where(mask, a, 0.0)
    mask.logical_not_()
    log.raises(lambda: b.sum().backward())


@program
def e01_by_autograd_grad(torch, log):
    a = leaf(torch)
    b = a.exp()
    c = b.sum()
    b.detach().zero_()
    log.raises(lambda: torch.autograd.grad(c, a))


@program
def e01_in_the_second_backward(torch, log):
    a = leaf(torch)
    w = a * 1
    (g,) = torch.autograd.grad((w * w * w).sum(), w, create_graph=True)
    w.add_(1)
    log.raises(lambda: g.sum().backward())


@program
def e01_reading_saved_attribute(torch, log):
    a = leaf(torch) * 1
    b = a * a
    log(b.grad_fn._saved_self)
    a.add_(1)
    log.raises(lambda: b.grad_fn._saved_self)


@program
def e01_under_anomaly_mode(torch, log):
    with torch.autograd.set_detect_anomaly(True):
        b = leaf(torch).exp()
        b += 1
        log.raises(lambda: b.sum().backward())


@program
def e01_not_raised_where_nothing_is_saved(torch, log):
    x = leaf(torch)
    a = x * 2
    b = a + 1
    a.add_(1)
    c = b * 3
    b_sum = b.sum()
    b.mul_(2)
    (c.sum() + b_sum + b.sum() + a.sum()).backward()
    log(x.grad)


@program
def e01_leaves_the_graph_usable(torch, log):
    x, y = leaf(torch), leaf(torch, 4.0, 5.0, 6.0)
    a = x * 1
    b = a * a + y
    a.add_(1)
    log.raises(lambda: b.sum().backward())
    (x * y).sum().backward()
    log(x.grad, y.grad)


# E02: the graph was freed.


@program
def e02_second_backward(torch, log):
    a = leaf(torch)
    b = (a * a).sum()
    b.backward()
    log.raises(lambda: b.backward())
    log.raises(lambda: torch.autograd.grad(b, a))
    log(a.grad)


@program
def e02_shared_part(torch, log):
    a = leaf(torch)
    shared = a.exp()
    one, two = shared.sum(), (shared * 2).sum()
    one.backward()
    log.raises(lambda: two.backward())
    log(a.grad)


@program
def e02_after_autograd_grad(torch, log):
    a = leaf(torch)
    b = (a**3).sum()
    log(torch.autograd.grad(b, a))
    log.raises(lambda: b.backward())


@program
def e02_carried_state(torch, log):
    w, h = torch.tensor(0.5, requires_grad=True), torch.tensor(1.0)

    def steps():
        nonlocal h
        for _ in range(3):
            h = (w * h).tanh()
            h.backward()

    log.raises(steps)
    log(w.grad)


@program
def e02_not_raised_without_saved_tensors(torch, log):
    a = leaf(torch)
    b = (a + 1).sum()
    b.backward()
    b.backward()
    log(a.grad)


@program
def e02_retain_graph(torch, log):
    a = leaf(torch)
    b = (a * a).sum()
    b.backward(retain_graph=True)
    b.backward()
    log(a.grad)
    log.raises(lambda: b.backward(retain_graph=True))


@program
def e02_saved_attribute_after_backward(torch, log):
    b = (leaf(torch) ** 2).sum()
    node = b.grad_fn.next_functions[0][0]
    b.backward()
    log.raises(lambda: node._saved_self)


@program
def e02_function_saved_tensors(torch, log):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    b = Square.apply(leaf(torch)).sum()
    b.backward()
    log.raises(lambda: b.backward())


# E03: nothing requires grad.


@program
def e03_no_grad_fn(torch, log):
    a = torch.ones(2)
    log.raises(lambda: a.sum().backward())
    log.raises(lambda: torch.autograd.backward([leaf(torch).sum(), a.sum()]))
    log.raises(lambda: torch.autograd.grad(a.sum(), leaf(torch)))
    log.raises(lambda: leaf(torch).detach().sum().backward())


@program
def e03_cut_chains(torch, log):
    x = leaf(torch)
    with torch.no_grad():
        a = (x * 2).sum()
    b = torch.tensor((x * 2).tolist()).sum()
    log.raises(lambda: a.backward())
    log.raises(lambda: b.backward())
    log.raises(lambda: x.data.sum().backward())
    log.raises(lambda: x.argmax().backward())
    log.raises(lambda: (x > 1).sum().backward())


@program
def e03_frozen_parameters(torch, log):
    net = torch.nn.Linear(2, 1).requires_grad_(False)
    log.raises(lambda: net(torch.ones(1, 2)).sum().backward())


# E04: backward from something that is not a scalar.


@program
def e04_needs_a_scalar(torch, log):
    a = leaf(torch)
    log.raises(lambda: (a * 2).backward())
    log.raises(lambda: torch.autograd.grad(a * 2, a))
    log.raises(lambda: a.backward())
    log.raises(lambda: torch.nn.MSELoss(reduction="none")(a, torch.ones(3)).backward())
    (a[:1] * 2).backward()
    log(a.grad)


@program
def e04_complex_and_empty_roots(torch, log):
    c = torch.tensor([1j], requires_grad=True)
    log.raises(lambda: (c * 2).backward())
    log.raises(lambda: torch.zeros(0, requires_grad=True).backward())


@program
def gradient_argument_errors(torch, log):
    y = leaf(torch) * 2
    log.raises(lambda: y.backward(torch.ones(2)))
    log.raises(lambda: y.backward(torch.ones(1, 3)))
    log.raises(lambda: y.backward([1.0, 1.0, 1.0]))
    log.raises(lambda: y.backward(2.0))
    log.raises(lambda: torch.autograd.backward([y, y], [torch.ones(3)]))
    log.raises(lambda: torch.autograd.backward([]))
    log.raises(lambda: y.backward(torch.ones(3), inputs=[]))


# E05: an input that is not in the graph.


@program
def e05_unused_inputs(torch, log):
    a, b = leaf(torch), leaf(torch)
    y = (a * a).sum()
    log.raises(lambda: torch.autograd.grad(y, [a, b]))
    log.raises(lambda: torch.autograd.grad((a * 1).sum(), b))
    log(torch.autograd.grad((a * 2).sum(), [a, b], allow_unused=True))
    log(torch.autograd.grad((a * 2).sum(), [a, b], materialize_grads=True))
    log.raises(lambda: torch.autograd.grad(y, [b], allow_unused=False, materialize_grads=True))


@program
def e05_input_that_does_not_require_grad(torch, log):
    a, c = leaf(torch), torch.ones(3)
    log.raises(lambda: torch.autograd.grad((a * c).sum(), c))
    log.raises(lambda: torch.autograd.grad((a * c).sum(), [a, c], allow_unused=True))
    log.raises(lambda: torch.autograd.grad((a * c).sum(), []))


@program
def e05_cut_input(torch, log):
    a = leaf(torch)
    b = a * 2
    log.raises(lambda: torch.autograd.grad((b.detach() * a).sum(), b))
    log.raises(lambda: torch.autograd.grad((a * 2).sum(), b))


# E06: a leaf written in place.


@program
def e06_leaf_in_place(torch, log):
    a = leaf(torch)
    for f in (
        lambda: a.add_(1),
        lambda: a.zero_(),
        lambda: a.copy_(torch.ones(3)),
        lambda: a.mul_(2),
        lambda: a.relu_(),
        lambda: a.fill_(0),
        lambda: a.__setitem__(0, 1.0),
        lambda: a.__iadd__(1),
    ):
        log.raises(f)
    log(a, a._version)


@program
def e06_view_of_a_leaf(torch, log):
    a = leaf(torch)
    log.raises(lambda: a[0].add_(1))
    log.raises(lambda: a.view(3, 1).zero_())
    log.raises(lambda: a[:2][:1].mul_(2))
    log(a, a._version)


@program
def e06_parameter(torch, log):
    p = torch.nn.Parameter(torch.ones(2))
    log.raises(lambda: p.sub_(0.1))
    with torch.no_grad():
        log(p.sub_(0.5), p._version)


# E07: .grad of a tensor that is not a leaf.


@program
def e07_grad_of_non_leaf(torch, log):
    a = leaf(torch)
    b = a * 2
    log.warns(lambda: b.grad)
    log.warns(lambda: a.grad)
    b.retain_grad()
    b.sum().backward()
    log.warns(lambda: b.grad)
    log.warns(lambda: a.detach().grad)
    log.warns(lambda: a.double().grad)


@program
def grad_assignment_errors(torch, log):
    a = leaf(torch)
    log.raises(lambda: setattr(a, "grad", torch.ones(2)))
    log.raises(lambda: setattr(a, "grad", torch.ones(3, dtype=torch.float64)))
    log.raises(lambda: setattr(a, "grad", 1.0))
    log.raises(lambda: setattr(a, "grad", a))
    a.grad = torch.ones(3)
    log(a.grad)
    a.grad = None
    log(a.grad)


@program
def retain_grad_errors(torch, log):
    log.raises(lambda: torch.ones(1).retain_grad())
    log.raises(lambda: leaf(torch).retain_grad())


@program
def requires_grad_assignment_errors(torch, log):
    b = leaf(torch) * 2
    log.raises(lambda: setattr(b, "requires_grad", False))
    log.raises(lambda: b.requires_grad_(False))
    log(b.requires_grad_(True).requires_grad)
    log.raises(lambda: setattr(b, "requires_grad", "x"))
    log.raises(lambda: b[0].detach_())


@program
def hook_errors(torch, log):
    log.raises(lambda: torch.ones(1).register_hook(lambda g: g))
    a = leaf(torch)
    log.raises(lambda: (a * 2).register_post_accumulate_grad_hook(lambda t: None))
    a.register_hook(lambda g: "x")
    log.raises(lambda: (a * 2).sum().backward())
    b = leaf(torch)
    b.register_hook(lambda g: g[:1])
    log.raises(lambda: (b * 2).sum().backward())


# E12: what a Function's backward returns.


def returning(torch, result):
    """A Function of two arguments whose backward returns `result`."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, grad):
            return result

    return Product


@program
def e12_number_of_gradients(torch, log):
    g = torch.ones(3)
    for result in (g, (g,), (g, g, g), (g, g, None), (), None, (g, None), (None, None)):
        a, b = leaf(torch), leaf(torch)
        out = returning(torch, result).apply(a, b).sum()
        log.raises(lambda out=out: out.backward())
        log([None if t.grad is None else t.grad.tolist() for t in (a, b)])


@program
def e12_wrong_gradients(torch, log):
    g = torch.ones(3)
    wrong = [(g[:2], g), (g.view(1, 3), g), (g.double(), g), (1.0, g), ("x", g), (g, g.sum())]
    for result in wrong:
        a, b = leaf(torch), leaf(torch)
        out = returning(torch, result).apply(a, b).sum()
        log.raises(lambda out=out: out.backward())
        log([None if t.grad is None else t.grad.tolist() for t in (a, b)])


@program
def e12_gradient_for_what_needs_none(torch, log):
    a = leaf(torch)
    log.raises(lambda: returning(torch, (None, torch.ones(3))).apply(a, 2.0).sum().backward())
    log.raises(lambda: returning(torch, (torch.ones(3), None)).apply(a, 2.0).sum().backward())
    log(a.grad)


@program
def function_misuse(torch, log):
    class NoBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    class NoForward(torch.autograd.Function):
        pass

    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)
            return x * 1

    a = leaf(torch)
    log.raises(lambda: NoBackward.apply(a).sum().backward())
    log.raises(lambda: NoForward.apply(a))
    log.raises(lambda: Saves.apply(a))
    log.raises(lambda: NoBackward()(a))


# E13: views that may not be written.


@program
def e13_unbind_view(torch, log):
    a = leaf(torch) * 1
    one, _, _ = a.unbind()
    log.raises(lambda: one.add_(1))
    for row in a:
        log.raises(lambda row=row: row.mul_(2))
        break


@program
def e13_split_and_chunk_views(torch, log):
    a = leaf(torch) * 1
    log.raises(lambda: a.split(1)[1].zero_())
    log.raises(lambda: a.chunk(3)[2].zero_())
    log.raises(lambda: a.split([1, 2])[0].zero_())


@program
def e13_view_made_in_no_grad(torch, log):
    a = leaf(torch) * 1
    with torch.no_grad():
        v = a.view(3, 1)
        w = a.unbind()[0]
    log.raises(lambda: v.add_(1))
    log.raises(lambda: w.add_(1))
    log(a)


@program
def e13_history_of_a_no_grad_view(torch, log):
    a = leaf(torch) * 1
    with torch.no_grad():
        v = a.view(3, 1)
        v.add_(1)
    log(a.tolist(), a._version)
    log.raises(lambda: v.grad_fn)
    with torch.no_grad():
        w = a.view(3, 1)
    a.mul_(2)
    log.raises(lambda: w.grad_fn)
    log(a)


@program
def e13_no_grad_view_of_a_leaf(torch, log):
    a = leaf(torch)
    with torch.no_grad():
        v = a[:2]
    log.raises(lambda: v.add_(1))


@program
def e13_inference_tensors(torch, log):
    with torch.inference_mode():
        t = torch.ones(2)
    a = torch.ones(2, requires_grad=True)
    log.raises(lambda: t.add_(1))
    log.raises(lambda: a * t)
    log.raises(lambda: t.requires_grad_())
    log.raises(lambda: t._version)


@program
def e13_expanded_memory(torch, log):
    log.raises(lambda: torch.ones(1).expand(3).add_(1))
    log.raises(lambda: torch.ones(3, 1).expand(3, 2).copy_(torch.ones(3, 2)))


# Common bad arguments.


@program
def index_errors(torch, log):
    a = torch.ones(2, 3)
    log.raises(lambda: a[2])
    log.raises(lambda: a[-3])
    log.raises(lambda: a[0, 0, 0])
    log.raises(lambda: a[0, 3])
    log.raises(lambda: a["x"])
    log.raises(lambda: a[1.0])
    log.raises(lambda: a[torch.tensor([2])])
    log.raises(lambda: a[torch.tensor([1.0])])
    log.raises(lambda: a[torch.tensor([True])])
    log.raises(lambda: a[::-1])
    log.raises(lambda: torch.tensor(1.0)[0])
    log.raises(lambda: a.__setitem__(0, torch.ones(2)))
    log.raises(lambda: a.__setitem__(0, "x"))


@program
def unknown_attributes(torch, log):
    log.raises(lambda: torch.ones(1).nothing)


@program
def missing_and_surplus_arguments(torch, log):
    a = torch.ones(2)
    log.raises(lambda: a.transpose(0))
    log.raises(lambda: torch.exp())
    log.raises(lambda: torch.exp(1.0))
    log.raises(lambda: a.exp(1))
    log.raises(lambda: torch.sigmoid("x"))


@program
def missing_arguments_of_several_signatures(torch, log):
    a, index, mask = torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3) > 0
    given = {"a": (a,), "mask": (mask,), "0": (0,), "": (), "0, index": (0, index), "aa": (a, a)}
    calls = {
        "add_ sub_ div where addmm masked_fill masked_fill_ narrow scatter pow lerp eq": ("",),
        "index_fill movedim fill_ swapaxes swapdims transpose": ("",),
        "masked_fill where": ("mask",),
        "narrow scatter index_fill swapaxes swapdims": ("0",),
        "scatter scatter_": ("0, index",),
        "addmm addcmul addcdiv addmv addr baddbmm addbmm lerp": ("a",),
    }
    for names, kinds in calls.items():
        for name in names.split():
            for kind in kinds:
                log.raises(lambda n=name, k=kind: getattr(a, n)(*given[k]))
    log.raises(lambda: a.where(mask, a, a))
    log.raises(lambda: torch.where())
    log.raises(lambda: torch.where(mask, a))
    log.raises(lambda: torch.narrow(a, 0, 0))
    for name in "add sub mul div mm bmm addmm addcmul swapaxes sum mean sort clamp".split():
        log.raises(lambda n=name: getattr(torch, n)())
    for name in "add sub mul div mm bmm addmm pow eq masked_fill scatter swapaxes".split():
        log.raises(lambda n=name: getattr(torch, n)(a))


@program
def arguments_of_the_wrong_kind(torch, log):
    F = torch.nn.functional
    a = torch.ones(2, 3)
    for name in ("sum", "nansum", "nanmean", "prod", "amax", "amin", "argmax", "logsumexp"):
        function = getattr(torch, name)
        for keepdim in (1, 2**40, None, "x", torch.tensor(True)):
            log.raises(lambda f=function, k=keepdim: f(a, 0, k))
    log.raises(lambda: F.pairwise_distance(a, a, 2.0, a))
    log.raises(lambda: F.pairwise_distance(a, a, a))
    log.raises(lambda: torch.constant_pad_nd(a, [1, 1], a))
    log.raises(lambda: torch.constant_pad_nd(a, [1, 1], "x"))
    log(torch.constant_pad_nd(a, [1, 1], torch.tensor(3)))
    log(F.pairwise_distance(a, a, 2.0, torch.tensor(1.0)))
    log.raises(lambda: F.batch_norm(torch.zeros(0), None, None, {}))
    log.raises(lambda: F.group_norm(a, 0))
    log.raises(lambda: torch.Tensor.apply_(5, abs))
    log.raises(lambda: torch.Tensor.map_({}, a, abs))
