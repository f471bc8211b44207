/* Memory of large arrays, kept for the next one of the same size.

   Fresh pages cost as much as computing on them: the kernel clears each one when it is first
   touched. A training step makes and drops arrays of the same sizes again and again, so what is
   freed here is kept, up to a limit, and given out again. NumPy's arrays remember who allocated them
   (PyDataMem_Handler), so these are ordinary arrays that own their data. */

#include <stdlib.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "gemm.h"
#include "module.h"
#include "platform.h"

#define LARGE ((size_t)1 << 16) /* from here on malloc may give pages back that are soon wanted */
#define FINE ((size_t)1 << 12)
#define PAGE ((size_t)1 << 16)
#define PAGE_FROM ((size_t)1 << 20)
#define HUGE_FROM ((size_t)4 << 20)
#define HUGE_PAGE ((size_t)2 << 20)
#define MOST_KEPT 256
#define CLEARED ((int64_t)1 << 19) /* bytes: a piece of work */
#define HEADER 64 /* in front of the data: how much it is; 0: it is malloc's */

static struct {
    tg_lock lock;
    struct {
        char *at;
        size_t size;
    } kept[MOST_KEPT];
    int count;
    size_t bytes;
    size_t limit;
    int sparing; /* calls that would rather wait for new pages than have more of them */
} store = {.lock = TG_LOCK, .limit = (size_t)512 << 20};

static PyObject *handler;

/* The size of the mapping for so many bytes; 0: larger than any address space. */
static size_t mapped(size_t size) {
    size_t page = size >= HUGE_FROM ? HUGE_PAGE : size >= PAGE_FROM ? PAGE : FINE;
    return size > (size_t)-1 / 2 ? 0 : (size + HEADER + page - 1) / page * page;
}

static size_t size_of(const void *data) {
    size_t size;
    memcpy(&size, (const char *)data - HEADER, sizeof size);
    return size;
}

/* After the 0: how much was asked for. */
static void *said_small(char *at, size_t bytes) {
    const size_t header[2] = {0, bytes};
    memcpy(at, header, sizeof header);
    return at + HEADER;
}

static void *get_small(size_t bytes, int cleared) {
    char *at = cleared ? calloc(1, bytes + HEADER) : malloc(bytes + HEADER);
    return at ? said_small(at, bytes) : NULL;
}

/* Give back the oldest kept memory: so many bytes, or all of it. The lock is held. */
static void drop_oldest(size_t wanted) {
    int gone = 0;
    for (size_t dropped = 0; gone < store.count && dropped < wanted; gone++) {
        tg_give_pages(store.kept[gone].at, store.kept[gone].size);
        dropped += store.kept[gone].size;
        store.bytes -= store.kept[gone].size;
    }
    store.count -= gone;
    memmove(&store.kept[0], &store.kept[gone], (size_t)store.count * sizeof store.kept[0]);
}

static void *get(void *context, size_t bytes) {
    (void)context;
    if (bytes < LARGE)
        return get_small(bytes, 0);
    const size_t size = mapped(bytes);
    char *at = NULL;
    if (!size)
        return NULL;
    tg_lock_take(&store.lock);
    for (int i = store.count - 1; i >= 0 && !at; i--)
        if (store.kept[i].size == size) {
            at = store.kept[i].at;
            store.bytes -= size;
            store.count--;
            memmove(&store.kept[i], &store.kept[i + 1],
                    (size_t)(store.count - i) * sizeof store.kept[0]);
        }
    if (!at && store.sparing)
        drop_oldest(size);
    tg_lock_release(&store.lock);
    if (!at) {
        at = tg_get_pages(size);
        if (!at)
            return NULL;
        if (size >= HUGE_FROM)
            tg_want_huge(at, size);
        memcpy(at, &size, sizeof size);
    }
    return at + HEADER;
}

static void *get_zeros(void *context, size_t count, size_t size) {
    if (size && count > (size_t)-1 / size)
        return NULL;
    if (count * size < LARGE)
        return get_small(count * size, 1);
    void *data = get(context, count * size);
    return data ? memset(data, 0, count * size) : NULL;
}

