/* Does the run fit? Asked when all sizes are known and nothing is placed yet: afterwards the kernel
 * would end a process without a word. */
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
    int64_t state; /* weights, gradients, moments */
    int64_t batch; /* what grows with the micro-batch */
    int64_t rest;
    int64_t all;
} need_t;

static need_t count(const pt_trainer_t *t)
{
    need_t n = {0};
    for (int c = 0; c < PT_CLASS_COUNT; c++) {
        int64_t bytes = t->arena[c].peak;
        if (c == PT_CLASS_PARAMETERS || c == PT_CLASS_GRADIENTS ||
            c == PT_CLASS_OPTIMIZER)
            n.state = add(n.state, bytes);
        else if (c == PT_CLASS_ACTIVATIONS || c == PT_CLASS_WORKSPACE ||
                 c == PT_CLASS_BATCH)
            n.batch = add(n.batch, bytes);
        else
            n.rest = add(n.rest, bytes);
    }
    n.all = add(add(n.state, n.batch), n.rest);
    return n;
}

/* What the user can change, biggest effect first. */
static const char *advise(const pt_trainer_t *t, const need_t *n, int64_t share,
                          char *buffer, size_t size)
{
    int64_t fixed = add(n->state, n->rest), micro_batch = t->config->train.micro_batch;
    int64_t fitting = n->batch > 0 && fixed < share
                          ? (int64_t)((double)micro_batch * (double)(share - fixed) /
                                      (double)n->batch)
                          : 0;
    int every = 0;
    pt_text_t text = pt_text_init(buffer, size);
    (void)pt_config_recompute(t->config, &every);
    if (fixed >= share)
        pt_text_add(&text, "the model state alone does not fit: take a smaller model%s",
                    pt_engine_ranks_on_host(t->engine) > 1 ? ", fewer ranks on a host"
                                                           : "");
    else if (fitting >= 1 && fitting < micro_batch)
        pt_text_add(
            &text, "the activations do not fit: about train.micro_batch=%lld would%s",
            (long long)fitting, every == 1 ? "" : ", or try parallel.recompute=full");
    else
        pt_text_add(&text, "the activations do not fit: shorten train.sequence%s",
                    every == 1 ? "" : ", or try parallel.recompute=full");
    pt_text_add(&text, ", or a host with more memory");
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
                   pt_text_bytes(n.batch, batch, sizeof batch), ranks,
                   pt_text_bytes(available, there, sizeof there),
                   advise(t, &n, share, advice, sizeof advice));
}
