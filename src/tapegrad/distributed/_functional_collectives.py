"""Collectives that return new tensors, for graphs of sharded tensors: there are none here."""

from __future__ import annotations

from .._absent import absent_class, absent_function

INSTEAD = "use the collectives of torch.distributed, which write into tensors"
NAME = "torch.distributed._functional_collectives."

AsyncCollectiveTensor = absent_class(NAME + "AsyncCollectiveTensor", INSTEAD)
all_gather_tensor = absent_function(NAME + "all_gather_tensor", INSTEAD)
all_gather_tensor_autograd = absent_function(NAME + "all_gather_tensor_autograd", INSTEAD)
all_reduce = absent_function(NAME + "all_reduce", INSTEAD)
all_to_all_single = absent_function(NAME + "all_to_all_single", INSTEAD)
all_to_all_single_autograd = absent_function(NAME + "all_to_all_single_autograd", INSTEAD)
permute_tensor = absent_function(NAME + "permute_tensor", INSTEAD)
reduce_scatter_tensor = absent_function(NAME + "reduce_scatter_tensor", INSTEAD)
reduce_scatter_tensor_autograd = absent_function(NAME + "reduce_scatter_tensor_autograd", INSTEAD)
wait_tensor = absent_function(NAME + "wait_tensor", INSTEAD)
