"""torch.hub: models of a local folder, and files fetched from a URL.

Repositories on GitHub are not fetched: they are programs, and run what they like.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
import urllib.request
from typing import Any
from urllib.parse import urlparse

from tapegrad.errors.absent import absent_function
from tapegrad.serialization import load as load_file

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

# Model files are named by what they contain: resnet18-5c106cde.pth
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
VAR_DEPENDENCY = "dependencies"
MODULE_HUBCONF = "hubconf.py"

try:
    from tqdm import tqdm
except ImportError:
    from tapegrad.utils.progress import progress as tqdm  # noqa: F401  libraries import it from here

_hub_dir: str | None = None


def _get_torch_home() -> str:
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """Where files are kept."""
    return os.path.join(_get_torch_home(), "hub") if _hub_dir is None else _hub_dir


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep files elsewhere."""
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


def _check_local(source: str, name: str) -> None:
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        absent_function(
            f"torch.hub.{name} of a GitHub repository", "clone it and pass source='local'"
        )()


def _module(folder: str) -> Any:
    """The hubconf.py of a folder, imported with the folder in front of the path."""
    path = os.path.join(folder, MODULE_HUBCONF)
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location(MODULE_HUBCONF, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [
        name
        for name in getattr(module, VAR_DEPENDENCY, ())
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module: Any, name: str) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def list(github: str, force_reload: bool = False, source: str = "github", **options: Any) -> Any:
    """The functions of a folder's hubconf.py that make models."""
    _check_local(source, "list")
    module = _module(str(github))
    return [name for name in dir(module) if callable(getattr(module, name)) and name[0] != "_"]


def help(github: str, model: str, source: str = "github", **options: Any) -> str | None:
    """The docstring of a function of a folder's hubconf.py."""
    _check_local(source, "help")
    text: str | None = _entry(_module(str(github)), model).__doc__
    return text


def load(repo_or_dir: Any, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """The model that a function of a folder's hubconf.py makes."""
    _check_local(source, "load")
    for option in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(option, None)
    return _entry(_module(os.path.expanduser(repo_or_dir)), model)(*args, **kwargs)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Fetch a file; it appears whole, and only if it has the hash."""
    dst = os.path.expanduser(dst)
    request = urllib.request.Request(url, headers={"User-Agent": "torch.hub"})
    digest = hashlib.sha256()
    folder = os.path.dirname(os.path.abspath(dst))
    handle, partial = tempfile.mkstemp(prefix=os.path.basename(dst), suffix=".partial", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file, urllib.request.urlopen(request) as answer:
            while chunk := answer.read(READ_DATA_CHUNK):
                file.write(chunk)
                digest.update(chunk)
        found = digest.hexdigest()
        if hash_prefix is not None and found[: len(hash_prefix)] != hash_prefix:
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
        os.replace(partial, dst)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Load a file, fetched once and kept."""
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        print(f'Downloading: "{url}" to {path}')
        match = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, match[1] if match else None, progress)
    return load_file(path, map_location=map_location, weights_only=weights_only)
