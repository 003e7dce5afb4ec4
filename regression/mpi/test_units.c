/* TEST np=1,2,3,4,5,8 backend=cpu,shadow timeout=120 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Units over replicas: gradients become the sums of all in rank order, every replica's
 * shard reaches the others, nobody waits before finish though requests are ready at
 * random, and work and staging memory do not grow with the largest unit. Expectation:
 * the loop in rank order. */
#include "regression/mpi/ranks.h"

#include "penta/model/arch.h"
#include "penta/parallel/units.h"

enum { MOST_ELEMENTS = 1 << 21 };

static struct {
    pt_mesh_t mesh;
    pt_param_table_t table;
    pt_units_t *units;
    pt_arena_t arena[3]; /* weights, gradients, communication */
} rig;

static float numbers[MOST_ELEMENTS], wanted[MOST_ELEMENTS];

static const pt_arch_t small = {.layers = 3,
                                .hidden = 24,
                                .ffn = 40,
                                .heads = 4,
                                .kv_heads = 2,
                                .head_dim = 6,
                                .vocab = 101,
                                .max_positions = 16,
                                .norm = PT_NORM_RMS,
                                .activation = PT_ACTIVATION_SWIGLU,
                                .positions = PT_POSITIONS_ROTARY,
                                .dtype = PT_F32};

static pt_status_t layout(void)
{
    return pt_units_layout(rig.units, &rig.arena[0], &rig.arena[1], &rig.arena[2]);
}

static void open_rig(const pt_arch_t *arch, pt_units_options_t options, bool place)
{
    pt_cut_t cut;
    pt_mesh_shape_t shape = pt_mesh_shape_default();

    options.weight_dtype = options.grad_dtype = PT_F32;
    shape.size[PT_AXIS_DATA] = ranks.size;
    MUST(pt_mesh_shape_complete(&shape, ranks.size));
    MUST(pt_mesh_create(ranks.engine, &shape, &rig.mesh));
    MUST(pt_cut_create((int)arch->layers, 1, 1, &cut));
    MUST(pt_param_table_create(arch, cut, &rig.table));
    MUST(pt_units_create(&rig.table, &rig.mesh, ranks.device, &options, &rig.units));
    for (int i = 0; i < 3; i++)
        pt_arena_init(&rig.arena[i], PT_CLASS_COMMUNICATION, PT_MEMORY_DEVICE);
    MUST(layout());
    if (!place)
        return;
    for (int i = 0; i < 3; i++)
        MUST(pt_device_place_arena(ranks.device, &rig.arena[i]));
    MUST(layout());
    MUST(pt_units_prepare(rig.units, ranks.stream));
}

static void close_rig(void)
{
    pt_units_destroy(rig.units);
    pt_param_table_destroy(&rig.table);
    pt_mesh_destroy(&rig.mesh);
    for (int i = 0; i < 3; i++)
        pt_device_free_arena(ranks.device, &rig.arena[i]);
}

static float value(int rank, int bucket, int64_t i)
{
    return ranks_number(rank * 100 + bucket, i);
}

/* The whole buffer of a bucket, through the view of its first parameter. */
static pt_tensor_t whole_grads(int bucket)
{
    int p = 0;

    while (pt_units_bucket_of(rig.units, p) != bucket)
        p++;
    pt_tensor_t first = pt_units_grad(rig.units, p);
    return pt_tensor_1d(first.data, first.dtype, first.memory,
                        pt_bucket_elements(rig.units, bucket));
}

static void copy(pt_tensor_t x, float *host, bool out)
{
    pt_tensor_t y = pt_tensor_1d(host, PT_F32, PT_MEMORY_HOST, pt_tensor_count(&x));

    MUST(pt_device_copy(ranks.device, ranks.stream, out ? &y : &x, out ? &x : &y));
    MUST(ranks.device->ops->stream_sync(ranks.device, ranks.stream));
}

