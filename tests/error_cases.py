"""The cases of test_errors.py: small programs that go wrong, and what the error must say.

Here are E02 to E06, E12 and E13; error_cases_writes.py has E01, error_cases_nan.py E08,
error_cases_shapes.py and error_cases_ranges.py E09, error_cases_kinds.py E10, E11, E15 and E16,
error_cases_ranges.py E17 too.

Each case is a source file of its own, so that file, line and text can be compared. A comment
`#: label` marks the line that the diagnosis must name under that label; nothing else may be named.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    id: str
    about: str
    source: str
    sentence: str
    tensor: str | None  # the name that the tensor must have; None: no tensor in the text
    cure: str  # what the first fix mentions
    facts: dict[str, Any] = {}  # entries of the diagnosis
    raises: str = "RuntimeError"


E02 = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)
E03 = "element 0 of tensors does not require grad and does not have a grad_fn"
E04 = "grad can be implicitly created only for scalar outputs"
E06 = "a leaf Variable that requires grad is being used in an in-place operation."
E07 = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
    "attribute won't be populated during autograd.backward(). If you indeed want the .grad field "
    "to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you "
    "access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead. See "
    "github.com/pytorch/pytorch/pull/30531 for more information."
)
NO_GRAD_VIEW = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the no_grad block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)


def e05(index: int) -> str:
    return (
        f"The differentiated Tensor at index {index} appears to not have been used in the graph. "
        "Set allow_unused=True if this is the desired behavior."
    )


CASES = [
    # ------------------------------------------------------------------ E02
    Case(
        "E02",
        "the same loss twice",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        loss = (x * x).sum()  #: made
        loss.backward()  #: freed
        loss.backward()  #: noticed
        """,
        E02,
        None,
        "call backward() once",
    ),
    Case(
        "E02",
        "a hidden state carried over iterations",
        """
        w = torch.tensor(0.5, requires_grad=True)
        h = torch.tensor(1.0)
        for step in range(3):
            h = torch.tanh(w * h)  #: made reused
            loss = (h - 1) ** 2
            loss.backward()  #: freed noticed
        """,
        E02,
        "h",
        "h = h.detach()",
    ),
    Case(
        "E02",
        "a carried state behind an op that saves nothing",
        """
        w = torch.tensor(0.5, requires_grad=True)

        def step(h):
            h = w * torch.exp(h)
            h = h + 1  #: made
            return h

        h = torch.tensor(1.0)
        h = step(h)
        h.backward()  #: freed
        out = h * 2  #: reused
        out.backward()  #: noticed
        """,
        E02,
        "h",
        "h = h.detach()",
    ),
    Case(
        "E02",
        "two losses that share a trunk",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        trunk = x.exp()  #: made
        one = trunk.sum()
        two = (trunk * 2).sum()  #: reused
        one.backward()  #: freed
        two.backward()  #: noticed
        """,
        E02,
        "trunk",
        "add the losses up",
    ),
    Case(
        "E02",
        "a saved attribute after backward",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x**2  #: made
        y.sum().backward()  #: freed
        y.grad_fn._saved_self  #: noticed
        """,
        E02,
        None,
        "before backward()",
    ),
    # ------------------------------------------------------------------ E03
    Case(
        "E03",
        "detach()",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = (x * 2).detach()  #: cut
        loss = (y + 1).exp().sum()
        loss.backward()  #: noticed
        """,
        E03,
        "loss",
        ".detach()",
        {"cut_by": "detach"},
    ),
    Case(
        "E03",
        ".data",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x.data * 2  #: cut
        loss = torch.stack([y, y]).sum()
        loss.backward()  #: noticed
        """,
        E03,
        "loss",
        ".data",
        {"cut_by": "data"},
    ),
    Case(
        "E03",
        "no_grad",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        with torch.no_grad():
            y = x * 2  #: cut
        loss = (y[0] - 1) ** 2
        loss.backward()  #: noticed
        """,
        E03,
        "loss",
        "outside of torch.no_grad()",
        {"cut_by": "no_grad"},
    ),
    Case(
        "E03",
        "inference_mode",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        with torch.inference_mode():
            y = x.exp()  #: cut
        loss = y.sum()
        loss.backward()  #: noticed
        """,
        E03,
        "loss",
        "outside of torch.inference_mode()",
        {"cut_by": "inference_mode"},
    ),
    Case(
        "E03",
        "argmax",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        best = x.argmax()  #: cut
        loss = best.float()
        loss.backward()  #: noticed
        """,
        E03,
        "loss",
        "in the place of argmax",
        {"cut_by": "argmax"},
    ),
    Case(
        "E03",
        "a comparison",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        hits = x > 1.5  #: cut
        loss = hits.float().mean()
        loss.backward()  #: noticed
        """,
        E03,
        "loss",
        "in the place of gt",
        {"cut_by": "gt"},
    ),
    Case(
        "E03",
        "the indices of max",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        best = x.max(0).indices  #: cut
        loss = best * 2.0
        loss.backward()  #: noticed
        """,
        E03,
        "loss",
        "in the place of output 1 of max",
    ),
    Case(
        "E03",
        "an integer cast",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x.long()  #: cut
        loss = y.float().sum()
        loss.backward()  #: noticed
        """,
        E03,
        "loss",
        "floating dtype",
        {"cut_by": "cast"},
    ),
    Case(
        "E03",
        "torch.tensor of a list of tensors",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        parts = [v * v for v in x]
        loss = torch.tensor(parts).sum()  #: cut
        loss.backward()  #: noticed
        """,
        E03,
        "loss",
        "torch.stack",
        {"cut_by": "tensor"},
    ),
    Case(
        "E03",
        "requires_grad was never set",
        """
        x = torch.tensor([1.0, 2.0])
        loss = (x * 2).sum()
        loss.backward()  #: noticed
        """,
        E03,
        "loss",
        "requires_grad=True",
        {"cut_by": None, "frozen": []},
    ),
    Case(
        "E03",
        "frozen parameters",
        """
        net = torch.nn.Linear(2, 1)
        for p in net.parameters():
            p.requires_grad_(False)
        loss = net(torch.ones(1, 2)).sum()
        loss.backward()  #: noticed
        """,
        E03,
        "loss",
        "net.requires_grad_(True)",
        {"frozen": ["net"]},
    ),
    Case(
        "E03",
        "a loss made from its own value",
        """
        w = torch.ones(3, requires_grad=True)
        loss = (w * 2).sum()
        loss = torch.tensor(loss.item())  #: cut
        loss.backward()  #: noticed
        """,
        E03,
        "loss",
        "before .item()",
        {"cut_by": "item"},
    ),
    Case(
        "E03",
        "an average of numbers",
        """
        def step(w):
            losses = [(w * i).sum() for i in range(3)]
            total = torch.tensor([float(l) for l in losses])  # looked at, not used
            total = torch.tensor(sum(l.item() for l in losses))  #: cut
            total.backward()  #: noticed

        step(torch.ones(3, requires_grad=True))
        """,
        E03,
        "total",
        "before .item()",
    ),
    # ------------------------------------------------------------------ E04
    Case(
        "E04",
        "a vector",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * 2  #: made
        y.backward()  #: noticed
        """,
        E04,
        "y",
        "did you mean .mean() or .sum()",
        {"shape": [3]},
    ),
    Case(
        "E04",
        "a loss that was not reduced",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        criterion = torch.nn.MSELoss(reduction="none")
        each = criterion(x, torch.zeros(3))  #: loss
        weighted = each * 2  #: made
        weighted.backward()  #: noticed
        """,
        E04,
        "weighted",
        "`criterion` has reduction='none'",
        {"shape": [3]},
    ),
    # ------------------------------------------------------------------ E05
    Case(
        "E05",
        "not in the graph",
        """
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = torch.tensor([3.0, 4.0], requires_grad=True)  #: made
        y = (a * 2).sum()
        torch.autograd.grad(y, [a, b])  #: noticed
        """,
        e05(1),
        "b",
        "the tensor that was used",
        {"index": 1, "why": "not in the graph"},
    ),
    Case(
        "E05",
        "cut on the way",
        """
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = a * 3  #: made
        y = (b.detach() * a).sum()  #: cut
        torch.autograd.grad(y, b)  #: noticed
        """,
        e05(0),
        "b",
        "leave out .detach()",
        {"why": "cut", "cut_by": "detach"},
    ),
    Case(
        "E05",
        "cut on the way, and what was cut off is gone",
        """
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = torch.tensor([3.0, 4.0], requires_grad=True)
        with torch.no_grad():
            target = torch.exp(b)  #: cut
        y = (target * a).sum()
        b = b.detach().requires_grad_()  #: made
        torch.autograd.grad(y, b)  #: noticed
        """,
        e05(0),
        "b",
        "outside of torch.no_grad()",
        {"why": "cut", "cut_by": "no_grad"},
    ),
    Case(
        "E05",
        "reachable only from another output",
        """
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = torch.tensor([3.0, 4.0], requires_grad=True)  #: made
        y = (a * 2).sum()
        penalty = (b * b).sum()
        torch.autograd.grad(y, b)  #: noticed
        """,
        e05(0),
        "b",
        "pass `penalty`",
        {"why": "another output", "other": "penalty"},
    ),
    Case(
        "E05",
        "the same computation, made anew",
        """
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = a * 2  #: made
        y = (a * 2).sum()
        torch.autograd.grad(y, b)  #: noticed
        """,
        e05(0),
        "b",
        "use this tensor",
        {"why": "not in the graph"},
    ),
    # ------------------------------------------------------------------ E06
    Case(
        "E06",
        "a leaf",
        """
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        w -= 0.1  #: noticed
        """,
        E06,
        "w",
        "with torch.no_grad():",
    ),
    Case(
        "E06",
        "a view of a leaf",
        """
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        head = w[:1]  #: view
        head.mul_(2)  #: noticed
        """,
        E06.replace("a leaf", "a view of a leaf"),
        "w",
        "with torch.no_grad():",
    ),
    Case(
        "E06",
        "an index assignment",
        """
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        w[0] = 0.0  #: noticed
        """,
        E06.replace("a leaf", "a view of a leaf"),
        "w",
        "with torch.no_grad():",
    ),
    # ------------------------------------------------------------------ E12
    Case(
        "E12",
        "too few",
        """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor):
                ctx.factor = factor
                return x * factor

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.factor  #: returns

        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = Scale.apply(x, 3.0)  #: applied
        y.sum().backward()  #: noticed
        """,
        "function ScaleBackward returned an incorrect number of gradients (expected 2, got 1)",
        None,
        "return 2 values",
        {"arguments": ["x", "factor"], "returned": ["Tensor[2]"]},
    ),
    Case(
        "E12",
        "too many",
        """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return x * 2

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, grad):
                return grad * 2, grad  #: returns

        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = Double.apply(x)  #: applied
        y.sum().backward()  #: noticed
        """,
        "function DoubleBackward returned an incorrect number of gradients (expected 1, got 2)",
        None,
        "return 1 value",
        {"arguments": ["x"], "returned": ["Tensor[2]", "Tensor[2]"]},
    ),
    Case(
        "E12",
        "a wrong shape",
        """
        class Sum(torch.autograd.Function):
            @staticmethod
            def forward(ctx, flag, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                return None, grad[:1]  #: returns

        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = Sum.apply(True, x)  #: applied
        y.sum().backward()  #: noticed
        """,
        "Function SumBackward returned an invalid gradient at index 0 - got [1] but expected "
        "shape compatible with [2]",
        None,
        "a tensor of shape (2,)",
        {"index": 1},
    ),
    # ------------------------------------------------------------------ E13
    Case(
        "E13",
        "an output of unbind",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        a = x * 1
        one, two = a.unbind()  #: made
        one.add_(1)  #: noticed
        """,
        "Output 0 of Unbind is a view and is being modified inplace. This view is the output "
        "of a function that returns multiple views. Such functions do not allow the output views "
        "to be modified inplace. You should replace the inplace operation by an out-of-place one.",
        "one",
        "out-of-place",
    ),
    Case(
        "E13",
        "a view made in no_grad",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        a = x * 1
        with torch.no_grad():
            v = a[:1]  #: made
        v.add_(1)  #: noticed
        """,
        "A view was created in no_grad mode and is being modified inplace with grad mode "
        "enabled. " + NO_GRAD_VIEW,
        "v",
        "the same mode",
    ),
    Case(
        "E13",
        "a base whose no_grad view is used after a write",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        a = x * 1
        with torch.no_grad():
            v = a[:1]  #: made
        a.mul_(2)  #: written
        v * 2  #: noticed
        """,
        "A view was created in no_grad mode and its base or another view of its base has been "
        "modified inplace with grad mode enabled. " + NO_GRAD_VIEW,
        "v",
        "the same mode",
    ),
]
