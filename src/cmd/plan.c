/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "penta/plan/plan.h"
#include "src/cmd/private.h"

#include <inttypes.h>
#include <stdio.h>

static void plan_print_memory(const pt_plan_t *plan)
{
    char bytes[32];
    printf("memory of a rank:\n");
    for (int c = 0; c < PT_CLASS_COUNT; c++)
        printf("  %-15s %18" PRId64 "  %s\n", pt_memory_class_name((pt_memory_class_t)c),
               plan->bytes[c], pt_text_bytes(plan->bytes[c], bytes, sizeof bytes));
    printf("  %-15s %18" PRId64 "  %s\n", "in all", plan->total_bytes,
           pt_text_bytes(plan->total_bytes, bytes, sizeof bytes));
}

static void plan_print_messages(const pt_plan_t *plan)
{
    char bytes[32];
    bool any = false;
    printf("messages of a rank in a step (agreements apart):\n");
    for (int axis = 0; axis <= PT_AXIS_WORLD; axis++) {
        for (int kind = 0; kind < PT_TRANSFER_KINDS; kind++) {
            const pt_traffic_row_t *row = &plan->step.rows[axis][kind];
            if (row->calls == 0)
                continue;
            any = true;
            printf("  %-8s %-15s %6" PRId64 " calls %8" PRId64 " messages %16" PRId64
                   " bytes  %s\n",
                   pt_axis_name((pt_axis_t)axis),
                   pt_transfer_kind_name((pt_transfer_kind_t)kind), row->calls,
                   row->messages, row->bytes_sent,
                   pt_text_bytes(row->bytes_sent, bytes, sizeof bytes));
        }
    }
    if (!any)
        printf("  none\n");
}

static void plan_print_work(const pt_plan_t *plan)
{
    int64_t flops = 0, calls = 0;
    for (int op = 0; op < PT_OP_COUNT; op++) {
        flops += plan->step_ops[op].flops;
        calls += plan->step_ops[op].calls;
    }
    printf("work of a rank in a step: %" PRId64 " micro-batch%s, %" PRId64
           " ops, %.4g FLOP\n",
           plan->micro_batches, plan->micro_batches == 1 ? "" : "es", calls,
           (double)flops);
}

static pt_status_t cmd_plan_make(const pt_config_t *config, bool json)
{
    char count[32];
    pt_plan_t *plan = NULL;
    int ranks = config->parallel.ranks > 0 ? (int)config->parallel.ranks : 1;
    PT_TRY(PT_NEW("plan", 1, &plan));
    pt_status_t status = pt_train_plan(config, 0, ranks, NULL, plan);
    if (status == PT_OK && json) {
        json_t *object = pt_plan_json(plan);
        json_dumpf(object, stdout, JSON_INDENT(2));
        printf("\n");
        json_decref(object);
    } else if (status == PT_OK) {
        printf("parameters: %" PRId64 " (%s)\n", plan->parameters,
               pt_text_count((double)plan->parameters, count, sizeof count));
        printf("ranks: %d; a step: %" PRId64 " sequences, %" PRId64 " tokens\n",
               plan->ranks, plan->sequences, plan->tokens);
        plan_print_memory(plan);
        plan_print_messages(plan);
        plan_print_work(plan);
    }
    pt_free(plan);
    return status;
}

static pt_status_t plan_run(int argc, char **argv, pt_transport_t *transport)
{
    pt_config_t *config = NULL;
    bool json = pt_cmd_take_flag(&argc, argv, "--json");
    pt_status_t status;
    PT_TRY(PT_NEW("configuration", 1, &config));
    PT_TRY_GOTO(done, pt_cmd_config(transport, argc, argv, config));
    PT_TRY_GOTO(done, cmd_plan_make(config, json));
done:
    pt_free(config);
    return status;
}

const pt_command_t pt_command_plan = {
    .name = "plan",
    .arguments = "[CONF] [section.key=value ...] [--json]",
    .summary = "Prints what a run needs per rank: memory by class, messages, work",
    .details = "Runs one step without data, memory or other ranks, and prints what it "
               "counts; a real run has\n"
               "the same numbers. Works anywhere, for any number of ranks: "
               "parallel.ranks=1024.",
    .sections = "model,parallel,train",
    .run = plan_run,
};
