/* PublicFunction: a public function or method with a fast path in front of its Python function.

   The Python function, `general` (api/publish.py), takes any call. Most calls need nothing of what
   it does before the op's own `call`: no mode and no class wants to be asked, no keyword has another
   library's spelling, no flag is of a wrong type. That is decided here, from a table made once for
   each function, in about 60 ns less than in Python; every other call goes to `general`. An error of
   `call` goes to `failed`, which is the same as in `general`.

   To programs it is the Python function: its attributes are those of `general`, `__class__` too. */

#include "calls.h"

#define MOST 12 /* arguments of a call that is forwarded from here, with those that are added */

#define GIVES_UP 2000 /* calls in a row that were no remembered ones: none will be for a while */
#define RESTS 100000  /* calls until it is tried again */

/* The check that an argument needs: nothing, that it is a flag, or a whole number. */
enum { PLAIN = 0, FLAG = 1, WHOLE = 2, NOT_HERE = 3 };

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *general, *failed, *call;
    PyObject *first;     /* put in front of the arguments: the op; NULL: nothing */
    PyObject *run;       /* passed as `run=`; NULL: nothing */
    PyObject *noted_run; /* likewise while the call is recorded */
    PyObject *watched;   /* a list: while it has entries, somebody may want to be asked */
    PyObject *state;     /* its attributes of these names must be false */
    PyObject *switches;  /* a tuple */
    PyObject *kind;      /* the class of the first argument; NULL: any */
    PyObject *names;     /* keyword -> what to look at; those that are missing are not for here */
    PyObject *positions; /* bytes: likewise by position */
    PyObject *out_name;  /* under which writes into `out=` are counted; NULL: `call` knows `out` */
    PyObject *store;     /* (out, result, arguments): of another shape or dtype */
    PyObject *weak;
    int in_tuple; /* the arguments are passed as one tuple */
    int out_apart;   /* `out` may share no memory with the arguments */
    int out_decides; /* its dtype is that of the result */
    int least;    /* how many arguments there must be by position */
    int remembers; /* calls are remembered: call_steps.c */
    int misses;    /* calls since one was; below 0: how long it rests */
    tg_known_calls *known;
} public_function;

static PyObject *run_name, *reduce_name, *reduce_ex_name, *name_name, *general_name, *out_word,
    *dtype_word;

static int passes(int look, PyObject *value) {
    if (look == PLAIN)
        return 1;
    if (value == Py_None)
        return look != NOT_HERE;
    if (look == FLAG)
        return PyBool_Check(value);
    if (look != WHOLE)
        return 0;
    if (PyUnicode_CheckExact(value))
        return 1;
    if (!PyLong_CheckExact(value))
        return 0;
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && number != LLONG_MIN;
}

/* Whether a call needs nothing but `call`. -1: an exception. */
static int is_short(const public_function *f, PyObject *const *args, Py_ssize_t count,
                    PyObject *kwnames) {
    if (PyList_GET_SIZE(f->watched))
        return 0;
    if (count < f->least || count > PyBytes_GET_SIZE(f->positions))
        return 0;
    const char *look = PyBytes_AS_STRING(f->positions);
    for (Py_ssize_t i = 0; i < count; i++)
        if (look[i] && !passes(look[i], args[i]))
            return 0;
    if (f->kind && (!count || !PyObject_TypeCheck(args[0], (PyTypeObject *)f->kind)))
        return 0;
    if (kwnames) {
        if (f->in_tuple)
            return 0;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); i++) {
            PyObject *found = PyDict_GetItemWithError(f->names, PyTuple_GET_ITEM(kwnames, i));
            if (!found)
                return PyErr_Occurred() ? -1 : 0;
            if (!passes((int)PyLong_AsLong(found), args[count + i]))
                return 0;
        }
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(f->switches); i++) {
        PyObject *value = PyObject_GetAttr(f->state, PyTuple_GET_ITEM(f->switches, i));
        const int is_on = value ? PyObject_IsTrue(value) : -1;
        Py_XDECREF(value);
        if (is_on)
            return is_on < 0 ? -1 : 0;
    }
    return 1;
}

