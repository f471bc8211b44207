#include "machine.h"

#include <stdlib.h>

#include "vecmath.h"
#include "vecmath_arcs.h"

const char *const tg_step_names[] = {
#define X(name, width) #name,
    TG_STEPS(X)
#undef X
};
const int tg_step_widths[] = {
#define X(name, width) width,
    TG_STEPS(X)
#undef X
};

TG_INLINE float log2_f32(float x) { return (float)(log_f64((double)x) * 0x1.71547652b82fep0); }
TG_INLINE float log10_f32(float x) { return (float)(log_f64((double)x) * 0x1.bcb7b1526e50ep-2); }

/* ------------------------------------------------------------------ how a program is run */

typedef void (*any_loop)(void); /* of blocks of floats or doubles: machine_steps.h */

typedef struct {
    any_loop loop;
    uint8_t out, a, b, c;
    uint8_t code; /* TG_STEP_COUNT: two in one */
} planned;

/* A program on operands of given strides along the last dimension: which registers are memory
   itself, which need room, which are numbers; and the steps, with the loop for each. */
typedef struct {
    planned *once, *each; /* per row, per block */
    uint8_t *wide;        /* of the steps done once: whether they fill a block, or are one number */
    int16_t *room;        /* of registers; -1: memory itself */
    uint8_t *is_number;
    void *listed; /* coefficients, as floats or doubles */
    int onces, eaches, rooms, registers;
} plan;

#define NO_REGISTER 255 /* TG_MOST_REGISTERS is less */

/* Where a plan is made. */
typedef struct {
    planned once[TG_MOST_STEPS], each[TG_MOST_STEPS];
    double listed[TG_MOST_LISTED];
    int16_t room[TG_MOST_REGISTERS];
    uint8_t is_number[TG_MOST_REGISTERS], wide[TG_MOST_STEPS];
} desk;

struct tg_prepared {
    const tg_program *program;
    int count; /* operands */
    int dims;  /* after merging contiguous ones; the last is the row */
    int64_t size[TG_MOST_DIMS];
    int64_t stride[TG_MOST_OPERANDS][TG_MOST_DIMS];
    int64_t last[TG_MOST_OPERANDS]; /* strides along the row */
    int64_t rows, grain;
    /* Short rows are gone through as one long one. Operands that do not just go on from one of them
       to the next then jump to it. */
    int64_t shorter; /* elements; 0: the rows are what they are */
    int64_t jump[TG_MOST_OPERANDS];
    plan plan;
};

static int jumps(const tg_prepared *s, int k) {
    return s->shorter && s->jump[k] != s->shorter * s->last[k];
}
/* One number along the row. */
static int stays(const tg_prepared *s, int k) {
    return !s->last[k] && (!s->shorter || !s->jump[k]);
}

/* Where the operands are in a row. */
TG_INLINE void addresses(const tg_prepared *s, const tg_operand *operands, int64_t row,
                         char **at) {
    int64_t place[TG_MOST_DIMS];
    for (int d = s->dims - 2; d >= 0; d--) {
        place[d] = row % s->size[d];
        row /= s->size[d];
    }
    for (int k = 0; k < s->count; k++) {
        at[k] = operands[k].data;
        for (int d = 0; d < s->dims - 1; d++)
            at[k] += place[d] * s->stride[k][d];
    }
}

/* Nanoseconds an element: less than that leaves no time for more than the processor fetches anyway. */
#define WORTH_FETCHING 2.0

/* No loops: they say how a plan is gone through. */
#define skip_step_f32 NULL
#define skipped_step_f32 NULL
#define skip_step_f64 NULL
#define skipped_step_f64 NULL

