/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/clock.h"
#include "penta/base/log.h"
#include "pt_version.h"
#include "src/train/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static double report_flops_per_token(const run_t *run)
{
    return pt_arch_flops_per_token(&run->trainer.session.arch,
                                   run->config->train.sequence);
}

double report_mfu(const run_t *run, double tokens_per_sec)
{
    return run->peak_flops > 0
               ? tokens_per_sec * report_flops_per_token(run) / run->peak_flops
               : 0;
}

/* ---- header ----------------------------------------------------------------------------------------- */

static void report_model(const run_t *run)
{
    char count[32];
    const pt_arch_t *a = &run->trainer.session.arch;
    int64_t parameters = pt_param_table_elements(&run->trainer.session.table);
    printf("model       %s%s: %" PRId64 " layers, width %" PRId64 ", %" PRId64
           " heads (%" PRId64 " KV) of %" PRId64 ", ffn %" PRId64
           ", vocabulary %" PRId64 ", %s parameters (%" PRId64 ")\n",
           run->config->model.config_json[0] ? run->config->model.config_json
                                             : run->config->model.preset,
           a->tied ? ", tied" : "", a->layers, a->hidden, a->heads, a->kv_heads,
           a->head_dim, a->ffn, a->vocab,
           pt_text_count((double)parameters, count, sizeof count), parameters);
}

static void report_layout(const run_t *run)
{
    const pt_trainer_t *t = &run->trainer;
    const int *size = t->session.mesh->shape.size;
    int ranks = pt_comm_size(t->session.mesh->world);
    printf("layout      %d rank%s: tensor %d × context %d × pipeline %d × data %d; "
           "device %s (%s), "
           "%d thread%s a rank\n",
           ranks, ranks == 1 ? "" : "s", size[PT_AXIS_TENSOR], size[PT_AXIS_CONTEXT],
           size[PT_AXIS_PIPELINE], size[PT_AXIS_DATA], t->session.device->ops->name,
           t->session.device->isa, t->session.device->threads,
           t->session.device->threads == 1 ? "" : "s");
    printf("batch       %" PRId64 " sequences of %" PRId64
           " tokens a step, %d micro-batch%s of %" PRId64 " a rank\n",
           run->config->train.global_batch, run->config->train.sequence,
           t->session.schedule.micro_batches,
           t->session.schedule.micro_batches == 1 ? "" : "es",
           run->config->train.micro_batch);
}

static void report_numbers(const run_t *run)
{
    const pt_trainer_t *t = &run->trainer;
    printf("numbers     computed in %s, gradients %s, master weights %s, moments %s",
           pt_dtype_name(t->session.arch.dtype),
           pt_dtype_name(pt_units_grad_dtype(t->session.units)),
           pt_dtype_name(pt_optim_state(t->session.optim, PT_STATE_WEIGHT, 0).dtype),
           pt_dtype_name(pt_optim_state(t->session.optim, PT_STATE_EXP_AVG, 0).dtype));
    if (t->session.arch.dtype == PT_F16)
        printf(", loss scale %.0f%s", t->scale.value,
               t->scale.dynamic ? " (dynamic)" : "");
    printf("\n");
}

static void report_memory(const run_t *run)
{
    char bytes[32];
    int64_t total = 0;
    printf("memory      a rank:");
    for (int c = 0; c < PT_CLASS_COUNT; c++) {
        int64_t size = run->trainer.session.arena[c].peak;
        total += size;
        if (size > 0)
            printf(" %s %s,", pt_memory_class_name((pt_memory_class_t)c),
                   pt_text_bytes(size, bytes, sizeof bytes));
    }
    printf(" in all %s\n", pt_text_bytes(total, bytes, sizeof bytes));
}

static void report_start(const run_t *run)
{
    if (run->resumed.path[0])
        printf("resumed     from %s at step %" PRId64 "%s\n", run->resumed.path,
               run->trainer.step,
               run->config->train.init_from[0] ? "; train.init_from is ignored" : "");
    if (run->initial.path[0])
        printf("weights     of %s, step %" PRId64 ", digest %016" PRIx64 "\n",
               run->initial.path, run->initial.step, run->initial.digest);
}

