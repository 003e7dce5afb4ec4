/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that watches. It reads records, and calls no MPI function but MPI_Abort:
 * it must work when the others are stuck in MPI, in the file system, or stopped. */
#include "src/comm/watch.h"

#include "penta/base/alloc.h"
#include "penta/base/clock.h"
#include "penta/base/log.h"
#include "penta/base/text.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DIRECTORY_BYTES = 4096 };

/* Mutable globals: there is one thread a process. Options are under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static pthread_t thread;
static bool runs, ends, changed;
static char wanted_directory[DIRECTORY_BYTES];
static pt_watch_options_t wanted = {.directory = wanted_directory};

/* What the thread knows of a rank of its host. */
typedef struct seen {
    uint64_t looks;
    double still_sec; /* its own thread has not looked for so long */
} seen_t;

typedef struct watcher {
    watch_area_t *areas, *own;
    int count;
    pt_watch_options_t options; /* its directory is the next */
    char directory[DIRECTORY_BYTES];
    double tick_sec;
    seen_t *seen;
    watch_view_t *views;
    size_t bytes; /* of seen and views */
    uint64_t beats;
    double still_sec; /* no rank of this host has moved, by ticks of this thread: time in which the whole
                           job was suspended does not count */
    double posted_sec; /* since this host has told that it stands still; < 0: it has not */
    double answer_sec; /* since it has looked for what others tell */
    bool answered;
} watcher_t;

/* ---- what is seen ------------------------------------------------------------------------- */

static bool watch_is_frozen(const watcher_t *w, int i)
{
    double most = w->options.timeout_sec / 2 > 1 ? w->options.timeout_sec / 2 : 1;

    return w->seen[i].still_sec >= most;
}

static void watch_look_at(const watcher_t *w, int i, watch_view_t *view)
{
    bool frozen = watch_is_frozen(w, i);

    watch_look(&w->areas[i], view);
    view->still_sec = w->still_sec;
    /* In a namespace of its own a living process cannot be seen. */
    if (!frozen && (view->process == 'X' || view->process == 'Z'))
        view->process = view->thread = '?';
    view->frozen = frozen || (view->process && strchr("TtXZ", view->process));
}

/* The area with the least rank + 1 above `rank1`; -1: none. */
static int watch_area_after(const watcher_t *w, uint64_t rank1)
{
    int next = -1;

    for (int i = 0; i < w->count; i++) {
        uint64_t other = watch_get(&w->areas[i].rank1);
        if (other > rank1 && (next < 0 || other < watch_get(&w->areas[next].rank1)))
            next = i;
    }
    return next;
}

/* In the order of ranks. */
static int watch_look_at_all(const watcher_t *w)
{
    int count = 0;

    for (int i = watch_area_after(w, 0); i >= 0;
         i = watch_area_after(w, watch_get(&w->areas[i].rank1)))
        watch_look_at(w, i, &w->views[count++]);
    return count;
}

static bool watch_may_be_slow(const watch_area_t *area)
{
    watch_where_t where;

    watch_load(area->where, &where, WATCH_WHERE_WORDS);
    switch (where.phase) {
    case PT_PHASE_SETUP:
    case PT_PHASE_LOAD:
    case PT_PHASE_DATA:
    case PT_PHASE_EVALUATE:
    case PT_PHASE_SAVE:
    case PT_PHASE_FINISH: return true;
    default: return watch_get(&area->patient) != 0;
    }
}

/* How long this host may stand still. */
static double watch_allowed_sec(const watcher_t *w)
{
    for (int i = 0; i < w->count; i++)
        if (watch_get(&w->areas[i].rank1) != 0 && !watch_is_frozen(w, i) &&
            watch_may_be_slow(&w->areas[i]))
            return PT_WATCH_PATIENCE * w->options.timeout_sec;
    return w->options.timeout_sec;
}

/* The first rank of this host whose thread is at work speaks for it. */
static bool watch_is_speaker(const watcher_t *w)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < w->count; i++) {
        uint64_t rank1 = watch_get(&w->areas[i].rank1);
        if (rank1 != 0 && !watch_is_frozen(w, i) && rank1 < least)
            least = rank1;
    }
    return least == watch_get(&w->own->rank1);
}

/* ---- several hosts ------------------------------------------------------------------------ */

