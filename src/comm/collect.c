/* SPDX-License-Identifier: Apache-2.0 */
/* Small blocking collectives on host memory, agreement, the exchange at the end of a
 * step. */
#include "penta/base/log.h"
#include "penta/comm/watch.h"
#include "src/comm/private.h"

#include <string.h>

enum { MAX_SUMS = 16, MAX_VALUES = 32 };

/* Text and place of an error as they cross the transport: no pointers. */
typedef struct error_record {
    int64_t step;
    int32_t status, os_error, phase, layer, chunk, micro_batch, reported;
    char text[PT_ERROR_TEXT];
} error_record_t;

static pt_status_t collect_run_move(pt_comm_t *comm, const pt_transport_move_t *move)
{
    pt_transport_move_t injected = *move;
    pt_request_t *request;

    if (watch_inject(comm, &injected))
        return PT_OK;
    PT_TRY(pt_request_begin_move(comm, &injected, &request));
    PT_TRY(pt_request_wait(request));
    pt_request_release(request);
    return PT_OK;
}

static pt_status_t collect_run_booked(pt_comm_t *comm, const pt_transport_move_t *move)
{
    PT_CHECK(move->count >= 0 && move->peer >= 0 && move->peer < comm->group->size,
             PT_INTERNAL, "small collective over %s: %lld elements, root %d of %d ranks",
             comm->name, (long long)move->count, move->peer, comm->group->size);
    pt_traffic_book_small(comm, move);
    return collect_run_move(comm, move);
}

static pt_transport_move_t collect_int64_move(pt_transfer_kind_t kind, int64_t *values,
                                              int count)
{
    return (pt_transport_move_t){.kind = (int)kind,
                                 .dtype = PT_I64,
                                 .count = count,
                                 .send = values,
                                 .recv = values};
}

static pt_transport_move_t collect_broadcast_move(int root, void *data, int64_t bytes)
{
    return (pt_transport_move_t){.kind = PT_BROADCAST,
                                 .peer = root,
                                 .dtype = PT_U8,
                                 .count = bytes,
                                 .recv = data};
}

pt_status_t pt_comm_barrier(pt_comm_t *comm)
{
    return collect_run_booked(
        comm, &(pt_transport_move_t){.kind = PT_TRANSPORT_BARRIER, .dtype = PT_I64});
}

pt_status_t pt_comm_broadcast_bytes(pt_comm_t *comm, int root, void *data, int64_t bytes)
{
    pt_transport_move_t move = collect_broadcast_move(root, data, bytes);

    return collect_run_booked(comm, &move);
}

pt_status_t pt_comm_sum_int64(pt_comm_t *comm, int64_t *values, int count)
{
    pt_transport_move_t move = collect_int64_move(PT_SUM_INT64, values, count);

    return collect_run_booked(comm, &move);
}

pt_status_t pt_comm_max_int64(pt_comm_t *comm, int64_t *values, int count)
{
    pt_transport_move_t move = collect_int64_move(PT_MAX, values, count);

    return collect_run_booked(comm, &move);
}

pt_status_t pt_comm_gather_bytes(pt_comm_t *comm, int root, const void *mine,
                                 int64_t bytes, void *all)
{
    pt_transport_move_t move = {.kind = PT_TRANSPORT_GATHER,
                                .peer = root,
                                .dtype = PT_U8,
                                .count = bytes,
                                .send = mine,
                                .recv = all};

    if (!comm->engine->transport->moves_data && root == comm->group->rank)
        memcpy((char *)all + root * bytes, mine, (size_t)bytes);
    return collect_run_booked(comm, &move);
}

/* ---- agreement ---------------------------------------------------------------------------- */

/* The greatest of these belongs to the most severe status and, among those, the lowest
 * rank. */
static int64_t collect_severity(pt_status_t status, int rank)
{
    return (int64_t)status * INT32_MAX + (INT32_MAX - 1 - rank);
}

static void collect_pack(error_record_t *record)
{
    const pt_error_t *error = pt_error_last();

    *record = (error_record_t){.status = (int32_t)error->status,
                               .os_error = error->os_error,
                               .phase = (int32_t)error->where.phase,
                               .step = error->where.step,
                               .layer = error->where.layer,
                               .chunk = error->where.chunk,
                               .micro_batch = error->where.micro_batch,
                               .reported = error->reported};
    memcpy(record->text, error->text, sizeof record->text);
}

/* Site and trace are pointers into another process: they stay with the rank that
 * spoke. */
static void collect_unpack(const error_record_t *record)
{
    pt_error_t error = {.status = (pt_status_t)record->status,
                        .scope = PT_SCOPE_COMMON,
                        .reported = record->reported != 0,
                        .os_error = record->os_error,
                        .where = {.phase = (pt_phase_t)record->phase,
                                  .step = record->step,
                                  .layer = record->layer,
                                  .chunk = record->chunk,
                                  .micro_batch = record->micro_batch}};

    memcpy(error.text, record->text, sizeof error.text);
    error.text[sizeof error.text - 1] = '\0';
    pt_error_set(&error);
}

