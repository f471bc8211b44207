"""Behind `torch.library` and `torch.ops`: schemas, and ops that users define."""
