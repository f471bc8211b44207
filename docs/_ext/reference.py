"""The reference: a page per part of the library, made from signatures, docstrings and blocks.

Every example in a docstring is run by the tests, so that what stands here is what it prints. The
pages are written to docs/reference when the site is built and are not kept in the repository.
"""

from __future__ import annotations

import ast
import datetime
import enum
import functools
import importlib
import inspect
import pathlib
import re
import sys
import types
import warnings
from collections.abc import Iterable
from typing import Any

from arguments import HERE as OWN_MEANING
from arguments import MEANING
from examples import MARKS, example_of, said
from python_signatures import own_signature

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "docs" / "reference"

# The parts, in the order of the index: where the names are, and what the part is about.
SPACES = {
    "nn": "layers, losses, containers",
    "nn.functional": "the same as functions",
    "nn.init": "how weights begin",
    "nn.utils": "clipping, norms of weights, parameters as one vector",
    "nn.utils.rnn": "sequences of different lengths",
    "nn.utils.parametrize": "parameters computed from others",
    "nn.utils.parametrizations": "orthogonal weights, norms",
    "nn.utils.stateless": "a module called with other parameters",
    "nn.utils.prune": "weights switched off",
    "nn.attention": "which kernel attention takes",
    "nn.attention.flex_attention": "attention with scores and masks of your own",
    "optim": "optimizers",
    "optim.extra": "optimizers that PyTorch does not have",
    "optim.lr_scheduler": "learning rates over time",
    "optim.swa_utils": "averages of weights",
    "utils.data": "data sets, samplers, loaders",
    "utils.benchmark": "how long small pieces of code take",
    "utils.checkpoint": "memory for time",
    "utils.dlpack": "memory shared with other libraries",
    "utils.progress": "a progress bar",
    "autograd": "backward, grad, Function, modes",
    "autograd.functional": "Jacobians and Hessians of functions",
    "autograd.forward_ad": "forward mode",
    "autograd.graph": "nodes, hooks on saved tensors",
    "func": "vmap, grad, jacrev and the rest, in any nesting",
    "diagnose": "tools that say why",
    "linalg": "linear algebra",
    "fft": "Fourier transforms",
    "special": "special functions",
    "signal.windows": "windows",
    "masked": "reductions that leave elements out",
    "sparse": "sparse tensors",
    "distributions": "random variables",
    "distributions.constraints": "the sets that values are in",
    "quasirandom": "points that fill space evenly",
    "amp": "mixed precision",
    "accelerator": "the device, whatever it is",
    "cpu": "what is asked about GPUs, of the CPU",
    "cuda": "GPUs",
    "cuda.graphs": "steps recorded once and started with one call",
    "cuda.nvtx": "marks for NVIDIA's profilers",
    "random": "seeds and generators",
    "compiler": "compiled steps",
    "export": "a module as a graph of ops",
    "fx": "a module as a graph of calls, to edit",
    "futures": "results that come later",
    "hub": "models of a folder, files of a URL",
    "jit": "TorchScript's names, for programs that use them",
    "library": "operators of your own",
    "distributed": "processes that compute together",
    "multiprocessing": "processes that share tensors",
    "onnx": "models as ONNX graphs",
    "overrides": "tensor subclasses and modes",
    "serialization": "save and load",
    "profiler": "where time goes",
    "testing": "comparing tensors",
    "datasets": "data that ships with the package",
}  # fmt: skip
INTERNAL = {"run"}  # parameters that are no part of a signature
# Names that can be reached and are for the library itself.
OURS = {
    f"torch.{name}"
    for name in """
    Any legacy_tensor nn.utils.prune.channel_mask nn.utils.prune.how_many
    nn.utils.prune.not_pruned nn.utils.prune.take_hook random.forked Tensor.array Tensor.cell
    Tensor.cut Tensor.gradient Tensor.names Tensor.node Tensor.retained Tensor.slot Tensor.special
    Tensor.version_cell Tensor.view_of Tensor.wants_grad
    """.split()
}


