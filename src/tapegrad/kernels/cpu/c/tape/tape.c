/* Tape: calls of kernels, written down while they run, to be run again without Python.

   While a thread has a tape, everything here that computes adds itself to it: the function, a copy
   of what it was given, and references to the arrays, whose memory therefore stays where it is. */

#include <stdlib.h>
#include <string.h>

#include "module.h"
#include "platform.h"

typedef struct {
    tg_again again;
    void *context; /* a copy of our own */
    size_t bytes;
} entry;

typedef struct {
    PyObject_HEAD entry *entries;
    Py_ssize_t count, room;
    char *together; /* one block with all contexts; NULL: each is allocated by itself */
    PyObject *kept; /* a list: arrays and programs */
    PyObject *checked; /* a list: the arrays that say whether a kernel failed; NULL: none */
} Tape;

static PyTypeObject tape_type;
static __thread Tape *current;

static Tape *new_tape(void) {
    Tape *self = (Tape *)tape_type.tp_alloc(&tape_type, 0);
    if (!self)
        return NULL;
    self->kept = PyList_New(0);
    if (!self->kept)
        Py_CLEAR(self);
    return self;
}

static void forget_calls(Tape *self) {
    for (Py_ssize_t i = 0; i < self->count && !self->together; i++)
        free(self->entries[i].context);
    free(self->together);
    self->together = NULL;
    self->count = 0;
}

static void dealloc(PyObject *o) {
    Tape *self = (Tape *)o;
    forget_calls(self);
    free(self->entries);
    Py_XDECREF(self->kept);
    Py_XDECREF(self->checked);
    Py_TYPE(o)->tp_free(o);
}

/* Room for so many more calls: most tapes have one, and there are many tapes. */
static int make_room(Tape *self, Py_ssize_t more) {
    if (self->count + more <= self->room)
        return 0;
    const Py_ssize_t room = self->count + (more > self->count ? more : self->count);
    entry *entries = realloc(self->entries, (size_t)room * sizeof *entries);
    if (!entries)
        return PyErr_NoMemory(), -1;
    self->entries = entries;
    self->room = room;
    return 0;
}

static int append(Tape *self, tg_again again, const void *context, size_t bytes) {
    if (make_room(self, 1) < 0)
        return -1;
    void *copy = malloc(bytes);
    if (!copy)
        return PyErr_NoMemory(), -1;
    memcpy(copy, context, bytes);
    self->entries[self->count++] = (entry){again, copy, bytes};
    return 0;
}

int tg_is_taping(void) { return current != NULL; }

int tg_tape(tg_again again, const void *context, size_t bytes, PyObject *const *kept, int count) {
    for (int i = 0; i < count; i++)
        if (kept[i] && PyList_Append(current->kept, kept[i]) < 0)
            return -1;
    return append(current, again, context, bytes);
}

int tg_keep_all(PyObject *list) {
    return PyList_SetSlice(current->kept, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX, list);
}

/* ------------------------------------------------------------------ for Python */

static int is_zero(void *context) {
    return **(int64_t **)context == 0;
}

/* succeeded(flag): whether the one number of an array is zero; a tape stops there if it is not. */
PyObject *tg_succeeded(PyObject *self, PyObject *flag) {
    (void)self;
    if (!PyArray_Check(flag) || PyArray_TYPE((PyArrayObject *)flag) != NPY_INT64 ||
        PyArray_SIZE((PyArrayObject *)flag) != 1)
        return PyErr_Format(PyExc_TypeError, "succeeded: one int64 is wanted");
    int64_t *at = PyArray_DATA((PyArrayObject *)flag);
    if (current && !current->checked)
        current->checked = PyList_New(0);
    if (current && (!current->checked || tg_tape(is_zero, &at, sizeof at, &flag, 1) < 0 ||
                    PyList_Append(current->checked, flag) < 0))
        return NULL;
    return PyBool_FromLong(*at == 0);
}

PyObject *tg_has_tape(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyBool_FromLong(current != NULL);
}

