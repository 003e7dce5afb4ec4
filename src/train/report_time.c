/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of the steps went, on this rank. */
#include "src/train/run.h"

#include <stdlib.h>

static int report_longer_first(const void *a, const void *b)
{
    const report_share_t *x = a, *y = b;
    return (x->sec < y->sec) - (x->sec > y->sec);
}

int report_time(const run_t *run, report_share_t out[REPORT_SHARES])
{
    double other = run->train_sec - run->data_sec - run->comm_sec;
    int count = 0;
    for (int op = 0; op < PT_OP_COUNT; op++) {
        other -= run->op_sec[op];
        if (run->op_sec[op] > 0)
            out[count++] =
                (report_share_t){pt_op_name((pt_op_id_t)op), run->op_sec[op]};
    }
    out[count++] = (report_share_t){"data", run->data_sec};
    out[count++] = (report_share_t){"communication", run->comm_sec};
    out[count++] = (report_share_t){"other", other};
    qsort(out, (size_t)count, sizeof *out, report_longer_first);
    return count;
}
