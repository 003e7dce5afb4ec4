#include "src/model/block.h"

static pt_tensor_t bias_of(const pt_call_t *call, const pt_norm_call_t *norm)
{
    return norm->bias == PT_ROLE_COUNT ? (pt_tensor_t){0}
                                       : pt_call_weight(call, norm->bias);
}

pt_status_t pt_norm_forward(const pt_call_t *call, const pt_norm_call_t *norm)
{
    return pt_op_norm_fwd(
        call->model->device, call->stream,
        &(pt_op_norm_fwd_t){.x = norm->x,
                            .weight = pt_call_weight(call, norm->weight),
                            .bias = bias_of(call, norm),
                            .y = norm->y,
                            .mean = norm->mean,
                            .rstd = norm->rstd,
                            .kind = norm->kind,
                            .eps = call->model->arch->norm_eps});
}

static pt_status_t clear(const pt_call_t *call, pt_tensor_t x)
{
    return pt_op_fill(call->model->device, call->stream, &(pt_op_fill_t){.x = x});
}

pt_status_t pt_norm_backward_input(const pt_call_t *call, const pt_norm_call_t *norm)
{
    PT_TRY(clear(call, norm->dweight));
    if (norm->dbias.ndim > 0)
        PT_TRY(clear(call, norm->dbias));
    PT_TRY(pt_op_norm_bwd_weight(call->model->device, call->stream,
                                 &(pt_op_norm_bwd_weight_t){.dy = norm->dy,
                                                            .x = norm->x,
                                                            .mean = norm->mean,
                                                            .rstd = norm->rstd,
                                                            .dweight = norm->dweight,
                                                            .dbias = norm->dbias,
                                                            .kind = norm->kind}));
    return pt_op_norm_bwd_input(
        call->model->device, call->stream,
        &(pt_op_norm_bwd_input_t){.dy = norm->dy,
                                  .x = norm->x,
                                  .weight = pt_call_weight(call, norm->weight),
                                  .mean = norm->mean,
                                  .rstd = norm->rstd,
                                  .dx = norm->dx,
                                  .kind = norm->kind,
                                  .accumulate = norm->accumulate});
}

static pt_tensor_t as_row(pt_tensor_t x)
{
    return pt_tensor_2d(x.data, x.dtype, x.memory, 1, x.shape[0]);
}

static pt_status_t add_to(const pt_call_t *call, pt_tensor_t grad, pt_tensor_t part)
{
    pt_tensor_t sum = as_row(grad);

    return pt_op_add(call->model->device, call->stream,
                     &(pt_op_add_t){.a = sum, .b = as_row(part), .y = sum});
}

pt_status_t pt_norm_backward_weight(const pt_call_t *call, const pt_norm_call_t *norm)
{
    PT_TRY(add_to(call, pt_call_grad(call, norm->weight), norm->dweight));
    if (norm->dbias.ndim > 0)
        PT_TRY(add_to(call, pt_call_grad(call, norm->bias), norm->dbias));
    return PT_OK;
}
