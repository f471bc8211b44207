"""Features that lower layers call: each is loaded by the first call.

Imports point downwards, so the lower layers call these functions by way of a record
(`core.late_bound.ON_DEMAND`), which the package fills from here. A program that never uses sparse
tensors, a GPU or `diagnose` never loads them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..core.late_bound import DISPATCHED, ON_DEMAND

PACKAGE = __name__.partition(".")[0]


def function(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is loaded when the function is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module, PACKAGE), name)(*args, **kwargs)

    return call


def module(name: str) -> Callable[[], Any]:
    """Gives a module, which is loaded when it is asked for."""
    return lambda: import_module(name, PACKAGE)


def fill() -> None:
    ON_DEMAND.not_here = function(".errors.missing", "not_here")
    ON_DEMAND.why = function(".diagnose", "why")
    ON_DEMAND.cuda_runtime = module(".cuda.runtime")
    ON_DEMAND.out_of_memory = function(".cuda.memory", "explained")
    ON_DEMAND.resolve_name = function(".overrides", "resolve_name")
    ON_DEMAND.handle_torch_function = function(".overrides", "handle_torch_function")
    ON_DEMAND.ask_foreign = function(".overrides", "ask_foreign")
    ON_DEMAND.schema_calls = module("._library.calls")
    ON_DEMAND.ones_like = function(".", "ones_like")
    ON_DEMAND.mapped_arguments = function(".func.vmapping", "mapped_arguments")
    ON_DEMAND.validate_cuda_device = function("._serialization.places", "validate_cuda_device")
    ON_DEMAND.load_file = function(".serialization", "load")
    ON_DEMAND.from_dlpack = function(".utils.dlpack", "imported")
    ON_DEMAND.sparse_gradient = function(".sparse.gradients", "at_places")
    ON_DEMAND.add_sparse_gradient = function(".sparse.gradients", "accumulate")
    ON_DEMAND.sparse_root = function(".sparse.gradients", "on_entries")
    ON_DEMAND.sparse_like = function(".sparse.functions", "made_like")
    ON_DEMAND.sparse_output = function(".sparse.writes", "write_output")
    ON_DEMAND.write_sparse = function(".sparse.writes", "write_sparse")
    DISPATCHED.overload = function("._ops", "overload_named")  # until _ops puts its own there
