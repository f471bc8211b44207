"""Modules in the layout of Intel's library, which is not used here."""

from ..errors.absent import absent_function

to_mkldnn = absent_function("torch.utils.mkldnn.to_mkldnn", "use the module as it is")
