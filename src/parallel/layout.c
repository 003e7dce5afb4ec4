/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/parallel/layout.h"

#include <stdlib.h>
#include <string.h>

static bool layout_divides(const pt_config_t *config, int64_t tensor)
{
    int64_t kv_heads = config->model.kv_heads;
    return config->model.heads % tensor == 0 && config->model.ffn % tensor == 0 &&
           (kv_heads % tensor == 0 || tensor % kv_heads == 0);
}

pt_status_t pt_layout_check_tensor(const pt_config_t *config)
{
    int64_t tensor = config->parallel.tensor, nearest = 1;
    for (int64_t size = 2; size <= config->model.heads; size++)
        if (layout_divides(config, size) &&
            llabs(size - tensor) < llabs(nearest - tensor))
            nearest = size;
    PT_CHECK_COMMON(layout_divides(config, tensor), PT_CONFIG,
                    "parallel.tensor=%lld must divide model.heads=%lld and "
                    "model.ffn=%lld, and must divide model.kv_heads=%lld or be a "
                    "multiple of it: nearest is %lld",
                    (long long)tensor, (long long)config->model.heads,
                    (long long)config->model.ffn, (long long)config->model.kv_heads,
                    (long long)nearest);
    return PT_OK;
}

pt_status_t pt_layout_from_config(const pt_config_t *config, int ranks,
                                  pt_mesh_shape_t *out)
{
    PT_TRY(pt_config_check_layout(config, ranks));
    PT_TRY(pt_layout_check_tensor(config));
    *out = pt_mesh_shape_default();
    out->size[PT_AXIS_TENSOR] = (int)config->parallel.tensor;
    out->size[PT_AXIS_CONTEXT] = (int)config->parallel.context;
    out->size[PT_AXIS_PIPELINE] = (int)config->parallel.pipeline;
    out->size[PT_AXIS_DATA] = (int)config->parallel.data;
    out->size[PT_AXIS_EXPERT] = (int)config->parallel.expert;
    out->size[PT_AXIS_EXPERT_TENSOR] = (int)config->parallel.expert_tensor;
    memcpy(out->order, config->parallel.order.axis, sizeof out->order);
    return pt_mesh_shape_complete(out, ranks);
}
