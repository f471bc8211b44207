/* Formulas on arrays: a program of the vector machine for each op and each set of gradients.

   `Formula` is called like the op's kernel, `Gradients` like its rules. Both take what they can do
   at once (floats that lie densely, numbers, broadcasting) and leave the rest to the formula on
   NumPy. Programs are made when they are first wanted, by a function that traces the block
   (expressions/trace.py). */

#include "module.h"

#include <stdlib.h>
#include <string.h>

#define RELEASE_FROM 32768.0 /* nanoseconds of work: from here on the GIL is released */
#define MOST_PROGRAMS 256    /* of one formula, for as many values of its attributes */
#define SHORT_ROW 16
#define MANY_ROWS 64
#define MOST_TENSORS 4       /* whose gradients are wanted together */

enum { BROADCAST, C_ORDER, F_ORDER }; /* layouts of arrays */
enum { COMPUTED = -1, NOTHING = -2 }; /* an output that is made; a gradient that there is not */

typedef struct {
    PyObject_HEAD tg_program program;
    int kind[TG_MOST_OPERANDS];   /* of the outputs */
    int given[TG_MOST_OPERANDS];  /* per result: COMPUTED, NOTHING, or the input that it is */
    int results;                  /* computed ones, given ones and None */
    int source[TG_MOST_OPERANDS]; /* of a gradient's inputs: a place in `kept`, -1 the gradient */
    PyObject *said;               /* what it was made from */
    tg_prepared *prepared;        /* of one that a tape has for itself */
} Program;

/* The number that NumPy has given to ml_dtypes' bfloat16, once an array of it was seen. */
static int bfloat16 = -1;

static int is_bfloat16(PyArrayObject *x) {
    const int type = PyArray_TYPE(x);
    if (type < NPY_USERDEF || type == bfloat16)
        return type == bfloat16;
    const char *name = strrchr(PyArray_DESCR(x)->typeobj->tp_name, '.');
    name = name ? name + 1 : PyArray_DESCR(x)->typeobj->tp_name;
    if (strcmp(name, "bfloat16") != 0 || PyArray_ITEMSIZE(x) != 2)
        return 0;
    bfloat16 = type;
    return 1;
}

