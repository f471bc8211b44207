"""Hooks on tensors and nodes, hooks on saved tensors, gradient edges and what a node shows."""

from programs.harness import program
from programs.prog_backward import bare, leaf

# --- Tensor.register_hook --------------------------------------------------------------------


@program
def hook_on_a_leaf(torch, log):
    x = leaf(torch, 1.0, 2.0)
    x.register_hook(lambda g: log("leaf", bare(g)))
    (x * 3).sum().backward()
    log(bare(x.grad))


@program
def hook_on_a_non_leaf(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = x * 3
    y.register_hook(lambda g: log("inner", bare(g)))
    (y * y).sum().backward()
    log(bare(x.grad))


@program
def hook_on_the_root(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = (x * 3).sum()
    y.register_hook(lambda g: g * 10)
    y.backward()
    log(bare(x.grad))


@program
def hook_sees_the_whole_gradient_once(torch, log):
    x = leaf(torch, 1.0)
    x.register_hook(lambda g: log(bare(g)))
    (x * 2 + x * 3 + x * x).backward()


@program
def hook_replaces_the_gradient(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = x * 3
    y.register_hook(lambda g: g * 2)
    y.register_hook(lambda g: g + 1)
    y.sum().backward()
    log(bare(x.grad))


@program
def hook_returning_none_keeps_the_gradient(torch, log):
    x = leaf(torch, 1.0, 2.0)
    x.register_hook(lambda g: None)
    (x * 3).sum().backward()
    log(bare(x.grad))


@program
def hooks_run_in_order_of_registration(torch, log):
    x = leaf(torch, 1.0)
    for name in "abc":
        x.register_hook(lambda g, name=name: log(name, bare(g)))
    x.register_hook(lambda g: g * 5)
    x.register_hook(lambda g: log("last", bare(g)))
    x.clone().backward()


@program
def hook_removed(torch, log):
    x = leaf(torch, 1.0)
    first = x.register_hook(lambda g: log("first"))
    x.register_hook(lambda g: log("second"))
    (x * 2).backward()
    first.remove()
    first.remove()
    (x * 2).backward()


@program
def hook_handle_as_context_manager(torch, log):
    x = leaf(torch, 1.0)
    with x.register_hook(lambda g: log("inside")):
        (x * 2).backward()
    (x * 2).backward()
    log(bare(x.grad))


@program
def hook_removed_inside_a_hook(torch, log):
    x = leaf(torch, 1.0)
    handles = []

    def once(g):
        log("once", bare(g))
        handles[0].remove()

    handles.append(x.register_hook(once))
    x.register_hook(lambda g: log("always"))
    (x * 2).backward()
    (x * 2).backward()


@program
def hook_with_a_bad_return(torch, log):
    x = leaf(torch, 1.0)
    handle = x.register_hook(lambda g: "text")
    log.raises(lambda: (x * 2).backward())
    handle.remove()
    (x * 2).backward()
    log(bare(x.grad))


@program
def hook_returning_another_shape_or_dtype(torch, log):
    x = leaf(torch, 1.0, 2.0)
    handle = x.register_hook(lambda g: torch.ones(3))
    log.raises(lambda: (x * 2).sum().backward())
    handle.remove()
    x.register_hook(lambda g: g.double())
    log.raises(lambda: (x * 2).sum().backward())


@program
def hook_on_a_constant(torch, log):
    log.raises(lambda: torch.tensor(1.0).register_hook(lambda g: g))
    x = leaf(torch, 1.0)
    log.raises(lambda: (x * 2).detach().register_hook(lambda g: g))


@program
def hook_that_is_not_callable(torch, log):
    x = leaf(torch, 1.0)
    log.raises(lambda: x.register_hook(3))


@program
def hook_that_raises(torch, log):
    def fail(g):
        raise ValueError("hook failed")

    x = leaf(torch, 1.0)
    handle = x.register_hook(fail)
    log.raises(lambda: (x * 2).backward())
    handle.remove()
    (x * 2).backward()
    log(bare(x.grad))


@program
def hook_applies_to_autograd_grad_of_inner_tensors(torch, log):
    x = leaf(torch, 1.0)
    y = x * 3
    y.register_hook(lambda g: g * 2)
    z = y * y
    log(bare(torch.autograd.grad(z, [y, x])))


@program
def hook_on_a_leaf_applies_to_autograd_grad(torch, log):
    x = leaf(torch, 1.0)
    x.register_hook(lambda g: g * 2)
    log(bare(torch.autograd.grad(x * 3, x)))


@program
def hook_under_create_graph(torch, log):
    x = leaf(torch, 2.0)
    seen = []
    x.register_hook(lambda g: seen.append((g.requires_grad, torch.is_grad_enabled())))
    x.register_hook(lambda g: g * g)
    (g,) = torch.autograd.grad(x * x * x, x, create_graph=True)
    log(seen, g)
    log(bare(torch.autograd.grad(g, x)), seen)


@program
def hook_without_create_graph_runs_with_grad_off(torch, log):
    x = leaf(torch, 2.0)
    x.register_hook(lambda g: log(g.requires_grad, torch.is_grad_enabled()))
    (x * x).backward()


@program
def hook_before_in_place_sees_the_old_gradient(torch, log):
    x = leaf(torch, 1.0)
    y = x * 2
    y.register_hook(lambda g: log("before", bare(g)))
    y.mul_(3)
    y.register_hook(lambda g: log("after", bare(g)))
    (y * 5).backward()
    log(bare(x.grad))


@program
def hook_on_a_view_and_its_base(torch, log):
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    v = y[0]
    y.register_hook(lambda g: log("base", bare(g)))
    v.register_hook(lambda g: log("view", bare(g)))
    (v * 3 + y.sum()).backward()


@program
def hook_closes_over_its_tensor(torch, log):
    x = leaf(torch, 1.0)
    y = x * 2
    y.register_hook(lambda g: log(y, bare(g)))
    y.backward()


@program
def hook_fires_only_when_a_gradient_arrives(torch, log):
    x = leaf(torch, 1.0)
    a, b = x * 2, x * 3
    a.register_hook(lambda g: log("a"))
    b.register_hook(lambda g: log("b"))
    (a * 1).backward()


@program
def hook_on_one_output_of_several(torch, log):
    x = leaf(torch, 1.0, 2.0)
    a, b = x.unbind()
    a.register_hook(lambda g: log("a", g))
    b.register_hook(lambda g: log("b", bare(g)))
    (b * 3).backward()
    log(bare(x.grad))


@program
def hooks_belong_to_one_tensor(torch, log):
    x = leaf(torch, 1.0)
    handle = x.register_hook(lambda g: log("x"))
    x.detach().requires_grad_().clone().backward()
    x.clone().backward()
    handle.remove()
    x.clone().backward()


# --- retain_grad and the order of things -----------------------------------------------------


@program
def retain_grad_runs_after_hooks(torch, log):
    x = leaf(torch, 1.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.backward()
    log(bare(y.grad), bare(x.grad))


@program
def retain_grad_before_in_place(torch, log):
    x = leaf(torch, 1.0)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    (y * 5).backward()
    log(bare(y.grad), bare(x.grad))


@program
def order_of_all_kinds_of_hooks(torch, log):
    x = leaf(torch, 1.0)
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: log("node post", len(gi), len(go)))
    y.grad_fn.register_prehook(lambda go: log("node pre", bare(go)))
    y.register_hook(lambda g: log("tensor", bare(g)))
    y.retain_grad()
    x.register_post_accumulate_grad_hook(lambda t: log("accumulated", bare(t.grad)))
    x.register_hook(lambda g: log("leaf", bare(g)))
    y.backward()


@program
def post_accumulate_grad_hook(torch, log):
    x = leaf(torch, 1.0)

    def step(t):
        log(t is x, bare(t.grad))
        with torch.no_grad():
            t.sub_(t.grad)
        t.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * 0.25).backward()
    log(x, bare(x.grad))
    handle.remove()
    (x * 0.25).backward()
    log(bare(x.grad))


@program
def post_accumulate_grad_hook_checks(torch, log):
    x = leaf(torch, 1.0)
    log.raises(lambda: (x * 2).register_post_accumulate_grad_hook(lambda t: None))
    log.raises(lambda: torch.tensor(1.0).register_post_accumulate_grad_hook(lambda t: None))
    x.register_post_accumulate_grad_hook(lambda t: 5)
    log.raises(lambda: (x * 2).backward())
    log(bare(x.grad))


@program
def post_accumulate_grad_hook_is_not_run_by_autograd_grad(torch, log):
    x = leaf(torch, 1.0)
    x.register_post_accumulate_grad_hook(lambda t: log("ran"))
    log(bare(torch.autograd.grad(x * 2, x)))


# --- Node hooks ------------------------------------------------------------------------------


@program
def node_hook_replaces_grad_inputs(torch, log):
    x = leaf(torch, 1.0)
    y = x * 2

    def hook(grad_inputs, grad_outputs):
        log(bare(grad_inputs), bare(grad_outputs))
        return (grad_inputs[0] * 100, None)

    y.grad_fn.register_hook(hook)
    y.backward()
    log(bare(x.grad))


@program
def node_prehook_replaces_grad_outputs(torch, log):
    x = leaf(torch, 1.0)
    y = x * 2
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 7,))
    y.grad_fn.register_prehook(lambda grads: log(bare(grads)))
    y.backward()
    log(bare(x.grad))


