/* TEST np=1,2,3 backend=cpu,shadow timeout=300 */
/* SPDX-License-Identifier: Apache-2.0 */
/* R2: every option whose effect is `bits`, at values other than its default, and mixes
 * of them, give the bits of the defaults. R1: so does any numbering of the processes.
 * An option of that effect that this test does not know fails it. */
#include "regression/train/train_test.h"

enum { STEPS = 5, VALUES = 5, MIXES = 12, MIXES_SHADOW = 4 };

#define MODEL                                                                          \
    TT_QWEN "model.dropout=0.1 train.micro_batch=1 train.global_batch=5 "              \
            "train.steps=5 train.decay_steps=5 "                                       \
            "train.precision=fp32 "

/* A value may bring other settings. NP: the number of ranks. */
static const struct {
    const char *key, *value[VALUES];
} walk[] = {
    {"parallel.ranks", {"NP"}},
    {"parallel.order", {"data,pipeline,context,tensor", "context,data,tensor,pipeline"}},
    {"parallel.zero", {"1", "1 parallel.unit_mib=1"}},
    {"parallel.schedule", {"gpipe"}},
    {"parallel.recompute", {"selective", "full", "every:2", "every:3"}},
    {"parallel.unit_mib", {"1", "1048576"}},
    {"parallel.overlap", {"false"}},
    {"train.wsd_decay", {"3"}},
    {"train.steps", {"9 run.stop_step=5", "1000000 run.stop_step=5"}},
    {"data.validation", {"a=corpus.txt", "a=corpus.txt,b=corpus.txt run.eval_every=2"}},
    {"data.validation_mask", {"- data.validation=a=corpus.txt run.eval_every=1"}},
    {"checkpoint.every", {"1", "2"}},
    {"checkpoint.every_time", {"00:01", "10:00:00"}},
    {"checkpoint.keep", {"1 checkpoint.every=1"}},
    {"checkpoint.keep_every", {"2 checkpoint.every=1 checkpoint.keep=1"}},
    {"checkpoint.max_failures", {"0", "1"}},
    {"checkpoint.verify", {"none", "full"}},
    {"run.dir", {"another/run"}},
    {"run.stop_step", {"5"}},
    {"run.time_limit", {"10:00:00"}},
    {"run.hang_timeout", {"0", "1:00:00"}},
    {"run.log_every", {"1", "3"}},
    {"run.eval_every", {"1", "2"}},
    {"run.eval_sequences", {"0", "1", "7 run.eval_every=1"}},
    {"run.replica_check_every", {"1", "2"}},
    {"run.bind", {"false"}},
    {"run.log_level", {"error", "warn", "debug"}},
    {"comm.gpu_direct", {"off"}},
    {"comm.in_flight", {"1", "2", "64"}},
    {"sample.prompt", {"the"}},
    {"sample.tokens", {"3"}},
    {"sample.temperature", {"0"}},
    {"sample.top_k", {"5"}},
    {"sample.top_p", {"0.5"}},
    {"sample.prompt_file", {"prompts"}},
    {"sample.count", {"2"}},
    {"sample.batch", {"3"}},
    {"sample.seed", {"9"}},
};

/* Options with one legal value so far: another must be refused, else they belong
 * above. */
static const struct {
    const char *key, *value;
} single[] = {
    {"parallel.pipeline", "2"},
    {"train.loss_scale", "1024"},
};

enum { WALK = sizeof walk / sizeof walk[0], SINGLE = sizeof single / sizeof single[0] };

static bool is_known(const char *key)
{
    bool known = false;

    for (int i = 0; i < (int)WALK; i++)
        known = known || strcmp(walk[i].key, key) == 0;
    for (int i = 0; i < (int)SINGLE; i++)
        known = known || strcmp(single[i].key, key) == 0;
    return known;
}

