/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "penta/parallel/layout.h"
#include "penta/base/log.h"
#include "penta/base/rng.h"
#include "src/train/private.h"

#include <math.h>
#include <stdio.h>

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

/* Levels and libraries differ in rounding, and a library by the processor it runs on: on mixed hosts the
 * bits would depend on who is placed where. */
static pt_status_t check_same_arithmetic(const pt_trainer_t *t, pt_comm_t *world)
{
    char text[192];
    snprintf(text, sizeof text, "%s, %s", t->device->isa, t->device->library);
    int64_t id = (int64_t)(pt_name_id(text) >> 1), most[2] = {id, -id};
    PT_TRY(pt_comm_max_int64(world, most, 2));
    if (most[0] != -most[1])
        pt_log_root(
            PT_LOG_WARN,
            "ranks compute with different instruction sets or libraries (rank 0: %s), "
            "so bits depend on their placement: set run.isa to a level all hosts have, "
            "and the library's own choice alike (OPENBLAS_CORETYPE, …)",
            text);
    return PT_OK;
}

/* Device, engine, mesh: where the run stands. The device is local business, so ranks agree on it. */
static pt_status_t open_machine(pt_trainer_t *t, pt_wire_t *wire, bool dry)
{
    char device[32], isa[32], direct[32];
    const pt_config_t *c = t->config;
    pt_device_options_t options = {
        .name = dry ? "dry"
                    : pt_config_value(c, PT_OPTION_run_device, device, sizeof device),
        .isa = pt_config_value(c, PT_OPTION_run_isa, isa, sizeof isa),
        .threads = (int)c->run.threads,
        .seed = (uint64_t)c->train.seed + (uint64_t)pt_log_rank(),
    };
    pt_status_t opened = pt_device_open(&options, &t->device);
    if (opened == PT_OK)
        opened = t->device->ops->stream_create(t->device, &t->stream);
    /* Every unit may have its sum and its gather under way at the end of a step. */
    pt_engine_options_t engine = {.device = t->device,
                                  .max_requests = 1024 + 2 * t->table.units};
    engine.gpu_direct =
        pt_config_value(c, PT_OPTION_comm_gpu_direct, direct, sizeof direct);
    PT_TRY(pt_engine_create(wire, &engine, &t->engine));
    pt_comm_t *world = pt_engine_world(t->engine);
    PT_TRY(pt_comm_agree(world, opened, false));
    PT_TRY(check_same_arithmetic(t, world));
    if (!dry)
        pt_train_settle_threads(t);
    pt_mesh_shape_t shape;
    PT_TRY(pt_layout_from_config(c, pt_comm_size(world), &shape));
    return pt_mesh_create(t->engine, &shape, &t->mesh);
}

static void choose_loading(pt_trainer_t *t)
{
    const pt_config_t *c = t->config;
    t->loading = (pt_loader_options_t){
        .global_batch = c->train.global_batch,
        .micro_batch = c->train.micro_batch,
        .sequence = c->train.sequence,
        .replicas = t->mesh.shape.size[PT_AXIS_DATA],
        .replica = t->mesh.coordinate[PT_AXIS_DATA],
        .contexts = t->mesh.shape.size[PT_AXIS_CONTEXT],
        .context = t->mesh.coordinate[PT_AXIS_CONTEXT],
        .engine = t->engine,
    };
}

static void warn_of_padding(const pt_trainer_t *t)
{
    int64_t replicas = t->loading.replicas, all = t->config->train.global_batch;
    int64_t share = (all - 1) / replicas + 1;
    if (t->config->train.micro_batch > share)
        pt_log_root(
            PT_LOG_WARN,
            "train.micro_batch=%lld is more than the %lld sequences of a replica "
            "(train.global_batch=%lld over %lld): the rest is computed for nothing",
            (long long)t->config->train.micro_batch, (long long)share, (long long)all,
            (long long)replicas);
}

static pt_status_t make_schedule(pt_trainer_t *t)
{
    int64_t micro_batches = pt_loader_micro_batches(&t->loading);
    PT_CHECK_COMMON(micro_batches <= PT_MAX_MICRO_BATCHES, PT_CONFIG,
                    "train.global_batch = %lld gives each rank %lld micro-batches a "
                    "step, more than "
                    "%d: raise train.micro_batch or the number of ranks",
                    (long long)t->config->train.global_batch, (long long)micro_batches,
                    PT_MAX_MICRO_BATCHES);
    PT_TRY(pt_schedule_create((pt_schedule_kind_t)t->config->parallel.schedule,
                              &t->table.cut, (int)micro_batches, &t->schedule));
    return pt_schedule_check(&t->schedule, t->mesh.coordinate[PT_AXIS_PIPELINE],
                             &t->facts);
}

