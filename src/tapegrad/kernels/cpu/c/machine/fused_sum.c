/* A call of the vector machine whose results are added up, in one pass: they need not be in memory.

   The sums are those of reduce.c, in the same pieces and the same order. */

#include <string.h>

#include "kernels.h"
#include "module.h"

#define SOME 8192 /* elements that are made and then added up: whole blocks of sums.h */
#define MOST_LANES 8
#define FEWEST 8 /* pieces: fewer would leave threads without work */

void tg_sum_on_f32(const void *from, int64_t count, double *sums, double *so_far);
void tg_sum_on_f64(const void *from, int64_t count, double *sums, double *so_far);
double tg_sum_end_f32(double *sums, double so_far);
double tg_sum_end_f64(double *sums, double so_far);

typedef struct {
    const tg_program *program;
    const tg_prepared *prepared;
    int out;     /* the operand that is added up */
    int is_kept; /* it is wanted in memory, too */
    int64_t rows, width, length;
    double divisor;
    void *sums;
    double *parts; /* one per piece, where rows are cut into pieces */
    tg_operand operands[TG_MOST_OPERANDS];
} summed;

static int64_t pieces_of(const summed *s) { return (s->width + s->length - 1) / s->length; }

static void store(const summed *s, int64_t row, double sum) {
    if (s->program->kind == TG_F32)
        ((float *)s->sums)[row] = (float)(sum / s->divisor);
    else
        ((double *)s->sums)[row] = sum / s->divisor;
}

static void some(void *context, int64_t begin, int64_t end) {
    const summed *s = context;
    const int single = s->program->kind == TG_F32;
    const int all = s->program->inputs + s->program->outputs;
    const int64_t pieces = pieces_of(s);
    char room[SOME * sizeof(double)] __attribute__((aligned(64)));
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t row = piece / pieces, first = (piece - row * pieces) * s->length;
        const int64_t count = s->width - first < s->length ? s->width - first : s->length;
        double sums[MOST_LANES] = {0}, total = 0;
        for (int64_t from = 0; from < count; from += SOME) {
            const int64_t n = count - from < SOME ? count - from : SOME;
            const int64_t at = row * s->width + first + from;
            tg_operand operands[TG_MOST_OPERANDS];
            for (int k = 0; k < all; k++) {
                operands[k].data = s->operands[k].data;
                operands[k].number = s->operands[k].number;
                operands[k].kind = s->operands[k].kind;
                operands[k].stride[0] = s->operands[k].stride[0];
                if (operands[k].data)
                    operands[k].data += at * operands[k].stride[0];
            }
            if (!s->is_kept)
                operands[s->out].data = room;
            tg_run_row(s->prepared, operands, n);
            if (single)
                tg_sum_on_f32(operands[s->out].data, n, sums, &total);
            else
                tg_sum_on_f64(operands[s->out].data, n, sums, &total);
        }
        total = single ? tg_sum_end_f32(sums, total) : tg_sum_end_f64(sums, total);
        if (s->parts)
            s->parts[piece] = total;
        else
            store(s, row, total);
    }
}

static int again(void *context) {
    summed *s = context;
    const int64_t pieces = pieces_of(s);
    const int64_t length = s->length < s->width ? s->length : s->width;
    int64_t grain = tg_grain(s->program->cost + 0.15) / (length > 0 ? length : 1);
    tg_parallel(s->rows * pieces, grain < 1 ? 1 : grain, some, s);
    for (int64_t row = 0; s->parts && row < s->rows; row++) {
        double sum = 0;
        for (int64_t i = 0; i < pieces; i++)
            sum += s->parts[row * pieces + i];
        store(s, row, sum);
    }
    return 1;
}

/* ("sum_of", …, program): addresses: sums, parts, operands; sizes: which operand is added up, whether
   it is kept, rows, width, length of a piece, then kind and step of each operand; numbers: what sums
   are divided by, and the operands that are numbers. */
