"""Passes over whole graphs."""
