/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the op tests. Tensors have a host image; device memory is reached by
 * copies only. Around every view, and between its rows, lie guard elements that must
 * not change; outputs are poisoned before, and every element must be written. */
#ifndef PT_OPS_TEST_H
#define PT_OPS_TEST_H

#include "penta/base/alloc.h"
#include "penta/ops/device.h"
#include "penta/base/normal.h"
#include "regression/backend.h"
#include "regression/tap.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OT_MAX_TENSORS = 256, OT_GUARD = 64, OT_WORKSPACE = 3 << 20 };

typedef enum ot_fill { OT_RANDOM, OT_ZERO, OT_POISON } ot_fill_t;

typedef struct ot_tensor {
    pt_tensor_t x;     /* the view on the device */
    pt_tensor_t whole; /* all of its memory, as bytes */
    char *host, *before;
    int64_t first; /* byte of the view's first element */
    bool dense;
} ot_tensor_t;

typedef struct ot {
    pt_device_t *device;
    pt_stream_t *stream;
    void *workspace; /* of the op that needed one last; NULL: none */
    int64_t workspace_bytes;
    pt_dtype_t type; /* T */
    pt_dtype_t sum;  /* A */
    pt_dtype_t out;  /* of operands that may be T or A */
    double eps;      /* distance from 1 to the next number of A */
    double coarse;   /* that of T, in eps */
    int64_t pad;     /* extra elements between rows of tensors made from now on */
    uint64_t seed;
    bool ok;
    uint64_t hash; /* of all that was fetched */
    double worst;  /* largest error met, in eps */
    char why[160];
    ot_tensor_t tensors[OT_MAX_TENSORS];
    int used;
} ot_t;

__attribute__((format(printf, 2, 3))) static void ot_fail(ot_t *t, const char *format,
                                                          ...)
{
    va_list args;
    if (!t->ok)
        return;
    t->ok = false;
    va_start(args, format);
    vsnprintf(t->why, sizeof t->why, format, args);
    va_end(args);
}

/* The call must succeed. */
#define OT_RUN(t, call)                                                                \
    do {                                                                               \
        if ((call) != PT_OK) {                                                         \
            ot_fail(t, "%s", pt_error_last()->text);                                   \
            pt_error_clear();                                                          \
        }                                                                              \
    } while (0)

/* Byte of element e (row-major index over the shape) in the host image. */
static int64_t ot_byte(const ot_tensor_t *a, int64_t e)
{
    int64_t offset = a->dense ? e : 0;
    for (int d = a->x.ndim - 1; d >= 0 && !a->dense; d--) {
        offset += e % a->x.shape[d] * a->x.stride[d];
        e /= a->x.shape[d];
    }
    return a->first + offset * (int64_t)pt_dtype_size(a->x.dtype);
}

static double ot_get(const ot_tensor_t *a, int64_t e)
{
    const void *p = a->host + ot_byte(a, e);
    if (pt_dtype_is_float(a->x.dtype))
        return pt_float_get(a->x.dtype, p, 0);
    switch (a->x.dtype) {
    case PT_I64: return (double)*(const int64_t *)p;
    case PT_I32: return *(const int32_t *)p;
    default: return *(const uint8_t *)p;
    }
}

static void ot_set(ot_tensor_t *a, int64_t e, double value)
{
    void *p = a->host + ot_byte(a, e);
    if (pt_dtype_is_float(a->x.dtype)) {
        pt_float_set(a->x.dtype, p, 0, value);
        return;
    }
    switch (a->x.dtype) {
    case PT_I64: *(int64_t *)p = (int64_t)value; break;
    case PT_I32: *(int32_t *)p = (int32_t)value; break;
    default: *(uint8_t *)p = (uint8_t)value; break;
    }
}

static void ot_sync(ot_t *t)
{
    OT_RUN(t, t->device->ops->stream_sync(t->device, t->stream));
}

static void ot_push(ot_t *t, ot_tensor_t *a)
{
    pt_tensor_t from = a->whole;
    from.data = a->host;
    from.memory = PT_MEMORY_HOST;
    memcpy(a->before, a->host, (size_t)pt_tensor_bytes(&a->whole));
    OT_RUN(t, pt_device_copy(t->device, t->stream, &a->whole, &from));
    ot_sync(t);
}

/* Fetches the elements; checks that nothing outside the view changed and no poison is
 * left. */
