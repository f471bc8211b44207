/* map_elements: a kernel that computes a function of a few numbers for each element of arrays. */

#include "kernels.h"
#include "module.h"

enum { MOST_OPERANDS = 3, MOST_EXTRAS = 2 };

static int type_of(PyObject *x) {
    if (!PyArray_CheckExact(x))
        return -1;
    PyArrayObject *a = (PyArrayObject *)x;
    const int type = PyArray_TYPE(a), is_float = type == NPY_FLOAT || type == NPY_DOUBLE;
    return is_float && PyArray_ISCARRAY_RO(a) ? type : -1;
}

/* An array of one number, in double. */
static PyObject *number(PyObject *x) {
    const double value = PyFloat_AsDouble(x);
    PyObject *made = PyErr_Occurred() ? NULL : tg_new_array(0, NULL, NPY_DOUBLE, 0);
    if (made)
        *(double *)PyArray_DATA((PyArrayObject *)made) = value;
    return made;
}

/* An array with the shape of the result, unless it has one element; a number with its dtype. */
static PyObject *fitted(PyObject *x, int type, int dims, const npy_intp *shape, npy_intp size) {
    PyArrayObject *a = (PyArrayObject *)x;
    const npy_intp own = PyArray_SIZE(a);
    if (PyArray_TYPE(a) == type && (own == size || own == 1))
        return Py_NewRef(x);
    PyObject *made = tg_new_array(own == 1 ? 0 : dims, shape, type, 0);
    if (made && PyArray_CopyInto((PyArrayObject *)made, a) < 0)
        Py_CLEAR(made);
    return made;
}

/* map_elements(kernels, code, operands, extras=()): the function with that number of float or double
   arrays of one dtype, and of numbers; None where it is not for this. The kernel gets the operands,
   the result and the extras, and as sizes the count, the code, and the step of each operand. */
PyObject *tg_map_elements(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count < 3 || count > 4 || !PyTuple_CheckExact(args[0]) || PyTuple_GET_SIZE(args[0]) < 2 ||
        !PyTuple_CheckExact(args[2]) || (count > 3 && !PyTuple_CheckExact(args[3])))
        return PyErr_Format(PyExc_TypeError, "map_elements: kernels, code, operands, extras");
    const Py_ssize_t operands = PyTuple_GET_SIZE(args[2]);
    const Py_ssize_t extras = count > 3 ? PyTuple_GET_SIZE(args[3]) : 0;
    if (operands < 1 || operands > MOST_OPERANDS || extras > MOST_EXTRAS)
        return PyErr_Format(PyExc_TypeError, "map_elements: too many arrays");
    int type = -1;
    PyArrayObject *arrays[MOST_OPERANDS];
    int found = 0;
    for (Py_ssize_t i = 0; i < operands; i++) {
        PyObject *x = PyTuple_GET_ITEM(args[2], i);
        if (PyFloat_CheckExact(x) || PyLong_CheckExact(x))
            continue;
        const int own = type_of(x);
        if (own < 0 || (type >= 0 && own != type))
            Py_RETURN_NONE;
        type = own;
        arrays[found++] = (PyArrayObject *)x;
    }
    if (!found)
        Py_RETURN_NONE;
    int dims = PyArray_NDIM(arrays[0]);
    npy_intp shape[NPY_MAXDIMS], size = 1;
    int alike = 1;
    for (int i = 1; i < found; i++)
        alike &= PyArray_SAMESHAPE(arrays[i], arrays[0]);
    if (!alike) {
        dims = 0;
        for (int i = 0; i < found; i++)
            dims = PyArray_NDIM(arrays[i]) > dims ? PyArray_NDIM(arrays[i]) : dims;
    }
    for (int d = 0; d < dims; d++) {
        shape[d] = 1;
        for (int i = 0; i < found; i++) {
            const int own = d - dims + PyArray_NDIM(arrays[i]);
            const npy_intp n = own < 0 ? 1 : PyArray_DIM(arrays[i], own);
            if (n != 1 && shape[d] != 1 && n != shape[d])
                Py_RETURN_NONE;
            shape[d] = n == 1 ? shape[d] : n;
        }
        size *= shape[d];
    }
    PyObject *given[MOST_OPERANDS + 1 + MOST_EXTRAS] = {0}, *out = NULL;
    int64_t sizes[2 + MOST_OPERANDS] = {size, PyLong_AsLongLong(args[1])};
    int ready = !PyErr_Occurred();
    for (Py_ssize_t i = 0; i < operands && ready; i++) {
        PyObject *x = PyTuple_GET_ITEM(args[2], i);
        PyObject *array = PyArray_CheckExact(x) ? Py_NewRef(x) : number(x);
        given[i] = array ? fitted(array, type, dims, shape, size) : NULL;
        Py_XDECREF(array);
        ready = given[i] != NULL;
        sizes[2 + i] = ready && PyArray_SIZE((PyArrayObject *)given[i]) > 1;
    }
    out = given[operands] = ready ? tg_new_array(dims, shape, type, 0) : NULL;
    for (Py_ssize_t i = 0; i < extras; i++) {
        PyObject *extra = PyTuple_GET_ITEM(args[3], i);
        if (!PyArray_CheckExact(extra)) {
            PyErr_SetString(PyExc_TypeError, "map_elements: an extra is no array");
            Py_CLEAR(given[operands]);
            out = NULL;
            break;
        }
        given[operands + 1 + i] = Py_NewRef(extra);
    }
    if (out && size) {
        tg_kernel run = tg_kernel_of(PyTuple_GET_ITEM(args[0], type == NPY_DOUBLE));
        const int all = (int)(operands + 1 + extras);
        if (!run || !tg_run_kernel(run, given, all, sizes, 2 + (int)operands))
            out = NULL;
    }
    Py_XINCREF(out);
    for (int i = 0; i < MOST_OPERANDS + 1 + MOST_EXTRAS; i++)
        Py_XDECREF(given[i]);
    return out;
}
