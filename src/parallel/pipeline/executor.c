/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/parallel/schedule.h"

pt_status_t pt_schedule_run(const pt_schedule_t *schedule, int stage,
                            const pt_executor_ops_t *ops)
{
    for (int i = 0; i < schedule->count[stage]; i++) {
        const pt_action_t *action = &schedule->actions[stage][i];
        if (action->kind == PT_ACTION_F)
            PT_TRY(ops->forward(ops->self, action));
        else if (action->kind == PT_ACTION_B)
            PT_TRY(ops->backward(ops->self, action));
        else if (!action->fused)
            PT_TRY(ops->weight(ops->self, action));
    }
    return PT_OK;
}
