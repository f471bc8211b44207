"""The CUDA C of the optimizers, and of what is done to all gradients at once.

A rule is four small pieces: `Factors`, the numbers that all elements share; `factors`, which finds
them; `each`, the step of one element; and what becomes of the numbers that change from step to step
(`Numbers`: the learning rate, then the state's own). FRAME runs any of them over many tensors. The
names in `Numbers`, `Options` and the arguments of `each` are those of the optimizer's own options
and state: see `Fused` in optim/_on_device.py.

Factors are found in double precision, as on the host, by one thread of each block. `narrow` says
that the state keeps its numbers in single precision.
"""

from __future__ import annotations

import math

THREADS = 256
SHARE = 1024  # elements that a block takes at least: four for each thread

# Which tensor a block works on, and where in it: `first` holds the tensors' first blocks.
BLOCKS = r"""
#define THREADS 256
template <typename L> __device__ __forceinline__ int tensor_of(const L& l) {
    int low = 0, high = l.count - 1, block = blockIdx.x;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (l.first[middle] <= block) low = middle; else high = middle - 1;
    }
    return low;
}
"""

# How a step rounds, and how means move.
KEPT = r"""
// A product that is rounded by itself, not as a part of what it is added to.
__device__ __forceinline__ float product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double product(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ A toward(A a, A b, A weight) {
    return weight < (A)0.5 ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}
"""

FRAME = (
    BLOCKS
    + KEPT
    + r"""
#define ROWS %(rows)d
struct Numbers { double %(numbers)s; };
struct Options { double %(options)s; };
struct Launch {
    unsigned long long p[ROWS][%(limit)d]; i64 n[%(limit)d]; int first[%(limit)d];
    Numbers now; Options o; const Numbers* device; int count, chunk, narrow;
};
// A number as the state keeps it.
__device__ __forceinline__ double kept(double x, int narrow) {
    return narrow ? (double)(float)x : x;
}
// The gradient to go down, with the decay of the weights as a part of it.
__device__ __forceinline__ A slope(A d, A x, bool maximize, A decay) {
    if (maximize) d = -d;
    if (decay != 0) d += decay * x;
    return d;
}
%(rule)s
__device__ __forceinline__ void element(const Factors& f, A (&a)[ROWS]) {
    A none = 0;  // what the options leave out
    each(f, %(arguments)s);
}
// Row 0 holds the parameters, row 1 the gradients, the others the state.
extern "C" __global__ void __launch_bounds__(THREADS) update(const __grid_constant__ Launch l) {
    int k = tensor_of(l);
    i64 start = (blockIdx.x - l.first[k]) * (i64)l.chunk;
    i64 n = l.n[k] - start < l.chunk ? l.n[k] - start : l.chunk;
    __shared__ Factors shared;
    if (threadIdx.x == 0) shared = factors(l.device ? *l.device : l.now, l.o, l.narrow);
    __syncthreads();
    const Factors f = shared;
    T* at[ROWS];
    unsigned long long places = 0;
    #pragma unroll
    for (int r = 0; r < ROWS; r++) { places |= l.p[r][k]; at[r] = (T*)l.p[r][k] + start; }
    i64 fours = places %% 16 ? 0 : n / 4;
    for (i64 i = threadIdx.x; i < fours; i += THREADS) {
        Four<T> v[ROWS];
        #pragma unroll
        for (int r = 0; r < ROWS; r++) v[r] = ((const Four<T>*)at[r])[i];
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            A a[ROWS];
            #pragma unroll
            for (int r = 0; r < ROWS; r++) a[r] = LOAD(v[r].v + j);
            element(f, a);
            #pragma unroll
            for (int r = 0; r < ROWS; r++) if (r != 1) STORE(v[r].v + j, a[r]);
        }
        #pragma unroll
        for (int r = 0; r < ROWS; r++) if (r != 1) ((Four<T>*)at[r])[i] = v[r];
    }
    for (i64 i = 4 * fours + threadIdx.x; i < n; i += THREADS) {
        A a[ROWS];
        #pragma unroll
        for (int r = 0; r < ROWS; r++) a[r] = LOAD(at[r] + i);
        element(f, a);
        #pragma unroll
        for (int r = 0; r < ROWS; r++) if (r != 1) STORE(at[r] + i, a[r]);
    }
}
// After a captured step.
extern "C" __global__ void next_numbers(Numbers* at, const Options o, int narrow) {
    Numbers now = *at;
    %(advance)s
    *at = now;
}
"""
)

COUNT = "now.step = kept(now.step + 1, narrow);"

