/* What the core asks at every op: short answers, without a detour through attributes and tuples. */

#include "module.h"

/* alike(x, y): 0 unless both are arrays of float32, or of float64; 1: of one shape, 2: of two. */
PyObject *tg_alike(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    static PyArray_Descr *single, *wide;
    (void)self;
    if (!single) {
        single = PyArray_DescrFromType(NPY_FLOAT);
        wide = PyArray_DescrFromType(NPY_DOUBLE);
    }
    if (count != 2 || !PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1]))
        return PyLong_FromLong(0);
    PyArrayObject *x = (PyArrayObject *)args[0], *y = (PyArrayObject *)args[1];
    const PyArray_Descr *dtype = PyArray_DESCR(x);
    if (dtype != PyArray_DESCR(y) || (dtype != single && dtype != wide))
        return PyLong_FromLong(0);
    const int same = x == y || PyArray_SAMESHAPE(x, y);
    return PyLong_FromLong(same ? 1 : 2);
}

/* is_fresh(x, y): x is no view, may be written, and has the dtype of y. */
PyObject *tg_is_fresh(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count != 2 || !PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1]))
        Py_RETURN_FALSE;
    PyArrayObject *x = (PyArrayObject *)args[0], *y = (PyArrayObject *)args[1];
    return PyBool_FromLong(!PyArray_BASE(x) && PyArray_DESCR(x) == PyArray_DESCR(y) &&
                           PyArray_ISBEHAVED(x));
}

/* lies_as(x, y): both lie in C order, with one shape and the same strides, and x may be written. */
PyObject *tg_lies_as(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count != 2 || !PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1]))
        Py_RETURN_FALSE;
    PyArrayObject *x = (PyArrayObject *)args[0], *y = (PyArrayObject *)args[1];
    return PyBool_FromLong(PyArray_SAMESHAPE(x, y) && PyArray_ISBEHAVED(x) &&
                           PyArray_IS_C_CONTIGUOUS(x) && PyArray_IS_C_CONTIGUOUS(y) &&
                           PyArray_CompareLists(PyArray_STRIDES(x), PyArray_STRIDES(y),
                                                PyArray_NDIM(x)));
}

static PyObject *make_one(PyObject *self, PyObject *unused) {
    static PyObject *nothing;
    (void)unused;
    if (!nothing && !(nothing = PyTuple_New(0)))
        return NULL;
    PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(self, 0);
    return base->tp_new((PyTypeObject *)PyTuple_GET_ITEM(self, 1), nothing, NULL);
}

/* maker(base, cls): a function that does what base.__new__(cls) does. */
PyObject *tg_maker(PyObject *self, PyObject *classes) {
    static PyMethodDef method = {"make_one", make_one, METH_NOARGS, "an instance of a class"};
    PyTypeObject *base, *cls;
    (void)self;
    if (!PyArg_ParseTuple(classes, "O!O!", &PyType_Type, &base, &PyType_Type, &cls))
        return NULL;
    if (!PyType_IsSubtype(cls, base)) {
        PyErr_SetString(PyExc_TypeError, "maker takes a class and one that derives from it");
        return NULL;
    }
    return PyCFunction_New(&method, classes);
}

/* user_line(known, own): where in the code `known` the innermost frame is that is not of a file in
   `own`, a dict of file names; None if that frame runs other code, or a file is not in there. */
PyObject *tg_user_line(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count != 2 || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "user_line takes a code object and a dict");
        return NULL;
    }
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    PyObject *found = NULL;
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        if ((PyObject *)code == args[0]) {
            found = PyLong_FromLong(PyFrame_GetLasti(frame));
            Py_DECREF(code);
            Py_DECREF(frame);
            return found;
        }
        PyObject *is_own = PyDict_GetItemWithError(args[1], code->co_filename);
        Py_DECREF(code);
        PyFrameObject *back = is_own == Py_True ? PyFrame_GetBack(frame) : NULL;
        Py_DECREF(frame);
        frame = back;
    }
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}
