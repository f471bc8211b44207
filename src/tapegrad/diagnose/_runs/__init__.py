"""Recorded runs: what a program computes, op by op, in a file; and where two of them part."""