ADAM = r"""
struct Factors { A rest1, beta2, rest2, eps, decay, shrink, size, root; bool amsgrad, maximize; };
__device__ __forceinline__ Factors factors(const Numbers& now, const Options& o, int) {
    Factors f;
    double step = now.step + 1;
    bool apart = o.decoupled_weight_decay != 0;
    f.rest1 = 1 - o.betas[0]; f.beta2 = o.betas[1]; f.rest2 = 1 - o.betas[1]; f.eps = o.eps;
    f.decay = apart ? 0 : o.weight_decay;
    f.shrink = apart ? 1 - now.lr * o.weight_decay : 1;
    f.size = now.lr / (1 - pow(o.betas[0], step));
    f.root = sqrt(1 - pow(o.betas[1], step));
    f.amsgrad = o.amsgrad != 0; f.maximize = o.maximize != 0;
    return f;
}
__device__ __forceinline__ void each(const Factors& f, A& x, A d, A& exp_avg, A& exp_avg_sq,
        A& max_exp_avg_sq) {
    d = slope(d, x, f.maximize, f.decay);
    x = product(x, f.shrink);
    exp_avg += (d - exp_avg) * f.rest1;
    exp_avg_sq = exp_avg_sq * f.beta2 + d * d * f.rest2;
    A square = exp_avg_sq;
    if (f.amsgrad) {
        if (!(square > max_exp_avg_sq || square != square)) square = max_exp_avg_sq;
        max_exp_avg_sq = square;
    }
    x = x - f.size * (exp_avg / (sqrt(square) / f.root + f.eps));
}
"""

SGD = r"""
struct Factors { A lr, momentum, dampening, decay; bool nesterov, maximize, fresh; };
__device__ __forceinline__ Factors factors(const Numbers& now, const Options& o, int) {
    Factors f;
    f.lr = now.lr; f.momentum = o.momentum; f.dampening = o.dampening; f.decay = o.weight_decay;
    f.nesterov = o.nesterov != 0; f.maximize = o.maximize != 0; f.fresh = now.fresh != 0;
    return f;
}
__device__ __forceinline__ void each(const Factors& f, A& x, A d, A& momentum_buffer) {
    d = slope(d, x, f.maximize, f.decay);
    if (f.momentum != 0) {
        A b = f.fresh ? d : momentum_buffer * f.momentum + d * (1 - f.dampening);
        momentum_buffer = b;
        d = f.nesterov ? d + f.momentum * b : b;
    }
    x = x - f.lr * d;
}
"""

RMSPROP = r"""
struct Factors { A lr, alpha, rest, eps, decay, momentum; bool centered, maximize; };
__device__ __forceinline__ Factors factors(const Numbers& now, const Options& o, int) {
    Factors f;
    f.lr = now.lr; f.alpha = o.alpha; f.rest = 1 - o.alpha; f.eps = o.eps;
    f.decay = o.weight_decay; f.momentum = o.momentum;
    f.centered = o.centered != 0; f.maximize = o.maximize != 0;
    return f;
}
__device__ __forceinline__ void each(const Factors& f, A& x, A d, A& square_avg,
        A& momentum_buffer, A& grad_avg) {
    d = slope(d, x, f.maximize, f.decay);
    square_avg = square_avg * f.alpha + f.rest * (d * d);
    A variance = square_avg;
    if (f.centered) {
        grad_avg = toward(grad_avg, d, f.rest);
        variance -= product(grad_avg, grad_avg);
    }
    A step = d / (sqrt(variance) + f.eps);
    if (f.momentum > 0) step = momentum_buffer = momentum_buffer * f.momentum + step;
    x -= f.lr * step;
}
"""

ADAGRAD = r"""
struct Factors { A size, eps, decay; bool maximize; };
__device__ __forceinline__ Factors factors(const Numbers& now, const Options& o, int) {
    Factors f;
    f.size = now.lr / (1 + now.step * o.lr_decay);
    f.eps = o.eps; f.decay = o.weight_decay; f.maximize = o.maximize != 0;
    return f;
}
__device__ __forceinline__ void each(const Factors& f, A& x, A d, A& sum) {
    d = slope(d, x, f.maximize, f.decay);
    sum += d * d;
    x -= f.size * (d / (sqrt(sum) + f.eps));
}
"""

