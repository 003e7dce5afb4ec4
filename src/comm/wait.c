/* SPDX-License-Identifier: Apache-2.0 */
/* How to be idle. Waiting ranks share cores with working ones, and MPI's own waits
 * spin: the kernel then gives every spinning rank whole time slices. A wait polls once
 * more, then yields, then sleeps; 50 us, since shorter sleeps cost as much as
 * spinning. */
#include "src/comm/private.h"

#include <sched.h>
#include <time.h>

enum { SLEEP_CROWDED = 20, SLEEP_ROOMY = 2000, SLEEP_NSEC = 50000 };

/* The hook has no argument of ours, so these are global: set once at start, or per
 * thread. */
static int polls_before_sleep = SLEEP_CROWDED;
static _Thread_local int blocking;
static _Thread_local int hook_polls;
static _Thread_local uint64_t hook_moves;

void pt_wait_set_ranks(int ranks_on_host, int cores)
{
    polls_before_sleep = ranks_on_host <= cores ? SLEEP_ROOMY : SLEEP_CROWDED;
}

static void wait_pause_after(int polls)
{
    const struct timespec time = {.tv_nsec = SLEEP_NSEC};

    if (polls <= 1)
        return;
    if (polls < polls_before_sleep)
        sched_yield();
    else
        nanosleep(&time, NULL);
}

static int wait_one_more(int polls)
{
    return polls < SLEEP_ROOMY ? polls + 1 : polls;
}

void pt_wait_idle(pt_idle_t *idle, uint64_t moves)
{
    uint64_t activity = hook_moves + moves;

    idle->polls = activity == idle->activity ? wait_one_more(idle->polls) : 0;
    idle->activity = activity;
    wait_pause_after(idle->polls);
}

void pt_wait_polled(bool moved)
{
    hook_moves += moved;
    if (blocking == 0)
        return;
    hook_polls = moved ? 0 : wait_one_more(hook_polls);
    wait_pause_after(hook_polls);
}

void pt_comm_blocking_begin(void)
{
    if (blocking++ == 0)
        hook_polls = 0;
}

void pt_comm_blocking_end(void)
{
    blocking--;
}