static void report_saves(const run_t *run)
{
    int64_t every = run->config->checkpoint.every;
    char time[32];
    pt_config_value(run->config, PT_OPTION_checkpoint_every_time, time, sizeof time);
    if (every == 0 && !time[0]) {
        printf("checkpoints only at the end and when stopped\n");
        return;
    }
    printf("checkpoints ");
    if (every > 0)
        printf("every %" PRId64 " steps%s", every, time[0] ? ", " : "");
    if (time[0])
        printf("every %s", time);
    printf(" and at the end, newest %" PRId64 " kept\n", run->config->checkpoint.keep);
}

void report_header(const run_t *run)
{
    const pt_trainer_t *t = &run->trainer;
    char count[32];
    if (!run->root)
        return;
    printf("penta %s (%s)\n", PT_VERSION, PT_GIT_REVISION);
    report_model(run);
    report_layout(run);
    report_numbers(run);
    report_memory(run);
    printf("data        %s tokens, %" PRId64 " training and %" PRId64
           " validation sequences\n",
           pt_text_count((double)pt_corpus_tokens(t->corpus), count, sizeof count),
           pt_corpus_samples(t->corpus, PT_SPLIT_TRAIN),
           pt_corpus_samples(t->corpus, PT_SPLIT_VALIDATION));
    report_start(run);
    report_saves(run);
    printf("run         %s, ", run->config->run.dir);
    if (t->step < run->config->train.steps)
        printf("steps %" PRId64 " to %" PRId64 "\n", t->step + 1,
               run->config->train.steps);
    else
        printf("no step to do: train.steps=%" PRId64 ", step %" PRId64 " is done\n",
               run->config->train.steps, t->step);
    fflush(stdout);
}

/* ---- steps ------------------------------------------------------------------------------------------ */

static void report_progress(const run_t *run, const pt_step_result_t *s,
                            double tokens_per_sec)
{
    char eta[32], time[32];
    int64_t step = run->trainer.step, steps = run->config->train.steps;
    double left = (double)(steps - step) * run->step_sec;
    bool last = step == steps || s->stop;
    printf("%sstep %" PRId64 "/%" PRId64
           "  loss %.4f  lr %.3g  grad norm %.3g  %.0f tokens/s  "
           "MFU %.1f %%  data %.1f %%  comm %.1f %%  ETA %s  %s%s",
           run->terminal ? "\r\033[K" : "", step, steps, s->loss, s->lr, s->grad_norm,
           tokens_per_sec, 100 * report_mfu(run, tokens_per_sec),
           100 * s->data_sec / s->step_sec, 100 * s->comm_sec / s->step_sec,
           pt_text_duration(left, eta, sizeof eta), pt_clock_iso(time, sizeof time),
           s->skipped               ? "  skipped: fp16 overflow\n"
           : run->terminal && !last ? ""
                                    : "\n");
    fflush(stdout);
}

/* What went wrong before stays on record. */
static void report_add_metrics(run_t *run, json_t *line)
{
    char prefix[128];
    pt_error_t record = *pt_error_last();
    pt_error_clear();
    if (pt_rundir_add_metrics(run->dir, line) == PT_OK) {
        if (run->metrics_failures > 0)
            pt_log_root(PT_LOG_INFO,
                        "metrics.jsonl can be written again, after %lld lines",
                        (long long)run->metrics_failures);
        run->metrics_failures = 0;
    } else if (pt_log_is_due(++run->metrics_failures)) {
        snprintf(prefix, sizeof prefix,
                 "training goes on, lines that wait to be written: %lld",
                 (long long)run->metrics_failures);
        pt_error_warn(prefix);
    }
    pt_error_set(&record);
}

void report_step(run_t *run, const pt_step_result_t *s)
{
    char time[32];
    int64_t step = run->trainer.step;
    double tokens_per_sec = (double)s->valid_tokens / s->step_sec;
    if (!run->root || !run_is_owner(run))
        return;
    json_t *line = json_pack("{s:I, s:o, s:o, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:s}",
                             "step", (json_int_t)step, "loss", report_number(s->loss),
                             "grad_norm", report_number(s->grad_norm), "lr", s->lr,
                             "tokens", (json_int_t)run->trainer.tokens, "tokens_per_s",
                             tokens_per_sec, "mfu", report_mfu(run, tokens_per_sec),
                             "step_s", s->step_sec, "comm_s", s->comm_sec, "data_s",
                             s->data_sec, "time", pt_clock_iso(time, sizeof time));
    if (run->trainer.session.arch.dtype == PT_F16) {
        json_object_set_new(line, "loss_scale", json_real(s->loss_scale));
        json_object_set_new(line, "skipped", json_boolean(s->skipped));
    }
    report_add_metrics(run, line);
    bool last = step == run->config->train.steps || s->stop;
    if (last || step % run->config->run.log_every == 0)
        report_progress(run, s, tokens_per_sec);
}

