// Many tensors in one launch: which of them a block works on. `first` holds the tensors' first blocks.
#pragma once
#include "common/prelude.cu"

#define THREADS 256
template <typename L> __device__ __forceinline__ int tensor_of(const L& l) {
    int low = 0, high = l.count - 1, block = blockIdx.x;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (l.first[middle] <= block) low = middle; else high = middle - 1;
    }
    return low;
}
