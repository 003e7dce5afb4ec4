/* SPDX-License-Identifier: Apache-2.0 */
/* When a run stops, and why: a request, the time limit, a stop file, the stop step. */
#include "penta/base/clock.h"
#include "penta/base/log.h"
#include "penta/base/text.h"
#include "src/train/run.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Would another step and a save end after the time limit? Rank 0 decides for all. The
 * step that is being done counts too: it may be the first, or the longest. */
static bool stop_is_short_of_time(const run_t *run)
{
    double limit = (double)run->config->run.time_limit, now = pt_clock_sec();
    double step =
        run->in_step ? fmax(run->step_sec, now - run->step_start_sec) : run->step_sec;
    /* An evaluation checks every few seconds only. */
    bool evaluates = run->config->run.eval_every > 0 ||
                     run->trainer.step >= run->config->train.steps;
    double slack = evaluates ? 5 : 1;
    double left = limit - (now - run->start_sec);
    return limit > 0 && 1.2 * step + save_time_reserve(run, limit) + slack > left;
}

static const char *stop_trigger_path(const run_t *run, char *path, size_t size)
{
    snprintf(path, size, "%s/stop", run->config->run.dir);
    return path;
}

/* Whether a stop file exists: anything but a directory, which a run could not always
 * remove. */
static bool stop_has_trigger(run_t *run)
{
    char path[PT_CONFIG_TEXT + 8];
    struct stat info;
    if (lstat(stop_trigger_path(run, path, sizeof path), &info) != 0)
        return false;
    if (!S_ISDIR(info.st_mode))
        return true;
    if (!run->stop_warned)
        pt_log_root(PT_LOG_WARN,
                    "%s is a directory: it does not stop the run, only a file does",
                    path);
    run->stop_warned = true;
    return false;
}

pt_status_t stop_check_trigger(run_t *run)
{
    char path[PT_CONFIG_TEXT + 8], aside[PT_CONFIG_TEXT + 40];
    if (!stop_has_trigger(run))
        return PT_OK;
    /* No permission, a sticky directory, another mount: what can be renamed can be
     * removed. */
    stop_trigger_path(run, path, sizeof path);
    snprintf(aside, sizeof aside, "%s.%ld.tmp", path, (long)getpid());
    PT_CHECK_OS(
        rename(path, aside) == 0 || errno == ENOENT, PT_IO, errno,
        "%s: this stop file was there before the run and cannot be removed (%m), so "
        "every start would stop after a step: remove it",
        path);
    PT_CHECK_OS(rename(aside, path) == 0 || errno == ENOENT, PT_IO, errno,
                "%s: cannot be renamed to %s: %m", aside, path);
    return PT_OK;
}

bool stop_is_wanted(void *self)
{
    run_t *run = self;
    run_beat(run);
    run->wants[PT_STOP_SIGNAL] |= pt_stop_requested() > 0;
    run->wants[PT_STOP_TIME_LIMIT] |= run->root && stop_is_short_of_time(run);
    run->wants[PT_STOP_STOP_FILE] |= run->root && stop_has_trigger(run);
    for (int reason = PT_STOP_NOT + 1; reason < PT_STOP_REASONS; reason++)
        if (run->wants[reason])
            return true;
    return run->lost;
}

/* ---- why --------------------------------------------------------------------------------- */

static const char *stop_signal_name(int number)
{
    switch (number) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    case SIGUSR2: return "SIGUSR2";
    case SIGHUP: return "SIGHUP";
    case SIGXCPU: return "SIGXCPU";
    default: return "a signal";
    }
}

static void stop_explain_signal(const run_t *run, pt_text_t *text)
{
    int number;
    double wall;
    char time[32];
    (void)pt_stop_heard(&number, &wall);
    pt_text_add(text, "stopped by %s, heard at %s on rank %d (host %s)%s",
                stop_signal_name(number), pt_clock_iso_at(wall, time, sizeof time),
                pt_log_rank(), pt_log_host(),
                run->in_loop ? "" : ", before the first step of this start");
}

