"""Pruning: weights are switched off by a mask; what they were is kept as `<name>_orig`."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import tapegrad as tg

from .convert_parameters import parameters_to_vector


class BasePruningMethod(ABC):
    """A way to choose a mask; as a hook, it puts the masked weight in place before each call.

    >>> class Negative(nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         return default_mask * (t > 0)
    >>> layer = nn.Linear(2, 1)
    >>> layer.weight = nn.Parameter(tensor([[-1.0, 2.0]]))
    >>> _ = Negative.apply(layer, "weight")
    >>> layer.weight
    tensor([[-0., 2.]], grad_fn=<MulBackward0>)
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask for a tensor of importances, on top of the mask that it has."""

    def apply_mask(self, module: Any) -> Any:
        """The masked weight."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, f"{self._tensor_name}_mask")
        original = getattr(module, f"{self._tensor_name}_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter of a module; what was pruned before stays so."""
        old = take_hook(module, name)
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        if old is not None:
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {importance_scores.shape} vs {original.shape}"
            )
        if old is None:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
            default_mask = tg.ones_like(original)
        else:
            default_mask = getattr(module, f"{name}_mask").detach().clone()
        try:
            mask = method.compute_mask(importance_scores, default_mask=default_mask)
            module.register_buffer(f"{name}_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if old is None:
                module.register_parameter(name, original)
                del module._parameters[f"{name}_orig"]
            raise
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A tensor with the chosen elements at zero, without a module."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, got "
                f"{importance_scores.shape} vs {t.shape}"
            )
        if default_mask is None:
            default_mask = tg.ones_like(t)
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module: Any) -> None:
        """Make the masked weight the parameter."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, self._tensor_name):
            delattr(module, self._tensor_name)
        original = module._parameters[f"{self._tensor_name}_orig"]
        original.data = weight.data
        del module._parameters[f"{self._tensor_name}_orig"]
        del module._buffers[f"{self._tensor_name}_mask"]
        setattr(module, self._tensor_name, original)


def take_hook(module: Any, name: str) -> Any:
    """The pruning of a parameter, taken off its module; None if there is none."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            del module._forward_pre_hooks[key]
            return hook
    return None


class PruningContainer(BasePruningMethod):
    """Pruning methods one after the other on the same parameter.

    >>> layer = nn.Linear(3, 1)
    >>> layer.weight = nn.Parameter(tensor([[0.1, -3.0, 0.5]]))
    >>> for _ in range(2):
    ...     _ = nn.utils.prune.l1_unstructured(layer, "weight", amount=1)
    >>> (method,) = layer._forward_pre_hooks.values()
    >>> isinstance(method, nn.utils.prune.PruningContainer), layer.weight
    (True, tensor([[ 0., -3.,  0.]], grad_fn=<MulBackward0>))
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """One more."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The last method's mask for what is not masked yet, together with the old mask."""
        method = self._pruning_methods[-1]
        mask = default_mask
        combined = mask.to(dtype=t.dtype)
        rest = not_pruned(method, mask)
        part = method.compute_mask(t[rest], default_mask=mask[rest])
        combined[rest] = part.to(dtype=combined.dtype)
        return combined


