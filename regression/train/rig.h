/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h — one replica of a model, set up as a run does it, and its step, for tests
 * of src/model. */
#ifndef PT_REGRESSION_RIG_H
#define PT_REGRESSION_RIG_H

#include "penta/base/alloc.h"
#include "penta/base/rng.h"
#include "penta/session/session.h"
#include "regression/backend.h"
#include "regression/tap.h"

#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* What does not depend on the model. */
typedef struct rig_world {
    pt_transport_t *transport;
    pt_machine_t machine;
} rig_world_t;

/* A choice that must not change a bit, with the sizes. */
typedef struct rig_choice {
    int recompute_every;
    bool split; /* all B before all W */
    bool gpipe;
    bool inference;    /* no training at all */
    bool narrow_grads; /* of the type of weights, where that is narrower than fp32 */
    bool cache;        /* of keys and values, for all sequences */
    int64_t merge_bytes;
    int chunks;          /* of the model, in this order on this one rank; 0: one */
    int64_t micro_batch; /* sequences */
    uint64_t seed;
} rig_choice_t;

typedef struct rig {
    rig_world_t *world;
    const pt_config_t *config;
    pt_arch_t arch;
    pt_session_t session; /* without an optimizer where config is NULL */
    int64_t sequences, length, micro_batch;
    double scale; /* of the loss; 0: none */
    /* What goes from chunk to chunk, and its gradient: [positions·rows, C]; of position
     * p what enters it. */
    pt_tensor_t passage, gradient;
    pt_batch_view_t batch; /* of the whole step */
    pt_tensor_t norm;      /* accumulator */
} rig_t;

/* A step's data on the host, [sequences·length]; document, mask may be NULL. */
typedef struct rig_data {
    const int32_t *token, *label, *document;
    const uint8_t *mask;
    int64_t step;
} rig_data_t;

__attribute__((unused)) static pt_status_t rig_open(rig_world_t *world)
{
    pt_machine_options_t options = {
        .device = backend_of_test(), .isa = isa_of_test(), .threads = 1, .seed = 7};

    return pt_machine_open(world->transport, &options, &world->machine);
}

/* The main of a test: `test` in a world, between set-up and the verdict. */
__attribute__((unused)) static int rig_main(int *argc, char ***argv,
                                            void (*test)(rig_world_t *world))
{
    rig_world_t world = {0};
    MPI_Comm comm = MPI_COMM_WORLD;

    MPI_Init(argc, argv);
    if (pt_transport_open_mpi(&comm, &world.transport) != PT_OK ||
        rig_open(&world) != PT_OK) {
        tap_ok(0, "set-up: %s", pt_error_last()->text);
        return 1;
    }
    test(&world);
    pt_machine_close(&world.machine);
    pt_transport_close(world.transport);
    int failed = tap_done();
    MPI_Finalize();
    return failed;
}

/* 53 random bits; the state counts the draws. */
__attribute__((unused)) static uint64_t rig_draw(uint64_t *state)
{
    return pt_mix64((*state)++) >> 11;
}

/* Small models with sizes that divide nothing; between the two every switch of the
 * family. Layers, vocabulary, positions and what else matters are the caller's. */
#define RIG_LLAMA                                                                      \
    .hidden = 14, .ffn = 19, .heads = 6, .kv_heads = 2, .head_dim = 8,                 \
    .norm = PT_NORM_RMS, .activation = PT_ACTIVATION_SWIGLU,                           \
    .positions = PT_POSITIONS_ROTARY, .norm_eps = 1e-5, .rotary_base = 100,            \
    .init_std = 0.3
#define RIG_GPT2                                                                       \
    .hidden = 12, .ffn = 21, .heads = 3, .kv_heads = 3, .head_dim = 4,                 \
    .norm = PT_NORM_LAYER, .activation = PT_ACTIVATION_GELU,                           \
    .positions = PT_POSITIONS_LEARNED, .bias_qkv = true, .bias_all = true,             \
    .tied = true, .norm_eps = 1e-5, .init_std = 0.3

/* Copies between a host array and a dense device tensor, and waits. */
__attribute__((unused)) static pt_status_t rig_copy(rig_world_t *world, pt_tensor_t x,
                                                    void *host, bool to_device)
{
    pt_device_t *device = world->machine.device;
    int64_t bytes = pt_tensor_bytes(&x);
    void *staging;
    pt_status_t status;

    PT_TRY(pt_device_alloc(device, PT_MEMORY_HOST, "staging", bytes, &staging));
    if (to_device) {
        memcpy(staging, host, (size_t)bytes);
        status = device->ops->copy(device, world->machine.stream, x.data, x.memory,
                                   staging, PT_MEMORY_HOST, bytes);
    } else
        status = device->ops->copy(device, world->machine.stream, staging,
                                   PT_MEMORY_HOST, x.data, x.memory, bytes);
    if (status == PT_OK)
        status = device->ops->stream_sync(device, world->machine.stream);
    if (!to_device)
        memcpy(host, staging, (size_t)bytes);
    pt_device_free(device, PT_MEMORY_HOST, staging, bytes);
    return status;
}

/* ---- a model ---- */