PyObject *tg_describe_summed(tg_again function, const void *context) {
    const summed *s = context;
    if (function != again)
        return NULL;
    const int all = s->program->inputs + s->program->outputs;
    int64_t addresses[2 + TG_MOST_OPERANDS] = {(intptr_t)s->sums, (intptr_t)s->parts};
    int64_t sizes[5 + 2 * TG_MOST_OPERANDS] = {s->out, s->is_kept, s->rows, s->width, s->length};
    double numbers[1 + TG_MOST_OPERANDS] = {s->divisor};
    for (int k = 0; k < all; k++) {
        const tg_operand *x = &s->operands[k];
        addresses[2 + k] = (intptr_t)x->data;
        sizes[5 + 2 * k] = x->kind;
        sizes[6 + 2 * k] = x->stride[0];
        numbers[1 + k] = x->data ? 0.0 : x->number;
    }
    PyObject *made = tg_described("sum_of", addresses, 2 + all, sizes, 5 + 2 * all, numbers, 1 + all);
    PyObject *said = made ? Py_BuildValue("(O)", tg_said(s->program)) : NULL;
    PyObject *whole = said ? PySequence_Concat(made, said) : NULL;
    Py_XDECREF(made);
    Py_XDECREF(said);
    return whole;
}

/* The step of an operand if all elements are in a row: 0 if it is one number everywhere; -1 if they
   are not. */
static int64_t step_of(const tg_operand *x, int dims, const int64_t *size) {
    int64_t step = tg_size_of_kind[x->kind];
    int is_number = 1, is_row = 1;
    for (int d = dims - 1; d >= 0; d--) {
        if (size[d] == 1)
            continue;
        is_number &= x->stride[d] == 0;
        is_row &= x->stride[d] == step;
        step *= size[d];
    }
    return !x->data || is_number ? 0 : is_row ? tg_size_of_kind[x->kind] : -1;
}

/* A call of the machine and one of a kernel for sums as one call, on the tape of this thread; 0 if
   they are not such, -1 with an error. */
int tg_tape_summed(tg_again machine, const void *machine_context, tg_again kernel,
                   const void *kernel_context, int is_kept) {
    const tg_operand *operands;
    const int64_t *size, *n;
    void *const *p;
    const double *x;
    int dims;
    summed s = {.is_kept = is_kept, .out = -1};
    s.program = tg_read_machine(machine, machine_context, &s.prepared, &operands, &dims, &size);
    const tg_kernel function = tg_read_kernel(kernel, kernel_context, &p, &n, &x);
    if (!s.program || !s.prepared || !tg_is_one_row(s.prepared) || !function)
        return 0;
    const int single = s.program->kind == TG_F32;
    if (function != (single ? tg_sum_f32 : tg_sum_f64))
        return 0;
    const int all = s.program->inputs + s.program->outputs;
    int64_t count = 1;
    for (int d = 0; d < dims; d++)
        count *= size[d];
    for (int k = 0; k < all; k++) {
        const int64_t step = step_of(&operands[k], dims, size);
        if (step < 0)
            return 0;
        s.operands[k] = (tg_operand){operands[k].data, operands[k].number, operands[k].kind, {step}};
        if (k >= s.program->inputs && operands[k].data == p[0] && step == (single ? 4 : 8))
            s.out = k;
    }
    s.rows = n[0], s.width = n[1], s.length = n[2];
    if (s.out < 0 || s.rows * s.width != count || s.width < 1 || s.length < 1)
        return 0;
    if (s.rows * pieces_of(&s) < FEWEST)
        return 0;
    if (!is_kept)
        s.operands[s.out].data = NULL; /* that memory is not kept */
    s.divisor = x[0], s.sums = p[1], s.parts = p[2];
    return tg_tape(again, &s, sizeof s, NULL, 0) < 0 ? -1 : 1;
}