def not_pruned(method: BasePruningMethod, mask: Any) -> Any:
    """An index for what a method may still choose from."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    whole: list[Any] = [slice(None)] * mask.dim()
    if method.PRUNING_TYPE == "structured":
        if not hasattr(method, "dim"):
            raise AttributeError(
                'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` '
                "defined."
            )
        dim = method.dim if method.dim >= 0 else method.dim + mask.dim()
        if dim < 0:
            raise IndexError(f"Index is out of bounds for tensor with dimensions {mask.dim()}")
        whole[dim] = mask.sum(dim=[d for d in range(mask.dim()) if d != dim]) != 0
    elif method.PRUNING_TYPE != "global":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    return tuple(whole)


# ---------------------------------------------------------------------- ways to choose


class Identity(BasePruningMethod):
    """Masks nothing.

    >>> layer = nn.Linear(2, 1)
    >>> _ = nn.utils.prune.Identity.apply(layer, "weight")
    >>> layer.weight_mask
    tensor([[1., 1.]])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask that it has."""
        return default_mask

    @classmethod
    def apply(cls, module: Any, name: str) -> Any:  # type: ignore[override]
        """Give a parameter a mask of ones."""
        return super().apply(module, name)


class _Unstructured(BasePruningMethod):
    """Masks elements, wherever they are."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """`amount` elements masked."""
        count = how_many(self.amount, t.nelement())
        mask = default_mask.clone()
        if count != 0:
            mask.view(-1)[self._chosen(t, count)] = 0
        return mask

    def _chosen(self, t: Any, count: int) -> Any:
        """The places of `count` elements."""
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """Masks elements at random.

    >>> method = nn.utils.prune.RandomUnstructured(amount=2)
    >>> int(method.prune(ones(3, 2)).sum())
    4
    """

    def _chosen(self, t: Any, count: int) -> Any:
        return tg.topk(tg.rand_like(t).view(-1), k=count).indices

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any) -> Any:  # type: ignore[override]
        """Prune a parameter of a module."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Masks the smallest elements.

    >>> method = nn.utils.prune.L1Unstructured(amount=2)
    >>> method.prune(tensor([0.1, -3.0, 0.5]))
    tensor([ 0., -3.,  0.])
    """

    def _chosen(self, t: Any, count: int) -> Any:
        return tg.topk(tg.abs(t).view(-1), k=count, largest=False).indices

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Any, name: str, amount: Any, importance_scores: Any = None
    ) -> Any:
        """Prune a parameter of a module."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Masks whole channels at random.

    >>> method = nn.utils.prune.RandomStructured(amount=1, dim=0)
    >>> int((method.prune(ones(3, 2)).sum(1) == 0).sum())
    1
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """`amount` channels masked."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        count = how_many(self.amount, t.shape[self.dim])
        if count == 0:
            return default_mask
        draws = tg.rand(t.shape[self.dim])
        threshold = tg.kthvalue(draws, k=count).values
        return channel_mask(t, self.dim, draws > threshold).mul_(default_mask.to(dtype=t.dtype))

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, dim: int = -1) -> Any:  # type: ignore[override]
        """Prune a parameter of a module."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Masks the channels of the smallest norms.

    >>> method = nn.utils.prune.LnStructured(amount=1, n=2, dim=0)
    >>> method.prune(tensor([[3.0, 4.0], [0.1, 0.2]]))
    tensor([[3., 4.],
            [0., 0.]])
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """`amount` channels masked."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        size = t.shape[self.dim]
        count = how_many(self.amount, size)
        if count == 0:
            return default_mask
        largest = tg.topk(_compute_norm(t, self.n, self.dim), k=size - count, largest=True)
        return channel_mask(t, self.dim, largest.indices).mul_(default_mask.to(dtype=t.dtype))

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Any,
        name: str,
        amount: Any,
        n: Any,
        dim: int,
        importance_scores: Any = None,
    ) -> Any:
        """Prune a parameter of a module."""
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Masks what a given mask says.

    >>> layer = nn.Linear(2, 1)
    >>> layer.weight = nn.Parameter(tensor([[1.0, 2.0]]))
    >>> _ = nn.utils.prune.CustomFromMask.apply(layer, "weight", tensor([[0, 1]]))
    >>> layer.weight
    tensor([[0., 2.]], grad_fn=<MulBackward0>)
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Both masks together."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, mask: Any) -> Any:  # type: ignore[override]
        """Prune a parameter of a module."""
        return super().apply(module, name, mask=mask)


# ---------------------------------------------------------------------- functions on modules


def identity(module: Any, name: str) -> Any:
    """A mask of ones.

    >>> layer = nn.utils.prune.identity(nn.Linear(2, 1), "weight")
    >>> layer.weight_mask
    tensor([[1., 1.]])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Mask elements at random: a number of them, or a fraction.

    >>> layer = nn.utils.prune.random_unstructured(nn.Linear(2, 3), "weight", amount=0.5)
    >>> int(layer.weight_mask.sum())
    3
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Mask the smallest elements: a number of them, or a fraction.

    >>> layer = nn.Linear(3, 1)
    >>> layer.weight = nn.Parameter(tensor([[0.1, -3.0, 0.5]]))
    >>> nn.utils.prune.l1_unstructured(layer, "weight", amount=1).weight
    tensor([[ 0.0000, -3.0000,  0.5000]], grad_fn=<MulBackward0>)
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Mask channels at random.

    >>> layer = nn.utils.prune.random_structured(nn.Linear(2, 3), "weight", amount=1, dim=0)
    >>> int((layer.weight_mask.sum(1) == 0).sum())
    1
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Mask the channels of the smallest norms of order `n`.

    >>> layer = nn.Linear(2, 2)
    >>> layer.weight = nn.Parameter(tensor([[3.0, 4.0], [0.1, 0.2]]))
    >>> nn.utils.prune.ln_structured(layer, "weight", amount=1, n=2, dim=0).weight
    tensor([[3., 4.],
            [0., 0.]], grad_fn=<MulBackward0>)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune parameters of several modules as if they were one.

    >>> first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> nn.init.constant_(first.weight, 0.1)
    Parameter containing:
    tensor([[0.1000, 0.1000],
            [0.1000, 0.1000]], requires_grad=True)
    >>> nn.utils.prune.global_unstructured(
    ...     [(first, "weight"), (second, "weight")], nn.utils.prune.L1Unstructured, amount=4
    ... )
    >>> int(first.weight_mask.sum() + second.weight_mask.sum())
    4
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    if importance_scores is None:
        importance_scores = {}
    elif not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    scores = parameters_to_vector(
        [importance_scores.get((m, name), getattr(m, name)) for m, name in parameters]
    )
    masks = parameters_to_vector(
        [getattr(m, f"{name}_mask", tg.ones_like(getattr(m, name))) for m, name in parameters]
    )
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    final = container.compute_mask(scores, masks)
    start = 0
    for module, name in parameters:
        param = getattr(module, name)
        end = start + param.numel()
        custom_from_mask(module, name, mask=final[start:end].view_as(param))
        start = end


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Mask what a given mask says.

    >>> layer = nn.Linear(2, 1)
    >>> layer.weight = nn.Parameter(tensor([[1.0, 2.0]]))
    >>> nn.utils.prune.custom_from_mask(layer, "weight", tensor([[0, 1]])).weight
    tensor([[0., 2.]], grad_fn=<MulBackward0>)
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Any, name: str) -> Any:
    """Make pruning permanent: the masked weight becomes the parameter.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(3, 1), "weight", amount=1)
    >>> print(sorted(name for name, _ in layer.named_parameters()))
    ['bias', 'weight_orig']
    >>> _ = nn.utils.prune.remove(layer, "weight")
    >>> sorted(name for name, _ in layer.named_parameters())
    ['bias', 'weight']
    """
    hook = take_hook(module, name)
    if hook is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    hook.remove(module)
    return module


