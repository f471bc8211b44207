"""An unpickler that runs nothing: it knows a few instructions and a list of names.

A pickle is a program. This machine has the instructions that PyTorch's own checkpoints use, never
imports a module, and calls only what stands in `Allowed`, with arguments of the kinds that such
checkpoints have. Sizes in the file are believed only as far as the file itself reaches.
"""

from __future__ import annotations

import _compat_pickle
import pickle
import struct
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

import tapegrad as tg

from .. import _utils, dtypes
from ..core.size import Size
from ..core.warned import warn
from ..ops.creation import legacy_constructors as legacy
from .names import public_name
from .storage_bytes import TYPES, UNTYPED, brief

LONGEST_NAME = 4096
# The parts of one key, and how many different keys may have one hash: hashing recurses and a
# dictionary compares all keys of one hash, so that a small file could take all stack or all time.
LARGEST_KEY, MOST_OF_ONE_HASH = 128, 64
# Ints of smaller magnitude are their own hash.
DISTINCT_HASHES = sys.hash_info.modulus
CHUNK = 1 << 20
# How much calls may copy in all: this much, or so many times the bytes that were read.
FREE_COPIES, MOST_COPIES = 1 << 24, 16
# Whatever the user allows: names in these modules never are.
BLOCKED = ("sys", "os", "posix", "nt")
PROTOCOL = 2
# Names that PyTorch loads by default and that mean nothing here.
NOT_HERE = frozenset(
    """
    _rebuild_device_tensor_from_cpu_tensor _rebuild_device_tensor_from_numpy _rebuild_nested_tensor
    _rebuild_qtensor _rebuild_sparse_tensor _rebuild_wrapper_subclass bits16 bits1x8 bits2x4
    bits4x2 bits8 complex32 float4_e2m1fn_x2 int1 int2 int3 int4 int5 int6 int7 per_channel_affine
    per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine per_tensor_symmetric
    qint32 qint8 quint2x4 quint4x2 quint8 uint1 uint2 uint3 uint4 uint5 uint6 uint7
    """.split()
)


def nothing_or(*kinds: Any) -> Callable[[tuple[Any, ...]], bool]:
    """Accepts no arguments, or these kinds of them."""

    def check(args: tuple[Any, ...]) -> bool:
        return not args or (
            len(args) == len(kinds)
            and all([isinstance(a, k) for a, k in zip(args, kinds, strict=True)])
        )

    return check


def is_latin(args: tuple[Any, ...]) -> bool:
    return nothing_or(str, str)(args) and args[1:] in (("latin1",), ("latin-1",))


def encode(text: str, encoding: str) -> bytes:
    return text.encode("latin-1")


def anything(args: tuple[Any, ...]) -> bool:
    return True


def is_call_of_bytearray(args: tuple[Any, ...]) -> bool:
    return nothing_or((bytes, bytearray))(args) or is_latin(args)


Check = Callable[[tuple[Any, ...]], bool]


class Allowed:
    """Which names a pickle may use, and with which arguments it may call what they stand for."""

    def __init__(self, users: list[Any]) -> None:
        self.names: dict[str, Any] = {}
        self.calls: dict[int, tuple[Any, Check]] = {}
        self.users: dict[int, Any] = {}
        for name, (thing, check) in BUILT_IN.items():
            self.names[name] = thing
            if check is not None:
                self.calls[id(thing)] = (thing, check)
        for entry in users:
            thing, names = entry if isinstance(entry, tuple) else (entry, None)
            for name in names_of(thing) if names is None else (names,):
                self.names[name] = thing
            self.calls[id(thing)] = (thing, anything)
            self.users[id(thing)] = thing

    def call(self, function: Any, args: Any) -> Any:
        found = self.calls.get(id(function))
        if found is None:
            raise UnpicklingError(
                f"Trying to call reduce for unrecognized function {named(function)}"
            )
        if not isinstance(args, tuple) or not found[1](args):
            raise UnpicklingError(
                f"Trying to call {named(function)} with arguments that checkpoints do not have"
            )
        try:
            return found[0](*args)
        except OverflowError as error:
            raise UnpicklingError(f"Trying to call {named(function)}: {error}") from None


