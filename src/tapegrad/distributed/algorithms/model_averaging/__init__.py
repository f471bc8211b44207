"""Models that are averaged over ranks from time to time."""
