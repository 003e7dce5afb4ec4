/* TEST np=1,2,4,8 backend=cpu,shadow timeout=300 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The same command twice gives the same bits; stopped after any step and begun again
 * gives what no stop gives: losses, norms, weights, moments, and a metrics file with
 * each step once. */
#include "regression/train/same_run.h"

static void test_repeat(const char *name, const char *model)
{
    char a[32], b[32], other[TT_SETTINGS];
    pt_train_result_t whole, again;

    snprintf(a, sizeof a, "%s_a", name);
    snprintf(b, sizeof b, "%s_b", name);
    whole = go_on(model, a, 0);
    again = go_on(model, b, 0);
    tap_all(same_run(a, b, &whole, &again), "%s: twice the same", name);
    snprintf(other, sizeof other, "%strain.seed=2", model);
    snprintf(b, sizeof b, "%s_seed", name);
    again = go_on(other, b, 0);
    tap_all(!same_run(a, b, &whole, &again) && whole.digest != again.digest,
            "%s: another seed is seen as another run", name);
}

/* Stopped after each step of a run that is as the one in `whole_dir`. */
static void test_every_stop(const char *name, const char *model, const char *whole_dir,
                            const pt_train_result_t *whole)
{
    char b[32];

    snprintf(b, sizeof b, "%s_stops", name);
    for (int stop = 1; stop < STEPS; stop++)
        go_on(model, b, stop);
    pt_train_result_t resumed = go_on(model, b, 0);
    tap_all(same_run(whole_dir, b, whole, &resumed), "%s: stopped after every step",
            name);
}

static void test_stops(const char *name, const char *model)
{
    char a[32], b[32];
    pt_train_result_t whole, resumed;

    snprintf(a, sizeof a, "%s_whole", name);
    whole = go_on(model, a, 0);
    for (int stop = 1; stop < STEPS; stop++) {
        snprintf(b, sizeof b, "%s_stop%d", name, stop);
        go_on(model, b, stop);
        resumed = go_on(model, b, 0);
        tap_all(same_run(a, b, &whole, &resumed), "%s: stopped after step %d", name,
                stop);
    }
    test_every_stop(name, model, a, &whole);
}

/* In 16 bits: twice the same, and stopped after every step. */
static void test_narrow(const char *name, const char *model)
{
    char a[32], b[32];
    pt_train_result_t whole, again;

    snprintf(a, sizeof a, "%s_a", name);
    snprintf(b, sizeof b, "%s_b", name);
    whole = go_on(model, a, 0);
    again = go_on(model, b, 0);
    tap_all(same_run(a, b, &whole, &again), "%s: twice the same", name);
    test_every_stop(name, model, a, &whole);
}

/* A run that is over may be started again: it says the same. */
static void test_over(const char *name, const char *model)
{
    char a[32];
    pt_train_result_t whole, again;

    snprintf(a, sizeof a, "%s_over", name);
    whole = go_on(model, a, 0);
    again = go_on(model, a, 0);
    tap_all(same_run(a, a, &whole, &again), "%s: started again at its end", name);
}

/* Of the checkpoints after steps 2, 4 and 5 the last is gone and the one before cut
 * short: the run goes on from step 2, and forgets what its metrics say of later
 * steps. */
static void test_lost(const char *name, const char *model)
{
    char a[32], b[32], saving[TT_SETTINGS], path[96];
    pt_train_result_t whole, resumed;

    snprintf(a, sizeof a, "%s_whole", name);
    snprintf(b, sizeof b, "%s_lost", name);
    snprintf(saving, sizeof saving, "%scheckpoint.every=2", model);
    whole = go_on(model, a, 0);
    go_on(saving, b, STEPS - 1);
    if (tt.rank == 0) {
        snprintf(path, sizeof path, "%s/checkpoints/step_%08d.h5", b, 5);
        (void)!unlink(path);
        snprintf(path, sizeof path, "%s/checkpoints/step_%08d.h5", b, 4);
        (void)!truncate(path, 50000);
    }
    resumed = go_on(model, b, 0);
    tap_all(same_run(a, b, &whole, &resumed), "%s: newer checkpoints lost", name);
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", 20000);
    test_repeat("llama", TT_LLAMA "train.precision=fp32 ");
    test_repeat("qwen", TT_QWEN "train.precision=fp64 ");
    test_stops("gpt2", TT_GPT2 "train.precision=fp32 train.global_batch=7 ");
    test_over("gpt2", TT_GPT2 "train.precision=fp32 train.global_batch=7 ");
    test_lost("gpt2", TT_GPT2 "train.precision=fp32 train.global_batch=7 ");
    test_narrow("bf16", TT_QWEN "train.precision=bf16 ");
    test_narrow("bf16_12", TT_GPT2 "train.precision=bf16 train.grad_dtype=bf16 "
                                   "train.moments_dtype=bf16 train.global_batch=7 ");
    test_narrow("fp16", TT_LLAMA "train.precision=fp16 parallel.reduce_dtype=bf16 ");
    return tt_finish();
}