def names_of(thing: Any) -> list[str]:
    """The names under which a class or function that a user allows is found in pickles."""
    public = public_name(thing)
    found = [f"{thing.__module__}.{thing.__qualname__}"]
    return found if public is None else [*found, ".".join(public)]


def built_in() -> dict[str, tuple[Any, Check | None]]:
    """PyTorch's list. None: may be named and not called."""
    found: dict[str, tuple[Any, Check | None]] = {
        "collections.OrderedDict": (OrderedDict, nothing_or((list, dict))),
        "collections.Counter": (Counter, nothing_or((list, dict))),
        "builtins.set": (set, nothing_or((list, tuple, set))),
        "builtins.complex": (complex, nothing_or((int, float), (int, float))),
        "builtins.bytearray": (bytearray, is_call_of_bytearray),
        "_codecs.encode": (encode, is_latin),
        "torch.Size": (Size, nothing_or((tuple, list))),
        "torch.device": (tg.device, anything),
        "torch.Tensor": (tg.Tensor, nothing_or()),
        "torch.nn.parameter.Parameter": (tg.nn.Parameter, nothing_or(tg.Tensor, bool)),
        "torch.serialization._get_layout": (tg.serialization._get_layout, anything),
        "torch._tensor._rebuild_from_type_v2": (_utils._rebuild_from_type_v2, anything),
    }
    for function in _utils.REBUILDERS:
        found[f"torch._utils.{function.__name__}"] = (function, anything)
    for dtype in (*dtypes.ALL, *dtypes.STORED):
        if dtype.name not in NOT_HERE:
            found[f"torch.{dtype.name}"] = (dtype, None)
    for name, kind in TYPES.items():
        home = "torch.storage." if kind is UNTYPED else "torch."
        found[home + name] = found[f"torch.cuda.{name}"] = (kind, None)
    found["torch.storage.TypedStorage"] = (tg.TypedStorage, None)
    for name, cls in legacy.TYPES.items():
        found[f"torch.{name}"] = (cls, None)
    for name, cls in legacy.CUDA_TYPES.items():
        found[f"torch.cuda.{name}"] = (cls, None)
    return found


BUILT_IN = built_in()


class Source:
    """Reads a file in bits, and never asks for more at once than there may be."""

    def __init__(self, file: Any) -> None:
        self.read = file.read
        self.tell = file.tell

    def take(self, count: int) -> bytes:
        if count <= CHUNK:
            data: bytes = self.read(count)
            if len(data) < count:
                raise EOFError("Ran out of input: the file ends in the middle of a pickle")
            return data
        parts = []
        while count:
            parts.append(self.take(min(count, CHUNK)))
            count -= len(parts[-1])
        return b"".join(parts)

    def line(self) -> str:
        found = bytearray()
        while (byte := self.take(1)) != b"\n":
            found += byte
            if len(found) > LONGEST_NAME:
                raise UnpicklingError("a name in the pickle has no end")
        return found.decode()


