/* TEST timeout=30 */
/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher said of ranks: which one, and are all of them in this world? */
#include "regression/tap.h"

#include "penta/comm/comm.h"
#include "penta/base/log.h"

#include <string.h>

static const char *const names[] = {
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_RANK",
    "SLURM_PROCID",
    "SLURM_PTY_PORT",
    "SLURM_STEP_NUM_TASKS",
};

/* Nothing of a launcher but these, "NAME=VALUE NAME=VALUE". */
static void launched(const char *text)
{
    char words[256], *rest = words, *word;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    snprintf(words, sizeof words, "%s", text);
    while ((word = strsep(&rest, " ")) && *word) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        setenv(word, equals + 1, 1);
    }
    pt_error_clear();
}

static void takes(const char *text, int size, int rank)
{
    launched(text);
    tap_ok(pt_transport_check_launch(size) == PT_OK, "a world of %d with '%s'", size,
           text);
    tap_ok(pt_transport_launched_rank() == rank, "rank %d", rank);
}

static void refuses(const char *text, int size, const char *words)
{
    launched(text);
    tap_ok(pt_transport_check_launch(size) == PT_CONFIG,
           "refuses a world of %d with '%s'", size, text);
    tap_ok(strstr(pt_error_last()->text, words) != NULL, "the message has '%s'", words);
    tap_ok(pt_error_last()->scope == PT_SCOPE_COMMON, "one rank says it");
}

int main(void)
{
    takes("", 1, 0);
    takes("SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4", 4, 3);
    takes("SLURM_PROCID=0", 1, 0); /* a batch script has no step */
    takes("PMI_RANK=2 PMI_SIZE=3 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", 3, 2);
    /* mpiexec with fewer ranks than srun started helpers of it */
    takes("PMI_RANK=0 PMI_SIZE=1 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", 1, 0);
    takes("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMI_RANK=0 PMI_SIZE=1", 2, 1);
    takes("PMIX_RANK=3 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4", 4, 3);
    takes("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PTY_PORT=4711", 1, 0);
    takes("SLURM_PROCID=x SLURM_STEP_NUM_TASKS=many", 1, 0);
    takes("SLURM_STEP_NUM_TASKS=1", 3, 0); /* several components of one job */
    refuses("SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4", 1, "SLURM_MPI_TYPE");
    refuses("PMIX_RANK=2 SLURM_STEP_NUM_TASKS=4", 1, "srun started 4 ranks");
    refuses("SLURM_STEP_NUM_TASKS=8", 4, "only 4 of them");
    refuses("PMI_RANK=1 PMI_SIZE=4", 1, "PMI_SIZE");
    refuses("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4", 1, "mpirun of Open MPI");
    return tap_done();
}
