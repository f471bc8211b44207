"""Parametrizations that are often wanted: orthogonal, of given norm, of spectral norm one."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import tapegrad as tg

from .. import functional as F
from ..modules.module import Module
from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def check_name(module: Any, name: str) -> Any:
    weight = getattr(module, name, None)
    if not isinstance(weight, tg.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


# ---------------------------------------------------------------------- orthogonal


def _is_orthogonal(Q: Any, eps: float | None = None) -> bool:  # noqa: N803
    n, k = Q.size(-2), Q.size(-1)
    one = tg.eye(k, dtype=Q.dtype, device=Q.device)
    eps = 10.0 * n * tg.finfo(Q.dtype).eps if eps is None else eps
    return bool(tg.allclose(Q.mH @ Q, one, atol=eps))


def _make_orthogonal(A: Any) -> Any:  # noqa: N803
    """The orthogonal factor of a tall matrix, with the signs that leave orthogonal ones as is."""
    reflectors, tau = tg.geqrf(A)
    Q = tg.linalg.householder_product(reflectors, tau)  # noqa: N806
    return Q * reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    """An orthogonal matrix from any one; see `orthogonal`."""

    base: Any

    def __init__(
        self, weight: Any, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:  # noqa: N803
        wide = X.size(-2) < X.size(-1)
        X = X.mT if wide else X  # noqa: N806
        if self.orthogonal_map == _OrthMaps.householder:
            below = X.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (below * below).sum(dim=-2))
            out = tg.linalg.householder_product(below, tau)
            # The diagonal holds signs; it is 1 or -1, not learned.
            out = out * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            out = self._of_skew(X)
        if hasattr(self, "base"):
            out = self.base @ out
        return out.mT if wide else out

    def _of_skew(self, X: Any) -> Any:  # noqa: N803
        """The exponential, or the Cayley map, of the skew-symmetric matrix that X stands for."""
        n, k = X.size(-2), X.size(-1)
        lower = X.tril()
        if n != k:
            rest = lower.new_zeros(n, n - k).expand(*lower.shape[:-2], -1, -1)
            lower = tg.cat([lower, rest], dim=-1)
        skew = lower - lower.mH
        if self.orthogonal_map == _OrthMaps.matrix_exp:
            out = tg.matrix_exp(skew)
        else:
            one = tg.eye(n, dtype=skew.dtype, device=skew.device)
            out = tg.linalg.solve(tg.add(one, skew, alpha=-0.5), tg.add(one, skew, alpha=0.5))
        return out if n == k else out[..., :k]

    @tg.no_grad()
    def right_inverse(self, Q: Any) -> Any:  # noqa: N803
        """The parameter for a given Q; with a base, Q becomes the base and the parameter starts
        anew.
        """
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        given = Q
        wide = Q.size(-2) < Q.size(-1)
        Q = Q.mT if wide else Q  # noqa: N806
        n, k = Q.size(-2), Q.size(-1)
        if not hasattr(self, "base"):
            if self.orthogonal_map != _OrthMaps.householder:
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            reflectors, tau = tg.geqrf(Q)
            signs = reflectors.diagonal(dim1=-2, dim2=-1)
            signs.sign_()
            # A tau of zero is a reflection that did not happen.
            signs[tau == 0.0] *= -1
            return reflectors.mT if wide else reflectors
        if n == k:
            self.base = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        else:
            rest = tg.randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
            self.base = _make_orthogonal(tg.cat([Q, rest], dim=-1))
        # The diagonal counts for Householder only: there, -1 is the identity.
        start = tg.zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: Any,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Any:
    """Keep a matrix orthogonal (unitary): its columns, or rows if there are fewer, orthonormal.

    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(2, 4))
    >>> bool(allclose(layer.weight.T @ layer.weight, eye(2), atol=1e-6))
    True
    """
    weight = check_name(module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    chosen = getattr(_OrthMaps, orthogonal_map, None)
    if chosen is None:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
            f"{orthogonal_map}"
        )
    made = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module


# ---------------------------------------------------------------------- norms


class _WeightNorm(Module):
    """A weight from its length and its direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return tg._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        """Length and direction of a weight."""
        return tg.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Learn the length and the direction of a weight apart.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([3, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def take_old_names(state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """State dicts of `nn.utils.weight_norm` can be loaded."""
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all([key in state_dict for key in old]):
            for i, key in enumerate(old):
                new = f"{prefix}parametrizations.{name}.original{i}"
                state_dict[new] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(take_old_names)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which the power method follows."""

    _u: Any
    _v: Any

    def __init__(
        self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but "
                f"got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            height, width = matrix.size()
            u = matrix.new_empty(height).normal_(0, 1)
            v = matrix.new_empty(width).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            # A good start, so that the first steps of training need not find it.
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Any) -> Any:
        if self.dim != 0:
            others = [d for d in range(weight.dim()) if d != self.dim]
            weight = weight.permute(self.dim, *others)
        return weight.flatten(1)

    @tg.no_grad()
    def _power_method(self, weight_mat: Any, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            self._u.copy_(F.normalize(tg.mv(weight_mat, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(tg.mv(weight_mat.H, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # The next call writes into the buffers; this one's graph keeps copies.
        u, v = self._u.clone(), self._v.clone()
        return weight / tg.vdot(u, tg.mv(matrix, v))

    def right_inverse(self, value: Any) -> Any:
        """Taken as it is: its norm does not matter."""
        return value


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Keep the largest singular value of a weight at one.

    >>> nn.utils.parametrizations.spectral_norm(nn.Linear(2, 3)).weight.shape
    torch.Size([3, 2])
    """
    weight = check_name(module, name)
    if dim is None:
        turned = (tg.nn.ConvTranspose1d, tg.nn.ConvTranspose2d, tg.nn.ConvTranspose3d)
        dim = 1 if isinstance(module, turned) else 0
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    parametrize.register_parametrization(module, name, made)
    return module
