"""Tensors, ops, dispatch and recording: how a call becomes a result and a node."""
