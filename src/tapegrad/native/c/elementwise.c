/* Elementwise: a callable that runs a program of the vector machine on arrays and numbers.

   It takes what it can do at once (floats that lie densely, numbers, broadcasting) and hands
   everything else to its fallback, which is the op's own formula on NumPy. */

#include "module.h"

#include <string.h>

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *fallback; /* called with the same arguments */
    PyObject *maker;    /* () -> a program, or None; NULL once it was asked */
    tg_program program[2];
    int made;                       /* whether there is a program */
    int kind[TG_MOST_OPERANDS];     /* of the outputs: -1 as computed, or TG_BOOL */
    int as_list;                    /* several outputs: a list */
} Elementwise;

#define PARALLEL_FROM 32768.0 /* nanoseconds: from here on the GIL is released */

static int kind_of(PyArrayObject *x) {
    switch (PyArray_TYPE(x)) {
    case NPY_FLOAT:
        return TG_F32;
    case NPY_DOUBLE:
        return TG_F64;
    case NPY_BOOL:
        return TG_BOOL;
    default:
        return -1;
    }
}

/* The arguments as operands; 0: not for us. */
static int read_arguments(PyObject *const *args, int count, tg_operand *operands,
                          PyArrayObject **arrays, int *computed) {
    *computed = -1;
    for (int k = 0; k < count; k++) {
        PyObject *arg = args[k];
        arrays[k] = NULL;
        operands[k].data = NULL;
        if (PyArray_CheckExact(arg)) {
            PyArrayObject *x = (PyArrayObject *)arg;
            int kind = kind_of(x);
            if (kind < 0 || !PyArray_ISBEHAVED_RO(x))
                return 0;
            if (kind != TG_BOOL) {
                if (*computed >= 0 && *computed != kind)
                    return 0;
                *computed = kind;
            }
            operands[k].kind = kind;
            operands[k].data = PyArray_BYTES(x);
            arrays[k] = x;
        } else if (PyFloat_CheckExact(arg)) {
            operands[k].number = PyFloat_AS_DOUBLE(arg);
        } else if (PyLong_CheckExact(arg)) {
            operands[k].number = PyLong_AsDouble(arg);
            if (operands[k].number == -1.0 && PyErr_Occurred()) {
                PyErr_Clear();
                return 0;
            }
        } else {
            return 0;
        }
    }
    return *computed >= 0;
}

/* The index space of arrays that all lie in C order, broadcast, or all in the same dense order. */
static int find_space(PyArrayObject *const *arrays, int count, tg_operand *operands, int *dims,
                      int64_t *size, int *flat) {
    PyArrayObject *first = NULL;
    int same = 1, in_c_order = 1;
    *dims = 0;
    for (int k = 0; k < count; k++) {
        PyArrayObject *x = arrays[k];
        if (!x)
            continue;
        in_c_order = in_c_order && PyArray_IS_C_CONTIGUOUS(x);
        if (PyArray_NDIM(x) > *dims)
            *dims = PyArray_NDIM(x);
        if (!first)
            first = x;
        else
            same = same && PyArray_NDIM(x) == PyArray_NDIM(first) &&
                   PyArray_CompareLists(PyArray_DIMS(x), PyArray_DIMS(first), PyArray_NDIM(x));
    }
    if (*dims > TG_MOST_DIMS)
        return 0;
    if (same && in_c_order) {
        *flat = 1;
        size[0] = PyArray_SIZE(first);
        return 1;
    }
    if (!in_c_order)
        return 0;
    *flat = 0;
    for (int d = 0; d < *dims; d++)
        size[d] = 1;
    for (int k = 0; k < count; k++) {
        if (!arrays[k])
            continue;
        int ahead = *dims - PyArray_NDIM(arrays[k]);
        for (int d = ahead; d < *dims; d++) {
            int64_t n = PyArray_DIM(arrays[k], d - ahead);
            if (size[d] == 1)
                size[d] = n;
            else if (n != 1 && n != size[d])
                return 0; /* the fallback says what is wrong */
        }
    }
    for (int k = 0; k < count; k++) {
        if (!arrays[k])
            continue;
        int ahead = *dims - PyArray_NDIM(arrays[k]);
        for (int d = 0; d < *dims; d++)
            operands[k].stride[d] = d < ahead || PyArray_DIM(arrays[k], d - ahead) == 1
                                        ? 0
                                        : PyArray_STRIDE(arrays[k], d - ahead);
    }
    return 1;
}

static int ask_maker(Elementwise *self);

