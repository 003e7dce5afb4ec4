/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Coordinates of a mesh: inverse of each other for many shapes, up to 16,384 ranks;
 * places in groups against brute force; sizes that do not divide are refused with the
 * nearest that do; dry meshes of any rank. */
#include "regression/tap.h"

#include "penta/base/alloc.h"
#include "penta/comm/mesh.h"

#include <string.h>

enum { LARGEST = 16384 };

static int visited[LARGEST];

/* All permutations of the four axes. */
static bool permute(int index, pt_axis_t order[4])
{
    pt_axis_t left[4] = {PT_AXIS_TENSOR, PT_AXIS_CONTEXT, PT_AXIS_PIPELINE,
                         PT_AXIS_DATA};

    if (index >= 24)
        return false;
    for (int i = 0; i < 4; i++) {
        int pick = index % (4 - i);
        index /= 4 - i;
        order[i] = left[pick];
        memmove(&left[pick], &left[pick + 1], (size_t)(3 - i - pick) * sizeof *left);
    }
    return true;
}

static bool in_range(const pt_mesh_shape_t *shape, const int *coordinate)
{
    for (int axis = 0; axis < PT_AXIS_COUNT; axis++)
        if (coordinate[axis] < 0 || coordinate[axis] >= shape->size[axis])
            return false;
    return true;
}

/* The innermost axis turns fastest: neighbours differ by one there until it is full. */
static bool is_inverse(const pt_mesh_shape_t *shape)
{
    int coordinate[PT_AXIS_COUNT], next[PT_AXIS_COUNT], ranks = pt_mesh_ranks(shape);
    bool ok = true;

    for (int rank = 0; rank < ranks; rank++) {
        pt_mesh_coordinates(shape, rank, coordinate);
        ok = ok && in_range(shape, coordinate) &&
             pt_mesh_rank_of(shape, coordinate) == rank;
        if (rank + 1 == ranks)
            break;
        pt_mesh_coordinates(shape, rank + 1, next);
        for (int i = 0; i < 4; i++) {
            pt_axis_t axis = shape->order[i];
            bool full = coordinate[axis] + 1 == shape->size[axis];
            ok = ok && next[axis] == (full ? 0 : coordinate[axis] + 1);
            if (!full)
                break;
        }
    }
    return ok;
}

/* Every (pipeline, expert_tensor, expert, expert_data) belongs to one rank. */
static bool experts_are_unique(const pt_mesh_shape_t *shape)
{
    int c[PT_AXIS_COUNT], ranks = pt_mesh_ranks(shape);

    memset(visited, 0, sizeof visited);
    for (int rank = 0; rank < ranks; rank++) {
        pt_mesh_coordinates(shape, rank, c);
        int index = c[PT_AXIS_PIPELINE];
        index = index * shape->size[PT_AXIS_EXPERT_DATA] + c[PT_AXIS_EXPERT_DATA];
        index = index * shape->size[PT_AXIS_EXPERT] + c[PT_AXIS_EXPERT];
        index = index * shape->size[PT_AXIS_EXPERT_TENSOR] + c[PT_AXIS_EXPERT_TENSOR];
        if (index >= ranks || visited[index]++)
            return false;
    }
    return true;
}

static void shapes(void)
{
    static const int sizes[][6] = {
        /* tensor, context, pipeline, data, expert, expert_tensor */
        {1, 1, 1, 1, 1, 1},   {2, 1, 1, 3, 2, 1},    {1, 3, 2, 2, 3, 1},
        {4, 2, 3, 5, 10, 4},  {8, 4, 16, 32, 64, 2}, {8, 1, 8, 256, 128, 1},
        {3, 5, 7, 11, 15, 1}, {1, 1, 64, 4, 4, 1},   {2, 2, 2, 2, 8, 1},
    };
    bool inverse = true, unique = true;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pt_mesh_shape_t shape = pt_mesh_shape_default();
        const int *s = sizes[i];
        int ranks = s[0] * s[1] * s[2] * s[3];
        shape.size[PT_AXIS_TENSOR] = s[0], shape.size[PT_AXIS_CONTEXT] = s[1];
        shape.size[PT_AXIS_PIPELINE] = s[2], shape.size[PT_AXIS_DATA] = 0;
        shape.size[PT_AXIS_EXPERT] = s[4], shape.size[PT_AXIS_EXPERT_TENSOR] = s[5];
        for (int p = 0; permute(p, shape.order); p += ranks > 1000 ? 5 : 1) {
            inverse =
                inverse && pt_mesh_shape_complete(&shape, ranks) == PT_OK &&
                shape.size[PT_AXIS_DATA] == s[3] &&
                shape.size[PT_AXIS_EXPERT_DATA] == s[0] * s[1] * s[3] / s[4] / s[5] &&
                is_inverse(&shape);
            unique = unique && experts_are_unique(&shape);
        }
    }
    tap_ok(inverse, "rank -> coordinates -> rank, all orders");
    tap_ok(unique, "expert coordinates number each stage once");
}

