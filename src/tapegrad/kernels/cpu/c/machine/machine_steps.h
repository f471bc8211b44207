/* The primitives for one type: T, its suffix and its functions. Included by machine.c, twice. */

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define NAMED(name) PASTE(name, SUFFIX)

#define LOOP TG_INDEPENDENT for (int64_t i = 0; i < n; i++)

#define UNARY(name, value)                                                                         \
    TG_VERSIONS static void NAMED(name)(T * d, const T *pa, const T *pb, const T *pc, int64_t n) { \
        (void)pb, (void)pc;                                                                        \
        LOOP {                                                                                     \
            const T a = pa[i];                                                                     \
            d[i] = (value);                                                                        \
        }                                                                                          \
    }

/* Of two vectors, of a vector and a number, of a number and a vector. */
#define BINARY(name, value)                                                                        \
    TG_VERSIONS static void NAMED(name)(T * d, const T *pa, const T *pb, const T *pc, int64_t n) { \
        (void)pc;                                                                                  \
        LOOP {                                                                                     \
            const T a = pa[i], b = pb[i];                                                          \
            d[i] = (value);                                                                        \
        }                                                                                          \
    }                                                                                              \
    TG_VERSIONS static void NAMED(name##_vs)(T * d, const T *pa, const T *pb, const T *pc,         \
                                             int64_t n) {                                          \
        (void)pc;                                                                                  \
        const T b = *pb;                                                                           \
        LOOP {                                                                                     \
            const T a = pa[i];                                                                     \
            d[i] = (value);                                                                        \
        }                                                                                          \
    }                                                                                              \
    TG_VERSIONS static void NAMED(name##_sv)(T * d, const T *pa, const T *pb, const T *pc,         \
                                             int64_t n) {                                          \
        (void)pc;                                                                                  \
        const T a = *pa;                                                                           \
        LOOP {                                                                                     \
            const T b = pb[i];                                                                     \
            d[i] = (value);                                                                        \
        }                                                                                          \
    }

UNARY(copy, a)
UNARY(neg, -a)
UNARY(abs, FABS(a))
UNARY(square, a * a)
UNARY(sqrt, SQRT(a))
UNARY(reciprocal, 1 / a)
UNARY(exp, EXP(a))
UNARY(exp2, EXP2(a))
UNARY(expm1, EXPM1(a))
UNARY(log, LOG(a))
UNARY(log2, LOG2(a))
UNARY(log10, LOG10(a))
UNARY(log1p, LOG1P(a))
UNARY(asin, ARC(asin)(a))
UNARY(acos, ARC(acos)(a))
UNARY(atan, ARC(atan)(a))
UNARY(sinh, ARC(sinh)(a))
UNARY(cosh, ARC(cosh)(a))
UNARY(tanh, TANH(a))
UNARY(asinh, ARC(asinh)(a))
UNARY(acosh, ARC(acosh)(a))
UNARY(atanh, ARC(atanh)(a))
UNARY(sigmoid, SIGMOID(a))
UNARY(erf, ERF(a))
UNARY(erfc, LIBM(erfc)(a))
#ifdef ERFINV
UNARY(erfinv, ERFINV(a))
UNARY(gelu_value, GELU_VALUE(a))
UNARY(gelu_slope, GELU_SLOPE(a))
UNARY(round_bf16, round_bf16_f32(a))
#endif
UNARY(floor, FLOOR(a))
UNARY(ceil, CEIL(a))
UNARY(rint, RINT(a))
UNARY(trunc, TRUNC(a))
UNARY(sign, a != a ? a : (T)((a > 0) - (a < 0)))
UNARY(isnan, a != a ? (T)1 : (T)0)
UNARY(isinf, FABS(a) == (T)INFINITY ? (T)1 : (T)0)
UNARY(isfinite, FABS(a) < (T)INFINITY ? (T)1 : (T)0)
UNARY(not_, a == 0 ? (T)1 : (T)0)
UNARY(signbit, SIGNBIT(a) ? (T)1 : (T)0)

/* Highest power first. `pb` has the number of coefficients, and the coefficients. Several vectors
   are worked on side by side, as each of their steps waits for the one before. */