static void ot_pull(ot_t *t, ot_tensor_t *a)
{
    int64_t bytes = pt_tensor_bytes(&a->whole),
            size = (int64_t)pt_dtype_size(a->x.dtype);
    int64_t count = pt_tensor_count(&a->x);
    pt_tensor_t to = a->whole;
    to.data = a->host;
    to.memory = PT_MEMORY_HOST;
    OT_RUN(t, pt_device_copy(t->device, t->stream, &to, &a->whole));
    ot_sync(t);
    for (int64_t e = 0; e < count; e++) {
        int64_t at = ot_byte(a, e);
        uint64_t bits = 0;
        memcpy(&bits, a->host + at, (size_t)size);
        if (bits == UINT64_MAX >> (64 - 8 * size) && pt_dtype_is_float(a->x.dtype))
            ot_fail(t, "element %lld was not written", (long long)e);
        t->hash = pt_mix64(t->hash + bits);
        memcpy(a->before + at, a->host + at, (size_t)size);
    }
    if (memcmp(a->before, a->host, (size_t)bytes) != 0)
        ot_fail(t, "written outside of the tensor");
    memcpy(a->before, a->host, (size_t)bytes);
}

/* New tensor of ndim dimensions; rows are t->pad elements apart (dense when 0). */
static ot_tensor_t *ot_make(ot_t *t, pt_dtype_t dtype, int ndim, const int64_t *shape,
                            ot_fill_t fill)
{
    int64_t size = (int64_t)pt_dtype_size(dtype), stride = 1;
    if (t->used == OT_MAX_TENSORS) {
        ot_fail(t, "too many tensors in one test");
        t->used--;
    }
    ot_tensor_t *a = &t->tensors[t->used++];
    void *device = NULL;

    *a = (ot_tensor_t){.x = {.ndim = ndim, .dtype = dtype, .memory = PT_MEMORY_DEVICE}};
    for (int d = ndim - 1; d >= 0; d--) {
        a->x.shape[d] = shape[d];
        a->x.stride[d] = stride;
        stride = stride * shape[d] + (ndim > 1 ? t->pad : 0);
    }
    int64_t bytes = (stride + 2 * OT_GUARD) * size;
    a->first = OT_GUARD * size;
    a->dense = pt_tensor_is_dense(&a->x);
    OT_RUN(t, pt_alloc("test", (size_t)bytes, 1, (void **)&a->host));
    OT_RUN(t, pt_alloc("test", (size_t)bytes, 1, (void **)&a->before));
    OT_RUN(t, pt_device_alloc(t->device, PT_MEMORY_DEVICE, "test", bytes, &device));
    a->whole = pt_tensor_1d(device, PT_U8, PT_MEMORY_DEVICE, bytes);
    a->x.data = (char *)device + a->first;
    memset(a->host, 0xff, (size_t)bytes);
    int64_t count = pt_tensor_count(&a->x);
    t->seed++;
    for (int64_t e = 0; fill != OT_POISON && e < count; e++)
        ot_set(a, e, fill == OT_ZERO ? 0 : pt_normal(t->seed, 1, e));
    ot_push(t, a);
    return a;
}

#define OT_NEW(t, dtype, fill, ...)                                                    \
    ot_make(t, dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),       \
            (const int64_t[]){__VA_ARGS__}, fill)

/* Dense whatever t->pad is. */
#define OT_DENSE(t, dtype, fill, ...)                                                  \
    ot_make_dense(t, dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                  (const int64_t[]){__VA_ARGS__}, fill)

static ot_tensor_t *ot_make_dense(ot_t *t, pt_dtype_t dtype, int ndim,
                                  const int64_t *shape, ot_fill_t fill)
{
    int64_t pad = t->pad;
    t->pad = 0;
    ot_tensor_t *a = ot_make(t, dtype, ndim, shape, fill);
    t->pad = pad;
    return a;
}

/* Back to no tensors. */
static void ot_reset(ot_t *t)
{
    ot_sync(t);
    for (int i = 0; i < t->used; i++) {
        ot_tensor_t *a = &t->tensors[i];
        pt_device_free(t->device, PT_MEMORY_DEVICE, a->whole.data,
                       pt_tensor_bytes(&a->whole));
        pt_free(a->host);
        pt_free(a->before);
    }
    t->used = 0;
}

/* Half the distance of neighbours of `dtype` at x, at most; 0 for types that are their
 * own A. */
static long double ot_half_step(pt_dtype_t dtype, long double x)
{
    if (dtype == PT_BF16)
        return fmaxl(fabsl(x) * 0x1p-8L, 0x1p-134L);
    return dtype == PT_F16 ? fmaxl(fabsl(x) * 0x1p-11L, 0x1p-25L) : 0;
}

