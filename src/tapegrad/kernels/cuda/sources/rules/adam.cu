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
__device__ __forceinline__ void advance(Numbers& now, const Options& o, int narrow) {
    now.step = kept(now.step + 1, narrow);
}
