/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/clock.h"
#include "penta/base/fault.h"
#include "penta/base/log.h"
#include "src/train/private.h"

#include <math.h>

/* Seconds of evaluation between two checks for a reason to stop. */
static const double look_every_sec = 3;

typedef struct evaluation {
    const pt_corpus_t *corpus;
    int64_t sequences, rounds, valid;
    pt_want_stop_fn want_stop;
    void *self;      /* of want_stop */
    double next_sec; /* time of its next call */
} evaluation_t;

static pt_status_t evaluate_read(pt_trainer_t *t, evaluation_t *e, int64_t round)
{
    int64_t first =
        (round * t->loading.replicas + t->loading.replica) * t->loading.micro_batch;
    int64_t valid = 0;
    pt_session_tick(&t->session);
    (void)pt_fault("train.evaluate");
    PT_CHECK(pt_stop_requested() < 2, PT_ABORTED, "interrupted twice");
    PT_TRY(pt_loader_load_validation(t->loader, e->corpus, first, e->sequences,
                                     t->session.stream, &valid));
    e->valid += pt_train_counted(t, valid);
    return PT_OK;
}

static pt_status_t evaluate_agree(pt_trainer_t *t, evaluation_t *e, pt_status_t mine,
                                  bool *stopped)
{
    int64_t stops = 0;
    if (e->want_stop && pt_clock_sec() >= e->next_sec) {
        stops = e->want_stop(e->self);
        e->next_sec = pt_clock_sec() + look_every_sec;
    }
    PT_TRY(pt_comm_exchange(t->session.mesh->world, NULL, 0, &stops, 1, mine));
    *stopped = stops > 0;
    return PT_OK;
}

static pt_status_t evaluate_forward(pt_trainer_t *t)
{
    pt_batch_view_t batch = pt_loader_view(t->loader, 0);
    PT_TRY(pt_model_evaluate(t->session.model, &batch, t->session.stream));
    return pt_comm_wait_stream(t->session.engine, t->session.stream);
}

/* No rank begins a forward pass, in which others may wait for it, before all have read
 * its input. */
static pt_status_t evaluate_run(pt_trainer_t *t, evaluation_t *e, bool *stopped)
{
    for (int64_t round = 0; round < e->rounds; round++) {
        pt_status_t status = evaluate_read(t, e, round);
        PT_TRY(evaluate_agree(t, e, status, stopped));
        if (*stopped)
            return PT_OK;
        PT_TRY(evaluate_forward(t));
    }
    return PT_OK;
}

static const pt_corpus_t *evaluate_corpus_of(const pt_trainer_t *t, int which)
{
    return which == 0 ? t->corpus : t->validation[which - 1].corpus;
}

bool pt_train_can_evaluate(const pt_trainer_t *t, int which)
{
    return pt_corpus_samples(evaluate_corpus_of(t, which), PT_SPLIT_VALIDATION) > 0;
}

pt_status_t pt_train_evaluate(pt_trainer_t *t, int which, pt_want_stop_fn want_stop,
                              void *self, double *loss, bool *stopped)
{
    /* The step before has just checked; several small corpora in a row must check as
     * well. */
    evaluation_t e = {.want_stop = want_stop,
                      .self = self,
                      .next_sec = which > 0 ? 0 : pt_clock_sec() + look_every_sec};
    pt_sum_t sum = {.nan = 0};
    int64_t wanted = t->config->run.eval_sequences;
    int64_t per_round = t->loading.micro_batch * t->loading.replicas;
    PT_REQUIRE(which >= 0 && which <= t->validations);
    e.corpus = evaluate_corpus_of(t, which);
    e.sequences = pt_corpus_samples(e.corpus, PT_SPLIT_VALIDATION);
    *stopped = false;
    *loss = NAN;
    if (wanted > 0 && wanted < e.sequences)
        e.sequences = wanted;
    e.rounds = (e.sequences + per_round - 1) / per_round;
    if (e.rounds == 0)
        return PT_OK;
    t->where.phase = PT_PHASE_EVALUATE;
    PT_TRY(pt_model_clear_loss(t->session.model, t->session.stream));
    PT_TRY(evaluate_run(t, &e, stopped));
    if (*stopped)
        return PT_OK;
    PT_TRY(pt_session_fetch(
        &t->session, (pt_tensor_t[]){pt_model_loss_accumulator(t->session.model)}, 1,
        &sum));
    PT_TRY(pt_comm_exchange(t->session.mesh->world, &sum, 1, &e.valid, 1, PT_OK));
    if (e.valid == 0)
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
