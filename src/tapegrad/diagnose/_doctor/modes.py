"""train() and eval(): evaluation with dropout on, training with dropout off (D15 to D17)."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import tapegrad as tg

from ...core import strides
from ...core.base import PACKAGE
from ...core.is_array import is_array
from ...errors import evidence
from .state import Patient
from .values import tensors_in
from .watch import (
    DECISIONS,
    LOSSES,
    BackwardCall,
    ForwardCall,
    Listener,
    Spot,
    StepCall,
    place_of_spot,
)

SURE = 2
SEVERAL = 3  # forward passes in a row whose results are all kept
MOST = 64


class Trial:
    """A forward pass without recording, in train mode: perhaps an evaluation."""

    def __init__(self, call: ForwardCall, layers: str, only_norms: bool) -> None:
        self.model = weakref.ref(call.module)
        self.where = call.where
        self.layers = layers
        self.only_norms = only_norms
        self.inputs = [(weakref.ref(t._array), address(t)) for t in dense_in(call.args)]
        self.outputs = memories(call.result)
        self.again = False  # the same input as the trial before, at the same line

    def kept(self) -> bool:
        return any(ref() is not None for ref in self.outputs)

    def owns(self, values: list[Any]) -> bool:
        alive = [m for m in (ref() for ref in self.outputs) if m is not None]
        return any(evidence.memory(t._array) is m for t in values for m in alive)


class Asleep:
    """A forward pass that is recorded, in eval mode."""

    def __init__(self, call: ForwardCall, layers: str) -> None:
        self.model = weakref.ref(call.module)
        self.where = call.where
        self.layers = layers
        self.differentiated = False  # backward has run since

    def has(self, parameters: list[Any]) -> bool:
        """Whether one of these belongs to the model."""
        model = self.model()
        own = set() if model is None else {id(p) for p in model.parameters()}
        return any(id(p) in own for p in parameters)


class Modes(Listener):
    """Evaluation is a forward pass without recording whose result is judged, or the last one.

    What is no evaluation: a generator's sample for the discriminator, labels that a model makes for
    itself, the same input many times over (dropout on purpose), averages for batch norm.
    """

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.trials: list[Trial] = []  # since the last backward
        self.labels: list[tuple[Any, Trial]] = []
        self.excused: set[Any] = set()  # lines whose results are used for training
        self.suspects: dict[Any, tuple[Trial, str, int]] = {}  # by line, with the model's name
        self.feeders: weakref.WeakSet[Any] = weakref.WeakSet()
        self.made_by: list[tuple[Any, Any]] = []  # (memory, model) of recorded results
        self.asleep: list[Asleep] = []  # models that ran in eval mode, recording
        self.sleeping: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    # ------------------------------------------------------------------ forward

    def after_forward(self, call: ForwardCall) -> None:
        self.note_feeders(call)
        on = [m for m in call.sensitive if m.training and matters(m)]
        off = [m for m in call.sensitive if not m.training and matters(m)]
        if call.recording:
            if not call.training and off and not on:
                self.asleep.append(Asleep(call, kinds(off)))
                del self.asleep[:-MOST]
            return
        if call.training and on and not averaging():
            only_norms = not any(hasattr(m, "p") or hasattr(m, "dropout") for m in on)
            trial = Trial(call, kinds(on), only_norms)
            last = self.trials[-1] if self.trials else None
            trial.again = last is not None and last.where == trial.where and same_input(last, trial)
            self.trials.append(trial)
            del self.trials[:-MOST]
            self.check_row()

    def note_feeders(self, call: ForwardCall) -> None:
        """A model whose result is another model's input is a generator, not a predictor."""
        if not any(True for _ in call.module.parameters()):
            return  # a loss
        for t in tensors_in(call.args):
            memory = evidence.memory(t._array)
            for ref, model in self.made_by:
                if ref() is memory and model() is not None and model() is not call.module:
                    self.feeders.add(model())
        made = [(ref, weakref.ref(call.module)) for ref in memories(call.result)]
        self.made_by = (self.made_by + made)[-8:]

    def check_row(self) -> None:
        """Several results of one line, all kept: predictions are being collected."""
        line = self.trials[-1].where
        row = [t for t in self.trials if t.where == line and t.kept()]
        if len(row) >= SEVERAL and not repeated(row):
            self.suspect(row[-1])

    # ------------------------------------------------------------------ what is done with it

    def judged(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        if name not in LOSSES and name not in DECISIONS:
            return
        values = [t for t in args if hasattr(t, "_array")]
        if tg.is_grad_enabled() and name in LOSSES:
            self.excuse(values)
            return
        for trial in self.trials:
            if trial.owns(values):
                self.labels += [(ref, trial) for ref in memories(result)]
                del self.labels[:-MOST]
                self.suspect(trial)

    def excuse(self, values: list[Any]) -> None:
        """Results that go into a loss which is trained on are no evaluation."""
        for trial in self.trials:
            if trial.owns(values):
                self.excused.add(trial.where)
        for t in values:
            memory = evidence.memory(t._array)
            for ref, trial in self.labels:
                if ref() is memory:
                    self.excused.add(trial.where)

    def suspect(self, trial: Trial) -> None:
        model = trial.model()
        if model is not None and model in self.feeders:
            return
        _, name, count = self.suspects.get(trial.where, (trial, "the model", 0))
        if model is not None:
            name = f"`{self.patient.module_name(model)}`"
        self.suspects[trial.where] = (trial, name, count + 1)

    def before_backward(self, call: BackwardCall) -> None:
        self.trials = []
        for sleeper in self.asleep:
            sleeper.differentiated = True

    def finish(self) -> None:
        for trial in self.trials if self.patient.backward else ():
            here = [t for t in self.trials if t.where == trial.where]
            if len(here) >= SEVERAL and repeated(here):
                continue
            if trial.where not in self.suspects and (trial.kept() or not trial.only_norms):
                self.suspect(trial)
        for where, (trial, name, count) in self.suspects.items():
            if where in self.excused:
                continue
            for _ in range(count):
                self.patient.report.add(
                    "D15",
                    f"{name} ran under no_grad() in train mode: {trial.layers}",
                    place_of_spot(where),
                    "call model.eval() before evaluating, and model.train() before training goes "
                    "on",
                )

    # ------------------------------------------------------------------ training in eval mode

    def zero_grad(self, parameters: list[Any], where: Spot) -> None:
        """Gradients that nobody uses train nothing: those of an attack on the input."""
        self.asleep = [a for a in self.asleep if not (a.differentiated and a.has(parameters))]

    def before_step(self, call: StepCall) -> None:
        for sleeper in self.asleep:
            model = sleeper.model()
            if model is None or not sleeper.differentiated or not sleeper.has(call.parameters):
                continue
            self.sleeping[model] = self.sleeping.get(model, 0) + 1
            if self.sleeping[model] >= SURE:
                self.patient.report.add(
                    "D16",
                    f"`{self.patient.module_name(model)}` is trained in eval mode: "
                    f"{sleeper.layers}",
                    place_of_spot(sleeper.where),
                    "call model.train() before the training loop, and again after every evaluation",
                    count=SURE,
                )
        self.asleep = []

    def dropout(self, root: ForwardCall | None, explicit: bool) -> None:
        if root is None or explicit or root.training:
            return
        self.patient.report.add(
            "D17",
            f"`{self.patient.module_name(root.module)}` is in eval mode, but F.dropout() was "
            "called without training=, and drops values all the same",
            evidence.here(),
            "F.dropout(x, p, training=self.training)",
            ["use an nn.Dropout layer, which knows its mode"],
        )


def memories(value: Any) -> list[Any]:
    """Weak references to the memory of the tensors in a value."""
    found = []
    for t in dense_in(value):
        try:
            found.append(weakref.ref(evidence.memory(t._array)))
        except TypeError:  # on a GPU, memory that an allocator of the user's gave
            continue
    return found


def dense_in(value: Any) -> list[Any]:
    """The tensors in a value that have memory: not those inside of vmap, nor sparse ones."""
    return [t for t in tensors_in(value) if is_array(t._array)]


def address(t: Any) -> tuple[Any, ...]:
    """Which part of which memory a tensor looks at."""
    return strides.address(t._array), t._array.shape, t._array.strides


def same_input(one: Trial, other: Trial) -> bool:
    """Whether two trials read the same tensors; False if one of them is gone, since its address may
    be reused.
    """
    first = [place for ref, place in one.inputs if ref() is not None]
    second = [place for ref, place in other.inputs if ref() is not None]
    return bool(first) and len(first) == len(one.inputs) and first == second


def repeated(row: list[Trial]) -> bool:
    """Whether all trials had one input: dropout is on to see how much the results differ."""
    return all(t.again for t in row[1:])


def matters(layer: Any) -> bool:
    """Whether train and eval mode make a difference for this layer as it is set up."""
    if hasattr(layer, "track_running_stats"):
        return bool(layer.track_running_stats)
    share = getattr(layer, "p", getattr(layer, "dropout", 0))
    several = getattr(layer, "num_layers", 2) > 1
    return bool(share) and several


def kinds(layers: list[Any]) -> str:
    """Describes in words how train mode changes these layers."""
    words = []
    on = layers[0].training
    if any(not hasattr(m, "track_running_stats") for m in layers):
        words.append("dropout is on" if on else "dropout is off")
    if any(hasattr(m, "track_running_stats") for m in layers):
        words.append(
            "batch norm uses the statistics of the batch, and changes its own"
            if on
            else "batch norm uses its running statistics, which stay as they are"
        )
    return ", ".join(words)


def averaging() -> bool:
    """Whether the package itself asked: update_bn wants train mode, checkpoint no recording."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        if frame.f_code.co_filename.endswith(("swa_utils.py", "checkpoint.py")):
            return True
        frame = frame.f_back
    return False
