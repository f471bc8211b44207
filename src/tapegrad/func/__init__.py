"""Functions of functions: derivatives, batches, and modules as functions of their parameters."""

from __future__ import annotations

from .curvature import ggn_vector_product, kfac_factors
from .derivatives import grad, grad_and_value, jvp, linearize, vjp
from .functionalization import functionalize
from .implicit import argmin, fixed_point, linear_solve, root
from .jacobians import hessian_diag, hvp, jacfwd, jacrev
from .looping import loop_over
from .module_state import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from .per_sample import per_sample_grad
from .rearranging import rearrange
from .solvers import NotConverged
from .sparse_jacobians import hessian, jacobian, sparsity
from .taylor import biharmonic, divergence, jet, laplacian, operator
from .vmapping import debug_unwrap, vmap

__all__ = [
    "NotConverged",
    "argmin",
    "biharmonic",
    "debug_unwrap",
    "divergence",
    "fixed_point",
    "functional_call",
    "functionalize",
    "ggn_vector_product",
    "grad",
    "grad_and_value",
    "hessian",
    "hessian_diag",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jet",
    "jvp",
    "kfac_factors",
    "laplacian",
    "linear_solve",
    "linearize",
    "loop_over",
    "operator",
    "per_sample_grad",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "root",
    "sparsity",
    "stack_module_state",
    "vjp",
    "vmap",
]
