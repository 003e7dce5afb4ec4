/* Linear layers: the only place that calls GEMM, so the list of GEMM calls is
 * decided here. */
#include "src/model/block.h"

/* FLOPs of one call: some tens of milliseconds of a CPU core, after which communication gets
 * its turn; but no side of a call is cut below SIDE, where packing operands again for each
 * call would begin to cost (a tenth of the time at 128). */
#define CALL_FLOPS (INT64_C(1) << 33)
enum { SIDE = 512, SIDE_MULTIPLE = 64 };

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

/* Cuts `side` of c until side × other has at most `elements`. */
static void cut_side(int64_t *side, int64_t other, int64_t elements)
{
    int64_t most = elements / other / SIDE_MULTIPLE * SIDE_MULTIPLE;

    most = most < SIDE ? SIDE : most;
    if (*side * other > elements && *side > most)
        *side = most;
}

/* gemm in calls of tiles of c: the longer side is cut first. */
static pt_status_t cut_gemm(const pt_call_t *call, const pt_op_gemm_t *whole)
{
    int64_t rows = whole->c.shape[0], cols = whole->c.shape[1];
    int64_t depth = whole->a.shape[whole->trans_a ? 0 : 1];
    int64_t elements = CALL_FLOPS / 2 / depth, tile_rows = rows, tile_cols = cols;

    if (rows > cols)
        cut_side(&tile_rows, cols, elements);
    cut_side(&tile_cols, tile_rows, elements);
    cut_side(&tile_rows, tile_cols, elements);
    for (int64_t row = 0; row < rows; row += tile_rows)
        for (int64_t col = 0; col < cols; col += tile_cols) {
            int64_t m = rows - row < tile_rows ? rows - row : tile_rows;
            int64_t n = cols - col < tile_cols ? cols - col : tile_cols;
            pt_op_gemm_t part = *whole;

            part.a = pt_tensor_slice(whole->a, whole->trans_a ? 1 : 0, row, m);
            part.b = pt_tensor_slice(whole->b, whole->trans_b ? 0 : 1, col, n);
            part.c = pt_tensor_slice(pt_tensor_slice(whole->c, 0, row, m), 1, col, n);
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
