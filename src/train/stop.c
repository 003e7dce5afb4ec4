/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that ask a run to stop. Handlers set numbers, and before the loop they may
 * end the process. */
#include "penta/base/clock.h"
#include "penta/base/log.h"
#include "penta/base/status.h"
#include "penta/train/train.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A launcher and a terminal may both pass the same signal on: what follows at once is
 * no second one. */
enum { REPEAT_MSEC = 50, PATIENCE_SEC = 20, PATH_BYTES = 4352, WORDS_BYTES = 1 << 14 };

/* Mutable globals: a signal handler can reach nothing else. */
static volatile sig_atomic_t requests, first_signal, in_loop;
static volatile sig_atomic_t exit_code = 130;
static struct timespec first_time,
    last_time; /* set before first_signal is; of the latest */
static pt_stop_leave_fn leave;
static struct {
    volatile sig_atomic_t ready;
    char path[PATH_BYTES], temporary[PATH_BYTES], text[WORDS_BYTES];
} last_words;

static const int polite_signals[] = {SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGHUP};
enum { POLITE_SIGNALS = sizeof polite_signals / sizeof polite_signals[0] };

/* ---- in handlers: only calls that are safe there ------------------------------------------ */

static void stop_say(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written; /* nobody is left to tell */
}

static void stop_write_last_words(void)
{
    if (!last_words.ready)
        return;
    int fd = open(last_words.temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    ssize_t length = (ssize_t)strlen(last_words.text);
    bool whole = write(fd, last_words.text, (size_t)length) == length;
    close(fd);
    if (!whole || rename(last_words.temporary, last_words.path) != 0)
        (void)unlink(last_words.temporary);
}

static void stop_leave_now(void)
{
    const struct timespec pause = {.tv_nsec = 300000000};
    if (in_loop || !leave)
        return;
    /* The launcher kills all when the first one has gone: that is to be rank 0, which
     * has to speak. */
    if (pt_log_rank() != 0)
        (void)nanosleep(&pause, NULL);
    stop_say(
        "penta: asked to stop before training had begun, and now ended: by a second "
        "signal, or because 20 seconds have passed\n");
    stop_write_last_words();
    leave(exit_code);
}

static bool stop_is_repeat(const struct timespec *now)
{
    double msec = 1e3 * (double)(now->tv_sec - last_time.tv_sec) +
                  1e-6 * (double)(now->tv_nsec - last_time.tv_nsec);
    return first_signal && msec < REPEAT_MSEC;
}

/* Interrupts count; the others ask for the same stop however often they come. */
static void stop_on_signal(int number)
{
    int error = errno;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    bool again = requests > 0 && !stop_is_repeat(&now);
    last_time = now;
    if (!first_signal) {
        clock_gettime(CLOCK_REALTIME, &first_time);
        first_signal = number;
        if (!in_loop && leave)
            (void)alarm(PATIENCE_SEC);
    }
    if (requests == 0)
        requests = 1;
    else if (again && number == SIGINT && in_loop)
        requests++;
    if (again)
        stop_leave_now();
    errno = error;
}

static void stop_on_alarm(int number)
{
    (void)number;
    stop_leave_now();
}

/* ---- outside ------------------------------------------------------------------------------ */

static void stop_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    for (int i = 0; i < POLITE_SIGNALS; i++)
        sigaddset(set, polite_signals[i]);
}

void pt_stop_hold(void)
{
    sigset_t set;
    stop_signals(&set);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
}

void pt_stop_install(pt_stop_leave_fn leave_fn, bool hangup_is_ignored)
{
    struct sigaction action = {.sa_handler = stop_on_signal, .sa_flags = SA_RESTART};
    struct sigaction timer = {.sa_handler = stop_on_alarm, .sa_flags = SA_RESTART};
    sigset_t set;
    leave = leave_fn;
    stop_signals(&set);
    sigaddset(&set, SIGALRM);
    action.sa_mask = timer.sa_mask = set;
    sigaction(SIGINT, &action, NULL);
    for (int i = 0; i < POLITE_SIGNALS; i++)
        if (polite_signals[i] != SIGHUP || !hangup_is_ignored)
            sigaction(polite_signals[i], &action, NULL);
    sigaction(SIGALRM, &timer, NULL);
    /* Nobody reads the progress any more (penta train | head): no reason to lose the
     * run. */
    signal(SIGPIPE, SIG_IGN);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void pt_stop_set_exit_code(int code)
{
    exit_code = code;
}

void pt_stop_set_last_words(const char *path, const char *text)
{
    last_words.ready = 0;
    int length = snprintf(last_words.path, sizeof last_words.path, "%s", path);
    int longer = snprintf(last_words.temporary, sizeof last_words.temporary,
                          "%s.%d.%ld.tmp", path, pt_log_rank(), (long)getpid());
    int size = snprintf(last_words.text, sizeof last_words.text, "%s", text);
    last_words.ready = length > 0 && longer < PATH_BYTES && size < WORDS_BYTES;
}

void pt_stop_enter_loop(void)
{
    in_loop = 1;
    last_words.ready = 0;
    if (leave)
        (void)alarm(0);
}

int pt_stop_requested(void)
{
    return requests;
}

bool pt_stop_heard(int *signal_number, double *wall)
{
    *signal_number = first_signal;
    *wall = (double)first_time.tv_sec;
    return first_signal != 0;
}
