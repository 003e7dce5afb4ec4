/* SPDX-License-Identifier: Apache-2.0 */
#include "src/parallel/units_private.h"

/* Reductions are begun in the order the backward pass finishes buckets, which is the same on all
 * replicas. At stage 0 every replica needs the whole gradient: the gather of a bucket's sums is begun with it
 * and comes after it, so that nobody waits before finish. From stage 1 on the weights are gathered instead, when
 * they were updated, and the first need of the next step ends that. */

static bool reduce_has_replicas(const pt_units_t *units, const bucket_t *bucket)
{
    return pt_comm_size(pt_bucket_comm(units, bucket)) > 1;
}

static pt_tensor_t reduce_shard_of(const pt_units_t *units, int bucket,
                                   pt_tensor_t whole)
{
    pt_bucket_range_t range = pt_bucket_shard(units, bucket);
    return pt_tensor_slice(whole, 0, range.first, range.count);
}

/* `after`: NULL or the request that fills the shard; else what is on `stream` does. */
static pt_status_t reduce_begin_gather(pt_units_t *units, int bucket, pt_tensor_t whole,
                                       pt_request_t *after, pt_stream_t *stream,
                                       pt_request_t **request)
{
    const pt_mesh_t *mesh = units->mesh;
    pt_comm_t *comm =
        units->bucket[bucket].expert ? mesh->expert_gather : mesh->dense_gather;
    pt_transfer_t transfer = {.kind = PT_ALL_GATHER,
                              .comm = comm,
                              .granularity = PT_SHARD_ALIGN,
                              .send = reduce_shard_of(units, bucket, whole),
                              .recv = whole};
    if (after)
        transfer.after[transfer.after_count++] = after;
    else
        PT_TRY(pt_comm_mark(pt_comm_engine(comm), stream, &transfer.ready));
    return pt_comm_begin(&transfer, request);
}

static pt_status_t reduce_launch(pt_units_t *units, int index, pt_stream_t *stream)
{
    bucket_t *bucket = &units->bucket[index];
    pt_comm_t *comm = pt_bucket_comm(units, bucket);
    pt_transfer_t transfer = {.kind = PT_REDUCE_SCATTER,
                              .comm = comm,
                              .granularity = PT_SHARD_ALIGN,
                              .send = bucket->grads,
                              .recv = reduce_shard_of(units, index, bucket->grads),
                              .wire_dtype = units->options.wire_dtype};
    PT_TRY(pt_comm_mark(pt_comm_engine(comm), stream, &transfer.ready));
    PT_TRY(pt_comm_begin(&transfer, &bucket->reduce));
    units->order[units->begun++] = index;
    if (!pt_units_replicate_state(units))
        return PT_OK;
    return reduce_begin_gather(units, index, bucket->grads, bucket->reduce, stream,
                               &bucket->gather);
}

static pt_status_t reduce_check_unit(const pt_units_t *units, int unit)
{
    PT_REQUIRE(unit >= 0 && unit < units->table->units);
    return PT_OK;
}

pt_status_t pt_units_need(pt_units_t *units, int unit, pt_stream_t *stream)
{
    PT_TRY(reduce_check_unit(units, unit));
    if (pt_units_replicate_state(units)) /* what is under way is a gather of gradients */
        return PT_OK;
    return pt_comm_end(&units->bucket[units->bucket_of_unit[unit]].gather, stream);
}

pt_status_t pt_units_release(pt_units_t *units, int unit, pt_stream_t *stream)
{
    (void)stream;
    return reduce_check_unit(units, unit);
}

pt_status_t pt_units_grad_need(pt_units_t *units, int unit, pt_stream_t *stream)
{
    (void)stream;
    return reduce_check_unit(units, unit);
}

pt_status_t pt_units_clear_grads(pt_units_t *units, pt_stream_t *stream)
{
    for (int b = 0; b < units->buckets; b++) {
        bucket_t *bucket = &units->bucket[b];
        PT_TRY(pt_op_fill(units->device, stream, &(pt_op_fill_t){.x = bucket->grads}));
        bucket->unfinished = bucket->units;
    }
    units->begun = 0;
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
        !reduce_has_replicas(units, bucket))
        return PT_OK;
    return reduce_launch(units, index, stream);
}

pt_status_t pt_units_finish(pt_units_t *units, pt_stream_t *stream)
{
    for (int b = units->buckets - 1; b >= 0; b--) {
        PT_REQUIRE(units->bucket[b].unfinished == 0);
        if (!units->options.overlap && reduce_has_replicas(units, &units->bucket[b]))
            PT_TRY(reduce_launch(units, b, stream));
    }
    for (int i = 0; i < units->begun; i++) {
        bucket_t *bucket = &units->bucket[units->order[i]];
        PT_TRY(pt_comm_end(&bucket->reduce, stream));
        PT_TRY(pt_comm_end(&bucket->gather, stream));
    }
    return PT_OK;
}

pt_status_t pt_units_settle(pt_units_t *units, pt_stream_t *stream)
{
    for (int b = 0; b < units->buckets; b++)
        PT_TRY(pt_comm_end(&units->bucket[b].gather, stream));
    return PT_OK;
}

pt_status_t pt_bucket_was_updated(pt_units_t *units, int bucket, pt_stream_t *stream)
{
    bucket_t *b = &units->bucket[bucket];
    PT_REQUIRE(bucket >= 0 && bucket < units->buckets && b->gather == NULL);
    if (pt_units_replicate_state(units) || !reduce_has_replicas(units, b))
        return PT_OK;
    return reduce_begin_gather(units, bucket, b->weights, NULL, stream, &b->gather);
}

pt_status_t pt_bucket_gather(pt_units_t *units, int bucket, pt_tensor_t whole,
                             pt_stream_t *stream)
{
    pt_request_t *request = NULL;
    if (!reduce_has_replicas(units, &units->bucket[bucket]))
        return PT_OK;
    PT_TRY(reduce_begin_gather(units, bucket, whole, NULL, stream, &request));
    return pt_comm_end(&request, stream);
}
