/* SPDX-License-Identifier: Apache-2.0 */
/* The transport over MPI: the only file of src/comm that calls it. */
#include "penta/base/alloc.h"
#include "src/comm/mpi3.h"
#include "src/comm/private.h"

#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <string.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(int64_t), "a ticket holds a request");
_Static_assert(sizeof(MPI_Count) == sizeof(int64_t), "counts are passed as they are");
_Static_assert(sizeof(MPI_Aint) == sizeof(int64_t), "starts are passed as they are");

enum { PIECE_BYTES = 1 << 30 };

typedef struct mpi_group {
    pt_transport_group_t group;
    MPI_Comm comm;
    pt_mpi_room_t room;
} mpi_group_t;

static pt_status_t transport_mpi_check(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;

    if (code == MPI_SUCCESS)
        return PT_OK;
    MPI_Error_string(code, text, &length);
    return PT_FAIL(PT_INTERNAL, "%s failed: %s", what, text);
}

#define TRY_MPI(call) PT_TRY(transport_mpi_check((call), #call))

/* ---- the hook ----------------------------------------------------------------------------- */

unsigned ucp_worker_progress(void *worker);

/* MPICH over UCX spins in this function whenever it waits, and calls it through the
 * dynamic linker: the program's own definition is found first. It yields and sleeps
 * while one of our waits or a blocking library call is under way. Other MPI libraries
 * never call it. */
unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*next)(void *);
    unsigned moved;

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "ucp_worker_progress");
    moved = next ? next(worker) : 0;
    pt_wait_polled(moved != 0);
    return moved;
}

/* ---- groups ------------------------------------------------------------------------------- */

static pt_status_t transport_fill_group(mpi_group_t *group)
{
    TRY_MPI(MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN));
    TRY_MPI(MPI_Comm_rank(group->comm, &group->group.rank));
    TRY_MPI(MPI_Comm_size(group->comm, &group->group.size));
    return pt_mpi_room_open(group->group.size, &group->room);
}

static pt_status_t transport_split(mpi_group_t *parent, pt_comm_place_t place,
                                   const char *name, mpi_group_t *group)
{
    int color = place.color < 0 ? MPI_UNDEFINED : place.color;

    TRY_MPI(MPI_Comm_split(parent->comm, color, place.rank, &group->comm));
    if (group->comm == MPI_COMM_NULL)
        return PT_OK;
    TRY_MPI(MPI_Comm_set_name(group->comm, name));
    return transport_fill_group(group);
}

static pt_status_t mpi_split(pt_transport_t *transport, pt_transport_group_t *parent,
                             pt_comm_place_t place, const char *name,
                             pt_transport_group_t **out)
{
    mpi_group_t *group = NULL;
    pt_status_t status;

    (void)transport;
    *out = NULL;
    PT_TRY(PT_NEW("group of ranks", 1, &group));
    group->comm = MPI_COMM_NULL;
    pt_comm_blocking_begin();
    status = transport_split((mpi_group_t *)parent, place, name, group);
    pt_comm_blocking_end();
    if (status == PT_OK && group->comm != MPI_COMM_NULL)
        *out = &group->group;
    else
        pt_free(group);
    return status;
}

static void mpi_free_group(pt_transport_t *transport, pt_transport_group_t *group)
{
    mpi_group_t *g = (mpi_group_t *)group;

    (void)transport;
    if (!pt_error_is_fatal()) {
        pt_comm_blocking_begin();
        MPI_Comm_free(&g->comm);
        pt_comm_blocking_end();
    }
    pt_free(g->room.values);
    pt_free(g);
}

static void mpi_close(pt_transport_t *transport)
{
    mpi_free_group(transport, transport->world);
    pt_free(transport);
}

static void *mpi_comm(pt_transport_group_t *group)
{
    return &((mpi_group_t *)group)->comm;
}

/* ---- transfers ---------------------------------------------------------------------------- */

/* Bits of an element: for moving. */
static MPI_Datatype transport_carrier(pt_dtype_t dtype)
{
    switch (pt_dtype_size(dtype)) {
    case 8: return MPI_UINT64_T;
    case 4: return MPI_UINT32_T;
    case 2: return MPI_UINT16_T;
    default: return MPI_BYTE;
    }
}

/* Values of an element: for comparing and adding. */
static MPI_Datatype transport_number(pt_dtype_t dtype)
{
    switch (dtype) {
    case PT_F64: return MPI_DOUBLE;
    case PT_F32: return MPI_FLOAT;
    case PT_I64: return MPI_INT64_T;
    case PT_I32: return MPI_INT32_T;
    default: return MPI_DATATYPE_NULL; /* refused before; MPI would say so again */
    }
}

static pt_status_t transport_start_reduction(const mpi_group_t *group,
                                             const pt_transport_move_t *move,
                                             MPI_Request *request)
{
    const void *send = move->send == move->recv ? MPI_IN_PLACE : move->send;
    MPI_Op op = move->kind == PT_MAX ? MPI_MAX : MPI_SUM;

    TRY_MPI(MPI_Iallreduce_c(send, move->recv, move->count,
                             transport_number(move->dtype), op, group->comm, request));
    return PT_OK;
}

