"""`save` and `load`: PyTorch's files, written and read without PyTorch.

Two formats: zip archives (see _serialization/archive.py) and, on request, the one before
PyTorch 1.6 (_serialization/legacy.py). Inside, names are PyTorch's (_serialization/names.py).
Loading runs nothing from the file unless `weights_only=False` (_serialization/weights_only.py).
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import io
import mmap as mmap_module
import operator
import os
import pickle
import pickletools
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from ._serialization import archive, legacy
from ._serialization.pickling import Storages, make_pickler, make_unpickler
from ._serialization.places import (
    MAP_LOCATION,
    default_restore_location,
    location_tag,
    register_package,
    restorer,
    validate_cuda_device,
)
from ._serialization.replacing import write_file
from ._serialization.storage_bytes import StorageType, brief, checked_type, typed, untyped
from .core.warned import warn
from .device import (
    jagged,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)

MAGIC_NUMBER, PROTOCOL_VERSION = legacy.MAGIC, legacy.PROTOCOL
STORAGE_KEY_SEPARATOR = ","
SHORT_SIZE, INT_SIZE, LONG_SIZE = (struct.calcsize(kind) for kind in ("=h", "=i", "=l"))
IS_WINDOWS = sys.platform == "win32"
MAP_SHARED, MAP_PRIVATE = [
    getattr(mmap_module, name, None) for name in ("MAP_SHARED", "MAP_PRIVATE")
]


class SourceChangeWarning(Warning):
    """For a class whose source has changed since it was saved, in very old files."""


UNSAFE_MESSAGE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` "
    "from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will "
    "likely succeed, but it can result in arbitrary code execution. Do it only if you got the file "
    "from a trusted source."
)

__all__ = [
    "MAP_LOCATION",
    "LoadEndianness",
    "StorageType",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "validate_cuda_device",
]

DEFAULT_PROTOCOL = 2


# ---------------------------------------------------------------------- options


class LoadEndianness(enum.Enum):
    """The byte order of archives that do not say which they have.

    >>> list(torch.serialization.LoadEndianness)
    [<LoadEndianness.NATIVE: 1>, <LoadEndianness.LITTLE: 2>, <LoadEndianness.BIG: 3>]
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Options:
    endianness: LoadEndianness | None = None
    checksums = True
    mapping = getattr(mmap_module, "MAP_PRIVATE", 2)
    safe: list[Any] = []


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order of archives that do not say which they have; None is the machine's.

    >>> torch.serialization.get_default_load_endianness() is None
    True
    """
    return _Options.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Choose the byte order of archives that do not say which they have.

    >>> torch.serialization.set_default_load_endianness(torch.serialization.LoadEndianness.BIG)
    >>> torch.serialization.get_default_load_endianness()
    <LoadEndianness.BIG: 3>
    >>> torch.serialization.set_default_load_endianness(None)
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _Options.endianness = endianness


def get_crc32_options() -> bool:
    """Whether `save` computes checksums.

    >>> torch.serialization.get_crc32_options()
    True
    """
    return _Options.checksums


def set_crc32_options(compute_crc32: bool) -> None:
    """Choose whether `save` computes checksums; without, damage to the file is not noticed.

    >>> torch.serialization.set_crc32_options(False)
    >>> torch.serialization.get_crc32_options()
    False
    >>> torch.serialization.set_crc32_options(True)
    """
    _Options.checksums = compute_crc32


def get_default_mmap_options() -> int:
    """How `load(mmap=True)` maps files: mmap.MAP_PRIVATE or mmap.MAP_SHARED.

    >>> import mmap
    >>> torch.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    True
    """
    return _Options.mapping


class set_default_mmap_options:
    """Choose how `load(mmap=True)` maps files; as a context manager, for a while.

    What is written to a shared mapping is in the file and not in its checksums: such a file can
    only be loaded with `mmap=True` again.

    >>> import mmap
    >>> with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
    ...     print(torch.serialization.get_default_mmap_options() == mmap.MAP_SHARED)
    True
    """

    def __init__(self, flags: int) -> None:
        allowed = [getattr(mmap_module, f"MAP_{kind}", None) for kind in ("PRIVATE", "SHARED")]
        if flags not in allowed:
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected "
                f"mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got {flags}"
            )
        self.before = _Options.mapping
        _Options.mapping = flags

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        _Options.mapping = self.before


# ---------------------------------------------------------------------- what may be unpickled


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let files use these classes and functions when they are loaded with `weights_only=True`.

    A pair (object, name) allows the object under the name that it has in the file.

    >>> class Point:
    ...     pass
    >>> torch.serialization.add_safe_globals([Point])
    >>> Point in torch.serialization.get_safe_globals()
    True
    >>> torch.serialization.clear_safe_globals()
    """
    _Options.safe = [*_Options.safe, *[s for s in safe_globals if s not in _Options.safe]]


