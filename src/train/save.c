/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "penta/base/rng.h"
#include "src/train/private.h"

#include <stdio.h>
#include <string.h>

static const char *const group_of[PT_STATE_KINDS] = {
    [PT_STATE_WEIGHT] = "model",
    [PT_STATE_EXP_AVG] = "optimizer/exp_avg",
    [PT_STATE_EXP_AVG_SQ] = "optimizer/exp_avg_sq",
};

static int64_t count_parts(const pt_trainer_t *t)
{
    int64_t parts = 0;
    for (int p = 0; p < t->session.table.count; p++)
        parts += t->session.table.params[p].parts;
    return parts;
}

/* The tensors of the file: all parts of the model, then of each moment. Index kind·parts + ordinal. */
static void list_tensors(const pt_trainer_t *t, pt_checkpoint_tensor_t *list)
{
    int64_t n = 0;
    for (int kind = 0; kind < PT_STATE_KINDS; kind++) {
        pt_dtype_t dtype =
            pt_optim_state(t->session.optim, (pt_state_kind_t)kind, 0).dtype;
        for (int p = 0; p < t->session.table.count; p++) {
            for (int i = 0; i < t->session.table.params[p].parts; i++) {
                const pt_part_t *part = &t->session.table.params[p].part[i];
                pt_checkpoint_tensor_t *x = &list[n++];
                x->dtype = dtype;
                x->ndim = part->ndim;
                memcpy(x->shape, part->shape, sizeof x->shape);
                snprintf(x->group, sizeof x->group, "%s", group_of[kind]);
                snprintf(x->name, sizeof x->name, "%s", part->name);
                x->id = part->id;
                if (kind != PT_STATE_WEIGHT) {
                    char path[sizeof x->group + sizeof x->name];
                    snprintf(path, sizeof path, "%s/%s", x->group, x->name);
                    x->id = pt_name_id(path);
                }
            }
        }
    }
}

/* ---- between device states and the snapshot ------------------------------------------------------ */

typedef struct transfer {
    pt_state_kind_t kind;
    int64_t parts; /* of the model */
    pt_checkpoint_writer_t *writer;
    pt_checkpoint_reader_t *reader;
    const int *index; /* reader's tensor of kind·parts + ordinal */
    pt_dtype_t dtype; /* of this kind in memory */
} transfer_t;

/* This rank's shard of a state, on the device, and the host snapshot of the same size. */
static void shard_views(const pt_trainer_t *t, pt_state_kind_t kind, int bucket,
                        pt_tensor_t *device, pt_tensor_t *host)
{
    pt_bucket_range_t shard = pt_bucket_shard(t->session.units, bucket);
    pt_bucket_range_t updated = pt_bucket_updated(t->session.units, bucket);
    pt_tensor_t state = pt_optim_state(t->session.optim, kind, bucket);
    *device = pt_tensor_slice(state, 0, shard.first - updated.first, shard.count);
    *host = pt_tensor_1d(t->snapshot, state.dtype, PT_MEMORY_HOST, shard.count);
}

static char *box_data(const pt_trainer_t *t, const transfer_t *x,
                      const pt_stored_box_t *box)
{
    return (char *)t->snapshot + box->slab.local * (int64_t)pt_dtype_size(x->dtype);
}

static pt_status_t write_box(pt_trainer_t *t, const pt_stored_box_t *box, void *self)
{
    const transfer_t *x = self;
    int tensor = (int)(x->kind * x->parts + box->ordinal);
    return pt_checkpoint_write(x->writer, tensor, &box->slab, box_data(t, x, box));
}

static pt_status_t read_box(pt_trainer_t *t, const pt_stored_box_t *box, void *self)
{
    const transfer_t *x = self;
    int tensor = x->index[x->kind * x->parts + box->ordinal];
    return pt_checkpoint_read(x->reader, tensor, x->dtype, &box->slab,
                              box_data(t, x, box));
}

static pt_status_t write_states(pt_trainer_t *t, pt_checkpoint_writer_t *writer)
{
    transfer_t x = {.parts = count_parts(t), .writer = writer};
    for (int kind = 0; kind < PT_STATE_KINDS; kind++) {
        x.kind = (pt_state_kind_t)kind;
        for (int b = 0; b < pt_units_buckets(t->session.units); b++) {
            pt_tensor_t device, host;
            shard_views(t, x.kind, b, &device, &host);
            x.dtype = host.dtype;
            if (pt_tensor_count(&host) == 0)
                continue;
            PT_TRY(pt_device_copy(t->session.device, t->session.stream, &host, &device));
            PT_TRY(pt_comm_wait_stream(t->session.engine, t->session.stream));
            PT_TRY(pt_train_visit_shard(t, b, write_box, &x));
        }
    }
    return PT_OK;
}

