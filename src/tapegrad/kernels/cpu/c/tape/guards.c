/* Guards: the assumptions of a compiled step, checked before every call. They come as lists of
   tuples from Python, whose types are checked here as well. */

#include "module.h"

static int wrong(const char *wanted) {
    PyErr_Format(PyExc_TypeError, "a list of %s is wanted", wanted);
    return -1;
}

static int is_tuple_of(PyObject *entry, Py_ssize_t least) {
    return PyTuple_CheckExact(entry) && PyTuple_GET_SIZE(entry) >= least;
}

/* 1: every dict has the object under the key; NotImplemented means that the key is missing. */
static int entries_hold(PyObject *entries) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(entries); i++) {
        PyObject *entry = PyList_GET_ITEM(entries, i);
        if (!is_tuple_of(entry, 3) || !PyDict_Check(PyTuple_GET_ITEM(entry, 0)))
            return wrong("(dict, key, value, ...)");
        PyObject *now = PyDict_GetItemWithError(PyTuple_GET_ITEM(entry, 0),
                                                PyTuple_GET_ITEM(entry, 1));
        if (!now && !PyErr_Occurred() && PyTuple_GET_ITEM(entry, 2) == Py_NotImplemented)
            continue;
        if (now != PyTuple_GET_ITEM(entry, 2))
            return PyErr_Occurred() ? -1 : 0;
    }
    return 1;
}

static int lengths_hold(PyObject *lengths) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(lengths); i++) {
        PyObject *entry = PyList_GET_ITEM(lengths, i);
        if (!is_tuple_of(entry, 2))
            return wrong("(container, length, ...)");
        PyObject *each = PyTuple_GET_ITEM(entry, 0);
        const Py_ssize_t now = PyDict_Check(each) ? PyDict_GET_SIZE(each) : PyObject_Size(each);
        if (now < 0)
            return -1;
        if (now != PyLong_AsSsize_t(PyTuple_GET_ITEM(entry, 1)))
            return PyErr_Occurred() ? -1 : 0;
    }
    return 1;
}

/* as_before(entries, lengths): whether dicts have the same objects under their keys, and containers
   the same lengths. */
