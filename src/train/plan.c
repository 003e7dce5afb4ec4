/* SPDX-License-Identifier: Apache-2.0 */
/* What a run takes, counted on a trainer of the dry device and wire. */
#include "src/train/private.h"

#include <string.h>

/* Does the device of the run need staging? A plan alone knows it by its option only:
 * this machine may lack it. */
static bool plan_needs_staging(const pt_config_t *config, const pt_device_t *device)
{
    if (device)
        return !device->ops->device_memory_is_host_memory;
    return config->run.device != PT_DEVICE_AUTO && config->run.device != PT_DEVICE_CPU;
}

static void plan_subtract(pt_traffic_t *traffic, const pt_traffic_t *before)
{
    for (int axis = 0; axis <= PT_AXIS_WORLD; axis++) {
        for (int kind = 0; kind < PT_TRANSFER_KINDS; kind++) {
            pt_traffic_row_t *row = &traffic->rows[axis][kind];
            row->calls -= before->rows[axis][kind].calls;
            row->messages -= before->rows[axis][kind].messages;
            row->bytes_sent -= before->rows[axis][kind].bytes_sent;
        }
    }
}

static void plan_count_ops(const pt_op_count_t *now, const pt_op_count_t *before,
                           pt_op_count_t *out)
{
    for (int op = 0; op < PT_OP_COUNT; op++)
        out[op] = (pt_op_count_t){.calls = now[op].calls - before[op].calls,
                                  .flops = now[op].flops - before[op].flops,
                                  .bytes = now[op].bytes - before[op].bytes};
}

/* What a step and a load do. */
static pt_status_t plan_observe(pt_trainer_t *dry, pt_plan_t *out)
{
    pt_step_result_t result;
    pt_op_count_t before[PT_OP_COUNT];

    out->setup = *pt_engine_traffic(dry->session.engine);
    memcpy(before, dry->session.device->counts, sizeof before);
    PT_TRY(pt_train_step(dry, NULL, NULL, &result));
    PT_TRY(pt_units_settle(dry->session.units, dry->session.stream));
    out->step = *pt_engine_traffic(dry->session.engine);
    plan_subtract(&out->step, &out->setup);
    plan_count_ops(dry->session.device->counts, before, out->step_ops);
    PT_TRY(pt_state_gather(&dry->state, PT_STATE_KINDS));
    out->staging_bytes = pt_engine_staging_peak(dry->session.engine);
    return PT_OK;
}

/* The arenas as a run has them, with the staging that the step has shown. */
static pt_status_t plan_measure(pt_trainer_t *dry, pt_plan_t *out)
{
    dry->plan.staging_bytes = out->staging_bytes;
    PT_TRY(pt_session_count(&dry->session));
    out->parameters = pt_param_table_elements(&dry->session.table);
    out->micro_batches = dry->session.schedule.micro_batches;
    for (int c = 0; c < PT_CLASS_COUNT; c++) {
        out->bytes[c] = dry->session.arena[c].peak;
        out->total_bytes += dry->session.arena[c].peak;
    }
    return PT_OK;
}

static pt_status_t plan_make(pt_trainer_t *dry, pt_device_t *device, pt_plan_t *out)
{
    dry->session.device->rehearses = device;
    PT_TRY(plan_observe(dry, out));
    if (!plan_needs_staging(dry->config, device))
        out->staging_bytes = 0;
    return plan_measure(dry, out);
}

/* The dry rank has agreed with itself only. A configuration fails on all real ranks
 * too; memory that runs out is this rank's own failure until they agree. */
static void plan_make_error_local(void)
{
    pt_error_t error = *pt_error_last();

    if (error.status != PT_CONFIG)
        error.scope = PT_SCOPE_LOCAL;
    pt_error_set(&error);
}

pt_status_t pt_train_plan(const pt_config_t *config, int rank, int ranks,
                          pt_device_t *device, pt_plan_t *out)
{
    pt_transport_t *transport = NULL;
    pt_trainer_t dry;

    *out = (pt_plan_t){.ranks = ranks,
                       .rank = rank,
                       .sequences = config->train.global_batch,
                       .tokens = config->train.global_batch * config->train.sequence};
    PT_TRY(pt_transport_open_dry(rank, ranks, &transport));
    pt_status_t status = pt_trainer_create_dry(config, transport, &dry);
    if (status == PT_OK) {
        status = plan_make(&dry, device, out);
        pt_trainer_destroy(&dry);
    }
    pt_transport_close(transport);
    if (status != PT_OK)
        plan_make_error_local();
    return status;
}
