/* The contract of include/penta/ops/ops.h, checked before any kernel runs. A function reads like
 * the line of the contract: which operand has which type and shape. */
#include "penta/base/sum.h"
#include "src/ops/backend.h"

enum { ANY = -1 };

/* What all operands of a call are checked with. */
typedef struct pt_checker {
    const char *op;
    unsigned dtypes; /* allowed for T */
} pt_checker_t;

static pt_status_t bad(const pt_checker_t *in, const char *operand,
                       const pt_tensor_t *x, const char *problem)
{
    char text[96];
    return PT_FAIL(PT_INTERNAL, "%s: %s is %s, %s", in->op, operand,
                   pt_tensor_text(x, text, sizeof text), problem);
}

/* Type, memory, rank and shape (ANY: free). */
static pt_status_t check(const pt_checker_t *in, const char *operand,
                         const pt_tensor_t *x, pt_dtype_t dtype, int ndim,
                         const int64_t *shape)
{
    char want[96];
    bool fits = x->ndim == ndim;
    pt_tensor_t wanted = {.ndim = ndim, .dtype = dtype};

    if (x->ndim < 1 || x->ndim > PT_MAX_DIMS)
        return PT_FAIL(PT_INTERNAL, "%s: %s is missing", in->op, operand);
    for (int i = 0; i < ndim; i++) {
        wanted.shape[i] = shape[i];
        fits = fits && (shape[i] == ANY || shape[i] == x->shape[i]) && x->shape[i] >= 0;
    }
    if (!fits || x->dtype != dtype)
        return PT_FAIL(PT_INTERNAL, "%s: %s is %s, expected %s (-1: any)", in->op,
                       operand, pt_tensor_text(x, (char[96]){0}, 96),
                       pt_tensor_text(&wanted, want, sizeof want));
    if (x->memory != PT_MEMORY_DEVICE)
        return bad(in, operand, x, "not in device memory");
    if (!x->data && pt_tensor_count(x) > 0)
        return bad(in, operand, x, "without memory");
    if (x->stride[ndim - 1] != 1 && x->shape[ndim - 1] > 1)
        return bad(in, operand, x, "with an inner stride other than 1");
    return PT_OK;
}

static pt_status_t check_dense(const pt_checker_t *in, const char *operand,
                               const pt_tensor_t *x)
{
    return pt_tensor_is_dense(x) ? PT_OK : bad(in, operand, x, "not dense");
}

/* The operand whose type is the T of the call. */
static pt_status_t check_float(const pt_checker_t *in, const char *operand,
                               const pt_tensor_t *x)
{
    if (x->ndim < 1 || x->ndim > PT_MAX_DIMS)
        return PT_FAIL(PT_INTERNAL, "%s: %s is missing", in->op, operand);
    if (!(in->dtypes >> x->dtype & 1))
        return bad(in, operand, x, "a type this op does not take");
    return PT_OK;
}

/* An operand that may be T or A: which of them it is. */
static pt_status_t check_either(const pt_checker_t *in, const char *operand,
                                const pt_tensor_t *x, pt_dtype_t t)
{
    pt_dtype_t a = pt_dtype_accumulator(t);
    char text[96];
    if (x->ndim < 1 || x->ndim > PT_MAX_DIMS)
        return PT_FAIL(PT_INTERNAL, "%s: %s is missing", in->op, operand);
    PT_CHECK(x->dtype == t || x->dtype == a, PT_INTERNAL,
             "%s: %s is %s, expected type %s%s%s", in->op, operand,
             pt_tensor_text(x, text, sizeof text), pt_dtype_name(t),
             a == t ? "" : " or ", a == t ? "" : pt_dtype_name(a));
    return PT_OK;
}

static pt_status_t check_holds(const pt_checker_t *in, bool holds, const char *condition)
{
    PT_CHECK(holds, PT_INTERNAL, "%s: violated: %s", in->op, condition);
    return PT_OK;
}

#define CHECKS(name)                                                                   \
    pt_status_t pt_check_##name(const pt_op_##name##_t *a, unsigned dtypes_)
