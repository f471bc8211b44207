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
__device__ __forceinline__ void advance(Numbers& now, const Options& o, int narrow) {
    now.step = kept(now.step + 1, narrow);
    double late = now.step - o.t0;
    now.eta = kept(now.lr / pow(1 + o.lambd * now.lr * now.step, o.alpha), narrow);
    now.mu = kept(1 / (late > 1 ? late : 1), narrow);
}
