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
__device__ __forceinline__ void advance(Numbers& now, const Options& o, int narrow) {
}
