/* Images and volumes read at points: samples, their transpose, and how samples change with points.
   ops/nn/grid_taps.py says how; this rounds as that does. */

#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "kernels.h"

#define MOST_AXES 3
#define MOST_TAPS 4

enum { BILINEAR, NEAREST, BICUBIC };
enum { ZEROS, BORDER, REFLECTION };

/* n of all kernels here */
enum { BATCH, CHANNELS, POINTS, AXES, MODE, PADDING, ALIGN, SIZES, ORDERS = SIZES + MOST_AXES };

typedef struct {
    void **p;
    const int64_t *n;
    int64_t plane;
} arguments;

static arguments arguments_of(void **p, const int64_t *n) {
    arguments given = {p, n, 1};
    for (int64_t d = 0; d < n[AXES]; d++)
        given.plane *= n[SIZES + d];
    return given;
}

#define T float
#define NAMED(name) name##_f32
#define MATH(name) name##f
#include "grid_sampling_template.h"
#undef T
#undef NAMED
#undef MATH

#define T double
#define NAMED(name) name##_f64
#define MATH(name) name
#include "grid_sampling_template.h"
