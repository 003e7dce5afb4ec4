/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "src/train/private.h"

#include <math.h>

static void trainer_choose_loading(pt_trainer_t *t)
{
    const pt_config_t *c = t->config;
    int stage = t->machine.mesh.coordinate[PT_AXIS_PIPELINE];
    int last = t->machine.mesh.shape.size[PT_AXIS_PIPELINE] - 1;
    t->loading = (pt_loader_options_t){
        .global_batch = c->train.global_batch,
        .micro_batch = c->train.micro_batch,
        .sequence = c->train.sequence,
        .replicas = t->machine.mesh.shape.size[PT_AXIS_DATA],
        .replica = t->machine.mesh.coordinate[PT_AXIS_DATA],
        .contexts = t->machine.mesh.shape.size[PT_AXIS_CONTEXT],
        .context = t->machine.mesh.coordinate[PT_AXIS_CONTEXT],
        .no_text = stage > 0 && stage < last,
        .engine = t->machine.engine,
    };
}

static void trainer_warn_of_padding(const pt_trainer_t *t)
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

static pt_status_t trainer_count_micro_batches(const pt_trainer_t *t, int64_t *out)
{
    *out = pt_loader_micro_batches(&t->loading);
    PT_CHECK_COMMON(*out <= PT_MAX_MICRO_BATCHES, PT_CONFIG,
                    "train.global_batch = %lld gives each rank %lld micro-batches a "
                    "step, more than "
                    "%d: raise train.micro_batch or the number of ranks",
                    (long long)t->config->train.global_batch, (long long)*out,
                    PT_MAX_MICRO_BATCHES);
    return PT_OK;
}

static pt_dtype_t trainer_narrowed(int choice, pt_dtype_t otherwise)
{
    return choice == PT_NARROW_BF16   ? PT_BF16
           : choice == PT_NARROW_FP32 ? PT_F32
                                      : otherwise;
}

/* Closer to 1, beta2 changes exp_avg_sq by less than half a unit in bf16's last
 * place. */
static void trainer_warn_of_moments(const pt_trainer_t *t)
{
    if (t->config->train.moments_dtype == PT_NARROW_BF16 &&
        1 - t->config->train.beta2 < 0x1p-8)
        pt_log_root(PT_LOG_WARN,
                    "train.beta2=%g: updates of exp_avg_sq are too small for bf16 and "
                    "round away; lower it to 0.996, or set train.moments_dtype=fp32",
                    t->config->train.beta2);
}

/* The least number of tokens whose training share is a sample, for any data.split. */
static int64_t trainer_enough_tokens(const pt_config_t *config)
{
    double samples = fmin(ceil(1 / config->data.split.train) + 1,
                          0x1p60 / (double)config->train.sequence);
    return (int64_t)samples * config->train.sequence + 1;
}

static pt_status_t trainer_open_data(pt_trainer_t *t)
{
    const pt_config_t *c = t->config;
    bool dry = t->machine.device->dry;
    bool check = pt_engine_rank_on_host(t->machine.engine) == 0;
    PT_TRY(dry ? pt_corpus_open_dry(c, trainer_enough_tokens(c), &t->corpus)
               : pt_corpus_open(c, t->session.arch.vocab, check, &t->corpus));
    if (!dry)
        PT_TRY(pt_corpus_hash(t->corpus, &t->data_hash));
    if (!dry)
        PT_TRY(pt_validation_open(c, t->session.arch.vocab, check, &t->validation,
                                  &t->validations));
    return pt_loader_create(t->corpus, &t->loading, t->session.device, &t->loader);
}

/* Every rank opened the files itself: on another host, or while they grow, they may be
 * others, and ranks that count samples differently wait for each other for ever. */
