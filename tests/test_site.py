"""The pages of the site: their code runs, the sources that they show are there, the languages meet.

Sphinx is not needed here; `make docs` builds the site itself and follows its links.
"""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
import sys

import pytest

import reference_examples
import tapegrad

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
sys.path.insert(0, str(DOCS / "_ext"))
import benchmark_picture
import check_links
import examples
import name_pages
import pages
import reference

PAGES = pages.pages_with_code()
LINK = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")


def page_name(path):
    return path.relative_to(DOCS).as_posix()


def slug(heading):
    """The anchor of a heading, as MyST makes it."""
    text = re.sub(r"[`*]", "", heading).strip().lower()
    return re.sub(r"[^\w\u4e00-\u9fff\- ]", "", text).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_code_of_a_page_runs(page):
    asked = pages.blocks(page.read_text(encoding="utf-8"))
    results = list(pages.run_page(page))
    assert len(results) == page.read_text(encoding="utf-8").count("```{run}")
    for (_, options), result in zip(asked, results, strict=True):
        assert str(DOCS.parent) not in result.printed + result.error  # nothing of this machine
        assert bool(result.error) == ("error" in options)
        if "graph" in options:
            assert result.graph.startswith("<svg") and "Backward" in result.graph
        if "page" in options:
            assert "<svg" in result.page or "<script" in result.page


def test_an_error_that_stays_away_is_an_error():
    session = pages.Session("page")
    with pytest.raises(AssertionError, match="was to raise"):
        session.run("1 + 1", {"error": ""})


def test_an_error_that_was_not_announced_is_one():
    with pytest.raises(ZeroDivisionError):
        pages.Session("page").run("1 / 0", {})


def test_lines_are_counted_through_the_page():
    session = pages.Session("page")
    session.run("import tapegrad as torch\nx = torch.ones(2)", {})
    result = session.run("x.sum().backward()", {"error": ""})
    assert result.first_line == 3
    assert "page.py:3:  x.sum().backward()" in result.error


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_sources_that_a_page_shows(page):
    """`literalinclude` names a function by its name, so that its lines are always the real ones."""
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r"```\{literalinclude\} (\S+)\n(?::.*\n)*?:pyobject: (\S+)", text)
    assert len(shown) == text.count("```{literalinclude}")
    for path, name in shown:
        body = ast.parse((page.parent / path).read_text(encoding="utf-8")).body
        for part in name.split("."):
            found = [n for n in body if getattr(n, "name", "") == part]
            assert found, f"{path} has no {name}"
            body = found[0].body


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=page_name)
def test_links_to_places(page):
    if page.is_relative_to(reference.HERE):
        return
    for path, place in LINK.findall(page.read_text(encoding="utf-8")):
        if "reference" in path or path.startswith("http"):
            continue
        target = (page.parent / path) if path else page
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.M)
        assert place in {slug(h) for h in headings}, f"{page_name(page)}: {path}#{place}"


def test_every_chinese_page_has_an_english_one():
    for page in (DOCS / "zh").rglob("*.md"):
        assert (DOCS / page.relative_to(DOCS / "zh")).exists()


def test_the_tutorial_is_there_in_both_languages():
    for page in [
        DOCS / "index.md",
        DOCS / "start.md",
        DOCS / "microgpt.md",
        *(DOCS / "learn").glob("*.md"),
    ]:
        other = DOCS / "zh" / page.relative_to(DOCS)
        own = pages.blocks(page.read_text(encoding="utf-8"))
        theirs = pages.blocks(other.read_text(encoding="utf-8"))
        assert [o for _, o in own] == [o for _, o in theirs]
        strip = [(re.sub(r"\s*#.*", "", a), re.sub(r"\s*#.*", "", b))
                 for (a, _), (b, _) in zip(own, theirs, strict=True)]  # fmt: skip
        assert all(a == b for a, b in strip)


def test_the_reference_has_every_public_name():
    made = reference_examples.pages()
    text = "\n".join(page for page, _ in made.values())
    named = {name for name, _ in reference_examples.entries(text)}
    spaces = "nn nn.functional optim linalg func diagnose distributions jit multiprocessing"
    for space in [*spaces.split(), "distributed"]:
        module = sys.modules[f"tapegrad.{space}"]
        for name in reference.public(module):
            if callable(getattr(module, name)) and not inspect.ismodule(getattr(module, name)):
                assert f"torch.{space}.{name}" in named
    for name in dir(tapegrad.Tensor):
        assert name.startswith("_") or f"torch.Tensor.{name}" in named | reference.OURS
    assert {
        "torch.matmul",
        "torch.nn.Module.state_dict",
        "torch.nn.Module.register_forward_hook",
    } <= named
    assert "torch.Tensor.clamp_(min=None, max=None)\nIn place: " in text
    assert "torch.clamp_(input, min=None, max=None)\nIn place: " in text
    conv = text.split("{py:class} torch.nn.Conv2d(")[1].split("`````")[0]
    assert "`in_channels`: " in conv and "(2, 3, 16, 16) → (2, 8, 16, 16)" in conv
    assert conv.count("`in_channels`: ") == 1 and "**Shape**: (N, in\\_channels, H, W)" in conv


