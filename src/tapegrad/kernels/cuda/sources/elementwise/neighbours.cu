// How many neighbours a thread of an elementwise kernel moves at once: 16 bytes of half precision,
// or four elements.
#pragma once
#include "common/prelude.cu"

#define MANY (sizeof(T) == 2 ? 8 : 4)
struct alignas(16) Many { T v[MANY]; };