static int kind_of(PyArrayObject *x) {
    switch (PyArray_TYPE(x)) {
    case NPY_FLOAT:
        return TG_F32;
    case NPY_DOUBLE:
        return TG_F64;
    case NPY_BOOL:
        return TG_BOOL;
    case NPY_HALF:
        return TG_F16;
    default:
        return is_bfloat16(x) ? TG_BF16 : -1;
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

static int type_of_kind(int kind) {
    static const int types[TG_KINDS] = {NPY_FLOAT, NPY_DOUBLE, NPY_BOOL, -1, NPY_HALF};
    return kind == TG_BF16 ? bfloat16 : types[kind];
}

/* One number that was expanded to a shape, as the gradient of a sum is. */
static int is_spread(PyArrayObject *x) {
    if (PyArray_IS_C_CONTIGUOUS(x))
        return 0;
    for (int d = 0; d < PyArray_NDIM(x); d++)
        if (PyArray_DIM(x, d) != 1 && PyArray_STRIDE(x, d) != 0)
            return 0;
    return 1;
}

/* Rows that follow each other, maybe with gaps between them, as a part of the columns of a matrix
   has, or expanded in some dimensions, as the gradient of a mean over rows is. */
static int in_rows(PyArrayObject *x) {
    int64_t inner = PyArray_ITEMSIZE(x);
    if (PyArray_IS_C_CONTIGUOUS(x))
        return 1;
    for (int d = PyArray_NDIM(x) - 1; d >= 0; d--) {
        if (PyArray_DIM(x, d) == 1 || PyArray_STRIDE(x, d) == 0)
            continue;
        if (PyArray_STRIDE(x, d) < inner)
            return 0;
        inner = PyArray_STRIDE(x, d) * PyArray_DIM(x, d);
    }
    return 1;
}

/* The index space of arrays that are all in rows, broadcast, or all in the same dense order; those
   that are spread fit to any. Results have the order of the inputs, without gaps. */
static int find_space(PyArrayObject *const *arrays, int count, tg_operand *operands, int *dims,
                      int64_t *size, int *flat) {
    PyArrayObject *first = NULL;
    int same = 1, in_c_order = 1, in_f_order = 1, all_in_rows = 1;
    *dims = 0;
    for (int k = 0; k < count; k++) {
        PyArrayObject *x = arrays[k];
        if (!x)
            continue;
        if (!is_spread(x)) {
            in_c_order = in_c_order && PyArray_IS_C_CONTIGUOUS(x);
            in_f_order = in_f_order && PyArray_IS_F_CONTIGUOUS(x);
            all_in_rows = all_in_rows && (in_c_order || in_rows(x));
        }
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
    if (same && (in_c_order || in_f_order)) {
        *flat = in_c_order ? C_ORDER : F_ORDER;
        size[0] = PyArray_SIZE(first);
        return 1;
    }
    if (!all_in_rows)
        return 0;
    *flat = BROADCAST;
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
    if (!in_c_order) { /* many short rows cost more here than on NumPy */
        int64_t rows = 1;
        for (int d = 0; d < *dims - 1; d++)
            rows *= size[d];
        if (size[*dims - 1] < SHORT_ROW && rows > MANY_ROWS)
            return 0;
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


/* The arguments of a call of the machine, as a tape keeps them. */
typedef struct {
    const tg_program *program;
    const tg_prepared *prepared; /* may be NULL */
    int dims;
    int64_t size[TG_MOST_DIMS];
    tg_operand operands[TG_MOST_OPERANDS];
} given;

static int again(void *context) {
    given *g = context;
    if (g->prepared)
        tg_run_prepared(g->prepared, g->operands);
    else
        tg_machine(g->program, g->operands, g->dims, g->size);
    return 1;
}

static size_t bytes_of(const given *g) {
    const int all = g->program->inputs + g->program->outputs;
    return sizeof *g - (size_t)(TG_MOST_OPERANDS - all) * sizeof *g->operands;
}

/* A call of the machine packed without unused operands and dimensions. A recorded step has one for
   each op, and nearly all of them are only read in order to be fused. */
typedef struct {
    const tg_program *program;
    int64_t dims;
    int64_t words[TG_MOST_DIMS + TG_MOST_OPERANDS * (3 + TG_MOST_DIMS)];
    /* sizes, then of each operand: where it is, the number, the kind, steps */
} brief;

static size_t in_brief(const tg_program *program, const tg_operand *operands, int dims,
                       const int64_t *size, brief *b) {
    const int all = program->inputs + program->outputs;
    int64_t *at = b->words;
    b->program = program;
    b->dims = dims;
    memcpy(at, size, (size_t)dims * sizeof *size);
    at += dims;
    for (int k = 0; k < all; k++, at += 3 + dims) {
        at[0] = (int64_t)(intptr_t)operands[k].data;
        memcpy(&at[1], &operands[k].number, sizeof *at);
        at[2] = operands[k].kind;
        memcpy(&at[3], operands[k].stride, (size_t)dims * sizeof *at);
    }
    return (size_t)((char *)at - (char *)b);
}

static void in_full(const brief *b, given *g) {
    const int dims = (int)b->dims, all = b->program->inputs + b->program->outputs;
    const int64_t *at = b->words;
    g->program = b->program;
    g->prepared = NULL;
    g->dims = dims;
    memcpy(g->size, at, (size_t)dims * sizeof *at);
    at += dims;
    for (int k = 0; k < all; k++, at += 3 + dims) {
        tg_operand *x = &g->operands[k];
        x->data = (char *)(intptr_t)at[0];
        memcpy(&x->number, &at[1], sizeof *at);
        x->kind = (int)at[2];
        memcpy(x->stride, &at[3], (size_t)dims * sizeof *at);
    }
}

static int again_in_brief(void *context) {
    given g;
    in_full(context, &g);
    return again(&g);
}

static int tape(Program *self, const tg_operand *operands, int dims, const int64_t *size,
                PyArrayObject *const *inputs, PyObject *const *outputs) {
    PyObject *kept[TG_MOST_OPERANDS + 1];
    brief b;
    const int all = self->program.inputs + self->program.outputs;
    const size_t bytes = in_brief(&self->program, operands, dims, size, &b);
    for (int k = 0; k < all; k++)
        kept[k] = k < self->program.inputs ? (PyObject *)inputs[k]
                                           : outputs[k - self->program.inputs];
    kept[all] = (PyObject *)self;
    return tg_tape(again_in_brief, &b, bytes, kept, all + 1);
}

/* Run a program on its inputs. The results go to `found`; 0: not for us, -1: an exception. */
static int run(Program *self, PyObject *const *args, int want, PyObject *target,
               PyObject **found) {
    const tg_program *program = &self->program;
    tg_operand operands[TG_MOST_OPERANDS];
    PyArrayObject *arrays[TG_MOST_OPERANDS];
    const int inputs = program->inputs, outputs = program->outputs;
    int computed, dims, flat;
    int64_t size[TG_MOST_DIMS];
    if (!read_arguments(args, inputs, operands, arrays, &computed) || computed != want ||
        !find_space(arrays, inputs, operands, &dims, size, &flat))
        return 0;
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
    PyObject *made[TG_MOST_OPERANDS];
    for (int o = 0; o < outputs; o++) {
        const int kind = self->kind[o], type = type_of_kind(kind);
        PyObject *out = target;
        if (out) {
            PyArrayObject *x = (PyArrayObject *)out;
            if (PyArray_TYPE(x) != type || PyArray_NDIM(x) != dims || !PyArray_ISBEHAVED(x) ||
                !(flat == F_ORDER ? PyArray_IS_F_CONTIGUOUS(x) : PyArray_IS_C_CONTIGUOUS(x)) ||
                !PyArray_CompareLists(PyArray_DIMS(x), shape, dims))
                return 0;
            Py_INCREF(out);
        } else {
            out = tg_new_array(dims, shape, type, flat == F_ORDER);
            if (!out) {
                while (o--)
                    Py_DECREF(made[o]);
                return -1;
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
            operands[k].stride[0] =
                k < inputs && (!arrays[k] || is_spread(arrays[k])) ? 0 : tg_size_of_kind[operands[k].kind];
    }
    if (outputs && tg_is_taping() && tape(self, operands, dims, size, arrays, made) < 0) {
        for (int o = 0; o < outputs; o++)
            Py_DECREF(made[o]);
        return -1;
    }
    if (outputs == 0) {
        ;
    } else if (elements * program->cost > RELEASE_FROM) {
        Py_BEGIN_ALLOW_THREADS tg_machine(program, operands, dims, size);
        Py_END_ALLOW_THREADS
    } else {
        tg_machine(program, operands, dims, size);
    }
    for (int r = 0, o = 0; r < self->results; r++)
        if (self->given[r] == COMPUTED)
            found[r] = made[o++];
        else
            found[r] = Py_NewRef(self->given[r] == NOTHING ? Py_None : args[self->given[r]]);
    return 1;
}

/* ------------------------------------------------------------------ programs */

static int bad_program(const char *what) {
    PyErr_SetString(PyExc_ValueError, what);
    return -1;
}

/* A number, or a list of coefficients. */
static int read_constant(tg_program *program, int i, PyObject *said) {
    program->list[i] = -1;
    if (!PyTuple_Check(said)) {
        program->constant[i] = PyFloat_AsDouble(said);
        return 0;
    }
    const int count = (int)PyTuple_GET_SIZE(said);
    if (count < 2 || count >= TG_MOST_LISTED - program->all_listed)
        return bad_program("more coefficients than there is room for, or none");
    program->list[i] = program->all_listed;
    program->listed[program->all_listed++] = count;
    for (int k = 0; k < count; k++)
        program->listed[program->all_listed++] = PyFloat_AsDouble(PyTuple_GET_ITEM(said, k));
    return 0;
}

static int only_single(int code) {
    return code == TG_erfinv || code == TG_gelu_value || code == TG_gelu_slope ||
           code == TG_round_bf16 || code == TG_round_f16;
}

/* As Python says it:
   (kind, sources, constants, kinds of outputs, given, registers, steps, cost). */
static int read_program(Program *self, PyObject *said) {
    tg_program *program = &self->program;
    PyObject *sources, *constants, *kinds, *given, *steps;
    if (!PyArg_ParseTuple(said, "iO!O!O!O!iO!d", &program->kind, &PyTuple_Type, &sources,
                          &PyTuple_Type, &constants, &PyTuple_Type, &kinds, &PyTuple_Type, &given,
                          &program->registers, &PyTuple_Type, &steps, &program->cost))
        return -1;
    program->inputs = (int)PyTuple_GET_SIZE(sources);
    program->constants = (int)PyTuple_GET_SIZE(constants);
    program->outputs = (int)PyTuple_GET_SIZE(kinds);
    program->steps = (int)PyTuple_GET_SIZE(steps);
    self->results = (int)PyTuple_GET_SIZE(given);
    if ((program->kind != TG_F32 && program->kind != TG_F64) || program->inputs < 1 ||
        program->inputs + program->outputs > TG_MOST_OPERANDS ||
        program->constants > TG_MOST_CONSTANTS || program->steps > TG_MOST_STEPS / 2 ||
        program->registers < program->inputs + program->constants + program->outputs ||
        program->registers > TG_MOST_REGISTERS / 3 || self->results > TG_MOST_OPERANDS)
        return bad_program("a program that does not fit the vector machine");
    for (int i = 0; i < program->inputs; i++)
        self->source[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(sources, i));
    for (int i = 0; i < program->constants; i++)
        if (read_constant(program, i, PyTuple_GET_ITEM(constants, i)) < 0)
            return -1;
    for (int o = 0; o < program->outputs; o++) {
        self->kind[o] = (int)PyLong_AsLong(PyTuple_GET_ITEM(kinds, o));
        if (self->kind[o] < TG_F32 || self->kind[o] >= TG_KINDS ||
            (self->kind[o] == TG_BF16 && bfloat16 < 0))
            return bad_program("an output of a kind that there is not");
    }
    int computed = 0;
    for (int r = 0; r < self->results; r++) {
        self->given[r] = (int)PyLong_AsLong(PyTuple_GET_ITEM(given, r));
        computed += self->given[r] == COMPUTED;
        if (self->given[r] < NOTHING || self->given[r] >= program->inputs)
            return bad_program("a result that is no input");
    }
    if (computed != program->outputs)
        return bad_program("results that are not those of the program");
    for (int s = 0; s < program->steps; s++) {
        int code, out, a, b = 0, c = 0;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(steps, s), "iii|ii", &code, &out, &a, &b, &c))
            return -1;
        int n = program->registers;
        if (code < 0 || code >= TG_STEP_COUNT || out < program->inputs + program->constants ||
            (only_single(code) && program->kind != TG_F32) || out >= n || a < 0 || a >= n ||
            b < 0 || b >= n || c < 0 || c >= n)
            return bad_program("a step that names no primitive or no register");
        program->step[s] =
            (tg_step){(uint8_t)code, (uint8_t)out, (uint8_t)a, (uint8_t)b, (uint8_t)c};
    }
    return PyErr_Occurred() ? -1 : 0;
}

static void dealloc_program(PyObject *o) {
    Py_XDECREF(((Program *)o)->said);
    free(((Program *)o)->prepared);
    Py_TYPE(o)->tp_free(o);
}

static PyTypeObject program_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tapegrad.kernels.cpu.Program",
    .tp_basicsize = sizeof(Program),
    .tp_dealloc = dealloc_program,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A program of the vector machine.",
};

static Program *new_program(PyObject *said) {
    Program *program = (Program *)program_type.tp_alloc(&program_type, 0);
    if (!program)
        return NULL;
    program->said = Py_NewRef(said);
    if (read_program(program, said) < 0)
        Py_CLEAR(program);
    return program;
}

/* The answer of `maker(*question)`: a Program, None (no program), or True (ask by value). */
static PyObject *ask(PyObject *maker, PyObject *question) {
    PyObject *said = PyObject_CallObject(maker, question);
    if (!said || said == Py_None || said == Py_True)
        return said;
    Program *program = new_program(said);
    Py_DECREF(said);
    return (PyObject *)program;
}

/* The entry of a dict, made when it is not there; borrowed. */
static PyObject *entry_of(PyObject *programs, PyObject *maker, PyObject *key,
                          PyObject *question) {
    PyObject *found = PyDict_GetItemWithError(programs, key);
    if (found || PyErr_Occurred())
        return found;
    if (PyDict_GET_SIZE(programs) >= MOST_PROGRAMS)
        return Py_None;
    found = ask(maker, question);
    if (!found)
        return NULL;
    int failed = PyDict_SetItem(programs, key, found);
    Py_DECREF(found);
    return failed < 0 ? NULL : found;
}

/* A key of attributes: numbers are inputs of the program and do not count, unless by value. */
static PyObject *key_of(long start, PyObject *const *attrs, Py_ssize_t count, int by_value) {
    PyObject *key = PyTuple_New(count + 1);
    if (!key)
        return NULL;
    PyTuple_SET_ITEM(key, 0, Py_NewRef(Py_None));
    long types = start;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *attr = attrs[i], *part;
        int is_float = PyFloat_CheckExact(attr), is_number = is_float || PyLong_CheckExact(attr);
        types = types * 4 + (is_float ? 1 : is_number ? 2 : PyBool_Check(attr) ? 3 : 0);
        if (!is_number) {
            part = Py_NewRef(attr);
        } else if (!by_value) {
            part = Py_NewRef(Py_None);
        } else if (is_float) { /* its bits: zeros have signs, and a NaN is no key */
            double value = PyFloat_AS_DOUBLE(attr);
            long long bits;
            memcpy(&bits, &value, sizeof bits);
            part = PyLong_FromLongLong(bits);
        } else {
            part = Py_NewRef(attr);
        }
        if (!part) {
            Py_DECREF(key);
            return NULL;
        }
        PyTuple_SET_ITEM(key, i + 1, part);
    }
    PyObject *first = PyLong_FromLong(by_value ? -1 - types : types);
    if (!first) {
        Py_DECREF(key);
        return NULL;
    }
    Py_SETREF(PyTuple_GET_ITEM(key, 0), first);
    return key;
}

/* The program for attributes; `question(by_value)` is what the maker is asked. NULL without an
   exception: there is none. */
typedef PyObject *(*question_of)(void *context, int by_value);

static Program *program_for(PyObject *programs, PyObject *maker, long start,
                            PyObject *const *attrs, Py_ssize_t count, question_of question,
                            void *context, int *by_value) {
    for (*by_value = 0; *by_value < 2; ++*by_value) {
        PyObject *key = key_of(start, attrs, count, *by_value);
        if (!key)
            return NULL;
        PyObject *found = PyDict_GetItemWithError(programs, key);
        if (!found && !PyErr_Occurred()) {
            PyObject *asked = question(context, *by_value);
            found = asked ? entry_of(programs, maker, key, asked) : NULL;
            Py_XDECREF(asked);
        }
        Py_DECREF(key);
        if (!found) {
            if (PyErr_ExceptionMatches(PyExc_TypeError)) /* an attribute that is no key */
                PyErr_Clear();
            return NULL;
        }
        if (found != Py_True)
            return found == Py_None ? NULL : (Program *)found;
    }
    return NULL;
}

/* The kind of floats in the arrays; -1: not for the machine. */
static int kind_of_arrays(PyObject *const *args, Py_ssize_t count) {
    for (Py_ssize_t k = 0; k < count; k++)
        if (PyArray_CheckExact(args[k])) {
            int kind = kind_of((PyArrayObject *)args[k]);
            if (kind != TG_BOOL)
                return kind;
        }
    return -1;
}

/* ------------------------------------------------------------------ Formula */

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *fallback; /* called with the same arguments */
    PyObject *maker;    /* (kind, attributes, by_value) -> program, None or True */
    PyObject *programs; /* by what is not a number among the attributes */
    Program *plain[TG_KINDS];  /* without attributes, by kind */
    int asked[TG_KINDS];
    int tensors; /* the arguments in front that are arrays or numbers */
} Formula;

typedef struct {
    int kind;
    PyObject *const *attrs;
    Py_ssize_t count;
} formula_question;

static PyObject *ask_formula(void *context, int by_value) {
    formula_question *q = context;
    PyObject *attrs = PyTuple_New(q->count);
    for (Py_ssize_t i = 0; attrs && i < q->count; i++)
        PyTuple_SET_ITEM(attrs, i, Py_NewRef(q->attrs[i]));
    return attrs ? Py_BuildValue("(iNi)", q->kind, attrs, by_value) : NULL;
}

/* The program for these arguments and its inputs; NULL: there is none, or an exception. */
static Program *find_program(Formula *self, PyObject *const *args, Py_ssize_t count,
                             PyObject **inputs, int *kind) {
    const Py_ssize_t tensors = self->tensors, attrs = count - tensors;
    *kind = attrs < 0 || count > TG_MOST_OPERANDS ? -1 : kind_of_arrays(args, tensors);
    if (*kind < 0)
        return NULL;
    formula_question question = {*kind, args + tensors, attrs};
    for (Py_ssize_t k = 0; k < tensors; k++)
        inputs[k] = args[k];
    if (attrs == 0) {
        if (!self->asked[*kind]) {
            PyObject *asked = ask_formula(&question, 0);
            PyObject *found = asked ? ask(self->maker, asked) : NULL;
            Py_XDECREF(asked);
            if (!found)
                return NULL;
            self->asked[*kind] = 1;
            if (Py_IS_TYPE(found, &program_type))
                self->plain[*kind] = (Program *)Py_NewRef(found);
            Py_DECREF(found);
        }
        return self->plain[*kind];
    }
    int by_value;
    Program *program = program_for(self->programs, self->maker, *kind, args + tensors, attrs,
                                   ask_formula, &question, &by_value);
    if (program && !by_value) {
        Py_ssize_t n = tensors;
        for (Py_ssize_t i = tensors; i < count; i++)
            if (PyFloat_CheckExact(args[i]) || PyLong_CheckExact(args[i]))
                inputs[n++] = args[i];
    }
    return program;
}

static PyObject *call_formula(PyObject *callable, PyObject *const *args, size_t nargsf,
                              PyObject *names) {
    Formula *self = (Formula *)callable;
    if (!names) {
        PyObject *inputs[TG_MOST_OPERANDS], *found[TG_MOST_OPERANDS];
        int kind;
        Program *program =
            find_program(self, args, PyVectorcall_NARGS(nargsf), inputs, &kind);
        if (program) {
            int done = run(program, inputs, kind, NULL, found);
            if (done < 0)
                return NULL;
            if (done && program->results == 1)
                return found[0];
            if (done) {
                PyObject *tuple = PyTuple_New(program->results);
                for (int r = 0; r < program->results; r++)
                    if (tuple)
                        PyTuple_SET_ITEM(tuple, r, found[r]);
                    else
                        Py_DECREF(found[r]);
                return tuple;
            }
        } else if (PyErr_Occurred()) {
            return NULL;
        }
    }
    return PyObject_Vectorcall(self->fallback, args, nargsf, names);
}

/* formula.into(target, *args): run it into `target`; False if there is no program for it. */
static PyObject *into(PyObject *callable, PyObject *const *args, Py_ssize_t count) {
    Formula *self = (Formula *)callable;
    PyObject *inputs[TG_MOST_OPERANDS], *found[TG_MOST_OPERANDS];
    int kind;
    if (count < 1 || !PyArray_CheckExact(args[0]))
        Py_RETURN_FALSE;
    Program *program = find_program(self, args + 1, count - 1, inputs, &kind);
    if (!program && PyErr_Occurred())
        return NULL;
    if (!program || program->results != 1 || program->given[0] != COMPUTED)
        Py_RETURN_FALSE;
    int done = run(program, inputs, kind, args[0], found);
    if (done < 0)
        return NULL;
    if (done)
        Py_DECREF(found[0]);
    return PyBool_FromLong(done);
}

/* formula.attempt(*args): the result, or None if there is no program for it. */
static PyObject *attempt(PyObject *callable, PyObject *const *args, Py_ssize_t count) {
    PyObject *inputs[TG_MOST_OPERANDS], *found[TG_MOST_OPERANDS];
    int kind;
    Program *program = find_program((Formula *)callable, args, count, inputs, &kind);
    if (!program && PyErr_Occurred())
        return NULL;
    if (!program || program->results != 1)
        Py_RETURN_NONE;
    int done = run(program, inputs, kind, NULL, found);
    if (done < 0)
        return NULL;
    return done ? found[0] : Py_NewRef(Py_None);
}

/* formula.program(*args): what would be run, or None; for tests. */
static PyObject *has_program(PyObject *callable, PyObject *const *args, Py_ssize_t count) {
    PyObject *inputs[TG_MOST_OPERANDS];
    int kind;
    Program *program = find_program((Formula *)callable, args, count, inputs, &kind);
    if (!program && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(program != NULL);
}

static PyObject *make_formula(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"maker", "fallback", "tensors", NULL};
    PyObject *maker, *fallback;
    int tensors;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOi", names, &maker, &fallback, &tensors))
        return NULL;
    Formula *self = (Formula *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->vectorcall = call_formula;
    self->maker = Py_NewRef(maker);
    self->fallback = Py_NewRef(fallback);
    self->tensors = tensors;
    self->programs = PyDict_New();
    if (!self->programs)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int traverse_formula(PyObject *o, visitproc visit, void *arg) {
    Formula *self = (Formula *)o;
    Py_VISIT(self->maker);
    Py_VISIT(self->fallback);
    Py_VISIT(self->programs);
    return 0;
}

static int clear_formula(PyObject *o) {
    Formula *self = (Formula *)o;
    Py_CLEAR(self->maker);
    Py_CLEAR(self->fallback);
    Py_CLEAR(self->programs);
    for (int kind = 0; kind < TG_KINDS; kind++)
        Py_CLEAR(self->plain[kind]);
    return 0;
}

static void dealloc_formula(PyObject *o) {
    PyObject_GC_UnTrack(o);
    clear_formula(o);
    Py_TYPE(o)->tp_free(o);
}

static PyMethodDef formula_methods[] = {
    {"into", (PyCFunction)(void (*)(void))into, METH_FASTCALL,
     "into(target, *args): written into target; False where it is not for this"},
    {"attempt", (PyCFunction)(void (*)(void))attempt, METH_FASTCALL,
     "attempt(*args): the result of the program, or None where there is none for these"},
    {"has_program", (PyCFunction)(void (*)(void))has_program, METH_FASTCALL,
     "has_program(*args): whether arguments of these kinds are computed by a program"},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef formula_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Formula, fallback), READONLY, "what it falls back to"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject tg_formula_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tapegrad.kernels.cpu.Formula",
    .tp_basicsize = sizeof(Formula),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "The kernel of an elementwise op: one pass over memory.",
    .tp_new = make_formula,
    .tp_dealloc = dealloc_formula,
    .tp_traverse = traverse_formula,
    .tp_clear = clear_formula,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Formula, vectorcall),
    .tp_methods = formula_methods,
    .tp_members = formula_members,
};

/* ------------------------------------------------------------------ Gradients */

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *maker;    /* (kind, mask, kept, by_value) -> program, None or True */
    PyObject *programs; /* by mask and by what is not a number among the attributes */
    Program *plain[TG_KINDS][1 << MOST_TENSORS]; /* without attributes, by kind */
    uint8_t asked[TG_KINDS][1 << MOST_TENSORS];
    int first, count; /* where the attributes are in `kept` */
} Gradients;

typedef struct {
    int kind;
    long mask;
    PyObject *kept;
} gradient_question;

static PyObject *ask_gradients(void *context, int by_value) {
    gradient_question *q = context;
    return Py_BuildValue("(ilOi)", q->kind, q->mask, q->kept, by_value);
}

static Program *find_gradients(Gradients *self, int kind, long mask, PyObject *kept) {
    gradient_question question = {kind, mask, kept};
    int by_value;
    if (self->count)
        return program_for(self->programs, self->maker, mask * TG_KINDS + kind,
                           &PyTuple_GET_ITEM(kept, self->first), self->count, ask_gradients,
                           &question, &by_value);
    if (!self->asked[kind][mask]) {
        PyObject *asked = ask_gradients(&question, 0);
        PyObject *found = asked ? ask(self->maker, asked) : NULL;
        Py_XDECREF(asked);
        if (!found)
            return NULL;
        self->asked[kind][mask] = 1;
        if (Py_IS_TYPE(found, &program_type))
            self->plain[kind][mask] = (Program *)Py_NewRef(found);
        Py_DECREF(found);
    }
    return self->plain[kind][mask];
}

/* gradients(gradient, kept, edges) -> a list with a gradient or None per edge, or None. */
static PyObject *call_gradients(PyObject *callable, PyObject *const *args, size_t nargsf,
                                PyObject *names) {
    Gradients *self = (Gradients *)callable;
    if (names || PyVectorcall_NARGS(nargsf) != 3 || !PyTuple_CheckExact(args[1]) ||
        !PyTuple_CheckExact(args[2])) {
        PyErr_SetString(PyExc_TypeError, "a gradient and two tuples are wanted");
        return NULL;
    }
    PyObject *kept = args[1], *edges = args[2];
    Py_ssize_t count = PyTuple_GET_SIZE(edges);
    int kind = kind_of_arrays(args, 1);
    if (kind < 0 || count > MOST_TENSORS || self->first + self->count > PyTuple_GET_SIZE(kept))
        Py_RETURN_NONE;
    /* Values that a rule does not read still decide its formula: whether it is that of real numbers. */
    for (int i = 0; i < self->first; i++)
        if (PyArray_Check(PyTuple_GET_ITEM(kept, i))) {
            int found = kind_of((PyArrayObject *)PyTuple_GET_ITEM(kept, i));
            if (found != kind && found != TG_BOOL)
                Py_RETURN_NONE;
        }
    long mask = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (PyTuple_GET_ITEM(edges, i) != Py_None)
            mask |= 1 << i;
    Program *program = find_gradients(self, kind, mask, kept);
    if (!program) {
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_NONE;
    }
    PyObject *inputs[TG_MOST_OPERANDS], *found[TG_MOST_OPERANDS];
    for (int i = 0; i < program->program.inputs; i++) {
        int source = program->source[i];
        if (source >= PyTuple_GET_SIZE(kept))
            Py_RETURN_NONE;
        inputs[i] = source < 0 ? args[0] : PyTuple_GET_ITEM(kept, source);
    }
    int done = run(program, inputs, kind, NULL, found);
    if (done < 0)
        return NULL;
    if (!done)
        Py_RETURN_NONE;
    PyObject *list = PyList_New(program->results);
    for (int r = 0; r < program->results; r++)
        if (list)
            PyList_SET_ITEM(list, r, found[r]);
        else
            Py_DECREF(found[r]);
    return list;
}

static PyObject *make_gradients(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"maker", "first", "count", NULL};
    PyObject *maker;
    int first, count;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oii", names, &maker, &first, &count))
        return NULL;
    if (first < 0 || count < 0 || count > TG_MOST_OPERANDS)
        return PyErr_Format(PyExc_ValueError, "no place for %d attributes at %d", count, first);
    Gradients *self = (Gradients *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->vectorcall = call_gradients;
    self->maker = Py_NewRef(maker);
    self->first = first;
    self->count = count;
    self->programs = PyDict_New();
    if (!self->programs)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int traverse_gradients(PyObject *o, visitproc visit, void *arg) {
    Gradients *self = (Gradients *)o;
    Py_VISIT(self->maker);
    Py_VISIT(self->programs);
    return 0;
}

static int clear_gradients(PyObject *o) {
    Gradients *self = (Gradients *)o;
    Py_CLEAR(self->maker);
    Py_CLEAR(self->programs);
    for (int kind = 0; kind < TG_KINDS; kind++)
        for (int mask = 0; mask < 1 << MOST_TENSORS; mask++)
            Py_CLEAR(self->plain[kind][mask]);
    return 0;
}

static void dealloc_gradients(PyObject *o) {
    PyObject_GC_UnTrack(o);
    clear_gradients(o);
    Py_TYPE(o)->tp_free(o);
}

PyTypeObject tg_gradients_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tapegrad.kernels.cpu.Gradients",
    .tp_basicsize = sizeof(Gradients),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "The gradient rules of an elementwise op: one pass over memory for all of them.",
    .tp_new = make_gradients,
    .tp_dealloc = dealloc_gradients,
    .tp_traverse = traverse_gradients,
    .tp_clear = clear_gradients,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Gradients, vectorcall),
};

