/* SPDX-License-Identifier: Apache-2.0 */
/* Computes which rank is where. Coordinates are mixed-radix digits of the rank,
 * innermost axis first; the expert axes are digits of the position among
 * tensor·context·data of a stage. */
#include "penta/comm/mesh.h"

#include <string.h>

enum { DENSE_AXES = 4, EXPERT_AXES = 3, STAGE_AXES = 3 };

static const pt_axis_t dense_axes[DENSE_AXES] = {PT_AXIS_TENSOR, PT_AXIS_CONTEXT,
                                                 PT_AXIS_PIPELINE, PT_AXIS_DATA};
static const pt_axis_t stage_axes[STAGE_AXES] = {PT_AXIS_TENSOR, PT_AXIS_CONTEXT,
                                                 PT_AXIS_DATA};
static const pt_axis_t expert_axes[EXPERT_AXES] = {PT_AXIS_EXPERT_TENSOR,
                                                   PT_AXIS_EXPERT, PT_AXIS_EXPERT_DATA};

pt_mesh_shape_t pt_mesh_shape_default(void)
{
    pt_mesh_shape_t shape;

    for (int axis = 0; axis < PT_AXIS_COUNT; axis++)
        shape.size[axis] = 1;
    memcpy(shape.order, dense_axes, sizeof shape.order);
    return shape;
}

/* ---- completing and checking -------------------------------------------------------------- */

static pt_status_t mesh_check_sizes(const pt_mesh_shape_t *shape, int ranks)
{
    int seen[PT_AXIS_COUNT] = {0};

    PT_CHECK_COMMON(ranks >= 1, PT_CONFIG, "a run has at least one rank, not %d", ranks);
    for (int axis = 0; axis < PT_AXIS_COUNT; axis++) {
        bool derived = axis == PT_AXIS_DATA || axis == PT_AXIS_EXPERT_DATA;
        PT_CHECK_COMMON(shape->size[axis] >= (derived ? 0 : 1), PT_CONFIG,
                        "the %s axis has size %d: must be at least 1",
                        pt_axis_name((pt_axis_t)axis), shape->size[axis]);
    }
    for (int i = 0; i < DENSE_AXES; i++)
        if (shape->order[i] <= PT_AXIS_DATA)
            seen[shape->order[i]]++;
    for (int i = 0; i < DENSE_AXES; i++)
        PT_CHECK_COMMON(
            seen[dense_axes[i]] == 1, PT_CONFIG,
            "parallel.order names the %s axis %d times: it must name tensor, "
            "context, pipeline and data once each",
            pt_axis_name(dense_axes[i]), seen[dense_axes[i]]);
    return PT_OK;
}

/* The multiple of `step` nearest to `value`, at least one. */
static int64_t mesh_nearest_multiple(int64_t value, int64_t step)
{
    int64_t times = (value + step / 2) / step;

    return step * (times > 0 ? times : 1);
}

static pt_status_t mesh_complete_data(pt_mesh_shape_t *shape, int ranks)
{
    const int *size = shape->size;
    int64_t replica = (int64_t)size[PT_AXIS_TENSOR] * size[PT_AXIS_CONTEXT];

    PT_CHECK_COMMON(
        replica <= INT32_MAX && replica * size[PT_AXIS_PIPELINE] <= INT32_MAX,
        PT_CONFIG, "tensor %d x context %d x pipeline %d is too much",
        size[PT_AXIS_TENSOR], size[PT_AXIS_CONTEXT], size[PT_AXIS_PIPELINE]);
    replica *= size[PT_AXIS_PIPELINE];
    PT_CHECK_COMMON(ranks % replica == 0, PT_CONFIG,
                    "%d ranks do not divide into replicas of tensor %d x context %d x "
                    "pipeline %d = %lld ranks; the nearest number that does is %lld",
                    ranks, size[PT_AXIS_TENSOR], size[PT_AXIS_CONTEXT],
                    size[PT_AXIS_PIPELINE], (long long)replica,
                    (long long)mesh_nearest_multiple(ranks, replica));
    if (shape->size[PT_AXIS_DATA] == 0)
        shape->size[PT_AXIS_DATA] = (int)(ranks / replica);
    PT_CHECK_COMMON(
        replica * size[PT_AXIS_DATA] == ranks, PT_CONFIG,
        "tensor %d x context %d x pipeline %d x data %d = %lld ranks, but the "
        "run has %d; data would be %lld",
        size[PT_AXIS_TENSOR], size[PT_AXIS_CONTEXT], size[PT_AXIS_PIPELINE],
        size[PT_AXIS_DATA], (long long)(replica * size[PT_AXIS_DATA]), ranks,
        (long long)(ranks / replica));
    return PT_OK;
}

