/* Functions of floats that have no formula in vecmath.h of their own: computed in doubles, so that the
   result is off by little more than its rounding, and without branches, so that loops of them become
   vectors. Of doubles, the C library's are used. */

#ifndef TAPEGRAD_VECMATH_ARCS_H
#define TAPEGRAD_VECMATH_ARCS_H

#include "vecmath.h"

#define HALF_PI 1.5707963267948966
#define SMALL 1e-3 /* below it the first two terms of a series are all that a float shows */

/* atan of 0 <= x <= 1: about 0 or about 1, a polynomial in x * x that is off by 2e-11 of it. */
TG_INLINE double atan_to_one(double x) {
    const int far = x > 0.41421356237309503;
    const double t = far ? (x - 1) / (x + 1) : x, z = t * t;
    double y = 0.047129970834754405;
    y = y * z - 0.084591090632603019;
    y = y * z + 0.11041054139616312;
    y = y * z - 0.14281639257477929;
    y = y * z + 0.19999885898597242;
    y = y * z - 0.33333332127877896;
    y = y * z + 0.99999999997912858;
    return y * t + (far ? HALF_PI / 2 : 0);
}

/* Of the point with these coordinates, as atan2. */
TG_INLINE double angle(double y, double x) {
    const double b = fabs(y), a = fabs(x), least = a < b ? a : b, most = a < b ? b : a;
    double t = least / most;
    t = most == 0 ? 0 : t;
    t = least == (double)INFINITY ? 1 : t;
    double r = atan_to_one(t);
    r = b > a ? HALF_PI - r : r;
    r = copysign(1.0, x) < 0 ? 2 * HALF_PI - r : r;
    r = copysign(r, y);
    return (x != x) | (y != y) ? x + y : r;
}

TG_INLINE float atan2_f32(float y, float x) { return (float)angle((double)y, (double)x); }
TG_INLINE float atan_f32(float x) { return (float)angle((double)x, 1.0); }

TG_INLINE float asin_f32(float x) {
    const double wide = (double)x;
    return (float)angle(wide, sqrt((1 - wide) * (1 + wide))); /* NaN outside of the domain */
}

TG_INLINE float acos_f32(float x) {
    const double wide = (double)x;
    return (float)angle(sqrt((1 - wide) * (1 + wide)), wide);
}

TG_INLINE float sinh_f32(float x) {
    const double wide = (double)x, e = exp_f64(fabs(wide)), far = copysign(0.5 * (e - 1 / e), wide);
    return (float)(fabs(wide) < SMALL ? wide + wide * wide * wide / 6 : far);
}

TG_INLINE float cosh_f32(float x) {
    const double e = exp_f64(fabs((double)x));
    return (float)(0.5 * (e + 1 / e));
}

TG_INLINE float asinh_f32(float x) {
    const double wide = (double)x, a = fabs(wide), far = log_f64(a + sqrt(a * a + 1));
    return (float)copysign(a < SMALL ? a - a * a * a / 6 : far, wide);
}

TG_INLINE float acosh_f32(float x) {
    const double wide = (double)x, more = wide - 1;
    /* log1p near 1, where the logarithm of a sum would lose digits */
    const double u = more + sqrt(more * (wide + 1)), w = 1 + u;
    const double y = w == 1 ? u : log_f64(w) * (u / (w - 1));
    return (float)(wide < 1 ? (double)NAN : w == (double)INFINITY ? w : y);
}

TG_INLINE float atanh_f32(float x) {
    const double wide = (double)x, far = 0.5 * log_f64((1 + wide) / (1 - wide));
    return (float)(fabs(wide) < SMALL ? wide + wide * wide * wide / 3 : far);
}

TG_INLINE float hypot_f32(float x, float y) {
    const double a = fabs((double)x), b = fabs((double)y);
    const float y32 = (float)sqrt(a * a + b * b);
    return (a == (double)INFINITY) | (b == (double)INFINITY) ? INFINITY : y32;
}

/* fmod where the quotient has no more digits than a float: all is exact then. */
#define EXACT_QUOTIENT 16777216.0
TG_INLINE float short_fmod_f32(float x, float y) {
    const double wide = (double)x, by = (double)y;
    return (float)copysign(wide - trunc(wide / by) * by, wide);
}
TG_INLINE int has_short_fmod(float x, float y) {
    return (fabs((double)x / (double)y) < EXACT_QUOTIENT) & (fabsf(y) < INFINITY);
}

#undef HALF_PI
#undef SMALL

#endif