ADADELTA = r"""
struct Factors { A lr, rho, rest, eps, decay; bool maximize; };
__device__ __forceinline__ Factors factors(const Numbers& now, const Options& o, int) {
    Factors f;
    f.lr = now.lr; f.rho = o.rho; f.rest = 1 - o.rho; f.eps = o.eps;
    f.decay = o.weight_decay; f.maximize = o.maximize != 0;
    return f;
}
__device__ __forceinline__ void each(const Factors& f, A& x, A d, A& square_avg, A& acc_delta) {
    d = slope(d, x, f.maximize, f.decay);
    square_avg = square_avg * f.rho + f.rest * (d * d);
    A step = sqrt(acc_delta + f.eps) / sqrt(square_avg + f.eps) * d;
    acc_delta = acc_delta * f.rho + f.rest * (step * step);
    x -= f.lr * step;
}
"""

ADAMAX = r"""
struct Factors { A rest, beta2, eps, decay, size; bool maximize; };
__device__ __forceinline__ Factors factors(const Numbers& now, const Options& o, int) {
    Factors f;
    f.rest = 1 - o.betas[0]; f.beta2 = o.betas[1]; f.eps = o.eps; f.decay = o.weight_decay;
    f.size = now.lr / (1 - pow(o.betas[0], now.step + 1));
    f.maximize = o.maximize != 0;
    return f;
}
__device__ __forceinline__ void each(const Factors& f, A& x, A d, A& exp_avg, A& exp_inf) {
    d = slope(d, x, f.maximize, f.decay);
    exp_avg = toward(exp_avg, d, f.rest);
    A now = (d < 0 ? -d : d) + f.eps;
    exp_inf *= f.beta2;
    if (now > exp_inf || now != now) exp_inf = now;
    x -= f.size * (exp_avg / exp_inf);
}
"""

# How both begin that decay the weights by themselves: the decay, and the two means.
FOLLOW_MEANS = r"""
__device__ __forceinline__ void each(const Factors& f, A& x, A d, A& exp_avg, A& exp_avg_sq) {
    d = slope(d, x, f.maximize, f.decay);
    x *= f.shrink;
    exp_avg = toward(exp_avg, d, f.rest1);
    exp_avg_sq = exp_avg_sq * f.beta2 + f.rest2 * (d * d);
"""

NADAM = (
    r"""
struct Factors { A rest1, beta2, rest2, eps, decay, shrink, bias, of_grad, of_mean;
    bool maximize; };
// The momentum grows from half of beta1 towards beta1.
__device__ __forceinline__ double momentum_at(double step, const Options& o) {
    return o.betas[0] * (1.0 - 0.5 * pow(0.96, step * o.momentum_decay));
}
__device__ __forceinline__ double product_after(const Numbers& now, double momentum, int narrow) {
    return narrow ? (double)((float)now.mu_product * (float)momentum) : now.mu_product * momentum;
}
__device__ __forceinline__ Factors factors(const Numbers& now, const Options& o, int narrow) {
    Factors f;
    double step = now.step + 1, momentum = momentum_at(step, o), ahead = momentum_at(step + 1, o);
    double so_far = product_after(now, momentum, narrow);
    bool apart = o.decoupled_weight_decay != 0;
    f.rest1 = 1 - o.betas[0]; f.beta2 = o.betas[1]; f.rest2 = 1 - o.betas[1]; f.eps = o.eps;
    f.decay = apart ? 0 : o.weight_decay;
    f.shrink = apart ? 1 - now.lr * o.weight_decay : 1;
    f.bias = 1 - pow(o.betas[1], step);
    f.of_grad = now.lr * (1.0 - momentum) / (1.0 - so_far);
    f.of_mean = now.lr * ahead / (1.0 - so_far * ahead);
    f.maximize = o.maximize != 0;
    return f;
}
"""
    + FOLLOW_MEANS
    + r"""    A root = sqrt(exp_avg_sq / f.bias) + f.eps;
    x -= f.of_grad * (d / root);
    x -= f.of_mean * (exp_avg / root);
}
"""
)
NADAM_ADVANCE = f"""
    now.mu_product = product_after(now, momentum_at(now.step + 1, o), narrow);
    {COUNT}"""

