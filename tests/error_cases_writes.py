"""The cases of E01: values that were written before backward needed them; see error_cases.py."""

from __future__ import annotations

from error_cases import Case


def e01(
    shape: list[int], maker: str = "", at: int = 1, expected: int = 0, kind: str = "Float"
) -> str:
    made = f", which is output 0 of {maker}," if maker else ""
    return (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [torch.{kind}Tensor {shape}]{made} is at version {at}; expected version "
        f"{expected} instead. Hint: enable anomaly detection to find the operation that failed to "
        "compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )


CASES = [
    Case(
        "E01",
        "an optimizer step between two backward passes",
        """
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        loss = (w * w).sum()  #: saved
        loss.backward(retain_graph=True)
        optimizer.step()  #: written
        loss.backward()  #: noticed
        """,
        e01([2]),
        "w",
        "before optimizer.step()",
        {"version": 1, "expected": 0},
    ),
    Case(
        "E01",
        "an optimizer step between two losses of a network",
        """
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        out = net(torch.ones(1, 2))  #: saved
        out.sum().backward(retain_graph=True)
        optimizer.step()  #: written
        (out * 2).sum().backward()  #: noticed
        """,
        e01([2, 1], "AsStrided", 2, 1),
        "a view of `net.2.weight`",
        "before optimizer.step()",
    ),
    Case(
        "E01",
        "a write through a view",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        b = a**2  #: saved
        v = a.view(3, 1)  #: view
        v.mul_(2)  #: written
        b.sum().backward()  #: noticed
        """,
        e01([3], "torch::autograd::CopySlices"),
        "a",
        "mul(...)",
    ),
    Case(
        "E01",
        "+= on a saved output",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x.exp()  #: saved
        y += 1  #: written
        y.sum().backward()  #: noticed
        """,
        e01([3], "Exp"),
        "y",
        "write y = y + 1",
        {"op": "exp", "role": "its own output"},
    ),
    Case(
        "E01",
        "relu_ on a saved output",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x.exp()  #: saved
        y.relu_()  #: written
        y.sum().backward()  #: noticed
        """,
        e01([3], "Exp"),
        "y",
        "relu(...)",
    ),
    Case(
        "E01",
        "sigmoid_ and then another write",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * 1
        y.sigmoid_()  #: saved
        y.mul_(2)  #: written
        y.sum().backward()  #: noticed
        """,
        e01([3], "Sigmoid", 2, 1),
        "y",
        "mul(...)",
    ),
    Case(
        "E01",
        "exp_ on a saved input",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        y = a.sin()  #: saved
        a.exp_()  #: written
        y.sum().backward()  #: noticed
        """,
        e01([3], "Exp"),
        "a",
        "exp(...)",
        {"op": "sin", "role": "its input `input`"},
    ),
    Case(
        "E01",
        "a write through detach()",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * x  #: saved
        x.detach().add_(1)  #: written
        y.sum().backward()  #: noticed
        """,
        e01([3]),
        "x",
        ".detach().clone()",
    ),
    Case(
        "E01",
        "a slice assignment",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        y = a * a  #: saved
        a[0] = 5.0  #: written
        y.sum().backward()  #: noticed
        """,
        e01([3], "torch::autograd::CopySlices"),
        "a",
        "torch.where",
    ),
    Case(
        "E01",
        "a write through a sibling view",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        one = a[:1]
        two = a[2:]  #: view
        y = one * one  #: saved
        two.add_(1)  #: written
        y.sum().backward()  #: noticed
        """,
        e01([1], "AsStrided"),
        "one",
        "add(...)",
    ),
    Case(
        "E01",
        "a tensor saved by a Function",
        """
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors  #: noticed
                return 2 * x * grad

        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        y = Square.apply(a)  #: saved
        a.add_(1)  #: written
        y.sum().backward()
        """,
        e01([3], "Add"),
        "a",
        "add(...)",
        {"op": "SquareBackward"},
    ),
    Case(
        "E01",
        "inside a module's forward",
        """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(3, 3)

            def forward(self, x):
                h = torch.sigmoid(self.fc(x))  #: saved
                h += x  #: written
                return h

        net = Net()
        net(torch.ones(2, 3)).sum().backward()  #: noticed
        """,
        e01([2, 3], "Sigmoid"),
        "h",
        "write h = h + x",
    ),
    Case(
        "E01",
        "in a loop",
        """
        def accumulate(x):
            total = torch.zeros(3)
            outs = []
            for i in range(3):
                total += x  #: written
                outs.append(total * x)  #: saved
            return outs

        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        outs = accumulate(x)
        outs[1].sum().backward()  #: noticed
        """,
        e01([3], "Add", 3, 2),
        "total",
        "write total = total + x",
    ),
    Case(
        "E01",
        "two writes, both named",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        y = a * a  #: saved
        a.mul_(2)  #: written
        a.sub_(1)  #: written
        y.sum().backward()  #: noticed
        """,
        e01([3], "Sub", 2),
        "a",
        "mul(...)",
    ),
    Case(
        "E01",
        "four writes, the first and the last named",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        y = a * a  #: saved
        a.mul_(2)  #: written
        a.mul_(3)
        a.mul_(4)
        a.sub_(1)  #: written
        y.sum().backward()  #: noticed
        """,
        e01([3], "Sub", 4),
        "a",
        "mul(...)",
    ),
    Case(
        "E01",
        "zero_()",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x.sqrt()  #: saved
        z = y.sum()
        y.zero_()  #: written
        z.backward()  #: noticed
        """,
        e01([3], "Sqrt"),
        "y",
        "zeros_like",
    ),
    Case(
        "E01",
        "copy_()",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        w = torch.ones(3)
        y = x * w  #: saved
        w.copy_(torch.zeros(3))  #: written
        y.sum().backward()  #: noticed
        """,
        e01([3]),
        "w",
        "torch.where",
        {"role": "its input `other`"},
    ),
    Case(
        "E01",
        "an index tensor",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        index = torch.tensor([0, 1])
        y = x.gather(0, index)  #: saved
        index += 1  #: written
        y.sum().backward()  #: noticed
        """,
        e01([2], kind="Long"),
        "index",
        "write index = index + 1",
    ),
    Case(
        "E01",
        "normalising in place",
        """
        w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        h = w * 2
        length = (h**2).sum().sqrt()  #: saved
        h /= length  #: written
        h.sum().backward()  #: noticed
        """,
        e01([3], "Div"),
        "h",
        "write h = h / length",
    ),
    Case(
        "E01",
        "ReLU(inplace=True) behind a sigmoid",
        """
        net = torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.ReLU(inplace=True))
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = net(x)  #: saved written
        y.sum().backward()  #: noticed
        """,
        e01([3], "Sigmoid"),
        "y",
        "leave out inplace=True",
    ),
    Case(
        "E01",
        "a buffer that forward updates",
        """
        class Scale(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("scale", torch.ones(3))

            def forward(self, x):
                y = x * self.scale  #: saved
                self.scale.mul_(0.9)  #: written
                return y

        net = Scale()
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        net(x).sum().backward()  #: noticed
        """,
        e01([3]),
        "net.scale",
        "mul(...)",
    ),
    Case(
        "E01",
        "filling a tensor in a loop",
        """
        w = torch.tensor(0.5, requires_grad=True)
        out = torch.ones(3)
        for i in range(1, 3):
            out[i] = out[i - 1] * w  #: saved written
        out.sum().backward()  #: noticed
        """,
        e01([], "AsStrided", 2, 1),
        "a view of `out`",
        "torch.stack",
    ),
    Case(
        "E01",
        "scaling one column of a hidden state",
        """
        x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        h = torch.tanh(x)  #: saved
        h[:, 0] *= 2  #: written
        h.sum().backward()  #: noticed
        """,
        e01([2, 2], "Tanh", 2),
        "h",
        "torch.where",
    ),
    Case(
        "E01",
        "clipping weights before backward",
        """
        w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        loss = (w * w).sum()  #: saved
        with torch.no_grad():
            w.clamp_(-1, 1)  #: written
        loss.backward()  #: noticed
        """,
        e01([3]),
        "w",
        "do this after backward()",
    ),
    Case(
        "E01",
        "copying weights into a network that still has a graph",
        """
        online, target = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        x = torch.tensor([[1.0, 2.0]], requires_grad=True)
        value = target(x)  #: saved
        target.load_state_dict(online.state_dict())  #: written
        value.sum().backward()  #: noticed
        """,
        e01([2, 1], "AsStrided", 2, 1),
        "a view of `target.weight`",
        "do this after backward()",
    ),
    Case(
        "E01",
        "dropout(inplace=True) on a saved output",
        """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = torch.exp(x)  #: saved
        torch.nn.functional.dropout(y, 0.5, inplace=True)  #: written
        y.sum().backward()  #: noticed
        """,
        e01([3], "Exp"),
        "y",
        "leave out inplace=True",
    ),
    Case(
        "E01",
        "a Function that writes to what was saved",
        """
        class AddOne(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.add_(1)  #: written

            @staticmethod
            def backward(ctx, grad):
                return grad

        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        y = a * a  #: saved
        AddOne.apply(a)  #: written
        y.sum().backward()  #: noticed
        """,
        e01([3], "AddOne", 2),
        "a",
        "add(...)",
    ),
    Case(
        "E01",
        "the discriminator's step before the generator's loss",
        """
        generator, critic = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
        critic_optimizer = torch.optim.Adam(critic.parameters())
        fake = generator(torch.ones(4, 2))
        score = critic(fake)  #: saved
        (-score).mean().backward(retain_graph=True)
        critic_optimizer.step()  #: written
        score.mean().backward()  #: noticed
        """,
        e01([2, 1], "AsStrided", 2, 1),
        "a view of `critic.weight`",
        "before optimizer.step()",
    ),
]
