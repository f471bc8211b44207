/* Lender: calls a Python function whose results are placed in memory that exists already.

   The first call notes what NumPy asks memory for. Later ones answer the requests that became the
   results with the memory they were told of (`lend`), so that nothing has to be copied there. If a
   call asks for something else, its results lie elsewhere, and the caller sees that. */

#include <stdlib.h>
#include <string.h>

#include "module.h"

#define MOST_LENT 8
#define MOST_NOTED 64

typedef struct {
    PyDataMem_Handler functions; /* NumPy's view of this */
    int asked, noted, lent;
    struct {
        void *at;
        size_t bytes;
    } notes[MOST_NOTED];
    struct {
        PyObject *array;
        int number; /* of the request */
        int is_out;
    } places[MOST_LENT];
} lender;

static __thread int lending;

int tg_is_lending(void) { return lending; }

static char *place(const lender *l, int i) {
    return PyArray_BYTES((PyArrayObject *)l->places[i].array);
}

static void *get(void *context, size_t bytes) {
    lender *l = context;
    const int number = l->asked++;
    for (int i = 0; i < l->lent; i++)
        if (l->places[i].number == number && !l->places[i].is_out &&
            (size_t)PyArray_NBYTES((PyArrayObject *)l->places[i].array) == bytes) {
            l->places[i].is_out = 1;
            return place(l, i);
        }
    void *at = tg_memory.malloc(NULL, bytes); /* what is only needed in between, as elsewhere */
    if (at && !l->lent && number < MOST_NOTED) {
        l->notes[number].at = at;
        l->notes[number].bytes = bytes;
        l->noted = number + 1;
    }
    return at;
}

static void *get_zeros(void *context, size_t count, size_t size) {
    if (size && count > (size_t)-1 / size)
        return NULL;
    void *data = get(context, count * size);
    return data ? memset(data, 0, count * size) : NULL;
}

static void give_back(void *context, void *data, size_t unused) {
    lender *l = context;
    (void)unused;
    if (!data)
        return;
    for (int i = 0; i < l->lent; i++)
        if (place(l, i) == data) {
            l->places[i].is_out = 0;
            return;
        }
    tg_memory.free(NULL, data, 0);
}

/* Lent memory cannot grow: allocate and copy instead. This is rare. */
static void *get_again(void *context, void *data, size_t bytes) {
    lender *l = context;
    size_t before = 0;
    for (int i = 0; i < l->lent; i++)
        if (data && place(l, i) == data)
            before = (size_t)PyArray_NBYTES((PyArrayObject *)l->places[i].array);
    if (data && !before)
        return tg_memory.realloc(NULL, data, bytes);
    void *made = get(context, bytes);
    if (made && data) {
        memcpy(made, data, before < bytes ? before : bytes);
        give_back(context, data, 0);
    }
    return made;
}

/* ------------------------------------------------------------------ for Python */

typedef struct {
    PyObject_HEAD PyObject *capsule; /* arrays keep it, and with it what they were lent */
} Lender;

static void forget_places(lender *l) {
    while (l->lent)
        Py_DECREF(l->places[--l->lent].array);
}

static void forget(PyObject *capsule) {
    PyDataMem_Handler *functions = PyCapsule_GetPointer(capsule, "mem_handler");
    lender *l = functions->allocator.ctx;
    forget_places(l);
    free(l);
}

static lender *of(PyObject *self) {
    PyDataMem_Handler *functions = PyCapsule_GetPointer(((Lender *)self)->capsule, "mem_handler");
    return functions->allocator.ctx;
}

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args, (void)kwargs;
    lender *l = calloc(1, sizeof *l);
    if (!l)
        return PyErr_NoMemory();
    l->functions = (PyDataMem_Handler){
        "tapegrad lender", 1, {l, get, get_zeros, get_again, give_back}};
    PyObject *capsule = PyCapsule_New(&l->functions, "mem_handler", forget);
    if (!capsule) {
        free(l);
        return NULL;
    }
    Lender *self = (Lender *)type->tp_alloc(type, 0);
    if (!self) {
        Py_DECREF(capsule);
        return NULL;
    }
    self->capsule = capsule;
    return (PyObject *)self;
}

static void dealloc(PyObject *self) {
    Py_DECREF(((Lender *)self)->capsule);
    Py_TYPE(self)->tp_free(self);
}

/* lender(function, *args): the call, whose arrays get their memory here. */
static PyObject *run(PyObject *self, PyObject *args, PyObject *kwargs) {
    if (PyTuple_GET_SIZE(args) < 1 || (kwargs && PyDict_GET_SIZE(kwargs)))
        return PyErr_Format(PyExc_TypeError, "a function and its arguments are wanted");
    PyObject *given = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
    PyObject *before = given ? PyDataMem_SetHandler(((Lender *)self)->capsule) : NULL;
    if (!before) {
        Py_XDECREF(given);
        return NULL;
    }
    of(self)->asked = 0;
    lending++;
    PyObject *out = PyObject_Call(PyTuple_GET_ITEM(args, 0), given, NULL);
    lending--;
    PyObject *ours = PyDataMem_SetHandler(before);
    Py_XDECREF(ours);
    Py_DECREF(before);
    Py_DECREF(given);
    return out;
}

/* lender.lend(made, place): from now on the request that became the memory of `made` is answered
   with that of `place`; False if there was none of that size. */
static PyObject *lend(PyObject *self, PyObject *args) {
    PyArrayObject *made, *to;
    lender *l = of(self);
    if (!PyArg_ParseTuple(args, "O!O!", &PyArray_Type, &made, &PyArray_Type, &to))
        return NULL;
    for (int i = l->noted - 1; i >= 0 && l->lent < MOST_LENT; i--) /* the last one who had it */
        if (l->notes[i].at == PyArray_DATA(made) &&
            l->notes[i].bytes == (size_t)PyArray_NBYTES(to)) {
            l->places[l->lent].array = Py_NewRef((PyObject *)to);
            l->places[l->lent].number = i;
            l->places[l->lent++].is_out = 0;
            Py_RETURN_TRUE;
        }
    Py_RETURN_FALSE;
}

static PyMethodDef methods[] = {
    {"lend", lend, METH_VARARGS, "lend(made, place): answer the request behind `made` with `place`"},
    {NULL, NULL, 0, NULL},
};

PyTypeObject tg_lender_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tapegrad.kernels.cpu.Lender",
    .tp_basicsize = sizeof(Lender),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Calls functions so that their results are placed in memory that exists already.",
    .tp_new = new,
    .tp_dealloc = dealloc,
    .tp_call = run,
    .tp_methods = methods,
};

/* is_at(x, place): whether two arrays view the same elements of the same memory. */
PyObject *tg_is_at(PyObject *self, PyObject *args) {
    (void)self;
    PyArrayObject *x, *at;
    if (!PyArg_ParseTuple(args, "O!O!", &PyArray_Type, &x, &PyArray_Type, &at))
        return NULL;
    const int dims = PyArray_NDIM(x);
    return PyBool_FromLong(PyArray_DATA(x) == PyArray_DATA(at) && dims == PyArray_NDIM(at) &&
                           PyArray_CompareLists(PyArray_DIMS(x), PyArray_DIMS(at), dims) &&
                           PyArray_CompareLists(PyArray_STRIDES(x), PyArray_STRIDES(at), dims));
}
