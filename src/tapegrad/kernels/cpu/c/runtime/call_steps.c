/* Remembered calls: the ops that a public function ran for arguments of one signature.

   The Python part of most public functions reads shapes, dtypes and numbers, checks and completes
   them, and ends in one op or a few. What it did for a signature (the layout of each tensor, the
   value of everything else) it will do again: the second call of a signature is recorded, and later
   ones run the recorded ops alone, through the same function that the Python part calls.
   tests/test_remembered_calls.py compares them with the Python part.

   What cannot be a step ends the recording, and the signature stays with the Python part: a tensor
   that no recorded op made, attributes with arrays, a write, a change of a tensor or of its node
   between the steps, and what is told to modes that record (core/python_dispatch.py): values that
   are read, places in memory, a warning, a change of something else. A check of elements is a step
   of its own where it is `noted`: it has to give the answer that it gave. */

#include "calls.h"

#include <stdlib.h>
#include <string.h>

#define MOST_STEPS 12
#define MOST_SOURCES 16 /* of a step, and of what is returned */
#define WAYS 2
#define PLACES 64       /* signatures of one function */
#define STAYS 4         /* how many calls of other signatures one outlasts */

enum { CONSTANT, INPUT, RESULT, PART };
enum { SEEN, NEVER, KNOWN };

typedef struct {
    int kind, at, part;
    PyObject *value; /* of a constant */
} source;

typedef struct {
    PyObject *function, *op, *attrs;
    PyObject *expected; /* what a check that looks at elements has to say; NULL: it made tensors */
    int is_open;   /* it had something that is not known: no other step may need it */
    int is_spread; /* function(*sources) instead of function(op, (*sources,), attrs) */
    int count;
    source sources[MOST_SOURCES];
} step;

typedef struct {
    int users, steps, count; /* who hold it; of steps, and of sources that are returned */
    PyTypeObject *container; /* tuple or list; NULL: the one source itself */
    source returned[MOST_SOURCES];
    step step[];
} route;

typedef struct {
    uint64_t hash;
    int length, state, stays;
    unsigned char *bytes;
    route *route;
} place;

struct tg_known_calls {
    place places[PLACES];
};

/* ------------------------------------------------------------------ recording */

typedef struct {
    unsigned long thread;
    int is_on, failed, inside, steps;
    const tg_signature *signature;
    PyObject *results[MOST_STEPS]; /* owned */
    PyObject *marks;               /* the fields of the tensors after the last step; owned */
    PyObject *writer;              /* of an in-place function: what writes */
    long writes;                   /* into the arguments before, and into results when made */
    step step[MOST_STEPS];
    long events;
} recording;

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *function;
    int is_spread;
} noted;

static recording now;

static int is_recording(void) {
    return now.is_on && !now.inside && !now.failed && now.thread == PyThread_get_thread_ident();
}

/* How many writes into the memory of a tensor were counted. */
static long writes_into(PyObject *t) {
    long found = 0;
    PyObject *cell = PyObject_TypeCheck(t, tg_tensor_type) ? PyObject_GetAttrString(t, "_cell") : NULL;
    PyObject *count = cell && cell != Py_None ? PyObject_GetAttrString(cell, "n") : NULL;
    if (count)
        found = PyLong_AsLong(count);
    Py_XDECREF(count);
    Py_XDECREF(cell);
    PyErr_Clear();
    return found;
}

static long writes_into_result(PyObject *result) {
    long found = writes_into(result);
    for (Py_ssize_t j = 0; PyTuple_Check(result) && j < PyTuple_GET_SIZE(result); j++)
        found += writes_into(PyTuple_GET_ITEM(result, j));
    return found;
}

/* Append the fields of a tensor and of its node; those that are not set are None. */
static int mark(PyObject *list, PyObject *t) {
    if (!PyObject_TypeCheck(t, tg_tensor_type))
        return 1;
    PyObject *node = NULL;
    for (int turn = 0; turn < 2; turn++) {
        PyObject *names = turn ? tg_node_fields : tg_tensor_fields;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names) && (!turn || node); i++) {
            PyObject *value = PyObject_GetAttr(turn ? node : t, PyTuple_GET_ITEM(names, i));
            PyErr_Clear();
            const int done = PyList_Append(list, value ? value : Py_None) == 0;
            Py_XDECREF(value);
            if (!done)
                return 0;
        }
        if (!turn)
            node = PyObject_GetAttrString(t, "_node");
        if (node == Py_None)
            Py_CLEAR(node);
    }
    Py_XDECREF(node);
    return 1;
}

