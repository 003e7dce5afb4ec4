/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "penta/base/clock.h"
#include "penta/base/fault.h"
#include "penta/base/log.h"
#include "penta/comm/watch.h"
#include "src/train/private.h"

#include <math.h>

/* ---- callbacks of the executor --------------------------------------------------------------------- */

static pt_batch_view_t step_batch_of(const pt_trainer_t *t, const pt_action_t *action)
{
    pt_batch_view_t batch = pt_loader_view(t->loader, action->micro_batch);
    batch.step = t->step;
    batch.training = true;
    batch.loss_scale = t->valid > 0 ? t->scale.value / (double)t->valid : 0;
    return batch;
}

/* A second request ends the run now and not at the end of the step. */
static pt_status_t step_start_action(pt_trainer_t *t, const pt_action_t *action,
                                     pt_phase_t phase)
{
    t->where.phase = phase;
    t->where.micro_batch = action->micro_batch;
    pt_session_tick(&t->session);
    PT_CHECK(pt_stop_requested() < 2, PT_ABORTED, "interrupted twice");
    return pt_comm_progress(t->session.engine);
}

static pt_status_t step_forward(void *self, const pt_action_t *action)
{
    pt_trainer_t *t = self;
    pt_batch_view_t batch = step_batch_of(t, action);
    PT_TRY(step_start_action(t, action, PT_PHASE_FORWARD));
    (void)pt_fault("train.forward");
    return pt_model_forward(t->session.model, action, &batch, NULL, t->session.stream);
}

static pt_status_t step_backward(void *self, const pt_action_t *action)
{
    pt_trainer_t *t = self;
    pt_batch_view_t batch = step_batch_of(t, action);
    PT_TRY(step_start_action(t, action, PT_PHASE_BACKWARD));
    (void)pt_fault("train.backward");
    pt_tensor_t gradient;
    return pt_model_backward(t->session.model, action, &batch, NULL, &gradient,
                             t->session.stream);
}

static pt_status_t step_weight(void *self, const pt_action_t *action)
{
    pt_trainer_t *t = self;
    pt_batch_view_t batch = step_batch_of(t, action);
    PT_TRY(step_start_action(t, action, PT_PHASE_WEIGHT_GRADIENT));
    return pt_model_weight(t->session.model, action, &batch, NULL, t->session.stream);
}

/* ---- parts of a step ------------------------------------------------------------------------------ */

int64_t pt_train_counted(const pt_trainer_t *t, int64_t valid)
{
    bool speaks = t->session.mesh->coordinate[PT_AXIS_TENSOR] == 0 &&
                  t->session.mesh->coordinate[PT_AXIS_PIPELINE] == 0;
    return speaks ? valid : 0;
}

/* N of a step comes from the exchange at the end of the previous one; the first step
 * needs a sum of its own. */
static pt_status_t step_load_batch(pt_trainer_t *t)
{
    int64_t valid = 0;
    t->where.phase = PT_PHASE_DATA;
    pt_watch_mark("reading data");
    (void)pt_fault("train.data");
    pt_status_t status = pt_loader_load(t->loader, t->step, t->session.stream, &valid);
    pt_watch_mark(NULL);
    if (t->next_step != t->step) {
        t->next_valid = pt_train_counted(t, valid);
        PT_TRY(pt_comm_exchange(t->session.mesh->world, NULL, 0, &t->next_valid, 1,
                                status));
    }
    t->valid = t->next_valid;
    return status;
}

static pt_status_t step_clear(pt_trainer_t *t)
{
    PT_TRY(pt_units_clear_grads(t->session.units, t->session.stream));
    PT_TRY(pt_model_clear_loss(t->session.model, t->session.stream));
    return pt_op_fill(t->session.device, t->session.stream,
                      &(pt_op_fill_t){.x = t->norm_sum});
}

static pt_status_t step_poison(pt_trainer_t *t)
{
    if (pt_fault("train.gradient") != PT_FAULT_NAN)
        return PT_OK;
    /* In the shard of this rank, if it has one: the rest is not read. */
    int bucket = 0, last = pt_units_buckets(t->session.units) - 1;
    while (bucket < last && pt_bucket_shard(t->session.units, bucket).count == 0)
        bucket++;
    int64_t at = pt_bucket_shard(t->session.units, bucket).first -
                 pt_bucket_updated(t->session.units, bucket).first;
    pt_tensor_t grads =
        pt_tensor_slice(pt_bucket_grads(t->session.units, bucket), 0, at, 1);
    return pt_op_fill(t->session.device, t->session.stream,
                      &(pt_op_fill_t){.x = grads, .value = NAN});
}

/* Copies the exact sums of loss and squared norm from the device to the host. */
static pt_status_t step_fetch_sums(pt_trainer_t *t, pt_sum_t sums[2])
{
    pt_tensor_t from[2] = {pt_model_loss_accumulator(t->session.model), t->norm_sum};
    PT_TRY(pt_optim_square_sum(t->session.optim, t->norm_sum, t->session.stream));
    return pt_session_fetch(&t->session, from, 2, sums);
}

/* Reads the batch of the next step. A failure is kept in t->ahead until all ranks have
 * completed this step. */
