"""The pages name files that exist: links, paths in text and drawings, the map in the READMEs."""

import ast
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "tapegrad"
PAGES = sorted(
    p for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
)
# CHANGELOG tells of files that are gone; operators.md and the reference are generated.
REFERENCE = ROOT / "docs" / "reference"
READ = [
    p
    for p in PAGES
    if p.name not in ("CHANGELOG.md", "operators.md") and not p.is_relative_to(REFERENCE)
]
# READMEs are shown elsewhere too (on PyPI, say): their links are those of the repository.
REPOSITORY = re.compile(r"\]\(https://github\.com/tapegrad/tapegrad/(?:blob|tree)/main/([^)#\s]+)")
CODE = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
PATH = re.compile(
    r"(?<![\w./<*-])((?:[\w.-]+/)+[\w*-]+\.(?:py|md|npz|txt|js)|(?:[\w-]+/)+)(?![\w/*])"
)
SOURCES = [
    *PACKAGE.rglob("*.py"),
    *ROOT.glob("tests/**/*.py"),
    *ROOT.glob("tools/*.py"),
    ROOT / "setup.py",
]


def page_name(path):
    return str(path.relative_to(ROOT))


def is_there(path, page):
    """Whether a path is one of the repository, of the package or of the page's own folder."""
    places = (ROOT, ROOT / "src", PACKAGE, ROOT / "tests", ROOT / "docs", page.parent)
    return any(any(place.glob(path)) for place in places)


@pytest.mark.parametrize("page", READ, ids=page_name)
def test_links(page):
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    made = ("reference/", "../reference/", "../../reference/")
    linked = [link for link in LINK.findall(text) if not link.startswith(made)]
    assert [link for link in linked if not (page.parent / link).exists()] == []
    assert [link for link in REPOSITORY.findall(text) if not (ROOT / link).exists()] == []
    if page.name.startswith("README") and page.parent == ROOT:
        assert linked == []


@pytest.mark.parametrize("page", READ, ids=page_name)
def test_paths(page):
    # Left out: addresses, and files in a checkout of PyTorch.
    text = re.sub(r"https?://\S+|CONFORMANCE_FILES=\S+", "", page.read_text(encoding="utf-8"))
    # What `make docs` writes need not be there.
    found = [path for path in PATH.findall(text) if "reference/" not in path]
    assert [path for path in found if not is_there(path, page)] == []
    known = {path.name for path in SOURCES}
    own = {"example.py", "script.py", "train.py"}  # the reader's own
    assert set(re.findall(r"`([\w-]+\.py)`", text)) - known - own == set()


@pytest.mark.parametrize("source", ["README.md", "README.zh-CN.md"])
def test_the_map_names_every_folder(source):
    text = (ROOT / source).read_text(encoding="utf-8")
    drawn = set(re.findall(r"(\w+)/", text[text.index("\nsrc/tapegrad/\n") :]))
    folders = {p.parent.name for p in PACKAGE.glob("*/*.py")}
    assert folders - drawn == set()


def test_notes_that_code_cites():
    cited = set()
    for path in PACKAGE.rglob("*.py"):
        cited |= set(re.findall(r"docs/(?:notes/)?[\w-]+\.md", path.read_text(encoding="utf-8")))
    assert [name for name in sorted(cited) if not (ROOT / name).exists()] == []
    notes = {f"docs/notes/{p.name}" for p in ROOT.glob("docs/notes/*.md")}
    assert notes - cited == {"docs/notes/glossary.md", "docs/notes/index.md"}  # for people


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_code_of_a_readme_runs(name, tmp_path, monkeypatch):
    """The blocks are one program: it learns, raises what is printed below, and shows the tools."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / name).read_text(encoding="utf-8")
    learns, raises, tools = re.findall(r"```python\n(.*?)```", text, re.S)
    names = {}
    exec(learns, names)
    assert names["loss"].item() < 0.1
    (tmp_path / "example.py").write_text(raises, encoding="utf-8")
    with pytest.raises(RuntimeError) as caught:
        exec(compile(raises, "example.py", "exec"), names)
    assert f"RuntimeError: {caught.value}\n" in text
    exec(tools, names)
    assert (tmp_path / "graph.html").exists() and (tmp_path / "backward.html").exists()


def test_the_command_that_steps_into_the_engine(tmp_path):
    """docs/engine.md: the debugger stops in the loop of a script's backward pass."""
    page = (ROOT / "docs" / "engine.md").read_text(encoding="utf-8")
    command = re.search(r"^TAPEGRAD_PURE=1 python (-m pdb .*) your_script.py$", page, re.M)[1]
    script = tmp_path / "your_script.py"
    script.write_text(
        "import tapegrad as torch\nx = torch.ones(2, requires_grad=True)\n"
        "(x * x).sum().backward()\n"
    )
    done = subprocess.run(
        [sys.executable, *shlex.split(command), str(script)],
        input="p node\nn\np node\nq\n",
        env={**os.environ, "TAPEGRAD_PURE": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "engine.py" in done.stdout and "visit()" in done.stdout
    assert "SumBackward0" in done.stdout


ABSENT = {  # reasons of absent_names.txt, as pages for people say them
    "other hardware": "hardware|硬件",
    "compilers": "TorchScript",
    "quantisation": "quantisation",
    "nested tensors": "nested tensors",
    "masked tensors": "masked tensors",
    "sparse tensors in blocks": "COO",
    "data pipes": "data pipes",
    "complex32, which NumPy does not have": "complex32",
}
ELSEWHERE = {"not yet", "texts that PyTorch's help is made of"}  # single names, in docs/parity.md


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md", "docs/from-pytorch.md"])
def test_what_is_absent_is_said_completely(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    list_of_names = (PACKAGE / "errors" / "absent_names.txt").read_text(encoding="utf-8")
    reasons = {line.partition(": ")[0] for line in list_of_names.splitlines() if ": " in line}
    assert reasons - ELSEWHERE == set(ABSENT)
    assert [each for each, said in ABSENT.items() if not re.search(said, text)] == []


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_numbers_of_a_readme(name):
    """How many faults the doctor knows, how many rows the benchmarks have."""
    from tapegrad.diagnose._doctor.report import CATALOGUE

    text = (ROOT / name).read_text(encoding="utf-8")
    assert re.search(rf"{len(CATALOGUE)} (common faults|种常见毛病)", text)
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    rows = len(re.findall(r"^\| (?!---)", page, re.M)) - page.count("\n|---")
    assert re.search(rf"(all {rows} of them|全部 {rows} 行)", text)


# A docstring is often read alone (`help`, an editor, the reference). These words begin one that
# points at a text before it, or that turns a question into a noun.
POINTING = "The same|What|Those|That|They|Whoever|Who|Its|It|Also|And|As|Likewise|So|Such|Their"


def test_docstrings_can_be_read_alone():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                text = ast.get_docstring(node) or ""
                if re.match(rf"({POINTING})\b", text):
                    found.append(f"{path.name}:{node.body[0].lineno}: {text.splitlines()[0]}")
    assert found == []
