#include "src/parallel/units_private.h"

/* Reductions are begun in the order the backward pass finishes buckets, which is the same on all
 * replicas. At most `slots` are under way; the oldest one's end begins the gather of its shard sums
 * (stage 0: every replica needs the whole gradient). */

static bool has_replicas(const pt_units_t *units, const bucket_t *bucket)
{
    return pt_comm_size(pt_bucket_comm(units, bucket)) > 1;
}

static pt_tensor_t shard_of(const pt_units_t *units, int bucket, pt_tensor_t whole)
{
    pt_bucket_range_t range = pt_bucket_shard(units, bucket);
    return pt_tensor_slice(whole, 0, range.first, range.count);
}

static pt_status_t begin_gather(pt_units_t *units, int bucket, pt_tensor_t whole,
                                pt_stream_t *stream, pt_request_t **request)
{
    const pt_mesh_t *mesh = units->mesh;
    pt_comm_t *comm =
        units->bucket[bucket].expert ? mesh->expert_gather : mesh->dense_gather;
    pt_transfer_t transfer = {.kind = PT_ALL_GATHER, .comm = comm};
    transfer.send = shard_of(units, bucket, whole);
    transfer.recv = whole;
    PT_TRY(pt_comm_mark(pt_comm_engine(comm), stream, &transfer.ready));
    return pt_comm_begin(&transfer, request);
}

static pt_status_t begin_reduce(pt_units_t *units, int index, pt_stream_t *stream)
{
    bucket_t *bucket = &units->bucket[index];
    pt_comm_t *comm = pt_bucket_comm(units, bucket);
    int64_t work = bucket->elements;
    if (units->options.wire_dtype != units->options.grad_dtype)
        work *= 2;
    pt_transfer_t transfer = {.kind = PT_REDUCE_SCATTER, .comm = comm};
    transfer.send = bucket->grads;
    transfer.recv = shard_of(units, index, bucket->grads);
    transfer.work = pt_tensor_slice(units->work[bucket->work], 0, 0, work);
    PT_TRY(pt_comm_mark(pt_comm_engine(comm), stream, &transfer.ready));
    return pt_comm_begin(&transfer, &bucket->reduce);
}

/* Ends the oldest reduction and begins its gather. */
static pt_status_t advance_oldest(pt_units_t *units, pt_stream_t *stream)
{
    int index = units->order[units->reduced++];
    bucket_t *bucket = &units->bucket[index];
    PT_TRY(pt_comm_end(&bucket->reduce, stream));
    return begin_gather(units, index, bucket->grads, stream, &bucket->gather);
}

static pt_status_t launch(pt_units_t *units, int index, pt_stream_t *stream)
{
    bucket_t *bucket = &units->bucket[index];
    if (units->begun - units->reduced == units->slots)
        PT_TRY(advance_oldest(units, stream));
    bucket->work = units->begun % units->slots;
    units->order[units->begun++] = index;
    return begin_reduce(units, index, stream);
}

pt_status_t pt_units_need(pt_units_t *units, int unit, pt_stream_t *stream)
{
    (void)stream;
    PT_REQUIRE(unit >= 0 && unit < units->table->units);
    return PT_OK;
}

pt_status_t pt_units_release(pt_units_t *units, int unit, pt_stream_t *stream)
{
    return pt_units_need(units, unit, stream);
}

pt_status_t pt_units_grad_need(pt_units_t *units, int unit, pt_stream_t *stream)
{
    return pt_units_need(units, unit, stream);
}

pt_status_t pt_units_clear_grads(pt_units_t *units, pt_stream_t *stream)
{
    for (int b = 0; b < units->buckets; b++) {
        bucket_t *bucket = &units->bucket[b];
        PT_TRY(pt_op_fill(units->device, stream, &(pt_op_fill_t){.x = bucket->grads}));
        bucket->unfinished = bucket->units;
    }
    units->begun = units->reduced = units->done = 0;
    return PT_OK;
}

pt_status_t pt_units_grad_done(pt_units_t *units, int unit, bool last,
                               pt_stream_t *stream)
{
    int index = units->bucket_of_unit[unit];
    bucket_t *bucket = &units->bucket[index];
    if (!last)
        return PT_OK;
    PT_REQUIRE(bucket->unfinished > 0);
    bucket->unfinished--;
    if (bucket->unfinished > 0 || !units->options.overlap ||
        !has_replicas(units, bucket))
        return PT_OK;
    return launch(units, index, stream);
}

pt_status_t pt_units_finish(pt_units_t *units, pt_stream_t *stream)
{
    for (int b = units->buckets - 1; b >= 0; b--) {
        PT_REQUIRE(units->bucket[b].unfinished == 0);
        if (!units->options.overlap && has_replicas(units, &units->bucket[b]))
            PT_TRY(launch(units, b, stream));
    }
    while (units->reduced < units->begun)
        PT_TRY(advance_oldest(units, stream));
    for (; units->done < units->begun; units->done++)
        PT_TRY(pt_comm_end(&units->bucket[units->order[units->done]].gather, stream));
    return PT_OK;
}

pt_status_t pt_bucket_was_updated(pt_units_t *units, int bucket, pt_stream_t *stream)
{
    (void)stream;
    PT_REQUIRE(bucket >= 0 && bucket < units->buckets);
    return PT_OK;
}

pt_status_t pt_bucket_gather(pt_units_t *units, int bucket, pt_tensor_t whole,
                             pt_stream_t *stream)
{
    pt_request_t *request = NULL;
    if (!has_replicas(units, &units->bucket[bucket]))
        return PT_OK;
    PT_TRY(begin_gather(units, bucket, whole, stream, &request));
    return pt_comm_end(&request, stream);
}