@program
def node_hooks_with_bad_returns(torch, log):
    x = leaf(torch, 1.0)
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: 5)
    log.raises(lambda: y.backward())
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: (gi[0],))
    log.raises(lambda: y.backward())
    y = x * 2
    y.grad_fn.register_prehook(lambda go: (go[0], go[0]))
    log.raises(lambda: y.backward())


@program
def node_hook_removed(torch, log):
    x = leaf(torch, 1.0)
    y = x * 2
    post = y.grad_fn.register_hook(lambda gi, go: log("post"))
    pre = y.grad_fn.register_prehook(lambda go: log("pre"))
    y.backward(retain_graph=True)
    post.remove()
    y.backward(retain_graph=True)
    pre.remove()
    y.backward(retain_graph=True)
    log(bare(x.grad))


@program
def node_hook_on_accumulate_grad(torch, log):
    x = leaf(torch, 1.0)
    y = x * 2
    accumulate = y.grad_fn.next_functions[0][0]
    log(accumulate.name(), accumulate.variable is x)
    accumulate.register_hook(lambda gi, go: log("post", gi, bare(go), bare(x.grad)))
    accumulate.register_prehook(lambda go: log("pre", bare(go), x.grad))
    y.backward()


@program
def node_hook_on_a_function_node(torch, log):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            log("backward", bare(grad))
            return grad * 2

    x = leaf(torch, 1.0)
    y = Double.apply(x)
    y.grad_fn.register_prehook(lambda go: (go[0] * 3,))
    y.grad_fn.register_hook(lambda gi, go: (gi[0] + 1,))
    y.backward()
    log(bare(x.grad))


