/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h — arithmetic on tensors (layer: ops). The contract of every op, for all
 * backends.
 *
 * Each op has a struct of arguments and a row in include/penta/ops/ops.def. The row
 * generates the function pt_op_NAME(device, stream, &args), which checks shapes, types
 * and memory kinds, counts the cost and calls the kernel; the member NAME of the kernel
 * table pt_kernels_t; and a row in the tests.
 *
 * Types. All operands are device tensors. The floating-point operands of an op share
 * the storage type T (fp64, fp32, bf16, fp16) unless stated otherwise. Statistics,
 * losses and sums have the accumulator type A = pt_dtype_accumulator(T). Results that
 * are summed further (gemm's c, dweight, dbias, dtable, attention's o, dq, dk, dv,
 * adamw's grad) may be T or A, independently of each other; only dk and dv share one
 * type.
 *
 * Rounding. Operands are widened to A, which is exact; all arithmetic is in A; a result
 * is rounded once, to nearest, when it is stored. "(+=)" means accumulate: widen the
 * old value, add in A, round.
 *
 * Layout. The leading dimension counts rows. The inner stride is 1; outer strides are
 * free unless "dense" is stated. Outputs are overwritten in full and never alias
 * inputs, unless "(+=)" or "in place" is stated.
 *
 * Determinism. The bits of an element depend on its operands only, never on its
 * position, the number of threads or how rows are divided among calls. Exceptions: gemm
 * (see there), and sums over rows, which cover the rows of one call.
 *
 * Calls. Arguments are copied before the call returns; the work may run later, in
 * stream order. An optional tensor is absent if its data is NULL. The stream provides
 * scratch: pt_device_set_workspace. Fails: INTERNAL (local) if the contract is
 * violated; device errors of the backend. */
#ifndef PENTA_OPS_H
#define PENTA_OPS_H

#include "penta/base/tensor.h"

struct pt_device;
struct pt_stream;

/* x[...] = value, rounded once from fp64. x may also be int64; value is then an
 * integer. */
typedef struct pt_op_fill {
    pt_tensor_t x;
    double value;
} pt_op_fill_t;

/* x[r,c] = std·z, rounded. z is the standard normal number (normal.h) of `seed`, `id`
 * and the global element index first + r·pitch + c. x: 2-D. */
typedef struct pt_op_normal {
    pt_tensor_t x;
    double std;
    uint64_t seed, id;
    int64_t first, pitch;
} pt_op_normal_t;

/* y = x rounded to the type of y: to nearest, ties to even, overflow to infinity; NaN
 * stays NaN. x, y: any two floating-point types; dense, equal count. */
typedef struct pt_op_cast {
    pt_tensor_t x, y;
} pt_op_cast_t;

/* y = a + b. 2-D. y may be a or b (in place). */
typedef struct pt_op_add {
    pt_tensor_t a, b, y;
} pt_op_add_t;

/* c[M,N] = op(a)·op(b), or (+=) with `accumulate`; op transposes if trans_a, trans_b
 * say so.
 *   a, b, c  2-D, any row stride; c: T or A
 *
 * One op is one BLAS call that accumulates in A. Dividing it, or changing its number of
 * threads, may change bits, so callers fix the division. The CPU multiplies bf16 with
 * oneDNN if the level is v4, the processor has AVX-512 BF16 and the build has oneDNN;
 * subnormal operands count as zero there. Otherwise, and always for fp16, it converts
 * blocks of at most 512 in each dimension to fp32 and adds the blocks of the depth in
 * ascending order. */
typedef struct pt_op_gemm {
    pt_tensor_t a, b, c;
    bool trans_a, trans_b, accumulate;
} pt_op_gemm_t;

/* y[i,:] = table[index[i] - first_row, :], or (+=) with `accumulate`. A row outside the
 * table belongs to another rank of the tensor axis and gives zero.
 *   index  int32 [n]
 *   y      [n,C] */
typedef struct pt_op_embed_fwd {
    pt_tensor_t index, table, y;
    int64_t first_row;
    bool accumulate;
} pt_op_embed_fwd_t;

/* dtable[index[i] - first_row, :] (+=) dy[i,:], rows in ascending order; rows outside
 * the table are skipped. dtable: T or A; if it is narrower than A, the rows of the call
 * are summed in A and added once. */
typedef struct pt_op_embed_bwd {
    pt_tensor_t index, dy, dtable;
    int64_t first_row;
} pt_op_embed_bwd_t;

typedef enum pt_norm { PT_NORM_LAYER, PT_NORM_RMS } pt_norm_t;

/* Normalises over the last dimension of x.
 *   layer: y = (x - mean)·rstd·weight + bias, rstd = 1/sqrt(var + eps), biased variance
 *          (Ba, Kiros, Hinton 2016, eq. 4);
 *   rms:   y = x·rstd·weight, rstd = 1/sqrt(mean(x²) + eps)
 *          (Zhang, Sennrich 2019, eq. 4).
 *
 *   x, y          [n,C] or [n,H,D]
 *   weight, bias  size of the last dimension; bias optional
 *   mean, rstd    A, dense [n] or [n,H]; mean for `layer` only */
typedef struct pt_op_norm_fwd {
    pt_tensor_t x, weight, bias, y, mean, rstd;
    pt_norm_t kind;
    double eps;
} pt_op_norm_fwd_t;

/* dx of norm_fwd; (+=) with `accumulate`, else dx may be dy (in place). */
typedef struct pt_op_norm_bwd_input {
    pt_tensor_t dy, x, weight, mean, rstd, dx;
    pt_norm_t kind;
    bool accumulate;
} pt_op_norm_bwd_input_t;

/* dweight (+=) sum over rows of dy·x̂; dbias (+=) sum over rows of dy (optional).
 * dweight, dbias: T or A. All rows of the call are summed in A in a fixed order. */
typedef struct pt_op_norm_bwd_weight {
    pt_tensor_t dy, x, mean, rstd, dweight, dbias;
    pt_norm_t kind;
} pt_op_norm_bwd_weight_t;

/* x[n,C] (+=) bias[C]. */
typedef struct pt_op_bias_fwd {
    pt_tensor_t x, bias;
} pt_op_bias_fwd_t;

/* dbias[C] (+=) column sums of dy[n,C], summed in A in a fixed order of rows. dbias: T
 * or A. */
typedef struct pt_op_bias_bwd {
    pt_tensor_t dy, dbias;
} pt_op_bias_bwd_t;

/* Rotary position embedding, in place (Su et al. 2021, eq. 34, in the half-split order
 * of Llama). With R = 2·(columns of cos), the pairs (i, i + R/2) of the first R columns
 * of a row rotate by the angle with cosine cos[p,i] and sine sin[p,i], where p is the
 * position of the row. Other columns stay. `inverse` rotates back, which is the
 * gradient.
 *   x         [n,H,D], in/out
 *   position  int32 [n]
 *   cos, sin  A, dense [positions, R/2] */
typedef struct pt_op_rotary {
    pt_tensor_t x, position, cos, sin;
    bool inverse;
} pt_op_rotary_t;

/* Counter-based dropout. An element (row, col) is kept iff a uniform Philox number
 * keyed by (seed, step, sample[row], layer, site) at coordinate (place[row], first_col
 * + col) is >= p. Kept elements are scaled by 1/(1-p). p = 0 is the identity; sample
 * and place are then unused. src/ops/dropout.h defines key and counter exactly, for all
 * backends.
 *   sample  int64 [n], global sample ids
 *   place   int32 [n], index of the token in its sample */
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

/* Which keys a query may see. The rows are `sequences` runs of equal length: Tq = (rows
 * of q) / sequences, Tk = (rows of k) / sequences. Query i sees key j of its own
 * sequence iff k_position[j] <= q_position[i] and k_document[j] == q_document[i].
 *   q_position, k_position  int32 [rows], index of the token in its sample (causality);
 *                           not the position of the rotary embedding
 *   q_document, k_document  int32 [rows]; both absent: one document
 *   kv_offset               index of the call's first key in the whole sequence
 *
 * Blocks of keys start at multiples of a fixed size counted from the start of the whole
 * sequence. A sequence that is divided among calls or ranks and merged by log-sum-exp
 * therefore has the same blocks. That index is also the column of attention dropout. */
typedef struct pt_attention_shape {
    int64_t sequences, kv_offset;
    double scale; /* usually 1/sqrt(D) */
    pt_tensor_t q_position, k_position, q_document, k_document;
    int64_t first_head; /* global index of the call's first query head, for dropout */
} pt_attention_shape_t;

/* o = softmax(scale·q·kᵀ + mask)·v, block by block with running maximum and sum (Dao et
 * al. 2022, alg. 1; Milakov, Gimelshein 2018).
 *   q    [n,H,D]
 *   k    [m,K,D]; H is a multiple of K; head h uses KV head h/(H/K)
 *   v    [m,K,Dv]
 *   o    [n,H,Dv], T or A
 *   lse  A, dense [n,H]: natural logarithm of the softmax denominator
 *
 * A query that sees no key gives o = 0, lse = -inf. Dropout scales the kept
 * probabilities and does not change lse. */
typedef struct pt_op_attention_fwd {
    pt_tensor_t q, k, v, o, lse;
    pt_attention_shape_t shape;
    pt_dropout_t dropout;
} pt_op_attention_fwd_t;

/* Gradients of attention_fwd. o, lse and do must be those *of the whole sequence*
 * (merged).
 *   dq, dk, dv  T or A; overwritten, or (+=) with `accumulate` (rings of key blocks) */
typedef struct pt_op_attention_bwd {
    pt_tensor_t q, k, v, o, lse, do_, dq, dk, dv;
    pt_attention_shape_t shape;
    pt_dropout_t dropout;
    bool accumulate;
} pt_op_attention_bwd_t;

typedef enum pt_activation { PT_ACTIVATION_GELU, PT_ACTIVATION_SWIGLU } pt_activation_t;

/* gelu (tanh form; Hendrycks, Gimpel 2016): y[n,F] of x[n,F].
 * swiglu (Shazeer 2020): x[n,2F] holds gate | up, and y[n,F] = silu(gate)·up.
 * bias (optional, as wide as x) is first added to x, in place. */
typedef struct pt_op_activation_fwd {
    pt_tensor_t x, y;
    pt_activation_t kind;
    pt_tensor_t bias;
} pt_op_activation_fwd_t;

/* dx has the shape of x and may be x (in place). */
typedef struct pt_op_activation_bwd {
    pt_tensor_t dy, x, dx;
    pt_activation_t kind;
} pt_op_activation_bwd_t;

/* y = x + dropout(branch + bias). x, branch, y: [n,C]; bias: [C], optional. y may be x
 * or branch (in place). */
typedef struct pt_op_residual {
    pt_tensor_t x, branch, y;
    pt_dropout_t dropout;
    pt_tensor_t bias;
} pt_op_residual_t;

/* y = dropout(x): the forward pass after the embedding, and the backward pass of every
 * elementwise site. y may be x (in place). */
typedef struct pt_op_dropout {
    pt_tensor_t x, y;
    pt_dropout_t dropout;
} pt_op_dropout_t;

/* Softmax statistics of the vocabulary columns on this rank: row maximum, sum of
 * exp(logit - maximum), and the label's logit, or 0 if another rank has it. Column 0 is
 * column first_col of the vocabulary; columns >= vocab are padding and ignored. A rank
 * with padding only gives maximum = -inf, sum = 0.
 *   logits                [m,Vl]
 *   label                 int32 [m]
 *   maximum, sum, target  A, dense [m] */
typedef struct pt_op_softmax_stats {
    pt_tensor_t logits, label, maximum, sum, target;
    int64_t first_col, vocab;
} pt_op_softmax_stats_t;

/* loss = mask·(maximum + log(sum) - target), from statistics merged over the tensor
 * axis. Masked rows give exactly 0 for any operands.
 *   mask  uint8 [m]
 *   loss, maximum, sum, target  A, [m] */
typedef struct pt_op_cross_entropy_fwd {
    pt_tensor_t maximum, sum, target, mask, loss;
} pt_op_cross_entropy_fwd_t;

/* In place: logits become scale·mask·(softmax - onehot(label)). Padding columns and
 * masked rows give exactly 0. */
typedef struct pt_op_cross_entropy_bwd {
    pt_tensor_t logits, label, mask, maximum, sum;
    int64_t first_col, vocab;
    double scale;
} pt_op_cross_entropy_bwd_t;

/* dst[n] = src[0,n] + src[1,n] + … in that order, in A of dst's type. With `accumulate`
 * the sum is then added to dst. dst: T or A; src: T or A, or any narrower type if dst
 * is A. Dense. */
typedef struct pt_op_ordered_sum {
    pt_tensor_t src, dst;
    bool accumulate;
} pt_op_ordered_sum_t;

/* Adds the elements of dense x (or their squares) to an exact accumulator. Each block
 * of PT_SUM_BLOCK elements, counted from the first element of x, is summed pairwise in
 * fp64 in a fixed tree.
 *   accumulator  int64 [PT_SUM_WORDS], layout of pt_sum_t */
typedef struct pt_op_sum {
    pt_tensor_t x, accumulator;
} pt_op_sum_t;
typedef pt_op_sum_t pt_op_sum_squares_t;

/* AdamW (Loshchilov, Hutter 2019, alg. 2) in the order of PyTorch: with g =
 * grad_scale·grad,
 *   w -= lr·weight_decay·w;  m += (1-beta1)·(g - m);  v = beta2·v + (1-beta2)·g²;
 *   w -= lr/(1-beta1^t) · m / (sqrt(v)/sqrt(1-beta2^t) + eps).
 *
 * All tensors are dense [n].
 *   weight               A, the master weights, updated in place
 *   exp_avg, exp_avg_sq  A, or both bf16 if T is bf16; updated in place; w uses the new
 *                        values before they are rounded
 *   grad                 T or A
 *   compute              optional output: the new weights rounded to its type, T
 *                        (without it, T is the type of grad)
 *   t                    number of the update, >= 1 */
typedef struct pt_op_adamw {
    pt_tensor_t weight, exp_avg, exp_avg_sq, grad, compute;
    double lr, beta1, beta2, eps, weight_decay, grad_scale;
    int64_t t;
} pt_op_adamw_t;

/* accumulator (+= mod 2^64) digest of x as defined in digest.h. x is 2-D; element (r,c)
 * has the global index first + r·pitch + c. accumulator: int64 [1]. */
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

/* Kernel table of a backend. The functions trust arguments that pt_op_NAME has
 * checked. */
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
    double sec; /* time of the call; on a synchronous device such as cpu, of the work */
} pt_op_count_t;

const char *pt_op_name(pt_op_id_t op);
/* Workspace of an attention call, forward or backward, on any backend: what
 * pt_device_set_workspace must have given to its stream.
 *   dtype              T
 *   keys               keys of one sequence if a backward call gives dk and dv in a
 *                      16-bit type; else 0
 *   qk_width, v_width  D and Dv */
int64_t pt_attention_workspace(const struct pt_device *device, pt_dtype_t dtype,
                               int64_t keys, int64_t qk_width, int64_t v_width);
/* Workspace of a gemm with a and b of this type: blocks of fp32 for the 16-bit
 * types. */
int64_t pt_gemm_workspace(pt_dtype_t dtype);
/* Workspace of embed_bwd: linked lists of the rows of dy if dtable has a 16-bit
 * type. */
int64_t pt_embed_bwd_workspace(pt_dtype_t table, int64_t table_rows, int64_t rows);
/* FLOPs of causal attention: half the square for Tq = Tk. With `pairs` of query and
 * key: 4·pairs·D forward (two products), 10·pairs·D backward (five). */
int64_t pt_attention_flops(const pt_attention_shape_t *shape, const pt_tensor_t *q,
                           const pt_tensor_t *v, bool forward);

#endif
