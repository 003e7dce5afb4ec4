/* SPDX-License-Identifier: Apache-2.0 */
/* penta status: reports status.json, the last metrics, the newest checkpoint and the
 * lock of a run directory. */
#include "penta/base/alloc.h"
#include "penta/io/checkpoint.h"
#include "penta/base/clock.h"
#include "penta/io/rundir.h"
#include "src/cmd/private.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { TAIL_BYTES = 1 << 16, STALE_SEC = 120 };

typedef struct state {
    const char *directory;
    json_t *status, *metrics; /* NULL: none */
    char lock[512];           /* "": none */
    int64_t checkpoint;       /* step of the newest; -1: none */
    double heard_sec;         /* age of status.json; -1: unknown */
    bool is_running;
    const char *word, *advice;
} state_t;

static pt_status_t status_read_tail(const char *directory, const char *name, char *text,
                                    size_t size, bool *found)
{
    char path[4352];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return pt_file_read_tail(path, text, size, found);
}

static const char *status_text_of(const state_t *state, const char *key)
{
    const char *text = json_string_value(json_object_get(state->status, key));
    return text ? text : "";
}

static int64_t status_number_of(const state_t *state, const char *key)
{
    const json_t *value = json_object_get(state->status, key);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
}

static double status_seconds_since(const char *iso)
{
    struct tm tm = {0};
    const char *end = strptime(iso, "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (!end || *end != '\0')
        return -1;
    double sec = pt_clock_wall() - (double)timegm(&tm);
    return sec > 0 ? sec : 0; /* the clock of that host may be ahead */
}

static pt_status_t status_read(state_t *state)
{
    char text[PT_STATUS_BYTES + 1];
    json_error_t error;
    bool found;
    PT_TRY(status_read_tail(state->directory, "status.json", text, sizeof text, &found));
    if (!found)
        return PT_OK;
    state->status = json_loads(text, 0, &error);
    const json_t *code = json_object_get(state->status, "code");
    PT_CHECK_COMMON(
        json_is_object(state->status) && (json_is_null(code) || json_is_integer(code)) &&
            json_is_string(json_object_get(state->status, "name")),
        PT_IO,
        "%s/status.json: not written by a run (%s): damaged, or from another program",
        state->directory, state->status ? "no code and name" : error.text);
    state->heard_sec = status_seconds_since(status_text_of(state, "time"));
    return PT_OK;
}

/* Reads the last line of a step. */
static pt_status_t status_read_metrics(state_t *state)
{
    char *text = NULL;
    bool found;
    PT_TRY(pt_alloc("metrics", TAIL_BYTES, 1, (void **)&text));
    pt_status_t status =
        status_read_tail(state->directory, "metrics.jsonl", text, TAIL_BYTES, &found);
    for (char *end = strrchr(text, '\n'); end && !state->metrics;) {
        *end = '\0';
        char *before = strrchr(text, '\n');
        json_t *line = json_loads(before ? before + 1 : text, 0, NULL);
        if (json_object_get(line, "loss"))
            state->metrics = line;
        else
            json_decref(line);
        end = before;
    }
    pt_free(text);
    return status;
}

static pt_status_t status_read_directory(state_t *state)
{
    struct stat info;
    char checkpoints[4352];
    pt_checkpoint_entry_t newest;
    bool found;
    PT_CHECK_COMMON_OS(stat(state->directory, &info) == 0, PT_CONFIG, errno, "%s: %m",
                       state->directory);
    PT_CHECK_COMMON(S_ISDIR(info.st_mode), PT_CONFIG,
                    "%s: is not a directory; penta status needs the run.dir of a run",
                    state->directory);
    PT_TRY(status_read(state));
    PT_TRY(status_read_metrics(state));
    PT_TRY(status_read_tail(state->directory, "run.lock", state->lock,
                            sizeof state->lock, &found));
    state->lock[strcspn(state->lock, "\n")] = '\0';
    (void)pt_checkpoint_directory(state->directory, checkpoints, sizeof checkpoints);
    PT_TRY(pt_checkpoint_newest(NULL, checkpoints, NULL, NULL, NULL, &newest));
    state->checkpoint = newest.path[0] ? newest.step : -1;
    PT_CHECK_COMMON(state->status || state->lock[0] || state->checkpoint >= 0, PT_CONFIG,
                    "%s: no run was started here (no status.json, run.lock or "
                    "checkpoints); name the run.dir of a run",
                    state->directory);
    return PT_OK;
}

static void status_judge(state_t *state)
{
    pt_stop_reason_t reason =
        pt_stop_reason_of(json_object_get(state->status, "reason"));
    int64_t code = status_number_of(state, "code");
    state->word = "failed";
    state->advice = "read the message, fix what it names, and start the run again";
    if (!state->status) {
        state->word = state->lock[0] ? "starting" : "unknown";
        state->advice =
            state->lock[0]
                ? "ask again later; if nothing has changed by then, the run was killed"
                : "start it: it continues from the newest checkpoint";
    } else if (code == -1 && state->heard_sec >= 0 && state->heard_sec <= STALE_SEC) {
        state->is_running = true;
        state->word = "running";
        state->advice =
            "nothing; a file named stop in the directory makes it save and stop";
    } else if (code == -1) {
        state->word = "silent";
        state->advice = "it was killed, hangs, or is in a long operation: look for its "
                        "processes (hosts.txt), and start it again once they are gone";
    } else if (code == 0) {
        state->word = "finished";
        state->advice = "nothing; raise train.steps to train further";
    } else if (code == pt_status_exit_code(PT_STOPPED)) {
        state->word = "stopped";
        state->advice =
            pt_stop_reason_is_wanted(reason)
                ? "the user stopped it; start it again to continue"
                : "submit it again: it continues from the newest checkpoint";
    }
}

/* Seconds to the end of the run at the speed of the last step; -1: unknown. */
static double status_seconds_left(const state_t *state)
{
    double step = json_number_value(json_object_get(state->metrics, "step_s"));
    int64_t done = status_number_of(state, "step"),
            steps = status_number_of(state, "steps");
    const json_t *last = json_object_get(state->metrics, "step");
    if (json_is_integer(last) && json_integer_value(last) > done)
        done = (int64_t)json_integer_value(last);
    return step > 0 && steps >= done && done >= 0 ? step * (double)(steps - done) : -1;
}

static void status_print_line(const char *name, const char *text)
{
    char plain[PT_ERROR_TEXT];
    snprintf(plain, sizeof plain, "%s", text);
    pt_text_printable(plain);
    printf("%-11s %s\n", name, plain);
}

static void status_print_state(const state_t *state)
{
    char line[512], duration[32];
    pt_text_t text = pt_text_init(line, sizeof line);
    pt_text_add(&text, "%s", state->word);
    if (state->status)
        pt_text_add(&text, ", step %" PRId64 " of %" PRId64 ", %s, %" PRId64 " ranks",
                    status_number_of(state, "step"), status_number_of(state, "steps"),
                    status_text_of(state, "phase"), status_number_of(state, "ranks"));
    if (state->heard_sec >= 0)
        pt_text_add(&text, ", written %s ago",
                    pt_text_duration(state->heard_sec, duration, sizeof duration));
    status_print_line("state", line);
}

static void status_print_metrics(const state_t *state)
{
    char line[512], duration[32];
    pt_text_t text = pt_text_init(line, sizeof line);
    double left = status_seconds_left(state);
    const char *time = json_string_value(json_object_get(state->metrics, "time"));
    pt_text_add(&text, "step %" PRId64 ", loss %.4f, %.0f tokens/s",
                (int64_t)json_integer_value(json_object_get(state->metrics, "step")),
                json_number_value(json_object_get(state->metrics, "loss")),
                json_number_value(json_object_get(state->metrics, "tokens_per_s")));
    if (time)
        pt_text_add(&text, ", at %s", time);
    if (left > 0 && state->is_running)
        pt_text_add(&text, ", ETA %s",
                    pt_text_duration(left, duration, sizeof duration));
    status_print_line("last step", line);
}

static void status_print(const state_t *state)
{
    char line[64];
    status_print_line("run", state->directory);
    status_print_state(state);
    if (status_text_of(state, "message")[0])
        status_print_line("message", status_text_of(state, "message"));
    if (state->metrics)
        status_print_metrics(state);
    snprintf(line, sizeof line, "step %" PRId64, state->checkpoint);
    status_print_line("checkpoint", state->checkpoint >= 0 ? line : "none");
    status_print_line("lock", state->lock[0] ? state->lock : "none");
    status_print_line("next", state->advice);
}

static json_t *status_or_null(json_t *value)
{
    return value ? json_incref(value) : json_null();
}

static void status_print_json(const state_t *state)
{
    double left = status_seconds_left(state);
    json_t *lock = pt_json_text(state->lock), *out = json_object();
    json_object_set_new(out, "directory", pt_json_text(state->directory));
    json_object_set_new(out, "state", json_string(state->word));
    json_object_set_new(out, "advice", json_string(state->advice));
    json_object_set_new(out, "status", status_or_null(state->status));
    json_object_set_new(out, "written_sec_ago",
                        state->heard_sec >= 0 ? json_real(state->heard_sec)
                                              : json_null());
    json_object_set_new(out, "metrics", status_or_null(state->metrics));
    json_object_set_new(out, "eta_sec", left >= 0 ? json_real(left) : json_null());
    json_object_set_new(out, "checkpoint_step",
                        state->checkpoint >= 0 ? json_integer(state->checkpoint)
                                               : json_null());
    json_object_set_new(out, "lock",
                        state->lock[0] && lock ? json_incref(lock) : json_null());
    json_decref(lock);
    json_dumpf(out, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(out);
}

static pt_status_t status_run(int argc, char **argv, pt_transport_t *transport)
{
    state_t state = {.heard_sec = -1, .checkpoint = -1};
    bool json = pt_cmd_take_flag(&argc, argv, "--json");
    (void)transport;
    PT_CHECK_COMMON(argc == 2 && argv[1][0] != '-' && argv[1][0] != '\0', PT_CONFIG,
                    "usage: penta status DIR [--json]");
    state.directory = argv[1];
    pt_status_t status = status_read_directory(&state);
    if (status == PT_OK) {
        status_judge(&state);
        if (json)
            status_print_json(&state);
        else
            status_print(&state);
    }
    json_decref(state.status);
    json_decref(state.metrics);
    return status;
}

const pt_command_t pt_command_status = {
    .name = "status",
    .arguments = "DIR [--json]",
    .summary = "Reports the progress of a run, how it ended, and what to do next",
    .details =
        "DIR is the run.dir of a run, active or not. The state is starting, "
        "running, silent (no\n"
        "sign of life for two minutes: killed, or it hangs), stopped, finished, "
        "failed or unknown.\n"
        "Exit code 0 if the state is known, 2 if there is no run, 4 if a file is "
        "damaged.",
    .sections = "",
    .parallel = false,
    .run = status_run,
};