def test_most_arguments_are_explained():
    """Four of five entries say something of each of their arguments."""
    silent = []
    for name, part in reference_examples.every_entry():
        head = part.partition("\n")[0]
        taken = re.findall(r"[(,] ?\**(\w+)(?==|, |\)$)", head) if "(" in head else []
        told = set(re.findall(r"`(\w+)`[:,]", part.partition("**Arguments**")[2]))
        if set(taken) - told - {"args", "kwargs"}:
            silent.append(name)
    assert len(silent) < 0.2 * len(reference_examples.every_entry())
    assert not {"torch.Tensor.backward", "torch.addmm", "torch.nn.Linear"} & set(silent)
    assert "=..." not in "".join(p.partition("\n")[0] for _, p in reference_examples.every_entry())


def test_signatures_say_how_it_is_called():
    """`(*args, **kwargs)` only where arguments are handed on, or accepted and not used."""
    heads = [part.partition("\n")[0] for _, part in reference_examples.every_entry()]
    vague = [head for head in heads if re.search(r"\((self, )?\*args(, \*\*kwargs)?\)$", head)]
    assert not [head for head in vague if re.search(r"(einsum|LSTM|GRU|RNN|to|device)\(", head)]
    assert len(vague) < 25 and not [h for h in heads if "(self" in h and ".eig(" not in h]


def test_every_name_gets_a_page_of_its_own(tmp_path):
    """What the site does to a rendered part of the reference: see docs/_ext/name_pages.py."""
    folder = tmp_path / "reference"
    folder.mkdir()
    entry = """<dl class="py function">
<dt class="sig sig-object py" id="{0}">{0}(x)<a class="headerlink" href="#{0}">¶</a></dt>
<dd><p>About {0}. More.</p><dl><dt>a</dt></dl><a href="#torch.t">t</a></dd></dl>"""
    body = "".join(map(entry.format, ["torch.T", "torch.t", "torch.exp"]))
    (folder / "part.html").write_text(
        "<title>torch: Part - tapegrad</title><nav>menu</nav>"
        f'<article role="main" id="x"><section><h1>torch: Part<a class="headerlink" '
        f'href="#x">¶</a></h1>{body}</section></article>'
    )
    (tmp_path / "page.html").write_text('<a href="reference/part.html#torch.exp">exp</a>')
    name_pages.rewrite_links(tmp_path, name_pages.move_entries(folder))
    part = (folder / "part.html").read_text()
    assert re.findall(r'<tr class="name" id="([\w.]+)"', part) == [
        "torch.T",
        "torch.t",
        "torch.exp",
    ]
    assert "<dl" not in part and "<td>About torch.exp</td>" in part
    files = {path.name for path in folder.glob("torch.*")}
    assert len({name.lower() for name in files}) == 3
    exp = (folder / "torch.exp.html").read_text()
    assert "<nav>menu</nav>" in exp and "<title>torch.exp - tapegrad</title>" in exp
    assert exp.count("<dl") == 2 and "About torch.t" not in exp
    assert (tmp_path / "page.html").read_text() == '<a href="reference/torch.exp.html">exp</a>'
    assert check_links.broken(tmp_path) == [
        "reference/" + f + " -> index.html" for f in sorted(files)
    ]


def test_every_row_of_the_benchmarks_is_drawn():
    text = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    found = benchmark_picture.rows(text)
    assert len(found) == len(re.findall(r"^\| (?!workload)", text, re.M))
    drawn = benchmark_picture.picture(found)
    assert drawn.count("<rect") == len(found) and found[0][0] in drawn


# Shown by what makes one: nobody writes the class itself.
MADE_BY_OTHERS = {
    "torch.Tensor": "tensor(",
    "torch.distributions.Distribution": "distributions.Normal(",
    "torch.distributions.Transform": "distributions.ExpTransform(",
    "torch.nn.utils.rnn.PackedSequence": "pack_sequence(",
}


