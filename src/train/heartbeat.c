/* SPDX-License-Identifier: Apache-2.0 */
/* status.json while the run is at work. */
#include "penta/base/clock.h"
#include "penta/base/log.h"
#include "src/train/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const double beat_sec = 30, changed_sec = 2;

/* What a step does, forward and backward and so on, is one thing here. */
static int heartbeat_shown(pt_phase_t phase)
{
    switch (phase) {
    case PT_PHASE_SETUP:
    case PT_PHASE_LOAD:
    case PT_PHASE_EVALUATE:
    case PT_PHASE_SAVE:
    case PT_PHASE_FINISH: return (int)phase;
    default: return PT_PHASE_COUNT;
    }
}

int64_t run_resumable_step(const run_t *run)
{
    return run->saved_step >= 0 ? run->saved_step : run->intact_step;
}

pt_run_status_t run_status(const run_t *run)
{
    return (pt_run_status_t){
        .step = run->trainer.step,
        .steps = run->config->train.steps,
        .checkpoint_step = run_resumable_step(run),
        .ranks = pt_log_size(),
        .started = run->start_wall,
    };
}

/* Should a signal end this process before the loop. */
static void heartbeat_leave_last_words(const run_t *run)
{
    char path[PT_CONFIG_TEXT + 16], text[PT_STATUS_BYTES];
    pt_run_status_t what = run_status(run);
    what.status = run_resumable_step(run) >= 0 ? PT_STOPPED : PT_ABORTED;
    what.reason = PT_STOP_SIGNAL;
    what.message =
        "ended by a second signal, or 20 s after the first one, before the first "
        "step of this start";
    snprintf(path, sizeof path, "%s/status.json", run->config->run.dir);
    if (pt_status_text(&what, text))
        pt_stop_set_last_words(path, text);
}

static void heartbeat_beat_now(run_t *run, double now)
{
    pt_run_status_t what = run_status(run);
    what.is_running = true;
    run->beat_sec = now;
    run->beat_phase = heartbeat_shown(pt_log_where()->phase);
    if (!run_is_owner(run))
        return;
    if (!run->in_loop)
        heartbeat_leave_last_words(run);
    if (pt_status_write(run->config->run.dir, &what))
        return;
    if (!run->beat_warned)
        pt_log_root(PT_LOG_WARN,
                    "%s/status.json cannot be written: %s; training goes on, later "
                    "failures of this kind are not reported",
                    run->config->run.dir, strerror(errno));
    run->beat_warned = true;
}

void run_beat(void *self)
{
    run_t *run = self;
    double now = pt_clock_sec();
    if (!run->opened || run->dir == NULL)
        return;
    bool changed = heartbeat_shown(pt_log_where()->phase) != run->beat_phase;
    if (run->beat_sec == 0 || now - run->beat_sec >= (changed ? changed_sec : beat_sec))
        heartbeat_beat_now(run, now);
}
