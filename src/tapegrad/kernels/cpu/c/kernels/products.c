/* Products of matrices for Python: by kernels of our own (gemm.c) on processors that these are made
   for, elsewhere by the BLAS that NumPy brings along, called by pointer.

   There a product that is worth several threads is cut into pieces that depend on its size alone,
   each of them computed by one thread of BLAS: beside a pool of our own, BLAS's threads would only be
   in the way, and its results depend on their number. */

#include <string.h>

#include "gemm.h"
#include "kernels.h"
#include "module.h"
#include "platform.h"

enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102, AS_IS = 111, TURNED = 112 };

typedef void (*gemm_f32)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t,
                         const float *, int64_t, float, float *, int64_t);
typedef void (*gemm_f64)(int, int, int, int64_t, int64_t, int64_t, double, const double *, int64_t,
                         const double *, int64_t, double, double *, int64_t);

static struct {
    gemm_f32 f32;
    gemm_f64 f64;
    int (*threads)(void);
    void (*set_threads)(int);
} blas;

/* Multiplications in a piece of work. */
#define PIECE ((double)(3 << 20))
#define PIECE_OF_STACK ((double)(1 << 19))
#define MOST_PIECES 8 /* each of them packs one of the factors anew: no more than two a processor */
#define SHORT ((double)(1 << 15)) /* multiplications below which the GIL is kept */
#define SMALL_MATRIX (1 << 17)  /* elements: the GIL is kept */
#define MOST_IN_A_ROW (1 << 16) /* PIECE in overrides/products.py */

typedef struct {
    const char *data;
    int64_t step; /* from row to row, or from column to column, in elements */
    int turn;
} matrix;

typedef struct {
    int wide; /* double */
    int64_t m, n, k, ldc;
    matrix a, b;
    char *out;
    int adds;           /* add to the values in `out` */
    int by_rows;        /* how it is cut */
    int64_t batch[3];   /* steps in bytes from one product of a stack to the next */
    int64_t width;      /* of a piece */
} product;

static void multiply(const product *p, int64_t m, int64_t n, const char *a, const char *b,
                     char *out) {
    if (p->wide)
        blas.f64(ROW_MAJOR, p->a.turn, p->b.turn, m, n, p->k, 1.0, (const double *)a, p->a.step,
                 (const double *)b, p->b.step, p->adds, (double *)out, p->ldc);
    else
        blas.f32(ROW_MAJOR, p->a.turn, p->b.turn, m, n, p->k, 1.0f, (const float *)a, p->a.step,
                 (const float *)b, p->b.step, (float)p->adds, (float *)out, p->ldc);
}

static void piece(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    const int64_t item = p->wide ? 8 : 4;
    for (int64_t i = begin; i < end; i++) {
        const int64_t from = i * p->width, all = p->by_rows ? p->m : p->n;
        const int64_t count = from + p->width < all ? p->width : all - from;
        if (p->by_rows)
            multiply(p, count, p->n,
                     p->a.data + from * item * (p->a.turn == AS_IS ? p->a.step : 1), p->b.data,
                     p->out + from * p->ldc * item);
        else
            multiply(p, p->m, count, p->a.data,
                     p->b.data + from * item * (p->b.turn == AS_IS ? 1 : p->b.step),
                     p->out + from * item);
    }
}

static void of_a_stack(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    for (int64_t i = begin; i < end; i++)
        multiply(p, p->m, p->n, p->a.data + i * p->batch[0], p->b.data + i * p->batch[1],
                 p->out + i * p->batch[2]);
}

static int blas_alone(void) {
    const int threads = blas.threads();
    if (threads != 1)
        blas.set_threads(1);
    return threads;
}

static void blas_again(int threads) {
    if (threads != 1)
        blas.set_threads(threads);
}

static void run(product *p, int64_t stack) {
    const double work = (double)p->m * (double)p->n * (double)p->k;
    const int threads = blas_alone();
    if (stack > 1) {
        int64_t grain = (int64_t)(PIECE_OF_STACK / (work < 1 ? 1 : work));
        tg_parallel(stack, grain < 1 ? 1 : grain, of_a_stack, p);
    } else {
        const int64_t most = 2 * tg_cores();
        int64_t pieces = (int64_t)(work / PIECE), all;
        pieces = pieces < MOST_PIECES ? pieces : MOST_PIECES;
        pieces = pieces < 1 ? 1 : pieces > most ? most : pieces;
        p->by_rows = p->m >= p->n;
        all = p->by_rows ? p->m : p->n;
        p->width = (all + pieces - 1) / pieces;
        p->width = (p->width + 15) / 16 * 16; /* whole blocks of BLAS's kernels */
        tg_parallel((all + p->width - 1) / p->width, 1, piece, p);
    }
    blas_again(threads);
}

