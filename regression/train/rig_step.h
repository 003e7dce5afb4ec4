/* SPDX-License-Identifier: Apache-2.0 */
/* rig_step.h — a step of the replica of rig.h. */
#ifndef PT_REGRESSION_RIG_STEP_H
#define PT_REGRESSION_RIG_STEP_H

#include "regression/train/rig.h"

__attribute__((unused)) static double rig_scale(const rig_t *rig)
{
    return rig->scale > 0 ? rig->scale : 1;
}

__attribute__((unused)) static pt_status_t rig_load(rig_t *rig, const rig_data_t *data)
{
    pt_batch_view_t *batch = &rig->batch;
    int64_t rows = rig->sequences * rig->length, valid = 0;
    int32_t place[rows], zero[rows];
    int64_t sample[rows];
    uint8_t ones[rows];

    for (int64_t i = 0; i < rows; i++) {
        place[i] = (int32_t)(i % rig->length);
        sample[i] = data->step * rig->sequences + i / rig->length;
        zero[i] = 0;
        ones[i] = 1;
        valid += data->mask ? data->mask[i] : 1;
    }
    PT_TRY(rig_copy(rig->world, batch->token, (void *)data->token, true));
    PT_TRY(rig_copy(rig->world, batch->label, (void *)data->label, true));
    PT_TRY(rig_copy(rig->world, batch->place, place, true));
    PT_TRY(rig_copy(rig->world, batch->position, place, true));
    PT_TRY(rig_copy(rig->world, batch->document,
                    data->document ? (void *)data->document : zero, true));
    PT_TRY(rig_copy(rig->world, batch->sample, sample, true));
    PT_TRY(rig_copy(rig->world, batch->mask, data->mask ? (void *)data->mask : ones,
                    true));
    batch->step = data->step;
    batch->training = true;
    batch->loss_scale = rig_scale(rig) / (double)valid;
    return PT_OK;
}

__attribute__((unused)) static pt_batch_view_t rig_view(const rig_t *rig,
                                                        bool documents, int64_t first,
                                                        int64_t sequences)
{
    pt_batch_view_t view = rig->batch;
    int64_t start = first * rig->length, rows = sequences * rig->length;
    pt_tensor_t *all[] = {&view.token,    &view.label,  &view.place, &view.position,
                          &view.document, &view.sample, &view.mask};

    for (int i = 0; i < 7; i++)
        *all[i] = pt_tensor_slice(*all[i], 0, start, rows);
    if (!documents)
        view.document = (pt_tensor_t){0};
    view.sequences = sequences;
    return view;
}

typedef struct rig_run {
    rig_t *rig;
    bool documents;
} rig_run_t;

__attribute__((unused)) static pt_batch_view_t rig_micro_batch(const rig_run_t *run,
                                                               const pt_action_t *action)
{
    return rig_view(run->rig, run->documents,
                    action->micro_batch * run->rig->micro_batch, run->rig->micro_batch);
}

/* What enters `position`, or its gradient, of the action's micro-batch; absent where
 * the model begins or ends. */
__attribute__((unused)) static pt_tensor_t rig_entry(const rig_t *rig, pt_tensor_t all,
                                                     int position, int micro_batch)
{
    int64_t rows = rig->sequences * rig->length, part = rig->micro_batch * rig->length;

    if (position == 0 || position == rig->session.table.cut.positions)
        return (pt_tensor_t){0};
    return pt_tensor_slice(all, 0, position * rows + micro_batch * part, part);
}

__attribute__((unused)) static pt_passage_t rig_passage(const rig_t *rig,
                                                        const pt_action_t *action)
{
    return (pt_passage_t){
        rig_entry(rig, rig->passage, action->position, action->micro_batch),
        rig_entry(rig, rig->passage, action->position + 1, action->micro_batch)};
}

__attribute__((unused)) static pt_status_t rig_do_forward(void *self,
                                                          const pt_action_t *action)
{
    rig_run_t *run = self;
    pt_batch_view_t view = rig_micro_batch(run, action);
    pt_passage_t passage = rig_passage(run->rig, action);
    return pt_model_forward(run->rig->session.model, action, &view, &passage,
                            run->rig->world->machine.stream);
}

