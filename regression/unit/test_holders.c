/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds what under tensor 1 to 8, over dry transports, against tables written by
 * hand; the elements that all ranks speak for, in files and in the norm, are every
 * element of the model once: fewer KV heads than ranks, and a vocabulary of 101,
 * included. */
#include "regression/tap.h"

#include "penta/base/alloc.h"
#include "penta/model/arch.h"
#include "penta/parallel/layout.h"
#include "penta/parallel/units.h"

#include <string.h>

enum { REPLICAS = PT_DENSE_REPLICAS, TENSOR = 1 << PT_AXIS_TENSOR, MOST = 1 << 14 };

static pt_config_t config;
static pt_arch_t arch = {.layers = 1,
                         .hidden = 48,
                         .ffn = 64,
                         .heads = 8,
                         .kv_heads = 2,
                         .head_dim = 6,
                         .vocab = 101,
                         .max_positions = 16,
                         .norm = PT_NORM_LAYER,
                         .activation = PT_ACTIVATION_SWIGLU,
                         .positions = PT_POSITIONS_LEARNED,
                         .bias_qkv = true,
                         .bias_all = true,
                         .dtype = PT_F32};

/* A rank of a world of tensor × data that does not exist. */
typedef struct world {
    pt_transport_t *transport;
    pt_engine_t *engine;
    pt_mesh_t mesh;
    pt_param_table_t table;
    pt_units_t *units;
} world_t;

static bool open_world(world_t *w, int tensor, int data, int rank)
{
    pt_engine_options_t engine = {.max_requests = 4};
    pt_units_options_t units = {.in_flight = 1,
                                .weight_dtype = PT_F32,
                                .grad_dtype = PT_F32,
                                .wire_dtype = PT_F32};
    pt_mesh_shape_t shape = pt_mesh_shape_default();
    pt_cut_t cut;

    memset(w, 0, sizeof *w);
    shape.size[PT_AXIS_TENSOR] = tensor, shape.size[PT_AXIS_DATA] = data;
    return pt_mesh_shape_complete(&shape, tensor * data) == PT_OK &&
           pt_transport_open_dry(rank, tensor * data, &w->transport) == PT_OK &&
           pt_engine_create(w->transport, &engine, &w->engine) == PT_OK &&
           pt_mesh_create(w->engine, &shape, &w->mesh) == PT_OK &&
           pt_cut_create((int)arch.layers, 1, 1, &cut) == PT_OK &&
           pt_param_table_create(&arch, cut, &w->table) == PT_OK &&
           pt_units_create(&w->table, &w->mesh, NULL, &units, &w->units) == PT_OK;
}

static void close_world(world_t *w)
{
    pt_units_destroy(w->units);
    pt_param_table_destroy(&w->table);
    pt_mesh_destroy(&w->mesh);
    pt_engine_destroy(w->engine);
    pt_transport_close(w->transport);
}

/* ---- by hand ---------------------------------------------------------------------------------- */

static const struct {
    pt_role_t role;
    int part, tensor;
    unsigned same, other;
    int sharers;
    unsigned owners; /* bit t: the rank with tensor coordinate t */
} expected[] = {
    {PT_ROLE_TOKEN_EMBEDDING, 0, 2, REPLICAS, TENSOR, 1, 0x3},
    {PT_ROLE_TOKEN_EMBEDDING, 0, 8, REPLICAS, TENSOR, 1, 0xff},
    {PT_ROLE_POSITION_EMBEDDING, 0, 4, REPLICAS | TENSOR, 0, 1, 0x1},
    {PT_ROLE_ATTENTION_NORM, 0, 2, REPLICAS | TENSOR, 0, 1, 0x1},
    {PT_ROLE_ATTENTION_NORM, 0, 8, REPLICAS | TENSOR, 0, 1, 0x1},
    {PT_ROLE_QKV, 0, 2, REPLICAS, TENSOR, 1, 0x3}, /* q: 8 heads */
    {PT_ROLE_QKV, 1, 2, REPLICAS, TENSOR, 1, 0x3}, /* k: 2 heads */
    {PT_ROLE_QKV, 2, 2, REPLICAS, TENSOR, 1, 0x3},
    {PT_ROLE_QKV, 0, 4, REPLICAS, TENSOR, 1, 0xf},
    {PT_ROLE_QKV, 1, 4, REPLICAS, TENSOR, 2, 0x5},
    {PT_ROLE_QKV, 2, 4, REPLICAS, TENSOR, 2, 0x5},
    {PT_ROLE_QKV, 0, 8, REPLICAS, TENSOR, 1, 0xff},
    {PT_ROLE_QKV, 1, 8, REPLICAS, TENSOR, 4, 0x11},
    {PT_ROLE_QKV_BIAS, 2, 8, REPLICAS, TENSOR, 4, 0x11},
    {PT_ROLE_ATTENTION_OUT, 0, 8, REPLICAS, TENSOR, 1, 0xff},
    {PT_ROLE_ATTENTION_OUT_BIAS, 0, 4, REPLICAS | TENSOR, 0, 1, 0x1},
    {PT_ROLE_FFN_IN, 1, 8, REPLICAS, TENSOR, 1, 0xff},
    {PT_ROLE_FFN_OUT, 0, 4, REPLICAS, TENSOR, 1, 0xf},
    {PT_ROLE_HEAD, 0, 4, REPLICAS, TENSOR, 1, 0xf},
};

