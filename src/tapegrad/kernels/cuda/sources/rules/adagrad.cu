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
__device__ __forceinline__ void advance(Numbers& now, const Options& o, int narrow) {
    now.step = kept(now.step + 1, narrow);
}