static pt_dtype_t narrowed(int choice, pt_dtype_t otherwise)
{
    return choice == PT_NARROW_BF16   ? PT_BF16
           : choice == PT_NARROW_FP32 ? PT_F32
                                      : otherwise;
}

/* Closer to 1, beta2 changes exp_avg_sq by less than half a unit in bf16's last place. */
static void warn_of_moments(const pt_trainer_t *t)
{
    if (t->config->train.moments_dtype == PT_NARROW_BF16 &&
        1 - t->config->train.beta2 < 0x1p-8)
        pt_log_root(PT_LOG_WARN,
                    "train.beta2=%g: updates of exp_avg_sq are too small for bf16 and "
                    "round away; lower it to 0.996, or set train.moments_dtype=fp32",
                    t->config->train.beta2);
}

static pt_status_t make_model(pt_trainer_t *t)
{
    const pt_config_t *c = t->config;
    pt_dtype_t dtype = t->arch.dtype;
    pt_dtype_t grad = narrowed(c->train.grad_dtype, pt_dtype_accumulator(dtype));
    pt_units_options_t units = {
        .zero = c->parallel.zero,
        .overlap = c->parallel.overlap,
        .in_flight = (int)c->comm.in_flight,
        .merge_bytes = c->parallel.unit_mib * (1 << 20),
        .weight_dtype = dtype,
        .grad_dtype = grad,
        .wire_dtype = narrowed(c->parallel.reduce_dtype, grad),
    };
    pt_model_options_t model = {
        .micro_batch = c->train.micro_batch,
        .sequence = c->train.sequence,
        .input_slots = t->schedule.input_slots,
        .weight_slots = t->schedule.weight_slots,
        .fused = t->facts.fused,
        .training = true,
        .seed = (uint64_t)c->train.seed,
        .where = &t->where,
    };
    PT_TRY(pt_config_recompute(c, &model.recompute_every));
    PT_TRY(pt_units_create(&t->table, &t->mesh, t->device, &units, &t->units));
    PT_TRY(pt_model_create(&t->arch, &t->table, t->units, &t->mesh, t->device, &model,
                           &t->model));
    return pt_optim_create(&t->table, t->units, t->device, c, &t->optim);
}

/* Tokens that leave a sample to train on, whatever share of them that is. */
static int64_t enough_tokens(const pt_config_t *config)
{
    double train, validation;
    pt_config_split(config, &train, &validation);
    double samples = fmin(ceil(1 / train) + 1, 0x1p60 / (double)config->train.sequence);
    return (int64_t)samples * config->train.sequence + 1;
}

static pt_status_t open_data(pt_trainer_t *t, bool dry)
{
    const pt_config_t *c = t->config;
    PT_TRY(dry ? pt_corpus_open_dry(c, enough_tokens(c), &t->corpus)
               : pt_corpus_open(c, t->arch.vocab, &t->corpus));
    if (!dry)
        PT_TRY(pt_corpus_hash(t->corpus, &t->data_hash));
    if (!dry)
        PT_TRY(pt_validation_open(c, t->arch.vocab, &t->validation, &t->validations));
    return pt_loader_create(t->corpus, &t->loading, t->device, &t->loader);
}

/* Every rank opened the files itself: on another host, or while they grow, they may be others, and
 * ranks that count samples differently wait for each other for ever. */
static pt_status_t check_same_corpus(pt_trainer_t *t, const char *option,
                                     const pt_corpus_t *corpus, uint64_t hash)
{
    int64_t tokens = pt_corpus_tokens(corpus);
    int64_t documents = pt_corpus_documents(corpus);
    int64_t half = (int64_t)(hash >> 1);
    int64_t most[6] = {tokens, -tokens, documents, -documents, half, -half};
    PT_TRY(pt_comm_max_int64(pt_engine_world(t->engine), most, 6));
    PT_CHECK_COMMON(
        most[4] == -most[5] || most[0] != -most[1], PT_CONFIG,
        "%s: the text or its mask is not the same on all ranks, though as long: name "
        "files that every host sees and nobody writes to",
        option);
    PT_CHECK_COMMON(most[0] == -most[1] && most[2] == -most[3], PT_CONFIG,
                    "%s: not the same corpus on all ranks (%lld to %lld tokens, %lld "
                    "to %lld documents): name files that every host sees and nobody "
                    "writes to",
                    option, (long long)-most[1], (long long)most[0],
                    (long long)-most[3], (long long)most[2]);
    return PT_OK;
}

