/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers. GEMM is called here only, so this file decides the list of GEMM calls. */
#include "src/model/block.h"

/* FLOPs of one call: some tens of milliseconds of a CPU core, after which communication is progressed. No side of a
 * call is cut below SIDE: packing operands for each call would become expensive (a tenth of the time at 128). */
#define CALL_FLOPS (INT64_C(1) << 33)
enum { SIDE = 512, SIDE_MULTIPLE = 64 };

/* Cuts `side` of c until side × other has at most `elements`. */
static void linear_cut_side(int64_t *side, int64_t other, int64_t elements)
{
    int64_t most = elements / other / SIDE_MULTIPLE * SIDE_MULTIPLE;

    most = most < SIDE ? SIDE : most;
    if (*side * other > elements && *side > most)
        *side = most;
}

/* Computes c tile by tile; the longer side is cut first. */
static pt_status_t linear_cut_gemm(const pt_call_t *call, const pt_op_gemm_t *whole)
{
    int64_t rows = whole->c.shape[0], cols = whole->c.shape[1];
    int64_t depth = whole->a.shape[whole->trans_a ? 0 : 1];
    int64_t elements = CALL_FLOPS / 2 / depth, tile_rows = rows, tile_cols = cols;

    if (rows > cols)
        linear_cut_side(&tile_rows, cols, elements);
    linear_cut_side(&tile_cols, tile_rows, elements);
    linear_cut_side(&tile_rows, tile_cols, elements);
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

pt_status_t pt_linear_forward(const pt_call_t *call, pt_tensor_t x, pt_tensor_t weight,
                              pt_tensor_t y)
{
    return linear_cut_gemm(
        call, &(pt_op_gemm_t){.a = x, .b = weight, .c = y, .trans_b = true});
}

pt_status_t pt_linear_input(const pt_call_t *call, pt_tensor_t dy, pt_tensor_t weight,
                            pt_tensor_t dx)
{
    return linear_cut_gemm(call, &(pt_op_gemm_t){.a = dy, .b = weight, .c = dx});
}

pt_status_t pt_linear_weight(const pt_call_t *call, pt_tensor_t dy, pt_tensor_t x,
                             pt_tensor_t dweight)
{
    return linear_cut_gemm(
        call, &(pt_op_gemm_t){
                  .a = dy, .b = x, .c = dweight, .trans_a = true, .accumulate = true});
}

pt_status_t pt_bias_weight(const pt_call_t *call, pt_tensor_t dy, pt_role_t bias)
{
    pt_tensor_t dbias = pt_call_grad(call, bias);

    if (dbias.ndim == 0)
        return PT_OK;
    return pt_op_bias_bwd(call->model->device, call->stream,
                          &(pt_op_bias_bwd_t){.dy = dy, .dbias = dbias});
}

/* ---- the node ---- */

static pt_status_t linear_forward(const pt_call_t *call, const pt_node_t *node)
{
    pt_tensor_t y = pt_call_operand(call, node, PT_Y);
    pt_tensor_t bias = pt_call_weight(call, node->role[1]);

    PT_TRY(pt_linear_forward(call, pt_call_operand(call, node, PT_X),
                             pt_call_weight(call, node->role[0]), y));
    if (bias.ndim == 0)
        return PT_OK;
    return pt_op_bias_fwd(call->model->device, call->stream,
                          &(pt_op_bias_fwd_t){.x = y, .bias = bias});
}

static pt_status_t linear_input(const pt_call_t *call, const pt_node_t *node)
{
    return pt_linear_input(call, pt_call_operand(call, node, PT_DY),
                           pt_call_weight(call, node->role[0]),
                           pt_call_operand(call, node, PT_DX));
}

static pt_status_t linear_weight(const pt_call_t *call, const pt_node_t *node)
{
    pt_tensor_t dy = pt_call_operand(call, node, PT_DY);

    PT_TRY(pt_linear_weight(call, dy, pt_call_operand(call, node, PT_X),
                            pt_call_grad(call, node->role[0])));
    return pt_bias_weight(call, dy, node->role[1]);
}

/* Cut by rows of its weights ("column parallel"), a layer makes its share of y's columns from all of x; cut by
 * columns ("row parallel"), it takes its share of x's columns and makes a part of the sum, to which a bias must not
 * be added on every rank (Shoeybi et al. 2019, section 3). */
static pt_status_t linear_placement(pt_program_t *program, const pt_node_t *node,
                                    pt_axis_t axis)
{
    pt_dist_t weight = pt_program_placement_of(program, node->role[0], axis);
    pt_dist_t x = pt_program_placement(program, node->operand[PT_X], axis), y = x;
    const char *name = program->tensor[node->operand[PT_X]].name;
    bool is_cut = weight.placement == PT_SHARDED,
         by_columns = is_cut && weight.dim == 1;
    bool fits = by_columns ? x.placement == PT_SHARDED && x.dim == 1
                           : !is_cut || x.placement == PT_REPLICATED;

    PT_TRY(pt_program_expect_whole(program, node, PT_X, axis, by_columns ? -1 : 1));
    PT_CHECK(
        fits, PT_INTERNAL,
        "block %s: node %s has a share of the %s of its weights on the %s axis, but %s "
        "of %s",
        program->name, node->kind->name, by_columns ? "columns" : "rows",
        pt_axis_name(axis), by_columns ? "all columns" : "a share", name);
    PT_CHECK(!by_columns || !pt_program_has(program, node->role[1]), PT_INTERNAL,
             "block %s: node %s adds its bias to each part of a sum on the %s axis",
             program->name, node->kind->name, pt_axis_name(axis));
    if (is_cut)
        y = by_columns ? (pt_dist_t){PT_PARTIAL_SUM, -1} : (pt_dist_t){PT_SHARDED, 1};
    pt_program_set_placement(program, node->operand[PT_Y], axis, y);
    return PT_OK;
}

static pt_status_t linear_placement_gradient(pt_program_t *program,
                                             const pt_node_t *node, pt_axis_t axis)
{
    pt_dist_t weight = pt_program_placement_of(program, node->role[0], axis);
    pt_dist_t dx = pt_program_placement(program, node->operand[PT_X], axis);

    PT_TRY(pt_program_expect_whole(program, node, PT_DY, axis, -1));
    if (weight.placement == PT_SHARDED && weight.dim == 0)
        dx = (pt_dist_t){PT_PARTIAL_SUM, -1};
    pt_program_set_placement(program, node->operand[PT_DX], axis, dx);
    return PT_OK;
}

static const pt_node_kind_t linear_node = {
    .name = "linear",
    .pass = {{PT_USE(X), PT_USE(Y), linear_forward, NULL},
             {PT_USE(DY), PT_USE(DX), linear_input, NULL},
             {PT_USE(X) | PT_USE(DY), 0, linear_weight, NULL}},
    .placement = linear_placement,
    .placement_gradient = linear_placement_gradient};

void pt_add_linear(pt_program_t *program, int x, int y, pt_role_t weight, pt_role_t bias)
{
    pt_program_add(program, &(pt_node_t){.kind = &linear_node,
                                         .operand = {[PT_X] = x, [PT_Y] = y},
                                         .role = {weight, bias}});
}