# --- register_multi_grad_hook ----------------------------------------------------------------


@program
def multi_grad_hook_all(torch, log):
    a, b, c = leaf(torch, 1.0), leaf(torch, 2.0), leaf(torch, 3.0)
    handle = torch.autograd.graph.register_multi_grad_hook(
        (a, b, c), lambda grads: log("all", bare(list(grads)))
    )
    (a * b).backward()
    (a * b * c).backward()
    handle.remove()
    (a * b * c).backward()
    log(bare((a.grad, bare(b.grad), bare(c.grad))))


@program
def multi_grad_hook_any(torch, log):
    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    m = a * 3
    torch.autograd.graph.register_multi_grad_hook(
        (m, b), lambda grad: log("any", bare(grad)), mode="any"
    )
    (b * 5).backward()
    (m * 7).backward()


@program
def multi_grad_hook_checks(torch, log):
    a = leaf(torch, 1.0)
    register = torch.autograd.graph.register_multi_grad_hook
    log.raises(lambda: register((a,), lambda g: None, mode="some"))
    log.raises(lambda: register((a, torch.tensor(1.0)), lambda g: None))


# --- hooks on saved tensors ------------------------------------------------------------------


@program
def saved_tensors_hooks_pack_and_unpack(torch, log):
    x = leaf(torch, 1.0, 2.0)

    def pack(t):
        log("pack", t)
        return ("packed", t.detach() * 10)

    def unpack(p):
        log("unpack", p[0], p[1])
        return p[1]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.exp()
    z = y.sum()
    z.backward()
    log(bare(x.grad))


