/* TEST timeout=30 */
/* Devices by name, what open refuses, what checks say, what is counted. */
#include "penta/alloc.h"
#include "penta/device.h"
#include "regression/tap.h"
#include <string.h>

static pt_device_t *device;
static pt_stream_t *stream;

/* The call failed with `status` and a message that contains `text`. */
static void refused(pt_status_t got, pt_status_t status, const char *text,
                    const char *what)
{
    const char *said = pt_error_last()->text;
    tap_ok(got == status && strstr(said, text) != NULL, "%s: %s", what, said);
    pt_error_clear();
}

static void test_open(void)
{
    pt_device_options_t options = {.name = "auto", .isa = "auto", .threads = 1};
    pt_device_t *other = NULL;
    options.name = "cuda";
    refused(pt_device_open(&options, &other), PT_CONFIG, "no CUDA", "cuda");
    options.name = "abacus";
    refused(pt_device_open(&options, &other), PT_CONFIG, "abacus", "unknown device");
    options.name = "cpu";
    options.isa = "v9";
    refused(pt_device_open(&options, &other), PT_CONFIG, "v9", "unknown level");
    options.isa = "base";
    options.threads = 0;
    refused(pt_device_open(&options, &other), PT_CONFIG, "threads", "no threads");
    tap_ok(other == NULL, "nothing is opened by what fails");
    options = (pt_device_options_t){.name = "auto", .isa = "auto", .threads = 1};
    tap_ok(pt_device_open(&options, &device) == PT_OK, "auto opens");
    tap_ok(strcmp(device->ops->name, "cpu") == 0, "auto is cpu, level %s", device->isa);
    tap_ok(device->ops->stream_create(device, &stream) == PT_OK, "a stream");
}

static void test_memory(void)
{
    pt_arena_t arena;
    void *first = NULL, *again = NULL, *none = NULL;
    pt_arena_init(&arena, PT_CLASS_PARAMETERS, PT_MEMORY_DEVICE);
    tap_ok(pt_arena_take(&arena, "w", 1000, &first) == PT_OK && !first, "planned");
    tap_ok(pt_device_place_arena(device, &arena) == PT_OK, "placed");
    tap_ok(pt_arena_take(&arena, "w", 1000, &again) == PT_OK && again, "taken");
    tap_ok(device->live_bytes >= 1000 && device->peak_bytes == device->live_bytes,
           "counted: %lld bytes", (long long)device->live_bytes);
    pt_device_free_arena(device, &arena);
    tap_ok(device->live_bytes == 0 && device->peak_bytes >= 1000, "given back");
    refused(pt_device_alloc(device, PT_MEMORY_DEVICE, "moon", INT64_MAX / 2, &none),
            PT_MEMORY, "moon", "too much memory");
}

static void test_checks(void)
{
    void *memory = NULL;
    tap_ok(pt_device_alloc(device, PT_MEMORY_DEVICE, "x", 4096, &memory) == PT_OK,
           "memory");
    pt_tensor_t x = pt_tensor_2d(memory, PT_F32, PT_MEMORY_DEVICE, 4, 8), y = x;
    pt_op_add_t add = {x, x, y};
    tap_ok(pt_op_add(device, stream, &add) == PT_OK, "add");
    tap_ok(device->counts[PT_OP_add].calls == 1 &&
               device->counts[PT_OP_add].flops == 32 &&
               device->counts[PT_OP_add].bytes == 3 * 32 * 4,
           "one call, 32 FLOPs, 384 bytes");
    add.b.shape[1] = 7;
    refused(pt_op_add(device, stream, &add), PT_INTERNAL, "add: b is fp32[4, 7]",
            "shape");
    add.b = x;
    add.b.dtype = PT_F64;
    refused(pt_op_add(device, stream, &add), PT_INTERNAL, "add: b is fp64[4, 8]",
            "type");
    add.b = x;
    add.b.memory = PT_MEMORY_HOST;
    refused(pt_op_add(device, stream, &add), PT_INTERNAL, "device memory",
            "memory kind");
    add.b = x;
    add.b.data = NULL;
    refused(pt_op_add(device, stream, &add), PT_INTERNAL, "without memory", "no data");
    add.b = (pt_tensor_t){0};
    refused(pt_op_add(device, stream, &add), PT_INTERNAL, "b is missing", "absent");
    add.y.dtype = PT_I32;
    refused(pt_op_add(device, stream, &add), PT_INTERNAL, "does not take", "integers");
    pt_op_dropout_t drop = {x, y, {.p = 1}};
    refused(pt_op_dropout(device, stream, &drop), PT_INTERNAL, "p < 1", "p = 1");
    tap_ok(device->counts[PT_OP_add].calls == 1, "what is refused is not counted");
    tap_ok(strcmp(pt_op_name(PT_OP_norm_bwd_weight), "norm_bwd_weight") == 0, "names");
    pt_device_free(device, PT_MEMORY_DEVICE, memory, 4096);
}

static void test_costs(void)
{
    pt_attention_shape_t shape = {.sequences = 2};
    pt_tensor_t q = pt_tensor_3d(NULL, PT_F32, PT_MEMORY_DEVICE, 16, 3, 10);
    pt_tensor_t v = pt_tensor_3d(NULL, PT_F32, PT_MEMORY_DEVICE, 16, 1, 10);
    /* 2 sequences, 3 heads, 8·8/2 pairs of width 10. */
    tap_ok(pt_attention_flops(&shape, &q, &v, true) == 4 * 192 * 10,
           "attention forward");
    tap_ok(pt_attention_flops(&shape, &q, &v, false) == 10 * 192 * 10, "and backward");
}

int main(void)
{
    test_open();
    test_memory();
    test_checks();
    test_costs();
    device->ops->stream_destroy(device, stream);
    pt_device_close(device);
    tap_ok(pt_alloc_live_bytes() == 0, "nothing is left");
    return tap_done();
}