/* The divisor of `whole` nearest to `value`. */
static int64_t mesh_nearest_divisor(int64_t whole, int64_t value)
{
    for (int64_t distance = 0; distance < whole + value; distance++) {
        int64_t below = value - distance, above = value + distance;
        if (below >= 1 && whole % below == 0)
            return below;
        if (above <= whole && whole % above == 0)
            return above;
    }
    return 1;
}

static pt_status_t mesh_complete_expert_data(pt_mesh_shape_t *shape)
{
    int *size = shape->size;
    int64_t stage =
        (int64_t)size[PT_AXIS_TENSOR] * size[PT_AXIS_CONTEXT] * size[PT_AXIS_DATA];
    int64_t inner = size[PT_AXIS_EXPERT_TENSOR];

    PT_CHECK_COMMON(
        stage % inner == 0, PT_CONFIG,
        "expert_tensor %lld does not divide the %lld ranks of a stage (tensor x "
        "context x data); the nearest that does is %lld",
        (long long)inner, (long long)stage,
        (long long)mesh_nearest_divisor(stage, inner));
    PT_CHECK_COMMON(
        stage / inner % size[PT_AXIS_EXPERT] == 0, PT_CONFIG,
        "expert %d does not divide the %lld ranks of a stage (tensor x context "
        "x data) / expert_tensor %lld; the nearest that does is %lld",
        size[PT_AXIS_EXPERT], (long long)(stage / inner), (long long)inner,
        (long long)mesh_nearest_divisor(stage / inner, size[PT_AXIS_EXPERT]));
    size[PT_AXIS_EXPERT_DATA] = (int)(stage / inner / size[PT_AXIS_EXPERT]);
    return PT_OK;
}

pt_status_t pt_mesh_shape_complete(pt_mesh_shape_t *shape, int ranks)
{
    PT_TRY(mesh_check_sizes(shape, ranks));
    PT_TRY(mesh_complete_data(shape, ranks));
    return mesh_complete_expert_data(shape);
}

/* ---- coordinates -------------------------------------------------------------------------- */

int pt_mesh_ranks(const pt_mesh_shape_t *shape)
{
    int ranks = 1;

    for (int i = 0; i < DENSE_AXES; i++)
        ranks *= shape->size[dense_axes[i]];
    return ranks;
}

void pt_mesh_coordinates(const pt_mesh_shape_t *shape, int rank,
                         int coordinate[PT_AXIS_COUNT])
{
    int position = 0, step = 1;

    for (int i = 0; i < DENSE_AXES; i++) {
        pt_axis_t axis = shape->order[i];
        coordinate[axis] = rank % shape->size[axis];
        rank /= shape->size[axis];
    }
    for (int i = 0; i < STAGE_AXES; i++) {
        position += coordinate[stage_axes[i]] * step;
        step *= shape->size[stage_axes[i]];
    }
    for (int i = 0; i < EXPERT_AXES; i++) {
        pt_axis_t axis = expert_axes[i];
        coordinate[axis] = position % shape->size[axis];
        position /= shape->size[axis];
    }
}

int pt_mesh_rank_of(const pt_mesh_shape_t *shape, const int coordinate[PT_AXIS_COUNT])
{
    int rank = 0, step = 1;

    for (int i = 0; i < DENSE_AXES; i++) {
        pt_axis_t axis = shape->order[i];
        rank += coordinate[axis] * step;
        step *= shape->size[axis];
    }
    return rank;
}