@program
def saved_tensors_hooks_nested(torch, log):
    x = leaf(torch, 2.0)
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda t: log("outer") or t, lambda t: t):
        with hooks(lambda t: log("inner") or t, lambda t: t):
            x.exp()
        x.exp()
    x.exp()


@program
def saved_tensors_hooks_run_for_each_save(torch, log):
    x, y = leaf(torch, 2.0), leaf(torch, 3.0)
    count = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: count.append(t.item()) or t, lambda t: t
    ):
        z = x * y
        log(sorted(count))
        z = z * z
        log(sorted(count))
        z + 1
        x * 2
        x.detach() * y
        log(sorted(count))
        with torch.no_grad():
            x * y
        log(sorted(count))
    z.backward()
    log(bare((x.grad, bare(y.grad))))


@program
def saved_tensors_hooks_with_a_function(torch, log):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            log("saved", bare(ctx.saved_tensors[0].detach()))
            return 2 * grad * ctx.saved_tensors[0]

    x = leaf(torch, 2.0)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.item(), lambda v: torch.tensor([v])):
        y = Square.apply(x)
    y.backward()
    log(bare(x.grad))


@program
def saved_tensors_hooks_bad_unpack(torch, log):
    x = leaf(torch, 2.0)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: "text"):
        y = x.exp()
    log.raises(lambda: y.backward())


@program
def saved_tensors_hooks_that_raise(torch, log):
    def fail(value):
        raise ValueError("hook failed")

    x = leaf(torch, 2.0)
    with torch.autograd.graph.saved_tensors_hooks(fail, lambda t: t):
        log.raises(lambda: x.exp())
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, fail):
        y = x.exp()
    log.raises(lambda: y.backward())
    x.exp().log().backward()
    log(bare(x.grad))


@program
def saved_tensors_hooks_pack_modifies_in_place(torch, log):
    x = leaf(torch, 2.0)
    m = x * 1
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t):
        log.raises(lambda: m.exp())


@program
def saved_tensors_hooks_ignore_versions(torch, log):
    x = leaf(torch, 2.0)
    m = x * 1
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = m * m
    m.add_(1)
    y.backward()
    log(bare(x.grad))


@program
def saved_attribute_goes_through_unpack(torch, log):
    x = leaf(torch, 2.0)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.detach(), lambda t: log("unpack") or t + 1
    ):
        y = x * x
    log(y.grad_fn._saved_self.detach())


@program
def register_hooks_on_a_saved_tensor(torch, log):
    x = leaf(torch, 2.0)
    y = x.sin()
    y.grad_fn._raw_saved_self.register_hooks(lambda t: log("pack") or t, lambda t: log("un") or t)
    log.raises(lambda: y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t))
    y.backward()
    log(bare(x.grad))


@program
def save_on_cpu(torch, log):
    x = leaf(torch, 1.0, 2.0)
    with torch.autograd.graph.save_on_cpu():
        y = (x * x).exp()
    y.sum().backward()
    log(bare(x.grad))


@program
def disable_saved_tensors_hooks(torch, log):
    x = leaf(torch, 1.0, 2.0)
    graph = torch.autograd.graph

    def inside():
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return x.exp()

    def disabled():
        with graph.disable_saved_tensors_hooks("no hooks here"):
            inside()

    log.raises(disabled)
    log.raises(inside)


@program
def allow_mutation_on_saved_tensors(torch, log):
    x = leaf(torch, 1.0, 2.0)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        m = x * 1
        y = (m * m).sum()
        m.zero_()
        y.backward()
    log(bare(x.grad), m)


@program
def allow_mutation_on_saved_tensors_needs_its_context_in_backward(torch, log):
    x = leaf(torch, 1.0, 2.0)
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        m = x * 1
        y = (m * m).sum()
        m.zero_()
        context.clear()
        log.raises(lambda: y.backward())

    def nest():
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            with torch.autograd.graph.allow_mutation_on_saved_tensors():
                pass

    log.raises(nest)


