/* Learns on the device to tell three kinds of vibration apart, from windows of 16 samples. Nothing is
   allocated. What is printed goes to the debugger (or to QEMU), by semihosting. */

#include <stdint.h>
#include <stdio.h>

void sense_init(void);
float sense_step(const float *samples, const int64_t *kinds);
void sense_get_parameters(void *parameters);
void told_init(void);
void told_predict(const float *samples, float *scores);
void told_set_parameters(const void *parameters);

enum { BATCH = 6, WINDOW = 16, PARAMETERS = 16 * 16 + 16 + 16 * 3 + 3 };

static uint32_t seed = 1;

static float noise(void) {
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) * 0x1p-24f - 0.5f;
}

/* Slow, fast, or growing: triangles of different lengths, with noise. */
static void window(float *to, int64_t kind) {
    const int length = kind == 0 ? 16 : kind == 1 ? 4 : 8;
    for (int i = 0; i < WINDOW; i++) {
        const int at = i % length * 2 < length ? i % length : length - i % length;
        const float height = 4 * (float)at / (float)length - 1;
        to[i] = height * (kind == 2 ? (float)i / WINDOW : 1) + 0.4f * noise();
    }
}

int main(void) {
    static float samples[BATCH * WINDOW], parameters[PARAMETERS], scores[3];
    static int64_t kinds[BATCH];
    sense_init();
    for (int step = 1; step <= 200; step++) {
        for (int i = 0; i < BATCH; i++) {
            kinds[i] = i % 3;
            window(samples + i * WINDOW, kinds[i]);
        }
        const float loss = sense_step(samples, kinds);
        if (step % 50 == 0)
            printf("step %3d  loss 0.%04d\n", step, (int)(loss * 10000));
    }
    told_init();
    sense_get_parameters(parameters);
    told_set_parameters(parameters); /* both files have them in the same order */
    int right = 0;
    for (int i = 0; i < 300; i++) {
        window(samples, i % 3);
        told_predict(samples, scores);
        int best = scores[1] > scores[0] ? 1 : 0;
        best = scores[2] > scores[best] ? 2 : best;
        right += best == i % 3;
    }
    printf("%d of 300 new windows right\n", right);
    return 0;
}
