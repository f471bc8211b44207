/* Calls of LAPACK's routines, which take a pointer to every argument, and what goes around them:
   one thread, matrices by columns, triangles. */

#include <string.h>

#include "module.h"

/* A Fortran compiler passes the length of each string, by value, after the last argument. */
enum { MOST = 14, LENGTHS = 3 };

typedef void routine(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *,
                     void *, void *, void *, void *, void *, void *, void *);

/* ------------------------------------------------------------------ one thread

   How BLAS and LAPACK cut their work decides about rounding, so that they get one thread. The number
   that was set before returns when the last call ends; the GIL protects both variables. */

static int callers, threads_before;
static int (*ask_threads)(void);
static void (*tell_threads)(int);

/* know_threads(get_num_threads, set_num_threads): addresses of these functions of BLAS. */
PyObject *tg_know_threads(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    void *ask = count == 2 ? PyLong_AsVoidPtr(args[0]) : NULL;
    void *tell = ask ? PyLong_AsVoidPtr(args[1]) : NULL;
    if (!tell)
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_ValueError, "know_threads: two addresses");
    memcpy(&ask_threads, &ask, sizeof ask);
    memcpy(&tell_threads, &tell, sizeof tell);
    Py_RETURN_NONE;
}

static void enter(void) {
    if (callers++)
        return;
    threads_before = ask_threads ? ask_threads() : 1;
    if (threads_before > 1)
        tell_threads(1);
}

static void leave(void) {
    if (!--callers && threads_before > 1)
        tell_threads(threads_before);
}

/* one_thread(begins): begin or end a part of a program in which BLAS uses one thread. */
PyObject *tg_one_thread(PyObject *self, PyObject *begins) {
    (void)self;
    if (begins == Py_True)
        enter();
    else
        leave();
    Py_RETURN_NONE;
}

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *function;
} alone;

static PyObject *call_alone(PyObject *self, PyObject *const *args, size_t count, PyObject *names) {
    enter();
    PyObject *out = PyObject_Vectorcall(((alone *)self)->function, args, count, names);
    leave();
    return out;
}

static void free_alone(PyObject *self) {
    Py_XDECREF(((alone *)self)->function);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject alone_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tapegrad.kernels.cpu.Alone",
    .tp_basicsize = sizeof(alone),
    .tp_dealloc = free_alone,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A function during which BLAS uses one thread.",
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(alone, vectorcall),
};

/* in_one_thread(function): the function, during which BLAS uses one thread. */
PyObject *tg_in_one_thread(PyObject *self, PyObject *function) {
    (void)self;
    if (PyType_Ready(&alone_type) < 0)
        return NULL;
    alone *made = (alone *)alone_type.tp_alloc(&alone_type, 0);
    if (made) {
        made->vectorcall = call_alone;
        made->function = Py_NewRef(function);
    }
    return (PyObject *)made;
}

/* ------------------------------------------------------------------ matrices by columns */

/* by_column(x): each matrix column by column, copied if it does not lie so already. */
PyObject *tg_by_column(PyObject *self, PyObject *x) {
    (void)self;
    if (!PyArray_CheckExact(x) || PyArray_NDIM((PyArrayObject *)x) < 2)
        return PyErr_Format(PyExc_TypeError, "by_column: a stack of matrices is wanted");
    PyObject *turned = PyArray_SwapAxes((PyArrayObject *)x, -1, -2);
    PyObject *copied = turned ? (PyObject *)PyArray_GETCONTIGUOUS((PyArrayObject *)turned) : NULL;
    Py_XDECREF(turned);
    PyObject *out = copied ? PyArray_SwapAxes((PyArrayObject *)copied, -1, -2) : NULL;
    Py_XDECREF(copied);
    return out;
}

/* ------------------------------------------------------------------ triangles */

enum {
    ROW_MAJOR = 101,
    AS_IS = 111,
    TURNED,
    UPPER = 121,
    LOWER,
    NOT_UNIT = 131,
    UNIT,
    LEFT = 141,
};

typedef void by_single(int, int, int, int, int, int64_t, int64_t, float, const void *, int64_t, void *,
                       int64_t);
typedef void by_double(int, int, int, int, int, int64_t, int64_t, double, const void *, int64_t, void *,
                       int64_t);
typedef void by_pointer(int, int, int, int, int, int64_t, int64_t, const void *, const void *, int64_t,
                        void *, int64_t);

/* How rows of a stack of square matrices are apart for BLAS, and whether it is their transposes that
   lie so; 0: they do not lie as BLAS wants it. */
static int64_t row_step(PyArrayObject *a, int *is_turned) {
    const int d = PyArray_NDIM(a);
    const int64_t item = PyArray_ITEMSIZE(a), n = PyArray_DIM(a, d - 1);
    const int64_t rows = PyArray_STRIDE(a, d - 2), columns = PyArray_STRIDE(a, d - 1);
    *is_turned = rows == item && columns >= n * item;
    const int64_t step = *is_turned ? columns : rows;
    if (!*is_turned && (columns != item || rows < n * item))
        return 0;
    return step % item || !PyArray_ISALIGNED(a) ? 0 : step / item;
}

