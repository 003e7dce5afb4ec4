#include "penta/train.h"

#include <signal.h>
#include <time.h>

/* One of the few mutable globals: a signal handler can set nothing else. */
static volatile sig_atomic_t requests, first_signal;
static time_t first_time; /* set before first_signal is */

static void note(int signal_number)
{
    if (first_signal)
        return;
    first_time = time(NULL);
    first_signal = signal_number;
}

static void on_signal(int signal_number)
{
    note(signal_number);
    requests++;
}

/* Interrupts count; the others ask for the same stop however often they come. */
static void on_polite_signal(int signal_number)
{
    note(signal_number);
    if (requests == 0)
        requests = 1;
}

void pt_stop_install(void)
{
    struct sigaction polite = {.sa_handler = on_polite_signal, .sa_flags = SA_RESTART};
    struct sigaction interrupt = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&polite.sa_mask);
    sigemptyset(&interrupt.sa_mask);
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGTERM, &polite, NULL);
    sigaction(SIGUSR1, &polite, NULL);
    sigaction(SIGUSR2, &polite, NULL);
    /* Nobody reads the progress any more (penta train | head): no reason to lose the run. */
    signal(SIGPIPE, SIG_IGN);
}

void pt_stop_request(void)
{
    on_polite_signal(0);
}

int pt_stop_requested(void)
{
    return requests;
}

bool pt_stop_heard(int *signal_number, double *wall)
{
    *signal_number = first_signal;
    *wall = (double)first_time;
    return first_signal != 0;
}

void pt_stop_clear(void)
{
    requests = first_signal = 0;
}
