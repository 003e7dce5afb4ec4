/* TEST np=1,2 backend=cpu timeout=240 */
/* A model begins with nothing known, loss ln 256, and learns a text that repeats, by heart; and real text
 * in 16 bits as in fp32. */
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

    MUST(pt_trainer_create(config, tt.wire, PT_TRAINER_RUN, &trainer));
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

/* Mean loss of the last 40 of 240 steps. */
static double late_loss(const char *types)
{
    const char *source = getenv("PENTA_SRCDIR");
    char more[4096];
    pt_trainer_t trainer;
    pt_step_result_t step;
    double sum = 0;

    snprintf(more, sizeof more,
             "data.path=%.3000s/LICENSE train.steps=240 train.lr=0.004 train.warmup=20 "
             "train.sequence=32 train.micro_batch=4 %s",
             source ? source : ".", types);
    pt_config_t *config = tt_config(TT_LLAMA, more);
    MUST(pt_trainer_create(config, tt.wire, PT_TRAINER_RUN, &trainer));
    for (int i = 0; i < 240; i++) {
        MUST(pt_train_step(&trainer, NULL, NULL, &step));
        sum += i >= 200 ? step.loss : 0;
    }
    pt_trainer_destroy(&trainer);
    pt_free(config);
    return sum / 40;
}

/* 16 bits learn real text as fp32 does: its loss is not more than a fiftieth above. */
static void test_narrow(void)
{
    static const char *const types[] = {
        "train.precision=bf16", "train.precision=fp16",
        "train.precision=bf16 train.grad_dtype=bf16 train.moments_dtype=bf16",
        "train.precision=bf16 parallel.reduce_dtype=bf16"};
    double single = late_loss("train.precision=fp32");

    tap_all(single < 3, "fp32 learns: loss %.4f", single);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        double narrow = late_loss(types[i]);

        tap_all(narrow < 1.02 * single, "%s: loss %.4f", types[i], narrow);
    }
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    write_repeating("repeat.txt");
    test_learns("llama", TT_LLAMA "train.precision=fp32 ");
    test_learns("gpt2", TT_GPT2 "train.precision=fp32 ");
    test_learns("qwen", TT_QWEN "train.precision=fp64 ");
    test_narrow();
    return tt_finish();
}
