/* TEST np=1,2,3,4,8 backend=cpu timeout=300 */
/* SPDX-License-Identifier: Apache-2.0 */
/* R3 on the data axis: any number of replicas, any micro-batch, batches that they do
 * not divide, replicas without a valid label, give the losses, gradients and weights of
 * one rank with micro-batches of one sequence. Error of a tensor: max|a-b| /
 * max(max|b|, floor), floor the RMS of the whole gradient, or the learning rate for
 * weights. In 16 bits: the RMS over all tensors and steps of the difference between
 * layouts is at most twice that between 16 bits and fp32. */
#include "regression/train/train_test.h"

enum { STEPS = 5 };

typedef struct run {
    tt_record_t record;
    double *gradient, *weight; /* after the first and the last step */
    int64_t count;
} run_t;

typedef struct bound {
    double loss, gradient, norm, weight;
} bound_t;

static const bound_t bound64 = {1e-11, 1e-11, 1e-11, 1e-10};
static const bound_t bound32 = {1e-5, 1e-5, 1e-5, 1e-5};
static bound_t worst[2];

static void run_free(run_t *run)
{
    pt_free(run->gradient);
    pt_free(run->weight);
}

static run_t train(const pt_config_t *config, pt_transport_t *transport,
                   pt_trainer_t *trainer)
{
    run_t run = {.record = {.steps = 0}};

    MUST(pt_trainer_create(config, transport, trainer));
    tt_steps(trainer, 1, &run.record);
    run.gradient = tt_values(trainer, true, &run.count);
    tt_steps(trainer, STEPS - 1, &run.record);
    run.weight = tt_values(trainer, false, &run.count);
    return run;
}

static double relative(double a, double b)
{
    double apart = fabs(a - b);

    return apart == 0 ? 0 : isnan(apart) ? INFINITY : apart / fabs(b);
}

static bound_t errors(const run_t *a, const run_t *b, const pt_trainer_t *t,
                      int first_only)
{
    bound_t e = {0};

    for (int i = 0; i < STEPS; i++) {
        e.loss = fmax(e.loss, relative(a->record.loss[i], b->record.loss[i]));
        if (i == 0 || !first_only)
            e.norm = fmax(e.norm, relative(a->record.norm[i], b->record.norm[i]));
    }
    e.gradient = tt_error(&t->session.table, a->gradient, b->gradient,
                          tt_rms(b->gradient, b->count));
    e.weight = tt_error(&t->session.table, a->weight, b->weight, t->config->train.lr);
    return e;
}

static void widen(bound_t *worst_of, const bound_t *e)
{
    worst_of->loss = fmax(worst_of->loss, e->loss);
    worst_of->gradient = fmax(worst_of->gradient, e->gradient);
    worst_of->norm = fmax(worst_of->norm, e->norm);
    worst_of->weight = fmax(worst_of->weight, e->weight);
}

static bool within(const bound_t *e, const bound_t *bound)
{
    return e->loss <= bound->loss && e->gradient <= bound->gradient &&
           e->norm <= bound->norm && e->weight <= bound->weight;
}

static const char *const precisions[2] = {
    "train.precision=fp64 train.eps=1e-8 train.lr=0.01 ",
    /* An element of a weight differs by up to lr·dg/eps a step, dg the rounding of its
     * gradient: with 1e-4, between 0.6e-5 and 1.2e-5 by the kernels that OpenBLAS
     * takes, which would be a bound on those. */
    "train.precision=fp32 train.eps=1e-3 train.lr=0.01 ",
};

/* One model and batch: the reference, then every micro-batch on all ranks. */
static void test_batch(const char *name, const char *model, int batch, int fp32)
{
    char base[TT_SETTINGS], more[128];
    pt_config_t *config;
    pt_trainer_t alone, together;
    run_t reference, run;

    snprintf(base, sizeof base, "%s%strain.global_batch=%d ", model, precisions[fp32],
             batch);
    config = tt_config(base, "train.micro_batch=1 run.device=cpu");
    reference = train(config, tt.serial, &alone);
    for (int micro = 1; micro <= 8; micro *= 2) {
        bound_t e;
        bool counted;
        pt_config_t *other;

        snprintf(more, sizeof more, "train.micro_batch=%d", micro);
        other = tt_config(base, more);
        run = train(other, tt.transport, &together);
        e = errors(&run, &reference, &alone, fp32);
        counted = memcmp(run.record.valid, reference.record.valid,
                         sizeof run.record.valid) == 0;
        widen(&worst[fp32], &e);
        if (!within(&e, fp32 ? &bound32 : &bound64))
            tap_note("%s: loss %.1e gradient %.1e norm %.1e weight %.1e", more, e.loss,
                     e.gradient, e.norm, e.weight);
        tap_all(counted && within(&e, fp32 ? &bound32 : &bound64),
                "%s, %s, batch %d, micro-batch %d", name, fp32 ? "fp32" : "fp64", batch,
                micro);
        run_free(&run);
        pt_trainer_destroy(&together);
        pt_free(other);
    }
    run_free(&reference);
    pt_trainer_destroy(&alone);
    pt_free(config);
}