/* ---- groups, against a walk over all pairs of ranks ----------------------------------------- */

enum { MOST_RANKS = 48 };

static const pt_axis_t numbering[2][4] = {
    {PT_AXIS_TENSOR, PT_AXIS_CONTEXT, PT_AXIS_DATA, PT_AXIS_PIPELINE},
    {PT_AXIS_EXPERT_TENSOR, PT_AXIS_EXPERT, PT_AXIS_EXPERT_DATA, PT_AXIS_PIPELINE}};

static const struct {
    int experts;
    unsigned axes;
} groups[] = {
    {0, PT_AXIS_BIT(PT_AXIS_TENSOR)},
    {0, PT_AXIS_BIT(PT_AXIS_CONTEXT)},
    {0, PT_AXIS_BIT(PT_AXIS_PIPELINE)},
    {0, PT_AXIS_BIT(PT_AXIS_DATA)},
    {0, PT_DENSE_REPLICAS},
    {0, PT_DENSE_REPLICAS | PT_AXIS_BIT(PT_AXIS_TENSOR)},
    {1, PT_AXIS_BIT(PT_AXIS_EXPERT)},
    {1, PT_AXIS_BIT(PT_AXIS_EXPERT_TENSOR)},
    {1, PT_AXIS_BIT(PT_AXIS_EXPERT_DATA)},
    {1, PT_AXIS_BIT(PT_AXIS_EXPERT) | PT_AXIS_BIT(PT_AXIS_EXPERT_DATA)},
};

/* Compares coordinates, the outermost axis of the numbering first; 0 when equal
 * there. */
static int order_of(const pt_axis_t axis[4], unsigned axes, const int *a, const int *b)
{
    for (int i = 3; i >= 0; i--)
        if ((axes >> axis[i] & 1) && a[axis[i]] != b[axis[i]])
            return a[axis[i]] < b[axis[i]] ? -1 : 1;
    return 0;
}

static bool is_group_right(const pt_mesh_shape_t *shape, int experts, unsigned axes)
{
    static int c[MOST_RANKS][PT_AXIS_COUNT];
    pt_comm_place_t place[MOST_RANKS];
    int ranks = pt_mesh_ranks(shape);
    bool ok = true;

    for (int r = 0; r < ranks; r++) {
        pt_mesh_coordinates(shape, r, c[r]);
        place[r] = pt_mesh_group_place(shape, c[r], axes);
    }
    for (int r = 0; r < ranks; r++) {
        int size = 0, before = 0;
        for (int s = 0; s < ranks; s++) {
            bool together = order_of(numbering[experts], ~axes, c[r], c[s]) == 0;
            ok = ok && together == (place[r].color == place[s].color);
            size += together;
            before += together && order_of(numbering[experts], axes, c[s], c[r]) < 0;
        }
        ok = ok && place[r].color >= 0 && place[r].size == size &&
             place[r].rank == before;
    }
    return ok;
}

/* The same coordinates stand at the same place, whatever the order of the axes is. */
static bool is_order_free(const pt_mesh_shape_t *shape, unsigned axes)
{
    pt_mesh_shape_t plain = *shape;
    bool ok = true;

    memcpy(plain.order, pt_mesh_shape_default().order, sizeof plain.order);
    for (int r = 0; r < pt_mesh_ranks(shape); r++) {
        int c[PT_AXIS_COUNT], d[PT_AXIS_COUNT];
        pt_mesh_coordinates(shape, r, c);
        pt_mesh_coordinates(&plain, pt_mesh_rank_of(&plain, c), d);
        pt_comm_place_t a = pt_mesh_group_place(shape, c, axes);
        pt_comm_place_t b = pt_mesh_group_place(&plain, d, axes);
        ok = ok && memcmp(c, d, sizeof c) == 0 && memcmp(&a, &b, sizeof a) == 0;
    }
    return ok;
}

static void group_places(void)
{
    int shapes = 0;
    bool right = true, order_free = true;

    for (int code = 0; code < 81; code++) {
        pt_mesh_shape_t shape = pt_mesh_shape_default();
        int sizes[4] = {code % 3 + 1, code / 3 % 3 + 1, code / 9 % 3 + 1, code / 27 + 1};
        int stage = sizes[0] * sizes[1] * sizes[3], ranks = stage * sizes[2];
        if (ranks > MOST_RANKS)
            continue;
        for (int i = 0; i < 4; i++)
            shape.size[i] = sizes[i];
        shape.size[PT_AXIS_EXPERT] = stage % 2 == 0 ? 2 : 1;
        shape.size[PT_AXIS_EXPERT_TENSOR] = stage % 3 == 0 ? 3 : 1;
        for (int p = 0; permute(p, shape.order); p++, shapes++) {
            right = right && pt_mesh_shape_complete(&shape, ranks) == PT_OK;
            for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
                right =
                    right && is_group_right(&shape, groups[g].experts, groups[g].axes);
                order_free = order_free && is_order_free(&shape, groups[g].axes);
            }
        }
    }
    tap_ok(right, "%d shapes: members of groups, ordered by coordinates", shapes);
    tap_ok(order_free, "the order of the axes moves nobody inside a group");
}

