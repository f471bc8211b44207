/* The sum of a few numbers, in the order in which NumPy adds them up: the same bits without a ufunc. */

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
