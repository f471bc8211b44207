/* Tables of many arrays, so that one call of a kernel does all of them. */

#include <stdlib.h>

#include "module.h"

/* The object whose memory an array looks at. */
static PyObject *owner_of(PyArrayObject *x) {
    PyObject *owner = (PyObject *)x;
    while (PyArray_Check(owner) && PyArray_BASE((PyArrayObject *)owner))
        owner = PyArray_BASE((PyArrayObject *)owner);
    return owner;
}

/* A set of owners. */
typedef struct {
    PyObject **at;
    size_t mask;
} owners;

static int contains(owners *set, PyObject *owner, int add) {
    size_t place = ((size_t)owner >> 4) * 0x9e3779b97f4a7c15u >> 20;
    for (;; place++) {
        PyObject **found = set->at + (place & set->mask);
        if (*found == owner)
            return 1;
        if (!*found) {
            if (add)
                *found = owner;
            return 0;
        }
    }
}

static int plain(PyObject *x, int type, npy_intp size, int written) {
    PyArrayObject *a = (PyArrayObject *)x;
    return PyArray_CheckExact(x) && PyArray_TYPE(a) == type && PyArray_SIZE(a) == size &&
           PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISALIGNED(a) && PyArray_ISNOTSWAPPED(a) &&
           (!written || PyArray_ISWRITEABLE(a));
}

/* together(rows, read): rows is a list of lists of arrays, one array for each tensor, or None for a
   row that is not there. All arrays must be float or all double, contiguous and aligned, and no
   memory may be written to that is found twice; the row `read` (-1: none) is only read. The table
   is an int64 array: the addresses, row by row, then where each tensor ends if they are laid end to
   end. None if the arrays are not like that. */
PyObject *tg_together(PyObject *self, PyObject *args) {
    PyObject *rows;
    Py_ssize_t read;
    if (!PyArg_ParseTuple(args, "O!n", &PyList_Type, &rows, &read))
        return NULL;
    const Py_ssize_t row_count = PyList_GET_SIZE(rows);
    if (!row_count || !PyList_Check(PyList_GET_ITEM(rows, 0)))
        Py_RETURN_NONE;
    PyObject *first = PyList_GET_ITEM(rows, 0);
    const Py_ssize_t count = PyList_GET_SIZE(first);
    if (!count || !PyArray_Check(PyList_GET_ITEM(first, 0)))
        Py_RETURN_NONE;
    const int type = PyArray_TYPE((PyArrayObject *)PyList_GET_ITEM(first, 0));
    if (type != NPY_FLOAT && type != NPY_DOUBLE)
        Py_RETURN_NONE;
    size_t room = 16;
    while (room < 2 * (size_t)(row_count * count))
        room *= 2;
    owners set = {calloc(room, sizeof(PyObject *)), room - 1};
    npy_intp length = (row_count + 1) * count;
    PyObject *table = set.at ? PyArray_ZEROS(1, &length, NPY_INT64, 0) : PyErr_NoMemory();
    if (!table)
        goto done;
    int64_t *at = PyArray_DATA((PyArrayObject *)table), stop = 0;
    /* List the written arrays first, then look up there those that are only read. */
    for (int pass = 0; pass < 2; pass++)
        for (Py_ssize_t r = 0; r < row_count; r++) {
            PyObject *row = PyList_GET_ITEM(rows, r);
            if ((r == read) != pass || row == Py_None)
                continue;
            if (!PyList_Check(row) || PyList_GET_SIZE(row) != count)
                goto none;
            for (Py_ssize_t k = 0; k < count; k++) {
                PyObject *x = PyList_GET_ITEM(row, k);
                if (!PyArray_Check(PyList_GET_ITEM(first, k)) ||
                    !plain(x, type, PyArray_SIZE((PyArrayObject *)PyList_GET_ITEM(first, k)), !pass))
                    goto none;
                if (contains(&set, owner_of((PyArrayObject *)x), !pass))
                    goto none;
                at[r * count + k] = (int64_t)(intptr_t)PyArray_DATA((PyArrayObject *)x);
            }
        }
    for (Py_ssize_t k = 0; k < count; k++) {
        stop += PyArray_SIZE((PyArrayObject *)PyList_GET_ITEM(first, k));
        at[row_count * count + k] = stop;
    }
    goto done;
none:
    Py_SETREF(table, Py_NewRef(Py_None));
done:
    free(set.at);
    return table;
}
