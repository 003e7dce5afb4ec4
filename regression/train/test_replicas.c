/* TEST np=2,3,4 backend=cpu,shadow timeout=120 */
/* A weight that is not the same on all replicas is found, and the replica that differs is named. */
#include "regression/train/train_test.h"

/* Changes element `index` of a parameter on this rank, of its master weights or, where there are none or
 * `compute`, of those that compute; twice: not at all. */
static void corrupt(pt_trainer_t *t, bool compute, int64_t index)
{
    unsigned char bytes[8] = {0};
    int param = t->table.count / 2;
    pt_tensor_t weight =
        compute ? pt_units_weight(t->units, param) : tt_tensor(t, param, false);
    pt_tensor_t flat = pt_tensor_1d(weight.data, weight.dtype, weight.memory,
                                    pt_tensor_count(&weight));
    pt_tensor_t one = pt_tensor_slice(flat, 0, index, 1);
    pt_tensor_t host = pt_tensor_1d(bytes, one.dtype, PT_MEMORY_HOST, 1);

    MUST(pt_device_copy(t->device, t->stream, &host, &one));
    MUST(t->device->ops->stream_sync(t->device, t->stream));
    bytes[0] ^= 1; /* its last place */
    MUST(pt_device_copy(t->device, t->stream, &one, &host));
    MUST(t->device->ops->stream_sync(t->device, t->stream));
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

static void test_replica(const pt_config_t *config, int bad, bool compute)
{
    pt_trainer_t trainer;
    tt_record_t record = {0};
    pt_status_t status;
    uint64_t before;

    MUST(pt_trainer_create(config, tt.wire, PT_TRAINER_RUN, &trainer));
    tt_steps(&trainer, 2, &record);
    before = record.digest;
    tap_all(pt_train_check_replicas(&trainer) == PT_OK, "replicas are equal");
    if (tt.rank == bad)
        corrupt(&trainer, compute, 17);
    status = pt_train_check_replicas(&trainer);
    tap_all(is_told(status, bad, tt.size > 2), "replica %d of %d is told apart", bad,
            tt.size);
    pt_error_clear();
    if (tt.size == 4) {
        if (tt.rank == (bad + 1) % 4)
            corrupt(&trainer, compute, 17);
        status = pt_train_check_replicas(&trainer);
        tap_all(is_told(status, bad, false), "two against two: all are named");
        pt_error_clear();
        if (tt.rank == (bad + 1) % 4)
            corrupt(&trainer, compute, 17);
    }
    /* All wrong in the same way is no difference. */
    if (tt.rank != bad)
        corrupt(&trainer, compute, 17);
    tap_all(pt_train_check_replicas(&trainer) == PT_OK, "replicas are equal again");
    MUST(pt_train_digest(&trainer, &record.digest));
    tap_all((record.digest != before) == !compute,
            "the state digest sees the change of a master weight");
    pt_trainer_destroy(&trainer);
}

/* As a run: with the check on and nothing wrong it ends well. */
static void test_run(void)
{
    pt_config_t *config =
        tt_config(TT_LLAMA, "run.dir=checked run.replica_check_every=1");
    pt_train_result_t result;

    tap_all(tt_run(config, tt.wire, &result) == PT_OK && result.step == 6,
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
        test_replica(config, bad, false);
    test_replica(bf16, tt.size - 1, false);
    test_replica(bf16, 0, true);
    pt_free(config);
    pt_free(bf16);
    test_run();
    return tt_finish();
}