def get_safe_globals() -> list[Any]:
    """The functions and classes that `add_safe_globals` has allowed.

    >>> torch.serialization.get_safe_globals()
    []
    """
    return list(_Options.safe)


def clear_safe_globals() -> None:
    """Allow nothing beside PyTorch's own list again.

    >>> torch.serialization.clear_safe_globals()
    >>> torch.serialization.get_safe_globals()
    []
    """
    _Options.safe = []


class safe_globals:
    """`add_safe_globals` for the time of a `with` block.

    >>> class Point:
    ...     pass
    >>> with torch.serialization.safe_globals([Point]):
    ...     print(Point in torch.serialization.get_safe_globals())
    True
    >>> Point in torch.serialization.get_safe_globals()
    False
    """

    def __init__(self, safe_globals: list[Any]) -> None:
        self.added = safe_globals

    def __enter__(self) -> None:
        self.before = _Options.safe
        add_safe_globals(self.added)

    def __exit__(self, *error: object) -> None:
        _Options.safe = self.before


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names in an archive that `weights_only=True` would refuse.

    >>> import io, fractions
    >>> from tapegrad.serialization import get_unsafe_globals_in_checkpoint
    >>> file = io.BytesIO()
    >>> save({"half": fractions.Fraction(1, 2)}, file)
    >>> _ = file.seek(0)
    >>> get_unsafe_globals_in_checkpoint(file)
    ['fractions.Fraction']
    """
    from ._serialization.weights_only import Allowed, modern

    allowed = Allowed(_Options.safe).names
    with opened(f) as file:
        if not is_archive(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        data = archive.ArchiveReader(file).read("data.pkl")
    found: dict[str, None] = {}
    strings: list[str] = []
    for code, argument, _ in pickletools.genops(data):
        if code.name == "GLOBAL":
            module, _, name = str(argument).partition(" ")
            found[".".join(modern(module, name))] = None
        elif code.name == "STACK_GLOBAL":
            found[".".join(strings[-2:])] = None
        elif isinstance(argument, str):
            strings.append(argument)
    return [name for name in found if name not in allowed]


# ---------------------------------------------------------------------- saving


def save(
    obj: object,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Save an object to a file.

    A path gets the whole file or, if anything goes wrong, stays what it was.

    >>> import io
    >>> file = io.BytesIO()
    >>> save({"weight": tensor([1.0, 2.0])}, file)
    >>> _ = file.seek(0)
    >>> load(file)
    {'weight': tensor([1., 2.])}
    """
    if not hasattr(pickle_module, "__name__"):
        raise AttributeError(f"'{type(pickle_module).__name__}' object has no attribute '__name__'")
    pickle_protocol = operator.index(pickle_protocol)
    path = None
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
    elif not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )
    if not _use_new_zipfile_serialization:

        def write_legacy(file: Any) -> None:
            storages = Storages(location_tag, (None,))
            legacy.save(obj, file.write, pickle_module, pickle_protocol, storages)

        if path is not None:
            write_file(path, write_legacy)
            return
        write_legacy(f)
        flush(f)
        return
    storages = Storages(location_tag)
    data = io.BytesIO()
    make_pickler(pickle_module, data, pickle_protocol, storages).dump(obj)
    if path is None:
        write_archive(f.write, "archive", data.getbuffer(), storages, _disable_byteorder_record)
        flush(f)
        return
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    is_open = False

    def write_zip(file: Any) -> None:
        nonlocal is_open
        is_open = True
        name = archive_name(path)
        write_archive(file.write, name, data.getbuffer(), storages, _disable_byteorder_record)

    try:
        write_file(path, write_zip)
    except OSError as error:
        if is_open:
            raise
        raise RuntimeError(f"open file failed with strerror: {error.strerror}\n  {path}") from error


def flush(file: Any) -> None:
    """Flush a file object, so that another reader of the file sees what was just saved."""
    if hasattr(file, "flush"):
        file.flush()


def write_archive(
    write: Callable[[Any], Any], name: str, data: Any, storages: Storages, unordered: bool
) -> None:
    writer = archive.ArchiveWriter(write, name, _Options.checksums)
    writer.record("data.pkl", data)
    writer.record(".format_version", b"1")
    writer.record(".storage_alignment", str(archive.ALIGNMENT).encode())
    if not unordered:
        writer.record("byteorder", sys.byteorder.encode())
    for key, memory in storages.arrays.items():
        writer.record(f"data/{key}", memory)
    writer.record("version", f"{archive.VERSION}\n".encode())
    writer.close()