/* Element i of x is `first` + i of the bucket. */
static bool holds(pt_tensor_t x, int64_t first,
                  float (*expected)(int bucket, int64_t i), int bucket)
{
    int64_t count = pt_tensor_count(&x);

    copy(x, numbers, true);
    for (int64_t i = 0; i < count; i++)
        wanted[i] = expected(bucket, first + i);
    return memcmp(numbers, wanted, (size_t)count * sizeof *numbers) == 0;
}

static float sum_of(int bucket, int64_t i)
{
    float sum = value(0, bucket, i);

    for (int r = 1; r < ranks.size; r++)
        sum += value(r, bucket, i);
    return sum;
}

/* What a backward pass does; gradients appear by themselves. */
static bool step(void)
{
    const pt_traffic_t *traffic = pt_engine_traffic(ranks.engine);
    int64_t waits;
    bool ok = true;

    MUST(pt_units_clear_grads(rig.units, ranks.stream));
    for (int b = 0; b < pt_units_buckets(rig.units); b++) {
        pt_tensor_t grads = whole_grads(b);
        for (int64_t i = 0; i < pt_tensor_count(&grads); i++)
            numbers[i] = value(ranks.rank, b, i);
        copy(grads, numbers, false);
    }
    waits = traffic->waits;
    for (int u = rig.table.units - 1; u >= 0; u--) {
        MUST(pt_units_grad_need(rig.units, u, ranks.stream));
        MUST(pt_units_grad_done(rig.units, u, true, ranks.stream));
        for (int poll = 0; poll < ranks.rank; poll++)
            MUST(pt_comm_progress(ranks.engine));
    }
    ok = traffic->waits == waits;
    MUST(pt_units_finish(rig.units, ranks.stream));
    for (int b = 0; b < pt_units_buckets(rig.units); b++)
        ok = holds(pt_bucket_grads(rig.units, b), pt_bucket_updated(rig.units, b).first,
                   sum_of, b) &&
             ok;
    return ok;
}

static int64_t shard_end[8];

static float owner_of(int bucket, int64_t i)
{
    int owner = 0;

    while (i >= shard_end[owner])
        owner++;
    return value(owner, bucket, i);
}

/* Sets this replica's shard of the weights, and learns the others' ends. */
static pt_tensor_t write_shard(int bucket)
{
    pt_tensor_t weights = pt_bucket_weights(rig.units, bucket);
    pt_bucket_range_t shard = pt_bucket_shard(rig.units, bucket);
    int64_t end = shard.first + shard.count;

    for (int root = 0; root < ranks.size; root++)
        MUST(pt_comm_gather_bytes(ranks.world, root, &end, sizeof end, shard_end));
    memset(numbers, 0x55, sizeof numbers);
    for (int64_t i = shard.first; i < end; i++)
        numbers[i] = value(ranks.rank, bucket, i);
    copy(weights, numbers, false);
    return weights;
}

static bool gather(void)
{
    bool ok = true;

    for (int b = 0; b < pt_units_buckets(rig.units); b++) {
        pt_tensor_t weights = write_shard(b);
        MUST(pt_bucket_gather(rig.units, b, weights, ranks.stream));
        ok = ranks.size == 1 || (holds(weights, 0, owner_of, b) && ok);
    }
    return ok;
}

/* Updated buckets are whole when they are needed, or settled; nobody waits before. At
 * stage 0 nothing is sent. */
static bool update(bool zero, bool settle)
{
    const pt_traffic_t *traffic = pt_engine_traffic(ranks.engine);
    const pt_traffic_row_t *row = &traffic->rows[PT_AXIS_DATA][PT_ALL_GATHER];
    int64_t calls = row->calls, waits;
    bool ok = true;

    for (int b = 0; b < pt_units_buckets(rig.units); b++)
        write_shard(b);
    waits = traffic->waits;
    for (int b = 0; b < pt_units_buckets(rig.units); b++)
        MUST(pt_bucket_was_updated(rig.units, b, ranks.stream));
    ok = traffic->waits == waits &&
         row->calls - calls == (zero && ranks.size > 1) * pt_units_buckets(rig.units);
    if (settle)
        MUST(pt_units_settle(rig.units, ranks.stream));
    for (int u = 0; u < rig.table.units; u++)
        MUST(pt_units_need(rig.units, u, ranks.stream));
    for (int b = 0; b < pt_units_buckets(rig.units); b++) {
        for (int root = 0; root < ranks.size; root++) {
            pt_bucket_range_t shard = pt_bucket_shard(rig.units, b);
            int64_t end = shard.first + shard.count;
            MUST(pt_comm_gather_bytes(ranks.world, root, &end, sizeof end, shard_end));
        }
        if (zero || ranks.size == 1)
            ok = holds(pt_bucket_weights(rig.units, b), 0, owner_of, b) && ok;
    }
    for (int u = 0; u < rig.table.units; u++)
        MUST(pt_units_release(rig.units, u, ranks.stream));
    return ok;
}