def is_pruned(module: Any) -> bool:
    """Whether a module or one below it is pruned.

    >>> layer = nn.Linear(2, 1)
    >>> print(nn.utils.prune.is_pruned(layer))
    False
    >>> _ = nn.utils.prune.random_unstructured(layer, "weight", amount=1)
    >>> nn.utils.prune.is_pruned(layer)
    True
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for each in module.modules()
        for hook in each._forward_pre_hooks.values()
    )


# ---------------------------------------------------------------------- checks and parts


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if amount < 0 or (not whole and amount > 1):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to "
            f"prune={tensor_size}"
        )


def _validate_structured_pruning(t: Any) -> None:
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.dim()} dims"
        )


def _validate_pruning_dim(t: Any, dim: int) -> None:
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    if isinstance(amount, numbers.Integral):
        return amount  # type: ignore[return-value]
    return round(amount * tensor_size)


def _compute_norm(t: Any, n: Any, dim: int) -> Any:
    """The norms of the channels of a dimension."""
    dims = [d for d in range(t.dim()) if d != dim % t.dim()]
    return tg.norm(t, p=n, dim=dims)


def how_many(amount: Any, size: int) -> int:
    count = _compute_nparams_toprune(amount, size)
    _validate_pruning_amount(count, size)
    return count


def channel_mask(t: Any, dim: int, kept: Any) -> Any:
    """Ones in the kept channels."""
    mask = tg.zeros_like(t)
    index: list[Any] = [slice(None)] * t.dim()
    index[dim] = kept
    mask[tuple(index)] = 1
    return mask