/* |got - want| <= bound·eps·scale, and one rounding to `dtype`. */
static void ot_near_in(ot_t *t, pt_dtype_t dtype, double got, long double want,
                       long double scale, double bound)
{
    long double step = ot_half_step(dtype, want), off = fabsl(got - want) - step;
    double error = (double)(off / (scale * t->eps * (step > 0 ? 1 + 0x1p-7L : 1)));
    error = error < 0 ? 0 : error;
    if (isnan(got) != isnan((double)want))
        error = INFINITY;
    if (isinf(got) && isinf((double)want) && got == (double)want)
        error = 0;
    if (error > t->worst)
        t->worst = error;
    if (!(error <= bound))
        ot_fail(t, "%.17g instead of %.17Lg: %.3g eps of %.3Lg, bound %g", got, want,
                error, scale, bound);
}

static void ot_near(ot_t *t, double got, long double want, long double scale,
                    double bound)
{
    ot_near_in(t, t->type, got, want, scale, bound);
}

/* Of an operand of type A. */
static void ot_near_sum(ot_t *t, double got, long double want, long double scale,
                        double bound)
{
    ot_near_in(t, t->sum, got, want, scale, bound);
}

/* Of an operand that may be T or A. */
static void ot_near_out(ot_t *t, double got, long double want, long double scale,
                        double bound)
{
    ot_near_in(t, t->out, got, want, scale, bound);
}

static void ot_same_bits(ot_t *t, const ot_tensor_t *a, int64_t from_a,
                         const ot_tensor_t *b, int64_t from_b, int64_t count)
{
    for (int64_t e = 0; e < count; e++)
        if (memcmp(a->host + ot_byte(a, from_a + e), b->host + ot_byte(b, from_b + e),
                   pt_dtype_size(a->x.dtype)) != 0) {
            ot_fail(t, "element %lld has other bits elsewhere: %.17g and %.17g",
                    (long long)e, ot_get(a, from_a + e), ot_get(b, from_b + e));
            return;
        }
}

/* Rows and columns (last dimension) inside a tensor: where an element stands in a
 * vector, in its row and in memory is another matter in a call on a part. */
typedef struct ot_part {
    int64_t row, rows, col, cols;
} ot_part_t;

static ot_part_t ot_rows_of(int64_t n, int64_t c)
{
    return (ot_part_t){.row = n / 3, .rows = n - n / 3 - n / 4, .cols = c};
}

static ot_part_t ot_part_of(int64_t n, int64_t c)
{
    ot_part_t p = ot_rows_of(n, c);
    p.col = c > 1;
    p.cols = c - p.col;
    return p;
}

static pt_tensor_t ot_slice(const ot_tensor_t *x, const ot_part_t *p)
{
    pt_tensor_t rows = pt_tensor_slice(x->x, 0, p->row, p->rows);
    return x->x.ndim > 1 ? pt_tensor_slice(rows, x->x.ndim - 1, p->col, p->cols) : rows;
}

/* Index in `x` of element e of the part. */
static int64_t ot_in_whole(const ot_tensor_t *x, const ot_part_t *p, int64_t e)
{
    int64_t cols = x->x.shape[x->x.ndim - 1], inner = 1;
    if (x->x.ndim == 1)
        return p->row + e;
    for (int d = 1; d < x->x.ndim - 1; d++)
        inner *= x->x.shape[d];
    return (p->row * inner + e / p->cols) * cols + p->col + e % p->cols;
}

/* A tensor of its own with the shape of the part. */
static ot_tensor_t *ot_part(ot_t *t, const ot_tensor_t *x, const ot_part_t *p,
                            ot_fill_t fill)
{
    pt_tensor_t shape = ot_slice(x, p);
    return ot_make(t, x->x.dtype, x->x.ndim, shape.shape, fill);
}

/* The same with the elements of `x`. */
static ot_tensor_t *ot_copy(ot_t *t, const ot_tensor_t *x, const ot_part_t *p)
{
    ot_tensor_t *copy = ot_part(t, x, p, OT_ZERO);
    for (int64_t e = 0; e < pt_tensor_count(&copy->x); e++)
        ot_set(copy, e, ot_get(x, ot_in_whole(x, p, e)));
    ot_push(t, copy);
    return copy;
}

/* Fetches `part`, which must have the bits of that part of `x`. */
static void ot_same_part(ot_t *t, const ot_tensor_t *x, const ot_part_t *p,
                         ot_tensor_t *part)
{
    ot_pull(t, part);
    for (int64_t e = 0; e < pt_tensor_count(&part->x); e++)
        ot_same_bits(t, x, ot_in_whole(x, p, e), part, e, 1);
}

