"""The cases of E08: every way from finite numbers to NaN that has a name; see error_cases.py."""

from __future__ import annotations

from typing import Any

from error_cases import Case


def e08(node: str, index: int = 0) -> str:
    return f"Function '{node}' returned nan values in its {index}th output."


def case(
    about: str,
    source: str,
    node: str,
    tensor: str | None,
    cure: str,
    pattern: str,
    op: str | None,
    direction: str,
    index: int = 0,
) -> Case:
    facts: dict[str, Any] = {"pattern": pattern, "op": op, "direction": direction}
    return Case("E08", about, source, e08(node, index), tensor, cure, facts)


CASES = [
    case(
        "where hides log(0)",
        """
        x = torch.tensor([0.0, 2.0], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            y = torch.where(x > 0, x.log(), 0.0)  #: made
            y.sum().backward()  #: noticed
        """,
        "LogBackward0",
        "x",
        "safe = torch.where(mask, x, 1.0)",
        "where + log(0)",
        "log",
        "forward",
    ),
    case(
        "sqrt(0), times 0",
        """
        x = torch.tensor([0.0, 4.0], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            root = x.sqrt()  #: made
            (root * 0).sum().backward()  #: noticed
        """,
        "SqrtBackward0",
        "root",
        "torch.sqrt(x + 1e-12)",
        "sqrt(0)",
        "sqrt",
        "backward",
    ),
    case(
        "sqrt of a negative number",
        """
        x = torch.tensor([-1.0, 4.0], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            root = x.sqrt()  #: made
            root.sum().backward()  #: noticed
        """,
        "SqrtBackward0",
        "x",
        "torch.sqrt(x.clamp(min=1e-12))",
        "sqrt of a negative number",
        "sqrt",
        "forward",
    ),
    case(
        "a norm by hand at 0",
        """
        a, b = torch.ones(3, requires_grad=True), torch.ones(3)
        with torch.autograd.set_detect_anomaly(True):
            difference = a - b
            distance = torch.sqrt((difference**2).sum())  #: made
            distance.backward()  #: noticed
        """,
        "PowBackward0",
        "distance",
        "torch.linalg.vector_norm",
        "norm at 0",
        "sqrt",
        "backward",
    ),
    case(
        "log(0), times 0",
        """
        p = torch.tensor([0.0, 1.0], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            entropy = -(p * p.log()).sum()  #: made
            entropy.backward()  #: noticed
        """,
        "LogBackward0",
        "p",
        "torch.log(p.clamp(min=1e-8))",
        "log(0)",
        "log",
        "forward",
    ),
    case(
        "log of a softmax that has gone to 0",
        """
        scores = torch.tensor([200.0, 0.0], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            p = torch.softmax(scores, 0)  #: failed
            loss = -torch.log(p)[1]  #: made
            loss.backward()  #: noticed
        """,
        "SoftmaxBackward0",
        "p",
        "log_softmax(...) instead",
        "log(0)",
        "log",
        "forward",
    ),
    case(
        "0/0",
        """
        a = torch.tensor([0.0, 1.0], requires_grad=True)
        b = torch.tensor([0.0, 2.0], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            ratio = a / b  #: made
            ratio.sum().backward()  #: noticed
        """,
        "DivBackward0",
        "a",
        "b + 1e-8",
        "0/0",
        "div",
        "forward",
        1,
    ),
    case(
        "division by zero, times 0",
        """
        a = torch.tensor([1.0, 1.0], requires_grad=True)
        b = torch.tensor([0.0, 2.0], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            ratio = a / b  #: made
            (ratio * 0).sum().backward()  #: noticed
        """,
        "DivBackward0",
        "a",
        "b + 1e-8",
        "division by zero",
        "div",
        "forward",
    ),
    case(
        "a power of 0",
        """
        x = torch.tensor([0.0, 4.0], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            y = x**0.5  #: made
            (y * torch.tensor([0.0, 1.0])).sum().backward()  #: noticed
        """,
        "PowBackward0",
        "x",
        "(x + 1e-12) ** p",
        "pow with base 0",
        "pow",
        "backward",
    ),
    case(
        "acos at 1",
        """
        x = torch.tensor([1.0, 0.5], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            angle = torch.acos(x)  #: made
            (angle**2).sum().backward()  #: noticed
        """,
        "AcosBackward0",
        "x",
        "clamp(-1 + 1e-6, 1 - 1e-6)",
        "acos at 1 or -1",
        "acos",
        "backward",
    ),
    case(
        "asin beyond 1",
        """
        x = torch.tensor([1.5, 0.5], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            angle = torch.asin(x)  #: made
            angle.sum().backward()  #: noticed
        """,
        "AsinBackward0",
        "x",
        "clamp(-1 + 1e-6, 1 - 1e-6)",
        "asin beyond 1 or -1",
        "asin",
        "forward",
    ),
    case(
        "exp overflow in a softmax by hand",
        """
        scores = torch.tensor([100.0, 1.0], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            e = scores.exp()  #: made
            p = e / e.sum()  #: failed
            p[1].backward()  #: noticed
        """,
        "DivBackward0",
        "scores",
        "log_softmax",
        "exp overflow",
        "exp",
        "forward",
        1,
    ),
    case(
        "softmax of a row that is masked out",
        """
        scores = torch.ones(2, 3, requires_grad=True)
        mask = torch.tensor([[True, True, True], [False, False, True]])
        with torch.autograd.set_detect_anomaly(True):
            masked = scores.masked_fill(mask, float("-inf"))
            weights = torch.softmax(masked, 1)  #: made
            weights.sum().backward()  #: noticed
        """,
        "SoftmaxBackward0",
        "masked",
        "unmasked",
        "softmax of all -inf",
        "softmax",
        "forward",
    ),
    case(
        "std of one element",
        """
        x = torch.tensor([[1.0], [2.0]], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            spread = x.std(1)  #: made
            spread.sum().backward()  #: noticed
        """,
        "StdBackward0",
        "x",
        "correction=0",
        "std of one element",
        "std",
        "forward",
    ),
    case(
        "a batch in which every label is ignored",
        """
        scores = torch.ones(2, 3, requires_grad=True)
        labels = torch.tensor([-100, -100])
        with torch.autograd.set_detect_anomaly(True):
            loss = torch.nn.functional.cross_entropy(scores, labels)  #: made
            (loss * loss).backward()  #: failed noticed
        """,
        "MulBackward0",
        None,
        "batches without labels",
        "a mean over no labels",
        "nll_loss",
        "forward",
    ),
    case(
        "data with NaN",
        """
        data = torch.tensor([1.0, float("nan")])
        w = torch.ones(2, requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            y = w * data  #: failed
            y.sum().backward()  #: noticed
        """,
        "MulBackward0",
        "data",
        "torch.isfinite(data).all()",
        "not finite to begin with",
        None,
        "data",
    ),
    case(
        "data normalised by a deviation of 0",
        """
        data = torch.ones(4)
        w = torch.ones(4, requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            centred = data - data.mean()
            x = centred / data.std()  #: made
            y = w * x  #: failed
            y.sum().backward()  #: noticed
        """,
        "MulBackward0",
        "centred",
        "divisor + 1e-8",
        "0/0",
        "div",
        "forward",
    ),
    case(
        "a weight that a step has broken",
        """
        w = torch.tensor([1.0, 1.0], requires_grad=True)
        optimizer = torch.optim.RMSprop([w], lr=3e37)
        (w * w * 100).sum().backward()
        for _ in range(2):
            optimizer.step()  #: written
        with torch.autograd.set_detect_anomaly(True):
            loss = (w * 0).sum()
            loss = loss + (w * w).sum()  #: failed
            torch.autograd.grad(loss * 0, w)  #: noticed
        """,
        "MulBackward0",
        "w",
        "learning rate",
        "not finite to begin with",
        None,
        "data",
    ),
    case(
        "the forward pass ran before the mode was on",
        """
        x = torch.tensor([1000.0, 1.0], requires_grad=True)
        e = x.exp()  #: made
        y = e * e * 0  #: failed
        with torch.autograd.set_detect_anomaly(True):
            y.sum().backward()  #: noticed
        """,
        "MulBackward0",
        "e",
        "log_softmax",
        "exp overflow",
        "exp",
        "forward",
    ),
    case(
        "a Function's backward",
        """
        class Bad(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                return (grad - grad) / (grad - grad)

        x = torch.tensor([1.0, 2.0], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            y = Bad.apply(x)  #: made
            y.sum().backward()  #: noticed
        """,
        "BadBackward",
        None,
        "return (grad - grad) / (grad - grad)",
        "custom Function",
        "Bad",
        "backward",
    ),
    case(
        "a gradient that was NaN to begin with",
        """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            y = x * 2  #: failed
            y.backward(torch.tensor([1.0, float("nan")]))  #: noticed
        """,
        "MulBackward0",
        None,
        "passed to backward()",
        "",
        None,
        "backward",
    ),
]
