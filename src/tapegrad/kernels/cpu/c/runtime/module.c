#define TAPEGRAD_IMPORTS_NUMPY
#include "module.h"

static PyObject *threads(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyLong_FromLong(tg_threads());
}

static PyObject *set_threads(PyObject *self, PyObject *count) {
    (void)self;
    long n = PyLong_AsLong(count);
    if (n == -1 && PyErr_Occurred())
        return NULL;
    tg_set_threads(n < 1 ? 1 : n > 1 << 20 ? 1 << 20 : (int)n);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"threads", threads, METH_NOARGS, "how many threads large pieces of work are done by"},
    {"set_threads", set_threads, METH_O, "set that number"},
    {"alike", (PyCFunction)(void (*)(void))tg_alike, METH_FASTCALL,
     "alike(x, y): 1 for arrays of float32, or float64, of one shape; 2: of two; 0: others"},
    {"same_values", (PyCFunction)(void (*)(void))tg_same_values, METH_FASTCALL,
     "same_values(x, y): whether arrays of one shape are equal; None where it is not for this"},
    {"meet", (PyCFunction)(void (*)(void))tg_meet, METH_FASTCALL,
     "meet(x, y): whether each begins in memory before the other ends"},
    {"all_finite", tg_all_finite, METH_O,
     "all_finite(x): of float32 or float64 in one piece; None of other arrays"},
    {"is_fresh", (PyCFunction)(void (*)(void))tg_is_fresh, METH_FASTCALL,
     "is_fresh(x, y): x is no view, may be written, and has the dtype of y"},
    {"lies_as", (PyCFunction)(void (*)(void))tg_lies_as, METH_FASTCALL,
     "lies_as(x, y): both in C order, with the same strides, and x may be written"},
    {"strided", (PyCFunction)(void (*)(void))tg_strided, METH_FASTCALL,
     "strided(x, shape, strides, offset): a view of its memory, or None"},
    {"maker", tg_maker, METH_VARARGS, "maker(base, cls): does what base.__new__(cls) does"},
    {"release_class", tg_release_class, METH_O,
     "release_class(cls): instances of Python subclasses of a compiled class release their class"},
    {"user_line", (PyCFunction)(void (*)(void))tg_user_line, METH_FASTCALL,
     "user_line(known, own): where that code is running, below files of our own; or None"},
    {"empty", (PyCFunction)(void (*)(void))tg_empty, METH_FASTCALL,
     "empty(shape, like): a new array in C order with the dtype of `like`"},
    {"zeros", (PyCFunction)(void (*)(void))tg_zeros, METH_FASTCALL, "zeros(shape, like): likewise"},
    {"copied", tg_copied, METH_O, "copied(x): a new array in C order"},
    {"dense", tg_dense, METH_O, "dense(x): x if it lies in C order, else a copy that does"},
    {"room", tg_room, METH_O, "room(x): a new array with the strides of x"},
    {"copy_into", tg_copy_into, METH_VARARGS,
     "copy_into(to, from): of one shape and dtype; False where it is not for this"},
    {"fingerprint", tg_fingerprint, METH_O, "fingerprint(x): tells its values from others"},
    {"value_summary", tg_value_summary, METH_O,
     "value_summary(x): what a recorded run keeps of an array, or None: by NumPy"},
    {"let_go", tg_let_go, METH_O, "let_go(x): its values are not needed any more, its place is"},
    {"move_into", tg_move_into, METH_VARARGS, "move_into(to, from): its values, and its memory is not needed"},
    {"is_at", tg_is_at, METH_VARARGS, "is_at(x, place): the same elements of the same memory"},
    {"product_with_vector", (PyCFunction)(void (*)(void))tg_product_with_vector, METH_FASTCALL,
     "product_with_vector(a, x): a @ x for a small matrix or a vector; None where it is not for us"},
    {"product", (PyCFunction)(void (*)(void))tg_product, METH_FASTCALL,
     "product(a, b, summand=None): of matrices, or stacks; None where it is not for this"},
    {"addmm_gradients", (PyCFunction)(void (*)(void))tg_addmm_gradients, METH_FASTCALL,
     "addmm_gradients(grad, kept, edges): all of them, or None: by the rules"},
    {"mm_gradients", (PyCFunction)(void (*)(void))tg_mm_gradients, METH_FASTCALL,
     "mm_gradients(grad, kept, edges): likewise"},
    {"set_blas", (PyCFunction)(void (*)(void))tg_set_blas, METH_FASTCALL,
     "set_blas(sgemm, dgemm, get_num_threads, set_num_threads): addresses"},
    {"lapack", (PyCFunction)(void (*)(void))tg_lapack, METH_FASTCALL,
     "lapack(address, …): call a routine with arrays, integers and letters; its `info`"},
    {"know_threads", (PyCFunction)(void (*)(void))tg_know_threads, METH_FASTCALL,
     "know_threads(get_num_threads, set_num_threads): addresses in BLAS"},
    {"one_thread", tg_one_thread, METH_O, "one_thread(begins): BLAS uses one until as many have ended"},
    {"in_one_thread", tg_in_one_thread, METH_O,
     "in_one_thread(function): it, during which BLAS uses one thread"},
    {"by_column", tg_by_column, METH_O, "by_column(x): each matrix column by column, copied if need be"},
    {"solve_triangles", (PyCFunction)(void (*)(void))tg_solve_triangles, METH_FASTCALL,
     "solve_triangles(address, a, x, upper, unit): of A X = B, over B; False where they lie otherwise"},
    {"map_elements", (PyCFunction)(void (*)(void))tg_map_elements, METH_FASTCALL,
     "map_elements(kernels, code, operands, extras=()): a function of each element, or None"},
    {"sum_few", tg_sum_few, METH_O, "sum_few(x): of all elements; None where it is not for this"},
    {"all_below", (PyCFunction)(void (*)(void))tg_all_below, METH_FASTCALL,
     "all_below(x, limit): of int64, from 0 to limit - 1; None where it is not for this"},
    {"sum_to", (PyCFunction)(void (*)(void))tg_sum_to, METH_FASTCALL,
     "sum_to(x, shape): over leading dimensions; None where it is not for this"},
    {"use_memory", tg_use_memory, METH_NOARGS, "NumPy's arrays, in this context, from memory that is kept"},
    {"keep_memory", tg_keep_memory, METH_O, "how many bytes of freed arrays are kept at the most"},
    {"spare_memory", tg_spare_memory, METH_O, "spare_memory(1), then (-1): new memory instead of kept"},
    {"forget_memory", tg_forget_memory, METH_NOARGS, "none of what is kept is wanted soon"},
    {"together", tg_together, METH_VARARGS, "a table of many arrays for one kernel, or None"},
    {"succeeded", tg_succeeded, METH_O, "whether the one number of a flag is zero"},
    {"guards_hold", (PyCFunction)(void (*)(void))tg_guards_hold, METH_FASTCALL,
     "guards_hold(entries, lengths, cells, items, classes, orders, functions): whether all hold"},
    {"as_before", (PyCFunction)(void (*)(void))tg_as_before, METH_FASTCALL,
     "as_before(entries, lengths): whether containers hold what they held"},
    {"only_ours", tg_only_ours, METH_O, "only_ours(list of (leaf, gradient)): nobody else has them"},
    {"count_up", tg_count_up, METH_O, "count_up(list of arrays of one number): one more in each"},
    {"fused_tape", tg_fused_tape, METH_VARARGS,
     "fused_tape(program, sizes, operands, kept): a tape with one call of the vector machine"},
    {"sum_after", tg_sum_after, METH_VARARGS,
     "sum_after(machine, sum, is_kept): a tape that adds up what the vector machine makes, or None"},
    {"know_calls", (PyCFunction)(void (*)(void))tg_know_calls, METH_FASTCALL,
     "know_calls(STATE, TensorBase, dtypes, Unrepeated, Op, MODES, fields, fields of nodes, levels): what "
     "signatures of calls are read from"},
    {"watch_recordings", tg_watch_recordings, METH_O,
     "watch_recordings(address of a function of an int): told where Python parts and steps run"},
    {"has_tape", tg_has_tape, METH_NOARGS, "whether this thread writes down what it computes"},
    {"tape_begin", tg_tape_begin, METH_NOARGS, "write down what this thread computes from here on"},
    {"tape_end", tg_tape_end, METH_NOARGS, "what was computed since, as a Tape"},
    {"join_tapes", tg_join_tapes, METH_O, "join_tapes(list): one tape that does what they do"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tapegrad.kernels.cpu._kernels",
    .m_doc = "Kernels in C for arrays on the CPU.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__kernels(void) {
    import_array();
    if (tg_ready_elementwise() < 0 || tg_ready_memory() < 0 || tg_ready_tape() < 0 ||
        PyType_Ready(&tg_lender_type) < 0 || PyType_Ready(&tg_watch_type) < 0 ||
        PyType_Ready(&tg_noted_type) < 0 || PyType_Ready(&tg_known_views_type) < 0 ||
        tg_ready_public_call() < 0)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    PyObject *steps = PyDict_New();
    for (int i = 0; steps && i < TG_STEP_COUNT; i++) {
        PyObject *entry = Py_BuildValue("(ii)", i, tg_step_widths[i]);
        if (!entry || PyDict_SetItemString(steps, tg_step_names[i], entry) < 0) {
            Py_XDECREF(entry);
            Py_CLEAR(steps);
            break;
        }
        Py_DECREF(entry);
    }
    PyObject *kernels = tg_all_kernels();
    if (!steps || PyModule_AddObject(module, "STEPS", steps) < 0 || !kernels ||
        PyModule_AddObject(module, "KERNELS", kernels) < 0 ||
        PyModule_AddObjectRef(module, "Formula", (PyObject *)&tg_formula_type) < 0 ||
        PyModule_AddObjectRef(module, "Gradients", (PyObject *)&tg_gradients_type) < 0 ||
        PyModule_AddObjectRef(module, "Lender", (PyObject *)&tg_lender_type) < 0 ||
        PyModule_AddObjectRef(module, "PublicFunction", (PyObject *)&tg_public_function_type) < 0 ||
        PyModule_AddObjectRef(module, "KnownViews", (PyObject *)&tg_known_views_type) < 0 ||
        PyModule_AddObjectRef(module, "Noted", (PyObject *)&tg_noted_type) < 0 ||
        PyModule_AddObjectRef(module, "CallWatch", (PyObject *)&tg_watch_type) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
