// The scale of a GradScaler after a step.
#include "common/prelude.cu"

extern "C" __global__ void next_scale(float* scale, int* tracker, const float* found,
        float growth, float backoff, int interval) {
    if (*found != 0) { *scale *= backoff; *tracker = 0; return; }
    int count = *tracker + 1;
    if (count == interval) {
        float grown = *scale * growth;
        if (grown - grown == 0) *scale = grown;
        count = 0;
    }
    *tracker = count;
}