/* ------------------------------------------------------------------ on tapes */

/* What a tape has of a call of the machine, to be joined with others (compiler/plan/fusion.py):
   (program, sizes, operands), an operand being (kind, address, number, steps in bytes). */
/* The formula that a program was made from, a borrowed reference. */
PyObject *tg_said(const tg_program *program) {
    return ((const Program *)(const void *)((const char *)program - offsetof(Program, program)))->said;
}

PyObject *tg_describe_machine(tg_again function, const void *context) {
    given full;
    const given *g = context;
    if (function == again_in_brief) {
        in_full(context, &full);
        g = &full;
    } else if (function != again) {
        Py_RETURN_NONE;
    }
    const int all = g->program->inputs + g->program->outputs;
    PyObject *sizes = PyTuple_New(g->dims), *operands = PyTuple_New(all);
    for (int d = 0; sizes && d < g->dims; d++)
        PyTuple_SET_ITEM(sizes, d, PyLong_FromLongLong(g->size[d]));
    for (int k = 0; operands && k < all; k++) {
        const tg_operand *x = &g->operands[k];
        PyObject *steps = PyTuple_New(g->dims);
        for (int d = 0; steps && d < g->dims; d++)
            PyTuple_SET_ITEM(steps, d, PyLong_FromLongLong(x->data ? x->stride[d] : 0));
        PyTuple_SET_ITEM(operands, k,
                         Py_BuildValue("(iLdN)", x->data ? x->kind : g->program->kind,
                                       (long long)(intptr_t)x->data, x->data ? 0.0 : x->number,
                                       steps));
    }
    if (!sizes || !operands || PyErr_Occurred()) {
        Py_XDECREF(sizes);
        Py_XDECREF(operands);
        return NULL;
    }
    return Py_BuildValue("(ONN)", tg_said(g->program), sizes, operands);
}

