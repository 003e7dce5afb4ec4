/* SPDX-License-Identifier: Apache-2.0 */
/* What all transports share. */
#include "src/comm/transport.h"

#include "penta/base/alloc.h"
#include "penta/base/text.h"

#include <stdlib.h>
#include <unistd.h>

void pt_transport_close(pt_transport_t *transport)
{
    if (transport)
        transport->ops->close(transport);
}

void pt_transport_abort(pt_transport_t *transport, int exit_code)
{
    transport->ops->abort(transport, exit_code);
}

void pt_transport_leave(pt_transport_t *transport, int exit_code)
{
    (void)transport;
    _exit(exit_code);
}

pt_status_t pt_transport_group_new(int rank, int size, pt_transport_group_t **out)
{
    PT_TRY(PT_NEW("group of ranks", 1, out));
    **out = (pt_transport_group_t){.rank = rank, .size = size};
    return PT_OK;
}

/* What a launcher tells its ranks. Those that may start others come last: mpiexec
 * starts its helpers by srun, and what srun tells of these is left in the environment
 * of the ranks. */
static const struct launcher {
    const char *rank, *size, *name, *cure;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI",
     "start it with the mpiexec of the MPI library that penta was built with"},
    {"PMI_RANK", "PMI_SIZE", "mpiexec or srun (PMI)",
     "start it with the mpiexec of the MPI library that penta was built with; under "
     "srun set SLURM_MPI_TYPE to another of srun --mpi=list"},
    {"PMIX_RANK", NULL, NULL, NULL},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun",
     "set SLURM_MPI_TYPE to what this MPI library was built for, pmi2 or pmix (srun "
     "--mpi=list)"},
};
enum { LAUNCHERS = sizeof launchers / sizeof launchers[0] };

/* A count that the environment holds; -1: none. */
static int transport_count_of(const char *name)
{
    const char *text = name ? getenv(name) : NULL;
    int64_t count;

    return text && pt_text_int(text, &count) && count >= 0 && count < INT32_MAX
               ? (int)count
               : -1;
}

int pt_transport_launched_rank(void)
{
    for (int i = 0; i < LAUNCHERS; i++)
        if (transport_count_of(launchers[i].rank) >= 0)
            return transport_count_of(launchers[i].rank);
    return 0;
}

int pt_transport_launched_rank_on_host(void)
{
    static const char *const names[] = {"MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "SLURM_LOCALID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (transport_count_of(names[i]) >= 0)
            return transport_count_of(names[i]);
    return 0;
}

/* The launcher that started this process, by its size; NULL: none, or it does not
 * say. */
static const struct launcher *transport_find_launcher(void)
{
    for (int i = 0; i < LAUNCHERS; i++)
        if (transport_count_of(launchers[i].size) > 0)
            return &launchers[i];
    return NULL;
}

pt_status_t pt_transport_check_launch(int size)
{
    const struct launcher *launcher = transport_find_launcher();
    /* srun --pty: one shell, where a single rank may be started by hand. */
    bool by_hand = getenv("SLURM_PTY_PORT") != NULL;

    if (!launcher || size >= transport_count_of(launcher->size) ||
        (by_hand && launcher == &launchers[LAUNCHERS - 1]))
        return PT_OK;
    return PT_FAIL_COMMON(
        PT_CONFIG,
        "%s started %d ranks (%s), but MPI joined only %d of them, so they would train "
        "apart from each other; %s",
        launcher->name, transport_count_of(launcher->size), launcher->size, size,
        launcher->cure);
}
