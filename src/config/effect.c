/* SPDX-License-Identifier: Apache-2.0 */
/* The effect of an option where it depends on other options. */
#include "src/config/private.h"

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
        return config->train.grad_dtype == PT_NARROW_BF16 ? PT_EFFECT_BITS
                                                          : PT_EFFECT_RESULT;
    case PT_OPTION_train_min_lr:
        return config->train.decay == PT_DECAY_CONSTANT ? PT_EFFECT_BITS
                                                        : PT_EFFECT_RESULT;
    case PT_OPTION_train_wsd_decay:
        return config->train.decay == PT_DECAY_WSD ? PT_EFFECT_RESULT : PT_EFFECT_BITS;
    default: return pt_option(id)->effect;
    }
}
