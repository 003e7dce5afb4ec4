/* TEST np=1,2,3,4 backend=cpu,shadow timeout=180 */
/* SPDX-License-Identifier: Apache-2.0 */
/* train.init_from: the weights of a file, to the bit and on any layout, and everything
 * else as at the first start; by the name of a file or of a run directory; a file of
 * another model is refused. */
#include "regression/train/train_test.h"

#include <hdf5.h>
#include <sys/stat.h>

enum { STEPS = 4 };

#define SOURCE "source/checkpoints/step_00000006.h5"
#define FROM   "train.init_from=" SOURCE " "

static void run(const char *model, const char *more, pt_train_result_t *result)
{
    pt_config_t *config = tt_config(model, more);

    MUST(tt_run(config, tt.transport, result));
    pt_free(config);
}

/* A trainer that begins by train.init_from of `more`. */
static void open_from(const char *model, const char *more, pt_transport_t *transport,
                      pt_trainer_t *trainer, pt_initial_t *initial)
{
    pt_config_t *config = tt_config(model, more);

    MUST(pt_trainer_create(config, transport, trainer));
    MUST(pt_train_init_from(trainer, initial));
}

static void close_from(pt_trainer_t *trainer)
{
    const pt_config_t *config = trainer->config;

    pt_trainer_destroy(trainer);
    pt_free((void *)config);
}

static int64_t count_moments(const pt_trainer_t *t)
{
    int64_t other = 0;

    for (int kind = PT_STATE_EXP_AVG; kind < PT_STATE_KINDS; kind++)
        for (int b = 0; b < pt_units_buckets(t->session.units); b++) {
            pt_tensor_t x = pt_optim_state(t->session.optim, (pt_state_kind_t)kind, b);
            int64_t bytes = pt_tensor_bytes(&x);
            char *raw;

            MUST(pt_alloc("moments", (size_t)bytes, 1, (void **)&raw));
            pt_tensor_t host =
                pt_tensor_1d(raw, x.dtype, PT_MEMORY_HOST, pt_tensor_count(&x));
            MUST(pt_device_copy(t->session.device, t->session.stream, &host, &x));
            MUST(t->session.device->ops->stream_sync(t->session.device,
                                                     t->session.stream));
            for (int64_t i = 0; i < bytes; i++)
                other += raw[i] != 0;
            pt_free(raw);
        }
    return other;
}

static void test_start(const char *model, uint64_t digest)
{
    pt_trainer_t trainer;
    pt_initial_t initial;

    open_from(model, FROM, tt.transport, &trainer, &initial);
    tap_all(initial.digest == digest && initial.step == 6 &&
                strcmp(initial.path, SOURCE) == 0,
            "the weights are those of the file");
    tap_all(trainer.step == 0 && trainer.t == 0 && trainer.tokens == 0 &&
                trainer.decay_steps == 6 && count_moments(&trainer) == 0,
            "all else is as at a first start");
    MUST(pt_state_check_replicas(&trainer.state, trainer.step));
    close_from(&trainer);
}

/* The same weights and data: the same losses, whatever the layout, and a run of its
 * own. */
static void test_layouts(const char *model)
{
    tt_record_t all = {0}, again = {0}, alone = {0}, drawn;
    pt_trainer_t trainer;
    pt_initial_t initial;
    double apart = 0;

    open_from(model, FROM, tt.transport, &trainer, &initial);
    tt_steps(&trainer, STEPS, &all);
    close_from(&trainer);
    open_from(model, FROM, tt.transport, &trainer, &initial);
    tt_steps(&trainer, STEPS, &again);
    close_from(&trainer);
    open_from(model, FROM, tt.serial, &trainer, &initial);
    tt_steps(&trainer, STEPS, &alone);
    pt_config_t *config = tt_config(model, "");
    drawn = tt_train(config, tt.transport, STEPS);
    close_from(&trainer);
    pt_free(config);
    for (int i = 0; i < STEPS; i++)
        apart = fmax(apart, fabs(all.loss[i] - alone.loss[i]) / alone.loss[i]);
    tap_all(tt_same(&all, &again), "twice the same");
    tap_all(apart <= 1e-5 && all.valid[0] == drawn.valid[0],
            "on one rank the same up to rounding: %g", apart);
    tap_all(all.loss[0] < drawn.loss[0] - 0.1,
            "it begins where the other run ended: loss %g, not %g", all.loss[0],
            drawn.loss[0]);
}

