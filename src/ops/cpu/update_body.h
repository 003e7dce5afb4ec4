/* SPDX-License-Identifier: Apache-2.0 */
/* update_body.h — see each_wide.h; no include guard. */

/* Values that all elements of an update share. */
typedef struct FN(adamw_step) {
    A decay, fresh1, beta2, fresh2, eps, rate, root, grad_scale; /* fresh: 1 - beta */
} FN(adamw_step_t);

static void FN(adamw_part)(const FN(adamw_step_t) * step, int64_t count,
                           A *restrict weight, A *restrict mean, A *restrict square,
                           const A *restrict grad)
{
    FN(adamw_step_t) s = *step;
    for (int64_t i = 0; i < count; i++) {
        A g = s.grad_scale * grad[i];
        A w = weight[i] - s.decay * weight[i];
        A m = mean[i] + s.fresh1 * (g - mean[i]);
        A v = s.beta2 * square[i] + s.fresh2 * (g * g);
        mean[i] = m;
        square[i] = v;
        weight[i] = w - s.rate * m / (OF_A(pt_sqrt)(v) / s.root + s.eps);
    }
}

/* Returns elements in type A: in place if x is of type A, else widened into `room`. */
static A *FN(as_wide)(const pt_tensor_t *x, int64_t first, int64_t count, A *room)
{
    if (x->dtype == A_TYPE)
        return (A *)x->data + first;
    WIDEN(x->dtype, PT_ELEMENT(const void, *x, first), room, count);
    return room;
}

static void FN(adamw_chunk)(const pt_op_adamw_t *a, const FN(adamw_step_t) * step,
                            int64_t first, int64_t count)
{
    A rooms[3][PT_CONVERT_CHUNK];
    A *weight = (A *)a->weight.data + first;
    A *mean = FN(as_wide)(&a->exp_avg, first, count, rooms[0]);
    A *square = FN(as_wide)(&a->exp_avg_sq, first, count, rooms[1]);
    FN(adamw_part)
    (step, count, weight, mean, square, FN(as_wide)(&a->grad, first, count, rooms[2]));
    if (mean == rooms[0]) {
        PUT(&a->exp_avg, first, mean, count, false);
        PUT(&a->exp_avg_sq, first, square, count, false);
    }
    if (a->compute.data)
        PUT(&a->compute, first, weight, count, false);
}

static void FN(adamw)(struct pt_stream *stream, const pt_op_adamw_t *a)
{
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
    for (int64_t first = 0; first < count; first += PT_CONVERT_CHUNK)
        FN(adamw_chunk)(a, &step, first, pt_min(PT_CONVERT_CHUNK, count - first));
}
