/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/log.h"
#include "penta/base/rng.h"
#include "penta/parallel/layout.h"
#include "penta/session/session.h"

#include <stdio.h>

pt_machine_options_t pt_machine_options(const pt_config_t *config, bool dry)
{
    return (pt_machine_options_t){
        .device = dry ? PT_DEVICE_DRY : (pt_device_kind_t)config->run.device,
        .isa = (pt_isa_t)config->run.isa,
        .gpu_direct = (pt_gpu_direct_t)config->comm.gpu_direct,
        .threads = (int)config->run.threads,
        .seed = (uint64_t)config->train.seed + (uint64_t)pt_log_rank()};
}

/* Levels and libraries differ in rounding, and a library by the processor it runs on:
 * on mixed hosts the bits would depend on who is placed where. */
static pt_status_t machine_check_arithmetic(const pt_device_t *device, pt_comm_t *world)
{
    char text[192];
    snprintf(text, sizeof text, "%s, %s", device->isa, device->library);
    int64_t id = (int64_t)(pt_name_id(text) >> 1), most[2] = {id, -id};

    PT_TRY(pt_comm_max_int64(world, most, 2));
    if (most[0] != -most[1])
        pt_log_root(
            PT_LOG_WARN,
            "ranks compute with different instruction sets or libraries (rank 0: %s), "
            "so bits depend on their placement: set run.isa to a level all hosts have, "
            "and the library's own choice alike (OPENBLAS_CORETYPE, …)",
            text);
    return PT_OK;
}

/* Local. */
static pt_status_t machine_open_device(const pt_machine_options_t *options,
                                       pt_machine_t *m)
{
    pt_device_options_t device = {.kind = options->device,
                                  .isa = options->isa,
                                  .threads = options->threads,
                                  .seed = options->seed};

    PT_TRY(pt_device_open(&device, &m->device));
    return m->device->ops->stream_create(m->device, &m->stream);
}

static pt_status_t machine_make_mesh(const pt_machine_options_t *options,
                                     pt_machine_t *m)
{
    pt_mesh_shape_t shape = pt_mesh_shape_default();

    PT_TRY(options->layout
               ? pt_layout_from_config(options->layout,
                                       pt_comm_size(pt_engine_world(m->engine)), &shape)
               : pt_mesh_shape_complete(&shape, 1));
    return pt_mesh_create(m->engine, &shape, &m->mesh);
}

pt_status_t pt_machine_open(pt_transport_t *transport,
                            const pt_machine_options_t *options, pt_machine_t *out)
{
    *out = (pt_machine_t){.device = NULL};
    pt_status_t status, opened = machine_open_device(options, out);
    /* Every unit may have its sum and its gather under way at the end of a step. */
    pt_engine_options_t engine = {.device = out->device,
                                  .gpu_direct = options->gpu_direct,
                                  .max_requests = 1024 + 2 * options->units};

    PT_TRY_GOTO(fail, pt_engine_create(transport, &engine, &out->engine));
    pt_comm_t *world = pt_engine_world(out->engine);
    PT_TRY_GOTO(fail, pt_comm_agree(world, opened, false));
    PT_TRY_GOTO(fail, machine_check_arithmetic(out->device, world));
    PT_TRY_GOTO(fail, machine_make_mesh(options, out));
    return PT_OK;
fail:
    pt_machine_close(out);
    return status;
}

void pt_machine_close(pt_machine_t *m)
{
    pt_mesh_destroy(&m->mesh);
    pt_engine_destroy(m->engine);
    if (m->device) {
        if (m->stream)
            m->device->ops->stream_destroy(m->device, m->stream);
        pt_device_close(m->device);
    }
    *m = (pt_machine_t){.device = NULL};
}
