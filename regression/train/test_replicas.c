/* TEST np=2,3,4 backend=cpu,shadow timeout=120 */
/* SPDX-License-Identifier: Apache-2.0 */
/* A weight or moment that is not the same on all replicas is found, and the replica
 * that differs is named. */
#include "regression/train/train_test.h"

/* What computes, where master weights are apart. */
enum { COMPUTE = PT_STATE_KINDS };

/* Element 17 of a parameter in the middle of the table, of a state or of what
 * computes. */
static pt_tensor_t element(const pt_trainer_t *t, int kind)
{
    int param = t->session.table.count / 2,
        bucket = pt_units_bucket_of(t->session.units, param);
    pt_tensor_t flat = kind == COMPUTE ? pt_bucket_weights(t->session.units, bucket)
                                       : pt_optim_state(t->session.optim,
                                                        (pt_state_kind_t)kind, bucket);

    return pt_tensor_slice(flat, 0, pt_units_offset(t->session.units, param) + 17, 1);
}

/* Changes it on this rank; twice: not at all. */
static void corrupt(pt_trainer_t *t, int kind)
{
    unsigned char bytes[8] = {0};
    pt_tensor_t one = element(t, kind);
    pt_tensor_t host = pt_tensor_1d(bytes, one.dtype, PT_MEMORY_HOST, 1);

    MUST(pt_device_copy(t->session.device, t->session.stream, &host, &one));
    MUST(t->session.device->ops->stream_sync(t->session.device, t->session.stream));
    bytes[0] ^= 1; /* its last place */
    MUST(pt_device_copy(t->session.device, t->session.stream, &one, &host));
    MUST(t->session.device->ops->stream_sync(t->session.device, t->session.stream));
}

static bool names(const char *text, int replica)
{
    char word[32];

    snprintf(word, sizeof word, "%d (", replica);
    return strstr(text, word) != NULL;
}

/* A minority is named; where there is none, as of two, all are. */
static bool is_told(pt_status_t status, int bad, bool minority)
{
    const char *text = pt_error_last()->text;
    bool told = status == PT_INTERNAL && pt_error_last()->scope == PT_SCOPE_COMMON;

    for (int r = 0; r < tt.size; r++)
        told = told && names(text, r) == (!minority || r == bad);
    if (!told)
        tap_note("replica %d: %s", bad, text);
    return told;
}

static void test_replica(const pt_config_t *config, int bad, int kind)
{
    pt_trainer_t trainer;
    tt_record_t record = {0};
    pt_status_t status;
    uint64_t before;

    MUST(pt_trainer_create(config, tt.transport, &trainer));
    tt_steps(&trainer, 2, &record);
    before = record.digest;
    tap_all(pt_state_check_replicas(&trainer.state, trainer.step) == PT_OK,
            "replicas are equal");
    if (tt.rank == bad)
        corrupt(&trainer, kind);
    status = pt_state_check_replicas(&trainer.state, trainer.step);
    tap_all(is_told(status, bad, tt.size > 2), "replica %d of %d is told apart", bad,
            tt.size);
    pt_error_clear();
    if (tt.size == 4) {
        if (tt.rank == (bad + 1) % 4)
            corrupt(&trainer, kind);
        status = pt_state_check_replicas(&trainer.state, trainer.step);
        tap_all(is_told(status, bad, false), "two against two: all are named");
        pt_error_clear();
        if (tt.rank == (bad + 1) % 4)
            corrupt(&trainer, kind);
    }
    /* All wrong in the same way is no difference. */
    if (tt.rank != bad)
        corrupt(&trainer, kind);
    tap_all(pt_state_check_replicas(&trainer.state, trainer.step) == PT_OK,
            "replicas are equal again");
    MUST(pt_state_digest(&trainer.state, &record.digest));
    tap_all((record.digest != before) == (kind == PT_STATE_WEIGHT),
            "the digest sees a change of the weights, and of nothing else");
    pt_trainer_destroy(&trainer);
}

/* As a run: with the check on and nothing wrong it ends well. */
static void test_run(void)
{
    pt_config_t *config =
        tt_config(TT_LLAMA, "run.dir=checked run.replica_check_every=1");
    pt_train_result_t result;

    tap_all(tt_run(config, tt.transport, &result) == PT_OK && result.step == 6,
            "a checked run");
    pt_free(config);
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", 5000);
    pt_config_t *config = tt_config(TT_LLAMA, "train.precision=fp32");
    pt_config_t *bf16 = tt_config(TT_LLAMA, "train.precision=bf16");
    for (int bad = 0; bad < tt.size; bad++)
        test_replica(config, bad, PT_STATE_WEIGHT);
    test_replica(config, 0, PT_STATE_EXP_AVG_SQ);
    for (int kind = 0; kind <= COMPUTE; kind++)
        test_replica(bf16, kind % tt.size, kind);
    pt_free(config);
    pt_free(bf16);
    /* At stage 1 what computes has replicas, and the masters have none. */
    bf16 = tt_config(TT_LLAMA, "train.precision=bf16 parallel.zero=1");
    for (int bad = 0; bad < tt.size; bad++)
        test_replica(bf16, bad, COMPUTE);
    pt_free(bf16);
    test_run();
    return tt_finish();
}
