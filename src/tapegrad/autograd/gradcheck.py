"""gradcheck and gradgradcheck: recorded gradients against finite differences.

>>> import tapegrad as torch
>>> x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
>>> torch.autograd.gradcheck(torch.sin, (x,))
True

This module is imported with the package, because its name is also that of a function in it; what
does the work is imported by the first call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.warned import warn

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
]


class GradcheckError(RuntimeError):
    """A gradient is wrong; `diagnosis` has the facts below the message as data."""


def require(condition: bool, sentence: str) -> None:
    if not condition:
        raise AssertionError(sentence)


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of `func` at `inputs` with central differences of step `eps`.

    Every element of the Jacobians is compared; with `fast_mode` only one random combination of
    them. True if all agree; otherwise GradcheckError, or False without `raise_exception`.

    >>> x = tensor([1.0, 2.0], dtype=float64, requires_grad=True)
    >>> autograd.gradcheck(lambda x: x.sin(), (x,))
    True
    """
    require(
        check_forward_ad or check_backward_ad,
        "Expected at least one of check_forward_ad or check_backward_ad to be True",
    )
    require(
        not check_batched_grad or check_backward_ad,
        "Setting check_batched_grad=True requires check_backward_ad to be True",
    )
    require(
        not check_batched_forward_grad or check_forward_ad,
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True",
    )
    from .gradcheck_modes import Options, check_gradients

    options = Options(
        eps=eps,
        atol=atol,
        rtol=rtol,
        nondet_tol=nondet_tol,
        undefined=check_undefined_grad,
        dtypes=check_grad_dtypes,
        batched=check_batched_grad,
        batched_forward=check_batched_forward_grad,
        forward=check_forward_ad,
        backward=check_backward_ad,
        fast=fast_mode,
        masked=bool(masked),
    )
    try:
        check_gradients(func, inputs, options)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """gradcheck of the gradients of `func`, in the inputs and in `grad_outputs` (random ones).

    >>> x = tensor([1.0, 2.0], dtype=float64, requires_grad=True)
    >>> autograd.gradgradcheck(lambda x: x.sin(), (x,))
    True
    """
    require(
        check_fwd_over_rev or check_rev_over_rev,
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True",
    )
    require(
        not check_undefined_grad or check_rev_over_rev,
        "Setting check_undefined_grad=True requires check_rev_over_rev to be True",
    )
    require(
        not check_batched_grad or check_rev_over_rev,
        "Setting check_batched_grad=True requires check_rev_over_rev to be True",
    )
    from .gradcheck_modes import gradient_function

    gradient, arguments = gradient_function(func, inputs, grad_outputs, gen_non_contig_grad_outputs)
    return gradcheck(
        gradient,
        arguments,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def warn_private(name: str) -> None:
    warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. We are "
        "deprecating it and it will be removed in a future version of PyTorch. If you have a "
        "specific use for this or feature request for this to be a stable API, please file us an "
        "issue at https://github.com/pytorch/pytorch/issues/new",
        FutureWarning,
    )


def get_numerical_jacobian(
    fn: Callable[..., Any], inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: Any = 1.0
) -> list[Any]:
    """Finite differences of `fn(inputs)`, one matrix (input by output) per input."""
    warn_private("get_numerical_jacobian")
    if grad_out != 1.0:
        raise ValueError(
            "Expected grad_out to be 1.0. get_numerical_jacobian no longer supports values of "
            "grad_out != 1.0."
        )
    from .finite_differences import numerical_jacobians

    return numerical_jacobians(fn, inputs, inputs if target is None else target, eps)


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any],
    input_idx: int,
    inputs: Any,
    outputs: Any,
    eps: float,
    input: Any = None,
    is_forward_ad: bool = False,
) -> tuple[Any, ...]:
    """Finite differences of the `outputs` of `fn(inputs)` with respect to one input."""
    from .finite_differences import jacobians_of_input

    varied = inputs[input_idx] if input is None else input
    if not is_forward_ad and not varied.requires_grad:
        raise AssertionError("Expected input to have requires_grad=True")
    return jacobians_of_input(fn, inputs, outputs, varied, eps)


def get_analytical_jacobian(
    inputs: Any, output: Any, nondet_tol: float = 0.0, grad_out: Any = 1.0
) -> tuple[tuple[Any, ...], bool, bool, bool]:
    """Jacobians by backward, then: is it reentrant, are the sizes right, are the dtypes right."""
    warn_private("get_analytical_jacobian")
    if grad_out != 1.0:
        raise ValueError(
            "Expected grad_out to be 1.0. get_analytical_jacobian no longer supports values of "
            "grad_out != 1.0."
        )
    if output.is_complex():
        raise ValueError(
            "Expected output to be non-complex. get_analytical_jacobian no longer supports "
            "functions that return complex outputs."
        )
    from .finite_differences import analytical_jacobians

    return analytical_jacobians(inputs, output, nondet_tol)
