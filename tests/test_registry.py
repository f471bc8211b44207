"""Every op is complete, and every public function is documented by an example that runs."""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import pathlib
import subprocess
import sys

import pytest

import tapegrad
from table import find
from tapegrad.api.publish import load_everything
from tapegrad.core.op import REGISTRY, Facts
from tapegrad.errors.nonfinite_patterns import PATTERNS
from tapegrad.ops.block.definition import APIS, BLOCK_FIELDS, Block, Public, api, names_of, op

# Blocks: their first argument is not a `self`.
# ruff: noqa: N805

load_everything()

PUBLIC = sorted(n for n, a in APIS.items() if a.function or a.method)
OPS = sorted(REGISTRY)


@pytest.mark.parametrize("name", OPS)
def test_op_is_complete(name):
    op = REGISTRY[name]
    assert op.name == name
    assert op.doc, "no docstring"
    assert op.node_name
    if op.differentiable:
        assert op.joint is not None or any(op.rules), "differentiable without a rule"
        assert op.jvp is not None, "no forward-mode rule"
    else:
        assert op.undifferentiable, "no gradient, and no reason"
        assert op.joint is None and not any(op.rules), "a rule that is never asked"
    if op.joint is None and op.differentiable:
        silent = [t for t, rule in zip(op.tensors, op.rules, strict=True) if rule is None]
        assert tuple(silent) == op.plain_tensors, "arguments without a rule, and not said so"
    assert (op.batch is None) == bool(op.unbatchable), "no batching rule, and no reason"
    assert op.aten != "", "not said what PyTorch calls it"
    assert set(op.gradient_text or ()) <= set(op.tensors), "text for an argument that is not there"
    assert set(op.shape_rules or ()) <= {*op.tensors, "out"}


class Complete(Block):
    """complete(input, other) -> Tensor: all that a block has to say."""

    tensors = ("input", "other")
    public = False
    aligns = True
    aten = None
    undifferentiable = "an example"

    def fwd(xp, input, other):
        return xp.sign(input) * xp.sign(other)


def no_rule():
    class Forgotten(Complete):
        undifferentiable = ""

    return Forgotten


def half_of_the_rules():
    class Forgotten(Complete):
        undifferentiable = ""

        def d_input(F, grad, other):
            return grad * other

    return Forgotten


def no_name():
    class Forgotten(Complete):
        aten = ""

    return Forgotten


@pytest.mark.parametrize(
    ("block", "missing"),
    [
        (no_rule, "no rule d_input. If there is no such derivative, say it"),
        (half_of_the_rules, "no rule d_other"),
        (no_name, "what is it called in PyTorch"),
    ],
)
def test_silence_is_refused(block, missing):
    with pytest.raises(TypeError, match=f"^forgotten: {missing}"):
        op(block())
    assert "forgotten" not in REGISTRY


def test_a_field_is_listed_once():
    """A block, its function and its record share a field by inheriting it from one list."""
    listed = [names_of(Facts), names_of(Block), names_of(Public)]
    assert sum([len(names) for names in listed]) == len(BLOCK_FIELDS)


def names_in(body: list[ast.stmt]) -> set[str]:
    """What a class body defines."""
    found = set()
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            found.add(statement.name)
        elif isinstance(statement, ast.Assign):
            found |= {n.id for t in statement.targets for n in ast.walk(t) if hasattr(n, "id")}
    return found


def is_block(classes: dict[str, ast.ClassDef], node: ast.ClassDef) -> bool:
    """Whether a class of a file is a block, or a class that blocks are made of.

    Functions that make blocks call the class of which they make one `base`.
    """
    names = {base.id for base in node.bases if isinstance(base, ast.Name)}
    if (names - classes.keys()) & {"Block", "Elementwise", "Linear", "ViewOp", "base"}:
        return True
    return any(is_block(classes, classes[name]) for name in names & classes.keys())