static pt_status_t trainer_check_same_corpus(pt_trainer_t *t, const char *option,
                                             const pt_corpus_t *corpus, uint64_t hash)
{
    int64_t tokens = pt_corpus_tokens(corpus);
    int64_t documents = pt_corpus_documents(corpus);
    int64_t half = (int64_t)(hash >> 1);
    int64_t most[6] = {tokens, -tokens, documents, -documents, half, -half};
    PT_TRY(pt_comm_max_int64(pt_engine_world(t->session.engine), most, 6));
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

static pt_status_t trainer_check_same_data(pt_trainer_t *t)
{
    PT_TRY(trainer_check_same_corpus(t, "data.path", t->corpus, t->data_hash));
    for (int i = 0; i < t->validations; i++)
        PT_TRY(trainer_check_same_corpus(t, "data.validation", t->validation[i].corpus,
                                         t->validation[i].hash));
    return PT_OK;
}

/* What a step needs beside the session: pt_session_layout_fn. */
static pt_status_t trainer_layout(void *self, pt_arena_t arena[PT_CLASS_COUNT])
{
    pt_trainer_t *t = self;
    int64_t words = PT_SUM_WORDS;
    PT_TRY(
        pt_loader_layout(t->loader, &arena[PT_CLASS_BATCH], &arena[PT_CLASS_STAGING]));
    PT_TRY(pt_engine_layout(t->session.engine, t->plan.staging_bytes,
                            &arena[PT_CLASS_STAGING]));
    PT_TRY(pt_arena_tensor(&arena[PT_CLASS_WORKSPACE], "norm sum", PT_I64, 1, &words,
                           &t->norm_sum));
    PT_TRY(pt_state_layout(&t->state, arena));
    for (int m = 0; m < 3; m++)
        PT_TRY(pt_arena_tensor(&arena[PT_CLASS_WORKSPACE], "GEMM probe",
                               t->session.arch.dtype, 2,
                               (int64_t[]){PT_PROBE, PT_PROBE}, &t->probe[m]));
    return PT_OK;
}

static pt_status_t trainer_make_session(pt_trainer_t *t, const pt_arch_t *arch)
{
    const pt_config_t *c = t->config;
    int64_t micro_batches;
    pt_dtype_t grad =
        trainer_narrowed(c->train.grad_dtype, pt_dtype_accumulator(arch->dtype));
    PT_TRY(trainer_count_micro_batches(t, &micro_batches));
    pt_session_options_t options = {
        .arch = arch,
        .stages = (int)c->parallel.pipeline,
        .micro_batches = (int)micro_batches,
        .schedule = (pt_schedule_kind_t)c->parallel.schedule,
        .units = {.zero = c->parallel.zero,
                  .overlap = c->parallel.overlap,
                  .in_flight = (int)c->comm.in_flight,
                  .merge_bytes = c->parallel.unit_mib * (1 << 20),
                  .grad_dtype = grad,
                  .wire_dtype = trainer_narrowed(c->parallel.reduce_dtype, grad)},
        .model = {.micro_batch = c->train.micro_batch,
                  .sequence = c->train.sequence,
                  .seed = (uint64_t)c->train.seed,
                  .recompute_every = (int)c->parallel.recompute,
                  .where = &t->where},
        .optimizer = c,
        .own = trainer_layout,
        .self = t,
    };
    t->state.session = &t->session;
    return pt_session_create(&t->machine, &options, &t->session);
}

/* Each replica initialises its shard only, so that the time does not grow with the
 * number of ranks. Collective. */
static pt_status_t trainer_initialise_weights(pt_trainer_t *t)
{
    for (int b = 0; b < pt_units_buckets(t->session.units); b++) {
        PT_TRY(pt_model_init_bucket(
            t->session.model, b, pt_optim_state(t->session.optim, PT_STATE_WEIGHT, b),
            (uint64_t)t->config->train.seed, t->session.stream));
        pt_session_tick(&t->session);
    }
    return pt_state_gather(&t->state, PT_STATE_WEIGHT + 1);
}

static void trainer_start_scale(pt_trainer_t *t, pt_dtype_t dtype)
{
    t->scale = dtype == PT_F16 ? pt_loss_scale_start(t->config->train.loss_scale)
                               : (pt_loss_scale_t){.value = 1};
}

static pt_status_t trainer_open_machine(pt_trainer_t *t, pt_transport_t *transport,
                                        const pt_arch_t *arch, bool dry)
{
    pt_machine_options_t options = pt_machine_options(t->config, dry);
    options.units = pt_arch_units(arch);
    options.layout = t->config;
    PT_TRY(pt_machine_open(transport, &options, &t->machine));
    if (!dry)
        pt_train_settle_threads(t);
    return PT_OK;
}

/* Makes the plan, and everything except memory; the caller agrees. */
static pt_status_t trainer_make_local(pt_trainer_t *t, const pt_arch_t *arch)
{
    const pt_comm_t *world = t->machine.mesh.world;

    if (!t->machine.device->dry) {
        PT_TRY(pt_train_plan(t->config, pt_comm_rank(world), pt_comm_size(world),
                             t->machine.device, &t->plan));
        pt_log_set_where(&t->where);
    }
    PT_TRY(trainer_make_session(t, arch));
    PT_TRY(trainer_open_data(t));
    return pt_session_count(&t->session);
}

static pt_status_t trainer_prepare(const pt_config_t *config, pt_transport_t *transport,
                                   bool dry, pt_trainer_t *out)
{
    pt_status_t status;
    pt_arch_t arch;

    *out = (pt_trainer_t){.config = config, .where = PT_WHERE_INIT, .next_step = -1};
    pt_log_set_where(&out->where);
    PT_TRY_GOTO(fail, pt_arch_from_config(config, &arch));
    trainer_start_scale(out, arch.dtype);
    PT_TRY_GOTO(fail, trainer_open_machine(out, transport, &arch, dry));
    trainer_choose_loading(out);
    status = trainer_make_local(out, &arch);
    /* The creator of a dry trainer reports its errors. */
    PT_TRY_GOTO(fail, pt_comm_agree(out->machine.mesh.world, status, dry));
    PT_TRY_GOTO(fail, trainer_check_same_data(out));
    if (!dry)
        PT_TRY_GOTO(fail, pt_train_look_ahead(out));
    /* After that check: whether it fits is of no interest if the checkpoint is of
     * another model. */
    PT_TRY_GOTO(
        fail, pt_comm_agree(out->machine.mesh.world, pt_train_check_memory(out), dry));
    PT_TRY_GOTO(fail, pt_train_host_map(out, &out->hosts));
    return PT_OK;
fail:
    pt_trainer_destroy(out);
    return status;
}

pt_status_t pt_trainer_prepare(const pt_config_t *config, pt_transport_t *transport,
                               pt_trainer_t *out)
{
    return trainer_prepare(config, transport, false, out);
}

/* A separate step, after all ranks have checked free memory: memory that one rank
 * allocates would be missing in the check of another. */
pt_status_t pt_trainer_place(pt_trainer_t *t)
{
    const pt_config_t *c = t->config;
    pt_status_t status = pt_session_place(&t->session);
    PT_TRY_GOTO(fail,
                pt_comm_agree(t->machine.mesh.world, status, t->machine.device->dry));
    PT_TRY_GOTO(fail, trainer_initialise_weights(t));
    t->decay_steps = c->train.decay_steps ? c->train.decay_steps : c->train.steps;
    return PT_OK;
fail:
    pt_trainer_destroy(t);
    return status;
}

pt_status_t pt_trainer_create(const pt_config_t *config, pt_transport_t *transport,
                              pt_trainer_t *out)
{
    PT_TRY(pt_trainer_prepare(config, transport, out));
    return pt_trainer_place(out);
}

pt_status_t pt_trainer_create_dry(const pt_config_t *config, pt_transport_t *transport,
                                  pt_trainer_t *out)
{
    PT_TRY(trainer_prepare(config, transport, true, out));
    trainer_warn_of_padding(out);
    trainer_warn_of_moments(out);
    return pt_trainer_place(out);
}

void pt_trainer_destroy(pt_trainer_t *t)
{
    pt_loader_destroy(t->loader);
    pt_validation_close(t->validation, t->validations);
    pt_corpus_close(t->corpus);
    pt_session_destroy(&t->session);
    pt_machine_close(&t->machine);
    pt_free(t->hosts);
    pt_log_set_where(NULL);
    *t = (pt_trainer_t){0};
}
