/* Checks that the core makes at every op (dtype, layout, the user's line), faster in C. */

#include "module.h"

#include <string.h>

/* Where the innermost code of this thread is, without a frame object, which Python makes for those
   who ask in the ordinary way; -1 if that is other code, or not known of this version of Python. */
#if PY_VERSION_HEX >= 0x030D0000 && !defined(Py_GIL_DISABLED)
#define INNERMOST(thread) (thread)->current_frame
#elif PY_VERSION_HEX >= 0x030C0000
#define INNERMOST(thread) (thread)->cframe->current_frame
#endif
static int innermost_line(PyObject *known) {
#if defined(INNERMOST) && PY_VERSION_HEX < 0x030F0000
    struct _PyInterpreterFrame *frame = INNERMOST(PyThreadState_Get());
    if (!frame)
        return -1;
    PyObject *code = PyUnstable_InterpreterFrame_GetCode(frame);
    const int line = code == known ? PyUnstable_InterpreterFrame_GetLasti(frame) : -1;
    Py_XDECREF(code);
    return line;
#elif PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
    /* As 3.11 lays it out; from 3.12 on there are functions for it. */
    struct frame_of_311 {
        void *function, *globals, *builtins, *locals, *code, *object, *previous;
        char *instruction;
    } const *frame = (const void *)PyThreadState_Get()->cframe->current_frame;
    if (!frame || frame->code != (void *)known)
        return -1;
    return (int)(frame->instruction - ((PyCodeObject *)known)->co_code_adaptive);
#else
    (void)known;
    return -1;
#endif
}

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

/* Where the elements of an array begin and end; 0: it has none. */
static int find_extent(PyArrayObject *x, const char **low, const char **high) {
    *low = *high = PyArray_BYTES(x);
    for (int d = 0; d < PyArray_NDIM(x); d++) {
        const npy_intp n = PyArray_DIM(x, d), reach = (n - 1) * PyArray_STRIDE(x, d);
        if (!n)
            return 0;
        *(reach < 0 ? low : high) += reach;
    }
    *high += PyArray_ITEMSIZE(x);
    return 1;
}

/* Whether each of two arrays begins in memory before the other ends. */
int tg_meets(PyArrayObject *x, PyArrayObject *y) {
    const char *low, *high, *other_low, *other_high;
    return find_extent(x, &low, &high) && find_extent(y, &other_low, &other_high) &&
           low < other_high && other_low < high;
}

PyObject *tg_meet(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count != 2 || !PyArray_Check(args[0]) || !PyArray_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "meet(array, array)");
    return PyBool_FromLong(tg_meets((PyArrayObject *)args[0], (PyArrayObject *)args[1]));
}

/* Whether two arrays are equal, a block at a time. */
#define ARE_EQUAL(name, type)                                                                      \
    TG_VERSIONS static int name(const type *x, const type *y, int64_t n) {                         \
        for (int64_t at = 0; at < n; at += 512) {                                                  \
            const int64_t end = n < at + 512 ? n : at + 512;                                       \
            int differs = 0;                                                                       \
            for (int64_t i = at; i < end; i++)                                                     \
                differs |= !(x[i] == y[i]);                                                        \
            if (differs)                                                                           \
                return 0;                                                                          \
        }                                                                                          \
        return 1;                                                                                  \
    }

ARE_EQUAL(are_equal_f32, float)
ARE_EQUAL(are_equal_f64, double)

/* same_values(x, y): of arrays of one shape; None: it is not for them. */
PyObject *tg_same_values(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count != 2 || !PyArray_CheckExact(args[0]) || !PyArray_CheckExact(args[1]))
        Py_RETURN_NONE;
    PyArrayObject *x = (PyArrayObject *)args[0], *y = (PyArrayObject *)args[1];
    const int type = PyArray_TYPE(x);
    if (PyArray_DESCR(x) != PyArray_DESCR(y) || !PyArray_SAMESHAPE(x, y) ||
        !PyArray_ISCARRAY_RO(x) || !PyArray_ISCARRAY_RO(y))
        Py_RETURN_NONE;
    const void *a = PyArray_DATA(x), *b = PyArray_DATA(y);
    if (type == NPY_FLOAT)
        return PyBool_FromLong(are_equal_f32(a, b, PyArray_SIZE(x)));
    if (type == NPY_DOUBLE)
        return PyBool_FromLong(are_equal_f64(a, b, PyArray_SIZE(x)));
    if (PyTypeNum_ISINTEGER(type) || type == NPY_BOOL)
        return PyBool_FromLong(!PyArray_SIZE(x) || memcmp(a, b, (size_t)PyArray_NBYTES(x)) == 0);
    Py_RETURN_NONE;
}

