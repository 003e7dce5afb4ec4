/* TEST timeout=30 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Options that are times: src/config/time.c. */
#include "penta/config/config.h"
#include "regression/tap.h"

#include <string.h>

static pt_config_t a;

/* Seconds once parsed; written again as the documents write them. */
static void check_times(void)
{
    static const struct {
        pt_option_id_t id;
        const char *text, *again; /* NULL: refused */
        int64_t sec;
    } cases[] = {
        {PT_OPTION_run_time_limit, "1:02:03", "01:02:03", 3723},
        {PT_OPTION_run_time_limit, "90:30", "01:30:30", 5430},
        {PT_OPTION_run_time_limit, "100:00:00", "100:00:00", 360000},
        {PT_OPTION_run_time_limit, "", "", 0},
        {PT_OPTION_run_time_limit, "0", NULL, 0},
        {PT_OPTION_checkpoint_every_time, "30:00", "30:00", 1800},
        {PT_OPTION_checkpoint_every_time, "", "", 0},
        {PT_OPTION_run_hang_timeout, "0:02", "00:02", 2},
        {PT_OPTION_run_hang_timeout, "0", "0", 0},
        {PT_OPTION_run_hang_timeout, "", NULL, 0},
        {PT_OPTION_run_hang_timeout, "0:00", NULL, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const pt_option_t *row = pt_option(cases[i].id);
        char name[96], text[32] = "";
        int64_t sec = 0;
        bool taken;

        snprintf(name, sizeof name, "%s.%s", row->section, row->key);
        pt_config_defaults(&a);
        taken = pt_config_set(&a, name, cases[i].text, "test") == PT_OK;
        if (taken) {
            memcpy(&sec, (const char *)&a + row->offset, sizeof sec);
            pt_config_value(&a, cases[i].id, text, sizeof text);
        }
        tap_ok(taken == (cases[i].again != NULL) && sec == cases[i].sec &&
                   (!taken || strcmp(text, cases[i].again) == 0),
               "%s=%s: %lld s, written %s", name, cases[i].text, (long long)sec, text);
        pt_error_clear();
    }
}

int main(void)
{
    check_times();
    return tap_done();
}