/* `call` with what is added to the arguments. */
static PyObject *forward(const public_function *f, PyObject *const *args, Py_ssize_t count,
                         PyObject *kwnames, PyObject *run) {
    if (!f->first && !f->run)
        return PyObject_Vectorcall(f->call, args, (size_t)count, kwnames);
    PyObject *all[MOST + 1], **given = all + 1;
    Py_ssize_t n = 0;
    const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (f->first)
        given[n++] = f->first;
    if (f->in_tuple) {
        PyObject *tuple = PyTuple_New(count);
        if (!tuple)
            return NULL;
        for (Py_ssize_t i = 0; i < count; i++)
            PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
        given[n++] = tuple;
        PyObject *result =
            PyObject_Vectorcall(f->call, given, (size_t)n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        Py_DECREF(tuple);
        return result;
    }
    for (Py_ssize_t i = 0; i < count + named; i++)
        given[n++] = args[i];
    Py_ssize_t by_position = n - named;
    if (f->first && !named)
        return tg_noted(f->call, 1, given, (size_t)n | PY_VECTORCALL_ARGUMENTS_OFFSET);
    PyObject *names = Py_XNewRef(kwnames);
    if (run) {
        given[n] = run;
        Py_XSETREF(names, named ? PySequence_Concat(kwnames, run_name) : Py_NewRef(run_name));
        if (!names)
            return NULL;
    }
    PyObject *result = PyObject_Vectorcall(
        f->call, given, (size_t)by_position | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
    Py_XDECREF(names);
    return result;
}

/* failed(error, args, kwargs) for an Exception of `call`; others leave as they are. */
static PyObject *explain(const public_function *f, PyObject *const *args, Py_ssize_t count,
                         PyObject *kwnames) {
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace)
        PyException_SetTraceback(error, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    PyObject *given = PyTuple_New(count), *named = PyDict_New(), *result = NULL;
    for (Py_ssize_t i = 0; given && i < count; i++)
        PyTuple_SET_ITEM(given, i, Py_NewRef(args[i]));
    int ok = given && named;
    for (Py_ssize_t i = 0; ok && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
        ok = PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[count + i]) == 0;
    if (ok) {
        PyObject *const all[] = {error, given, named};
        result = PyObject_Vectorcall(f->failed, all, 3, NULL);
    }
    Py_DECREF(error);
    Py_XDECREF(given);
    Py_XDECREF(named);
    return result;
}

static PyObject *called(PyObject *self, PyObject *const *args, size_t flags, PyObject *kwnames);

/* The keywords without that at place `at`, and with `dtype` if the result gets that of `out`. */
static PyObject *other_names(const public_function *f, PyObject *kwnames, Py_ssize_t at) {
    const Py_ssize_t named = PyTuple_GET_SIZE(kwnames);
    PyObject *names = PyTuple_New(named - 1 + f->out_decides);
    for (Py_ssize_t i = 0; names && i < named - 1; i++)
        PyTuple_SET_ITEM(names, i, Py_NewRef(PyTuple_GET_ITEM(kwnames, i < at ? i : i + 1)));
    if (names && f->out_decides)
        PyTuple_SET_ITEM(names, named - 1, Py_NewRef(dtype_word));
    return names;
}

static int has_name(PyObject *kwnames, PyObject *name) {
    return PySequence_Contains(kwnames, name) == 1;
}

/* A call with `out=` at place `at` of the keywords: without it, and its result is stored. */
static PyObject *called_with_output(public_function *f, PyObject *const *args, Py_ssize_t count,
                                    PyObject *kwnames, Py_ssize_t at) {
    PyObject *given[MOST + 1], *out = args[count + at], *names = NULL, *dtype = NULL, *made = NULL;
    const Py_ssize_t total = count + PyTuple_GET_SIZE(kwnames) - 1;
    int is_short = !PyList_GET_SIZE(f->watched) && total <= MOST && tg_is_tensor(out) &&
                   !(f->out_decides && has_name(kwnames, dtype_word));
    for (Py_ssize_t i = 0; is_short && i < total; i++)
        given[i] = args[i < count + at ? i : i + 1];
    if (!is_short || !tg_takes_output(out, given, total, f->out_apart))
        return PyObject_Vectorcall(f->general, args, (size_t)count, kwnames);
    if (f->out_decides && !(given[total] = dtype = PyObject_GetAttr(out, dtype_word)))
        return NULL;
    if ((total > count || dtype) && !(names = other_names(f, kwnames, at))) {
        Py_XDECREF(dtype);
        return NULL;
    }
    PyObject *result = called((PyObject *)f, given, (size_t)count, names);
    Py_XDECREF(names);
    Py_XDECREF(dtype);
    if (!result && PyErr_ExceptionMatches(PyExc_Exception)) { /* it has words of its own */
        PyErr_Clear();
        return PyObject_Vectorcall(f->general, args, (size_t)count, kwnames);
    }
    const int stored = result ? tg_store_output(out, result, f->out_name) : -1;
    if (stored > 0)
        made = Py_NewRef(out);
    PyObject *sources = stored == 0 ? PyTuple_New(total) : NULL;
    for (Py_ssize_t i = 0; sources && i < total; i++)
        PyTuple_SET_ITEM(sources, i, Py_NewRef(given[i]));
    if (sources) {
        PyObject *const all[] = {out, result, sources};
        made = PyObject_Vectorcall(f->store, all, 3, NULL);
        Py_DECREF(sources);
    }
    Py_XDECREF(result);
    return made;
}

static PyObject *called(PyObject *self, PyObject *const *args, size_t flags, PyObject *kwnames) {
    public_function *f = (public_function *)self;
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; f->out_name && i < named; i++)
        if (PyTuple_GET_ITEM(kwnames, i) == out_word && args[count + i] != Py_None)
            return called_with_output(f, args, count, kwnames, i);
    tg_signature signature;
    int records = 0;
    if (f->remembers && f->misses >= 0 && !PyList_GET_SIZE(f->watched) &&
        tg_sign(&signature, args, count, kwnames)) {
        PyObject *result = tg_run_known(&f->known, &signature, &records);
        if (result || PyErr_Occurred()) {
            f->misses = 0;
            return result;
        }
        if (++f->misses == GIVES_UP)
            f->misses = -RESTS;
    } else if (f->misses < 0) {
        f->misses++;
    }
    const int is_one = count + named + 2 <= MOST ? is_short(f, args, count, kwnames) : 0;
    if (is_one < 0)
        return NULL;
    if (!is_one)
        return PyObject_Vectorcall(f->general, args, flags, kwnames);
    records = records && tg_begin_recording(&signature, f->noted_run);
    PyObject *result =
        forward(f, args, count, named ? kwnames : NULL, records ? f->noted_run : f->run);
    if (records) {
        const int is_silent = tg_end_recording(f->known, result);
        if (!result && f->run && is_silent && PyErr_ExceptionMatches(PyExc_Exception)) {
            /* Errors name the function by what it runs. */
            PyErr_Clear();
            return PyObject_Vectorcall(f->general, args, flags, kwnames);
        }
    }
    return result ? result : explain(f, args, count, kwnames);
}

/* Attributes are those of the Python function, but how it is pickled, by its name, and `general`. */
static PyObject *attribute(PyObject *self, PyObject *name) {
    if (PyUnicode_Compare(name, general_name) == 0)
        return Py_NewRef(((public_function *)self)->general);
    if (PyUnicode_Compare(name, reduce_name) == 0 || PyUnicode_Compare(name, reduce_ex_name) == 0)
        return PyObject_GenericGetAttr(self, name);
    return PyObject_GetAttr(((public_function *)self)->general, name);
}

static int set_attribute(PyObject *self, PyObject *name, PyObject *value) {
    return PyObject_SetAttr(((public_function *)self)->general, name, value);
}

static PyObject *reduced(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyObject_GetAttr(((public_function *)self)->general, name_name);
}

static PyObject *written(PyObject *self) {
    return PyObject_Repr(((public_function *)self)->general);
}

static PyObject *bound(PyObject *self, PyObject *instance, PyObject *owner) {
    (void)owner;
    return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

static PyObject *or_null(PyObject *value) {
    return value == Py_None ? NULL : Py_NewRef(value);
}

static PyObject *new_function(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"general", "failed",   "call", "first", "run",       "watched",
                            "state",   "switches", "kind", "names", "positions", "in_tuple",
                            "least",   "remembers", "noted_run", "output", NULL};
    PyObject *general, *failed, *call, *first, *run, *watched, *state, *switches, *kind, *names,
        *positions, *noted_run, *out_name = Py_None, *store = Py_None;
    int in_tuple, least, remembers, out_apart = 0, out_decides = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$OOOOOO!OO!OO!SpipO(OOpp)", words, &general, &failed,
                                     &call, &first, &run, &PyList_Type, &watched, &state,
                                     &PyTuple_Type, &switches, &kind, &PyDict_Type, &names,
                                     &positions, &in_tuple, &least, &remembers, &noted_run, &out_name,
                                     &store, &out_apart, &out_decides))
        return NULL;
    public_function *f = (public_function *)type->tp_alloc(type, 0);
    if (!f)
        return NULL;
    f->vectorcall = called;
    f->general = Py_NewRef(general);
    f->failed = Py_NewRef(failed);
    f->call = Py_NewRef(call);
    f->first = or_null(first);
    f->run = or_null(run);
    f->noted_run = or_null(noted_run);
    f->out_name = or_null(out_name);
    f->store = or_null(store);
    f->out_apart = out_apart;
    f->out_decides = out_decides;
    f->watched = Py_NewRef(watched);
    f->state = Py_NewRef(state);
    f->switches = Py_NewRef(switches);
    f->kind = or_null(kind);
    f->names = Py_NewRef(names);
    f->positions = Py_NewRef(positions);
    f->in_tuple = in_tuple;
    f->least = least;
    f->remembers = remembers && !f->first && (!f->run || f->noted_run) &&
                   (!f->noted_run || Py_IS_TYPE(noted_run, &tg_noted_type));
    return (PyObject *)f;
}