PyObject *tg_tape_begin(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    if (current)
        return PyErr_Format(PyExc_RuntimeError, "this thread has a tape already");
    current = new_tape();
    if (!current)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *tg_tape_end(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    if (!current)
        return PyErr_Format(PyExc_RuntimeError, "this thread has no tape");
    Tape *done = current;
    current = NULL;
    return (PyObject *)done;
}

/* fused_tape(program, sizes, operands, kept): a tape with one call of the vector machine. */
PyObject *tg_fused_tape(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *said, *sizes, *operands, *kept;
    if (!PyArg_ParseTuple(args, "OOOO", &said, &sizes, &operands, &kept))
        return NULL;
    Tape *made = new_tape(), *before = current;
    if (!made)
        return NULL;
    current = made;
    if (tg_tape_machine(said, sizes, operands, kept) < 0)
        Py_CLEAR(made);
    current = before;
    return (PyObject *)made;
}

/* sum_after(machine, sum, is_kept): a tape that does at once what two tapes of one call each do, the
   sum of what the vector machine makes; None if they are not such. */
PyObject *tg_sum_after(PyObject *self, PyObject *args) {
    (void)self;
    Tape *machine, *sum;
    int is_kept;
    if (!PyArg_ParseTuple(args, "O!O!p", &tape_type, &machine, &tape_type, &sum, &is_kept))
        return NULL;
    if (machine->count != 1 || sum->count != 1)
        Py_RETURN_NONE;
    Tape *made = new_tape(), *before = current;
    if (!made)
        return NULL;
    current = made;
    const int done = tg_tape_summed(machine->entries[0].again, machine->entries[0].context,
                                    sum->entries[0].again, sum->entries[0].context, is_kept);
    const int failed = done < 0 || (done && (tg_keep_all(machine->kept) || tg_keep_all(sum->kept)));
    current = before;
    if (done && !failed)
        return (PyObject *)made;
    Py_DECREF(made);
    return failed ? NULL : Py_NewRef(Py_None);
}

#define ROUNDED(bytes) (((bytes) + 15) / 16 * 16)

/* join_tapes(tapes): one that does what they do, one after the other. It takes their calls: what
   these are given lies in the order in which it is read. */
PyObject *tg_join_tapes(PyObject *self, PyObject *tapes) {
    (void)self;
    if (!PyList_Check(tapes))
        return PyErr_Format(PyExc_TypeError, "join_tapes: a list is wanted");
    Py_ssize_t count = 0;
    size_t bytes = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tapes); i++) {
        Tape *part = (Tape *)PyList_GET_ITEM(tapes, i);
        if (!Py_IS_TYPE((PyObject *)part, &tape_type))
            return PyErr_Format(PyExc_TypeError, "join_tapes: tapes are wanted");
        count += part->count;
        for (Py_ssize_t k = 0; k < part->count; k++)
            bytes += ROUNDED(part->entries[k].bytes);
    }
    Tape *made = new_tape();
    int failed = !made || make_room(made, count) < 0;
    if (!failed && !(made->together = malloc(bytes + 1)))
        failed = (PyErr_NoMemory(), 1);
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(tapes); i++)
        failed = PyList_SetSlice(made->kept, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX,
                                 ((Tape *)PyList_GET_ITEM(tapes, i))->kept) < 0;
    char *at = failed ? NULL : made->together;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(tapes); i++) {
        Tape *part = (Tape *)PyList_GET_ITEM(tapes, i);
        for (Py_ssize_t k = 0; k < part->count; k++) {
            entry *e = &made->entries[made->count++];
            *e = part->entries[k];
            e->context = memcpy(at, e->context, e->bytes);
            at += ROUNDED(e->bytes);
        }
        forget_calls(part); /* one that is there twice is empty by now */
    }
    if (failed)
        Py_CLEAR(made);
    return (PyObject *)made;
}

/* tape(begin=0, times=None): all calls again, from one on; where it stopped, or -1 at the end. What
   each of them took, in seconds, is written into an array of as many doubles. */
static PyObject *run(PyObject *o, PyObject *args, PyObject *kwargs) {
    Tape *self = (Tape *)o;
    Py_ssize_t begin = 0;
    PyArrayObject *times = NULL;
    if ((kwargs && PyDict_GET_SIZE(kwargs)) ||
        !PyArg_ParseTuple(args, "|nO!", &begin, &PyArray_Type, &times))
        return NULL;
    if (times && (PyArray_TYPE(times) != NPY_DOUBLE || !PyArray_ISCARRAY(times) ||
                  PyArray_SIZE(times) != self->count))
        return PyErr_Format(PyExc_TypeError, "times: as many doubles as calls are wanted");
    double *taken = times ? PyArray_DATA(times) : NULL;
    Py_ssize_t stopped = -1;
    Py_BEGIN_ALLOW_THREADS double before = taken ? tg_seconds() : 0;
    for (Py_ssize_t i = begin < 0 ? 0 : begin; i < self->count; i++) {
        if (!self->entries[i].again(self->entries[i].context)) {
            stopped = i;
            break;
        }
        if (taken) {
            const double now = tg_seconds();
            taken[i] = now - before;
            before = now;
        }
    }
    Py_END_ALLOW_THREADS return PyLong_FromSsize_t(stopped);
}