/* Keep freed memory for reuse; above the limit, the oldest is given back. */
static void give_back(void *context, void *data, size_t unused) {
    (void)context, (void)unused;
    if (!data)
        return;
    char *at = (char *)data - HEADER;
    const size_t size = size_of(data);
    if (!size) {
        free(at);
        return;
    }
    tg_lock_take(&store.lock);
    while (store.count && (store.count == MOST_KEPT || store.bytes + size > store.limit)) {
        tg_give_pages(store.kept[0].at, store.kept[0].size);
        store.bytes -= store.kept[0].size;
        store.count--;
        memmove(&store.kept[0], &store.kept[1], (size_t)store.count * sizeof store.kept[0]);
    }
    if (store.bytes + size <= store.limit) {
        store.kept[store.count].at = at;
        store.kept[store.count].size = size;
        store.count++;
        store.bytes += size;
        at = NULL;
    }
    tg_lock_release(&store.lock);
    if (at)
        tg_give_pages(at, size);
}

static void *get_again(void *context, void *data, size_t bytes) {
    if (!data)
        return get(context, bytes);
    const size_t before = size_of(data);
    if (!before && bytes < LARGE) {
        char *at = realloc((char *)data - HEADER, bytes + HEADER);
        return at ? said_small(at, bytes) : NULL;
    }
    if (before && bytes >= LARGE && mapped(bytes) == before)
        return data;
    void *made = get(context, bytes);
    if (made) {
        size_t room = before - HEADER;
        if (!before)
            memcpy(&room, (const char *)data - HEADER + sizeof room, sizeof room);
        memcpy(made, data, bytes < room ? bytes : room);
        give_back(context, data, 0);
    }
    return made;
}

const PyDataMemAllocator tg_memory = {NULL, get, get_zeros, get_again, give_back};
static PyDataMem_Handler functions = {
    "tapegrad", 1, {NULL, get, get_zeros, get_again, give_back},
};

/* Sizes are powers of two, so that few different ones are kept. */
void *tg_scratch(size_t bytes) {
    size_t size = 2 * LARGE; /* smaller blocks come from malloc, at any address */
    while (size < bytes + HEADER)
        size *= 2;
    return get(NULL, size - HEADER);
}

void tg_scratch_back(void *memory) { give_back(NULL, memory, 0); }

static void before_fork(void) { tg_lock_take(&store.lock); }
static void after_fork(void) { tg_lock_release(&store.lock); }

int tg_ready_memory(void) {
    handler = PyCapsule_New(&functions, "mem_handler", NULL);
    tg_at_fork(before_fork, after_fork, after_fork);
    return handler ? 0 : -1;
}

/* How much there is from the first element of an array to the end of its pages; 0: it is not from
   here, or malloc's. */
size_t tg_room_of(PyArrayObject *x) {
    if (PyArray_HANDLER(x) != handler || !PyArray_DATA(x))
        return 0;
    const size_t size = size_of(PyArray_DATA(x));
    return size ? size - HEADER : 0;
}

PyObject *tg_new_array(int dims, const npy_intp *shape, int type, int in_f_order) {
    double bytes = type == NPY_DOUBLE ? 8 : type == NPY_FLOAT ? 4 : type >= NPY_USERDEF ? 2 : 1;
    for (int d = 0; d < dims; d++)
        bytes *= (double)shape[d];
    if (bytes < (double)LARGE || tg_is_lending())
        return PyArray_New(&PyArray_Type, dims, (npy_intp *)shape, type, NULL, NULL, 0, in_f_order,
                           NULL);
    PyObject *before = PyDataMem_SetHandler(handler);
    if (!before)
        return NULL;
    PyObject *made = PyArray_New(&PyArray_Type, dims, (npy_intp *)shape, type, NULL, NULL, 0,
                                 in_f_order, NULL);
    PyObject *ours = PyDataMem_SetHandler(before);
    Py_XDECREF(ours);
    Py_DECREF(before);
    return made;
}

/* A new array with the dtype and shape of another one. */
PyObject *tg_new_like(PyArrayObject *like, NPY_ORDER order) {
    const int is_large = (size_t)PyArray_NBYTES(like) >= LARGE && !tg_is_lending();
    PyObject *before = is_large ? PyDataMem_SetHandler(handler) : NULL;
    if (is_large && !before)
        return NULL;
    PyObject *made = PyArray_NewLikeArray(like, order, NULL, 0);
    if (is_large) {
        PyObject *ours = PyDataMem_SetHandler(before);
        Py_XDECREF(ours);
        Py_DECREF(before);
    }
    return made;
}