/* Without a learning rate the weights stay; the checkpoint has them. */
static void test_run(const char *model, uint64_t digest)
{
    pt_train_result_t result;

    run(model, FROM "run.dir=still train.lr=0 train.min_lr=0 train.steps=3", &result);
    tap_all(result.digest == digest,
            "lr 0: the checkpoint holds the weights of the file");
    run(model, FROM "run.dir=parts train.steps=5", &result);
    uint64_t whole = result.digest;
    run(model, "train.init_from=nowhere run.dir=parts train.steps=5", &result);
    tap_all(result.digest == whole, "a run that resumes does not look for it");
    json_t *summary =
        tt.rank == 0 ? json_load_file("still/summary.json", 0, NULL) : NULL;
    json_t *from = json_object_get(summary, "init_from");
    const char *file = json_string_value(json_object_get(from, "file"));
    tap_all(tt.rank != 0 || (file && strcmp(file, SOURCE) == 0 &&
                             json_integer_value(json_object_get(from, "step")) == 6),
            "summary.json says where the weights are from");
    json_decref(summary);
    summary = tt.rank == 0 ? json_load_file("parts/summary.json", 0, NULL) : NULL;
    tap_all(tt.rank != 0 || (json_is_null(json_object_get(summary, "init_from")) &&
                             json_is_string(json_object_get(summary, "resumed_from"))),
            "… or where it went on from");
    json_decref(summary);
}

/* fp32 is exact in fp64, and back. */
static void test_precision(const char *model, uint64_t digest)
{
    pt_trainer_t trainer;
    pt_initial_t initial;
    uint64_t written;

    open_from(model, FROM "train.precision=fp64", tt.transport, &trainer, &initial);
    tap_all(initial.digest != digest, "in double precision they have another digest");
    MUST(pt_train_save(&trainer, "double.h5", NULL, 0, &written));
    close_from(&trainer);
    open_from(model, "train.init_from=double.h5", tt.transport, &trainer, &initial);
    tap_all(initial.digest == digest, "and back in single precision the first one");
    close_from(&trainer);
    open_from(model, FROM "train.precision=bf16", tt.transport, &trainer, &initial);
    tap_all(initial.digest == digest, "master weights of bf16 are those of the file");
    close_from(&trainer);
}

/* What fp32 does not hold is rounded to the nearest. */
static void test_rounding(const char *model)
{
    pt_config_t *config = tt_config(model, "train.precision=fp64");
    pt_trainer_t exact, rounded;
    pt_initial_t initial;
    uint64_t written;
    int64_t count, wrong = 0, changed = 0;

    MUST(pt_trainer_create(config, tt.transport, &exact));
    tt_record_t record = {0};
    tt_steps(&exact, 2, &record);
    MUST(pt_train_save(&exact, "exact.h5", NULL, 0, &written));
    double *from = tt_values(&exact, false, &count);
    open_from(model, "train.init_from=exact.h5", tt.transport, &rounded, &initial);
    double *to = tt_values(&rounded, false, &count);
    for (int64_t i = 0; i < count; i++) {
        wrong += to[i] != (double)(float)from[i];
        changed += to[i] != from[i];
    }
    tap_all(wrong == 0 && changed > count / 2, "weights of fp64 are rounded to fp32");
    pt_free(from);
    pt_free(to);
    close_from(&rounded);
    close_from(&exact);
}

