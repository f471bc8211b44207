/* Small sums without the overhead of a ufunc: of a few numbers, in NumPy's order and so with its
   bits, and over the dimensions that broadcasting has added. Also checks the range of indices. */

#include "gemm.h"
#include "kernels.h"
#include "module.h"

#define MOST 128 /* NumPy cuts longer rows in two */

#define SUM_FEW(name, type)                                                                        \
    static type name(const type *x, npy_intp n) {                                                  \
        type sum, part[8];                                                                         \
        npy_intp i = 0;                                                                            \
        if (n < 8) {                                                                               \
            for (sum = 0; i < n; i++)                                                              \
                sum += x[i];                                                                       \
            return sum;                                                                            \
        }                                                                                          \
        for (; i < 8; i++)                                                                         \
            part[i] = x[i];                                                                        \
        for (; i < n - n % 8; i += 8)                                                              \
            for (int k = 0; k < 8; k++)                                                            \
                part[k] += x[i + k];                                                               \
        sum = ((part[0] + part[1]) + (part[2] + part[3])) +                                        \
              ((part[4] + part[5]) + (part[6] + part[7]));                                         \
        for (; i < n; i++)                                                                         \
            sum += x[i];                                                                           \
        return 0 + sum; /* no negative zero */                                                     \
    }
SUM_FEW(sum_f32, float)
SUM_FEW(sum_f64, double)

typedef struct {
    const void *x;
    void *out;
    npy_intp n;
    int wide;
} given;

static int add_up(void *context) {
    const given *g = context;
    if (g->wide)
        *(double *)g->out = sum_f64(g->x, g->n);
    else
        *(float *)g->out = sum_f32(g->x, g->n);
    return 1;
}

/* sum_few(x): the sum of all elements, a 0-d array; None where it is not for this. */
PyObject *tg_sum_few(PyObject *self, PyObject *arg) {
    (void)self;
    PyArrayObject *x = (PyArrayObject *)arg;
    if (!PyArray_CheckExact(arg) || PyArray_SIZE(x) > MOST || !PyArray_IS_C_CONTIGUOUS(x) ||
        !PyArray_ISBEHAVED_RO(x))
        Py_RETURN_NONE;
    const int type = PyArray_TYPE(x);
    if (type != NPY_FLOAT && type != NPY_DOUBLE)
        Py_RETURN_NONE;
    PyObject *out = tg_new_array(0, NULL, type, 0);
    if (!out)
        return NULL;
    given g = {PyArray_DATA(x), PyArray_DATA((PyArrayObject *)out), PyArray_SIZE(x),
               type == NPY_DOUBLE};
    PyObject *kept[] = {arg, out};
    if (tg_is_taping() && tg_tape(add_up, &g, sizeof g, kept, 2) < 0) {
        Py_DECREF(out);
        return NULL;
    }
    add_up(&g);
    return out;
}

/* ------------------------------------------------------------------ broadcasting undone */

#define BLOCKS 16 /* of rows, at most, as in overrides/reduce.py: the same sums */

typedef struct {
    void *x, *out;
    int64_t rows, columns;
    int wide, whole; /* whole: one row of all elements, in the order of sums over all dimensions */
} leading;

#define LONGEST 65536 /* such a row is not cut into pieces: 2 PIECE of overrides/reduce.py */

/* Rows of a block. */
static int64_t height_of(const leading *g) {
    const int64_t height = (g->rows + BLOCKS - 1) / BLOCKS, least = 16384 / g->columns + 1;
    return height < least ? least : height;
}

static int add_rows(void *context) {
    const leading *g = context;
    const double numbers[] = {1.0};
    if (g->whole) {
        void *pointers[] = {g->x, g->out, NULL};
        const int64_t sizes[] = {1, g->rows, g->rows, g->rows};
        (g->wide ? tg_sum_f64 : tg_sum_f32)(pointers, sizes, numbers);
        return 1;
    }
    const int64_t height = height_of(g);
    const int64_t blocks = (g->rows + height - 1) / height;
    void *room = NULL;
    if (blocks > 1) {
        room = tg_scratch((size_t)(blocks * g->columns) * sizeof(double));
        if (!room)
            return 0;
    }
    void *pointers[] = {g->x, g->out, room};
    const int64_t sizes[] = {1, g->rows, g->columns, height, g->columns};
    if (g->wide)
        tg_sum_columns_f64(pointers, sizes, numbers);
    else
        tg_sum_columns_f32(pointers, sizes, numbers);
    tg_scratch_back(room);
    return 1;
}

