/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/log.h"
#include "src/train/private.h"

#include <string.h>

/* A plan asks for the device of the run, which this machine may lack: by name. */
static bool needs_staging(const pt_trainer_t *t)
{
    char name[32];
    if (!t->session.device->dry)
        return !t->session.device->ops->device_memory_is_host_memory;
    pt_config_value(t->config, PT_OPTION_run_device, name, sizeof name);
    return strcmp(name, "auto") != 0 && strcmp(name, "cpu") != 0;
}

static void subtract(pt_ledger_t *ledger, const pt_ledger_t *before)
{
    for (int axis = 0; axis <= PT_AXIS_WORLD; axis++) {
        for (int kind = 0; kind < PT_TRANSFER_KINDS; kind++) {
            pt_ledger_row_t *row = &ledger->rows[axis][kind];
            row->calls -= before->rows[axis][kind].calls;
            row->messages -= before->rows[axis][kind].messages;
            row->bytes_sent -= before->rows[axis][kind].bytes_sent;
        }
    }
}

static void count_ops(const pt_op_count_t *now, const pt_op_count_t *before,
                      pt_op_count_t *out)
{
    for (int op = 0; op < PT_OP_COUNT; op++)
        out[op] = (pt_op_count_t){.calls = now[op].calls - before[op].calls,
                                  .flops = now[op].flops - before[op].flops,
                                  .bytes = now[op].bytes - before[op].bytes};
}

/* What a step and a load do, on the dry trainer. */
static pt_status_t observe(pt_trainer_t *dry, pt_forecast_t *out)
{
    pt_step_result_t result;
    pt_op_count_t before[PT_OP_COUNT];
    out->setup = *pt_engine_ledger(dry->session.engine);
    memcpy(before, dry->session.device->counts, sizeof before);
    PT_TRY(pt_train_step(dry, NULL, NULL, &result));
    out->step = *pt_engine_ledger(dry->session.engine);
    subtract(&out->step, &out->setup);
    count_ops(dry->session.device->counts, before, out->step_ops);
    PT_TRY(pt_state_gather(&dry->state, PT_STATE_KINDS));
    out->staging_bytes = pt_engine_staging_peak(dry->session.engine);
    return PT_OK;
}

/* Ranks of the dry wire have agreed only with themselves; the real ones have yet to hear of it. */
static void make_error_local(void)
{
    pt_error_t error = *pt_error_last();
    error.scope = PT_SCOPE_LOCAL;
    pt_error_set(&error);
}

pt_status_t pt_train_forecast(pt_trainer_t *t)
{
    pt_wire_t *wire = NULL;
    pt_trainer_t dry;
    const pt_comm_t *world = pt_engine_world(t->session.engine);
    PT_TRY(pt_wire_open_dry(pt_comm_rank(world), pt_comm_size(world), &wire));
    pt_status_t status = pt_trainer_create(t->config, wire, PT_TRAINER_FORECAST, &dry);
    if (status == PT_OK) {
        dry.session.device->rehearses = t->session.device;
        status = observe(&dry, &t->forecast);
        pt_trainer_destroy(&dry);
    }
    pt_wire_close(wire);
    if (status != PT_OK)
        make_error_local();
    if (!needs_staging(t))
        t->forecast.staging_bytes = 0;
    pt_log_set_where(&t->where);
    return status;
}
