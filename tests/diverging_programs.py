"""Twenty pairs of programs that part, for tests of `tapegrad compare`.

Each is a training loop in which one line, marked `# <-`, differs between two versions. The text is
PyTorch's, so that the same pairs run under torch.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

BASE = """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)  # seed
data = torch.randn(64, 6)
target = torch.randint(0, 3, (64,))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.25)
        self.middle = nn.Linear(16, 16)
        self.last = nn.Linear(16, 3)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        h = self.norm(h)
        h = self.drop(h)
        h = F.relu(self.middle(h))
        h = h * 0.5 + 1.0
        return self.last(h)


model = Model()
# set up
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
# before the loop
for step in range(8):
    # begin step
    at = step * 8 % 32
    x = data[at : at + 8]
    y = target[at : at + 8]
    x = x + 0.1
    optimizer.zero_grad()
    out = model(x)
    loss = F.cross_entropy(out, y, reduction="none")
    loss = loss.mean()
    loss.backward()
    # after backward
    optimizer.step()
    schedule.step()
"""


@dataclass(frozen=True)
class Pair:
    """A line of BASE and what stands in its place in the second program."""

    name: str
    before: str
    after: str
    step: int = 0
    named: str = ""  # the line to be named, where it is another than the marked one

    def lines(self) -> tuple[int, int]:
        """The numbers of the lines of both programs, one of which has to be named."""
        first, second = [text.splitlines() for text in self.programs()]
        if self.named:
            return first.index(self.named) + 1, second.index(self.named) + 1
        marked = [i for i, line in enumerate(second) if line.endswith("# <-")]
        return first.index(self.before) + 1, marked[0] + 1

    def programs(self) -> tuple[str, str]:
        assert BASE.count(self.before) == 1, self.name
        lines = textwrap.dedent(self.after).splitlines()
        indent = self.before[: len(self.before) - len(self.before.lstrip())]
        after = "\n".join([indent + line for line in lines])
        return BASE, BASE.replace(self.before, after)


PAIRS = [
    Pair("another seed", "torch.manual_seed(0)  # seed", "torch.manual_seed(1)  # <-"),
    Pair(
        "another learning rate from step 3",
        "    # begin step",
        'if step >= 3:\n    optimizer.param_groups[0]["lr"] = 0.001',
        step=3,
        named="    optimizer.step()",  # a dictionary was written: the line that used it is known
    ),
    Pair("float64", "model = Model()", "model = Model().double(); data = data.double()  # <-"),
    Pair(
        "bfloat16 autocast",
        "    out = model(x)",
        'with torch.autocast("cpu", dtype=torch.bfloat16):  # <-\n    out = model(x).float()',
    ),
    Pair("a dropped dropout", "        h = self.drop(h)", "h = h  # <-"),
    Pair("another order of ops", "        h = h * 0.5 + 1.0", "h = (h + 1.0) * 0.5  # <-"),
    Pair(
        "an extra detach",
        "        h = torch.tanh(self.first(x))",
        "h = torch.tanh(self.first(x)).detach()  # <-",
    ),
    Pair(
        "another initialiser",
        "# set up",
        "nn.init.normal_(model.middle.weight, std=0.1)  # <-",
    ),
    Pair("batch norm in eval", "# before the loop", "model.norm.eval()  # <-"),
    Pair(
        "a transposed weight",
        "        h = F.relu(self.middle(h))",
        "h = F.relu(F.linear(h, self.middle.weight.t(), self.middle.bias))  # <-",
    ),
    Pair("mean for sum", "    loss = loss.mean()", "loss = loss.sum()  # <-"),
    Pair(
        "another weight decay",
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01)",
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)  # <-",
    ),
    Pair(
        "an index off by one",
        "    x = data[at : at + 8]",
        "x = data[at + 1 : at + 9]  # <-",
    ),
    Pair(
        "another order of a sum",
        "    loss = loss.mean()",
        "loss = loss[torch.arange(7, -1, -1)].cumsum(0)[-1] / 8  # <-",
    ),
    Pair(
        "a broken hook",
        "# before the loop",
        "model.middle.weight.register_hook(lambda g: g * 1.5)  # <-",
    ),
    Pair(
        "in place against out of place",
        "    x = x + 0.1",
        "x += 0.1  # <-",
        step=1,  # which reads the memory
    ),
    Pair(
        "a layer frozen at step 5",
        "    # begin step",
        "model.first.requires_grad_(step < 5)  # <-",
        step=5,
    ),
    Pair(
        "a clipped gradient",
        "    # after backward",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # <-",
    ),
    Pair(
        "a scheduler called too early",
        "# before the loop",
        "schedule.step()  # <-",
        step=1,  # the first one has the rate that it begins with
    ),
    Pair(
        "another checkpoint",
        "# set up",
        "saved = {k: v.clone() + 0.001 for k, v in model.state_dict().items() "
        'if "last" in k}\nmodel.load_state_dict(saved, strict=False)  # <-',
    ),
]