/* The fields of all tensors that the recording knows. */
static PyObject *marks(void) {
    PyObject *list = PyList_New(0);
    int done = list != NULL;
    for (int i = 0; done && i < now.signature->inputs; i++)
        done = mark(list, now.signature->input[i]);
    for (int k = 0; done && k < now.steps; k++) {
        PyObject *result = now.results[k];
        done = mark(list, result);
        for (Py_ssize_t j = 0; done && PyTuple_Check(result) && j < PyTuple_GET_SIZE(result); j++)
            done = mark(list, PyTuple_GET_ITEM(result, j));
    }
    if (!done)
        Py_CLEAR(list);
    return list;
}

/* Whether nothing but the steps changed the tensors: no mark was put on a node, say. */
static int are_untouched(void) {
    PyObject *found = marks();
    int same = found && now.marks && PyList_GET_SIZE(found) == PyList_GET_SIZE(now.marks);
    for (Py_ssize_t i = 0; same && i < PyList_GET_SIZE(found); i++) {
        PyObject *x = PyList_GET_ITEM(found, i), *y = PyList_GET_ITEM(now.marks, i);
        same = x == y || (PyLong_CheckExact(x) && PyLong_CheckExact(y) &&
                          PyObject_RichCompareBool(x, y, Py_EQ) == 1);
    }
    Py_XDECREF(found);
    PyErr_Clear();
    return same;
}

/* Tests are told where the Python part runs (1) and where a step does (0), and how a recording
   ends: 2, or 3 if it is kept. */
static void (*watcher)(int);

static void tell_watcher(int what) {
    if (watcher)
        watcher(what);
}

PyObject *tg_watch_recordings(PyObject *self, PyObject *address) {
    (void)self;
    watcher = (void (*)(int))PyLong_AsVoidPtr(address);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* How often something happened that the ops do not say: core/thread_modes.py. */
static long events(void) {
    PyObject *count = PyObject_GetAttrString(tg_unrepeated, "count");
    const long found = count ? PyLong_AsLong(count) : -1;
    Py_XDECREF(count);
    PyErr_Clear();
    return found;
}

/* Whether a value can be kept: numbers, words, classes, ops, and tuples of these. */
static int is_constant(PyObject *value) {
    if (value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) ||
        PyFloat_CheckExact(value) || PyUnicode_CheckExact(value) || PyComplex_CheckExact(value) ||
        value == Py_Ellipsis || (PyObject *)Py_TYPE(value) == tg_dtype_type ||
        PyArray_DescrCheck(value) || PyArray_IsScalar(value, Generic) || PyType_Check(value) || Py_TYPE(value) == tg_op_type)
        return 1;
    if (!PyTuple_CheckExact(value))
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
        if (!is_constant(PyTuple_GET_ITEM(value, i)))
            return 0;
    return 1;
}

static int find_source(PyObject *value, source *found) {
    *found = (source){0};
    if (is_constant(value)) {
        found->value = value;
        return 1;
    }
    for (int i = 0; i < now.signature->inputs; i++)
        if (now.signature->input[i] == value) {
            found->kind = INPUT;
            found->at = i;
            return 1;
        }
    for (int k = now.steps - 1; k >= 0; k--) {
        PyObject *result = now.results[k];
        found->at = k;
        if (result == value) {
            found->kind = RESULT;
            return 1;
        }
        found->kind = PART;
        for (Py_ssize_t j = 0; PyTuple_Check(result) && j < PyTuple_GET_SIZE(result); j++)
            if (PyTuple_GET_ITEM(result, j) == value) {
                found->part = (int)j;
                return 1;
            }
    }
    return 0;
}

static int find_sources(PyObject *const *values, Py_ssize_t count, source *found) {
    if (count > MOST_SOURCES)
        return 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!find_source(values[i], found + i))
            return 0;
    return 1;
}

