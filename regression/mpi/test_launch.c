/* TEST np=1,2,4 timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include <mpi.h>

static int sum_over_ranks(int value, void *context)
{
    int total = 0;

    MPI_Allreduce(&value, &total, 1, MPI_INT, MPI_SUM, *(MPI_Comm *)context);
    return total;
}

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    int rank, size, status;
    const char *wanted = getenv("PENTA_TEST_NP");

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    tap_mpi(rank, sum_over_ranks, &comm);

    tap_all(wanted && atoi(wanted) == size, "%d ranks started", size);
    tap_all(sum_over_ranks(rank, &comm) == size * (size - 1) / 2,
            "every rank takes part");

    status = tap_done();
    MPI_Finalize();
    return status;
}
