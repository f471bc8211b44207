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
__device__ __forceinline__ void advance(Numbers& now, const Options& o, int narrow) {
    now.fresh = 0;
}
