/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/log.h"
#include "src/train/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

json_t *report_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static void summary_set(json_t *object, const char *key, int64_t value)
{
    json_object_set_new(object, key, json_integer(value));
}

void report_axis_bytes(const pt_traffic_t *traffic, int64_t bytes[PT_AXIS_WORLD + 1])
{
    for (int axis = 0; axis <= PT_AXIS_WORLD; axis++) {
        bytes[axis] = 0;
        for (int kind = 0; kind < PT_TRANSFER_KINDS; kind++)
            bytes[axis] += traffic->rows[axis][kind].bytes_sent;
    }
}

static json_t *summary_axes_json(const int64_t bytes[PT_AXIS_WORLD + 1])
{
    json_t *object = json_object();
    for (int axis = 0; axis <= PT_AXIS_WORLD; axis++)
        summary_set(object, pt_axis_name((pt_axis_t)axis), bytes[axis]);
    return object;
}

static json_t *summary_traffic_json(const run_t *run)
{
    int64_t bytes[PT_AXIS_WORLD + 1];
    const pt_traffic_t *traffic = pt_engine_traffic(run->trainer.session.engine);
    report_axis_bytes(traffic, bytes);
    json_t *object = summary_axes_json(bytes);
    summary_set(object, "control", traffic->control.bytes_sent);
    return object;
}

static json_t *summary_planned_traffic_json(const run_t *run)
{
    int64_t bytes[PT_AXIS_WORLD + 1];
    report_axis_bytes(&run->trainer.plan.step, bytes);
    return summary_axes_json(bytes);
}

static json_t *summary_memory_json(const run_t *run, bool planned)
{
    json_t *object = json_object();
    for (int c = 0; c < PT_CLASS_COUNT; c++) {
        const pt_arena_t *arena = &run->trainer.session.arena[c];
        summary_set(object, pt_memory_class_name((pt_memory_class_t)c),
                    planned ? arena->capacity : arena->peak);
    }
    return object;
}

static json_t *summary_layout_json(const run_t *run)
{
    json_t *object = json_object();
    for (int axis = 0; axis < PT_AXIS_COUNT; axis++)
        summary_set(object, pt_axis_name((pt_axis_t)axis),
                    run->trainer.session.mesh->shape.size[axis]);
    return object;
}

/* The host of each rank, in rank order. */
static json_t *summary_hosts_json(const run_t *run)
{
    json_t *list = json_array();
    for (const char *line = run->trainer.hosts; *line;) {
        const char *host = line + strcspn(line, " ") + 1,
                   *end = host + strcspn(host, "\n");
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(end - host), host);
        json_array_append_new(list, pt_json_text(name));
        line = end + 1;
    }
    return list;
}

/* null: not so. */
static json_t *summary_resumed_json(const run_t *run)
{
    return run->resumed.path[0] ? pt_json_text(run->resumed.path) : json_null();
}

static json_t *summary_initial_json(const run_t *run)
{
    char digest[17];
    if (!run->initial.path[0])
        return json_null();
    snprintf(digest, sizeof digest, "%016" PRIx64, run->initial.digest);
    return json_pack("{s:o, s:I, s:s}", "file", pt_json_text(run->initial.path), "step",
                     (json_int_t)run->initial.step, "digest", digest);
}

/* Seconds of a step, the first apart, by what they went to; empty for a single step. */
static json_t *summary_time_json(const run_t *run)
{
    report_share_t share[REPORT_SHARES];
    json_t *object = json_object();
    int64_t steps = run->trainer.step - run->first_step - 1;
    int count = steps > 0 ? report_time(run, share) : 0;
    for (int i = 0; i < count; i++)
        json_object_set_new(object, share[i].name,
                            json_real(share[i].sec / (double)steps));
    return object;
}

json_t *report_summary_json(const run_t *run, pt_status_t outcome, double tokens_per_sec)
{
    char digest[17], build[PT_CHECKPOINT_TEXT];
    const pt_trainer_t *t = &run->trainer;
    json_t *object = json_object();
    snprintf(digest, sizeof digest, "%016" PRIx64, run->digest);
    pt_train_build_text(t, build, sizeof build);
    json_object_set_new(object, "status", json_string(pt_status_name(outcome)));
    summary_set(object, "code", pt_status_exit_code(outcome));
    json_object_set_new(object, "reason", pt_stop_reason_json(run->reason));
    json_object_set_new(object, "resumed_from", summary_resumed_json(run));
    json_object_set_new(object, "init_from", summary_initial_json(run));
    summary_set(object, "step", t->step);
    summary_set(object, "steps", t->step - run->first_step);
    summary_set(object, "updates", t->t);
    json_object_set_new(object, "loss", report_number(run->loss));
    json_object_set_new(object, "validation_loss",
                        report_number(run->validation_loss[0]));
    json_object_set_new(object, "validation", report_validation(run));
    json_object_set_new(object, "digest", json_string(digest));
    summary_set(object, "parameters", pt_param_table_elements(&t->session.table));
    summary_set(object, "tokens", t->tokens);
    json_object_set_new(object, "tokens_per_s", report_number(tokens_per_sec));
    json_object_set_new(object, "mfu", report_number(report_mfu(run, tokens_per_sec)));
    json_object_set_new(object, "step_seconds", summary_time_json(run));
    json_object_set_new(object, "bytes_sent", summary_traffic_json(run));
    json_object_set_new(object, "step_bytes_sent", summary_axes_json(run->step_bytes));
    json_object_set_new(object, "planned_step_bytes_sent",
                        summary_planned_traffic_json(run));
    json_object_set_new(object, "peak_bytes", summary_memory_json(run, false));
    json_object_set_new(object, "planned_peak_bytes", summary_memory_json(run, true));
    summary_set(object, "ranks", pt_comm_size(t->session.mesh->world));
    json_object_set_new(object, "layout", summary_layout_json(run));
    json_object_set_new(object, "hosts", summary_hosts_json(run));
    json_object_set_new(object, "device", json_string(t->session.device->ops->name));
    json_object_set_new(object, "isa", json_string(t->session.device->isa));
    json_object_set_new(object, "build", pt_json_text(build));
    return object;
}

void report_plan_differences(const run_t *run)
{
    int64_t planned[PT_AXIS_WORLD + 1];
    report_axis_bytes(&run->trainer.plan.step, planned);
    for (int axis = 0; axis <= PT_AXIS_WORLD; axis++)
        if (run->trainer.step > run->first_step &&
            run->step_bytes[axis] != planned[axis])
            pt_log_root(
                PT_LOG_WARN,
                "rank 0 sent %" PRId64 " bytes a step over the %s axis, planned were "
                "%" PRId64 ": please report this",
                run->step_bytes[axis], pt_axis_name((pt_axis_t)axis), planned[axis]);
    for (int c = 0; c < PT_CLASS_COUNT; c++)
        if (run->trainer.session.arena[c].peak != run->trainer.session.arena[c].capacity)
            pt_log_root(PT_LOG_WARN,
                        "%s took %" PRId64 " bytes, planned were %" PRId64
                        ": please report this",
                        pt_memory_class_name((pt_memory_class_t)c),
                        run->trainer.session.arena[c].peak,
                        run->trainer.session.arena[c].capacity);
}
