"""Extensions in C++: there is no C++ library here to build them against."""

from __future__ import annotations

from ..errors.absent import absent_class, absent_function

INSTEAD = "write it in Python with torch.autograd.Function, or use the library's fallback"

CUDA_HOME = ROCM_HOME = None
IS_HIP_EXTENSION = False

BuildExtension = absent_class("torch.utils.cpp_extension.BuildExtension", INSTEAD)
CUDAExtension = absent_function("torch.utils.cpp_extension.CUDAExtension", INSTEAD)
CppExtension = absent_function("torch.utils.cpp_extension.CppExtension", INSTEAD)
include_paths = absent_function("torch.utils.cpp_extension.include_paths", INSTEAD)
load = absent_function("torch.utils.cpp_extension.load", INSTEAD)
load_inline = absent_function("torch.utils.cpp_extension.load_inline", INSTEAD)


def is_ninja_available() -> bool:
    """Whether extensions can be built: they cannot."""
    return False