static void note_step(PyObject *function, int is_spread, PyObject *const *args, Py_ssize_t count,
                      PyObject *result) {
    if (!result || now.steps == MOST_STEPS || !count) {
        now.failed = 1;
        return;
    }
    step *next = &now.step[now.steps];
    *next = (step){.function = function, .op = args[0], .is_spread = is_spread, .is_open = 1};
    PyObject *const *sources = args;
    Py_ssize_t given = count;
    if (!is_spread) {
        const int is_plain = count < 4 || (count == 4 && PyObject_IsTrue(args[3]) == 0);
        const int has_tensors = count > 1 && PyTuple_CheckExact(args[1]);
        sources = has_tensors ? PySequence_Fast_ITEMS(args[1]) : NULL;
        given = is_plain && has_tensors && (count < 3 || is_constant(args[2]))
                    ? PyTuple_GET_SIZE(args[1])
                    : MOST_SOURCES + 1;
        next->attrs = count > 2 ? args[2] : NULL;
    }
    if (find_sources(sources, given, next->sources)) {
        next->count = (int)given;
        next->is_open = 0;
    }
    next->expected = is_constant(result) ? Py_NewRef(result) : NULL;
    Py_XINCREF(next->attrs);
    for (int i = 0; i < next->count; i++)
        Py_XINCREF(next->sources[i].value);
    now.results[now.steps++] = Py_NewRef(result);
    now.writes += writes_into_result(result);
}

/* Call a function that runs an op, and note it if this thread records. */
PyObject *tg_noted(PyObject *function, int is_spread, PyObject *const *args, size_t flags) {
    if (!is_recording())
        return PyObject_Vectorcall(function, args, flags, NULL);
    tell_watcher(0);
    if (!are_untouched())
        now.failed = 1;
    now.inside = 1;
    PyObject *result = PyObject_Vectorcall(function, args, flags, NULL);
    now.inside = 0;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    note_step(function, is_spread, args, PyVectorcall_NARGS(flags), result);
    Py_XSETREF(now.marks, marks());
    PyErr_Restore(type, error, trace);
    tell_watcher(1);
    return result;
}

int tg_begin_recording(const tg_signature *s, PyObject *writer) {
    if (now.is_on)
        return 0;
    memset(&now, 0, sizeof now);
    now.is_on = 1;
    now.thread = PyThread_get_thread_ident();
    now.signature = s;
    now.writer = writer ? ((noted *)writer)->function : NULL;
    now.events = events();
    for (int i = 0; i < s->inputs; i++)
        now.writes += writes_into(s->input[i]);
    now.marks = marks();
    PyErr_Clear();
    tell_watcher(1);
    return 1;
}

static void release_step(step *s) {
    Py_XDECREF(s->attrs);
    Py_XDECREF(s->expected);
    for (int i = 0; i < s->count; i++)
        Py_XDECREF(s->sources[i].value);
}

static void release_route(route *r) {
    if (!r || --r->users > 0)
        return;
    for (int k = 0; k < r->steps; k++)
        release_step(&r->step[k]);
    for (int i = 0; i < r->count; i++)
        Py_XDECREF(r->returned[i].value);
    free(r);
}

/* Which steps are needed for what is returned, and all checks; 0: one of them is not known. */
static int find_needed(const source *returned, int count, int *needed) {
    for (int k = 0; k < now.steps; k++)
        needed[k] = now.step[k].expected != NULL || now.writer;
    for (int i = 0; i < count; i++)
        if (returned[i].kind >= RESULT)
            needed[returned[i].at] = 1;
    for (int k = now.steps - 1; k >= 0; k--) {
        if (needed[k] && now.step[k].is_open)
            return 0;
        for (int i = 0; needed[k] && i < now.step[k].count; i++)
            if (now.step[k].sources[i].kind >= RESULT)
                needed[now.step[k].sources[i].at] = 1;
    }
    return 1;
}

/* Leave out the steps that are not needed: `returned` and the sources count the others. */
static void drop_unneeded(source *returned, int count, const int *needed) {
    int place[MOST_STEPS], kept = 0;
    for (int k = 0; k < now.steps; k++) {
        place[k] = kept;
        if (!needed[k]) {
            release_step(&now.step[k]);
            Py_DECREF(now.results[k]);
            continue;
        }
        for (int i = 0; i < now.step[k].count; i++)
            if (now.step[k].sources[i].kind >= RESULT)
                now.step[k].sources[i].at = place[now.step[k].sources[i].at];
        now.results[kept] = now.results[k];
        now.step[kept++] = now.step[k];
    }
    for (int i = 0; i < count; i++)
        if (returned[i].kind >= RESULT)
            returned[i].at = place[returned[i].at];
    now.steps = kept;
}

