/* Signatures of calls: the layout of each tensor, the value of everything else, and what modes there
   are. Calls of one signature do the same (call_steps.c). */

#include "calls.h"

#include <string.h>

#define MOST_BYTES ((int)sizeof(((tg_signature *)0)->bytes) - 8)
#define MOST_INPUTS ((int)(sizeof(((tg_signature *)0)->input) / sizeof(PyObject *)))

PyObject *tg_unrepeated, *tg_dtype_type, *tg_tensor_fields, *tg_node_fields;
PyTypeObject *tg_tensor_type, *tg_op_type;
static PyObject *levels; /* lists: the batches and tangents of transforms that are going on */
static PyObject *state, *dtypes, *default_name, *modes, *records_name;

/* An attribute that compiled classes have as a getter in C. */
typedef struct {
    const char *name;
    PyObject *word;
    PyTypeObject *type;
    getter get;
    void *closure;
} field;

static field on_field = {.name = "modes_on"}, unrecorded_field = {.name = "only_unrecorded"},
             elsewhere_field = {.name = "elsewhere"},
             array_field = {.name = "_array"}, special_field = {.name = "_special"},
             wants_field = {.name = "_wants_grad"}, view_field = {.name = "_view_of"},
             anomaly_field = {.name = "anomaly"}, timing_field = {.name = "timing"};

static void find_getter(field *f, PyTypeObject *type) {
    f->word = PyUnicode_InternFromString(f->name);
    f->type = type;
    PyObject *found = PyObject_GetAttr((PyObject *)type, f->word);
    if (found && Py_IS_TYPE(found, &PyGetSetDescr_Type)) {
        const PyGetSetDef *given = ((PyGetSetDescrObject *)found)->d_getset;
        f->get = given->get;
        f->closure = given->closure;
    }
    PyErr_Clear();
    Py_XDECREF(found);
}

static PyObject *read_field(const field *f, PyObject *owner) {
    return f->get ? f->get(owner, f->closure) : PyObject_GetAttr(owner, f->word);
}

/* Whether a field is false, None or 0. */
static int is_off(const field *f, PyObject *owner) {
    PyObject *value = read_field(f, owner);
    if (!value) {
        PyErr_Clear();
        return 0;
    }
    const int on = value == Py_False || value == Py_None ? 0 : PyObject_IsTrue(value);
    Py_DECREF(value);
    return on == 0;
}

/* Whether two fields are one number. */
static int are_equal(const field *f, const field *g, PyObject *owner) {
    PyObject *x = read_field(f, owner), *y = read_field(g, owner);
    const int found = x && y ? PyObject_RichCompareBool(x, y, Py_EQ) : 0;
    Py_XDECREF(x);
    Py_XDECREF(y);
    if (!x || !y || found < 0)
        PyErr_Clear();
    return found == 1;
}

static int add(tg_signature *s, const void *bytes, size_t count) {
    if (s->length + count > MOST_BYTES)
        return 0;
    if (count) /* a 0-d array has no dimensions to point to */
        memcpy(s->bytes + s->length, bytes, count);
    s->length += (int)count;
    return 1;
}

static int add_word(tg_signature *s, char tag, uint64_t word) {
    return add(s, &tag, 1) && add(s, &word, 8);
}

static int add_layout(tg_signature *s, PyArrayObject *x) {
    const int dims = PyArray_NDIM(x);
    const int type = PyArray_TYPE(x) * 2 + (PyArray_BASE(x) != NULL);
    const int head[4] = {dims, type, PyArray_FLAGS(x), (int)PyArray_ITEMSIZE(x)};
    return PyArray_ISBEHAVED_RO(x) && add(s, head, sizeof head) &&
           add(s, PyArray_DIMS(x), sizeof(npy_intp) * dims) &&
           add(s, PyArray_STRIDES(x), sizeof(npy_intp) * dims);
}