/* Sum of weight·x over all elements: the scalar of a finite difference. */
static long double ot_dot(const ot_tensor_t *weight, const ot_tensor_t *x)
{
    long double sum = 0;
    for (int64_t e = 0; e < pt_tensor_count(&x->x); e++)
        sum += (long double)ot_get(weight, e) * ot_get(x, e);
    return sum;
}

/* dx against central differences of weight·y, y made anew by forward(). What they prove
 * is the formula, so once is enough: in fp64, with dense rows. */
typedef void (*ot_forward_fn)(ot_t *t, const void *args);

static void ot_differences(ot_t *t, ot_tensor_t *x, const ot_tensor_t *dx,
                           const ot_tensor_t *weight, ot_tensor_t *y,
                           ot_forward_fn forward, const void *args)
{
    if (t->type != PT_F64 || t->pad > 0)
        return;
    double worst = t->worst;
    int64_t count = pt_tensor_count(&x->x), step = count > 150 ? 7 : 1;
    for (int64_t e = 0; e < count; e += step) {
        double value = ot_get(x, e), h = 0x1p-16;
        ot_set(x, e, value + h);
        ot_push(t, x);
        forward(t, args);
        ot_pull(t, y);
        long double up = ot_dot(weight, y);
        ot_set(x, e, value - h);
        ot_push(t, x);
        forward(t, args);
        ot_pull(t, y);
        long double slope = (up - ot_dot(weight, y)) / (2 * (long double)h);
        ot_set(x, e, value);
        ot_push(t, x);
        ot_near(t, ot_get(dx, e), slope, fabsl(slope) + 1, 1e-7 / t->eps);
    }
    t->worst = worst;
}

static void ot_open(ot_t *t, pt_isa_t isa, int threads)
{
    pt_device_options_t options = {
        .kind = backend_of_test(), .isa = isa, .threads = threads, .seed = 1};

    t->workspace = NULL;
    if (pt_device_open(&options, &t->device) != PT_OK ||
        t->device->ops->stream_create(t->device, &t->stream) != PT_OK) {
        tap_ok(0, "%s", pt_error_last()->text);
        exit(tap_done());
    }
}

static void ot_free_workspace(ot_t *t)
{
    ot_sync(t);
    pt_device_free(t->device, PT_MEMORY_DEVICE, t->workspace, t->workspace_bytes);
    t->workspace = NULL;
}

static void ot_close(ot_t *t)
{
    if (t->workspace)
        ot_free_workspace(t);
    t->device->ops->stream_destroy(t->device, t->stream);
    pt_device_close(t->device);
}

/* Before an op that needs scratch, which was just refused for having none: as much as
 * it asked for, full of NaN and up to the end of its block, behind which the shadow
 * device dies. */
static void ot_lend(ot_t *t, pt_status_t refused)
{
    int64_t bytes = t->device->workspace_peak;

    if (refused != PT_INTERNAL || !strstr(pt_error_last()->text, "of workspace"))
        ot_fail(t, "did not ask for a workspace");
    pt_error_clear();
    if (bytes > OT_WORKSPACE)
        ot_fail(t, "asks for %lld bytes", (long long)bytes);
    if (t->workspace)
        ot_free_workspace(t);
    t->workspace_bytes = bytes;
    OT_RUN(t, pt_device_alloc(t->device, PT_MEMORY_DEVICE, "workspace", bytes,
                              &t->workspace));
    pt_op_fill_t fill = {pt_tensor_1d(t->workspace, PT_F32, PT_MEMORY_DEVICE,
                                      bytes / (int64_t)sizeof(float)),
                         NAN};
    OT_RUN(t, pt_op_fill(t->device, t->stream, &fill));
    pt_device_set_workspace(t->device, t->stream, t->workspace, bytes);
}

/* Runs an op that needs scratch, or needs it if so. */
#define OT_RUN_LENT_IF(needs, t, call)                                                 \
    do {                                                                               \
        if (needs)                                                                     \
            OT_RUN_LENT(t, call);                                                      \
        else                                                                           \
            OT_RUN(t, call);                                                           \
    } while (0)
#define OT_RUN_LENT(t, call)                                                           \
    do {                                                                               \
        (t)->device->workspace_peak = 0;                                               \
        pt_device_set_workspace((t)->device, (t)->stream, NULL, 0);                    \
        ot_lend(t, call);                                                              \
        OT_RUN(t, call);                                                               \
    } while (0)

#endif