static route *recorded_route(PyObject *result) {
    source returned[MOST_SOURCES];
    int count = 1, needed[MOST_STEPS];
    PyTypeObject *container = NULL;
    for (int i = 0; i < now.signature->inputs; i++)
        now.writes -= writes_into(now.signature->input[i]);
    for (int k = 0; k < now.steps; k++)
        now.writes -= writes_into_result(now.results[k]);
    /* An in-place function is checks, and one write into its tensor, which it returns. */
    const int last = now.steps - 1;
    int is_write = now.writer && now.steps && now.step[last].function == now.writer &&
                   now.results[last] == result && now.signature->inputs &&
                   now.signature->input[0] == result;
    for (int k = 0; k < last; k++)
        is_write = is_write && now.step[k].expected;
    if (now.failed || (now.writes && !is_write) || (now.writer && !is_write) ||
        events() != now.events || !are_untouched() || is_constant(result))
        return NULL;
    if (!find_source(result, returned)) {
        if (!PyTuple_CheckExact(result) && !PyList_CheckExact(result))
            return NULL;
        container = Py_TYPE(result);
        count = (int)PySequence_Fast_GET_SIZE(result);
        if (!find_sources(PySequence_Fast_ITEMS(result), count, returned))
            return NULL;
        for (int i = 0; i < count; i++)
            if (returned[i].kind == CONSTANT) /* a number that was read from somewhere */
                return NULL;
    }
    if (!find_needed(returned, count, needed))
        return NULL;
    drop_unneeded(returned, count, needed);
    route *r = malloc(sizeof *r + (size_t)now.steps * sizeof(step));
    if (!r)
        return NULL;
    r->users = 1;
    r->steps = now.steps;
    r->count = count;
    r->container = container;
    memcpy(r->step, now.step, (size_t)now.steps * sizeof(step));
    memcpy(r->returned, returned, (size_t)count * sizeof(source));
    for (int i = 0; i < count; i++)
        Py_XINCREF(r->returned[i].value);
    return r;
}

static place *find_place(tg_known_calls *known, const tg_signature *s, int makes) {
    place *base = &known->places[s->hash % (PLACES / WAYS) * WAYS], *victim = NULL;
    for (int w = 0; w < WAYS; w++) {
        place *p = base + w;
        if (p->bytes && p->hash == s->hash && p->length == s->length &&
            memcmp(p->bytes, s->bytes, (size_t)s->length) == 0) {
            p->stays = STAYS;
            return p;
        }
        if (!victim || !p->bytes || (victim->bytes && p->stays < victim->stays))
            victim = p;
    }
    if (!makes || (victim->bytes && --victim->stays >= 0))
        return NULL;
    unsigned char *bytes = malloc((size_t)s->length);
    if (!bytes)
        return NULL;
    free(victim->bytes);
    release_route(victim->route);
    memcpy(bytes, s->bytes, (size_t)s->length);
    *victim = (place){s->hash, s->length, SEEN, STAYS, bytes, NULL};
    return NULL;
}

/* Keep what was recorded for the signature; `result` is what the Python part returned, or NULL.
   Whether the Python part may run again: it neither warned nor changed anything. */
int tg_end_recording(tg_known_calls *known, PyObject *result) {
    PyObject *type, *error, *trace;
    tell_watcher(0);
    PyErr_Fetch(&type, &error, &trace);
    const int is_silent = events() == now.events;
    PyErr_Restore(type, error, trace);
    place *p = find_place(known, now.signature, 0);
    route *r = result && p ? recorded_route(result) : NULL;
    tell_watcher(r ? 3 : 2);
    if (p && p->state == SEEN) {
        p->state = r ? KNOWN : NEVER;
        p->route = r;
    }
    for (int k = 0; k < now.steps; k++) {
        Py_DECREF(now.results[k]);
        if (!r)
            release_step(&now.step[k]);
    }
    Py_CLEAR(now.marks);
    now.is_on = 0;
    return is_silent;
}

/* ------------------------------------------------------------------ running */

static PyObject *value_of(const source *from, PyObject *const *inputs, PyObject *const *results) {
    switch (from->kind) {
    case CONSTANT:
        return from->value;
    case INPUT:
        return inputs[from->at];
    case RESULT:
        return results[from->at];
    default:
        return PyTuple_Check(results[from->at]) &&
                       from->part < PyTuple_GET_SIZE(results[from->at])
                   ? PyTuple_GET_ITEM(results[from->at], from->part)
                   : NULL;
    }
}