#define T float
#define SUFFIX step_f32
#define KIND TG_F32
#define BLOCK 1024
#define LIBM(name) name##f
#define ARC(name) name##_f32
#define SHORT_FMOD short_fmod_f32
#define HAS_SHORT_FMOD has_short_fmod
#define FABS fabsf
#define SQRT sqrtf
#define EXP exp_f32
#define EXP2 exp2_f32
#define EXPM1 expm1_f32
#define LOG log_f32
#define LOG2 log2_f32
#define LOG10 log10_f32
#define LOG1P log1p_f32
#define TANH tanh_f32
#define SIGMOID sigmoid_f32
#define ERF erf_f32
#define ERFINV erfinv_f32
#define GELU_VALUE gelu_value_f32
#define GELU_SLOPE gelu_slope_f32
#define FLOOR floorf
#define CEIL ceilf
#define RINT rintf
#define TRUNC truncf
#define SIGNBIT(a) (bits_of_f32(a) >> 31)
#define COPYSIGN copysignf
#define POW powf
#define PORTABLE(name) tg_loop_##name##_f32

/* Sines and cosines of large numbers are the C library's, element by element. */
#define limit_f32 TRIG_LIMIT_F32
#define limit_f64 TRIG_LIMIT_F64
#define FAR_OR_NEAR(name, kind, T, fabs, far_function)                                             \
    TG_VERSIONS static void name##_step_##kind(T *d, const T *pa, const T *pb, const T *pc,        \
                                               int64_t n) {                                        \
        (void)pb, (void)pc;                                                                        \
        int far = 0;                                                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            far |= !(fabs(pa[i]) <= limit_##kind);                                                 \
        if (far) {                                                                                 \
            for (int64_t i = 0; i < n; i++)                                                        \
                d[i] = fabs(pa[i]) <= limit_##kind ? name##_##kind(pa[i]) : far_function(pa[i]);   \
            return;                                                                                \
        }                                                                                          \
        TG_INDEPENDENT                                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            d[i] = name##_##kind(pa[i]);                                                           \
    }
FAR_OR_NEAR(sin, f32, float, fabsf, sinf)
FAR_OR_NEAR(cos, f32, float, fabsf, cosf)
FAR_OR_NEAR(tan, f32, float, fabsf, tanf)
FAR_OR_NEAR(sin, f64, double, fabs, sin)
FAR_OR_NEAR(cos, f64, double, fabs, cos)
#define tan_f64 tan /* the C library's */
FAR_OR_NEAR(tan, f64, double, fabs, tan)

static void round_f16_step_f32(float *d, const float *pa, const float *pb, const float *pc, int64_t n) {
    (void)pb, (void)pc;
    uint16_t half[64];
    for (int64_t i = 0; i < n; i += 64) {
        const int64_t some = n - i < 64 ? n - i : 64;
        narrow_f16(half, pa + i, some);
        widen_f16(d + i, half, some);
    }
}
#include "machine_steps.h"

#undef T
#undef SUFFIX
#undef KIND
#undef BLOCK
#undef LIBM
#undef FABS
#undef SQRT
#undef EXP
#undef EXP2
#undef EXPM1
#undef LOG
#undef LOG2
#undef LOG10
#undef LOG1P
#undef TANH
#undef SIGMOID
#undef ERF
#undef ERFINV
#undef ARC
#undef SHORT_FMOD
#undef HAS_SHORT_FMOD
#undef GELU_VALUE
#undef GELU_SLOPE
#undef FLOOR
#undef CEIL
#undef RINT
#undef TRUNC
#undef SIGNBIT
#undef COPYSIGN
#undef POW
#undef PORTABLE

/* No hand-written step in double: programs of doubles use the formulas of these. */
#define erfinv_step_f64 NULL
#define gelu_value_step_f64 NULL
#define gelu_slope_step_f64 NULL
#define round_bf16_step_f64 NULL
#define round_f16_step_f64 NULL
#define T double
#define SUFFIX step_f64
#define KIND TG_F64
#define BLOCK 512
#define LIBM(name) name
#define ARC(name) name
#define FABS fabs
#define SQRT sqrt
#define EXP exp_f64
#define EXP2 exp2
#define EXPM1 expm1_f64
#define LOG log_f64
#define LOG2 log2
#define LOG10 log10
#define LOG1P log1p_f64
#define TANH tanh_f64
#define SIGMOID sigmoid_f64
#define ERF erf
#define FLOOR floor
#define CEIL ceil
#define RINT rint
#define TRUNC trunc
#define SIGNBIT(a) (bits_of_f64(a) >> 63)
#define COPYSIGN copysign
#define POW pow
#define PORTABLE(name) tg_loop_##name##_f64

#include "machine_steps.h"

/* ------------------------------------------------------------------ the index space */

typedef struct {
    const tg_prepared *how;
    const tg_operand *operands;
} work;

/* Room for registers: most programs need little. */
#define SMALL_ROOM (12 * 4096)

static void run_rows(const work *w, int64_t first_row, int64_t rows, int64_t begin, int64_t end) {
    const tg_prepared *s = w->how;
    const int single = s->program->kind == TG_F32;
    const int64_t block = single ? 1024 : 512;
    /* Whole lines; those of short rows lie side by side, so that they are in different places of
       the cache. */
    const int64_t wide = end - begin < block ? (end - begin + 15) / 16 * 16 : block;
    const size_t bytes = (size_t)(s->plan.rooms * wide) * (single ? sizeof(float) : sizeof(double));
    char small[SMALL_ROOM] __attribute__((aligned(64)));
    char *room = bytes <= SMALL_ROOM ? small : tg_scratch(bytes);
    if (room == NULL)
        abort(); /* a quarter of a megabyte at the most */
    if (single)
        rows_step_f32(s, w->operands, (float *)room, wide, first_row, rows, begin, end);
    else
        rows_step_f64(s, w->operands, (double *)room, wide, first_row, rows, begin, end);
    if (room != small)
        tg_scratch_back(room);
}

static void some_rows(void *context, int64_t begin, int64_t end) {
    const tg_prepared *s = ((const work *)context)->how;
    run_rows(context, begin, end - begin, 0, s->size[s->dims - 1]);
}

static void some_of_the_row(void *context, int64_t begin, int64_t end) {
    run_rows(context, 0, 1, begin, end);
}

/* Drop dimensions of size 1, and join neighbours along which every operand just goes on. */
static int join_dims(tg_prepared *s, const tg_operand *operands, int dims, const int64_t *size) {
    int made = 0;
    for (int d = 0; d < dims; d++) {
        if (size[d] == 0)
            return 0;
        if (size[d] == 1)
            continue;
        int64_t step[TG_MOST_OPERANDS];
        for (int k = 0; k < s->count; k++) /* a number has no strides */
            step[k] = operands[k].data ? operands[k].stride[d] : 0;
        int joins = made > 0;
        for (int k = 0; joins && k < s->count; k++)
            joins = s->stride[k][made - 1] == step[k] * size[d];
        if (joins) {
            s->size[made - 1] *= size[d];
        } else {
            s->size[made] = size[d];
            made++;
        }
        for (int k = 0; k < s->count; k++)
            s->stride[k][made - 1] = step[k];
    }
    if (made == 0) {
        s->size[made] = 1;
        for (int k = 0; k < s->count; k++)
            s->stride[k][made] = 0;
        made = 1;
    }
    s->dims = made;
    return 1;
}

/* Nanoseconds, about: what a row costs beside its elements; and an operand that jumps, for each. */
#define ROW_COST 16
#define STEP_COST 5
#define JUMP_COST(n) (8 + (n) / 16)
#define LONGEST_SHORT 256

/* See whether short rows had better be one long one. */
static void join_rows(tg_prepared *s) {
    const int row = s->dims - 1;
    const int64_t n = s->size[row];
    s->shorter = 0;
    if (row == 0 || n > LONGEST_SHORT)
        return;
    int64_t cost = 0;
    for (int k = 0; k < s->count; k++)
        if (s->stride[k][row - 1] != s->stride[k][row] * n)
            cost += JUMP_COST(n);
    if (cost >= ROW_COST + STEP_COST * s->program->steps)
        return;
    s->shorter = n;
    s->size[row - 1] *= n;
    s->dims--;
    for (int k = 0; k < s->count; k++) {
        s->jump[k] = s->stride[k][row - 1];
        s->stride[k][row - 1] = s->stride[k][row];
    }
}

/* 0: there is nothing to do. */
static int prepare(tg_prepared *s, desk *d, const tg_program *program, const tg_operand *operands,
                   int dims, const int64_t *size) {
    const int single = program->kind == TG_F32;
    s->program = program;
    s->count = program->inputs + program->outputs;
    if (!join_dims(s, operands, dims, size))
        return 0;
    join_rows(s);
    const int row = s->dims - 1;
    s->rows = 1;
    for (int i = 0; i < row; i++)
        s->rows *= s->size[i];
    for (int k = 0; k < s->count; k++)
        s->last[k] = s->stride[k][row];
    if (s->dims == 1 && s->size[0] == 1) /* one element: its strides say nothing */
        for (int k = 0; k < s->count; k++)
            s->last[k] = k < program->inputs ? 0 : (int64_t)(single ? sizeof(float) : sizeof(double));
    s->plan = (plan){.once = d->once, .each = d->each, .wide = d->wide, .room = d->room,
                     .is_number = d->is_number, .listed = d->listed};
    if (single)
        make_plan_step_f32(s, operands);
    else
        make_plan_step_f64(s, operands);
    const int64_t block = single ? 1024 : 512;
    s->grain = block;
    if (s->rows == 1 && s->size[row] <= block) /* one block: nothing to share out */
        return 1;
    const int64_t grain = tg_grain(program->cost);
    const int64_t per = grain / s->size[row];
    s->grain = s->rows == 1 ? (grain + block - 1) / block * block : per < 1 ? 1 : per;
    return 1;
}

void tg_run_prepared(const tg_prepared *s, const tg_operand *operands) {
    work w = {s, operands};
    if (s->rows == 1)
        tg_parallel(s->size[s->dims - 1], s->grain, some_of_the_row, &w);
    else
        tg_parallel(s->rows, s->grain, some_rows, &w);
}

int tg_is_one_row(const tg_prepared *s) { return s->rows == 1 && !s->shorter; }

void tg_run_row(const tg_prepared *s, const tg_operand *operands, int64_t count) {
    const work w = {s, operands};
    run_rows(&w, 0, 1, 0, count);
}

void tg_machine(const tg_program *program, const tg_operand *operands, int dims,
                const int64_t *size) {
    tg_prepared s;
    desk d;
    if (prepare(&s, &d, program, operands, dims, size))
        tg_run_prepared(&s, operands);
}

/* ------------------------------------------------------------------ two steps in one */

enum { ADD, SUB, RSUB, MUL, NEITHER }; /* the first or the second of a pair */

static int reads(const planned *step, int r) {
    if (step->code == TG_skipped)
        return 0;
    return step->a == r || step->b == r || step->c == r;
}

/* Whether no later step reads a register. */
static int is_dead_after(const plan *p, int at, int r) {
    for (int k = at; k < p->eaches; k++) {
        if (k > at && reads(&p->each[k], r))
            return 0;
        if (p->each[k].out == r)
            return 1;
    }
    return 1;
}

/* Whether what a step does may be done at the place of a later one just as well. */
static int can_wait(const plan *p, const tg_program *program, int from, int to) {
    const planned *step = &p->each[from];
    const int inputs = program->inputs, first_out = inputs + program->constants;
    const int first_other = first_out + program->outputs;
    for (int k = from + 1; k < to; k++) {
        const int out = p->each[k].out;
        if (reads(&p->each[k], step->out) || out == step->a || out == step->b)
            return 0;
        /* Outputs may be written where inputs are. */
        if (out >= first_out && out < first_other && (step->a < inputs || step->b < inputs))
            return 0;
    }
    return 1;
}

/* The kind of a step as the first of a pair, with its vector in front; NEITHER: it is none. */
static int as_first(const plan *p, planned *step) {
    const int swaps = p->is_number[step->a] && !p->is_number[step->b];
    int first = NEITHER;
    switch (step->code) {
    case TG_square:
        step->b = step->a;
        return MUL;
    case TG_add:
        first = ADD;
        break;
    case TG_sub:
        first = swaps ? RSUB : SUB;
        break;
    case TG_mul:
        first = MUL;
        break;
    }
    if (first != NEITHER && swaps) {
        const uint8_t a = step->a;
        step->a = step->b;
        step->b = a;
    }
    return first;
}

/* Try to make one step of step `to` and the one that computes an operand of it. */
static int pair_up(plan *p, const tg_program *program, int to, int of_b) {
    planned *step = &p->each[to];
    const int r = of_b ? step->b : step->a, other = of_b ? step->a : step->b;
    const int second = step->code == TG_add   ? ADD
                       : step->code == TG_mul ? MUL
                       : step->code == TG_sub ? (of_b ? RSUB : SUB)
                                              : NEITHER;
    const int first_other = program->inputs + program->constants + program->outputs;
    if (second == NEITHER || r < first_other || r == other || p->is_number[r])
        return 0;
    int from = to - 1;
    while (from >= 0 && p->each[from].out != r)
        from--;
    if (from < 0 || !can_wait(p, program, from, to) || !is_dead_after(p, to, r))
        return 0;
    planned earlier = p->each[from];
    const int first = as_first(p, &earlier);
    if (first == NEITHER)
        return 0;
    const int numbers = (p->is_number[earlier.b] ? 1 : 0) + (p->is_number[other] ? 2 : 0);
    const any_loop loop = program->kind == TG_F32
                              ? (any_loop)pair_loops_step_f32[first][second][numbers]
                              : (any_loop)pair_loops_step_f64[first][second][numbers];
    *step = (planned){loop, step->out, earlier.a, earlier.b, (uint8_t)other, TG_STEP_COUNT};
    memmove(&p->each[from], &p->each[from + 1], (size_t)(p->eaches - from - 1) * sizeof *p->each);
    p->eaches--;
    return 1;
}

static void pair_steps(plan *p, const tg_program *program) {
    for (int to = 1; to < p->eaches; to++)
        if (pair_up(p, program, to, 1) || pair_up(p, program, to, 0))
            to--; /* the steps have moved up */
}

/* A part of a plan at its place in the memory that is to hold it. */
static void *put(char **at, const void *from, size_t bytes) {
    void *here = *at;
    memcpy(here, from, bytes);
    *at += (bytes + 7) / 8 * 8;
    return here;
}

tg_prepared *tg_prepare(const tg_program *program, const tg_operand *operands, int dims,
                        const int64_t *size) {
    tg_prepared s;
    desk d;
    if (!prepare(&s, &d, program, operands, dims, size))
        return NULL;
    pair_steps(&s.plan, program);
    const plan p = s.plan;
    const size_t onces = (size_t)p.onces, eaches = (size_t)p.eaches;
    const size_t registers = (size_t)p.registers;
    const size_t item = program->kind == TG_F32 ? sizeof(float) : sizeof(double);
    tg_prepared *made = malloc(sizeof s + (onces + eaches) * sizeof(planned) + onces +
                               registers * (sizeof *p.room + 1) +
                               (size_t)program->all_listed * item + 6 * 8);
    if (!made)
        return NULL;
    char *at = (char *)(made + 1);
    *made = s;
    made->plan.once = put(&at, p.once, onces * sizeof *p.once);
    made->plan.each = put(&at, p.each, eaches * sizeof *p.each);
    made->plan.listed = put(&at, p.listed, (size_t)program->all_listed * item);
    made->plan.room = put(&at, p.room, registers * sizeof *p.room);
    made->plan.is_number = put(&at, p.is_number, registers);
    made->plan.wide = put(&at, p.wide, onces);
    return made;
}

int tg_same_prepared(const tg_prepared *a, const tg_prepared *b) {
    const size_t dims = (size_t)a->dims, registers = (size_t)a->plan.registers;
    if (a->program != b->program || a->dims != b->dims || a->shorter != b->shorter ||
        (a->shorter && memcmp(a->jump, b->jump, (size_t)a->count * sizeof *a->jump)) ||
        a->plan.registers != b->plan.registers ||
        memcmp(a->size, b->size, dims * sizeof *a->size) ||
        memcmp(a->last, b->last, (size_t)a->count * sizeof *a->last) ||
        memcmp(a->plan.room, b->plan.room, registers * sizeof *a->plan.room) ||
        memcmp(a->plan.is_number, b->plan.is_number, registers))
        return 0;
    for (int k = 0; k < a->count; k++)
        if (memcmp(a->stride[k], b->stride[k], dims * sizeof *a->stride[k]))
            return 0;
    return 1;
}
