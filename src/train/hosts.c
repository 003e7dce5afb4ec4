/* SPDX-License-Identifier: Apache-2.0 */
/* Where each rank runs, and as which process: hosts.txt. */
#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "src/train/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HOST_NAME = 64 };

static pt_status_t host_text(const char *names, int ranks, char **out)
{
    size_t size = (size_t)ranks * (HOST_NAME + 16) + 1;
    PT_TRY(pt_alloc("host map", size, 1, (void **)out));
    pt_text_t text = pt_text_init(*out, size);
    for (int r = 0; r < ranks; r++)
        pt_text_add(&text, "%d %.*s\n", r, HOST_NAME - 1, names + (size_t)r * HOST_NAME);
    return PT_OK;
}

pt_status_t pt_train_host_map(pt_trainer_t *t, char **out)
{
    pt_comm_t *world = t->session.mesh->world;
    char mine[HOST_NAME] = "", *all = NULL;
    int ranks = pt_comm_size(world);
    bool root = pt_comm_rank(world) == 0;
    *out = NULL;
    snprintf(mine, sizeof mine, "%s", pt_log_host());
    pt_status_t status =
        pt_alloc("host names", root ? (size_t)ranks * HOST_NAME : 1, 1, (void **)&all);
    PT_TRY_GOTO(done, pt_comm_agree(world, status, false));
    PT_TRY_GOTO(done, pt_comm_gather_bytes(world, 0, mine, sizeof mine, all));
    status = root && !t->session.device->dry ? host_text(all, ranks, out)
                                             : pt_strdup("host map", "", out);
    PT_TRY_GOTO(done, pt_comm_agree(world, status, false));
done:
    pt_free(all);
    return status;
}

/* "RANK HOST" of the lines of `hosts`, with the process behind. */
static pt_status_t hosts_write_map(run_t *run, const int64_t *pids, int ranks)
{
    const char *line = run->trainer.hosts;
    size_t size = strlen(line) + 24 * (size_t)ranks + 1;
    char *buffer;
    PT_TRY(pt_alloc("host map", size, 1, (void **)&buffer));
    pt_text_t text = pt_text_init(buffer, size);
    for (int r = 0; r < ranks && *line; r++) {
        int length = (int)strcspn(line, "\n");
        pt_text_add(&text, "%.*s %" PRId64 "\n", length, line, pids[r]);
        line += length + (line[length] == '\n');
    }
    pt_status_t status = pt_rundir_write(run->dir, "hosts.txt", buffer);
    pt_free(buffer);
    return status;
}

pt_status_t run_write_hosts(run_t *run)
{
    pt_comm_t *world = run->trainer.session.mesh->world;
    int ranks = pt_comm_size(world);
    int64_t mine = getpid(), *all = NULL;
    pt_status_t status = PT_NEW("process numbers", run->root ? ranks : 1, &all);
    PT_TRY_GOTO(done, pt_comm_agree(world, status, false));
    PT_TRY_GOTO(done, pt_comm_gather_bytes(world, 0, &mine, sizeof mine, all));
    status = run->root ? hosts_write_map(run, all, ranks) : PT_OK;
    PT_TRY_GOTO(done, pt_comm_agree(world, status, false));
done:
    pt_free(all);
    return status;
}