json_t *report_validation(const run_t *run)
{
    json_t *object = json_object();
    for (int i = 0; i < run->trainer.validations; i++) {
        json_t *name = pt_json_text(run->trainer.validation[i].name);
        json_object_set_new(object, json_string_value(name),
                            report_number(run->validation_loss[1 + i]));
        json_decref(name);
    }
    return object;
}

/* "validation loss 2.3456, of wiki 2.1234, of code 1.2345" */
static void report_print_losses(const run_t *run)
{
    const char *separator = "";
    printf("validation loss");
    for (int i = 0; i <= run->trainer.validations; i++) {
        if (!pt_train_can_evaluate(&run->trainer, i))
            continue;
        printf("%s", separator);
        if (i > 0)
            printf(" of %s", run->trainer.validation[i - 1].name);
        if (isnan(run->validation_loss[i]))
            printf(" none");
        else
            printf(" %.4f", run->validation_loss[i]);
        separator = ",";
    }
    printf("\n");
}

void report_evaluation(run_t *run, bool stopped)
{
    char time[32];
    if (!run->root || !run_is_owner(run))
        return;
    printf("%sstep %" PRId64 "  ", run->terminal ? "\r\033[K" : "", run->trainer.step);
    if (stopped) {
        printf("validation given up: asked to stop, or short of time\n");
    } else {
        report_print_losses(run);
        json_t *line = json_pack(
            "{s:I, s:o, s:o, s:s}", "step", (json_int_t)run->trainer.step,
            "validation_loss", report_number(run->validation_loss[0]), "validation",
            report_validation(run), "time", pt_clock_iso(time, sizeof time));
        report_add_metrics(run, line);
    }
    fflush(stdout);
}

void report_saved(run_t *run, const char *path, double sec)
{
    char took[32];
    if (!run->root)
        return;
    printf("%ssaved %s in %s, digest %016" PRIx64 "\n", run->terminal ? "\r\033[K" : "",
           path, pt_text_duration(sec, took, sizeof took), run->digest);
    fflush(stdout);
}

/* What took a hundredth of the time or more. */
static void report_shares(const run_t *run)
{
    report_share_t share[REPORT_SHARES];
    int count = run->train_sec > 0 ? report_time(run, share) : 0;
    for (int i = 0; i < count && share[i].sec >= 0.01 * run->train_sec; i++)
        printf("%s %s %.1f %%", i == 0 ? "time of a step:" : ",", share[i].name,
               100 * share[i].sec / run->train_sec);
    if (count > 0)
        printf("\n");
}

/* ---- end -------------------------------------------------------------------------------------------- */

void report_summary(run_t *run, pt_status_t outcome)
{
    char took[32];
    double rate = run->train_sec > 0 ? (double)run->timed_tokens / run->train_sec
                                     : run->first_rate;
    int ranks = pt_comm_size(run->trainer.session.mesh->world);
    if (outcome == PT_OK)
        printf("Training finished after %" PRId64 " iterations\n", run->trainer.step);
    else
        printf("Training stopped after %" PRId64 " of %" PRId64 " iterations\n%s\n",
               run->trainer.step, run->config->train.steps, run->why);
    if (rate > 0) {
        printf("tokens/sec/gpu: %.2f\n", rate / ranks);
        printf("throughput per GPU (TFLOP/s/GPU): %.6f\n",
               rate * report_flops_per_token(run) / ranks * 1e-12);
    }
    report_shares(run);
    printf("final loss %.6f, digest %016" PRIx64 ", %s: %s\n", run->loss, run->digest,
           pt_text_duration(pt_clock_sec() - run->start_sec, took, sizeof took),
           pt_status_sentence(outcome));
    fflush(stdout);
    report_plan_differences(run);
    /* What counts is saved: no reason for an end with 4. */
    if (pt_rundir_write_json(run->dir, "summary.json",
                             report_summary_json(run, outcome, rate)) != PT_OK)
        pt_error_warn("there will be no summary.json");
}
