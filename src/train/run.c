#include "penta/alloc.h"
#include "penta/clock.h"
#include "penta/log.h"
#include "src/train/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- stopping --------------------------------------------------------------------------------------- */

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
static void remove_trigger(const run_t *run)
{
    char path[PT_CONFIG_TEXT + 8];
    if (run->root)
        (void)remove(trigger_path(run, path, sizeof path));
}

static bool want_stop(void *self)
{
    const run_t *run = self;
    return pt_stop_requested() > 0 ||
           (run->root && (is_short_of_time(run) || has_trigger(run)));
}

/* ---- saving ----------------------------------------------------------------------------------------- */

static pt_status_t save(run_t *run)
{
    char path[PT_CONFIG_TEXT + 64], directory[PT_CONFIG_TEXT + 16];
    const pt_config_t *c = run->config;
    pt_trainer_t *t = &run->trainer;
    if (run->saved_step == t->step)
        return PT_OK;
    pt_status_t ours = run->root ? pt_rundir_check_owner(run->dir) : PT_OK;
    PT_TRY(pt_comm_agree(t->mesh.world, ours, false));
    PT_TRY(pt_train_check_weights(t));
    double start = pt_clock_sec();
    snprintf(directory, sizeof directory, "%s/checkpoints", c->run.dir);
    pt_checkpoint_path(directory, t->step, path, sizeof path);
    PT_TRY(pt_train_save(t, path, run->loss, &run->digest));
    run->saved_step = t->step;
    double sec = pt_clock_sec() - start;
    run->save_sec = fmax(run->save_sec, sec);
    if (run->root)
        pt_checkpoint_retain(directory, t->step, c->checkpoint.keep,
                             c->checkpoint.keep_every);
    report_saved(run, path, sec);
    return PT_OK;
}

static bool is_due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

/* A failed periodic save costs safety, not the run: the last published file stands. */
static pt_status_t save_if_due(run_t *run)
{
    if (!is_due(run->config->checkpoint.every, run->trainer.step))
        return PT_OK;
    pt_status_t status = save(run);
    /* HDF5 cannot close a file that only some ranks could open: that one is fatal. */
    if (status != PT_IO || pt_error_is_fatal())
        return status;
    pt_error_warn("checkpoint failed, training goes on");
    return PT_OK;
}

/* ---- the loop --------------------------------------------------------------------------------------- */

static pt_status_t evaluate(run_t *run, bool *stopped)
{
    pt_trainer_t *t = &run->trainer;
    bool any = false;
    for (int i = 0; i <= t->validations; i++)
        run->validation_loss[i] = NAN;
    for (int i = 0; i <= t->validations && !*stopped; i++) {
        double *loss = &run->validation_loss[i];
        PT_TRY(pt_train_evaluate(t, i, want_stop, run, loss, stopped));
        any = any || !isnan(*loss);
    }
    if (*stopped || any)
        report_evaluation(run, *stopped);
    return PT_OK;
}

static pt_status_t after_step(run_t *run, bool *stop)
{
    const pt_config_t *c = run->config;
    int64_t step = run->trainer.step;
    bool stopped = false;
    if (is_due(c->run.replica_check_every, step))
        PT_TRY(pt_train_check_replicas(&run->trainer));
    if (is_due(c->run.eval_every, step) && !*stop && step < c->train.steps)
        PT_TRY(evaluate(run, &stopped));
    *stop |= stopped || step == c->run.stop_step;
    return *stop ? PT_OK : save_if_due(run);
}

static void keep_time(run_t *run, const pt_step_result_t *step,
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
        run->op_sec[op] += run->trainer.device->counts[op].sec - op_sec[op];
    run->timed_tokens += step->valid_tokens;
}

static pt_status_t take_step(run_t *run, pt_step_result_t *step)
{
    int64_t before[PT_AXIS_WORLD + 1];
    double op_sec[PT_OP_COUNT];
    const pt_ledger_t *ledger = pt_engine_ledger(run->trainer.engine);
    report_axis_bytes(ledger, before);
    for (int op = 0; op < PT_OP_COUNT; op++)
        op_sec[op] = run->trainer.device->counts[op].sec;
    run->in_step = true;
    run->step_start_sec = pt_clock_sec();
    PT_TRY(pt_train_step(&run->trainer, want_stop, run, step));
    run->in_step = false;
    report_axis_bytes(ledger, run->step_bytes);
    for (int axis = 0; axis <= PT_AXIS_WORLD; axis++)
        run->step_bytes[axis] -= before[axis];
    keep_time(run, step, op_sec);
    return PT_OK;
}

/* Such a step is legal, and looks like a very good one. */
static void warn_of_no_labels(run_t *run, const pt_step_result_t *step)
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

/* Returns OK when train.steps are done, STOPPED after a durable checkpoint. */
static pt_status_t loop(run_t *run)
{
    pt_trainer_t *t = &run->trainer;
    bool stop = run->config->run.stop_step > 0 && t->step >= run->config->run.stop_step;
    if (stop && t->step < run->config->train.steps)
        pt_log_root(
            PT_LOG_WARN,
            "run.stop_step=%lld was reached by an earlier start: raise it or leave it "
            "out, else the run never goes on",
            (long long)run->config->run.stop_step);
    while (t->step < run->config->train.steps && !stop) {
        pt_step_result_t step;
        PT_TRY(take_step(run, &step));
        stop = step.stop;
        warn_of_no_labels(run, &step);
        report_step(run, &step);
        PT_TRY(after_step(run, &stop));
    }
    PT_TRY(save(run));
    remove_trigger(run);
    if (t->step < run->config->train.steps)
        return PT_STOPPED;
    bool stopped = false;
    return evaluate(run, &stopped);
}