def test_fields_are_spelled_as_known():
    """A misspelled field would be passed over in silence: an import has no time to look."""
    checked = 0
    for path in pathlib.Path(tapegrad.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
        for node in ast.walk(tree):
            is_class = isinstance(node, ast.ClassDef) and path.name != "definition.py"
            if is_class and is_block(classes, node):
                checked += 1
                unknown = names_in(node.body) - BLOCK_FIELDS - {"fwd", "__doc__", "__module__"}
                rules = {n for n in unknown if n.startswith(("d_", "shape_"))}
                assert not unknown - rules, f"{path.name}, {node.name}: a block has no such field"
    assert checked > 500


HOMES = """
from tapegrad.core.op import REGISTRY
from tapegrad.api.publish import load_family
from tapegrad.ops import ON_DEMAND, files_of

present = {}
for family in files_of(ON_DEMAND):
    load_family(family)
    present[f"tapegrad.ops.{family}"] = set(REGISTRY)
print([op.name for op in REGISTRY.values() if op.name not in present.get(op.home, REGISTRY)])
"""


def test_an_op_comes_with_its_home():
    """The index of lazy ops says which file to load: a block that another file made counts."""
    done = subprocess.run([sys.executable, "-c", HOMES], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_fields_of_functions_are_known():
    with pytest.raises(TypeError, match="api\\(\\) has no argument \\['autocasts'\\]"):
        api(autocasts=None)


@pytest.mark.parametrize("name", PUBLIC)
def test_function_is_documented(name):
    api = APIS[name]
    first = api.doc.splitlines()[0] if api.doc else ""
    assert "->" in first and ": " in first, f"the first line is {first!r}"
    assert doctest.DocTestParser().get_examples(api.doc), "no example"


@pytest.mark.parametrize("name", PUBLIC)
def test_function_has_samples(name):
    api = APIS[name]
    if name.endswith(("_", "_like")) or name.startswith("new"):
        return  # a twin of a function that has them, or values that do not depend on the input
    takes_tensor = {"input", "x", "tensors"} & set(api.parameters)
    assert api.samples or not takes_tensor, "takes tensors and has no sample inputs"


def test_names_do_not_collide():
    methods = [n for n, a in APIS.items() if a.method]
    written = [f"{n}_" for n, a in APIS.items() if a.inplace]
    both = set(written) & {n for n in methods if n.endswith("_")}
    assert not both, f"an in-place form and a method of the same name: {sorted(both)}"


@pytest.mark.parametrize("name", PUBLIC)
def test_function_is_reachable(name):
    api = APIS[name]
    if api.function:
        assert callable(find(tapegrad, api))
    if api.method:
        assert callable(getattr(tapegrad.Tensor, name))
    if api.inplace:
        assert callable(getattr(tapegrad.Tensor, name + "_"))


def public_names():
    return {n: v for n, v in vars(tapegrad).items() if not n.startswith("_")}


# Deprecated functions say so, here too.
@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
@pytest.mark.filterwarnings("ignore:.*in beta:UserWarning")
@pytest.mark.parametrize("name", sorted({a.call: n for n, a in reversed(APIS.items())}.values()))
def test_example(name):
    tapegrad.manual_seed(0)
    # Examples see what `from tapegrad import *` gives; dtypes do not hide Python's own names.
    names = public_names()
    for hidden in ("bool", "int", "float"):
        names[hidden] = getattr(builtins, hidden)
    names["torch"] = tapegrad
    text = inspect.cleandoc(APIS[name].doc)
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


def test_made_rules_show_what_they_were_made_with():
    import ast

    from tapegrad.ops.block.rule_source import rule_tree

    load_everything()
    rule = rule_tree(REGISTRY["reflection_pad1d_back"].rules[0].function)
    assert ast.unparse(rule.body[0]) == "return F.reflection_pad1d(grad, pad)"


def test_blocks_name_patterns_that_exist():
    assert {op.nonfinite for op in REGISTRY.values()} - {""} == PATTERNS.keys()