#define BEGIN(name) const pt_checker_t in_ = {#name, dtypes_}
#define FLOAT(x)    PT_TRY(check_float(&in_, #x, &a->x))
#define SHAPE(x, dtype, ...)                                                           \
    PT_TRY(check(&in_, #x, &a->x, dtype,                                               \
                 (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),            \
                 (const int64_t[]){__VA_ARGS__}))
#define DENSE(x, dtype, ...)                                                           \
    SHAPE(x, dtype, __VA_ARGS__);                                                      \
    PT_TRY(check_dense(&in_, #x, &a->x))
/* The shapes of an operand of type T or A, the type given being T. */
#define SHAPE_OF_SUM(x, dtype_, ...)                                                   \
    PT_TRY(check_either(&in_, #x, &a->x, dtype_));                                     \
    SHAPE(x, a->x.dtype, __VA_ARGS__)
#define DENSE_OF_SUM(x, dtype_, ...)                                                   \
    PT_TRY(check_either(&in_, #x, &a->x, dtype_));                                     \
    DENSE(x, a->x.dtype, __VA_ARGS__)
/* Same shape and type as a checked operand. */
#define LIKE(x, other)                                                                 \
    PT_TRY(check(&in_, #x, &a->x, a->other.dtype, a->other.ndim, a->other.shape))
#define HOLDS(condition) PT_TRY(check_holds(&in_, (condition), #condition))
#define PRESENT(x)       (a->x.data != NULL)

static pt_status_t check_dropout(const char *op, const pt_dropout_t *a, int64_t rows)
{
    const pt_checker_t in_ = {op, 0};
    HOLDS(a->p >= 0 && a->p < 1);
    if (a->p == 0)
        return PT_OK;
    DENSE(sample, PT_I64, rows);
    DENSE(place, PT_I32, rows);
    HOLDS(a->first_col >= 0 && a->layer >= 0 && a->layer < 1 << 24);
    HOLDS(a->site >= 0 && a->site < 256);
    return PT_OK;
}

CHECKS(fill)
{
    BEGIN(fill);
    FLOAT(x);
    LIKE(x, x);
    return PT_OK;
}

CHECKS(cast)
{
    BEGIN(cast);
    FLOAT(x);
    FLOAT(y);
    LIKE(x, x);
    LIKE(y, y);
    PT_TRY(check_dense(&in_, "x", &a->x));
    PT_TRY(check_dense(&in_, "y", &a->y));
    HOLDS(pt_tensor_count(&a->x) == pt_tensor_count(&a->y));
    return PT_OK;
}

CHECKS(add)
{
    BEGIN(add);
    FLOAT(y);
    SHAPE(y, a->y.dtype, ANY, ANY);
    LIKE(a, y);
    LIKE(b, y);
    return PT_OK;
}

CHECKS(gemm)
{
    BEGIN(gemm);
    FLOAT(a);
    pt_dtype_t t = a->a.dtype;
    SHAPE_OF_SUM(c, t, ANY, ANY);
    int64_t rows = a->c.shape[0], cols = a->c.shape[1];
    int64_t depth = a->a.shape[a->trans_a ? 0 : 1];
    SHAPE(a, t, a->trans_a ? depth : rows, a->trans_a ? rows : depth);
    SHAPE(b, t, a->trans_b ? cols : depth, a->trans_b ? depth : cols);
    HOLDS(a->a.shape[0] < 2 || a->a.stride[0] >= a->a.shape[1]);
    HOLDS(a->b.shape[0] < 2 || a->b.stride[0] >= a->b.shape[1]);
    HOLDS(a->c.shape[0] < 2 || a->c.stride[0] >= a->c.shape[1]);
    return PT_OK;
}

CHECKS(embed_fwd)
{
    BEGIN(embed_fwd);
    FLOAT(y);
    SHAPE(y, a->y.dtype, ANY, ANY);
    SHAPE(table, a->y.dtype, ANY, a->y.shape[1]);
    SHAPE(index, PT_I32, a->y.shape[0]);
    return PT_OK;
}

CHECKS(embed_bwd)
{
    BEGIN(embed_bwd);
    FLOAT(dy);
    SHAPE(dy, a->dy.dtype, ANY, ANY);
    SHAPE_OF_SUM(dtable, a->dy.dtype, ANY, a->dy.shape[1]);
    SHAPE(index, PT_I32, a->dy.shape[0]);
    return PT_OK;
}

/* mean and rstd: dense, the shape of x without its last dimension. */
static pt_status_t check_stats(const pt_checker_t *in, const char *name,
                               const pt_tensor_t *stats, const pt_tensor_t *x)
{
    PT_TRY(
        check(in, name, stats, pt_dtype_accumulator(x->dtype), x->ndim - 1, x->shape));
    PT_TRY(check_dense(in, name, stats));
    return PT_OK;
}

static pt_status_t check_norm(const pt_checker_t *in, const pt_tensor_t *x,
                              const pt_tensor_t *mean, const pt_tensor_t *rstd,
                              pt_norm_t kind)
{
    if (x->ndim != 2 && x->ndim != 3)
        return bad(in, "x", x, "neither 2-D nor 3-D");
    PT_TRY(
        check_holds(in, kind == PT_NORM_LAYER || kind == PT_NORM_RMS, "a known kind"));
    if (kind == PT_NORM_LAYER)
        PT_TRY(check_stats(in, "mean", mean, x));
    PT_TRY(check_stats(in, "rstd", rstd, x));
    return PT_OK;
}

CHECKS(norm_fwd)
{
    BEGIN(norm_fwd);
    FLOAT(x);
    LIKE(x, x);
    PT_TRY(check_norm(&in_, &a->x, &a->mean, &a->rstd, a->kind));
    LIKE(y, x);
    DENSE(weight, a->x.dtype, a->x.shape[a->x.ndim - 1]);
    if (PRESENT(bias))
        DENSE(bias, a->x.dtype, a->x.shape[a->x.ndim - 1]);
    HOLDS(a->eps >= 0);
    return PT_OK;
}

CHECKS(norm_bwd_input)
{
    BEGIN(norm_bwd_input);
    FLOAT(x);
    LIKE(x, x);
    PT_TRY(check_norm(&in_, &a->x, &a->mean, &a->rstd, a->kind));
    LIKE(dy, x);
    LIKE(dx, x);
    DENSE(weight, a->x.dtype, a->x.shape[a->x.ndim - 1]);
    return PT_OK;
}

CHECKS(norm_bwd_weight)
{
    BEGIN(norm_bwd_weight);
    FLOAT(x);
    LIKE(x, x);
    PT_TRY(check_norm(&in_, &a->x, &a->mean, &a->rstd, a->kind));
    LIKE(dy, x);
    DENSE_OF_SUM(dweight, a->x.dtype, a->x.shape[a->x.ndim - 1]);
    if (PRESENT(dbias)) {
        DENSE_OF_SUM(dbias, a->x.dtype, a->x.shape[a->x.ndim - 1]);
    }
    return PT_OK;
}

CHECKS(bias_fwd)
{
    BEGIN(bias_fwd);
    FLOAT(x);
    SHAPE(x, a->x.dtype, ANY, ANY);
    DENSE(bias, a->x.dtype, a->x.shape[1]);
    return PT_OK;
}

CHECKS(bias_bwd)
{
    BEGIN(bias_bwd);
    FLOAT(dy);
    SHAPE(dy, a->dy.dtype, ANY, ANY);
    DENSE_OF_SUM(dbias, a->dy.dtype, a->dy.shape[1]);
    return PT_OK;
}

CHECKS(rotary)
{
    BEGIN(rotary);
    FLOAT(x);
    SHAPE(x, a->x.dtype, ANY, ANY, ANY);
    DENSE(position, PT_I32, a->x.shape[0]);
    DENSE(cos, pt_dtype_accumulator(a->x.dtype), ANY, ANY);
    LIKE(sin, cos);
    PT_TRY(check_dense(&in_, "sin", &a->sin));
    HOLDS(2 * a->cos.shape[1] <= a->x.shape[2]);
    return PT_OK;
}

static pt_status_t check_seen(const char *op, const pt_attention_shape_t *a,
                              int64_t queries, int64_t keys)
{
    const pt_checker_t in_ = {op, 0};
    HOLDS(a->sequences >= 1 && queries % a->sequences == 0 && keys % a->sequences == 0);
    HOLDS(a->kv_offset >= 0 && a->first_head >= 0);
    DENSE(q_position, PT_I32, queries);
    DENSE(k_position, PT_I32, keys);
    HOLDS(PRESENT(q_document) == PRESENT(k_document));
    if (PRESENT(q_document)) {
        DENSE(q_document, PT_I32, queries);
        DENSE(k_document, PT_I32, keys);
    }
    return PT_OK;
}

CHECKS(attention_fwd)
{
    BEGIN(attention_fwd);
    FLOAT(q);
    pt_dtype_t t = a->q.dtype;
    SHAPE(q, t, ANY, ANY, ANY);
    SHAPE(k, t, ANY, ANY, a->q.shape[2]);
    SHAPE(v, t, a->k.shape[0], a->k.shape[1], ANY);
    SHAPE_OF_SUM(o, t, a->q.shape[0], a->q.shape[1], a->v.shape[2]);
    DENSE(lse, pt_dtype_accumulator(t), a->q.shape[0], a->q.shape[1]);
    HOLDS(a->k.shape[1] >= 1 && a->q.shape[1] % a->k.shape[1] == 0);
    PT_TRY(check_seen(in_.op, &a->shape, a->q.shape[0], a->k.shape[0]));
    PT_TRY(check_dropout(in_.op, &a->dropout, a->q.shape[0]));
    return PT_OK;
}

CHECKS(attention_bwd)
{
    BEGIN(attention_bwd);
    FLOAT(q);
    pt_dtype_t t = a->q.dtype;
    SHAPE(q, t, ANY, ANY, ANY);
    SHAPE(k, t, ANY, ANY, a->q.shape[2]);
    SHAPE(v, t, a->k.shape[0], a->k.shape[1], ANY);
    SHAPE_OF_SUM(o, t, a->q.shape[0], a->q.shape[1], a->v.shape[2]);
    SHAPE(do_, t, a->q.shape[0], a->q.shape[1], a->v.shape[2]);
    SHAPE_OF_SUM(dq, t, a->q.shape[0], a->q.shape[1], a->q.shape[2]);
    SHAPE_OF_SUM(dk, t, a->k.shape[0], a->k.shape[1], a->k.shape[2]);
    SHAPE(dv, a->dk.dtype, a->v.shape[0], a->v.shape[1], a->v.shape[2]);
    DENSE(lse, pt_dtype_accumulator(t), a->q.shape[0], a->q.shape[1]);
    HOLDS(a->k.shape[1] >= 1 && a->q.shape[1] % a->k.shape[1] == 0);
    PT_TRY(check_seen(in_.op, &a->shape, a->q.shape[0], a->k.shape[0]));
    PT_TRY(check_dropout(in_.op, &a->dropout, a->q.shape[0]));
    return PT_OK;
}

/* x[n,F·k] of an activation with output width F. */
#define WIDE(kind, cols) ((kind) == PT_ACTIVATION_SWIGLU ? 2 * (cols) : (cols))

CHECKS(activation_fwd)
{
    BEGIN(activation_fwd);
    FLOAT(y);
    SHAPE(y, a->y.dtype, ANY, ANY);
    SHAPE(x, a->y.dtype, a->y.shape[0], WIDE(a->kind, a->y.shape[1]));
    if (PRESENT(bias))
        DENSE(bias, a->y.dtype, a->x.shape[1]);
    HOLDS(a->kind == PT_ACTIVATION_GELU || a->kind == PT_ACTIVATION_SWIGLU);
    return PT_OK;
}

CHECKS(activation_bwd)
{
    BEGIN(activation_bwd);
    FLOAT(dy);
    SHAPE(dy, a->dy.dtype, ANY, ANY);
    SHAPE(x, a->dy.dtype, a->dy.shape[0], WIDE(a->kind, a->dy.shape[1]));
    LIKE(dx, x);
    HOLDS(a->kind == PT_ACTIVATION_GELU || a->kind == PT_ACTIVATION_SWIGLU);
    return PT_OK;
}

CHECKS(residual)
{
    BEGIN(residual);
    FLOAT(y);
    SHAPE(y, a->y.dtype, ANY, ANY);
    LIKE(x, y);
    LIKE(branch, y);
    if (PRESENT(bias))
        DENSE(bias, a->y.dtype, a->y.shape[1]);
    PT_TRY(check_dropout(in_.op, &a->dropout, a->y.shape[0]));
    return PT_OK;
}

CHECKS(dropout)
{
    BEGIN(dropout);
    FLOAT(y);
    SHAPE(y, a->y.dtype, ANY, ANY);
    LIKE(x, y);
    PT_TRY(check_dropout(in_.op, &a->dropout, a->y.shape[0]));
    return PT_OK;
}

CHECKS(softmax_stats)
{
    BEGIN(softmax_stats);
    FLOAT(logits);
    SHAPE(logits, a->logits.dtype, ANY, ANY);
    pt_dtype_t stats = pt_dtype_accumulator(a->logits.dtype);
    DENSE(label, PT_I32, a->logits.shape[0]);
    DENSE(maximum, stats, a->logits.shape[0]);
    DENSE(sum, stats, a->logits.shape[0]);
    DENSE(target, stats, a->logits.shape[0]);
    HOLDS(a->first_col >= 0 && a->vocab >= 0);
    return PT_OK;
}

CHECKS(cross_entropy_fwd)
{
    BEGIN(cross_entropy_fwd);
    FLOAT(loss);
    DENSE(loss, a->loss.dtype, ANY);
    DENSE(maximum, a->loss.dtype, a->loss.shape[0]);
    DENSE(sum, a->loss.dtype, a->loss.shape[0]);
    DENSE(target, a->loss.dtype, a->loss.shape[0]);
    DENSE(mask, PT_U8, a->loss.shape[0]);
    return PT_OK;
}

CHECKS(cross_entropy_bwd)
{
    BEGIN(cross_entropy_bwd);
    FLOAT(logits);
    SHAPE(logits, a->logits.dtype, ANY, ANY);
    pt_dtype_t stats = pt_dtype_accumulator(a->logits.dtype);
    DENSE(label, PT_I32, a->logits.shape[0]);
    DENSE(mask, PT_U8, a->logits.shape[0]);
    DENSE(maximum, stats, a->logits.shape[0]);
    DENSE(sum, stats, a->logits.shape[0]);
    HOLDS(a->first_col >= 0 && a->vocab >= 0);
    return PT_OK;
}

CHECKS(ordered_sum)
{
    BEGIN(ordered_sum);
    FLOAT(src);
    FLOAT(dst);
    DENSE(dst, a->dst.dtype, ANY);
    DENSE(src, a->src.dtype, ANY, a->dst.shape[0]);
    pt_dtype_t wide = pt_dtype_accumulator(a->dst.dtype);
    if (a->dst.dtype != wide) {
        PT_TRY(check_either(&in_, "src", &a->src, a->dst.dtype));
    } else {
        HOLDS(pt_dtype_size(a->src.dtype) <= pt_dtype_size(a->dst.dtype));
    }
    return PT_OK;
}

CHECKS(sum)
{
    BEGIN(sum);
    FLOAT(x);
    LIKE(x, x);
    PT_TRY(check_dense(&in_, "x", &a->x));
    DENSE(accumulator, PT_I64, PT_SUM_WORDS);
    return PT_OK;
}

CHECKS(sum_squares)
{
    return pt_check_sum(a, dtypes_);
}

CHECKS(adamw)
{
    BEGIN(adamw);
    FLOAT(grad);
    pt_dtype_t t = a->grad.dtype;
    if (PRESENT(compute)) {
        FLOAT(compute);
        t = a->compute.dtype;
        DENSE(compute, t, a->weight.shape[0]);
    }
    DENSE(weight, pt_dtype_accumulator(t), ANY);
    DENSE_OF_SUM(grad, t, a->weight.shape[0]);
    pt_dtype_t moments = t == PT_BF16 ? PT_BF16 : pt_dtype_accumulator(t);
    DENSE_OF_SUM(exp_avg, moments, a->weight.shape[0]);
    DENSE(exp_avg_sq, a->exp_avg.dtype, a->weight.shape[0]);
    HOLDS(a->t >= 1);
    return PT_OK;
}

CHECKS(normal)
{
    BEGIN(normal);
    FLOAT(x);
    SHAPE(x, a->x.dtype, ANY, ANY);
    return PT_OK;
}

CHECKS(digest)
{
    BEGIN(digest);
    FLOAT(x);
    SHAPE(x, a->x.dtype, ANY, ANY);
    DENSE(accumulator, PT_I64, 1);
    return PT_OK;
}
