"""Parts of PyTorch's checkpoints that are not here: names only."""

from ...errors.absent import absent_class

HuggingFaceStorageReader = absent_class(
    "torch.distributed.checkpoint.hf_storage.HuggingFaceStorageReader",
    "torch.distributed.checkpoint.save and load",
)
HuggingFaceStorageWriter = absent_class(
    "torch.distributed.checkpoint.hf_storage.HuggingFaceStorageWriter",
    "torch.distributed.checkpoint.save and load",
)
