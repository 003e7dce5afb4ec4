/* TEST np=1,2 backend=cpu timeout=120 */
/* A model begins with nothing known, loss ln 256, and learns a text that repeats, by heart. */
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

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    write_repeating("repeat.txt");
    test_learns("llama", TT_LLAMA "train.precision=fp32 ");
    test_learns("gpt2", TT_GPT2 "train.precision=fp32 ");
    test_learns("qwen", TT_QWEN "train.precision=fp64 ");
    return tt_finish();
}
