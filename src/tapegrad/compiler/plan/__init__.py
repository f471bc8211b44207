"""From recorded steps to fewer and cheaper ones: fusion, memory, native calls."""
