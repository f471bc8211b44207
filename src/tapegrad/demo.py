"""A tour in the terminal: a graph, an error that explains itself, a classifier that learns.

`make demo` or `python -m tapegrad demo`.
"""

from __future__ import annotations

import linecache
import sys
import time
from collections.abc import Iterator
from typing import Any

import tapegrad as torch
from tapegrad import nn, optim
from tapegrad.datasets import digits

WIDTH = 78
# Shown first, then run as it stands, under this name: the error can point at these very lines.
SNIPPET_NAME = "tour.py"
SNIPPET = """\
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x.exp()
y += 1
y.sum().backward()
"""


def main() -> int:
    """Run the tour; returns the exit status."""
    started = time.perf_counter()
    torch.manual_seed(0)
    say("tapegrad", torch.__version__, "- a tour")
    show_graph()
    show_error()
    accuracy = train_classifier()
    seconds = time.perf_counter() - started
    say(f"\nThat was the tour: {accuracy:.1%} right, in {seconds:.1f} seconds.")
    say("Next: README.md, or `python -m tapegrad run your_script.py`.")
    return 0


# --- 1. a graph ------------------------------------------------------------------------------


def show_graph() -> None:
    heading("1. A graph, its values and its gradients")
    x = torch.tensor(0.5, requires_grad=True)
    w = torch.tensor(-1.5, requires_grad=True)
    b = torch.tensor(1.0, requires_grad=True)
    product = x * w
    total = product + b
    y = total.tanh()
    loss = (y - 1) ** 2
    named = [
        ("loss = (y - 1) ** 2", loss),
        ("y = total.tanh()", y),
        ("total = product + b", total),
        ("product = x * w", product),
        ("x", x),
        ("w", w),
        ("b", b),
    ]
    for _, tensor in named:
        if not tensor.is_leaf:
            tensor.retain_grad()
    loss.backward()
    say("Each line is a recorded operation; its inputs hang below it. loss.backward() has")
    say("walked the tree from the top and left d(loss)/d(...) at every name.\n")
    rows = list(tree(loss.grad_fn, named))
    left = max(len(branch) for branch, _, _ in rows)
    middle = max(len(text) for _, text, _ in rows)
    for branch, text, tensor in rows:
        numbers = ""
        if tensor is not None:
            numbers = f"value {tensor.item():8.4f}   grad {tensor.grad.item():8.4f}"
        say(f"  {branch:<{left}}   {text:<{middle}}   {numbers}".rstrip())


def tree(root: Any, named: list[tuple[str, Any]]) -> Iterator[tuple[str, str, Any]]:
    """The rows of a graph, top down: branch and node name, the user's name for it, the tensor."""
    names = {t.grad_fn: (text, t) for text, t in named if t.grad_fn is not None}
    stack = [(root, "", "")]
    while stack:
        node, lead, below = stack.pop()
        text, tensor = names.get(node, ("", None))
        if hasattr(node, "variable"):
            text, tensor = next((n, t) for n, t in named if t is node.variable)
        yield lead + node.name().split("::")[-1], text, tensor
        inputs = [n for n, _ in node.next_functions if n is not None]
        for i in reversed(range(len(inputs))):
            last = i == len(inputs) - 1
            fork, line = ("└─ ", "   ") if last else ("├─ ", "│  ")
            stack.append((inputs[i], below + fork, below + line))


# --- 2. an error -----------------------------------------------------------------------------


def show_error() -> None:
    heading("2. An error that names its cause")
    say("exp() keeps its result, because the gradient of exp is exp. This overwrites it:\n")
    for number, line in enumerate(SNIPPET.splitlines(), 1):
        say(f"  {number}  {line}")
    say("\nThe backward pass refuses to compute a wrong gradient, and says who is to blame:\n")
    try:
        run_snippet()
    except RuntimeError as error:
        say(f"{type(error).__name__}: {error}")
    say("\nThe first sentence is PyTorch's, so a search finds it. With `y = y + 1` it works.")


def run_snippet() -> None:
    linecache.cache[SNIPPET_NAME] = (
        len(SNIPPET),
        None,
        SNIPPET.splitlines(keepends=True),
        SNIPPET_NAME,
    )
    exec(compile(SNIPPET, SNIPPET_NAME, "exec"), {"__name__": "tour", "torch": torch})


# --- 3. a classifier -------------------------------------------------------------------------


def train_classifier(epochs: int = 15, batch: int = 32) -> float:
    """Train on five sixths of the digits; returns the share of the others that it gets right."""
    heading("3. Learning to read handwritten digits")
    images, labels = digits()
    images = images / 16
    order = torch.randperm(len(images))
    train, test = order[:1500], order[1500:]
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    count = sum(p.numel() for p in model.parameters())
    say(f"{len(train)} images to learn from, {len(test)} to be tested on, {count} weights.\n")
    for epoch in range(epochs):
        shuffled = train[torch.randperm(len(train))]
        losses = []
        for start in range(0, len(train), batch):
            chosen = shuffled[start : start + batch]
            optimizer.zero_grad()
            loss = cross_entropy(model(images[chosen]), labels[chosen])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        progress(epoch + 1, epochs, sum(losses) / len(losses))
    with torch.no_grad():
        answers = model(images[test]).argmax(dim=1)
    accuracy: float = (answers == labels[test]).float().mean().item()
    say(f"\nOf the {len(test)} digits it never saw, it reads {accuracy:.1%} correctly. Five:\n")
    show_digits(images[test[:5]], answers[:5])
    return accuracy


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean of -log softmax(logits)[label], written out."""
    chosen = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
    return (logits.logsumexp(dim=1) - chosen).mean()


def show_digits(images: Any, answers: Any) -> None:
    shades = " .:-=+*#%@"
    pictures = []
    for image in images.reshape(-1, 8, 8).tolist():
        pictures.append(["".join(2 * shades[int(v * 9)] for v in row) for row in image])
    for rows in zip(*pictures, strict=True):
        say("".join(rows).rstrip())
    say("".join(f"{f'-> {answer}':^16}" for answer in answers.tolist()).rstrip())


# --- the terminal ----------------------------------------------------------------------------


def progress(done: int, total: int, loss: float) -> None:
    """One bar that grows on a terminal; a line now and then in a log."""
    filled = 40 * done // total
    bar = "█" * filled + "░" * (40 - filled)
    line = f"  epoch {done:>2}/{total}  {bar}  loss {loss:.4f}"
    if sys.stdout.isatty():
        say("\r" + line, end="\n" if done == total else "")
    elif done in (1, total) or done % 3 == 0:
        say(line)


def heading(text: str) -> None:
    say(f"\n{text}\n" + "─" * WIDTH)


# For terminals that cannot show the drawing characters.
PLAIN = str.maketrans("─│├└█░", "-||`#.")


def say(*parts: object, end: str = "\n") -> None:
    text = " ".join(str(part) for part in parts)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = text.translate(PLAIN)
        text = text.encode("ascii", "replace").decode("ascii")
    print(text, end=end, flush=True)


if __name__ == "__main__":
    sys.exit(main())
