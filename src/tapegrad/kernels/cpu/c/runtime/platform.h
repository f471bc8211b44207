/* Differences of operating systems and processors: locks, threads, forks, pages, cores, time.
   platform.c alone includes their headers. */

#ifndef TAPEGRAD_PLATFORM_H
#define TAPEGRAD_PLATFORM_H

#include <stddef.h>

#if defined(_WIN32)
typedef struct {
    void *state; /* an SRWLOCK */
} tg_lock;
typedef struct {
    void *state; /* a CONDITION_VARIABLE */
} tg_condition;
#define TG_LOCK {0}
#define TG_CONDITION {0}
#else
#include <pthread.h>
typedef pthread_mutex_t tg_lock;
typedef pthread_cond_t tg_condition;
#define TG_LOCK PTHREAD_MUTEX_INITIALIZER
#define TG_CONDITION PTHREAD_COND_INITIALIZER
#endif

void tg_lock_take(tg_lock *lock);
int tg_lock_try(tg_lock *lock); /* 1: it is taken */
void tg_lock_release(tg_lock *lock);
void tg_wait(tg_condition *condition, tg_lock *lock);
void tg_wake_all(tg_condition *condition);

/* A thread that nobody waits for, with a stack of a megabyte; 0: there can be no more. */
int tg_start_thread(void (*run)(void *), void *context);
void tg_give_way(void); /* another thread may need this processor */
/* Calls around each fork, any of them NULL; nothing happens where processes do not fork. */
void tg_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

int tg_cores(void);        /* of the machine; asked once */
int tg_usable_cores(void); /* those on which this process may run */
double tg_seconds(void);   /* on a clock that only goes forward */
int tg_has_avx512(void);   /* what x86-64-v4 wants, of the processor and the system */

/* The logarithm of the gamma function, safe in several threads: C's lgamma may write its sign into a
   global variable. */
double tg_log_gamma(double x);

/* Pages of zeros, straight from the system; NULL: there are none. */
void *tg_get_pages(size_t bytes);
void tg_give_pages(void *at, size_t bytes);
void tg_want_huge(void *at, size_t bytes); /* huge pages, where there are such */
/* The values in [at, at + bytes) are not needed any more: the system may take the pages that lie in it
   as a whole, and put zeros or the old values there. */
void tg_drop_values(void *at, size_t bytes);

#endif
