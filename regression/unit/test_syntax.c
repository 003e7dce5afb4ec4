/* TEST timeout=30 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Values with a syntax of their own: src/config/syntax.c. */
#include "penta/config/config.h"
#include "regression/tap.h"

#include <string.h>

static pt_config_t a, b;

static pt_status_t set(pt_config_t *config, pt_option_id_t id, const char *text)
{
    const pt_option_t *row = pt_option(id);
    char name[96];

    snprintf(name, sizeof name, "%s.%s", row->section, row->key);
    pt_error_clear();
    return pt_config_set(config, name, text, "test");
}

static const struct {
    pt_option_id_t id;
    const char *text, *again; /* NULL: refused */
} cases[] = {
    {PT_OPTION_run_time_limit, "1:02:03", "01:02:03"},
    {PT_OPTION_run_time_limit, "90:30", "01:30:30"},
    {PT_OPTION_run_time_limit, "9999999:59:59", "9999999:59:59"},
    {PT_OPTION_run_time_limit, "", ""},
    {PT_OPTION_run_time_limit, "0", NULL},
    {PT_OPTION_run_time_limit, "00:00", NULL},
    {PT_OPTION_run_time_limit, "1:60", NULL},
    {PT_OPTION_checkpoint_every_time, "30:00", "30:00"},
    {PT_OPTION_checkpoint_every_time, "", ""},
    {PT_OPTION_run_hang_timeout, "0:02", "00:02"},
    {PT_OPTION_run_hang_timeout, "0", "0"},
    {PT_OPTION_run_hang_timeout, "", NULL},
    {PT_OPTION_run_hang_timeout, "0:00", NULL},
    {PT_OPTION_parallel_order, "data,tensor,pipeline,context",
     "data,tensor,pipeline,context"},
    {PT_OPTION_parallel_order, "data,tensor,pipeline", NULL},
    {PT_OPTION_parallel_order, "data,tensor,pipeline,expert", NULL},
    {PT_OPTION_parallel_order, "data,data,pipeline,context", NULL},
    {PT_OPTION_parallel_recompute, "none", "none"},
    {PT_OPTION_parallel_recompute, "selective", "selective"},
    {PT_OPTION_parallel_recompute, "full", "full"},
    {PT_OPTION_parallel_recompute, "every:1", "full"},
    {PT_OPTION_parallel_recompute, "every:4", "every:4"},
    {PT_OPTION_parallel_recompute, "every:0", NULL},
    {PT_OPTION_parallel_recompute, "every:", NULL},
    {PT_OPTION_parallel_recompute, "every:-1", NULL},
    {PT_OPTION_train_loss_scale, "dynamic", "dynamic"},
    {PT_OPTION_train_loss_scale, "1", "1"},
    {PT_OPTION_train_loss_scale, "65536.0", "65536"},
    {PT_OPTION_train_loss_scale, "1099511627776", "1099511627776"},
    {PT_OPTION_train_loss_scale, "2199023255552", NULL},
    {PT_OPTION_train_loss_scale, "0.5", NULL},
    {PT_OPTION_train_loss_scale, "0", NULL},
    {PT_OPTION_train_loss_scale, "-2", NULL},
    {PT_OPTION_train_loss_scale, "3000", NULL},
    {PT_OPTION_train_loss_scale, "", NULL},
    {PT_OPTION_data_split, "0.9, 0.05", "0.9,0.05"},
    {PT_OPTION_data_split, ".95,5e-2", "0.95,0.05"},
    {PT_OPTION_data_split, "1 ,-0", "1,0"},
    {PT_OPTION_data_split, "0.12345678901234567,0", "0.12345678901234566,0"},
    {PT_OPTION_data_split, "0.9", NULL},
    {PT_OPTION_data_split, "0.9,0.2", NULL},
    {PT_OPTION_data_split, "-0.1,0.2", NULL},
    {PT_OPTION_data_split, "0.5,0.2,0.1", NULL},
};

/* What is written reads as the same value; what is refused changes nothing. */
static void check_spellings(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const pt_option_t *row = pt_option(cases[i].id);
        char text[64] = "";
        bool taken, same;

        pt_config_defaults(&a);
        pt_config_defaults(&b);
        taken = set(&a, cases[i].id, cases[i].text) == PT_OK;
        if (taken)
            same = strcmp(pt_config_value(&a, cases[i].id, text, sizeof text),
                          cases[i].again) == 0 &&
                   set(&b, cases[i].id, text) == PT_OK;
        else
            same = cases[i].again == NULL;
        tap_ok(same && memcmp((char *)&a + row->offset, (char *)&b + row->offset,
                              row->size) == 0,
               "%s.%s=%s: %s", row->section, row->key, cases[i].text,
               taken ? text : pt_error_last()->text);
    }
    pt_error_clear();
}

static void check_values(void)
{
    pt_config_defaults(&a);
    tap_ok(a.run.time_limit == 0 && a.run.hang_timeout == 600, "times are seconds");
    set(&a, PT_OPTION_run_time_limit, "1:02:03");
    tap_ok(a.run.time_limit == 3723, "1:02:03 is 3723 s");
    set(&a, PT_OPTION_run_time_limit, "90:30");
    tap_ok(a.run.time_limit == 5430, "90:30 is 5430 s");
    set(&a, PT_OPTION_parallel_order, "data,context,tensor,pipeline");
    tap_ok(a.parallel.order.axis[0] == PT_AXIS_DATA &&
               a.parallel.order.axis[1] == PT_AXIS_CONTEXT &&
               a.parallel.order.axis[3] == PT_AXIS_PIPELINE,
           "an order is axes");
    set(&a, PT_OPTION_data_split, "0.9,0.05");
    tap_ok(a.data.split.train == 0.9 && a.data.split.validation == 0.05, "shares");
    tap_ok(a.train.loss_scale == 0, "a dynamic scale");
    set(&a, PT_OPTION_train_loss_scale, "1024");
    tap_ok(a.train.loss_scale == 1024, "a fixed scale");
    tap_ok(a.parallel.recompute == 0, "no recompute");
    set(&a, PT_OPTION_parallel_recompute, "selective");
    tap_ok(a.parallel.recompute == -1, "selective");
    set(&a, PT_OPTION_parallel_recompute, "full");
    tap_ok(a.parallel.recompute == 1, "full keeps no layer");
    set(&a, PT_OPTION_parallel_recompute, "every:4");
    tap_ok(a.parallel.recompute == 4, "every:4");
}

int main(void)
{
    check_spellings();
    check_values();
    return tap_done();
}
