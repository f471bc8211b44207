/* Fingerprints of arrays, by which compiled steps compare values with earlier ones without a copy;
   and giving memory that is not needed for a while back to the operating system. */

#include <string.h>

#include "module.h"
#include "platform.h"

#define LANES 8

static uint64_t mixed(uint64_t h) {
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

enum { NO_FLOATS, HALVES, BRAINS, SINGLES, DOUBLES };

/* NaNs count as equal: their signs may differ between ways to compute the same value. */
#define WITH_ONE_NAN(type, infinity, nan)                                                          \
    {                                                                                              \
        type parts[LANES * 8 / sizeof(type)];                                                      \
        memcpy(parts, words, sizeof parts);                                                        \
        for (size_t i = 0; i < sizeof parts / sizeof(type); i++)                                   \
            parts[i] = (type)(parts[i] << 1) > (type)((type)(infinity) << 1) ? (type)(nan) : parts[i]; \
        memcpy(words, parts, sizeof parts);                                                        \
    }
TG_INLINE void with_one_nan(uint64_t *words, int kind) {
    if (kind == SINGLES)
        WITH_ONE_NAN(uint32_t, 0x7f800000u, 0x7fc00000u)
    else if (kind == DOUBLES)
        WITH_ONE_NAN(uint64_t, 0x7ff0000000000000u, 0x7ff8000000000000u)
    else if (kind == HALVES)
        WITH_ONE_NAN(uint16_t, 0x7c00u, 0x7e00u)
    else if (kind == BRAINS)
        WITH_ONE_NAN(uint16_t, 0x7f80u, 0x7fc0u)
}

static int kind_of(PyArrayObject *x) {
    const int type = PyArray_TYPE(x);
    if (type == NPY_FLOAT || type == NPY_CFLOAT)
        return SINGLES;
    if (type == NPY_DOUBLE || type == NPY_CDOUBLE)
        return DOUBLES;
    if (type == NPY_HALF)
        return HALVES;
    return PyArray_DESCR(x)->kind == 'V' && PyArray_ITEMSIZE(x) == 2 ? BRAINS : NO_FLOATS;
}

/* Every bit and its place count: each lane is multiplied on from word to word. */
TG_VERSIONS static uint64_t print_of(const char *data, int64_t bytes, int kind) {
    uint64_t lanes[LANES], words[LANES];
    for (int i = 0; i < LANES; i++)
        lanes[i] = mixed((uint64_t)(i + 1));
    int64_t at = 0;
    for (; at + (int64_t)sizeof words <= bytes; at += (int64_t)sizeof words) {
        memcpy(words, data + at, sizeof words);
        with_one_nan(words, kind);
        for (int i = 0; i < LANES; i++)
            lanes[i] = (lanes[i] ^ words[i] ^ words[i] >> 29) * 0x9e3779b97f4a7c15u;
    }
    memset(words, 0, sizeof words);
    memcpy(words, data + at, (size_t)(bytes - at));
    with_one_nan(words, kind);
    uint64_t h = (uint64_t)bytes;
    for (int i = 0; i < LANES; i++)
        h = mixed(h ^ (lanes[i] ^ words[i]) * 0x9e3779b97f4a7c15u);
    return h;
}

/* fingerprint(x): a number that tells the values of an array in one piece from others. */
PyObject *tg_fingerprint(PyObject *self, PyObject *x) {
    (void)self;
    if (!PyArray_Check(x) || !PyArray_ISONESEGMENT((PyArrayObject *)x))
        return PyErr_Format(PyExc_TypeError, "fingerprint: an array in one piece is wanted");
    const char *data = PyArray_BYTES((PyArrayObject *)x);
    const int64_t bytes = PyArray_NBYTES((PyArrayObject *)x);
    const int kind = kind_of((PyArrayObject *)x);
    uint64_t h;
    Py_BEGIN_ALLOW_THREADS h = print_of(data, bytes, kind);
    Py_END_ALLOW_THREADS return PyLong_FromUnsignedLongLong(h);
}

/* let_go(x): give the pages of an array back to the system: its values are not needed any more. The
   addresses stay valid; whole pages belong to the system until they are written again. */
PyObject *tg_let_go(PyObject *self, PyObject *x) {
    (void)self;
    if (!PyArray_CheckExact(x) || !PyArray_CHKFLAGS((PyArrayObject *)x, NPY_ARRAY_OWNDATA) ||
        !PyArray_ISONESEGMENT((PyArrayObject *)x))
        return PyErr_Format(PyExc_TypeError, "let_go: an array that owns its memory is wanted");
    const size_t room = tg_room_of((PyArrayObject *)x); /* huge pages reach beyond the elements */
    const size_t bytes = room ? room : (size_t)PyArray_NBYTES((PyArrayObject *)x);
    tg_drop_values(PyArray_DATA((PyArrayObject *)x), bytes);
    Py_RETURN_NONE;
}

#define MOVED ((uintptr_t)2 << 20) /* bytes at a time: a huge page */

/* move_into(to, from): the values of an array that nobody needs any more, in the memory of another
   one with the same strides. Pages of the first are given back while they are copied, so that both
   are never in memory as a whole. */
PyObject *tg_move_into(PyObject *self, PyObject *args) {
    (void)self;
    PyArrayObject *to, *from;
    if (!PyArg_ParseTuple(args, "O!O!", &PyArray_Type, &to, &PyArray_Type, &from))
        return NULL;
    if (!PyArray_CHKFLAGS(from, NPY_ARRAY_OWNDATA | NPY_ARRAY_C_CONTIGUOUS) ||
        !PyArray_IS_C_CONTIGUOUS(to) || !PyArray_ISWRITEABLE(to) ||
        PyArray_NBYTES(to) != PyArray_NBYTES(from) || PyArray_TYPE(to) != PyArray_TYPE(from) ||
        PyDataType_REFCHK(PyArray_DESCR(from)))
        return PyErr_Format(PyExc_TypeError, "move_into: two arrays with the same strides are wanted");
    char *target = PyArray_BYTES(to);
    const uintptr_t begin = (uintptr_t)PyArray_DATA(from), end = begin + PyArray_NBYTES(from);
    Py_BEGIN_ALLOW_THREADS for (uintptr_t at = begin; at < end;) {
        const uintptr_t next = at / MOVED * MOVED + MOVED < end ? at / MOVED * MOVED + MOVED : end;
        memcpy(target + (at - begin), (const void *)at, next - at);
        if (at % MOVED == 0 && next % MOVED == 0)
            tg_drop_values((void *)at, next - at);
        at = next;
    }
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}
