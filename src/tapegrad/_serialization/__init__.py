"""The parts of `tapegrad.serialization`: archives, pickles, names and memory."""
