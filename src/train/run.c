/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "penta/base/clock.h"
#include "penta/base/fault.h"
#include "penta/base/log.h"
#include "penta/comm/watch.h"
#include "src/train/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the loop --------------------------------------------------------------------------------------- */

/* Validation masks do not change, so the warning is given once. */
static void run_warn_of_no_validation(const run_t *run, int which)
{
    if (run->evaluated || !pt_train_can_evaluate(&run->trainer, which))
        return;
    pt_log_root(
        PT_LOG_WARN,
        "validation on %s: none of the labels it takes counts (%s, data.document_mask, "
        "run.eval_sequences): its loss is null; later validations do not repeat this",
        which == 0 ? "data.path" : run->trainer.validation[which - 1].name,
        which == 0 ? "data.mask" : "data.validation_mask");
}

static pt_status_t run_evaluate(run_t *run, bool *stopped)
{
    pt_trainer_t *t = &run->trainer;
    bool any = false;
    for (int i = 0; i <= t->validations; i++)
        run->validation_loss[i] = NAN;
    for (int i = 0; i <= t->validations && !*stopped; i++) {
        double *loss = &run->validation_loss[i];
        PT_TRY(pt_train_evaluate(t, i, stop_is_wanted, run, loss, stopped));
        any = any || pt_train_can_evaluate(t, i);
        if (isnan(*loss) && !*stopped)
            run_warn_of_no_validation(run, i);
    }
    run->evaluated = run->evaluated || !*stopped;
    if (*stopped || any)
        report_evaluation(run, *stopped);
    return PT_OK;
}

static pt_status_t run_after_step(run_t *run, bool save, bool *stop)
{
    const pt_config_t *c = run->config;
    int64_t step = run->trainer.step;
    bool stopped = false;
    if (is_due(c->run.replica_check_every, step))
        PT_TRY(pt_state_check_replicas(&run->trainer.state, step));
    if (is_due(c->run.eval_every, step) && !*stop && step < c->train.steps)
        PT_TRY(save_if_failed(run, run_evaluate(run, &stopped)));
    *stop |= stopped || step == c->run.stop_step;
    return *stop ? PT_OK : save_if_due(run, save);
}

static void run_keep_time(run_t *run, const pt_step_result_t *step,
                          const double op_sec[PT_OP_COUNT])
{
    if (isfinite(step->loss)) /* fp16 may have skipped it */
        run->loss = step->loss;
    run->step_sec =
        run->step_sec > 0 ? 0.8 * run->step_sec + 0.2 * step->step_sec : step->step_sec;
    if (run->trainer.step == run->first_step + 1) {
        run->first_rate = (double)step->valid_tokens / step->step_sec;
        return;
    }
    run->train_sec += step->step_sec;
    run->data_sec += step->data_sec;
    run->comm_sec += step->comm_sec;
    for (int op = 0; op < PT_OP_COUNT; op++)
        run->op_sec[op] += run->trainer.session.device->counts[op].sec - op_sec[op];
    run->timed_tokens += step->valid_tokens;
}

/* A step without valid labels has a loss of zero, easily mistaken for convergence. */
static void run_warn_of_no_labels(run_t *run, const pt_step_result_t *step)
{
    if (step->valid_tokens > 0 || run->warned)
        return;
    run->warned = true;
    pt_log_root(
        PT_LOG_WARN,
        "step %lld: none of its labels counts (data.mask, data.document_mask): its "
        "loss and gradient are 0; later such steps are not reported",
        (long long)run->trainer.step);
}

/* Ends this run if another one has taken over the directory. If that cannot be
 * determined now, the next save checks again. */
