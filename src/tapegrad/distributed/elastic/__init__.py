"""What programs import of torchelastic."""
