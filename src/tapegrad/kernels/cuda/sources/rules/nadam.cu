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

__device__ __forceinline__ void each(const Factors& f, A& x, A d, A& exp_avg, A& exp_avg_sq) {
    d = slope(d, x, f.maximize, f.decay);
    x *= f.shrink;
    exp_avg = toward(exp_avg, d, f.rest1);
    exp_avg_sq = exp_avg_sq * f.beta2 + f.rest2 * (d * d);
    A root = sqrt(exp_avg_sq / f.bias) + f.eps;
    x -= f.of_grad * (d / root);
    x -= f.of_mean * (exp_avg / root);
}
__device__ __forceinline__ void advance(Numbers& now, const Options& o, int narrow) {
    now.mu_product = product_after(now, momentum_at(now.step + 1, o), narrow);
    now.step = kept(now.step + 1, narrow);
}
