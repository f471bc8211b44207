"""The names of torchelastic that programs import."""