static pt_status_t run_check_owner(run_t *run)
{
    pt_status_t ours = PT_OK;
    if (run->root && !run_is_owner(run))
        ours = pt_rundir_check_owner(run->dir);
    if (ours == PT_OK && run->lost) /* and the other one has ended since */
        ours = PT_FAIL(PT_CONFIG,
                       "%s: another run has taken over this directory meanwhile; this "
                       "one ends without publishing anything more",
                       run->config->run.dir);
    return pt_comm_agree(run->trainer.session.mesh->world, tell_unsaved(run, ours),
                         false);
}

static pt_step_request_t run_request(void *self)
{
    const run_t *run = self;
    return (pt_step_request_t){.stop = stop_is_wanted(self),
                               .save = save_is_wanted(self),
                               .slow = run->straggler.slow};
}

/* Reports a completed step even if the next batch cannot be read. */
static pt_status_t run_take_step(run_t *run, pt_step_result_t *step)
{
    int64_t before[PT_AXIS_WORLD + 1];
    double op_sec[PT_OP_COUNT];
    const pt_traffic_t *traffic = pt_engine_traffic(run->trainer.session.engine);
    report_axis_bytes(traffic, before);
    for (int op = 0; op < PT_OP_COUNT; op++)
        op_sec[op] = run->trainer.session.device->counts[op].sec;
    run->in_step = true;
    run->step_start_sec = pt_clock_sec();
    int64_t done = run->trainer.step;
    pt_status_t status = pt_train_step(&run->trainer, run_request, run, step);
    run->in_step = false;
    if (run->trainer.step == done)
        return status;
    report_axis_bytes(traffic, run->step_bytes);
    for (int axis = 0; axis <= PT_AXIS_WORLD; axis++)
        run->step_bytes[axis] -= before[axis];
    run_keep_time(run, step, op_sec);
    run_warn_of_no_labels(run, step);
    report_step(run, step);
    straggler_note(&run->straggler, step);
    pt_watch_be_patient(false); /* the first step connects ranks and touches memory */
    hang_note(run);
    return status;
}

/* Returns OK when train.steps are done, STOPPED after a durable checkpoint. */
static pt_status_t run_loop(run_t *run)
{
    pt_trainer_t *t = &run->trainer;
    bool stop = run->config->run.stop_step > 0 && t->step >= run->config->run.stop_step;
    if (stop && t->step < run->config->train.steps)
        pt_log_root(
            PT_LOG_WARN,
            "run.stop_step=%lld was reached by an earlier start: raise it or leave it "
            "out, else the run never goes on",
            (long long)run->config->run.stop_step);
    run->save_clock = pt_clock_sec();
    while (t->step < run->config->train.steps && !stop) {
        pt_step_result_t step;
        PT_TRY(save_if_failed(run, run_take_step(run, &step)));
        stop = step.stop;
        PT_TRY(run_after_step(run, step.save, &stop));
    }
    PT_TRY(pt_units_settle(t->session.units, t->session.stream));
    PT_TRY(run_check_owner(run));
    run->wants[PT_STOP_STOP_STEP] =
        run->config->run.stop_step > 0 && t->step >= run->config->run.stop_step;
    if (t->step < run->config->train.steps)
        PT_TRY(stop_explain(run));
    PT_TRY(save_last(run));
    stop_remove_trigger(run);
    if (t->step < run->config->train.steps)
        return PT_STOPPED;
    bool stopped = false;
    return run_evaluate(run, &stopped);
}

/* ---- beginning and end ------------------------------------------------------------------------------ */

/* Removes files of an earlier run: if this run is killed, it must not seem to have
 * ended as the earlier one did. */
static pt_status_t run_remove_old(const run_t *run, const char *name)
{
    char path[PT_CONFIG_TEXT + 16];
    snprintf(path, sizeof path, "%s/%s", run->config->run.dir, name);
    PT_CHECK_OS(unlink(path) == 0 || errno == ENOENT, PT_IO, errno,
                "%s: cannot be removed: %m", path);
    return PT_OK;
}

