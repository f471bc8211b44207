"""allow_mutation_on_saved_tensors, and what its context says."""

from programs.harness import program
from programs.prog_backward import bare


def counts(context):
    return len(context.cloned), len(context.original), len(context.tid_to_weakhandle)


@program
def written_after_it_was_saved(torch, log):
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        a = torch.ones(2, 3, requires_grad=True)
        b = a.clone()
        out = (b**2).sum()
        log(counts(context))
        b.sin_()
        log(counts(context))
        out.backward()
        log(counts(context), bare(a.grad))


@program
def views_and_second_writes(torch, log):
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        a = torch.ones(2, 3, requires_grad=True)
        b = a.clone()
        flat = b.view(6)
        out = (b**2).sum() + (flat * flat).sum()
        log(counts(context))
        flat.sin_()
        log(counts(context))
        b.add_(1)
        log(counts(context))
        out.backward()
        log(counts(context), bare(a.grad))


@program
def outputs_written_to(torch, log):
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        a = torch.ones(2, requires_grad=True)
        out = a.exp()
        log(counts(context))
        out.mul_(2)
        log(counts(context))
        out.sum().backward()
        log(counts(context), bare(a.grad))


@program
def plain_tensors_written_to(torch, log):
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        a, b = torch.ones(2, requires_grad=True), torch.ones(2)
        out = a * b
        torch.add(b, 5, out=b)
        b[0] = 7
        log(out.grad_fn._saved_other)
        out.sum().backward()
        log(bare(a.grad), b)


@program
def refused(torch, log):
    allow = torch.autograd.graph.allow_mutation_on_saved_tensors

    def nested():
        with allow(), allow():
            pass

    log.raises(nested)
    with allow() as context:
        a = torch.ones(2, requires_grad=True)
        out, other = a.exp(), a.exp()
        context.clear()
        log.raises(lambda: out.sum().backward())
    log.raises(lambda: other.sum().backward())
