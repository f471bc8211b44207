/* A small pool of threads. It starts with the first large piece of work; a worker that has nothing
   to do spins for a moment, since work comes in bursts and waking a sleeper costs 50 to 400
   microseconds, and then sleeps. Where all workers sleep the caller does the first piece alone, and
   wakes them if what is left will take long enough by that measure. After fork the child has no
   workers and starts its own. */

#include <stdatomic.h>
#include <stdlib.h>

#include "platform.h"
#include "tapegrad.h"

#define MOST 64
#define SPIN_FOR 1000.0  /* microseconds that a worker without work stays awake */
#define WAKE_FROM 100.0  /* microseconds of work that are worth waking the sleepers */
#define SPINS 5000       /* of a caller that waits for the last pieces, before it gives way */

typedef struct {
    tg_part part;
    void *context;
    int64_t count, grain;
    _Atomic int64_t next; /* the next piece to be taken */
    _Atomic int busy;     /* workers that are inside */
} work_t;

static struct {
    tg_lock owner; /* held by the thread whose work the pool does */
    tg_lock lock;
    tg_condition wake;
    _Atomic uint64_t round; /* odd while there is work; workers wait for it to change */
    _Atomic int sleeping;
    _Atomic int wanted; /* threads to use, the caller's included; 0: not asked yet */
    int started;        /* workers; for the owner alone */
    work_t work;
} pool = {.owner = TG_LOCK, .lock = TG_LOCK, .wake = TG_CONDITION};

static _Thread_local int inside; /* a part that calls tg_parallel again runs alone */

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static double microseconds(void) { return tg_seconds() * 1e6; }

static void take_pieces(work_t *work) {
    int64_t pieces = (work->count + work->grain - 1) / work->grain;
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed);
        if (i >= pieces)
            return;
        int64_t begin = i * work->grain, end = begin + work->grain;
        work->part(work->context, begin, end < work->count ? end : work->count);
    }
}

static void worker(void *index) {
    uint64_t seen = 0;
    int number = (int)(intptr_t)index;
    inside = 1;
    for (;;) {
        uint64_t now;
        double until = 0;
        for (unsigned spins = 0;
             (now = atomic_load_explicit(&pool.round, memory_order_acquire)) == seen; spins++) {
            relax();
            if (spins % 64) /* the clock costs as much as a few pauses */
                continue;
            if (!until)
                until = microseconds() + SPIN_FOR;
            if (microseconds() < until)
                continue;
            tg_lock_take(&pool.lock);
            atomic_fetch_add(&pool.sleeping, 1);
            while (atomic_load(&pool.round) == seen)
                tg_wait(&pool.wake, &pool.lock);
            atomic_fetch_sub(&pool.sleeping, 1);
            tg_lock_release(&pool.lock);
            until = 0;
        }
        seen = now;
        if (seen % 2 == 0 || number >= pool.wanted)
            continue; /* the work is over already, or this worker is not wanted any more */
        /* While the round is the same its owner waits for `busy`, so the work cannot change. */
        atomic_fetch_add(&pool.work.busy, 1);
        if (atomic_load(&pool.round) == seen)
            take_pieces(&pool.work);
        atomic_fetch_sub(&pool.work.busy, 1);
    }
}

static void forget(void) {
    /* In the child of a fork: no worker came along, and locks may be held by threads that are
       not there. */
    pool.owner = (tg_lock)TG_LOCK;
    pool.lock = (tg_lock)TG_LOCK;
    pool.wake = (tg_condition)TG_CONDITION;
    pool.started = 0;
    inside = 0;
    atomic_store(&pool.sleeping, 0);
    if (atomic_load(&pool.round) % 2)
        atomic_fetch_add(&pool.round, 1);
    atomic_store(&pool.work.busy, 0);
}

static void start(void) {
    static int registered;
    if (!registered) {
        registered = 1;
        tg_at_fork(NULL, NULL, forget);
    }
    while (pool.started < pool.wanted - 1) {
        if (!tg_start_thread(worker, (void *)(intptr_t)(pool.started + 1))) {
            pool.wanted = pool.started + 1; /* as many as there are */
            break;
        }
        pool.started++;
    }
}

int tg_threads(void) {
    if (pool.wanted == 0) {
        int count = tg_usable_cores();
        const char *said = getenv("OMP_NUM_THREADS");
        if (said && atoi(said) > 0)
            count = atoi(said);
        tg_set_threads(count);
    }
    return pool.wanted;
}

void tg_set_threads(int count) {
    pool.wanted = count < 1 ? 1 : count > MOST ? MOST : count;
}

/* The pieces from `begin` on, one after the other. */
static void alone(int64_t begin, int64_t count, int64_t grain, tg_part part, void *context) {
    for (; begin < count; begin += grain)
        part(context, begin, begin + grain < count ? begin + grain : count);
}

void tg_parallel(int64_t count, int64_t grain, tg_part part, void *context) {
    if (count <= 0)
        return;
    if (grain < 1)
        grain = 1;
    if (count <= grain) {
        part(context, 0, count);
        return;
    }
    if (tg_threads() == 1 || inside || !tg_lock_try(&pool.owner)) {
        alone(0, count, grain, part, context);
        return;
    }
    inside = 1;
    int64_t first = 0; /* the pieces that are done already */
    if (atomic_load(&pool.sleeping) >= pool.started) {
        const double before = microseconds();
        part(context, 0, grain);
        first = 1;
        const double each = microseconds() - before;
        if (each * (double)((count - 1) / grain) < WAKE_FROM) {
            alone(grain, count, grain, part, context);
            inside = 0;
            tg_lock_release(&pool.owner);
            return;
        }
    }
    if (pool.started < pool.wanted - 1)
        start();
    work_t *work = &pool.work;
    work->part = part;
    work->context = context;
    work->count = count;
    work->grain = grain;
    atomic_store(&work->next, first);
    atomic_fetch_add(&pool.round, 1);
    if (atomic_load(&pool.sleeping)) {
        tg_lock_take(&pool.lock);
        tg_wake_all(&pool.wake);
        tg_lock_release(&pool.lock);
    }
    take_pieces(work);
    atomic_fetch_add(&pool.round, 1);
    for (int spins = 0; atomic_load(&work->busy); spins++)
        if (spins < SPINS)
            relax();
        else
            tg_give_way(); /* a worker that has lost its processor needs one */
    inside = 0;
    tg_lock_release(&pool.owner);
}

int64_t tg_grain(double cost) {
    /* A piece should take at least some 20 microseconds. */
    double elements = 20000.0 / cost;
    return elements < 64 ? 64 : (int64_t)elements;
}