/* empty(shape, like): a new array in C order, with the dtype of `like`. */
PyObject *tg_empty(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    npy_intp shape[NPY_MAXDIMS];
    if (count != 2 || !PyTuple_CheckExact(args[0]) || !PyArray_CheckExact(args[1]) ||
        PyTuple_GET_SIZE(args[0]) > NPY_MAXDIMS)
        return PyErr_Format(PyExc_TypeError, "a shape and an array are wanted");
    int type = PyArray_TYPE((PyArrayObject *)args[1]);
    const int half = type == NPY_HALF ||
                     (type >= NPY_USERDEF && PyArray_ITEMSIZE((PyArrayObject *)args[1]) == 2);
    if (type != NPY_FLOAT && type != NPY_DOUBLE && type != NPY_BOOL && !half)
        return PyErr_Format(PyExc_TypeError, "only for float, double, half precision and bool");
    for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(args[0]); d++)
        shape[d] = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[0], d));
    if (PyErr_Occurred())
        return NULL;
    return tg_new_array((int)PyTuple_GET_SIZE(args[0]), shape, type, 0);
}

static void clear(void *data, int64_t begin, int64_t end) {
    memset((char *)data + begin, 0, (size_t)(end - begin));
}

typedef struct {
    char *data;
    int64_t bytes;
} cleared;

static int clear_all(void *context) {
    const cleared *c = context;
    tg_parallel(c->bytes, CLEARED, clear, c->data);
    return 1;
}

/* As the copy of zeros that it is: copies.c. */
PyObject *tg_describe_clear(tg_again function, const void *context) {
    const cleared *c = context;
    if (function != clear_all)
        return NULL;
    const int64_t addresses[] = {(intptr_t)c->data, 0}, sizes[] = {1, c->bytes, 1, 0};
    return tg_described("copy", addresses, 2, sizes, 4, NULL, 0);
}

/* zeros(shape, like): a new array of zeros. */
PyObject *tg_zeros(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    PyObject *made = tg_empty(self, args, count);
    if (!made)
        return NULL;
    cleared c = {PyArray_BYTES((PyArrayObject *)made), PyArray_NBYTES((PyArrayObject *)made)};
    if (tg_is_taping() && tg_tape(clear_all, &c, sizeof c, &made, 1) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS clear_all(&c);
    Py_END_ALLOW_THREADS return made;
}

/* From now on NumPy allocates its arrays here too, in the current contextvars context. */
PyObject *tg_use_memory(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    PyObject *before = PyDataMem_SetHandler(handler);
    if (!before)
        return NULL;
    Py_DECREF(before);
    Py_RETURN_NONE;
}

/* Keep no more than so many bytes; the lock is held. */
static void shrink(size_t limit) {
    while (store.count && store.bytes > limit) {
        store.count--;
        tg_give_pages(store.kept[store.count].at, store.kept[store.count].size);
        store.bytes -= store.kept[store.count].size;
    }
}

/* Set how many bytes are kept for reuse; 0 gives everything back. */
PyObject *tg_keep_memory(PyObject *self, PyObject *limit) {
    (void)self;
    Py_ssize_t bytes = PyLong_AsSsize_t(limit);
    if (bytes == -1 && PyErr_Occurred())
        return NULL;
    tg_lock_take(&store.lock);
    store.limit = bytes < 0 ? 0 : (size_t)bytes;
    shrink(store.limit);
    tg_lock_release(&store.lock);
    Py_RETURN_NONE;
}

/* spare_memory(by): from the first 1 to the last -1, new memory takes the place of what is kept. */
PyObject *tg_spare_memory(PyObject *self, PyObject *by) {
    (void)self;
    const long change = PyLong_AsLong(by);
    if (change == -1 && PyErr_Occurred())
        return NULL;
    tg_lock_take(&store.lock);
    store.sparing += change > 0 ? 1 : -1;
    tg_lock_release(&store.lock);
    Py_RETURN_NONE;
}

/* forget_memory(): none of what is kept is wanted soon. */
PyObject *tg_forget_memory(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    tg_lock_take(&store.lock);
    shrink(0);
    tg_lock_release(&store.lock);
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
    Py_RETURN_NONE;
}
