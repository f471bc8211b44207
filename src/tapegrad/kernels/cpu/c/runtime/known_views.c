/* KnownViews: the kernel of an op whose result looks at its argument's memory.

   Shape, strides and offset of the result follow from those of the argument and from the attributes.
   The formula on NumPy says what they are, once for a signature (call_steps.c); later results are
   made from the numbers that were noted. */

#include "module.h"

#include <stdlib.h>
#include <string.h>

#define PLACES 64
#define MOST_PARTS 8
#define MOST_DIMS 8

typedef struct {
    PyArray_Descr *dtype;
    int dims, writeable;
    npy_intp offset, shape[MOST_DIMS], strides[MOST_DIMS];
} part;

typedef struct {
    uint64_t hash;
    int length, parts, in_tuple; /* parts < 0: the result is none that can be noted */
    unsigned char *bytes;
    part *part;
} place;

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *formula;
    place *places;
} known_views;

static PyObject *owner_of(PyObject *array) {
    while (PyArray_Check(array) && PyArray_BASE((PyArrayObject *)array))
        array = PyArray_BASE((PyArrayObject *)array);
    return array;
}

static int note_part(part *p, PyArrayObject *x, PyObject *made) {
    if (!PyArray_CheckExact(made) || owner_of(made) != owner_of((PyObject *)x))
        return 0;
    PyArrayObject *y = (PyArrayObject *)made;
    if (PyArray_NDIM(y) > MOST_DIMS || !PyArray_ISBEHAVED_RO(y))
        return 0;
    p->dtype = PyArray_DESCR(y);
    p->dims = PyArray_NDIM(y);
    p->writeable = PyArray_ISWRITEABLE(y);
    p->offset = PyArray_BYTES(y) - PyArray_BYTES(x);
    for (int d = 0; d < p->dims; d++) {
        p->shape[d] = PyArray_DIM(y, d);
        p->strides[d] = PyArray_STRIDE(y, d);
    }
    return 1;
}

static void forget(place *p) {
    for (int i = 0; i < p->parts; i++)
        Py_DECREF(p->part[i].dtype);
    free(p->part);
    free(p->bytes);
    memset(p, 0, sizeof *p);
}

static void note(place *p, const tg_signature *s, PyArrayObject *x, PyObject *made) {
    part parts[MOST_PARTS];
    const int in_tuple = PyTuple_CheckExact(made);
    const Py_ssize_t count = in_tuple ? PyTuple_GET_SIZE(made) : 1;
    int is_known = count <= MOST_PARTS && PyArray_ISBEHAVED(x);
    for (Py_ssize_t i = 0; is_known && i < count; i++)
        is_known = note_part(&parts[i], x, in_tuple ? PyTuple_GET_ITEM(made, i) : made);
    const int n = is_known ? (int)count : 0;
    unsigned char *bytes = malloc((size_t)s->length);
    part *kept = malloc(sizeof(part) * (size_t)(n ? n : 1));
    if (!bytes || !kept) {
        free(bytes);
        free(kept);
        return;
    }
    forget(p);
    memcpy(bytes, s->bytes, (size_t)s->length);
    memcpy(kept, parts, sizeof(part) * (size_t)n);
    for (int i = 0; i < n; i++)
        Py_INCREF(kept[i].dtype);
    *p = (place){s->hash, s->length, is_known ? n : -1, in_tuple, bytes, kept};
}

static PyObject *make_part(const part *p, PyArrayObject *x) {
    Py_INCREF(p->dtype);
    PyObject *made = PyArray_NewFromDescr(&PyArray_Type, p->dtype, p->dims, p->shape, p->strides,
                                          PyArray_BYTES(x) + p->offset,
                                          p->writeable ? NPY_ARRAY_WRITEABLE : 0, NULL);
    if (made && PyArray_SetBaseObject((PyArrayObject *)made, Py_NewRef((PyObject *)x)) < 0)
        Py_CLEAR(made);
    return made;
}

static PyObject *call_views(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    known_views *v = (known_views *)self;
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    tg_signature s;
    if (names || !tg_sign_layout(&s, args, count))
        return PyObject_Vectorcall(v->formula, args, flags, names);
    PyArrayObject *x = (PyArrayObject *)args[0];
    if (!v->places && !(v->places = calloc(PLACES, sizeof(place))))
        return PyErr_NoMemory();
    place *p = &v->places[s.hash % PLACES];
    if (p->bytes && p->hash == s.hash && p->length == s.length &&
        memcmp(p->bytes, s.bytes, (size_t)s.length) == 0) {
        if (p->parts >= 0 && !p->in_tuple)
            return make_part(p->part, x);
        if (p->parts >= 0) {
            PyObject *all = PyTuple_New(p->parts);
            for (int i = 0; all && i < p->parts; i++) {
                PyObject *one = make_part(&p->part[i], x);
                if (one)
                    PyTuple_SET_ITEM(all, i, one);
                else
                    Py_CLEAR(all);
            }
            return all;
        }
        return PyObject_Vectorcall(v->formula, args, flags, names);
    }
    PyObject *made = PyObject_Vectorcall(v->formula, args, flags, names);
    if (made)
        note(p, &s, x, made);
    return made;
}

static PyObject *new_views(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"formula", NULL};
    PyObject *formula;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", words, &formula))
        return NULL;
    known_views *v = (known_views *)type->tp_alloc(type, 0);
    if (!v)
        return NULL;
    v->vectorcall = call_views;
    v->formula = Py_NewRef(formula);
    return (PyObject *)v;
}

static void dealloc_views(PyObject *self) {
    known_views *v = (known_views *)self;
    for (int i = 0; v->places && i < PLACES; i++)
        forget(&v->places[i]);
    free(v->places);
    Py_DECREF(v->formula);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(known_views, formula), READONLY, "the formula on NumPy"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject tg_known_views_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tapegrad.kernels.cpu._kernels.KnownViews",
    .tp_basicsize = sizeof(known_views),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "The kernel of a view op, which computes each layout once.",
    .tp_new = new_views,
    .tp_dealloc = dealloc_views,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(known_views, vectorcall),
    .tp_members = members,
};