static int add_tensor(tg_signature *s, PyObject *t) {
    for (int i = 0; i < s->inputs; i++)
        if (s->input[i] == t)
            return add_word(s, 'A', (uint64_t)i);
    if (s->inputs == MOST_INPUTS || !is_off(&special_field, t))
        return 0;
    PyObject *array = read_field(&array_field, t);
    int is_one = 0;
    if (!array) {
        PyErr_Clear();
    } else if (PyArray_CheckExact(array)) {
        const int history = is_off(&wants_field, t) + 2 * is_off(&view_field, t);
        is_one = add_word(s, 'T', (uint64_t)(uintptr_t)Py_TYPE(t)) &&
                 add_layout(s, (PyArrayObject *)array) && add_word(s, 'g', (uint64_t)history);
    }
    Py_XDECREF(array);
    if (is_one)
        s->input[s->inputs++] = t;
    return is_one;
}

static int add_value(tg_signature *s, PyObject *value, int depth) {
    if (value == Py_None || value == Py_True || value == Py_False || value == Py_Ellipsis)
        return add_word(s, 'o', (uint64_t)(uintptr_t)value);
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyLong_Type) {
        int overflow;
        const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        return !overflow && add_word(s, 'i', (uint64_t)number);
    }
    if (type == &PyFloat_Type) {
        uint64_t bits;
        const double number = PyFloat_AS_DOUBLE(value);
        memcpy(&bits, &number, 8);
        return add_word(s, 'f', bits);
    }
    if (type == &PyUnicode_Type) {
        Py_ssize_t count;
        const char *text = PyUnicode_AsUTF8AndSize(value, &count);
        if (!text)
            PyErr_Clear();
        return text && add_word(s, 's', (uint64_t)count) && add(s, text, (size_t)count);
    }
    if (PyObject_TypeCheck(value, tg_tensor_type))
        return add_tensor(s, value);
    if (PyTuple_Check(value) || type == &PyList_Type) {
        const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
        if (depth == 2 || !add_word(s, '(', (uint64_t)(uintptr_t)type) ||
            !add_word(s, 'c', (uint64_t)count))
            return 0;
        for (Py_ssize_t i = 0; i < count; i++)
            if (!add_value(s, PySequence_Fast_GET_ITEM(value, i), depth + 1))
                return 0;
        return 1;
    }
    if (type == &PySlice_Type) {
        const PySliceObject *slice = (const PySliceObject *)value;
        return depth < 3 && add_word(s, ':', 0) && add_value(s, slice->start, 3) &&
               add_value(s, slice->stop, 3) && add_value(s, slice->step, 3);
    }
    return (PyObject *)type == tg_dtype_type && add_word(s, 'd', (uint64_t)(uintptr_t)value);
}

