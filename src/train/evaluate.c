/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/clock.h"
#include "penta/base/fault.h"
#include "penta/base/log.h"
#include "src/train/private.h"

#include <math.h>

/* Seconds of evaluation between two agreements on whether to stop. */
static const double agree_every_sec = 3;

typedef struct evaluation {
    const pt_corpus_t *corpus;
    int64_t sequences, rounds, valid;
    int64_t agree_rounds; /* rounds between agreements, the same on all ranks */
    pt_want_stop_fn want_stop;
    void *self; /* of want_stop */
} evaluation_t;

static pt_status_t run_round(pt_trainer_t *t, evaluation_t *e, int64_t round)
{
    int64_t first =
        (round * t->loading.replicas + t->loading.replica) * t->loading.micro_batch;
    int64_t valid = 0;
    pt_train_tick(t);
    (void)pt_fault("train.evaluate");
    PT_CHECK(pt_stop_requested() < 2, PT_ABORTED, "interrupted twice");
    PT_TRY(pt_loader_load_validation(t->loader, e->corpus, first, e->sequences,
                                     t->stream, &valid));
    pt_batch_view_t batch = pt_loader_view(t->loader, 0);
    e->valid += pt_train_counted(t, valid);
    PT_TRY(pt_model_evaluate(t->model, &batch, t->stream));
    return pt_comm_wait_stream(t->engine, t->stream);
}

/* Rounds that take about agree_every_sec, from the ranks' mean time of one since the last time. */
static pt_status_t agree(pt_trainer_t *t, evaluation_t *e, double round_sec,
                         pt_status_t mine, bool *stopped)
{
    int64_t values[2] = {e->want_stop && e->want_stop(e->self),
                         (int64_t)(round_sec * 1e6)};
    PT_TRY(pt_comm_exchange(t->mesh.world, NULL, 0, values, 2, mine));
    double mean = (double)values[1] * 1e-6 / pt_comm_size(t->mesh.world);
    /* Twice as many at most: the last ones may have been quicker than those to come. */
    double rounds = mean > 0 ? ceil(agree_every_sec / mean) : 1;
    e->agree_rounds = (int64_t)fmin(rounds, 2.0 * (double)e->agree_rounds);
    *stopped = values[0] > 0;
    return PT_OK;
}

static pt_status_t run_rounds(pt_trainer_t *t, evaluation_t *e, bool *stopped)
{
    pt_status_t status = PT_OK;
    int64_t next_agreement = e->agree_rounds;
    double start = pt_clock_sec();
    for (int64_t round = 0; round < e->rounds && !*stopped; round++) {
        if (status == PT_OK)
            status = run_round(t, e, round);
        if (round + 1 == next_agreement && round + 1 < e->rounds) {
            double round_sec = (pt_clock_sec() - start) / (double)e->agree_rounds;
            PT_TRY(agree(t, e, round_sec, status, stopped));
            next_agreement += e->agree_rounds;
            start = pt_clock_sec();
        }
    }
    return status;
}

static const pt_corpus_t *corpus_of(const pt_trainer_t *t, int which)
{
    return which == 0 ? t->corpus : t->validation[which - 1].corpus;
}

bool pt_train_can_evaluate(const pt_trainer_t *t, int which)
{
    return pt_corpus_samples(corpus_of(t, which), PT_SPLIT_VALIDATION) > 0;
}

pt_status_t pt_train_evaluate(pt_trainer_t *t, int which, pt_want_stop_fn want_stop,
                              void *self, double *loss, bool *stopped)
{
    evaluation_t e = {.want_stop = want_stop, .self = self, .agree_rounds = 1};
    pt_sum_t sum = {.nan = 0};
    int64_t wanted = t->config->run.eval_sequences;
    int64_t per_round = t->loading.micro_batch * t->loading.replicas;
    PT_REQUIRE(which >= 0 && which <= t->validations);
    e.corpus = corpus_of(t, which);
    e.sequences = pt_corpus_samples(e.corpus, PT_SPLIT_VALIDATION);
    *stopped = false;
    *loss = NAN;
    if (wanted > 0 && wanted < e.sequences)
        e.sequences = wanted;
    e.rounds = (e.sequences + per_round - 1) / per_round;
    if (e.rounds == 0)
        return PT_OK;
    t->where.phase = PT_PHASE_EVALUATE;
    /* Many small corpora take long, too, and none of them enough rounds to ask. */
    if (which > 0)
        PT_TRY(agree(t, &e, 0, PT_OK, stopped));
    if (*stopped)
        return PT_OK;
    pt_status_t status = pt_model_clear_loss(t->model, t->stream);
    if (status == PT_OK)
        status = run_rounds(t, &e, stopped);
    if (status == PT_OK)
        status = pt_train_fetch(t, (pt_tensor_t[]){pt_model_loss_accumulator(t->model)},
                                1, &sum);
    PT_TRY(pt_comm_exchange(t->mesh.world, &sum, 1, &e.valid, 1, status));
    if (e.valid == 0 || *stopped)
        return PT_OK;
    *loss = pt_sum_value(&sum) / (double)e.valid;
    PT_CHECK_COMMON(
        isfinite(*loss), PT_NUMERIC,
        "after step %lld the validation loss%s%s is %g: lower train.lr or lengthen "
        "train.warmup, and start again from an earlier checkpoint",
        (long long)t->step, which == 0 ? "" : " of ",
        which == 0 ? "" : t->validation[which - 1].name, *loss);
    return PT_OK;
}