#define SIDE_BY_SIDE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
TG_VERSIONS static void NAMED(polynomial)(T *d, const T *pa, const T *pb, const T *pc, int64_t n) {
    (void)pc;
    typedef T lanes __attribute__((vector_size(32)));
    const int64_t count = (int64_t)pb[0], wide = sizeof(lanes) / sizeof(T);
    int64_t i = 0;
    for (; i + 8 * wide <= n; i += 8 * wide) {
#define X(k)                                                                                       \
    lanes x##k, y##k;                                                                              \
    memcpy(&x##k, pa + i + k * wide, sizeof x##k);                                                 \
    y##k = x##k * pb[1] + pb[2];
        SIDE_BY_SIDE(X)
#undef X
        for (int64_t c = 3; c <= count; c++) {
            const T now = pb[c];
#define X(k) y##k = y##k * x##k + now;
            SIDE_BY_SIDE(X)
#undef X
        }
#define X(k) memcpy(d + i + k * wide, &y##k, sizeof y##k);
        SIDE_BY_SIDE(X)
#undef X
    }
    for (; i < n; i++) {
        const T x = pa[i];
        T y = x * pb[1] + pb[2];
        for (int64_t c = 3; c <= count; c++)
            y = y * x + pb[c];
        d[i] = y;
    }
}

BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a *b)
BINARY(div, a / b)
BINARY(maximum, (a > b) | (a != a) ? a : b)
BINARY(minimum, (a < b) | (a != a) ? a : b)
BINARY(fmax, (a > b) | (b != b) ? a : b)
BINARY(fmin, (a < b) | (b != b) ? a : b)
BINARY(pow, POW(a, b))
#ifdef SHORT_FMOD
/* A block of elements by the fast formula; those outside of its range are computed again. */
TG_INLINE void NAMED(fmods)(T *d, const T *pa, const T *pb, int64_t n, int64_t next_a,
                            int64_t next_b) {
    T some[64];
    for (int64_t begin = 0; begin < n; begin += 64) {
        const int64_t count = n - begin < 64 ? n - begin : 64;
        const T *a = pa + begin * next_a, *b = pb + begin * next_b;
        int all = 1;
        for (int64_t i = 0; i < count; i++) {
            some[i] = SHORT_FMOD(a[i * next_a], b[i * next_b]);
            all &= HAS_SHORT_FMOD(a[i * next_a], b[i * next_b]);
        }
        for (int64_t i = 0; i < count && !all; i++)
            if (!HAS_SHORT_FMOD(a[i * next_a], b[i * next_b]))
                some[i] = LIBM(fmod)(a[i * next_a], b[i * next_b]);
        memcpy(d + begin, some, (size_t)count * sizeof(T));
    }
}
#define FMODS(name, next_a, next_b)                                                                \
    TG_VERSIONS static void NAMED(name)(T * d, const T *pa, const T *pb, const T *pc, int64_t n) { \
        (void)pc;                                                                                  \
        NAMED(fmods)(d, pa, pb, n, next_a, next_b);                                                \
    }
FMODS(fmod, 1, 1)
FMODS(fmod_vs, 1, 0)
FMODS(fmod_sv, 0, 1)
#undef FMODS
#else
BINARY(fmod, LIBM(fmod)(a, b))
#endif
BINARY(atan2, ARC(atan2)(a, b))
BINARY(hypot, ARC(hypot)(a, b))
#define X(name)                                                                                    \
    static void NAMED(portable_##name)(T * d, const T *pa, const T *pb, const T *pc, int64_t n) {  \
        (void)pb, (void)pc;                                                                        \
        PORTABLE(name)(pa, d, n);                                                                  \
    }
TG_PORTABLE_UNARY(X)
#undef X
/* A number beside a vector is spread out, block by block. */
#define X(name)                                                                                    \
    static void NAMED(portable_##name)(T * d, const T *pa, const T *pb, const T *pc, int64_t n) {  \
        (void)pc;                                                                                  \
        PORTABLE(name)(pa, pb, d, n);                                                              \
    }                                                                                              \
    static void NAMED(portable_##name##_vs)(T * d, const T *pa, const T *pb, const T *pc,          \
                                            int64_t n) {                                           \
        T some[64];                                                                                \
        (void)pc;                                                                                  \
        for (int i = 0; i < 64; i++)                                                               \
            some[i] = *pb;                                                                         \
        for (int64_t i = 0; i < n; i += 64)                                                        \
            PORTABLE(name)(pa + i, some, d + i, n - i < 64 ? n - i : 64);                          \
    }                                                                                              \
    static void NAMED(portable_##name##_sv)(T * d, const T *pa, const T *pb, const T *pc,          \
                                            int64_t n) {                                           \
        T some[64];                                                                                \
        (void)pc;                                                                                  \
        for (int i = 0; i < 64; i++)                                                               \
            some[i] = *pa;                                                                         \
        for (int64_t i = 0; i < n; i += 64)                                                        \
            PORTABLE(name)(some, pb + i, d + i, n - i < 64 ? n - i : 64);                          \
    }