RADAM = (
    r"""
struct Factors { A lr, rest1, beta2, rest2, eps, decay, shrink, bias, root, rectify;
    bool rectified, maximize; };
__device__ __forceinline__ Factors factors(const Numbers& now, const Options& o, int) {
    Factors f;
    double beta2 = o.betas[1], step = now.step + 1, power = pow(beta2, step);
    // How many gradients the mean square stands for, now and in the long run.
    double longest = 2 / (1 - beta2) - 1, length = longest - 2 * step * power / (1 - power);
    bool apart = o.decoupled_weight_decay != 0;
    f.lr = now.lr; f.rest1 = 1 - o.betas[0]; f.beta2 = beta2; f.rest2 = 1 - beta2; f.eps = o.eps;
    f.decay = apart ? 0 : o.weight_decay;
    f.shrink = apart ? 1 - now.lr * o.weight_decay : 1;
    f.bias = 1 - pow(o.betas[0], step);
    f.root = sqrt(1 - power);
    f.rectified = length > 5.0;
    f.rectify = f.rectified ? sqrt(
        (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) : 1;
    f.maximize = o.maximize != 0;
    return f;
}
"""
    + FOLLOW_MEANS
    + r"""    A step = exp_avg / f.bias * f.lr;
    if (f.rectified) step = step * (f.root / (sqrt(exp_avg_sq) + f.eps)) * f.rectify;
    x -= step;
}
"""
)

ASGD = r"""
struct Factors { A eta, mu, decay, shrink; bool maximize; };
__device__ __forceinline__ Factors factors(const Numbers& now, const Options& o, int) {
    Factors f;
    f.eta = now.eta; f.mu = now.mu; f.decay = o.weight_decay; f.shrink = 1 - o.lambd * now.eta;
    f.maximize = o.maximize != 0;
    return f;
}
__device__ __forceinline__ void each(const Factors& f, A& x, A d, A& ax) {
    d = slope(d, x, f.maximize, f.decay);
    x *= f.shrink;
    x -= f.eta * d;
    ax = f.mu == 1 ? x : ax + (x - ax) * f.mu;
}
"""
ASGD_ADVANCE = f"""
    {COUNT}
    double late = now.step - o.t0;
    now.eta = kept(now.lr / pow(1 + o.lambd * now.lr * now.step, o.alpha), narrow);
    now.mu = kept(1 / (late > 1 ? late : 1), narrow);"""

# TINY is what a product of two elements rounds to zero at: its sign counts, and CuPy's compiler
# takes numbers for zero sooner than PyTorch's does.
RPROP = r"""
struct Factors { A slower, faster, least, most; bool maximize; };
__device__ __forceinline__ Factors factors(const Numbers&, const Options& o, int) {
    Factors f;
    f.slower = o.etas[0]; f.faster = o.etas[1];
    f.least = o.step_sizes[0]; f.most = o.step_sizes[1];
    f.maximize = o.maximize != 0;
    return f;
}
__device__ __forceinline__ void each(const Factors& f, A& x, A d, A& prev, A& step_size) {
    if (f.maximize) d = -d;
    double same_way = (double)d * (double)prev;
    if (same_way > TINY) step_size *= f.faster;
    if (same_way < -TINY) { step_size *= f.slower; d = 0; }
    if (step_size < f.least) step_size = f.least;
    if (step_size > f.most) step_size = f.most;
    if (d > 0) x -= step_size;
    if (d < 0) x += step_size;
    prev = d;
}
"""
TINY = {"float32": 2.0**-150, "float64": 0.0, "float16": 2.0**-25, "bfloat16": 2.0**-134}

# By name: the rule, and what `advance` does; nothing if the kernel needs none of it.
RULES = {
    "adam": (ADAM, COUNT),
    "sgd": (SGD, "now.fresh = 0;"),
    "rmsprop": (RMSPROP, ""),
    "adagrad": (ADAGRAD, COUNT),
    "adadelta": (ADADELTA, ""),
    "adamax": (ADAMAX, COUNT),
    "nadam": (NADAM, NADAM_ADVANCE),
    "radam": (RADAM, COUNT),
    "asgd": (ASGD, ASGD_ADVANCE),
    "rprop": (RPROP, ""),
}


def rule_source(
    name: str,
    kind: str,
    rows: list[str],
    present: list[str],
    numbers: list[str],
    options: list[str],
    limit: int,
) -> str:
    """The source of a rule for tensors of a kind, with the rows of state that are `present`."""
    rule, advance = RULES[name]
    places = ["a[0]", "a[1]"]
    places += [f"a[{present.index(row) + 2}]" if row in present else "none" for row in rows]
    parts = {
        "rows": 2 + len(present),
        "numbers": ", ".join(numbers),
        "options": ", ".join(options),
        "limit": limit,
        "rule": rule,
        "arguments": ", ".join(places),
        "advance": advance,
    }
    return f"#define TINY {TINY[kind]!r}\n" + FRAME % parts


# ---------------------------------------------------------------------- all gradients at once

