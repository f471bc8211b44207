/* Copies of bytes between arrays of one dtype and any strides, alone and on a tape. */

#include <string.h>

#include "module.h"

#define MOST_DIMS 8
#define FEW 4 /* elements in a row: not worth a loop of their own */

typedef struct {
    char *to;
    const char *from; /* NULL: zeros */
    int64_t bytes; /* of one element */
    int dims;
    int64_t size[MOST_DIMS], to_step[MOST_DIMS], from_step[MOST_DIMS];
} copy;

#define MOVE(type)                                                                                 \
    for (int64_t i = 0; i < n; i++)                                                                \
        *(type *)(to + i * to_step) = *(const type *)(from + i * from_step);
static void copy_row(char *restrict to, const char *restrict from, int64_t n, int64_t to_step,
                     int64_t from_step, int64_t bytes) {
    if (!from) {
        if (to_step == bytes)
            memset(to, 0, (size_t)(n * bytes));
        else
            for (int64_t i = 0; i < n; i++)
                memset(to + i * to_step, 0, (size_t)bytes);
    } else if (to_step == bytes && from_step == bytes) {
        memcpy(to, from, (size_t)(n * bytes));
    } else if (bytes == 4 && to_step == 4 && from_step == 0) {
        const int32_t value = *(const int32_t *)from;
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)to)[i] = value;
    } else if (bytes == 4 && to_step == 4 && from_step == -4) {
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)to)[i] = ((const int32_t *)from)[-i];
    } else if (bytes == 8 && to_step == 8 && from_step == -8) {
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)to)[i] = ((const int64_t *)from)[-i];
    } else if (bytes == 8) {
        MOVE(int64_t)
    } else if (bytes == 4) {
        MOVE(int32_t)
    } else if (bytes == 2) {
        MOVE(int16_t)
    } else if (bytes == 1) {
        MOVE(int8_t)
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * to_step, from + i * from_step, (size_t)bytes);
    }
}
#undef MOVE

static void copy_rows(void *context, int64_t begin, int64_t end) {
    const copy *c = context;
    const int last = c->dims - 1;
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row;
        char *to = c->to;
        const char *from = c->from;
        for (int d = last - 1; d >= 0; d--) {
            const int64_t at = rest % c->size[d];
            rest /= c->size[d];
            to += at * c->to_step[d];
            from = from ? from + at * c->from_step[d] : NULL;
        }
        copy_row(to, from, c->size[last], c->to_step[last], c->from_step[last], c->bytes);
    }
}

/* One long row is cut as well. */
static void copy_part(void *context, int64_t begin, int64_t end) {
    const copy *c = context;
    copy_row(c->to + begin * c->to_step[0], c->from ? c->from + begin * c->from_step[0] : NULL,
             end - begin, c->to_step[0], c->from_step[0], c->bytes);
}

/* A transposing copy: what is contiguous in the source, along the dimension `turned`, does not in
   the target. It goes in tiles, so that each line of the cache is fetched once. */
#define TILE 16
typedef struct {
    const copy *c;
    int turned;
    int64_t bands; /* of TILE along it */
} turn;

static int turned(const copy *c) {
    const int last = c->dims - 1;
    if (!c->from || (c->bytes != 4 && c->bytes != 8) || c->size[last] < TILE ||
        c->to_step[last] != c->bytes || (uint64_t)(c->from_step[last] + 63) < 127)
        return -1;
    for (int d = 0; d < last; d++)
        if (c->from_step[d] == c->bytes && c->size[d] >= TILE)
            return d;
    return -1;
}

#define T float
#define INTEGER int32_t
#define NAMED(name) name##_4
#include "transpose_tile_template.h"
#undef T
#undef INTEGER
#undef NAMED
#define T double
#define INTEGER int64_t
#define NAMED(name) name##_8
#include "transpose_tile_template.h"

