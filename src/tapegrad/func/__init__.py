"""Functions of functions: derivatives, batches, and modules as functions of their parameters."""

from __future__ import annotations

from .derivatives import grad, grad_and_value, jvp, linearize, vjp
from .functionalization import functionalize
from .jacobians import hessian_diag, hvp, jacfwd, jacrev
from .looping import loop_over
from .module_state import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)
from .rearranging import rearrange
from .sparse_jacobians import hessian, jacobian, sparsity
from .taylor import biharmonic, divergence, jet, laplacian, operator
from .vmapping import debug_unwrap, vmap

__all__ = [
    "biharmonic",
    "debug_unwrap",
    "divergence",
    "functional_call",
    "functionalize",
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
    "laplacian",
    "linearize",
    "loop_over",
    "operator",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "sparsity",
    "stack_module_state",
    "vjp",
    "vmap",
]
