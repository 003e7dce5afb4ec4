/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h — what a run will need, before it runs (layer: plan). pt_train_plan makes a
 * plan. */
#ifndef PENTA_PLAN_H
#define PENTA_PLAN_H

#include "penta/train/train.h"

#include <jansson.h>

json_t *pt_plan_json(const pt_plan_t *plan); /* caller's */

#endif
