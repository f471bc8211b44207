/* What a recorded run keeps of a tensor's values (diagnose.record): a hash that says whether two
   tensors are the same bit for bit, and statistics that say by how much they differ if not.

   tapegrad/recorder_for_torch.py defines every number and computes the same with NumPy. The hash is
   a sum over elements, each multiplied by a key of its row and a key of its column, so that memory
   can be read in the order in which it lies: a transposed matrix costs what a plain one does. */

#include <math.h>
#include <string.h>

#include "module.h"

#define LANES 8
#define HALF 4
#define BLOCK 4096
#define ROWS ((int64_t)1 << 40) /* where the numbers of row keys begin, and of block keys */
#define BLOCKS ((int64_t)1 << 41)

typedef double VALUES __attribute__((vector_size(HALF * 8)));
typedef float floats __attribute__((vector_size(HALF * 4)));
typedef int64_t integers __attribute__((vector_size(HALF * 8)));
typedef uint64_t TURNS __attribute__((vector_size(HALF * 8)));

struct summary {
    uint64_t hash;
    double low, high, lanes[LANES];
    VALUES sums[2], squares[2];
};

struct layout {
    const char *data;
    int ndim, by_columns;
    int64_t columns;
    const npy_intp *shape, *strides;
};

static uint32_t keys_float[BLOCK]; /* of the columns of a block */
static uint64_t keys_double[BLOCK], column_signs[BLOCK];

/* splitmix64, made odd. */
TG_INLINE uint64_t key_of(int64_t number) {
    uint64_t z = (uint64_t)number * 0x9e3779b97f4a7c15u + 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) | 1;
}

TG_INLINE void add_lanes(struct summary *s, const double *lanes, int64_t by, int flipped) {
    for (int l = 0; l < LANES; l++)
        s->lanes[(l + by) & (LANES - 1)] += flipped ? -lanes[l] : lanes[l];
}

TG_INLINE uint32_t mixed_32(uint32_t u) {
    u = (u ^ u >> 15) * 0x85ebca6bu;
    return u ^ u >> 13;
}

#define REAL float
#define BITS uint32_t
#define COLUMN_KEY uint32_t
#define INTEGER int32_t
#define REALS floats
#define LARGEST INT32_MAX
#define INFINITE 0x7f800000
#define MIXED(u) mixed_32(u)
#define NAME(f) f##_float
#include "value_summary_template.h"
#undef REAL
#undef BITS
#undef COLUMN_KEY
#undef INTEGER
#undef REALS
#undef LARGEST
#undef INFINITE
#undef MIXED
#undef NAME

#define REAL double
#define BITS uint64_t
#define COLUMN_KEY uint64_t
#define INTEGER int64_t
#define REALS VALUES
#define LARGEST INT64_MAX
#define INFINITE 0x7ff0000000000000
#define MIXED(u) ((u) ^ (u) >> 29)
#define NAME(f) f##_double
#include "value_summary_template.h"
#undef REAL
#undef REALS
#undef NAME

/* Integers are in order as they are, and finite. */
#define REAL int64_t
#define REALS integers
#define INTEGERS
#define keys_integer keys_double
#define NAME(f) f##_integer
#include "value_summary_template.h"

static void make_keys(void) {
    for (int64_t j = 0; j < BLOCK; j++) {
        const uint64_t key = key_of(j);
        keys_float[j] = (uint32_t)key;
        keys_double[j] = key;
        column_signs[j] = key >> 5 << 63;
    }
}

/* value_summary(x): the numbers as bytes, in the layout of the file format; None for an array that
   is not of float32, float64 or int64, is strided in its last two dimensions, or holds NaN or infinity
   (whose bits are made the same first, by Python). */
PyObject *tg_value_summary(PyObject *self, PyObject *value) {
    (void)self;
    if (!PyArray_Check(value))
        return PyErr_Format(PyExc_TypeError, "value_summary: an array is wanted");
    PyArrayObject *x = (PyArrayObject *)value;
    const int type = PyArray_TYPE(x), ndim = PyArray_NDIM(x);
    if ((type != NPY_FLOAT && type != NPY_DOUBLE && type != NPY_INT64) || !PyArray_ISBEHAVED_RO(x) || !PyArray_SIZE(x))
        Py_RETURN_NONE;
    const npy_intp size = PyArray_ITEMSIZE(x), one = 1;
    struct layout a = {PyArray_BYTES(x), ndim ? ndim : 1, 0, 1, &one, &size};
    if (ndim) {
        a.shape = PyArray_SHAPE(x);
        a.strides = PyArray_STRIDES(x);
        a.columns = a.shape[ndim - 1];
        const int dense = a.columns == 1 || a.strides[ndim - 1] == size;
        a.by_columns = !dense;
        if (!dense && (ndim < 2 || a.strides[ndim - 2] != size))
            Py_RETURN_NONE;
    }
    if (!keys_double[0])
        make_keys();
    struct summary s = {0, INFINITY, -INFINITY, {0}, {{0}}, {{0}}};
    int status;
    Py_BEGIN_ALLOW_THREADS status =
        type == NPY_FLOAT    ? summarise_float(&s, &a)
        : type == NPY_DOUBLE ? summarise_double(&s, &a)
                             : summarise_integer(&s, &a);
    Py_END_ALLOW_THREADS if (status < 0) return PyErr_NoMemory();
    if (status)
        Py_RETURN_NONE;
    const double count = (double)PyArray_SIZE(x);
    double sum = 0, squares = 0;
    for (int l = 0; l < LANES; l++) {
        sum += s.sums[l / HALF][l % HALF];
        squares += s.squares[l / HALF][l % HALF];
    }
    struct __attribute__((packed)) {
        uint64_t hash;
        uint32_t nans, infinities;
        double low, high, mean, norm, lanes[LANES];
    } out = {s.hash, 0, 0, s.low, s.high, sum / count, sqrt(squares), {0}};
    memcpy(out.lanes, s.lanes, sizeof out.lanes);
    return PyBytes_FromStringAndSize((const char *)&out, sizeof out);
}
