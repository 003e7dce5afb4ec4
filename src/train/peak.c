#include "penta/base/alloc.h"
#include "penta/base/clock.h"
#include "penta/base/log.h"
#include "pt_version.h"
#include "src/train/private.h"

#include <stdio.h>

/* Best of a few products of the probe matrices; a rank that shares its core still meets it alone
 * once in a while. */
static pt_status_t probe(pt_trainer_t *t, double *flops)
{
    int64_t n = t->probe[0].shape[0];
    pt_op_gemm_t gemm = {.a = t->probe[0], .b = t->probe[1], .c = t->probe[2]};
    *flops = 0;
    for (int m = 0; m < 3; m++)
        PT_TRY(pt_op_fill(t->device, t->stream,
                          &(pt_op_fill_t){.x = t->probe[m], .value = 1}));
    for (int round = 0; round < 4; round++) {
        PT_TRY(pt_comm_wait_stream(t->engine, t->stream));
        double start = pt_clock_sec();
        PT_TRY(pt_op_gemm(t->device, t->stream, &gemm));
        PT_TRY(pt_comm_wait_stream(t->engine, t->stream));
        double rate = 2.0 * (double)(n * n * n) / (pt_clock_sec() - start);
        *flops = rate > *flops ? rate : *flops;
    }
    return PT_OK;
}

pt_status_t pt_train_measure_peak(pt_trainer_t *t, double *flops)
{
    double mine = 0;
    pt_status_t status = probe(t, &mine);
    int64_t sum = (int64_t)mine;
    PT_TRY(pt_comm_exchange(t->mesh.world, NULL, 0, &sum, 1, status));
    *flops = (double)sum;
    return PT_OK;
}

void pt_train_build_text(const pt_trainer_t *t, char *buffer, size_t size)
{
    char libraries[PT_CHECKPOINT_TEXT];
    pt_checkpoint_libraries(libraries, sizeof libraries);
    snprintf(buffer, size, "penta %s (%s), %s, %s, %s", PT_VERSION, PT_GIT_REVISION,
             libraries, t->device->library, PT_COMPILER);
}

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
    pt_comm_t *world = t->mesh.world;
    char mine[HOST_NAME] = "", *all = NULL;
    int ranks = pt_comm_size(world);
    bool root = pt_comm_rank(world) == 0;
    *out = NULL;
    snprintf(mine, sizeof mine, "%s", pt_log_host());
    pt_status_t status =
        pt_alloc("host names", root ? (size_t)ranks * HOST_NAME : 1, 1, (void **)&all);
    PT_TRY_GOTO(done, pt_comm_agree(world, status, false));
    PT_TRY_GOTO(done, pt_comm_gather_bytes(world, 0, mine, sizeof mine, all));
    status = root && !t->device->dry ? host_text(all, ranks, out)
                                     : pt_strdup("host map", "", out);
    PT_TRY_GOTO(done, pt_comm_agree(world, status, false));
done:
    pt_free(all);
    return status;
}
