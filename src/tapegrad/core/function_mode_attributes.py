"""`__torch_function__` for the fields of a tensor (`x.shape`) and for methods that are no op.

They are asked for all the time, so they look at nobody until a program shows an interest: the first
mode, or the first tensor of a class with a `__torch_function__` of its own, puts watched ones in
their place. The library's own questions are not passed on.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from .function_modes import WATCHED, ask_watchers, is_watched
from .late_bound import TENSOR

# The methods that PyTorch asks about, of those that run no op.
METHODS = """
    __array__ __bool__ __complex__ __contains__ __deepcopy__ __float__ __format__ __index__ __int__
    __len__ __reduce_ex__ __reversed__ data_ptr detach_ dim element_size
    get_device is_complex is_conj is_contiguous is_floating_point is_inference is_neg is_signed
    ndimension nelement numel register_hook register_post_accumulate_grad_hook requires_grad_
    retain_grad size storage_offset stride
""".split()
NOT_ASKED = ("__cuda_array_interface__", "_backward_hooks")
INSTALLED: list[bool] = []


def install() -> None:
    """Let fields and methods look at `WATCHED`, as functions do."""
    if INSTALLED:
        return
    INSTALLED.append(True)
    cls: Any = TENSOR.cls
    for name, value in list(vars(cls).items()):
        if isinstance(value, property) and name not in NOT_ASKED:
            setattr(cls, name, watched_field(value))
        elif name in METHODS:
            setattr(cls, name, watched_method(name, value))


def is_asked(t: Any) -> bool:
    """Whether a mode or class wants to answer, and the user's code is what asks."""
    if not WATCHED or not is_watched((t,), {}):
        return False
    caller: str = sys._getframe(2).f_globals.get("__name__", "")
    return not caller.startswith("tapegrad.")


def watched_field(field: property) -> property:
    assert field.fget is not None
    read, write = field.fget, field.fset

    def get(self: Any) -> Any:
        return ask_watchers(made.__get__, (self,), {}) if is_asked(self) else read(self)

    def put(self: Any, value: Any) -> None:
        if is_asked(self):
            ask_watchers(made.__set__, (self, value), {})
        elif write is not None:
            write(self, value)

    made = property(get, None if write is None else put, field.fdel, field.__doc__)
    return made


def watched_method(name: str, method: Any) -> Any:
    @functools.wraps(method)
    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_asked(self):
            return ask_watchers(ask, (self, *args), kwargs)
        return method(self, *args, **kwargs)

    ask.__name__ = name
    return ask
