/* SPDX-License-Identifier: Apache-2.0 */
/* Final norm, output head and loss as one op. Its forward pass goes over blocks of
 * rows: logits exist for one block at a time, and gradients of weights and input are
 * made while they do. */
#include "src/model/block.h"

/* Elements of a block of logits, at most (if 64 rows allow). Depends on the
 * vocabulary only: the cut of the head's GEMMs follows from it. */
#define BLOCK_ELEMENTS (INT64_C(1) << 25)
enum { ROW_MULTIPLE = 64 };

/* The head's own tensors, in the order in which they are described. */
enum {
    MEAN = PT_TENSORS_COMMON,
    RSTD,
    NORMED,
    LOGITS,
    MAXIMUM,
    SUM,
    TARGET,
    LOSS,
    DNORMED,
    DNORM,
    DNORM_BIAS,
    DX
};

/* Rows of a block of logits, of at most `rows`. */
static int64_t head_block_rows(const pt_arch_t *arch, int64_t rows)
{
    int64_t most = BLOCK_ELEMENTS / arch->vocab / ROW_MULTIPLE * ROW_MULTIPLE;

    most = most < ROW_MULTIPLE ? ROW_MULTIPLE : most;
    return most < rows ? most : rows;
}

static pt_norm_args_t head_norm(const pt_call_t *call)
{
    return (pt_norm_args_t){.kind = call->model->arch->norm,
                            .weight = PT_ROLE_FINAL_NORM,
                            .bias = PT_ROLE_FINAL_NORM_BIAS,
                            .x = pt_call_tensor(call, PT_TENSOR_X),
                            .y = pt_call_tensor(call, NORMED),
                            .mean = pt_call_tensor(call, MEAN),
                            .rstd = pt_call_tensor(call, RSTD),
                            .dy = pt_call_tensor(call, DNORMED),
                            .dx = pt_call_tensor(call, DX),
                            .dweight = pt_call_tensor(call, DNORM),
                            .dbias = pt_call_tensor(call, DNORM_BIAS)};
}

/* [V,C], in both cases: a tied head reads the embedding and has a gradient of its
 * own. */
static pt_tensor_t head_weight(const pt_call_t *call)
{
    return pt_call_weight(call, call->model->arch->tied ? PT_ROLE_TOKEN_EMBEDDING
                                                        : PT_ROLE_HEAD);
}

static pt_tensor_t head_weight_grad(const pt_call_t *call)
{
    return call->model->arch->tied ? call->model->tied_grad
                                   : pt_call_grad(call, PT_ROLE_HEAD);
}

/* Rows [first, first + rows) of the step. */
typedef struct rows {
    pt_tensor_t normed, dnormed, logits, label, mask, maximum, sum, target, loss;
} rows_t;

/* The same rows of a tensor of the head; absent stays absent. */
static pt_tensor_t head_rows(const pt_call_t *call, int tensor, int64_t first,
                             int64_t rows)
{
    pt_tensor_t x = pt_call_tensor(call, tensor);

    return x.ndim == 0 ? x : pt_tensor_slice(x, 0, first, rows);
}

static rows_t head_cut(const pt_call_t *call, int64_t first, int64_t rows)
{
    pt_tensor_t logits = pt_call_tensor(call, LOGITS);

    return (rows_t){
        .normed = head_rows(call, NORMED, first, rows),
        .dnormed = head_rows(call, DNORMED, first, rows),
        .logits = pt_tensor_2d(logits.data, logits.dtype, logits.memory, rows,
                               call->model->arch->vocab),
        .label = pt_tensor_slice(call->batch->label, 0, first, rows),
        .mask = pt_tensor_slice(call->batch->mask, 0, first, rows),
        .maximum = head_rows(call, MAXIMUM, first, rows),
        .sum = head_rows(call, SUM, first, rows),
        .target = head_rows(call, TARGET, first, rows),
        .loss = head_rows(call, LOSS, first, rows),
    };
}

static pt_status_t head_block_loss(const pt_call_t *call, const rows_t *r)
{
    pt_device_t *device = call->model->device;

    PT_TRY(pt_linear_forward(call, r->normed, head_weight(call), r->logits));
    PT_TRY(pt_op_softmax_stats(
        device, call->stream,
        &(pt_op_softmax_stats_t){.logits = r->logits,
                                 .label = r->label,
                                 .maximum = r->maximum,
                                 .sum = r->sum,
                                 .target = r->target,
                                 .vocab = call->model->arch->vocab}));
    return pt_op_cross_entropy_fwd(device, call->stream,
                                   &(pt_op_cross_entropy_fwd_t){.maximum = r->maximum,
                                                                .sum = r->sum,
                                                                .target = r->target,
                                                                .mask = r->mask,
                                                                .loss = r->loss});
}