static void finish(tg_signature *s) {
    uint64_t hash = (uint64_t)s->length;
    while (s->length % 8)
        s->bytes[s->length++] = 0;
    for (int i = 0; i < s->length; i += 8) {
        uint64_t word;
        memcpy(&word, s->bytes + i, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    s->hash = hash;
}

/* The signature of what is computed from the layout of an array and from attributes. */
int tg_sign_layout(tg_signature *s, PyObject *const *args, Py_ssize_t count) {
    s->length = s->inputs = 0;
    if (!state || !count || !PyArray_CheckExact(args[0]) || !add_layout(s, (PyArrayObject *)args[0]))
        return 0;
    for (Py_ssize_t i = 1; i < count; i++)
        if (!add_value(s, args[i], 0))
            return 0;
    finish(s);
    return s->inputs == 0;
}

/* The signature of a call; 0: it has none, or modes are on. */
int tg_sign(tg_signature *s, PyObject *const *args, Py_ssize_t count, PyObject *kwnames) {
    s->length = s->inputs = 0;
    if (!state || !is_off(&elsewhere_field, state))
        return 0;
    if (!is_off(&on_field, state)) { /* no_grad, and nothing else, in some threads */
        if (!are_equal(&on_field, &unrecorded_field, state))
            return 0;
        PyObject *records = PyObject_GetAttr(modes, records_name);
        const int is_added = records && add_word(s, 'r', (uint64_t)(uintptr_t)records);
        Py_XDECREF(records);
        if (!is_added) {
            PyErr_Clear();
            return 0;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!add_value(s, args[i], 0))
            return 0;
    const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; i < named; i++)
        if (!add_value(s, PyTuple_GET_ITEM(kwnames, i), 0) || !add_value(s, args[count + i], 0))
            return 0;
    PyObject *set = PyDict_GetItemWithError(dtypes, default_name);
    if (!set || !add_word(s, 'd', (uint64_t)(uintptr_t)set))
        return 0;
    finish(s);
    return 1;
}

/* Whether nothing watches or changes calls but, perhaps, that some threads record no gradients. */
int tg_is_ordinary(void) {
    for (Py_ssize_t i = 0; levels && i < PyTuple_GET_SIZE(levels); i++)
        if (PyList_GET_SIZE(PyTuple_GET_ITEM(levels, i)))
            return 0;
    return state && is_off(&elsewhere_field, state) && is_off(&anomaly_field, state) &&
           is_off(&timing_field, state) &&
           (is_off(&on_field, state) || are_equal(&on_field, &unrecorded_field, state));
}

/* The array of a tensor on the host without a history, borrowed; NULL: it is something else. */
PyArrayObject *tg_plain_array(PyObject *t) {
    if (!PyObject_TypeCheck(t, tg_tensor_type) || !is_off(&special_field, t) ||
        !is_off(&wants_field, t))
        return NULL;
    PyObject *array = read_field(&array_field, t);
    if (!array)
        PyErr_Clear();
    Py_XDECREF(array); /* the tensor holds it */
    return array && PyArray_CheckExact(array) ? (PyArrayObject *)array : NULL;
}

int tg_is_tensor(PyObject *value) {
    return PyObject_TypeCheck(value, tg_tensor_type);
}

/* Whether a tensor is no view of one that requires gradients. */
int tg_is_view_of_none(PyObject *t) {
    PyObject *view = read_field(&view_field, t);
    PyObject *base = view && view != Py_None ? PyObject_GetAttrString(view, "base") : NULL;
    const int found = view && (view == Py_None || (base && is_off(&wants_field, base)));
    Py_XDECREF(base);
    Py_XDECREF(view);
    PyErr_Clear();
    return found;
}

/* know_calls(STATE, TensorBase, dtypes, Unrepeated, Op, MODES, fields, fields of nodes, levels): what
   signatures are read from, and what no Python part may change. */
PyObject *tg_know_calls(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count != 9 || !PyType_Check(args[1]) || !PyType_Check(args[4]) || !PyModule_Check(args[2]) ||
        !PyTuple_Check(args[6]) || !PyTuple_Check(args[7]) || !PyTuple_Check(args[8]))
        return PyErr_Format(PyExc_TypeError, "know_calls(STATE, TensorBase, dtypes, Unrepeated, Op, "
                                             "MODES, fields, fields of nodes, levels)");
    tg_dtype_type = PyObject_GetAttrString(args[2], "dtype");
    default_name = PyUnicode_InternFromString("_default");
    if (!tg_dtype_type || !default_name)
        return NULL;
    dtypes = Py_NewRef(PyModule_GetDict(args[2]));
    state = Py_NewRef(args[0]);
    tg_tensor_type = (PyTypeObject *)Py_NewRef(args[1]);
    tg_unrepeated = Py_NewRef(args[3]);
    tg_op_type = (PyTypeObject *)Py_NewRef(args[4]);
    modes = Py_NewRef(args[5]);
    tg_tensor_fields = Py_NewRef(args[6]);
    tg_node_fields = Py_NewRef(args[7]);
    levels = Py_NewRef(args[8]);
    records_name = PyUnicode_InternFromString("records");
    find_getter(&unrecorded_field, Py_TYPE(args[0]));
    find_getter(&on_field, Py_TYPE(state));
    find_getter(&elsewhere_field, Py_TYPE(state));
    find_getter(&array_field, tg_tensor_type);
    find_getter(&special_field, tg_tensor_type);
    find_getter(&wants_field, tg_tensor_type);
    find_getter(&view_field, tg_tensor_type);
    find_getter(&anomaly_field, Py_TYPE(state));
    find_getter(&timing_field, Py_TYPE(state));
    Py_RETURN_NONE;
}