/* ---- beginning and end ------------------------------------------------------------------------------ */

/* Of an earlier run: one that is killed now must not seem to have ended like that one. */
static pt_status_t remove_old(const run_t *run, const char *name)
{
    char path[PT_CONFIG_TEXT + 16];
    snprintf(path, sizeof path, "%s/%s", run->config->run.dir, name);
    PT_CHECK(unlink(path) == 0 || errno == ENOENT, PT_IO, "%s: cannot be removed: %s",
             path, strerror(errno));
    return PT_OK;
}

static pt_status_t open_directory(run_t *run)
{
    PT_TRY(pt_rundir_open(run->config->run.dir, &run->dir));
    return remove_old(run, "status.json");
}

/* Once it is known that this configuration goes on from what is there. */
static pt_status_t open_records(run_t *run)
{
    char *ini = NULL;
    PT_TRY(remove_old(run, "summary.json"));
    PT_TRY(pt_rundir_open_metrics(run->dir, run->trainer.step));
    PT_TRY(pt_config_to_ini(run->config, &ini));
    pt_status_t status = pt_rundir_write(run->dir, "config.resolved.ini", ini);
    pt_free(ini);
    return status;
}

static pt_status_t make_losses(run_t *run)
{
    int count = 1 + run->trainer.validations;
    PT_TRY(PT_NEW("validation losses", count, &run->validation_loss));
    for (int i = 0; i < count; i++)
        run->validation_loss[i] = NAN;
    return PT_OK;
}

static pt_status_t begin(run_t *run, pt_wire_t *wire)
{
    char directory[PT_CONFIG_TEXT + 16];
    pt_trainer_t *t = &run->trainer;
    pt_status_t status = PT_OK;
    PT_TRY(pt_trainer_create(run->config, wire, PT_TRAINER_RUN, t));
    status = make_losses(run);
    PT_TRY(pt_comm_agree(t->mesh.world, status, false));
    run->root = pt_comm_rank(t->mesh.world) == 0;
    run->terminal = run->root && isatty(STDOUT_FILENO);
    if (run->root)
        status = open_directory(run);
    PT_TRY(pt_comm_agree(t->mesh.world, status, false));
    run->opened = true;
    PT_TRY(pt_train_measure_peak(t, &run->peak_flops));
    snprintf(directory, sizeof directory, "%s/checkpoints", run->config->run.dir);
    PT_TRY(pt_train_resume(t, directory, &run->resumed));
    run->loss = run->resumed.path[0] ? run->resumed.loss : NAN;
    run->first_step = t->step;
    if (run->resumed.path[0]) {
        run->saved_step = t->step;
        PT_TRY(pt_train_digest(t, &run->digest));
    } else {
        PT_TRY(pt_train_init_from(t, &run->initial));
    }
    if (run->root)
        status = open_records(run);
    PT_TRY(pt_comm_agree(t->mesh.world, status, false));
    report_header(run);
    return PT_OK;
}

static void fill_result(run_t *run)
{
    pt_train_result_t *r = run->result;
    pt_trainer_t *t = &run->trainer;
    if (r == NULL || t->engine == NULL)
        return;
    r->step = t->step;
    r->loss = run->loss;
    r->validation_loss = run->validation_loss[0];
    r->digest = run->digest;
    r->ledger = *pt_engine_ledger(t->engine);
    for (int c = 0; c < PT_CLASS_COUNT; c++)
        r->peak_bytes[c] = t->arena[c].peak;
}

/* Is the directory this run's? Before it was opened, or after another run took over, another one
 * may be at work there. */
static bool has_directory(run_t *run)
{
    pt_error_t record = *pt_error_last();
    struct stat info;
    bool opened = run->dir != NULL;
    if (!opened && stat(run->config->run.dir, &info) == 0)
        opened = pt_rundir_open(run->config->run.dir, &run->dir) == PT_OK;
    bool ours = opened && pt_rundir_check_owner(run->dir) == PT_OK;
    pt_error_set(&record);
    return ours;
}

/* status.json: rank 0 speaks for what all ranks know, a rank alone for its own failure. */
static void write_status(run_t *run, pt_status_t status, int64_t step)
{
    const pt_error_t *error = pt_error_last();
    bool speaks =
        pt_log_rank() == 0 ? has_directory(run) : run->opened && pt_error_is_fatal();
    if (speaks)
        pt_status_write(run->config->run.dir, status,
                        error->status ? error->text : NULL, step);
}

pt_status_t pt_train_run(const pt_config_t *config, pt_wire_t *wire,
                         pt_train_result_t *result)
{
    pt_status_t status;
    run_t *run = NULL;
    PT_TRY(PT_NEW("run", 1, &run));
    run->config = config;
    run->result = result;
    run->saved_step = -1;
    run->start_sec = pt_clock_sec();
    PT_TRY_GOTO(done, begin(run, wire));
    status = loop(run);
    fill_result(run);
    if (status == PT_OK || status == PT_STOPPED) {
        pt_status_t reported = run->root ? report_summary(run, status) : PT_OK;
        reported = pt_comm_agree(run->trainer.mesh.world, reported, false);
        status = reported == PT_OK ? status : reported;
    }
done:
    write_status(run, status, run->trainer.step);
    pt_rundir_close(run->dir);
    pt_trainer_destroy(&run->trainer);
    pt_free(run->validation_loss);
    pt_free(run);
    return status;
}
