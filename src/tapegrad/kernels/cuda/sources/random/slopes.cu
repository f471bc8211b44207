// The slopes of rrelu.
#include "random/stream.cu"

const int PER = sizeof(A) == 8 ? 2 : 4;
extern "C" __global__ void slopes(const T* __restrict__ x, T* __restrict__ y, double lower,
                                  double range, START, i64 n) {
    BEGIN
    TURNS {
        Words w = philox(seed, thread, round + turn);
        EACH_NUMBER(j, at) {
            A unit = PER == 2 ? (A)wide(w.w[2 * j & 3], w.w[2 * j + 1 & 3]) : (A)single(w.w[j]);
            A slope = fma((double)narrow(unit), range, lower);
            STORE(y + at, LOAD(x + at) <= 0 ? slope : (A)1);
        }
    }
}
