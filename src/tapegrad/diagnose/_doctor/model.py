"""Parameters and modules in the wrong place: no gradient, no optimizer, no owner (D06 to D09)."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from ...errors import evidence
from ...errors.calls import is_ours
from ...errors.evidence import Place
from .state import Known, Patient
from .values import line_of_attribute, named
from .watch import BackwardCall, ForwardCall, Listener, StepCall, place_of_spot

ENOUGH = 3  # steps after which a parameter should have had a gradient
RECENT = 10  # backward passes


class Parameters(Listener):
    """Looks around at some steps, and tells at the end what stayed wrong."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        # By name of a hidden module: the finding, and its parameters.
        self.hidden: dict[str, tuple[str, Place | None, str, list[Known]]] = {}

    def after_forward(self, call: ForwardCall) -> None:
        self.patient.saw_root(call)

    def before_backward(self, call: BackwardCall) -> None:
        self.patient.backward += 1
        self.patient.report.backwards += 1

    def after_backward(self, call: BackwardCall) -> None:
        for leaf in call.graph.leaves:
            known = self.patient.known(leaf.tensor())
            known.gradients += 1
            known.reached_at = self.patient.backward

    def before_step(self, call: StepCall) -> None:
        patient = self.patient
        patient.step += 1
        patient.report.steps += 1
        patient.last_step_line = call.where
        steps = self.steps[call.optimizer] = self.steps.get(call.optimizer, 0) + 1
        for p in call.parameters:
            self.count_step(p, steps)
        if looks_at(steps):
            for name, model in patient.survey(call):
                self.find_hidden(name, model)
            self.watch_for_writes()

    def count_step(self, p: Any, steps: int) -> None:
        known = self.patient.known(p)
        known.steps = steps
        by_hand = p._gradient is not None and known.reached_at == 0
        if by_hand:
            known.gradients += 1
        fresh = known.reached_at > known.stepped_at or by_hand
        known.missed = 0 if fresh else known.missed + 1
        known.stepped_at = self.patient.backward

    def watch_for_writes(self) -> None:
        """A parameter that no optimizer has may be updated by hand."""
        for known in self.patient.parameters.values():
            p = known.ref()
            if p is None:
                continue
            version = p._cell.n if p._cell is not None else 0
            if known.version not in (-1, version):
                known.written = True
            known.version = version

    # ------------------------------------------------------------------ D09

    def find_hidden(self, name: str, model: Any) -> None:
        registered = set(model.modules())
        for path, module in model.named_modules():
            if is_ours(type(module).__module__):
                continue
            for attribute, where, hidden in hidden_in(module):
                if hidden in registered:
                    continue
                full = ".".join(part for part in (name, path, where) if part)
                self.note_hidden(full, module, attribute, hidden)

    def note_hidden(self, full: str, owner: Any, attribute: str, hidden: Any) -> None:
        patient = self.patient
        lost = []
        for path, p in hidden.named_parameters():
            known = patient.known(p)
            known.name = known.name or f"{full}.{path}"
            if p.requires_grad and known.gradients and not known.optimized:
                known.hidden = True
                lost.append(known.name)
        if not lost:
            return
        kind = type(vars(owner)[attribute]).__name__
        cure = "nn.ModuleDict" if kind == "dict" else "nn.ModuleList"
        self.hidden[full] = (
            f"`{full}` ({type(hidden).__name__}) is in a plain {kind}: parameters(), to(), "
            f"train(), eval() and state_dict() of {type(owner).__name__} do not see it, and no "
            f"optimizer updates {named(lost, 2)}",
            line_of_attribute(owner, attribute),
            f"self.{attribute} = {cure}(...), before the optimizer is made",
            [patient.known(p) for p in hidden.parameters()],
        )

    # ------------------------------------------------------------------ at the end

    def finish(self) -> None:
        patient = self.patient
        if not patient.step:
            return
        step_line = place_of_spot(patient.last_step_line)
        for what, line, fix, members in self.hidden.values():
            if not any(known.optimized for known in members):
                patient.report.add("D09", what, line or step_line, fix)
        self.tell_orphans(step_line)
        self.tell_unused(step_line)
        self.tell_left_out(step_line)

    def tell_orphans(self, step_line: Place | None) -> None:
        """D08: in the optimizer, but in no module any more, and without gradients."""
        patient = self.patient
        orphans = [
            known
            for known in patient.all_known()
            if known.optimized and not known.owned and known.wanted and known.missed >= ENOUGH
        ]
        shapes_lost = {known.shape for known in orphans}
        newcomers = [
            known
            for known in self.left_out(any_model=True)
            if known.shape in shapes_lost or self.trained_with(known)
        ]
        if not orphans or not any(known.owned for known in patient.all_known()):
            return
        shapes = [str(o.shape) if o.name is None else f"{o.name} {o.shape}" for o in orphans]
        what = f"no module has the parameters {named(shapes)} of the optimizer, and they get no"
        what += " gradients"
        if newcomers:
            what += f"; the model has {named([n.name or '?' for n in newcomers])} instead, "
            what += "which no optimizer updates"
        where = next((n.line for n in newcomers if n.line is not None), None)
        made = next((place_of_spot(o.made) for o in orphans if o.made is not None), None)
        patient.report.add(
            "D08",
            what,
            made or where or step_line,
            "make the optimizer after the model has its final layers (and after loading, copying "
            "or replacing them)",
            ["optimizer.add_param_group({'params': new_layer.parameters()}) for a new layer"],
        )
        for known in orphans + newcomers:
            known.hidden = True

    def tell_unused(self, step_line: Place | None) -> None:
        """D06: in the optimizer, and never reached by backward."""
        patient = self.patient
        by_line: dict[Any, list[Known]] = {}
        for known in patient.all_known():
            if (
                known.optimized
                and known.wanted
                and not known.hidden
                and known.gradients == 0
                and known.steps >= ENOUGH
            ):
                key = None if known.line is None else (known.line["file"], known.line["line"])
                by_line.setdefault(key, []).append(known)
        for group in by_line.values():
            names = [k.name or f"a parameter of shape {k.shape}" for k in group]
            where = group[0].line or place_of_spot(group[0].made) or step_line
            patient.report.add(
                "D06",
                f"{named(names)}: no backward() reached {'it' if len(names) == 1 else 'them'} in "
                f"{patient.step} steps",
                where,
                "use the layer's output in the loss; look for detach(), .data, no_grad() or a "
                "layer that forward() forgets",
                ["if it is not to be trained: requires_grad_(False), and out of the optimizer"],
            )

    def left_out(self, any_model: bool = False) -> list[Known]:
        """Parameters with gradients that no optimizer updates, of models that are trained."""
        patient = self.patient
        recent = patient.backward - RECENT
        return [
            known
            for known in patient.all_known()
            if known.owned
            and not known.optimized
            and not known.hidden
            and not known.written
            and known.wanted
            and known.gradients >= 2
            and known.reached_at >= recent
            and (any_model or self.trained_with(known))
        ]

    def trained_with(self, known: Known) -> bool:
        """Whether an optimizer has other parameters of the same model."""
        model = (known.name or "").split(".")[0]
        return any(
            other.optimized and (other.name or "").split(".")[0] == model
            for other in self.patient.all_known()
        )

    def tell_left_out(self, step_line: Place | None) -> None:
        """D07."""
        by_line: dict[Any, list[Known]] = {}
        for known in self.left_out():
            key = None if known.line is None else (known.line["file"], known.line["line"])
            by_line.setdefault(key, []).append(known)
        for group in by_line.values():
            names = named([k.name or "?" for k in group])
            made = [k.made for k in self.patient.all_known() if k.made is not None]
            self.patient.report.add(
                "D07",
                f"{names}: backward() computes gradients for them, but no optimizer updates them",
                group[0].line or (place_of_spot(made[0]) if made else step_line),
                "give the optimizer all parameters: optim.SGD(model.parameters(), ...)",
                ["if they are to stay as they are: requires_grad_(False) saves the work"],
            )


def looks_at(step: int) -> bool:
    """The first steps, and then less and less often."""
    return step <= 4 or step % 50 == 0 or (step & (step - 1)) == 0


def hidden_in(module: Any) -> Iterator[tuple[str, str, Any]]:
    """(attribute, path, module) of modules in the plain containers that a module holds."""
    for attribute, value in list(vars(module).items()):
        if attribute.startswith("_") or not isinstance(value, (list, tuple, dict)):
            continue
        if isinstance(value, dict):
            items: Any = [(repr(key), item) for key, item in value.items()]
        else:
            items = enumerate(value)
        for key, item in items:
            if evidence.is_module(item):
                yield attribute, f"{attribute}[{key}]", item
