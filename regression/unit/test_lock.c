/* TEST timeout=30
 *
 * What becomes of run.lock, and of its directory, while a run is at work. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include "penta/base/status.h"
#include "penta/io/rundir.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_no_file(pt_rundir_t *dir)
{
    for (int kind = 0; kind < 3; kind++) {
        unlink("locked/run.lock");
        if (kind == 0)
            mkdir("locked/run.lock", 0777);
        else if (kind == 1)
            mkfifo("locked/run.lock", 0666);
        else
            (void)!symlink("moved", "locked/run.lock");
        tap_ok(pt_rundir_check_owner(dir) == PT_IO &&
                   strstr(pt_error_last()->text, "run.lock: ") &&
                   strstr(pt_error_last()->text, "remove it, and the run continues"),
               "no file any more, and no other run: %s", pt_error_last()->text);
        pt_error_clear();
        remove("locked/run.lock");
        tap_ok(pt_rundir_check_owner(dir) == PT_OK &&
                   access("locked/run.lock", F_OK) == 0,
               "removed: made again");
    }
}

static void test_moved(pt_rundir_t *dir)
{
    rename("locked", "moved");
    tap_ok(pt_rundir_check_owner(dir) == PT_CONFIG &&
               strstr(pt_error_last()->text, "locked: removed") &&
               strstr(pt_error_last()->text, "/moved: give it the old name"),
           "the directory was renamed: %s", pt_error_last()->text);
    pt_error_clear();
    rename("moved", "locked");
    tap_ok(pt_rundir_check_owner(dir) == PT_OK, "and back: still ours");
    rename("locked", "moved");
    unlink("moved/run.lock");
    rmdir("moved/checkpoints");
    (void)pt_rundir_check_owner(dir);
    tap_ok(pt_error_last()->status == PT_CONFIG &&
               strstr(pt_error_last()->text, "locked: removed") &&
               !strstr(pt_error_last()->text, "/moved/"),
           "the lock is gone, too: %s", pt_error_last()->text);
    pt_error_clear();
}

int main(void)
{
    pt_rundir_t *dir = NULL;

    if (!tap_ok(pt_rundir_open("locked", &dir) == PT_OK, "a lock to play with"))
        return tap_done();
    test_no_file(dir);
    test_moved(dir);
    pt_rundir_close(dir);
    return tap_done();
}