/* Makes the record of `speaker` everyone's. A status that is no failure brings none. */
static pt_status_t collect_broadcast_record(pt_comm_t *comm, int speaker,
                                            pt_status_t worst, bool quiet)
{
    bool speaks = speaker == comm->group->rank;
    error_record_t record = {0};
    pt_error_t mine;
    pt_transport_move_t move = collect_broadcast_move(speaker, &record, sizeof record);

    if (worst <= PT_ABORTED) {
        pt_error_clear();
        return PT_OK;
    }
    if (speaks) {
        if (pt_error_last()->status == PT_OK)
            (void)PT_FAIL(worst, "%s", pt_status_sentence(worst));
        if (!quiet)
            pt_error_print();
        collect_pack(&record);
    }
    mine = *pt_error_last();
    pt_error_clear();
    pt_traffic_book_control(comm, speaks ? comm->group->size - 1 : 0,
                            speaks ? (comm->group->size - 1) * move.count : 0);
    PT_TRY(collect_run_move(comm, &move));
    if (speaks) {
        mine.scope = PT_SCOPE_COMMON;
        pt_error_set(&mine);
    } else {
        collect_unpack(&record);
    }
    return PT_OK;
}

static pt_status_t collect_find_worst(pt_comm_t *comm, pt_status_t status, int64_t *out)
{
    pt_transport_move_t move = collect_int64_move(PT_MAX, out, 1);

    *out = collect_severity(status, comm->group->rank);
    pt_traffic_book_control(comm, 1, sizeof *out);
    return collect_run_move(comm, &move);
}

pt_status_t pt_comm_agree(pt_comm_t *comm, pt_status_t status, bool quiet)
{
    int64_t worst;
    pt_status_t agreed;

    PT_TRY(collect_find_worst(comm, status, &worst));
    agreed = (pt_status_t)(worst / INT32_MAX);
    if (agreed != PT_OK)
        PT_TRY(collect_broadcast_record(comm, (int)(INT32_MAX - 1 - worst % INT32_MAX),
                                        agreed, quiet));
    return agreed;
}

/* ---- exchange ----------------------------------------------------------------------------- */

static pt_status_t collect_worst_of(const int64_t ranks[PT_STATUS_COUNT])
{
    int status = PT_STATUS_COUNT - 1;

    while (status > PT_OK && ranks[status] == 0)
        status--;
    return (pt_status_t)status;
}

pt_status_t pt_comm_exchange(pt_comm_t *comm, pt_sum_t *sums, int sum_count,
                             int64_t *values, int value_count, pt_status_t mine)
{
    int64_t packed[MAX_SUMS * PT_SUM_WORDS + MAX_VALUES + PT_STATUS_COUNT + 1] = {0};
    int64_t *packed_values, *ranks, *signature;
    int words = sum_count * PT_SUM_WORDS + value_count + PT_STATUS_COUNT + 1;
    pt_transport_move_t move = collect_int64_move(PT_SUM_INT64, packed, words);

    PT_CHECK(sum_count >= 0 && sum_count <= MAX_SUMS && value_count >= 0 &&
                 value_count <= MAX_VALUES,
             PT_INTERNAL, "an exchange of %d sums and %d values; at most %d and %d",
             sum_count, value_count, MAX_SUMS, MAX_VALUES);
    packed_values = packed + sum_count * PT_SUM_WORDS;
    ranks = packed_values + value_count;
    signature = ranks + PT_STATUS_COUNT;
    *signature = comm == comm->engine->world && comm->watch ? pt_watch_signature() : 0;
    for (int i = 0; i < sum_count; i++)
        pt_sum_carry(&sums[i]);
    if (sum_count > 0)
        memcpy(packed, sums, (size_t)sum_count * sizeof *sums);
    if (value_count > 0)
        memcpy(packed_values, values, (size_t)value_count * sizeof *values);
    ranks[mine]++;
    pt_traffic_book_control(comm, 1, words * (int64_t)sizeof *packed);
    PT_TRY(collect_run_move(comm, &move));
    if (*signature != 0)
        return pt_watch_disagree();
    if (sum_count > 0)
        memcpy(sums, packed, (size_t)sum_count * sizeof *sums);
    if (value_count > 0)
        memcpy(values, packed_values, (size_t)value_count * sizeof *values);
    for (int i = 0; i < sum_count; i++)
        pt_sum_carry(&sums[i]);
    if (collect_worst_of(ranks) > PT_ABORTED)
        return pt_comm_agree(comm, mine, false);
    return collect_worst_of(ranks);
}