const tg_program *tg_read_machine(tg_again function, const void *context,
                                  const tg_prepared **prepared, const tg_operand **operands,
                                  int *dims, const int64_t **size) {
    const given *g = context;
    if (function != again)
        return NULL;
    *prepared = g->prepared;
    *operands = g->operands;
    *dims = g->dims;
    *size = g->size;
    return g->program;
}

/* Prepare a program for operands, once: several tapes may use it, for operands of the same layout. */
static int prepare(Program *self, given *g) {
    tg_prepared *made = tg_prepare(g->program, g->operands, g->dims, g->size);
    if (self->prepared) {
        const int same = made && tg_same_prepared(made, self->prepared);
        free(made);
        if (!same)
            return bad_program("a program that is prepared for other operands");
    } else {
        self->prepared = made;
    }
    g->prepared = self->prepared;
    return 0;
}

/* The inverse of describing a call: fused_tape(program, sizes, operands, kept) puts it on a tape. The
   program may be one of another tape, which keeps it as the first thing. */
int tg_tape_machine(PyObject *said, PyObject *sizes, PyObject *operands, PyObject *kept) {
    if (!PyTuple_Check(sizes) || PyTuple_GET_SIZE(sizes) > TG_MOST_DIMS ||
        !PyTuple_Check(operands) || !PyList_Check(kept))
        return bad_program("sizes, operands and what they belong to are wanted");
    Program *program = Py_IS_TYPE(said, &program_type) ? (Program *)Py_NewRef(said)
                                                       : new_program(said);
    if (!program)
        return -1;
    given g = {.program = &program->program, .dims = (int)PyTuple_GET_SIZE(sizes)};
    const int all = program->program.inputs + program->program.outputs;
    PyObject *held = (PyObject *)program;
    int failed = PyTuple_GET_SIZE(operands) != all ? bad_program("too few operands") : 0;
    for (int d = 0; d < g.dims; d++)
        g.size[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, d));
    for (int k = 0; !failed && k < all; k++) {
        tg_operand *x = &g.operands[k];
        long long at;
        PyObject *steps;
        failed = !PyArg_ParseTuple(PyTuple_GET_ITEM(operands, k), "iLdO!", &x->kind, &at,
                                   &x->number, &PyTuple_Type, &steps) ||
                 PyTuple_GET_SIZE(steps) != g.dims;
        for (int d = 0; !failed && d < g.dims; d++)
            x->stride[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(steps, d));
        if (!failed)
            x->data = (char *)(intptr_t)at;
    }
    if (!failed && !PyErr_Occurred())
        failed = prepare(program, &g) || tg_tape(again, &g, bytes_of(&g), &held, 1) ||
                 tg_keep_all(kept);
    Py_DECREF(program);
    return failed || PyErr_Occurred() ? -1 : 0;
}

int tg_ready_elementwise(void) {
    return PyType_Ready(&program_type) < 0 || PyType_Ready(&tg_formula_type) < 0 ||
                   PyType_Ready(&tg_gradients_type) < 0
               ? -1
               : 0;
}
