"""The public face: ops as functions and methods, new tensors, `out=`, modes and switches."""