typedef struct council {
    watch_post_t post;
    watch_posts_t posts;
    size_t bytes;
} council_t;

static void watch_post_and_collect(void *self)
{
    council_t *council = self;

    watch_post(&council->post);
    (void)watch_collect(council->post.directory, &council->posts);
}

/* Another host stands still and wants to know whether this one does. */
static void watch_answer(void *self)
{
    council_t *council = self;

    if (watch_collect(council->post.directory, &council->posts))
        watch_post(&council->post);
}

static void watch_take_back(void *self)
{
    watch_withdraw(&((council_t *)self)->post);
}

/* Runs `work` on the posts of all hosts; false: the files do not answer. */
static bool watch_hold_council(const watcher_t *w, int count, watch_post_state_t state,
                               void (*work)(void *self), council_t **out)
{
    size_t bytes = sizeof(council_t) + (size_t)watch_world() * sizeof(watch_view_t);
    council_t *council = watch_map(bytes);

    *out = council;
    if (!council)
        return false;
    council->bytes = bytes;
    council->post = (watch_post_t){
        .directory = w->directory, .state = state, .views = w->views, .count = count};
    council->posts.views = (watch_view_t *)(council + 1);
    return watch_do_within(WATCH_FILES_SEC, work, council);
}

static void watch_wait_to_be_ended(void)
{
    const struct timespec patience = {.tv_sec = 2 * WATCH_FILES_SEC};

    (void)nanosleep(&patience, NULL);
    watch_end_run(pt_status_exit_code(PT_HANG));
}

static void watch_consult(watcher_t *w, int count, bool asked)
{
    council_t *council;
    bool late = w->posted_sec >= w->options.timeout_sec;

    if (!watch_hold_council(w, count, asked ? WATCH_ASKED : WATCH_STANDS,
                            watch_post_and_collect, &council))
        watch_conclude(&w->options, w->views, count, asked);
    w->posted_sec = w->posted_sec < 0 ? 0 : w->posted_sec + w->tick_sec;
    watch_posts_t *posts = &council->posts;
    bool ready = posts->count == watch_world() || late;
    if (ready && !posts->moving) {
        if (!watch_elect(w->directory))
            watch_wait_to_be_ended();
        if (posts->count > 0)
            watch_conclude(&w->options, posts->views, posts->count,
                           asked || posts->asked);
        watch_conclude(&w->options, w->views, count, asked);
    }
    watch_unmap(council, council->bytes);
}

/* This host moves: is it to say so? */
static void watch_attend(watcher_t *w)
{
    council_t *council;
    double every = w->options.timeout_sec / 4 < 30 ? w->options.timeout_sec / 4 : 30;
    int count;

    w->answer_sec += w->tick_sec;
    if (w->posted_sec < 0 && w->answer_sec < every)
        return;
    count = watch_look_at_all(w);
    if (w->posted_sec >= 0 &&
        watch_hold_council(w, count, WATCH_MOVING, watch_take_back, &council))
        watch_unmap(council, council->bytes);
    w->posted_sec = -1;
    w->answer_sec = 0;
    if (watch_hold_council(w, count, WATCH_MOVING, watch_answer, &council))
        watch_unmap(council, council->bytes);
}

/* ---- the thread --------------------------------------------------------------------------- */

static bool watch_is_asked(const watcher_t *w)
{
    for (int i = 0; i < w->count; i++)
        if (watch_get(&w->areas[i].differs) != 0)
            return true;
    return false;
}

static void watch_take_notice(watcher_t *w)
{
    uint64_t beats = 0;

    watch_set(&w->own->looks, watch_get(&w->own->looks) + 1);
    for (int i = 0; i < w->count; i++) {
        uint64_t looks = watch_get(&w->areas[i].looks);
        beats += watch_get(&w->areas[i].beats);
        w->seen[i].still_sec =
            looks == w->seen[i].looks ? w->seen[i].still_sec + w->tick_sec : 0;
        w->seen[i].looks = looks;
    }
    w->still_sec = beats == w->beats ? w->still_sec + w->tick_sec : 0;
    w->beats = beats;
}