static PyObject *run(Elementwise *self, PyObject *const *args, PyObject *out_given) {
    tg_operand operands[TG_MOST_OPERANDS];
    PyArrayObject *arrays[TG_MOST_OPERANDS];
    const int inputs = self->program[0].inputs, outputs = self->program[0].outputs;
    int computed, dims, flat;
    int64_t size[TG_MOST_DIMS];
    if (!read_arguments(args, inputs, operands, arrays, &computed) ||
        !find_space(arrays, inputs, operands, &dims, size, &flat))
        Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *like = NULL;
    npy_intp shape[TG_MOST_DIMS];
    double elements = 1;
    for (int k = 0; k < inputs; k++)
        if (arrays[k] && (!like || PyArray_NDIM(arrays[k]) > PyArray_NDIM(like)))
            like = arrays[k];
    for (int d = 0; d < dims; d++)
        shape[d] = flat ? PyArray_DIM(like, d) : size[d];
    for (int d = 0; d < dims; d++)
        elements *= (double)shape[d];
    const tg_program *program = &self->program[computed == TG_F64];
    PyObject *made[TG_MOST_OPERANDS];
    for (int o = 0; o < outputs; o++) {
        int kind = self->kind[o] < 0 ? computed : self->kind[o];
        int type = kind == TG_F32 ? NPY_FLOAT : kind == TG_F64 ? NPY_DOUBLE : NPY_BOOL;
        PyObject *out = out_given;
        if (out) {
            PyArrayObject *x = (PyArrayObject *)out;
            if (!PyArray_CheckExact(out) || PyArray_TYPE(x) != type || PyArray_NDIM(x) != dims ||
                !PyArray_IS_C_CONTIGUOUS(x) || !PyArray_ISBEHAVED(x) ||
                !PyArray_CompareLists(PyArray_DIMS(x), shape, dims))
                Py_RETURN_NOTIMPLEMENTED;
            Py_INCREF(out);
        } else {
            out = PyArray_New(&PyArray_Type, dims, shape, type, NULL, NULL, 0, 0, NULL);
            if (!out) {
                while (o--)
                    Py_DECREF(made[o]);
                return NULL;
            }
        }
        made[o] = out;
        tg_operand *x = &operands[inputs + o];
        x->kind = kind;
        x->data = PyArray_BYTES((PyArrayObject *)out);
        for (int d = 0; d < dims && !flat; d++)
            x->stride[d] = PyArray_STRIDE((PyArrayObject *)out, d);
    }
    if (flat) {
        dims = 1;
        for (int k = 0; k < inputs + outputs; k++)
            operands[k].stride[0] = operands[k].kind == TG_F32   ? 4
                                    : operands[k].kind == TG_F64 ? 8
                                                                 : 1;
    }
    if (elements * program->cost > PARALLEL_FROM) {
        Py_BEGIN_ALLOW_THREADS tg_machine(program, operands, dims, size);
        Py_END_ALLOW_THREADS
    } else {
        tg_machine(program, operands, dims, size);
    }
    if (outputs == 1 && !self->as_list)
        return made[0];
    PyObject *list = PyList_New(outputs);
    for (int o = 0; o < outputs; o++)
        if (list)
            PyList_SET_ITEM(list, o, made[o]);
        else
            Py_DECREF(made[o]);
    return list;
}

static PyObject *call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    Elementwise *self = (Elementwise *)callable;
    if (self->maker && ask_maker(self) < 0)
        return NULL;
    if (self->made && !names && PyVectorcall_NARGS(nargsf) == self->program[0].inputs) {
        PyObject *found = run(self, args, NULL);
        if (found != Py_NotImplemented)
            return found;
        Py_DECREF(found);
    }
    return PyObject_Vectorcall(self->fallback, args, nargsf, names);
}

/* out.into(target, *args): the same, written into `target`; False where it is not for us. */
static PyObject *into(PyObject *callable, PyObject *const *args, Py_ssize_t count) {
    Elementwise *self = (Elementwise *)callable;
    if (self->maker && ask_maker(self) < 0)
        return NULL;
    if (!self->made || self->program[0].outputs != 1 || count != self->program[0].inputs + 1)
        Py_RETURN_FALSE;
    PyObject *found = run(self, args + 1, args[0]);
    if (!found)
        return NULL;
    int done = found != Py_NotImplemented;
    Py_DECREF(found);
    return PyBool_FromLong(done);
}

