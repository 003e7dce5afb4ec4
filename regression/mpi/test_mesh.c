/* TEST np=1,2,3,4,8 backend=cpu timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of a mesh: who is in them and in which order, by asking the members. */
#include "regression/mpi/ranks.h"

#include "penta/comm/mesh.h"

/* Every member brings its coordinates, which differ on `moving` axes only. */
static bool is_group_of(pt_comm_t *comm, const int *coordinate, unsigned moving,
                        const pt_axis_t *axes, int count)
{
    int all[64 * PT_AXIS_COUNT];
    int64_t bytes = PT_AXIS_COUNT * (int64_t)sizeof *coordinate;
    bool ok = true;

    for (int root = 0; root < pt_comm_size(comm); root++)
        MUST(pt_comm_gather_bytes(comm, root, coordinate, bytes, all));
    for (int r = 0; r < pt_comm_size(comm); r++)
        for (int i = 0; i < count; i++) {
            int theirs = all[r * PT_AXIS_COUNT + axes[i]];
            ok = ok && ((moving >> axes[i] & 1) || theirs == coordinate[axes[i]]);
        }
    return ok && memcmp(&all[pt_comm_rank(comm) * PT_AXIS_COUNT], coordinate,
                        (size_t)bytes) == 0;
}

static bool check(const pt_mesh_t *mesh)
{
    const pt_axis_t dense[] = {PT_AXIS_TENSOR, PT_AXIS_CONTEXT, PT_AXIS_PIPELINE,
                               PT_AXIS_DATA};
    const pt_axis_t expert[] = {PT_AXIS_PIPELINE, PT_AXIS_EXPERT, PT_AXIS_EXPERT_TENSOR,
                                PT_AXIS_EXPERT_DATA};
    unsigned replicas = 1u << PT_AXIS_CONTEXT | 1u << PT_AXIS_DATA;
    bool ok = mesh->expert_replicas == mesh->axis[PT_AXIS_EXPERT_DATA];

    for (int axis = 0; axis < PT_AXIS_COUNT; axis++) {
        pt_comm_t *comm = mesh->axis[axis];
        ok = ok && pt_comm_size(comm) == mesh->shape.size[axis] &&
             pt_comm_rank(comm) == mesh->coordinate[axis] &&
             (int)pt_comm_axis(comm) == axis;
        ok = is_group_of(comm, mesh->coordinate, 1u << axis,
                         axis <= PT_AXIS_DATA ? dense : expert, 4) &&
             ok;
    }
    ok = ok && pt_comm_size(mesh->dense_replicas) ==
                   mesh->shape.size[PT_AXIS_CONTEXT] * mesh->shape.size[PT_AXIS_DATA];
    return is_group_of(mesh->dense_replicas, mesh->coordinate, replicas, dense, 4) && ok;
}

static const char *mpi_name(pt_comm_t *comm)
{
    static char name[MPI_MAX_OBJECT_NAME];
    int length;

    MPI_Comm_get_name(*(MPI_Comm *)pt_comm_mpi(comm), name, &length);
    return name;
}

int main(int argc, char **argv)
{
    const int divisors[] = {1, 2, 4, 8};
    int shapes = 0;
    bool ok = true;
    pt_mesh_t mesh;

    ranks_start(&argc, &argv);
    ranks_open_engine(0);
    for (int i = 0; i < 64; i++) {
        pt_mesh_shape_t shape = pt_mesh_shape_default();
        shape.size[PT_AXIS_TENSOR] = divisors[i % 4];
        shape.size[PT_AXIS_CONTEXT] = divisors[i / 4 % 4];
        shape.size[PT_AXIS_PIPELINE] = divisors[i / 16];
        shape.size[PT_AXIS_DATA] = 0;
        shape.order[0] = i % 2 ? PT_AXIS_PIPELINE : PT_AXIS_TENSOR;
        shape.order[2] = i % 2 ? PT_AXIS_TENSOR : PT_AXIS_PIPELINE;
        if (pt_mesh_shape_complete(&shape, ranks.size) != PT_OK) {
            pt_error_clear();
            continue;
        }
        shape.size[PT_AXIS_EXPERT] = shape.size[PT_AXIS_EXPERT_DATA];
        if (i % 3 && shape.size[PT_AXIS_EXPERT] % 2 == 0) {
            shape.size[PT_AXIS_EXPERT] /= 2;
            shape.size[PT_AXIS_EXPERT_TENSOR] = i % 3;
        }
        MUST(pt_mesh_shape_complete(&shape, ranks.size));
        MUST(pt_mesh_create(ranks.engine, &shape, &mesh));
        ok = check(&mesh) && ok;
        ok = ok && strcmp(mpi_name(mesh.axis[PT_AXIS_CONTEXT]), "context") == 0;
        pt_mesh_destroy(&mesh);
        shapes++;
    }
    tap_all(ok && shapes > 0, "%d shapes: members, order and names", shapes);
    ranks_close_engine();
    return ranks_finish();
}
