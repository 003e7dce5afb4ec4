/* TEST timeout=30 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Devices by kind, what open refuses, what checks say, what is counted. */
#include "penta/base/alloc.h"
#include "penta/ops/device.h"
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
    pt_device_options_t options = {.kind = PT_DEVICE_CUDA, .threads = 1};
    pt_device_t *other = NULL;
    refused(pt_device_open(&options, &other), PT_CONFIG, "no CUDA", "cuda");
    options.kind = PT_DEVICE_CPU;
    for (options.isa = PT_ISA_BASE; options.isa < PT_ISA_COUNT; options.isa++) {
        const char *level = pt_isa_name(options.isa);
        if (!pt_cpu_kernels(options.isa)) {
            refused(pt_device_open(&options, &other), PT_CONFIG, level, "not here");
            continue;
        }
        tap_ok(pt_device_open(&options, &other) == PT_OK &&
                   strcmp(other->isa, level) == 0,
               "level %s opens", level);
        pt_device_close(other);
        other = NULL;
    }
    options.isa = PT_ISA_BASE;
    options.threads = 0;
    refused(pt_device_open(&options, &other), PT_CONFIG, "threads", "no threads");
    tap_ok(other == NULL, "nothing is opened by what fails");
    options = (pt_device_options_t){.kind = PT_DEVICE_AUTO, .threads = 1};
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

/* T or A: what each op takes, and what it says of the rest. */
static void test_mixed_gemm(char *at)
{
    pt_tensor_t narrow = pt_tensor_2d(at, PT_BF16, PT_MEMORY_DEVICE, 4, 4);
    pt_tensor_t wide = pt_tensor_2d(at + 1024, PT_F32, PT_MEMORY_DEVICE, 4, 4);
    pt_op_gemm_t gemm = {narrow, narrow, wide, false, false, true};
    tap_ok(pt_op_gemm(device, stream, &gemm) == PT_OK, "gemm: c in A");
    tap_ok(device->counts[PT_OP_gemm].bytes == 2 * 16 * 2 + 2 * 16 * 4, "its bytes");
    gemm.c = narrow;
    gemm.c.data = at + 2048;
    tap_ok(pt_op_gemm(device, stream, &gemm) == PT_OK, "gemm: c in T");
    gemm.c.dtype = PT_F16;
    refused(pt_op_gemm(device, stream, &gemm), PT_INTERNAL,
            "gemm: c is fp16[4, 4], expected type bf16 or fp32", "c");
    gemm = (pt_op_gemm_t){narrow, wide, wide, false, false, false};
    refused(pt_op_gemm(device, stream, &gemm), PT_INTERNAL, "gemm: b is fp32", "b");
    gemm = (pt_op_gemm_t){wide, wide, narrow, false, false, false};
    refused(pt_op_gemm(device, stream, &gemm), PT_INTERNAL, "expected type fp32", "c");
}

static pt_tensor_t line(char *at, pt_dtype_t dtype)
{
    return pt_tensor_1d(at, dtype, PT_MEMORY_DEVICE, 16);
}

static void test_mixed_adamw(char *at)
{
    pt_op_adamw_t adamw = {.weight = line(at, PT_F32),
                           .exp_avg = line(at + 1024, PT_F32),
                           .exp_avg_sq = line(at + 2048, PT_F32),
                           .grad = line(at + 3072, PT_BF16),
                           .t = 1};
    tap_ok(pt_op_adamw(device, stream, &adamw) == PT_OK, "adamw: grad in T");
    adamw.compute = line(at + 4096, PT_BF16);
    adamw.grad.dtype = PT_F32;
    tap_ok(pt_op_adamw(device, stream, &adamw) == PT_OK, "grad in A");
    adamw.exp_avg.dtype = PT_BF16;
    refused(pt_op_adamw(device, stream, &adamw), PT_INTERNAL, "exp_avg_sq is fp32",
            "moments of two types");
    adamw.exp_avg_sq.dtype = PT_BF16;
    tap_ok(pt_op_adamw(device, stream, &adamw) == PT_OK, "both moments bf16");
    adamw.compute.dtype = PT_F16;
    refused(pt_op_adamw(device, stream, &adamw), PT_INTERNAL,
            "exp_avg is bf16[16], expected type fp32", "bf16 moments of fp16");
    adamw.weight.dtype = PT_BF16;
    refused(pt_op_adamw(device, stream, &adamw), PT_INTERNAL,
            "weight is bf16[16], expected fp32", "a narrow master");
}

