/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as JSON. */
#include "penta/plan/plan.h"

static json_t *plan_traffic_json(const pt_traffic_t *traffic)
{
    json_t *list = json_array();
    for (int axis = 0; axis <= PT_AXIS_WORLD; axis++) {
        for (int kind = 0; kind < PT_TRANSFER_KINDS; kind++) {
            const pt_traffic_row_t *row = &traffic->rows[axis][kind];
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

static json_t *plan_ops_json(const pt_plan_t *plan)
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
    return json_pack("{s:i, s:i, s:I, s:o, s:I, s:o, s:o, s:o, s:I, s:I, s:I}", "ranks",
                     plan->ranks, "rank", plan->rank, "parameters",
                     (json_int_t)plan->parameters, "bytes", memory, "total_bytes",
                     (json_int_t)plan->total_bytes, "setup_messages",
                     plan_traffic_json(&plan->setup), "step_messages",
                     plan_traffic_json(&plan->step), "step_ops", plan_ops_json(plan),
                     "micro_batches", (json_int_t)plan->micro_batches, "sequences",
                     (json_int_t)plan->sequences, "tokens", (json_int_t)plan->tokens);
}
