"""The lines that random programs are made of: views, writes, hooks, modes, backward passes.

A program is a list of Python lines about `torch` and the tensors v0, v1, … that earlier lines made.
`Writer.line` draws the next one, looking at the tensors that there are in PyTorch, so that
most lines fit; those that do not fit test the refusals.
"""

from __future__ import annotations

import random
import re
from typing import Any

# PyTorch puts the index tensors that it keeps through saved_tensors_hooks, tapegrad does not.
USES_INDEX = re.compile(
    r"\[\[|, \[0\]|\w\[v\d+ >|masked_fill|max\(|sort\(|prod\(|where|grad\(|backward\("
)
VARIABLE = re.compile(r"\bv\d+\b")

SHAPES = ["()", "(1,)", "(3,)", "(4,)", "(2, 3)", "(3, 1)", "(2, 2, 2)", "(0,)"]

# {t} and {u} are tensors, {a} and {b} small integers, {d} a dimension of {t}.
VIEWS = [
    "{t}.select({d}, {a})",
    "{t}.narrow({d}, {b}, 1)",
    "{t}[{a}]",
    "{t}[{b}:]",
    "{t}[..., :{b}]",
    "{t}[-2:, ...]",
    "{t}[::2]",
    "{t}[...]",
    "{t}[None]",
    "{t}.view(-1)",
    "{t}.view({b}, -1)",
    "{t}.reshape(-1)",
    "{t}.flatten()",
    "{t}.transpose({d}, -1)",
    "{t}.t()",
    "{t}.mT",
    "{t}.movedim({d}, 0)",
    "{t}.squeeze()",
    "{t}.squeeze({d})",
    "{t}.unsqueeze({d})",
    "{t}.expand(2, *{t}.shape)",
    "{t}.diagonal({a})",
    "{t}.unfold({d}, 2, 1)",
    "{t}.unfold({d}, 1, 1)",
    "{t}.as_strided({t}.shape[:1], {t}.stride()[:1])",
    "{t}.as_strided((2, 2), (1, 1))",
    "{t}.view_as({t})",
    "{t}.contiguous()",
    "{t}.real",
    "{t}.detach()",
    "{t}.data",
    "{t}.unflatten({d}, (1, -1))",
    "{t}.swapaxes(0, {d})",
    "{t}.view({t}.shape)",
]
SEVERAL_VIEWS = [
    "{t}.unbind({d})",
    "{t}.chunk(2, {d})",
    "{t}.split(1, {d})",
    "{t}.split([1, {b}], {d})",
    "torch.unbind({t})",
    "torch.tensor_split({t}, 2, {d})",
]
WRITES = [
    "{t}.add_({a})",
    "{t}.mul_(0.5)",
    "{t}.neg_()",
    "{t}.sin_()",
    "{t}.tanh_()",
    "{t}.sigmoid_()",
    "{t}.pow_(2)",
    "{t}.clamp_(-1.75, 1.75)",
    "{t}.fill_({b})",
    "{t}.zero_()",
    "{t}.mul_({t})",
    "{t}.div_(2)",
    "{t}.exp_()",
    "{t}.relu_()",
    "{t}.cumsum_({d})",
    "{t}.masked_fill_({t} > {a}, {b})",
    "{t}.detach_()",
    "{t}.t_()",
    "{t}.squeeze_()",
    "{t}.unsqueeze_({d})",
    "{t}.transpose_({d}, -1)",
    "{t}.data.mul_(2)",
    "{t}.detach().add_(1)",
    "{t}.requires_grad_()",
    "{t}.requires_grad_(False)",
    "{t}.requires_grad = True",
    "{t}.requires_grad = False",
    "{t} += 1",
    "{t} *= 2",
    "{t} **= 2",
    "{t}[...] += 1",
    "{t}[...] *= 2",
    "torch.relu_({t})",
    "torch.nn.init.ones_({t})",
]
# Views do not learn that their base changed in these ways without having been written to.
FOR_LOOSE_TENSORS = ("detach_()", "requires_grad", ".data =")
WRITES_OF_TWO = [
    "{t}.add_({u})",
    "{t}.sub_({u})",
    "{t}.mul_({u})",
    "{t}.div_({u})",
    "{t}.copy_({u})",
    "{t}.lerp_({u}, 0.5)",
    "{t}.addcmul_({u}, {u})",
    "{t}.data = {u}.data",
    "{t}.data = {u}",
    "{t}.sub_({u}, alpha=2)",
    "{t}.data.copy_({u})",
    "torch.add({u}, 1, out={t})",
    "{t}.grad = {u}",
    "{t}.grad = {u}.detach().clone()",
]
ASSIGNMENTS = [
    "{t}[{a}] = 0.25",
    "{t}[{b}:] = 0.5",
    "{t}[..., {a}] = 0.75",
    "{t}[[{a}, 0]] = -0.25",
    "{t}[{a}] = {t}[{a}] * 2",
    "{t}[{t} > {a}] = 0.125",
    "{t}[...] = 1.25",
    "{t}[0] = {u}",
    "{t}[-1:] = {u}",
    "{t}[...] = {u}",
    "{t}[None] = {u}",
    "{t}[[0]] = {u}",
    "{t}[0] += 1",
    "{t}[0] *= {t}[0]",
]
COMPUTATIONS = [
    "{t} * 2",
    "{t}.sin()",
    "{t}.tanh()",
    "{t}.clone()",
    "{t}.pow(3)",
    "{t} ** 2",
    "{t} ** 0",
    "{t}.abs().pow({t})",
    "{t}.sum()",
    "{t}.sum({d})",
    "{t}.mean()",
    "{t}.relu()",
    "{t}[[0, 0]]",
    "{t}[..., [0]]",
    "{t}[{t} > 0]",
    "{t}.exp()",
    "{t}.sigmoid()",
    "{t}.prod()",
    "{t}.abs()",
    "{t}.cumsum({d})",
    "{t}.max()",
    "{t}.max({d})[0]",
    "{t}.sort()[0]",
    "{t}.norm()",
    "{t}.softmax({d})",
    "{t}.double()",
    "{t}.float()",
    "{t}.to(torch.complex128)",
    "{t}.type_as({t})",
    "{t}.argmax()",
    "{t} > 0",
    "torch.zeros_like({t})",
    "torch.ones_like({t}, requires_grad=True)",
    "copy.deepcopy({t})",
    "copy.copy({t})",
    "{t}.new_ones(2)",
    "{t}.round()",
    "torch.tensor({t}.tolist(), requires_grad=True)",
]
OF_TWO = [
    "{t} + {u}",
    "{t} * {u}",
    "{t} - {u}",
    "{t} / {u}",
    "torch.maximum({t}, {u})",
    "torch.where({t} > 0, {t}, {u})",
    "torch.cat([{t}, {u}])",
    "torch.stack([{t}, {u}])",
    "{t} @ {u}",
    "torch.lerp({t}, {u}, 0.5)",
    "torch.outer({t}, {u})",
    "{t}.expand_as({u})",
]
FUNCTIONS = [
    "fn.Square.apply({t})",
    "fn.Exp.apply({t})",
    "fn.Product.apply({t}, {u})",
    "fn.Product.apply({t}, {u}, 3.0)",
    "fn.Dirty.apply({t})",
    "fn.Unsaid.apply({t})",
    "fn.ViewOut.apply({t})",
    "fn.ViewAs.apply({t})",
    "fn.Once.apply({t})",
    "fn.NoGradient.apply({t})",
    "fn.WrongShape.apply({t})",
]
FUNCTIONS_OF_TWO_OUTPUTS = [
    "fn.DirtyAndMore.apply({t}, {u})",
    "fn.TwoViews.apply({t})",
    "fn.Two.apply({t})",
    "fn.TwoUnmade.apply({t})",
    "fn.Marked.apply({t})",
]
# PyTorch crashes at hooks on a view whose history is out of date: looking at it helps.
HOOKS = [
    "{t}.grad_fn; {t}.register_hook(hook('{h}'))",
    "{t}.grad_fn; {t}.register_hook(hook('{h}', lambda g: g * 2))",
    "{t}.grad_fn; {t}.register_hook(hook('{h}', lambda g: None))",
    "{t}.grad_fn; {t}.register_hook(hook('{h}', lambda g: g.sum()))",
    "{t}.grad_fn; {t}.retain_grad()",
    "{t}.grad_fn; {t}.retain_grad()",
    "{t}.grad_fn.register_hook(hook('{h}'))",
    "{t}.grad_fn.register_prehook(hook('{h}'))",
    "{t}.grad_fn.register_hook(hook('{h}', lambda i, o: doubled(i)))",
    "{t}.grad_fn.register_prehook(hook('{h}', lambda o: doubled(o)))",
    "{t}.register_post_accumulate_grad_hook(hook('{h}'))",
    "{t}.register_post_accumulate_grad_hook(hook('{h}', lambda p: setattr(p, 'grad', None)))",
    "torch.autograd.graph.register_multi_grad_hook([{t}, {u}], hook('{h}'))",
    "torch.autograd.graph.register_multi_grad_hook([{t}, {u}], hook('{h}'), mode='any')",
    "{t}.grad_fn; h = {t}.register_hook(hook('{h}'))",
    "h.remove()",
    "{t}.grad_fn.next_functions[0][0].register_hook(hook('{h}'))",
]
LOOKS = [
    "show({t}.grad)",
    "show({t}.retains_grad)",
    "show({t}.grad_fn._saved_self)",
    "show({t}.grad_fn._saved_other)",
    "show({t}.grad_fn._saved_result)",
    "show({t}.is_inference())",
    "show({t}.numpy().shape)",
    "show({t}.tolist())",
    "show({t}.grad_fn(torch.ones_like({t})))",
    "show(torch.autograd.graph.get_gradient_edge({t}).output_nr)",
    "{t}.grad = None",
    "{t}.grad.zero_()",
    "{t}.grad.mul_(2)",
]
MODES = [
    "torch.no_grad()",
    "torch.no_grad()",
    "torch.no_grad()",
    "torch.inference_mode()",
    "torch.enable_grad()",
    "torch.set_grad_enabled(False)",
    "torch.autograd.graph.saved_tensors_hooks(pack('{h}'), unpack('{h}'))",
    "torch.autograd.graph.saved_tensors_hooks(pack('{h}'), unpack('{h}', lambda x: x * 2))",
    "torch.autograd.detect_anomaly()",
    "torch.autograd.detect_anomaly(check_nan=False)",
    "torch.autograd.graph.allow_mutation_on_saved_tensors()",
]
SWITCHES = ["torch.set_grad_enabled(False)", "torch.set_grad_enabled(True)"]
ROOTS = ["{t}.sum()", "{t}.sum()", "{t}", "({t} * {t}).sum()", "{t}.sum() + {u}.sum()"]