class WeightsUnpickler:
    """The machine. `persistent_load` is called for memory that lies outside the pickle."""

    def __init__(
        self, file: Any, allowed: Allowed, persistent_load: Callable[[Any], Any] | None = None
    ) -> None:
        self.source = Source(file)
        self.allowed = allowed
        self.persistent_load = persistent_load
        self.memo: dict[int, Any] = {}
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.protocol = PROTOCOL
        self.copied = 0
        self.key_of_hash: dict[int, Any] = {}
        self.colliding: dict[int, set[Any]] = {}

    def load(self) -> Any:
        take, handlers = self.source.take, HANDLERS
        while True:
            code = take(1)[0]
            if code == STOP:
                return self.pop()
            handler = handlers.get(code)
            if handler is None:
                raise UnpicklingError(f"Unsupported operand {code}")
            handler(self)

    # ------------------------------------------------------------------ the stack

    def pop(self) -> Any:
        if not self.stack:
            raise UnpicklingError("the pickle is damaged: it takes more than it has put down")
        return self.stack.pop()

    def top(self) -> Any:
        if not self.stack:
            raise UnpicklingError("the pickle is damaged: it uses more than it has put down")
        return self.stack[-1]

    def since_mark(self) -> list[Any]:
        if not self.marked:
            raise UnpicklingError("the pickle is damaged: a mark is missing")
        items = self.stack
        self.stack = self.marked.pop()
        return items

    def unpack(self, layout: str, size: int) -> Any:
        return struct.unpack(layout, self.source.take(size))[0]

    # ------------------------------------------------------------------ instructions

    def proto(self) -> None:
        self.protocol = self.source.take(1)[0]
        if self.protocol != PROTOCOL:
            warn(
                f"Detected pickle protocol {self.protocol} in the checkpoint, which was not the "
                f"default pickle protocol used by `torch.load` ({PROTOCOL}). The weights_only "
                "Unpickler might not support all instructions implemented by this protocol, "
                "please file an issue for adding support if you encounter this.",
            )

    def mark(self) -> None:
        self.marked.append(self.stack)
        self.stack = []

    def long(self) -> None:
        data = self.source.take(self.source.take(1)[0])
        self.stack.append(int.from_bytes(data, "little", signed=True))

    def unicode(self) -> None:
        data = self.source.take(self.unpack("<I", 4))
        self.stack.append(self.decode(data, "surrogatepass"))

    def short_string(self) -> None:
        self.stack.append(self.decode(self.source.take(self.source.take(1)[0]), "strict"))

    def decode(self, data: bytes, errors: str) -> str:
        try:
            return data.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise UnpicklingError(f"a string in the pickle is damaged: {error}") from None

    def name(self) -> None:
        try:
            module, name = self.source.line(), self.source.line()
        except UnicodeDecodeError as error:
            raise UnpicklingError(f"a name in the pickle is damaged: {error}") from None
        self.stack.append(self.find(module, name))

    def find(self, module: str, name: str) -> Any:
        module, name = modern(module, name)
        full = f"{module}.{name}"
        if module.partition(".")[0] in BLOCKED:
            raise Blocked(
                f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked."
            )
        if full in self.allowed.names:
            return self.allowed.names[full]
        if module in ("torch", "torch._utils") and name in NOT_HERE:
            raise RuntimeError(f"the file uses {full}, which tapegrad does not have")
        raise NotAllowed(full.removeprefix("builtins."))

    def reduce(self) -> None:
        args = self.pop()
        function = self.pop()
        if isinstance(args, tuple):
            for value in args:
                self.pay_for(value)
            if args and any([function is kind for kind in (set, OrderedDict, Counter)]):
                for entry in args[0] if isinstance(args[0], (list, tuple, set)) else ():
                    # An OrderedDict hashes the first of two items; pairs may be lists.
                    is_pair = function is OrderedDict and isinstance(entry, (list, tuple))
                    self.check_key(entry[0] if is_pair and entry else entry)
        self.stack.append(self.allowed.call(function, args))

    def new_object(self) -> None:
        args = self.pop()
        cls = self.pop()
        if id(cls) in self.allowed.users:
            if not isinstance(cls, type) or not isinstance(args, tuple):
                raise UnpicklingError(f"Trying to create new object for {named(cls)}")
            self.stack.append(cls.__new__(cls, *args))
        elif type(args) is tuple and not args:
            self.stack.append(self.allowed.call(cls, args))
        else:
            raise UnpicklingError(
                f"Trying to create new object for unrecognized class {named(cls)}"
            )

    def build(self) -> None:
        state = self.pop()
        instance = self.top()
        cls = type(instance)
        if cls in (OrderedDict, Counter):
            if not isinstance(state, dict):
                raise UnpicklingError(f"Invalid state of a {cls.__name__}: {brief(state)}")
            self.pay_for(state)
            instance.__dict__.update(state)
        elif id(cls) in self.allowed.users:
            give_state(instance, state)
        else:
            raise UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                f"`add_safe_globals`, but got {cls}"
            )

    def persistent(self) -> None:
        pid = self.pop()
        if not isinstance(pid, tuple) or not pid:
            raise UnpicklingError(f"saved_id must be a tuple, got {type(pid).__name__}")
        is_storage = type(pid[0]) in (str, bytes) and pid[0] in ("storage", b"storage")
        if not is_storage or self.persistent_load is None:
            raise UnpicklingError(
                f"Only persistent_load of storage is allowed, but got {type(pid[0])}"
            )
        self.stack.append(self.persistent_load(pid))

    # ------------------------------------------------------------------ containers

    def close_tuple(self) -> None:
        items = tuple(self.since_mark())
        self.stack.append(items)

    def short_tuple(self, count: int) -> None:
        items = [self.pop() for _ in range(count)]
        self.stack.append(tuple(reversed(items)))

    def append(self) -> None:
        item = self.pop()
        self.a_list("append to").append(item)

    def appends(self) -> None:
        items = self.since_mark()
        self.a_list("extend").extend(items)

    def a_list(self, what: str) -> list[Any]:
        found = self.top()
        if type(found) is not list:
            raise UnpicklingError(f"Can only {what} lists, but got {type(found)}")
        return found

    def set_item(self) -> None:
        value = self.pop()
        key = self.pop()
        self.check_key(key)
        self.a_dict("SETITEM")[key] = value

    def set_items(self) -> None:
        items = self.since_mark()
        target = self.a_dict("SETITEMS")
        if len(items) % 2:
            raise UnpicklingError("the pickle is damaged: a key has no value")
        for i in range(0, len(items), 2):
            self.check_key(items[i])
            target[items[i]] = items[i + 1]

    def a_dict(self, what: str) -> Any:
        found = self.top()
        if type(found) not in (dict, OrderedDict, Counter):
            raise UnpicklingError(
                f"Can only {what} for dict, collections.OrderedDict, collections.Counter, but got "
                f"{type(found)}"
            )
        return found

    # ------------------------------------------------------------------ what it may cost

    def pay_for(self, value: Any) -> None:
        """Count what a call copies: few bytes of a pickle could ask for it again and again."""
        if isinstance(value, (str, bytes, bytearray, list, tuple, dict, set)):
            self.copied += len(value)
            if self.copied > FREE_COPIES and self.copied > MOST_COPIES * self.source.tell():
                raise UnpicklingError("the pickle is damaged: it makes too much of too little")

    def check_key(self, key: Any) -> None:
        """Refuse a key before it is hashed if that could exhaust the stack, or take for ever.

        Tuples of tuples of one tuple have exponentially many parts; hashes of numbers and of
        tuples are not random, so that a file can choose keys that all collide.
        """
        kind = type(key)
        if kind is str or kind is bytes or (kind is int and abs(key) < DISTINCT_HASHES):
            return
        seen, parts = 0, [key] if isinstance(key, tuple) else []
        while parts:
            part = parts.pop()
            seen += len(part)
            if seen > LARGEST_KEY:
                raise UnpicklingError("the pickle is damaged: a key has too many parts")
            parts += [inner for inner in part if isinstance(inner, tuple)]
        code = hash(key)
        known = self.key_of_hash.setdefault(code, key)
        if known is key or known == key:
            return
        others = self.colliding.setdefault(code, set())
        others.add(key)
        if len(others) > MOST_OF_ONE_HASH:
            raise UnpicklingError("the pickle is damaged: too many of its keys have one hash")

    # ------------------------------------------------------------------ the memo

    def remember(self, place: int) -> None:
        self.memo[place] = self.top()

    def recall(self, place: int) -> None:
        if place not in self.memo:
            raise UnpicklingError(f"the pickle is damaged: it has no memo {place}")
        self.stack.append(self.memo[place])


