/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration text in a checkpoint: read as a configuration, and compared on
 * resume. */
#include "regression/fuzz/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static pt_config_t config, now;
    pt_resume_point_t point = {.path = "x.h5", .decay_steps = 100};
    char *text = fuzz_text(data, size);
    pt_status_t status;

    fuzz_begin();
    status = pt_config_parse(text, &config);
    fuzz_refusal(status, PT_CONFIG, PT_IO);
    if (status == PT_OK)
        config_survives(&config);
    pt_error_clear();
    pt_config_defaults(&now);
    fuzz_refusal(pt_config_check_resume(&now, text, &point), PT_CONFIG, PT_CONFIG);
    free(text);
    fuzz_end();
    return 0;
}
