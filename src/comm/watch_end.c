/* SPDX-License-Identifier: Apache-2.0 */
/* How a run that hangs is ended: the report, and the end of all ranks, by force where
 * it must be. Whatever may get stuck (files, MPI) runs in a helper thread that is left
 * behind when it does. */
#include "src/comm/watch.h"

#include "penta/base/clock.h"
#include "penta/base/log.h"
#include "penta/base/text.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 512 << 10, LINE_BYTES = 512 };

/* An end that takes longer than this is made by force. */
static const double end_sec = 5;

/* ---- a helper that may get stuck ---------------------------------------------------------- */

typedef struct errand {
    pthread_mutex_t lock;
    pthread_cond_t done_now;
    void (*work)(void *self);
    void *self;
    bool done;
} errand_t;

static void *watch_run_errand(void *argument)
{
    errand_t *errand = argument;

    errand->work(errand->self);
    pthread_mutex_lock(&errand->lock);
    errand->done = true;
    pthread_cond_signal(&errand->done_now);
    pthread_mutex_unlock(&errand->lock);
    return NULL;
}

struct timespec watch_after(double sec)
{
    double until = pt_clock_sec() + sec;

    return (struct timespec){.tv_sec = (time_t)until,
                             .tv_nsec = (long)((until - (double)(time_t)until) * 1e9)};
}

void watch_init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Signals are for the thread that works. */
bool watch_start_thread(pthread_t *out, void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int error = pthread_create(out, &attributes, run, argument);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

/* Did it end within the time? Else it is left behind, with its errand: the process is
 * going to end. */
bool watch_do_within(double sec, void (*work)(void *self), void *self)
{
    errand_t *errand = watch_map(sizeof *errand);
    struct timespec until = watch_after(sec);
    pthread_t helper;

    if (!errand)
        return false;
    pthread_mutex_init(&errand->lock, NULL);
    watch_init_condition(&errand->done_now);
    errand->work = work;
    errand->self = self;
    if (!watch_start_thread(&helper, watch_run_errand, errand))
        return false;
    pthread_mutex_lock(&errand->lock);
    while (!errand->done &&
           pthread_cond_timedwait(&errand->done_now, &errand->lock, &until) == 0)
        ;
    bool done = errand->done;
    pthread_mutex_unlock(&errand->lock);
    if (!done)
        return false;
    pthread_join(helper, NULL);
    pthread_cond_destroy(&errand->done_now);
    pthread_mutex_destroy(&errand->lock);
    watch_unmap(errand, sizeof *errand);
    return true;
}

/* ---- the end ------------------------------------------------------------------------------ */

static void watch_abort_all(void *self)
{
    watch_abort(*(int *)self);
}

/* A launcher may not kill what is stopped. */
static void watch_kill_host(void)
{
    watch_area_t *areas, *own;
    int count = watch_areas(&areas, &own);
    char process, task;

    for (int i = 0; i < count; i++) {
        int pid = (int)watch_get(&areas[i].pid);
        if (&areas[i] != own && pid > 0 &&
            watch_process(pid, &process, &task) == watch_get(&areas[i].start_ticks))
            (void)kill(pid, SIGKILL);
    }
}

void watch_end_run(int exit_code)
{
    (void)watch_do_within(end_sec, watch_abort_all, &exit_code);
    watch_kill_host();
    pt_transport_leave(NULL, exit_code);
}

typedef struct telling {
    pt_watch_report_t report;
    const pt_watch_options_t *options;
} telling_t;

typedef struct naming {
    const pt_watch_options_t *options;
    int rank;
    char host[WATCH_HOST];
} naming_t;

static void watch_name_host(void *self)
{
    naming_t *naming = self;

    naming->options->find_host(naming->options->self, naming->rank, naming->host,
                               sizeof naming->host);
}

static void watch_tell(void *self)
{
    const telling_t *telling = self;

    telling->options->tell(telling->options->self, &telling->report);
}

static const char *watch_table(const watch_view_t *views, int count)
{
    size_t size = (size_t)count * LINE_BYTES + 1;
    char *table = watch_map(size), line[LINE_BYTES];
    pt_text_t text = pt_text_init(table, size);

    for (int i = 0; table && i < count; i++)
        pt_text_add(&text, "%s\n", watch_line(&views[i], line, sizeof line));
    return table ? table : "";
}

void watch_conclude(const pt_watch_options_t *options, const watch_view_t *views,
                    int count, bool asked)
{
    char text[WATCH_TEXT];
    watch_verdict_t verdict = {.b = -1};
    telling_t telling = {.options = options};
    naming_t naming = {.options = options};

    (void)watch_judge(views, count, &verdict);
    verdict.asked = asked;
    if (verdict.finding == WATCH_ABSENT && options->find_host) {
        naming.rank = verdict.missing;
        if (watch_do_within(WATCH_FILES_SEC, watch_name_host, &naming))
            memcpy(verdict.host, naming.host, sizeof verdict.host);
    }
    watch_describe(views, count, watch_world(), &verdict, text, sizeof text);
    pt_status_t status = watch_status(&verdict);
    const watch_view_t *view = &views[verdict.a];
    telling.report = (pt_watch_report_t){.status = status,
                                         .text = text,
                                         .table = watch_table(views, count),
                                         .rank = view->rank,
                                         .host = view->host,
                                         .where = watch_place(&view->where)};
    pt_log_at(PT_LOG_ERROR, telling.report.where.step, "%s", text);
    if (options->tell)
        (void)watch_do_within(WATCH_FILES_SEC, watch_tell, &telling);
    watch_end_run(pt_status_exit_code(status));
}
