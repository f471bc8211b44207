"""What backward and grad take: inputs in a dict, edges of the graph instead of tensors."""

from collections import OrderedDict

from programs.harness import program
from programs.prog_backward import bare


def pair(torch):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor([3.0, 4.0], requires_grad=True)
    return a, b


@program
def grad_in_a_dict(torch, log):
    a, b = pair(torch)
    grad = torch.autograd.grad
    log(grad((a * b).sum(), {"a": a, "b": b}))
    log(grad((a * 2).sum(), {"a": a, "b": b}, allow_unused=True))
    log(grad((a * 2).sum(), {"b": b, "a": a}, materialize_grads=True))
    log(grad(a * b, {"a": a, "b": b}, torch.eye(2), is_grads_batched=True))
    log(grad((a * b).sum(), {"a": a}, create_graph=True))
    log.raises(lambda: grad((a * 2).sum(), {"a": a, "b": b}))
    log.raises(lambda: grad(a.sum(), OrderedDict(a=a)))
    log.raises(lambda: grad(a.sum(), {}))
    log.raises(lambda: grad({"x": a.sum()}, a))


@program
def backward_into_a_dict(torch, log):
    a, b = pair(torch)
    (a * b).sum().backward(inputs={"a": a})
    log(bare(a.grad), bare(b.grad))
    torch.autograd.backward((a * b).sum(), inputs={"first": a, "second": b})
    log(bare(a.grad), bare(b.grad))
    log.raises(lambda: torch.autograd.backward(a.sum(), inputs=OrderedDict(a=a)))
    log.raises(lambda: torch.autograd.backward(a.sum(), inputs={}))


@program
def edges_as_inputs(torch, log):
    edge_of = torch.autograd.graph.get_gradient_edge
    a, b = pair(torch)
    y = a * a
    total = y.sum()
    grad = torch.autograd.grad
    log(bare(grad(total, edge_of(y), retain_graph=True)))
    log(bare(grad(total, [edge_of(y), a, edge_of(a)], retain_graph=True)))
    log(sorted(grad(total, {"inner": edge_of(y), "leaf": edge_of(a)}, retain_graph=True)))
    log(bare(grad(y, edge_of(y), torch.eye(2), is_grads_batched=True, retain_graph=True)))
    log(bare(grad(total, torch.autograd.graph.GradientEdge(y.grad_fn, 0), retain_graph=True)))
    log(bare(grad(total, edge_of(b), retain_graph=True, allow_unused=True)))
    log.raises(lambda: grad(total, edge_of(b), retain_graph=True))
    log.raises(lambda: grad(total, edge_of(b), retain_graph=True, materialize_grads=True))
    log.raises(lambda: grad(total, y.grad_fn, retain_graph=True))
    log.raises(lambda: grad(total, [y.grad_fn], retain_graph=True))
    torch.autograd.backward(total, inputs=[edge_of(a)], retain_graph=True)
    log(bare(a.grad))
    torch.autograd.backward(total, inputs=[edge_of(y)], retain_graph=True)
    log(bare(a.grad))


@program
def edges_as_outputs(torch, log):
    edge_of = torch.autograd.graph.get_gradient_edge
    a, _ = pair(torch)
    y = a * a
    edge, total = edge_of(y), edge_of(y.sum())
    grad = torch.autograd.grad
    log(edge.output_nr, edge.node, edge.ownership_token, len(edge))
    log(bare(grad(edge, a, torch.tensor([1.0, 10.0]), retain_graph=True)))
    log(bare(grad(edge, a, torch.tensor([1.0, 10.0], dtype=torch.float64), retain_graph=True)))
    log(bare(grad(edge, a, torch.eye(2), is_grads_batched=True, retain_graph=True)))
    log(bare(grad(total, a, retain_graph=True)))
    log.raises(lambda: grad(edge, a, retain_graph=True))
    log.raises(lambda: grad(edge, a, torch.ones(3), retain_graph=True))
    torch.autograd.backward([edge, total], [torch.ones(2), None])
    log(bare(a.grad))
    log.raises(lambda: edge_of(torch.ones(1)))


@program
def what_a_node_expects(torch, log):
    def facts(node):
        return [
            (list(m.shape), m.dtype, m.device, m.is_nested_tensor) for m in node._input_metadata
        ]

    a, _ = pair(torch)
    y = a.double() * 2
    log(facts(y.grad_fn), facts(y.sum().grad_fn), facts(y.unbind()[1].grad_fn))
    log(facts(y.max(0).values.grad_fn))
    log(facts(torch.autograd.graph.get_gradient_edge(a).node))
