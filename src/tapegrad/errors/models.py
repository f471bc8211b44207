"""E16: a model or an optimizer that is put together wrongly, or gets the values of another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..core.base import user_frame
from . import evidence
from .evidence import here, name_of, user_frames
from .missing import reads_attribute
from .report import attach, build

NEAR = 0.6  # how alike names have to be
SHOWN = 4  # pairs of names


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    import difflib  # takes a moment, and only errors need it

    return difflib.get_close_matches(name, [k for k in known if not k.startswith("_")], most, NEAR)


def no_such_attribute(module: Any, name: str) -> AttributeError:
    """`model.wieght`: Python's sentence, and the names that come near."""
    kind = type(module).__name__
    error = AttributeError(f"'{kind}' object has no attribute '{name}'")
    frame = user_frame(2)
    # Whoever only asks (hasattr, getattr with a default) gets the sentence alone.
    if name.startswith("_") or frame is None or not reads_attribute(frame):
        return error
    near = nearest(name, dir(module))
    what = f"{kind} has no parameter, buffer, module or method of this name"
    fixes = [f"did you mean .{' or .'.join(near)}?"] if near else []
    if "_modules" not in vars(module):
        what = f"Module.__init__() has not run for this {kind}"
        fixes = [f"call super().__init__() first in {kind}.__init__"]
    if not fixes:
        fixes = [f"assign it in {kind}.__init__: self.{name} = ..."]
    attach(error, "E16", what=what, causes=[("noticed", "at", here())], fixes=fixes, name=name)
    return error


def before_init(module: Any, what: str) -> AttributeError:
    """Something was assigned to a module whose `__init__` has not run."""
    kind = type(module).__name__
    error = build(
        AttributeError,
        f"cannot assign {what} before Module.__init__() call",
        "E16",
        what=f"{kind} is a Module: what it holds is kept in tables that Module.__init__() makes",
        causes=[("noticed", "at", here())],
        fixes=[f"call super().__init__() first in {kind}.__init__"],
    )
    assert isinstance(error, AttributeError)
    return error


def no_parameters(was_used_up: bool) -> Exception:
    """An optimizer was given nothing to optimize."""
    what = "there is nothing in it that could be optimized"
    fixes = [
        "layers have to be attributes of the model, or in a ModuleList: a plain list hides them",
        "pass model.parameters() of a model that has layers",
    ]
    if was_used_up:
        what = "a generator can be gone through once, and this one has been"
        fixes = [
            "call .parameters() again where they are needed",
            "keep a list: params = list(model.parameters())",
        ]
    return build(
        ValueError,
        "optimizer got an empty parameter list",
        "E16",
        what=what,
        causes=[("noticed", "at", here())],
        fixes=fixes,
    )


def explain_parameters(error: TypeError, given: Any) -> None:
    """An optimizer was given a model, a list of modules, or a method that was not called."""
    if isinstance(given, (list, tuple)):
        given = next((each for each in given if evidence.is_module(each)), given)
    what, fix = "", ""
    if hasattr(given, "_array"):
        what = "an optimizer takes a list of tensors, and this is one tensor"
        fix = f"put it into a list: [{name_of(given._array) or 'tensor'}]"
    elif evidence.is_module(given):
        name = next((n for n, m in evidence.modules_held([*user_frames()]) if m is given), "model")
        what = f"this is a {type(given).__name__}; an optimizer takes the parameters of a model"
        fix = f"pass {name}.parameters()"
    elif getattr(given, "__name__", "") in ("parameters", "named_parameters"):
        what = "this is the method itself, it was not called"
        fix = f"write the parentheses: .{given.__name__}()"
    if what:
        attach(error, "E16", what=what, causes=[("noticed", "at", here())], fixes=[fix])


def not_a_leaf(t: Any) -> Exception:
    """An optimizer was given the result of an operation."""
    name = name_of(t._array)
    return build(
        ValueError,
        "can't optimize a non-leaf Tensor",
        "E16",
        what="it is computed from other tensors: a step would change the result, not its source",
        causes=[("noticed", "at", here())],
        fixes=[
            "give the optimizer the leaf that it was computed from",
            f"begin anew from these values: {name or 't'}.detach().requires_grad_()",
        ],
    )


def explain_loss_made_with_tensors(error: Exception, loss: Any = None) -> None:
    """`nn.MSELoss(output, target)`: a loss is a module, which is made first and then called."""
    name = "MSELoss" if loss is None else loss.__name__
    used = () if loss is None else loss.forward.__code__.co_names
    functions = [n for n in used if n.islower() and n != "reduction"]
    error.args = (str(error).splitlines()[0],)  # what was said about truth values is no help here
    attach(
        error,
        "E16",
        what="the loss is being made here, and a tensor was given where it takes an option",
        causes=[("noticed", "at", here())],
        fixes=[
            f"make the loss, then call it: nn.{name}()(output, target)",
            *[f"use the function: nn.functional.{f}(output, target)" for f in functions[:1]],
        ],
    )