static pt_status_t transport_start_all_gather(const mpi_group_t *group,
                                              const pt_transport_move_t *move,
                                              MPI_Request *request)
{
    MPI_Datatype type = transport_carrier(move->dtype);
    const char *own = (char *)move->recv + (int64_t)group->group.rank * move->count *
                                               (int64_t)pt_dtype_size(move->dtype);
    const void *send = move->send == own ? MPI_IN_PLACE : move->send;

    TRY_MPI(MPI_Iallgather_c(send, move->count, type, move->recv, move->count, type,
                             group->comm, request));
    return PT_OK;
}

static pt_status_t transport_start_unequal_gather(mpi_group_t *group,
                                                  const pt_transport_move_t *move,
                                                  MPI_Request *request)
{
    MPI_Datatype type = transport_carrier(move->dtype);
    char *own = (char *)move->recv + move->recv_starts[group->group.rank] *
                                         (int64_t)pt_dtype_size(move->dtype);
    const void *send = move->send == own ? MPI_IN_PLACE : move->send;
    pt_mpi_blocks_t blocks = {0};

    PT_TRY(pt_mpi_blocks(&group->room, group->group.size, move, &blocks));
    if (group->group.size == 1) /* MPICH 4.0 forgets where the only block begins */
        TRY_MPI(MPI_Iallgather_c(send, move->count, type, own, move->count, type,
                                 group->comm, request));
    else
        TRY_MPI(MPI_Iallgatherv_c(send, move->count, type, move->recv,
                                  blocks.recv_counts, blocks.recv_starts, type,
                                  group->comm, request));
    return PT_OK;
}

static pt_status_t transport_start_unequal(mpi_group_t *group,
                                           const pt_transport_move_t *move,
                                           MPI_Request *request)
{
    MPI_Datatype type = transport_carrier(move->dtype);
    pt_mpi_blocks_t blocks = {0};

    PT_TRY(pt_mpi_blocks(&group->room, group->group.size, move, &blocks));
    TRY_MPI(MPI_Ialltoallv_c(move->send, blocks.send_counts, blocks.send_starts, type,
                             move->recv, blocks.recv_counts, blocks.recv_starts, type,
                             group->comm, request));
    return PT_OK;
}

static pt_status_t transport_start_all_to_all(mpi_group_t *group,
                                              const pt_transport_move_t *move,
                                              MPI_Request *request)
{
    MPI_Datatype type = transport_carrier(move->dtype);
    const void *send = move->send == move->recv ? MPI_IN_PLACE : move->send;

    if (move->send_counts)
        return transport_start_unequal(group, move, request);
    TRY_MPI(MPI_Ialltoall_c(send, move->count, type, move->recv, move->count, type,
                            group->comm, request));
    return PT_OK;
}

static pt_status_t transport_start(mpi_group_t *group, const pt_transport_move_t *move,
                                   MPI_Request *request)
{
    MPI_Datatype type = transport_carrier(move->dtype);
    MPI_Comm comm = group->comm;

    switch (move->kind) {
    case PT_SEND:
        TRY_MPI(MPI_Isend_c(move->send, move->count, type, move->peer, move->tag, comm,
                            request));
        return PT_OK;
    case PT_RECV:
        TRY_MPI(MPI_Irecv_c(move->recv, move->count, type, move->peer, move->tag, comm,
                            request));
        return PT_OK;
    case PT_BROADCAST:
        TRY_MPI(MPI_Ibcast_c(move->recv, move->count, type, move->peer, comm, request));
        return PT_OK;
    case PT_TRANSPORT_BARRIER: TRY_MPI(MPI_Ibarrier(comm, request)); return PT_OK;
    case PT_TRANSPORT_GATHER:
        TRY_MPI(MPI_Igather_c(move->send, move->count, type, move->recv, move->count,
                              type, move->peer, comm, request));
        return PT_OK;
    case PT_ALL_GATHER:
        return move->recv_counts ? transport_start_unequal_gather(group, move, request)
                                 : transport_start_all_gather(group, move, request);
    case PT_ALL_TO_ALL: return transport_start_all_to_all(group, move, request);
    default: return transport_start_reduction(group, move, request);
    }
}

/* MPICH 4.0 loses nonblocking broadcasts and reductions of 2^31 bytes and more: they go
 * in pieces, all begun now, so that no other transfer comes between them. */
static bool transport_goes_in_pieces(const pt_transport_move_t *move)
{
    return move->kind == PT_BROADCAST || move->kind == PT_MAX ||
           move->kind == PT_SUM_INT64;
}