static int visit(PyObject *self, visitproc visit, void *arg) {
    const public_function *f = (const public_function *)self;
    Py_VISIT(f->general);
    Py_VISIT(f->failed);
    Py_VISIT(f->call);
    Py_VISIT(f->first);
    Py_VISIT(f->run);
    Py_VISIT(f->store);
    Py_VISIT(f->state);
    Py_VISIT(f->kind);
    return 0;
}

static void release(PyObject *self) {
    public_function *f = (public_function *)self;
    PyObject_GC_UnTrack(self);
    if (f->weak)
        PyObject_ClearWeakRefs(self);
    Py_XDECREF(f->general);
    Py_XDECREF(f->failed);
    Py_XDECREF(f->call);
    Py_XDECREF(f->first);
    Py_XDECREF(f->run);
    Py_XDECREF(f->noted_run);
    Py_XDECREF(f->out_name);
    Py_XDECREF(f->store);
    Py_XDECREF(f->watched);
    Py_XDECREF(f->state);
    Py_XDECREF(f->switches);
    Py_XDECREF(f->kind);
    Py_XDECREF(f->names);
    Py_XDECREF(f->positions);
    tg_release_known(f->known);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef methods[] = {
    {"__reduce__", reduced, METH_NOARGS, "its name"},
    {"__reduce_ex__", reduced, METH_O, "its name"},
    {NULL, NULL, 0, NULL},
};

PyTypeObject tg_public_function_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tapegrad.kernels.cpu._kernels.PublicFunction",
    .tp_basicsize = sizeof(public_function),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_doc = "A public function with a fast path in front of its Python function.",
    .tp_new = new_function,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(public_function, vectorcall),
    .tp_getattro = attribute,
    .tp_setattro = set_attribute,
    .tp_descr_get = bound,
    .tp_repr = written,
    .tp_methods = methods,
    .tp_traverse = visit,
    .tp_dealloc = release,
    .tp_weaklistoffset = offsetof(public_function, weak),
};

int tg_ready_public_call(void) {
    run_name = Py_BuildValue("(N)", PyUnicode_InternFromString("run"));
    reduce_name = PyUnicode_InternFromString("__reduce__");
    reduce_ex_name = PyUnicode_InternFromString("__reduce_ex__");
    name_name = PyUnicode_InternFromString("__qualname__");
    general_name = PyUnicode_InternFromString("general");
    out_word = PyUnicode_InternFromString("out");
    dtype_word = PyUnicode_InternFromString("dtype");
    if (tg_ready_outputs() < 0 || !out_word || !dtype_word || !run_name || !reduce_name || !reduce_ex_name || !name_name || !general_name)
        return -1;
    return PyType_Ready(&tg_public_function_type);
}