static pt_status_t check_same_data(pt_trainer_t *t)
{
    PT_TRY(check_same_corpus(t, "data.path", t->corpus, t->data_hash));
    for (int i = 0; i < t->validations; i++)
        PT_TRY(check_same_corpus(t, "data.validation", t->validation[i].corpus,
                                 t->validation[i].hash));
    return PT_OK;
}

/* One snapshot piece: the largest shard a rank stores, in the type of the file. */
static int64_t snapshot_bytes(const pt_trainer_t *t)
{
    int64_t most = 0;
    for (int b = 0; b < pt_units_buckets(t->units); b++) {
        int64_t count = pt_bucket_shard(t->units, b).count;
        most = count > most ? count : most;
    }
    return most * (int64_t)pt_dtype_size(pt_dtype_accumulator(t->arch.dtype));
}

/* Run twice: arenas without memory count, arenas with memory place. */
static pt_status_t layout(pt_trainer_t *t)
{
    pt_arena_t *arena = t->arena;
    PT_TRY(pt_units_layout(t->units, &arena[PT_CLASS_PARAMETERS],
                           &arena[PT_CLASS_GRADIENTS], &arena[PT_CLASS_COMMUNICATION]));
    PT_TRY(pt_model_layout(t->model, &arena[PT_CLASS_ACTIVATIONS],
                           &arena[PT_CLASS_WORKSPACE], &arena[PT_CLASS_GRADIENTS]));
    PT_TRY(pt_optim_layout(t->optim, &arena[PT_CLASS_OPTIMIZER]));
    PT_TRY(
        pt_loader_layout(t->loader, &arena[PT_CLASS_BATCH], &arena[PT_CLASS_STAGING]));
    PT_TRY(pt_engine_layout(t->engine, t->forecast.staging_bytes,
                            &arena[PT_CLASS_STAGING]));
    int64_t words = PT_SUM_WORDS, digest = 1;
    PT_TRY(pt_arena_tensor(&arena[PT_CLASS_WORKSPACE], "norm sum", PT_I64, 1, &words,
                           &t->norm_sum));
    PT_TRY(pt_arena_tensor(&arena[PT_CLASS_WORKSPACE], "digest", PT_I64, 1, &digest,
                           &t->digest_sum));
    PT_TRY(pt_arena_tensor(&arena[PT_CLASS_STAGING], "step sums", PT_I64, 2,
                           (int64_t[]){2, PT_SUM_WORDS}, &t->host_sums));
    for (int m = 0; m < 3; m++)
        PT_TRY(pt_arena_tensor(&arena[PT_CLASS_WORKSPACE], "GEMM probe", t->arch.dtype,
                               2, (int64_t[]){PT_PROBE, PT_PROBE}, &t->probe[m]));
    return pt_arena_take(&arena[PT_CLASS_SNAPSHOT], "snapshot", snapshot_bytes(t),
                         &t->snapshot);
}

static pt_status_t count(pt_trainer_t *t)
{
    for (int c = 0; c < PT_CLASS_COUNT; c++)
        pt_arena_init(&t->arena[c], (pt_memory_class_t)c, class_memory[c]);
    /* A plan saves nothing, so this may be addresses that no limit of a process counts. */
    if (t->device->dry)
        t->arena[PT_CLASS_SNAPSHOT].memory = PT_MEMORY_DEVICE;
    return layout(t);
}

static pt_status_t place(pt_trainer_t *t)
{
    for (int c = 0; c < PT_CLASS_COUNT; c++)
        PT_TRY(pt_device_place_arena(t->device, &t->arena[c]));
    return layout(t);
}

static pt_status_t fill(pt_trainer_t *t)
{
    PT_TRY(pt_units_prepare(t->units, t->stream));
    PT_TRY(pt_model_prepare(t->model, t->stream));
    return pt_optim_reset(t->optim, t->stream);
}

/* Each replica draws its shard, so that many ranks need no longer than one. Collective. */
static pt_status_t draw_weights(pt_trainer_t *t)
{
    for (int b = 0; b < pt_units_buckets(t->units); b++) {
        PT_TRY(pt_model_init_bucket(t->model, b,
                                    pt_optim_state(t->optim, PT_STATE_WEIGHT, b),
                                    (uint64_t)t->config->train.seed, t->stream));
        pt_train_tick(t);
    }
    return pt_train_gather_states(t, PT_STATE_WEIGHT + 1);
}