class Writer:
    """Draws lines; `rng` decides everything."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.made = 0
        self.hooks = 0

    def name(self) -> str:
        self.made += 1
        return f"v{self.made - 1}"

    def hook(self) -> str:
        self.hooks += 1
        return f"h{self.hooks}"

    def leaf(self) -> str:
        """A new tensor."""
        rng = self.rng
        shape = rng.choice(SHAPES)
        dtype = rng.choices(["float64", "complex128", "float32", "int64"], [30, 3, 2, 1])[0]
        start = rng.randrange(-3, 3)
        wants = ", requires_grad=True" if rng.random() < 0.7 else ""
        layout = ", True" if rng.random() < 0.2 else ""
        return f"{self.name()} = leaf({shape}, {start}, torch.{dtype}{layout}{wants})"

    def line(self, tensors: dict[str, Any]) -> str:
        """The next line of a program that has made `tensors` so far."""
        rng = self.rng
        kinds = {
            self.leaf_line: 5,
            self.view_line: 20,
            self.several_line: 5,
            self.write_line: 16,
            self.compute_line: 16,
            self.function_line: 6,
            self.hook_line: 8,
            self.look_line: 4,
            self.switch_line: 1,
            self.grad_line: 7,
            self.backward_line: 9,
        }
        if not tensors:
            return self.leaf()
        text: str = rng.choices(list(kinds), list(kinds.values()))[0](tensors)
        if rng.random() < 0.16:
            mode = rng.choice(MODES)
            if "anomaly" in mode and "batched" in text:
                mode = MODES[0]  # PyTorch's check for NaN does not work on batches
            if "saved_tensors" not in mode or not USES_INDEX.search(text):
                text = f"with {mode.format(h=self.hook())}: {text}"
        return text

    def filled(self, template: str, tensors: dict[str, Any]) -> str:
        """`template` about some of the tensors: recent ones more often, a second one that fits."""
        rng = self.rng
        if ".data" in template:
            tensors = {n: t for n, t in tensors.items() if not t.is_inference()} or tensors
        if "prod(" in template:
            tensors = {n: t for n, t in tensors.items() if t.numel() and t.dim()} or tensors
        names = list(tensors)
        t = names[-1 - int(len(names) * rng.random() ** 1.5)] if rng.random() < 0.7 else ""
        t = t or rng.choice(names)
        alike = [n for n in names if tensors[n].shape == tensors[t].shape]
        u = rng.choice(alike if rng.random() < 0.7 else names)
        rank = tensors[t].dim()
        d = rng.randrange(rank) if rank and rng.random() < 0.9 else rng.randrange(-2, 3)
        h = self.hook() if "{h}" in template else ""
        return template.format(t=t, u=u, d=d, a=rng.randrange(-2, 3), b=rng.randrange(0, 3), h=h)

    def leaf_line(self, tensors: dict[str, Any]) -> str:
        return self.leaf()

    def view_line(self, tensors: dict[str, Any]) -> str:
        text = self.filled(self.rng.choice(VIEWS), tensors)
        return f"{self.name()} = {text}"

    def several_line(self, tensors: dict[str, Any]) -> str:
        text = self.filled(self.rng.choice(SEVERAL_VIEWS), tensors)
        return f"{self.name()}, {self.name()}, *_ = {text}"

    def write_line(self, tensors: dict[str, Any]) -> str:
        family = self.rng.choices([WRITES, WRITES_OF_TWO, ASSIGNMENTS], [6, 3, 2])[0]
        template = self.rng.choice(family)
        if any(word in template for word in FOR_LOOSE_TENSORS):
            bases = {id(t._base) for t in tensors.values()}
            loose = {n: t for n, t in tensors.items() if t._base is None and id(t) not in bases}
            if not loose:
                return self.leaf()
            tensors = loose
        if ".data." in template:  # a saved result would differ, and formulas that use it
            tensors = {n: t for n, t in tensors.items() if is_leaf(t)} or tensors
        if "[[" in template:  # PyTorch does not look at indices with nothing to write
            tensors = {n: t for n, t in tensors.items() if t.numel()} or tensors
        if "cumsum_" in template:  # not where elements share memory
            tensors = {n: t for n, t in tensors.items() if t.is_contiguous()} or tensors
        if ".data =" in template or "out=" in template:
            return self.filled_alike(template, tensors)
        return self.filled(template, tensors)

    def filled_alike(self, template: str, tensors: dict[str, Any]) -> str:
        """`template` about a leaf and a tensor like it."""
        tensors = {n: t for n, t in tensors.items() if t.is_contiguous() and not t.is_inference()}
        leaves = [n for n in tensors if is_leaf(tensors[n])]
        if not leaves:
            return self.leaf()
        t = self.rng.choice(leaves)
        kind = tensors[t].shape, tensors[t].dtype, tensors[t].stride()
        alike = [n for n, u in tensors.items() if (u.shape, u.dtype, u.stride()) == kind]
        return template.format(t=t, u=self.rng.choice(alike))

    def compute_line(self, tensors: dict[str, Any]) -> str:
        family = self.rng.choices([COMPUTATIONS, OF_TWO], [2, 1])[0]
        text = self.filled(self.rng.choice(family), tensors)
        return f"{self.name()} = {self.packed(text, tensors)}"

    def packed(self, text: str, tensors: dict[str, Any]) -> str:
        """The layout of a result is compared where the operands lie in order."""
        used = VARIABLE.findall(text)
        return text if all(tensors[n].is_contiguous() for n in used) else f"packed({text})"

    def function_line(self, tensors: dict[str, Any]) -> str:
        if self.rng.random() < 0.7:
            text = self.filled(self.rng.choice(FUNCTIONS), tensors)
            if "Product" in text and any(tensors[n].is_complex() for n in VARIABLE.findall(text)):
                text = text.replace("Product.apply(", "Square.apply(").partition(",")[0].rstrip(")")
                text += ")"
            if "Product" in text:
                text = self.packed(text, tensors)
            return f"{self.name()} = {text}"
        text = self.filled(self.rng.choice(FUNCTIONS_OF_TWO_OUTPUTS), tensors)
        return f"{self.name()}, {self.name()} = {text}"

    def hook_line(self, tensors: dict[str, Any]) -> str:
        return self.filled(self.rng.choice(HOOKS), tensors)

    def look_line(self, tensors: dict[str, Any]) -> str:
        return self.filled(self.rng.choice(LOOKS), tensors)

    def switch_line(self, tensors: dict[str, Any]) -> str:
        return self.rng.choice(SWITCHES)

    def options(self, weights: dict[str, float]) -> str:
        rng = self.rng
        return "".join(f", {text}" for text, p in weights.items() if rng.random() < p)

    def root(self, tensors: dict[str, Any]) -> str:
        """Something to differentiate, and its gradient where it is no scalar."""
        wants = {n: t for n, t in tensors.items() if requires_grad(t)}
        use = wants if wants and self.rng.random() < 0.9 else tensors
        return self.filled(self.rng.choice(ROOTS), use)

    def inputs(self, tensors: dict[str, Any]) -> str:
        rng = self.rng
        wants = [n for n, t in tensors.items() if requires_grad(t)]
        names = wants if wants and rng.random() < 0.9 else list(tensors)
        leaves = [n for n in names if is_leaf(tensors[n])]
        if leaves and rng.random() < 0.6:
            names = leaves
        chosen = rng.sample(names, min(len(names), rng.randrange(1, 4)))
        return f"[{', '.join(chosen)}]"

    def grad_line(self, tensors: dict[str, Any]) -> str:
        rng = self.rng
        root, inputs = self.root(tensors), self.inputs(tensors)
        text = f"{root}, {inputs}"
        if rng.random() < 0.25:
            text = f"{root}, {inputs}, weights({root})"
        elif rng.random() < 0.08:
            text = f"{root}, {inputs}, torch.stack([weights({root})] * 2), is_grads_batched=True"
        text += self.options(
            {
                "retain_graph=True": 0.5,
                "create_graph=True": 0.3,
                "allow_unused=True": 0.8,
                "materialize_grads=True": 0.15,
            }
        )
        if rng.random() < 0.5:
            return f"{self.name()}, *_ = kept(torch.autograd.grad({text}))"
        return f"show(torch.autograd.grad({text}))"

    def backward_line(self, tensors: dict[str, Any]) -> str:
        rng = self.rng
        root = self.root(tensors)
        text = self.options({"retain_graph=True": 0.5, "create_graph=True": 0.1})
        if rng.random() < 0.25:
            text += f", inputs={self.inputs(tensors)}"
        if rng.random() < 0.3:
            return f"({root}).backward(weights({root}){text})"
        if rng.random() < 0.15:
            return f"torch.autograd.backward([{root}, {self.root(tensors)}]{text})"
        return f"({root}).backward({text[2:]})"


# ---------------------------------------------------------------------- about tensors


def requires_grad(t: Any) -> bool:
    """False also for a view that has become unusable: asking it for its history raises."""
    try:
        return bool(t.requires_grad)
    except RuntimeError:
        return False


def is_leaf(t: Any) -> bool:
    try:
        return bool(t.is_leaf)
    except RuntimeError:
        return False