__attribute__((unused)) static pt_status_t rig_do_backward(void *self,
                                                           const pt_action_t *action)
{
    rig_run_t *run = self;
    rig_t *rig = run->rig;
    pt_stream_t *stream = rig->world->machine.stream;
    pt_batch_view_t view = rig_micro_batch(run, action);
    pt_passage_t passage = rig_passage(rig, action);
    int m = action->micro_batch;
    pt_tensor_t gradient = rig_entry(rig, rig->gradient, action->position + 1, m);
    pt_tensor_t left = rig_entry(rig, rig->gradient, action->position, m);

    PT_TRY(pt_model_backward(rig->session.model, action, &view, &passage, &gradient,
                             stream));
    if (left.ndim == 0)
        return PT_OK;
    return rig->world->machine.device->ops->copy(
        rig->world->machine.device, stream, left.data, left.memory, gradient.data,
        gradient.memory, pt_tensor_bytes(&left));
}

__attribute__((unused)) static pt_status_t rig_do_weight(void *self,
                                                         const pt_action_t *action)
{
    rig_run_t *run = self;
    pt_batch_view_t view = rig_micro_batch(run, action);
    pt_passage_t passage = rig_passage(run->rig, action);
    return pt_model_weight(run->rig->session.model, action, &view, &passage,
                           run->rig->world->machine.stream);
}

__attribute__((unused)) static pt_status_t rig_sum(rig_t *rig, pt_tensor_t accumulator,
                                                   double *out)
{
    pt_sum_t sum;

    PT_TRY(rig_copy(rig->world, accumulator, &sum, false));
    *out = pt_sum_value(&sum);
    return PT_OK;
}

/* Gradients of a step, whole; its mean loss. */
__attribute__((unused)) static pt_status_t rig_gradients(rig_t *rig,
                                                         const rig_data_t *data,
                                                         double *loss)
{
    rig_run_t run = {rig, data->document != NULL};
    pt_executor_ops_t ops = {&run, rig_do_forward, rig_do_backward, rig_do_weight};
    pt_stream_t *stream = rig->world->machine.stream;

    PT_TRY(rig_load(rig, data));
    PT_TRY(pt_model_clear_loss(rig->session.model, stream));
    PT_TRY(pt_units_clear_grads(rig->session.units, stream));
    pt_alloc_seal(); /* a step finds its memory planned */
    pt_status_t status = pt_schedule_run(&rig->session.schedule, 0, &ops);
    if (status == PT_OK)
        status = pt_units_finish(rig->session.units, stream);
    pt_alloc_unseal();
    PT_TRY(status);
    PT_TRY(rig_sum(rig, pt_model_loss_accumulator(rig->session.model), loss));
    *loss *= rig->batch.loss_scale / rig_scale(rig);
    return PT_OK;
}

/* Norm, clipping, update number t. */
__attribute__((unused)) static pt_status_t rig_update(rig_t *rig, int64_t t,
                                                      double *norm)
{
    pt_stream_t *stream = rig->world->machine.stream;
    double clip;

    pt_sum_t zero = {0};

    PT_TRY(rig_copy(rig->world, rig->norm, &zero, true));
    PT_TRY(pt_optim_square_sum(rig->session.optim, rig->norm, stream));
    PT_TRY(rig_sum(rig, rig->norm, norm));
    *norm = sqrt(*norm) / rig_scale(rig);
    clip = pt_clip_coefficient(*norm, rig->config->train.clip) / rig_scale(rig);
    return pt_optim_update(rig->session.optim, t, rig->config->train.lr, clip, stream);
}

/* A dense tensor as doubles; caller's array of its size. */
__attribute__((unused)) static pt_status_t rig_read(rig_t *rig, pt_tensor_t x,
                                                    double *out)
{
    int64_t count = pt_tensor_count(&x);

    PT_TRY(rig_copy(rig->world, x, out, false)); /* 8 bytes an element hold any type */
    for (int64_t i = count - 1; i >= 0; i--)
        out[i] = pt_float_get(x.dtype, out, i);
    return PT_OK;
}

__attribute__((unused)) static pt_status_t rig_write(rig_t *rig, pt_tensor_t x,
                                                     const double *values)
{
    int64_t count = pt_tensor_count(&x);
    double room[count];

    for (int64_t i = 0; i < count; i++)
        pt_float_set(x.dtype, room, i, values[i]);
    return rig_copy(rig->world, x, room, true);
}

/* The values that an optimizer updates: master weights, or the weights themselves. Same
 * shape. */
__attribute__((unused)) static pt_tensor_t rig_master(const rig_t *rig, int param)
{
    pt_tensor_t x = pt_units_local_shape(rig->session.units, param);
    pt_tensor_t flat = pt_optim_state(rig->session.optim, PT_STATE_WEIGHT,
                                      pt_units_bucket_of(rig->session.units, param));

    x.dtype = flat.dtype;
    x.data =
        pt_tensor_slice(flat, 0, pt_units_offset(rig->session.units, param), 1).data;
    return x;
}

#endif