def named(function: Any) -> str:
    """The name of the function that a pickle calls, for a message."""
    known = isinstance(function, type) or callable(function)
    return f"{function!r:.200}" if known else brief(function)


class NotAllowed(UnpicklingError):
    """A name that is not on the list."""


class Blocked(UnpicklingError):
    """A name that cannot be put on the list."""


def modern(module: str, name: str) -> tuple[str, str]:
    """Protocol 2 spells the standard library as Python 2 did."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        return _compat_pickle.NAME_MAPPING[module, name]
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name


def give_state(instance: Any, state: Any) -> None:
    """Restore the state of an object, as pickle does; its class is one that the user trusts."""
    own = getattr(type(instance), "__setstate__", None)
    if own is not None and own is not getattr(tg.Tensor, "__setstate__", None):
        own(instance, state)
        return
    slots: Any = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        instance.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)


def pushing(make: Callable[[], Any]) -> Callable[[WeightsUnpickler], None]:
    return lambda machine: machine.stack.append(make())


def reading(layout: str, size: int) -> Callable[[WeightsUnpickler], None]:
    return lambda machine: machine.stack.append(machine.unpack(layout, size))


STOP = pickle.STOP[0]
MACHINE = WeightsUnpickler
HANDLERS: dict[int, Callable[[WeightsUnpickler], None]] = {
    code[0]: handler
    for code, handler in {
        pickle.PROTO: MACHINE.proto,
        pickle.MARK: MACHINE.mark,
        pickle.NONE: pushing(lambda: None),
        pickle.NEWTRUE: pushing(lambda: True),
        pickle.NEWFALSE: pushing(lambda: False),
        pickle.BININT: reading("<i", 4),
        pickle.BININT1: reading("<B", 1),
        pickle.BININT2: reading("<H", 2),
        pickle.BINFLOAT: reading(">d", 8),
        pickle.LONG1: MACHINE.long,
        pickle.BINUNICODE: MACHINE.unicode,
        pickle.SHORT_BINSTRING: MACHINE.short_string,
        pickle.EMPTY_TUPLE: pushing(tuple),
        pickle.EMPTY_LIST: pushing(list),
        pickle.EMPTY_DICT: pushing(dict),
        pickle.EMPTY_SET: pushing(set),
        pickle.TUPLE: MACHINE.close_tuple,
        pickle.TUPLE1: lambda machine: machine.short_tuple(1),
        pickle.TUPLE2: lambda machine: machine.short_tuple(2),
        pickle.TUPLE3: lambda machine: machine.short_tuple(3),
        pickle.APPEND: MACHINE.append,
        pickle.APPENDS: MACHINE.appends,
        pickle.SETITEM: MACHINE.set_item,
        pickle.SETITEMS: MACHINE.set_items,
        pickle.BINPUT: lambda machine: machine.remember(machine.unpack("<B", 1)),
        pickle.LONG_BINPUT: lambda machine: machine.remember(machine.unpack("<I", 4)),
        pickle.BINGET: lambda machine: machine.recall(machine.unpack("<B", 1)),
        pickle.LONG_BINGET: lambda machine: machine.recall(machine.unpack("<I", 4)),
        pickle.GLOBAL: MACHINE.name,
        pickle.REDUCE: MACHINE.reduce,
        pickle.NEWOBJ: MACHINE.new_object,
        pickle.BUILD: MACHINE.build,
        pickle.BINPERSID: MACHINE.persistent,
    }.items()
}
