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
__device__ __forceinline__ void advance(Numbers& now, const Options& o, int narrow) {
    now.step = kept(now.step + 1, narrow);
}
