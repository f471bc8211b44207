#ifndef TAPEGRAD_MODULE_H
#define TAPEGRAD_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL tapegrad_array_api
#ifndef TAPEGRAD_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "machine.h"

extern PyTypeObject tg_formula_type, tg_gradients_type;
int tg_ready_elementwise(void);
PyObject *tg_all_kernels(void); /* a dict, by name */
PyObject *tg_together(PyObject *self, PyObject *args);

/* products.c */
PyObject *tg_product(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_set_blas(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* few.c */
PyObject *tg_sum_few(PyObject *self, PyObject *arg);

/* memory.c */
int tg_ready_memory(void);
PyObject *tg_new_array(int dims, const npy_intp *shape, int type, int in_f_order);
PyObject *tg_empty(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_zeros(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_keep_memory(PyObject *self, PyObject *limit);

#endif
