/* SPDX-License-Identifier: Apache-2.0 */
/* The effect of an option where it depends on other options. */
#include "src/config/private.h"

static pt_effect_t effect_if(bool changes)
{
    return changes ? PT_EFFECT_RESULT : PT_EFFECT_BITS;
}

/* Whether it is certain that no gradient is sent. Replicas of experts are among the
 * ranks of these axes. */
static bool effect_is_alone(const pt_config_t *config)
{
    return config->parallel.ranks == 1 ||
           (config->parallel.data == 1 && config->parallel.tensor == 1 &&
            config->parallel.context == 1);
}

/* Whether the learning rate depends on the length of the schedule. A given warm-up is
 * never lowered to that length, and a constant rate has none after the warm-up. */
static bool effect_has_length(const pt_config_t *config)
{
    return config->train.decay != PT_DECAY_CONSTANT ||
           config->source[PT_OPTION_train_warmup] != PT_SOURCE_GIVEN;
}

pt_effect_t pt_option_effect(pt_option_id_t id, const pt_config_t *config)
{
    switch ((int)id) {
    case PT_OPTION_parallel_pipeline:
        /* With a tied embedding the first stage adds the last stage's sum over all
         * micro-batches to its own gradient. The terms are the same, but not the order
         * of additions. */
        return config->model.tied == PT_CHOOSE_YES ? PT_EFFECT_ROUNDING
                                                   : PT_EFFECT_BITS;
    case PT_OPTION_parallel_reduce_dtype:
        /* bf16 gradients are sent as bf16 whatever the option says
         * (src/config/precision.c). */
        return effect_if(config->train.grad_dtype != PT_NARROW_BF16 &&
                         !effect_is_alone(config));
    case PT_OPTION_train_decay_steps: return effect_if(effect_has_length(config));
    case PT_OPTION_train_loss_scale: /* used by fp16 only; else always dynamic */
        return effect_if(config->train.precision == PT_PRECISION_FP16);
    case PT_OPTION_train_min_lr:
        return effect_if(config->train.decay != PT_DECAY_CONSTANT);
    case PT_OPTION_train_wsd_decay:
        return effect_if(config->train.decay == PT_DECAY_WSD);
    case PT_OPTION_data_separator: /* only document masks look inside a file */
        return effect_if(config->data.format == PT_FORMAT_TEXT &&
                         config->data.document_mask);
    default: return pt_option(id)->effect;
    }
}