# The elements of many tensors, each put through `change`.
GRADIENTS = (
    BLOCKS
    + r"""
struct Launch {
    unsigned long long p[%(limit)d]; i64 n[%(limit)d]; int first[%(limit)d]; int count, chunk;
};
template <typename F> __device__ __forceinline__ void each_element(const Launch& l, bool writes,
        F change) {
    int k = tensor_of(l);
    i64 start = (blockIdx.x - l.first[k]) * (i64)l.chunk;
    i64 n = l.n[k] - start < l.chunk ? l.n[k] - start : l.chunk;
    T* at = (T*)l.p[k] + start;
    i64 fours = l.p[k] %% 16 ? 0 : n / 4;
    for (i64 i = threadIdx.x; i < fours; i += THREADS) {
        Four<T> v = ((const Four<T>*)at)[i];
        #pragma unroll
        for (int j = 0; j < 4; j++) { A a = change(LOAD(v.v + j)); STORE(v.v + j, a); }
        if (writes) ((Four<T>*)at)[i] = v;
    }
    for (i64 i = 4 * fours + threadIdx.x; i < n; i += THREADS) {
        A a = change(LOAD(at + i));
        if (writes) STORE(at + i, a);
    }
}
"""
)

# A norm: one number from each block, and one block that takes them together.
NORMS = (
    GRADIENTS
    + r"""
__device__ __forceinline__ A size(A a) { return %(size)s; }
__device__ __forceinline__ A joined(A a, A b) { return %(joined)s; }
__device__ __forceinline__ A block_joined(A a) {
    __shared__ A of_warps[THREADS / 32];
    for (int o = 16; o; o >>= 1) a = joined(a, __shfl_xor_sync(0xffffffffu, a, o));
    if (threadIdx.x %% 32 == 0) of_warps[threadIdx.x / 32] = a;
    __syncthreads();
    a = of_warps[0];
    for (int i = 1; i < THREADS / 32; i++) a = joined(a, of_warps[i]);
    return a;
}
extern "C" __global__ void __launch_bounds__(THREADS) norm_parts(const __grid_constant__ Launch l,
        A* __restrict__ parts) {
    A total = 0;
    each_element(l, false, [&](A a) { total = joined(total, size(a)); return a; });
    total = block_joined(total);
    if (threadIdx.x == 0) parts[blockIdx.x] = total;
}
extern "C" __global__ void __launch_bounds__(THREADS) norm_end(const A* __restrict__ parts,
        T* __restrict__ out, int count) {
    A total = 0;
    #pragma unroll 4
    for (int i = threadIdx.x; i < count; i += THREADS) total = joined(total, parts[i]);
    total = block_joined(total);
    if (threadIdx.x == 0) STORE(out, %(end)s);
}
"""
)
# By the order of the norm. A NaN is the largest of all.
ORDERS = {
    2.0: {"size": "a * a", "joined": "a + b", "end": "sqrt(total)"},
    1.0: {"size": "a < 0 ? -a : a", "joined": "a + b", "end": "total"},
    math.inf: {
        "size": "a < 0 ? -a : a",
        "joined": "b > a || b != b ? b : a",
        "end": "total",
    },
}

CHANGES = (
    GRADIENTS
    + r"""
// Down to `most`, where the norm of all is more. Every step is rounded as tensors are.
extern "C" __global__ void __launch_bounds__(THREADS) shorten(const __grid_constant__ Launch l,
        const T* __restrict__ norm, A most) {
    T t;
    STORE(&t, LOAD(norm) + (A)1e-6);
    STORE(&t, most / LOAD(&t));
    A scale = LOAD(&t);
    if (scale > 1) scale = 1;
    each_element(l, true, [&](A a) { return a * scale; });
}
extern "C" __global__ void __launch_bounds__(THREADS) limit(const __grid_constant__ Launch l,
        A most) {
    each_element(l, true, [&](A a) { return a > most ? most : a < -most ? -most : a; });
}
extern "C" __global__ void __launch_bounds__(THREADS) unscale(const __grid_constant__ Launch l,
        const float* __restrict__ inverse, float* found) {
    A scale = *inverse;
    bool infinite = false;
    each_element(l, true, [&](A a) {
        infinite |= a - a != 0;  // of a NaN too
        return scale == 1 ? a : a * scale;
    });
    if (infinite) *found = 1;
}
"""
)

# The scale of a GradScaler: smaller after infinities, larger after long peace.
SCALE = r"""
extern "C" __global__ void next_scale(float* scale, int* tracker, const float* found,
        float growth, float backoff, int interval) {
    if (*found != 0) { *scale *= backoff; *tracker = 0; return; }
    int count = *tracker + 1;
    if (count == interval) {
        float grown = *scale * growth;
        if (grown - grown == 0) *scale = grown;
        count = 0;
    }
    *tracker = count;
}
"""
