#ifndef TAPEGRAD_CALLS_H
#define TAPEGRAD_CALLS_H

#include "module.h"

/* call_signatures.c: classes of the core, and the names of the fields of tensors and of nodes */
extern PyObject *tg_unrepeated, *tg_dtype_type, *tg_tensor_fields, *tg_node_fields;
extern PyTypeObject *tg_tensor_type, *tg_op_type;
int tg_is_ordinary(void);
int tg_is_tensor(PyObject *value);
PyArrayObject *tg_plain_array(PyObject *t);
int tg_is_view_of_none(PyObject *t);

/* call_outputs.c */
int tg_ready_outputs(void);
int tg_takes_output(PyObject *out, PyObject *const *args, Py_ssize_t count, int apart);
int tg_store_output(PyObject *out, PyObject *result, PyObject *name);

#endif