static void test_mixed_sums(char *at)
{
    pt_tensor_t n = line(at, PT_BF16);
    pt_op_cross_entropy_fwd_t loss = {n, n, n, n, n};
    refused(pt_op_cross_entropy_fwd(device, stream, &loss), PT_INTERNAL,
            "does not take", "a loss in bf16");
    pt_tensor_t parts = pt_tensor_2d(at + 1024, PT_F32, PT_MEMORY_DEVICE, 2, 16);
    pt_op_ordered_sum_t sum = {.src = parts, .dst = n};
    tap_ok(pt_op_ordered_sum(device, stream, &sum) == PT_OK, "fp32 parts into bf16");
    sum.src.dtype = PT_F16;
    refused(pt_op_ordered_sum(device, stream, &sum), PT_INTERNAL,
            "src is fp16[2, 16], expected type bf16 or fp32", "parts of another type");
}

static void test_mixed_types(void)
{
    void *memory = NULL, *scratch = NULL;
    int64_t bytes = pt_gemm_workspace(PT_BF16);
    tap_ok(pt_device_alloc(device, PT_MEMORY_DEVICE, "x", 8192, &memory) == PT_OK &&
               pt_device_alloc(device, PT_MEMORY_DEVICE, "s", bytes, &scratch) == PT_OK,
           "memory");
    pt_op_fill_t zero = {pt_tensor_1d(memory, PT_F64, PT_MEMORY_DEVICE, 1024), 0};
    tap_ok(pt_op_fill(device, stream, &zero) == PT_OK, "zeros");
    pt_device_set_workspace(device, stream, scratch, bytes);
    test_mixed_gemm(memory);
    test_mixed_adamw(memory);
    test_mixed_sums(memory);
    pt_device_set_workspace(device, stream, NULL, 0);
    pt_device_free(device, PT_MEMORY_DEVICE, scratch, bytes);
    pt_device_free(device, PT_MEMORY_DEVICE, memory, 8192);
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

/* One query of a head of 100 columns, on a device of `threads`; returns what was
 * recorded. */
static int64_t workspace_of(pt_device_kind_t kind, int threads)
{
    pt_device_options_t options = {.kind = kind, .isa = PT_ISA_BASE, .threads = threads};
    pt_device_t *d = NULL;
    pt_stream_t *s = NULL;
    void *memory = NULL, *scratch = NULL;
    int64_t peak = 0;
    bool ok = pt_device_open(&options, &d) == PT_OK &&
              d->ops->stream_create(d, &s) == PT_OK &&
              pt_device_alloc(d, PT_MEMORY_DEVICE, "x", 4096, &memory) == PT_OK;
    if (!ok) {
        tap_ok(0, "device %d: %s", (int)kind, pt_error_last()->text);
        return 0;
    }
    pt_tensor_t x = pt_tensor_3d(memory, PT_F32, PT_MEMORY_DEVICE, 1, 1, 100);
    pt_tensor_t place =
        pt_tensor_1d((char *)memory + 1024, PT_I32, PT_MEMORY_DEVICE, 1);
    pt_op_fill_t zero = {pt_tensor_1d(memory, PT_F32, PT_MEMORY_DEVICE, 1024), 0};
    pt_op_attention_fwd_t args = {
        .q = x, .k = x, .v = x, .o = x, .shape = {.sequences = 1, .scale = 1}};
    args.o.data = (char *)memory + 2048;
    args.lse = pt_tensor_2d((char *)memory + 3072, PT_F32, PT_MEMORY_DEVICE, 1, 1);
    args.shape.q_position = args.shape.k_position = place;
    ok = pt_op_fill(d, s, &zero) == PT_OK && d->workspace_peak == 0;
    tap_ok(ok, "%s: a fill needs no workspace", d->ops->name);
    pt_device_set_workspace(d, s, NULL, 0);
    pt_status_t refusal = pt_op_attention_fwd(d, s, &args);
    peak = d->workspace_peak;
    if (!d->dry) {
        char text[64];
        snprintf(text, sizeof text, "attention_fwd: needs %lld bytes", (long long)peak);
        refused(refusal, PT_INTERNAL, text, "no workspace");
        ok = pt_device_alloc(d, PT_MEMORY_DEVICE, "scratch", peak, &scratch) == PT_OK;
        pt_device_set_workspace(d, s, scratch, peak - 1);
        refused(pt_op_attention_fwd(d, s, &args), PT_INTERNAL, "was given",
                "a byte too few");
        pt_device_set_workspace(d, s, scratch, peak);
        ok = ok && d->counts[PT_OP_attention_fwd].calls == 0 &&
             pt_op_attention_fwd(d, s, &args) == PT_OK;
        /* What is queued keeps the workspace it was queued with. */
        pt_device_set_workspace(d, s, NULL, 0);
        ok = ok && d->ops->stream_sync(d, s) == PT_OK;
        tap_ok(ok, "%s: %lld bytes are enough", d->ops->name, (long long)peak);
        pt_device_free(d, PT_MEMORY_DEVICE, scratch, peak);
    }
    pt_device_free(d, PT_MEMORY_DEVICE, memory, 4096);
    d->ops->stream_destroy(d, s);
    pt_device_close(d);
    return peak;
}

static void test_workspace(void)
{
    int64_t one = workspace_of(PT_DEVICE_CPU, 1), dry = workspace_of(PT_DEVICE_DRY, 3);
    tap_ok(one > 0 && workspace_of(PT_DEVICE_SHADOW, 1) == one,
           "the same on every device");
    tap_ok(dry == 3 * one, "the dry device tells it: %lld for 3 threads",
           (long long)dry);
}

static int64_t rehearsed; /* columns of the products that were made ready */

static pt_status_t note_product(pt_device_t *real, const pt_op_gemm_t *args)
{
    (void)real;
    rehearsed += args->c.shape[1];
    return PT_OK;
}

/* A dry device has products made ready on the one it rehearses for, and runs none. */
static void test_rehearsal(void)
{
    static const pt_device_ops_t ops = {.name = "real", .prepare_gemm = note_product};
    pt_device_options_t options = {.kind = PT_DEVICE_DRY, .threads = 1};
    pt_device_t real = {.ops = &ops}, *d = NULL;
    pt_stream_t *s = NULL;
    void *memory = NULL;
    bool ok = pt_device_open(&options, &d) == PT_OK &&
              d->ops->stream_create(d, &s) == PT_OK &&
              pt_device_alloc(d, PT_MEMORY_DEVICE, "x", 4096, &memory) == PT_OK;
    if (!ok) {
        tap_ok(false, "dry: %s", pt_error_last()->text);
        return;
    }
    pt_tensor_t x = pt_tensor_2d(memory, PT_F32, PT_MEMORY_DEVICE, 7, 7);
    pt_op_gemm_t product = {.a = x, .b = x, .c = x};
    product.c.data = (char *)memory + 2048;
    pt_op_add_t sum = {x, x, x};
    ok = pt_op_gemm(d, s, &product) == PT_OK;
    d->rehearses = &real;
    ok = ok && pt_op_gemm(d, s, &product) == PT_OK && pt_op_add(d, s, &sum) == PT_OK;
    tap_ok(ok && rehearsed == 7, "one product made ready: of %lld columns",
           (long long)rehearsed);
    pt_device_free(d, PT_MEMORY_DEVICE, memory, 4096);
    d->ops->stream_destroy(d, s);
    pt_device_close(d);
}

int main(void)
{
    test_open();
    test_memory();
    test_checks();
    test_mixed_types();
    test_costs();
    test_workspace();
    test_rehearsal();
    device->ops->stream_destroy(device, stream);
    pt_device_close(device);
    tap_ok(pt_alloc_live_bytes() == 0, "nothing is left");
    return tap_done();
}