TG_PORTABLE_BINARY(X)
#undef X
BINARY(copysign, COPYSIGN(a, b))
BINARY(lt, a < b ? (T)1 : (T)0)
BINARY(le, a <= b ? (T)1 : (T)0)
BINARY(gt, a > b ? (T)1 : (T)0)
BINARY(ge, a >= b ? (T)1 : (T)0)
BINARY(eq, a == b ? (T)1 : (T)0)
BINARY(ne, a != b ? (T)1 : (T)0)
BINARY(and_, (a != 0) & (b != 0) ? (T)1 : (T)0)
BINARY(or_, (a != 0) | (b != 0) ? (T)1 : (T)0)
BINARY(xor_, (a != 0) != (b != 0) ? (T)1 : (T)0)

/* Of vectors, with a number if it is so, with a number if it is not. */
#define SELECT(name, first, second)                                                                \
    TG_VERSIONS static void NAMED(name)(T * d, const T *pa, const T *pb, const T *pc, int64_t n) { \
        LOOP {                                                                                     \
            const T b = pb[first], c = pc[second];                                                 \
            d[i] = pa[i] != 0 ? b : c;                                                             \
        }                                                                                          \
    }
SELECT(select, i, i)
SELECT(select_vs, 0, i)
SELECT(select_sv, i, 0)

/* Two primitives in one pass: f of a and b, then s of what that is and of c. */
#define PAIR_OF(name, pb_at, pc_at, f, s)                                                          \
    TG_VERSIONS static void NAMED(name)(T * d, const T *pa, const T *pb, const T *pc, int64_t n) { \
        LOOP {                                                                                     \
            const T a = pa[i], b = pb[pb_at], c = pc[pc_at], t = (f);                              \
            d[i] = (s);                                                                            \
        }                                                                                          \
    }
