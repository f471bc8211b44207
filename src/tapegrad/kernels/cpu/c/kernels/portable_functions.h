/* Elementary functions with the same bits on every machine: + - * / and square roots of doubles in
   one order, no function of the C library, no fused instruction. kernels/portable/formulas.py is the
   text of which they are printed. */

#ifndef TAPEGRAD_PORTABLE_FUNCTIONS_H
#define TAPEGRAD_PORTABLE_FUNCTIONS_H

#include <math.h>
#include <string.h>

#include "tapegrad.h"

TG_INLINE uint64_t bits_of(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

TG_INLINE double double_of(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#include "portable_functions_template.h"

#endif