static void copy_tiles(void *context, int64_t begin, int64_t end) {
    const turn *t = context;
    const copy *c = t->c;
    const int last = c->dims - 1;
    const int64_t to_step = c->to_step[t->turned], from_step = c->from_step[last];
    for (int64_t band = begin; band < end; band++) {
        const int64_t first = band % t->bands * TILE, left = c->size[t->turned] - first;
        const int64_t tall = left < TILE ? left : TILE;
        int64_t rest = band / t->bands;
        char *to = c->to + first * to_step;
        const char *from = c->from + first * c->bytes;
        for (int d = last - 1; d >= 0; d--) {
            if (d == t->turned)
                continue;
            to += rest % c->size[d] * c->to_step[d];
            from += rest % c->size[d] * c->from_step[d];
            rest /= c->size[d];
        }
        for (int64_t j = 0; j < c->size[last]; j += TILE) {
            const int64_t wide = c->size[last] - j < TILE ? c->size[last] - j : TILE;
            (c->bytes == 4 ? copy_tile_4 : copy_tile_8)(tall, wide, to + j * c->bytes, to_step,
                                                        from + j * from_step, from_step);
        }
    }
}

static int again(void *context) {
    copy *c = context;
    const int last = c->dims - 1;
    const double cost = 0.05 * (double)c->bytes;
    turn t = {c, turned(c), 0};
    if (t.turned >= 0) {
        t.bands = (c->size[t.turned] + TILE - 1) / TILE;
        int64_t bands = t.bands;
        for (int d = 0; d < last; d++)
            bands *= d == t.turned ? 1 : c->size[d];
        const int64_t few = tg_grain(4 * cost) / (TILE * c->size[last]);
        tg_parallel(bands, few > 1 ? few : 1, copy_tiles, &t);
        return 1;
    }
    if (last == 0) {
        tg_parallel(c->size[0], tg_grain(cost), copy_part, c);
        return 1;
    }
    int64_t rows = 1;
    for (int d = 0; d < last; d++)
        rows *= c->size[d];
    const int64_t grain = tg_grain(cost) / c->size[last];
    tg_parallel(rows, grain > 1 ? grain : 1, copy_rows, c);
    return 1;
}

/* The loops of a copy, contiguous dimensions merged; 0: there are too many. */
static int plan(PyArrayObject *to, PyArrayObject *from, copy *c) {
    *c = (copy){PyArray_BYTES(to), PyArray_BYTES(from), PyArray_ITEMSIZE(to), .dims = 0};
    for (int d = 0; d < PyArray_NDIM(to); d++) {
        const int64_t n = PyArray_DIM(to, d), a = PyArray_STRIDE(to, d), b = PyArray_STRIDE(from, d);
        const int k = c->dims - 1;
        if (n == 1)
            continue;
        if (k >= 0 && c->to_step[k] == n * a && c->from_step[k] == n * b) {
            c->size[k] *= n;
            c->to_step[k] = a;
            c->from_step[k] = b;
            continue;
        }
        if (c->dims == MOST_DIMS)
            return 0;
        c->size[c->dims] = n;
        c->to_step[c->dims] = a;
        c->from_step[c->dims++] = b;
    }
    const int last = c->dims - 1;
    if (last > 0 && c->size[last] <= FEW && c->size[last - 1] > FEW) { /* few long rows, not many */
        const copy as_it_was = *c;
        for (int d = 0; d < 2; d++) {
            c->size[last - d] = as_it_was.size[last - 1 + d];
            c->to_step[last - d] = as_it_was.to_step[last - 1 + d];
            c->from_step[last - d] = as_it_was.from_step[last - 1 + d];
        }
    }
    if (!c->dims) {
        c->dims = 1;
        c->size[0] = 1;
        c->to_step[0] = c->from_step[0] = c->bytes;
    }
    return 1;
}

/* Whether a tape can copy one into the other, and how. */
static int can(PyArrayObject *to, PyArrayObject *from, copy *c) {
    return PyArray_SIZE(to) && PyArray_NDIM(to) == PyArray_NDIM(from) &&
           PyArray_CompareLists(PyArray_DIMS(to), PyArray_DIMS(from), PyArray_NDIM(to)) &&
           PyArray_EquivTypes(PyArray_DESCR(to), PyArray_DESCR(from)) &&
           !PyDataType_REFCHK(PyArray_DESCR(to)) && PyArray_ISALIGNED(to) &&
           PyArray_ISALIGNED(from) && PyArray_ISWRITEABLE(to) && plan(to, from, c);
}

