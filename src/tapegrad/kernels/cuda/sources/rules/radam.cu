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

__device__ __forceinline__ void each(const Factors& f, A& x, A d, A& exp_avg, A& exp_avg_sq) {
    d = slope(d, x, f.maximize, f.decay);
    x *= f.shrink;
    exp_avg = toward(exp_avg, d, f.rest1);
    exp_avg_sq = exp_avg_sq * f.beta2 + f.rest2 * (d * d);
    A step = exp_avg / f.bias * f.lr;
    if (f.rectified) step = step * (f.root / (sqrt(exp_avg_sq) + f.eps)) * f.rectify;
    x -= step;
}
__device__ __forceinline__ void advance(Numbers& now, const Options& o, int narrow) {
    now.step = kept(now.step + 1, narrow);
}
