/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the shadow device. Its kernels submit each op to the ring of its
 * stream. */
#include "penta/base/alloc.h"
#include "src/ops/shadow.h"

#include <string.h>

#define PT_OP(name, dtypes, flops, bytes, workspace)                                    \
    static pt_status_t shadow_##name(pt_stream_t *stream, const pt_op_##name##_t *args) \
    {                                                                                   \
        shadow_item_t *item = NULL;                                                     \
        PT_TRY(shadow_next_item(stream, PT_OP_##name, &item));                          \
        item->args.name = *args;                                                        \
        stream->queued++;                                                               \
        return PT_OK;                                                                   \
    }
#include "penta/ops/ops.def"
#undef PT_OP

static const pt_kernels_t shadow_kernels = {
    .name = "shadow",
#define PT_OP(name, dtypes, flops, bytes, workspace) .name = shadow_##name,
#include "penta/ops/ops.def"
#undef PT_OP
};

static void shadow_close(pt_device_t *device)
{
    shadow_t *shadow = device->state;

    for (pt_stream_t *s = shadow->streams, *next; s; s = next) {
        next = s->next;
        pt_free(s->ring);
        pt_free(s);
    }
    shadow_unmap(shadow->blocks);
    shadow_unmap(shadow->freed);
    if (shadow->cpu_stream)
        shadow->cpu->ops->stream_destroy(shadow->cpu, shadow->cpu_stream);
    pt_device_close(shadow->cpu);
    pt_free(shadow);
    device->state = NULL;
}

static const pt_device_ops_t shadow_ops = {
    .name = "shadow",
    .close = shadow_close,
    .alloc = shadow_alloc,
    .free = shadow_free,
    .stream_create = shadow_stream_create,
    .stream_destroy = shadow_stream_destroy,
    .event_create = shadow_event_create,
    .event_destroy = shadow_event_destroy,
    .event_record = shadow_event_record,
    .event_query = shadow_event_query,
    .stream_wait = shadow_stream_wait,
    .stream_sync = shadow_stream_sync,
    .copy = shadow_copy,
    .device_memory_is_host_memory = false,
};

pt_status_t pt_device_open_shadow(const pt_device_options_t *options,
                                  pt_device_t *device)
{
    pt_device_options_t of_cpu = *options;
    shadow_t *shadow = NULL;
    pt_status_t status = PT_OK;

    of_cpu.kind = PT_DEVICE_CPU;
    PT_TRY(PT_NEW("shadow device", 1, &shadow));
    device->state = shadow;
    shadow->random = options->seed;
    PT_TRY_GOTO(close, pt_device_open(&of_cpu, &shadow->cpu));
    PT_TRY_GOTO(close,
                shadow->cpu->ops->stream_create(shadow->cpu, &shadow->cpu_stream));
    device->ops = &shadow_ops;
    device->kernels = &shadow_kernels;
    device->isa = shadow->cpu->isa;
    memcpy(device->library, shadow->cpu->library, sizeof device->library);
    device->threads = shadow->cpu->threads;
    return PT_OK;
close:
    shadow_close(device);
    return status;
}