/* A product with the row that is added to all of its rows, if there is one. */
typedef struct {
    product p;
    int64_t stack;
    const char *row;
    _Atomic int failed; /* a thread found no memory */
} whole;

static void one_by_one(void *context, int64_t begin, int64_t end) {
    whole *w = context;
    const product *p = &w->p;
    const int turn_a = p->a.turn != AS_IS, turn_b = p->b.turn != AS_IS;
    for (int64_t i = begin; i < end; i++) {
        tg_matrices g = {.m = p->m,
                         .n = p->n,
                         .k = p->k,
                         .a = p->a.data + i * p->batch[0],
                         .a_down = turn_a ? 1 : p->a.step,
                         .a_right = turn_a ? p->a.step : 1,
                         .b = p->b.data + i * p->batch[1],
                         .b_down = turn_b ? 1 : p->b.step,
                         .b_right = turn_b ? p->b.step : 1,
                         .row = w->row,
                         .out = p->out + i * p->batch[2],
                         .ldc = p->ldc};
        if (!tg_multiply(&g, p->wide))
            w->failed = 1;
    }
}

/* All sizes alike: the order of sums is one and known, which BLAS's is not, and for 204 small and
   narrow products of every layout gemm.c took 0.71 of its time (geometric mean). */
static int is_ours(void) { return !blas.f32 || tg_multiplies(); }

static int compute(void *context) {
    whole *w = context;
    if (is_ours()) {
        const double work = (double)w->p.m * (double)w->p.n * (double)w->p.k;
        const int64_t grain = (int64_t)(PIECE_OF_STACK / (work < 1 ? 1 : work));
        if (w->stack < 2 * tg_threads() && grain < 1) /* each of them on all threads */
            one_by_one(w, 0, w->stack);
        else
            tg_parallel(w->stack, grain < 1 ? 1 : grain, one_by_one, w);
        return !w->failed;
    }
    const size_t bytes = (size_t)(w->p.n * (w->p.wide ? 8 : 4));
    if (w->row)
        for (int64_t i = 0; i < w->p.m; i++)
            memcpy(w->p.out + i * (int64_t)bytes, w->row, bytes);
    run(&w->p, w->stack);
    return 1;
}

/* addresses: a, b, the row that is added, out; sizes: m, n, k, steps of a down and to the right, those
   of b, of out down, how many products, steps in bytes between them, whether gemm.c computes it. */
PyObject *tg_describe_product(tg_again function, const void *context) {
    const whole *w = context;
    const product *p = &w->p;
    if (function != compute)
        return NULL;
    const int turn_a = p->a.turn != AS_IS, turn_b = p->b.turn != AS_IS;
    const int64_t addresses[] = {(intptr_t)p->a.data, (intptr_t)p->b.data, (intptr_t)w->row,
                                 (intptr_t)p->out};
    const int64_t sizes[] = {p->m, p->n, p->k, turn_a ? 1 : p->a.step, turn_a ? p->a.step : 1,
                             turn_b ? 1 : p->b.step, turn_b ? p->b.step : 1, p->ldc, w->stack,
                             p->batch[0], p->batch[1], p->batch[2], is_ours()};
    return tg_described(p->wide ? "product_f64" : "product_f32", addresses, 4, sizes, 13, NULL, 0);
}

/* ------------------------------------------------------------------ for Python */

/* The layout of the last two dimensions; 0: BLAS cannot read it. */
static int read_matrix(PyArrayObject *x, matrix *found) {
    const int d = PyArray_NDIM(x) - 2;
    const int64_t item = PyArray_ITEMSIZE(x), rows = PyArray_DIM(x, d),
                  columns = PyArray_DIM(x, d + 1), down = PyArray_STRIDE(x, d),
                  right = PyArray_STRIDE(x, d + 1);
    found->data = PyArray_BYTES(x);
    if ((right == item || columns == 1) && (rows == 1 || (down >= columns * item && !(down % item)))) {
        found->turn = AS_IS;
        found->step = rows == 1 ? columns : down / item;
        return 1;
    }
    if ((down == item || rows == 1) && right >= rows * item && !(right % item)) {
        found->turn = TURNED;
        found->step = right / item;
        return 1;
    }
    return 0;
}