/* tape.machine(i): what the vector machine does in call i; None if that is another kernel. */
static PyObject *machine(PyObject *o, PyObject *number) {
    Tape *self = (Tape *)o;
    Py_ssize_t i = PyLong_AsSsize_t(number);
    if (i < 0 || i >= self->count)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "there is no call %zd", i);
    return tg_describe_machine(self->entries[i].again, self->entries[i].context);
}

static PyObject *list_of(const int64_t *values, int count) {
    PyObject *made = PyTuple_New(count);
    for (int i = 0; made && i < count; i++)
        PyTuple_SET_ITEM(made, i, PyLong_FromLongLong(values[i]));
    return made;
}

PyObject *tg_described(const char *name, const int64_t *addresses, int a, const int64_t *sizes, int n,
                       const double *numbers, int x) {
    PyObject *given = PyTuple_New(x);
    for (int i = 0; given && i < x; i++)
        PyTuple_SET_ITEM(given, i, PyFloat_FromDouble(numbers[i]));
    return Py_BuildValue("(sNNN)", name, list_of(addresses, a), list_of(sizes, n), given);
}

static PyObject *describe_check(tg_again function, const void *context) {
    return function == is_zero ? tg_described("check", context, 1, NULL, 0, NULL, 0) : NULL;
}

/* tape.described(i): (name, addresses, sizes, numbers) of call i, whose meaning the name says (for
   kernels it is that of kernels.h); None for calls of the vector machine, and what nobody prints. */
static PyObject *described(PyObject *o, PyObject *number) {
    static PyObject *(*const all[])(tg_again, const void *) = {
        tg_describe_kernel, tg_describe_product,   tg_describe_copy, tg_describe_clear,
        describe_check,     tg_describe_small_sum, tg_describe_summed};
    Tape *self = (Tape *)o;
    Py_ssize_t i = PyLong_AsSsize_t(number);
    if (i < 0 || i >= self->count)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "there is no call %zd", i);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        PyObject *found = all[k](self->entries[i].again, self->entries[i].context);
        if (found || PyErr_Occurred())
            return found;
    }
    Py_RETURN_NONE;
}

/* tape.knows_zeros(array): copies of an array that always holds zeros need not read it, nor need
   there be a copy where the next call clears its result itself. */
static PyObject *knows_zeros(PyObject *o, PyObject *array) {
    Tape *self = (Tape *)o;
    if (!PyArray_Check(array) || !PyArray_ISONESEGMENT((PyArrayObject *)array))
        return PyErr_Format(PyExc_TypeError, "knows_zeros: an array in one piece is wanted");
    const char *begin = PyArray_BYTES((PyArrayObject *)array);
    const char *end = begin + PyArray_NBYTES((PyArrayObject *)array);
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        entry *here = self->entries + i;
        int64_t bytes = 0;
        char *to = tg_copies_zeros(here->again, here->context, begin, end, &bytes);
        const int is_cleared =
            to && i + 1 < self->count && tg_clear_first(here[1].again, here[1].context, to, bytes);
        if (!is_cleared)
            self->entries[kept++] = *here;
        else if (!self->together)
            free(here->context);
    }
    self->count = kept;
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ memory

   What a call was given is a copy of some struct with pointers in it. Every word of it that could be
   a pointer into an array is taken for one: no size or number comes to look like an address. */

typedef struct {
    const int64_t *rows; /* begin, end and what to add, in the order of begin */
    Py_ssize_t count;
} ranges;

static int read_ranges(PyObject *table, ranges *r) {
    PyArrayObject *x = (PyArrayObject *)table;
    if (!PyArray_Check(table) || PyArray_TYPE(x) != NPY_INT64 || PyArray_NDIM(x) != 2 ||
        PyArray_DIM(x, 1) != 3 || !PyArray_IS_C_CONTIGUOUS(x)) {
        PyErr_SetString(PyExc_TypeError, "an int64 array of (begin, end, move) is wanted");
        return 0;
    }
    *r = (ranges){PyArray_DATA(x), PyArray_DIM(x, 0)};
    return 1;
}

/* The range that a word points into; -1: none. */
static Py_ssize_t find(const ranges *r, int64_t word) {
    Py_ssize_t low = 0, high = r->count;
    while (low < high) { /* the first one that begins after it */
        const Py_ssize_t middle = (low + high) / 2;
        if (r->rows[3 * middle] <= word)
            low = middle + 1;
        else
            high = middle;
    }
    return low && word < r->rows[3 * (low - 1) + 1] ? low - 1 : -1;
}