PyObject *tg_as_before(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    static int (*const checks[])(PyObject *) = {entries_hold, lengths_hold};
    if (count > 2)
        return PyErr_Format(PyExc_TypeError, "as_before: two lists at the most are wanted");
    for (Py_ssize_t i = 0; i < count; i++)
        if (!PyList_CheckExact(args[i]))
            return PyErr_Format(PyExc_TypeError, "as_before: lists are wanted");
    for (Py_ssize_t i = 0; i < count; i++) {
        const int holds = checks[i](args[i]);
        if (holds < 0)
            return NULL;
        if (!holds)
            Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

/* ------------------------------------------------------------------ a flat table

   All guards of a recording in one pass: a tuple for each kind, with the same number of objects for
   each guard, one after the other. 1: it holds, 0: it does not, -1: another object than is wanted. */

static int entry_holds(PyObject *const *at) {
    if (!PyDict_Check(at[0]))
        return -1;
    PyObject *now = PyDict_GetItemWithError(at[0], at[1]);
    if (!now && PyErr_Occurred())
        return -1;
    return now == at[2] || (!now && at[2] == Py_NotImplemented);
}

static int length_holds(PyObject *const *at) {
    const Py_ssize_t now = PyDict_Check(at[0])        ? PyDict_GET_SIZE(at[0])
                           : PyList_CheckExact(at[0]) ? PyList_GET_SIZE(at[0])
                                                 : PyObject_Size(at[0]);
    if (now < 0 || !PyLong_Check(at[1]))
        return -1;
    return now == PyLong_AsSsize_t(at[1]);
}

static int cell_holds(PyObject *const *at) {
    if (!PyCell_Check(at[0]))
        return -1;
    PyObject *now = PyCell_GET(at[0]);
    return now == at[1] || (!now && at[1] == Py_NotImplemented);
}

static int item_holds(PyObject *const *at) {
    PyObject *each = at[0], *before = at[1];
    if (!PyList_Check(each) || !PyTuple_CheckExact(before))
        return -1;
    if (PyList_GET_SIZE(each) < PyTuple_GET_SIZE(before))
        return 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(before); k++)
        if (PyList_GET_ITEM(each, k) != PyTuple_GET_ITEM(before, k))
            return 0;
    return 1;
}

static int class_holds(PyObject *const *at) { return (PyObject *)Py_TYPE(at[0]) == at[1]; }

static int order_holds(PyObject *const *at) {
    return PyType_Check(at[0]) ? ((PyTypeObject *)at[0])->tp_mro == at[1] : -1;
}

static int function_holds(PyObject *const *at) {
    if (!PyFunction_Check(at[0]))
        return -1;
    PyObject *defaults = PyFunction_GET_DEFAULTS(at[0]);
    PyObject *by_name = PyFunction_GET_KW_DEFAULTS(at[0]);
    return PyFunction_GET_CODE(at[0]) == at[1] && (defaults ? defaults : Py_None) == at[2] &&
           (by_name ? by_name : Py_None) == at[3];
}

/* guards_hold(entries, lengths, cells, items, classes, orders, functions): whether all guards of a
   table hold. Their tuples have (dict, key, value), (container, length), (cell, value),
   (list, tuple), (object, class), (class, its __mro__), (function, code, defaults, kwdefaults). */
PyObject *tg_guards_hold(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    static const struct {
        int (*holds)(PyObject *const *);
        Py_ssize_t width;
    } kinds[] = {{entry_holds, 3}, {length_holds, 2}, {cell_holds, 2},    {item_holds, 2},
                 {class_holds, 2}, {order_holds, 2},  {function_holds, 4}};
    const Py_ssize_t all = (Py_ssize_t)(sizeof kinds / sizeof *kinds);
    for (Py_ssize_t i = 0; i < all; i++)
        if (count != all || !PyTuple_CheckExact(args[i]) ||
            PyTuple_GET_SIZE(args[i]) % kinds[i].width)
            return PyErr_Format(PyExc_TypeError, "guards_hold: seven flat tuples are wanted");
    for (Py_ssize_t i = 0; i < all; i++) {
        const Py_ssize_t size = PyTuple_GET_SIZE(args[i]);
        PyObject *const *at = size ? &PyTuple_GET_ITEM(args[i], 0) : NULL;
        for (Py_ssize_t k = 0; k < size; k += kinds[i].width) {
            const int holds = kinds[i].holds(at + k);
            if (holds < 0 && !PyErr_Occurred())
                return PyErr_Format(PyExc_TypeError, "guards_hold: guard %zd of kind %zd", k, i);
            if (holds < 0)
                return NULL;
            if (!holds)
                Py_RETURN_FALSE;
        }
    }
    Py_RETURN_TRUE;
}

/* only_ours(gradients): whether nothing but a list of (leaf, gradient) and the leaves themselves
   keeps the gradients in it, and nothing but a gradient its version
   cell: 2 if there are no such cells either, 1 if there are; 0: somebody else does. */
PyObject *tg_only_ours(PyObject *self, PyObject *gradients) {
    (void)self;
    static PyObject *name, *cell_name;
    if (!name && !(name = PyUnicode_InternFromString("_gradient")))
        return NULL;
    if (!cell_name && !(cell_name = PyUnicode_InternFromString("_cell")))
        return NULL;
    if (!PyList_CheckExact(gradients))
        return PyErr_Format(PyExc_TypeError, "only_ours: a list is wanted");
    int has_cells = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(gradients); i++) {
        PyObject *pair = PyList_GET_ITEM(gradients, i);
        if (!is_tuple_of(pair, 2))
            return wrong("(leaf, gradient)"), NULL;
        PyObject *gradient = PyTuple_GET_ITEM(pair, 1);
        if (gradient == Py_None)
            continue;
        PyObject *now = PyObject_GetAttr(PyTuple_GET_ITEM(pair, 0), name);
        if (!now)
            return NULL;
        Py_DECREF(now);
        if (Py_REFCNT(gradient) > 1 + (now == gradient))
            return PyLong_FromLong(0);
        PyObject *cell = PyObject_GetAttr(gradient, cell_name);
        if (!cell)
            return NULL;
        const int is_shared = cell != Py_None && Py_REFCNT(cell) > 2;
        has_cells |= cell != Py_None;
        Py_DECREF(cell);
        if (is_shared)
            return PyLong_FromLong(0);
    }
    return PyLong_FromLong(has_cells ? 1 : 2);
}

/* count_up(arrays): one more in each array of one float or double. */
PyObject *tg_count_up(PyObject *self, PyObject *arrays) {
    (void)self;
    if (!PyList_CheckExact(arrays))
        return PyErr_Format(PyExc_TypeError, "count_up: a list is wanted");
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arrays); i++) {
        PyArrayObject *x = (PyArrayObject *)PyList_GET_ITEM(arrays, i);
        const int is_array = PyArray_Check(x) && PyArray_SIZE(x) == 1 && PyArray_ISCARRAY(x);
        if (is_array && PyArray_TYPE(x) == NPY_FLOAT)
            *(float *)PyArray_DATA(x) += 1;
        else if (is_array && PyArray_TYPE(x) == NPY_DOUBLE)
            *(double *)PyArray_DATA(x) += 1;
        else
            return PyErr_Format(PyExc_TypeError, "count_up: one float or double is wanted");
    }
    Py_RETURN_NONE;
}
