/* `out=`: when the result of a call can be copied into a tensor that the caller owns, at once.

   Most calls with `out=` have nothing to refuse: a small tensor of the host without a history, whose
   memory no argument has. Then the function is called without `out`, the short way, and what it
   returns is copied. Everything else is for ops/block/out_argument.py. */

#include "calls.h"

#include <string.h>

static PyObject *version_name, *bump_name;

#define MOST_ELEMENTS 4096 /* beyond, kernels that write into `out` are worth their Python */

/* Whether an argument is no tensor, or a plain one whose memory is not the target's. */
static int is_apart(PyObject *value, PyArrayObject *target, int apart, int depth) {
    if (tg_is_tensor(value)) {
        PyArrayObject *x = tg_plain_array(value);
        return x && (x == target ? !apart : !tg_meets(x, target));
    }
    if (!PyTuple_Check(value) && !PyList_Check(value))
        return 1;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++)
        if (depth || !is_apart(PySequence_Fast_GET_ITEM(value, i), target, apart, 1))
            return 0;
    return 1;
}

/* Whether a tensor was made in inference mode. */
static int is_of_inference(PyObject *t) {
    PyObject *cell = PyObject_GetAttrString(t, "_cell");
    PyObject *mark = cell && cell != Py_None ? PyObject_GetAttrString(cell, "inference") : NULL;
    const int found = !cell || (cell != Py_None && mark != Py_False);
    Py_XDECREF(mark);
    Py_XDECREF(cell);
    PyErr_Clear();
    return found;
}

/* Whether `out` can take the result of a call with these arguments. `apart`: it may be none of them. */
int tg_takes_output(PyObject *out, PyObject *const *args, Py_ssize_t count, int apart) {
    PyArrayObject *target = tg_is_ordinary() ? tg_plain_array(out) : NULL;
    if (!target || PyArray_SIZE(target) > MOST_ELEMENTS || !PyArray_ISCARRAY(target) ||
        !tg_is_view_of_none(out) || is_of_inference(out))
        return 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!is_apart(args[i], target, apart, 0))
            return 0;
    return 1;
}

/* Copy a result into `out`, as a write of that name. 0: it has another shape or dtype; -1: an
   exception. */
int tg_store_output(PyObject *out, PyObject *result, PyObject *name) {
    PyArrayObject *target = tg_plain_array(out);
    PyArrayObject *made = tg_is_tensor(result) ? tg_plain_array(result) : NULL;
    if (!target || !made || PyArray_DESCR(made) != PyArray_DESCR(target) ||
        !PyArray_SAMESHAPE(made, target))
        return 0;
    if (PyArray_ISCARRAY_RO(made))
        memmove(PyArray_DATA(target), PyArray_DATA(made), (size_t)PyArray_NBYTES(made));
    else if (PyArray_CopyInto(target, made) < 0)
        return -1;
    PyObject *cell = PyObject_CallMethodNoArgs(out, version_name);
    PyObject *bumped = cell ? PyObject_CallMethodOneArg(cell, bump_name, name) : NULL;
    Py_XDECREF(cell);
    Py_XDECREF(bumped);
    return bumped ? 1 : -1;
}

int tg_ready_outputs(void) {
    version_name = PyUnicode_InternFromString("_version_cell");
    bump_name = PyUnicode_InternFromString("bump");
    return version_name && bump_name ? 0 : -1;
}
