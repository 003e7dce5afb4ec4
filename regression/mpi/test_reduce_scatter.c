/* TEST np=1,2,3,4,5,8 backend=cpu,shadow timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Reduce-scatter and all-reduce are sums in rank order, bit for bit, and an all-gather
 * through a ring brings every block: for all sizes around the border of a piece, blocks
 * that are unequal or empty, and slots whose order is tried by chance. Expectation: the
 * loop in rank order. */
#include "regression/mpi/ranks.h"

#include <math.h>

enum { MOST = 2048, MOST_RANKS = 8, PEER = 512 };

static double drawn[MOST_RANKS * MOST], wanted[MOST_RANKS * MOST];

typedef struct variant {
    const char *name;
    pt_dtype_t send, wire_dtype, recv;
    bool accumulate, inside; /* inside: recv is this rank's block of send */
} variant_t;

/* To the nearest number of `digits` binary digits, ties to even; below `smallest` in
 * its steps. */
static double rounded(double x, int digits, int smallest)
{
    int exponent;

    (void)frexp(x, &exponent);
    int step = exponent - digits < smallest ? smallest : exponent - digits;
    return ldexp(nearbyint(ldexp(x, -step)), step);
}

static double as(pt_dtype_t dtype, double x)
{
    return dtype == PT_BF16  ? rounded(x, 8, -133)
           : dtype == PT_F16 ? rounded(x, 11, -24)
           : dtype == PT_F32 ? (double)(float)x
                             : x;
}

/* Within the range of fp16. */
static double value(int rank, int64_t i, pt_dtype_t dtype)
{
    double x = ranks_number(rank, i) * (i % 3 == 0 ? 1e3 : 1);

    return as(dtype, x);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* x is a number of the type. */
static void store(void *array, pt_dtype_t dtype, int64_t i, double x)
{
    int exponent;
    double fraction = frexp(fabs(x), &exponent);

    if (dtype == PT_F64)
        ((double *)array)[i] = x;
    else if (dtype == PT_F32)
        ((float *)array)[i] = (float)x;
    else if (dtype == PT_BF16)
        ((uint16_t *)array)[i] = (uint16_t)(bits_of((float)x) >> 16);
    else if (x == 0 || exponent < -13) /* zero, subnormal: in steps of 2^-24 */
        ((uint16_t *)array)[i] =
            (uint16_t)((int)signbit(x) << 15 | (int)ldexp(fabs(x), 24));
    else /* sign, exponent (bias 15) of a significand of 1 to 2, ten digits of it */
        ((uint16_t *)array)[i] =
            (uint16_t)((int)signbit(x) << 15 | (exponent + 14) << 10 |
                       ((int)ldexp(fraction, 11) - 1024));
}

/* In the accumulator of recv's type, ranks in order, what was there last; rounded
 * once. */
static void expect(const variant_t *v, int64_t first, int64_t n)
{
    pt_dtype_t sum_type = v->recv == PT_F64 ? PT_F64 : PT_F32;

    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int r = 0; r < ranks.size; r++) {
            double x = as(v->wire_dtype, value(r, first + i, v->send));
            sum = as(sum_type, r == 0 ? x : sum + x);
        }
        if (v->accumulate)
            sum = as(sum_type, 0.5 + sum);
        store(wanted, v->recv, i, as(v->recv, sum));
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Where block r of `count` elements begins, cut at multiples of `grain`. */
static int64_t start_of(int64_t count, int64_t grain, int rank)
{
    int64_t grains = (count + grain - 1) / grain;

    return least(grains * rank / ranks.size * grain, count);
}

static void fill(pt_dtype_t dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        store(drawn, dtype, i, value(ranks.rank, i, dtype));
}

/* Of `count` elements; grain 0: an all-reduce, which has one block for all. */
static bool sum(const variant_t *v, int64_t count, int64_t grain)
{
    int64_t first = grain ? start_of(count, grain, ranks.rank) : 0;
    int64_t n = (grain ? start_of(count, grain, ranks.rank + 1) : count) - first;
    pt_transfer_t t = {.kind = grain ? PT_REDUCE_SCATTER : PT_ALL_REDUCE,
                       .comm = ranks.world,
                       .granularity = grain,
                       .wire_dtype = v->wire_dtype,
                       .accumulate = v->accumulate};
    pt_request_t *request;
    static double got[MOST_RANKS * MOST];

    fill(v->send, count);
    t.send = ranks_put(PT_MEMORY_DEVICE, v->send, count, drawn);
    for (int64_t i = 0; i < n; i++)
        store(drawn, v->recv, i, 0.5);
    t.recv = v->inside ? pt_tensor_slice(t.send, 0, first, n)
                       : ranks_put(PT_MEMORY_DEVICE, v->recv, n, drawn);
    MUST(pt_comm_mark(ranks.engine, ranks.stream, &t.ready));
    MUST(pt_comm_begin(&t, &request));
    MUST(pt_comm_end(&request, ranks.stream));
    if (v->inside && n > 0)
        MUST(ranks.device->ops->copy(ranks.device, ranks.stream, got, PT_MEMORY_HOST,
                                     t.recv.data, PT_MEMORY_DEVICE,
                                     pt_tensor_bytes(&t.recv)));
    else
        ranks_get(&t.recv, got);
    ranks_get(&t.send, NULL);
    expect(v, first, n);
    return memcmp(got, wanted, (size_t)n * pt_dtype_size(v->recv)) == 0;
}

/* Elements of a block around whole pieces. */
static bool all_sizes(const variant_t *v)
{
    int64_t piece = PEER / (int64_t)pt_dtype_size(v->wire_dtype);
    const int64_t sizes[] = {0,     1,         37,        piece - 1,
                             piece, piece + 1, 3 * piece, 2 * piece + 5};
    const int64_t grains[] = {1, 24, 1024};
    bool ok = true;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ok = sum(v, sizes[i] * ranks.size, 1) && ok;
        ok = sum(v, sizes[i], 0) && ok;
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++)
            ok = sum(v, sizes[i] * ranks.size + 3, grains[g]) && ok;
    }
    return ok;
}

