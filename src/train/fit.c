/* Does the run fit? Asked when all sizes are known and nothing is placed yet: afterwards the kernel
 * would end a process without a word. */
#include "penta/log.h"
#include "src/train/private.h"

/* Left to MPI, HDF5, BLAS and the page tables. */
static const double kept_for_others = 0.05;

static int64_t add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

typedef struct need {
    int64_t state, moved; /* weights, gradients, moments; their messages and snapshot */
    int64_t micro,
        step; /* what grows with the micro-batch, and with the sequences of a step */
    int64_t all;
} need_t;

static need_t count(const pt_trainer_t *t)
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
        *sums[c] = add(*sums[c], t->arena[c].peak);
    n.all = add(add(n.state, n.moved), add(n.micro, n.step));
    return n;
}

/* What does not fit into this rank's share, and what would. */
static const char *advise(const pt_trainer_t *t, const need_t *n, int64_t share,
                          char *buffer, size_t size)
{
    int64_t model = add(n->state, n->moved), micro_batch = t->config->train.micro_batch;
    int64_t left = share - add(model, n->step);
    int64_t fitting =
        left > 0 && n->micro > 0
            ? (int64_t)((double)micro_batch * (double)left / (double)n->micro)
            : 0;
    int every = 0;
    pt_text_t text = pt_text_init(buffer, size);
    (void)pt_config_recompute(t->config, &every);
    if (model >= share)
        pt_text_add(&text, "the model state alone does not fit: take a smaller model%s",
                    pt_engine_ranks_on_host(t->engine) > 1 ? ", fewer ranks on a host"
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
        pt_text_add(&text, "%s", every == 1 ? "" : ", or try parallel.recompute=full");
    }
    pt_text_add(&text, ", or take a host with more memory");
    return buffer;
}

pt_status_t pt_train_check_memory(const pt_trainer_t *t)
{
    char wanted[32], there[32], state[32], batch[32], advice[256];
    int ranks = pt_engine_ranks_on_host(t->engine);
    int64_t available = pt_host_memory_available();
    need_t n = count(t);
    /* Ranks of a host need about the same: they stand for each other. */
    if (t->device->dry || available == INT64_MAX ||
        (double)times(n.all, ranks) <= (1 - kept_for_others) * (double)available)
        return PT_OK;
    int64_t share = (int64_t)((1 - kept_for_others) * (double)available) / ranks;
    return PT_FAIL(PT_MEMORY,
                   "a rank needs %s of memory (model state %s, activations %s), %d of "
                   "them on this "
                   "host, where %s are available; %s",
                   pt_text_bytes(n.all, wanted, sizeof wanted),
                   pt_text_bytes(n.state, state, sizeof state),
                   pt_text_bytes(n.micro, batch, sizeof batch), ranks,
                   pt_text_bytes(available, there, sizeof there),
                   advise(t, &n, share, advice, sizeof advice));
}
