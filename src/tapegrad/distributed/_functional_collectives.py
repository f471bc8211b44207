"""Collectives that return new tensors, for graphs of sharded tensors: there are none here."""

from .._absent import absent_function

INSTEAD = "use the collectives of torch.distributed, which write into tensors"

all_gather_tensor = absent_function(
    "torch.distributed._functional_collectives.all_gather_tensor", INSTEAD
)
all_reduce = absent_function("torch.distributed._functional_collectives.all_reduce", INSTEAD)
reduce_scatter_tensor = absent_function(
    "torch.distributed._functional_collectives.reduce_scatter_tensor", INSTEAD
)
wait_tensor = absent_function("torch.distributed._functional_collectives.wait_tensor", INSTEAD)
