/* update_body.h — see kernel.h; no include guard. */

/* What all elements of an update share. */
typedef struct FN(adamw_step) {
    A decay, fresh1, beta2, fresh2, eps, rate, root, grad_scale; /* fresh: 1 - beta */
} FN(adamw_step_t);

static void FN(adamw_part)(const pt_op_adamw_t *a, const FN(adamw_step_t) * step,
                           int64_t first, int64_t end)
{
    A *restrict weight = a->weight.data, *restrict mean = a->exp_avg.data;
    A *restrict square = a->exp_avg_sq.data;
    const T *restrict grad = a->grad.data;
    FN(adamw_step_t) s = *step;
    for (int64_t i = first; i < end; i++) {
        A g = s.grad_scale * LOAD(grad[i]);
        A w = weight[i] - s.decay * weight[i];
        A m = mean[i] + s.fresh1 * (g - mean[i]);
        A v = s.beta2 * square[i] + s.fresh2 * (g * g);
        mean[i] = m;
        square[i] = v;
        weight[i] = w - s.rate * m / (FN(pt_sqrt)(v) / s.root + s.eps);
    }
    T *compute = a->compute.data;
    for (int64_t i = first; compute && i < end; i++)
        compute[i] = STORE(weight[i]);
}

static void FN(adamw)(struct pt_stream *stream, const pt_op_adamw_t *a)
{
    enum { CHUNK = 4096 };
    int64_t count = a->weight.shape[0];
    double t = (double)a->t;
    FN(adamw_step_t)
    step = {.decay = (A)(a->lr * a->weight_decay),
            .fresh1 = (A)(1 - a->beta1),
            .beta2 = (A)a->beta2,
            .fresh2 = (A)(1 - a->beta2),
            .eps = (A)a->eps,
            .rate = (A)(a->lr / (1 - pow(a->beta1, t))),
            .root = (A)sqrt(1 - pow(a->beta2, t)),
            .grad_scale = (A)a->grad_scale};
    PT_PARALLEL
    for (int64_t first = 0; first < count; first += CHUNK)
        FN(adamw_part)(a, &step, first, pt_min(first + CHUNK, count));
}