/* Samples of which every other, or the first eight, are nothing but separators, so that
 * no label of theirs counts: replicas, and a whole step, without a valid label. */
static void write_stripes(const char *path)
{
    FILE *file;

    if (tt.rank == 0) {
        file = fopen(path, "w");
        if (!file)
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (int i = 0; i < 16 * 100; i++) {
            int sample = i / 16;
            bool empty = sample < 8 || sample % 2 == 1;
            fputc(empty ? '\n' : (int)('a' + pt_mix64((uint64_t)i) % 5), file);
        }
        fclose(file);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void test_bound(const char *name, const bound_t *e)
{
    bound_t most = {tt_max(e->loss), tt_max(e->gradient), tt_max(e->norm),
                    tt_max(e->weight)};

    if (tt.rank == 0)
        printf(
            "# %s: largest errors: loss %.1e, gradient %.1e, norm %.1e, weight %.1e\n",
            name, most.loss, most.gradient, most.norm, most.weight);
}

/* A batch counted otherwise must be seen. */
static void test_control(void)
{
    pt_config_t *a = tt_config(TT_LLAMA, "train.precision=fp64 train.global_batch=8");
    pt_config_t *b = tt_config(TT_LLAMA, "train.precision=fp64 train.global_batch=7");
    pt_trainer_t first, second;
    run_t x = train(a, tt.serial, &first), y = train(b, tt.serial, &second);
    bound_t e = errors(&y, &x, &first, 0);

    tap_all(e.loss > 1e-4 && e.gradient > 1e-4 && e.norm > 1e-4 && e.weight > 1e-4,
            "a batch short of one sequence is seen");
    run_free(&x);
    run_free(&y);
    pt_trainer_destroy(&first);
    pt_trainer_destroy(&second);
    pt_free(a);
    pt_free(b);
}

/* The loss of the first step when one weight is moved by h. */
static double loss_beside(const pt_config_t *config, int param, int64_t index, double h)
{
    pt_trainer_t t;
    pt_step_result_t step;
    double value;

    MUST(pt_trainer_create(config, tt.transport, &t));
    pt_tensor_t weight = pt_units_weight(t.session.units, param);
    pt_tensor_t flat = pt_tensor_1d(weight.data, weight.dtype, weight.memory,
                                    pt_tensor_count(&weight));
    pt_tensor_t one = pt_tensor_slice(flat, 0, index, 1);
    pt_tensor_t host = pt_tensor_1d(&value, PT_F64, PT_MEMORY_HOST, 1);
    MUST(pt_device_copy(t.session.device, t.session.stream, &host, &one));
    MUST(t.session.device->ops->stream_sync(t.session.device, t.session.stream));
    value += h;
    MUST(pt_device_copy(t.session.device, t.session.stream, &one, &host));
    MUST(t.session.device->ops->stream_sync(t.session.device, t.session.stream));
    MUST(pt_train_step(&t, NULL, NULL, &step));
    pt_trainer_destroy(&t);
    return step.loss;
}

/* The gradient is that of the loss that is reported: the mean over all labels that
 * count. */
static void test_slope(const char *name, const char *model)
{
    pt_config_t *config = tt_config(model, "train.precision=fp64");
    pt_trainer_t t;
    pt_step_result_t step;
    double *gradient, worst = 0;
    int64_t count, at = 0;

    MUST(pt_trainer_create(config, tt.transport, &t));
    MUST(pt_train_step(&t, NULL, NULL, &step));
    gradient = tt_values(&t, true, &count);
    for (int p = 0; p < t.session.table.count; p++) {
        pt_tensor_t x = pt_units_local_shape(t.session.units, p);
        int64_t index = 3 * pt_tensor_count(&x) / 7;
        double slope, h = 1e-5;

        if (p % 5 == 0 || p == t.session.table.count - 1) {
            slope =
                loss_beside(config, p, index, h) - loss_beside(config, p, index, -h);
            worst = fmax(worst, fabs(slope / (2 * h) - gradient[at + index]));
        }
        at += pt_tensor_count(&x);
    }
    worst /= tt_rms(gradient, count);
    tap_all(worst < 1e-5, "%s: slopes of the loss, apart by %.0e", name, worst);
    pt_free(gradient);
    pt_trainer_destroy(&t);
    pt_free(config);
}

/* ---- 16 bits ---- */

/* Weights and gradients after each step, one after the other. */
typedef struct trail {
    double *weight[STEPS], *gradient[STEPS];
    int64_t count;
} trail_t;

static trail_t follow(const pt_config_t *config, pt_transport_t *transport)
{
    trail_t trail = {.count = 0};
    tt_record_t record = {.steps = 0};
    pt_trainer_t t;

    MUST(pt_trainer_create(config, transport, &t));
    for (int i = 0; i < STEPS; i++) {
        tt_steps(&t, 1, &record);
        trail.gradient[i] = tt_values(&t, true, &trail.count);
        trail.weight[i] = tt_values(&t, false, &trail.count);
    }
    pt_trainer_destroy(&t);
    return trail;
}

static void forget(trail_t *trail)
{
    for (int i = 0; i < STEPS; i++) {
        pt_free(trail->gradient[i]);
        pt_free(trail->weight[i]);
    }
}

static double rms_apart(double *const a[STEPS], double *const b[STEPS], int64_t count)
{
    double sum = 0;

    for (int s = 0; s < STEPS; s++)
        for (int64_t i = 0; i < count; i++)
            sum += (a[s][i] - b[s][i]) * (a[s][i] - b[s][i]);
    return isnan(sum) ? INFINITY : sqrt(sum / (double)(STEPS * count));
}

/* One rank with micro-batches of one sequence in 16 bits and in fp32, and all ranks
 * with others. */
static void test_narrow(const char *name, const char *model, const char *types)
{
    char base[TT_SETTINGS], more[128];

    snprintf(base, sizeof base, "%strain.eps=1e-4 train.lr=0.01 train.global_batch=7 ",
             model);
    pt_config_t *single = tt_config(base, "train.micro_batch=1 run.device=cpu");
    trail_t fp32 = follow(single, tt.serial);
    snprintf(base + strlen(base), sizeof base - strlen(base), "%s ", types);
    pt_config_t *config = tt_config(base, "train.micro_batch=1 run.device=cpu");
    trail_t alone = follow(config, tt.serial);
    double weight = rms_apart(alone.weight, fp32.weight, fp32.count);
    double gradient = rms_apart(alone.gradient, fp32.gradient, fp32.count);

    for (int micro = 1; micro <= 4; micro *= 2) {
        snprintf(more, sizeof more, "train.micro_batch=%d", micro);
        pt_config_t *other = tt_config(base, more);
        trail_t together = follow(other, tt.transport);
        double w = rms_apart(together.weight, alone.weight, fp32.count) / weight;
        double g = rms_apart(together.gradient, alone.gradient, fp32.count) / gradient;

        tap_all(weight > 0 && gradient > 0 && w <= 2 && g <= 2,
                "%s, %s, micro-batch %d: of the distance to fp32: weights %.2f, "
                "gradients %.2f",
                name, types, micro, w, g);
        forget(&together);
        pt_free(other);
    }
    forget(&alone);
    forget(&fp32);
    pt_free(config);
    pt_free(single);
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", 20000);
    write_stripes("stripes.txt");
    test_control();
    test_slope("llama", TT_LLAMA "train.global_batch=7 ");
    test_slope("gpt2 with dropout", TT_GPT2 "train.global_batch=7 ");
    test_slope("qwen with documents", TT_QWEN "train.global_batch=7 ");
    for (int fp32 = 0; fp32 < 2; fp32++) {
        for (int batch = 6; batch <= 8; batch++) {
            test_batch("llama", TT_LLAMA, batch, fp32);
            test_batch("gpt2 with dropout", TT_GPT2, batch, fp32);
        }
        test_batch("qwen with documents", TT_QWEN, 7, fp32);
        test_batch("samples without labels",
                   TT_QWEN "data.path=stripes.txt data.shuffle=false ", 8, fp32);
    }
    test_narrow("llama", TT_LLAMA, "train.precision=bf16");
    test_narrow("gpt2 with dropout", TT_GPT2, "train.precision=bf16");
    test_narrow("qwen with documents", TT_QWEN,
                "train.precision=bf16 train.grad_dtype=bf16 train.moments_dtype=bf16");
    test_narrow("llama", TT_LLAMA, "train.precision=bf16 parallel.reduce_dtype=bf16");
    test_narrow("llama", TT_LLAMA, "train.precision=fp16");
    test_narrow("gpt2 with dropout", TT_GPT2, "train.precision=fp16");
    test_bound("fp64", &worst[0]);
    test_bound("fp32", &worst[1]);
    return tt_finish();
}
