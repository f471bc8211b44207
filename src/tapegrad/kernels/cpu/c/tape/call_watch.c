/* Which functions run while a call is recorded: a profile function of Python's, in C.

   Python calls it for every function, tens of thousands of times in one recording. Nearly all are
   functions that were seen before, which are found in a table of code objects; the others go to
   two callbacks in Python. (A callback for every event took 20 to 30 % of a recording.) */

#include "module.h"

enum { IS_SEEN = 1, IS_WATCHED = 2 }; /* what `on_code` says about a code object, as a sum */

typedef struct {
    PyObject_HEAD PyObject *on_code; /* (frame) -> int: a function starts that was not seen yet */
    PyObject *on_call;               /* (frame, function): a watched one calls a function in C */
    void **keys;                     /* code objects, which the callbacks' owner keeps alive */
    unsigned char *flags;
    size_t room, used; /* `room` is a power of two */
} tg_watch;

static size_t place_of(const tg_watch *w, const void *code) {
    size_t at = ((uintptr_t)code >> 4) * (uintptr_t)0x9E3779B97F4A7C15u >> 20;
    for (at &= w->room - 1; w->keys[at] && w->keys[at] != code; at = (at + 1) & (w->room - 1))
        ;
    return at;
}

static int grow(tg_watch *w) {
    tg_watch larger = *w;
    larger.room = w->room ? 2 * w->room : 1024;
    larger.keys = PyMem_Calloc(larger.room, sizeof(void *));
    larger.flags = PyMem_Calloc(larger.room, 1);
    if (!larger.keys || !larger.flags) {
        PyMem_Free(larger.keys);
        PyMem_Free(larger.flags);
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < w->room; i++)
        if (w->keys[i]) {
            const size_t at = place_of(&larger, w->keys[i]);
            larger.keys[at] = w->keys[i];
            larger.flags[at] = w->flags[i];
        }
    PyMem_Free(w->keys);
    PyMem_Free(w->flags);
    w->keys = larger.keys, w->flags = larger.flags, w->room = larger.room;
    return 0;
}

static int on_event(PyObject *self, PyFrameObject *frame, int event, PyObject *function) {
    if (event != PyTrace_CALL && event != PyTrace_C_CALL)
        return 0;
    tg_watch *w = (tg_watch *)self;
    PyCodeObject *code = PyFrame_GetCode(frame);
    Py_DECREF(code); /* the frame keeps it */
    size_t at = place_of(w, code);
    const int flags = w->keys[at] ? w->flags[at] : 0;
    PyObject *answer;
    if (event == PyTrace_C_CALL) {
        if (!(flags & IS_WATCHED) || !function)
            return 0;
        answer = PyObject_CallFunctionObjArgs(w->on_call, (PyObject *)frame, function, NULL);
        Py_XDECREF(answer);
        return answer ? 0 : -1;
    }
    if (flags & IS_SEEN)
        return 0;
    answer = PyObject_CallOneArg(w->on_code, (PyObject *)frame);
    const long said = answer ? PyLong_AsLong(answer) : -1;
    Py_XDECREF(answer);
    if (PyErr_Occurred())
        return -1;
    if (2 * w->used >= w->room && grow(w) < 0)
        return -1;
    at = place_of(w, code);
    w->used += !w->keys[at];
    w->keys[at] = code;
    w->flags[at] = (unsigned char)(said & (IS_SEEN | IS_WATCHED));
    return 0;
}

static PyObject *start(PyObject *self, PyObject *unused) {
    (void)unused;
    PyEval_SetProfile(on_event, self);
    Py_RETURN_NONE;
}

static PyObject *stop(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    PyEval_SetProfile(NULL, NULL);
    Py_RETURN_NONE;
}

static PyObject *new_watch(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *on_code, *on_call;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OO", &on_code, &on_call))
        return NULL;
    tg_watch *w = (tg_watch *)type->tp_alloc(type, 0);
    if (!w || grow(w) < 0)
        return Py_XDECREF(w), NULL;
    w->on_code = Py_NewRef(on_code);
    w->on_call = Py_NewRef(on_call);
    return (PyObject *)w;
}

static int visit_watch(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((tg_watch *)self)->on_code);
    Py_VISIT(((tg_watch *)self)->on_call);
    return 0;
}

static int clear_watch(PyObject *self) {
    Py_CLEAR(((tg_watch *)self)->on_code);
    Py_CLEAR(((tg_watch *)self)->on_call);
    return 0;
}

static void free_watch(PyObject *self) {
    PyObject_GC_UnTrack(self);
    clear_watch(self);
    PyMem_Free(((tg_watch *)self)->keys);
    PyMem_Free(((tg_watch *)self)->flags);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef methods[] = {
    {"start", start, METH_NOARGS, "start(): be told of the functions that this thread calls"},
    {"stop", stop, METH_NOARGS, "stop(): no longer"},
    {NULL, NULL, 0, NULL},
};

PyTypeObject tg_watch_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tapegrad.CallWatch",
    .tp_basicsize = sizeof(tg_watch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "CallWatch(on_code, on_call): which functions run in this thread",
    .tp_new = new_watch,
    .tp_dealloc = free_watch,
    .tp_traverse = visit_watch,
    .tp_clear = clear_watch,
    .tp_methods = methods,
};