/* ---- communicators ------------------------------------------------------------------------ */

/* Adds one digit to `number`, whose digits so far count to `*step`. */
static void mesh_add_digit(int *number, int *step, int digit, int base)
{
    *number += digit * *step;
    *step *= base;
}

pt_comm_place_t pt_mesh_group_place(const pt_mesh_shape_t *shape,
                                    const int coordinate[PT_AXIS_COUNT], unsigned axes)
{
    static const pt_axis_t numbering[2][DENSE_AXES] = {
        {PT_AXIS_TENSOR, PT_AXIS_CONTEXT, PT_AXIS_DATA, PT_AXIS_PIPELINE},
        {PT_AXIS_EXPERT_TENSOR, PT_AXIS_EXPERT, PT_AXIS_EXPERT_DATA, PT_AXIS_PIPELINE}};
    const pt_axis_t *digits = numbering[axes >> PT_AXIS_EXPERT != 0];
    pt_comm_place_t place = {.size = 1};
    int colors = 1;

    for (int i = 0; i < DENSE_AXES; i++) {
        pt_axis_t axis = digits[i];
        if (axes >> axis & 1)
            mesh_add_digit(&place.rank, &place.size, coordinate[axis],
                           shape->size[axis]);
        else
            mesh_add_digit(&place.color, &colors, coordinate[axis], shape->size[axis]);
    }
    return place;
}

static pt_status_t mesh_split(const pt_mesh_t *mesh, unsigned axes, const char *name,
                              pt_axis_t axis, pt_comm_t **out)
{
    return pt_comm_split(mesh->world,
                         pt_mesh_group_place(&mesh->shape, mesh->coordinate, axes),
                         name, axis, out);
}

static pt_status_t mesh_split_all(pt_mesh_t *mesh)
{
    for (int i = 0; i < PT_AXIS_COUNT; i++) {
        pt_axis_t axis = (pt_axis_t)i;
        PT_TRY(mesh_split(mesh, PT_AXIS_BIT(axis), pt_axis_name(axis), axis,
                          &mesh->axis[axis]));
    }
    PT_TRY(mesh_split(mesh, PT_DENSE_REPLICAS, "dense_replicas", PT_AXIS_DATA,
                      &mesh->dense_replicas));
    PT_TRY(mesh_split(mesh, PT_DENSE_REPLICAS, "dense_gather", PT_AXIS_DATA,
                      &mesh->dense_gather));
    PT_TRY(mesh_split(mesh, PT_AXIS_BIT(PT_AXIS_EXPERT_DATA), "expert_gather",
                      PT_AXIS_EXPERT_DATA, &mesh->expert_gather));
    mesh->expert_replicas = mesh->axis[PT_AXIS_EXPERT_DATA];
    return PT_OK;
}

pt_status_t pt_mesh_create(pt_engine_t *engine, const pt_mesh_shape_t *shape,
                           pt_mesh_t *out)
{
    pt_status_t status = PT_OK;

    *out = (pt_mesh_t){.shape = *shape, .world = pt_engine_world(engine)};
    PT_CHECK_COMMON(pt_mesh_ranks(shape) == pt_comm_size(out->world), PT_INTERNAL,
                    "a mesh of %d ranks in a run of %d", pt_mesh_ranks(shape),
                    pt_comm_size(out->world));
    pt_mesh_coordinates(shape, pt_comm_rank(out->world), out->coordinate);
    PT_TRY_GOTO(destroy, mesh_split_all(out));
    return PT_OK;
destroy:
    pt_mesh_destroy(out);
    return status;
}

void pt_mesh_destroy(pt_mesh_t *mesh)
{
    pt_comm_free(mesh->expert_gather);
    pt_comm_free(mesh->dense_gather);
    pt_comm_free(mesh->dense_replicas);
    for (int axis = PT_AXIS_COUNT - 1; axis >= 0; axis--)
        pt_comm_free(mesh->axis[axis]);
    *mesh = (pt_mesh_t){0};
}