static void stop_policy_explain(const run_t *run, pt_stop_reason_t reason, char *why,
                                size_t size)
{
    pt_text_t text = pt_text_init(why, size);
    char limit[32];
    switch (reason) {
    case PT_STOP_SIGNAL: stop_explain_signal(run, &text); break;
    case PT_STOP_TIME_LIMIT:
        pt_text_add(&text,
                    "stopped by run.time_limit=%s: it leaves no time for another step "
                    "and a save",
                    pt_config_value(run->config, PT_OPTION_run_time_limit, limit,
                                    sizeof limit));
        break;
    case PT_STOP_STOP_FILE:
        pt_text_add(&text, "stopped by the file %s/stop", run->config->run.dir);
        break;
    case PT_STOP_STOP_STEP:
        pt_text_add(&text, "stopped by run.stop_step=%lld",
                    (long long)run->config->run.stop_step);
        break;
    default: break;
    }
}

/* One that came after the ranks had agreed to stop for another reason counts as well:
 * whoever made it does not want the job to come back. */
void stop_remove_trigger(run_t *run)
{
    char path[PT_CONFIG_TEXT + 8];
    struct stat info;
    if (!run->root || lstat(stop_trigger_path(run, path, sizeof path), &info) != 0 ||
        S_ISDIR(info.st_mode))
        return;
    if (unlink(path) != 0 && errno != ENOENT) {
        pt_log_root(PT_LOG_WARN,
                    "%s: cannot be removed: %s; remove it, else no run begins here",
                    path, strerror(errno));
        return;
    }
    if (run->reason != PT_STOP_NOT && !pt_stop_reason_is_wanted(run->reason)) {
        run->reason = PT_STOP_STOP_FILE;
        stop_policy_explain(run, run->reason, run->why, sizeof run->why);
    }
}

/* Of several reasons the most important one counts; the lowest rank that knows it
 * reports it. */
pt_status_t stop_explain(run_t *run)
{
    pt_comm_t *world = run->trainer.session.mesh->world;
    int mine = PT_STOP_NOT, rank = pt_comm_rank(world), size = pt_comm_size(world);
    for (int reason = PT_STOP_NOT + 1; reason < PT_STOP_REASONS; reason++)
        if (run->wants[reason])
            mine = reason;
    int64_t first = (int64_t)mine * size + (size - 1 - rank);
    PT_TRY(pt_comm_max_int64(world, &first, 1));
    run->reason = (pt_stop_reason_t)(first / size);
    stop_policy_explain(run, run->reason, run->why, sizeof run->why);
    PT_TRY(pt_comm_broadcast_bytes(world, (int)(size - 1 - first % size), run->why,
                                   sizeof run->why));
    pt_log_root(PT_LOG_INFO, "the run ends early: %s", run->why);
    return PT_OK;
}

static void stop_add_none_intact(run_t *run)
{
    char all[STOP_WHY];
    pt_text_t text = pt_text_init(all, sizeof all);
    pt_text_add(&text, "%s; none of the checkpoints that are there can be taken",
                run->why);
    memcpy(run->why, all, sizeof all);
    pt_log_root(PT_LOG_WARN,
                "none of the checkpoints in %s/checkpoints can be taken: penta inspect "
                "says of each why",
                run->config->run.dir);
}

pt_status_t stop_before_loop(run_t *run)
{
    int64_t asked = pt_stop_requested() > 0;
    run_beat(run);
    run->wants[PT_STOP_SIGNAL] = asked;
    PT_TRY(
        pt_comm_exchange(run->trainer.session.mesh->world, NULL, 0, &asked, 1, PT_OK));
    if (asked == 0)
        return PT_OK;
    PT_TRY(stop_explain(run));
    if (run_resumable_step(run) >= 0)
        return PT_STOPPED;
    if (run->found_step >= 0)
        stop_add_none_intact(run);
    return PT_ABORTED;
}
