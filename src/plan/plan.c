/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/plan/plan.h"

#include <string.h>

static void take(const pt_trainer_t *t, pt_plan_t *out)
{
    out->setup = t->forecast.setup;
    out->step = t->forecast.step;
    memcpy(out->step_ops, t->forecast.step_ops, sizeof out->step_ops);
    out->parameters = pt_param_table_elements(&t->session.table);
    for (int c = 0; c < PT_CLASS_COUNT; c++) {
        out->bytes[c] = t->session.arena[c].peak;
        out->total_bytes += t->session.arena[c].peak;
    }
    out->micro_batches = t->session.schedule.micro_batches;
    out->sequences = t->config->train.global_batch;
    out->tokens = out->sequences * t->config->train.sequence;
}

pt_status_t pt_plan_create(const pt_config_t *config, int rank, int ranks,
                           pt_plan_t *out)
{
    pt_wire_t *wire = NULL;
    pt_trainer_t trainer;
    *out = (pt_plan_t){.ranks = ranks, .rank = rank};
    PT_TRY(pt_wire_open_dry(rank, ranks, &wire));
    pt_status_t status = pt_trainer_create(config, wire, PT_TRAINER_PLAN, &trainer);
    if (status == PT_OK) {
        take(&trainer, out);
        pt_trainer_destroy(&trainer);
    }
    pt_wire_close(wire);
    return status;
}

static json_t *ledger_json(const pt_ledger_t *ledger)
{
    json_t *list = json_array();
    for (int axis = 0; axis <= PT_AXIS_WORLD; axis++) {
        for (int kind = 0; kind < PT_TRANSFER_KINDS; kind++) {
            const pt_ledger_row_t *row = &ledger->rows[axis][kind];
            if (row->calls > 0)
                json_array_append_new(
                    list, json_pack("{s:s, s:s, s:I, s:I, s:I}", "axis",
                                    pt_axis_name((pt_axis_t)axis), "transfer",
                                    pt_transfer_kind_name((pt_transfer_kind_t)kind),
                                    "calls", (json_int_t)row->calls, "messages",
                                    (json_int_t)row->messages, "bytes_sent",
                                    (json_int_t)row->bytes_sent));
        }
    }
    return list;
}

static json_t *ops_json(const pt_plan_t *plan)
{
    json_t *object = json_object();
    for (int op = 0; op < PT_OP_COUNT; op++) {
        const pt_op_count_t *count = &plan->step_ops[op];
        if (count->calls > 0)
            json_object_set_new(
                object, pt_op_name((pt_op_id_t)op),
                json_pack("{s:I, s:I, s:I}", "calls", (json_int_t)count->calls, "flops",
                          (json_int_t)count->flops, "bytes", (json_int_t)count->bytes));
    }
    return object;
}

json_t *pt_plan_json(const pt_plan_t *plan)
{
    json_t *memory = json_object();
    for (int c = 0; c < PT_CLASS_COUNT; c++)
        json_object_set_new(memory, pt_memory_class_name((pt_memory_class_t)c),
                            json_integer(plan->bytes[c]));
    return json_pack(
        "{s:i, s:i, s:I, s:o, s:I, s:o, s:o, s:o, s:I, s:I, s:I}", "ranks", plan->ranks,
        "rank", plan->rank, "parameters", (json_int_t)plan->parameters, "bytes", memory,
        "total_bytes", (json_int_t)plan->total_bytes, "setup_messages",
        ledger_json(&plan->setup), "step_messages", ledger_json(&plan->step),
        "step_ops", ops_json(plan), "micro_batches", (json_int_t)plan->micro_batches,
        "sequences", (json_int_t)plan->sequences, "tokens", (json_int_t)plan->tokens);
}
