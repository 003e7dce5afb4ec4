/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/clock.h"
#include "src/train/private.h"

/* Best of a few products of the probe matrices; a rank that shares its core still meets
 * it alone once in a while. */
static pt_status_t peak_probe(pt_trainer_t *t, double *flops)
{
    int64_t n = t->probe[0].shape[0];
    pt_op_gemm_t gemm = {.a = t->probe[0], .b = t->probe[1], .c = t->probe[2]};
    *flops = 0;
    for (int m = 0; m < 3; m++)
        PT_TRY(pt_op_fill(t->session.device, t->session.stream,
                          &(pt_op_fill_t){.x = t->probe[m], .value = 1}));
    for (int round = 0; round < 4; round++) {
        PT_TRY(pt_comm_wait_stream(t->session.engine, t->session.stream));
        double start = pt_clock_sec();
        PT_TRY(pt_op_gemm(t->session.device, t->session.stream, &gemm));
        PT_TRY(pt_comm_wait_stream(t->session.engine, t->session.stream));
        double rate = 2.0 * (double)(n * n * n) / (pt_clock_sec() - start);
        *flops = rate > *flops ? rate : *flops;
    }
    return PT_OK;
}

pt_status_t pt_train_measure_peak(pt_trainer_t *t, double *flops)
{
    double mine = 0;
    pt_status_t status = peak_probe(t, &mine);
    int64_t sum = (int64_t)mine;
    PT_TRY(pt_comm_exchange(t->session.mesh->world, NULL, 0, &sum, 1, status));
    *flops = (double)sum;
    return PT_OK;
}