static void step_read_ahead(pt_trainer_t *t)
{
    pt_where_t where = t->where;
    t->prefetched = 0;
    t->ahead.status = PT_OK;
    if (t->step + 1 >= t->config->train.steps)
        return;
    t->where.phase = PT_PHASE_DATA;
    t->where.step = t->step + 2;
    pt_watch_mark("reading data ahead");
    if (pt_loader_prefetch(t->loader, t->step + 1, &t->prefetched) != PT_OK) {
        t->ahead = *pt_error_last();
        pt_error_clear();
    }
    pt_watch_mark(NULL);
    t->where = where;
}

/* After a step: agrees whether all ranks have the next batch. Called only if some rank
 * failed to read it. */
static pt_status_t step_agree_ahead(pt_trainer_t *t)
{
    if (t->ahead.status != PT_OK)
        pt_error_set(&t->ahead);
    t->next_step = -1;
    return pt_comm_agree(t->session.mesh->world, t->ahead.status, false);
}

/* The one exchange: loss, norm, N of the next step, requests to stop or save, ranks
 * without a next batch. */
static pt_status_t step_exchange(pt_trainer_t *t, pt_step_request_fn ask, void *self,
                                 pt_step_result_t *out, bool *ahead)
{
    pt_sum_t sums[2] = {{.nan = 0}};
    t->where.phase = PT_PHASE_EXCHANGE;
    PT_TRY(step_fetch_sums(t, sums));
    pt_step_request_t asked = ask ? ask(self) : (pt_step_request_t){0};
    int64_t values[6] = {pt_train_counted(t, t->prefetched), asked.stop,
                         t->ahead.status != PT_OK,           asked.save,
                         (int64_t)(t->work_sec * 1e6),       asked.slow};
    PT_TRY(pt_comm_exchange(t->session.mesh->world, sums, 2, values, 6, PT_OK));
    t->next_valid = values[0];
    t->next_step = t->step + 1 < t->config->train.steps ? t->step + 1 : -1;
    out->stop = values[1] > 0;
    *ahead = values[2] == 0;
    out->save = values[3] > 0;
    out->works_sec = (double)values[4] * 1e-6;
    out->slow_ranks = values[5];
    out->loss = t->valid > 0 ? pt_sum_value(&sums[0]) / (double)t->valid : 0;
    out->loss_scale = t->scale.value;
    out->grad_norm = sqrt(pt_sum_value(&sums[1])) / t->scale.value;
    return PT_OK;
}

/* Decides whether to skip the step. All ranks have the same loss and norm, so they
 * decide alike. */
static pt_status_t step_judge(pt_trainer_t *t, pt_step_result_t *out)
{
    bool finite = isfinite(out->loss) && isfinite(out->grad_norm);
    bool hope = finite;
    pt_loss_scale_t before = t->scale;
    if (t->session.device->dry)
        return PT_OK;
    if (t->session.arch.dtype == PT_F16)
        hope = pt_loss_scale_next(&t->scale, !finite);
    out->skipped = !finite;
    if (hope)
        return PT_OK;
    t->scale = before; /* the state is that before the step */
    return pt_train_explain_nonfinite(t, out);
}

static pt_status_t step_update(pt_trainer_t *t, pt_step_result_t *out)
{
    t->where.phase = PT_PHASE_OPTIMIZER;
    PT_TRY(step_judge(t, out));
    out->lr = pt_learning_rate(t->config, t->decay_steps, t->t + 1);
    double clip = pt_clip_coefficient(out->grad_norm, t->config->train.clip);
    if (!out->skipped)
        PT_TRY(pt_optim_update(t->session.optim, ++t->t, out->lr,
                               clip / out->loss_scale, t->session.stream));
    t->step++;
    t->tokens += t->valid;
    out->valid_tokens = t->valid;
    return PT_OK;
}

static pt_status_t step_run(pt_trainer_t *t, pt_step_request_fn ask, void *self,
                            pt_step_result_t *out)
{
    const pt_executor_ops_t ops = {t, step_forward, step_backward, step_weight};
    double start = pt_clock_sec(),
           waited = pt_engine_traffic(t->session.engine)->wait_sec;
    bool ahead;
    PT_TRY(step_load_batch(t));
    out->data_sec = pt_clock_sec() - start;
    PT_TRY(step_clear(t));
    PT_TRY(pt_schedule_run(&t->session.schedule,
                           t->session.mesh->coordinate[PT_AXIS_PIPELINE], &ops));
    t->where.chunk = t->where.micro_batch = t->where.layer = -1;
    double reading = pt_clock_sec();
    step_read_ahead(t); /* while gradients are being reduced */
    out->data_sec += pt_clock_sec() - reading;
    t->where.phase = PT_PHASE_REDUCE;
    PT_TRY(pt_units_finish(t->session.units, t->session.stream));
    PT_TRY(step_poison(t));
    PT_TRY(step_exchange(t, ask, self, out, &ahead));
    PT_TRY(step_update(t, out));
    PT_TRY(pt_comm_wait_stream(t->session.engine, t->session.stream));
    out->step_sec = pt_clock_sec() - start;
    out->comm_sec = pt_engine_traffic(t->session.engine)->wait_sec - waited;
    t->work_sec = out->step_sec - out->comm_sec;
    return ahead ? PT_OK : step_agree_ahead(t);
}

pt_status_t pt_train_step(pt_trainer_t *trainer, pt_step_request_fn ask, void *self,
                          pt_step_result_t *out)
{
    *out = (pt_step_result_t){0};
    trainer->where.step = trainer->step + 1;
    pt_alloc_seal();
    pt_status_t status = step_run(trainer, ask, self, out);
    pt_alloc_unseal();
    return status;
}
