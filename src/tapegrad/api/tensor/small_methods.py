"""Methods of tensors that few programs call, and those that PyTorch keeps for old ones."""

from __future__ import annotations

from typing import Any

from ...core.strides import iteration_order
from ...core.warned import warn
from ...device import contiguous_format, memory_format
from ...ops.block.checks import as_number, only_bool
from .. import removed_names
from .predicates import is_distributed, is_same_size

REINFORCE = (
    "reinforce() was removed.\nUse torch.distributions instead.\n"
    "See https://pytorch.org/docs/main/distributions.html"
)
SAME_LENGTH = "all dimensions of input must be of equal length"
NO_ORDER = (
    "The tensor does not have unique dim order, or cannot map to exact one of the given memory "
    "formats."
)


def fill_diagonal_(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """fill_diagonal_(fill_value, wrap=False) -> Tensor: set the elements with equal indices.

    With `wrap`, the diagonal of a tall matrix begins anew below its end, one row left out.

    >>> x = zeros(2, 3)
    >>> x.fill_diagonal_(7)
    tensor([[7., 0., 0.],
            [0., 7., 0.]])
    >>> x
    tensor([[7., 0., 0.],
            [0., 7., 0.]])
    """
    as_number("fill_diagonal_", "fill_value", fill_value)
    only_bool("fill_diagonal_", "wrap", 2, wrap)
    shape = tuple(self.shape)
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2:
        if len(set(shape)) > 1:
            raise RuntimeError(SAME_LENGTH)
        flat = self.as_strided((shape[0],), (sum(self.stride()),), self.storage_offset())
        flat.fill_(fill_value)
        return self
    rows, columns = shape
    for first in range(0, rows if wrap else 1, columns + 1):
        self.narrow(0, first, min(columns, rows - first)).diagonal().fill_(fill_value)
    return self


def dim_order(self: Any, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """dim_order(*, ambiguity_check=False) -> tuple: the dimensions, the slowest in memory first.

    >>> zeros(2, 3).dim_order(), zeros(2, 3).t().dim_order()
    ((0, 1), (1, 0))
    """
    formats = [] if isinstance(ambiguity_check, bool) else ambiguity_check
    if not isinstance(formats, list) or not all([isinstance(f, memory_format) for f in formats]):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    strides = self.stride()
    if ambiguity_check is not False:
        steps = [s for s, n in zip(strides, self.shape, strict=True) if n != 1]
        if len(steps) < len(strides) or len(set(steps)) < len(steps):
            fitting = [f for f in formats if self.is_contiguous(memory_format=f)]
            if len(fitting) != 1:
                raise RuntimeError(NO_ORDER)
            if fitting[0] is not contiguous_format:  # channels last
                return (0, *range(2, len(strides)), 1)
    return tuple(iteration_order(self._array.shape, strides))


def const_data_ptr(self: Any) -> int:
    """const_data_ptr() -> int: the address of the first element.

    >>> x = zeros(3)
    >>> x.const_data_ptr() == x.data_ptr()
    True
    """
    return self.data_ptr()  # type: ignore[no-any-return]


def module_load(self: Any, other: Any, assign: bool = False) -> Any:
    """module_load(other, assign=False) -> Tensor: what `load_state_dict` puts in place of self.

    >>> zeros(2).module_load(ones(2))
    tensor([1., 1.])
    """
    if assign:
        return other.detach()
    return self.copy_(other).detach()


def resize(self: Any, *sizes: Any) -> Any:
    """Old: `reshape`, by a name that promises more.

    >>> tensor([1, 2, 3, 4]).resize(2, 2)
    tensor([[1, 2],
            [3, 4]])
    """
    warn("non-inplace resize is deprecated", UserWarning)
    return resized(self, sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes)


def resize_as(self: Any, tensor: Any) -> Any:
    """Old: `reshape_as`.

    >>> tensor([1, 2, 3, 4]).resize_as(zeros(2, 2))
    tensor([[1, 2],
            [3, 4]])
    """
    warn("non-inplace resize_as is deprecated", UserWarning)
    return resized(self, tensor.size())


def resized(t: Any, sizes: Any) -> Any:
    wanted = 1
    for size in sizes:
        wanted *= size
    if wanted != t.numel():
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, sizes))} ({wanted} elements in total), but "
            f"the given tensor has a size of {'x'.join(map(str, t.size()))} ({t.numel()} "
            "elements). autograd's resize can only change the shape of a given tensor, while "
            "preserving the number of elements. "
        )
    return t.contiguous().view(tuple(sizes))


def reinforce(self: Any, reward: Any) -> None:
    """Removed.

    >>> try:
    ...     tensor([1.0]).reinforce(1.0)
    ... except RuntimeError as error:
    ...     print(str(error).splitlines()[0])
    reinforce() was removed.
    """
    raise RuntimeError(REINFORCE)


def storage_type(self: Any) -> Any:
    """storage_type() -> type: the class of the storages of this dtype.

    >>> zeros(2).storage_type().__name__
    'FloatStorage'
    """
    from .legacy_storages import ALL

    return ALL[self.dtype]


def volatile(self: Any) -> bool:
    """Removed: always False.

    >>> zeros(2).volatile
    False
    """
    warn("volatile was removed (Variable.volatile is always False)", UserWarning)
    return False


def set_volatile(self: Any, value: Any) -> None:
    warn(
        "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
        UserWarning,
    )


METHODS = {
    "const_data_ptr": const_data_ptr,
    "dim_order": dim_order,
    "eig": removed_names.eig_method,
    "fill_diagonal_": fill_diagonal_,
    "is_distributed": is_distributed,
    "is_same_size": is_same_size,
    "lstsq": removed_names.lstsq_method,
    "module_load": module_load,
    "reinforce": reinforce,
    "resize": resize,
    "resize_as": resize_as,
    "solve": removed_names.solve_method,
    "storage_type": storage_type,
    "symeig": removed_names.symeig_method,
}


def name(self: Any) -> None:
    """None: names of tensors are gone from PyTorch."""


PROPERTIES = {"name": name, "volatile": property(volatile, set_volatile)}