/* tape.uses(ranges): the first and the last call that is given a pointer into each; -1: none is. */
static PyObject *uses(PyObject *o, PyObject *table) {
    Tape *self = (Tape *)o;
    ranges r;
    if (!read_ranges(table, &r))
        return NULL;
    npy_intp shape[] = {r.count, 2};
    PyObject *made = PyArray_SimpleNew(2, shape, NPY_INT64);
    if (!made)
        return NULL;
    int64_t *found = PyArray_DATA((PyArrayObject *)made);
    for (Py_ssize_t i = 0; i < 2 * r.count; i++)
        found[i] = -1;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        const int64_t *words = self->entries[i].context;
        for (size_t k = 0; k < self->entries[i].bytes / sizeof *words; k++) {
            const Py_ssize_t at = find(&r, words[k]);
            if (at < 0)
                continue;
            if (found[2 * at] < 0)
                found[2 * at] = i;
            found[2 * at + 1] = i;
        }
    }
    return made;
}

static void shift(Tape *self, const ranges *r, Py_ssize_t begin, Py_ssize_t end) {
    for (Py_ssize_t i = begin < 0 ? 0 : begin; i < end && i < self->count; i++) {
        int64_t *words = self->entries[i].context;
        for (size_t k = 0; k < self->entries[i].bytes / sizeof *words; k++) {
            const Py_ssize_t at = find(r, words[k]);
            if (at >= 0)
                words[k] += r->rows[3 * at + 2];
        }
    }
}

/* tape.move(ranges, kept): pointers into them moved on; `kept` is what is kept from now on. */
static PyObject *move(PyObject *o, PyObject *args) {
    Tape *self = (Tape *)o;
    PyObject *table, *kept;
    ranges r;
    if (!PyArg_ParseTuple(args, "OO!", &table, &PyList_Type, &kept) || !read_ranges(table, &r))
        return NULL;
    shift(self, &r, 0, self->count);
    Py_XSETREF(self->kept, Py_NewRef(kept));
    Py_RETURN_NONE;
}

/* tape.move_to(place, array, begin, end): what points into as many bytes at a place points into an
   array from now on, in the calls begin … end - 1; the caller keeps it. Where that is. */
static PyObject *move_to(PyObject *o, PyObject *args) {
    long long place;
    Py_ssize_t begin, end;
    PyArrayObject *to;
    if (!PyArg_ParseTuple(args, "LO!nn", &place, &PyArray_Type, &to, &begin, &end))
        return NULL;
    const int64_t at = (int64_t)(intptr_t)PyArray_DATA(to);
    const int64_t row[] = {place, place + PyArray_NBYTES(to), at - place};
    const ranges r = {row, 1};
    shift((Tape *)o, &r, begin, end);
    return PyLong_FromLongLong(at);
}

static PyMethodDef methods[] = {
    {"uses", uses, METH_O, "uses(ranges): the first and last call that points into each"},
    {"move", move, METH_VARARGS, "move(ranges, kept): pointers into them moved on"},
    {"move_to", move_to, METH_VARARGS, "move_to(place, array, begin, end): pointers into one piece"},
    {"knows_zeros", knows_zeros, METH_O, "copies of this array are copies of zeros"},
    {"described", described, METH_O, "what a call of another kernel is given, or None"},
    {"machine", machine, METH_O, "what the vector machine does in a call, or None"},
    {NULL, NULL, 0, NULL},
};

static Py_ssize_t length(PyObject *self) { return ((Tape *)self)->count; }

static PySequenceMethods as_sequence = {.sq_length = length};
static PyMemberDef members[] = {
    {"kept", T_OBJECT, offsetof(Tape, kept), READONLY, "the arrays and programs in it"},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *checked(PyObject *self, void *unused) {
    (void)unused;
    PyObject *found = ((Tape *)self)->checked;
    return found ? Py_NewRef(found) : PyTuple_New(0);
}

static PyGetSetDef getters[] = {
    {"checked", checked, NULL, "the arrays that tell of failures", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject tape_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tapegrad.kernels.cpu.Tape",
    .tp_basicsize = sizeof(Tape),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "Calls of kernels, to be run again.",
    .tp_dealloc = dealloc,
    .tp_call = run,
    .tp_as_sequence = &as_sequence,
    .tp_members = members,
    .tp_getset = getters,
    .tp_methods = methods,
};

int tg_ready_tape(void) { return PyType_Ready(&tape_type); }
