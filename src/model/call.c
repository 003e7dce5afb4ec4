/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes find in a call. */
#include "src/model/block.h"

pt_tensor_t pt_call_tensor(const pt_call_t *call, int tensor)
{
    if (tensor == PT_ABSENT)
        return (pt_tensor_t){0};
    const pt_block_tensor_t *described = &call->block->program->tensor[tensor];
    if (described->heads > 0) {
        pt_tensor_t x = pt_call_tensor(call, described->host);
        return x.ndim == 0
                   ? x
                   : pt_tensor_split_last(
                         pt_tensor_slice(x, 1, described->first, described->cols),
                         described->heads);
    }
    if (described->host != PT_ABSENT)
        return pt_call_tensor(call, described->host);
    if (tensor == PT_TENSOR_X && call->x.ndim > 0)
        return call->x;
    if (tensor == PT_TENSOR_Y)
        return call->y;
    if (tensor == PT_TENSOR_STREAM_GRADIENT)
        return call->dy;
    return pt_model_bind(call->model, call->block, tensor, call->action, call->rows);
}

pt_tensor_t pt_call_operand(const pt_call_t *call, const pt_node_t *node,
                            pt_operand_t operand)
{
    return pt_call_tensor(call, node->operand[operand]);
}

pt_tensor_t pt_call_weight(const pt_call_t *call, pt_role_t role)
{
    int param = call->block->param[role];

    return param < 0 ? (pt_tensor_t){0} : pt_units_weight(call->model->units, param);
}

pt_tensor_t pt_call_grad(const pt_call_t *call, pt_role_t role)
{
    int param = call->block->param[role];

    return param < 0 ? (pt_tensor_t){0} : pt_units_grad(call->model->units, param);
}

pt_dropout_t pt_call_dropout(const pt_call_t *call, pt_dropout_site_t site)
{
    const pt_model_t *model = call->model;
    int layer = call->block->layer;

    return (pt_dropout_t){.p = call->batch->training ? model->arch->dropout : 0,
                          .seed = model->options.seed,
                          .step = call->batch->step,
                          .layer = layer < 0 ? 0 : layer,
                          .site = (int)site,
                          .sample = call->batch->sample,
                          .place = call->batch->place};
}

pt_status_t pt_call_clear(const pt_call_t *call, pt_tensor_t x)
{
    return pt_op_fill(call->model->device, call->stream, &(pt_op_fill_t){.x = x});
}
