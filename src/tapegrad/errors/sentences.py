"""Sentences of PyTorch's that say all there is to say."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..core.base import TensorBase
from ..core.is_array import is_array
from ..dtypes import cpp_name


def check_broadcast(arrays: list[Any]) -> None:
    """Raise PyTorch's sentence if the shapes of the operands do not broadcast."""
    shapes = [x.shape for x in arrays if is_array(x)]
    full = shapes[0] if shapes else ()
    for shape in shapes[1:]:
        size = max(len(full), len(shape))
        a = (1,) * (size - len(full)) + full
        b = (1,) * (size - len(shape)) + shape
        for d in range(size - 1, -1, -1):
            if a[d] != b[d] and a[d] != 1 and b[d] != 1:
                raise RuntimeError(
                    f"The size of tensor a ({a[d]}) must match the size of tensor b ({b[d]}) at "
                    f"non-singleton dimension {d}"
                )
        full = tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))


def inference_saved() -> Exception:
    return RuntimeError(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
        "inference mode in computation tracked by autograd. To work around this, you can make a "
        "clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
        "`torch.inference_mode()`."
    )


def saved_detached() -> Exception:
    return RuntimeError(
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
        "This is not supported, please use out-of-place `.detach()` instead"
    )


def swapped_data(node: str, role: str, old: Any, new: Any) -> Exception:
    return RuntimeError(
        f"{node} needs the data of `{role}`, which was a {old.dtype} tensor of shape "
        f"{list(old.shape)} and has been set to a {new.dtype} tensor of shape {list(new.shape)} "
        "since"
    )


def inference_written() -> Exception:
    return RuntimeError(
        "Inplace update to inference tensor outside InferenceMode is not allowed."
        "You can make a clone to get a normal tensor before doing inplace update."
        "See https://github.com/pytorch/rfcs/pull/17 for more details."
    )


def must_be_tensor(function: str, argument: str, position: int, value: Any) -> TypeError:
    kind = type(value)
    spelled = f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__
    return TypeError(
        f"{function}(): argument '{argument}' (position {position}) must be Tensor, not {spelled}"
    )


def no_method(name: str, value: Any) -> TypeError:
    """For `Tensor.numel([])`: a method of tensors that is called on something else."""
    return TypeError(
        f"descriptor '{name}' for 'torch._C.TensorBase' objects doesn't apply to a "
        f"'{type(value).__name__}' object"
    )


def unbound_call(error: AttributeError, name: str, value: Any) -> Exception:
    """Turn an AttributeError in a method into PyTorch's TypeError if `value` is no tensor."""
    return error if isinstance(value, TensorBase) else no_method(name, value)


Method = TypeVar("Method", bound=Callable[..., Any])


def of_tensors(method: Method) -> Method:
    """A method that says what PyTorch says when it is called unbound, on what is no tensor."""

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, TensorBase):
            raise no_method(method.__name__, self)
        return method(self, *args, **kwargs)

    return checked  # type: ignore[return-value]


def no_tensor_in_list(index: int, argument: int, value: Any) -> TypeError:
    return TypeError(
        f"expected Tensor as element {index} in argument {argument}, but got {type(value).__name__}"
    )


def does_not_fit(dtype: Any) -> RuntimeError:
    """For a number that a dtype cannot hold; this sentence names integers as C's headers do."""
    sized = dtype.name != "int32" and dtype.name.startswith(("int", "uint"))
    name = f"{dtype.name}_t" if sized else cpp_name(dtype)
    return RuntimeError(f"value cannot be converted to type {name} without overflow")
