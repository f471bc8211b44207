"""Printers of the kernels of layers: convolutions, pooling, norms, attention."""

from __future__ import annotations

from .elementwise import NoPrinter
from .places import Memory, number
from .printers import Call, function, prints, room_for

G_FLAT, G_FIRST = 17, 18  # of conv.c's geometry: what is printed has no FAR and no FLAT


def geometry(c: Call, memory: Memory, at: int) -> tuple[str, list[int]]:
    """The table of a convolution's geometry as lay_real reads it."""
    g = memory.values(at, G_FIRST)
    phases = memory.values(at, G_FIRST + 3 * g[15])[G_FIRST:]
    values = [*g[:16], *phases]
    return memory.table(values, "geometry"), values


def taps(c: Call, memory: Memory, g: list[int], at: int, each: int) -> str:
    """Where the taps of a channel are, in a layout of whole channels."""
    laid = g[9] * g[10] * g[11]
    found = memory.values(at, c.n[4])
    return memory.table([x // each * laid + x % each for x in found], "taps")


@prints("conv")
def conv(c: Call, memory: Memory) -> str:
    images, groups, features, depth, count = c.n[:5]
    name, g = geometry(c, memory, c.p[5])
    offset = taps(c, memory, g, c.p[6], c.n[17])
    laid = g[15] * g[9] * g[10] * g[11]
    tile = "8x8" if g[14] <= 8 else "8x16" if g[14] <= 16 else "4x32"
    return function(
        f"{c.name}_{tile}",
        memory.pointer(c.p[0], c.T),
        memory.pointer(c.p[1], c.T),
        memory.pointer(c.p[3], c.T),
        memory.pointer(c.p[4], c.T, True),
        name,
        offset,
        memory.table(memory.values(c.p[2], count), "places"),
        memory.table(list(c.n[5:13]), "steps"),
        *[images, groups, features, depth, count],
        room_for(c, memory, depth * laid + 64),
    )


@prints("conv_weights")
def conv_weights(c: Call, memory: Memory) -> str:
    images, groups, features, depth, count = c.n[:5]
    name, g = geometry(c, memory, c.p[4])
    offset = taps(c, memory, g, c.p[5], c.n[17])
    laid = g[15] * g[9] * g[10] * g[11]
    pixels = max(128 // g[14], 1) * g[14] * 32
    tile = "12x8" if features <= 8 else "8x16" if features <= 16 else "4x32"
    return function(
        f"{c.name}_{tile}",
        memory.pointer(c.p[0], c.T),
        memory.pointer(c.p[1], c.T),
        memory.pointer(c.p[3], c.T, True),
        name,
        offset,
        *[images, groups, features, depth, count, c.n[13], c.n[14], c.n[15], c.n[16]],
        room_for(c, memory, depth * laid + pixels + depth * count * features),
    )


@prints("conv_dots")
def conv_dots(c: Call, memory: Memory) -> str:
    images, groups, features, depth, count = c.n[:5]
    name, g = geometry(c, memory, c.p[4])
    offset = taps(c, memory, g, c.p[5], c.n[17])
    laid = g[15] * g[9] * g[10] * g[11]
    room = -(-depth * laid // 16) * 16 * c.item
    at = memory.scratch(room + 8 * c.n[16] * groups * features * depth * count)
    return function(
        c.name,
        memory.pointer(c.p[0], c.T),
        memory.pointer(c.p[1], c.T),
        memory.pointer(c.p[3], c.T, True),
        name,
        offset,
        *[images, groups, features, depth, count, c.n[13], c.n[14], c.n[15], c.n[16]],
        *[f"{'F32' if c.kind == 'f32' else 'F64'}({at})", f"F64({at + room})"],
    )


@prints("max_pool2d")
def max_pool2d(c: Call, memory: Memory) -> str:
    sides = (c.n[1:6], c.n[6:11])
    four = 16 // c.item
    pairs = c.n[10] >= four and all(
        [s[1] == 2 and s[2] == 2 and s[3] == 0 and 2 * s[4] <= s[0] for s in sides]
    )
    return function(
        c.name,
        memory.pointer(c.p[0], c.T),
        memory.pointer(c.p[1], c.T, True),
        memory.pointer(c.p[2], "int64_t", True),
        memory.table(list(c.n[:11]), "windows"),
        int(not pairs and not c.p[2]),
    )


@prints("window_max")
def window_max(c: Call, memory: Memory) -> str:
    deep, *planes = [c.n[1 + 6 * k : 7 + 6 * k] for k in range(3)]
    if deep[0] != 1 or deep[1] != 1 or any([not axis[1] or axis[4] != 1 for axis in planes]):
        raise NoPrinter("max pooling of volumes, with gaps, or of a given output size")
    windows = [c.n[0], *[axis[i] for axis in planes for i in (0, 1, 2, 3, 5)]]
    return function(
        f"max_pool2d_{c.kind}",
        memory.pointer(c.p[0], c.T),
        memory.pointer(c.p[1], c.T, True),
        memory.pointer(c.p[2], "int64_t", True),
        memory.table(windows, "windows"),
        0,
    )


@prints("max_pool2d_back")
def max_pool2d_back(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        memory.pointer(c.p[0], c.T),
        memory.pointer(c.p[1], "int64_t"),
        memory.pointer(c.p[2], c.T, True),
        *c.n[:3],
    )


@prints("avg_pool2d")
def avg_pool2d(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        memory.pointer(c.p[0], c.T),
        memory.pointer(c.p[1], c.T, True),
        memory.table(list(c.n[:11]), "windows"),
        *[int(c.n[11]), number(c.x[0])],
    )


@prints("avg_pool2d_back")
def avg_pool2d_back(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        memory.pointer(c.p[0], c.T),
        memory.pointer(c.p[1], c.T, True),
        memory.table(list(c.n[:11]), "windows"),
        *[int(c.n[11]), number(c.x[0])],
        room_for(c, memory, c.n[6]),
    )


@prints("window_mean", "window_mean_back")
def window_mean(c: Call, memory: Memory) -> str:
    return function(
        f"window_mean_{c.kind}",
        memory.pointer(c.p[0], c.T),
        memory.pointer(c.p[1], c.T, True),
        memory.table(list(c.n[:20]), "windows"),
        number(c.x[0]),
        int(c.base == "window_mean_back"),
    )


@prints("batch_norm", "columns_norm")
def batch_norm(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:3]],
        *[memory.pointer(at, c.T, True) for at in c.p[3:5]],
        *c.n[:3],
        number(c.x[0]),
    )


@prints("batch_norm_fixed")
def batch_norm_fixed(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:5]],
        memory.pointer(c.p[5], c.T, True),
        *c.n[:3],
        number(c.x[0]),
    )