/* solve_triangles(address, a, x, upper, unit): solve A X = B for stacks of one length, or one A; `x`
   holds B in C order. False: they lie otherwise. */
PyObject *tg_solve_triangles(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count != 5 || !PyArray_CheckExact(args[1]) || !PyArray_CheckExact(args[2]))
        return PyErr_Format(PyExc_TypeError, "solve_triangles: address, a, x, upper, unit");
    void *found = PyLong_AsVoidPtr(args[0]);
    PyArrayObject *a = (PyArrayObject *)args[1], *x = (PyArrayObject *)args[2];
    const int upper = PyObject_IsTrue(args[3]), unit = PyObject_IsTrue(args[4]);
    if (!found || PyErr_Occurred())
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "solve_triangles: no address");
    const int d = PyArray_NDIM(x), type = PyArray_TYPE(x), one_matrix = PyArray_NDIM(a) == 2;
    if (d < 2 || PyArray_TYPE(a) != type || (PyArray_NDIM(a) != d && !one_matrix) ||
        !PyArray_ISCARRAY(x) || PyArray_ISBYTESWAPPED(a))
        Py_RETURN_FALSE;
    const int64_t n = PyArray_DIM(x, d - 2), columns = PyArray_DIM(x, d - 1);
    int64_t stack = 1, each = 0;
    for (int i = 0; i < d - 2; i++)
        stack *= PyArray_DIM(x, i);
    if (PyArray_DIM(a, PyArray_NDIM(a) - 1) != n || PyArray_DIM(a, PyArray_NDIM(a) - 2) != n)
        Py_RETURN_FALSE;
    if (!one_matrix && stack > 1) { /* its matrices have to be equally far apart */
        each = PyArray_STRIDE(a, d - 3);
        int64_t apart = each;
        for (int i = d - 3; i >= 0; i--) {
            if (PyArray_DIM(a, i) != PyArray_DIM(x, i) ||
                (PyArray_DIM(a, i) > 1 && PyArray_STRIDE(a, i) != apart))
                Py_RETURN_FALSE;
            apart *= PyArray_DIM(a, i);
        }
    }
    int is_turned;
    const int64_t step = row_step(a, &is_turned);
    if (!step || !n || !columns)
        Py_RETURN_FALSE;
    const int side = (upper != 0) != is_turned ? UPPER : LOWER, how = is_turned ? TURNED : AS_IS;
    const int diagonal = unit ? UNIT : NOT_UNIT;
    const char *from = PyArray_DATA(a);
    char *to = PyArray_DATA(x);
    const int64_t size = n * columns * PyArray_ITEMSIZE(x);
    enter();
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < stack; i++, from += each, to += size) {
        if (type == NPY_FLOAT) {
            by_single *run;
            memcpy(&run, &found, sizeof found);
            run(ROW_MAJOR, LEFT, side, how, diagonal, n, columns, 1, from, step, to, columns);
        } else if (type == NPY_DOUBLE) {
            by_double *run;
            memcpy(&run, &found, sizeof found);
            run(ROW_MAJOR, LEFT, side, how, diagonal, n, columns, 1, from, step, to, columns);
        } else {
            by_pointer *run;
            const float single[] = {1, 0};
            const double twice[] = {1, 0};
            const void *one = type == NPY_CFLOAT ? (const void *)single : twice;
            memcpy(&run, &found, sizeof found);
            run(ROW_MAJOR, LEFT, side, how, diagonal, n, columns, one, from, step, to, columns);
        }
    }
    Py_END_ALLOW_THREADS
    leave();
    Py_RETURN_TRUE;
}

/* ------------------------------------------------------------------ any routine */

/* lapack(address, …): an array is passed as its memory, an int as a 64-bit integer, a str as its
   first character. Returns the last argument, `info`, which the routine writes. */
PyObject *tg_lapack(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count < 2 || count > MOST + 1)
        return PyErr_Format(PyExc_TypeError, "lapack: an address and up to %d arguments", MOST);
    void *found = PyLong_AsVoidPtr(args[0]);
    if (!found)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "lapack: no address");
    int64_t whole[MOST + 1] = {0};
    void *p[MOST + LENGTHS];
    for (Py_ssize_t i = 0; i < MOST + LENGTHS; i++)
        p[i] = (void *)(intptr_t)1;
    Py_ssize_t given = count - 1;
    for (Py_ssize_t i = 0; i < given; i++) {
        PyObject *x = args[i + 1];
        if (PyArray_Check(x)) {
            p[i] = PyArray_DATA((PyArrayObject *)x);
            continue;
        }
        p[i] = &whole[i];
        if (PyUnicode_Check(x) && PyUnicode_GET_LENGTH(x) == 1) {
            *(char *)p[i] = (char)PyUnicode_READ_CHAR(x, 0);
            continue;
        }
        whole[i] = PyLong_AsLongLong(x);
        if (whole[i] == -1 && PyErr_Occurred())
            return NULL;
    }
    routine *run;
    memcpy(&run, &found, sizeof found);
    enter();
    Py_BEGIN_ALLOW_THREADS
    run(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11], p[12], p[13],
        p[14], p[15], p[16]);
    Py_END_ALLOW_THREADS
    leave();
    return PyLong_FromLongLong(whole[given - 1]);
}