static PyObject *run_step(const step *s, PyObject *const *inputs, PyObject *const *results) {
    PyObject *all[MOST_SOURCES + 2], **args = all + 1;
    PyObject *tuple = s->is_spread ? NULL : PyTuple_New(s->count);
    if (!s->is_spread && !tuple)
        return NULL;
    args[0] = s->op;
    for (int i = 0; i < s->count; i++) {
        PyObject *value = value_of(&s->sources[i], inputs, results);
        if (!value) {
            Py_XDECREF(tuple);
            return PyErr_Format(PyExc_RuntimeError, "an op returned less than before");
        }
        if (s->is_spread)
            args[i] = value;
        else
            PyTuple_SET_ITEM(tuple, i, Py_NewRef(value));
    }
    size_t count = (size_t)s->count;
    if (!s->is_spread) {
        args[1] = tuple;
        args[2] = s->attrs;
        count = s->attrs ? 3 : 2;
    }
    PyObject *result =
        tg_noted(s->function, s->is_spread, args, count | PY_VECTORCALL_ARGUMENTS_OFFSET);
    Py_XDECREF(tuple);
    if (result && s->expected && result != s->expected &&
        (Py_TYPE(result) != Py_TYPE(s->expected) ||
         PyObject_RichCompareBool(result, s->expected, Py_EQ) != 1))
        Py_CLEAR(result);
    return result;
}

static PyObject *run_route(const route *r, PyObject *const *inputs) {
    PyObject *results[MOST_STEPS], *made = NULL;
    int k = 0;
    while (k < r->steps && (results[k] = run_step(&r->step[k], inputs, results)))
        k++;
    if (k == r->steps && !r->container) {
        made = Py_XNewRef(value_of(r->returned, inputs, results));
    } else if (k == r->steps) {
        const int in_list = r->container == &PyList_Type;
        made = in_list ? PyList_New(r->count) : PyTuple_New(r->count);
        for (int i = 0; made && i < r->count; i++) {
            PyObject *value = value_of(&r->returned[i], inputs, results);
            if (!value)
                Py_CLEAR(made);
            else if (in_list)
                PyList_SET_ITEM(made, i, Py_NewRef(value));
            else
                PyTuple_SET_ITEM(made, i, Py_NewRef(value));
        }
    }
    while (k > 0)
        Py_DECREF(results[--k]);
    return made;
}

/* The result of a call whose ops are known; NULL without an exception: the Python part takes it.
   `*records` says that it should be recorded. */
PyObject *tg_run_known(tg_known_calls **known, const tg_signature *s, int *records) {
    *records = 0;
    if (!*known && !(*known = calloc(1, sizeof **known)))
        return NULL;
    const place *p = find_place(*known, s, 1);
    if (!p || p->state == NEVER)
        return NULL;
    if (p->state == SEEN) {
        *records = !now.is_on;
        return NULL;
    }
    route *r = p->route;
    r->users++;
    PyObject *result = run_route(r, s->input);
    release_route(r);
    if (!result && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear(); /* the Python part has the words for it */
    return result;
}

void tg_release_known(tg_known_calls *known) {
    for (int i = 0; known && i < PLACES; i++) {
        free(known->places[i].bytes);
        release_route(known->places[i].route);
    }
    free(known);
}

/* ------------------------------------------------------------------ Noted */

static PyObject *call_noted(PyObject *self, PyObject *const *args, size_t flags, PyObject *kwnames) {
    const noted *n = (const noted *)self;
    if (!now.is_on || kwnames) {
        if (is_recording())
            now.failed = 1;
        return PyObject_Vectorcall(n->function, args, flags, kwnames);
    }
    return tg_noted(n->function, n->is_spread, args, flags);
}

static PyObject *new_noted(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"function", "spread", NULL};
    PyObject *function;
    int is_spread = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p", words, &function, &is_spread))
        return NULL;
    noted *n = (noted *)type->tp_alloc(type, 0);
    if (!n)
        return NULL;
    n->vectorcall = call_noted;
    n->function = Py_NewRef(function);
    n->is_spread = is_spread;
    return (PyObject *)n;
}

static void dealloc_noted(PyObject *self) {
    Py_DECREF(((noted *)self)->function);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef noted_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(noted, function), READONLY, "the function"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject tg_noted_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tapegrad.kernels.cpu._kernels.Noted",
    .tp_basicsize = sizeof(noted),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "A function that runs ops, whose calls are noted while a public function is recorded.",
    .tp_new = new_noted,
    .tp_dealloc = dealloc_noted,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(noted, vectorcall),
    .tp_members = noted_members,
};