static pt_status_t run_find_newest(run_t *run)
{
    pt_checkpoint_entry_t newest;
    PT_TRY(pt_checkpoint_newest(NULL, pt_rundir_checkpoints(run->dir), NULL, NULL, NULL,
                                &newest));
    run->found_step = newest.path[0] ? newest.step : -1;
    run->intact_step = -1;
    if (pt_checkpoint_newest(NULL, pt_rundir_checkpoints(run->dir), NULL,
                             pt_checkpoint_look, NULL, &newest) != PT_OK)
        pt_error_clear(); /* the load reports it */
    else if (newest.path[0])
        run->intact_step = newest.step;
    return PT_OK;
}

static pt_status_t run_open_directory(run_t *run)
{
    PT_TRY(pt_rundir_open(run->config->run.dir, &run->dir));
    PT_TRY(run_find_newest(run));
    PT_TRY(published_check(run));
    PT_TRY(stop_check_trigger(run));
    PT_TRY(hang_remove_old(run));
    return run_remove_old(run, "status.json");
}

/* Called once it is known that this configuration can resume from the directory. */
static pt_status_t run_open_records(run_t *run)
{
    char *ini = NULL;
    PT_TRY(run_remove_old(run, "summary.json"));
    PT_TRY(published_begin(run));
    PT_TRY(pt_rundir_open_metrics(run->dir, run->trainer.step));
    PT_TRY(pt_config_to_ini(run->config, &ini));
    pt_status_t status = pt_rundir_write(run->dir, "config.resolved.ini", ini);
    pt_free(ini);
    return status;
}

static pt_status_t run_make_losses(run_t *run)
{
    int count = 1 + run->trainer.validations;
    PT_TRY(PT_NEW("validation losses", count, &run->validation_loss));
    for (int i = 0; i < count; i++)
        run->validation_loss[i] = NAN;
    return PT_OK;
}

/* Open MPI gives ranks a pseudo-terminal even when its own output is a file; it
 * controls no process. */
static bool run_is_terminal(void)
{
    return isatty(STDOUT_FILENO) && tcgetpgrp(STDOUT_FILENO) >= 0;
}

/* Every rank learns which checkpoint exists, in case it is stopped before the loop. */
static pt_status_t run_enter_directory(run_t *run)
{
    pt_comm_t *world = run->trainer.session.mesh->world;
    pt_status_t status = run->root ? run_open_directory(run) : PT_OK;
    PT_TRY(pt_comm_agree(world, status, false));
    PT_TRY(pt_comm_max_int64(world, &run->found_step, 1));
    PT_TRY(pt_comm_max_int64(world, &run->intact_step, 1));
    run->opened = true;
    hang_note(run);
    if (run->intact_step >= 0)
        pt_stop_set_exit_code(pt_status_exit_code(PT_STOPPED));
    run_beat(run);
    return run_write_hosts(run);
}

static pt_status_t run_prepare(run_t *run, pt_transport_t *transport)
{
    pt_trainer_t *t = &run->trainer;
    PT_TRY(pt_trainer_prepare(run->config, transport, t));
    PT_TRY(pt_comm_agree(t->session.mesh->world, run_make_losses(run), false));
    run->root = pt_comm_rank(t->session.mesh->world) == 0;
    run->terminal = run->root && run_is_terminal();
    t->session.tick = run_beat;
    t->session.tick_self = run;
    PT_TRY(run_enter_directory(run));
    (void)pt_fault("train.setup");
    PT_TRY(stop_before_loop(run));
    PT_TRY(pt_trainer_place(t));
    return stop_before_loop(run);
}

/* Loads the newest checkpoint, or the initial weights. */
static pt_status_t run_load(run_t *run)
{
    char directory[PT_CONFIG_TEXT + 16];
    pt_trainer_t *t = &run->trainer;
    (void)pt_checkpoint_directory(run->config->run.dir, directory, sizeof directory);
    PT_TRY(pt_train_resume(t, directory, &run->resumed));
    run->loss = run->resumed.path[0] ? run->resumed.loss : NAN;
    run->first_step = run->tried_step = t->step;
    if (!run->resumed.path[0])
        return pt_train_init_from(t, &run->initial);
    run->saved_step = t->step;
    return pt_state_digest(&t->state, &run->digest);
}