@program
def increment_version(torch, log):
    x = leaf(torch, 2.0)
    m = x * 1
    y = m * m
    torch.autograd.graph.increment_version(m)
    log(m._version)
    torch.autograd.graph.increment_version([m, m])
    log(m._version)
    log.raises(lambda: y.backward())


# --- gradient edges --------------------------------------------------------------------------


@program
def gradient_edge_as_input(torch, log):
    x = leaf(torch, 2.0)
    m = x * x
    edge = torch.autograd.graph.get_gradient_edge(m)
    log(edge.node, edge.output_nr, type(edge).__name__, len(edge))
    z = m * 3
    del m
    log(bare(torch.autograd.grad(z, edge, retain_graph=True)))
    log(bare(torch.autograd.grad(z, [x, edge])))


@program
def gradient_edge_of_a_leaf(torch, log):
    x = leaf(torch, 2.0)
    edge = torch.autograd.graph.get_gradient_edge(x)
    log(edge.node, edge.output_nr)
    log(bare(torch.autograd.grad(x * 3, edge)))
    (x * 3).backward(inputs=[edge])
    log(bare(x.grad))


@program
def gradient_edge_as_root(torch, log):
    x = leaf(torch, 2.0)
    y = x * x
    edge = torch.autograd.graph.get_gradient_edge(y)
    log(bare(torch.autograd.grad(edge, x, torch.tensor([3.0]), retain_graph=True)))
    torch.autograd.backward(edge, torch.tensor([1.0]))
    log(bare(x.grad))


@program
def gradient_edge_of_a_constant(torch, log):
    log.raises(lambda: torch.autograd.graph.get_gradient_edge(torch.tensor(1.0)))


@program
def gradient_edge_built_by_hand(torch, log):
    x = leaf(torch, 1.0, 2.0)
    a, b = (x * 2).unbind()
    edge = torch.autograd.graph.GradientEdge(b.grad_fn, 1)
    log(bare(torch.autograd.grad(a * b, edge)))


# --- what a node shows -----------------------------------------------------------------------


@program
def node_metadata(torch, log):
    x = leaf(torch, 2.0)
    y = x * x
    log(y.grad_fn.metadata)
    y.grad_fn.metadata["note"] = 1
    log(y.grad_fn.metadata, (y * 2).grad_fn.metadata)


@program
def node_next_functions(torch, log):
    x, c = leaf(torch, 2.0), torch.tensor([3.0])
    y = x * c
    log(y.grad_fn.next_functions)
    log((y + y).grad_fn.next_functions, torch.where(c > 1, y, c).grad_fn.next_functions)
    log(isinstance(y.grad_fn, torch.autograd.graph.Node))
    log(y.grad_fn.next_functions[0][0].next_functions)


@program
def saved_attributes_of_mul(torch, log):
    x, y = leaf(torch, 2.0), leaf(torch, 3.0)
    node = (x * y).grad_fn
    log(node._saved_self is x, node._saved_other is y)
    node = (x * torch.tensor([4.0])).grad_fn
    log(node._saved_self, node._saved_other)
    node = (x * 5).grad_fn
    log(node._saved_self, node._saved_other)


@program
def saved_attributes_of_pointwise_nodes(torch, log):
    x = leaf(torch, 2.0)
    log((x**3).grad_fn._saved_self, (x**3).grad_fn._saved_exponent)
    log(x.exp().grad_fn._saved_result, x.sqrt().grad_fn._saved_result)
    log(x.log().grad_fn._saved_self, x.tanh().grad_fn._saved_result)
    log(x.sigmoid().grad_fn._saved_result, x.abs().grad_fn._saved_self)
    node = x.clamp(0, 1).grad_fn
    log(node._saved_self, node._saved_min, node._saved_max)