/* The layout of any matrix or stack, copied if need be; NULL: not for BLAS, or an exception. */
static PyArrayObject *laid_for_us(PyArrayObject *x, matrix *found) {
    if (read_matrix(x, found))
        return (PyArrayObject *)Py_NewRef((PyObject *)x);
    PyArrayObject *copy = (PyArrayObject *)tg_copied(NULL, (PyObject *)x); /* on a tape too */
    if (copy && !read_matrix(copy, found))
        Py_CLEAR(copy);
    return copy;
}

/* Whether the rows of all matrices of a stack follow each other evenly; then it is one matrix. */
static int is_one_matrix(PyArrayObject *a, product *p) {
    const int64_t next = PyArray_STRIDE(a, 0), item = PyArray_ITEMSIZE(a);
    if (p->a.turn != AS_IS || next % item)
        return 0;
    if (p->m == 1 && next >= p->k * item) {
        p->a.step = next / item;
        return 1;
    }
    return next == p->m * p->a.step * item;
}

static PyObject *computed(product *p, int64_t stack, PyArrayObject *a, PyArrayObject *b,
                          PyArrayObject *row) {
    const int dims = PyArray_NDIM(a);
    npy_intp shape[3] = {stack, p->m, p->n};
    PyObject *out = tg_new_array(dims, shape + 3 - dims, PyArray_TYPE(a), 0);
    if (!out)
        return NULL;
    p->out = PyArray_BYTES((PyArrayObject *)out);
    p->ldc = p->n;
    if (dims == 3) {
        p->batch[0] = PyArray_STRIDE(a, 0);
        p->batch[1] = PyArray_STRIDE(b, 0);
        p->batch[2] = PyArray_STRIDE((PyArrayObject *)out, 0);
        /* One right factor for the whole stack: one product instead of many narrow ones. */
        if (stack > 1 && !p->batch[1] && is_one_matrix(a, p)) {
            p->m *= stack;
            stack = 1;
        }
    }
    whole w = {.p = *p, .stack = stack, .row = row ? PyArray_BYTES(row) : NULL};
    PyObject *kept[] = {(PyObject *)a, (PyObject *)b, (PyObject *)row, out};
    if (tg_is_taping() && tg_tape(compute, &w, sizeof w, kept, 4) < 0) {
        Py_DECREF(out);
        return NULL;
    }
    int done;
    if ((double)p->m * (double)p->n * (double)p->k * (double)stack < SHORT) {
        done = compute(&w);
    } else {
        Py_BEGIN_ALLOW_THREADS done = compute(&w);
        Py_END_ALLOW_THREADS
    }
    if (!done) {
        Py_CLEAR(out);
        PyErr_NoMemory();
    }
    return out;
}

/* a @ b, plus a row or NULL. Not for us, or an exception: NULL. */
static PyObject *multiplied(PyArrayObject *a, PyArrayObject *b, PyArrayObject *row) {
    const int type = PyArray_TYPE(a), dims = PyArray_NDIM(a);
    product p = {.wide = type == NPY_DOUBLE, .adds = row != NULL};
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || PyArray_TYPE(b) != type ||
        PyArray_NDIM(b) != dims || (dims != 2 && dims != 3) || !PyArray_ISBEHAVED_RO(a) ||
        !PyArray_ISBEHAVED_RO(b))
        return NULL;
    p.m = PyArray_DIM(a, dims - 2);
    p.k = PyArray_DIM(a, dims - 1);
    p.n = PyArray_DIM(b, dims - 1);
    const int64_t stack = dims == 3 ? PyArray_DIM(a, 0) : 1;
    if (p.k != PyArray_DIM(b, dims - 2) || p.m < 1 || p.n < 1 || p.k < 1 || stack < 1 ||
        (dims == 3 && PyArray_DIM(b, 0) != stack))
        return NULL;
    if (row && (PyArray_TYPE(row) != type || PyArray_NDIM(row) != 1 ||
                PyArray_DIM(row, 0) != p.n || !PyArray_IS_C_CONTIGUOUS(row) ||
                !PyArray_ISBEHAVED_RO(row) || dims == 3))
        return NULL;
    PyArrayObject *left = laid_for_us(a, &p.a), *right = left ? laid_for_us(b, &p.b) : NULL;
    PyObject *out = right ? computed(&p, stack, left, right, row) : NULL;
    Py_XDECREF(left);
    Py_XDECREF(right);
    return out;
}