static pt_status_t head_block_gradient(const pt_call_t *call, const rows_t *r)
{
    PT_TRY(pt_op_cross_entropy_bwd(
        call->model->device, call->stream,
        &(pt_op_cross_entropy_bwd_t){.logits = r->logits,
                                     .label = r->label,
                                     .mask = r->mask,
                                     .maximum = r->maximum,
                                     .sum = r->sum,
                                     .vocab = call->model->arch->vocab,
                                     .scale = call->batch->loss_scale}));
    PT_TRY(pt_linear_input(call, r->logits, head_weight(call), r->dnormed));
    return pt_linear_weight(call, r->logits, r->normed, head_weight_grad(call));
}

static pt_status_t head_each_block(const pt_call_t *call)
{
    int64_t step = head_block_rows(call->model->arch, call->model->rows);

    for (int64_t first = 0; first < call->rows; first += step) {
        int64_t left = call->rows - first;
        rows_t r = head_cut(call, first, left < step ? left : step);

        PT_TRY(head_block_loss(call, &r));
        if (call->batch->training)
            PT_TRY(head_block_gradient(call, &r));
    }
    return PT_OK;
}

static pt_status_t head_forward(const pt_call_t *call, const pt_node_t *node)
{
    pt_model_t *model = call->model;
    pt_norm_args_t last = head_norm(call);

    (void)node;
    PT_TRY(pt_norm_forward(call, &last));
    PT_TRY(head_each_block(call));
    if (model->mesh->coordinate[PT_AXIS_TENSOR] == 0)
        PT_TRY(pt_op_sum(model->device, call->stream,
                         &(pt_op_sum_t){.x = pt_call_tensor(call, LOSS),
                                        .accumulator = model->accumulator}));
    if (!call->batch->training)
        return PT_OK;
    PT_TRY(pt_norm_input(call, &last));
    return pt_norm_weight(call, &last);
}

pt_tensor_t pt_head_gradient(const pt_model_t *model, const pt_block_t *block,
                             const pt_action_t *action, int64_t rows)
{
    return pt_model_bind(model, block, DX, action, rows);
}

pt_status_t pt_head_logits(const pt_call_t *call, int64_t first_row, pt_tensor_t logits)
{
    pt_norm_args_t last = head_norm(call);
    int64_t step = head_block_rows(call->model->arch, call->model->rows);
    int64_t rows = logits.shape[0];

    PT_TRY(pt_norm_forward(call, &last));
    for (int64_t first = 0; first < rows; first += step) {
        int64_t count = rows - first < step ? rows - first : step;
        rows_t r = head_cut(call, first_row + first, count);

        PT_TRY(pt_linear_forward(call, r.normed, head_weight(call), r.logits));
        PT_TRY(
            pt_op_cast(call->model->device, call->stream,
                       &(pt_op_cast_t){.x = r.logits,
                                       .y = pt_tensor_slice(logits, 0, first, count)}));
    }
    return PT_OK;
}

/* Logits of whole rows. */
static pt_status_t head_placement(pt_program_t *program, const pt_node_t *node,
                                  pt_axis_t axis)
{
    PT_TRY(pt_program_expect_whole(program, node, PT_X, axis, 0));
    return pt_program_expect_whole(program, node, PT_X, axis, 1);
}

/* A head has its gradients in forward; the input pass only hands dx on. */
static const pt_node_kind_t head_node = {.name = "head",
                                         .pass = {{PT_USE(X), 0, head_forward, NULL}},
                                         .placement = head_placement};

void pt_describe_head(pt_program_t *p)
{
    const pt_arch_t *arch = p->context.arch;
    pt_dtype_t grad = pt_units_grad_dtype(p->context.units);
    int64_t logits = head_block_rows(arch, p->context.rows) * arch->vocab;
    bool centred = arch->norm == PT_NORM_LAYER, training = p->context.training;

    pt_program_stats(p, "mean", 0);
    pt_program_stats(p, "1/deviation", 0);
    pt_program_rows(p, "normed", arch->hidden);
    pt_program_vector(p, "logits", arch->dtype, logits);
    pt_program_stats(p, "maximum", 0);
    pt_program_stats(p, "sum", 0);
    pt_program_stats(p, "target", 0);
    pt_program_stats(p, "loss", 0);
    pt_program_rows(p, "dnormed", arch->hidden);
    pt_program_vector(p, "dnorm", grad, arch->hidden);
    pt_program_vector(p, "dnorm bias", grad, arch->hidden);
    pt_program_rows(p, "dx", arch->hidden);
    for (int t = MEAN; t <= DX; t++) {
        bool gradient = t >= DNORMED;
        bool of_layer_norm = t == MEAN || t == DNORM_BIAS;

        if ((!gradient || training) && (!of_layer_norm || centred))
            pt_program_use(p, t, PT_PASS_FORWARD,
                           t == DX ? PT_PASS_INPUT : PT_PASS_FORWARD);
    }
    pt_program_add(p,
                   &(pt_node_t){.kind = &head_node, .operand = {[PT_X] = PT_TENSOR_X}});
}