/* The first `kinds` of pt_state_kind_t. */
static pt_status_t read_states(pt_trainer_t *t, pt_checkpoint_reader_t *reader,
                               const int *index, int kinds)
{
    transfer_t x = {.parts = count_parts(t), .reader = reader, .index = index};
    for (int kind = 0; kind < kinds; kind++) {
        x.kind = (pt_state_kind_t)kind;
        for (int b = 0; b < pt_units_buckets(t->session.units); b++) {
            pt_tensor_t device, host;
            shard_views(t, x.kind, b, &device, &host);
            x.dtype = host.dtype;
            if (pt_tensor_count(&host) == 0)
                continue;
            memset(t->snapshot, 0,
                   (size_t)pt_tensor_bytes(&host)); /* padding stays zero */
            PT_TRY(pt_train_visit_shard(t, b, read_box, &x));
            PT_TRY(pt_device_copy(t->session.device, t->session.stream, &device, &host));
            PT_TRY(pt_comm_wait_stream(t->session.engine, t->session.stream));
        }
    }
    return PT_OK;
}

pt_status_t pt_train_gather_states(pt_trainer_t *t, int kinds)
{
    for (int kind = 0; kind < kinds; kind++) {
        for (int b = 0; b < pt_units_buckets(t->session.units); b++) {
            pt_tensor_t state =
                pt_optim_state(t->session.optim, (pt_state_kind_t)kind, b);
            if (pt_tensor_count(&state) == pt_bucket_elements(t->session.units, b))
                PT_TRY(pt_bucket_gather(t->session.units, b, state, t->session.stream));
        }
    }
    PT_TRY(pt_optim_loaded(t->session.optim, t->session.stream));
    return pt_comm_wait_stream(t->session.engine, t->session.stream);
}

/* ---- save ------------------------------------------------------------------------------------------ */

static void fill_header(const pt_trainer_t *t, double loss,
                        pt_checkpoint_header_t *header)
{
    const int *size = t->session.mesh->shape.size;
    *header = (pt_checkpoint_header_t){
        .step = t->step,
        .samples = t->step * t->config->train.global_batch,
        .tokens = t->tokens,
        .data_tokens = pt_corpus_tokens(t->corpus),
        .data_hash = t->data_hash,
        .adam_t = t->t,
        .decay_steps = t->decay_steps,
        .loss = loss,
        .loss_scale = t->scale.value,
        .loss_scale_good_steps = t->scale.good_steps,
        .loss_scale_hysteresis = t->scale.hysteresis,
    };
    pt_config_value(t->config, PT_OPTION_train_precision, header->precision,
                    sizeof header->precision);
    pt_train_build_text(t, header->build, sizeof header->build);
    snprintf(header->layout, sizeof header->layout,
             "tensor %d, context %d, pipeline %d, data %d", size[PT_AXIS_TENSOR],
             size[PT_AXIS_CONTEXT], size[PT_AXIS_PIPELINE], size[PT_AXIS_DATA]);
}

pt_status_t pt_train_save(pt_trainer_t *t, const char *path, const char *record,
                          double loss, uint64_t *digest)
{
    pt_status_t status;
    char *ini = NULL;
    pt_checkpoint_tensor_t *list = NULL;
    pt_checkpoint_writer_t *writer = NULL;
    pt_checkpoint_header_t header;
    int64_t count = count_parts(t) * PT_STATE_KINDS;
    t->where.phase = PT_PHASE_SAVE;
    status = pt_config_to_ini(t->config, &ini);
    if (status == PT_OK)
        status = PT_NEW("checkpoint tensors", count, &list);
    PT_TRY_GOTO(done, pt_comm_agree(t->session.mesh->world, status, false));
    list_tensors(t, list);
    fill_header(t, loss, &header);
    PT_TRY_GOTO(done, pt_checkpoint_create(t->session.mesh->world, path, list,
                                           (int)count, ini, t->hosts, &writer));
    pt_checkpoint_set_record(writer, record);
    status = write_states(t, writer);
    PT_TRY_GOTO(done, pt_checkpoint_publish(writer, status, &header,
                                            t->config->checkpoint.verify));
    *digest = header.digest;
done:
    pt_watch_mark(NULL);
    pt_free(list);
    pt_free(ini);
    return status;
}

/* ---- load ------------------------------------------------------------------------------------------ */

