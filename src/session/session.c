/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/session/session.h"

#include "penta/base/sum.h"

#include <string.h>

static const pt_memory_t class_memory[PT_CLASS_COUNT] = {
    [PT_CLASS_PARAMETERS] = PT_MEMORY_DEVICE,
    [PT_CLASS_GRADIENTS] = PT_MEMORY_DEVICE,
    [PT_CLASS_OPTIMIZER] = PT_MEMORY_DEVICE,
    [PT_CLASS_ACTIVATIONS] = PT_MEMORY_DEVICE,
    [PT_CLASS_WORKSPACE] = PT_MEMORY_DEVICE,
    [PT_CLASS_BATCH] = PT_MEMORY_DEVICE,
    [PT_CLASS_COMMUNICATION] = PT_MEMORY_DEVICE,
    [PT_CLASS_STAGING] = PT_MEMORY_HOST,
    [PT_CLASS_SNAPSHOT] = PT_MEMORY_HOST,
};

static pt_status_t session_make_table(const pt_session_options_t *options,
                                      pt_session_t *s)
{
    pt_cut_t cut;

    PT_TRY(pt_cut_create((int)s->arch.layers, options->stages ? options->stages : 1,
                         options->chunks ? options->chunks : 1, &cut));
    return pt_param_table_create(&s->arch, cut, &s->table);
}

static pt_status_t session_make_schedule(const pt_session_options_t *options,
                                         pt_session_t *s)
{
    if (options->micro_batches == 0)
        return PT_OK;
    PT_TRY(pt_schedule_create(options->schedule, &s->table.cut, options->micro_batches,
                              &s->schedule));
    if (options->rearrange)
        options->rearrange(&s->schedule);
    return pt_schedule_check(&s->schedule, s->mesh->coordinate[PT_AXIS_PIPELINE],
                             &s->facts);
}

static pt_status_t session_make_model(const pt_session_options_t *options,
                                      pt_session_t *s)
{
    static const int one_slot[1] = {1};
    pt_units_options_t units = options->units;
    pt_model_options_t model = options->model;
    bool training = options->micro_batches > 0;

    units.weight_dtype = s->arch.dtype;
    units.weights_only = !training;
    model.training = training;
    model.fused = !training || s->facts.fused;
    model.input_slots = training ? s->schedule.input_slots : one_slot;
    model.weight_slots = training ? s->schedule.weight_slots : one_slot;
    PT_TRY(pt_units_create(&s->table, s->mesh, s->device, &units, &s->units));
    PT_TRY(pt_model_create(&s->arch, &s->table, s->units, s->mesh, s->device, &model,
                           &s->model));
    if (options->optimizer == NULL)
        return PT_OK;
    return pt_optim_create(&s->table, s->units, s->device, options->optimizer,
                           &s->optim);
}

pt_status_t pt_session_create(pt_machine_t *machine,
                              const pt_session_options_t *options, pt_session_t *out)
{
    pt_status_t status;

    *out = (pt_session_t){.device = machine->device,
                          .stream = machine->stream,
                          .engine = machine->engine,
                          .mesh = &machine->mesh,
                          .arch = *options->arch,
                          .own = options->own,
                          .self = options->self};
    PT_TRY_GOTO(fail, session_make_table(options, out));
    PT_TRY_GOTO(fail, session_make_schedule(options, out));
    PT_TRY_GOTO(fail, session_make_model(options, out));
    return PT_OK;
fail:
    pt_session_destroy(out);
    return status;
}

/* Runs twice: arenas without memory count, arenas with memory place. */
static pt_status_t session_layout(pt_session_t *s)
{
    pt_arena_t *arena = s->arena;

    PT_TRY(pt_units_layout(s->units, &arena[PT_CLASS_PARAMETERS],
                           &arena[PT_CLASS_GRADIENTS], &arena[PT_CLASS_COMMUNICATION]));
    PT_TRY(pt_model_layout(s->model, &arena[PT_CLASS_ACTIVATIONS],
                           &arena[PT_CLASS_WORKSPACE], &arena[PT_CLASS_GRADIENTS]));
    if (s->optim)
        PT_TRY(pt_optim_layout(s->optim, &arena[PT_CLASS_OPTIMIZER]));
    if (s->own)
        PT_TRY(s->own(s->self, arena));
    return pt_arena_tensor(&arena[PT_CLASS_STAGING], "sums", PT_I64, 2,
                           (int64_t[]){2, PT_SUM_WORDS}, &s->host_sums);
}

static void session_free(pt_session_t *s)
{
    for (int c = 0; c < PT_CLASS_COUNT; c++)
        pt_device_free_arena(s->device, &s->arena[c]);
}

pt_status_t pt_session_count(pt_session_t *s)
{
    session_free(s);
    for (int c = 0; c < PT_CLASS_COUNT; c++)
        pt_arena_init(&s->arena[c], (pt_memory_class_t)c, class_memory[c]);
    /* A plan saves nothing, so this may be addresses that no limit of a process
     * counts. */
    if (s->device->dry)
        s->arena[PT_CLASS_SNAPSHOT].memory = PT_MEMORY_DEVICE;
    return session_layout(s);
}

pt_status_t pt_session_place(pt_session_t *s)
{
    for (int c = 0; c < PT_CLASS_COUNT; c++)
        PT_TRY(pt_device_place_arena(s->device, &s->arena[c]));
    PT_TRY(session_layout(s));
    PT_TRY(pt_units_prepare(s->units, s->stream));
    PT_TRY(pt_model_prepare(s->model, s->stream));
    return s->optim ? pt_optim_reset(s->optim, s->stream) : PT_OK;
}

void pt_session_destroy(pt_session_t *s)
{
    pt_optim_destroy(s->optim);
    pt_model_destroy(s->model);
    pt_units_destroy(s->units);
    pt_schedule_destroy(&s->schedule);
    if (s->device)
        session_free(s);
    pt_param_table_destroy(&s->table);
    *s = (pt_session_t){.device = NULL};
}

pt_status_t pt_session_fetch(pt_session_t *s, const pt_tensor_t *from, int count,
                             void *out)
{
    int64_t words = 0;
    pt_tensor_t all = pt_tensor_1d(s->host_sums.data, PT_I64, PT_MEMORY_HOST,
                                   pt_tensor_count(&s->host_sums));

    for (int i = 0; i < count; i++) {
        int64_t length = pt_tensor_count(&from[i]);
        pt_tensor_t host = pt_tensor_slice(all, 0, words, length);
        PT_TRY(pt_device_copy(s->device, s->stream, &host, &from[i]));
        words += length;
    }
    PT_TRY(pt_comm_wait_stream(s->engine, s->stream));
    if (!s->device->dry)
        memcpy(out, all.data, (size_t)words * sizeof(int64_t));
    return PT_OK;
}
