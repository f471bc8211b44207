/* The functions of platform.h, on POSIX systems and on Windows. */

#define _GNU_SOURCE
#include "platform.h"

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(_WIN32)

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <process.h>

void tg_lock_take(tg_lock *lock) { AcquireSRWLockExclusive((PSRWLOCK)lock); }
int tg_lock_try(tg_lock *lock) { return TryAcquireSRWLockExclusive((PSRWLOCK)lock) != 0; }
void tg_lock_release(tg_lock *lock) { ReleaseSRWLockExclusive((PSRWLOCK)lock); }
void tg_wait(tg_condition *condition, tg_lock *lock) {
    SleepConditionVariableSRW((PCONDITION_VARIABLE)condition, (PSRWLOCK)lock, INFINITE, 0);
}
void tg_wake_all(tg_condition *condition) { WakeAllConditionVariable((PCONDITION_VARIABLE)condition); }

typedef struct {
    void (*run)(void *);
    void *context;
} call;

static unsigned __stdcall begin(void *given) {
    const call c = *(call *)given;
    free(given);
    c.run(c.context);
    return 0;
}

int tg_start_thread(void (*run)(void *), void *context) {
    call *c = malloc(sizeof *c);
    if (!c)
        return 0;
    *c = (call){run, context};
    const uintptr_t thread = _beginthreadex(NULL, 1 << 20, begin, c, 0, NULL);
    if (!thread)
        return free(c), 0;
    CloseHandle((HANDLE)thread);
    return 1;
}

void tg_give_way(void) { SwitchToThread(); }

void tg_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
    (void)before, (void)parent, (void)child;
}

static int count_cores(void) { return (int)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS); }

int tg_usable_cores(void) {
    DWORD_PTR ours = 0, all = 0;
    int count = 0;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &ours, &all))
        return tg_cores();
    for (; ours; ours &= ours - 1)
        count++;
    return count ? count : tg_cores(); /* 0: it runs in several groups of processors */
}

double tg_seconds(void) {
    LARGE_INTEGER ticks, rate;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&rate);
    return (double)ticks.QuadPart / (double)rate.QuadPart;
}

double tg_log_gamma(double x) { return lgamma(x); } /* it shares nothing here */

static size_t page_size(void) {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

void *tg_get_pages(size_t bytes) {
    return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}
void tg_give_pages(void *at, size_t bytes) {
    (void)bytes;
    VirtualFree(at, 0, MEM_RELEASE);
}
void tg_want_huge(void *at, size_t bytes) { (void)at, (void)bytes; }
static void drop(void *at, size_t bytes) { VirtualAlloc(at, bytes, MEM_RESET, PAGE_READWRITE); }

#else

#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

void tg_lock_take(tg_lock *lock) { pthread_mutex_lock(lock); }
int tg_lock_try(tg_lock *lock) { return pthread_mutex_trylock(lock) == 0; }
void tg_lock_release(tg_lock *lock) { pthread_mutex_unlock(lock); }
void tg_wait(tg_condition *condition, tg_lock *lock) { pthread_cond_wait(condition, lock); }
void tg_wake_all(tg_condition *condition) { pthread_cond_broadcast(condition); }

typedef struct {
    void (*run)(void *);
    void *context;
} call;

static void *begin(void *given) {
    const call c = *(call *)given;
    free(given);
    c.run(c.context);
    return NULL;
}

int tg_start_thread(void (*run)(void *), void *context) {
    call *c = malloc(sizeof *c);
    if (!c)
        return 0;
    *c = (call){run, context};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    pthread_t thread;
    const int failed = pthread_create(&thread, &attributes, begin, c);
    pthread_attr_destroy(&attributes);
    if (failed)
        free(c);
    return !failed;
}

void tg_give_way(void) { sched_yield(); }

void tg_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
    pthread_atfork(before, parent, child);
}

static int count_cores(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }

int tg_usable_cores(void) {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
    return tg_cores();
}

double tg_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double lgamma_r(double x, int *sign); /* macOS declares it only for those who ask */
double tg_log_gamma(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

void *tg_get_pages(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}
void tg_give_pages(void *at, size_t bytes) { munmap(at, bytes); }

void tg_want_huge(void *at, size_t bytes) {
#if defined(MADV_HUGEPAGE)
    madvise(at, bytes, MADV_HUGEPAGE);
#else
    (void)at, (void)bytes;
#endif
}

static void drop(void *at, size_t bytes) {
#if defined(MADV_DONTNEED)
    madvise(at, bytes, MADV_DONTNEED);
#else
    (void)at, (void)bytes;
#endif
}

#endif

void tg_drop_values(void *at, size_t bytes) {
    const uintptr_t page = page_size(), begin = (uintptr_t)at;
    const uintptr_t first = (begin + page - 1) / page * page, last = (begin + bytes) / page * page;
    if (last > first)
        drop((void *)first, last - first);
}

int tg_cores(void) {
    static _Atomic int known;
    int count = atomic_load_explicit(&known, memory_order_relaxed);
    if (!count) {
        count = count_cores();
        atomic_store_explicit(&known, count, memory_order_relaxed);
    }
    return count;
}

int tg_has_avx512(void) {
#if defined(__x86_64__)
    static _Atomic int known; /* 1: no, 2: yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (!answer) {
        const unsigned f_dq = 1u << 16 | 1u << 17, cd_bw_vl = 1u << 28 | 1u << 30 | 1u << 31;
        unsigned a, b, c, d, saved = 0;
        if (__get_cpuid(1, &a, &b, &c, &d) && c & 1u << 27) /* the system saves registers */
            __asm__("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
        const int has = (saved & 0xe6) == 0xe6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
                        (b & (f_dq | cd_bw_vl)) == (f_dq | cd_bw_vl);
        atomic_store_explicit(&known, answer = 1 + has, memory_order_relaxed);
    }
    return answer == 2;
#else
    return 0;
#endif
}
