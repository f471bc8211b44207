"""How a module's parameters change their dtype or device: switches that PyTorch keeps here."""

from __future__ import annotations


class _Switches:
    overwrite = False
    swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `Module.to` and the like make new parameters instead of changing their `.data`."""
    _Switches.overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether conversions of a module make new parameters."""
    return _Switches.overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether conversions and `load_state_dict` use `utils.swap_tensors` on parameters."""
    _Switches.swap = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether conversions and `load_state_dict` swap tensors."""
    return _Switches.swap