def signature(value: Any) -> inspect.Signature | None:
    """The signature as users see it: without annotations of ours and internal parameters."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    kept = [
        p.replace(annotation=p.empty)
        for p in found.parameters.values()
        if p.name not in INTERNAL and (p.name == "_" or not p.name.startswith("_"))
    ]
    try:
        return found.replace(parameters=kept, return_annotation=inspect.Signature.empty)
    except ValueError:
        return None


def default_text(value: Any) -> str:
    """A default as it would be typed; "" of an argument that has none but says so late."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__.replace('RedOpType', 'ReduceOp')}.{value.name}"
    if isinstance(value, (bool, int, float, str, list, dict, type(None), type(NotImplemented))):
        return repr(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(default_text, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, datetime.timedelta):
        return f"timedelta(seconds={value.total_seconds():g})"
    if callable(value) or isinstance(value, types.ModuleType):
        return str(getattr(value, "__name__", "..."))
    if type(value) is object:
        return ""
    if type(value).__name__ == "Generator":
        return "default_generator"
    text = str(value)  # of a sum over all dimensions it is "..."
    return "<all>" if text == "..." else text if re.fullmatch(r"torch\.\w+", text) else "..."


def signature_text(found: inspect.Signature) -> str:
    parts, star, slash = [], False, False
    for p in found.parameters.values():
        if slash and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
            slash = False
        if p.kind is p.POSITIONAL_ONLY:
            slash = True
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        if p.kind is p.VAR_POSITIONAL:
            star = True
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else default_text(p.default)
        given = f"={default}" if default else ""
        parts.append(f"{mark}{p.name}{given}")
    return "(" + ", ".join(parts + ["/"] * slash) + ")"


def split_doc(doc: str) -> tuple[str, list[str]]:
    """The prose of a docstring and its examples."""
    prose, examples = [], []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(doc)):
        (examples if paragraph.lstrip().startswith(">>>") else prose).append(paragraph)
    return "\n\n".join(prose), [re.sub(r"[ ]*# doctest:.*", "", e) for e in examples]


def as_prose(text: str) -> str:
    """Docstrings are plain text: what Markdown would take for its own is escaped."""
    # The signature stands above already.
    told = re.match(r"(In-place )?(?:version of `\w+`\.\s+)?[\w.]+\(.*?\) -> .*?: (.*)", text, re.S)
    text = ("in place: " if told[1] else "") + told[2] if told else text
    text = escaped(text)
    return text[:1].upper() + text[1:]