static void test_table(void)
{
    pt_config_t *config = tt_config(MODEL, "");
    pt_config_t *plain = tt_config(MODEL, "");

    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        const pt_option_t *row = pt_option((pt_option_id_t)i);
        char key[128];

        snprintf(key, sizeof key, "%s.%s", row->section, row->key);
        if (pt_option_effect((pt_option_id_t)i, config) == PT_EFFECT_BITS &&
            !is_known(key))
            tap_ok(0, "%s has effect bits: give it values in this test", key);
    }
    for (int i = 0; i < (int)SINGLE; i++) {
        pt_status_t status =
            pt_config_set(config, single[i].key, single[i].value, "test");

        if (status == PT_OK)
            status = pt_config_finish(config);
        tap_all(status == PT_CONFIG, "%s=%s is still refused", single[i].key,
                single[i].value);
        pt_error_clear();
        *config = *plain;
    }
    pt_free(config);
    pt_free(plain);
}

typedef struct outcome {
    tt_record_t steps; /* rank 0 */
    pt_train_result_t result;
    bool good;
} outcome_t;

static void launch(const char *settings, outcome_t *out)
{
    static int runs;
    char more[TT_SETTINGS];
    pt_config_t *config;
    pt_status_t status;

    snprintf(more, sizeof more, "run.dir=run%d %s", runs++, settings);
    config = tt_config(MODEL, more);
    status = tt_run(config, tt.transport, &out->result);
    if (status != PT_STOPPED)
        MUST(status);
    out->good = tt.rank != 0 || tt_metrics(config->run.dir, &out->steps);
    out->good = out->good && out->result.step == STEPS;
    pt_free(config);
}

static bool equal(const outcome_t *a, const outcome_t *b)
{
    return a->good && b->good && a->result.digest == b->result.digest &&
           memcmp(&a->result.loss, &b->result.loss, sizeof(double)) == 0 &&
           (tt.rank != 0 || tt_same_steps(&a->steps, &b->steps));
}

static void test_walk(void)
{
    outcome_t base, other;
    char settings[256], ranks[16];

    snprintf(ranks, sizeof ranks, "%d", tt.size);
    launch("", &base);
    tap_all(base.good, "the defaults");
    for (int i = 0; i < (int)WALK; i++)
        for (int v = 0; v < VALUES && walk[i].value[v]; v++) {
            const char *value = walk[i].value[v];

            snprintf(settings, sizeof settings, "%s=%s", walk[i].key,
                     strcmp(value, "NP") == 0 ? ranks : value);
            launch(settings, &other);
            tap_all(equal(&base, &other), "%s", settings);
        }
    if (strcmp(tt.backend, "cpu") == 0) {
        launch("comm.gpu_direct=on", &other);
        tap_all(equal(&base, &other), "comm.gpu_direct=on");
    }
    launch("train.lr=0.010001", &other);
    tap_all(other.good && !equal(&base, &other), "another learning rate is seen");
}

/* Options that change no bit of this configuration, though they do of others. */
#define NARROW                                                                         \
    "train.precision=bf16 train.grad_dtype=bf16 train.decay=constant "                 \
    "data.document_mask=false "

static void test_depends(void)
{
    static const struct {
        const char *setting;
        pt_option_id_t option;
    } cases[] = {{"parallel.reduce_dtype=bf16", PT_OPTION_parallel_reduce_dtype},
                 {"train.min_lr=0.001", PT_OPTION_train_min_lr},
                 {"train.decay_steps=9", PT_OPTION_train_decay_steps},
                 {"data.separator=e", PT_OPTION_data_separator}};
    outcome_t base, other;
    char plain[256], settings[512];

    for (int narrow = 0; narrow < 2; narrow++) {
        snprintf(plain, sizeof plain, "%sparallel.data=%d ", narrow ? NARROW : "",
                 tt.size);
        pt_config_t *config = tt_config(MODEL, plain);

        launch(plain, &base);
        for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
            bool same = narrow || (i == 0 && tt.size == 1); /* one rank sends nothing */
            pt_effect_t effect = pt_option_effect(cases[i].option, config);

            snprintf(settings, sizeof settings, "%s%s", plain, cases[i].setting);
            launch(settings, &other);
            tap_all(other.good && equal(&base, &other) == same &&
                        (effect == PT_EFFECT_BITS) == same,
                    "%s changes %s", settings, same ? "no bit" : "bits");
        }
        pt_free(config);
    }
}

