"""From the published blocks to what users call: functions, methods, in-place methods, `out=`."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from ..autograd.inplace import prefer_refusal, write
from ..errors import must_be_tensor
from ..ops import load
from ..ops.block import APIS, Api, apply_one
from .base import TensorBase
from .dispatch import unary
from .op import REGISTRY
from .operators import OPS
from .outputs import write_outputs

# NumPy's spellings, accepted wherever PyTorch's parameter exists.
NUMPY_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
}


def tidy(api: Api, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments with NumPy's spellings replaced by PyTorch's."""
    parameters = api.parameters
    for name, ours in NUMPY_NAMES.items():
        if name in kwargs and ours in parameters and name not in parameters:
            kwargs[ours] = kwargs.pop(name)
    return kwargs


def make_function(api: Api) -> Callable[..., Any]:
    """The function `tapegrad.<name>`; `out=` goes to outputs.py."""
    call = api.call
    takes_out = "out" in api.parameters

    @functools.wraps(call)
    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = tidy(api, kwargs)
            if "out" in kwargs and not takes_out:
                out = kwargs.pop("out")
                if out is not None:
                    return write_outputs(api.name, out, call, args, kwargs)
        try:
            return call(*args, **kwargs)
        except TypeError as error:
            raise explain(api, error, args, kwargs) from None
        except AttributeError as error:
            raise no_tensor(api, error, args, kwargs) from None

    return named(function, api.name, api.doc, "tapegrad")


def make_method(api: Api) -> Callable[..., Any]:
    call = api.call
    op = getattr(call, "op", None)
    if op is not None:
        road = unary if op.elementwise else apply_one

        def plain(self: Any, *args: Any) -> Any:
            if args:
                raise TypeError(f"TensorBase.{api.name}() takes no arguments ({len(args)} given)")
            return road(op, self)

        return named(plain, api.name, api.doc, "tapegrad.Tensor")

    writes = api.name.endswith("_")

    @functools.wraps(call)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = tidy(api, kwargs)
        try:
            return call(self, *args, **kwargs)
        except TypeError as error:
            raise explain(api, error, (self, *args), kwargs) from None
        except AttributeError as error:
            raise no_tensor(api, error, (self, *args), kwargs) from None
        except (IndexError, RuntimeError) as error:
            if writes:
                prefer_refusal(self, error)
            raise

    return named(method, api.name, api.doc, "tapegrad.Tensor")


def make_inplace(api: Api) -> Callable[..., Any]:
    call = api.call

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = tidy(api, kwargs)
        try:
            return call(self, *args, **kwargs, run=write)
        except AttributeError as error:
            raise no_tensor(api, error, (self, *args), kwargs) from None
        except (IndexError, RuntimeError) as error:
            prefer_refusal(self, error)
            raise

    return named(
        method, api.name + "_", f"In-place version of `{api.name}`.\n\n{api.doc}", "tapegrad.Tensor"
    )


def no_tensor(
    api: Api, error: AttributeError, args: Any, kwargs: dict[str, Any]
) -> TypeError | AttributeError:
    """PyTorch's sentence for an argument that is no tensor; other errors as they are."""
    culprit = error.obj
    if isinstance(culprit, TensorBase):
        return error
    for position, value in enumerate(args[: len(api.parameters)]):
        name = api.parameters[position]
        wanted = value is culprit or (position == 0 and name in ("input", "self"))
        if wanted and not isinstance(value, TensorBase):
            return must_be_tensor(api.name, name, position + 1, value)
    kind = type(culprit).__name__
    for name, value in kwargs.items():
        if value is culprit:
            return TypeError(f"{api.name}(): argument '{name}' must be Tensor, not {kind}")
    if error.name == "array":
        return TypeError(f"{api.name}(): expected Tensor as element of a sequence, but got {kind}")
    return error