def not_a_parameter(sentence: str, name: str, value: Any) -> TypeError:
    """`layer.weight = tensor`: what is registered as a parameter stays one."""
    given = evidence.name_of(value._array) if hasattr(value, "_array") else None
    spelled = given or "value"
    return build(  # type: ignore[return-value]
        TypeError,
        sentence,
        "E16",
        what=f"`{name}` is a parameter: the optimizer and state_dict() know it by this name",
        causes=[("noticed", "at", here())],
        fixes=[
            f"make it one: nn.Parameter({spelled})",
            f"write its values: with torch.no_grad(): {name}.copy_({spelled})",
        ],
    )


def explain_no_module(error: Exception, given: Any, layer_names: Iterable[str]) -> None:
    """A container was given a function, a list or a class where it takes modules."""
    name = getattr(given, "__name__", "")
    if isinstance(given, type):
        fixes = [f"make one: {name}()"]
        what = f"{name} is the class, not a layer of it"
    elif isinstance(given, (list, tuple)):
        fixes = ["put a star before the list: nn.Sequential(*layers)"]
        what = "this is a list of modules, not a module"
    elif callable(given):
        layers = {n.lower(): n for n in layer_names}
        layer = layers.get(name.replace("_", ""))
        fixes = [f"use the layer: nn.{layer}()" if layer else "call it in a forward() of your own"]
        what = "this is a function; a container holds modules"
    else:
        return
    attach(error, "E16", what=what, causes=[("noticed", "at", here())], fixes=fixes)


def without_forward(sentence: str, module: Any) -> NotImplementedError:
    """A module is called whose class has no `forward`; a name that comes near may be meant."""
    own = [n for n in vars(type(module)) if callable(getattr(type(module), n))]
    near = nearest("forward", own, 1)
    kind = type(module).__name__
    return build(  # type: ignore[return-value]
        NotImplementedError,
        sentence,
        "E16",
        what=f"calling a module runs its forward(), and {kind} defines none",
        causes=[("noticed", "at", here())],
        fixes=[
            f"{kind}.{near[0]} is misspelt: write def forward"
            if near
            else f"write def forward(self, ...) in {kind}"
        ],
    )


def does_not_fit(
    sentence: str,
    missing: list[str],
    unexpected: list[str],
    mismatched: Sequence[str] = (),
) -> Exception:
    """load_state_dict: which names probably mean the same, which sizes differ (`mismatched`)."""
    fixes = []
    prefix = common_prefix(missing, unexpected)
    if prefix:
        own, given = prefix
        fixes.append(
            f"the names differ by {given or own!r} in front: "
            + (
                f"{{k.removeprefix({given!r}): v for k, v in state.items()}}"
                if given
                else f"{{{own!r} + k: v for k, v in state.items()}}"
            )
        )
    else:
        pairs = [(m, nearest(m, unexpected, 1)) for m in missing]
        alike = [f"{m} <- {n[0]}?" for m, n in pairs if n][:SHOWN]
        if alike:
            fixes.append("names that look alike: " + ", ".join(alike))
    if mismatched:
        keys = ", ".join([repr(key) for key in mismatched[:SHOWN]])
        fixes.append("make the model with the sizes that the values were saved with")
        fixes.append(
            f"leave them out: {{k: v for k, v in state.items() if k not in {{{keys}}}}}, and load "
            "that with strict=False"
        )
    elif missing or unexpected:
        fixes.append("strict=False loads what fits, and returns what does not")
    return build(
        RuntimeError,
        sentence,
        "E16",
        what=f"{len(missing)} missing, {len(unexpected)} unexpected: "
        "the values were saved by a model with other parts or other names"
        if (missing or unexpected) and not mismatched
        else "the names fit, the sizes do not",
        causes=[("noticed", "at", here())],
        fixes=fixes,
        missing=missing,
        unexpected=unexpected,
    )


def no_state(state: Any) -> TypeError:
    """`model.load_state_dict(other)` where a dict is wanted."""
    fixes = ["read it first: torch.load(path)"] if isinstance(state, str) else []
    if hasattr(state, "state_dict"):
        fixes = ["pass its values: other.state_dict()"]
    return build(  # type: ignore[return-value]
        TypeError,
        f"Expected state_dict to be dict-like, got {type(state)}.",
        "E16",
        what=f"this is a {type(state).__name__}, and the values are a dict of tensors by name",
        causes=[("noticed", "at", here())],
        fixes=fixes or ["pass what state_dict() of such a model gave"],
    )


def common_prefix(missing: list[str], unexpected: list[str]) -> tuple[str, str] | None:
    """A prefix that all names of one side have and none of the other, as (own, given)."""
    if not missing or len(missing) != len(unexpected):
        return None
    own, given = missing[0], unexpected[0]
    front = given.removesuffix(own)
    if front != given and [front + m for m in missing] == unexpected:
        return "", front
    front = own.removesuffix(given)
    if front != own and [front + u for u in unexpected] == missing:
        return front, ""
    return None
