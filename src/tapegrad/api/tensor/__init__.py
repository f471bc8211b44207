"""The tensor that users hold, and what it answers: numbers, indices, text, sizes.

Loaded by its parts, since ops need some of them before there is a Tensor.
"""
