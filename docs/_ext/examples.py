"""The example that every name of the reference has.

Most stand in docstrings and blocks. A method, an in-place form or a second name of a function shows
itself: the function's example is turned round (`exp(x)` becomes `x.exp()`, `x.exp_()`), with the
same result. What has no docstring of its own to hold one, and what needs a GPU, is in `examples/`
beside this file. The tests run them all.
"""

from __future__ import annotations

import ast
import doctest
import functools
import pathlib
import re
import textwrap

HERE = pathlib.Path(__file__).parent / "examples"
GPU = "*Where there is a GPU:*"  # stands above the examples that need one
ONNX = "*With the extra* `onnx`*:*"
SCIPY = "*With SciPy:*"
MARKS = {"(GPU)": GPU, "(onnx)": ONNX, "(scipy)": SCIPY}
MODULES = {"nn", "functional", "linalg", "special", "torch"}
ATOMS = (ast.Name, ast.Call, ast.Attribute, ast.Subscript)


@functools.cache
def written() -> dict[str, str]:
    """What the folder says, by name; the first line of examples says what they need."""
    found = {}
    for path in sorted(HERE.glob("*.txt")):
        for part in re.split(r"^(?=torch\.)", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
            head, _, body = part.partition("\n")
            name, _, mark = head.partition(" ")
            if name in found or (mark and mark not in MARKS):
                raise ValueError(f"{path.name}: {head}")
            text = textwrap.dedent(body).strip()
            found[name] = f"{MARKS[mark]}\n{text}" if mark else text
    return found


def said(name: str) -> str:
    """What the folder says before the example: for what loses its docstring when compiled."""
    text = written().get(name, "")
    return "" if text.startswith(tuple(MARKS.values())) else text.partition(">>>")[0].strip()


def sources(text: str) -> str:
    """The lines of an example that a reader would type."""
    return "\n".join(line for line in text.splitlines() if line.lstrip().startswith((">>>", "...")))


def shows(name: str, text: str) -> bool:
    """Whether an example uses the name; that of a method after a dot."""
    space, _, last = name.rpartition(".")
    before = r"\." if space == "torch.Tensor" else r"\b"
    return re.search(rf"{before}{re.escape(last)}\b", sources(text)) is not None


def example_of(name: str, doc: str, examples: list[str]) -> list[str]:
    """The examples to show for a name: its own, else those of its docstring, turned round."""
    if name in written():
        return [written()[name].removeprefix(said(name)).strip()]
    if any(shows(name, each) for each in examples):
        return examples
    told = re.findall(r"^([\w.]+)\(.*?\) -> ", doc, re.M)
    turned = turned_round(name, {each.rpartition(".")[2] for each in told}, "\n".join(examples))
    if turned is None:
        return examples
    # What is written with an operator is how people write it: it stays, above the function.
    by_hand = not name.startswith("torch.Tensor.") and not re.search(r">>> \w+\(", examples[0])
    return [examples[0], turned] if by_hand and not name.endswith("_") else [turned]


def turned_round(name: str, spoken: set[str], text: str) -> str | None:
    """An example of a function as one of a method, of an in-place form or of another name."""
    last = name.rpartition(".")[2]
    method = name.startswith("torch.Tensor.")
    wanted = spoken | {last.removesuffix("_")}
    lines, found = [], False
    for each in doctest.DocTestParser().get_examples(text):
        source = each.source.rstrip("\n")
        uses = calls_of(source, wanted)
        if not uses:
            lines.append(prompted(source) + each.want)
        elif last.endswith("_"):
            (start, end, receiver, rest), *others = uses
            if others or source[:start] + source[end:]:
                return None
            call = (
                f"x.{last}({rest})" if method else f"{last}({', '.join(filter(None, ['x', rest]))})"
            )
            made = f">>> x = {receiver[0]}\n" if receiver[0] != "x" else ""
            lines.append(f"{made}>>> {call}\n{each.want}>>> x\n{each.want}")
            found = True
        else:
            for start, end, (receiver, plain), rest in reversed(uses):
                if method:
                    call = f"{receiver if plain else f'({receiver})'}.{last}({rest})"
                else:
                    call = f"{last}({', '.join(filter(None, [receiver, rest]))})"
                source = source[:start] + call + source[end:]
            lines.append(prompted(source) + each.want)
            found = True
    return "".join(lines).rstrip("\n") if found else None


Use = tuple[int, int, tuple[str, bool], str]


def calls_of(source: str, wanted: set[str]) -> list[Use]:
    """Where a line calls one of some functions: from, to, its first argument, the others."""
    if "\n" in source:
        return []
    tree = ast.parse(source).body[0]
    found: list[Use] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        assert node.end_col_offset is not None
        function = node.func
        last = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        if last not in wanted:
            continue
        inside = any(start <= node.col_offset < end for start, end, _, _ in found)
        given = [*node.args, *[keyword.value for keyword in node.keywords]]
        owner = function.value if isinstance(function, ast.Attribute) else None
        if inside or (owner is None and not node.args):
            continue
        assert function.end_col_offset is not None
        rest = source[function.end_col_offset + 1 : node.end_col_offset - 1]
        if owner is not None and not MODULES & {n.id for n in ast.walk(owner) if hasattr(n, "id")}:
            found.append((node.col_offset, node.end_col_offset, text_of(source, owner), rest))
        elif given:
            first = text_of(source, given[0])
            rest = rest[len(first[0]) :].removeprefix(",").lstrip()
            found.append((node.col_offset, node.end_col_offset, first, rest))
    if not found and isinstance(tree, ast.Expr):  # written with an operator
        value = tree.value
        if isinstance(value, ast.BinOp):
            found = [(0, len(source), text_of(source, value.left), text_of(source, value.right)[0])]
        elif isinstance(value, ast.Compare):
            right = text_of(source, value.comparators[0])[0]
            found = [(0, len(source), text_of(source, value.left), right)]
        elif isinstance(value, ast.UnaryOp):
            found = [(0, len(source), text_of(source, value.operand), "")]
    return sorted(found)


def text_of(source: str, node: ast.expr) -> tuple[str, bool]:
    """The text of an expression, and whether a dot may follow it."""
    return ast.get_source_segment(source, node) or "", isinstance(node, ATOMS)


def prompted(source: str) -> str:
    first, *others = source.split("\n")
    return "\n".join([f">>> {first}", *[f"... {line}".rstrip() for line in others], ""])
