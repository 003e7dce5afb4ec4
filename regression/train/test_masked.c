/* TEST np=1,2,3,4 backend=cpu,shadow timeout=180 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Training with data.mask: the loss is the mean over the labels that count, of all
 * ranks; steps in which none counts; any layout; stop and resume. */
#include "regression/train/train_test.h"

enum { BYTES = 2500, STEPS = 6, SEQUENCE = 16 };

#define MODEL TT_LLAMA "train.precision=fp64 train.global_batch=7 "

static uint8_t mask[BYTES];

/* By the text, as an answer's tokens would be: kind 0 and 1 are the opposites, 2
 * nothing, 3 all. */
static void write_mask(const char *path, int kind)
{
    FILE *file = fopen("corpus.txt", "rb");

    for (int64_t i = 0; i < BYTES; i++) {
        int c = fgetc(file);
        mask[i] = kind == 3 || (kind < 2 && (c % 3 == 0) == (kind == 0));
    }
    fclose(file);
    if (tt.rank == 0) {
        file = fopen(path, "wb");
        if (!file || fwrite(mask, 1, BYTES, file) != BYTES || fclose(file) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One step from the initial weights; nothing masked when path is "". */
static pt_step_result_t first_step(const char *path, pt_transport_t *transport)
{
    char more[64];
    pt_trainer_t trainer;
    pt_step_result_t result;

    snprintf(more, sizeof more, "data.mask=%s", path);
    pt_config_t *config = tt_config(MODEL, more);
    MUST(pt_trainer_create(config, transport, &trainer));
    MUST(pt_train_step(&trainer, NULL, NULL, &result));
    pt_trainer_destroy(&trainer);
    pt_free(config);
    return result;
}

/* The labels of a mask and those of its opposite are all labels. */
static void test_sums(void)
{
    pt_step_result_t all = first_step("", tt.transport),
                     same = first_step("3", tt.transport);
    pt_step_result_t one = first_step("0", tt.transport),
                     other = first_step("1", tt.transport);
    double sum =
        one.loss * (double)one.valid_tokens + other.loss * (double)other.valid_tokens;
    double whole = all.loss * (double)all.valid_tokens;

    tap_all(all.valid_tokens == 7 * SEQUENCE && one.valid_tokens > 10 &&
                other.valid_tokens > 10 &&
                one.valid_tokens + other.valid_tokens == all.valid_tokens,
            "%lld labels and %lld others", (long long)one.valid_tokens,
            (long long)other.valid_tokens);
    tap_all(fabs(sum - whole) <= 1e-12 * whole && fabs(one.loss - other.loss) > 1e-6,
            "their losses add up to that of all: %.17g, %.17g", sum, whole);
    tap_all(same.loss == all.loss && same.grad_norm == all.grad_norm,
            "a mask of ones is none");
}

/* N of a step by the mask and the samples' places. */
static void test_count(void)
{
    pt_config_t *config = tt_config(MODEL, "data.mask=0");
    pt_trainer_t trainer;
    pt_step_result_t result;
    bool same = true;

    write_mask("0", 0);
    MUST(pt_trainer_create(config, tt.transport, &trainer));
    for (int step = 0; step < STEPS; step++) {
        int64_t expected = 0;

        MUST(pt_train_step(&trainer, NULL, NULL, &result));
        for (int64_t id = step * 7; id < step * 7 + 7; id++) {
            int64_t first = SEQUENCE * pt_corpus_sample_of(trainer.corpus, id);

            for (int64_t i = 1; i <= SEQUENCE; i++)
                expected += mask[first + i];
        }
        same = same && result.valid_tokens == expected;
    }
    tap_all(same, "N counts the labels of the mask");
    pt_trainer_destroy(&trainer);
    pt_free(config);
}

/* Weights a step in which no label counts leaves: AdamW of a gradient 0, from moments
 * 0. */
static void test_none(void)
{
    pt_config_t *config = tt_config(MODEL, "data.mask=2 train.weight_decay=0.5 "
                                           "train.warmup=0 train.decay=constant");
    pt_trainer_t trainer;
    pt_step_result_t result;
    int64_t count, at = 0, wrong = 0;

    MUST(pt_trainer_create(config, tt.transport, &trainer));
    double *before = tt_values(&trainer, false, &count);
    MUST(pt_train_step(&trainer, NULL, NULL, &result));
    double *after = tt_values(&trainer, false, &count);
    for (int p = 0; p < trainer.session.table.count; p++) {
        const pt_param_t *param = &trainer.session.table.params[p];
        double kept = 1 - 0.01 * 0.5 * param->weight_decay;
        int64_t end = at + param->shape[0] * (param->ndim > 1 ? param->shape[1] : 1);

        for (; at < end; at++)
            wrong += fabs(after[at] - before[at] * kept) > 1e-15;
    }
    tap_all(result.valid_tokens == 0 && result.loss == 0 && result.grad_norm == 0,
            "a step without labels: loss and gradient 0");
    tap_all(wrong == 0 && trainer.t == 1 && trainer.tokens == 0,
            "the weights decay, nothing else");
    pt_free(before);
    pt_free(after);
    pt_trainer_destroy(&trainer);
    pt_free(config);
}

/* Any layout, also with documents and a blend. */
static void test_layouts(const char *more)
{
    pt_config_t *config = tt_config(MODEL, more);
    tt_record_t alone = tt_train(config, tt.serial, STEPS);
    tt_record_t all = tt_train(config, tt.transport, STEPS);
    double apart = 0;

    for (int i = 0; i < STEPS; i++)
        apart = fmax(apart, fabs(all.loss[i] - alone.loss[i]) / alone.loss[i]);
    tap_all(apart <= 1e-11 && alone.steps == STEPS, "%s: losses as on one rank: %g",
            more, apart);
    tap_all(tt.size > 1 || tt_same(&alone, &all), "on one rank: the same bits");
    pt_free(config);
}

static pt_status_t run(const char *more, pt_train_result_t *result)
{
    pt_config_t *config = tt_config(MODEL, more);
    pt_status_t status = tt_run(config, tt.transport, result);

    pt_free(config);
    return status;
}

static void test_resume(void)
{
    pt_train_result_t whole, part, rest;

    MUST(run("run.dir=whole data.mask=0 data.split=0.9,0.1", &whole));
    tap_all(run("run.dir=parts data.mask=0 data.split=0.9,0.1 run.stop_step=2",
                &part) == PT_STOPPED,
            "a run with a mask stops");
    pt_error_clear();
    tap_all(run("run.dir=parts data.split=0.9,0.1", &rest) == PT_CONFIG &&
                strstr(pt_error_last()->text,
                       "data.mask: now empty (default), checkpoint 0"),
            "%s", pt_error_last()->text);
    pt_error_clear();
    tap_all(run("run.dir=parts data.mask=1 data.split=0.9,0.1", &rest) == PT_CONFIG &&
                strstr(pt_error_last()->text, "another data.mask"),
            "%s", pt_error_last()->text);
    pt_error_clear();
    MUST(run("run.dir=parts data.mask=moved data.split=0.9,0.1", &rest));
    tap_all(rest.digest == whole.digest && rest.validation_loss == whole.validation_loss,
            "resumed with the mask at another place it ends with the same bits");
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", BYTES);
    write_mask("1", 1);
    write_mask("2", 2);
    write_mask("3", 3);
    write_mask("0", 0);
    write_mask("moved", 0);
    test_sums();
    test_count();
    test_none();
    test_layouts("data.mask=0");
    test_layouts("data.mask=1 data.document_mask=true data.separator=\\n");
    test_layouts("data.path=corpus.txt,corpus.txt data.mask=0,- data.weights=2,1");
    test_resume();
    return tt_finish();
}
