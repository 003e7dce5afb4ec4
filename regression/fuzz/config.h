/* SPDX-License-Identifier: Apache-2.0 */
/* What a configuration that was accepted must satisfy, however it was read. */
#ifndef PT_REGRESSION_FUZZ_CONFIG_H
#define PT_REGRESSION_FUZZ_CONFIG_H

#include "penta/config/config.h"
#include "regression/fuzz/fuzz.h"

/* Written out as an INI text it is a configuration again, and the same. */
static inline void config_survives(const pt_config_t *config)
{
    static pt_config_t again;
    static char one[4 * PT_CONFIG_TEXT], other[4 * PT_CONFIG_TEXT];
    char *ini = NULL;
    pt_resume_point_t point = {.path = "x.h5", .decay_steps = config->train.decay_steps};
    pt_status_t status = pt_config_to_ini(config, &ini);

    FUZZ_CHECK(status == PT_OK, "cannot be written: %s", pt_error_last()->text);
    status = pt_config_parse(ini, &again);
    FUZZ_CHECK(status == PT_OK, "its own text is refused: %s\n%s",
               pt_error_last()->text, ini);
    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        pt_config_value(config, (pt_option_id_t)i, one, sizeof one);
        pt_config_value(&again, (pt_option_id_t)i, other, sizeof other);
        FUZZ_CHECK(strcmp(one, other) == 0, "%s.%s was %s, is %s",
                   pt_option((pt_option_id_t)i)->section,
                   pt_option((pt_option_id_t)i)->key, one, other);
    }
    status = pt_config_check_resume(config, ini, &point);
    FUZZ_CHECK(status == PT_OK, "cannot resume itself: %s", pt_error_last()->text);
    pt_free(ini);
}

/* The way of a run: files and arguments into one text, that text into a
 * configuration. */
static inline void config_from(const char *file, int argc, char *const argv[])
{
    static pt_config_t config;
    char *gathered = NULL;
    pt_status_t status;

    fuzz_begin();
    status = pt_config_gather(file, argc, argv, &gathered);
    if (status == PT_OK)
        status = pt_config_parse(gathered, &config);
    pt_free(gathered);
    fuzz_refusal(status, PT_CONFIG, PT_IO);
    if (status == PT_OK)
        config_survives(&config);
    fuzz_end();
}

#endif
