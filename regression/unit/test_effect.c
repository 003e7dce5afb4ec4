/* TEST timeout=30 */
/* SPDX-License-Identifier: Apache-2.0 */
/* What an option may change, where other options decide it: src/config/effect.c. */
#include "penta/config/config.h"
#include "regression/tap.h"

#include <string.h>

static pt_config_t a;

/* "section.key=value section.key=value" */
static pt_status_t set_all(const char *settings)
{
    char text[256], *rest = text;

    snprintf(text, sizeof text, "%s", settings);
    for (char *word = strtok_r(text, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');

        *equals = '\0';
        PT_TRY(pt_config_set(&a, word, equals + 1, "test"));
    }
    return pt_config_finish(&a);
}

/* An option whose effect depends on others: what the row of the table does not say. */
static void check_effects(void)
{
    static const struct {
        const char *settings;
        pt_option_id_t option;
        pt_effect_t effect;
    } cases[] = {
        {"model.tied=yes", PT_OPTION_parallel_pipeline, PT_EFFECT_ROUNDING},
        {"model.tied=no", PT_OPTION_parallel_pipeline, PT_EFFECT_BITS},
        {"train.grad_dtype=fp32", PT_OPTION_parallel_reduce_dtype, PT_EFFECT_RESULT},
        {"train.grad_dtype=bf16", PT_OPTION_parallel_reduce_dtype, PT_EFFECT_BITS},
        {"parallel.data=2", PT_OPTION_parallel_reduce_dtype, PT_EFFECT_RESULT},
        {"parallel.data=1", PT_OPTION_parallel_reduce_dtype, PT_EFFECT_BITS},
        {"parallel.ranks=1", PT_OPTION_parallel_reduce_dtype, PT_EFFECT_BITS},
        {"train.precision=fp16", PT_OPTION_train_loss_scale, PT_EFFECT_RESULT},
        {"train.precision=bf16", PT_OPTION_train_loss_scale, PT_EFFECT_BITS},
        {"train.decay=linear", PT_OPTION_train_min_lr, PT_EFFECT_RESULT},
        {"train.decay=constant", PT_OPTION_train_min_lr, PT_EFFECT_BITS},
        {"train.decay=wsd", PT_OPTION_train_wsd_decay, PT_EFFECT_RESULT},
        {"train.decay=cosine", PT_OPTION_train_wsd_decay, PT_EFFECT_BITS},
        {"train.decay=wsd train.warmup=0", PT_OPTION_train_decay_steps,
         PT_EFFECT_RESULT},
        {"train.decay=constant", PT_OPTION_train_decay_steps, PT_EFFECT_RESULT},
        {"train.decay=constant train.steps=5", PT_OPTION_train_decay_steps,
         PT_EFFECT_RESULT},
        {"train.decay=constant train.warmup=10", PT_OPTION_train_decay_steps,
         PT_EFFECT_BITS},
        {"data.document_mask=yes", PT_OPTION_data_separator, PT_EFFECT_RESULT},
        {"data.document_mask=no", PT_OPTION_data_separator, PT_EFFECT_BITS},
        {"data.document_mask=yes data.format=u16", PT_OPTION_data_separator,
         PT_EFFECT_BITS},
    };
    int unknown = 0, wrong = 0;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const pt_option_t *row = pt_option(cases[i].option);

        pt_config_defaults(&a);
        pt_config_set(&a, "train.precision", "bf16", "test");
        tap_ok(set_all(cases[i].settings) == PT_OK &&
                   pt_option_effect(cases[i].option, &a) == cases[i].effect,
               "with %s the effect of %s.%s is known", cases[i].settings, row->section,
               row->key);
    }
    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        pt_effect_t row = pt_option((pt_option_id_t)i)->effect;
        pt_effect_t effect = pt_option_effect((pt_option_id_t)i, &a);
        unknown += effect == PT_EFFECT_DEPENDS;
        wrong += row != PT_EFFECT_DEPENDS && row != effect;
    }
    tap_ok(unknown == 0, "every option that depends has its rule");
    tap_ok(wrong == 0, "an option that does not depend has the effect of its row");
}

int main(void)
{
    check_effects();
    return tap_done();
}