/* Everything but memory; the caller agrees. */
static pt_status_t make_local(pt_trainer_t *t, pt_trainer_kind_t kind)
{
    PT_TRY(make_schedule(t));
    PT_TRY(make_model(t));
    PT_TRY(open_data(t, kind != PT_TRAINER_RUN));
    if (kind != PT_TRAINER_FORECAST) {
        warn_of_padding(t);
        warn_of_moments(t);
        PT_TRY(pt_train_forecast(t));
    }
    return count(t);
}

static pt_status_t start_scale(pt_trainer_t *t)
{
    double fixed;
    PT_TRY(pt_config_loss_scale(t->config, &fixed));
    t->scale = t->arch.dtype == PT_F16 ? pt_loss_scale_start(fixed)
                                       : (pt_loss_scale_t){.value = 1};
    return PT_OK;
}

static pt_status_t place_local(pt_trainer_t *t)
{
    PT_TRY(place(t));
    return fill(t);
}

static pt_status_t make_table(pt_trainer_t *t)
{
    pt_cut_t cut;
    PT_TRY(
        pt_cut_create((int)t->arch.layers, (int)t->config->parallel.pipeline, 1, &cut));
    return pt_param_table_create(&t->arch, cut, &t->table);
}

pt_status_t pt_trainer_prepare(const pt_config_t *config, pt_wire_t *wire,
                               pt_trainer_kind_t kind, pt_trainer_t *out)
{
    pt_status_t status;
    bool quiet = kind == PT_TRAINER_FORECAST; /* the trainer that asked for it speaks */
    *out = (pt_trainer_t){.config = config, .where = PT_WHERE_INIT, .next_step = -1};
    pt_log_set_where(&out->where);
    PT_TRY_GOTO(fail, pt_arch_from_config(config, &out->arch));
    PT_TRY_GOTO(fail, start_scale(out));
    PT_TRY_GOTO(fail, make_table(out));
    PT_TRY_GOTO(fail, open_machine(out, wire, kind != PT_TRAINER_RUN));
    choose_loading(out);
    status = make_local(out, kind);
    PT_TRY_GOTO(fail, pt_comm_agree(pt_engine_world(out->engine), status, quiet));
    PT_TRY_GOTO(fail, check_same_data(out));
    if (kind == PT_TRAINER_RUN)
        PT_TRY_GOTO(fail, pt_train_look_ahead(out));
    /* After that look: of a model that is another one it matters little whether it fits. */
    PT_TRY_GOTO(fail, pt_comm_agree(pt_engine_world(out->engine),
                                    pt_train_check_memory(out), quiet));
    PT_TRY_GOTO(fail, pt_train_host_map(out, &out->hosts));
    return PT_OK;
fail:
    pt_trainer_destroy(out);
    return status;
}

/* Only now: what one rank takes, another would miss when it looks how much there is. */
pt_status_t pt_trainer_place(pt_trainer_t *t, pt_trainer_kind_t kind)
{
    const pt_config_t *c = t->config;
    pt_status_t status = place_local(t);
    PT_TRY_GOTO(fail, pt_comm_agree(pt_engine_world(t->engine), status,
                                    kind == PT_TRAINER_FORECAST));
    PT_TRY_GOTO(fail, draw_weights(t));
    t->decay_steps = c->train.decay_steps ? c->train.decay_steps : c->train.steps;
    return PT_OK;
fail:
    pt_trainer_destroy(t);
    return status;
}

pt_status_t pt_trainer_create(const pt_config_t *config, pt_wire_t *wire,
                              pt_trainer_kind_t kind, pt_trainer_t *out)
{
    PT_TRY(pt_trainer_prepare(config, wire, kind, out));
    return pt_trainer_place(out, kind);
}

void pt_trainer_destroy(pt_trainer_t *t)
{
    pt_loader_destroy(t->loader);
    pt_validation_close(t->validation, t->validations);
    pt_corpus_close(t->corpus);
    pt_optim_destroy(t->optim);
    pt_model_destroy(t->model);
    pt_units_destroy(t->units);
    pt_schedule_destroy(&t->schedule);
    pt_mesh_destroy(&t->mesh);
    pt_engine_destroy(t->engine);
    if (t->device) {
        for (int c = 0; c < PT_CLASS_COUNT; c++)
            pt_device_free_arena(t->device, &t->arena[c]);
        if (t->stream)
            t->device->ops->stream_destroy(t->device, t->stream);
        pt_device_close(t->device);
    }
    pt_param_table_destroy(&t->table);
    pt_free(t->hosts);
    pt_log_set_where(NULL);
    *t = (pt_trainer_t){0};
}
