// The other dtypes of a norm: P of its parameters (P_DTYPE), S of running statistics (S_DTYPE).
#pragma once
#include "common/prelude.cu"

typedef OF_DTYPE(stored, P_DTYPE) P;
#define LOAD_P(p) OF_DTYPE(load, P_DTYPE)(p)
#define STORE_P(p, v) OF_DTYPE(store, P_DTYPE)(p, v)
typedef OF_DTYPE(stored, S_DTYPE) S;
#define LOAD_S(p) OF_DTYPE(load, S_DTYPE)(p)
#define STORE_S(p, v) OF_DTYPE(store, S_DTYPE)(p, v)