/* A program as Python says it: (inputs, constants, kinds of outputs, registers, steps, cost). */
static int read_program(Elementwise *self, PyObject *said) {
    tg_program *program = &self->program[0];
    PyObject *constants, *kinds, *steps;
    if (!PyArg_ParseTuple(said, "iO!O!iO!d", &program->inputs, &PyTuple_Type, &constants,
                          &PyTuple_Type, &kinds, &program->registers, &PyTuple_Type, &steps,
                          &program->cost))
        return -1;
    program->constants = (int)PyTuple_GET_SIZE(constants);
    program->outputs = (int)PyTuple_GET_SIZE(kinds);
    program->steps = (int)PyTuple_GET_SIZE(steps);
    if (program->inputs < 1 || program->outputs < 1 ||
        program->inputs + program->outputs > TG_MOST_OPERANDS ||
        program->constants > TG_MOST_OPERANDS || program->steps > TG_MOST_STEPS / 2 ||
        program->registers < program->inputs + program->constants + program->outputs ||
        program->registers > TG_MOST_REGISTERS / 2) {
        PyErr_SetString(PyExc_ValueError, "a program that does not fit the vector machine");
        return -1;
    }
    for (int i = 0; i < program->constants; i++) {
        program->constant[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(constants, i));
        if (program->constant[i] == -1.0 && PyErr_Occurred())
            return -1;
    }
    for (int o = 0; o < program->outputs; o++) {
        self->kind[o] = (int)PyLong_AsLong(PyTuple_GET_ITEM(kinds, o));
        if (self->kind[o] != -1 && self->kind[o] != TG_BOOL) {
            PyErr_SetString(PyExc_ValueError, "an output of a kind that there is not");
            return -1;
        }
    }
    for (int s = 0; s < program->steps; s++) {
        int code, out, a, b = 0, c = 0;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(steps, s), "iii|ii", &code, &out, &a, &b, &c))
            return -1;
        int n = program->registers;
        if (code < 0 || code >= TG_STEP_COUNT || out < program->inputs + program->constants ||
            out >= n || a < 0 || a >= n || b < 0 || b >= n || c < 0 || c >= n) {
            PyErr_SetString(PyExc_ValueError, "a step that names no primitive or no register");
            return -1;
        }
        program->step[s] = (tg_step){(uint8_t)code, (uint8_t)out, (uint8_t)a, (uint8_t)b, (uint8_t)c};
    }
    self->program[1] = *program;
    program->kind = TG_F32;
    self->program[1].kind = TG_F64;
    self->program[1].cost *= 2;
    self->made = 1;
    return 0;
}

static int ask_maker(Elementwise *self) {
    PyObject *maker = self->maker;
    self->maker = NULL;
    PyObject *said = PyObject_CallNoArgs(maker);
    Py_DECREF(maker);
    if (!said)
        return -1;
    int failed = said == Py_None ? 0 : read_program(self, said);
    Py_DECREF(said);
    return failed;
}

/* ------------------------------------------------------------------ the type */

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"maker", "fallback", "as_list", NULL};
    PyObject *maker, *fallback;
    int as_list = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|p", names, &maker, &fallback, &as_list))
        return NULL;
    Elementwise *self = (Elementwise *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->vectorcall = call;
    self->maker = Py_NewRef(maker);
    self->fallback = Py_NewRef(fallback);
    self->as_list = as_list;
    return (PyObject *)self;
}

static int traverse(PyObject *o, visitproc visit, void *arg) {
    Elementwise *self = (Elementwise *)o;
    Py_VISIT(self->maker);
    Py_VISIT(self->fallback);
    return 0;
}

static int clear(PyObject *o) {
    Elementwise *self = (Elementwise *)o;
    Py_CLEAR(self->maker);
    Py_CLEAR(self->fallback);
    return 0;
}

static void dealloc(PyObject *o) {
    PyObject_GC_UnTrack(o);
    clear(o);
    Py_TYPE(o)->tp_free(o);
}

static PyObject *is_made(PyObject *o, void *unused) {
    (void)unused;
    Elementwise *self = (Elementwise *)o;
    if (self->maker && ask_maker(self) < 0)
        return NULL;
    return PyBool_FromLong(self->made);
}

static PyMethodDef methods[] = {
    {"into", (PyCFunction)(void (*)(void))into, METH_FASTCALL,
     "into(target, *args): written into target; False where it is not for this"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef getters[] = {
    {"made", is_made, NULL, "whether there is a program", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Elementwise, fallback), READONLY, "what it falls back to"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject tg_elementwise_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tapegrad.native.Elementwise",
    .tp_basicsize = sizeof(Elementwise),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "A formula, elementwise, in one pass over memory.",
    .tp_new = make,
    .tp_dealloc = dealloc,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Elementwise, vectorcall),
    .tp_methods = methods,
    .tp_getset = getters,
    .tp_members = members,
};
