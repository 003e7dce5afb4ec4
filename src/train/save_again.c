/* SPDX-License-Identifier: Apache-2.0 */
/* Saves that must not fail for a disk that is full for a moment. */
#include "penta/base/clock.h"
#include "penta/base/fault.h"
#include "penta/base/log.h"
#include "src/train/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

static const double patience_sec = 300, first_pause_sec = 1, longest_pause_sec = 30,
                    slice_sec = 0.5;

/* Of failures that no time heals. The error is that of the rank that failed, on all of
 * them. */
static bool save_is_hopeless(void)
{
    switch (pt_error_last()->os_error) {
    case EFBIG:
    case EDQUOT:
    case EROFS:
    case EACCES:
    case EPERM:
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG: return true;
    default: return pt_fault("checkpoint.again") != PT_FAULT_NONE;
    }
}

typedef struct waiting {
    double deadline; /* of rank 0's clock */
    int heard;       /* requests to stop, when the waiting began */
    bool hopeless;
} waiting_t;

static waiting_t save_begin_waiting(const run_t *run)
{
    double limit = (double)run->config->run.time_limit, now = pt_clock_sec();
    waiting_t w = {.deadline = now + patience_sec, .heard = pt_stop_requested()};
    if (limit > 0)
        w.deadline = fmin(w.deadline, run->start_sec + limit);
    return w;
}

/* Until rank 0 has waited so long, or somebody gives up: *again false. Collective. */
static pt_status_t save_wait_together(run_t *run, const waiting_t *w, double sec,
                                      bool *again)
{
    const struct timespec slice = {.tv_nsec = (long)(slice_sec * 1e9)};
    double until = pt_clock_sec() + sec;
    for (;;) {
        double now = pt_clock_sec();
        bool late = run->root && until + save_time_longest(run) > w->deadline;
        int64_t values[2] = {run->root && now >= until,
                             w->hopeless || late || pt_stop_requested() > w->heard};
        PT_TRY(pt_comm_exchange(run->trainer.session.mesh->world, NULL, 0, values, 2,
                                PT_OK));
        *again = values[1] == 0;
        if (values[0] > 0 || !*again)
            return PT_OK;
        run_beat(run);
        (void)nanosleep(&slice, NULL);
    }
}

/* A save has failed, and is on record. */
static pt_status_t save_try_again(run_t *run)
{
    char left[32];
    waiting_t w = save_begin_waiting(run);
    double pause = first_pause_sec;
    for (int64_t failed = 1;; failed++) {
        bool again;
        w.hopeless = save_is_hopeless(); /* a full disk may turn into a quota */
        if (!w.hopeless && pt_log_is_due(failed))
            pt_log_root(PT_LOG_WARN,
                        "a save that counts failed, it is tried again for up to %s: %s",
                        pt_text_duration(w.deadline - pt_clock_sec(), left, sizeof left),
                        pt_error_last()->text);
        PT_TRY(save_wait_together(run, &w, pause, &again));
        if (!again)
            return PT_IO;
        pt_error_clear();
        pt_status_t status = save_now(run);
        if (status != PT_IO || pt_error_is_fatal())
            return status;
        pause = fmin(2 * pause, longest_pause_sec);
    }
}

static bool save_may_pass(pt_status_t status)
{
    return status == PT_IO && !pt_error_is_fatal();
}

pt_status_t save_last(run_t *run)
{
    pt_status_t status = save_now(run);
    return save_may_pass(status) ? save_try_again(run) : status;
}

pt_status_t save_or_give_up(run_t *run)
{
    char newest[64] = "none was ever saved";
    pt_status_t status = save_try_again(run);
    int64_t step = run_status(run).checkpoint_step;
    if (!save_may_pass(status))
        return status;
    pt_error_t last = *pt_error_last();
    pt_error_clear();
    if (step >= 0)
        snprintf(newest, sizeof newest, "the newest checkpoint is that of step %lld",
                 (long long)step);
    return PT_FAIL_COMMON(
        PT_IO,
        "%lld saves in a row failed (checkpoint.max_failures): %s, and step %lld is "
        "not saved. The last of them: %.1200s",
        (long long)run->failures, newest, (long long)run->trainer.step, last.text);
}
