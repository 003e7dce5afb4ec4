/* When a run stops: a request, the time limit, a stop file. */
#include "penta/clock.h"
#include "src/train/run.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

/* As long as the longest so far; the first as a slow disk would take. */
static double expected_save_sec(const run_t *run)
{
    static const double slow_bytes_per_sec = 2e8;
    const pt_trainer_t *t = &run->trainer;
    double bytes = 0;
    for (int kind = 0; kind < PT_STATE_KINDS; kind++)
        bytes += (double)pt_param_table_elements(&t->table) *
                 (double)pt_dtype_size(
                     pt_optim_state(t->optim, (pt_state_kind_t)kind, 0).dtype);
    return run->save_sec > 0 ? run->save_sec : bytes / slow_bytes_per_sec;
}

/* Would another step and a save end after the time limit? Rank 0 decides for all. The step that is
 * being done counts too: it may be the first, or the longest. */
static bool is_short_of_time(const run_t *run)
{
    double limit = pt_config_time_limit_sec(run->config), now = pt_clock_sec();
    double step =
        run->in_step ? fmax(run->step_sec, now - run->step_start_sec) : run->step_sec;
    /* An evaluation asks every few seconds only. */
    bool evaluates = run->config->run.eval_every > 0 ||
                     run->trainer.step >= run->config->train.steps;
    double slack = evaluates ? 5 : 1;
    double left = limit - (now - run->start_sec);
    return limit > 0 && 1.2 * step + 1.5 * expected_save_sec(run) + slack > left;
}

static const char *trigger_path(const run_t *run, char *path, size_t size)
{
    snprintf(path, size, "%s/stop", run->config->run.dir);
    return path;
}

static bool has_trigger(const run_t *run)
{
    char path[PT_CONFIG_TEXT + 8];
    struct stat info;
    return stat(trigger_path(run, path, sizeof path), &info) == 0;
}

/* It has done its work: the next start is to go on. */
void stop_remove_trigger(const run_t *run)
{
    char path[PT_CONFIG_TEXT + 8];
    if (run->root)
        (void)remove(trigger_path(run, path, sizeof path));
}

bool stop_is_wanted(void *self)
{
    const run_t *run = self;
    return pt_stop_requested() > 0 ||
           (run->root && (is_short_of_time(run) || has_trigger(run)));
}
