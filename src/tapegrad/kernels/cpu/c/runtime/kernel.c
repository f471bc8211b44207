/* Kernel: a C kernel as a Python callable, `kernel(arrays, sizes, numbers)`.

   A kernel gets the memory of its arrays alone (None is NULL). The caller, kernels/cpu/overrides,
   checks dtype, layout and bounds. Alignment is checked here, for all kernels: an array whose
   elements are not aligned for their type is copied. */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "module.h"

#define MOST_ARGUMENTS 32

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    tg_kernel function;
    const char *name;
} Kernel;

typedef struct {
    tg_kernel function;
    void *pointers[MOST_ARGUMENTS];
    int64_t sizes[MOST_ARGUMENTS];
    double numbers[MOST_ARGUMENTS];
} given;

static int again(void *context) {
    given *g = context;
    g->function(g->pointers, g->sizes, g->numbers);
    return 1;
}

tg_kernel tg_read_kernel(tg_again function, const void *context, void *const **pointers,
                         const int64_t **sizes, const double **numbers) {
    const given *g = context;
    if (function != again)
        return NULL;
    *pointers = g->pointers;
    *sizes = g->sizes;
    *numbers = g->numbers;
    return g->function;
}

/* For a tape: have a call clear its result, which was filled with zeros just before, by itself: that
   is done row by row, in the cache. 0: it does no such thing. */
int tg_clear_first(tg_again function, void *context, const char *out, int64_t bytes) {
    given *g = context;
    if (function != again || (g->function != tg_scatter_f32 && g->function != tg_scatter_f64))
        return 0;
    const int64_t each = g->function == tg_scatter_f32 ? 4 : 8;
    if (g->pointers[0] != out || g->sizes[0] < 2 ||
        g->sizes[0] * g->sizes[1] * g->sizes[2] * each != bytes)
        return 0;
    return g->sizes[5] = 1;
}

/* ------------------------------------------------------------------ misaligned arrays */

/* A call with arrays that are not aligned: how much memory each of them spans, and how much of that
   lies before its first element; 0 bytes: it is given as it is. */
typedef struct {
    given call;
    int64_t bytes[MOST_ARGUMENTS], before[MOST_ARGUMENTS];
    int count;
} misaligned;

#define ALIGNMENT 64

/* The call on aligned copies, which lie as the arrays do; then the bytes that it has changed are
   copied back. Two copies of each array tell which: arrays may overlap, or have gaps. */
static int again_on_copies(void *context) {
    const misaligned *m = context;
    given call = m->call;
    char *rooms[MOST_ARGUMENTS] = {0};
    int done = 1;
    for (int i = 0; i < m->count && done; i++) {
        if (!m->bytes[i])
            continue;
        const size_t bytes = (size_t)m->bytes[i];
        rooms[i] = malloc(2 * bytes + ALIGNMENT);
        if (!rooms[i]) {
            done = 0;
            break;
        }
        const char *from = (char *)m->call.pointers[i] - m->before[i];
        char *room = rooms[i] + bytes;
        room += -(uintptr_t)(room + m->before[i]) % ALIGNMENT;
        memcpy(rooms[i], from, bytes);
        memcpy(room, from, bytes);
        call.pointers[i] = room + m->before[i];
    }
    if (done)
        call.function(call.pointers, call.sizes, call.numbers);
    for (int i = 0; i < m->count; i++) {
        if (!rooms[i])
            continue;
        char *to = (char *)m->call.pointers[i] - m->before[i];
        const char *now = (char *)call.pointers[i] - m->before[i];
        for (int64_t k = 0; k < m->bytes[i] && done; k++)
            if (now[k] != rooms[i][k])
                to[k] = now[k];
        free(rooms[i]);
    }
    return done;
}

/* Note what an array spans; -1 if its strides are no multiples of its elements, as kernels count. */
static int span(misaligned *m, int i, PyArrayObject *x) {
    int64_t low = 0, high = PyArray_ITEMSIZE(x);
    m->bytes[i] = m->before[i] = 0;
    if (PyArray_SIZE(x) == 0)
        return 0;
    for (int d = 0; d < PyArray_NDIM(x); d++) {
        const int64_t reach = (PyArray_DIM(x, d) - 1) * PyArray_STRIDE(x, d);
        if (reach && PyArray_STRIDE(x, d) % PyArray_ITEMSIZE(x))
            return -1;
        *(reach < 0 ? &low : &high) += reach;
    }
    m->bytes[i] = high - low;
    m->before[i] = -low;
    return 0;
}

