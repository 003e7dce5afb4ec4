/* Linear layers: the only place that calls GEMM, so the list of GEMM calls is
 * decided here. */
#include "src/model/block.h"

/* FLOPs of one call, at most (if 64 rows allow): tens of milliseconds of a CPU core,
 * after which communication gets its turn. */
#define CALL_FLOPS (INT64_C(1) << 31)
enum { ROW_MULTIPLE = 64 };

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

/* Rows of the output of one call, when a row costs 2·depth·cols FLOPs. */
static int64_t rows_of_call(int64_t depth, int64_t cols)
{
    int64_t rows = CALL_FLOPS / 2 / depth / cols / ROW_MULTIPLE * ROW_MULTIPLE;

    return rows < ROW_MULTIPLE ? ROW_MULTIPLE : rows;
}

/* gemm, cut along the rows of c. */
static pt_status_t cut_gemm(const pt_call_t *call, const pt_op_gemm_t *whole)
{
    int64_t rows = whole->c.shape[0], depth = whole->a.shape[whole->trans_a ? 0 : 1];
    int64_t step = rows_of_call(depth, whole->c.shape[1]);

    for (int64_t first = 0; first < rows; first += step) {
        int64_t count = rows - first < step ? rows - first : step;
        pt_op_gemm_t part = *whole;

        part.a = pt_tensor_slice(whole->a, whole->trans_a ? 1 : 0, first, count);
        part.c = pt_tensor_slice(whole->c, 0, first, count);
        PT_TRY(pt_op_gemm(call->model->device, call->stream, &part));
        PT_TRY(pt_comm_progress(call->model->engine));
    }
    return PT_OK;
}

pt_status_t pt_linear_fwd(const pt_call_t *call, pt_tensor_t x, pt_tensor_t weight,
                          pt_tensor_t bias, pt_tensor_t y)
{
    PT_TRY(
        cut_gemm(call, &(pt_op_gemm_t){.a = x, .b = weight, .c = y, .trans_b = true}));
    if (bias.data)
        PT_TRY(pt_op_bias_fwd(call->model->device, call->stream,
                              &(pt_op_bias_fwd_t){.x = y, .bias = bias}));
    return PT_OK;
}

pt_status_t pt_linear_bwd_input(const pt_call_t *call, pt_tensor_t dy,
                                pt_tensor_t weight, pt_tensor_t dx)
{
    return cut_gemm(call, &(pt_op_gemm_t){.a = dy, .b = weight, .c = dx});
}

pt_status_t pt_linear_bwd_weight(const pt_call_t *call, pt_tensor_t dy, pt_tensor_t x,
                                 pt_tensor_t dweight, pt_tensor_t dbias)
{
    PT_TRY(cut_gemm(
        call, &(pt_op_gemm_t){
                  .a = dy, .b = x, .c = dweight, .trans_a = true, .accumulate = true}));
    if (dbias.data)
        PT_TRY(pt_op_bias_bwd(call->model->device, call->stream,
                              &(pt_op_bias_bwd_t){.dy = dy, .dbias = dbias}));
    return PT_OK;
}