static int run(PyArrayObject *to, PyArrayObject *from) {
    copy c;
    PyObject *kept[] = {(PyObject *)to, (PyObject *)from};
    if (!can(to, from, &c)) /* not on the tape, which will be found not to do the same */
        return PyArray_CopyInto(to, from);
    if (tg_is_taping() && tg_tape(again, &c, sizeof c, kept, 2) < 0)
        return -1;
    Py_BEGIN_ALLOW_THREADS again(&c);
    Py_END_ALLOW_THREADS return 0;
}

/* addresses: to, from (0: zeros); sizes: bytes of an element, then size, steps of both for each
   dimension. */
PyObject *tg_describe_copy(tg_again function, const void *context) {
    const copy *c = context;
    if (function != again)
        return NULL;
    const int64_t addresses[] = {(intptr_t)c->to, (intptr_t)c->from};
    int64_t sizes[1 + 3 * MOST_DIMS] = {c->bytes};
    for (int d = 0; d < c->dims; d++) {
        sizes[1 + 3 * d] = c->size[d];
        sizes[2 + 3 * d] = c->to_step[d];
        sizes[3 + 3 * d] = c->from_step[d];
    }
    return tg_described("copy", addresses, 2, sizes, 1 + 3 * c->dims, NULL, 0);
}

/* copied(x): a new array in C order. */
PyObject *tg_copied(PyObject *self, PyObject *x) {
    (void)self;
    if (!PyArray_CheckExact(x))
        return PyErr_Format(PyExc_TypeError, "copied: an array is wanted");
    PyObject *made = tg_new_like((PyArrayObject *)x, NPY_CORDER);
    if (made && run((PyArrayObject *)made, (PyArrayObject *)x) < 0)
        Py_CLEAR(made);
    return made;
}

/* room(x): a new array with the strides of another one, not initialized. */
PyObject *tg_room(PyObject *self, PyObject *x) {
    (void)self;
    if (!PyArray_CheckExact(x))
        return PyErr_Format(PyExc_TypeError, "room: an array is wanted");
    return tg_new_like((PyArrayObject *)x, NPY_KEEPORDER);
}

/* dense(x): the array itself if it is in C order, else a copy. */
PyObject *tg_dense(PyObject *self, PyObject *x) {
    if (PyArray_CheckExact(x) && PyArray_IS_C_CONTIGUOUS((PyArrayObject *)x) &&
        PyArray_ISALIGNED((PyArrayObject *)x))
        return Py_NewRef(x);
    if (PyArray_CheckExact(x))
        return tg_copied(self, x);
    return PyArray_FromAny(x, NULL, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_ENSUREARRAY, NULL);
}

/* copy_into(to, from): on the tape too, from None for zeros; False: it is not for this, and nothing
   was done. */
PyObject *tg_copy_into(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *to, *from;
    copy c;
    if (!PyArg_ParseTuple(args, "O!O", &PyArray_Type, &to, &from))
        return NULL;
    if (from != Py_None && !PyArray_Check(from))
        return PyErr_Format(PyExc_TypeError, "copy_into: an array or None is wanted");
    PyObject *given = from == Py_None ? to : from;
    if (!can((PyArrayObject *)to, (PyArrayObject *)given, &c))
        Py_RETURN_FALSE;
    if (from == Py_None)
        c.from = NULL;
    PyObject *kept[] = {to, given};
    if (tg_is_taping() && tg_tape(again, &c, sizeof c, kept, 2) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS again(&c);
    Py_END_ALLOW_THREADS Py_RETURN_TRUE;
}

/* For a tape: if this call copies from a piece of memory, it copies zeros from now on. The piece that
   it fills, where that lies in a row; NULL: it is another call. */
char *tg_copies_zeros(tg_again function, void *context, const char *begin, const char *end,
                      int64_t *bytes) {
    copy *c = context;
    if (function != again || c->from < begin || c->from >= end)
        return NULL;
    c->from = NULL;
    *bytes = c->size[0] * c->bytes;
    return c->dims == 1 && c->to_step[0] == c->bytes ? c->to : NULL;
}
