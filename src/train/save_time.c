/* SPDX-License-Identifier: Apache-2.0 */
/* How long a save takes: measured, and kept for the next start in timing.json. */
#include "penta/base/log.h"
#include "src/train/run.h"

#include <math.h>
#include <stdio.h>

static double save_state_bytes(const run_t *run)
{
    const pt_trainer_t *t = &run->trainer;
    double bytes = 0;
    for (int kind = 0; kind < PT_STATE_KINDS; kind++)
        bytes += (double)pt_param_table_elements(&t->session.table) *
                 (double)pt_dtype_size(
                     pt_optim_state(t->session.optim, (pt_state_kind_t)kind, 0).dtype);
    return bytes;
}

double save_time_longest(const run_t *run)
{
    double most = 0;
    for (int i = 0; i < SAVES_KEPT; i++)
        most = fmax(most, run->save_secs[i]);
    return most;
}

double save_time_reserve(const run_t *run, double limit_sec)
{
    static const double slow_bytes_per_sec = 2e8, margin = 1.5, most_of_limit = 0.1;
    double measured = save_time_longest(run);
    if (measured > 0)
        return margin * measured;
    return fmin(margin * save_state_bytes(run) / slow_bytes_per_sec,
                most_of_limit * limit_sec);
}

void save_time_load(run_t *run)
{
    char path[PT_CONFIG_TEXT + 16];
    snprintf(path, sizeof path, "%s/timing.json", run->config->run.dir);
    json_t *object = pt_json_read(path);
    const json_t *list = json_object_get(object, "save_sec");
    double bytes = json_number_value(json_object_get(object, "state_bytes"));
    for (size_t i = 0; i < SAVES_KEPT && bytes == save_state_bytes(run); i++) {
        double sec = json_number_value(json_array_get(list, i));
        run->save_secs[i] = isfinite(sec) && sec > 0 ? sec : 0;
    }
    json_decref(object);
}

void save_time_add(run_t *run, double sec)
{
    for (int i = SAVES_KEPT - 1; i > 0; i--)
        run->save_secs[i] = run->save_secs[i - 1];
    run->save_secs[0] = sec;
    if (!run->root)
        return;
    json_t *list = json_array();
    for (int i = 0; i < SAVES_KEPT && run->save_secs[i] > 0; i++)
        json_array_append_new(list, json_real(run->save_secs[i]));
    json_t *object =
        json_pack("{s:f, s:o}", "state_bytes", save_state_bytes(run), "save_sec", list);
    if (pt_rundir_write_json(run->dir, "timing.json", object) != PT_OK)
        pt_error_warn_seldom("the next start does not know how long a save takes");
}
