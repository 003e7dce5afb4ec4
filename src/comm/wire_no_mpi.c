/* SPDX-License-Identifier: Apache-2.0 */
/* The twin of wire_mpi.c in programs built without MPI. */
#include "src/comm/wire.h"

pt_status_t pt_wire_open_mpi(void *mpi_comm, pt_wire_t **out)
{
    (void)mpi_comm;
    *out = NULL;
    return PT_FAIL(PT_INTERNAL, "this program was built without MPI");
}
