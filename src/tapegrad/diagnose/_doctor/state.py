"""The doctor's records of parameters, models and optimizers; they keep none of them alive."""

from __future__ import annotations

import weakref
from typing import Any

from ...errors.evidence import Place
from .report import Report
from .values import line_of_attribute, modules_held
from .watch import ForwardCall, Spot, StepCall


class Known:
    """A parameter."""

    def __init__(self, p: Any) -> None:
        self.ref = weakref.ref(p)
        self.shape: tuple[int, ...] = ()
        self.name: str | None = None
        self.line: Place | None = None  # where its layer is made
        self.made: Spot = None  # where its optimizer was
        self.owned = False  # a module that the user holds, or that ran, has it
        self.optimized = False
        self.wanted = False  # requires a gradient
        self.gradients = 0  # how often backward reached it
        self.reached_at = 0  # the last backward that did
        self.stepped_at = 0  # the last backward before its optimizer's last step
        self.steps = 0  # of its optimizer
        self.missed = 0  # steps in a row without a new gradient
        self.hidden = False  # D09 tells more about it
        self.version = -1  # of its memory, when it was last looked at
        self.written = False  # by hand


class Patient:
    """Everything the checks of one doctor share."""

    def __init__(self) -> None:
        self.report = Report()
        self.parameters: dict[int, Known] = {}
        self.past: list[Known] = []  # whose place in memory somebody else has taken
        self.made: weakref.WeakKeyDictionary[Any, Spot] = weakref.WeakKeyDictionary()
        self.roots: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.step = 0  # steps so far, of all optimizers
        self.backward = 0  # calls of backward so far
        self.last_step_line: Spot = None

    def known(self, p: Any) -> Known:
        found = self.parameters.get(id(p))
        if found is None or found.ref() is not p:
            if found is not None and (found.optimized or found.owned):
                self.past.append(found)
            found = self.parameters[id(p)] = Known(p)
        found.shape = p._array.shape  # that of a lazy layer's parameter changes once
        return found

    def all_known(self) -> list[Known]:
        """The parameters that have been seen, gone or not."""
        return [*self.past, *self.parameters.values()]

    def name(self, p: Any) -> str:
        """The name of a parameter in messages."""
        known = self.known(p)
        return known.name or f"a parameter of shape {known.shape}"

    def module_name(self, module: Any) -> str:
        return self.names.get(module) or type(module).__name__

    # ------------------------------------------------------------------ looking around

    def saw_root(self, call: ForwardCall) -> None:
        """Remember a model that was called by itself."""
        if any(True for _ in call.module.parameters()):
            self.roots[call.module] = self.step

    def survey(self, call: StepCall) -> list[tuple[str, Any]]:
        """Learn names and owners of all parameters in sight; the models with their names."""
        for p in call.parameters:
            known = self.known(p)
            known.optimized = True
            known.wanted = p.requires_grad
            known.made = self.made.get(call.optimizer)
            known.owned = False
        held = modules_held()
        for module in list(self.roots):
            held.setdefault(id(module), (type(module).__name__, module))
        models = [(name, m) for name, m in held.values() if "_parameters" in vars(m)]
        # The model that has most knows its parameters by the longest path.
        models.sort(key=lambda pair: -sum(1 for _ in pair[1].modules()))
        for name, model in models:
            self.learn_names(name, model)
        return models

    def learn_names(self, name: str, model: Any) -> None:
        for path, module in model.named_modules():
            self.names.setdefault(module, f"{name}.{path}" if path else name)
            for key, p in module._parameters.items():
                if p is None:
                    continue
                known = self.known(p)
                known.owned = True
                known.wanted = p.requires_grad
                if known.name is None:
                    full = f"{path}.{key}" if path else key
                    known.name = f"{name}.{full}"
                    known.line = line_on_the_way(model, full.split("."))


def line_on_the_way(model: Any, path: list[str]) -> Place | None:
    """The user's line nearest to a parameter: where an attribute on the way to it is assigned."""
    line, owner = None, model
    for part in path:
        line = line_of_attribute(owner, part) or line
        owner = getattr(owner, part, None)
        if owner is None:
            break
    return line
