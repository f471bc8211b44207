"""Hooks of modules: registering them, and the call that runs them.

Every kind of hook lives in a dict of its own on the module, under PyTorch's (underscored) names,
which pickles and libraries know. Hooks for all modules live in `GLOBAL`.
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ...autograd.hooks import RemovableHandle
from ...core.base import STATE
from ...core.warned import warn
from ...errors import argument_names, explain_call
from ._backward_hooks import BackwardHook

Hook = Callable[..., Any]
Hooks = OrderedDict[int, Hook]

TWO_KINDS = (
    "Cannot use both regular backward hooks and full backward hooks {}. "
    "Please use only one of them."
)


class GlobalHooks:
    """The hooks that run for every module of the process."""

    def __init__(self) -> None:
        self.forward_pre: Hooks = OrderedDict()
        self.forward: Hooks = OrderedDict()
        self.always_called: OrderedDict[int, bool] = OrderedDict()
        self.with_kwargs: OrderedDict[int, bool] = OrderedDict()
        self.backward_pre: Hooks = OrderedDict()
        self.backward: Hooks = OrderedDict()
        self.backward_is_full: bool | None = None
        self.buffer_registration: Hooks = OrderedDict()
        self.module_registration: Hooks = OrderedDict()
        self.parameter_registration: Hooks = OrderedDict()


GLOBAL = GlobalHooks()


def add(
    hooks: Any, hook: Hook, prepend: bool = False, flags: tuple[Any, ...] = ()
) -> RemovableHandle:
    """Register `hook`; each dict in `flags` gets a True under the same id."""
    handle = RemovableHandle(hooks, extra_dict=list(flags))
    hooks[handle.id] = hook
    for flag in flags:
        flag[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever any module registers a buffer."""
    return add(GLOBAL.buffer_registration, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, submodule)` whenever any module registers a child."""
    return add(GLOBAL.module_registration, hook)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, parameter)` whenever any module registers a parameter."""
    return add(GLOBAL.parameter_registration, hook)


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, args)` before the forward of every module."""
    return add(GLOBAL.forward_pre, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the forward of every module."""
    flags = ((GLOBAL.with_kwargs,) if with_kwargs else ()) + (
        (GLOBAL.always_called,) if always_call else ()
    )
    return add(GLOBAL.forward, hook, flags=flags)


def add_backward(hook: Hook, full: bool) -> RemovableHandle:
    """A backward hook for every module; all are of one kind."""
    if GLOBAL.backward_is_full is (not full):
        raise RuntimeError(TWO_KINDS.format("as a global Module hook"))
    GLOBAL.backward_is_full = full
    return add(GLOBAL.backward, hook)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """The old kind of backward hook, for every module; prefer the full one."""
    return add_backward(hook, full=False)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_output)` before the gradients of every module are computed."""
    return add(GLOBAL.backward_pre, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` after the gradients of every module are."""
    return add_backward(hook, full=True)


def register_initial_hooks(module: Any) -> None:
    """The empty dicts, in the order in which PyTorch's `__dict__` has them."""
    put = functools.partial(object.__setattr__, module)
    put("_backward_pre_hooks", OrderedDict())
    put("_backward_hooks", OrderedDict())
    put("_is_full_backward_hook", None)
    put("_forward_hooks", OrderedDict())
    put("_forward_hooks_with_kwargs", OrderedDict())
    put("_forward_hooks_always_called", OrderedDict())
    put("_forward_pre_hooks", OrderedDict())
    put("_forward_pre_hooks_with_kwargs", OrderedDict())
    put("_state_dict_hooks", OrderedDict())
    put("_state_dict_pre_hooks", OrderedDict())
    put("_load_state_dict_pre_hooks", OrderedDict())
    put("_load_state_dict_post_hooks", OrderedDict())


class HookMethods:
    """The part of Module that registers hooks around forward and backward."""

    _forward_hooks: Hooks
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: Hooks
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _backward_hooks: Hooks
    _backward_pre_hooks: Hooks
    _is_full_backward_hook: bool | None

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before every forward; it may return other arguments.

        >>> layer = nn.ReLU()
        >>> handle = layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        >>> layer(tensor([-3.0, 1.0]))
        tensor([0., 2.])
        """
        flags = (self._forward_pre_hooks_with_kwargs,) if with_kwargs else ()
        return add(self._forward_pre_hooks, hook, prepend, flags)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after every forward; what it returns is the output.

        >>> layer = nn.ReLU()
        >>> handle = layer.register_forward_hook(lambda module, args, output: print(output.shape))
        >>> y = layer(ones(2, 3))
        torch.Size([2, 3])
        >>> handle.remove()
        >>> y = layer(ones(2, 3))
        """
        flags = ((self._forward_hooks_with_kwargs,) if with_kwargs else ()) + (
            (self._forward_hooks_always_called,) if always_call else ()
        )
        return add(self._forward_hooks, hook, prepend, flags)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before this module's gradients are computed.

        >>> layer = nn.ReLU()
        >>> handle = layer.register_full_backward_pre_hook(lambda module, grad: (grad[0] * 10,))
        >>> x = tensor([-1.0, 2.0], requires_grad=True)
        >>> layer(x).sum().backward()
        >>> x.grad
        tensor([ 0., 10.])
        """
        return add(self._backward_pre_hooks, hook, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """The old kind of backward hook, on the last node only; prefer the full one.

        >>> layer = nn.ReLU()
        >>> handle = layer.register_backward_hook(lambda module, inputs, outputs: print(outputs[0]))
        >>> layer(tensor([-1.0, 2.0], requires_grad=True)).sum().backward()
        tensor([1., 1.])
        """
        if self._is_full_backward_hook is True:
            raise RuntimeError(TWO_KINDS.format("on a single Module"))
        self._is_full_backward_hook = False
        return add(self._backward_hooks, hook)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when both gradients are computed.

        >>> layer = nn.ReLU()
        >>> handle = layer.register_full_backward_hook(lambda _, inputs, outputs: print(inputs[0]))
        >>> layer(tensor([-1.0, 2.0], requires_grad=True)).sum().backward()
        tensor([0., 1.])
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(TWO_KINDS.format("on a single Module"))
        self._is_full_backward_hook = True
        return add(self._backward_hooks, hook, prepend)


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`module(*args, **kwargs)` when some hook has to run."""
    called: set[tuple[bool, int]] = set()
    if not module._forward_hooks_always_called and not GLOBAL.always_called:
        return run(module, args, kwargs, called)[0]
    state = [args, kwargs, None]
    try:
        return run(module, args, kwargs, called, state)[0]
    except Exception:
        run_remaining(module, state, called)
        raise


def run(
    module: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    called: set[tuple[bool, int]],
    state: list[Any] | None = None,
) -> tuple[Any, ...]:
    """Pre-hooks, forward, hooks. `state` is kept up to date for hooks that run after an error."""
    state = [args, kwargs, None] if state is None else state
    run_pre_hooks(module, state)
    backward = BackwardHook(module, *backward_hooks(module))
    if backward:
        state[0] = backward.setup_inputs(state[0])
    outer = STATE.module
    STATE.module = weakref.ref(module)
    try:
        state[2] = module.forward(*state[0], **state[1])
    except (IndexError, RuntimeError, ValueError) as error:
        explain_call(error, "", argument_names(module.forward), state[0], state[1])
        raise
    finally:
        STATE.module = outer
    for is_global, id_, hook, with_kwargs in forward_hooks(module):
        called.add((is_global, id_))
        given = (state[0], state[1], state[2]) if with_kwargs else (state[0], state[2])
        answer = hook(module, *given)
        if answer is not None:
            state[2] = answer
    if backward:
        if not isinstance(state[2], (tg.Tensor, tuple)):
            warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(state[2])}",
            )
        state[2] = backward.setup_outputs(state[2])
    old = old_backward_hooks(module)
    if old:
        attach_old_hooks(module, old, state[0], state[2])
    return (state[2],)


def run_pre_hooks(module: Any, state: list[Any]) -> None:
    # A list: a lazy module's hook removes itself.
    for id_, hook in [*GLOBAL.forward_pre.items(), *module._forward_pre_hooks.items()]:
        if id_ in module._forward_pre_hooks_with_kwargs:
            answer = hook(module, state[0], state[1])
            if answer is None:
                continue
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise RuntimeError(
                    "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                    f"but got {answer}."
                )
            state[0], state[1] = answer
        else:
            answer = hook(module, state[0])
            if answer is not None:
                state[0] = answer if isinstance(answer, tuple) else (answer,)


def forward_hooks(module: Any) -> list[tuple[bool, int, Hook, bool]]:
    """(global?, id, hook, takes keyword arguments?) in the order in which they run."""
    found = [(True, i, h, i in GLOBAL.with_kwargs) for i, h in GLOBAL.forward.items()]
    own = module._forward_hooks_with_kwargs
    return found + [(False, i, h, i in own) for i, h in module._forward_hooks.items()]


def run_remaining(module: Any, state: list[Any], called: set[tuple[bool, int]]) -> None:
    """After an error in forward: the hooks that asked to be called always."""
    for is_global, id_, hook, with_kwargs in forward_hooks(module):
        always = GLOBAL.always_called if is_global else module._forward_hooks_always_called
        if id_ not in always or (is_global, id_) in called:
            continue
        given = (state[0], state[1], state[2]) if with_kwargs else (state[0], state[2])
        try:
            answer = hook(module, *given)
            if answer is not None:
                state[2] = answer
        except Exception as error:
            kind = "global module" if is_global else "module"
            warn(
                f"{kind} forward hook with ``always_call=True`` raised an exception that was "
                f"silenced as another error was raised in forward: {error}",
            )


def backward_hooks(module: Any) -> tuple[list[Hook], list[Hook]]:
    """The full backward hooks that apply, and the pre-hooks."""
    full: list[Hook] = []
    if GLOBAL.backward_is_full is True:
        full += GLOBAL.backward.values()
    if module._is_full_backward_hook is True:
        full += module._backward_hooks.values()
    return full, [*GLOBAL.backward_pre.values(), *module._backward_pre_hooks.values()]


def old_backward_hooks(module: Any) -> list[Hook]:
    old: list[Hook] = []
    if GLOBAL.backward_is_full is False:
        old += GLOBAL.backward.values()
    if module._is_full_backward_hook is False:
        old += module._backward_hooks.values()
    return old


def attach_old_hooks(module: Any, hooks: list[Hook], args: tuple[Any, ...], result: Any) -> None:
    """The old kind hooks the node of the first output, whatever the module did before it."""
    first = result
    while not isinstance(first, tg.Tensor):
        first = (
            next((v for v in first.values() if isinstance(v, tg.Tensor)), None)
            if isinstance(first, dict)
            else first[0]
        )
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(functools.partial(hook, module))
    warn_about_old_hooks(args, result, node)


def warn_about_old_hooks(args: Any, result: Any, node: Any) -> None:
    """Say what an old backward hook will not see."""
    problem = old_hook_problem(args, result, node)
    if problem:
        when, missing = problem
        warn(
            f"Using {when} is deprecated and will be removed in future versions. This hook will be "
            f"missing some {missing}",
            FutureWarning,
        )


def old_hook_problem(args: Any, result: Any, node: Any) -> tuple[str, str] | None:
    cure = "Please use register_full_backward_hook to get the documented behavior."
    whole = "a Module that does not {} a single Tensor or a tuple of Tensors"
    if not is_tensors(result):
        return f"non-full backward hooks on {whole.format('return')}", f"of the grad_output. {cure}"
    if not is_tensors(args):
        kind = whole.format("take as input")
        return f"non-full backward hooks on {kind}", f"of the grad_input. {cure}"
    results = result if isinstance(result, tuple) else (result,)
    if len({r.grad_fn for r in results if r.grad_fn is not None} | {node}) > 1:
        return (
            "a non-full backward hook when outputs are generated by different autograd Nodes",
            f"grad_output. {cure}",
        )
    starts = {a.grad_fn for a in args if a.grad_fn is not None}
    leaves = {n for n, _ in node.next_functions if n is not None and not hasattr(n, "variable")}
    if leaves - starts:
        return (
            "a non-full backward hook when the forward contains multiple autograd Nodes",
            f"grad_input. {cure}",
        )
    return None


def is_tensors(value: Any) -> bool:
    if isinstance(value, tg.Tensor):
        return True
    return isinstance(value, tuple) and all(isinstance(v, tg.Tensor) for v in value)


class BoundHook:
    """A hook that gets its module first, without keeping it alive."""

    def __init__(self, hook: Hook, module: Any = None) -> None:
        self.hook = hook
        self.module = None if module is None else weakref.ref(module)
        functools.update_wrapper(self, hook)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.module is None:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {"hook": self.hook, "module": None if self.module is None else self.module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        module = state["module"]
        self.__init__(state["hook"], module)  # type: ignore[misc]
