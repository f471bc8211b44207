"""A block's formula as a graph, and what is made of it: programs, CUDA C, text.

A formula is written once, in the block. Run on symbols instead of arrays (symbols.py), the forward
and the gradient rules of an elementwise op leave behind an expression: what was computed from what.
"""