def archive_name(path: str) -> str:
    """The folder inside the archive: the file's name up to its last dot."""
    name = os.path.basename(path)
    stem = name[: name.rfind(".")] if "." in name else name
    return stem if stem and stem.isascii() else "archive"


# ---------------------------------------------------------------------- loading


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Load what `save` has saved, here or in PyTorch.

    With `weights_only=True`, the default, nothing in the file is run: tensors, containers, numbers
    and strings are loaded, other classes only if `serialization.add_safe_globals` allows them.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save({"w": tensor([1.0, 2.0])}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'w': tensor([1., 2.])}
    """
    weights_only = decide(weights_only, pickle_module)
    if weights_only:
        if pickle_module is not None:
            raise RuntimeError(
                "Can not safely load weights when explicit pickle_module is specified"
            )
        if pickle_load_args:
            warn("pickle_load_args only works if `weights_only=False`.")
            unknown = set(pickle_load_args) - {"encoding"}
            if unknown:
                raise TypeError(
                    f"Unpickler.__init__() got an unexpected keyword argument '{min(unknown)}'"
                )
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    pickle_load_args.setdefault("encoding", "utf-8")
    make = unpickling(weights_only, pickle_module or pickle, pickle_load_args)
    with opened(f) as file:
        if is_archive(file):
            mapped = map_file(file) if mmap else None
            return load_archive(file, mapped, restorer(map_location), make, weights_only)
        if mmap:
            raise RuntimeError(
                "mmap can only be used with files saved with `torch.save("
                f"{f}, _use_new_zipfile_serialization=True), please torch.save your checkpoint "
                "with this option in order to use mmap."
            )
        return legacy.load(file, restorer(map_location), lambda pid: make(file, pid))


def decide(weights_only: bool | None, pickle_module: Any) -> bool:
    """The default, and what the environment says about it."""
    yes = ("1", "y", "yes", "true")
    always = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in yes
    never = os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in yes
    if always and never:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` "
            "should be set, but both were set."
        )
    if always:
        return True
    if weights_only is None and never:
        warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the"
            "`weights_only` argument was not explicitly passed to `torch.load`, forcing "
            "weights_only=False.",
        )
        return False
    return pickle_module is None if weights_only is None else bool(weights_only)


@contextlib.contextmanager
def opened(f: Any) -> Iterator[Any]:
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            yield file
        return
    try:
        f.seek(f.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the "
            "data into a buffer like io.BytesIO and try to load from it instead."
        ) from None
    yield f


def is_archive(file: Any) -> bool:
    here = file.tell()
    start = file.read(4)
    file.seek(here)
    if not isinstance(start, bytes):
        raise TypeError(f"Expected bytes, got {type(start).__name__}")
    return start == b"PK\3\4"


def map_file(file: Any) -> mmap_module.mmap:
    shared = _Options.mapping == getattr(mmap_module, "MAP_SHARED", None)
    if shared:
        with open(file.name, "r+b") as writable:
            return mmap_module.mmap(writable.fileno(), 0, access=mmap_module.ACCESS_WRITE)
    return mmap_module.mmap(file.fileno(), 0, access=mmap_module.ACCESS_COPY)


Unpickle = Callable[[Any, Callable[[Any], Any] | None], Any]


def unpickling(weights_only: bool, pickle_module: Any, arguments: dict[str, Any]) -> Unpickle:
    """How one object is read from a file, given what to do about memory outside the pickle."""
    if not weights_only:

        def run(file: Any, persistent_load: Any) -> Any:
            if persistent_load is None:
                return pickle_module.load(file, **arguments)
            return make_unpickler(pickle_module, file, persistent_load, arguments).load()

        return run

    from ._serialization import weights_only as machine

    allowed = machine.Allowed(_Options.safe)

    def read(file: Any, persistent_load: Any) -> Any:
        try:
            return machine.WeightsUnpickler(file, allowed, persistent_load).load()
        except machine.NotAllowed as error:
            raise pickle.UnpicklingError(NAME_REFUSED.format(name=error)) from None
        except pickle.UnpicklingError as error:
            raise pickle.UnpicklingError(FAILED.format(why=error)) from None

    return read


def load_archive(
    file: Any,
    mapped: Any,
    restore: Callable[[Any, str], Any],
    unpickle: Unpickle,
    weights_only: bool,
) -> Any:
    reader = archive.ArchiveReader(file, mapped)
    if reader.has("constants.pkl"):
        raise RuntimeError(SCRIPT_SAFE if weights_only else SCRIPT)
    swapped = has_other_order(reader)
    loaded: dict[str, Any] = {}

    def storage(saved: Any) -> Any:
        if not isinstance(saved, tuple) or len(saved) != 5 or saved[0] != "storage":
            raise RuntimeError(f"Unknown typename for persistent_load: {brief(saved)}")
        _, kind, key, location, numel = saved
        if type(key) is not str:
            raise RuntimeError(f"a storage in the file is damaged: its key is {brief(key)}")
        if type(location) is not str:
            raise RuntimeError(f"a storage in the file is damaged: its place is {brief(location)}")
        dtype = checked_type(kind, numel)
        if key not in loaded:
            loaded[key] = typed_record(f"data/{key}", dtype, numel, location)
        return loaded[key]

    def typed_record(name: str, dtype: Any, numel: int, location: str) -> Any:
        size, expected = reader.record_size(name), numel * dtype.itemsize
        if size != expected:
            raise RuntimeError(
                f"record size ({size} bytes) does not match expected size ({expected} bytes = "
                f"{expected} elements * 1 bytes/element) for dtype Byte"
            )
        array = reader.array(name)
        if swapped and dtype.itemsize > 1:
            part = dtype.to_real().np if dtype.is_complex else dtype.np
            array = array.view(part.str.replace("V", "u")).byteswap().view("u1")
        return typed(restore(untyped(array), location).owner, dtype)

    return unpickle(io.BytesIO(reader.read("data.pkl")), storage)


def has_other_order(reader: archive.ArchiveReader) -> bool:
    """Whether the archive was written on a machine with the other byte order."""
    if reader.has("byteorder"):
        order = reader.read("byteorder").decode("ascii", "replace")
        if order not in ("little", "big"):
            raise ValueError(f"Unknown endianness type: {order:.40}")
        return order != sys.byteorder
    chosen = _Options.endianness
    if chosen in (None, LoadEndianness.NATIVE):
        return False
    assert chosen is not None
    return chosen.name.lower() != sys.byteorder


def _get_layout(name: str) -> Any:
    """The layout of that name; unpickling calls this.

    >>> from tapegrad.serialization import _get_layout
    >>> _get_layout("torch.strided")
    torch.strided
    """
    if not isinstance(name, str) or name not in LAYOUTS:
        raise ValueError(f"there is no layout {brief(name)}")
    return LAYOUTS[name]


LAYOUTS = {
    repr(known): known
    for known in (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged)
}


CHANGED = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` "
    "from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will "
    "likely succeed, but it can result in arbitrary code execution. Do it only if you got the file "
    "from a trusted source."
)
FAILED = "Weights only load failed. " + CHANGED + "\n\nWeightsUnpickler error: {why}"
NAME_REFUSED = (
    "Weights only load failed. This file can still be loaded, to do so you have two options, "
    "\033[1mdo those steps only if you trust the source of the checkpoint\033[0m. "
    "\n\t(1) " + CHANGED + "\n\t(2) Alternatively, to load with `weights_only=True` please check "
    "the recommended steps in the following error message.\n\tWeightsUnpickler error: Unsupported "
    "global: GLOBAL {name} was not an allowed global by default. Please use "
    "`torch.serialization.add_safe_globals([{name}])` or the "
    "`torch.serialization.safe_globals([{name}])` context manager to allowlist this global if you "
    "trust this class/function."
)
SCRIPT_SAFE = (
    "Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. "
    "\n  tapegrad does not run TorchScript; it loads what torch.save has saved."
)
SCRIPT = (
    "the file is a TorchScript archive, which tapegrad does not run; it loads what torch.save has "
    "saved: save the model's state_dict() in PyTorch"
)


# ---------------------------------------------------------------------- small helpers


@contextlib.contextmanager
def mkdtemp() -> Iterator[str]:
    """A directory for the time of a `with` block."""
    with tempfile.TemporaryDirectory() as path:
        yield path


def normalize_storage_type(storage_type: Any) -> Any:
    """The class of storages in `torch` with the name of another one."""
    return getattr(importlib.import_module("tapegrad"), storage_type.__name__)


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True
) -> bool:
    """Whether a module's version is at least the one asked for."""
    parts = module.__version__.split(".")
    try:
        have = tuple(
            [type(want)(part) for want, part in zip(req_version_tuple, parts, strict=False)]
        )
        if len(have) < len(req_version_tuple):
            raise ValueError("too few parts")
    except ValueError as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and "
            f"cannot be compared with tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        warn(f"{message}, but continuing assuming that requirement is met")
        return True
    return have >= req_version_tuple