/* Whether all elements are finite, by their exponents. */
#define ALL_FINITE(name, type, mask)                                                               \
    typedef type name##_bits __attribute__((may_alias));                                           \
    TG_VERSIONS static int name(const name##_bits *x, int64_t n) {                                 \
        type found = 0;                                                                            \
        for (int64_t i = 0; i < n; i++)                                                            \
            found |= (type)((x[i] & mask) == mask);                                                \
        return !found;                                                                             \
    }
ALL_FINITE(all_finite_f32, uint32_t, 0x7f800000u)
ALL_FINITE(all_finite_f64, uint64_t, 0x7ff0000000000000u)
#undef ALL_FINITE

/* all_finite(x): of an array of float32 or float64 in one piece; None of others. */
PyObject *tg_all_finite(PyObject *self, PyObject *x) {
    (void)self;
    if (!PyArray_CheckExact(x) || !PyArray_ISONESEGMENT((PyArrayObject *)x) ||
        !PyArray_ISBEHAVED_RO((PyArrayObject *)x))
        Py_RETURN_NONE;
    const int type = PyArray_TYPE((PyArrayObject *)x);
    const void *data = PyArray_DATA((PyArrayObject *)x);
    const int64_t n = PyArray_SIZE((PyArrayObject *)x);
    if (type != NPY_FLOAT && type != NPY_DOUBLE)
        Py_RETURN_NONE;
    int found;
    Py_BEGIN_ALLOW_THREADS found = type == NPY_FLOAT ? all_finite_f32(data, n)
                                                     : all_finite_f64(data, n);
    Py_END_ALLOW_THREADS return PyBool_FromLong(found);
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

/* lies_as(x, y): both are in C order, with one shape and the same strides, and x may be written. */
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

static int read_numbers(PyObject *tuple, npy_intp *numbers) {
    const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    for (Py_ssize_t i = 0; i < n; i++) {
        numbers[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, i));
        if (numbers[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* strided(x, shape, strides, offset): a view of x's memory, all in bytes; None where it would leave
   the memory that x is known to lie in. */
PyObject *tg_strided(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS];
    (void)self;
    if (count != 4 || !PyArray_CheckExact(args[0]) || !PyTuple_Check(args[1]) ||
        !PyTuple_Check(args[2]))
        Py_RETURN_NONE;
    PyArrayObject *x = (PyArrayObject *)args[0], *root = x;
    const Py_ssize_t dims = PyTuple_GET_SIZE(args[1]);
    const npy_intp offset = PyLong_AsSsize_t(args[3]);
    if (dims > NPY_MAXDIMS || dims != PyTuple_GET_SIZE(args[2]))
        Py_RETURN_NONE;
    if ((offset == -1 && PyErr_Occurred()) || read_numbers(args[1], shape) < 0 ||
        read_numbers(args[2], strides) < 0)
        return NULL;
    if (PyArray_BASE(x) && PyArray_Check(PyArray_BASE(x))) {
        root = (PyArrayObject *)PyArray_BASE(x);
        if (!PyArray_CheckExact(root)) /* NumPy would not make it the base of the view */
            Py_RETURN_NONE;
    }
    if (!PyArray_IS_C_CONTIGUOUS(root) && !PyArray_IS_F_CONTIGUOUS(root))
        Py_RETURN_NONE;
    /* Where the view begins and ends, as distances from the start of the root. */
    npy_intp low = PyArray_BYTES(x) - PyArray_BYTES(root), first, high, reach;
    if (__builtin_add_overflow(low, offset, &first))
        Py_RETURN_NONE;
    low = first;
    high = first + PyArray_ITEMSIZE(x);
    for (Py_ssize_t d = 0; d < dims; d++) {
        npy_intp *end = strides[d] < 0 ? &low : &high;
        if (shape[d] < 1 || __builtin_mul_overflow(shape[d] - 1, strides[d], &reach) ||
            __builtin_add_overflow(*end, reach, end))
            Py_RETURN_NONE;
    }
    if (low < 0 || high > PyArray_NBYTES(root))
        Py_RETURN_NONE;
    Py_INCREF(PyArray_DESCR(x));
    PyObject *view = PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(x), (int)dims, shape, strides,
                                          PyArray_BYTES(root) + first,
                                          PyArray_FLAGS(x) & NPY_ARRAY_WRITEABLE, NULL);
    if (view && PyArray_SetBaseObject((PyArrayObject *)view, Py_NewRef(x)) < 0)
        Py_CLEAR(view);
    return view;
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
    const int line = innermost_line(args[0]);
    if (line >= 0)
        return PyLong_FromLong(line);
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