/* From a tensor of its own, or in place. */
static bool gather(pt_dtype_t dtype, int64_t count, int64_t grain, bool in_place)
{
    int64_t first = start_of(count, grain, ranks.rank);
    int64_t n = start_of(count, grain, ranks.rank + 1) - first;
    pt_transfer_t t = {.kind = PT_ALL_GATHER, .comm = ranks.world, .granularity = grain};
    pt_request_t *request;
    static double got[MOST_RANKS * MOST];
    size_t bytes = pt_dtype_size(dtype);

    memset(drawn, 0x55, sizeof drawn);
    for (int64_t i = 0; i < n; i++)
        store(drawn, dtype, (in_place ? first : 0) + i,
              value(ranks.rank, first + i, dtype));
    t.recv = ranks_put(PT_MEMORY_DEVICE, dtype, count, drawn);
    t.send = in_place ? pt_tensor_slice(t.recv, 0, first, n)
                      : ranks_put(PT_MEMORY_DEVICE, dtype, n, drawn);
    MUST(pt_comm_mark(ranks.engine, ranks.stream, &t.ready));
    MUST(pt_comm_begin(&t, &request));
    MUST(pt_comm_end(&request, ranks.stream));
    ranks_get(&t.recv, got);
    if (!in_place)
        ranks_get(&t.send, NULL);
    for (int r = 0; r < ranks.size; r++)
        for (int64_t i = start_of(count, grain, r); i < start_of(count, grain, r + 1);
             i++)
            store(wanted, dtype, i, value(r, i, dtype));
    return memcmp(got, wanted, (size_t)count * bytes) == 0;
}

