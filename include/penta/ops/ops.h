/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h — arithmetic on tensors (layer: ops). The contract of every op, for all backends.
 *
 * An op has a struct of arguments and three faces made from include/penta/ops/ops.def: the call
 * pt_op_NAME(device, stream, &args), which checks shapes, types and memory kinds, counts the
 * cost and forwards; the slot `NAME` of the kernel table pt_kernels_t; a row in the tests.
 *
 * For all ops: device tensors; floating operands of one op share their dtype T (fp64, fp32, bf16,
 * fp16) unless said; statistics, losses and sums have type A = pt_dtype_accumulator(T). What is
 * summed further (gemm's c, dweight, dbias, dtable, attention's o, dq, dk, dv, adamw's grad) may be
 * T or A, each operand on its own (dk and dv are of one type).
 * Rounding: operands are widened to A, which is exact; all arithmetic is in A; a result is rounded
 * once, to the nearest, where it is stored. "(+=)" widens what is there, adds in A and rounds.
 * Rows are the leading dimension; inner stride 1, outer strides free unless "dense" is said.
 * Outputs are written in full, and never alias inputs unless "in place" is said; "(+=)" adds to
 * what is there. An element's bits depend on its operands only, never on its position, the number
 * of threads or the split of rows over calls (gemm apart: see there; a sum over rows is over those
 * of the call). Arguments are copied before the call returns; the work may run later, in stream
 * order. Optional tensors have data NULL. Scratch comes from the stream: pt_device_set_workspace.
 * Fails: INTERNAL (local) on a violated contract; device errors as the backend says. */
#ifndef PENTA_OPS_H
#define PENTA_OPS_H

#include "penta/base/tensor.h"

struct pt_device;
struct pt_stream;

/* x[...] = value, rounded once from fp64; int64 too (a whole number). */
typedef struct pt_op_fill {
    pt_tensor_t x;
    double value;
} pt_op_fill_t;

/* x[r,c] = std·z, rounded; z the normal number (normal.h) of `seed`, `id` and the global index first +
 * r·pitch + c. 2-D. */
typedef struct pt_op_normal {
    pt_tensor_t x;
    double std;
    uint64_t seed, id;
    int64_t first, pitch;
} pt_op_normal_t;

/* y = x rounded to y's type: nearest even, beyond its largest number infinity; NaN stays NaN. Any two
 * floating types; dense, same count. */
typedef struct pt_op_cast {
    pt_tensor_t x, y;
} pt_op_cast_t;

/* y = a + b; y may be a or b (in place). 2-D. */
typedef struct pt_op_add {
    pt_tensor_t a, b, y;
} pt_op_add_t;

/* c[M,N] = op(a)·op(b), or (+=); op transposes when asked. a, b, c are 2-D with any row stride.
 * c: T or A. Accumulation in A. One op is one BLAS call: cutting it, or its number of threads, may change
 * bits, so callers fix the cut. The CPU multiplies bf16 where its level is v4, the processor has
 * AVX-512 BF16 and the build oneDNN (subnormal operands count as zero there); else, and fp16 always,
 * by blocks of at most 512 in each dimension converted to fp32, those of the depth added in
 * ascending order. */
typedef struct pt_op_gemm {
    pt_tensor_t a, b, c;
    bool trans_a, trans_b, accumulate;
} pt_op_gemm_t;

/* y[n,C] = table[index - first_row, :], zero where the row is not in the table (it belongs to
 * another rank of the tensor axis); with `accumulate` y (+=). index: int32 [n]. */
typedef struct pt_op_embed_fwd {
    pt_tensor_t index, table, y;
    int64_t first_row;
    bool accumulate;
} pt_op_embed_fwd_t;

/* dtable[index - first_row, :] (+=) dy, rows in ascending order; rows elsewhere are skipped.
 * dtable: T or A; a dtable narrower than A (+=) the sum in A of the call's rows. */
typedef struct pt_op_embed_bwd {
    pt_tensor_t index, dy, dtable;
    int64_t first_row;
} pt_op_embed_bwd_t;

typedef enum pt_norm { PT_NORM_LAYER, PT_NORM_RMS } pt_norm_t;

/* Over the last dimension of x [n,C] or [n,H,D]:
 *   layer: y = (x - mean)·rstd·weight + bias, rstd = 1/sqrt(var + eps), biased variance
 *          (Ba, Kiros, Hinton 2016, eq. 4);
 *   rms:   y = x·rstd·weight, rstd = 1/sqrt(mean(x²) + eps)  (Zhang, Sennrich 2019, eq. 4).
 * weight, bias: [C] (bias optional). mean (layer only), rstd: A, dense [n] or [n,H]. */
typedef struct pt_op_norm_fwd {
    pt_tensor_t x, weight, bias, y, mean, rstd;
    pt_norm_t kind;
    double eps;
} pt_op_norm_fwd_t;

/* dx of the above; dx (+=) when accumulate; dx may be dy (in place) when it does not. */
typedef struct pt_op_norm_bwd_input {
    pt_tensor_t dy, x, weight, mean, rstd, dx;
    pt_norm_t kind;
    bool accumulate;
} pt_op_norm_bwd_input_t;

/* dweight (+=) sum over rows dy·x̂, dbias (+=) sum dy (optional), T or A. Rows are summed in A in a
 * fixed order over all rows of the call. */
typedef struct pt_op_norm_bwd_weight {
    pt_tensor_t dy, x, mean, rstd, dweight, dbias;
    pt_norm_t kind;
} pt_op_norm_bwd_weight_t;

/* x[n,C] (+=) bias[C]. */
typedef struct pt_op_bias_fwd {
    pt_tensor_t x, bias;
} pt_op_bias_fwd_t;

/* dbias[C] (+=) column sums of dy[n,C], summed in A, rows in a fixed order. dbias: T or A. */
typedef struct pt_op_bias_bwd {
    pt_tensor_t dy, dbias;
} pt_op_bias_bwd_t;

/* Rotary positions in place on x[n,H,D] (Su et al. 2021, eq. 34, in the half-split order of
 * Llama): with R = 2·(columns of cos), pairs (i, i + R/2) of the first R columns turn by the
 * angle whose cosine and sine are cos[p,i], sin[p,i], p = position of the row (int32 [n]); other
 * columns stay. `inverse` turns back: the gradient. cos, sin: A, dense [positions, R/2]. */
typedef struct pt_op_rotary {
    pt_tensor_t x, position, cos, sin;
    bool inverse;
} pt_op_rotary_t;

/* Dropout by counter: element (row, col) of site `site` of layer `layer` is kept iff a Philox
 * draw keyed by (seed, step, sample[row], layer, site) at coordinate (place[row], first_col +
 * col) is >= p; kept ones are scaled by 1/(1-p). sample: int64 [n] global sample ids, place:
 * int32 [n] index of the token in its sample. p = 0: identity, sample and place unused.
 * Exact key and counter: src/ops/dropout.h, shared by all backends. */
typedef struct pt_dropout {
    double p;
    uint64_t seed;
    int64_t step;
    int layer;
    int site; /* pt_dropout_site_t */
    int64_t first_col;
    pt_tensor_t sample, place;
} pt_dropout_t;

typedef enum pt_dropout_site {
    PT_DROPOUT_EMBEDDING,
    PT_DROPOUT_ATTENTION,
    PT_DROPOUT_ATTENTION_OUT,
    PT_DROPOUT_FFN_OUT
} pt_dropout_site_t;

/* Which keys a query may see. Rows are `sequences` runs of equal length: Tq = rows of q /
 * sequences, Tk likewise. Query i sees key j of its own sequence iff k_position[j] <=
 * q_position[i] and k_document[j] == q_document[i] (int32 [rows]; documents both absent: one
 * document). Positions here are places in the sample (they order causality), not rotary ones.
 * kv_offset: place of the call's first key in the whole sequence: blocks of keys are cut at
 * multiples of a fixed size in that numbering, so that a sequence split over calls or ranks and
 * merged by log-sum-exp meets the same blocks; it is also the column of attention dropout. */
typedef struct pt_attention_shape {
    int64_t sequences, kv_offset;
    double scale; /* usually 1/sqrt(D) */
    pt_tensor_t q_position, k_position, q_document, k_document;
    int64_t first_head; /* global index of the call's first query head, for dropout */
} pt_attention_shape_t;

/* o = softmax(scale·q·kᵀ + mask)·v, block by block with running maximum and sum (Dao et al. 2022,
 * alg. 1; Milakov, Gimelshein 2018), and lse = log of the sum, natural, A, dense [n,H]. q: [n,H,D],
 * k: [m,K,D], v: [m,K,Dv], o: [n,H,Dv], T or A; H a multiple of K, head h uses KV head h/(H/K). A query
 * that sees nothing gives o = 0, lse = -inf. With dropout, kept probabilities are scaled; lse is
 * without. */
typedef struct pt_op_attention_fwd {
    pt_tensor_t q, k, v, o, lse;
    pt_attention_shape_t shape;
    pt_dropout_t dropout;
} pt_op_attention_fwd_t;

/* dq, dk, dv of the above, T or A, overwritten, given do, o and lse *of the whole sequence* (merged): with
 * `accumulate` they are added to instead, for rings of key blocks. */
typedef struct pt_op_attention_bwd {
    pt_tensor_t q, k, v, o, lse, do_, dq, dk, dv;
    pt_attention_shape_t shape;
    pt_dropout_t dropout;
    bool accumulate;
} pt_op_attention_bwd_t;

typedef enum pt_activation { PT_ACTIVATION_GELU, PT_ACTIVATION_SWIGLU } pt_activation_t;

/* gelu (tanh form; Hendrycks, Gimpel 2016): y[n,F] of x[n,F].
 * swiglu (Shazeer 2020): x[n,2F] holds gate | up, y[n,F] = silu(gate)·up.
 * bias (optional, as wide as x): added to x first, in place. */
typedef struct pt_op_activation_fwd {
    pt_tensor_t x, y;
    pt_activation_t kind;
    pt_tensor_t bias;
} pt_op_activation_fwd_t;

/* dx, shape of x; may be x (in place). */
typedef struct pt_op_activation_bwd {
    pt_tensor_t dy, x, dx;
    pt_activation_t kind;
} pt_op_activation_bwd_t;

/* y = x + dropout(branch + bias), all [n,C] but bias [C] (optional); y may be x or branch (in place). */
typedef struct pt_op_residual {
    pt_tensor_t x, branch, y;
    pt_dropout_t dropout;
    pt_tensor_t bias;
} pt_op_residual_t;

/* y = dropout(x): forward after the embedding, backward of every elementwise site. y may be x. */
typedef struct pt_op_dropout {
    pt_tensor_t x, y;
    pt_dropout_t dropout;
} pt_op_dropout_t;

/* Of logits [m,Vl], columns first_col … of the vocabulary, those >= vocab being padding that takes
 * no part: row maximum, sum of exp(logit - maximum), and the label's logit where this rank has
 * it, else 0. maximum, sum, target: A, dense [m]; label int32 [m]. A rank without any real
 * column gives maximum = -inf, sum = 0. */
typedef struct pt_op_softmax_stats {
    pt_tensor_t logits, label, maximum, sum, target;
    int64_t first_col, vocab;
} pt_op_softmax_stats_t;

/* loss[m] = mask·(maximum + log(sum) - target); mask uint8 [m]; masked rows give exactly 0
 * whatever the operands. All else A. After the tensor axis merged the statistics. */
typedef struct pt_op_cross_entropy_fwd {
    pt_tensor_t maximum, sum, target, mask, loss;
} pt_op_cross_entropy_fwd_t;

/* In place: logits -> scale·mask·(softmax - onehot(label)); padding columns and masked rows give
 * exactly 0. */
typedef struct pt_op_cross_entropy_bwd {
    pt_tensor_t logits, label, mask, maximum, sum;
    int64_t first_col, vocab;
    double scale;
} pt_op_cross_entropy_bwd_t;

/* dst[n] = src[0,n] + src[1,n] + … in that order, in A of dst's type, or added to dst at the end with
 * `accumulate`. src is T or A, or any narrower type where dst is A; dst is T or A. Dense. */
typedef struct pt_op_ordered_sum {
    pt_tensor_t src, dst;
    bool accumulate;
} pt_op_ordered_sum_t;

/* Adds the elements (or their squares) of dense x to the exact accumulator: int64
 * [PT_SUM_WORDS], layout of pt_sum_t. Blocks of PT_SUM_BLOCK start at x's first element; within
 * one, fp64 pairwise in a fixed tree. */
typedef struct pt_op_sum {
    pt_tensor_t x, accumulator;
} pt_op_sum_t;
typedef pt_op_sum_t pt_op_sum_squares_t;

/* AdamW (Loshchilov, Hutter 2019, alg. 2) in the order of PyTorch: with g = grad_scale·grad,
 *   w -= lr·weight_decay·w;  m += (1-beta1)·(g - m);  v = beta2·v + (1-beta2)·g²;
 *   w -= lr/(1-beta1^t) · m / (sqrt(v)/sqrt(1-beta2^t) + eps).
 * Dense [n]. weight: A, the master, updated in place; compute: optional copy of the new weight rounded
 * to T, its type (without it T is grad's). grad: T or A. exp_avg, exp_avg_sq: A, or both bf16 where
 * T is bf16; the step is made with their new values before these are rounded. t >= 1. */
typedef struct pt_op_adamw {
    pt_tensor_t weight, exp_avg, exp_avg_sq, grad, compute;
    double lr, beta1, beta2, eps, weight_decay, grad_scale;
    int64_t t;
} pt_op_adamw_t;

/* accumulator (int64 [1]) (+= mod 2^64) digest of x as defined in digest.h: x is 2-D, element (r,c)
 * has global index first + r·pitch + c. */
typedef struct pt_op_digest {
    pt_tensor_t x, accumulator;
    uint64_t id;
    int64_t first, pitch;
} pt_op_digest_t;

typedef enum pt_op_id {
#define PT_OP(name, dtypes, flops, bytes, workspace) PT_OP_##name,
#include "penta/ops/ops.def"
#undef PT_OP
    PT_OP_COUNT
} pt_op_id_t;

/* One function per op and backend; arguments are checked. */
typedef struct pt_kernels {
    const char *name;
#define PT_OP(name, dtypes, flops, bytes, workspace)                                   \
    pt_status_t (*name)(struct pt_stream * stream, const pt_op_##name##_t *args);
#include "penta/ops/ops.def"
#undef PT_OP
} pt_kernels_t;

#define PT_OP(name, dtypes, flops, bytes, workspace)                                   \
    pt_status_t pt_op_##name(struct pt_device *device, struct pt_stream *stream,       \
                             const pt_op_##name##_t *args);
#include "penta/ops/ops.def"
#undef PT_OP

typedef struct pt_op_count {
    int64_t calls, flops, bytes;
    double sec; /* of the caller: all of the work where a device works at once, as the CPU does */
} pt_op_count_t;

const char *pt_op_name(pt_op_id_t op);
/* Scratch of an attention call on heads of these widths, forward or backward, on any backend: what its
 * stream must have been given (pt_device_set_workspace). keys: of one sequence, where a backward
 * call gives dk and dv in a 16-bit type; else 0. */
int64_t pt_attention_workspace(const struct pt_device *device, pt_dtype_t dtype,
                               int64_t keys, int64_t qk_width, int64_t v_width);
/* Scratch of any gemm with a and b of this type: blocks of fp32 for the 16-bit types. */
int64_t pt_gemm_workspace(pt_dtype_t dtype);
/* Scratch of embed_bwd: chains of the rows of dy where dtable is of a 16-bit type. */
int64_t pt_embed_bwd_workspace(pt_dtype_t table, int64_t table_rows, int64_t rows);
/* FLOPs of attention as causal work: half the square for Tq = Tk; 4·pairs·D forward (two
 * products), 10·pairs·D backward (five). */
int64_t pt_attention_flops(const pt_attention_shape_t *shape, const pt_tensor_t *q,
                           const pt_tensor_t *v, bool forward);

#endif
