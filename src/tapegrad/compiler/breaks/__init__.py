"""Functions that cannot be recorded as a whole: where they are cut, and their source."""
