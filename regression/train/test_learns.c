/* TEST np=1,2 backend=cpu timeout=240 */
/* SPDX-License-Identifier: Apache-2.0 */
/* A model begins with nothing known, loss ln 256, and learns a text that repeats, by
 * heart; and real text in 16 bits as in fp32. */
#include "regression/train/train_test.h"

enum { STEPS = 200 };

static void write_repeating(const char *path)
{
    static const char text[] = "the quick brown fox jumps over the lazy dog; ";
    FILE *file;

    if (tt.rank == 0) {
        file = fopen(path, "w");
        for (int i = 0; file && i < 200; i++)
            fputs(text, file);
        if (file)
            fclose(file);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void test_learns(const char *name, const char *model)
{
    pt_config_t *config = tt_config(
        model, "data.path=repeat.txt data.document_mask=false model.dropout=0 "
               "train.steps=200 train.lr=0.01 train.warmup=20 train.micro_batch=4 "
               "train.weight_decay=0 model.layers=2");
    pt_trainer_t trainer;
    pt_step_result_t step = {0};
    double first, validation;
    bool stopped;

    MUST(pt_trainer_create(config, tt.transport, &trainer));
    MUST(pt_train_step(&trainer, NULL, NULL, &step));
    first = step.loss;
    for (int i = 1; i < STEPS; i++)
        MUST(pt_train_step(&trainer, NULL, NULL, &step));
    MUST(pt_train_evaluate(&trainer, 0, NULL, NULL, &validation, &stopped));
    tap_all(fabs(first - log(256)) < 0.1, "%s: begins at %.3f, near ln 256", name,
            first);
    tap_all(step.loss < 0.1, "%s: ends at %.4f", name, step.loss);
    tap_all(!stopped && validation < 0.1, "%s: validation ends at %.4f", name,
            validation);
    pt_trainer_destroy(&trainer);
    pt_free(config);
}

/* Mean loss of the last 40 of 120 steps. */
static double late_loss(const char *types, int seed)
{
    enum { RUN = 120, LATE = 40 };
    const char *source = getenv("PENTA_SRCDIR");
    char more[4096];
    pt_trainer_t trainer;
    pt_step_result_t step;
    double sum = 0;

    snprintf(more, sizeof more,
             "data.path=%.3000s/LICENSE train.steps=%d train.lr=0.001 train.warmup=20 "
             "train.sequence=32 train.micro_batch=4 train.seed=%d %s",
             source ? source : ".", RUN, seed, types);
    pt_config_t *config = tt_config(TT_LLAMA, more);
    MUST(pt_trainer_create(config, tt.transport, &trainer));
    for (int i = 0; i < RUN; i++) {
        MUST(pt_train_step(&trainer, NULL, NULL, &step));
        sum += i >= RUN - LATE ? step.loss : 0;
    }
    pt_trainer_destroy(&trainer);
    pt_free(config);
    return sum / LATE;
}

/* 16 bits learn real text as fp32 does: over the seeds the loss is not more than 0.3 %,
 * 0.01, above. Any rounding puts a run on a path of its own, so one run is no measure.
 * At this rate the difference of one seed from fp32 has a standard deviation of 0.0015,
 * with every type and every kernel of oneDNN, AMX among them; at 0.004 it is 0.02.
 * Without fp32 masters the loss is 0.06 above. */
static void test_narrow(void)
{
    enum { SEEDS = 4 };
    static const char *const types[] = {
        "train.precision=bf16", "train.precision=fp16",
        "train.precision=bf16 train.grad_dtype=bf16 train.moments_dtype=bf16",
        "train.precision=bf16 parallel.reduce_dtype=bf16"};
    double single = 0;

    for (int seed = 1; seed <= SEEDS; seed++)
        single += late_loss("train.precision=fp32", seed) / SEEDS;
    tap_all(single < 3.5, "fp32 learns: mean loss %.4f", single);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        double narrow = 0;

        for (int seed = 1; seed <= SEEDS; seed++)
            narrow += late_loss(types[i], seed) / SEEDS;
        tap_all(narrow < 1.003 * single, "%s: mean loss %.4f", types[i], narrow);
    }
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    write_repeating("repeat.txt");
    test_learns("llama", TT_LLAMA "train.precision=fp32 ");
    test_learns("gpt2", TT_GPT2 "train.precision=fp32 ");
    test_learns("qwen", TT_QWEN "train.precision=fp64 ");
    if (tt.size > 1) /* what one rank does two do as well */
        test_narrow();
    return tt_finish();
}
