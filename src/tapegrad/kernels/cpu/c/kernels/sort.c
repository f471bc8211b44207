/* Sorting along rows: values and their indices; the sort is stable.

   Elements become unsigned keys in the same order (of floats: -0 and 0 are equal, NaN comes last),
   and pairs of key and place are sorted by the digits of the key. */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "sums.h"

#define FEW 24      /* pairs that are sorted by insertion */
#define TOGETHER 16 /* elements that are compared at once */
#define SELECTED 64 /* at most: elements that are kept in order while a row is read */

#define KEY uint32_t
#define NAMED(name) name##_32
#include "sort_template.h"
#undef KEY
#undef NAMED

#define KEY uint64_t
#define NAMED(name) name##_64
#include "sort_template.h"
