/* Instances of compiled classes release their class.

   An instance of a heap type owns a reference to its type, which its deallocator has to release.
   The deallocators that mypyc makes do not: every instance of a Python subclass (a user's Tensor,
   the node of a user's Function, a mode) would keep its class alive for ever. CPython's
   `subtype_dealloc` and `subtype_traverse` look up the slots of the compiled base each time, so
   replacing those is enough. */

#include "module.h"

#define MOST 32

typedef struct {
    PyTypeObject *type;
    destructor dealloc;
    traverseproc traverse;
} kind_t;

static kind_t kinds[MOST];
static int known;

static void release(PyObject *self);

/* The nearest compiled base of a class. */
static const kind_t *kind_of(PyTypeObject *type) {
    for (; type; type = type->tp_base)
        if (type->tp_dealloc == release)
            for (int i = 0; i < known; i++)
                if (kinds[i].type == type)
                    return &kinds[i];
    return NULL;
}

static void release(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    const kind_t *kind = kind_of(type);
    kind->dealloc(self);
    if (type != kind->type)
        Py_DECREF(type);
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    PyTypeObject *type = Py_TYPE(self);
    const kind_t *kind = kind_of(type);
    if (type != kind->type)
        Py_VISIT(type);
    return kind->traverse(self, visit, arg);
}

/* release_class(cls): instances of Python subclasses of a compiled class release their class. */
PyObject *tg_release_class(PyObject *self, PyObject *cls) {
    (void)self;
    if (!PyType_Check(cls)) {
        PyErr_SetString(PyExc_TypeError, "release_class takes a class");
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    if (!type->tp_dealloc || !type->tp_traverse || known == MOST) {
        PyErr_SetString(PyExc_ValueError, "release_class takes a few compiled classes");
        return NULL;
    }
    if (type->tp_dealloc != release) {
        kinds[known++] = (kind_t){(PyTypeObject *)Py_NewRef(cls), type->tp_dealloc, type->tp_traverse};
        type->tp_dealloc = release;
        type->tp_traverse = traverse;
        PyType_Modified(type);
    }
    Py_RETURN_NONE;
}
