"""Questions about PyTorch's tracer."""


def is_compile_supported(device_type: str) -> bool:
    """Whether PyTorch's tracer compiles for a device: it is not here."""
    return False
