/* Final norm, output head and loss as one op. Its forward pass goes over blocks of
 * rows: logits exist for one block at a time, and gradients of weights and input are
 * made while they do. */
#include "src/model/block.h"

/* Elements of a block of logits, at most (if 64 rows allow). Depends on the
 * vocabulary only: the cut of the head's GEMMs follows from it. */
#define BLOCK_ELEMENTS (INT64_C(1) << 25)
enum { ROW_MULTIPLE = 64 };

enum {
    X = PT_TENSOR_INPUT,
    MEAN,
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

static int64_t block_rows(const pt_model_t *model)
{
    int64_t rows = BLOCK_ELEMENTS / model->arch->vocab / ROW_MULTIPLE * ROW_MULTIPLE;

    return rows < ROW_MULTIPLE ? ROW_MULTIPLE : rows;
}

static void plan(const pt_model_t *model, pt_block_t *block)
{
    const pt_arch_t *arch = model->arch;
    int64_t rows = block_rows(model) < model->rows ? block_rows(model) : model->rows;

    pt_block_rows(model, block, X, PT_KEEP_PASSED, arch->hidden);
    pt_block_stats(model, block, RSTD, PT_KEEP_NOTHING, 0);
    pt_block_rows(model, block, NORMED, PT_KEEP_NOTHING, arch->hidden);
    pt_block_vector(model, block, LOGITS, PT_KEEP_NOTHING, rows * arch->vocab);
    for (int i = MAXIMUM; i <= LOSS; i++)
        pt_block_stats(model, block, i, PT_KEEP_NOTHING, 0);
    if (arch->norm == PT_NORM_LAYER)
        pt_block_stats(model, block, MEAN, PT_KEEP_NOTHING, 0);
    if (!model->options.training)
        return;
    pt_block_rows(model, block, DNORMED, PT_KEEP_NOTHING, arch->hidden);
    pt_block_gradient(model, block, DNORM, PT_KEEP_NOTHING, arch->hidden);
    if (arch->norm == PT_NORM_LAYER)
        pt_block_gradient(model, block, DNORM_BIAS, PT_KEEP_NOTHING, arch->hidden);
    pt_block_rows(model, block, DX, PT_KEEP_RESULT, arch->hidden);
}

static pt_norm_call_t norm(const pt_call_t *call)
{
    const pt_tensor_t *t = call->t;

    return (pt_norm_call_t){.kind = call->model->arch->norm,
                            .weight = PT_ROLE_FINAL_NORM,
                            .bias = PT_ROLE_FINAL_NORM_BIAS,
                            .x = t[X],
                            .y = t[NORMED],
                            .mean = t[MEAN],
                            .rstd = t[RSTD],
                            .dy = t[DNORMED],
                            .dx = t[DX],
                            .dweight = t[DNORM],
                            .dbias = t[DNORM_BIAS]};
}

/* [V,C], in both cases: a tied head reads the embedding and has a gradient of its
 * own. */
static pt_tensor_t weight(const pt_call_t *call)
{
    return pt_call_weight(call, call->model->arch->tied ? PT_ROLE_TOKEN_EMBEDDING
                                                        : PT_ROLE_HEAD);
}

static pt_tensor_t weight_grad(const pt_call_t *call)
{
    return call->model->arch->tied ? call->model->tied_grad
                                   : pt_call_grad(call, PT_ROLE_HEAD);
}

/* Rows [first, first + rows) of the step. */
typedef struct rows {
    pt_tensor_t normed, dnormed, logits, label, mask, maximum, sum, target, loss;
} rows_t;

static rows_t cut_rows(const pt_call_t *call, int64_t first, int64_t rows)
{
    const pt_tensor_t *t = call->t;
    const pt_batch_view_t *batch = call->batch;
    int64_t vocab = call->model->arch->vocab;
    rows_t cut = {
        .normed = pt_tensor_slice(t[NORMED], 0, first, rows),
        .dnormed = pt_tensor_slice(t[DNORMED], 0, first, rows),
        .logits = pt_tensor_2d(t[LOGITS].data, t[LOGITS].dtype, t[LOGITS].memory, rows,
                               vocab),
        .label = pt_tensor_slice(batch->label, 0, first, rows),
        .mask = pt_tensor_slice(batch->mask, 0, first, rows),
        .maximum = pt_tensor_slice(t[MAXIMUM], 0, first, rows),
        .sum = pt_tensor_slice(t[SUM], 0, first, rows),
        .target = pt_tensor_slice(t[TARGET], 0, first, rows),
        .loss = pt_tensor_slice(t[LOSS], 0, first, rows),
    };

    return cut;
}

static pt_status_t block_loss(const pt_call_t *call, const rows_t *r)
{
    pt_device_t *device = call->model->device;

    PT_TRY(pt_linear_fwd(call, r->normed, weight(call), (pt_tensor_t){0}, r->logits));
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

static pt_status_t block_gradient(const pt_call_t *call, const rows_t *r)
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
    PT_TRY(pt_linear_bwd_input(call, r->logits, weight(call), r->dnormed));
    return pt_linear_bwd_weight(call, r->logits, r->normed, weight_grad(call),
                                (pt_tensor_t){0});
}

static pt_status_t each_block(const pt_call_t *call)
{
    int64_t step = block_rows(call->model);

    for (int64_t first = 0; first < call->rows; first += step) {
        int64_t left = call->rows - first;
        rows_t r = cut_rows(call, first, left < step ? left : step);

        PT_TRY(block_loss(call, &r));
        if (call->batch->training)
            PT_TRY(block_gradient(call, &r));
    }
    return PT_OK;
}

/* The embedding's weights are used outside its block. */
static pt_status_t need_tied(const pt_call_t *call, bool need)
{
    const pt_model_t *model = call->model;
    int unit = model->table->params[call->block->param[PT_ROLE_TOKEN_EMBEDDING]].unit;

    if (!model->arch->tied)
        return PT_OK;
    return need ? pt_units_need(model->units, unit, call->stream)
                : pt_units_release(model->units, unit, call->stream);
}

static pt_status_t forward(pt_call_t *call)
{
    pt_model_t *model = call->model;
    pt_norm_call_t last = norm(call);

    PT_TRY(pt_norm_forward(call, &last));
    PT_TRY(need_tied(call, true));
    PT_TRY(each_block(call));
    PT_TRY(need_tied(call, false));
    if (model->mesh->coordinate[PT_AXIS_TENSOR] == 0)
        PT_TRY(pt_op_sum(
            model->device, call->stream,
            &(pt_op_sum_t){.x = call->t[LOSS], .accumulator = model->accumulator}));
    if (!call->batch->training)
        return PT_OK;
    PT_TRY(pt_norm_backward_input(call, &last));
    return pt_norm_backward_weight(call, &last);
}

pt_tensor_t pt_head_gradient(const pt_model_t *model, const pt_action_t *action,
                             int64_t rows)
{
    return pt_model_bind(model, &model->block[model->blocks - 1], DX, action, rows);
}

pt_status_t pt_head_logits(pt_call_t *call, int64_t first_row, pt_tensor_t logits)
{
    pt_norm_call_t last = norm(call);
    int64_t step = block_rows(call->model), rows = logits.shape[0];

    PT_TRY(pt_norm_forward(call, &last));
    PT_TRY(need_tied(call, true));
    for (int64_t first = 0; first < rows; first += step) {
        int64_t count = rows - first < step ? rows - first : step;
        rows_t r = cut_rows(call, first_row + first, count);

        PT_TRY(pt_linear_fwd(call, r.normed, weight(call), (pt_tensor_t){0}, r.logits));
        PT_TRY(
            pt_op_cast(call->model->device, call->stream,
                       &(pt_op_cast_t){.x = r.logits,
                                       .y = pt_tensor_slice(logits, 0, first, count)}));
    }
    return need_tied(call, false);
}

const pt_block_ops_t pt_head_block = {.name = "head", .plan = plan, .forward = forward};
