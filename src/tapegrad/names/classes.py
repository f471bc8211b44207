"""Classes of extensions in C++: there are none."""

from __future__ import annotations

from tapegrad.errors.absent import absent_function

load_library = absent_function("torch.classes.load_library", "use the Python side of the library")
loaded_libraries: set[str] = set()
