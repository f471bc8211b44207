"""From recorded steps to fewer and cheaper ones: fusion, memory, lists of native calls."""
