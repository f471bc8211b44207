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
__device__ __forceinline__ void advance(Numbers& now, const Options& o, int narrow) {
}