/* Axis `a` set to `size`, the run has `ranks`; the message must contain `wanted`. */
static void refused(pt_axis_t a, int size, int data, int ranks, const char *wanted)
{
    pt_mesh_shape_t shape = pt_mesh_shape_default();
    pt_status_t status;

    shape.size[PT_AXIS_DATA] = data;
    shape.size[a] = size;
    status = pt_mesh_shape_complete(&shape, ranks);
    tap_ok(status == PT_CONFIG && pt_error_last()->scope == PT_SCOPE_COMMON &&
               strstr(pt_error_last()->text, wanted),
           "refused: %s", pt_error_last()->text);
    pt_error_clear();
}

static void refusals(void)
{
    pt_mesh_shape_t shape = pt_mesh_shape_default();

    refused(PT_AXIS_TENSOR, 3, 0, 8, "nearest number that does is 9");
    refused(PT_AXIS_TENSOR, 16, 0, 8, "nearest number that does is 16");
    refused(PT_AXIS_TENSOR, 2, 3, 8, "data would be 4");
    refused(PT_AXIS_TENSOR, 0, 0, 8, "at least 1");
    refused(PT_AXIS_PIPELINE, -1, 0, 8, "at least 1");
    refused(PT_AXIS_EXPERT, 5, 0, 8, "nearest that does is 4");
    refused(PT_AXIS_EXPERT_TENSOR, 7, 0, 12, "nearest that does is 6");
    refused(PT_AXIS_TENSOR, 1 << 30, 0, 8, "do not divide");
    refused(PT_AXIS_TENSOR, 1, 0, 0, "at least one rank");
    shape.order[0] = PT_AXIS_DATA;
    tap_ok(pt_mesh_shape_complete(&shape, 1) == PT_CONFIG, "refused: %s",
           pt_error_last()->text);
    pt_error_clear();
    shape.order[0] = (pt_axis_t)77;
    tap_ok(pt_mesh_shape_complete(&shape, 1) == PT_CONFIG, "refused: %s",
           pt_error_last()->text);
    pt_error_clear();
}

/* A mesh of a world that does not exist: its groups have the sizes of their axes. */
static void dry_mesh(void)
{
    pt_mesh_shape_t shape = pt_mesh_shape_default();
    pt_engine_options_t options = {.max_requests = 4};
    pt_transport_t *transport;
    pt_engine_t *engine;
    pt_mesh_t mesh;
    bool ok = true;

    shape.size[PT_AXIS_TENSOR] = 8, shape.size[PT_AXIS_CONTEXT] = 4;
    shape.size[PT_AXIS_PIPELINE] = 16, shape.size[PT_AXIS_DATA] = 0;
    shape.size[PT_AXIS_EXPERT] = 64;
    ok = pt_mesh_shape_complete(&shape, LARGEST) == PT_OK &&
         pt_transport_open_dry(12345, LARGEST, &transport) == PT_OK &&
         pt_engine_create(transport, &options, &engine) == PT_OK &&
         pt_mesh_create(engine, &shape, &mesh) == PT_OK;
    if (!tap_ok(ok, "a dry mesh of %d ranks", LARGEST))
        return;
    for (int axis = 0; axis < PT_AXIS_COUNT; axis++)
        ok = ok && pt_comm_size(mesh.axis[axis]) == shape.size[axis] &&
             pt_comm_rank(mesh.axis[axis]) == mesh.coordinate[axis] &&
             strcmp(pt_comm_name(mesh.axis[axis]), pt_axis_name((pt_axis_t)axis)) == 0;
    tap_ok(ok, "groups have size, rank and name of their axes");
    tap_ok(pt_comm_size(mesh.dense_replicas) == 4 * 32, "replicas: context x data");
    tap_ok(pt_comm_size(mesh.expert_replicas) == 8 * 4 * 32 / 64,
           "replicas of experts");
    pt_mesh_destroy(&mesh);
    pt_engine_destroy(engine);
    pt_transport_close(transport);
}

int main(void)
{
    shapes();
    group_places();
    refusals();
    dry_mesh();
    tap_ok(pt_alloc_live_bytes() == 0, "nothing is left");
    return tap_done();
}