static void watch_once(watcher_t *w)
{
    bool several;

    watch_take_notice(w);
    if (w->options.timeout_sec <= 0 || !watch_is_speaker(w))
        return;
    bool asked = watch_is_asked(w);
    if (!asked && w->still_sec < watch_allowed_sec(w)) {
        if (w->count < watch_world())
            watch_attend(w);
        return;
    }
    int count = watch_look_at_all(w);
    several = count < watch_world() && w->directory[0];
    if (several)
        watch_consult(w, count, asked);
    else
        watch_conclude(&w->options, w->views, count, asked);
}

static void watch_take_options(watcher_t *w)
{
    double tick = wanted.timeout_sec / 8;

    w->options = wanted;
    w->options.directory = w->directory;
    memcpy(w->directory, wanted_directory, sizeof w->directory);
    w->tick_sec = tick > 1 || tick <= 0 ? 1 : tick < 0.05 ? 0.05 : tick;
}

static void *watch_run(void *unused)
{
    static watcher_t w;

    (void)unused;
    w = (watcher_t){.posted_sec = -1};
    w.count = watch_areas(&w.areas, &w.own);
    w.bytes = (size_t)w.count * (sizeof *w.seen + sizeof *w.views);
    w.views = watch_map(w.bytes);
    if (!w.views)
        return NULL;
    w.seen = (seen_t *)(w.views + w.count);
    pthread_mutex_lock(&lock);
    while (!ends) {
        watch_take_options(&w);
        changed = false;
        struct timespec until = watch_after(w.tick_sec);
        while (!ends && !changed && pthread_cond_timedwait(&wake, &lock, &until) == 0)
            ;
        if (ends || changed)
            continue;
        pthread_mutex_unlock(&lock);
        watch_once(&w);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    watch_unmap(w.views, w.bytes);
    return NULL;
}

void pt_watch_start(const pt_watch_options_t *options)
{
    watch_area_t *areas, *own;

    if (watch_areas(&areas, &own) == 0)
        return;
    pthread_mutex_lock(&lock);
    wanted = *options;
    wanted.directory = wanted_directory;
    snprintf(wanted_directory, sizeof wanted_directory, "%s", options->directory);
    changed = runs;
    if (runs)
        pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
    if (runs || options->timeout_sec <= 0)
        return;
    watch_init_condition(&wake);
    ends = false;
    runs = watch_start_thread(&thread, watch_run, NULL);
    if (!runs)
        pt_log_root(PT_LOG_WARN,
                    "no thread can be started that watches for hangs: a run that "
                    "hangs is not ended (run.hang_timeout)");
}

bool watch_serves_run(void)
{
    return runs && wanted.tell != NULL;
}

void pt_watch_close(void)
{
    if (runs) {
        pthread_mutex_lock(&lock);
        ends = true;
        pthread_cond_signal(&wake);
        pthread_mutex_unlock(&lock);
        pthread_join(thread, NULL);
        pthread_cond_destroy(&wake);
        runs = false;
    }
    watch_forget();
}

/* ---- collectives that differ -------------------------------------------------------------- */

pt_status_t pt_watch_explain(pt_status_t status)
{
    watch_area_t *areas, *own;
    watch_verdict_t verdict;
    char text[WATCH_TEXT];
    int count = 0, areas_count;

    if (status == PT_OK || (areas_count = watch_areas(&areas, &own)) == 0)
        return status;
    size_t bytes = (size_t)areas_count * sizeof(watch_view_t);
    watch_view_t *views = watch_map(bytes);
    if (!views)
        return status;
    for (int i = 0; i < areas_count; i++)
        if (watch_get(&areas[i].rank1) != 0)
            watch_look(&areas[i], &views[count++]);
    if (watch_find_difference(views, count, &verdict)) {
        watch_describe(views, count, watch_world(), &verdict, text, sizeof text);
        pt_error_clear();
        status = PT_FAIL(PT_INTERNAL, "%s", text);
        pt_error_t error = *pt_error_last();
        error.reported = atomic_exchange(&areas[0].told, 1) != 0;
        pt_error_set(&error);
    }
    watch_unmap(views, bytes);
    return status;
}

pt_status_t pt_watch_disagree(void)
{
    const struct timespec patience = {.tv_sec = 60};

    watch_ask();
    if (runs && wanted.timeout_sec > 0)
        (void)nanosleep(&patience, NULL); /* to be ended */
    return PT_FAIL_COMMON(PT_INTERNAL, "the ranks have begun different collectives, a "
                                       "defect of the program");
}
