"""The cases of E09 about values beyond the end, and of E17; see error_cases.py."""

from __future__ import annotations

from typing import Any

from error_cases import Case


def case(
    about: str,
    source: str,
    sentence: str,
    tensor: str | None,
    cure: str,
    raises: str = "IndexError",
    id: str = "E09",
    **facts: Any,
) -> Case:
    return Case(id, about, source, sentence, tensor, cure, facts, raises)


BEYOND = "index {} is out of bounds for dimension {} with size {}"
TIMES = "unsupported operand type(s) for *: 'float' and 'NoneType'"
UNIT = "all elements of {} should be between 0 and 1"

CASES = [
    case(
        "one beyond the end",
        """
        x = torch.ones(3, 4)
        for i in range(1, 4):
            x[i]  #: noticed
        """,
        BEYOND.format(3, 0, 3),
        "x",
        "counting begins at 0: the last one is 2",
        index=3,
        size=3,
    ),
    case(
        "indices in the wrong order",
        """
        image = torch.ones(3, 40, 30)
        image[35, 0, 0]  #: noticed
        """,
        BEYOND.format(35, 0, 3),
        "image",
        "dimension 1 has 40: are the indices in the wrong order?",
    ),
    case(
        "a tensor of indices; PyTorch counts the tensors, not the dimensions",
        """
        x = torch.ones(3, 4)
        x[:, torch.tensor([1, 7])]  #: noticed
        """,
        BEYOND.format(7, 0, 4),
        "x",
        "range(x.size(1))",
        axes={"input": 1},
    ),
    case(
        "an assignment",
        """
        x = torch.zeros(2)
        x[2] = 1.0  #: noticed
        """,
        BEYOND.format(2, 0, 2),
        "x",
        "counting begins at 0",
    ),
    case(
        "gather",
        """
        scores = torch.ones(2, 3)
        labels = torch.tensor([[1], [3]])
        scores.gather(1, labels)  #: noticed
        """,
        BEYOND.format(3, 1, 3),
        "scores",
        "counting begins at 0",
        "RuntimeError",
    ),
    case(
        "select in a later dimension",
        """
        x = torch.ones(2, 3)
        x.select(1, 3)  #: noticed
        """,
        "select(): index 3 out of range for tensor of size [2, 3] at dimension 1",
        "x",
        "counting begins at 0: the last one is 2",
        size=3,
    ),
    case(
        "more indices than dimensions",
        """
        x = torch.ones(3)
        x[0, 1]  #: noticed
        """,
        "too many indices for tensor of dimension 1",
        "x",
        "at most 1 between the brackets",
    ),
    case(
        "a scalar",
        """
        loss = torch.tensor(2.0)
        loss[0]  #: noticed
        """,
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
        "C++ to convert a 0-dim tensor to a number",
        "loss",
        "loss.item() is the number",
    ),
    case(
        "labels of -1 and 1 in binary cross entropy",
        """
        p = torch.tensor([0.2, 0.7])
        y = torch.tensor([-1.0, 1.0])
        torch.nn.functional.binary_cross_entropy(p, y)  #: noticed
        """,
        UNIT.format("target"),
        "y",
        "(y + 1) / 2",
        "RuntimeError",
        low=-1.0,
        high=1.0,
    ),
    case(
        "class numbers in binary cross entropy",
        """
        p = torch.tensor([0.2, 0.7, 0.5])
        y = torch.tensor([0.0, 1.0, 2.0])
        torch.nn.BCELoss()(p, y)  #: noticed
        """,
        UNIT.format("target"),
        "y",
        "nn.CrossEntropyLoss",
        "RuntimeError",
    ),
    case(
        "scores in the place of probabilities",
        """
        scores = torch.tensor([-2.0, 3.0])
        torch.nn.BCELoss()(scores, torch.ones(2))  #: noticed
        """,
        UNIT.format("input"),
        "scores",
        "nn.BCEWithLogitsLoss",
        "RuntimeError",
    ),
    # ------------------------------------------------------------------ E17
    case(
        "a step before backward()",
        """
        w = torch.ones(3, requires_grad=True)
        loss = (w * 2).sum()
        w.data -= 0.1 * w.grad  #: noticed
        """,
        TIMES,
        "w",
        "call backward() on the loss before this line",
        "TypeError",
        "E17",
        cause="no backward yet",
    ),
    case(
        "a layer that is not called",
        """
        net = torch.nn.ModuleDict({"used": torch.nn.Linear(2, 1), "unused": torch.nn.Linear(2, 1)})

        def train():
            net["used"](torch.ones(4, 2)).sum().backward()
            for p in net.parameters():
                p.grad.zero_()  #: noticed

        train()
        """,
        "'NoneType' object has no attribute 'zero_'",
        "net.unused.weight",
        "use it in the computation of the loss",
        "AttributeError",
        "E17",
        cause="never used",
    ),
    case(
        "the leaf was lost in the first step",
        """
        w = torch.ones(3, requires_grad=True)
        for step in range(2):
            loss = (w * w).sum()
            loss.backward()
            w = w - 0.1 * w.grad  #: noticed
        """,
        TIMES,
        "w",
        "with torch.no_grad(): w -= lr * w.grad",
        "TypeError",
        "E17",
        cause="lost leaf",
    ),
    case(
        "gradients set to None before they are read",
        """
        net = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        loss = net(torch.ones(4, 2)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if net.weight.grad.norm() > 1:  #: noticed
            pass
        """,
        "'NoneType' object has no attribute 'norm'",
        "net.weight",
        "read it between backward() and zero_grad()",
        "AttributeError",
        "E17",
        cause="set to None",
    ),
]
