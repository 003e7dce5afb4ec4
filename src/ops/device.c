/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a device and implements what is common to all devices. */
#include "penta/base/alloc.h"
#include "penta/base/text.h"
#include "src/ops/backend.h"

static const pt_backend_open_fn backends[PT_DEVICE_KINDS_COUNT] = {
    [PT_DEVICE_AUTO] = pt_device_open_cpu,
    [PT_DEVICE_CPU] = pt_device_open_cpu,
    [PT_DEVICE_SHADOW] = pt_device_open_shadow,
    [PT_DEVICE_DRY] = pt_device_open_dry,
};

static pt_status_t device_check_kernels(const pt_kernels_t *kernels)
{
    char missing[512];
    pt_text_t text = pt_text_init(missing, sizeof missing);
#define PT_OP(name, dtypes, flops, bytes, workspace)                                   \
    if (!kernels->name)                                                                \
        pt_text_add(&text, "%s%s", text.length ? ", " : "", #name);
#include "penta/ops/ops.def"
#undef PT_OP
    PT_CHECK(text.length == 0, PT_INTERNAL, "backend %s lacks: %s", kernels->name,
             missing);
    return PT_OK;
}

pt_status_t pt_device_open(const pt_device_options_t *options, pt_device_t **out)
{
    pt_backend_open_fn open = backends[options->kind];
    pt_device_t *device = NULL;
    pt_status_t status = PT_OK;

    *out = NULL;
    PT_CHECK(options->threads >= 1, PT_CONFIG,
             "threads per rank is %d, must be at least 1", options->threads);
    PT_CHECK(open, PT_CONFIG, "this build has no CUDA backend: set run.device=cpu");
    PT_TRY(PT_NEW("device", 1, &device));
    PT_TRY_GOTO(release, open(options, device));
    PT_TRY_GOTO(close, device_check_kernels(device->kernels));
    *out = device;
    return PT_OK;
close:
    device->ops->close(device);
release:
    pt_free(device);
    return status;
}

void pt_device_close(pt_device_t *device)
{
    if (!device)
        return;
    device->ops->close(device);
    pt_free(device);
}

pt_status_t pt_device_alloc(pt_device_t *device, pt_memory_t memory, const char *name,
                            int64_t bytes, void **out)
{
    char size[32];

    *out = NULL;
    PT_CHECK(bytes >= 0, PT_INTERNAL, "%s: %lld bytes wanted", name, (long long)bytes);
    if (device->ops->alloc(device, memory, bytes, out) != PT_OK) {
        PT_TRY(pt_process_memory_check(bytes, name));
        return PT_FAIL(PT_MEMORY, "no %s memory for %s: %s",
                       memory == PT_MEMORY_HOST ? "host" : "device", name,
                       pt_text_bytes(bytes, size, sizeof size));
    }
    device->live_bytes += bytes;
    if (device->live_bytes > device->peak_bytes)
        device->peak_bytes = device->live_bytes;
    return PT_OK;
}

void pt_device_free(pt_device_t *device, pt_memory_t memory, void *pointer,
                    int64_t bytes)
{
    if (!pointer)
        return;
    device->ops->free(device, memory, pointer, bytes);
    device->live_bytes -= bytes;
}

void pt_device_set_workspace(pt_device_t *device, pt_stream_t *stream, void *memory,
                             int64_t bytes)
{
    pt_workspace_t *workspace = (void *)stream;
    if (!device->dry)
        *workspace = (pt_workspace_t){.memory = memory, .bytes = bytes};
}

pt_status_t pt_device_place_arena(pt_device_t *device, pt_arena_t *arena)
{
    void *base = NULL;
    PT_REQUIRE(!arena->base);
    int64_t bytes = arena->peak;
    PT_TRY(pt_device_alloc(device, arena->memory, pt_memory_class_name(arena->cls),
                           bytes, &base));
    pt_arena_place(arena, base, bytes);
    return PT_OK;
}

void pt_device_free_arena(pt_device_t *device, pt_arena_t *arena)
{
    pt_device_free(device, arena->memory, arena->base, arena->capacity);
    pt_arena_init(arena, arena->cls, arena->memory);
}

pt_status_t pt_device_copy(pt_device_t *device, pt_stream_t *stream,
                           const pt_tensor_t *to, const pt_tensor_t *from)
{
    char to_text[64], from_text[64];
    int64_t bytes = pt_tensor_bytes(from);
    PT_CHECK(bytes == pt_tensor_bytes(to) && pt_tensor_is_dense(to) &&
                 pt_tensor_is_dense(from),
             PT_INTERNAL, "copy of %s to %s: not dense or not of equal bytes",
             pt_tensor_text(from, from_text, sizeof from_text),
             pt_tensor_text(to, to_text, sizeof to_text));
    if (bytes == 0)
        return PT_OK;
    PT_CHECK(to->data && from->data, PT_INTERNAL, "copy of %s without memory",
             pt_tensor_text(from, from_text, sizeof from_text));
    PT_TRY(device->ops->copy(device, stream, to->data, to->memory, from->data,
                             from->memory, bytes));
    return PT_OK;
}
