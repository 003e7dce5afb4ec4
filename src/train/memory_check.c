/* SPDX-License-Identifier: Apache-2.0 */
/* Does the run fit? Asked when all sizes are known and nothing is placed yet:
 * afterwards the kernel would end a process without a word. */
#include "penta/base/log.h"
#include "src/train/private.h"

typedef struct need {
    int64_t state, moved; /* weights, gradients, moments; their messages and snapshot */
    int64_t micro,
        step; /* what grows with the micro-batch, and with the sequences of a step */
    int64_t all;
} need_t;

static need_t memory_count(const pt_trainer_t *t)
{
    need_t n = {0};
    int64_t *const sums[PT_CLASS_COUNT] = {
        [PT_CLASS_PARAMETERS] = &n.state,    [PT_CLASS_GRADIENTS] = &n.state,
        [PT_CLASS_OPTIMIZER] = &n.state,     [PT_CLASS_ACTIVATIONS] = &n.micro,
        [PT_CLASS_WORKSPACE] = &n.micro,     [PT_CLASS_BATCH] = &n.step,
        [PT_CLASS_COMMUNICATION] = &n.moved, [PT_CLASS_STAGING] = &n.step,
        [PT_CLASS_SNAPSHOT] = &n.moved,
    };
    for (int c = 0; c < PT_CLASS_COUNT; c++)
        *sums[c] = pt_bytes_add(*sums[c], t->session.arena[c].peak);
    n.all = pt_bytes_add(pt_bytes_add(n.state, n.moved), pt_bytes_add(n.micro, n.step));
    return n;
}

/* What does not fit into this rank's share, and what would. */
static const char *memory_advise(const pt_trainer_t *t, const need_t *n,
                                 const pt_memory_share_t *share, char *buffer,
                                 size_t size)
{
    int64_t model = pt_bytes_add(n->state, n->moved),
            micro_batch = t->config->train.micro_batch;
    int64_t left = share->bytes - pt_bytes_add(model, n->step);
    int64_t fitting =
        left > 0 && n->micro > 0
            ? (int64_t)((double)micro_batch * (double)left / (double)n->micro)
            : 0;
    pt_text_t text = pt_text_init(buffer, size);
    if (model >= share->bytes)
        pt_text_add(&text, "the model state alone does not fit: take a smaller model%s",
                    pt_engine_ranks_on_host(t->session.engine) > 1
                        ? ", fewer ranks on a host"
                        : "");
    else if (left <= 0)
        pt_text_add(
            &text,
            "the sequences of a step do not fit: lower train.global_batch or start "
            "more ranks on other hosts");
    else {
        pt_text_add(&text, "the activations do not fit: ");
        if (fitting >= 1 && fitting < micro_batch)
            pt_text_add(&text, "about train.micro_batch=%lld would", (long long)fitting);
        else
            pt_text_add(&text, "shorten train.sequence");
        pt_text_add(&text, "%s",
                    t->config->parallel.recompute == 1
                        ? ""
                        : ", or try parallel.recompute=full");
    }
    pt_text_add(&text, ", or %s", share->remedy);
    return buffer;
}

pt_status_t pt_train_check_memory(const pt_trainer_t *t)
{
    char wanted[32], state[32], batch[32], advice[384];
    pt_memory_share_t share;
    need_t n = memory_count(t);
    if (t->session.device->dry ||
        pt_host_memory_fits(n.all, pt_engine_ranks_on_host(t->session.engine),
                            t->session.device->threads, &share))
        return PT_OK;
    return PT_FAIL(PT_MEMORY,
                   "a rank needs %s of memory (model state %s, activations %s), %s; %s",
                   pt_text_bytes(n.all, wanted, sizeof wanted),
                   pt_text_bytes(n.state, state, sizeof state),
                   pt_text_bytes(n.micro, batch, sizeof batch), share.reason,
                   memory_advise(t, &n, &share, advice, sizeof advice));
}
