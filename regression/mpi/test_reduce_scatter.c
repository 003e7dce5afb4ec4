/* TEST np=1,2,3,4,8 backend=cpu,shadow timeout=60 */
/* Reduce-scatter is the sum in rank order, bit for bit. Expectation: the loop in rank order. */
#include "regression/mpi/ranks.h"

#include "penta/base/normal.h"

#include <math.h>

enum { MOST = 2048, MOST_RANKS = 8 };

static double drawn[MOST_RANKS * MOST], wanted[MOST], blank[2 * MOST_RANKS * MOST];

typedef struct variant {
    const char *name;
    pt_dtype_t send, work, recv;
    bool accumulate, inside; /* inside: recv is this rank's block of send */
} variant_t;

/* To the nearest number of `digits` binary digits, ties to even; below `smallest` in its steps. */
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
    double x = pt_normal(11, (uint64_t)rank, i) * (i % 3 == 0 ? 1e3 : 1);

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
    else if (exponent < -13) /* subnormal: in steps of 2^-24 */
        ((uint16_t *)array)[i] =
            (uint16_t)((int)signbit(x) << 15 | (int)ldexp(fabs(x), 24));
    else /* sign, exponent (bias 15) of a significand of 1 to 2, ten digits of it */
        ((uint16_t *)array)[i] =
            (uint16_t)((int)signbit(x) << 15 | (exponent + 14) << 10 |
                       ((int)ldexp(fraction, 11) - 1024));
}

/* In the accumulator of recv's type, ranks in order, what was there last; rounded once. */
static void expect(const variant_t *v, int64_t n)
{
    pt_dtype_t sum_type = v->recv == PT_F64 ? PT_F64 : PT_F32;

    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int r = 0; r < ranks.size; r++) {
            double x = as(v->work, value(r, ranks.rank * n + i, v->send));
            sum = as(sum_type, r == 0 ? x : sum + x);
        }
        if (v->accumulate)
            sum = as(sum_type, 0.5 + sum);
        store(wanted, v->recv, i, as(v->recv, sum));
    }
}

static bool run(const variant_t *v, int64_t n)
{
    int64_t count = n * ranks.size;
    pt_transfer_t t = {
        .kind = PT_REDUCE_SCATTER, .comm = ranks.world, .accumulate = v->accumulate};
    pt_request_t *request;
    static double got[MOST];

    for (int64_t i = 0; i < count; i++)
        store(drawn, v->send, i, value(ranks.rank, i, v->send));
    t.send = ranks_put(PT_MEMORY_DEVICE, v->send, count, drawn);
    t.work = ranks_put(PT_MEMORY_DEVICE, v->work,
                       v->work == v->send ? count : 2 * count, blank);
    for (int64_t i = 0; i < n; i++)
        store(drawn, v->recv, i, 0.5);
    t.recv = v->inside ? pt_tensor_slice(t.send, 0, ranks.rank * n, n)
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
    ranks_get(&t.work, NULL);
    ranks_get(&t.send, NULL);
    expect(v, n);
    return memcmp(got, wanted, (size_t)n * pt_dtype_size(v->recv)) == 0;
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
    pt_transfer_t host = {.kind = PT_REDUCE_SCATTER};
    pt_request_t *request;

    ranks_start(&argc, &argv);
    ranks_open_engine(5);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        bool ok = run(&variants[i], 0);
        ok = run(&variants[i], 1) && ok;
        ok = run(&variants[i], 37) && ok;
        ok = run(&variants[i], MOST) && ok;
        tap_all(ok, "sum in rank order: %s", variants[i].name);
    }
    host.comm = ranks.world;
    host.send = pt_tensor_1d(blank, PT_F32, PT_MEMORY_HOST, ranks.size);
    tap_all(pt_comm_begin(&host, &request) == PT_INTERNAL && !request,
            "host memory is refused: %s", pt_error_last()->text);
    pt_error_clear();
    ranks_close_engine();
    return ranks_finish();
}
