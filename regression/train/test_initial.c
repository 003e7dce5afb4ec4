/* TEST np=1,2,3,4,8 backend=cpu,shadow timeout=120 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The model that a run begins with: the same bits for any number of ranks, each element
 * what the generator draws for (seed, tensor, global element), times the deviation of
 * its kind. */
#include "regression/train/train_test.h"
#include "penta/base/normal.h"

static void test_ranks(const char *name, const char *settings)
{
    pt_config_t *config = tt_config(settings, "");
    tt_record_t alone = tt_train(config, tt.serial, 0);
    tt_record_t together = tt_train(config, tt.transport, 0);
    pt_config_t *merged = tt_config(settings, "parallel.unit_mib=1");
    tt_record_t other = tt_train(merged, tt.transport, 0);
    pt_config_t *seeded = tt_config(settings, "train.seed=7");
    tt_record_t another = tt_train(seeded, tt.transport, 0);

    tap_all(alone.digest == together.digest && alone.digest == other.digest,
            "%s: initial weights of %d ranks and of one", name, tt.size);
    tap_all(alone.digest != another.digest, "%s: another seed is seen", name);
    pt_free(config);
    pt_free(merged);
    pt_free(seeded);
}

/* What stands in rows of a parameter: written here without the table. */
typedef struct expected {
    const char *name;
    pt_role_t role;
    int layer;
    int64_t first_row, rows, cols;
    double std; /* 0: all `constant` */
    double constant;
} expected_t;

#define RESIDUAL (0.02 / 2.449489742783178) /* / sqrt(2 * 3 layers) */

static const expected_t llama[] = {
    {"embedding.token.weight", PT_ROLE_TOKEN_EMBEDDING, -1, 0, 256, 32, 0.02, 0},
    {"layers.1.attention.q.weight", PT_ROLE_QKV, 1, 0, 32, 32, 0.02, 0},
    {"layers.1.attention.k.weight", PT_ROLE_QKV, 1, 32, 16, 32, 0.02, 0},
    {"layers.2.attention.v.weight", PT_ROLE_QKV, 2, 48, 16, 32, 0.02, 0},
    {"layers.0.attention.out.weight", PT_ROLE_ATTENTION_OUT, 0, 0, 32, 32, RESIDUAL, 0},
    {"layers.2.ffn.up.weight", PT_ROLE_FFN_IN, 2, 48, 48, 32, 0.02, 0},
    {"layers.2.ffn.out.weight", PT_ROLE_FFN_OUT, 2, 0, 32, 48, RESIDUAL, 0},
    {"layers.2.ffn.norm.weight", PT_ROLE_FFN_NORM, 2, 0, 1, 32, 0, 1},
    {"head.weight", PT_ROLE_HEAD, -1, 0, 256, 32, 0.02, 0},
};

static bool is_as_drawn(const pt_trainer_t *t, const double *values, const expected_t *e)
{
    uint64_t id = pt_name_id(e->name);
    int64_t at = e->first_row * e->cols;
    bool good = true;

    for (int p = 0; p < t->session.table.count; p++) {
        pt_tensor_t x = pt_units_local_shape(t->session.units, p);

        if (t->session.table.params[p].role == e->role &&
            t->session.table.params[p].layer == e->layer)
            break;
        at += pt_tensor_count(&x);
    }
    for (int64_t i = 0; i < e->rows * e->cols; i++) {
        double drawn = e->std > 0 ? e->std * pt_normal(3, id, i) : e->constant;
        /* The deviation may be rounded otherwise in its last place. */
        good = good && fabs(values[at + i] - drawn) <= 4e-16 * fabs(drawn);
    }
    return good;
}

static void test_elements(void)
{
    pt_config_t *config = tt_config(TT_LLAMA, "train.seed=3 train.precision=fp64");
    pt_trainer_t trainer;
    double *values;
    int64_t count;

    MUST(pt_trainer_create(config, tt.transport, &trainer));
    values = tt_values(&trainer, false, &count);
    for (size_t i = 0; i < sizeof llama / sizeof llama[0]; i++)
        tap_all(is_as_drawn(&trainer, values, &llama[i]), "%s is as drawn",
                llama[i].name);
    pt_free(values);
    pt_trainer_destroy(&trainer);
    pt_free(config);
}

static void fetch(const pt_trainer_t *t, pt_tensor_t x, double *out)
{
    pt_tensor_t host = x;

    host.data = out;
    host.memory = PT_MEMORY_HOST;
    MUST(pt_device_copy(t->session.device, t->session.stream, &host, &x));
    MUST(t->session.device->ops->stream_sync(t->session.device, t->session.stream));
    for (int64_t i = pt_tensor_count(&x) - 1; i >= 0; i--)
        out[i] = pt_float_get(x.dtype, out, i);
}

/* Largest relative difference between what computes and its master; those that fp16
 * holds with fewer bits (below 2^-14) apart. */
static double rounding_error(const pt_trainer_t *t, int param)
{
    pt_tensor_t x = pt_units_weight(t->session.units, param);
    int64_t count = pt_tensor_count(&x);
    double *narrow, *master, worst = 0;

    MUST(PT_NEW("weights", count, &narrow));
    MUST(PT_NEW("masters", count, &master));
    fetch(t, x, narrow);
    fetch(t, tt_tensor(t, param, false), master);
    for (int64_t i = 0; i < count; i++)
        if (fabs(master[i]) >= 0x1p-14)
            worst = fmax(worst, fabs(narrow[i] / master[i] - 1));
    pt_free(narrow);
    pt_free(master);
    return worst;
}

/* Master weights of 16-bit models are those of fp32; what computes is rounded from
 * them. */
static void test_precisions(const char *name, const char *settings)
{
    static const char *const precisions[] = {"train.precision=bf16",
                                             "train.precision=fp16"};
    pt_config_t *single = tt_config(settings, "train.precision=fp32");
    tt_record_t whole = tt_train(single, tt.transport, 0);

    for (int i = 0; i < 2; i++) {
        pt_config_t *config = tt_config(settings, precisions[i]);
        pt_trainer_t t;
        tt_record_t record = {0};
        double worst = 0;

        MUST(pt_trainer_create(config, tt.transport, &t));
        tt_steps(&t, 0, &record);
        tap_all(record.digest == whole.digest, "%s, %s: master weights as in fp32",
                name, precisions[i]);
        for (int p = 0; p < t.session.table.count; p++)
            worst = fmax(worst, rounding_error(&t, p));
        tap_all(worst > 0 && worst <= (i == 0 ? 0x1p-8 : 0x1p-11),
                "%s, %s: rounded by %.1e of themselves at most", name, precisions[i],
                worst);
        pt_trainer_destroy(&t);
        pt_free(config);
    }
    pt_free(single);
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", 5000);
    test_ranks("llama", TT_LLAMA "train.precision=fp32 ");
    test_ranks("gpt2", TT_GPT2 "train.precision=fp64 ");
    test_ranks("qwen", TT_QWEN "train.precision=fp32 ");
    test_precisions("llama", TT_LLAMA);
    test_precisions("gpt2", TT_GPT2);
    test_elements();
    return tt_finish();
}
