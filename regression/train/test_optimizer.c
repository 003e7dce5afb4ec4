/* TEST np=1,2 backend=cpu,shadow timeout=120 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rate, clipping and AdamW against formulas and figures written here anew. */
#include "regression/train/train_test.h"

enum { STEPS = 4 };

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-15 + 1e-14 * fabs(b);
}

/* ---- learning rate ---- */

#define RATES "train.lr=0.008 train.min_lr=0.002 train.warmup=4 train.steps=1000 "

typedef struct figure {
    const char *settings;
    int64_t t;
    double rate;
} figure_t;

/* By hand. Warm-up: t/4 of 8e-3. Cosine over 12 - 4 = 8: 5e-3 + 3e-3 cos(pi k/8), k = t
 * - 4: the middle, a third and the end; linear: 8e-3 - 6e-3 k/8; wsd falls over the
 * last 3. */
static const figure_t figures[] = {
    {"train.decay=cosine", 1, 0.002},
    {"train.decay=cosine", 3, 0.006},
    {"train.decay=cosine", 4, 0.008},
    {"train.decay=cosine", 6, 0.005 + 0.003 * 0.70710678118654752},
    {"train.decay=cosine", 8, 0.005},
    {"train.decay=cosine", 10, 0.005 - 0.003 * 0.70710678118654752},
    {"train.decay=cosine", 12, 0.002},
    {"train.decay=cosine", 100, 0.002},
    {"train.decay=linear", 2, 0.004},
    {"train.decay=linear", 5, 0.00725},
    {"train.decay=linear", 8, 0.005},
    {"train.decay=linear", 12, 0.002},
    {"train.decay=linear", 13, 0.002},
    {"train.decay=constant", 1, 0.002},
    {"train.decay=constant", 5, 0.008},
    {"train.decay=constant", 500, 0.008},
    {"train.decay=wsd train.wsd_decay=3", 9, 0.008},
    {"train.decay=wsd train.wsd_decay=3", 10, 0.006},
    {"train.decay=wsd train.wsd_decay=3", 11, 0.004},
    {"train.decay=wsd train.wsd_decay=3", 12, 0.002},
    {"train.decay=wsd train.wsd_decay=3", 40, 0.002},
    {"train.decay=linear train.warmup=0", 1, 0.0075},
    {"train.decay=linear train.warmup=0", 12, 0.002},
};

static void test_rates(void)
{
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        const figure_t *f = &figures[i];
        pt_config_t *config = tt_config(TT_LLAMA RATES, f->settings);
        double rate = pt_learning_rate(config, 12, f->t);

        tap_ok(near(rate, f->rate), "%s: update %d: %.9g", f->settings, (int)f->t, rate);
        pt_free(config);
    }
}

/* A decay of a tenth when wsd_decay is left out: 100 updates, the last 10 fall. */
static void test_wsd_default(void)
{
    pt_config_t *config = tt_config(TT_LLAMA RATES, "train.decay=wsd");

    tap_ok(near(pt_learning_rate(config, 100, 90), 0.008) &&
               near(pt_learning_rate(config, 100, 95), 0.005) &&
               near(pt_learning_rate(config, 100, 100), 0.002),
           "wsd falls over the last tenth");
    /* Given more steps than the schedule of the first start, and a warm-up as long as
     * these. */
    config->train.warmup = 50;
    tap_ok(near(pt_learning_rate(config, 4, 2), 0.004) &&
               near(pt_learning_rate(config, 4, 4), 0.008) &&
               near(pt_learning_rate(config, 4, 5), 0.002),
           "warm-up ends with the schedule");
    pt_free(config);
}

static void test_clip(void)
{
    tap_ok(near(pt_clip_coefficient(4, 1), 1 / 4.000001), "a norm of 4 clipped to 1");
    tap_ok(near(pt_clip_coefficient(0.5, 1), 1), "a small norm is left alone");
    tap_ok(near(pt_clip_coefficient(100, 0), 1), "clip 0 does not clip");
    tap_ok(near(pt_clip_coefficient(0, 1), 1), "a norm of zero");
}