/* Of a few numbers: x, out; how many. Of columns: as tg_sum_columns is given them, except that the
   room for its parts is not among them. */
PyObject *tg_describe_small_sum(tg_again function, const void *context) {
    if (function == add_up) {
        const given *g = context;
        const int64_t addresses[] = {(intptr_t)g->x, (intptr_t)g->out}, sizes[] = {g->n};
        return tg_described(g->wide ? "sum_few_f64" : "sum_few_f32", addresses, 2, sizes, 1, NULL, 0);
    }
    if (function == add_rows) {
        const leading *g = context;
        const int64_t addresses[] = {(intptr_t)g->x, (intptr_t)g->out, 0};
        const int64_t sizes[] = {1, g->rows, g->columns, height_of(g), g->columns};
        const int64_t row[] = {1, g->rows, g->rows, g->rows};
        const double divisor = 1;
        if (g->whole)
            return tg_described(g->wide ? "sum_f64" : "sum_f32", addresses, 3, row, 4, &divisor, 1);
        return tg_described(g->wide ? "sum_columns_f64" : "sum_columns_f32", addresses, 3, sizes, 5,
                            &divisor, 1);
    }
    return NULL;
}

/* sum_to(x, shape): x summed over leading dimensions that `shape` has not; None: not for this. */
PyObject *tg_sum_to(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count != 2 || !PyArray_CheckExact(args[0]) || !PyTuple_CheckExact(args[1]))
        Py_RETURN_NONE;
    PyArrayObject *x = (PyArrayObject *)args[0];
    const int type = PyArray_TYPE(x), dims = (int)PyTuple_GET_SIZE(args[1]);
    const int extra = PyArray_NDIM(x) - dims;
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || extra < 1 || !PyArray_IS_C_CONTIGUOUS(x) ||
        !PyArray_ISBEHAVED_RO(x) || PyArray_SIZE(x) < 1)
        Py_RETURN_NONE;
    npy_intp shape[NPY_MAXDIMS];
    leading g = {
        .x = PyArray_DATA(x), .columns = 1, .wide = type == NPY_DOUBLE, .whole = dims == 0};
    if (g.whole && PyArray_SIZE(x) > LONGEST)
        Py_RETURN_NONE;
    for (int d = 0; d < dims; d++) {
        shape[d] = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[1], d));
        if (shape[d] == -1 && PyErr_Occurred())
            return NULL;
        if (shape[d] != PyArray_DIM(x, extra + d))
            Py_RETURN_NONE;
        g.columns *= shape[d];
    }
    g.rows = PyArray_SIZE(x) / g.columns;
    PyObject *out = tg_new_array(dims, shape, type, 0);
    if (!out)
        return NULL;
    g.out = PyArray_DATA((PyArrayObject *)out);
    PyObject *kept[] = {args[0], out};
    if (tg_is_taping() && tg_tape(add_rows, &g, sizeof g, kept, 2) < 0) {
        Py_DECREF(out);
        return NULL;
    }
    if (!add_rows(&g)) {
        Py_DECREF(out);
        return PyErr_NoMemory();
    }
    return out;
}

/* all_below(x, limit): whether all numbers of an int64 array are from 0 to limit - 1; None where it
   is not for this. */
PyObject *tg_all_below(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count != 2 || !PyArray_CheckExact(args[0]))
        Py_RETURN_NONE;
    PyArrayObject *x = (PyArrayObject *)args[0];
    const long long limit = PyLong_AsLongLong(args[1]);
    if (limit == -1 && PyErr_Occurred())
        return NULL;
    if (PyArray_TYPE(x) != NPY_INT64 || !PyArray_IS_C_CONTIGUOUS(x) || !PyArray_ISBEHAVED_RO(x) ||
        limit < 0)
        Py_RETURN_NONE;
    /* Negative numbers are large ones when read as unsigned: one look finds both. */
    const uint64_t *at = PyArray_DATA(x), end = (uint64_t)limit;
    const npy_intp n = PyArray_SIZE(x);
    int outside = 0;
    for (npy_intp i = 0; i < n; i++)
        outside |= at[i] >= end;
    return PyBool_FromLong(!outside);
}
