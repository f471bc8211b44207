"""A tour in the terminal: a graph, an error that explains itself, `why`, the doctor, a classifier
that learns, and a page to open.

`make demo` or `tapegrad demo`. It fits 80 columns, and has colours where the terminal has them
(NO_COLOR and pipes are respected).
"""

from __future__ import annotations

import io
import linecache
import os
import pathlib
import re
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import tapegrad as torch
from tapegrad import diagnose, nn, optim
from tapegrad.datasets import digits
from tapegrad.kernels.cpu import Note, way_to_be_faster

WIDTH = 78
# Shown first, then run as they stand, under these names: reports point at these very lines.
COMPUTES = """\
x = torch.tensor(0.5, requires_grad=True)
w = torch.tensor(-1.5, requires_grad=True)
b = torch.tensor(1.0, requires_grad=True)
product = x * w
total = product + b
y = total.tanh()
loss = (y - 1) ** 2
"""
GOES_BACK = """\
steps = diagnose.trace_backward(loss)
for step in steps:
    pass
"""
OVERWRITES = """\
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x.exp()
y += 1
y.sum().backward()
"""
LOSES_ITS_LEAF = """\
w = torch.ones(3, requires_grad=True).double()
(w * 2).sum().backward()
reason = diagnose.why(w)
"""
FORGETS = """\
model = nn.Linear(2, 1)
optimizer = optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 2), torch.randn(64)
for step in range(10):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
"""


def main() -> int:
    """Run the tour; returns the exit status."""
    started = time.perf_counter()
    torch.manual_seed(0)
    Note.due = False  # it is said at the end
    say("tapegrad", torch.__version__.partition("+tapegrad.")[2], "- a tour")
    computed = show_graph()
    show_error()
    show_why()
    show_findings()
    accuracy = train_classifier()
    show_page(computed)
    seconds = time.perf_counter() - started
    say(f"\nThat was the tour: {accuracy:.1%} right, in {seconds:.1f} seconds.")
    say("Next: docs/start.md, examples/basics, or `tapegrad run your_script.py`.")
    if faster := way_to_be_faster():
        say("\n" + textwrap.fill(f"Note: {faster}", WIDTH))
    return 0


# --- 1. a graph ------------------------------------------------------------------------------


def show_graph() -> dict[str, Any]:
    """Draw a small graph; returns its variables, with the graph still there."""
    heading("1. A graph, its values and its gradients")
    names = run_snippet("computes.py", COMPUTES)
    named = [
        (line if names[name].grad_fn else name, names[name])
        for line in reversed(COMPUTES.splitlines())
        for name in [line.split()[0]]
    ]
    for _, tensor in named:
        if not tensor.is_leaf:
            tensor.retain_grad()
    names["loss"].backward(retain_graph=True)
    say("Each line is a recorded operation; its inputs hang below it. loss.backward()")
    say("has walked the tree from the top and left d(loss)/d(...) at every name.\n")
    rows = list(tree(names["loss"].grad_fn, named))
    left = max(len(branch) for branch, _, _ in rows)
    middle = max(len(text) for _, text, _ in rows)
    for branch, text, tensor in rows:
        numbers = ""
        if tensor is not None:
            numbers = f"{tensor.item():8.4f} grad {tensor.grad.item():8.4f}"
        say(f" {branch:<{left}}  {text:<{middle}} {numbers}".rstrip())
    return names


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


# --- 2. to 4. what goes wrong ----------------------------------------------------------------


def show_error() -> None:
    heading("2. An error that names its cause")
    say("exp() keeps its result: the gradient of exp is exp. Line 3 overwrites it:\n")
    show_code(OVERWRITES)
    say("\nThe backward pass refuses to compute a wrong gradient, and names the line:\n")
    try:
        run_snippet("overwrites.py", OVERWRITES)
    except RuntimeError as error:
        say_report(f"{type(error).__name__}: {error}")
    say("\nThe first sentence is PyTorch's, so a search finds it.")


def show_why() -> None:
    heading("3. Why is there no gradient?")
    show_code(LOSES_ITS_LEAF)
    say()
    reason = str(run_snippet("loses_its_leaf.py", LOSES_ITS_LEAF)["reason"])
    say(textwrap.fill(reason, WIDTH, break_on_hyphens=False))


def show_findings() -> None:
    heading("4. The doctor looks at a training loop")
    say("It runs, and the loss goes down. Two things are wrong with it:\n")
    show_code(FORGETS)
    say()
    printed = io.StringIO()
    with diagnose.doctor(file=printed):
        run_snippet("forgets.py", FORGETS)
    say_report(printed.getvalue().strip())


def show_code(source: str) -> None:
    for number, line in enumerate(source.splitlines(), 1):
        say(f"  {colour('dim', str(number))}  {line}")


def run_snippet(name: str, source: str, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run a snippet under a file name of its own; the names that it leaves behind."""
    lines = source.splitlines(keepends=True)
    linecache.cache[name] = (len(source), None, lines, name)
    names = {"__name__": "tour", "torch": torch, "nn": nn, "optim": optim, "diagnose": diagnose}
    names |= known or {}
    exec(compile(source, name, "exec"), names)
    return names


# --- 5. a classifier -------------------------------------------------------------------------


def train_classifier(epochs: int = 15, batch: int = 32) -> float:
    """Train on five sixths of the digits; returns the share of the others that it gets right."""
    heading("5. Learning to read handwritten digits")
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


# --- 6. a page -------------------------------------------------------------------------------


def show_page(computed: dict[str, Any]) -> None:
    heading("6. The backward pass as a page")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tapegrad-demo-"))  # each user has their own
    page = folder / "backward.html"
    run_snippet("goes_back.py", GOES_BACK, computed)["steps"].save(str(page))
    say("Step 1's backward pass, to be played step by step in a browser:\n")
    say(f"  {colour('bold', str(page))}")


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
    say(f"\n{colour('bold', text)}\n" + colour("dim", "─" * WIDTH))


COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "cyan": "36"}
LABEL = re.compile(r"^(\s+)(\w+:)(\s)")


def has_colours() -> bool:
    """Whether colours are wanted: on a terminal, unless NO_COLOR or a dumb one says otherwise."""
    wanted = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return wanted and sys.stdout.isatty()


def colour(name: str, text: str) -> str:
    return f"\033[{COLOURS[name]}m{text}\033[0m" if has_colours() else text


def say_report(text: str) -> None:
    """A report within the width; continued lines stand below the text of their label."""
    text = re.sub(r"\n[ ]{8,}", " ", text)  # lines that were wrapped for wider terminals
    for number, line in enumerate(text.splitlines()):
        label = LABEL.match(line)
        indent = len(line) - len(line.lstrip())
        if label:
            indent = len(label[0]) + len(line[label.end() :]) - len(line[label.end() :].lstrip())
        wrapped = textwrap.wrap(
            line, WIDTH, subsequent_indent=" " * indent, drop_whitespace=True,
            break_on_hyphens=False, replace_whitespace=False,
        )  # fmt: skip
        for part in wrapped or [""]:
            if label and part is wrapped[0]:
                kind = "green" if label[2] in ("fix:", "or:") else "cyan"
                part = LABEL.sub(lambda m, k=kind: m[1] + colour(k, m[2]) + m[3], part)
            elif number == 0 or line.startswith("["):
                part = colour("red", part)
            say(part)


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
