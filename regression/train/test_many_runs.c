/* TEST np=1,2,4 backend=cpu,shadow timeout=180 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Many runs in one process: they do not know of each other, leave no memory behind,
 * free their communicators (MPI has some 2,000), and clean up after failures too. */
#include "regression/train/train_test.h"

enum { TRAINERS = 300, TRAINERS_SHADOW = 40, STEPS = 4 };

static bool equal(const pt_train_result_t *a, const pt_train_result_t *b)
{
    return a->step == b->step && a->digest == b->digest &&
           memcmp(&a->loss, &b->loss, sizeof a->loss) == 0 &&
           memcmp(&a->validation_loss, &b->validation_loss, sizeof(double)) == 0 &&
           memcmp(a->traffic.rows, b->traffic.rows, sizeof a->traffic.rows) == 0 &&
           memcmp(a->peak_bytes, b->peak_bytes, sizeof a->peak_bytes) == 0;
}

static pt_train_result_t run(const char *model, const char *directory)
{
    char more[128];
    pt_train_result_t result;

    snprintf(more, sizeof more, "run.dir=%s checkpoint.every=2", directory);
    pt_config_t *config = tt_config(model, more);
    MUST(tt_run(config, tt.transport, &result));
    pt_free(config);
    return result;
}

static void test_three(void)
{
    int64_t live = pt_alloc_live_bytes();
    pt_train_result_t a = run(TT_LLAMA, "a"), b = run(TT_GPT2, "b");
    pt_train_result_t c = run(TT_LLAMA, "c");

    tap_all(equal(&a, &c) && !equal(&a, &b), "a run after another gives what it gave");
    tap_all(pt_alloc_live_bytes() == live, "runs leave no memory behind");
    tap_all(pt_log_where()->step == -1, "nor say where they were");
}

/* Both alive at once, steps in turn. */
static void test_side_by_side(void)
{
    pt_config_t *config[2] = {tt_config(TT_LLAMA, ""), tt_config(TT_GPT2, "")};
    pt_trainer_t trainer[2];
    tt_record_t alone[2], both[2] = {{.steps = 0}};

    for (int i = 0; i < 2; i++)
        alone[i] = tt_train(config[i], tt.transport, STEPS);
    for (int i = 0; i < 2; i++)
        MUST(pt_trainer_create(config[i], tt.transport, &trainer[i]));
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < 2; i++)
            tt_steps(&trainer[i], 1, &both[i]);
    tap_all(tt_same(&alone[0], &both[0]) && tt_same(&alone[1], &both[1]),
            "two trainers side by side");
    for (int i = 0; i < 2; i++) {
        pt_trainer_destroy(&trainer[i]);
        pt_free(config[i]);
    }
}

static void test_many(void)
{
    int count = strcmp(tt.backend, "shadow") == 0 ? TRAINERS_SHADOW : TRAINERS;
    pt_config_t *config = tt_config(TT_LLAMA, "model.layers=1 train.global_batch=1");
    tt_record_t first = tt_train(config, tt.transport, 1), next;
    int64_t live = pt_alloc_live_bytes();
    bool same = true;

    for (int i = 1; i < count; i++) {
        next = tt_train(config, tt.transport, 1);
        same = same && tt_same(&first, &next);
    }
    tap_all(same, "%d trainers one after the other", count);
    tap_all(pt_alloc_live_bytes() == live, "they leave no memory behind");
    pt_free(config);
}

/* What fails at set-up fails on all ranks, as common knowledge, and leaves nothing
 * behind. */
static void test_failures(void)
{
    static const char *const bad[] = {"data.path=nowhere.txt", "parallel.data=64",
                                      "train.sequence=6000 model.max_positions=6000",
                                      "train.global_batch=1000000 train.micro_batch=1"};
    pt_trainer_t trainer;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pt_config_t *config = tt_config(TT_LLAMA, bad[i]);
        int64_t live = pt_alloc_live_bytes();
        pt_status_t status = pt_trainer_create(config, tt.transport, &trainer);

        tap_all(status == PT_CONFIG && pt_error_last()->scope == PT_SCOPE_COMMON &&
                    !pt_error_is_fatal() && pt_alloc_live_bytes() == live,
                "%s: refused on all ranks", bad[i]);
        pt_error_clear();
        pt_free(config);
    }
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", 5000);
    test_three();
    test_side_by_side();
    test_failures();
    test_many();
    return tt_finish();
}