/* Of vectors; with a number for b, for c, for both. */
#define PAIR(name, f, s)                                                                           \
    PAIR_OF(name##_vv, i, i, f, s)                                                                 \
    PAIR_OF(name##_sv, 0, i, f, s)                                                                 \
    PAIR_OF(name##_vs, i, 0, f, s)                                                                 \
    PAIR_OF(name##_ss, 0, 0, f, s)
#define PAIRS_AFTER(name, f)                                                                       \
    PAIR(name##_add, f, t + c)                                                                     \
    PAIR(name##_sub, f, t - c)                                                                     \
    PAIR(name##_rsub, f, c - t)                                                                    \
    PAIR(name##_mul, f, t *c)
PAIRS_AFTER(add, a + b)
PAIRS_AFTER(sub, a - b)
PAIRS_AFTER(rsub, b - a)
PAIRS_AFTER(mul, a *b)
/* A number everywhere. */
TG_VERSIONS static void NAMED(spread)(T *d, const T *pa, const T *pb, const T *pc, int64_t n) {
    (void)pb, (void)pc;
    const T a = *pa;
    for (int64_t i = 0; i < n; i++)
        d[i] = a;
}

/* Reading: from an operand of any kind and stride to a block. */
#define READ(S, value)                                                                             \
    {                                                                                              \
        if (stride == 0) {                                                                         \
            S v;                                                                                   \
            memcpy(&v, from, sizeof(S));                                                           \
            const T same = (value);                                                                \
            for (int64_t i = 0; i < n; i++)                                                        \
                d[i] = same;                                                                       \
            break;                                                                                 \
        }                                                                                          \
        if (stride == (int64_t)sizeof(S)) {                                                        \
            const S *s = (const S *)from;                                                          \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const S v = s[i];                                                                  \
                d[i] = (value);                                                                    \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                S v;                                                                               \
                memcpy(&v, from + i * stride, sizeof(S));                                          \
                d[i] = (value);                                                                    \
            }                                                                                      \
        }                                                                                          \
        break;                                                                                     \
    }

TG_VERSIONS static void NAMED(read)(T *d, const char *from, int kind, int64_t stride, int64_t n) {
    switch (kind) {
    case TG_F32:
        READ(float, (T)v)
    case TG_F64:
        READ(double, (T)v)
    case TG_BOOL:
        READ(uint8_t, v ? (T)1 : (T)0)
    case TG_BF16:
        READ(uint16_t, (T)f32_of_bf16(v))
    case TG_F16:
        if (KIND == TG_F32 && stride == (int64_t)sizeof(uint16_t)) {
            widen_f16((float *)d, (const uint16_t *)(const void *)from, n);
            break;
        }
        READ(uint16_t, (T)f32_of_f16(v))
    }
}

#define WRITE(S, value)                                                                            \
    {                                                                                              \
        if (stride == (int64_t)sizeof(S)) {                                                        \
            S *s = (S *)to;                                                                        \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const T v = d[i];                                                                  \
                s[i] = (value);                                                                    \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const T v = d[i];                                                                  \
                S w = (value);                                                                     \
                memcpy(to + i * stride, &w, sizeof(S));                                            \
            }                                                                                      \
        }                                                                                          \
        break;                                                                                     \
    }

TG_VERSIONS static void NAMED(write)(const T *d, char *to, int kind, int64_t stride, int64_t n) {
    switch (kind) {
    case TG_F32:
        WRITE(float, (float)v)
    case TG_F64:
        WRITE(double, (double)v)
    case TG_BOOL:
        WRITE(uint8_t, v != 0)
    case TG_BF16:
        WRITE(uint16_t, bf16_of((float)v))
    case TG_F16:
        if (KIND == TG_F32 && stride == (int64_t)sizeof(uint16_t)) {
            narrow_f16((uint16_t *)(void *)to, (const float *)d, n);
            break;
        }
        WRITE(uint16_t, f16_of((float)v))
    }
}

/* The elements from `begin` on of an operand that jumps from one short row to the next. */
static void NAMED(read_rows)(const tg_prepared *s, int k, T *d, const char *from, int kind,
                             int64_t begin, int64_t n) {
    int64_t at = begin % s->shorter;
    from += begin / s->shorter * s->jump[k];
    for (int64_t done = 0, some; done < n; done += some) {
        some = s->shorter - at < n - done ? s->shorter - at : n - done;
        NAMED(read)(d + done, from + at * s->last[k], kind, s->last[k], some);
        from += s->jump[k];
        at = 0;
    }
}
static void NAMED(write_rows)(const tg_prepared *s, int k, const T *d, char *to, int kind,
                              int64_t begin, int64_t n) {
    int64_t at = begin % s->shorter;
    to += begin / s->shorter * s->jump[k];
    for (int64_t done = 0, some; done < n; done += some) {
        some = s->shorter - at < n - done ? s->shorter - at : n - done;
        NAMED(write)(d + done, to + at * s->last[k], kind, s->last[k], some);
        to += s->jump[k];
        at = 0;
    }
}

typedef void (*NAMED(loop))(T *, const T *, const T *, const T *, int64_t);

/* Per primitive: for vectors, for a number on the right, for a number on the left. */
#define X1(name) {NAMED(name), NULL, NULL},
#define X2(name) {NAMED(name), NAMED(name##_vs), NAMED(name##_sv)},
#define X3(name) {NAMED(name), NAMED(name##_vs), NAMED(name##_sv)},
static const NAMED(loop) NAMED(loops)[TG_STEP_COUNT][3] = {
#define X(name, width) X##width(name)
    TG_STEPS(X)
#undef X
};
#undef X1
#undef X2
#undef X3

/* By what is done first, what is done then, and which of b and c are numbers (1 and 2). */
#define PAIR_LOOPS(name) {NAMED(name##_vv), NAMED(name##_sv), NAMED(name##_vs), NAMED(name##_ss)}
#define LOOPS_AFTER(name)                                                                          \
    {PAIR_LOOPS(name##_add), PAIR_LOOPS(name##_sub), PAIR_LOOPS(name##_rsub), PAIR_LOOPS(name##_mul)}
static const NAMED(loop) NAMED(pair_loops)[4][4][4] = {LOOPS_AFTER(add), LOOPS_AFTER(sub),
                                                       LOOPS_AFTER(rsub), LOOPS_AFTER(mul)};
#undef PAIR_LOOPS
#undef LOOPS_AFTER

static void NAMED(do_once)(plan *plan, NAMED(loop) loop, int out, int a, int b, int c, int wide) {
    plan->wide[plan->onces] = (uint8_t)wide;
    plan->once[plan->onces++] =
        (planned){(any_loop)loop, (uint8_t)out, (uint8_t)a, (uint8_t)b, (uint8_t)c, TG_copy};
}

static void NAMED(make_plan)(tg_prepared *prepared, const tg_operand *operands) {
    const tg_program *program = prepared->program;
    plan *plan = &prepared->plan;
    const int inputs = program->inputs, first_out = inputs + program->constants;
    const int first_other = first_out + program->outputs;
    T *listed = plan->listed;
    plan->onces = plan->eaches = plan->rooms = 0;
    plan->registers = program->registers;
    for (int i = 0; i < program->registers; i++) {
        int o = i < inputs ? i : i - first_out + inputs; /* the operand, if it is one */
        int operand = i < inputs || (i >= first_out && i < first_other);
        plan->is_number[i] = i < inputs ? !operands[i].data || stays(prepared, i) : i < first_out;
        int list = i >= inputs && i < first_out && program->list[i - inputs] >= 0;
        int direct = operand && !plan->is_number[i] && operands[o].kind == KIND &&
                     prepared->last[o] == (int64_t)sizeof(T) && !jumps(prepared, o);
        plan->room[i] = direct || list ? -1 : (int16_t)plan->rooms++;
    }
    for (int i = 0; i < program->all_listed; i++)
        listed[i] = (T)program->listed[i];
    /* A value that is computed once gets a register of its own, as those of the program are used again. */
    uint8_t at[TG_MOST_REGISTERS];
    for (int i = 0; i < program->registers; i++)
        at[i] = (uint8_t)i;
    for (int s = 0; s < program->steps; s++) {
        const tg_step *step = &program->step[s];
        const int width = tg_step_widths[step->code];
        if (step->code == TG_skip || step->code == TG_skipped) {
            if (step->code == TG_skipped || !plan->is_number[at[step->a]])
                plan->each[plan->eaches++] =
                    (planned){NULL, NO_REGISTER, at[step->a], 0, 0, step->code};
            continue;
        }
        const uint8_t from[3] = {at[step->a], at[step->b], at[step->c]};
        int numbers = 0;
        for (int k = 0; k < width; k++)
            numbers += plan->is_number[from[k]] != 0;
        if (numbers == width) {
            int out = plan->registers++;
            plan->room[out] = (int16_t)plan->rooms++;
            plan->is_number[out] = 1;
            NAMED(do_once)(plan, NAMED(loops)[step->code][0], out, from[0], from[1], from[2], 0);
            if (step->out < first_other) /* an output is a vector even if it is one number */
                plan->each[plan->eaches++] = (planned){(any_loop)NAMED(spread), step->out,
                                                       (uint8_t)out, 0, 0, TG_copy};
            else
                at[step->out] = (uint8_t)out;
            continue;
        }
        int variant = width == 2 ? (plan->is_number[from[1]] ? 1 : plan->is_number[from[0]] ? 2 : 0)
                                 : 0;
        if (width == 3 && numbers == 1)
            variant = plan->is_number[from[1]] ? 1 : plan->is_number[from[2]] ? 2 : 0;
        if (width == 3 && variant == 0)
            for (int k = 0; k < 3; k++)
                if (plan->is_number[from[k]] == 1) {
                    NAMED(do_once)(plan, NAMED(spread), from[k], from[k], 0, 0, 1);
                    plan->is_number[from[k]] = 2; /* still a number, and spread out */
                }
        plan->each[plan->eaches++] = (planned){(any_loop)NAMED(loops)[step->code][variant],
                                               step->out, from[0], from[1], from[2], step->code};
        at[step->out] = step->out;
    }
}

TG_INLINE void NAMED(do_step)(const planned *step, T *const *now, int64_t n) {
    ((NAMED(loop))step->loop)(now[step->out], now[step->a], now[step->b], now[step->c], n);
}

/* The step after what is skipped, if no element of the block needs it. */
static int NAMED(skip_from)(const plan *plan, int k, const T *truths, int64_t n) {
    T any = 0;
    for (int64_t i = 0; i < n; i++)
        any = truths[i] != 0 ? 1 : any;
    if (any != 0)
        return k;
    while (plan->each[k].code != TG_skipped)
        k++;
    return k;
}

/* Prefetch the next block while this one is computed. */
static void NAMED(fetch)(const T *now) {
    for (int i = BLOCK; i < 2 * BLOCK; i += 64 / (int)sizeof(T))
        __builtin_prefetch(now + i, 0, 2);
}

/* One row of the index space, or a part of it, block by block; `at` are the operands' addresses, `now` those of the
   registers: what does not change from row to row is there. */
static void NAMED(row)(const tg_prepared *s, const tg_operand *operands, T **now, char *const *at,
                       int64_t first, int64_t end, int64_t wide) {
    const tg_program *program = s->program;
    const plan *plan = &s->plan;
    const int inputs = program->inputs, first_out = inputs + program->constants;
    for (int i = 0; i < inputs; i++)
        if (plan->is_number[i]) {
            if (operands[i].data)
                NAMED(read)(now[i], at[i], operands[i].kind, 0, 1);
            else
                now[i][0] = (T)operands[i].number;
        }
    for (int k = 0; k < plan->onces; k++)
        NAMED(do_step)(&plan->once[k], now, plan->wide[k] ? wide : 1);
    const int fetches = program->cost >= WORTH_FETCHING;
    for (int64_t begin = first; begin < end; begin += BLOCK) {
        const int64_t n = end - begin < BLOCK ? end - begin : BLOCK;
        for (int i = 0; i < inputs; i++) {
            if (plan->room[i] < 0)
                now[i] = (T *)at[i] + begin;
            else if (plan->is_number[i])
                continue;
            else if (jumps(s, i))
                NAMED(read_rows)(s, i, now[i], at[i], operands[i].kind, begin, n);
            else
                NAMED(read)(now[i], at[i] + begin * s->last[i], operands[i].kind, s->last[i], n);
        }
        for (int o = 0; o < program->outputs; o++)
            if (plan->room[first_out + o] < 0)
                now[first_out + o] = (T *)at[inputs + o] + begin;
        if (fetches && n == BLOCK) {
            for (int i = 0; i < inputs; i++)
                if (plan->room[i] < 0)
                    NAMED(fetch)(now[i]);
            for (int o = first_out; o < first_out + program->outputs; o++)
                if (plan->room[o] < 0)
                    NAMED(fetch)(now[o]);
        }
        for (int k = 0; k < plan->eaches; k++)
            if (plan->each[k].loop)
                NAMED(do_step)(&plan->each[k], now, n);
            else if (plan->each[k].code == TG_skip)
                k = NAMED(skip_from)(plan, k, now[plan->each[k].a], n);
        for (int o = 0, k = inputs; o < program->outputs; o++, k++) {
            if (plan->room[first_out + o] < 0)
                continue;
            if (jumps(s, k))
                NAMED(write_rows)(s, k, now[first_out + o], at[k], operands[k].kind, begin, n);
            else
                NAMED(write)(now[first_out + o], at[k] + begin * s->last[k], operands[k].kind,
                             s->last[k], n);
        }
    }
}

/* Some rows, each from `begin` to `end`; rooms for registers are `wide` elements apart. */
static void NAMED(rows)(const tg_prepared *s, const tg_operand *operands, T *rooms, int64_t wide,
                        int64_t first_row, int64_t rows, int64_t begin, int64_t end) {
    const tg_program *program = s->program;
    const plan *plan = &s->plan;
    T *now[TG_MOST_REGISTERS];
    char *at[TG_MOST_OPERANDS];
    for (int i = 0; i < plan->registers; i++)
        now[i] = plan->room[i] >= 0 ? rooms + plan->room[i] * wide : NULL;
    for (int i = 0; i < program->constants; i++)
        if (program->list[i] < 0)
            now[program->inputs + i][0] = (T)program->constant[i];
        else
            now[program->inputs + i] = (T *)plan->listed + program->list[i];
    for (int64_t row = first_row; row < first_row + rows; row++) {
        addresses(s, operands, row, at);
        NAMED(row)(s, operands, now, at, begin, end, wide);
    }
}

#undef SIDE_BY_SIDE
#undef PASTE_
#undef PASTE
#undef NAMED
#undef LOOP
#undef UNARY
#undef BINARY
#undef READ
#undef WRITE
#undef SELECT
#undef PAIR_OF
#undef PAIR
#undef PAIRS_AFTER
