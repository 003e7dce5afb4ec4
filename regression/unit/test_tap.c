/* TEST timeout=10 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include <string.h>

#include "pt_version.h"

static int other_rank_failed(int value, void *context)
{
    (void)context;
    return value + 1;
}

int main(void)
{
    tap_ok(1, "a result is printed");
    tap_skip("a skipped result counts");
    tap_ok(strlen(PT_VERSION) > 0 && strlen(PT_GIT_REVISION) > 0,
           "the build has a version");
    tap_ok(strlen(PT_COMPILER) > 0, "the build knows its compiler");

    /* Silent as rank 1: what the harness thinks of failures elsewhere. */
    tap_mpi(1, other_rank_failed, NULL);
    int agreed = tap_all(1, "holds here, fails on another rank");
    int status = tap_done();
    tap_mpi(0, NULL, NULL);
    tap_state.failed = 0;
    tap_state.count--;
    tap_ok(!agreed, "one rank's failure is every rank's");
    tap_ok(status == 1, "the exit status counts other ranks");
    return tap_done();
}
