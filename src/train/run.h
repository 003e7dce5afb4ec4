/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of pt_train_run: the loop (run.c), when it stops (stop_policy.c) and saves
 * (save_policy.c), and what it tells people and files (report.c). */
#ifndef PENTA_TRAIN_RUN_H
#define PENTA_TRAIN_RUN_H

#include "penta/io/rundir.h"
#include "src/train/private.h"

enum { STOP_WHY = 768, SAVES_KEPT = 8 };

/* How long this rank works in the steps of a window, and how long the others. Sums over
 * its steps. */
typedef struct straggler {
    int64_t steps;
    double work_sec, others_sec, step_sec; /* others: their mean */
    double last_work_sec,
        last_step_sec; /* of the step before, which the next exchange is about */
    bool slow;         /* the others are told with the next exchange */
    double share;      /* of a step the others wait for it */
    int64_t windows;   /* in which it was slow */
} straggler_t;

typedef struct run {
    const pt_config_t *config;
    pt_trainer_t trainer;
    bool root;         /* rank 0 of the world */
    bool opened;       /* rank 0 has the run directory */
    pt_rundir_t *dir;  /* rank 0 only */
    bool terminal;     /* progress goes to a terminal */
    bool warned;       /* of a step without labels */
    bool evaluated;    /* once, as a whole */
    bool stop_warned;  /* of a directory named stop */
    double start_wall; /* seconds since 1970 */
    int64_t found_step; /* newest file when the directory was opened, by its name, -1 none */
    int64_t intact_step;         /* newest one whose metadata are intact */
    double beat_sec;             /* clock of the last heartbeat, 0 none */
    int beat_phase;              /* what it said */
    bool beat_warned;            /* of one that could not be written */
    bool wants[PT_STOP_REASONS]; /* reasons this rank knows of */
    pt_stop_reason_t reason;     /* all ranks: why the run stops, once it does */
    char why[STOP_WHY];          /* the same in words */
    pt_resumed_t resumed;
    pt_initial_t initial;
    int64_t first_step; /* done when this run began */
    int64_t saved_step; /* of the newest durable checkpoint, -1 none */
    int64_t tried_step; /* files up to it are this run's: taken, or a save was tried */
    uint64_t digest;    /* of that one */
    double start_sec;   /* clock when the run began */
    bool in_loop;       /* set-up is over */
    bool lost;          /* rank 0: another run has the directory now */
    bool in_step;
    double step_start_sec; /* clock when the step began, while in_step */
    double train_sec;      /* in steps, the first apart */
    double first_rate;     /* tokens/s of the first step, for runs of one */
    int64_t timed_tokens;
    double op_sec[PT_OP_COUNT], data_sec, comm_sec; /* of train_sec, on this rank */
    double step_sec;                                /* expected: smoothed */
    straggler_t straggler;
    double save_secs[SAVES_KEPT]; /* of the last saves, also of earlier starts, newest first; 0: none */
    int64_t metrics_failures; /* lines in a row that could not be written */
    int64_t failures;         /* saves in a row that failed */
    double save_clock;        /* when one was last tried, or the loop began */
    double loss;
    double *validation_loss; /* of the last time: data.path, then each of data.validation */
    double peak_flops;       /* of all ranks: measured matrix products */
    int64_t step_bytes[PT_AXIS_WORLD + 1]; /* this rank sent in the last step, by axis */
    pt_train_result_t *result;             /* NULL: not wanted */
} run_t;

/* Is `step` a multiple of `every`? 0: never. */
bool is_due(int64_t every, int64_t step);

/* pt_want_stop_fn of a run_t: does this rank know a reason to stop? Rank 0 judges time
 * and files for all. */
bool stop_is_wanted(void *run);
/* The ranks have agreed to stop: fills `reason` and `why` on all of them, and logs.
 * Collective. */
pt_status_t stop_explain(run_t *run);
/* Step of the newest checkpoint that a next start can take, as far as this one knows;
 * -1: none. */
int64_t run_resumable_step(const run_t *run);
/* Agreement before the loop: has a signal come? STOPPED where a checkpoint can be
 * taken, else ABORTED. Collective. */
pt_status_t stop_before_loop(run_t *run);
/* At the start: one that could not be removed would stop every start. IO. Rank 0. */
pt_status_t stop_check_trigger(run_t *run);
/* The stop file has done its work: the next start goes on. */
void stop_remove_trigger(run_t *run);

/* Has checkpoint.every_time passed since the last save? Rank 0's clock speaks for
 * all. */