static PyArrayObject *array_or_null(PyObject *x) {
    return PyArray_CheckExact(x) ? (PyArrayObject *)x : NULL;
}

static PyObject *or_none(PyObject *found) {
    return found || PyErr_Occurred() ? found : Py_NewRef(Py_None);
}

/* product(a, b, summand=None): a @ b, plus a row or nothing; None where it is not for us. */
PyObject *tg_product(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if ((!blas.f32 && !tg_multiplies()) || count < 2 || count > 3)
        Py_RETURN_NONE;
    PyArrayObject *a = array_or_null(args[0]), *b = array_or_null(args[1]), *row = NULL;
    const int has_row = count == 3 && args[2] != Py_None;
    if (has_row)
        row = array_or_null(args[2]);
    if (!a || !b || (has_row && !row))
        Py_RETURN_NONE;
    return or_none(multiplied(a, b, row));
}

/* product_with_vector(a, x): a @ x, x in one piece and a small or by rows; None where it is not. */
PyObject *tg_product_with_vector(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    PyArrayObject *a = count == 2 ? array_or_null(args[0]) : NULL,
                  *x = count == 2 ? array_or_null(args[1]) : NULL;
    if (!a || !x || PyArray_NDIM(x) != 1 || PyArray_NDIM(a) < 1 || PyArray_NDIM(a) > 2)
        Py_RETURN_NONE;
    const int type = PyArray_TYPE(a), d = PyArray_NDIM(a) - 1, wide = type == NPY_DOUBLE;
    const int64_t item = PyArray_ITEMSIZE(a), width = PyArray_DIM(a, d),
                  rows = d ? PyArray_DIM(a, 0) : 1, right = PyArray_STRIDE(a, d),
                  down = d ? PyArray_STRIDE(a, 0) : width * item;
    if ((type != NPY_FLOAT && !wide) || PyArray_TYPE(x) != type || PyArray_DIM(x, 0) != width ||
        !PyArray_ISBEHAVED_RO(a) || !PyArray_ISBEHAVED_RO(x) || rows * width > SMALL_MATRIX ||
        width > MOST_IN_A_ROW || rows * width == 0 || (width > 1 && PyArray_STRIDE(x, 0) != item))
        Py_RETURN_NONE;
    const int by_columns = rows > 1 && down == item && right >= rows * item && !(right % item);
    if (!by_columns && ((width > 1 && right != item) || down < 0 || down % item))
        Py_RETURN_NONE;
    const npy_intp shape[1] = {rows};
    PyObject *out = tg_new_array(d, shape, type, 0);
    if (!out)
        return NULL;
    PyObject *kept[] = {(PyObject *)a, (PyObject *)x, out};
    const int64_t sizes[] = {rows, width, (by_columns ? right : down) / item, MOST_IN_A_ROW};
    const tg_kernel kernel = by_columns ? (wide ? tg_matvec_columns_f64 : tg_matvec_columns_f32)
                                        : (wide ? tg_matvec_f64 : tg_matvec_f32);
    if (!tg_run_kernel(kernel, kept, 3, sizes, 4))
        Py_CLEAR(out);
    return out;
}

/* ------------------------------------------------------------------ gradients */

/* The transpose of a matrix: a new reference. */
static PyArrayObject *turned(PyArrayObject *x) { return (PyArrayObject *)PyArray_Transpose(x, NULL); }

/* a @ b, in C order or in column order. */
static PyObject *laid_out(PyArrayObject *a, PyArrayObject *b, int by_columns) {
    if (!by_columns)
        return multiplied(a, b, NULL);
    PyArrayObject *left = turned(b), *right = turned(a);
    PyObject *made = left && right ? multiplied(left, right, NULL) : NULL, *found = NULL;
    if (made)
        found = (PyObject *)turned((PyArrayObject *)made);
    Py_XDECREF(left);
    Py_XDECREF(right);
    Py_XDECREF(made);
    return found;
}

/* Whether a matrix of so many rows, with these strides, is in column order. */
static int by_columns(PyObject *strides, npy_intp rows) {
    if (!PyTuple_CheckExact(strides) || PyTuple_GET_SIZE(strides) != 2)
        return 0;
    const npy_intp down = PyLong_AsSsize_t(PyTuple_GET_ITEM(strides, 0));
    return down != 0 && PyLong_AsSsize_t(PyTuple_GET_ITEM(strides, 1)) == down * rows;
}

