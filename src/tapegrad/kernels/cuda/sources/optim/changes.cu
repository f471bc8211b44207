// What is done to all gradients at once: clipping, and taking a scale out.
#include "optim/gradients.cu"

// Down to `most`, where the norm of all is more. Every step is rounded as tensors are.
extern "C" __global__ void __launch_bounds__(THREADS) shorten(const __grid_constant__ Launch l,
        const T* __restrict__ norm, A most) {
    T t;
    STORE(&t, LOAD(norm) + (A)1e-6);
    STORE(&t, most / LOAD(&t));
    A scale = LOAD(&t);
    if (scale > 1) scale = 1;
    each_element(l, true, [&](A a) { return a * scale; });
}
extern "C" __global__ void __launch_bounds__(THREADS) limit(const __grid_constant__ Launch l,
        A most) {
    each_element(l, true, [&](A a) { return a > most ? most : a < -most ? -most : a; });
}
extern "C" __global__ void __launch_bounds__(THREADS) unscale(const __grid_constant__ Launch l,
        const float* __restrict__ inverse, float* found) {
    A scale = *inverse;
    bool infinite = false;
    each_element(l, true, [&](A a) {
        infinite |= a - a != 0;  // of a NaN too
        return scale == 1 ? a : a * scale;
    });
    if (infinite) *found = 1;
}