@program
def saved_attributes_of_reductions(torch, log):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    log(x.sum().grad_fn._saved_self_sym_sizes)
    node = x.sum(1, keepdim=True).grad_fn
    log(node, node._saved_self_sym_sizes, node._saved_dim, node._saved_keepdim)
    node = x.mean(0).grad_fn
    log(node, node._saved_self_sym_sizes, node._saved_keepdim)
    node = x.prod(1).grad_fn
    log(node, node._saved_dim, node._saved_keepdim)
    node = x.max(1)[0].grad_fn
    log(node, node._saved_dim, node._saved_keepdim, node._saved_indices)


@program
def saved_attributes_of_views_and_matmul(torch, log):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    w = torch.tensor([[1.0], [2.0]], requires_grad=True)
    node = x[1].grad_fn
    log(node, node._saved_dim, node._saved_index, node._saved_self_sym_sizes)
    node = x.transpose(0, 1).grad_fn
    log(node, node._saved_dim0, node._saved_dim1)
    node = (x @ w).grad_fn
    log(node, node._saved_self, node._saved_mat2, node._saved_mat2_sym_sizes)
    node = x.unsqueeze(0).grad_fn
    log(node, node._saved_dim)
    node = x.permute(1, 0).grad_fn
    log(node, node._saved_dims)


@program
def saved_attributes_that_do_not_exist(torch, log):
    x = leaf(torch, 2.0)
    log.raises(lambda: (x * 2).grad_fn._saved_nothing)
    log([n for n in dir((x * 2).grad_fn) if n.startswith("_saved")])


@program
def saved_attribute_of_a_modified_tensor(torch, log):
    x = leaf(torch, 2.0)
    m = x * 1
    y = m * m
    m.add_(1)
    log.raises(lambda: y.grad_fn._saved_self)


@program
def names_of_common_nodes(torch, log):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    results = [x + 1, x - 1, 1 - x, x / 2, 2 / x, -x, x * x, x**2, 2**x, x**x, x.exp(), x.log()]
    results += [x.sqrt(), x.sin(), x.cos(), x.tanh(), x.sigmoid(), x.abs(), x.clamp(min=0)]
    results += [x.sum(), x.sum(0), x.mean(), x.mean(0), x.prod(), x.prod(0), x.var(), x.std()]
    results += [x.max(), x.max(0)[0], x.min(), x.norm(), x.cumsum(0), x.logsumexp(0)]
    results += [x.softmax(0), x @ x, x[0] @ x[1], x @ x[0], torch.outer(x[0], x[1])]
    results += [x.view(4), x.reshape(4), x.t(), x.T, x.mT, x.transpose(0, 1), x.permute(1, 0)]
    results += [x.expand(2, 2, 2), x.unsqueeze(0), x.unsqueeze(0).squeeze(0), x[0], x[:1]]
    results += [x[None], x[..., 0], x.narrow(0, 0, 1), x.split(1)[0], x.chunk(2)[0]]
    results += [x.unbind()[0], x.diagonal(), x.flatten(), torch.cat([x, x]), torch.stack([x, x])]
    results += [x[torch.tensor([0])], x[x > 1], x.masked_fill(x > 1, 0.0), x.tril(), x.flip(0)]
    results += [x.index_select(0, torch.tensor([0])), x.gather(0, torch.tensor([[0, 0]]))]
    results += [torch.where(x > 1, x, x), torch.maximum(x, x), torch.minimum(x, x), x.repeat(1, 2)]
    results += [x.clone(), x.contiguous(), x.double(), x.roll(1), x.take(torch.tensor([0]))]
    results += [x.relu(), x.masked_select(x > 1), torch.einsum("ij->i", x), x.movedim(0, 1)]
    for t in results:
        log(t.grad_fn, list(t.shape))


@program
def multi_grad_hooks_in_passes_that_do_not_reach_a_leaf(torch, log):
    a, b, c = [torch.tensor([1.0, 2.0], requires_grad=True) for _ in range(3)]
    product = a * 2
    torch.autograd.graph.register_multi_grad_hook([product, b], lambda grads: log("all", grads))
    log(torch.autograd.grad(product.sum(), [a, b], allow_unused=True))
    log(torch.autograd.grad((product * c).sum(), [c]))
    log.raises(lambda: torch.autograd.grad((product * b).sum(), [a, b]))
    (product * b).sum().backward()
    log(a.grad, b.grad)