/* All F, then all B, then all W. */
__attribute__((unused)) static void rig_split(pt_schedule_t *schedule)
{
    int n = 0, m = schedule->micro_batches, positions = schedule->cut->positions;

    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < m; i++)
            for (int p = 0; p < positions; p++)
                schedule->actions[0][n++] = (pt_action_t){
                    .kind = (pt_action_kind_t)kind,
                    .position = kind == PT_ACTION_B ? positions - 1 - p : p,
                    .micro_batch = i};
}

/* The step's batch and what goes between chunks: pt_session_layout_fn. */
__attribute__((unused)) static pt_status_t rig_layout(void *self, pt_arena_t *a)
{
    rig_t *rig = self;
    pt_batch_view_t *batch = &rig->batch;
    int64_t rows = rig->sequences * rig->length, words = PT_SUM_WORDS;
    pt_tensor_t *int32s[] = {&batch->token, &batch->label, &batch->place,
                             &batch->position, &batch->document};

    for (int i = 0; i < 5; i++)
        PT_TRY(
            pt_arena_tensor(&a[PT_CLASS_BATCH], "tokens", PT_I32, 1, &rows, int32s[i]));
    PT_TRY(pt_arena_tensor(&a[PT_CLASS_BATCH], "samples", PT_I64, 1, &rows,
                           &batch->sample));
    PT_TRY(pt_arena_tensor(&a[PT_CLASS_BATCH], "mask", PT_U8, 1, &rows, &batch->mask));
    int64_t passages[2] = {rig->session.table.cut.positions * rows, rig->arch.hidden};
    PT_TRY(pt_arena_tensor(&a[PT_CLASS_WORKSPACE], "passages", rig->arch.dtype, 2,
                           passages, &rig->passage));
    PT_TRY(pt_arena_tensor(&a[PT_CLASS_WORKSPACE], "gradients of passages",
                           rig->arch.dtype, 2, passages, &rig->gradient));
    return pt_arena_tensor(&a[PT_CLASS_WORKSPACE], "norm", PT_I64, 1, &words,
                           &rig->norm);
}

/* `rig->arch`, sequences and length are set. config: for the optimizer; may be NULL. */
__attribute__((unused)) static pt_status_t rig_create(rig_t *rig, rig_world_t *world,
                                                      const pt_config_t *config,
                                                      const rig_choice_t *choice)
{
    pt_dtype_t grad =
        choice->narrow_grads ? rig->arch.dtype : pt_dtype_accumulator(rig->arch.dtype);
    pt_session_options_t options = {
        .arch = &rig->arch,
        .chunks = choice->chunks,
        .micro_batches =
            choice->inference ? 0 : (int)(rig->sequences / choice->micro_batch),
        .schedule = choice->gpipe ? PT_SCHEDULE_GPIPE : PT_SCHEDULE_1F1B,
        .rearrange = choice->split ? rig_split : NULL,
        .units = {.overlap = true,
                  .in_flight = 2,
                  .merge_bytes = choice->merge_bytes,
                  .grad_dtype = grad,
                  .wire_dtype = grad},
        .model = {.micro_batch = choice->micro_batch,
                  .sequence = rig->length,
                  .recompute_every = choice->recompute_every,
                  .seed = choice->seed,
                  .cache_sequences = choice->cache ? rig->sequences : 0,
                  .cache_length = rig->length},
        .optimizer = config,
        .own = rig_layout,
        .self = rig,
    };

    rig->world = world;
    rig->config = config;
    rig->micro_batch = choice->micro_batch;
    PT_TRY(pt_session_create(&world->machine, &options, &rig->session));
    PT_TRY(pt_session_count(&rig->session));
    return pt_session_place(&rig->session);
}

__attribute__((unused)) static void rig_destroy(rig_t *rig)
{
    pt_session_destroy(&rig->session);
}

/* Initial weights of a bucket, drawn in full precision and rounded to the type of
 * weights. */
__attribute__((unused)) static pt_status_t rig_init_bucket(rig_t *rig, int bucket,
                                                           uint64_t seed)
{
    pt_device_t *device = rig->world->machine.device;
    pt_tensor_t weights = pt_bucket_weights(rig->session.units, bucket);
    int64_t count = pt_tensor_count(&weights), bytes = 8 * count;
    pt_status_t status;
    void *memory;

    PT_TRY(pt_device_alloc(device, PT_MEMORY_DEVICE, "drawn", bytes, &memory));
    pt_tensor_t drawn = pt_tensor_1d(memory, pt_dtype_accumulator(weights.dtype),
                                     PT_MEMORY_DEVICE, count);
    pt_op_cast_t cast = {.x = drawn, .y = weights};
    pt_op_fill_t zero = {.x = drawn};
    PT_TRY_GOTO(done, pt_op_fill(device, rig->world->machine.stream, &zero));
    PT_TRY_GOTO(done, pt_model_init_bucket(rig->session.model, bucket, drawn, seed,
                                           rig->world->machine.stream));
    PT_TRY_GOTO(done, pt_op_cast(device, rig->world->machine.stream, &cast));
    PT_TRY_GOTO(done, device->ops->stream_sync(device, rig->world->machine.stream));
done:
    pt_device_free(device, PT_MEMORY_DEVICE, memory, bytes);
    return status;
}

/* Initial weights of a rig without an optimizer. */
__attribute__((unused)) static pt_status_t rig_init(rig_t *rig, uint64_t seed)
{
    for (int b = 0; b < pt_units_buckets(rig->session.units); b++)
        PT_TRY(rig_init_bucket(rig, b, seed));
    return PT_OK;
}

#endif
