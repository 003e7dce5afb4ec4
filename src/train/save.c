/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "src/train/private.h"

#include <stdio.h>

/* ---- save ------------------------------------------------------------------------------------------ */

static void save_fill_header(const pt_trainer_t *t, double loss,
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
    char *ini = NULL;
    pt_checkpoint_header_t header;
    t->where.phase = PT_PHASE_SAVE;
    pt_status_t status = pt_config_to_ini(t->config, &ini);
    PT_TRY_GOTO(done, pt_comm_agree(t->session.mesh->world, status, false));
    save_fill_header(t, loss, &header);
    pt_state_file_t file = {path, ini, t->hosts, record,
                            (pt_verify_t)t->config->checkpoint.verify};
    PT_TRY_GOTO(done, pt_state_save(&t->state, &file, &header));
    *digest = header.digest;
done:
    pt_watch_mark(NULL);
    pt_free(ini);
    return status;
}

/* ---- load ------------------------------------------------------------------------------------------ */

static void save_take_scale(pt_trainer_t *t, const pt_checkpoint_header_t *header)
{
    if (t->session.arch.dtype == PT_F16)
        t->scale = pt_loss_scale_resume(
            t->config->train.loss_scale,
            (pt_loss_scale_t){.value = header->loss_scale,
                              .good_steps = header->loss_scale_good_steps,
                              .hysteresis = header->loss_scale_hysteresis});
}

static void save_tell_schedule(const pt_trainer_t *t, int64_t old)
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

static void save_take_header(pt_trainer_t *t, const pt_checkpoint_header_t *header,
                             int64_t decay_steps)
{
    t->step = header->step;
    t->t = header->adam_t;
    t->tokens = header->tokens;
    t->decay_steps = decay_steps;
    save_tell_schedule(t, header->decay_steps);
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
    PT_TRY_GOTO(done, pt_state_load(&t->state, reader, path, PT_STATE_KINDS));
    PT_TRY_GOTO(done,
                pt_config_tell_changes(t->config, pt_checkpoint_config(reader), path));
    save_take_header(t, pt_checkpoint_header(reader), decay_steps);
    save_take_scale(t, pt_checkpoint_header(reader));
    *loss = pt_checkpoint_header(reader)->loss;
done:
    pt_watch_mark(NULL);
    pt_checkpoint_close(reader);
    return status;
}
