/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of the shadow device, and when their items run. */
#include "penta/base/rng.h"
#include "src/ops/shadow.h"

#include <string.h>

uint64_t shadow_draw(shadow_t *shadow, uint64_t below)
{
    shadow->random += 0x9E3779B97F4A7C15u;
    return pt_mix64(shadow->random) % below;
}

static pt_status_t shadow_run_item(shadow_t *shadow, const shadow_item_t *item)
{
    pt_device_set_workspace(shadow->cpu, shadow->cpu_stream, item->workspace.memory,
                            item->workspace.bytes);
    switch (item->kind) {
#define PT_OP(name, dtypes, flops, bytes, workspace)                                   \
    case PT_OP_##name:                                                                 \
        return shadow->cpu->kernels->name(shadow->cpu_stream, &item->args.name);
#include "penta/ops/ops.def"
#undef PT_OP
    case ITEM_COPY:
        memcpy(item->args.copy.to, item->args.copy.from, (size_t)item->args.copy.bytes);
        return PT_OK;
    default: return PT_OK;
    }
}

bool shadow_is_reached(const pt_stream_t *stream, int64_t place)
{
    return stream->done >= place;
}

void shadow_tell(pt_stream_t *stream, int64_t place)
{
    if (stream->told < place)
        stream->told = place;
}

/* Runs the oldest item of a stream. It must not need to wait. */
static pt_status_t shadow_run_oldest(pt_stream_t *stream)
{
    shadow_t *shadow = stream->shadow;
    shadow_item_t *item = &stream->ring[stream->done % RING_ITEMS];

    if (item->kind == ITEM_WAIT) {
        /* A host that knows of work after the wait also knows of the work waited
         * for. */
        shadow_tell(item->args.wait.stream, item->args.wait.place);
    } else {
        PT_TRY(shadow_protect(shadow, true));
        PT_TRY(shadow_run_item(shadow, item));
    }
    stream->done++;
    return PT_OK;
}

pt_status_t shadow_run_to(pt_stream_t *stream, int64_t place)
{
    while (!shadow_is_reached(stream, place)) {
        const shadow_item_t *item = &stream->ring[stream->done % RING_ITEMS];

        if (item->kind == ITEM_WAIT)
            PT_TRY(shadow_run_to(item->args.wait.stream, item->args.wait.place));
        PT_TRY(shadow_run_oldest(stream));
    }
    return PT_OK;
}

/* Runs up to `limit` items; stops at one that has to wait. */
static pt_status_t shadow_run_some(pt_stream_t *stream, int64_t limit)
{
    for (int64_t i = 0; i < limit && stream->done < stream->queued; i++) {
        const shadow_item_t *item = &stream->ring[stream->done % RING_ITEMS];

        if (item->kind == ITEM_WAIT &&
            !shadow_is_reached(item->args.wait.stream, item->args.wait.place))
            return PT_OK;
        PT_TRY(shadow_run_oldest(stream));
    }
    return PT_OK;
}

pt_status_t shadow_run_random(shadow_t *shadow)
{
    pt_stream_t *chosen = NULL;
    uint64_t busy = 0;

    for (pt_stream_t *s = shadow->streams; s; s = s->next)
        if (s->done < s->queued && shadow_draw(shadow, ++busy) == 0)
            chosen = s;
    if (!chosen || shadow_draw(shadow, 2) == 0)
        return PT_OK;
    PT_TRY(shadow_run_some(chosen, (int64_t)1 << shadow_draw(shadow, 8)));
    return PT_OK;
}

pt_status_t shadow_finish(shadow_t *shadow, pt_status_t status)
{
    pt_status_t closed = shadow_protect(shadow, false);

    if (shadow->failed == PT_OK)
        shadow->failed = status != PT_OK ? status : closed;
    PT_CHECK(shadow->failed == PT_OK, shadow->failed,
             "shadow: work queued before has failed; its own error says how");
    return PT_OK;
}

pt_status_t shadow_next_item(pt_stream_t *stream, int kind, shadow_item_t **out)
{
    pt_status_t status = stream->shadow->failed;

    if (status == PT_OK && stream->queued - stream->done == RING_ITEMS)
        status = shadow_run_to(stream, stream->done + 1);
    PT_TRY(shadow_finish(stream->shadow, status));
    *out = &stream->ring[stream->queued % RING_ITEMS];
    (*out)->kind = kind;
    (*out)->workspace = stream->workspace;
    return PT_OK;
}