static void test_sums(const char *name, const pt_arch_t *arch, int64_t merge_bytes,
                      int zero)
{
    for (int chaos = 0; chaos < 3; chaos++) {
        pt_units_options_t options = {.zero = zero,
                                      .overlap = chaos != 2,
                                      .in_flight = 1 + chaos,
                                      .merge_bytes = merge_bytes,
                                      .wire_dtype = PT_F32};
        ranks_open_engine((uint64_t)chaos);
        open_rig(arch, options, true);
        bool ok = step();
        ok = step() && ok;
        tap_all(ok, "%s, stage %d: sums, and no wait before finish; chaos %d", name,
                zero, chaos);
        tap_all(gather(), "%s: every shard reaches all", name);
        ok = update(zero, false);
        tap_all(ok, "%s, stage %d: updated weights reach all when needed", name, zero);
        ok = update(zero, true);
        tap_all(ok, "%s, stage %d: or when settled", name, zero);
        close_rig();
        ranks_close_engine();
    }
}

/* Work and staging of a ring of three pieces, sent in bf16; elements of the largest
 * bucket. */
static void measure(const pt_arch_t *arch, int64_t bytes[2], int64_t *largest)
{
    pt_units_options_t options = {
        .overlap = true, .in_flight = 3, .wire_dtype = PT_BF16};

    ranks_open_engine(0);
    open_rig(arch, options, false);
    bytes[0] = rig.arena[2].peak;
    bytes[1] = pt_engine_staging_peak(ranks.engine);
    *largest = 0;
    for (int b = 0; b < pt_units_buckets(rig.units); b++)
        if (pt_bucket_elements(rig.units, b) > *largest)
            *largest = pt_bucket_elements(rig.units, b);
    close_rig();
    ranks_close_engine();
}

static void test_memory(void)
{
    pt_arch_t arch = small;
    int64_t less[2], more[2], largest, share;

    measure(&arch, less, &largest);
    share = (largest + ranks.size - 1) / ranks.size;
    share = (share + PT_SHARD_ALIGN - 1) / PT_SHARD_ALIGN * PT_SHARD_ALIGN;
    /* A piece of a share for each rank, as it comes and as it is sent, of two bytes an
     * element. */
    tap_all(less[0] == (ranks.size > 1 ? 3 * ranks.size * share * 2 * 2 : 0),
            "a small model needs %lld bytes of work", (long long)less[0]);
    arch.vocab = 32768, arch.hidden = 96;
    measure(&arch, less, &largest);
    arch.vocab *= 8;
    measure(&arch, more, &largest);
    tap_all(less[0] == more[0] && less[1] == more[1] &&
                (less[1] > 0) == (ranks.size > 1),
            "%lld bytes of work and %lld of staging, also for a unit 8 times as large",
            (long long)more[0], (long long)more[1]);
}

int main(int argc, char **argv)
{
    pt_arch_t wide = small;

    wide.vocab = 3000, wide.hidden = 200;
    ranks_start(&argc, &argv);
    for (int zero = 0; zero < 2; zero++) {
        test_sums("few elements", &small, 0, zero);
        test_sums("merged", &small, 20000, zero);
        test_sums("several pieces", &wide, 0, zero);
    }
    test_memory();
    return ranks_finish();
}
