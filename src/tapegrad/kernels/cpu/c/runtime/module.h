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

/* tape.c: a call of a kernel to be made again; 0 from it says that it failed */
typedef int (*tg_again)(void *context);
int tg_ready_tape(void);
int tg_is_taping(void);
int tg_tape(tg_again again, const void *context, size_t bytes, PyObject *const *kept, int count);
int tg_keep_all(PyObject *list); /* arrays that the tape needs */
PyObject *tg_succeeded(PyObject *self, PyObject *flag);
PyObject *tg_describe_machine(tg_again function, const void *context); /* elementwise.c */
int tg_tape_machine(PyObject *said, PyObject *sizes, PyObject *operands, PyObject *kept);
PyObject *tg_fused_tape(PyObject *self, PyObject *args);
PyObject *tg_sum_after(PyObject *self, PyObject *args);
int tg_tape_summed(tg_again machine, const void *machine_context, tg_again kernel,
                   const void *kernel_context, int is_kept); /* fused_sum.c */
/* What a call was given, NULL if it is none of the machine's, or of a kernel's. */
const tg_program *tg_read_machine(tg_again function, const void *context,
                                  const tg_prepared **prepared, const tg_operand **operands,
                                  int *dims, const int64_t **size);
tg_kernel tg_read_kernel(tg_again function, const void *context, void *const **pointers,
                         const int64_t **sizes, const double **numbers);
/* Calls of a tape for those who print them, (name, addresses, sizes, numbers); NULL: it is another
   call, or there is an exception. */
PyObject *tg_described(const char *name, const int64_t *addresses, int a, const int64_t *sizes, int n,
                       const double *numbers, int x);
PyObject *tg_describe_kernel(tg_again function, const void *context);
PyObject *tg_describe_product(tg_again function, const void *context);
PyObject *tg_describe_copy(tg_again function, const void *context);
PyObject *tg_describe_clear(tg_again function, const void *context);
PyObject *tg_describe_small_sum(tg_again function, const void *context);
PyObject *tg_describe_summed(tg_again function, const void *context);
PyObject *tg_said(const tg_program *program);
tg_kernel tg_kernel_of(PyObject *kernel);
PyObject *tg_map_elements(PyObject *self, PyObject *const *args, Py_ssize_t count);
int tg_run_kernel(tg_kernel function, PyObject *const *arrays, int count, const int64_t *sizes,
                  int numbers);
PyObject *tg_has_tape(PyObject *self, PyObject *unused);
PyObject *tg_tape_begin(PyObject *self, PyObject *unused);
PyObject *tg_tape_end(PyObject *self, PyObject *unused);
PyObject *tg_join_tapes(PyObject *self, PyObject *tapes);

/* guards.c */
PyObject *tg_as_before(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_guards_hold(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_only_ours(PyObject *self, PyObject *gradients);
PyObject *tg_count_up(PyObject *self, PyObject *arrays);

/* call_watch.c */
extern PyTypeObject tg_watch_type;

/* call_steps.c */
typedef struct {
    uint64_t hash;
    int length, inputs;
    unsigned char bytes[512];
    PyObject *input[16]; /* the tensors, borrowed */
} tg_signature;
typedef struct tg_known_calls tg_known_calls;
extern PyTypeObject tg_noted_type;
int tg_sign(tg_signature *s, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);
int tg_sign_layout(tg_signature *s, PyObject *const *args, Py_ssize_t count);
PyObject *tg_run_known(tg_known_calls **known, const tg_signature *s, int *records);
int tg_begin_recording(const tg_signature *s, PyObject *writer);
int tg_end_recording(tg_known_calls *known, PyObject *result);
PyObject *tg_noted(PyObject *function, int is_spread, PyObject *const *args, size_t flags);
void tg_release_known(tg_known_calls *known);
PyObject *tg_know_calls(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_watch_recordings(PyObject *self, PyObject *address);

/* known_views.c */
extern PyTypeObject tg_known_views_type;

/* public_call.c */
extern PyTypeObject tg_public_function_type;
int tg_ready_public_call(void);

/* copies.c */
PyObject *tg_copied(PyObject *self, PyObject *x);
PyObject *tg_dense(PyObject *self, PyObject *x);
PyObject *tg_room(PyObject *self, PyObject *x);
PyObject *tg_copy_into(PyObject *self, PyObject *args);
char *tg_copies_zeros(tg_again function, void *context, const char *begin, const char *end,
                      int64_t *bytes);
int tg_clear_first(tg_again function, void *context, const char *out, int64_t bytes); /* kernel.c */

/* value_summary.c */
PyObject *tg_value_summary(PyObject *self, PyObject *value);

/* fingerprint.c */
PyObject *tg_fingerprint(PyObject *self, PyObject *x);
PyObject *tg_let_go(PyObject *self, PyObject *x);
PyObject *tg_move_into(PyObject *self, PyObject *args);
size_t tg_room_of(PyArrayObject *x);

/* placed_results.c */
extern PyTypeObject tg_lender_type;
int tg_is_lending(void);
PyObject *tg_is_at(PyObject *self, PyObject *args);

/* products.c */
PyObject *tg_product(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_product_with_vector(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_addmm_gradients(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_mm_gradients(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_lapack(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_know_threads(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_one_thread(PyObject *self, PyObject *begins);
PyObject *tg_in_one_thread(PyObject *self, PyObject *function);
PyObject *tg_by_column(PyObject *self, PyObject *x);
PyObject *tg_solve_triangles(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_set_blas(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* small_sums.c */
PyObject *tg_sum_few(PyObject *self, PyObject *arg);
PyObject *tg_sum_to(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* memory.c */
extern const PyDataMemAllocator tg_memory;
int tg_ready_memory(void);
PyObject *tg_new_array(int dims, const npy_intp *shape, int type, int in_f_order);
PyObject *tg_new_like(PyArrayObject *like, NPY_ORDER order);
PyObject *tg_all_finite(PyObject *self, PyObject *x);
PyObject *tg_same_values(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_meet(PyObject *self, PyObject *const *args, Py_ssize_t count);
int tg_meets(PyArrayObject *x, PyArrayObject *y);
PyObject *tg_alike(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_is_fresh(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_lies_as(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_strided(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_all_below(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_release_class(PyObject *self, PyObject *cls);
PyObject *tg_maker(PyObject *self, PyObject *classes);
PyObject *tg_user_line(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_empty(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_zeros(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *tg_use_memory(PyObject *self, PyObject *unused);
PyObject *tg_keep_memory(PyObject *self, PyObject *limit);
PyObject *tg_spare_memory(PyObject *self, PyObject *by);
PyObject *tg_forget_memory(PyObject *self, PyObject *unused);

#endif
