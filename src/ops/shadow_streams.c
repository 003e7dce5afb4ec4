/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and copies of the shadow device, as the host sees them. */
#include "penta/base/alloc.h"
#include "src/ops/shadow.h"

#include <string.h>

pt_status_t shadow_stream_create(pt_device_t *device, pt_stream_t **out)
{
    shadow_t *shadow = device->state;
    pt_stream_t *stream = NULL;
    pt_status_t status = PT_OK;

    PT_TRY(PT_NEW("shadow stream", 1, &stream));
    PT_TRY_GOTO(release, PT_NEW("shadow queue", RING_ITEMS, &stream->ring));
    stream->shadow = shadow;
    stream->next = shadow->streams;
    shadow->streams = stream;
    *out = stream;
    return PT_OK;
release:
    pt_free(stream);
    return status;
}

/* Drops queued items: after an error their memory may be gone. */
void shadow_stream_destroy(pt_device_t *device, pt_stream_t *stream)
{
    (void)device;
    if (!stream)
        return;
    stream->done = stream->told = stream->queued;
    pt_free(stream->ring);
    stream->ring = NULL;
}

pt_status_t shadow_event_create(pt_device_t *device, pt_event_t **out)
{
    (void)device;
    PT_TRY(PT_NEW("shadow event", 1, out));
    return PT_OK;
}

void shadow_event_destroy(pt_device_t *device, pt_event_t *event)
{
    (void)device;
    pt_free(event);
}

pt_status_t shadow_event_record(pt_device_t *device, pt_event_t *event,
                                pt_stream_t *stream)
{
    shadow_t *shadow = device->state;

    PT_TRY(shadow_finish(shadow, PT_OK));
    event->stream = stream;
    event->place = stream->queued;
    event->delay = (int)shadow_draw(shadow, 4);
    return PT_OK;
}

pt_status_t shadow_event_query(pt_device_t *device, pt_event_t *event, bool *ready)
{
    shadow_t *shadow = device->state;
    pt_stream_t *stream = event->stream;

    *ready = false;
    PT_TRY(shadow_finish(shadow,
                         shadow->failed ? shadow->failed : shadow_run_random(shadow)));
    if (stream && event->place > stream->told) {
        if (!shadow_is_reached(stream, event->place) || event->delay-- > 0)
            return PT_OK;
        shadow_tell(stream, event->place);
    }
    *ready = true;
    return PT_OK;
}

pt_status_t shadow_stream_wait(pt_device_t *device, pt_stream_t *stream,
                               pt_event_t *event)
{
    shadow_item_t *item = NULL;

    (void)device;
    if (!event->stream)
        return PT_OK;
    PT_TRY(shadow_next_item(stream, ITEM_WAIT, &item));
    item->args.wait.stream = event->stream;
    item->args.wait.place = event->place;
    stream->queued++;
    return PT_OK;
}

pt_status_t shadow_stream_sync(pt_device_t *device, pt_stream_t *stream)
{
    shadow_t *shadow = device->state;
    pt_status_t status = shadow->failed;

    for (uint64_t i = shadow_draw(shadow, 4); i > 0 && status == PT_OK; i--)
        status = shadow_run_random(shadow);
    if (status == PT_OK)
        status = shadow_run_to(stream, stream->queued);
    PT_TRY(shadow_finish(shadow, status));
    shadow_tell(stream, stream->queued);
    return PT_OK;
}

/* Whether queued work will read this host memory. */
static bool shadow_is_read_later(const shadow_t *shadow, const char *host, int64_t bytes)
{
    for (const pt_stream_t *s = shadow->streams; s; s = s->next)
        for (int64_t i = s->done; i < s->queued; i++) {
            const shadow_item_t *item = &s->ring[i % RING_ITEMS];
            const char *from = item->args.copy.from;

            if (item->kind == ITEM_COPY &&
                item->args.copy.from_memory == PT_MEMORY_HOST && from < host + bytes &&
                host < from + item->args.copy.bytes)
                return true;
        }
    return false;
}

/* Poisons a destination on the host at once, so that reading it too early shows. */
pt_status_t shadow_copy(pt_device_t *device, pt_stream_t *stream, void *to,
                        pt_memory_t to_memory, const void *from,
                        pt_memory_t from_memory, int64_t bytes)
{
    shadow_item_t *item = NULL;

    PT_TRY(shadow_next_item(stream, ITEM_COPY, &item));
    if (to_memory == PT_MEMORY_HOST && !shadow_is_read_later(device->state, to, bytes))
        memset(to, POISON, (size_t)bytes);
    item->args.copy.to = to;
    item->args.copy.from = from;
    item->args.copy.bytes = bytes;
    item->args.copy.from_memory = from_memory;
    stream->queued++;
    return PT_OK;
}