static PyObject *call_misaligned(const Kernel *self, void *const *pointers, const int64_t *sizes,
                                 const double *numbers, PyObject *arrays) {
    misaligned m = {.call.function = self->function, .count = (int)PyTuple_GET_SIZE(arrays)};
    memcpy(m.call.pointers, pointers, (size_t)m.count * sizeof *pointers);
    memcpy(m.call.sizes, sizes, sizeof m.call.sizes);
    memcpy(m.call.numbers, numbers, sizeof m.call.numbers);
    for (int i = 0; i < m.count; i++) {
        PyArrayObject *x = (PyArrayObject *)PyTuple_GET_ITEM(arrays, i);
        if (pointers[i] && !PyArray_ISALIGNED(x) && span(&m, i, x) < 0)
            return PyErr_Format(PyExc_TypeError, "%s: elements of array %d overlap in part",
                                self->name, i + 1);
    }
    if (tg_is_taping() &&
        tg_tape(again_on_copies, &m, sizeof m, &PyTuple_GET_ITEM(arrays, 0), m.count) < 0)
        return NULL;
    int done;
    Py_BEGIN_ALLOW_THREADS done = again_on_copies(&m);
    Py_END_ALLOW_THREADS return done ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

/* ------------------------------------------------------------------ for Python */

static PyTypeObject kernel_type;

static int tape(const Kernel *self, void *const *pointers, const int64_t *sizes,
                const double *numbers, PyObject *arrays) {
    given g = {.function = self->function};
    const int count = (int)PyTuple_GET_SIZE(arrays);
    memcpy(g.pointers, pointers, (size_t)count * sizeof *pointers);
    memcpy(g.sizes, sizes, sizeof g.sizes);
    memcpy(g.numbers, numbers, sizeof g.numbers);
    return tg_tape(again, &g, sizeof g, &PyTuple_GET_ITEM(arrays, 0), count);
}

static PyObject *call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    Kernel *self = (Kernel *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    void *pointers[MOST_ARGUMENTS];
    int64_t sizes[MOST_ARGUMENTS] = {0};
    double numbers[MOST_ARGUMENTS] = {0};
    int is_aligned = 1;
    if (names || given < 2 || given > 3)
        return PyErr_Format(PyExc_TypeError, "%s: arrays, sizes and numbers are wanted", self->name);
    for (Py_ssize_t i = 0; i < given; i++)
        if (!PyTuple_CheckExact(args[i]) || PyTuple_GET_SIZE(args[i]) > MOST_ARGUMENTS)
            return PyErr_Format(PyExc_TypeError, "%s: argument %zd is no tuple of at most %d",
                                self->name, i + 1, MOST_ARGUMENTS);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[0]); i++) {
        PyObject *x = PyTuple_GET_ITEM(args[0], i);
        if (x != Py_None && !PyArray_Check(x))
            return PyErr_Format(PyExc_TypeError, "%s: array %zd is none", self->name, i + 1);
        pointers[i] = x == Py_None ? NULL : PyArray_DATA((PyArrayObject *)x);
        is_aligned &= x == Py_None || PyArray_ISALIGNED((PyArrayObject *)x);
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[1]); i++)
        sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(args[1], i));
    for (Py_ssize_t i = 0; given > 2 && i < PyTuple_GET_SIZE(args[2]); i++)
        numbers[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(args[2], i));
    if (PyErr_Occurred())
        return NULL;
    if (!is_aligned)
        return call_misaligned(self, pointers, sizes, numbers, args[0]);
    if (tg_is_taping() && tape(self, pointers, sizes, numbers, args[0]) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS self->function(pointers, sizes, numbers);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/* NULL: it is none. */
tg_kernel tg_kernel_of(PyObject *kernel) {
    if (Py_IS_TYPE(kernel, &kernel_type))
        return ((Kernel *)kernel)->function;
    PyErr_SetString(PyExc_TypeError, "a kernel is wanted");
    return NULL;
}

/* Run a kernel on the memory of arrays, on a tape too; 0: an exception. */
int tg_run_kernel(tg_kernel function, PyObject *const *arrays, int count, const int64_t *sizes,
                  int numbers) {
    given g = {.function = function};
    for (int i = 0; i < count; i++)
        g.pointers[i] = PyArray_DATA((PyArrayObject *)arrays[i]);
    memcpy(g.sizes, sizes, (size_t)numbers * sizeof *sizes);
    if (tg_is_taping() && tg_tape(again, &g, sizeof g, arrays, count) < 0)
        return 0;
    function(g.pointers, g.sizes, g.numbers);
    return 1;
}

static PyObject *show(PyObject *self) {
    return PyUnicode_FromFormat("<kernel %s>", ((Kernel *)self)->name);
}

static PyTypeObject kernel_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tapegrad.kernels.cpu.Kernel",
    .tp_basicsize = sizeof(Kernel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A kernel in C: kernel(arrays, sizes, numbers=()).",
    .tp_repr = show,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Kernel, vectorcall),
};

static const struct {
    const char *name;
    tg_kernel function;
} table[] = {
#define X(name) {#name, tg_##name},
    TG_KERNELS(X)
#undef X
};

PyObject *tg_describe_kernel(tg_again function, const void *context) {
    const given *g = context;
    for (size_t i = 0; function == again && i < sizeof table / sizeof *table; i++)
        if (table[i].function == g->function)
            return tg_described(table[i].name, (const int64_t *)(const void *)g->pointers,
                                MOST_ARGUMENTS, g->sizes, MOST_ARGUMENTS, g->numbers,
                                MOST_ARGUMENTS);
    return NULL;
}

/* A dict of all kernels, by name. */
PyObject *tg_all_kernels(void) {
    if (PyType_Ready(&kernel_type) < 0)
        return NULL;
    PyObject *all = PyDict_New();
    for (size_t i = 0; all && i < sizeof table / sizeof *table; i++) {
        Kernel *made = (Kernel *)kernel_type.tp_alloc(&kernel_type, 0);
        if (!made) {
            Py_CLEAR(all);
            break;
        }
        made->vectorcall = call;
        made->function = table[i].function;
        made->name = table[i].name;
        if (PyDict_SetItemString(all, table[i].name, (PyObject *)made) < 0)
            Py_CLEAR(all);
        Py_DECREF(made);
    }
    return all;
}