/* ---- AdamW (Loshchilov, Hutter 2019, algorithm 2), from the gradients of each step ---- */

typedef struct state {
    double *weight, *first, *second;
    int64_t count;
} state_t;

static const double beta1 = 0.8, beta2 = 0.9, eps = 1e-6, decay = 0.3, clip = 0.25;

static bool decays(const pt_param_t *param)
{
    return param->ndim == 2; /* matrices; norms and biases are vectors */
}

static void expect(const pt_trainer_t *t, state_t *s, const double *grad, int step,
                   double rate)
{
    double norm = 0, scale;
    int64_t at = 0;

    for (int64_t i = 0; i < s->count; i++)
        norm += grad[i] * grad[i];
    scale = fmin(1, clip / (sqrt(norm) + 1e-6));
    for (int p = 0; p < t->session.table.count; p++) {
        const pt_param_t *param = &t->session.table.params[p];
        int64_t end = at + param->shape[0] * (param->ndim == 2 ? param->shape[1] : 1);

        for (; at < end; at++) {
            double g = scale * grad[at], w = s->weight[at];

            s->first[at] = beta1 * s->first[at] + (1 - beta1) * g;
            s->second[at] = beta2 * s->second[at] + (1 - beta2) * g * g;
            w -= rate * decay * (decays(param) ? w : 0);
            s->weight[at] =
                w - rate * (s->first[at] / (1 - pow(beta1, step))) /
                        (sqrt(s->second[at] / (1 - pow(beta2, step))) + eps);
        }
    }
}

static void test_adamw(const char *name, const char *model)
{
    pt_config_t *config =
        tt_config(model, "train.precision=fp64 train.beta1=0.8 train.beta2=0.9 "
                         "train.eps=1e-6 train.weight_decay=0.3 train.clip=0.25 "
                         "train.lr=0.01 train.min_lr=0 train.warmup=2 train.steps=4 "
                         "train.decay=linear");
    static const double rate[STEPS] = {0.005, 0.01, 0.005, 0};
    pt_trainer_t t;
    state_t s;
    double worst = 0, shrunk = 0;

    MUST(pt_trainer_create(config, tt.transport, &t));
    s.weight = tt_values(&t, false, &s.count);
    MUST(PT_NEW("moment", s.count, &s.first));
    MUST(PT_NEW("moment", s.count, &s.second));
    for (int step = 0; step < STEPS; step++) {
        pt_step_result_t result;
        double *grad, *weight;

        MUST(pt_train_step(&t, NULL, NULL, &result));
        grad = tt_values(&t, true, &s.count);
        weight = tt_values(&t, false, &s.count);
        expect(&t, &s, grad, step + 1, rate[step]);
        tap_all(near(result.lr, rate[step]) && result.grad_norm > clip,
                "%s: step %d has its rate, and a norm to clip", name, step + 1);
        for (int64_t i = 0; i < s.count; i++)
            worst = fmax(worst, fabs(weight[i] - s.weight[i]));
        shrunk = fmax(shrunk, tt_rms(grad, s.count));
        pt_free(grad);
        pt_free(weight);
    }
    if (tt.rank == 0)
        printf("# %s: largest difference of a weight %.1e\n", name, worst);
    tap_all(worst < 1e-14 && shrunk > 0, "%s: weights as AdamW's formulas give", name);
    pt_trainer_destroy(&t);
    pt_free(s.weight);
    pt_free(s.first);
    pt_free(s.second);
    pt_free(config);
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", 5000);
    test_rates();
    test_wsd_default();
    test_clip();
    test_adamw("llama", TT_LLAMA);
    test_adamw("gpt2", TT_GPT2);
    test_adamw("qwen", TT_QWEN);
    return tt_finish();
}