static pt_status_t match_tensors(const pt_trainer_t *t, pt_checkpoint_reader_t *reader,
                                 const char *path, int kinds, int *index)
{
    pt_status_t status;
    pt_checkpoint_tensor_t *list = NULL;
    int64_t count = count_parts(t) * kinds;
    PT_TRY(PT_NEW("checkpoint tensors", count_parts(t) * PT_STATE_KINDS, &list));
    list_tensors(t, list);
    status = PT_OK;
    for (int64_t i = 0; i < count && status == PT_OK; i++) {
        index[i] = pt_checkpoint_find_tensor(reader, list[i].group, list[i].name);
        const pt_checkpoint_tensor_t *x =
            index[i] >= 0 ? pt_checkpoint_tensor(reader, index[i]) : NULL;
        bool same = x && x->ndim == list[i].ndim;
        for (int d = 0; same && d < x->ndim; d++)
            same = x->shape[d] == list[i].shape[d];
        if (!same)
            status = PT_FAIL(PT_DAMAGED, "%s: /%s/%s %s: the file is not of this model",
                             path, list[i].group, list[i].name,
                             x ? "has another shape" : "is missing");
    }
    pt_free(list);
    return status;
}

static pt_status_t load_local(pt_trainer_t *t, pt_checkpoint_reader_t *reader,
                              const char *path, int kinds)
{
    pt_status_t status;
    int *index = NULL;
    PT_TRY(PT_NEW("tensor index", count_parts(t) * kinds, &index));
    PT_TRY_GOTO(done, match_tensors(t, reader, path, kinds, index));
    PT_TRY_GOTO(done, read_states(t, reader, index, kinds));
done:
    pt_free(index);
    return status;
}

pt_status_t pt_train_load_states(pt_trainer_t *t, pt_checkpoint_reader_t *reader,
                                 const char *path, int kinds)
{
    pt_status_t status = load_local(t, reader, path, kinds);
    PT_TRY(pt_comm_agree(t->session.mesh->world, status, true));
    PT_TRY(pt_checkpoint_verify_read(reader));
    return pt_train_gather_states(t, kinds);
}

static pt_status_t take_scale(pt_trainer_t *t, const pt_checkpoint_header_t *header)
{
    double fixed;
    PT_TRY(pt_config_loss_scale(t->config, &fixed));
    if (t->session.arch.dtype == PT_F16)
        t->scale = pt_loss_scale_resume(
            fixed, (pt_loss_scale_t){.value = header->loss_scale,
                                     .good_steps = header->loss_scale_good_steps,
                                     .hysteresis = header->loss_scale_hysteresis});
    return PT_OK;
}

static void tell_schedule(const pt_trainer_t *t, int64_t old)
{
    const pt_config_t *c = t->config;
    if (t->decay_steps != old)
        pt_log_root(PT_LOG_INFO,
                    "the learning-rate schedule has now %lld steps, in the checkpoint "
                    "%lld: its decay had not begun",
                    (long long)t->decay_steps, (long long)old);
    if (c->train.steps > t->decay_steps && c->train.decay != PT_DECAY_CONSTANT)
        pt_log_root(PT_LOG_WARN,
                    "train.steps=%lld goes beyond the learning-rate schedule of %lld "
                    "steps, fixed at the first start%s: from there the rate stays at "
                    "train.min_lr",
                    (long long)c->train.steps, (long long)t->decay_steps,
                    c->train.decay == PT_DECAY_WSD && c->train.decay_steps == 0
                        ? " (that of wsd can be moved until its decay begins)"
                        : "");
}

static void take_header(pt_trainer_t *t, const pt_checkpoint_header_t *header,
                        int64_t decay_steps)
{
    t->step = header->step;
    t->t = header->adam_t;
    t->tokens = header->tokens;
    t->decay_steps = decay_steps;
    tell_schedule(t, header->decay_steps);
    t->next_step = -1;
}

pt_status_t pt_train_load(pt_trainer_t *t, const char *path, double *loss)
{
    pt_status_t status;
    pt_checkpoint_reader_t *reader = NULL;
    int64_t decay_steps = 0;
    t->where.phase = PT_PHASE_LOAD;
    PT_TRY(pt_checkpoint_open(t->session.mesh->world, path, &reader));
    PT_TRY_GOTO(done, pt_train_check_belongs(t, reader, path, &decay_steps));
    PT_TRY_GOTO(done, pt_train_load_states(t, reader, path, PT_STATE_KINDS));
    PT_TRY_GOTO(done,
                pt_config_tell_changes(t->config, pt_checkpoint_config(reader), path));
    take_header(t, pt_checkpoint_header(reader), decay_steps);
    PT_TRY_GOTO(done, take_scale(t, pt_checkpoint_header(reader)));
    *loss = pt_checkpoint_header(reader)->loss;
done:
    pt_watch_mark(NULL);
    pt_checkpoint_close(reader);
    return status;
}
