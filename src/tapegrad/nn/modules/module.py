"""Module: a function with parameters, buffers and other modules inside it, all found by name."""

from __future__ import annotations

import inspect
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import tapegrad as tg

from ...core.base import STATE
from ...errors import argument_names, explain_call
from ...errors.models import (
    before_init,
    explain_no_module,
    no_such_attribute,
    not_a_parameter,
    without_forward,
)
from ...utils.grads import set_to_zero
from ...utils.naming import typename
from ..parameter import Buffer, Parameter
from ._conversions import ConversionMethods
from ._hooks import (
    GLOBAL,
    HookMethods,
    call_with_hooks,
    register_initial_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ._state import StateMethods, _IncompatibleKeys

# PyTorch's names of what the extra state of a module and the hooks of all modules are kept in.
_EXTRA_STATE_KEY_SUFFIX = "_extra_state"
GLOBAL_NAMES = {
    "_global_backward_hooks": "backward",
    "_global_backward_pre_hooks": "backward_pre",
    "_global_buffer_registration_hooks": "buffer_registration",
    "_global_forward_hooks": "forward",
    "_global_forward_hooks_always_called": "always_called",
    "_global_forward_hooks_with_kwargs": "with_kwargs",
    "_global_forward_pre_hooks": "forward_pre",
    "_global_module_registration_hooks": "module_registration",
    "_global_parameter_registration_hooks": "parameter_registration",
}


class GlobalNames(types.ModuleType):
    """This module: a program that replaces a dict of global hooks replaces the hooks."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in GLOBAL_NAMES:
            setattr(GLOBAL, GLOBAL_NAMES[name], value)
        super().__setattr__(name, value)


for _name, _field in GLOBAL_NAMES.items():
    globals()[_name] = getattr(GLOBAL, _field)
sys.modules[__name__].__class__ = GlobalNames

__all__ = [
    "Module",
    "_IncompatibleKeys",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

# The dicts in which a module keeps what it has registered.
REGISTERED = ("_parameters", "_buffers", "_modules")


T_destination = TypeVar("T_destination", bound=dict[str, Any])


def _forward_unimplemented(self: Any, *input: Any) -> None:
    """The computation; every subclass defines it."""
    raise without_forward(
        f'Module [{type(self).__name__}] is missing the required "forward" function', self
    )


class Module(HookMethods, StateMethods, ConversionMethods):
    """The base of all layers: attributes that are parameters or modules are registered by name.

    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = nn.Parameter(tensor([2.0]))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(tensor([3.0]))
    tensor([6.], grad_fn=<MulBackward0>)
    """

    T_destination = T_destination
    dump_patches: bool = False
    call_super_init: bool = False
    training: bool
    _compiled_call_impl: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            name = type(self).__name__
            if kwargs:
                raise TypeError(
                    f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        # Past our own __setattr__, which needs these to exist.
        put = super().__setattr__
        put("training", True)
        put("_parameters", {})
        put("_buffers", {})
        put("_non_persistent_buffers_set", set())
        register_initial_hooks(self)
        put("_modules", {})
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # Declared as a value: type checkers let a subclass choose its own arguments.
    forward: Callable[..., Any] = _forward_unimplemented

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        compiled = self._compiled_call_impl
        if compiled is not None:
            return compiled(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or GLOBAL.forward
            or GLOBAL.forward_pre
            or GLOBAL.backward
            or GLOBAL.backward_pre
        ):
            return call_with_hooks(self, args, kwargs)
        outer = STATE.module
        STATE.module = weakref.ref(self)  # recorded nodes keep it: pictures and errors name it
        try:
            return self.forward(*args, **kwargs)
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            explain_call(error, "", argument_names(self.forward), args, kwargs)
            raise
        finally:
            STATE.module = outer

    # ------------------------------------------------------------------ registration

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; None reserves the name.

        >>> module = nn.Module()
        >>> module.register_parameter("w", nn.Parameter(ones(1)))
        >>> [name for name, _ in module.named_parameters()]
        ['w']
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        check_name("parameter", name, self, "_parameters")
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, "
                "compute the value in the forward() method."
            )
        self._parameters[name] = announced(GLOBAL.parameter_registration, self, name, param)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; state_dict has it if persistent.

        >>> module = nn.Module()
        >>> module.register_buffer("mean", zeros(2))
        >>> module.mean, list(module.state_dict())
        (tensor([0., 0.]), ['mean'])
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        check_name("buffer", name, self, "_buffers")
        if tensor is not None and not isinstance(tensor, tg.Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = announced(GLOBAL.buffer_registration, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child under a name.

        >>> net = nn.Module()
        >>> net.add_module("act", nn.ReLU())
        >>> net.act
        ReLU()
        """
        if module is not None and not isinstance(module, Module):
            error = TypeError(f"{typename(module)} is not a Module subclass")
            explain_no_module(error, module, tg.nn.__all__)
            raise error
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        self._modules[name] = announced(GLOBAL.module_registration, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a child module under a name, as `add_module` does.

        >>> model = nn.Module()
        >>> model.register_module("head", nn.Linear(2, 1))
        >>> model.head
        Linear(in_features=2, out_features=1, bias=True)
        """
        self.add_module(name, module)

    def __getattr__(self, name: str) -> Any:
        # Only called for what is no ordinary attribute.
        own = self.__dict__
        found = own.get("_parameters")
        if found is not None and name in found:
            return found[name]
        found = own.get("_modules")
        if found is not None and name in found:
            return found[name]
        found = own.get("_buffers")
        if found is not None and name in found:
            return found[name]
        raise no_such_attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        parameters = own.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise before_init(self, "parameters")
            forget(self, name, "_parameters")
            self.register_parameter(name, value)
            return
        if parameters is not None and name in parameters:
            if value is not None:
                raise not_a_parameter(
                    f"cannot assign '{typename(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)",
                    name,
                    value,
                )
            self.register_parameter(name, None)
            return
        modules = own.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise before_init(self, "module")
            forget(self, name, "_modules")
            modules[name] = announced(GLOBAL.module_registration, self, name, value)
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            modules[name] = announced(GLOBAL.module_registration, self, name, None)
            return
        buffers = own.get("_buffers")
        if isinstance(value, Buffer) or (buffers is not None and name in buffers):
            set_buffer(self, name, value)
            return
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        for where in REGISTERED:
            if name in self.__dict__[where]:
                del self.__dict__[where][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        registered = {*self._parameters, *self._modules, *self._buffers}
        names = {*dir(type(self)), *self.__dict__, *registered}
        return sorted(n for n in names if n and not n[0].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)  # a copy compiles itself
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickles of older versions lack the newer dicts.
        fresh = Module()
        self.__dict__.update({k: v for k, v in fresh.__dict__.items() if k.startswith("_")})
        self.__dict__.update(state)

    # ------------------------------------------------------------------ finding by name

    def get_submodule(self, target: str) -> Module:
        """The module at a path like "layers.0.fc"; "" is this one.

        >>> nn.Sequential(nn.ReLU()).get_submodule("0")
        ReLU()
        """
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at a path; with `strict` there must be one already.

        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> model.set_submodule("1", nn.Tanh())
        >>> model
        Sequential(
          (0): Linear(in_features=2, out_features=3, bias=True)
          (1): Tanh()
        )
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path like "layers.0.weight".

        >>> nn.Sequential(nn.Linear(2, 1)).get_parameter("0.weight").shape
        torch.Size([1, 2])
        """
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        found: Parameter = getattr(module, name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Any:
        """The buffer at a path.

        >>> nn.BatchNorm1d(2).get_buffer("running_var")
        tensor([1., 1.])
        """
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return module._buffers[name]

    # ------------------------------------------------------------------ walking through

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """(path, member) over this module and those below, each member once."""
        seen = set()
        modules = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)  # type: ignore[assignment]
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, of this module and those below.

        >>> [p.numel() for p in nn.Linear(2, 3).parameters()]
        [6, 3]
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their paths.

        >>> [name for name, _ in nn.Sequential(nn.Linear(1, 1)).named_parameters()]
        ['0.weight', '0.bias']
        """
        yield from self._named_members(
            lambda m: m._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """All buffers, of this module and those below.

        >>> len(list(nn.BatchNorm1d(2).buffers()))
        3
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """All buffers with their paths.

        >>> [name for name, _ in nn.BatchNorm1d(2).named_buffers()]
        ['running_mean', 'running_var', 'num_batches_tracked']
        """
        yield from self._named_members(
            lambda m: m._buffers.items(), prefix, recurse, remove_duplicate
        )

    def children(self) -> Iterator[Module]:
        """The modules directly inside this one.

        >>> len(list(nn.Sequential(nn.ReLU(), nn.ReLU()).children()))
        2
        """
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly inside this one, with their names.

        >>> [name for name, _ in nn.Sequential(nn.ReLU(), nn.ReLU()).named_children()]
        ['0', '1']
        """
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below.

        >>> len(list(nn.Sequential(nn.ReLU(), nn.Tanh()).modules()))  # itself too
        3
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below, with their paths.

        >>> [name for name, _ in nn.Sequential(nn.ReLU(), nn.Tanh()).named_modules()]
        ['', '0', '1']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def apply(self, fn: Callable[[Module], None]) -> Any:
        """Call `fn` on every module below, then on this one.

        >>> def zero(module):
        ...     if isinstance(module, nn.Linear):
        ...         nn.init.zeros_(module.weight)
        >>> net = nn.Sequential(nn.Linear(2, 1)).apply(zero)
        >>> net[0].weight.tolist()
        [[0.0, 0.0]]
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ------------------------------------------------------------------ modes and gradients

    def train(self, mode: bool = True) -> Any:
        """Put this module and all below into training mode.

        >>> nn.Dropout().eval().train().training
        True
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Any:
        """Put this module and all below into evaluation mode.

        >>> nn.Dropout().eval().training
        False
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Say for all parameters whether gradients are recorded.

        >>> [p.requires_grad for p in nn.Linear(2, 1).requires_grad_(False).parameters()]
        [False, False]
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero.

        >>> layer = nn.Linear(1, 1)
        >>> layer(ones(1)).sum().backward()
        >>> layer.zero_grad()
        >>> print(layer.weight.grad)
        None
        """
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                set_to_zero(parameter.grad)

    # ------------------------------------------------------------------ compiled calls

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Have calls of this module compiled: `torch.compile` in place, with its options.

        >>> model = nn.Linear(2, 1)
        >>> model.compile()
        >>> model(ones(1, 2)).shape
        torch.Size([1, 1])
        """
        self._compiled_call_impl = tg.compile(self._call_impl, *args, **kwargs)

    def _replicate_for_data_parallel(self) -> Any:
        """A module of the same kind without parameters, buffers and parts, which DataParallel
        fills with copies."""
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = self._buffers.copy()
        replica._modules = self._modules.copy()
        replica._is_replica = True
        return replica

    # ------------------------------------------------------------------ text

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text in the parentheses of the repr; subclasses override it.

        >>> class Scale(nn.Module):
        ...     def extra_repr(self):
        ...         return "by=2"
        >>> Scale()
        Scale(by=2)
        """
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {indented(repr(m))}" for name, m in self._modules.items()]
        head = self._get_name() + "("
        if len(lines) == 1 and not children:
            return head + lines[0] + ")"
        if not lines and not children:
            return head + ")"
        return head + "\n  " + "\n  ".join(lines + children) + "\n)"


# Helpers are functions, not methods: a name on Module is one that no child can have.


def announced(hooks: Any, module: Module, name: str, value: Any) -> Any:
    """The value to register: what the global registration hooks make of it."""
    for hook in hooks.values():
        answer = hook(module, name, value)
        value = value if answer is None else answer
    return value


def set_buffer(module: Module, name: str, value: Any) -> None:
    """`module.name = value` for the name of a buffer, or for a Buffer."""
    if value is not None and not isinstance(value, tg.Tensor):
        raise TypeError(
            f"cannot assign '{typename(value)}' as buffer '{name}' "
            "(torch.nn.Buffer, torch.Tensor or None expected)"
        )
    if isinstance(value, Buffer):
        if "_buffers" not in module.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if name in module.__dict__:
            raise KeyError(f"attribute '{name}' already exists")
        forget(module, name, "_buffers")
        register_given(module, name, value)
    else:
        module._buffers[name] = announced(GLOBAL.buffer_registration, module, name, value)


def register_given(module: Module, name: str, buffer: Buffer) -> None:
    """Register a Buffer, also where a class has a `register_buffer` that knows no `persistent`."""
    register = module.register_buffer
    if (
        getattr(register, "__func__", None) is Module.register_buffer
        or "persistent" in inspect.signature(register).parameters
    ):
        register(name, buffer, buffer.persistent)
    elif buffer.persistent:
        register(name, buffer)
    else:
        raise RuntimeError(
            "Registering a non-persistent buffer on a Module subclass that implements "
            "register_buffer() without the persistent argument is not allowed."
        )


def forget(module: Module, name: str, but: str) -> None:
    """Drop a name from everywhere except one of the dicts, before it is registered there."""
    own = module.__dict__
    own.pop(name, None)
    for where in REGISTERED:
        if where != but:
            own[where].pop(name, None)
    own["_non_persistent_buffers_set"].discard(name)


def indented(text: str, spaces: int = 2) -> str:
    """All lines but the first moved to the right."""
    return text.replace("\n", "\n" + " " * spaces)


_addindent = indented  # the name by which other packages import it


def check_name(what: str, name: Any, module: Module, where: str) -> None:
    """PyTorch's rules for the name of a parameter or buffer."""
    if not isinstance(name, str):
        raise TypeError(f"{what} name should be a string. Got {typename(name)}")
    if "." in name:
        raise KeyError(f'{what} name can\'t contain "."')
    if name == "":
        raise KeyError(f'{what} name can\'t be empty string ""')
    if hasattr(module, name) and name not in module.__dict__[where]:
        raise KeyError(f"attribute '{name}' already exists")
