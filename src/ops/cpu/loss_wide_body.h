/* SPDX-License-Identifier: Apache-2.0 */
/* loss_wide_body.h — see each_wide.h; no include guard. */

static void FN(cross_entropy_fwd)(struct pt_stream *stream,
                                  const pt_op_cross_entropy_fwd_t *a)
{
    int64_t rows = a->loss.shape[0];
    const A *maximum = a->maximum.data, *sum = a->sum.data, *target = a->target.data;
    const uint8_t *mask = a->mask.data;
    A *loss = a->loss.data;
    PT_PARALLEL
    for (int64_t r = 0; r < rows; r++)
        loss[r] = mask[r] ? maximum[r] + OF_A(pt_log)(sum[r]) - target[r] : 0;
}
