"""How a sharded tensor lies on its devices: names, for there are none."""

from ..._absent import absent_class

INSTEAD = "run one process per replica with DistributedDataParallel"

Placement = absent_class("torch.distributed.tensor.Placement", INSTEAD)
Partial = absent_class("torch.distributed.tensor.Partial", INSTEAD, Placement)
Replicate = absent_class("torch.distributed.tensor.Replicate", INSTEAD, Placement)
Shard = absent_class("torch.distributed.tensor.Shard", INSTEAD, Placement)
_StridedShard = absent_class("torch.distributed.tensor._StridedShard", INSTEAD, Shard)
