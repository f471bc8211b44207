/* Calls of LAPACK's routines, which take a pointer to every argument. */

#include <string.h>

#include "module.h"

/* A Fortran compiler passes the length of each string, by value, after the last argument. */
enum { MOST = 14, LENGTHS = 3 };

typedef void routine(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *,
                     void *, void *, void *, void *, void *, void *, void *);

/* lapack(address, …): an array is passed as its memory, an int as a 64-bit integer, a str as its
   first character. Returns the last argument, `info`, which the routine writes. */
PyObject *tg_lapack(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    if (count < 2 || count > MOST + 1)
        return PyErr_Format(PyExc_TypeError, "lapack: an address and up to %d arguments", MOST);
    void *found = PyLong_AsVoidPtr(args[0]);
    if (!found)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "lapack: no address");
    int64_t whole[MOST + 1] = {0};
    void *p[MOST + LENGTHS];
    for (Py_ssize_t i = 0; i < MOST + LENGTHS; i++)
        p[i] = (void *)(intptr_t)1;
    Py_ssize_t given = count - 1;
    for (Py_ssize_t i = 0; i < given; i++) {
        PyObject *x = args[i + 1];
        if (PyArray_Check(x)) {
            p[i] = PyArray_DATA((PyArrayObject *)x);
            continue;
        }
        p[i] = &whole[i];
        if (PyUnicode_Check(x) && PyUnicode_GET_LENGTH(x) == 1) {
            *(char *)p[i] = (char)PyUnicode_READ_CHAR(x, 0);
            continue;
        }
        whole[i] = PyLong_AsLongLong(x);
        if (whole[i] == -1 && PyErr_Occurred())
            return NULL;
    }
    routine *run;
    memcpy(&run, &found, sizeof found);
    Py_BEGIN_ALLOW_THREADS
    run(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11], p[12], p[13],
        p[14], p[15], p[16]);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(whole[given - 1]);
}
