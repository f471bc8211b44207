"""The names of torchelastic's multiprocessing that programs import."""
