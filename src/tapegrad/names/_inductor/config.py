"""The settings of PyTorch's compiler, which is not here: they change nothing."""

import sys

from .._settings_of_others import Settings

sys.modules[__name__].__class__ = Settings