bool save_is_wanted(const run_t *run);
/* The last save of this run: while it fails in a way that may pass (a full disk) it is
 * tried again, for up to five minutes and within run.time_limit, until somebody
 * signals. Collective. */
pt_status_t save_last(run_t *run);
/* After a step or an evaluation: returns `status`. A failure that all ranks share and
 * that left the state whole costs no steps: they are saved first, and no older file is
 * retired. The error record stays that of the failure; a save that fails, too, is a
 * warning. Collective where `status` is a failure. */
pt_status_t save_if_failed(run_t *run, pt_status_t status);
/* Publishes a checkpoint of the step that is done, unless that is saved. Collective. */
pt_status_t save_now(run_t *run);
/* Saves once more, as save_last does after a first failure, which is on record; what it
 * says when that is in vain is why the run ends. Collective. */
pt_status_t save_or_give_up(run_t *run);
/* Saves when checkpoint.every says so, or `wanted`. A failure that leaves the state
 * whole is a warning, but checkpoint.max_failures of them in a row end the run, once
 * trying again as for the last save was in vain. Collective. */
pt_status_t save_if_due(run_t *run, bool wanted);

/* Seconds of run.time_limit that are held back for a save: half as much again as the
 * longest of the last ones, else as a slow disk would take, but no more than a tenth of
 * the limit. */
double save_time_reserve(const run_t *run, double limit_sec);
/* Of the last saves; 0: none was measured. */
double save_time_longest(const run_t *run);
/* Rank 0: from timing.json of earlier starts, if the state is as large now. */
void save_time_load(run_t *run);
void save_time_add(run_t *run, double sec);
/* Rank, host and process of all ranks into hosts.txt. Collective. */
pt_status_t run_write_hosts(run_t *run);

/* The record of what was published, published.json of run.dir. */
const char *published_path(const run_t *run, char *buffer, size_t size);
/* At a start, rank 0: is what was published still there? Renews the record. Where the
 * newest file is gone and an older one is there, a warning. Fails: IO (none is left,
 * and the run was not told to begin again). */
pt_status_t published_check(const run_t *run);
/* Once it is known where the run begins, rank 0: one that was told to begin again has
 * published nothing. */
pt_status_t published_begin(const run_t *run);

/* The watchdog of this run: begins; learns how far the run has come; has nothing more
 * to write, as the run has said how it ended. */
pt_status_t hang_remove_old(const run_t *run); /* what an earlier run left; rank 0 */
void hang_watch(const run_t *run);
void hang_note(const run_t *run);
void hang_end(void);

/* Rank 0: writes status.json of a run at work, when it is due. Cheap otherwise. */
void run_beat(void *run);
/* What status.json says of this run. */
pt_run_status_t run_status(const run_t *run);
/* Adds to a failure on record which steps it costs; returns `status`. */
pt_status_t tell_unsaved(const run_t *run, pt_status_t status);
/* Is the directory still ours? Else `lost`, and nothing more is written. Rank 0. */
bool run_is_owner(run_t *run);

/* After a step: is this rank slow? One line when it is, the 1st, 2nd, 4th, 8th ...
 * window. */
void straggler_note(straggler_t *straggler, const pt_step_result_t *step);

void report_header(const run_t *run);
/* metrics.jsonl and, when due, a progress line. */
void report_step(run_t *run, const pt_step_result_t *step);
/* A line, and one in metrics.jsonl. */
void report_evaluation(run_t *run, bool stopped);
void report_saved(run_t *run, const char *path, double sec);
/* JSON has no NaN: null. */
json_t *report_number(double value);
/* Losses of data.validation by name. */
json_t *report_validation(const run_t *run);
/* Share of the measured matrix-product rate that model FLOPs use. */
double report_mfu(const run_t *run, double tokens_per_sec);
void report_axis_bytes(const pt_traffic_t *traffic, int64_t bytes[PT_AXIS_WORLD + 1]);
/* Where train_sec went, longest first: the ops, waiting for data and for communication,
 * and "other", what is left. Returns their number. */
typedef struct report_share {
    const char *name;
    double sec;
} report_share_t;
enum { REPORT_SHARES = PT_OP_COUNT + 3 };
int report_time(const run_t *run, report_share_t out[REPORT_SHARES]);
json_t *report_summary_json(const run_t *run, pt_status_t outcome,
                            double tokens_per_sec);
/* Warns where a step sent or a class took something else than was planned. */
void report_plan_differences(const run_t *run);
/* Stable lines at the end, and summary.json; that this cannot be written is a
 * warning. */
void report_summary(run_t *run, pt_status_t outcome);

#endif