static pt_status_t run_begin(run_t *run, pt_transport_t *transport)
{
    pt_trainer_t *t = &run->trainer;
    PT_TRY(run_prepare(run, transport));
    PT_TRY(pt_train_measure_peak(t, &run->peak_flops));
    PT_TRY(run_load(run));
    if (run->root)
        save_time_load(run);
    pt_status_t status = run->root ? run_open_records(run) : PT_OK;
    PT_TRY(pt_comm_agree(t->session.mesh->world, status, false));
    report_header(run);
    PT_TRY(stop_before_loop(run));
    pt_stop_enter_loop();
    run->in_loop = true;
    return PT_OK;
}

static void run_fill_result(run_t *run)
{
    pt_train_result_t *r = run->result;
    pt_trainer_t *t = &run->trainer;
    if (r == NULL || t->session.engine == NULL)
        return;
    r->step = t->step;
    r->loss = run->loss;
    r->validation_loss = run->validation_loss[0];
    r->digest = run->digest;
    r->traffic = *pt_engine_traffic(t->session.engine);
    for (int c = 0; c < PT_CLASS_COUNT; c++)
        r->peak_bytes[c] = t->session.arena[c].peak;
}

bool run_is_owner(run_t *run)
{
    pt_error_t record = *pt_error_last();
    run->lost |= pt_rundir_check_owner(run->dir) == PT_CONFIG;
    pt_error_set(&record);
    return !run->lost;
}

/* Is the directory this run's? Before it was opened, or after another run took over,
 * another one may be at work there. */
static bool run_has_directory(run_t *run)
{
    pt_error_t record = *pt_error_last();
    struct stat info;
    bool opened = run->dir != NULL;
    if (!opened && stat(run->config->run.dir, &info) == 0)
        opened = pt_rundir_open_at_once(run->config->run.dir, &run->dir) == PT_OK &&
                 run_find_newest(run) == PT_OK;
    pt_error_set(&record);
    return opened && run_is_owner(run);
}

/* Writes status.json: rank 0 what all ranks know, another rank its own failure. */
static void run_write_status(run_t *run, pt_status_t status)
{
    const pt_error_t *error = pt_error_last();
    bool speaks = pt_log_rank() == 0 ? run_has_directory(run)
                                     : run->opened && pt_error_is_fatal();
    if (!speaks)
        return;
    pt_run_status_t what = run_status(run); /* with what has_directory found */
    what.status = status;
    what.message = error->status ? error->text : run->why;
    what.reason = error->status == PT_OK ? run->reason : PT_STOP_NOT;
    (void)pt_status_write(run->config->run.dir, &what);
}

pt_status_t pt_train_run(const pt_config_t *config, pt_transport_t *transport,
                         pt_train_result_t *result)
{
    pt_status_t status;
    run_t *run = NULL;
    PT_TRY(PT_NEW("run", 1, &run));
    run->config = config;
    run->result = result;
    run->saved_step = run->found_step = run->intact_step = -1;
    run->start_sec = pt_clock_sec();
    run->start_wall = pt_clock_wall();
    hang_watch(run);
    PT_TRY_GOTO(done, run_begin(run, transport));
    status = run_loop(run);
    run_fill_result(run);
    if (run->root && (status == PT_OK || status == PT_STOPPED))
        report_summary(run, status);
done:
    (void)pt_fault("train.finish");
    pt_stop_set_last_words("", ""); /* it has its own now */
    run_write_status(run, status);
    hang_end();
    pt_rundir_close(run->dir);
    pt_trainer_destroy(&run->trainer);
    pt_free(run->validation_loss);
    pt_free(run);
    return status;
}