def escaped(text: str) -> str:
    text = re.sub(r"``(.+?)``", r"`\1`", text)
    pieces = re.split(r"(`[^`]*`)", text)
    pieces[::2] = [re.sub(r"([*_<\[\]$\\|#])", r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)


SECTION = re.compile(r"^(Args|Shape):\n((?:[ ]+.*(?:\n|$))+)", re.M)


def sections(prose: str) -> tuple[str, list[str], str]:
    """The prose without its sections; what it says of arguments, as a list; of shapes."""
    found = {name: inspect.cleandoc(body) for name, body in SECTION.findall(prose)}
    told = []
    for part in re.split(r"\n(?! )", found.get("Args", "")):
        names, colon, meaning = " ".join(part.split()).partition(": ")
        if colon:
            spelled = ", ".join(f"`{name}`" for name in names.split(", "))
            told.append(f"- {spelled}: {escaped(meaning)}")
    return SECTION.sub("", prose).strip(), told, " ".join(found.get("Shape", "").split())


def arguments(function: str, names: Iterable[str]) -> list[str]:
    last, lines = function.rpartition(".")[2], []
    for name in names:
        meaning = OWN_MEANING.get(f"{last}.{name}") or MEANING.get(name)
        if meaning:
            lines.append(f"- `{name}`: {meaning}")
    return lines


@functools.cache
def lines_of(file: str) -> dict[str, int]:
    """The first line of every class and function in a file, by its dotted name."""
    found: dict[str, int] = {}

    def walk(body: list[ast.stmt], inside: str) -> None:
        for node in body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                found.setdefault(inside + node.name, node.lineno)
                walk(node.body, f"{inside}{node.name}.")
            elif isinstance(node, (ast.If, ast.With, ast.Try)):
                walk(node.body, inside)

    walk(ast.parse(pathlib.Path(file).read_text(encoding="utf-8")).body, "")
    return found


@functools.cache
def blocks_of(file: str) -> dict[str, int]:
    """The first line of every block in a file of ops, by the name that it publishes."""
    found: dict[str, int] = {}
    for node in ast.parse(pathlib.Path(file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            said = [
                line.value.value
                for line in node.body
                if isinstance(line, ast.Assign)
                and isinstance(line.value, ast.Constant)
                and [getattr(target, "id", "") for target in line.targets] == ["name"]
            ]
            snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.name).lower()
            for name in [*said, node.name.lower(), snake]:
                found.setdefault(str(name), node.lineno)
    return found


def place_of(name: str, value: Any) -> tuple[str, int]:
    """The file and the line that define something; ("", 0) where they cannot be found."""
    from tapegrad.ops.block.definition import APIS

    space, _, last = name.rpartition(".")
    api = APIS.get(name.removeprefix("torch.")) or APIS.get(last) or APIS.get(last.rstrip("_"))
    if not inspect.isclass(value) and api is not None and space in HOMES_OF_OPS:
        first = api.doc.partition("(")[0]  # of a second name, the first one
        for owner in (api, APIS.get(first), APIS.get(api.name.rpartition(".")[2])):
            home = "" if owner is None else sys.modules[owner.home].__file__ or ""
            if home and (line := blocks_of(home).get(owner.name)):
                return home, line  # the block; its call may be the machinery's
        value = api.call
    value = getattr(value, "fget", None) or inspect.unwrap(value)
    if not inspect.isclass(value):
        value = value if hasattr(value, "__code__") else type(value)
    if not inspect.isclass(value):
        return value.__code__.co_filename, value.__code__.co_firstlineno
    files = [getattr(sys.modules.get(value.__module__), "__file__", None) or ""]
    # A class may say that it is at home where it is published: its methods know better.
    files += [f.__code__.co_filename for f in vars(value).values() if inspect.isfunction(f)]
    for file in files:
        if file.endswith(".py") and pathlib.Path(file).exists():
            if line := lines_of(file).get(value.__qualname__, 0):
                return file, line
    return "", 0


def source_link(name: str, value: Any) -> list[str]:
    """A link to the lines that define something; nothing where they cannot be found."""
    file, line = place_of(name, value)
    path = pathlib.Path(file)
    if not line or not path.is_relative_to(ROOT / "src"):
        return []
    where = path.relative_to(ROOT).as_posix()
    return [f"[\\[source\\]]({SOURCE}/{where}#L{line}){{.source}}", ""]


SOURCE = "https://github.com/tapegrad/tapegrad/blob/main"
HOMES_OF_OPS = (
    "torch",
    "torch.Tensor",
    *(f"torch.{n}" for n in "nn.functional linalg fft special".split()),
)


def written_out(name: str, value: Any) -> inspect.Signature | None:
    """What something takes, as its block says it; of a method, without the tensor itself."""
    from tapegrad.ops.block.definition import APIS

    found = signature(value)
    space, _, last = name.rpartition(".")
    if found is None or space not in ("torch", "torch.Tensor"):
        return found
    api = APIS.get(last) or APIS.get(last.removesuffix("_"))
    if api is not None and "args" in found.parameters:
        found = signature(api.call) or found
    first, *others = found.parameters.values() or [None]
    if space == "torch" or first is None or first.kind is first.VAR_POSITIONAL:
        return found
    return found.replace(parameters=others)


def entry(kind: str, name: str, value: Any, more: list[str]) -> str:
    """One name of the reference."""
    found = written_out(name, value)
    if kind == "method" and found is not None and next(iter(found.parameters), "") == "self":
        found = found.replace(parameters=[*found.parameters.values()][1:])
    if inspect.isclass(value) and issubclass(value, (enum.Enum, BaseException)):
        found = None  # nobody makes one by calling it
    doc = inspect.getdoc(value) or ""
    if inspect.isclass(value) and value.__doc__ is None:
        doc = ""
    prose, examples = split_doc(doc)
    prose = said(name) or prose
    if not examples and name.startswith("torch.diagnose."):  # the files of diagnose have them
        home = getattr(value, "__module__", None) or type(value).__module__
        examples = split_doc(sys.modules[home].__doc__ or "")[1][:1]
    examples = example_of(name, doc, examples)
    prose, told, shape = sections(prose)
    shown = signature_text(found) if found is not None and kind != "data" else ""
    names: Iterable[str] = found.parameters if found is not None else ()
    shown, names = own_signature(name) or (shown, names)
    lines = [f"`````{{py:{kind}}} {name}{shown}", as_prose(prose), "", *source_link(name, value)]
    # Those that the docstring leaves out, because they mean the same everywhere.
    spoken = {word for line in told for word in re.findall(r"`(\w+)`(?=[,:])", line)}
    told += [line for line in arguments(name, names) if line[3:].partition("`")[0] not in spoken]
    if shape:
        more = [f"**Shape**: {as_prose(shape).replace('->', '→')}", "", *more]
    if told:
        lines += ["**Arguments**", "", *told, ""]
    lines += more
    for example in examples:
        for mark in MARKS.values():
            if example.startswith(mark):
                lines += [mark, ""]
                example = example.removeprefix(mark)
        lines += ["```pycon", inspect.cleandoc(example).strip(), "```", ""]
    return "\n".join([*lines, "`````", ""])


def of_op(name: str) -> list[str]:
    """What the block says about derivatives."""
    from tapegrad.core.op import REGISTRY
    from tapegrad.diagnose.formulas import rule_text

    op = REGISTRY.get(name)
    if op is None or not op.differentiable:
        return []
    rules = [rule_text(op, i) for i in range(1 if op.variadic else len(op.tensors))]
    told = [f"- `{rule}`" for rule in rules if rule]
    return [f"**Gradient** (`{op.node_name}`)", "", *told, ""] if told else []


def shapes_of(value: Any, doc: str) -> list[str]:
    """What a layer makes of an input: the layer of its own example, tried."""
    import tapegrad as torch

    if not (inspect.isclass(value) and issubclass(value, torch.nn.Module)):
        return []
    scope = {"nn": torch.nn, "torch": torch, "tapegrad": torch, **vars(torch)}
    made = re.search(r">>> (?:\w+ = )?(nn\.\w+\(.*\))$", doc, re.M)
    source = made[1] if made else f"nn.{value.__name__}()"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            layer = eval(source, scope)
        if type(layer) is not value:
            return []
    except Exception:
        return []
    width = next(
        (
            getattr(layer, n)
            for n in ("in_features", "in_channels", "num_features", "num_channels", "input_size")
            if isinstance(getattr(layer, n, None), int)
        ),
        4,
    )
    last = tuple(getattr(layer, "normalized_shape", ()) or ())
    candidates = [(2, width), (2, width, 16), (2, width, 16, 16), (2, width, 16, 16, 16)]
    wanted = re.search(r"([123])d$", value.__name__)
    if wanted:
        candidates = candidates[int(wanted[1]) :]
    if "in_features" in vars(layer) or last:
        candidates = [(2, *last)] if last else [(2, width)]
    for shape in candidates:
        for arguments in ((torch.rand(shape),), (torch.rand(shape), torch.rand(shape))):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    made = layer(*arguments)
            except Exception:
                continue
            if isinstance(made, torch.Tensor):
                given = ", ".join(str(tuple(a.shape)) for a in arguments)
                return [f"With `{source}`: {given} → {tuple(made.shape)}", ""]
    return []


def alphabetical(name: str) -> tuple[str, str]:
    """`Stream` and `stream` side by side, always in the same order."""
    return name.lower(), name


def public(module: types.ModuleType) -> list[str]:
    names = getattr(module, "__all__", None) or [
        n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
    ]
    return sorted((n for n in set(names) if not n.startswith("_")), key=alphabetical)


def methods_of(name: str, value: type) -> list[str]:
    """The methods that a class has of ours, where they say something."""
    ours = [base for base in reversed(value.__mro__) if base.__module__.startswith("tapegrad")]
    found = {method: function for base in ours for method, function in vars(base).items()}
    made = []
    for method, function in found.items():
        plain = inspect.isfunction(function) and not method.startswith("_")
        if plain and (inspect.getdoc(function) or ""):
            made.append(entry("method", f"{name}.{method}", function, []))
    return made


def space_page(space: str, about: str) -> tuple[str, int]:
    module = importlib.import_module(f"tapegrad.{space}")
    made = []
    for name in public(module):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType) or not callable(value):
            continue
        if f"torch.{space}.{name}" in OURS:
            continue
        doc = inspect.getdoc(value) or ""
        more = shapes_of(value, doc)
        if space in ("nn.functional", "linalg", "fft", "special"):
            more += of_op(f"{space}.{name}") or (of_op(name) if space == "nn.functional" else [])
        kind = "class" if inspect.isclass(value) else "function"
        made.append(entry(kind, f"torch.{space}.{name}", value, more))
        if kind == "class" and name in ("Module", "Optimizer", "Dataset", "DataLoader", "Function"):
            made += methods_of(f"torch.{space}.{name}", value)
    return f"# torch.{space}\n\n{about[:1].upper() + about[1:]}.\n\n" + "\n".join(made), len(made)


def families() -> dict[str, list[str]]:
    """The functions of `torch` itself, by the folder of their blocks."""
    import tapegrad
    from tapegrad.api import publish
    from tapegrad.ops.block.definition import APIS

    for name in tapegrad._names():  # load everything, so that every block is known
        if not name.startswith("_"):
            try:
                getattr(tapegrad, name)
            except (AttributeError, ImportError, RuntimeError):
                continue
    publish.hand_out()
    found: dict[str, list[str]] = {}
    for name in sorted(set(tapegrad._names()), key=alphabetical):
        value = getattr(tapegrad, name, None)
        if name.startswith("_") or not callable(value) or isinstance(value, types.ModuleType):
            continue
        if f"torch.{name}" in OURS:
            continue
        if inspect.isclass(value) and name != value.__name__:
            continue
        home = APIS[name].home if name in APIS else ""
        parts = home.removeprefix("tapegrad.").removeprefix("ops.").split(".")
        found.setdefault(parts[0].strip("_") or "other", []).append(name)
    return found


TITLES = {
    "creation": "New tensors",
    "pointwise": "Element by element",
    "reduce": "Sums, means, sorting",
    "shape": "Shapes and views",
    "index": "Indexing",
    "linalg": "Matrices",
    "nn": "Layers as functions",
    "random": "Seeds and states of generators",
    "draws": "Random numbers",
    "fft": "Windows and spectra",
    "special": "Special functions",
    "api": "Exchange with other libraries",
    "other": "Types, modes and settings",
}


def torch_pages() -> dict[str, tuple[str, int]]:
    import tapegrad

    pages = {}
    for family, names in families().items():
        made = []
        for name in names:
            value = getattr(tapegrad, name)
            kind = "class" if inspect.isclass(value) else "function"
            made.append(entry(kind, f"torch.{name}", value, of_op(name)))
        title = TITLES.get(family, family.capitalize())
        pages[f"torch-{family}"] = (f"# torch: {title}\n\n" + "\n".join(made), len(made))
    return pages


def tensor_pages() -> dict[str, tuple[str, int]]:
    """Methods and attributes of tensors: a page for each family, and one that lists all."""
    import tapegrad
    from tapegrad.api.publish import load_everything
    from tapegrad.ops.block.definition import APIS

    load_everything()  # a method whose block is not loaded yet says nothing of itself
    made: dict[str, list[str]] = {}
    rows: list[str] = []
    for name in sorted(dir(tapegrad.Tensor), key=alphabetical):
        if name.startswith("_") or f"torch.Tensor.{name}" in OURS:
            continue
        value = inspect.getattr_static(tapegrad.Tensor, name)
        value = getattr(value, "__func__", value)
        kind = "method" if callable(value) else "data"
        api = APIS.get(name) or APIS.get(name.removesuffix("_"))
        home = "" if api is None else api.home.removeprefix("tapegrad.ops.").partition(".")[0]
        family = home if home in TENSOR_FAMILIES else "more" if kind == "method" else "attributes"
        text = entry(kind, f"torch.Tensor.{name}", value, [])
        made.setdefault(family, []).append(text)
        first = text.split("\n")[1].strip().split(". ")[0].rstrip(".")
        told = first.replace("|", r"\|") if "]" not in first else ""
        rows.append(f"| {{py:obj}}`{name} <torch.Tensor.{name}>` | {told} |")
    order = ["attributes", *TENSOR_FAMILIES, "more"]
    pages = {}
    head = [f"[{TENSOR_TITLES[f]}](Tensor-{f}.md)" for f in order if f in made]
    lines = [
        "# torch.Tensor",
        "",
        "Methods and attributes of tensors, by subject: " + ", ".join(head),
    ]
    lines += [". All of them:", "", "| Name | |", "|---|---|", *rows, ""]
    pages["Tensor"] = "\n".join(lines).replace("\n. All", ". All"), 0
    for family in order:
        if family in made:
            title = f"# torch.Tensor: {TENSOR_TITLES[family]}\n\n"
            pages[f"Tensor-{family}"] = title + "\n".join(made[family]), len(made[family])
    return pages


TENSOR_FAMILIES = (
    "creation",
    "pointwise",
    "reduce",
    "shape",
    "index",
    "products",
    "linalg",
    "special",
    "statistics",
    "draws",
    "nn",
)
TENSOR_TITLES = {
    "attributes": "attributes",
    "creation": "new tensors",
    "pointwise": "element by element",
    "reduce": "sums, means, sorting",
    "shape": "shapes and views",
    "index": "indexing",
    "products": "products",
    "linalg": "matrices",
    "special": "special functions",
    "statistics": "statistics",
    "draws": "random numbers",
    "nn": "activations",
    "more": "gradients, conversion, memory",
}


def all_pages() -> dict[str, tuple[str, int]]:
    """Every page of the reference: its text, and how many names it has."""
    pages = tensor_pages() | torch_pages()
    for space, about in SPACES.items():
        pages[space] = space_page(space, about)
    return pages


# Names that most readers know, to tell what a page is about.
FAMILIAR = """
    shape grad dtype device zeros ones arange tensor new_zeros randn rand randint normal_ dropout
    exp add where clamp abs relu softmax cross_entropy conv2d sum mean max sort cumsum reshape view
    permute cat stack squeeze chunk index_select gather scatter_ masked_fill matmul einsum mm bmm
    svd inverse det cholesky erf lgamma digamma median quantile histc bincount unique multinomial
    bernoulli backward detach to numpy clone copy_ fill_ repeat roll flip tril save load no_grad
    manual_seed set_num_threads fft view_copy expand_copy hann_window stft gradient cov corrcoef
""".split()


def familiar(text: str) -> str:
    """Four of the names that a page has, the best known."""
    here = re.findall(r"\{py:\w+\} torch\.(?:Tensor\.)?(\w+)", text)
    known = [name for name in FAMILIAR if name in here] or here
    return ", ".join([f"`{name}`" for name in known[:4]])


def index(pages: dict[str, tuple[str, int]]) -> str:
    lines = ["# Reference", ""]
    lines += [
        "Every public name, with its arguments, what the blocks say about its gradient, and an",
        "example that the tests run. Examples use the names of `torch` without `torch.`, as after",
        "`from tapegrad import *`. Names that PyTorch has and tapegrad lacks, with the reason, are",
        "in [parity](../parity.md#names).",
        "",
        "| Page | Names | About |",
        "|---|---|---|",
    ]
    for page, (text, count) in pages.items():
        title = text.partition("\n")[0].removeprefix("# ")
        about = SPACES.get(page) or familiar(text) or "the class itself"
        lines.append(f"| [{title}]({page}.md) | {count or ''} | {about} |")
    total = sum(count for _, count in pages.values())
    lines += ["", f"{total} names in all.", "", "```{toctree}", ":hidden:", "", *pages, "```", ""]
    return "\n".join(lines)


def write() -> int:
    """Write the pages that changed; how many names there are."""
    pages = all_pages()
    HERE.mkdir(exist_ok=True)
    texts = {f"{name}.md": text for name, (text, _) in pages.items()} | {"index.md": index(pages)}
    for path in HERE.glob("*.md"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        path = HERE / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return sum(count for _, count in pages.values())


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", lambda app: write())
    return {"version": "1", "parallel_read_safe": True}
