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
__device__ __forceinline__ void advance(Numbers& now, const Options& o, int narrow) {
}
