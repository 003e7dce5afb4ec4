/* TEST np=1,2,3,4,8 backend=cpu,shadow timeout=240 */
/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO stage 1: moments and master weights live in shards, one a replica, and no bit of
 * a run changes: losses, norms, validation, weights and moments are those of stage 0. A
 * run may change its stage, and with it its number of ranks, at any restart. */
#include "regression/train/same_run.h"

static pt_train_result_t run_stage(const char *model, const char *directory, int stop,
                                   int zero)
{
    char settings[TT_SETTINGS];

    snprintf(settings, sizeof settings, "%sparallel.zero=%d ", model, zero);
    return go_on(settings, directory, stop);
}

static int64_t sum_all(int64_t x)
{
    int64_t sum;

    MPI_Allreduce(&x, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* Stage 1 throughout; and another stage after every step. Returns the run of stage
 * 0. */
static void test_bits(const char *name, const char *model)
{
    char a[32], b[32], c[32];

    snprintf(a, sizeof a, "%s_0", name);
    snprintf(b, sizeof b, "%s_1", name);
    snprintf(c, sizeof c, "%s_01", name);
    pt_train_result_t whole = run_stage(model, a, 0, 0);
    pt_train_result_t sharded = run_stage(model, b, 0, 1);
    tap_all(same_run(a, b, &whole, &sharded), "%s: stage 1 gives the bits of stage 0",
            name);
    int64_t all = whole.peak_bytes[PT_CLASS_OPTIMIZER];
    int64_t mine = sharded.peak_bytes[PT_CLASS_OPTIMIZER];
    tap_all(sum_all(mine) == all, "%s: %lld of %lld bytes of moments here", name,
            (long long)mine, (long long)all);
    for (int stop = 1; stop < STEPS; stop++)
        run_stage(model, c, stop, stop % 2);
    sharded = run_stage(model, c, 0, 0);
    tap_all(same_run(a, c, &whole, &sharded), "%s: another stage after every step",
            name);
}

/* On rank 0 alone, while the others wait. */
static pt_train_result_t run_alone(const char *model, const char *directory, int stop,
                                   int zero)
{
    pt_transport_t *all = tt.transport;
    pt_train_result_t result = {.step = 0};

    tt.transport = tt.serial;
    if (tt.rank == 0)
        result = run_stage(model, directory, stop, zero);
    tt.transport = all;
    MPI_Bcast(&result.loss, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast(&result.validation_loss, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return result;
}

static bool is_near(const pt_train_result_t *a, const pt_train_result_t *b)
{
    double loss = fabs(a->loss - b->loss) / b->loss;
    double validation =
        fabs(a->validation_loss - b->validation_loss) / b->validation_loss;

    return loss < 1e-11 && validation < 1e-11;
}

/* From one rank to all and back, with the stage of each: fp64, R3 of the run that never
 * stopped. What is loaded is verified by the digest of the file. */
static void test_ranks(const char *name, const char *model)
{
    char a[32], b[32];

    snprintf(a, sizeof a, "%s_ranks", name);
    pt_train_result_t whole = run_stage(model, a, 0, 0);
    for (int zero = 0; zero < 2; zero++) {
        snprintf(b, sizeof b, "%s_ranks_%d", name, zero);
        run_alone(model, b, 2, 1 - zero);
        run_stage(model, b, 4, zero);
        pt_train_result_t result = run_alone(model, b, 0, 1 - zero);
        tap_all(is_near(&result, &whole), "%s: one rank, %d with stage %d, one rank",
                name, tt.size, zero);
    }
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", 20000);
    test_bits("llama", TT_LLAMA "train.precision=fp32 ");
    test_bits("llama_merged", TT_LLAMA "train.precision=bf16 parallel.unit_mib=1 ");
    test_bits("gpt2", TT_GPT2 "train.precision=fp64 train.global_batch=7 ");
    test_bits("qwen", TT_QWEN "train.precision=bf16 parallel.recompute=full "
                              "train.micro_batch=1 ");
    test_bits("gpt2_12", TT_GPT2 "train.precision=bf16 train.grad_dtype=bf16 "
                                 "train.moments_dtype=bf16 parallel.overlap=false ");
    test_bits("fp16", TT_LLAMA "train.precision=fp16 parallel.reduce_dtype=bf16 ");
    test_ranks("qwen", TT_QWEN "train.precision=fp64 train.global_batch=7 ");
    return tt_finish();
}