static int find(const pt_param_table_t *table, pt_role_t role)
{
    int param = pt_param_find(table, role, -1);

    return param >= 0 ? param : pt_param_find(table, role, 0);
}

static void test_by_hand(void)
{
    bool ok = true;

    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        for (int rank = 0; rank < 2 * expected[i].tensor; rank++) {
            world_t w;
            ok = open_world(&w, expected[i].tensor, 2, rank) && ok;
            int param = find(&w.table, expected[i].role), part = expected[i].part;
            pt_holders_t holders = pt_units_holders(w.units, param, part);
            bool owner = expected[i].owners >> w.mesh.coordinate[PT_AXIS_TENSOR] & 1;
            bool right = holders.same == expected[i].same &&
                         holders.other == expected[i].other &&
                         holders.sums == REPLICAS && holders.axis == PT_AXIS_TENSOR &&
                         holders.sharers == expected[i].sharers &&
                         holders.owner == owner &&
                         pt_units_is_owner(w.units, param, part) == owner;
            if (!right)
                tap_note("line %d of the table, rank %d", (int)i, rank);
            ok = ok && right;
            close_world(&w);
        }
    tap_ok(ok, "holders of %d parts as written by hand",
           (int)(sizeof expected / sizeof *expected));
}

static void test_rows(void)
{
    pt_mesh_shape_t shape = pt_mesh_shape_default();
    int coordinate[PT_AXIS_COUNT] = {0};
    pt_param_t norm = {.shard = {.kind = PT_SHARD_NONE, .axis = PT_AXIS_TENSOR},
                       .grad = PT_PARTIAL_SUM};
    pt_param_t expert = {.shard = {PT_SHARD_PLAIN, 1, PT_AXIS_EXPERT_TENSOR, 1, false},
                         .expert = true,
                         .parts = 1,
                         .part[0].shape = {8, 64, 32}};

    shape.size[PT_AXIS_TENSOR] = 4;
    tap_ok(pt_holders_of(&norm, 0, &shape, coordinate).sums == (REPLICAS | TENSOR),
           "a partial gradient is summed over the tensor axis too");
    pt_holders_t holders = pt_holders_of(&expert, 0, &shape, coordinate);
    tap_ok(holders.same == PT_AXIS_BIT(PT_AXIS_EXPERT_DATA) &&
               holders.sums == holders.same && holders.owner &&
               holders.other ==
                   (PT_AXIS_BIT(PT_AXIS_EXPERT) | PT_AXIS_BIT(PT_AXIS_EXPERT_TENSOR)),
           "experts are held by their own groups");
}

/* ---- every element once ----------------------------------------------------------------------- */

static unsigned char seen[64][MOST]; /* by part, in the order of the table */

static void visit_slab(const pt_part_t *part, const pt_hyperslab_t *slab, int ordinal)
{
    int64_t cols = part->ndim > 1 ? part->shape[1] : 1;

    for (int64_t r = 0; r < slab->count[0]; r++)
        for (int64_t c = 0; c < (part->ndim > 1 ? slab->count[1] : 1); c++) {
            int64_t at =
                (slab->start[0] + r) * cols + slab->start[1] * (part->ndim > 1) + c;
            seen[ordinal][at < MOST ? at : 0] += at < MOST ? 1 : 2;
        }
}

