// Indices and counters.
#include "prelude.cu"

// Adds a number to all elements, such as the counters of batches.
extern "C" __global__ void count_on(T* x, i64 n, i64 by) { EACH(i, n) x[i] += (T)by; }

// Looks for indices out of range, without making the host wait: the first one found is written
// where the host reads it at the next synchronization, with a ticket that says whose it is.
extern "C" __global__ void look(const T* __restrict__ x, i64 n, i64 low, i64 high, i64 ignored,
        int ignoring, i64 ticket, unsigned long long* told) {
    EACH(i, n) {
        i64 v = x[i];
        if ((v < low || v >= high) && !(ignoring && v == ignored)) {
            if (atomicCAS_system(told, 0ull, (unsigned long long)ticket) == 0) {
                ((volatile i64*)told)[1] = v;
                __threadfence_system();
            }
            return;
        }
    }
}
