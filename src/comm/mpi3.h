/* SPDX-License-Identifier: Apache-2.0 */
/* mpi3.h — large counts over MPI libraries older than MPI-4 (private to
 * transport_mpi.c).
 *
 * There the calls with `_c` become those with counts of type int, and more than
 * PT_MPI_MOST elements in one call are refused. Unequal blocks need their arrays in int
 * until the transfer is done: a move brings room for them, or the group has some for
 * one at a time. */
#ifndef PT_COMM_MPI3_H
#define PT_COMM_MPI3_H

#include "penta/base/alloc.h"
#include "src/comm/transport.h"

#include <limits.h>
#include <mpi.h>

/* Room of a group for the arrays of an unequal all-to-all; NULL where none is
 * needed. */
typedef struct pt_mpi_room {
    int *values;
    bool busy;
} pt_mpi_room_t;

#if MPI_VERSION >= 4

#define PT_MPI_MOST INT64_MAX

/* The arrays of an unequal all-to-all as the library wants them. */
typedef struct pt_mpi_blocks {
    const MPI_Count *send_counts, *recv_counts;
    const MPI_Aint *send_starts, *recv_starts;
} pt_mpi_blocks_t;

static inline pt_status_t pt_mpi_room_open(int size, pt_mpi_room_t *out)
{
    (void)size, (void)out;
    return PT_OK;
}

static inline pt_status_t pt_mpi_blocks(pt_mpi_room_t *room, int size,
                                        const pt_transport_move_t *move,
                                        pt_mpi_blocks_t *out)
{
    (void)room, (void)size;
    *out = (pt_mpi_blocks_t){.send_counts = move->send_counts,
                             .recv_counts = move->recv_counts,
                             .send_starts = move->send_starts,
                             .recv_starts = move->recv_starts};
    return PT_OK;
}

#else

#define PT_MPI_MOST INT_MAX

#define MPI_Isend_c(data, n, ...)  MPI_Isend(data, (int)(n), __VA_ARGS__)
#define MPI_Irecv_c(data, n, ...)  MPI_Irecv(data, (int)(n), __VA_ARGS__)
#define MPI_Ibcast_c(data, n, ...) MPI_Ibcast(data, (int)(n), __VA_ARGS__)
#define MPI_Iallreduce_c(from, to, n, ...)                                             \
    MPI_Iallreduce(from, to, (int)(n), __VA_ARGS__)
#define MPI_Igather_c(from, n, type, to, m, ...)                                       \
    MPI_Igather(from, (int)(n), type, to, (int)(m), __VA_ARGS__)
#define MPI_Iallgather_c(from, n, type, to, m, ...)                                    \
    MPI_Iallgather(from, (int)(n), type, to, (int)(m), __VA_ARGS__)
#define MPI_Ialltoall_c(from, n, type, to, m, ...)                                     \
    MPI_Ialltoall(from, (int)(n), type, to, (int)(m), __VA_ARGS__)
#define MPI_Iallgatherv_c(from, n, ...) MPI_Iallgatherv(from, (int)(n), __VA_ARGS__)
#define MPI_Ialltoallv_c                MPI_Ialltoallv

typedef struct pt_mpi_blocks {
    const int *send_counts, *recv_counts, *send_starts, *recv_starts;
} pt_mpi_blocks_t;

static inline pt_status_t pt_mpi_room_open(int size, pt_mpi_room_t *out)
{
    return PT_NEW("counts of blocks", 4 * (size_t)size, &out->values);
}

/* NULL stays NULL: a gather has no blocks to send. */
static inline pt_status_t pt_mpi_narrow(const int64_t *from, int size, int *to,
                                        const int **out)
{
    *out = from ? to : NULL;
    for (int r = 0; from && r < size; r++) {
        PT_CHECK(from[r] <= PT_MPI_MOST, PT_INTERNAL,
                 "a block of a transfer counts or starts at %lld elements: this MPI "
                 "library takes %d, one of MPI-4 more",
                 (long long)from[r], PT_MPI_MOST);
        to[r] = (int)from[r];
    }
    return PT_OK;
}

static inline pt_status_t pt_mpi_blocks(pt_mpi_room_t *room, int size,
                                        const pt_transport_move_t *move,
                                        pt_mpi_blocks_t *out)
{
    int *values = move->room ? move->room : room->values;

    PT_CHECK(move->room || !room->busy, PT_INTERNAL,
             "two unequal all-to-alls at once over one communicator: that takes an MPI "
             "library of MPI-4");
    room->busy = room->busy || !move->room;
    PT_TRY(pt_mpi_narrow(move->send_counts, size, values, &out->send_counts));
    PT_TRY(pt_mpi_narrow(move->recv_counts, size, values + size, &out->recv_counts));
    PT_TRY(pt_mpi_narrow(move->send_starts, size, values + 2 * (int64_t)size,
                         &out->send_starts));
    return pt_mpi_narrow(move->recv_starts, size, values + 3 * (int64_t)size,
                         &out->recv_starts);
}

#endif

#endif