/* As somebody would strip one to pass it on. */
static void test_weights_only(const char *model)
{
    pt_trainer_t trainer;
    pt_initial_t initial, whole;

    open_from(model, "train.init_from=double.h5", tt.transport, &trainer, &whole);
    close_from(&trainer);
    if (tt.rank == 0) {
        hid_t file = H5Fopen("double.h5", H5F_ACC_RDWR, H5P_DEFAULT);
        if (H5Ldelete(file, "/optimizer", H5P_DEFAULT) < 0 || H5Fclose(file) < 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    open_from(model, "train.init_from=double.h5", tt.transport, &trainer, &initial);
    tap_all(initial.digest == whole.digest, "a file without moments will do");
    close_from(&trainer);
}

static void damage(const char *path)
{
    FILE *file = tt.rank == 0 ? fopen(path, "r+b") : NULL;

    if (file) {
        fseek(file, 0, SEEK_END);
        if (ftruncate(fileno(file), ftell(file) - 1000) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
        fclose(file);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Steps 2, 4, 6 are there. */
static void test_directory(const char *model)
{
    static const char *const names[] = {"source", "source/", "source/checkpoints"};
    pt_trainer_t trainer;
    pt_initial_t initial;

    for (int i = 0; i < 3; i++) {
        char more[64];

        snprintf(more, sizeof more, "train.init_from=%s", names[i]);
        open_from(model, more, tt.transport, &trainer, &initial);
        tap_all(initial.step == 6, "%s: its newest checkpoint", names[i]);
        close_from(&trainer);
    }
    damage(SOURCE);
    open_from(model, "train.init_from=source", tt.transport, &trainer, &initial);
    tap_all(initial.step == 4, "a damaged one is skipped");
    close_from(&trainer);
}

static void fails(const char *model, const char *more, pt_status_t expected,
                  const char *has)
{
    pt_config_t *config = tt_config(model, more);
    int64_t live = pt_alloc_live_bytes();
    pt_train_result_t result;
    pt_status_t status = tt_run(config, tt.transport, &result);

    tap_all(status == expected && pt_error_last()->scope == PT_SCOPE_COMMON &&
                strstr(pt_error_last()->text, has) && pt_alloc_live_bytes() == live,
            "%s: %.300s", more, pt_error_last()->text);
    pt_error_clear();
    pt_free(config);
}

static void test_bad(void)
{
    if (tt.rank == 0 && mkdir("empty", 0777) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
#define BAD "run.dir=bad train.init_from="
    fails(TT_LLAMA, BAD "absent.h5", PT_CONFIG,
          "train.init_from (test): no file or directory absent.h5");
    fails(TT_LLAMA, BAD "empty", PT_CONFIG, "no checkpoint in the directory empty");
    fails(TT_LLAMA, BAD "corpus.txt", PT_DAMAGED, "corpus.txt");
    fails(TT_LLAMA, BAD SOURCE, PT_DAMAGED, SOURCE);
    fails(TT_LLAMA, BAD "double.h5 model.vocab=300", PT_CONFIG,
          "/model/embedding.token.weight is 256x32 there, but 300x32 by model.*");
    fails(TT_LLAMA, BAD "double.h5 model.layers=4", PT_CONFIG, "there is no /model/");
    fails(TT_LLAMA, BAD "double.h5 model.layers=2", PT_CONFIG, "it has /model/");
    fails(TT_GPT2, BAD "double.h5", PT_CONFIG, "another model");
    fails(TT_LLAMA, BAD "double.h5 model.ffn=64", PT_CONFIG, "48x32 there, but 64x32");
    /* Nothing in the shapes would tell. */
    fails(TT_LLAMA, BAD "double.h5 model.heads=2 model.kv_heads=1 model.head_dim=16",
          PT_CONFIG, "model.heads: now 2");
    fails(TT_LLAMA, BAD "double.h5 model.rotary_fraction=0.5", PT_CONFIG,
          "model.rotary_fraction: now 0.5");
}

/* What may differ: a training goes on with longer sequences, say. */
static void test_other(void)
{
    pt_train_result_t result;

    run(TT_LLAMA,
        "run.dir=other train.init_from=double.h5 train.sequence=32 "
        "model.rotary_base=50000 model.dropout=0.1 train.seed=5 train.global_batch=3",
        &result);
    tap_all(result.step == 6, "another rotary base, length, batch, seed and dropout");
}

int main(int argc, char **argv)
{
    pt_train_result_t source;

    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", 3000);
    run(TT_LLAMA, "run.dir=source train.warmup=0 checkpoint.every=2", &source);
    test_start(TT_LLAMA, source.digest);
    test_layouts(TT_LLAMA);
    test_run(TT_LLAMA, source.digest);
    test_precision(TT_LLAMA, source.digest);
    test_rounding(TT_LLAMA);
    test_weights_only(TT_LLAMA);
    test_directory(TT_LLAMA);
    test_bad();
    test_other();
    return tt_finish();
}
