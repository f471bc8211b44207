"""Modules whose inner values are computed again in the backward pass."""