static int is_one(PyObject *x) {
    return (PyLong_CheckExact(x) && PyLong_AsLong(x) == 1) ||
           (PyFloat_CheckExact(x) && PyFloat_AS_DOUBLE(x) == 1.0);
}

/* The gradients of `left @ right` where they are wanted; 0: not for us, or an exception. */
static int gradients_of(PyObject *grad, PyObject *left, PyObject *right, PyObject *left_strides,
                        PyObject *right_strides, int wants_left, int wants_right,
                        PyObject **found) {
    PyArrayObject *g = array_or_null(grad), *a = wants_right ? array_or_null(left) : NULL,
                  *b = wants_left ? array_or_null(right) : NULL;
    if (!g || PyArray_NDIM(g) != 2 || (wants_left && (!b || PyArray_NDIM(b) != 2)) ||
        (wants_right && (!a || PyArray_NDIM(a) != 2)))
        return 0;
    if (wants_left) {
        PyArrayObject *other = turned(b);
        found[0] = other ? laid_out(g, other, by_columns(left_strides, PyArray_DIM(g, 0))) : NULL;
        Py_XDECREF(other);
        if (!found[0])
            return 0;
    }
    if (wants_right) {
        PyArrayObject *other = turned(a);
        found[1] = other ? laid_out(other, g, by_columns(right_strides, PyArray_DIM(a, 1))) : NULL;
        Py_XDECREF(other);
        if (!found[1]) {
            Py_CLEAR(found[0]);
            return 0;
        }
    }
    return 1;
}

/* The kept values of an op: tensors, the result, attributes, and strides that the rules ask for. */
static PyObject *pulled(PyObject *const *args, Py_ssize_t count, int summand) {
    const Py_ssize_t first = summand, strides = first + 3 + 2 * summand;
    if ((!blas.f32 && !tg_multiplies()) || count != 3 || !PyTuple_CheckExact(args[1]) ||
        !PyTuple_CheckExact(args[2]) || PyTuple_GET_SIZE(args[1]) != strides + 2 ||
        PyTuple_GET_SIZE(args[2]) != first + 2)
        Py_RETURN_NONE;
    PyObject *const *kept = &PyTuple_GET_ITEM(args[1], 0), *const *edges = &PyTuple_GET_ITEM(args[2], 0);
    if (summand && (!is_one(kept[4]) || !is_one(kept[5])))
        Py_RETURN_NONE;
    PyObject *found[2] = {NULL, NULL};
    if (!gradients_of(args[0], kept[first], kept[first + 1], kept[strides], kept[strides + 1],
                      edges[first] != Py_None, edges[first + 1] != Py_None, found))
        return or_none(NULL);
    PyObject *list = PyList_New(first + 2);
    for (int i = 0; i < 2; i++)
        if (list)
            PyList_SET_ITEM(list, first + i, found[i] ? found[i] : Py_NewRef(Py_None));
        else
            Py_XDECREF(found[i]);
    if (list && summand)
        PyList_SET_ITEM(list, 0, Py_NewRef(edges[0] == Py_None ? Py_None : args[0]));
    return list;
}

/* addmm_gradients(grad, kept, edges), mm_gradients(...): a list, or None: by the rules. */
PyObject *tg_addmm_gradients(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    return pulled(args, count, 1);
}

PyObject *tg_mm_gradients(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    return pulled(args, count, 0);
}

/* ------------------------------------------------------------------ BLAS */

/* set_blas(sgemm, dgemm, get_num_threads, set_num_threads): addresses, with 64-bit integers. */
PyObject *tg_set_blas(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count != 4)
        return PyErr_Format(PyExc_TypeError, "set_blas: four addresses are wanted");
    void *found[4];
    for (int i = 0; i < 4; i++) {
        found[i] = PyLong_AsVoidPtr(args[i]);
        if (!found[i])
            return PyErr_Occurred() ? NULL
                                    : PyErr_Format(PyExc_ValueError, "set_blas: no address");
    }
    memcpy(&blas.f32, &found[0], sizeof found[0]);
    memcpy(&blas.f64, &found[1], sizeof found[0]);
    memcpy(&blas.threads, &found[2], sizeof found[0]);
    memcpy(&blas.set_threads, &found[3], sizeof found[0]);
    Py_RETURN_NONE;
}