static pt_status_t mpi_start(pt_transport_t *transport, pt_transport_ticket_t *ticket)
{
    int64_t size = (int64_t)pt_dtype_size(ticket->move.dtype),
            left = ticket->move.count;
    int64_t most = transport_goes_in_pieces(&ticket->move) ? PIECE_BYTES / size : left;
    pt_transport_move_t piece = ticket->move;

    (void)transport;
    PT_CHECK(left <= most * PT_TRANSPORT_PIECES && most <= PT_MPI_MOST, PT_INTERNAL,
             "a transfer of %lld elements: at most %lld at once", (long long)left,
             (long long)(transport_goes_in_pieces(&ticket->move)
                             ? most * PT_TRANSPORT_PIECES
                             : PT_MPI_MOST));
    ticket->pieces = 0;
    do {
        MPI_Request request = MPI_REQUEST_NULL;
        piece.count = left < most ? left : most;
        PT_TRY(transport_start((mpi_group_t *)ticket->group, &piece, &request));
        memcpy(&ticket->handles[ticket->pieces++], &request, sizeof request);
        left -= piece.count;
        if (left > 0) {
            piece.send = piece.send ? (const char *)piece.send + most * size : NULL;
            piece.recv = (char *)piece.recv + most * size;
        }
    } while (left > 0);
    return PT_OK;
}

static pt_status_t transport_check_length(const pt_transport_move_t *move,
                                          const MPI_Status *status)
{
    MPI_Count received;

    TRY_MPI(MPI_Get_elements_x(status, transport_carrier(move->dtype), &received));
    PT_CHECK(received == move->count, PT_INTERNAL,
             "a message of %lld elements from rank %d meets a receive of %lld, tag %d",
             (long long)received, move->peer, (long long)move->count, move->tag);
    return PT_OK;
}

static pt_status_t mpi_test(pt_transport_t *transport, pt_transport_ticket_t *ticket,
                            bool *done)
{
    (void)transport;
    *done = false;
    while (ticket->pieces > 0) {
        int64_t *handle = &ticket->handles[ticket->pieces - 1];
        MPI_Request request;
        MPI_Status status;
        int flag = 0;
        memcpy(&request, handle, sizeof request);
        TRY_MPI(MPI_Test(&request, &flag, &status));
        memcpy(handle, &request, sizeof request);
        if (!flag)
            return PT_OK;
        if (ticket->move.kind == PT_RECV)
            PT_TRY(transport_check_length(&ticket->move, &status));
        ticket->pieces--;
    }
    if (ticket->move.recv_counts && !ticket->move.room)
        ((mpi_group_t *)ticket->group)->room.busy = false;
    *done = true;
    return PT_OK;
}

/* ---- life --------------------------------------------------------------------------------- */

static void mpi_abort(pt_transport_t *transport, int exit_code)
{
    MPI_Abort(((mpi_group_t *)transport->world)->comm, exit_code);
    pt_transport_leave(transport, exit_code);
}

static const pt_transport_ops_t mpi_ops = {
    .name = "mpi",
    .close = mpi_close,
    .split = mpi_split,
    .free_group = mpi_free_group,
    .start = mpi_start,
    .test = mpi_test,
    .mpi = mpi_comm,
    .abort = mpi_abort,
};

/* Of all ranks together: a launcher may have bound each to a core of its own. */
static pt_status_t transport_count_cores(MPI_Comm host, int *out)
{
    cpu_set_t cores;

    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        CPU_ZERO(&cores);
    TRY_MPI(MPI_Allreduce(MPI_IN_PLACE, &cores, (int)sizeof cores, MPI_BYTE, MPI_BOR,
                          host));
    *out = CPU_COUNT(&cores);
    return PT_OK;
}

static pt_status_t transport_open_world(MPI_Comm comm, mpi_group_t *world,
                                        pt_transport_t *transport)
{
    MPI_Comm host;
    int cores = 0;

    TRY_MPI(MPI_Comm_dup(comm, &world->comm));
    PT_TRY(transport_fill_group(world));
    TRY_MPI(MPI_Comm_set_name(world->comm, "penta world"));
    TRY_MPI(MPI_Comm_split_type(world->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                                &host));
    TRY_MPI(MPI_Comm_size(host, &transport->ranks_on_host));
    TRY_MPI(MPI_Comm_rank(host, &transport->rank_on_host));
    PT_TRY(transport_count_cores(host, &cores));
    pt_wait_set_ranks(transport->ranks_on_host, cores);
    TRY_MPI(MPI_Comm_free(&host));
    return PT_OK;
}

pt_status_t pt_transport_open_mpi(void *mpi_comm_pointer, pt_transport_t **out)
{
    pt_transport_t *transport = NULL;
    mpi_group_t *world = NULL;
    pt_status_t status = PT_OK;

    *out = NULL;
    PT_TRY(PT_NEW("MPI transport", 1, &transport));
    PT_TRY_GOTO(release, PT_NEW("group of ranks", 1, &world));
    transport->ops = &mpi_ops;
    transport->world = &world->group;
    transport->moves_data = true;
    pt_comm_blocking_begin();
    status = transport_open_world(*(MPI_Comm *)mpi_comm_pointer, world, transport);
    pt_comm_blocking_end();
    if (status != PT_OK)
        goto release;
    *out = transport;
    return PT_OK;
release:
    if (world)
        pt_free(world->room.values);
    pt_free(world);
    pt_free(transport);
    return status;
}