def test_every_entry_has_an_example_of_itself():
    found = reference_examples.every_entry()
    assert len(found) > 2480
    without = [
        name
        for name, part in found
        if not examples.shows(name, reference_examples.example(part))
        and MADE_BY_OTHERS.get(name, "?") not in reference_examples.example(part)
    ]
    assert without == []
    silent = [name for name, part in found if not part.partition("\n")[2].split("\n")[0].strip()]
    assert silent == []  # each says in a line what it is
    assert examples.written().keys() - {name for name, _ in found} == set()


def test_the_examples_of_the_reference_run():
    found = reference_examples.every_entry()
    wrong, count = reference_examples.failures(
        [(name, part) for name, part in found if reference_examples.can_run(part)]
    )
    assert not wrong, "".join(wrong.values())
    assert count > 3950


def test_an_example_that_is_wrong_is_noticed():
    wrong = (
        "`````{py:function} torch.exp(input)\n```pycon\n>>> exp(tensor([0.0]))\ntensor([2.])\n```"
    )
    found, count = reference_examples.failures(reference_examples.entries(wrong))
    assert count == 1 and "Got:\n    tensor([1.])" in found["torch.exp"]


@pytest.mark.parametrize(
    ("name", "turned"),
    [
        ("torch.Tensor.exp", ">>> tensor([0.0]).exp()\ntensor([1.])"),
        (
            "torch.Tensor.exp_",
            ">>> x = tensor([0.0])\n>>> x.exp_()\ntensor([1.])\n>>> x\ntensor([1.])",
        ),
        ("torch.exp_", ">>> x = tensor([0.0])\n>>> exp_(x)\ntensor([1.])\n>>> x\ntensor([1.])"),
        ("torch.power_of_e", ">>> power_of_e(tensor([0.0]))\ntensor([1.])"),
    ],
)
def test_the_example_of_a_function_is_turned_round(name, turned):
    assert examples.turned_round(name, {"exp"}, ">>> exp(tensor([0.0]))\ntensor([1.])") == turned


def test_operators_and_further_arguments_are_turned_round():
    operator = ">>> -eye(1) * tensor([1.0])\ntensor([-1.])"
    turned = examples.turned_round("torch.Tensor.mul", {"mul"}, operator)
    assert turned == ">>> (-eye(1)).mul(tensor([1.0]))\ntensor([-1.])"
    given = ">>> clamp(tensor([2.0]), -1, max=1).shape\ntorch.Size([1])"
    assert examples.turned_round("torch.Tensor.clip", {"clamp"}, given).startswith(
        ">>> tensor([2.0]).clip(-1, max=1).shape\n"
    )
    assert examples.turned_round("torch.Tensor.clamp_", {"clamp"}, given) is None


def test_the_chinese_menu_has_no_page_twice():
    menu = """<p class="caption" role="heading"><span class="caption-text">Learn</span></p>
<ul>
<li class="toctree-l1"><a class="reference internal" href="../start.html">Start</a></li>
<li class="toctree-l1"><a class="reference internal" href="../learn/index.html">Autograd</a><ul>
<li class="toctree-l2"><a class="reference internal" href="../learn/gradients.html">G</a></li>
</ul>
</li>
<li class="toctree-l1"><a class="reference internal" href="../engine.html">Engine</a></li>
</ul>
<p class="caption" role="heading"><span class="caption-text">中文</span></p>
<ul class="current">
<li class="toctree-l1 current"><a class="current reference internal" href="#">中文首页</a></li>
</ul>
"""
    left = pages.only_english(menu, {"zh/start", "zh/learn/index", "zh/index"})
    assert re.findall(r'href="([^"]*)"', left) == ["../engine.html"]
    assert left.count("<ul") == left.count("</ul>") == left.count("caption-text") == 1


def test_every_page_of_the_menu_has_a_chinese_name():
    text = (DOCS / "_ext" / "two_languages.py").read_text(encoding="utf-8")
    menu = ast.literal_eval(re.search(r"^MENU = (\{.*?^\})", text, re.M | re.S)[1])
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for caption, body in re.findall(r"```\{toctree\}\n:caption: (.*)\n:hidden:\n\n([^`]*)", index):
        if not re.search(r"[\u4e00-\u9fff]", caption):
            assert caption in menu
            for line in body.split("\n"):
                named = re.match(r"(.*) <.*>$", line)
                if line and not named:
                    page = DOCS / f"{line}.md"
                    if line == "reference/index":
                        continue
                    page = page if page.exists() else DOCS / line / "README.md"
                    named = re.search(r"^# (.*)$", page.read_text(encoding="utf-8"), re.M)
                if line:
                    assert named[1].strip() in menu, named[1]
