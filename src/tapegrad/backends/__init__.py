"""Where kernels run. The forward in an op's block, written against `xp`, is the reference."""
