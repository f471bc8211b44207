/* Learns to tell three arms of a spiral apart, with the step that export.py has printed as C. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void learn_init(void);
float learn_step(const float *points, const int64_t *classes);
void learn_get_parameters(void *parameters);
void answer_init(void);
void answer_predict(const float *x, float *out);
void answer_set_parameters(const void *parameters);

enum { BATCH = 96, PARAMETERS = 2 * 32 + 32 + 32 * 32 + 32 + 32 * 3 + 3 };

static float noise(void) { return (float)rand() / (float)RAND_MAX - 0.5f; }

static void point(float *at, int64_t arm) {
    const float r = (float)rand() / (float)RAND_MAX;
    const float angle = 4 * r + 2.0944f * (float)arm + 0.3f * noise();
    at[0] = r * cosf(angle);
    at[1] = r * sinf(angle);
}

int main(void) {
    static float points[2 * BATCH], parameters[PARAMETERS];
    static int64_t classes[BATCH];
    learn_init();
    for (int step = 1; step <= 1500; step++) {
        for (int i = 0; i < BATCH; i++) {
            classes[i] = i % 3;
            point(points + 2 * i, classes[i]);
        }
        const float loss = learn_step(points, classes);
        if (step % 300 == 0)
            printf("step %4d  loss %.4f\n", step, (double)loss);
    }
    answer_init();
    learn_get_parameters(parameters);
    answer_set_parameters(parameters); /* both files have them in the same order */
    int right = 0;
    for (int i = 0; i < 1000; i++) {
        float at[2], scores[3];
        point(at, i % 3);
        answer_predict(at, scores);
        int best = 0;
        for (int k = 1; k < 3; k++)
            best = scores[k] > scores[best] ? k : best;
        right += best == i % 3;
    }
    printf("%.1f %% of new points right\n", right / 10.0);
    return 0;
}