/* Mixes of what the passes and the reduction may choose, drawn anew for each model. */
static void test_mixes(const char *name, const char *model)
{
    static const char *const recompute[] = {"none", "selective", "full", "every:2"};
    static const char *const schedule[] = {"1f1b", "gpipe"};
    pt_config_t *config = tt_config(model, "");
    tt_record_t base = tt_train(config, tt.transport, STEPS), other;
    int mixes = strcmp(tt.backend, "shadow") == 0 ? MIXES_SHADOW : MIXES;
    bool same = true;
    char mix[256];

    pt_free(config);
    for (int i = 0; i < mixes; i++) {
        uint64_t draw = pt_mix64((uint64_t)i + 1);

        snprintf(mix, sizeof mix,
                 "parallel.recompute=%s parallel.schedule=%s parallel.unit_mib=%d "
                 "parallel.overlap=%s comm.in_flight=%d",
                 recompute[draw % 4], schedule[draw >> 8 & 1], (int)(draw >> 16 & 1),
                 draw >> 24 & 1 ? "true" : "false", (int)(draw >> 32 & 3) + 1);
        config = tt_config(model, mix);
        other = tt_train(config, tt.transport, STEPS);
        if (!tt_same(&base, &other))
            tap_note("%s differs: %s", name, mix);
        same = same && tt_same(&base, &other);
        pt_free(config);
    }
    tap_all(same, "%s: %d mixes of recompute, schedule, units, overlap", name, mixes);
}

static void test_placement(const char *model)
{
    pt_config_t *config = tt_config(model, "");
    tt_record_t base = tt_train(config, tt.transport, STEPS), other;
    bool same = true;

    for (int way = 0; way < 2; way++) {
        MPI_Comm comm;
        pt_transport_t *transport;
        int key = way == 0 ? tt.size - tt.rank : (tt.rank + 1) % tt.size;

        MPI_Comm_split(MPI_COMM_WORLD, 0, key, &comm);
        MUST(pt_transport_open_mpi(&comm, &transport));
        other = tt_train(config, transport, STEPS);
        same = same && tt_same(&base, &other);
        pt_transport_close(transport);
        MPI_Comm_free(&comm);
    }
    tap_all(same, "processes numbered backwards and in a ring");
    pt_free(config);
}

/* The device of tests runs the kernels of the CPU behind staging and late events: same
 * bits. */
static void test_devices(const char *model)
{
    pt_config_t *config = tt_config(model, ""),
                *cpu = tt_config(model, "run.device=cpu");
    tt_record_t a = tt_train(config, tt.transport, STEPS),
                b = tt_train(cpu, tt.transport, STEPS);

    tap_all(tt_same(&a, &b), "%s as cpu", tt.backend);
    pt_free(config);
    pt_free(cpu);
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", 20000);
    test_table();
    test_walk();
    test_depends();
    test_mixes("llama", TT_LLAMA "train.micro_batch=1 train.precision=fp64 ");
    test_mixes("gpt2", TT_GPT2 "train.micro_batch=1 train.precision=fp32 ");
    test_mixes("qwen", TT_QWEN "train.micro_batch=2 train.global_batch=7 ");
    test_mixes("bf16", TT_GPT2 "train.micro_batch=1 train.precision=bf16 ");
    test_mixes("bf16 in 12 bytes a parameter",
               TT_QWEN "train.micro_batch=1 train.precision=bf16 train.grad_dtype=bf16 "
                       "train.moments_dtype=bf16 ");
    test_mixes("fp16", TT_LLAMA "train.micro_batch=1 train.precision=fp16 "
                                "parallel.reduce_dtype=bf16 ");
    test_placement(MODEL);
    test_placement(MODEL "train.precision=bf16 parallel.reduce_dtype=bf16 ");
    test_placement(MODEL "train.precision=fp16 ");
    test_devices(MODEL);
    test_devices(MODEL "train.precision=bf16 ");
    test_devices(MODEL "train.precision=fp16 ");
    return tt_finish();
}
