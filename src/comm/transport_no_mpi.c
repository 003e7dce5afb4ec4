/* SPDX-License-Identifier: Apache-2.0 */
/* The twin of transport_mpi.c in programs built without MPI. */
#include "src/comm/transport.h"

pt_status_t pt_transport_open_mpi(void *mpi_comm, pt_transport_t **out)
{
    (void)mpi_comm;
    *out = NULL;
    return PT_FAIL(PT_INTERNAL, "this program was built without MPI");
}
