/* SPDX-License-Identifier: Apache-2.0 */
/* run.lock left by another run: nobody holds it, so whatever it says it is taken
 * over. */
#include "regression/fuzz/rundir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pt_rundir_t *dir;
    char path[128];
    struct stat info;

    fuzz_begin();
    rundir_put("run.lock", data, size, path);
    pt_status_t status = pt_rundir_open(rundir, &dir);
    FUZZ_CHECK(status == PT_OK, "%s", pt_error_last()->text);
    status = pt_rundir_check_owner(dir);
    FUZZ_CHECK(status == PT_OK, "%s", pt_error_last()->text);
    /* Now another run claims it. */
    rundir_put("run.lock", data, size, path);
    status = pt_rundir_check_owner(dir);
    fuzz_refusal(status, PT_CONFIG, PT_CONFIG);
    pt_rundir_close(dir);
    /* Unless the input happens to name this process. */
    FUZZ_CHECK(status == PT_OK || stat(path, &info) == 0,
               "another run's lock was removed");
    fuzz_end();
    return 0;
}
