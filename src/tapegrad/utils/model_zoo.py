"""The old name of torch.hub's downloads."""

from ..hub import _get_torch_home, tqdm  # noqa: F401  libraries import them from here
from ..hub import download_url_to_file as _download_url_to_file  # noqa: F401
from ..hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