def explain(api: Api, error: TypeError, args: Any, kwargs: dict[str, Any]) -> TypeError:
    """PyTorch's sentence for arguments that do not fit the signature; other errors as they are."""
    at = error.__traceback__
    if at is None or at.tb_next is not None:
        # Raised inside the function, perhaps by an op that has no public name of its own.
        head, found, rest = str(error).partition("(): argument")
        if found and head in REGISTRY and head not in APIS:
            return TypeError(api.name + found + rest)
        return error
    known = [p for p in inspect.signature(api.call).parameters.values() if p.name != "run"]
    for name in kwargs:
        if all(p.name != name for p in known):
            return TypeError(f"{api.name}() got an unexpected keyword argument '{name}'")
    positional = [p for p in known if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    missing = [
        p.name
        for p in positional[len(args) :]
        if p.default is inspect.Parameter.empty and p.name not in kwargs
    ]
    if missing:
        names = ", ".join(f'"{name}"' for name in missing)
        return TypeError(
            f"{api.name}() missing {len(missing)} required positional arguments: {names}"
        )
    if len(positional) == 1:
        return TypeError(f"TensorBase.{api.name}() takes no arguments ({len(args) - 1} given)")
    return TypeError(
        f"{api.name}() takes {len(positional)} positional arguments but {len(args)} were given"
    )


def named(function: Any, name: str, doc: str, module: str) -> Callable[..., Any]:
    function.__name__ = name
    function.__qualname__ = name if module == "tapegrad" else f"Tensor.{name}"
    function.__doc__ = doc
    function.__module__ = "tapegrad"
    return function  # type: ignore[no-any-return]


# The in-place methods that are functions too, as `torch.exp_(x)`.
WRITING = """
    abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh as_strided asin asinh
    atan atanh ceil clamp clamp_max clamp_min clip conj_physical cos cosh detach erf erfc
    exp exp2 expm1 fill fix floor frac index_put log log10 log1p log2 nan_to_num neg
    negative reciprocal relu resize_as round rsqrt sigmoid sin sinh sqrt square tan tanh
    trunc zero
"""


# `x += y` and friends: the in-place method behind each operator.
AUGMENTED = {
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__ipow__": "pow_",
    "__iand__": "bitwise_and_",
    "__ior__": "bitwise_or_",
    "__ixor__": "bitwise_xor_",
    "__ilshift__": "bitwise_left_shift_",
    "__irshift__": "bitwise_right_shift_",
}


# Besides the families of ops, the modules whose functions are public.
LIBRARY = ("conversion", "creation", "tensors", "ranges", "random", "random_fill", "sampling")


def publish(namespace: dict[str, Any], cls: type) -> None:
    """Fill the package's namespace and the Tensor class from everything that was published."""
    families = load()
    for module in (*families, *[importlib.import_module(f"tapegrad.{name}") for name in LIBRARY]):
        # What a method does otherwise than the function of its name, and what looks like a field.
        for name, method in getattr(module, "METHODS", {}).items():
            setattr(cls, name, method)
        for name, getter in getattr(module, "PROPERTIES", {}).items():
            setattr(cls, name, property(getter))
    for name, api in APIS.items():
        if api.function:
            namespace[name] = make_function(api)
        if api.method and name not in cls.__dict__:
            setattr(cls, name, make_method(api))
        if api.inplace and f"{name}_" not in cls.__dict__:
            setattr(cls, f"{name}_", make_inplace(api))
    for name, op in REGISTRY.items():
        op.public = namespace.get(name)
    for name in WRITING.split():
        if hasattr(cls, name + "_"):
            namespace[name + "_"] = getattr(cls, name + "_")
    for operator, name in AUGMENTED.items():
        setattr(cls, operator, augmented(getattr(cls, name)))
    OPS.fill({name: api.call for name, api in APIS.items()})


def augmented(method: Callable[..., Any]) -> Callable[..., Any]:
    def operator(self: Any, other: Any) -> Any:
        if not isinstance(other, (TensorBase, int, float, complex)) and not hasattr(other, "dtype"):
            return NotImplemented
        return method(self, other)

    return operator