static void test_gathers(void)
{
    const pt_dtype_t types[] = {PT_F64, PT_F32, PT_BF16};
    bool ok = true;

    for (int d = 0; d < 3; d++) {
        int64_t piece = PEER / (int64_t)pt_dtype_size(types[d]);
        for (int in_place = 0; in_place < 2; in_place++)
            for (int64_t n = 0; n <= 2 * piece + 1; n += piece / 2 + 1) {
                ok = gather(types[d], n * ranks.size, 1, in_place) && ok;
                ok = gather(types[d], n * ranks.size + 5, 24, in_place) && ok;
                ok = gather(types[d], n, 1024, in_place) && ok;
            }
    }
    tap_all(ok, "gathers of equal, unequal and empty blocks");
}

static void refused(pt_transfer_t t, const char *wanted)
{
    pt_request_t *request;

    tap_all(pt_comm_begin(&t, &request) == PT_INTERNAL && !request &&
                strstr(pt_error_last()->text, wanted),
            "refused: %s", pt_error_last()->text);
    pt_error_clear();
}

static void test_refusals(void)
{
    pt_transfer_t t = {.kind = PT_REDUCE_SCATTER,
                       .comm = ranks.world,
                       .wire_dtype = PT_F32,
                       .granularity = 1};
    pt_tensor_t device = ranks_put(PT_MEMORY_DEVICE, PT_F32, 2 * ranks.size + 1, drawn);

    t.send = pt_tensor_1d(drawn, PT_F32, PT_MEMORY_HOST, ranks.size);
    refused(t, "must lie in device memory");
    t.send = pt_tensor_slice(device, 0, 0, 2 * ranks.size);
    t.recv = pt_tensor_slice(device, 0, 2 * ranks.size, 1);
    refused(t, "recv must have 2 elements");
    t.recv = pt_tensor_slice(device, 0, 2 * ranks.rank + 1, 2);
    refused(t, "overlap");
    t.recv.data = NULL, t.wire_dtype = PT_F64;
    refused(t, "send's or narrower");
    ranks_get(&device, NULL);
}

int main(int argc, char **argv)
{
    const variant_t variants[] = {
        {"fp32", PT_F32, PT_F32, PT_F32, false, false},
        {"fp64", PT_F64, PT_F64, PT_F64, false, false},
        {"fp32 accumulated", PT_F32, PT_F32, PT_F32, true, false},
        {"fp64 inside send", PT_F64, PT_F64, PT_F64, false, true},
        {"fp64 over an fp32 wire", PT_F64, PT_F32, PT_F64, false, false},
        {"fp64 over an fp32 wire, inside send", PT_F64, PT_F32, PT_F64, false, true},
        {"fp32 over a bf16 wire", PT_F32, PT_BF16, PT_F32, false, false},
        {"fp32 over a bf16 wire, inside send", PT_F32, PT_BF16, PT_F32, false, true},
        {"fp32 over a bf16 wire, accumulated", PT_F32, PT_BF16, PT_F32, true, false},
        {"fp32 over an fp16 wire", PT_F32, PT_F16, PT_F32, false, false},
        {"bf16", PT_BF16, PT_BF16, PT_BF16, false, false},
        {"bf16 inside send", PT_BF16, PT_BF16, PT_BF16, false, true},
        {"bf16 accumulated", PT_BF16, PT_BF16, PT_BF16, true, false},
        {"fp16 inside send", PT_F16, PT_F16, PT_F16, false, true},
        {"bf16 into fp32", PT_BF16, PT_BF16, PT_F32, true, false},
    };

    ranks_start(&argc, &argv);
    for (int chaos = 0; chaos < 3; chaos++) {
        ranks_open_engine((uint64_t)chaos);
        ranks_open_ring(1 + chaos, PEER);
        for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
            tap_all(all_sizes(&variants[i]), "sum in rank order, %d slots: %s",
                    1 + chaos, variants[i].name);
        test_gathers();
        if (chaos == 0)
            test_refusals();
        ranks_close_engine();
    }
    ranks_open_engine(0);
    refused((pt_transfer_t){.kind = PT_REDUCE_SCATTER,
                            .comm = ranks.world,
                            .send = pt_tensor_1d(NULL, PT_F32, PT_MEMORY_DEVICE, 0)},
            "no ring");
    ranks_close_engine();
    return ranks_finish();
}