@prints("batch_norm_back", "columns_norm_back")
def batch_norm_back(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:5]],
        *[memory.pointer(at, c.T, True) for at in c.p[5:8]],
        *c.n[:4],
    )


@prints("group_norm")
def group_norm(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:3]],
        *[memory.pointer(at, c.T, True) for at in c.p[3:6]],
        *c.n[:4],
        number(c.x[0]),
    )


@prints("group_norm_back")
def group_norm_back(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:5]],
        memory.pointer(c.p[5], c.T, True),
        *[memory.pointer(at, "double", True) for at in c.p[6:8]],
        *[memory.pointer(at, c.T, True) for at in c.p[8:10]],
        *c.n[:4],
    )


@prints("layer_norm")
def layer_norm(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:3]],
        *[memory.pointer(at, c.T, True) for at in c.p[3:6]],
        *c.n[:2],
        number(c.x[0]),
    )


@prints("norm_back")
def norm_back(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:5]],
        *[memory.pointer(at, c.T, True) for at in c.p[5:8]],
        *c.n[:3],
    )


@prints("attention")
def attention(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:4]],
        memory.pointer(c.p[4], c.T, True),
        memory.table(list(c.n[:22]), "attention"),
        number(c.x[0]),
        room_for(c, memory, 64 * c.n[3]),
    )


@prints("attention_back")
def attention_back(c: Call, memory: Memory) -> str:
    if c.n[21] and c.n[2] != c.n[3]:
        raise NoPrinter("causal attention of as many keys as queries only")
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:5]],
        *[memory.pointer(at, c.T, True) for at in c.p[5:8]],
        memory.table(list(c.n[:22]), "attention"),
        number(c.x[0]),
        room_for(c, memory, 128 * c.n[3]),
    )