/* Returns how many elements the norm of this rank has. */
static int64_t visit_rank(const world_t *w)
{
    int ordinal = 0;
    int64_t counted = 0;

    for (int p = 0; p < w->table.count; p++) {
        pt_bucket_range_t owned[PT_MAX_PARTS];
        pt_bucket_range_t shard =
            pt_bucket_shard(w->units, pt_units_bucket_of(w->units, p));
        int64_t end = shard.first + shard.count;
        int ranges = pt_units_owned(w->units, p, owned);
        for (int i = 0; i < ranges; i++)
            for (int64_t at = owned[i].first; at < owned[i].first + owned[i].count; at++)
                counted += at >= shard.first && at < end;
        for (int part = 0; part < w->table.params[p].parts; part++, ordinal++) {
            pt_hyperslab_t slabs[PT_RANGE_HYPERSLABS];
            int count = pt_units_is_owner(w->units, p, part)
                            ? pt_units_hyperslabs(w->units, p, part, shard, slabs)
                            : 0;
            for (int s = 0; s < count; s++)
                visit_slab(&w->table.params[p].part[part], &slabs[s], ordinal);
        }
    }
    return counted;
}

static bool is_each_seen_once(const pt_param_table_t *table)
{
    int ordinal = 0;
    bool ok = true;

    for (int p = 0; p < table->count; p++)
        for (int i = 0; i < table->params[p].parts; i++, ordinal++) {
            const pt_part_t *part = &table->params[p].part[i];
            int64_t count = part->shape[0] * (part->ndim > 1 ? part->shape[1] : 1);
            for (int64_t at = 0; at < MOST; at++)
                ok = ok && seen[ordinal][at] == (at < count);
        }
    return ok;
}

static void test_union(int tensor, int data, int64_t rows)
{
    int64_t counted = 0, elements = 0;
    bool once = true, shape = true;

    memset(seen, 0, sizeof seen);
    for (int rank = 0; rank < tensor * data; rank++) {
        world_t w;
        once = open_world(&w, tensor, data, rank) && once;
        pt_tensor_t local =
            pt_units_local_shape(w.units, find(&w.table, PT_ROLE_TOKEN_EMBEDDING));
        shape = shape && local.shape[0] == rows;
        counted += visit_rank(&w);
        elements = pt_param_table_elements(&w.table);
        if (rank == tensor * data - 1)
            once = once && is_each_seen_once(&w.table);
        close_world(&w);
    }
    tap_ok(once, "tensor %d, data %d: files hold every element once", tensor, data);
    tap_ok(counted == elements, "... and so does the norm: %lld", (long long)counted);
    tap_ok(shape, "... and every rank has room for %lld of 101 rows", (long long)rows);
}

/* ---- what divides ----------------------------------------------------------------------------- */

static void check_tensor(const char *tensor, const char *wanted)
{
    pt_status_t status;

    pt_config_set(&config, "parallel.tensor", tensor, "test");
    status = pt_layout_check_tensor(&config);
    tap_ok(wanted ? status == PT_CONFIG && strstr(pt_error_last()->text, wanted)
                  : status == PT_OK,
           "tensor %s: %s", tensor, wanted ? pt_error_last()->text : "divides");
    pt_error_clear();
}

static void test_divides(void)
{
    pt_config_defaults(&config);
    pt_config_set(&config, "model.heads", "12", "test");
    pt_config_set(&config, "model.kv_heads", "6", "test");
    pt_config_set(&config, "model.ffn", "48", "test");
    check_tensor("1", NULL);
    check_tensor("3", NULL);
    check_tensor("6", NULL);
    check_tensor("12", NULL);
    check_tensor("4", "nearest is 3"); /* of 6 KV heads */
    check_tensor("5", "nearest is 6");
    check_tensor("100", "nearest is 12");
    pt_config_set(&config, "model.ffn", "42", "test");
    check_tensor("12", "nearest is 6");
}

int main(void)
{
    test_by_hand();
    test_rows();
    for (int data = 1; data <= 3; data += 2) {
        test_union(1, data, 101);
        test_union(2, data, 51);
        test_union(4, data, 26);
        test_union(8, data, 13);
    }
    test_divides();
    tap_ok(pt_alloc_live_bytes() == 0, "nothing is left");
    return tap_done();
}
